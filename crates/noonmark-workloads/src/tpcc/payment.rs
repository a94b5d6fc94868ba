//! Payment [TPC-C 2.5]: a customer pays; the totals of the warehouse and the district grow.
//!
//! `W_YTD` and `D_YTD` are raised without being read by anybody in the transaction: with
//! [`Updates::CommitTime`] they are raised when the transaction commits, and two Payments of one warehouse do
//! not meet there. The customer's totals are not raised so: `C_BALANCE` goes back to the terminal, so it is read
//! [TPC-C 2.5.3.4], and the customer's other totals stand in the same group.
//!
//! With [`Taking::Rows`] the three rows are taken whole, each at once to be written, as by programs that know no column groups: then
//! nobody holds a row to read it when he comes to want to write it.
//!
//! What it reads and changes, by group: WAREHOUSE info (read) and ytd (raised), DISTRICT info (read) and ytd
//! (raised), CUSTOMER info (read), account (changed) and, by bad credit, data (changed); HISTORY gets a row.

use super::request::{PaymentRequest, Who};
use super::schema::*;
use super::tables::Tables;
use super::{Options, Taking, Totals, Updates};
use crate::store::{Failure, Group, Rows, Session, Store, Table, TxnResult, columns};

/// What the terminal shows of a payment.
#[derive(Clone, Debug)]
pub struct PaymentAnswer {
    /// The warehouse where it was paid.
    pub warehouse: WarehouseInfo,
    /// The district where it was paid.
    pub district: DistrictInfo,
    /// `C_ID`.
    pub c_id: u32,
    /// Who paid.
    pub customer: CustomerInfo,
    /// `C_BALANCE`, after the payment.
    pub balance_cents: i64,
    /// What the terminal shows of `C_DATA`: its first 200 characters, by bad credit only [TPC-C 2.5.3.4].
    pub data: Option<[u8; 200]>,
    /// A row to be inserted was there already, which cannot be in a consistent database.
    pub duplicate: bool,
}

impl<S: Store> Tables<S> {
    /// Runs Payment at home in `w_id`; `history` is the key of its row in HISTORY, `found` room to work in.
    #[inline(never)]
    pub fn run_payment(
        &self,
        session: &mut S::Session,
        options: &Options,
        w_id: u16,
        history: HistoryKey,
        payment: &PaymentRequest,
        found: &mut Vec<u32>,
    ) -> TxnResult<S, PaymentAnswer> {
        session.run(&self.scopes.payment, |tx| {
            let PaymentRequest { d_id, c_d_id, c_w_id, who, amount_cents, date_ms } = *payment;
            let (warehouse, district) = match options.taking {
                Taking::Groups => self.take_payment(tx, options.totals, (w_id, d_id), amount_cents)?,
                Taking::Rows => self.take_payment_by_rows(tx, (w_id, d_id), amount_cents)?,
            };
            let c_id = match who {
                Who::Number(c_id) => c_id,
                Who::LastName(last) => self.customer_named(tx, (c_w_id, c_d_id), last, found)?,
            };
            let key = (c_w_id, c_d_id, c_id);
            let numbers = [c_id, c_d_id.into(), c_w_id.into(), d_id.into(), w_id.into()];
            let (customer, balance_cents, data) = match options.taking {
                Taking::Groups => self.pay(tx, &key, numbers, amount_cents)?,
                Taking::Rows => self.pay_by_rows(tx, &key, numbers, amount_cents)?,
            };
            let row = History {
                c_id,
                c_d_id,
                c_w_id,
                d_id,
                w_id,
                date_ms,
                amount_cents,
                data: history_data(&warehouse.name, &district.name),
            };
            let duplicate = !self.history.insert(tx, &history, row)?;
            Ok(PaymentAnswer { warehouse, district, c_id, customer, balance_cents, data, duplicate })
        })
    }
}

/// The customer who has paid, what he owes now, and what the terminal shows of `C_DATA`.
type Paid = (CustomerInfo, i64, Option<[u8; 200]>);

impl<S: Store> Tables<S> {
    /// Raises the totals of the warehouse and the district.
    #[inline(always)]
    fn take_payment(
        &self,
        tx: &mut S::Txn<'_>,
        totals: Totals,
        (w_id, d_id): DistrictKey,
        amount_cents: i64,
    ) -> TxnResult<S, (WarehouseInfo, DistrictInfo)> {
        let warehouse = self.warehouse_info.need(tx, &w_id)?;
        let district = self.district_info.need(tx, &(w_id, d_id))?;
        match totals.warehouse {
            Updates::Plain => {
                self.warehouse_ytd.update(tx, &w_id, |warehouse| warehouse.ytd_cents += amount_cents)?;
            }
            Updates::CommitTime => {
                self.warehouse_ytd.add(tx, &w_id, columns::<WarehouseYtd>().ytd_cents, amount_cents)?;
            }
        }
        let district_key = (w_id, d_id);
        match totals.district {
            Updates::Plain => {
                self.district_ytd.update(tx, &district_key, |district| district.ytd_cents += amount_cents)?;
            }
            Updates::CommitTime => {
                self.district_ytd.add(tx, &district_key, columns::<DistrictYtd>().ytd_cents, amount_cents)?;
            }
        }
        Ok((warehouse, district))
    }

