//! Four clerks move money between accounts, while an auditor adds up all of them again and again.
//!
//!     cargo run --release -p noonmark-stm --example bank_audit
//!
//! Shows: a transaction with an error of the user's own, which undoes what was written (`try_atomically`); one that only
//! reads, and sees all accounts as of one moment however many transfers are made meanwhile (`view`); and one with a
//! side effect, a report that is printed at noon, and must not be printed twice (`irrevocably`).

use noonmark_stm::{Interrupted, Reads, TCounter, TVar, atomically, irrevocably, try_atomically, view};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const ACCOUNTS: usize = 50;
const OPENING_CENTS: i64 = 10_000;
const TOTAL_CENTS: i64 = ACCOUNTS as i64 * OPENING_CENTS;
const FEE_CENTS: i64 = 1;
const CLERKS: u64 = 4;
const TRANSFERS_EACH: u64 = 10_000;
/// A clerk who has tried so many waits for the next audit.
const TRANSFERS_AN_AUDIT: u64 = 100;

struct Bank {
    /// In cents. The first is the bank's own, for fees.
    accounts: Vec<TVar<i64>>,
    /// Transfers made. Each thread counts in a part of its own, so that counting makes no two of them meet.
    made: TCounter,
    /// Clerks who have come half way.
    at_noon: TVar<u64>,
    /// Audits that have been made.
    audits: TVar<u64>,
}

/// Why a transfer was not made.
#[derive(Debug, PartialEq)]
enum Refused {
    /// The bank's own rule: nobody goes below zero.
    InsufficientFunds { cents: i64 },
    /// Not the user's to see: the transaction is run again.
    Interrupted(Interrupted),
}

// What lets `?` turn an operation's error into ours.
impl From<Interrupted> for Refused {
    fn from(interrupted: Interrupted) -> Self {
        Refused::Interrupted(interrupted)
    }
}

/// Pays, takes the fee, counts, and only then looks whether the money is there: if it is not, none of this has happened.
fn transfer(bank: &Bank, from: usize, to: usize, cents: i64) -> Result<(), Refused> {
    try_atomically(|tx| {
        bank.accounts[to].update(tx, |balance| balance + cents)?;
        bank.accounts[0].update(tx, |balance| balance + FEE_CENTS)?;
        bank.made.add(tx, 1)?;
        let left = bank.accounts[from].update(tx, |balance| balance - cents - FEE_CENTS)?;
        if left < 0 {
            return Err(Refused::InsufficientFunds { cents: left + cents + FEE_CENTS });
        }
        Ok(())
    })
}

/// In any kind of transaction.
fn total<'tx>(tx: impl Reads<'tx, noonmark_stm::Global>, bank: &'tx Bank) -> Result<i64, Interrupted> {
    bank.accounts.iter().map(|account| account.get(tx)).sum()
}

/// Numbers that are random enough for an example (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// How many transfers a clerk has made, and how many were refused.
fn clerk(bank: &Bank, number: u64) -> (u64, u64) {
    let (mut state, mut made, mut refused) = (number, 0, 0);
    for round in 0..TRANSFERS_EACH {
        if round == TRANSFERS_EACH / 2 {
            atomically(|tx| bank.at_noon.update(tx, |clerks| clerks + 1));
        }
        if round.is_multiple_of(TRANSFERS_AN_AUDIT) {
            let audits = bank.audits.load();
            atomically(|tx| if bank.audits.get(tx)? == audits { tx.retry() } else { Ok(()) });
        }
        let mut below = |end: usize| (random(&mut state) % end as u64) as usize;
        // Two different ones, neither of them the bank's own.
        let from = 1 + below(ACCOUNTS - 1);
        let to = 1 + (from + below(ACCOUNTS - 2)) % (ACCOUNTS - 1);
        let cents = below(10_000) as i64;
        match transfer(bank, from, to, cents) {
            Ok(()) => made += 1,
            Err(Refused::InsufficientFunds { .. }) => refused += 1,
            // Never: all are of this transaction. The sum in the end would show it.
            Err(Refused::Interrupted(_)) => {}
        }
    }
    (made, refused)
}

/// Waits for the first clerk to come half way, and prints a report.
///
/// While it runs nobody changes what it has read, and no conflict makes it run again: so it may print as it goes.
fn report_at_noon(bank: &Bank, runs: &AtomicU64) -> i64 {
    atomically(|tx| if bank.at_noon.get(tx)? == 0 { tx.retry() } else { Ok(()) });
    irrevocably(|tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        let fees = bank.accounts[0].get(tx)?;
        println!("at noon: {} transfers so far, {fees} cents in the bank's own account", bank.made.get(tx)?);
        let total = total(tx, bank)?;
        println!("at noon: {total} cents in all");
        Ok(total)
    })
}

fn main() {
    let bank = Bank {
        accounts: (0..ACCOUNTS).map(|_| TVar::new(OPENING_CENTS)).collect(),
        made: TCounter::new(),
        at_noon: TVar::new(0),
        audits: TVar::new(0),
    };
    let (is_evening, reports) = (AtomicBool::new(false), AtomicU64::new(0));

    let (clerks, audits, at_noon) = thread::scope(|scope| {
        let (bank, is_evening) = (&bank, &is_evening);
        let auditor = scope.spawn(move || {
            let mut audits = Vec::new();
            while !is_evening.load(Ordering::Relaxed) {
                audits.push(view(|tx| Ok((bank.made.get(tx)?, total(tx, bank)?))));
                atomically(|tx| bank.audits.update(tx, |audits| audits + 1));
            }
            audits
        });
        let clerks: Vec<_> = (1..=CLERKS).map(|number| scope.spawn(move || clerk(bank, number))).collect();
        let at_noon = report_at_noon(bank, &reports);
        let clerks: Vec<_> =
            clerks.into_iter().map(|clerk| clerk.join().expect("a clerk panicked")).collect();
        is_evening.store(true, Ordering::Relaxed);
        (clerks, auditor.join().expect("the auditor panicked"), at_noon)
    });

    assert!(audits.iter().all(|(_, total)| *total == TOTAL_CENTS), "an audit saw half a transfer");
    assert!(audits.len() as u64 >= TRANSFERS_EACH / TRANSFERS_AN_AUDIT);
    let moments = audits.chunk_by(|one, next| one.0 == next.0).count();
    println!("{} audits, at {moments} different moments, each of the same total", audits.len());
    assert_eq!((at_noon, reports.into_inner()), (TOTAL_CENTS, 1), "the report was right, and printed once");

    let (made, refused) = clerks.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{made} transfers made, {refused} refused");
    assert_eq!(made + refused, CLERKS * TRANSFERS_EACH);
    assert!(made > 0 && refused > 0);
    // What was refused has left nothing behind.
    assert_eq!(bank.made.load(), made as i64);

    let before = bank.accounts[1].load();
    assert_eq!(transfer(&bank, 1, 2, TOTAL_CENTS), Err(Refused::InsufficientFunds { cents: before }));
    println!("one more: refused, as account 1 has only {before} cents");
    assert_eq!(bank.accounts[1].load(), before);

    let balances =
        view(|tx| bank.accounts.iter().map(|account| account.get(tx)).collect::<Result<Vec<_>, _>>());
    assert!(balances.iter().all(|cents| *cents >= 0), "somebody went below zero: {balances:?}");
    assert_eq!(balances.iter().sum::<i64>(), TOTAL_CENTS);
    println!("no cent was lost, and none was made");
}
