//! The nine tables of [TPC-C 1.3]: their keys, and their columns as column groups.
//!
//! Every column of the standard is there, with its width, so that rows weigh what they should. Text is
//! zero-padded to its column's width; money is in cents; rates are in ten-thousandths; a date is in
//! milliseconds since 1970 and 0 where the standard says *null* (as is a carrier not yet chosen).
//!
//! # Keys
//!
//! Keys are tuples that order as the standard's compound keys do, each at most eight bytes:
//!
//! ```text
//! WAREHOUSE   (w: u16)                          2
//! DISTRICT    (w: u16, d: u8)                   3
//! CUSTOMER    (w: u16, d: u8, c: u32)           7
//! HISTORY     (terminal: u16, number: u32)      6   the standard gives it no key; each worker counts its own
//! NEW-ORDER   (w: u16, d: u8, o: u32)           7
//! ORDER       (w: u16, d: u8, o: u32)           7
//! ORDER-LINE  (w: u16, d: u8, o: u32, ol: u8)   8
//! ITEM        (i: u32)                          4
//! STOCK       (w: u16, i: u32)                  6
//! ```
//!
//! # Groups
//!
//! [Granularity §3.4] gives each DISTRICT and CUSTOMER row two timestamps, "one guarding the rarely updated
//! fields of the row and another guarding the rest". Here each has three, column by column:
//!
//! - **CUSTOMER**: what describes the customer (name, address, credit, discount) apart from what every payment and
//!   every delivery changes (balance, totals, counts), and that apart from `C_DATA`, five hundred bytes which only
//!   a payment by bad credit touches. A New-Order reads the first only; it never meets a Payment of the same
//!   customer.
//! - **DISTRICT**: in the paper New-Order only *reads* this row, so its order numbers are drawn elsewhere.
//!   By the standard `D_NEXT_O_ID` is a column that every New-Order reads and raises, and with two groups it has to
//!   join one side. Beside `D_YTD` every New-Order would collide, write against write, with every Payment of the
//!   district; beside the name, which Payment reads, Payments would lose to New-Orders. Both are the false
//!   conflicts that the split is to remove. So there are three: the name and address, which nobody changes; the
//!   order number, with the tax, which New-Order reads beside it; and `D_YTD`. New-Order and Payment never meet
//!   in a district.
//! - **WAREHOUSE** has the same false conflict (New-Order reads `W_TAX`, Payment raises `W_YTD`), and with one
//!   warehouse it is the hottest row of all. The paper names only District and Customer. [`Split::Fine`]
//!   splits it too; [`Split::Paper`] leaves it whole, as the paper's text has it.
//! - **STOCK** and **ORDER** are stored as two groups under *one* timestamp in every split. Of a stock, what
//!   New-Order changes (16 bytes) stands apart from what it only reads (290 bytes), so that a change need not
//!   rewrite the texts; of an order, the carrier stands apart from what its secondary index is made of, so that
//!   a Delivery need not work out the index entry again.
//!
//! # What it does not do
//!
//! No foreign keys, no column types beyond what the five transactions need, and no date arithmetic.

use crate::column_group;
use noonmark::Field;

/// The warehouses' key: `W_ID`, from 1.
pub type WarehouseKey = u16;
/// The districts' key: `D_W_ID`, `D_ID` (1 to 10).
pub type DistrictKey = (u16, u8);
/// The customers' key: `C_W_ID`, `C_D_ID`, `C_ID`.
pub type CustomerKey = (u16, u8, u32);
/// The history's key: the terminal that made the entry (0: the population), and its running number.
pub type HistoryKey = (u16, u32);
/// The orders' and the new orders' key: `O_W_ID`, `O_D_ID`, `O_ID`.
pub type OrderKey = (u16, u8, u32);
/// The order lines' key: `OL_W_ID`, `OL_D_ID`, `OL_O_ID`, `OL_NUMBER` (from 1).
pub type OrderLineKey = (u16, u8, u32, u8);
/// The items' key: `I_ID`.
pub type ItemKey = u32;
/// The stocks' key: `S_W_ID`, `S_I_ID`.
pub type StockKey = (u16, u32);

