//! One worker: its requests, and the room its transactions work in.
//!
//! Invariant: between two transactions nothing is allocated; the lists here grow to what the largest transaction
//! needs and stay.

use std::hint::black_box;

use super::Options;
use super::new_order::NewOrderAnswer;
use super::request::{Request, Requests};
use super::schema::{OrderLine, StockKey};
use super::stock_level::Met;
use super::tables::Tables;
use crate::store::{Failure, Store, TxnResult};

/// What a worker has counted since it was made, warming up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that committed, by kind, in the order of [`Kind::ALL`](super::request::Kind::ALL).
    pub committed: [u64; 5],
    /// Transactions that their own code rolled back.
    pub rolled_back: u64,
    /// Orders delivered.
    pub delivered: u64,
    /// Districts that a Delivery skipped, for want of an open order.
    pub skipped: u64,
    /// Committed transactions that found a row where they inserted one, which no consistent database has.
    pub duplicates: u64,
}

impl Tally {
    /// Both together.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            committed: std::array::from_fn(|kind| self.committed[kind] + other.committed[kind]),
            rolled_back: self.rolled_back + other.rolled_back,
            delivered: self.delivered + other.delivered,
            skipped: self.skipped + other.skipped,
            duplicates: self.duplicates + other.duplicates,
        }
    }
}

/// One of a worker's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(usize);

/// Runs the requests of one home warehouse's terminals, one after another.
#[derive(Debug)]
pub struct Worker {
    w_id: u16,
    /// The first part of its history keys, its own.
    terminal: u16,
    /// The second part of its next history key. Invariant: raised once a Payment, so that keys do not repeat.
    history_next: u32,
    requests: Requests,
    at: usize,
    tally: Tally,
    answer: NewOrderAnswer,
    found: Vec<u32>,
    lines: Vec<OrderLine>,
    items: Vec<StockKey>,
    met: Met,
}

impl Worker {
    pub(super) fn new(terminal: u16, w_id: u16, requests: Requests) -> Self {
        Worker {
            w_id,
            terminal,
            history_next: 0,
            requests,
            at: 0,
            tally: Tally::default(),
            answer: NewOrderAnswer::default(),
            found: Vec::new(),
            lines: Vec::new(),
            items: Vec::new(),
            met: Met::default(),
        }
    }

    /// The warehouse that it is at home in.
    pub fn home(&self) -> u16 {
        self.w_id
    }

    /// What it has counted.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The next of its requests.
    pub fn next_request(&mut self) -> RequestId {
        let request = RequestId(self.at);
        self.at = if self.at + 1 == self.requests.len() { 0 } else { self.at + 1 };
        request
    }

    /// Runs a request until it commits or rolls itself back.
    pub(super) fn run<S: Store>(
        &mut self,
        request: RequestId,
        tables: &Tables<S>,
        options: &Options,
        session: &mut S::Session,
    ) -> TxnResult<S, ()> {
        let Some(request) = self.requests.get(request.0) else { return Err(Failure::Rollback) };
        let w_id = self.w_id;
        // Answers go through black_box: a terminal would be shown them, so they may not be optimized away.
        let outcome = match request {
            Request::NewOrder(order) => {
                let lines = self.requests.lines(order);
                let run = tables.run_new_order(session, options.access, w_id, order, lines, &mut self.answer);
                black_box(&self.answer);
                run.map(|()| self.answer.duplicate)
            }
            Request::Payment(payment) => {
                let history = (self.terminal, self.history_next);
                self.history_next = self.history_next.wrapping_add(1);
                let found = &mut self.found;
                let run = tables.run_payment(session, options, w_id, history, payment, found);
                run.map(|answer| black_box(answer).duplicate)
            }
            Request::OrderStatus { d_id, who } => {
                let (lines, found) = (&mut self.lines, &mut self.found);
                let run = tables.run_order_status(session, (w_id, *d_id), *who, lines, found);
                black_box(&self.lines);
                run.map(|answer| {
                    black_box(answer);
                    false
                })
            }
            Request::Delivery { carrier_id, date_ms } => {
                let run = tables.run_delivery(session, options.access, w_id, *carrier_id, *date_ms);
                run.map(|answer| {
                    self.tally.skipped += u64::from(answer.skipped);
                    self.tally.delivered += answer.delivered.len() as u64 - u64::from(answer.skipped);
                    false
                })
            }
            Request::StockLevel { d_id, threshold } => {
                let (items, met) = (&mut self.items, &mut self.met);
                let run =
                    tables.run_stock_level(session, options.access, (w_id, *d_id), *threshold, items, met);
                run.map(|short| {
                    black_box(short);
                    false
                })
            }
        };
        match outcome {
            Ok(duplicate) => {
                self.tally.duplicates += u64::from(duplicate);
                self.tally.committed[request.kind() as usize] += 1;
                Ok(())
            }
            Err(failure) => {
                self.tally.rolled_back += u64::from(matches!(failure, Failure::Rollback));
                Err(failure)
            }
        }
    }
}
