//! Every interleaving of two and three small transactions, under every protocol and every mix of two,
//! judged against all serial orders.
//!
//! One thread plays all transactions, so each run is one order of whole operations; what may happen
//! within an operation is for `tests/shuttle.rs`. Whoever would have to wait aborts.

use crate::attack_support::{
    Alone, Menu, Model, Numbers, Op, Part, Setup, Txn, interleavings, is_explained, run_schedule, told,
};
use noonmark::{Bug, Database, Granularity, IndexKind, Leases, Order, Protocol};
use std::time::Duration;

/// What came of the transactions of all runs.
#[derive(Default, Debug)]
struct Tally {
    runs: u64,
    ended: u64,
    begun: u64,
}

fn run(
    setup: &Setup,
    menu: Menu,
    programs: &[Vec<Op>],
    schedule: &[u8],
    bug: Option<Bug>,
) -> (Model, Vec<Txn>, Model) {
    let mut builder = Database::builder()
        .split_after(1)
        .look_at_splits_every(3)
        .whole_after(Duration::ZERO)
        .max_sessions(programs.len() + 1)
        .host(Alone::default());
    if let Some(bug) = bug {
        builder = builder.plant(bug);
    }
    let (db, tables, before) = setup.build(builder);
    let (txns, after) = run_schedule(&db, &tables, programs, schedule, menu.keys);
    (before, txns, after)
}

fn attack(setup: &Setup, menu: Menu, programs: &[Vec<Op>], tally: &mut Tally) {
    let lengths: Vec<usize> = programs.iter().map(|p| p.len() + 1).collect();
    interleavings(&lengths, &mut |schedule| {
        let (before, txns, after) = run(setup, menu, programs, schedule, None);
        tally.runs += 1;
        tally.begun += programs.len() as u64;
        tally.ended += txns.len() as u64;
        assert!(
            is_explained(&before, &txns, &after, setup.is_strict()),
            "schedule {schedule:?}\n{}",
            told(setup, &before, &txns, &after)
        );
    });
}

/// All setups of these tables that should make no difference.
fn setups(protocols: &[Protocol]) -> Vec<Setup> {
    let mut setups = Vec::new();
    for (index, granularity) in [
        (IndexKind::Ordered, Granularity::Fine),
        (IndexKind::Ordered, Granularity::Coarse),
        (IndexKind::Hash, Granularity::Splitting),
        (IndexKind::Hash, Granularity::Fine),
    ] {
        if granularity == Granularity::Splitting && protocols.iter().any(|p| p.keeps_versions()) {
            continue;
        }
        for bumps in [0, 2] {
            setups.push(Setup { index, granularity, bumps, ..Setup::of(protocols) });
        }
    }
    setups
}

/// Draws programs for these tables and runs them all.
fn attack_tables(protocols: &[Protocol], order: Option<Order>, draws: u64, shape: &[usize]) -> Tally {
    attack_leased(protocols, Leases::default(), order, draws, shape)
}

/// The same, if they are leased in this way.
fn attack_leased(
    protocols: &[Protocol],
    leases: Leases,
    order: Option<Order>,
    draws: u64,
    shape: &[usize],
) -> Tally {
    let mut tally = Tally::default();
    for (number, setup) in setups(protocols).into_iter().enumerate() {
        let ordered = setup.index == IndexKind::Ordered;
        let secondary = ordered && number % 4 == 0;
        let setup = Setup { leases, order, secondary, rows: vec![1, 2], ..setup };
        let menu = Menu { tables: protocols.len(), keys: 3, scans: ordered, secondary };
        for seed in 0..draws {
            let mut numbers = Numbers(seed * 100 + number as u64);
            let programs: Vec<Vec<Op>> = shape.iter().map(|&steps| menu.draw(&mut numbers, steps)).collect();
            attack(&setup, menu, &programs, &mut tally);
        }
    }
    tally
}

fn enough(tally: &Tally, protocols: &[Protocol]) {
    // Were most transactions aborted, nothing would be shown.
    assert!(tally.ended * 10 > tally.begun * 4, "{protocols:?}: {tally:?}");
}

#[test]
fn two_transactions_under_each_protocol() {
    for &protocol in Protocol::ALL {
        for shape in [[2, 2], [3, 3], [2, 4]] {
            let tally = attack_tables(&[protocol], None, 30, &shape);
            enough(&tally, &[protocol]);
        }
    }
}

#[test]
fn three_transactions_under_each_protocol() {
    for &protocol in Protocol::ALL {
        enough(&attack_tables(&[protocol], None, 2, &[2, 2, 2]), &[protocol]);
    }
}

#[test]
fn logical_and_momentary_databases_of_those_who_keep_read_times() {
    let [tictoc, sundial] = [Protocol::TicToc, Protocol::Sundial];
    for order in [Order::Logical, Order::Momentary] {
        for shape in [&[3, 3][..], &[2, 2, 2][..], &[3, 1, 2]] {
            let draws = if shape.len() == 2 { 40 } else { 4 };
            for tables in [[tictoc; 2], [sundial; 2], [tictoc, sundial]] {
                enough(&attack_tables(&tables, Some(order), draws, shape), &tables);
            }
            for tables in [
                [Protocol::Dynamic; 2],
                [Protocol::Ranges; 2],
                [Protocol::Dynamic, Protocol::Ranges],
                [sundial, Protocol::Dynamic],
                [sundial, Protocol::Ranges],
            ] {
                enough(&attack_tables(&tables, Some(order), draws / 2, shape), &tables);
            }
        }
    }
}

