//! Delivery [TPC-C 2.7]: the oldest new order of each of the ten districts is delivered.
//!
//! All ten in one transaction, which the standard allows [TPC-C 2.7.2]; run at once instead of queued, so what
//! it says is counted here and not written to a file. A district without open orders is skipped and counted
//! [TPC-C 2.7.4.2]. The ten orders' rows of each table may be reached together ([`Access::MultiGet`]).

use std::ops::ControlFlow;

use super::Access;
use super::population::district_ids;
use super::schema::*;
use super::tables::Tables;
use crate::store::{Rows, Scan, Session, Store, Table, TxnResult};

/// What came of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// The order that was delivered in each district, 0 for none.
    pub delivered: [u32; DISTRICTS as usize],
    /// Districts that had no open order.
    pub skipped: u32,
}

impl<S: Store> Tables<S> {
    /// Runs Delivery for the warehouse `w_id`.
    #[inline(never)]
    pub fn run_delivery(
        &self,
        session: &mut S::Session,
        access: Access,
        w_id: u16,
        carrier_id: u8,
        date_ms: i64,
    ) -> TxnResult<S, DeliveryAnswer> {
        session.run(&self.scopes.delivery, |tx| {
            let mut answer = DeliveryAnswer::default();
            match access {
                Access::OneByOne => {
                    for d_id in district_ids() {
                        let Some(key) = self.take_oldest(tx, (w_id, d_id))? else { continue };
                        answer.delivered[usize::from(d_id - 1)] = key.2;
                        self.deliver(tx, key, carrier_id, date_ms)?;
                    }
                }
                Access::MultiGet => {
                    let mut orders = [(0, 0, 0); DISTRICTS as usize];
                    let mut count = 0;
                    for d_id in district_ids() {
                        let Some(key) = self.take_oldest(tx, (w_id, d_id))? else { continue };
                        answer.delivered[usize::from(d_id - 1)] = key.2;
                        orders[count] = key;
                        count += 1;
                    }
                    self.deliver_together(tx, &orders[..count], carrier_id, date_ms)?;
                }
            }
            answer.skipped = answer.delivered.iter().filter(|&&o_id| o_id == 0).count() as u32;
            Ok(answer)
        })
    }

    /// Takes the oldest order of a district out of NEW-ORDER, if there is one.
    fn take_oldest(&self, tx: &mut S::Txn<'_>, (w_id, d_id): DistrictKey) -> TxnResult<S, Option<OrderKey>> {
        let mut oldest = None;
        let bounds = (w_id, d_id, 0)..=(w_id, d_id, u32::MAX);
        self.new_order.range(tx, bounds, Scan::first(1), |key, _| {
            oldest = Some(key);
            ControlFlow::Break(())
        })?;
        if let Some(key) = oldest {
            self.new_order.delete(tx, &key)?;
        }
        Ok(oldest)
    }

    /// Delivers an order: gives it its carrier, dates its lines, and has its customer pay.
    fn deliver(
        &self,
        tx: &mut S::Txn<'_>,
        key @ (w_id, d_id, o_id): OrderKey,
        carrier_id: u8,
        date_ms: i64,
    ) -> TxnResult<S, ()> {
        let OrderEntry { c_id, ol_cnt, .. } = self.order_entry.need(tx, &key)?;
        self.order_carrier.write(tx, &key, OrderCarrier { carrier_id })?;
        let mut sum_cents = 0;
        for number in 1..=ol_cnt {
            self.order_line.update(tx, &(w_id, d_id, o_id, number), |line| {
                line.delivery_ms = Narrow::new(date_ms);
                sum_cents += line.amount_cents.get();
            })?;
        }
        self.customer_account.update(tx, &(w_id, d_id, c_id), |account| account.delivered(sum_cents))?;
        Ok(())
    }

    /// Delivers orders, one of a district at most, the rows of one table of them all together.
    fn deliver_together(
        &self,
        tx: &mut S::Txn<'_>,
        orders: &[OrderKey],
        carrier_id: u8,
        date_ms: i64,
    ) -> TxnResult<S, ()> {
        const ORDERS_MAX: usize = DISTRICTS as usize;
        let mut entries = [(0, 0); ORDERS_MAX];
        let mut missing = None;
        self.order_entry.get_many(tx, orders, |at, entry| match entry {
            Some(OrderEntry { c_id, ol_cnt, .. }) => entries[at] = (c_id, ol_cnt),
            None => missing = Some(at),
        })?;
        if let Some(at) = missing {
            // Says what is missing.
            self.order_entry.need(tx, &orders[at])?;
        }
        self.order_carrier.update_many(tx, orders, |_, carrier| carrier.carrier_id = carrier_id)?;

        let mut lines = [(0, 0, 0, 0); ORDERS_MAX * LINES_MAX];
        // The place in `orders` of the order that each line is of.
        let mut order_of = [0; ORDERS_MAX * LINES_MAX];
        let mut customers = [(0, 0, 0); ORDERS_MAX];
        let mut count = 0;
        for (at, (&(w_id, d_id, o_id), (c_id, ol_cnt))) in orders.iter().zip(entries).enumerate() {
            customers[at] = (w_id, d_id, c_id);
            for number in 1..=ol_cnt.min(LINES_MAX as u8) {
                lines[count] = (w_id, d_id, o_id, number);
                order_of[count] = at;
                count += 1;
            }
        }
        let mut sums_cents = [0; ORDERS_MAX];
        self.order_line.update_many(tx, &lines[..count], |at, line| {
            line.delivery_ms = Narrow::new(date_ms);
            sums_cents[order_of[at]] += line.amount_cents.get();
        })?;
        self.customer_account.update_many(tx, &customers[..orders.len()], |at, account| {
            account.delivered(sums_cents[at]);
        })?;
        Ok(())
    }
}

impl CustomerAccount {
    /// An order has been delivered, for which this is owed.
    #[inline]
    fn delivered(&mut self, sum_cents: i64) {
        self.balance_cents += sum_cents;
        self.delivery_cnt += 1;
    }
}