/// What ten of a hundred items and stocks say somewhere in their data.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";
/// How many tables there are.
pub const TABLES: usize = 9;
/// Districts in a warehouse [TPC-C 1.2.1].
pub const DISTRICTS: u8 = 10;
/// The most lines that an order may have [TPC-C 2.4.1.3].
pub const LINES_MAX: usize = 15;

/// Which rows have more than one timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// None: one timestamp for each row of every table.
    Coarse,
    /// WAREHOUSE alone: its total has a timestamp of its own.
    Warehouse,
    /// DISTRICT and CUSTOMER, which the text of [Granularity §3.4] names.
    Paper,
    /// DISTRICT, CUSTOMER and WAREHOUSE.
    Fine,
    /// None at first: those of DISTRICT, CUSTOMER and WAREHOUSE over which there are conflicts split themselves.
    Itself,
}

impl Split {
    /// Every split.
    pub const ALL: [Split; 5] = [Split::Coarse, Split::Warehouse, Split::Paper, Split::Fine, Split::Itself];

    /// Which tables have how many timestamps a row, in words, for a report.
    pub fn in_words(self) -> &'static str {
        match self {
            Split::Coarse => "one timestamp a row",
            Split::Warehouse => "warehouse 2, other rows 1",
            Split::Paper => "district 3, customer 3, other rows 1",
            Split::Fine => "warehouse 2, district 3, customer 3, other rows 1",
            Split::Itself => "one timestamp a row, which splits itself: warehouse 2, district 3, customer 3",
        }
    }
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Split::Coarse => "coarse",
            Split::Warehouse => "warehouse",
            Split::Paper => "paper",
            Split::Fine => "fine",
            Split::Itself => "splitting",
        })
    }
}

column_group! {
    /// WAREHOUSE, what is read: all but `W_YTD`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct WarehouseInfo {
        /// `W_NAME`.
        pub name: [u8; 10],
        /// `W_STREET_1`.
        pub street_1: [u8; 20],
        /// `W_STREET_2`.
        pub street_2: [u8; 20],
        /// `W_CITY`.
        pub city: [u8; 20],
        /// `W_STATE`.
        pub state: [u8; 2],
        /// `W_ZIP`.
        pub zip: [u8; 9],
        /// `W_TAX`, in ten-thousandths: 0 to 2000.
        pub tax_e4: u32,
    }
}

column_group! {
    /// WAREHOUSE, what Payment raises.
    #[derive(Clone, Debug, PartialEq)]
    pub struct WarehouseYtd {
        /// `W_YTD`. Invariant: the sum of the districts' [TPC-C 3.3.2.1].
        pub ytd_cents: i64,
    }
}

/// A row of WAREHOUSE.
pub type Warehouse = (WarehouseInfo, WarehouseYtd);

column_group! {
    /// DISTRICT, the texts, which no transaction changes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DistrictInfo {
        /// `D_NAME`.
        pub name: [u8; 10],
        /// `D_STREET_1`.
        pub street_1: [u8; 20],
        /// `D_STREET_2`.
        pub street_2: [u8; 20],
        /// `D_CITY`.
        pub city: [u8; 20],
        /// `D_STATE`.
        pub state: [u8; 2],
        /// `D_ZIP`.
        pub zip: [u8; 9],
    }
}

column_group! {
    /// DISTRICT, what New-Order reads and raises.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DistrictOrders {
        /// `D_TAX`, in ten-thousandths: 0 to 2000.
        pub tax_e4: u32,
        /// `D_NEXT_O_ID`. Invariant: one above the district's last order [TPC-C 3.3.2.2].
        pub next_o_id: u32,
    }
}

column_group! {
    /// DISTRICT, what Payment raises.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DistrictYtd {
        /// `D_YTD`. Invariant: the sum of what was paid in the district [TPC-C 3.3.2.9].
        pub ytd_cents: i64,
    }
}

