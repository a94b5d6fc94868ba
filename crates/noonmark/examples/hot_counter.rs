//! One row that every transaction changes: read and written, or updated at commit.
//!
//!     cargo run --release -p noonmark --example hot_counter
//!
//! Four threads record page views: each transaction counts one on the same row, and inserts an event of
//! its own. Counting by `update` reads the row, and whoever else writes it between the read and the
//! commit makes the transaction run again. Counting by `add` does not read it: the sum is worked out
//! under the row's lock while the commit is installed, so that there is nothing to invalidate.
//!
//! Ends with one conflict made on purpose, in the engine's own words.

use noonmark::{Abort, ConflictReport, Database, Policy, Protocol, TableOptions};
use noonmark::{Host, IndexKind, SessionStatistics};
use std::error::Error;
use std::thread;

const THREADS: u32 = 4;
const VIEWS_EACH: u32 = 25_000;
const PAGE: u32 = 7;

noonmark::column_group! {
    /// What is counted of a page.
    #[derive(Clone, Debug, Default)]
    struct Views { count: u64, last_ms: u64 }
}

#[derive(Clone, Copy, PartialEq)]
enum Counting {
    Plain,
    AtCommit,
}

struct Outcome {
    seconds: f64,
    sessions: Vec<SessionStatistics>,
    conflicts: ConflictReport,
}

fn count(protocol: Protocol, counting: Counting) -> Result<Outcome, Box<dyn Error + Send + Sync>> {
    let db = Database::in_memory();
    let options = TableOptions::new().protocol(protocol);
    let pages = db.create_table::<u32, Views>("pages", options.clone().index(IndexKind::Hash))?;
    // Keyed by thread and number, so that two threads' events are seldom neighbours.
    let events = db.create_table::<(u32, u32), u32>("events", options)?;
    db.transact(|tx| tx.insert(&pages, PAGE, Views::default()))?;

    let began_ns = db.host().now_ns();
    let worker = |thread: u32| -> Result<SessionStatistics, Abort> {
        let mut session = db.session()?;
        for number in 0..VIEWS_EACH {
            session.transact(|tx| {
                match counting {
                    Counting::Plain => tx.update(&pages, PAGE, |views| views.count += 1)?,
                    Counting::AtCommit => tx.add(&pages, PAGE, |views| &mut views.count, 1)?,
                }
                tx.insert(&events, (thread, number), PAGE)
            })?;
        }
        Ok(session.statistics())
    };
    let sessions = thread::scope(|scope| {
        let worker = &worker;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || worker(thread))).collect();
        threads.into_iter().map(|t| t.join().expect("a worker panicked")).collect::<Result<Vec<_>, Abort>>()
    })?;
    let seconds = (db.host().now_ns() - began_ns) as f64 / 1e9;

    let counted = db.view(|tx| tx.need(&pages, PAGE))?.count;
    let mut inserted = 0;
    db.view(|tx| {
        inserted = 0;
        tx.range(&events, ..).for_each(|_, _| {
            inserted += 1;
            std::ops::ControlFlow::Continue(())
        })
    })?;
    assert_eq!(counted, u64::from(THREADS * VIEWS_EACH), "a view was lost, or counted twice");
    assert_eq!(counted, inserted, "the count and the events disagree");
    Ok(Outcome { seconds, sessions, conflicts: db.conflicts() })
}

fn show(protocol: Protocol, name: &str, outcome: &Outcome) {
    let aborts: u64 = outcome.sessions.iter().map(|s| s.aborts).sum();
    let attempts_max = outcome.sessions.iter().map(|s| s.attempts_max).max().unwrap_or(0);
    println!(
        "{:<22} {name:<10} {:>6.0} ms {aborts:>8} {attempts_max:>8}",
        protocol.name(),
        outcome.seconds * 1e3,
    );
}

/// Has one transaction meet another on purpose, and returns what it is told.
fn collide() -> Result<Abort, Box<dyn Error + Send + Sync>> {
    let db = Database::in_memory();
    let pages = db.create_table::<u32, Views>("pages", TableOptions::new().protocol(Protocol::TicToc))?;
    db.transact(|tx| tx.insert(&pages, PAGE, Views::default()))?;
    let (mut mine, mut theirs) = (db.session()?, db.session()?);
    let mut tx = mine.begin();
    let seen = tx.need(&pages, PAGE)?;
    theirs.transact_with(&Policy::once(), |tx| tx.add(&pages, PAGE, |views| &mut views.count, 1))?;
    tx.write(&pages, PAGE, Views { last_ms: 1, ..seen })?;
    match tx.commit() {
        Err(abort) => Ok(abort),
        Ok(commit) => Err(format!("the update of another was overwritten at {}", commit.time).into()),
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("{THREADS} threads, {VIEWS_EACH} views each, all of one page\n");
    println!("{:<22} {:<10} {:>9} {:>8} {:>8}", "protocol", "counted by", "time", "aborts", "attempts");
    let mut reports = Vec::new();
    for protocol in [Protocol::Occ, Protocol::TicToc, Protocol::TwoPhaseWaitDie] {
        for (name, counting) in [("update", Counting::Plain), ("add", Counting::AtCommit)] {
            let outcome = count(protocol, counting)?;
            show(protocol, name, &outcome);
            if protocol == Protocol::Occ {
                reports.push((name, outcome.conflicts));
            }
        }
    }
    println!("\n(aborts: attempts that ended in a conflict; attempts: the most that one transaction took)");
    for (name, report) in reports {
        print!("\nocc, counted by {name}: {report}");
    }
    println!("\none conflict, explained:\n  {}", collide()?);
    Ok(())
}
