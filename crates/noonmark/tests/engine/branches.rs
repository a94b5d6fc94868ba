//! Branches: what is particular to transactions that are carried from elsewhere.

use noonmark::branch::{
    Branch, BranchHost, NumberUpdate, PlainUpdate, UntypedTable, Values, Vote, entry_bounds,
};
use noonmark::{
    AbortKind, Age, Bug, Builder, Column, Database, Fold, Granularity, Key, KeyBytes, Protocol, SlotId,
    TableOptions, Timestamp,
};

/// A table with an index of its values, and two branches: of an older and a younger transaction.
struct Stage {
    rows: UntypedTable,
    entries: UntypedTable,
    older: Branch<BranchHost>,
    younger: Branch<BranchHost>,
}

const ROW: u64 = 1;

fn begin(branch: &mut Branch<BranchHost>, age: u64) {
    assert!(branch.begin(Age::new(age, SlotId::NOBODY), Timestamp::ZERO).is_some());
}

fn commit(branch: &mut Branch<BranchHost>) {
    let at = branch.seal().unwrap();
    assert_eq!(branch.prepare(at).unwrap(), Vote::Yes);
    branch.install(at).unwrap();
}

impl Stage {
    /// With one row that holds 10.
    fn new(build: impl Fn(Builder<BranchHost>) -> Builder<BranchHost>) -> Self {
        let db = build(Database::builder().host(BranchHost::new(1))).build().unwrap();
        let options = TableOptions::new().protocol(Protocol::TwoPhaseWaitDie);
        let table = db.create_table::<u64, i64>("table", options).unwrap();
        let index = table.create_index(&db, "by value", |_, value| *value).unwrap();
        let [older, younger] = [(); 2].map(|()| Branch::new(&db).unwrap());
        let (rows, entries) = (UntypedTable::of(&table), UntypedTable::of_index(&index));
        let mut stage = Stage { rows, entries, older, younger };
        stage.begin();
        let put = stage.older.insert(&stage.rows, KeyBytes::of(&ROW).as_slice(), &Values::of(&10_i64), false);
        assert!(put.unwrap());
        stage.younger.roll_back();
        stage.commit_older();
        stage
    }

    fn begin(&mut self) {
        for (age, branch) in [(1, &mut self.older), (2, &mut self.younger)] {
            begin(branch, age);
        }
    }

    fn commit_older(&mut self) {
        commit(&mut self.older);
    }

    /// The values that the index has entries for.
    fn look(branch: &mut Branch<BranchHost>, entries: &UntypedTable) -> Vec<i64> {
        let (lower, upper) = entry_bounds::<i64, u64>(&(0..=100));
        let bounds = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let found = branch.scan(entries, bounds, 0..0, false, usize::MAX).unwrap();
        found.iter().filter_map(|(entry, _)| Some(<(i64, u64)>::read(entry)?.0)).collect()
    }

    /// The older one writes 20 while the younger one has read the entry of 10: it is held once it has changed the row.
    fn hold(&mut self) {
        self.begin();
        assert_eq!(Stage::look(&mut self.younger, &self.entries), [10]);
        let held = self.write(20).unwrap_err();
        assert_eq!((held.kind(), held.other()), (AbortKind::Held, Some(self.younger.id())));
    }

    fn write(&mut self, value: i64) -> Result<bool, noonmark::Abort> {
        self.older.write(&self.rows, KeyBytes::of(&ROW).as_slice(), 0..1, &Values::of(&value))
    }
}

/// What the index has when an operation that was held in it has been asked for again, and has committed.
fn entries_after(build: impl Fn(Builder<BranchHost>) -> Builder<BranchHost>) -> Vec<i64> {
    let mut stage = Stage::new(build);
    stage.hold();
    stage.younger.roll_back();
    assert!(stage.write(20).unwrap());
    stage.commit_older();
    stage.begin();
    Stage::look(&mut stage.older, &stage.entries)
}

#[test]
fn an_operation_that_was_held_in_an_index_goes_on_there() {
    assert_eq!(entries_after(|builder| builder), [20]);
    // From the start, it finds the row as it has made it, and no entry that differs.
    assert_eq!(entries_after(|builder| builder.plant(Bug::HeldAndForgotten)), [10]);
}

