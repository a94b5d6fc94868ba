//! Secondary indexes: kept by the transaction that changes the row.
//!
//! A secondary index is a table of its own, ordered, of the same protocol, and without values. Its keys
//! are the extracted key followed by the primary key. So its entries are inserted, deleted, scanned
//! and validated as rows are, and phantoms are kept out of it in the same way.
//!
//! An operation that may change an entry works out the row's entries before and after, and deletes
//! and inserts where they differ. An index on one column group costs nothing when another is written.

use crate::abort::{Abort, AbortKind};
use crate::context::Context;
use crate::group::RowReader;
use crate::key::KeyBytes;
use crate::operations::look_until_found;
use crate::protocol::{Conflict, What};
use crate::table::TableRef;
use noonmark_core::Host;
use std::ops::Range;

/// The entries of a row.
#[derive(Default)]
struct Entries {
    /// How many indexes there were that could have one.
    indexes: usize,
    /// Their keys; none if the row is absent.
    keys: Vec<KeyBytes>,
}

impl<H: Host> Context<H> {
    /// Runs an operation that changes these groups of a row, and brings the table's secondary indexes
    /// up to it.
    #[inline(always)]
    pub(crate) fn keeping_secondaries<T>(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        operation: impl FnOnce(&mut Self) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.fail_by_panic(|context| {
            let before = match table.get().has_secondaries() {
                true => context.secondary_entries(table, key, &groups)?,
                false => Entries::default(),
            };
            // Called in one place, so that it can become a part of it.
            let answer = operation(context)?;
            if table.get().has_secondaries() {
                context.follow(table, key, &groups, &before)?;
            }
            Ok(answer)
        })
    }

    /// The same for an operation that puts in a row if there is none, and says whether it has: then there were no entries
    /// before.
    #[inline(always)]
    pub(crate) fn adding_secondaries(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        operation: impl FnOnce(&mut Self) -> Result<bool, Abort>,
    ) -> Result<bool, Abort> {
        self.fail_by_panic(|context| {
            // Before the row is looked for, as in `secondary_entries`.
            let indexes = match table.get().has_secondaries() {
                true => table.get().secondaries().filter(|s| s.depends_on(&groups)).count(),
                false => 0,
            };
            let is_new = operation(context)?;
            if is_new && table.get().has_secondaries() {
                context.follow(table, key, &groups, &Entries { indexes, keys: Vec::new() })?;
            }
            Ok(is_new)
        })
    }

    /// Makes a row's secondary entries what they should be now; `before` is what they were.
    ///
    /// If an index has been made since, that is not known: its entry for what the row was then. So the attempt
    /// ends. (Those that come later see the index from the start; and once there is a row, there will be no new ones.)
    #[cold]
    fn follow(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: &Range<usize>,
        before: &Entries,
    ) -> Result<(), Abort> {
        let after = self.secondary_entries(table, key, groups)?;
        if after.indexes != before.indexes {
            let conflict = Conflict { rule: "index: made meanwhile", what: What::IndexMade };
            return Err(self.abort_at(conflict, AbortKind::Conflict, table, key, groups.start));
        }
        let affected = table.get().secondaries().filter(|s| s.depends_on(groups));
        for (index, secondary) in affected.enumerate() {
            let (old, new) = (before.keys.get(index), after.keys.get(index));
            if old.map(KeyBytes::as_slice) == new.map(KeyBytes::as_slice) {
                continue;
            }
            let entries = TableRef::new(&secondary.entries);
            if let Some(old) = old {
                self.delete_row(entries, old.as_slice())?;
            }
            if let Some(new) = new {
                self.insert_row(entries, new.as_slice(), &(), true)?;
            }
        }
        Ok(())
    }

    /// The entries of a row as this transaction sees it, in those indexes that depend on some of these
    /// groups; none if it is absent.
    fn secondary_entries(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: &Range<usize>,
    ) -> Result<Entries, Abort> {
        let t = table.get();
        let affected = || t.secondaries().filter(|s| s.depends_on(groups));
        // Before the row is read: an index that is made later may have an entry for what it is.
        let indexes = affected().count();
        if indexes == 0 {
            return Ok(Entries::default());
        }
        self.with_row(t.sizes, |context, row| {
            let present = look_until_found(|| match context.find(table, key) {
                None => Ok(false),
                Some(record) => context.read_groups(table, record, 0, t.sizes, row),
            })?;
            if !present {
                return Ok(Entries { indexes, keys: Vec::new() });
            }
            let row = RowReader::new(row, t.sizes);
            let keys = affected().take(indexes).map(|s| (s.extract)(key, &row.after(s.groups.start)));
            Ok(Entries { indexes, keys: keys.collect() })
        })
    }
}
