//! The fuzzer: what it finds in an engine that is broken on purpose, and that it finds nothing in the one that is not.

use noonmark::{Bug, Protocol};
use noonmark_sim::fuzz::{Case, Verdict};

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

/// Each bug is found within so many seeds, by a history that cannot be or by nobody's getting anywhere; and what is found is
/// made smaller.
#[test]
fn planted_bugs_are_found() {
    let all = Protocol::ALL;
    for (bug, protocols, seeds) in [
        (Bug::SkipValidation, all, 20),
        (Bug::InstallBeforeLock, all, 20),
        (Bug::SkipLeafCheck, all, 400),
        (Bug::NaiveMix, all, 400),
        (Bug::BoundNotMoved, &[Protocol::Dynamic], 100),
        (Bug::MarkLeftEarly, &[Protocol::Dynamic], 800),
        (Bug::MarkLeftEarly, &[Protocol::Ranges], 400),
        (Bug::WriterNotMet, &[Protocol::Ranges], 100),
    ] {
        let fails = |case: &Case| {
            let verdict = case.run_on(|builder| builder.plant(bug)).unwrap();
            matches!(verdict, Verdict::Broken(_))
        };
        let found = (0..seeds).map(|seed| Case::draw(seed, protocols)).find(&fails);
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        let smaller = found.shrink(fails);
        assert!(fails(&smaller), "{smaller}");
        assert!(
            smaller.workers * smaller.transactions <= found.workers * found.transactions,
            "{bug:?}: {found}, then {smaller}"
        );
        println!("{bug:?}: {found}; smaller: {} x {}", smaller.workers, smaller.transactions);
    }
}