#[test]
fn whoever_goes_on_without_an_operation_that_is_held_cannot_commit() {
    let mut stage = Stage::new(|builder| builder);
    stage.hold();
    stage.younger.roll_back();
    assert_eq!(stage.older.seal().unwrap_err().kind(), AbortKind::Continued);
    stage.older.roll_back();
    stage.hold();
    stage.younger.roll_back();
    let key = KeyBytes::of(&2_u64);
    let put = stage.older.insert(&stage.rows, key.as_slice(), &Values::of(&1_i64), false);
    assert_eq!(put.unwrap_err().kind(), AbortKind::Continued);
    assert!(stage.older.seal().is_err());
    // Nothing of it is left.
    stage.older.roll_back();
    stage.begin();
    assert_eq!(Stage::look(&mut stage.older, &stage.entries), [10]);
}

/// Under a lock that waits for readers, which the writer keeps while the operation is held, and would find in its own way when it looks up what entries
/// the row has.
#[test]
fn an_operation_that_is_asked_again_does_not_meet_its_own_lock() {
    let mut stage = Stage::new(|builder| builder);
    stage.begin();
    let key = KeyBytes::of(&ROW);
    assert_eq!(stage.younger.read(&stage.rows, key.as_slice(), 0..1).unwrap(), Some(Values::of(&10_i64)));
    let held = stage.write(20).unwrap_err();
    assert_eq!((held.kind(), held.other()), (AbortKind::Held, Some(stage.younger.id())));
    stage.younger.roll_back();
    assert!(stage.write(20).unwrap());
    stage.commit_older();
    stage.begin();
    assert_eq!(Stage::look(&mut stage.older, &stage.entries), [20]);
}

/// Whoever waits for it is told by that id that it has ended; and as it ends, it may take deleted rows out for good, which are transactions too.
#[test]
fn a_branch_keeps_its_id_when_it_ends() {
    let mut stage = Stage::new(|builder| builder.reclaim_from(1));
    let mut has_reclaimed = false;
    stage.begin();
    for round in 0..16 {
        stage.younger.roll_back();
        let (id, key) = (stage.older.id(), KeyBytes::of(&ROW));
        let done = match round % 2 {
            0 => stage.older.delete(&stage.rows, key.as_slice()),
            _ => stage.older.insert(&stage.rows, key.as_slice(), &Values::of(&10_i64), false),
        };
        assert!(done.unwrap());
        stage.commit_older();
        assert_eq!(stage.older.id(), id);
        stage.begin();
        // Some have come and gone in its place meanwhile.
        has_reclaimed |= stage.older.id() > id.next();
    }
    assert!(has_reclaimed);
}

#[test]
fn what_is_held_may_be_given_up() {
    let mut stage = Stage::new(|builder| builder);
    stage.hold();
    let held = stage.write(20).unwrap_err();
    let given_up = stage.older.give_up(held);
    assert_eq!((given_up.kind(), given_up.other()), (AbortKind::Conflict, Some(stage.younger.id())));
    let words = given_up.to_string();
    assert!(words.ends_with("; nothing was applied, retry is safe"), "{words}");
    assert!(stage.older.seal().is_err());
    stage.older.roll_back();
    // Nothing of it is left.
    assert_eq!(Stage::look(&mut stage.younger, &stage.entries), [10]);
}

#[test]
fn entries_are_changed_by_their_rows_only() {
    let mut stage = Stage::new(|builder| builder);
    stage.begin();
    let key = KeyBytes::of(&(5_i64, 5_u64));
    let put = stage.older.insert(&stage.entries, key.as_slice(), &Values::default(), false);
    assert_eq!(put.unwrap_err().kind(), AbortKind::TooLong);
}

fn add(number: i64) -> PlainUpdate {
    PlainUpdate::Number(NumberUpdate::of(Column::<i64, i64>::whole(), Fold::Add, number).unwrap())
}

