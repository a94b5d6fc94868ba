//! Opacity: aborted attempts saw what there was, too.
//!
//! A history is opaque if there is one order of all its transactions, aborted ones included, that keeps to real time and
//! in which each has read what those before it left that committed; of its own writes, an aborted one is the only
//! reader (Guerraoui and Kapalka, *On the Correctness of Transactional Memory*, PPoPP 2008). So to that order an aborted
//! attempt is a transaction that committed and only read. That is what this makes of it: its external reads stay in its
//! place, as if committed; its writes become an aborted transaction of their own, at the end of the history, so that
//! whoever has read them is found out. The rest is the checker's everyday work.
//!
//! Whether an attempt contradicts itself (it did not read what it had written) is looked at before.
//!
//! What it does not do: what an attempt read in vain is known only where the history tells; `null` in a `fail` is
//! *unknown*, so the absence of a register is not judged.

use super::access::{Accesses, Seen};
use super::report::{AnomalyKind, Findings};
use super::words;
use crate::history::{History, MicroOp, Outcome, Transaction};

/// The history as the module's page says; adds what is wrong with single attempts.
pub(super) fn as_readers(history: &History, findings: &mut Findings) -> History {
    let accesses = Accesses::of(history, true);
    let has_aborted = |number: u32| accesses.transaction(number).outcome == Outcome::Fail;
    for internal in accesses.internal.iter().filter(|internal| has_aborted(internal.transaction)) {
        findings.add(AnomalyKind::Internal, &[internal.transaction], || words::internal(history, internal));
    }
    let mut transactions = history.transactions().to_vec();
    let mut writes = Vec::new();
    for (number, attempt) in (0..).zip(&mut transactions) {
        if attempt.outcome != Outcome::Fail {
            continue;
        }
        let external = accesses.places_by(number).iter().map(|&place| {
            let read = &accesses.reads[place as usize];
            let key = accesses.keys[read.key as usize];
            match read.seen {
                Seen::List { .. } => MicroOp::ReadList { key, list: Some(accesses.list(read).to_vec()) },
                Seen::Register(value) => MicroOp::ReadRegister { key, value },
            }
        });
        let reader = Transaction { outcome: Outcome::Ok, ops: external.collect(), ..attempt.clone() };
        let mut writer = std::mem::replace(attempt, reader);
        writer.ops.retain(|op| matches!(op, MicroOp::Append { .. } | MicroOp::Write { .. }));
        if !writer.ops.is_empty() {
            writes.push(writer);
        }
    }
    transactions.append(&mut writes);
    history.with(transactions)
}
