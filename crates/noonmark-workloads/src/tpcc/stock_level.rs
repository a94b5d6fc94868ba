//! Stock-Level [TPC-C 2.8]: how many items of a district's last twenty orders are short in stock. Read-only,
//! and serializable here, though the standard would put up with less [TPC-C 2.8.2.3].
//!
//! The lines come from one range; an item that is in several lines counts once [TPC-C 2.8.2.2]: which have been
//! met is kept as a bit each.

use std::ops::ControlFlow;

use super::Access;
use super::schema::*;
use super::tables::Tables;
use crate::store::{Rows, Scan, Session, Store, TxnResult};

/// How many orders back are looked at [TPC-C 2.8.2.2].
const ORDERS_BACK: u32 = 20;

/// Items that have been met, a bit each.
#[derive(Debug, Default)]
pub struct Met(Vec<u64>);

impl Met {
    /// Notes an item; whether it had not been met before.
    #[inline]
    fn is_new(&mut self, i_id: u32) -> bool {
        let (word, bit) = (i_id as usize / 64, 1 << (i_id % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    #[inline]
    fn forget(&mut self, i_id: u32) {
        self.0[i_id as usize / 64] &= !(1 << (i_id % 64));
    }
}

impl<S: Store> Tables<S> {
    /// Runs Stock-Level; answers how many items are below the threshold. `items` and `met` are room to work
    /// in; `met` is clear.
    #[inline(never)]
    pub fn run_stock_level(
        &self,
        session: &mut S::Session,
        access: Access,
        (w_id, d_id): DistrictKey,
        threshold: i32,
        items: &mut Vec<StockKey>,
        met: &mut Met,
    ) -> TxnResult<S, u32> {
        session.run(&self.scopes.stock_level, |tx| {
            items.clear();
            let next_o_id = self.district_orders.need(tx, &(w_id, d_id))?.next_o_id;
            let first = next_o_id.saturating_sub(ORDERS_BACK);
            let bounds = (w_id, d_id, first, 0)..(w_id, d_id, next_o_id, 0);
            let read = self.order_line.range(tx, bounds, Scan::ALL, |_, line| {
                if met.is_new(line.i_id) {
                    items.push((w_id, line.i_id));
                }
                ControlFlow::Continue(())
            });
            items.iter().for_each(|&(_, i_id)| met.forget(i_id));
            read?;
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
