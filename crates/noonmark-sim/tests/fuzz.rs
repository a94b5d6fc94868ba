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

/// Each bug is found within so many seeds, by a history that cannot be or by nobody's getting anywhere; and what is found is
/// made smaller.
#[test]
fn planted_bugs_are_found() {
    for (bug, protocols, seeds) in [
        (Bug::SkipValidation, Protocol::ALL, 20),
        (Bug::InstallBeforeLock, Protocol::ALL, 20),
        (Bug::SkipLeafCheck, Protocol::ALL, 400),
        (Bug::NaiveMix, Protocol::ALL, 400),
        (Bug::SealWritesOnly, &[Protocol::F1], 100),
        (Bug::RenewBlindly, &[Protocol::Sundial], 100),
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
