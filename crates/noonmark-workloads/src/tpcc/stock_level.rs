//! Stock-Level [TPC-C 2.8]: how many items of a district's last twenty orders are short in stock. Read-only,
//! and serializable here, though the standard would put up with less [TPC-C 2.8.2.3].
//!
//! The lines come from one range; an item that is in several lines counts once [TPC-C 2.8.2.2].

use std::ops::ControlFlow;

use super::Access;
use super::schema::*;
use super::tables::Tables;
use crate::store::{Rows, Scan, Session, Store, TxnResult};

/// How many orders back are looked at [TPC-C 2.8.2.2].
const ORDERS_BACK: u32 = 20;

impl<S: Store> Tables<S> {
    /// Runs Stock-Level; answers how many items are below the threshold. `items` is room to work in.
    #[inline(never)]
    pub fn run_stock_level(
        &self,
        session: &mut S::Session,
        access: Access,
        (w_id, d_id): DistrictKey,
        threshold: i32,
        items: &mut Vec<StockKey>,
    ) -> TxnResult<S, u32> {
        session.run(&self.scopes.stock_level, |tx| {
            items.clear();
            let next_o_id = self.district_orders.need(tx, &(w_id, d_id))?.next_o_id;
            let first = next_o_id.saturating_sub(ORDERS_BACK);
            let bounds = (w_id, d_id, first, 0)..(w_id, d_id, next_o_id, 0);
            self.order_line.range(tx, bounds, Scan::ALL, |_, line| {
                items.push((w_id, line.i_id));
                ControlFlow::Continue(())
            })?;
            items.sort_unstable();
            items.dedup();
            let mut short = 0;
            match access {
                Access::OneByOne => {
                    for key in items.iter() {
                        let level = self.stock_level.need(tx, key)?;
                        short += u32::from(level.quantity < threshold);
                    }
                }
                Access::MultiGet => self.stock_level.get_many(tx, items, |_, level| {
                    short += u32::from(level.is_some_and(|level| level.quantity < threshold));
                })?,
            }
            Ok(short)
        })
    }
}
