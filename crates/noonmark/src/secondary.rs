//! Secondary indexes: kept by the transaction that changes the row.
//!
//! A secondary index is a table of its own, ordered, of the same protocol, and without values. Its keys
//! are the extracted key followed by the primary key. So its entries are inserted, deleted, scanned
//! and validated as rows are, and phantoms are kept out of it in the same way.
//!
//! An operation that may change an entry works out the row's entries before and after, and deletes
//! and inserts where they differ. An index on one column group costs nothing when another is written.
//!
//! What works out a key is the user's, and may panic. The operation has failed then. Where the host [defers](Host::DEFERS), the thread is a
//! server's, who serves others, too: so it is caught there, and the transaction is told.
//!
//! Where the host [defers](Host::DEFERS), an operation that meets somebody comes back as *held*, and is asked for once more later. If it
//! has changed the row by then, and has yet to change an entry, it is not done once more from the start: the row would be found as it
//! has made it, and no entry seem to differ. What it knew of the row before is kept, and it goes on from there ([`Unfollowed`]).

use crate::abort::{Abort, AbortKind, Detail};
use crate::context::Context;
use crate::group::RowReader;
use crate::key::KeyBytes;
use crate::operations::look_until_found;
use crate::planted::Bug;
use crate::protocol::{Conflict, What};
use crate::table::TableRef;
use noonmark_core::Host;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An operation that has changed a row, and was held before the row's entries had followed.
pub(crate) struct Unfollowed {
    table: TableRef,
    key: KeyBytes,
    groups: Range<usize>,
    before: Entries,
    answer: bool,
}

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
    /// up to it. The operation says whether it has.
    #[inline(always)]
    pub(crate) fn keeping_secondaries(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: Range<usize>,
        operation: impl FnOnce(&mut Self) -> Result<bool, Abort>,
    ) -> Result<bool, Abort> {
        self.fail_by_panic(|context| {
            if H::DEFERS && context.unfollowed.is_some() {
                return context.follow_at_last(table, key, &groups, operation);
            }
            let before = match table.get().has_secondaries() {
                true => context.secondary_entries(table, key, &groups)?,
                false => Entries::default(),
            };
            // Called in one place, so that it can become a part of it.
            let answer = operation(context)?;
            if table.get().has_secondaries() {
                context.follow_or_keep(table, key, &groups, before, answer)?;
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
            if H::DEFERS && context.unfollowed.is_some() {
                return context.follow_at_last(table, key, &groups, operation);
            }
            // Before the row is looked for, as in `secondary_entries`.
            let indexes = match table.get().has_secondaries() {
                true => table.get().secondaries().filter(|s| s.depends_on(&groups)).count(),
                false => 0,
            };
            let is_new = operation(context)?;
            if is_new && table.get().has_secondaries() {
                let before = Entries { indexes, keys: Vec::new() };
                context.follow_or_keep(table, key, &groups, before, is_new)?;
            }
            Ok(is_new)
        })
    }

    /// Makes a row's entries what they should be now; if it is held meanwhile, keeps what it must know to go on.
    #[cold]
    fn follow_or_keep(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: &Range<usize>,
        before: Entries,
        answer: bool,
    ) -> Result<(), Abort> {
        let followed = self.follow(table, key, groups, &before);
        if H::DEFERS
            && followed.as_ref().is_err_and(|abort| abort.kind() == AbortKind::Held)
            && !self.shared.planted.is(Bug::HeldAndForgotten)
        {
            let mut bytes = KeyBytes::new();
            bytes.push(key);
            let groups = groups.clone();
            self.unfollowed = Some(Box::new(Unfollowed { table, key: bytes, groups, before, answer }));
        }
        followed
    }

    /// An operation that was held once its row had been changed is asked for again: only the entries are still to follow.
    ///
    /// Those entries are tables of their own, and have no indexes: so what is kept is taken before any of them is changed. Should it be another
    /// operation that is asked for, the transaction has gone on without the one that was held, and cannot be committed.
    #[cold]
    fn follow_at_last(
        &mut self,
        table: TableRef,
        key: &[u8],
        groups: &Range<usize>,
        operation: impl FnOnce(&mut Self) -> Result<bool, Abort>,
    ) -> Result<bool, Abort> {
        let Some(kept) = self.unfollowed.take() else { return operation(self) };
        let Unfollowed { table: its_table, key: its_key, groups: its_groups, before, answer } = *kept;
        let is_again =
            std::ptr::eq(table.get(), its_table.get()) && key == its_key.as_slice() && *groups == its_groups;
        if !is_again {
            return Err(self.fail(AbortKind::Continued, table, Some(key)));
        }
        self.follow_or_keep(table, key, groups, before, answer)?;
        Ok(answer)
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
            if let Some(old) = old
                && !self.shared.planted.is(Bug::EntryLeft)
            {
                self.delete_row(entries, old.as_slice())?;
            }
            if let Some(new) = new
                && !self.shared.planted.is(Bug::EntryForgotten)
            {
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
            let mut keys = Vec::with_capacity(indexes);
            for secondary in affected().take(indexes) {
                let row = row.after(secondary.groups.start);
                let extract = || (secondary.extract)(key, &row);
                // (It is given what it may read, and nothing that it could leave half done: so nothing is seen that a panic has broken.)
                match H::DEFERS {
                    true => match catch_unwind(AssertUnwindSafe(extract)) {
                        Ok(entry) => keys.push(entry),
                        Err(panic) => {
                            let index = &secondary.entries.info.name;
                            return Err(context.panicked(table, key, index, panic.as_ref()));
                        }
                    },
                    false => keys.push(extract()),
                }
            }
            Ok(Entries { indexes, keys })
        })
    }

    /// The closure of an index has panicked. That is told only if what it was given holds.
    #[cold]
    fn panicked(&mut self, table: TableRef, key: &[u8], index: &str, panic: &(dyn Any + Send)) -> Abort {
        let mut abort = self.fail_if_it_holds(AbortKind::Panicked, table, key);
        if abort.kind() == AbortKind::Panicked {
            let message = message_of(panic).to_owned();
            abort.inner_mut().detail = Some(Detail::Panicked { index: index.to_owned(), message });
        }
        abort
    }
}

/// What a panic says, if it says anything.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
