//! What the transactions of a history did, to be done again: which rows they read, changed, put in, took out and scanned.
//!
//! A history is about keys, each the column group of a row; what is done again is about rows. What stands side by side in a
//! transaction and is about one row becomes one [`Step`]. Values are not done again: they say nothing about conflicts.
//!
//! ```text
//! ["r",4,null] ["w",4,31] ["r",9,null] ["w",9,32]   the row of both keys is put in
//! ["r",4,31]   ["w",4,57]                           a group of it is read and written
//! ["w",4,null] ["w",9,null]                         it is taken out
//! ```
//!
//! - **What was there before**: transactions before all others that only put rows in are the load. A row that is not put in by one of
//!   them, nor by whoever comes to it first, was there.
//! - **What is left out**: transactions that did not commit, or of which nobody knows.
//! - Keys of which it is not told what they are become rows of one table, of one group. So it is for histories of others, and of
//!   lists.
//!
//! What it does not do: know rows that nobody touched. An index of those that are left is denser than the real one was.

use noonmark::GROUPS_MAX;
use noonmark_workloads::history::{History, Key, MicroOp, Outcome};
use noonmark_workloads::recording::legend::KeyName;
use std::collections::HashMap;

/// Column groups, a bit each.
pub type GroupBits = u8;

/// What transactions did, in the order in which they began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What they did it to.
    pub tables: Vec<TracedTable>,
    /// Those that committed, without the load.
    pub transactions: Vec<Vec<Step>>,
    /// How many others there are: those that did not commit, or of which nobody knows.
    pub left_out: usize,
}

/// A table, or a secondary index, as far as it was touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedTable {
    /// Its name.
    pub name: String,
    /// The names of its column groups.
    pub groups: Vec<String>,
    /// Whether it is a secondary index, whose rows are entries.
    pub is_index: bool,
    /// Whether ranges of it are scanned.
    pub is_scanned: bool,
    /// Whether something of it is changed.
    pub is_changed: bool,
    /// For each row that was touched, in the order of their keys, whether it was there before.
    pub was_there: Vec<bool>,
    /// Of each of these rows, whether it was there and is not taken out.
    pub stays: Vec<bool>,
}

/// What a transaction did to a row, or to a range of them. Tables and rows are numbers, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads and writes groups of a row; what is in both is updated.
    Row {
        /// The table.
        table: u16,
        /// The row.
        row: u32,
        /// What is read.
        reads: GroupBits,
        /// What is written.
        writes: GroupBits,
    },
    /// Puts a row in.
    Insert {
        /// The table.
        table: u16,
        /// The row.
        row: u32,
    },
    /// Takes a row out.
    Delete {
        /// The table.
        table: u16,
        /// The row.
        row: u32,
    },
    /// Reads groups of all rows from one to another.
    Scan {
        /// The table.
        table: u16,
        /// The first row.
        low: u32,
        /// The last row, included.
        high: u32,
        /// What is read of each.
        groups: GroupBits,
    },
}

/// Why there is nothing to do again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A key has no name.
    #[error("key {0} of the history is not among those of which it is told what they are")]
    Unnamed(i64),
    /// A scan goes from one table or column group into another.
    #[error("the scan from key {0} to key {1} is of several tables")]
    Astray(i64, i64),
    /// No transaction committed, or none did anything after the load.
    #[error("no transaction in the history has committed, or none did more than put rows in")]
    Nothing,
    /// There are too many keys, or too many tables.
    #[error("the history has more than {0}")]
    TooMany(&'static str),
}

/// Where a key is.
#[derive(Clone, Copy)]
struct Place {
    table: u16,
    group: u8,
    row: u32,
}

/// Where all keys are.
enum Places {
    /// By the numbers of the keys.
    Named(Vec<Place>),
    /// The keys that occur, sorted; each is a row.
    Unnamed(Vec<Key>),
}

