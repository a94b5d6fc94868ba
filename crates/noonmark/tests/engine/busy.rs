//! What is locked for a moment, and who asks for it again.

use crate::stage_support::{At, builder, interrupted, sessions, swaps, table};
use noonmark::Protocol;

const TURNS: u32 = 50;

/// Whoever has read a row and finds it locked when he seals it looks again before each further swap: a swap takes the line from the one
/// who is about to let go of it.
#[test]
fn whoever_asks_again_looks_before_he_swaps() {
    for protocol in [Protocol::Occ, Protocol::TicToc, Protocol::F1] {
        let mut met_a_lock = 0;
        for touch in 0..20 {
            let db = builder().busy_turns_max(TURNS).build().unwrap();
            let rows = table(&db, "rows", protocol);
            let [mut one, mut other] = sessions(&db);
            one.transact(|tx| tx.insert(&rows, 1, 0)).unwrap();
            let (mut one, mut other) = (one.begin(), other.begin());
            one.update(&rows, 1, |value| *value += 1).unwrap();
            other.update(&rows, 1, |value| *value += 1).unwrap();
            let mut outcome = None;
            let meanwhile = || {
                let before = swaps();
                let committed = other.commit();
                outcome = Some((committed, swaps() - before));
            };
            let committed = interrupted(At::Touch(touch), meanwhile, || one.commit());
            let Some((other_committed, swaps)) = outcome else { break };
            assert!(committed.is_ok() != other_committed.is_ok(), "{protocol}: one of two who read the same");
            if other_committed.as_ref().is_err_and(|abort| abort.to_string().contains("locked by")) {
                met_a_lock += 1;
                assert!(swaps <= 2, "{protocol}: {swaps} swaps in {TURNS} turns");
            }
        }
        assert!(met_a_lock > 0, "{protocol}");
    }
}
