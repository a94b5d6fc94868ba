//! The plays: the scenarios of the paper, and bugs that they find.

use super::*;
use crate::{Dcotl, DcotlSf, Dctl, DctlSf, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf};
use Kind::{Cancelled, Irrevocable, Speculative, View};
use Op::{Read, Write};

const A: usize = 0;
const B: usize = 1;

fn opaque<C: Control>(play: &Play) -> Outcome {
    let mut play = play.clone();
    if C::NAME == TicToc::NAME {
        play.promise = Promise::Serializable;
    }
    if [TinyStm::NAME, TicToc::NAME].contains(&C::NAME) {
        // It looks before it copies. There are many more orders: of fewer steps.
        play.before_copies = true;
        play.steps_max = play.steps_max.min(13);
    }
    let outcome = play.run::<C>();
    assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap_or_default());
    assert!(outcome.orders > 1, "{outcome:?}");
    outcome
}

/// The four scenarios of §4 (Figure 1), and those of §5: under every control.
fn scenarios<C: Control>() {
    let one = Speculative;
    for locks in [&[0, 1][..], &[0, 0]] {
        for play in [
            // First: two reads against two writes (cases 1 to 6), logged and not.
            Play::new(locks, &[&[(one, &[Read(A), Read(B)])], &[(one, &[Write(A), Write(B)])]]),
            Play::new(locks, &[&[(View, &[Read(A), Read(B)])], &[(one, &[Write(A), Write(B)])]]),
            // Second: a write and a read each, crosswise (7 to 12).
            Play::new(locks, &[&[(one, &[Write(A), Read(B)])], &[(one, &[Write(B), Read(A)])]]),
            // Third: a read and a write each, crosswise: write skew (13 and on).
            Play::new(locks, &[&[(one, &[Read(A), Write(B)])], &[(one, &[Read(B), Write(A)])]]),
            // Fourth: reads only.
            Play::new(locks, &[&[(one, &[Read(A), Read(B)])], &[(View, &[Read(B), Read(A)])]]),
            // Lost update, and one part of what a lock guards overwritten, the other read.
            Play::new(locks, &[&[(one, &[Read(A), Write(A)])], &[(one, &[Read(A), Write(A)])]]),
            Play::new(locks, &[&[(one, &[Write(A), Read(B), Read(A)])], &[(one, &[Write(B)])]]),
            Play::new(locks, &[&[(one, &[Read(B), Write(A), Read(B)])], &[(one, &[Write(B)])]]),
            // What is undone, and who may have seen it.
            Play::new(locks, &[&[(View, &[Read(A), Read(B)])], &[(Cancelled, &[Write(A), Write(B)])]]),
            Play::new(locks, &[&[(one, &[Read(A), Write(B)])], &[(Cancelled, &[Write(A), Write(B)])]]),
        ] {
            opaque::<C>(&play);
        }
    }
    // Two transactions of one thread, the second of which may read what the first has left.
    for script in [&[Read(A), Read(B)][..], &[Write(A), Read(B)], &[Read(A), Write(B)]] {
        opaque::<C>(&Play::new(
            &[0, 1],
            &[&[(one, &[Write(A)]), (one, script)], &[(one, &[Write(A), Write(B)])]],
        ));
        opaque::<C>(&Play::new(
            &[0, 1],
            &[&[(Cancelled, &[Write(A)]), (View, &[Read(B), Read(A)])], &[(one, &[Write(A), Write(B)])]],
        ));
    }
    // Three, where the third sees what the first two did.
    opaque::<C>(&Play {
        steps_max: 9,
        ..Play::new(
            &[0, 1],
            &[&[(one, &[Read(A), Write(B)])], &[(one, &[Write(A)])], &[(View, &[Read(B), Read(A)])]],
        )
    });
}

#[test]
fn the_scenarios_of_section_4_are_opaque_under_dctl() {
    scenarios::<Dctl>();
}

#[test]
fn the_scenarios_of_section_4_are_opaque_under_dcotl() {
    scenarios::<Dcotl>();
}

#[test]
fn the_scenarios_of_section_4_are_opaque_under_dctl_sf() {
    scenarios::<DctlSf>();
}

