//! Order-Status [TPC-C 2.6]: a customer's last order and its lines. Read-only.
//!
//! The last order is the first entry, downwards, of the orders by customer.

use std::ops::ControlFlow;

use super::request::Who;
use super::schema::*;
use super::tables::Tables;
use crate::store::{Index, Rows, Scan, Session, Store, TxnResult};

/// What the terminal shows of a customer's last order.
#[derive(Clone, Debug)]
pub struct OrderStatusAnswer {
    /// `C_ID`.
    pub c_id: u32,
    /// Who it is.
    pub customer: CustomerInfo,
    /// `C_BALANCE`.
    pub balance_cents: i64,
    /// The last order and its number, if there is one.
    pub order: Option<(u32, Order)>,
}

impl<S: Store> Tables<S> {
    /// Runs Order-Status at home in `w_id`. The order's lines go to `lines`; `found` is room to work in.
    #[inline(never)]
    pub fn run_order_status(
        &self,
        session: &mut S::Session,
        (w_id, d_id): DistrictKey,
        who: Who,
        lines: &mut Vec<OrderLine>,
        found: &mut Vec<u32>,
    ) -> TxnResult<S, OrderStatusAnswer> {
        session.run(&self.scopes.order_status, |tx| {
            lines.clear();
            let c_id = match who {
                Who::Number(c_id) => c_id,
                Who::LastName(last) => self.customer_named(tx, (w_id, d_id), last, found)?,
            };
            let customer = self.customer_info.need(tx, &(w_id, d_id, c_id))?;
            let balance_cents = self.customer_account.need(tx, &(w_id, d_id, c_id))?.balance_cents;
            let mut newest = None;
            let bounds = (w_id, d_id, c_id, 0)..=(w_id, d_id, c_id, u32::MAX);
            self.order_by_customer.range(tx, bounds, Scan::last(1), |_, (_, _, o_id)| {
                newest = Some(o_id);
                ControlFlow::Break(())
            })?;
            let Some(o_id) = newest else {
                return Ok(OrderStatusAnswer { c_id, customer, balance_cents, order: None });
            };
            let order = self.order.need(tx, &(w_id, d_id, o_id))?;
            let bounds = (w_id, d_id, o_id, 0)..=(w_id, d_id, o_id, u8::MAX);
            self.order_line.range(tx, bounds, Scan::ALL, |_, line| {
                lines.push(line);
                ControlFlow::Continue(())
            })?;
            Ok(OrderStatusAnswer { c_id, customer, balance_cents, order: Some((o_id, order)) })
        })
    }
}
