//! New-Order [TPC-C 2.4]: enters an order of 5 to 15 lines and takes what it needs from stock.
//!
//! One in a hundred names an item that does not exist, and is rolled back by its own code after the work for
//! the other lines has been done [TPC-C 2.4.1.4]. The rows that are known together (items, stocks) may be
//! reached together ([`Access::MultiGet`]); an order may name one item twice, and then takes from its stock
//! twice.
//!
//! What it reads and changes, by group: WAREHOUSE info (read), DISTRICT orders (read and raised; only read where the order's
//! number is drawn from a sequence), CUSTOMER info
//! (read), STOCK level (changed) and info (read), ITEM (read); ORDER, NEW-ORDER and ORDER-LINE get rows.

use super::Access;
use super::request::{Line, NewOrderRequest};
use super::schema::*;
use super::tables::Tables;
use crate::store::{Failure, Rows, Session, Store, Table, TxnResult};

/// What the terminal shows of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineAnswer {
    /// `I_NAME`.
    pub name: [u8; 24],
    /// `I_PRICE`.
    pub price_cents: u32,
    /// `OL_AMOUNT`.
    pub amount_cents: i64,
    /// `S_QUANTITY`, after the line has been taken from it.
    pub stock: i32,
    /// Whether both the item and its stock say `ORIGINAL`: the standard's brand `B`, otherwise `G`.
    pub branded: bool,
}

/// What the terminal shows of an order.
#[derive(Clone, Debug, Default)]
pub struct NewOrderAnswer {
    /// `O_ID`.
    pub o_id: u32,
    /// `W_TAX`.
    pub w_tax_e4: u32,
    /// `D_TAX`.
    pub d_tax_e4: u32,
    /// `C_DISCOUNT`.
    pub discount_e4: u32,
    /// `C_LAST`.
    pub last: [u8; 16],
    /// `C_CREDIT`.
    pub credit: [u8; 2],
    /// The total, discount and taxes included.
    pub total_cents: i64,
    /// The lines; those beyond the order's are left over from earlier ones.
    pub lines: [LineAnswer; LINES_MAX],
    /// A row to be inserted was there already, which cannot be in a consistent database.
    pub duplicate: bool,
    /// What is to go into `OL_DIST_INFO`, between reading the stocks and inserting the lines.
    dist_info: [[u8; 24]; LINES_MAX],
    /// Which items and which stocks say `ORIGINAL`, until both are known.
    item_is_original: [bool; LINES_MAX],
    stock_is_original: [bool; LINES_MAX],
}

impl<S: Store> Tables<S> {
    /// Runs New-Order at home in `w_id`. On `Err(Rollback)` nothing of it remains.
    #[inline(never)]
    pub fn run_new_order(
        &self,
        session: &mut S::Session,
        access: Access,
        w_id: u16,
        order: &NewOrderRequest,
        lines: &[Line],
        answer: &mut NewOrderAnswer,
    ) -> TxnResult<S, ()> {
        let d_id = order.d_id;
        let drawn = self.order_numbers(w_id, d_id).map(|sequence| session.draw(sequence) as u32);
        session.run(&self.scopes.new_order, |tx| {
            answer.duplicate = false;
            answer.w_tax_e4 = self.warehouse_info.need(tx, &w_id)?.tax_e4;
            match drawn {
                Some(o_id) => {
                    answer.d_tax_e4 = self.district_orders.need(tx, &(w_id, d_id))?.tax_e4;
                    answer.o_id = o_id;
                }
                None => self.district_orders.update(tx, &(w_id, d_id), |district| {
                    answer.d_tax_e4 = district.tax_e4;
                    answer.o_id = district.next_o_id;
                    district.next_o_id += 1;
                })?,
            }
            let customer = self.customer_info.need(tx, &(w_id, d_id, order.c_id))?;
            answer.discount_e4 = customer.discount_e4;
            answer.last = customer.last;
            answer.credit = customer.credit;

            let key = (w_id, d_id, answer.o_id);
            let entry = OrderEntry {
                c_id: order.c_id,
                entry_ms: order.entry_ms,
                ol_cnt: lines.len() as u8,
                all_local: order.all_local,
            };
            let row = (entry, OrderCarrier { carrier_id: 0 });
            let fresh = self.order.insert(tx, &key, row)?;
            answer.duplicate |= !(fresh & self.new_order.insert(tx, &key, NewOrder { open: 1 })?);

            match access {
                Access::OneByOne => self.take_one_by_one(tx, w_id, d_id, lines, answer)?,
                Access::MultiGet => self.take_together(tx, w_id, d_id, lines, answer)?,
            }

            let mut sum_cents = 0;
            for (at, line) in lines.iter().enumerate() {
                answer.lines[at].branded = answer.item_is_original[at] && answer.stock_is_original[at];
                let amount_cents = answer.lines[at].amount_cents;
                sum_cents += amount_cents;
                let row = OrderLine {
                    i_id: line.i_id,
                    supply_w_id: line.supply_w_id,
                    delivery_ms: Narrow::default(),
                    quantity: line.quantity,
                    amount_cents: Narrow::new(amount_cents),
                    dist_info: answer.dist_info[at],
                };
                let fresh = self.order_line.insert(tx, &(w_id, d_id, answer.o_id, at as u8 + 1), row)?;
                answer.duplicate |= !fresh;
            }
            answer.total_cents = total(sum_cents, answer);
            Ok(())
        })
    }

