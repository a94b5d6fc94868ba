//! Traces once more on virtual cores: everything commits, the same each time, and groupings do what they are for.

use noonmark::Protocol;
use noonmark_sim::Machine;
use noonmark_sim::replay::{Choice, Figures, Setting, replay};
use noonmark_sim::trace::{Step, Trace, TracedTable};

const SETTING: Setting = Setting { machine: Machine::GRANULARITY, cores: 8, seed: 1 };

fn table(name: &str, groups: usize, was_there: &[bool], is_scanned: bool) -> TracedTable {
    TracedTable {
        name: name.into(),
        groups: (0..groups).map(|group| format!("g{group}")).collect(),
        is_index: false,
        is_scanned,
        is_changed: true,
        was_there: was_there.to_vec(),
        stays: was_there.to_vec(),
    }
}

/// Transactions that change one of the groups of the same row, each in turn, and read ten rows that nobody changes.
fn of_one_row(groups: usize) -> Trace {
    let steps = |at: u32| {
        let bit = 1 << (at as usize % groups);
        let hot = Step::Row { table: 0, row: 0, reads: bit, writes: bit };
        let cold =
            (1..=10).map(|nth| Step::Row { table: 0, row: 1 + (at * 10 + nth) % 500, reads: bit, writes: 0 });
        std::iter::once(hot).chain(cold).collect()
    };
    Trace {
        tables: vec![table("t", groups, &[true; 501], false)],
        transactions: (0..2_000).map(steps).collect(),
        left_out: 0,
    }
}

fn again(trace: &Trace, choices: &[Choice]) -> Figures {
    let figures = replay(trace, choices, &SETTING).unwrap();
    assert_eq!(figures.committed, trace.transactions.len() as u64, "{choices:?}: {figures:?}");
    assert_eq!(figures.limit, None, "{choices:?}");
    figures
}

#[test]
fn groups_that_stand_apart_do_not_conflict() {
    for groups in 2..=8 {
        let trace = of_one_row(groups);
        let figures = |choice: Choice| again(&trace, &[choice]);
        let table = &trace.tables[0];
        let coarse = figures(Choice::coarse(Protocol::Occ, table));
        let fine = figures(Choice::fine(Protocol::Occ, table));
        assert!(fine.aborted < coarse.aborted, "{groups} groups: {fine:?}, {coarse:?}");
        assert!(fine.per_s() > coarse.per_s(), "{groups} groups: {fine:?}, {coarse:?}");
        assert_eq!(figures(Choice::coarse(Protocol::Occ, table)), coarse);
        // In two parts: between the two.
        let part_of = (0..groups as u8).map(|group| group % 2).collect();
        let halves = figures(Choice { protocol: Protocol::Occ, part_of, splits_itself: false });
        assert!(
            halves.aborted < coarse.aborted && halves.aborted >= fine.aborted,
            "{groups} groups: {halves:?}"
        );
        let splitting = figures(Choice::splitting(Protocol::Occ, table));
        assert!(splitting.aborted < coarse.aborted, "{groups} groups: {splitting:?}");
    }
}

/// Rows are put in, found, changed, scanned and taken out, in two tables; not all that is looked for is there.
fn of_rows_that_come_and_go() -> Trace {
    let there: Vec<bool> = (0..64).map(|row| row % 2 == 0).collect();
    let mut ordered = table("ordered", 2, &there, true);
    let hashed = table("hashed", 3, &there, false);
    ordered.stays = vec![false; 64];
    let transaction = |at: u32| {
        let (row, other) = ((at * 7 + at / 4) % 64, at * 13 % 64);
        let change = match at % 4 {
            0 => Step::Insert { table: 0, row },
            1 => Step::Delete { table: 0, row },
            2 => Step::Row { table: 0, row, reads: 3, writes: 3 },
            _ => Step::Row { table: 0, row, reads: 0, writes: 2 },
        };
        let scan =
            Step::Scan { table: 0, low: row.min(other), high: row.max(other), groups: 1 + at as u8 % 3 };
        let all = Step::Row { table: 1, row: other / 2 * 2, reads: 7, writes: at as u8 % 8 };
        vec![change, scan, all, Step::Row { table: 1, row: other, reads: 5, writes: 0 }]
    };
    Trace { tables: vec![ordered, hashed], transactions: (0..300).map(transaction).collect(), left_out: 0 }
}

#[test]
fn rows_come_and_go_under_every_protocol_and_in_mixes() {
    let trace = of_rows_that_come_and_go();
    let mut missed = 0;
    for &protocol in Protocol::ALL {
        for of in [Choice::coarse, Choice::fine, Choice::splitting] {
            let choices: Vec<Choice> = trace.tables.iter().map(|table| of(protocol, table)).collect();
            if choices[0].splits_itself && protocol.keeps_versions() {
                assert!(replay(&trace, &choices, &SETTING).is_err());
                continue;
            }
            missed += again(&trace, &choices).missed;
        }
        if protocol.mixes_with(Protocol::Occ) {
            again(
                &trace,
                &[Choice::fine(protocol, &trace.tables[0]), Choice::coarse(Protocol::Occ, &trace.tables[1])],
            );
        }
    }
    assert!(missed > 0, "rows that are not there are looked for");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let trace = of_rows_that_come_and_go();
    let choices =
        [Choice::fine(Protocol::Fixed, &trace.tables[0]), Choice::fine(Protocol::Occ, &trace.tables[1])];
    assert!(replay(&trace, &choices, &SETTING).is_err());
    assert!(replay(&trace, &choices[..1], &SETTING).is_err());
    let too_many = Setting { cores: 100_000, ..SETTING };
    let choices: Vec<Choice> = trace.tables.iter().map(|table| Choice::fine(Protocol::Occ, table)).collect();
    assert!(replay(&trace, &choices, &too_many).is_err());
}
