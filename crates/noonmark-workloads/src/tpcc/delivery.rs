//! Delivery [TPC-C 2.7]: the oldest new order of each of the ten districts is delivered.
//!
//! All ten in one transaction, which the standard allows [TPC-C 2.7.2]; run at once instead of queued, so what
//! it says is counted here and not written to a file. A district without open orders is skipped and counted
//! [TPC-C 2.7.4.2].

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
            for d_id in district_ids() {
                let mut oldest = None;
                let bounds = (w_id, d_id, 0)..=(w_id, d_id, u32::MAX);
                self.new_order.range(tx, bounds, Scan::first(1), |(_, _, o_id), _| {
                    oldest = Some(o_id);
                    ControlFlow::Break(())
                })?;
                let Some(o_id) = oldest else {
                    answer.skipped += 1;
                    continue;
                };
                answer.delivered[usize::from(d_id - 1)] = o_id;
                let key = (w_id, d_id, o_id);
                self.new_order.delete(tx, &key)?;
                let OrderEntry { c_id, ol_cnt, .. } = self.order_entry.need(tx, &key)?;
                self.order_carrier.write(tx, &key, OrderCarrier { carrier_id })?;
                let sum_cents = self.deliver_lines(tx, access, key, ol_cnt, date_ms)?;
                self.customer_account.update(tx, &(w_id, d_id, c_id), |account| {
                    account.balance_cents += sum_cents;
                    account.delivery_cnt += 1;
                })?;
            }
            Ok(answer)
        })
    }

    /// Dates the lines of an order; answers the sum of their amounts.
    fn deliver_lines(
        &self,
        tx: &mut S::Txn<'_>,
        access: Access,
        (w_id, d_id, o_id): OrderKey,
        ol_cnt: u8,
        date_ms: i64,
    ) -> TxnResult<S, i64> {
        let mut sum_cents = 0;
        let mut deliver = |line: &mut OrderLine| {
            line.delivery_ms = date_ms;
            sum_cents += line.amount_cents;
        };
        match access {
            Access::OneByOne => {
                for number in 1..=ol_cnt {
                    self.order_line.update(tx, &(w_id, d_id, o_id, number), &mut deliver)?;
                }
            }
            Access::MultiGet => {
                let keys: [OrderLineKey; LINES_MAX] =
                    std::array::from_fn(|at| (w_id, d_id, o_id, at as u8 + 1));
                let keys = &keys[..usize::from(ol_cnt).min(LINES_MAX)];
                self.order_line.update_many(tx, keys, |_, line| deliver(line))?;
            }
        }
        Ok(sum_cents)
    }
}
