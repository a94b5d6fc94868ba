//! Four threads move money between accounts while a fifth audits all of them.
//!
//!     cargo run --release -p noonmark --example bank
//!
//! Shows: a session for each thread, a transaction that may refuse (`try_transact`, with an error type of
//! its own), a transaction that only reads (`view`), and what a session and the database count.

// What `column_group!` makes is no unsafe code of the crate that calls it.
#![forbid(unsafe_code)]

use noonmark::{Abort, Database, IndexKind, Protocol, Session, Table, TableOptions};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ACCOUNTS: u32 = 100;
const OPENING_CENTS: i64 = 10_000;
const CLERKS: u64 = 4;
const TRANSFERS_EACH: u32 = 25_000;

noonmark::column_group! {
    /// An account.
    #[derive(Clone, Debug)]
    struct Account { cents: i64, transfers: u32 }
}

type Accounts = Table<u32, Account>;

/// Why a transfer was not made.
#[derive(Debug)]
enum Refused {
    /// The bank's own rule: nobody goes below zero.
    Declined { cents: i64 },
    /// The engine could not run the transaction.
    Abort(Abort),
}

// What lets `?` turn an operation's error into ours. A conflict is retried all the same.
impl From<Abort> for Refused {
    fn from(abort: Abort) -> Self {
        Refused::Abort(abort)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Declined { cents } => write!(f, "declined: the account has only {cents} cents"),
            Refused::Abort(abort) => abort.fmt(f),
        }
    }
}

impl Error for Refused {}

fn transfer(
    session: &mut Session,
    accounts: &Accounts,
    from: u32,
    to: u32,
    cents: i64,
) -> Result<(), Refused> {
    session.try_transact(|tx| {
        let payer = tx.need(accounts, from)?;
        if payer.cents < cents {
            // Rolls back; and what was read is validated first, so the balance that we tell is a real one.
            return Err(Refused::Declined { cents: payer.cents });
        }
        for (account, change) in [(from, -cents), (to, cents)] {
            tx.update(accounts, account, |a| {
                a.cents += change;
                a.transfers += 1;
            })?;
        }
        Ok(())
    })
}

fn total(session: &mut Session, accounts: &Accounts) -> Result<i64, Abort> {
    session.view(|tx| {
        let mut total = 0;
        for account in 0..ACCOUNTS {
            total += tx.need(accounts, account)?.cents;
        }
        Ok(total)
    })
}

/// Numbers that are random enough for an example (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What a clerk has done: transfers made, transfers declined, attempts that met a conflict.
fn clerk(db: &Database, accounts: &Accounts, number: u64) -> Result<(u64, u64, u64), Refused> {
    let mut session = db.session().map_err(Abort::from)?;
    let mut state = number;
    let (mut made, mut declined) = (0, 0);
    for _ in 0..TRANSFERS_EACH {
        let from = (random(&mut state) % u64::from(ACCOUNTS)) as u32;
        let other = (random(&mut state) % u64::from(ACCOUNTS - 1)) as u32;
        let to = if other < from { other } else { other + 1 };
        let cents = (random(&mut state) % 5_000) as i64;
        match transfer(&mut session, accounts, from, to, cents) {
            Ok(()) => made += 1,
            Err(Refused::Declined { .. }) => declined += 1,
            Err(other) => return Err(other),
        }
    }
    Ok((made, declined, session.statistics().aborts))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let db = Database::in_memory();
    // No ranges are needed, so a hash index; and `tictoc` lets an auditor that has read an old balance
    // take its place before the transfer that replaced it.
    let options = TableOptions::new().protocol(Protocol::TicToc).index(IndexKind::Hash);
    let accounts: Accounts = db.create_table("accounts", options)?;
    db.transact(|tx| {
        for account in 0..ACCOUNTS {
            tx.insert(&accounts, account, Account { cents: OPENING_CENTS, transfers: 0 })?;
        }
        Ok(())
    })?;

    let done = AtomicBool::new(false);
    let (clerks, audits) = thread::scope(|scope| {
        let auditor = scope.spawn(|| {
            let mut session = db.session().map_err(Abort::from)?;
            let mut audits = 0;
            while !done.load(Ordering::Relaxed) {
                let total = total(&mut session, &accounts)?;
                assert_eq!(total, i64::from(ACCOUNTS) * OPENING_CENTS, "an audit saw half a transfer");
                audits += 1;
            }
            Ok::<_, Abort>((audits, session.statistics().aborts))
        });
        let (db, accounts) = (&db, &accounts);
        let threads: Vec<_> =
            (0..CLERKS).map(|number| scope.spawn(move || clerk(db, accounts, number))).collect();
        let clerks: Vec<_> = threads.into_iter().map(|t| t.join().expect("a clerk panicked")).collect();
        done.store(true, Ordering::Relaxed);
        (clerks, auditor.join().expect("the auditor panicked"))
    });

    let (mut made, mut declined) = (0, 0);
    for (number, clerk) in clerks.into_iter().enumerate() {
        let (its_made, its_declined, aborts) = clerk?;
        println!(
            "clerk {number}: {its_made} transfers, {its_declined} declined, {aborts} attempts run again"
        );
        made += its_made;
        declined += its_declined;
    }
    let (audits, aborts) = audits?;
    println!("auditor: {audits} audits, each of the same total, {aborts} attempts run again");

    let mut session = db.session()?;
    match transfer(&mut session, &accounts, 1, 2, 1_000_000) {
        Err(refused) => println!("one more: {refused}"),
        Ok(()) => println!("one more: nobody should have that much"),
    }
    print!("{}", db.conflicts());

    let ends = db.view(|tx| {
        let mut ends = 0;
        for account in 0..ACCOUNTS {
            ends += u64::from(tx.need(&accounts, account)?.transfers);
        }
        Ok(ends)
    })?;
    assert_eq!(ends, 2 * made, "each transfer has two ends");
    assert_eq!(made + declined, CLERKS * u64::from(TRANSFERS_EACH));
    assert_eq!(total(&mut session, &accounts)?, i64::from(ACCOUNTS) * OPENING_CENTS);
    println!("no cent was lost, and none was made");
    Ok(())
}
