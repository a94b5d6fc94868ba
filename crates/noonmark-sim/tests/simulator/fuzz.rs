//! The fuzzer: what it finds in an engine that is broken on purpose, and that it finds nothing in the one that is not.

use noonmark::{Bug, IndexKind, Leases, Protocol};
use noonmark_sim::fuzz::{Case, Fault, Seeded, Verdict};
use noonmark_sim::network::fuzz::ClusterCase;
use noonmark_workloads::bank::Updates;
use noonmark_workloads::recorded::Kind;
use noonmark_workloads::store::Granularity;

/// A few cases of all protocols and mixes hold, and are the same when they are run again.
#[test]
fn a_few_cases_hold_and_repeat() {
    for seed in 0..300 {
        let case = Case::draw(seed, Protocol::ALL);
        let verdict = case.run().unwrap();
        assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
        if seed % 10 == 0 {
            assert_eq!(verdict, case.run().unwrap(), "{case}");
        }
    }
}

/// Cases that once did not hold. Under `fixed`: who finds a row in the hands of somebody later is suspended; that one lets go and begins anew in his
/// slot, and somebody earlier has the row by the time at which what it is about to be is looked at.
#[test]
fn cases_that_were_broken_hold() {
    let cases = [Case::draw(230_104, Protocol::ALL), Case::draw(501_002, &[Protocol::Fixed])];
    for case in cases {
        let verdict = case.run().unwrap();
        assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
    }
}

/// Protocols that keep read times go together in one logical database, in any mix.
#[test]
fn logical_mixes_hold() {
    let keepers: Vec<Protocol> = Protocol::ALL.iter().copied().filter(|p| p.keeps_read_times()).collect();
    for seed in 0..300 {
        let case = Case::draw(seed, &keepers);
        let verdict = case.run().unwrap();
        assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
    }
}

/// The same of tables whose timestamps split themselves.
fn splitting(case: Case) -> Case {
    Case { granularity: Granularity::Splitting, ..case }
}

/// Rows that are split and put together all the time lose nothing, under any protocol that has them.
#[test]
fn timestamps_that_split_themselves_hold() {
    let all = Protocol::all_that_mix();
    for (number, protocol) in all.iter().enumerate() {
        for seed in 0..60 {
            let case = splitting(Case::draw(seed * 100 + number as u64, &[*protocol]));
            let verdict = case.run().unwrap();
            assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
        }
    }
    for seed in 0..200 {
        let case = splitting(Case::draw(seed, &all));
        let verdict = case.run().unwrap();
        assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
    }
}

/// Leases that are extended while executing, and write times that are kept, alone and together.
#[test]
fn options_of_leases_hold() {
    for (number, leases) in (0..).zip([(Some(0), 0), (None, 1), (None, 3), (Some(0), 1), (Some(3), 3)]) {
        let (extended_by, write_times) = leases;
        for seed in 0..200 {
            let leases = Leases { extended_by, write_times };
            let case = Case { leases, ..Case::draw(1_000 * number + seed, &[Protocol::Sundial]) };
            for case in [case.clone(), splitting(case)] {
                let verdict = case.run().unwrap();
                assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
            }
        }
    }
}

/// Scans by secondary indexes, and keys that are looked up together, under each protocol and in mixes.
#[test]
fn secondary_indexes_and_keys_known_together_hold() {
    let singles = Protocol::ALL.iter().map(std::slice::from_ref);
    for (number, protocols) in (0..).zip(singles.chain([Protocol::ALL])) {
        for seed in 0..60 {
            let case = Case::draw(30_000 + 100 * number + seed, protocols);
            let case = Case { by_index: case.kind == Kind::Scan, together: true, ..case };
            let verdict = case.run().unwrap();
            assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
        }
    }
}

/// Transactions that only read, at a read frontier, beside the others, alone and with other protocols that keep read times.
#[test]
fn a_read_frontier_holds() {
    let keepers: Vec<Protocol> = Protocol::ALL.iter().copied().filter(|p| p.keeps_read_times()).collect();
    for seed in 0..300 {
        for protocols in [&[Protocol::Dynamic], &keepers[..]] {
            let case = Case { read_frontier: true, ..Case::draw(20_000 + seed, protocols) };
            for case in [case.clone(), splitting(case)] {
                let verdict = case.run().unwrap();
                assert!(matches!(verdict, Verdict::Holds { .. }), "{case}: {verdict:?}");
            }
        }
    }
}