impl Trace {
    /// What a history tells, and, if it is known, what its keys are.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn of(history: &History, keys: Option<&[KeyName]>) -> Result<Self, TraceError> {
        let (mut tables, places) = match keys {
            Some(keys) => named(keys)?,
            None => unnamed(history)?,
        };
        let mut transactions = Vec::new();
        let mut left_out = 0;
        // For each row of each table, whether the first who came to it found it.
        let mut found: Vec<Vec<Option<bool>>> =
            tables.iter().map(|table| vec![None; table.was_there.len()]).collect();
        let mut loads = true;
        for transaction in history.transactions() {
            if transaction.outcome != Outcome::Ok {
                left_out += 1;
                continue;
            }
            let steps = steps_of(&transaction.ops, &tables, &places, &mut found)?;
            loads &= steps.iter().all(|step| matches!(step, Step::Insert { .. }));
            if loads {
                for step in &steps {
                    if let Step::Insert { table, row } = *step {
                        found[usize::from(table)][row as usize] = Some(true);
                    }
                }
            } else if !steps.is_empty() {
                transactions.push(steps);
            }
        }
        if transactions.is_empty() {
            return Err(TraceError::Nothing);
        }
        for (table, found) in tables.iter_mut().zip(found) {
            table.was_there = found.into_iter().map(|found| found.unwrap_or(false)).collect();
            table.stays.clone_from(&table.was_there);
        }
        for step in transactions.iter().flatten() {
            match *step {
                Step::Row { table, writes, .. } => tables[usize::from(table)].is_changed |= writes != 0,
                Step::Insert { table, .. } => tables[usize::from(table)].is_changed = true,
                Step::Delete { table, row } => {
                    tables[usize::from(table)].is_changed = true;
                    tables[usize::from(table)].stays[row as usize] = false;
                }
                Step::Scan { table, .. } => tables[usize::from(table)].is_scanned = true,
            }
        }
        Ok(Trace { tables, transactions, left_out })
    }

    /// How many rows its steps come to, those within the bounds of scans among them.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let rows = |step: &Step| match *step {
            Step::Scan { low, high, .. } => u64::from(high - low) + 1,
            Step::Row { .. } | Step::Insert { .. } | Step::Delete { .. } => 1,
        };
        self.transactions.iter().flatten().map(rows).sum()
    }
}

/// Tables, and where the keys are, by their names.
fn named(keys: &[KeyName]) -> Result<(Vec<TracedTable>, Places), TraceError> {
    let mut tables: Vec<TracedTable> = Vec::new();
    // For each table and group the keys in words, which come in the keys' order.
    let mut words: Vec<[Vec<&str>; GROUPS_MAX]> = Vec::new();
    let mut at = Vec::with_capacity(keys.len());
    for name in keys {
        let table = match tables.iter().rposition(|table| table.name == name.table) {
            Some(table) => table,
            None => {
                let is_index = name.group.is_none();
                tables.push(TracedTable { name: name.table.clone(), is_index, ..TracedTable::default() });
                words.push(Default::default());
                tables.len() - 1
            }
        };
        let (group, group_name) = name.group.as_ref().map_or((0, ""), |(group, name)| (*group, name));
        let group = usize::from(group).min(GROUPS_MAX - 1);
        let groups = &mut tables[table].groups;
        // Of a group that was not touched there is no key.
        while groups.len() <= group {
            groups.push(String::new());
        }
        groups[group] = group_name.to_owned();
        words[table][group].push(&name.key);
        at.push((table, group, words[table][group].len() - 1));
    }
    if tables.len() > usize::from(u16::MAX) {
        return Err(TraceError::TooMany("65,535 tables"));
    }
    if keys.len() > u32::MAX as usize {
        return Err(TraceError::TooMany("4,294,967,295 keys"));
    }
    let mut rows: Vec<HashMap<&str, u32>> = Vec::new();
    for (table, words) in tables.iter_mut().zip(&words) {
        let merged = words.iter().fold(Vec::new(), |merged, words| merged_with(merged, words));
        table.was_there = vec![false; merged.len()];
        rows.push((0..).zip(merged).map(|(row, key)| (key, row)).collect());
    }
    let place = |(table, group, nth): (usize, usize, usize)| Place {
        table: table as u16,
        group: group as u8,
        row: rows[table][words[table][group][nth]],
    };
    Ok((tables, Places::Named(at.into_iter().map(place).collect())))
}