#[test]
fn the_scenarios_of_section_4_are_opaque_under_dcotl_sf() {
    scenarios::<DcotlSf>();
}

#[test]
fn the_scenarios_of_section_4_are_opaque_under_the_rivals() {
    scenarios::<Tl2Gv4>();
    scenarios::<Tl2Gv5>();
    scenarios::<TinyStm>();
    scenarios::<TwoPlSf>();
}

#[test]
fn the_scenarios_of_section_4_are_serializable_under_tictoc() {
    scenarios::<TicToc>();
}

/// Why it is no control for closures: an attempt that will come to nothing sees half of what another one wrote.
#[test]
fn tictoc_is_not_opaque() {
    let one = Speculative;
    let reads = Play::new(&[0, 1], &[&[(one, &[Read(A), Read(B)])], &[(one, &[Write(A), Write(B)])]]);
    assert!(reads.run::<TicToc>().failure.is_some());
    assert!(reads.run::<Tl2Gv4>().failure.is_none());
}

/// A transaction whose time is moved on goes on where others restart.
#[test]
fn an_extension_spares_a_restart() {
    let play = Play::new(&[0, 1], &[&[(Speculative, &[Read(A), Read(B)])], &[(Speculative, &[Write(B)])]]);
    let (tiny, tl2) = (opaque::<TinyStm>(&play), opaque::<Tl2Gv4>(&play));
    assert!(tiny.restarts < tl2.restarts, "{tiny:?} {tl2:?}");
}

/// §5: beside an irrevocable transaction, which is never interrupted, and waits for nobody for ever.
fn irrevocable_scenarios<C: Control>() {
    let (one, sure) = (Speculative, Irrevocable);
    for locks in [&[0, 1][..], &[0, 0]] {
        for script in
            [&[Read(A), Read(B)][..], &[Write(A), Read(B)], &[Read(B), Write(A)], &[Write(B), Write(A)]]
        {
            for other in
                [&[Write(A), Write(B)][..], &[Read(A), Write(B)], &[Write(A), Read(B)], &[Read(A), Write(A)]]
            {
                opaque::<C>(&Play::new(locks, &[&[(sure, script)], &[(one, other)]]));
            }
            opaque::<C>(&Play::new(locks, &[&[(sure, script)], &[(View, &[Read(A), Read(B)])]]));
            opaque::<C>(&Play::new(locks, &[&[(sure, script)], &[(Cancelled, &[Write(A), Write(B)])]]));
            opaque::<C>(&Play::new(locks, &[&[(sure, script)], &[(sure, &[Read(B), Write(A)])]]));
        }
    }
    // At a desk that has been used before, which knows a time, and has left something itself.
    for before in [&[Read(A)][..], &[Write(A)], &[Write(A), Write(B)]] {
        for script in [&[Read(A), Read(B)][..], &[Read(A), Write(A)]] {
            let other = &[(one, &[Write(A), Write(B)][..]), (one, &[Read(A), Read(B)])];
            opaque::<C>(&Play::new(&[0, 1], &[&[(one, before), (sure, script)], other]));
        }
    }
    // Read twice, and read before it is written: one bit, set once and cleared once.
    opaque::<C>(&Play::new(
        &[0, 1],
        &[&[(sure, &[Read(A), Read(A), Write(A), Read(A)]), (one, &[Write(A)])], &[(one, &[Write(A)])]],
    ));
}

#[test]
fn beside_an_irrevocable_transaction_all_are_opaque_under_dctl_sf() {
    irrevocable_scenarios::<DctlSf>();
}

#[test]
fn beside_an_irrevocable_transaction_all_are_opaque_under_dcotl_sf() {
    irrevocable_scenarios::<DcotlSf>();
}

#[test]
fn beside_an_irrevocable_transaction_all_are_opaque_under_2plsf() {
    irrevocable_scenarios::<TwoPlSf>();
}