/// An update of a group that an index depends on has changed the row when it is held in the index: asked for again, it does not change it
/// once more.
#[test]
fn an_update_that_was_held_in_an_index_is_made_once() {
    let mut stage = Stage::new(|builder| builder);
    stage.begin();
    assert_eq!(Stage::look(&mut stage.younger, &stage.entries), [10]);
    let key = KeyBytes::of(&ROW);
    let held = stage.older.update(&stage.rows, key.as_slice(), 0, &add(7)).unwrap_err();
    assert_eq!((held.kind(), held.other()), (AbortKind::Held, Some(stage.younger.id())));
    stage.younger.roll_back();
    assert!(stage.older.update(&stage.rows, key.as_slice(), 0, &add(7)).unwrap());
    stage.commit_older();
    stage.begin();
    assert_eq!(Stage::look(&mut stage.older, &stage.entries), [17]);
    let row = stage.older.read(&stage.rows, key.as_slice(), 0..1).unwrap();
    assert_eq!(row, Some(Values::of(&17_i64)));
}

/// So it is of a group that must be read first, since the transaction has read another one of its cell, and is held there.
#[test]
fn an_update_that_was_held_as_its_group_was_read_is_made_once() {
    let db = Database::builder().host(BranchHost::new(1)).build().unwrap();
    let options = TableOptions::new().protocol(Protocol::Occ).granularity(Granularity::Coarse);
    let rows = UntypedTable::of(&db.create_table::<u64, (i64, i64)>("table", options).unwrap());
    let [mut one, mut other] = [(); 2].map(|()| Branch::new(&db).unwrap());
    let key = KeyBytes::of(&ROW);
    begin(&mut one, 1);
    assert!(one.insert(&rows, key.as_slice(), &Values::of(&(10_i64, 20_i64)), false).unwrap());
    commit(&mut one);
    begin(&mut one, 1);
    begin(&mut other, 2);
    assert_eq!(one.read_to_write(&rows, key.as_slice(), 1..2).unwrap(), Some(Values::of(&20_i64)));
    assert!(other.write(&rows, key.as_slice(), 1..2, &Values::of(&21_i64)).unwrap());
    other.seal().unwrap();
    let held = one.update(&rows, key.as_slice(), 0, &add(7)).unwrap_err();
    assert_eq!((held.kind(), held.other()), (AbortKind::Held, Some(other.id())));
    other.roll_back();
    assert!(one.update(&rows, key.as_slice(), 0, &add(7)).unwrap());
    commit(&mut one);
    begin(&mut other, 3);
    assert_eq!(other.read(&rows, key.as_slice(), 0..2).unwrap(), Some(Values::of(&(17_i64, 20_i64))));
}

/// What no group of the row can be changed by is refused, whatever comes over the wire.
#[test]
fn an_update_that_does_not_fit_its_group_is_refused() {
    let mut stage = Stage::new(|builder| builder);
    let key = KeyBytes::of(&ROW);
    let wide = NumberUpdate::of(Column::<i128, i128>::whole(), Fold::Add, 1).unwrap();
    for (group, update) in
        [(0, PlainUpdate::Append(vec![1])), (0, PlainUpdate::Number(wide)), (1, add(1)), (usize::MAX, add(1))]
    {
        stage.begin();
        let refused = stage.older.update(&stage.rows, key.as_slice(), group, &update).unwrap_err();
        assert_eq!(refused.kind(), AbortKind::TooLong, "{group}, {update:?}");
        stage.older.roll_back();
        stage.younger.roll_back();
    }
}

/// How a reader fares that must commit at time 10, beside a writer that has the row, and executes, or has voted to commit at 20.
fn reads_beside_a_writer(lends: bool, has_voted: bool) -> Result<Vote, &'static str> {
    let db = Database::builder().host(BranchHost::new(1)).build().unwrap();
    let table =
        db.create_table::<u64, i64>("table", TableOptions::new().protocol(Protocol::Sundial)).unwrap();
    let rows = UntypedTable::of(&table);
    let key = KeyBytes::of(&ROW);
    let [mut writer, mut reader] = [(); 2].map(|()| Branch::new(&db).unwrap());
    writer.lend(lends);
    begin(&mut writer, 1);
    assert!(writer.insert(&rows, key.as_slice(), &Values::of(&1_i64), false).unwrap());
    commit(&mut writer);

    begin(&mut writer, 2);
    begin(&mut reader, 3);
    assert_eq!(writer.read_to_write(&rows, key.as_slice(), 0..1).unwrap(), Some(Values::of(&1_i64)));
    assert!(writer.write(&rows, key.as_slice(), 0..1, &Values::of(&2_i64)).unwrap());
    if has_voted {
        assert!(writer.seal().unwrap() <= Timestamp::new(20));
        assert_eq!(writer.prepare(Timestamp::new(20)).unwrap(), Vote::Yes);
    }
    reader.read_prepared(true);
    assert_eq!(reader.read(&rows, key.as_slice(), 0..1).unwrap(), Some(Values::of(&1_i64)));
    let vote = reader.prepare(Timestamp::new(10));
    reader.roll_back();
    // What the reader has found keeps the writer from nothing but earlier times.
    if !has_voted {
        let earliest = writer.seal().unwrap();
        assert_eq!(earliest > Timestamp::new(10), vote.is_ok(), "{earliest}");
        assert_eq!(writer.prepare(Timestamp::new(20)).unwrap(), Vote::Yes);
    }
    writer.install(Timestamp::new(20)).unwrap();
    begin(&mut reader, 4);
    assert_eq!(reader.read(&rows, key.as_slice(), 0..1).unwrap(), Some(Values::of(&2_i64)));
    commit(&mut reader);
    vote.map_err(|abort| abort.rule())
}