    fn take_one_by_one(
        &self,
        tx: &mut S::Txn<'_>,
        w_id: u16,
        d_id: u8,
        lines: &[Line],
        answer: &mut NewOrderAnswer,
    ) -> TxnResult<S, ()> {
        for (at, line) in lines.iter().enumerate() {
            let Some(item) = self.item.get(tx, &line.i_id)? else { return Err(Failure::Rollback) };
            let key = (line.supply_w_id, line.i_id);
            self.stock.update(tx, &key, |(level, info)| {
                answer.lines[at].stock = take(level, line, w_id);
                answer.stock_found(at, d_id, info);
            })?;
            // Only now, so that the stock is asked for while the item is still on its way from memory.
            answer.item_found(at, line, &item);
        }
        Ok(())
    }

    fn take_together(
        &self,
        tx: &mut S::Txn<'_>,
        w_id: u16,
        d_id: u8,
        lines: &[Line],
        answer: &mut NewOrderAnswer,
    ) -> TxnResult<S, ()> {
        let (mut items, mut stocks) = ([0; LINES_MAX], [(0, 0); LINES_MAX]);
        for (at, line) in lines.iter().enumerate() {
            items[at] = line.i_id;
            stocks[at] = (line.supply_w_id, line.i_id);
        }
        // The lines up to the first whose item does not exist: those that there is work for.
        let mut valid = lines.len();
        self.item.get_many(tx, &items[..lines.len()], |at, item| match item {
            Some(item) => answer.item_found(at, &lines[at], &item),
            None => valid = valid.min(at),
        })?;
        let stocks = &stocks[..valid];
        self.stock.update_many(tx, stocks, |at, (level, info)| {
            answer.lines[at].stock = take(level, &lines[at], w_id);
            answer.stock_found(at, d_id, info);
        })?;
        if valid < lines.len() { Err(Failure::Rollback) } else { Ok(()) }
    }
}

impl NewOrderAnswer {
    #[inline]
    fn item_found(&mut self, at: usize, line: &Line, item: &Item) {
        let answer = &mut self.lines[at];
        answer.name = item.name;
        answer.price_cents = item.price_cents;
        answer.amount_cents = i64::from(item.price_cents) * i64::from(line.quantity);
        self.item_is_original[at] = is_original(&item.data);
    }

    #[inline]
    fn stock_found(&mut self, at: usize, d_id: u8, info: &StockInfo) {
        self.dist_info[at] = info.dist[usize::from(d_id - 1)];
        self.stock_is_original[at] = is_original(&info.data);
    }
}

/// Takes a line from its stock [TPC-C 2.4.2.2]; answers what is left.
///
/// A stock that would fall below ten is filled up with 91 first.
#[inline]
fn take(level: &mut StockLevel, line: &Line, w_id: u16) -> i32 {
    let quantity = i32::from(line.quantity);
    let left = level.quantity - quantity;
    level.quantity = if left >= 10 { left } else { left + 91 };
    level.ytd += u32::from(line.quantity);
    level.order_cnt += 1;
    level.remote_cnt += u32::from(line.supply_w_id != w_id);
    level.quantity
}

/// `sum * (1 - C_DISCOUNT) * (1 + W_TAX + D_TAX)`, rounded down to a cent once.
fn total(sum_cents: i64, answer: &NewOrderAnswer) -> i64 {
    let discounted = sum_cents * (10_000 - i64::from(answer.discount_e4));
    discounted * (10_000 + i64::from(answer.w_tax_e4) + i64::from(answer.d_tax_e4)) / 100_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tpcc_2_4_2_2_a_stock_that_runs_low_is_filled_up() {
        let mut level = StockLevel { quantity: 20, ytd: 0, order_cnt: 0, remote_cnt: 0 };
        let line = Line { i_id: 1, supply_w_id: 2, quantity: 10 };
        assert_eq!(take(&mut level, &line, 2), 10);
        assert_eq!(take(&mut level, &line, 1), 91);
        assert_eq!(level, StockLevel { quantity: 91, ytd: 20, order_cnt: 2, remote_cnt: 1 });
    }

    #[test]
    fn the_total_has_discount_and_taxes() {
        let answer =
            NewOrderAnswer { discount_e4: 1000, w_tax_e4: 500, d_tax_e4: 1500, ..NewOrderAnswer::default() };
        assert_eq!(total(100_00, &answer), 108_00);
    }
}