/// A row of DISTRICT.
pub type District = (DistrictInfo, DistrictOrders, DistrictYtd);

column_group! {
    /// CUSTOMER, what describes the customer, and no transaction changes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CustomerInfo {
        /// `C_FIRST`.
        pub first: [u8; 16],
        /// `C_MIDDLE`.
        pub middle: [u8; 2],
        /// `C_LAST`.
        pub last: [u8; 16],
        /// `C_STREET_1`.
        pub street_1: [u8; 20],
        /// `C_STREET_2`.
        pub street_2: [u8; 20],
        /// `C_CITY`.
        pub city: [u8; 20],
        /// `C_STATE`.
        pub state: [u8; 2],
        /// `C_ZIP`.
        pub zip: [u8; 9],
        /// `C_PHONE`.
        pub phone: [u8; 16],
        /// `C_SINCE`.
        pub since_ms: i64,
        /// `C_CREDIT`: `GC` (good) or `BC` (bad).
        pub credit: [u8; 2],
        /// `C_CREDIT_LIM`.
        pub credit_lim_cents: i64,
        /// `C_DISCOUNT`, in ten-thousandths: 0 to 5000.
        pub discount_e4: u32,
    }
}

column_group! {
    /// CUSTOMER, what payments and deliveries change.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CustomerAccount {
        /// `C_BALANCE`.
        pub balance_cents: i64,
        /// `C_YTD_PAYMENT`.
        pub ytd_payment_cents: i64,
        /// `C_PAYMENT_CNT`.
        pub payment_cnt: u32,
        /// `C_DELIVERY_CNT`.
        pub delivery_cnt: u32,
    }
}

column_group! {
    /// CUSTOMER, what payments by bad credit change.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CustomerData {
        /// `C_DATA`.
        pub data: [u8; 500],
    }
}

/// A row of CUSTOMER.
pub type Customer = (CustomerInfo, CustomerAccount, CustomerData);

column_group! {
    /// A row of HISTORY.
    #[derive(Clone, Debug, PartialEq)]
    pub struct History {
        /// `H_C_ID`.
        pub c_id: u32,
        /// `H_C_D_ID`.
        pub c_d_id: u8,
        /// `H_C_W_ID`.
        pub c_w_id: u16,
        /// `H_D_ID`: where it was paid.
        pub d_id: u8,
        /// `H_W_ID`: where it was paid.
        pub w_id: u16,
        /// `H_DATE`.
        pub date_ms: i64,
        /// `H_AMOUNT`.
        pub amount_cents: i64,
        /// `H_DATA`.
        pub data: [u8; 24],
    }
}

column_group! {
    /// A row of NEW-ORDER: that its key is there is all it says.
    #[derive(Clone, Debug, PartialEq)]
    pub struct NewOrder {
        /// A column for the group to have; always 1.
        pub open: u8,
    }
}

column_group! {
    /// ORDER, what New-Order enters for good.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OrderEntry {
        /// `O_C_ID`.
        pub c_id: u32,
        /// `O_ENTRY_D`.
        pub entry_ms: i64,
        /// `O_OL_CNT`: 5 to 15.
        pub ol_cnt: u8,
        /// `O_ALL_LOCAL`.
        pub all_local: bool,
    }
}

column_group! {
    /// ORDER, what Delivery fills in.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OrderCarrier {
        /// `O_CARRIER_ID`: 1 to 10; 0 until it is delivered.
        pub carrier_id: u8,
    }
}

/// A row of ORDER.
pub type Order = (OrderEntry, OrderCarrier);

/// A whole number that is stored in so many bytes: what its column can hold, and no more. So a row of ORDER-LINE, of which there are ten times
/// as many as of any other table, takes 40 bytes, and with its key and its version under `occ` one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrow<const BYTES: usize>(i64);

impl<const BYTES: usize> Narrow<BYTES> {
    /// Of what does not fit into the bytes the lowest are taken, as `as` does.
    #[inline(always)]
    pub fn new(number: i64) -> Self {
        let unused = 64 - 8 * BYTES as u32;
        Narrow(number << unused >> unused)
    }