/// DCOTL's point (§3.2): consecutive writes of the same advance nothing; DCTL's do.
#[test]
fn overwriting_advances_the_clock_under_dctl_and_not_under_dcotl() {
    let play = Play::new(&[0], &[&[(Speculative, &[Write(A)])], &[(Speculative, &[Write(A)])]]);
    assert!(opaque::<Dctl>(&play).clock_max > 1);
    assert_eq!(opaque::<Dcotl>(&play).clock_max, 1);
    assert_eq!(opaque::<DcotlSf>(&play).clock_max, 1);
    // Disjoint ones advance nothing under any.
    let disjoint =
        Play::new(&[0, 1], &[&[(Speculative, &[Read(A), Write(A)])], &[(Speculative, &[Read(B), Write(B)])]]);
    for outcome in [opaque::<Dctl>(&disjoint), opaque::<DctlSf>(&disjoint), opaque::<Dcotl>(&disjoint)] {
        assert_eq!((outcome.clock_max, outcome.restarts), (1, 0));
    }
}

/// A test that cannot fail proves nothing.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_found() {
    let one = Speculative;
    let finds = |bug, play: Play| {
        let play = Play { bug: Some(bug), ..play };
        let found = [play.run::<Dctl>(), play.run::<Dcotl>(), play.run::<DctlSf>(), play.run::<DcotlSf>()];
        found.map(|outcome| outcome.failure.is_some())
    };
    let skew = Play::new(&[0, 1], &[&[(one, &[Read(A), Write(B)])], &[(one, &[Read(B), Write(A)])]]);
    assert_eq!(finds(Bug::SkipValidation, skew), [true; 4]);
    let reads = || Play::new(&[0, 1], &[&[(View, &[Read(A), Read(B)])], &[(one, &[Write(A), Write(B)])]]);
    assert_eq!(finds(Bug::SkipPostValidation, reads()), [true; 4]);
    assert_eq!(finds(Bug::CommitKeepsTime, reads()), [true; 4]);
    let rivals = |bug, play: Play| {
        let play = Play { bug: Some(bug), ..play };
        [play.run::<Tl2Gv4>(), play.run::<Tl2Gv5>(), play.run::<TinyStm>()].map(|o| o.failure.is_some())
    };
    for bug in [Bug::SkipPostValidation, Bug::CommitKeepsTime] {
        assert_eq!(rivals(bug, reads()), [true; 3], "{bug:?}");
    }
    let skew = Play::new(&[0, 1], &[&[(one, &[Read(A), Write(B)])], &[(one, &[Read(B), Write(A)])]]);
    assert_eq!(rivals(Bug::SkipValidation, skew.clone()), [true; 3]);
    // Twice: for a reader who looks first it is only then that the word comes back, with the same slot in it.
    let twice = (Cancelled, &[Write(A)][..]);
    let undone = Play::new(&[0], &[&[(View, &[Read(A)])], &[twice, twice]]);
    let undone = Play { before_copies: true, ..undone };
    assert_eq!(rivals(Bug::UndoKeepsTime, undone), [true; 3]);
    let undone = Play::new(&[0, 1], &[&[(View, &[Read(A)])], &[(Cancelled, &[Write(A)])]]);
    assert_eq!(finds(Bug::UndoKeepsTime, undone.clone()), [true; 4]);
    let locking = |bug, play: Play| Play { bug: Some(bug), ..play }.run::<TwoPlSf>().failure.is_some();
    assert!(locking(Bug::SkipPostValidation, reads()));
    assert!(locking(Bug::SkipReaders, reads()));
    assert!(locking(Bug::SkipRecord, reads()));
    for (bug, play) in [
        (Bug::SkipPostValidation, reads()),
        (Bug::SkipValidation, skew),
        (Bug::CommitKeepsTime, reads()),
        (Bug::UndoKeepsTime, undone),
    ] {
        let play = Play { bug: Some(bug), promise: Promise::Serializable, before_copies: true, ..play };
        assert!(play.run::<TicToc>().failure.is_some(), "{bug:?}");
    }
    // Only DCOTL locks what it could not have read.
    let lost = Play::new(&[0], &[&[(one, &[Read(A), Write(A)])], &[(one, &[Read(A), Write(A)])]]);
    assert_eq!(finds(Bug::AlwaysConsistent, lost), [false, true, false, true]);
    let part =
        Play::new(&[0, 0, 1], &[&[(one, &[Read(2), Write(A), Read(B)])], &[(one, &[Write(B), Write(2)])]]);
    assert_eq!(finds(Bug::AlwaysConsistent, part), [false, true, false, true]);
}