/// Leases that are extended while executing, and write times that are kept, also beside tables without.
#[test]
fn options_of_leases() {
    use Protocol::{Dynamic, Ranges, Sundial, TicToc};
    for (extended_by, write_times) in [(Some(0), 0), (None, 1), (Some(2), 3)] {
        let leases = Leases { extended_by, write_times };
        for (order, shape) in
            [(Order::Logical, &[3, 3][..]), (Order::Logical, &[2, 2, 2][..]), (Order::Momentary, &[3, 3][..])]
        {
            let draws = if shape.len() == 2 { 20 } else { 2 };
            for tables in [&[Sundial][..], &[Sundial, TicToc], &[Sundial, Dynamic], &[Ranges, Sundial]] {
                enough(&attack_leased(tables, leases, Some(order), draws, shape), tables);
            }
        }
    }
}

#[test]
fn every_mix_of_two_protocols() {
    let all = Protocol::all_that_mix();
    for (number, &first) in all.iter().enumerate() {
        for &second in &all[number + 1..] {
            enough(&attack_tables(&[first, second], None, 6, &[3, 3]), &[first, second]);
        }
        let second = all[(number + 1) % all.len()];
        enough(&attack_tables(&[first, second], None, 1, &[2, 2, 1]), &[first, second]);
    }
}

/// How many of all interleavings of these programs no serial order explains.
fn unexplained(protocol: Protocol, programs: &[Vec<Op>], bug: Option<Bug>) -> usize {
    let setup = Setup::of(&[protocol]);
    let menu = Menu { tables: 1, keys: 9, scans: true, secondary: false };
    let lengths: Vec<usize> = programs.iter().map(|p| p.len() + 1).collect();
    let mut found = 0;
    interleavings(&lengths, &mut |schedule| {
        let (before, txns, after) = run(&setup, menu, programs, schedule, bug);
        found += usize::from(!is_explained(&before, &txns, &after, setup.is_strict()));
    });
    found
}

/// Protocols whose reads are validated; the others lock.
const VALIDATING: [Protocol; 5] =
    [Protocol::Occ, Protocol::TicToc, Protocol::Swiss, Protocol::Adaptive, Protocol::Sundial];

#[test]
fn reads_that_are_not_validated_are_found() {
    // Write skew.
    let programs = [
        vec![Op::Get(0, 1, Part::Row), Op::Update(0, 2, Part::Row)],
        vec![Op::Get(0, 2, Part::Row), Op::Update(0, 1, Part::Row)],
    ];
    for protocol in VALIDATING {
        assert_eq!(unexplained(protocol, &programs, None), 0, "{protocol}");
        assert!(unexplained(protocol, &programs, Some(Bug::SkipValidation)) > 0, "{protocol}");
    }
}

#[test]
fn leases_of_replaced_versions_that_are_renewed_are_found() {
    let programs = [
        vec![Op::Get(0, 1, Part::Row), Op::Update(0, 2, Part::Row)],
        vec![Op::Get(0, 2, Part::Row), Op::Update(0, 1, Part::Row)],
    ];
    assert!(unexplained(Protocol::Sundial, &programs, Some(Bug::RenewBlindly)) > 0);
}

#[test]
fn leaves_that_are_not_looked_at_again_are_found() {
    // Two phantoms: each scans what the other inserts.
    let programs = [vec![Op::Scan(0, 3, 9), Op::Upsert(0, 8)], vec![Op::Scan(0, 3, 9), Op::Upsert(0, 9)]];
    for &protocol in Protocol::ALL {
        assert_eq!(unexplained(protocol, &programs, None), 0, "{protocol}");
        assert!(unexplained(protocol, &programs, Some(Bug::SkipLeafCheck)) > 0, "{protocol}");
    }
}

#[test]
fn values_that_are_installed_without_a_lock_are_found() {
    let programs = [
        vec![Op::Get(0, 1, Part::Row), Op::Update(0, 2, Part::Row)],
        vec![Op::Get(0, 2, Part::Row), Op::Update(0, 1, Part::Row)],
    ];
    for protocol in VALIDATING {
        assert!(unexplained(protocol, &programs, Some(Bug::InstallBeforeLock)) > 0, "{protocol}");
    }
}

#[test]
fn ranges_that_are_not_parted_are_found() {
    // One sees half of what the other writes; or each reads what the other writes.
    let torn = [
        vec![Op::Get(0, 1, Part::Row), Op::Get(0, 2, Part::Row)],
        vec![Op::Update(0, 1, Part::Row), Op::Update(0, 2, Part::Row)],
    ];
    let late = [
        vec![Op::Get(0, 1, Part::Row), Op::Get(0, 2, Part::Row)],
        vec![Op::Apply(0, 1, Part::A), Op::Apply(0, 2, Part::A)],
    ];
    for (protocol, bug, programs) in [
        (Protocol::Dynamic, Bug::ReadersNotPushed, &torn),
        (Protocol::Dynamic, Bug::ReadersNotPushed, &late),
        (Protocol::Ranges, Bug::WriterNotMet, &torn),
    ] {
        assert_eq!(unexplained(protocol, programs, None), 0, "{protocol}");
        assert!(unexplained(protocol, programs, Some(bug)) > 0, "{protocol}: {bug:?}");
    }
}