    /// The number.
    #[inline(always)]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const BYTES: usize> Field for Narrow<BYTES> {
    const BYTES: usize = BYTES;

    #[inline(always)]
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0.to_le_bytes()[..BYTES]);
    }

    #[inline(always)]
    fn take(bytes: &[u8]) -> Self {
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(bytes);
        Narrow::new(i64::from_le_bytes(number))
    }
}

column_group! {
    /// A row of ORDER-LINE.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OrderLine {
        // In this order none lies across two words of a record: what is read is mostly loaded from where it has just been stored word by word,
        // and a processor hands on what one store alone has put there.
        /// `OL_I_ID`.
        pub i_id: u32,
        /// `OL_QUANTITY`.
        pub quantity: u8,
        /// `OL_AMOUNT`, a `numeric(6, 2)`.
        pub amount_cents: Narrow<3>,
        /// `OL_SUPPLY_W_ID`.
        pub supply_w_id: u16,
        /// `OL_DELIVERY_D`: 0 until it is delivered.
        pub delivery_ms: Narrow<6>,
        /// `OL_DIST_INFO`.
        pub dist_info: [u8; 24],
    }
}

column_group! {
    /// A row of ITEM, which no transaction changes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Item {
        /// `I_IM_ID`.
        pub im_id: u32,
        /// `I_NAME`.
        pub name: [u8; 24],
        /// `I_PRICE`.
        pub price_cents: u32,
        /// `I_DATA`.
        pub data: [u8; 50],
    }
}

column_group! {
    /// STOCK, what New-Order changes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct StockLevel {
        /// `S_QUANTITY`: never below 10 after an order, by the standard's rule.
        pub quantity: i32,
        /// `S_YTD`.
        pub ytd: u32,
        /// `S_ORDER_CNT`.
        pub order_cnt: u32,
        /// `S_REMOTE_CNT`.
        pub remote_cnt: u32,
    }
}

column_group! {
    /// STOCK, what is only read.
    #[derive(Clone, Debug, PartialEq)]
    pub struct StockInfo {
        /// `S_DIST_01` to `S_DIST_10`.
        pub dist: [[u8; 24]; 10],
        /// `S_DATA`.
        pub data: [u8; 50],
    }
}

/// A row of STOCK.
pub type Stock = (StockLevel, StockInfo);

/// The text of a zero-padded column.
pub fn text(column: &[u8]) -> &[u8] {
    let len = column.iter().position(|&byte| byte == 0).unwrap_or(column.len());
    &column[..len]
}

/// Whether a data column says `ORIGINAL` [TPC-C 2.4.2.2].
///
/// An `O` before an `R` is looked for everywhere at once, without a branch: it is found in two rows of a hundred that
/// do not say it, so what is decided then is mostly guessed before the row has come from memory.
#[inline]
pub fn is_original(data: &[u8; 50]) -> bool {
    let pairs = data.iter().zip(&data[1..]);
    let begins = pairs.fold(false, |begins, (&one, &next)| begins | ((one == b'O') & (next == b'R')));
    begins && data.array_windows::<{ ORIGINAL.len() }>().any(|word| word == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn original_is_found_wherever_it_stands_and_nowhere_else() {
        assert!(!is_original(&[0; 50]) && !is_original(&[b'O'; 50]));
        for at in 0..=42 {
            for around in [0, b'x', b'O', b'L'] {
                let mut data = [around; 50];
                data[at..at + 8].copy_from_slice(ORIGINAL);
                assert!(is_original(&data), "at {at}");
                for broken in at..at + 8 {
                    let mut data = data;
                    data[broken] = b'X';
                    assert!(!is_original(&data), "at {at}, broken at {broken}");
                }
            }
        }
    }

    #[test]
    fn text_ends_at_the_first_zero() {
        assert_eq!(text(b"abc\0\0"), b"abc");
        assert_eq!(text(b"abc"), b"abc");
        assert_eq!(text(b"\0"), b"");
    }
}