/// Two lists in one order, as one list in it. How what is in one of them stands to what is only in the other, they do not say;
/// nor is it asked for: no scan sees both.
fn merged_with<'a>(one: Vec<&'a str>, other: &[&'a str]) -> Vec<&'a str> {
    if one.is_empty() || one == other {
        return other.to_vec();
    }
    let in_one: std::collections::HashSet<&str> = one.iter().copied().collect();
    let mut merged = Vec::with_capacity(one.len());
    let mut own = one.into_iter().peekable();
    for &key in other {
        if in_one.contains(key) {
            while let Some(before) = own.next_if(|own| *own != key) {
                merged.push(before);
            }
            own.next();
        }
        merged.push(key);
    }
    merged.extend(own);
    merged
}

/// One table of all keys.
fn unnamed(history: &History) -> Result<(Vec<TracedTable>, Places), TraceError> {
    let mut keys = Vec::new();
    for op in history.transactions().iter().flat_map(|transaction| &transaction.ops) {
        match op {
            MicroOp::Append { key, .. }
            | MicroOp::ReadList { key, .. }
            | MicroOp::Write { key, .. }
            | MicroOp::ReadRegister { key, .. } => keys.push(*key),
            MicroOp::Scan { found, .. } => keys.extend(found.iter().flatten().map(|(key, _)| *key)),
        }
    }
    keys.sort_unstable();
    keys.dedup();
    if keys.len() > u32::MAX as usize {
        return Err(TraceError::TooMany("4,294,967,295 keys"));
    }
    let table = TracedTable {
        name: "keys".into(),
        groups: vec!["value".into()],
        was_there: vec![false; keys.len()],
        ..TracedTable::default()
    };
    Ok((vec![table], Places::Unnamed(keys)))
}

impl Places {
    fn of(&self, key: Key) -> Result<Place, TraceError> {
        let place = match self {
            Places::Named(places) => usize::try_from(key.0).ok().and_then(|at| places.get(at).copied()),
            Places::Unnamed(keys) => {
                keys.binary_search(&key).ok().map(|row| Place { table: 0, group: 0, row: row as u32 })
            }
        };
        place.ok_or(TraceError::Unnamed(key.0))
    }

    /// The rows of a scan; none if there never was one.
    fn range(&self, low: Key, high: Key) -> Result<Option<(Place, u32)>, TraceError> {
        match self {
            Places::Named(_) => {
                let (first, last) = (self.of(low)?, self.of(high)?);
                if (first.table, first.group) != (last.table, last.group) || first.row > last.row {
                    return Err(TraceError::Astray(low.0, high.0));
                }
                Ok(Some((first, last.row)))
            }
            Places::Unnamed(keys) => {
                let first = keys.partition_point(|key| *key < low);
                let end = keys.partition_point(|key| *key <= high);
                let place = Place { table: 0, group: 0, row: first as u32 };
                Ok((first < end).then_some((place, end as u32 - 1)))
            }
        }
    }
}

/// What is known of a row while its part of a transaction is gone through.
#[derive(Clone, Copy)]
struct Touched {
    table: u16,
    row: u32,
    reads: GroupBits,
    writes: GroupBits,
    /// What was found to be absent, or taken out.
    absent: GroupBits,
    taken_out: GroupBits,
}

/// The steps of one transaction. Notes of rows that nobody came to before whether they were found.
fn steps_of(
    ops: &[MicroOp],
    tables: &[TracedTable],
    places: &Places,
    found: &mut [Vec<Option<bool>>],
) -> Result<Vec<Step>, TraceError> {
    let mut steps = Vec::new();
    let mut touched: Option<Touched> = None;
    let mut end = |touched: &mut Option<Touched>, steps: &mut Vec<Step>| {
        let Some(Touched { table, row, reads, writes, absent, taken_out }) = touched.take() else { return };
        let is_index = tables[usize::from(table)].is_index;
        let puts_in = writes & !taken_out != 0 && (is_index || writes & absent != 0);
        let was_found = &mut found[usize::from(table)][row as usize];
        was_found.get_or_insert(!puts_in && absent == 0);
        steps.push(if puts_in {
            Step::Insert { table, row }
        } else if taken_out != 0 {
            Step::Delete { table, row }
        } else {
            Step::Row { table, row, reads, writes }
        });
    };
    for op in ops {
        let (key, reads, writes, is_absent, is_taken_out) = match op {
            MicroOp::Scan { low, high, .. } => {
                end(&mut touched, &mut steps);
                let Some((Place { table, group, row: low }, high)) = places.range(*low, *high)? else {
                    continue;
                };
                match steps.last_mut() {
                    // Of each group that it reads, the same range.
                    Some(Step::Scan { table: t, low: l, high: h, groups })
                        if (*t, *l, *h) == (table, low, high) && *groups & 1 << group == 0 =>
                    {
                        *groups |= 1 << group;
                    }
                    _ => steps.push(Step::Scan { table, low, high, groups: 1 << group }),
                }
                continue;
            }
            MicroOp::Append { key, .. } => (key, true, true, false, false),
            MicroOp::ReadList { key, .. } => (key, true, false, false, false),
            MicroOp::ReadRegister { key, value } => (key, true, false, value.is_none(), false),
            MicroOp::Write { key, value } => (key, false, true, false, value.is_none()),
        };
        let Place { table, group, row } = places.of(*key)?;
        if touched.is_some_and(|touched| (touched.table, touched.row) != (table, row)) {
            end(&mut touched, &mut steps);
        }
        let touched =
            touched.get_or_insert(Touched { table, row, reads: 0, writes: 0, absent: 0, taken_out: 0 });
        let bit = |is: bool| GroupBits::from(is) << group;
        // What it reads of its own is nothing new.
        touched.reads |= bit(reads) & !touched.writes;
        touched.absent |= bit(is_absent) & !touched.writes;
        touched.writes |= bit(writes);
        touched.taken_out = touched.taken_out & !bit(writes) | bit(is_taken_out);
    }
    end(&mut touched, &mut steps);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: &str, group: Option<u8>, key: &str) -> KeyName {
        let group = group.map(|group| (group, format!("g{group}")));
        KeyName { table: table.into(), group, key: key.into() }
    }

    fn history(transactions: &[(&str, &str)]) -> History {
        let mut text = String::new();
        for (at, (kind, value)) in transactions.iter().enumerate() {
            for (index, kind) in [(2 * at, "invoke"), (2 * at + 1, kind)] {
                text += &format!(
                    "{{\"index\":{index},\"type\":\"{kind}\",\"process\":0,\"time\":{index},\"f\":\"txn\",\"value\":{value}}}\n"
                );
            }
        }
        History::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn rows_are_put_together_from_their_groups() {
        let keys = [
            key("t", Some(0), "1"),
            key("t", Some(0), "2"),
            key("t", Some(1), "2"),
            key("t", Some(1), "3"),
            key("by", None, "(9, 2)"),
        ];
        let history = history(&[
            ("ok", r#"[["r",1,null],["w",1,5],["r",2,null],["w",2,6],["w",4,1]]"#),
            ("ok", r#"[["r",1,5],["w",1,7],["r",3,null]]"#),
            ("fail", r#"[["w",1,8]]"#),
            (
                "ok",
                r#"[["scan",[0,1],[[1,7]]],["scan",[2,3],[[2,6]]],["w",1,null],["w",2,null],["w",4,null]]"#,
            ),
            ("ok", r#"[["r",3,null],["w",3,9],["r",3,9]]"#),
        ]);
        let trace = Trace::of(&history, Some(&keys)).unwrap();
        assert_eq!((trace.left_out, trace.rows()), (1, 9));
        assert_eq!(trace.tables[0].groups, ["g0", "g1"]);
        assert_eq!((trace.tables[0].is_index, trace.tables[1].is_index), (false, true));
        // The first transaction was the load; the third row is put in by who came to it first, or so it seems.
        assert_eq!(trace.tables[0].was_there, [false, true, false]);
        assert_eq!(trace.tables[1].was_there, [true]);
        assert_eq!(
            trace.transactions,
            [
                vec![
                    Step::Row { table: 0, row: 1, reads: 1, writes: 1 },
                    Step::Row { table: 0, row: 2, reads: 2, writes: 0 },
                ],
                vec![
                    Step::Scan { table: 0, low: 0, high: 1, groups: 1 },
                    Step::Scan { table: 0, low: 1, high: 2, groups: 2 },
                    Step::Delete { table: 0, row: 1 },
                    Step::Delete { table: 1, row: 0 },
                ],
                vec![Step::Insert { table: 0, row: 2 }],
            ]
        );
        assert!(trace.tables[0].is_scanned && trace.tables[0].is_changed && !trace.tables[1].is_scanned);
    }

    #[test]
    fn keys_without_names_are_rows_of_one_table() {
        let history = history(&[
            ("ok", r#"[["append",7,1],["r",-3,[]]]"#),
            ("ok", r#"[["r",7,[1]]]"#),
            ("info", r#"[["append",7,2]]"#),
        ]);
        let trace = Trace::of(&history, None).unwrap();
        assert_eq!(trace.tables[0].was_there, [true, true]);
        let row = |row, writes| Step::Row { table: 0, row, reads: 1, writes };
        assert_eq!(trace.transactions, [vec![row(1, 1), row(0, 0)], vec![row(1, 0)]]);
        assert_eq!(trace.left_out, 1);
    }

    #[test]
    fn what_cannot_be_done_again_is_refused() {
        let keys = [key("t", Some(0), "1"), key("u", Some(0), "1")];
        let refused =
            |value, keys: &[KeyName]| Trace::of(&history(&[("ok", value)]), Some(keys)).unwrap_err();
        assert_eq!(refused(r#"[["r",2,1]]"#, &keys), TraceError::Unnamed(2));
        assert_eq!(refused(r#"[["r",-1,1]]"#, &keys), TraceError::Unnamed(-1));
        assert_eq!(refused(r#"[["scan",[0,1],[]]]"#, &keys), TraceError::Astray(0, 1));
        assert_eq!(refused(r#"[["r",0,null],["w",0,1]]"#, &keys), TraceError::Nothing);
        assert_eq!(
            Trace::of(&history(&[("fail", r#"[["w",0,1]]"#)]), None).unwrap_err(),
            TraceError::Nothing
        );
    }

    #[test]
    fn lists_are_merged_in_their_order() {
        let merged = |one: &[&'static str], other: &[&'static str]| merged_with(one.to_vec(), other).join("");
        assert_eq!(merged(&["a", "c"], &["a", "b", "c", "d"]), "abcd");
        assert_eq!(merged(&["b", "c"], &["a", "c"]), "abc");
        assert_eq!(merged(&[], &["a"]), "a");
        assert_eq!(merged(&["a"], &[]), "a");
        assert_eq!(merged(&["a", "x", "d"], &["b", "x", "c"]), "baxcd");
    }
}