    /// The same, each row at once.
    fn take_payment_by_rows(
        &self,
        tx: &mut S::Txn<'_>,
        (w_id, d_id): DistrictKey,
        amount_cents: i64,
    ) -> TxnResult<S, (WarehouseInfo, DistrictInfo)> {
        let (mut warehouse, mut district) = (None, None);
        self.warehouse.update(tx, &w_id, |(info, total)| {
            total.ytd_cents += amount_cents;
            warehouse = Some(info.clone());
        })?;
        self.district.update(tx, &(w_id, d_id), |(info, _, total)| {
            total.ytd_cents += amount_cents;
            district = Some(info.clone());
        })?;
        // (Both were there.)
        warehouse.zip(district).ok_or(Failure::Rollback)
    }

    /// Notes the payment in the customer's row.
    #[inline(always)]
    fn pay(
        &self,
        tx: &mut S::Txn<'_>,
        key: &CustomerKey,
        numbers: [u32; 5],
        amount_cents: i64,
    ) -> TxnResult<S, Paid> {
        let customer = self.customer_info.need(tx, key)?;
        let mut balance_cents = 0;
        self.customer_account.update(tx, key, |account| balance_cents = account.pay(amount_cents))?;
        let mut data = None;
        if customer.credit == *b"BC" {
            self.customer_data.update(tx, key, |notes| {
                note(&mut notes.data, numbers, amount_cents);
                data = notes.data.first_chunk::<200>().copied();
            })?;
        }
        Ok((customer, balance_cents, data))
    }

    /// The same, the row at once.
    fn pay_by_rows(
        &self,
        tx: &mut S::Txn<'_>,
        key: &CustomerKey,
        numbers: [u32; 5],
        amount_cents: i64,
    ) -> TxnResult<S, Paid> {
        let mut paid = None;
        self.customer.update(tx, key, |(info, account, notes)| {
            let balance_cents = account.pay(amount_cents);
            let is_bad = info.credit == *b"BC";
            if is_bad {
                note(&mut notes.data, numbers, amount_cents);
            }
            let data = notes.data.first_chunk::<200>().copied().filter(|_| is_bad);
            paid = Some((info.clone(), balance_cents, data));
        })?;
        paid.ok_or(Failure::Rollback)
    }
}

impl CustomerAccount {
    /// Pays; what is owed now.
    #[inline(always)]
    fn pay(&mut self, amount_cents: i64) -> i64 {
        self.balance_cents -= amount_cents;
        self.ytd_payment_cents += amount_cents;
        self.payment_cnt += 1;
        self.balance_cents
    }
}

/// `H_DATA`: the names of the warehouse and the district, four blanks between them [TPC-C 2.5.2.2].
fn history_data(warehouse: &[u8; 10], district: &[u8; 10]) -> [u8; 24] {
    let mut data = [0; 24];
    let mut len = 0;
    for part in [text(warehouse), b"    ", text(district)] {
        data[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    data
}

/// Notes a payment at the left of `C_DATA`; what was there moves right, and falls off beyond 500
/// [TPC-C 2.5.2.2].
fn note(data: &mut [u8; 500], numbers: [u32; 5], amount_cents: i64) {
    let mut line = Line { bytes: [0; 80], len: 0 };
    for number in numbers {
        line.number(u64::from(number));
        line.push(b' ');
    }
    let cents = amount_cents.unsigned_abs();
    line.number(cents / 100);
    line.push(b'.');
    line.push(b'0' + (cents / 10 % 10) as u8);
    line.push(b'0' + (cents % 10) as u8);
    line.push(b'|');
    data.copy_within(..500 - line.len, line.len);
    data[..line.len].copy_from_slice(&line.bytes[..line.len]);
}

/// A line being written. Five numbers of ten digits, one of seventeen, and what stands between them fit.
struct Line {
    bytes: [u8; 80],
    len: usize,
}

impl Line {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn number(&mut self, mut number: u64) {
        let from = self.len;
        loop {
            self.push(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes[from..self.len].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tpcc_2_5_2_2_notes_go_to_the_left_and_old_ones_fall_off_at_the_right() {
        let mut data = [b'x'; 500];
        note(&mut data, [2999, 10, 1, 3, 65535], 1_234_05);
        note(&mut data, [7, 1, 2, 3, 4], 10);
        let expected = b"7 1 2 3 4 0.10|2999 10 1 3 65535 1234.05|xxx";
        assert_eq!(&data[..expected.len()], expected);
        assert_eq!(data[499], b'x');
        for _ in 0..100 {
            note(&mut data, [u32::MAX; 5], i64::MAX);
        }
        assert!(!data.contains(&b'x'));
    }

    #[test]
    fn tpcc_2_5_2_2_history_names_both_places() {
        assert_eq!(
            &history_data(b"west\0\0\0\0\0\0", b"north\0\0\0\0\0"),
            b"west    north\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(&history_data(b"0123456789", b"abcdefghij"), b"0123456789    abcdefghij");
    }
}
