//! Secondary indexes: kept by the transaction that changes the row.
//!
//! A secondary index is a table of its own, ordered, of the same protocol, and without values. Its keys
//! are the extracted key followed by the primary key. So its entries are inserted, deleted, scanned
//! and validated as rows are, and phantoms are kept out of it in the same way.
//!
//! An operation that may change an entry works out the row's entries before and after, and deletes
//! and inserts where they differ. An index on one column group costs nothing when another is written.

use crate::abort::Abort;
use crate::context::Context;
use crate::group::RowReader;
use crate::key::KeyBytes;
use crate::operations::look_until_found;
use crate::table::TableRef;
use noonmark_core::Host;
use std::ops::Range;

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
                false => Vec::new(),
            };
            // Called in one place, so that it can become a part of it.
            let answer = operation(context)?;
            if table.get().has_secondaries() {
                context.follow(table, key, &groups, &before)?;
            }
            Ok(answer)
        })
    }

    /// Makes a row's secondary entries what they should be now; `before` is what they were.
    #[cold]
    fn follow(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: &Range<usize>,
        before: &[KeyBytes],
    ) -> Result<(), Abort> {
        let after = self.secondary_entries(table, key, groups)?;
        let affected = table.get().secondaries().filter(|s| s.depends_on(groups));
        for (index, secondary) in affected.enumerate() {
            let (old, new) = (before.get(index), after.get(index));
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
    ) -> Result<Vec<KeyBytes>, Abort> {
        let t = table.get();
        if !t.keeps_entries_of(groups) {
            return Ok(Vec::new());
        }
        self.with_row(t.sizes, |context, row| {
            let present = look_until_found(|| match context.find(table, key) {
                None => Ok(false),
                Some(record) => context.read_groups(table, record, 0, t.sizes, row),
            })?;
            if !present {
                return Ok(Vec::new());
            }
            let affected = t.secondaries().filter(|s| s.depends_on(groups));
            let row = RowReader::new(row, t.sizes);
            Ok(affected.map(|s| (s.extract)(key, &row.after(s.groups.start))).collect())
        })
    }
}
