//! One worker: a session, its requests, and the room its transactions work in.
//!
//! Invariant: between two transactions nothing is allocated; the lists here grow to what the largest transaction
//! needs and stay.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::new_order::NewOrderAnswer;
use super::request::{Kind, Request, Requests};
use super::schema::{OrderLine, StockKey};
use super::tables::Tables;
use super::{Access, Shared, Tpcc, TpccError, Updates};
use crate::store::{Counts, Failure, Session, Store};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it was.
    pub kind: Kind,
    /// Whether it committed; otherwise its own code rolled it back, as one New-Order in a hundred does.
    pub committed: bool,
}

/// What a worker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that committed, by kind, in the order of [`Kind::ALL`].
    pub committed: [u64; 5],
    /// Transactions that their own code rolled back.
    pub rolled_back: u64,
    /// Orders delivered.
    pub delivered: u64,
    /// Districts that a Delivery skipped, for want of an open order.
    pub skipped: u64,
}

/// Runs the requests of one home warehouse's terminals, one after another.
pub struct Worker<S: Store> {
    tables: Tables<S>,
    shared: Arc<Shared>,
    session: S::Session,
    updates: Updates,
    access: Access,
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
}

impl<S: Store> Worker<S> {
    pub(super) fn new(
        tpcc: &Tpcc<S>,
        terminal: u16,
        w_id: u16,
        session: S::Session,
        requests: Requests,
    ) -> Self {
        Worker {
            tables: tpcc.tables.clone(),
            shared: Arc::clone(&tpcc.shared),
            session,
            updates: tpcc.options.updates,
            access: tpcc.options.access,
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
        }
    }

    /// What it has counted.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What its session has counted.
    pub fn counts(&self) -> Counts {
        self.session.counts()
    }

    /// The session, for who measures it.
    pub fn session(&self) -> &S::Session {
        &self.session
    }

    /// Runs the next request until it commits or rolls itself back.
    pub fn run_next(&mut self) -> Result<Ended, TpccError> {
        let Some(request) = self.requests.cycled(self.at) else {
            return Err(TpccError::transaction("running", "there are no requests"));
        };
        self.at += 1;
        let kind = request.kind();
        let (tables, session, w_id) = (&self.tables, &mut self.session, self.w_id);
        // Answers go through black_box: a terminal would be shown them, so they may not be optimized away.
        let outcome = match request {
            Request::NewOrder(order) => {
                let lines = self.requests.lines(order);
                let run = tables.run_new_order(session, self.access, w_id, order, lines, &mut self.answer);
                black_box(&self.answer);
                run.map(|()| self.answer.duplicate)
            }
            Request::Payment(payment) => {
                let history = (self.terminal, self.history_next);
                self.history_next = self.history_next.wrapping_add(1);
                let found = &mut self.found;
                let run = tables.run_payment(session, self.updates, w_id, history, payment, found);
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
                let run = tables.run_delivery(session, self.access, w_id, *carrier_id, *date_ms);
                run.map(|answer| {
                    self.tally.skipped += u64::from(answer.skipped);
                    self.tally.delivered += answer.delivered.len() as u64 - u64::from(answer.skipped);
                    false
                })
            }
            Request::StockLevel { d_id, threshold } => {
                let items = &mut self.items;
                let run = tables.run_stock_level(session, self.access, (w_id, *d_id), *threshold, items);
                run.map(|short| {
                    black_box(short);
                    false
                })
            }
        };
        match outcome {
            Ok(duplicate) => {
                if duplicate {
                    // Relaxed: a count, read after the workers have been joined.
                    self.shared.duplicates.fetch_add(1, Ordering::Relaxed);
                }
                self.tally.committed[kind as usize] += 1;
                Ok(Ended { kind, committed: true })
            }
            Err(Failure::Rollback) => {
                self.tally.rolled_back += 1;
                Ok(Ended { kind, committed: false })
            }
            Err(Failure::Abort(abort)) => Err(TpccError::transaction("running", abort)),
        }
    }
}