/// In print nobody renews a lease from its writer's first access on; here it can be, and is once more when he votes.
#[test]
fn leases_of_what_will_be_written_are_lent() {
    for has_voted in [false, true] {
        assert_eq!(reads_beside_a_writer(true, has_voted), Ok(Vote::Yes));
        assert_eq!(reads_beside_a_writer(false, has_voted), Err("sundial: renew, locked"));
    }
}

/// How a writer fares whose row somebody has read who has frozen all times, and ends before the writer is prepared, or does not: where it aborts, and
/// by which rule.
fn writes_beside_the_frozen(at_once: bool, ticks: u64, ends_before: bool) -> Result<Vote, [&'static str; 2]> {
    let db = Database::builder().host(BranchHost::new(1)).build().unwrap();
    let table =
        db.create_table::<u64, i64>("table", TableOptions::new().protocol(Protocol::Dynamic)).unwrap();
    let rows = UntypedTable::of(&table);
    let key = KeyBytes::of(&ROW);
    let [mut writer, mut reader] = [(); 2].map(|()| Branch::new(&db).unwrap());
    begin(&mut writer, 1);
    assert!(writer.insert(&rows, key.as_slice(), &Values::of(&1_i64), false).unwrap());
    let earliest = writer.seal().unwrap();
    let Vote::Range(from, _) = writer.prepare(earliest).unwrap() else { panic!("it has a range") };
    writer.install(from).unwrap();

    writer.meet_frozen_at_once(at_once);
    reader.freeze(ticks);
    begin(&mut reader, 2);
    assert_eq!(reader.read(&rows, key.as_slice(), 0..1).unwrap(), Some(Values::of(&1_i64)));
    let Vote::Range(from, _) = reader.prepare(Timestamp::ZERO).unwrap() else { panic!("it has a range") };
    begin(&mut writer, 3);
    let written = writer.read_to_write(&rows, key.as_slice(), 0..1);
    if ends_before {
        reader.install(from).unwrap();
    }
    written.map_err(|abort| ["asked to write", abort.rule()])?;
    assert!(writer.write(&rows, key.as_slice(), 0..1, &Values::of(&2_i64)).unwrap());
    let sealed = writer.seal().and_then(|earliest| writer.prepare(earliest));
    if !ends_before {
        reader.install(from).unwrap();
    }
    sealed.map_err(|abort| ["prepared", abort.rule()])
}

/// In the text whoever would write aborts at once; here it does if the other has not ended by the time at which it is prepared. Whoever has
/// frozen some times only leaves later ones.
#[test]
fn whoever_has_frozen_all_times_is_met_when_it_matters() {
    let all = u64::MAX;
    assert_eq!(writes_beside_the_frozen(true, all, true), Err(["asked to write", "range: frozen"]));
    assert_eq!(writes_beside_the_frozen(true, all, false), Err(["asked to write", "range: frozen"]));
    assert!(writes_beside_the_frozen(false, all, true).is_ok());
    assert_eq!(writes_beside_the_frozen(false, all, false), Err(["prepared", "range: frozen"]));
    for (at_once, ends_before) in [(true, true), (true, false), (false, true), (false, false)] {
        assert!(writes_beside_the_frozen(at_once, 256, ends_before).is_ok());
    }
}