/// Each bug is found within so many seeds, by a history that cannot be or by nobody's getting anywhere; and what is found by its history is
/// made smaller.
#[test]
fn planted_bugs_are_found() {
    use Protocol::*;
    let locking = [TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWoundWait];
    let optimistic = [Occ, TicToc, Swiss, Adaptive, F1, Sundial];
    let mut missed = Vec::new();
    let mut try_to_find = |bug: Bug, protocols: &[Protocol], seeds: u64| {
        // Rare: two must scan and insert, and the first must split the leaf that both rely on.
        let shape = |case: Case| match bug {
            Bug::SplitNotNoted => case.growing(),
            // As rare: a row must be split between two reads of one transaction that it makes impossible together, and
            // have been read whole at a later time by a third.
            Bug::SplitAtOldTime => Case {
                kind: Kind::Append,
                updates: Updates::Plain,
                index: IndexKind::Hash,
                granularity: Granularity::Splitting,
                by_index: false,
                together: false,
                hot_keys: 5,
                writes_per_key: 60,
                steps_max: 4,
                workers: 8,
                transactions: 60,
                escape_after: None,
                deadline: None,
                ..case
            },
            Bug::MadeWholeUnsealed => splitting(case),
            Bug::ExtendBlindly => Case { leases: Leases { extended_by: Some(0), write_times: 0 }, ..case },
            Bug::VersionsSkipped => Case { leases: Leases { extended_by: None, write_times: 3 }, ..case },
            Bug::FrontierSeenEarly | Bug::FrontierRaisedBlindly => {
                Case { read_frontier: true, by_index: false, together: false, ..case }
            }
            Bug::EntryLeft | Bug::EntryForgotten => Case { by_index: case.kind == Kind::Scan, ..case },
            Bug::AbsenceUnnoted => Case { together: true, ..case },
            // Rarer: one must read what another is about to write who gives up, and a third write it who began before both.
            Bug::ReadUnderIntentUnseen => Case {
                kind: Kind::Append,
                index: IndexKind::Hash,
                by_index: false,
                hot_keys: 3,
                writes_per_key: 60,
                steps_max: 6,
                workers: 8,
                transactions: 60,
                escape_after: None,
                deadline: None,
                ..case
            },
            _ => case,
        };
        let fault = |case: &Case| case.run_on(|builder| builder.plant(bug)).unwrap().fault();
        let names: Vec<_> = protocols.iter().map(|protocol| protocol.name()).collect();
        let found =
            (0..seeds).map(|seed| shape(Case::draw(seed, protocols))).find(|case| fault(case).is_some());
        let Some(found) = found else {
            missed.push(format!("{bug:?} under {names:?}"));
            return;
        };
        // The engine is not to blame for it.
        assert!(matches!(found.run().unwrap(), Verdict::Holds { .. }), "{found}");
        let first = fault(&found);
        let fails = |case: &Case| fault(case) == first;
        // (To be sure that a case comes to no end takes long.)
        let shrunk = || found.clone().shrink(fails);
        let smaller = if first == Some(Fault::Outcome) { shrunk() } else { found.clone() };
        assert!(fails(&smaller), "{smaller}");
        assert!(
            smaller.workers * smaller.transactions <= found.workers * found.transactions,
            "{bug:?}: {found}, then {smaller}"
        );
        println!("{bug:?} under {names:?}: {found}; smaller: {} x {}", smaller.workers, smaller.transactions);
    };
    for protocol in optimistic {
        if protocol != F1 {
            // There is nothing left to validate.
            try_to_find(Bug::SkipValidation, &[protocol], 20);
        }
        try_to_find(Bug::InstallBeforeLock, &[protocol], 20);
    }
    for protocol in Protocol::ALL {
        try_to_find(Bug::PanicWithLocks, &[*protocol], 100);
    }
    for protocol in [Occ, Swiss, Adaptive] {
        try_to_find(Bug::LocksIgnored, &[protocol], 100);
    }
    for protocol in locking {
        try_to_find(Bug::ReadUnlockedEarly, &[protocol], 100);
        try_to_find(Bug::UnlockBeforeInstall, &[protocol], 100);
    }
    for protocol in [TwoPhaseWaitDie, TwoPhaseWoundWait] {
        try_to_find(Bug::LostWakeup, &[protocol], 100);
    }
    for protocol in [TwoPhaseWaitDie, TwoPhaseWoundWait] {
        try_to_find(Bug::LostReaderWakeup, &[protocol], 100);
    }
    for protocol in [TwoPhaseWaitDie, TwoPhaseWoundWait, Swiss, Sundial] {
        try_to_find(Bug::QueueForgotten, &[protocol], 400);
    }
    for protocol in [TwoPhaseWaitDie, TwoPhaseWoundWait, Swiss, Sundial, Ranges] {
        try_to_find(Bug::HandedAndKept, &[protocol], 1_000);
    }
    try_to_find(Bug::SealWritesOnly, &[F1], 100);
    try_to_find(Bug::RenewBlindly, &[Sundial], 100);
    try_to_find(Bug::RenewSealed, &[Sundial], 400);
    try_to_find(Bug::InstalledInSight, &[Sundial], 10_000);
    try_to_find(Bug::ExtendBlindly, &[Sundial], 10_000);
    try_to_find(Bug::VersionsSkipped, &[Sundial], 10_000);
    try_to_find(Bug::ReadsForgotten, &[Fixed], 100);
    try_to_find(Bug::IntentNotMet, &[Fixed], 10_000);
    try_to_find(Bug::ReadUnderIntentUnseen, &[Fixed], 10_000);
    try_to_find(Bug::NothingKept, &[Fixed], 100);
    try_to_find(Bug::UnlockBeforeInstall, &[Fixed], 100);
    try_to_find(Bug::ReadersNotPushed, &[Dynamic], 100);
    try_to_find(Bug::MarkLeftEarly, &[Dynamic], 10_000);
    try_to_find(Bug::MarkLeftEarly, &[Ranges], 10_000);
    try_to_find(Bug::FrontierSeenEarly, &[Dynamic], 10_000);
    try_to_find(Bug::FrontierRaisedBlindly, &[Dynamic], 400);
    try_to_find(Bug::WriterNotMet, &[Ranges], 100);
    try_to_find(Bug::YoungerWaits, &[TwoPhaseWaitDie], 100);
    try_to_find(Bug::NobodyWounded, &[TwoPhaseWoundWait], 100);
    try_to_find(Bug::LookBeforeRaise, &[TicToc], 10_000);
    try_to_find(Bug::BoundNotMoved, &[TicToc], 400);
    try_to_find(Bug::BoundNotMoved, &[Sundial], 400);
    try_to_find(Bug::NaiveMix, &[Occ, TicToc, Sundial], 400);
    try_to_find(Bug::UpdateBeforeLock, &[Occ], 100);
    try_to_find(Bug::SkipLeafCheck, Protocol::ALL, 400);
    let with_leaves = [&optimistic[..4], &locking].concat();
    try_to_find(Bug::SplitNotNoted, &with_leaves, 10_000);
    try_to_find(Bug::TimesNotTakenOver, &[TicToc], 20_000);
    try_to_find(Bug::ReclaimedUnmarked, Protocol::ALL, 400);
    try_to_find(Bug::EntryLeft, Protocol::ALL, 100);
    try_to_find(Bug::EntryForgotten, Protocol::ALL, 100);
    try_to_find(Bug::AbsenceUnnoted, Protocol::ALL, 100);
    try_to_find(Bug::MadeWholeUnsealed, &[Occ], 400);
    try_to_find(Bug::MadeWholeUnsealed, &locking, 2_000);
    try_to_find(Bug::SplitAtOldTime, &[TicToc], 10_000);
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// A schedule in which a bug shows is made into one of a few turns, in which it still shows, and only if it is there.
#[test]
fn bugs_show_in_a_few_turns() {
    use Protocol::*;
    for (bug, protocol, turns_max) in [
        (Bug::SkipValidation, TicToc, 8),
        (Bug::LocksIgnored, Occ, 8),
        (Bug::UnlockBeforeInstall, TwoPhaseNoWait, 8),
        (Bug::ReadsForgotten, Fixed, 8),
        (Bug::ReadersNotPushed, Dynamic, 8),
    ] {
        let fault = |case: &Case| case.run_on(|builder| builder.plant(bug)).unwrap().fault();
        let found =
            (0..).map(|seed| Case::draw(seed, &[protocol])).find(|case| fault(case).is_some()).unwrap();
        let first = fault(&found);
        let fails = |case: &Case| fault(case) == first;
        let smaller = found.clone().shrink(fails);
        let told = smaller.clone().shorten_on(|builder| builder.plant(bug), fails).unwrap();
        let turns = told.turns().unwrap_or_else(|| panic!("{bug:?}: {told} does not fail by its turns"));
        assert!(turns.as_slice().len() <= turns_max, "{bug:?}: {told}: {turns}");
        assert!(fails(&told), "{bug:?}: {told}");
        assert!(matches!(told.run().unwrap(), Verdict::Holds { .. }), "{bug:?}: {told}");
        // What is told can be read, and told again.
        assert_eq!(turns.to_string().parse().as_ref(), Ok(turns));
        let story = told.story().unwrap();
        let words = ["T0; begins as ", " commits", " to "];
        assert!(words.iter().all(|word| story.contains(word)), "{story}");
    }
}

/// What panics is a verdict like any other: it says where, and the turns in which it happened, and the thread goes on.
#[test]
fn a_panic_is_told() {
    let fault = |case: &Case| case.run_on(|builder| builder.plant(Bug::PanicWithLocks)).unwrap();
    let is_one = |case: &Case| fault(case).fault() == Some(Fault::Panicked);
    let mut cases = (0..).map(|seed| Case::draw(seed, &[Protocol::TwoPhaseWoundWait]));
    let smaller = cases.find(is_one).unwrap().shrink(is_one);
    let told = smaller.shorten_on(|builder| builder.plant(Bug::PanicWithLocks), is_one).unwrap();
    let Verdict::Broken(_, words) = fault(&told) else { panic!("{told}") };
    assert!(words.contains("commit.rs:") && words.ends_with("as planted"), "{words}");
    assert!(told.turns().is_some_and(|turns| turns.as_slice().len() <= 8), "{told}");
    let panicked = ClusterCase::draw(1, Protocol::ALL).run_on(|_| panic!("as planted")).unwrap();
    assert_eq!(panicked.fault(), Some(Fault::Panicked));
}
