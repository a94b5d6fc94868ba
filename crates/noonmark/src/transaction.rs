//! Transactions as applications write them: the typed face of [`crate::operations`].

use crate::abort::{Abort, AbortKind};
use crate::commit::Commit;
use crate::context::Context;
use crate::group::{Group, Row};
use crate::key::{AsKey, Key, KeyBytes};
use crate::many::{BATCH, FoundRows, KnownKeys, found_in};
use crate::operations::is_changed_in_place;
use crate::scan::{Scan, SecondaryScan};
use crate::session::Concluded;
use crate::table::TableRef;
use crate::typed::{ColumnGroup, GroupTarget, Sealed, SecondaryIndex, Table, Target};
use crate::update::{Number, Update};
use noonmark_core::{Access, Host, Threads, TxnId};
use std::ops::RangeBounds;

/// A transaction under way.
///
/// Its writes are its own until it commits; it sees them itself. All operations take time
/// proportional to the logarithm of the table (ordered index) or constant time (hash index), and a
/// commit takes time proportional to what was read and written. After an operation has failed, the
/// transaction can only end. Dropped, it is rolled back.
pub struct Transaction<'s, H: Host = Threads> {
    context: &'s mut Context<H>,
}

impl<'s, H: Host> Transaction<'s, H> {
    pub(crate) fn new(context: &'s mut Context<H>) -> Self {
        Transaction { context }
    }

    pub(crate) fn context(&mut self) -> &mut Context<H> {
        self.context
    }

    /// Ends an attempt as its body's answer says.
    pub(crate) fn conclude<T, E: From<Abort>>(self, answer: Result<T, E>) -> Result<T, Concluded<E>> {
        let context = &mut *self.context;
        match answer {
            Ok(value) if !context.conflicted => match context.commit() {
                Ok(_) => Ok(value),
                Err(abort) if abort.kind() == AbortKind::Conflict => Err(Concluded::Conflict(abort.into())),
                Err(abort) => Err(Concluded::Final(abort.into())),
            },
            // The body went on after a conflict; whatever it made of that, it is tried again.
            Ok(_) => Err(Concluded::Conflict(Abort::plain(AbortKind::Conflict).into())),
            Err(error) if context.conflicted => Err(Concluded::Conflict(error)),
            // Its own error may rest on what no committed state had: look before handing it out.
            Err(error) => match context.validate_observations() {
                Err(abort) => Err(Concluded::Conflict(abort.into())),
                Ok(()) => {
                    context.statistics.user_rollbacks += 1;
                    Err(Concluded::Final(error))
                }
            },
        }
    }

    /// Its id; each attempt has its own.
    pub fn id(&self) -> TxnId {
        self.context.txn
    }

    /// The value under a key, or `None`. Reading one column group touches no other.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    #[inline]
    pub fn get<T: Target>(&mut self, target: &T, key: impl AsKey<T::Key>) -> Result<Option<T::Value>, Abort> {
        self.context.check(target.core())?;
        key.with_key(|key| {
            let found = self.context.find_to_read(target, key);
            self.context.get_found(target, key, found)
        })
    }

    /// The value under a key that must be there.
    ///
    /// # Errors
    /// An [`Abort`] of kind [`Missing`](AbortKind::Missing) if it is not.
    #[inline]
    pub fn need<T: Target>(&mut self, target: &T, key: impl AsKey<T::Key>) -> Result<T::Value, Abort> {
        self.context.check(target.core())?;
        key.with_key(|key| {
            let found = self.context.find_to_read(target, key);
            self.context.need_found(target, key, found)
        })
    }

    /// Changes the value under a key that must be there: reads it and writes what `change` makes of it.
    ///
    /// If `change` panics, the operation has failed: whoever catches the panic inside the transaction cannot commit it.
    ///
    /// # Errors
    /// An [`Abort`] of kind [`Missing`](AbortKind::Missing) if it is not there.
    #[inline]
    pub fn update<T: Target>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        change: impl FnOnce(&mut T::Value),
    ) -> Result<(), Abort> {
        self.context.check(target.core())?;
        let core = target.core();
        if !is_changed_in_place::<T::Value>(core) {
            return key.with_key(|key| self.update_otherwise(target, key, change));
        }
        key.with_key(|key| {
            let found = self.context.find_to_read(target, key);
            // Now that the row is found (see `TableCore::populated`).
            if core.keeps_entries_of(&target.groups()) {
                return self.update_otherwise(target, key, change);
            }
            let at = self.context.open_found(target, key, found)?;
            self.context.change_in_place(at, change);
            Ok(())
        })
    }

    /// An update of a row that is not changed in place, or that has secondary indexes to be kept.
    #[inline(never)]
    fn update_otherwise<T: Target>(
        &mut self,
        target: &T,
        key: &[u8],
        change: impl FnOnce(&mut T::Value),
    ) -> Result<(), Abort> {
        let table = TableRef::new(target.core());
        let groups = target.groups();
        let first = groups.start;
        let updated = self.context.keeping_secondaries(table, key, groups, |context| {
            context.update_row::<T::Value>(table, key, first, change)
        })?;
        if updated { Ok(()) } else { Err(self.context.missing(table, key)) }
    }

    /// Writes a value in place of the one that is there, without reading it: another transaction's write
    /// of it meanwhile does not invalidate this one. False, and nothing is written, if there is none.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    #[inline]
    pub fn write<T: Target>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        value: T::Value,
    ) -> Result<bool, Abort> {
        self.context.check(target.core())?;
        let table = TableRef::new(target.core());
        key.with_key(|key| {
            self.context.write_groups(table, key, target.groups(), |writer| value.encode_row(writer))
        })
    }

    /// Inserts a row. False, and nothing is written, if there is one under the key.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    pub fn insert<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<bool, Abort> {
        self.context.check(table.core())?;
        let core = TableRef::new(table.core());
        key.with_key(|key| self.context.insert_row(core, key, &row, false))
    }

    /// Writes a row, whether there is one under the key or not, without reading it.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    pub fn upsert<K: Key, R: Row>(
        &mut self,
        table: &Table<K, R>,
        key: impl AsKey<K>,
        row: R,
    ) -> Result<(), Abort> {
        self.context.check(table.core())?;
        let core = TableRef::new(table.core());
        key.with_key(|key| self.context.insert_row(core, key, &row, true)).map(|_| ())
    }

    /// Deletes a row. False if there was none.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    pub fn delete<K: Key, R: Row>(&mut self, table: &Table<K, R>, key: impl AsKey<K>) -> Result<bool, Abort> {
        self.context.check(table.core())?;
        let core = TableRef::new(table.core());
        key.with_key(|key| self.context.delete_row(core, key))
    }

    /// The values under keys that are known together, in their order, each given to `visit` with its
    /// index. The keys are looked up together, with index nodes and records prefetched, which on
    /// large tables is several times as fast as one by one.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself.
    pub fn get_many<T: Target>(
        &mut self,
        target: &T,
        keys: impl KnownKeys<T::Key>,
        mut visit: impl FnMut(usize, Option<T::Value>),
    ) -> Result<(), Abort> {
        let core = target.core();
        self.context.check(core)?;
        let table = TableRef::new(core);
        let known = keys.found(table, self.context.txn);
        for (batch, keys) in keys.keys().chunks(BATCH).enumerate() {
            let first = batch * BATCH;
            let mut room = None;
            let found = found_in(known, first, core, keys, target.groups(), &mut room);
            for ((index, key), &found) in keys.iter().enumerate().zip(found) {
                key.with_bytes(|key| {
                    self.context.about_to_look(table, key, Access::Read);
                    let found = found.or_else(|| self.context.find_again(table, key));
                    self.context.see_found(target, key, found, |value| visit(first + index, value))
                })?;
            }
        }
        Ok(())
    }

    /// Says which rows the transaction will touch: looks the keys up together and begins to bring what is
    /// found into the cache. Reads nothing; only the operations that follow do, and find it near.
    ///
    /// For keys that are known ahead but are read and changed in parts, or group by group: a
    /// [`slice`](FoundRows::slice) of what is found stands for its keys in [`Transaction::get_many`] and
    /// [`Transaction::update_many`], of the table and its column groups alike. Where one of them has all keys, it is
    /// of no use. Allocates if the keys are more than 16.
    ///
    /// ```
    /// # use noonmark::Database;
    /// # let db = Database::in_memory();
    /// let stock = db.table::<u32, u64>("stock")?;
    /// db.transact(|tx| (0..4).try_for_each(|item| tx.insert(&stock, item, 100).map(|_| ())))?;
    /// let left = db.transact(|tx| {
    ///     let rows = tx.look_up(&stock, &[3, 1, 2]);
    ///     tx.update_many(&stock, rows.slice(0..2), |_, count| *count -= 1)?;
    ///     let mut left = 0;
    ///     tx.get_many(&stock, rows.slice(0..3), |_, count| left += count.unwrap_or(0))?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!(left, 298);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_up<'k, T: Target>(&mut self, target: &T, keys: &'k [T::Key]) -> FoundRows<'s, 'k, T::Key> {
        // Of another database's table nothing is looked up; the operation that follows says so.
        let table = self.context.check(target.core()).is_ok().then(|| target.core());
        FoundRows::look_up(table, keys, target.groups(), self.context.txn)
    }

    /// Changes the values under keys that are known together, in their order, as
    /// [`Transaction::update`] does (panics included), looked up together as by [`Transaction::get_many`].
    ///
    /// # Errors
    /// An [`Abort`] of kind [`Missing`](AbortKind::Missing) if one of them is not there.
    pub fn update_many<T: Target>(
        &mut self,
        target: &T,
        keys: impl KnownKeys<T::Key>,
        mut change: impl FnMut(usize, &mut T::Value),
    ) -> Result<(), Abort> {
        let core = target.core();
        self.context.check(core)?;
        let table = TableRef::new(core);
        let groups = target.groups();
        let by_itself = !is_changed_in_place::<T::Value>(core);
        let known = keys.found(table, self.context.txn);
        for (batch, keys) in keys.keys().chunks(BATCH).enumerate() {
            let first = batch * BATCH;
            let mut room = None;
            let found = found_in(known, first, core, keys, groups.clone(), &mut room);
            for ((index, key), &found) in keys.iter().enumerate().zip(found) {
                let change = |value: &mut T::Value| change(first + index, value);
                key.with_bytes(|key| {
                    if by_itself {
                        return self.update_otherwise(target, key, change);
                    }
                    self.context.about_to_look(table, key, Access::Read);
                    let found = found.or_else(|| self.context.find_again(table, key));
                    if core.keeps_entries_of(&groups) {
                        return self.update_otherwise(target, key, change);
                    }
                    let at = self.context.open_found(target, key, found)?;
                    self.context.change_in_place(at, change);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// The rows, or one column group of them, whose keys are in a range, in order. Needs an ordered
    /// index.
    ///
    /// ```
    /// # use noonmark::Database;
    /// # let db = Database::in_memory();
    /// let stock = db.table::<u32, u64>("stock")?;
    /// db.transact(|tx| {
    ///     for item in 0..10 { tx.insert(&stock, item, 100 * u64::from(item))?; }
    ///     Ok(())
    /// })?;
    /// let last = db.transact(|tx| tx.range(&stock, 3..).reverse().limit(2).collect())?;
    /// assert_eq!(last, [(9, 900), (8, 800)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'x, T: Target>(
        &'x mut self,
        target: &'x T,
        keys: impl RangeBounds<T::Key>,
    ) -> Scan<'x, 's, H, T> {
        Scan::new(self, target, &keys)
    }

    /// The entries of a secondary index whose secondary keys are in a range, in order: pairs of secondary
    /// and primary key. The rows are then read by primary key.
    ///
    /// ```
    /// # use noonmark::Database;
    /// # let db = Database::in_memory();
    /// let ages = db.table::<String, u8>("ages")?;
    /// let by_age = ages.create_index(&db, "by_age", |_, age| *age)?;
    /// db.transact(|tx| {
    ///     for (name, age) in [("ann", 30), ("bob", 17), ("cid", 61)] { tx.insert(&ages, name, age)?; }
    ///     Ok(())
    /// })?;
    /// let adults = db.transact(|tx| tx.range_by(&by_age, 18..).collect())?;
    /// assert_eq!(adults, [(30, "ann".to_owned()), (61, "cid".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range_by<'x, S: Key, K: Key>(
        &'x mut self,
        index: &'x SecondaryIndex<S, K>,
        keys: impl RangeBounds<S>,
    ) -> SecondaryScan<'x, 's, H, S, K> {
        SecondaryScan::new(self, index, &keys)
    }

    /// Adds to a number when the transaction commits, without reading it: transactions that add to one
    /// row do not invalidate each other. Integers wrap around at the end of their range.
    ///
    /// ```
    /// # use noonmark::Database;
    /// # let db = Database::in_memory();
    /// let counters = db.table::<u32, u64>("counters")?;
    /// db.transact(|tx| tx.insert(&counters, 7, 0))?;
    /// db.transact(|tx| tx.add(&counters, 7, |count| count, 5))?;
    /// assert_eq!(db.transact(|tx| tx.get(&counters, 7))?, Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An [`Abort`] of kind [`Missing`](AbortKind::Missing) if there is no such row.
    pub fn add<T: GroupTarget, N: Number>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        field: fn(&mut T::Value) -> &mut N,
        delta: N,
    ) -> Result<(), Abort> {
        self.apply(target, key, move |value| {
            let number = field(value);
            *number = number.plus(delta);
        })
    }

    /// Makes a number the smaller of itself and another when the transaction commits, without reading it.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn min<T: GroupTarget, N: Number>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        field: fn(&mut T::Value) -> &mut N,
        other: N,
    ) -> Result<(), Abort> {
        self.apply(target, key, move |value| {
            let number = field(value);
            if other < *number {
                *number = other;
            }
        })
    }

    /// Makes a number the larger of itself and another when the transaction commits, without reading it.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn max<T: GroupTarget, N: Number>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        field: fn(&mut T::Value) -> &mut N,
        other: N,
    ) -> Result<(), Abort> {
        self.apply(target, key, move |value| {
            let number = field(value);
            if other > *number {
                *number = other;
            }
        })
    }

    /// Adds bytes at the end of a value when the transaction commits, without reading it. In what order
    /// several transactions' bytes come is the order of their commits.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn append<K: Key>(
        &mut self,
        target: &impl GroupTarget<Key = K, Value = Vec<u8>>,
        key: impl AsKey<K>,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        self.at_commit(target, &KeyBytes::of(&key), Update::append, bytes)
    }

    /// Applies a change to a column group when the transaction commits, without reading it.
    ///
    /// That such changes of different transactions commute is the caller's promise: they are applied
    /// in the order in which the transactions commit. The closure may hold only plain (`Copy`) values. It
    /// runs while the row is locked, just before the commit point: it should be short; a panic in it then rolls the
    /// transaction back. (If the group has been read or written already, it runs at once, as that of
    /// [`Transaction::update`] does.) If this transaction has read the group, or does so later, it becomes an ordinary
    /// update.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn apply<T: GroupTarget>(
        &mut self,
        target: &T,
        key: impl AsKey<T::Key>,
        change: impl Fn(&mut T::Value) + Copy + Send + 'static,
    ) -> Result<(), Abort> {
        self.at_commit(target, &KeyBytes::of(&key), || Update::of::<T::Value>(change), &[])
    }

    fn at_commit<T: GroupTarget, U: Copy + Send + 'static>(
        &mut self,
        target: &T,
        key: &KeyBytes,
        update: impl Fn() -> Update<U>,
        payload: &[u8],
    ) -> Result<(), Abort> {
        self.context.check(target.core())?;
        let table = TableRef::new(target.core());
        if payload.len() > u32::MAX as usize {
            return Err(self.context.too_long(table, key.as_slice()));
        }
        let group = target.groups().start;
        if self.context.update_at_commit(table, key.as_slice(), group, update, payload)? {
            Ok(())
        } else {
            Err(self.context.missing(table, key.as_slice()))
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself; the transaction is rolled back then.
    pub fn commit(self) -> Result<Commit, Abort> {
        self.context.commit().inspect_err(|_| self.context.statistics.aborts += 1)
    }

    /// Rolls back, as dropping the transaction does.
    pub fn rollback(self) {}
}

impl<H: Host> Drop for Transaction<'_, H> {
    fn drop(&mut self) {
        let context = &mut *self.context;
        // One that is run for a closure is counted where it is run.
        if context.active && context.shared.slots.get(context.slot).is_open_ended() {
            let ended = match context.conflicted {
                true => &mut context.statistics.aborts,
                false => &mut context.statistics.user_rollbacks,
            };
            *ended += 1;
        }
        context.roll_back();
    }
}

impl<H: Host> std::fmt::Debug for Transaction<'_, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({})", self.context.txn)
    }
}

/// A transaction that only reads.
pub struct ReadTransaction<'t, 's, H: Host = Threads> {
    tx: &'t mut Transaction<'s, H>,
}

impl<'t, 's, H: Host> ReadTransaction<'t, 's, H> {
    pub(crate) fn new(tx: &'t mut Transaction<'s, H>) -> Self {
        ReadTransaction { tx }
    }

    /// As [`Transaction::get`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn get<T: Target>(&mut self, target: &T, key: impl AsKey<T::Key>) -> Result<Option<T::Value>, Abort> {
        self.tx.get(target, key)
    }

    /// As [`Transaction::need`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn need<T: Target>(&mut self, target: &T, key: impl AsKey<T::Key>) -> Result<T::Value, Abort> {
        self.tx.need(target, key)
    }

    /// As [`Transaction::get_many`].
    ///
    /// # Errors
    /// As there.
    pub fn get_many<T: Target>(
        &mut self,
        target: &T,
        keys: &[T::Key],
        visit: impl FnMut(usize, Option<T::Value>),
    ) -> Result<(), Abort> {
        self.tx.get_many(target, keys, visit)
    }

    /// As [`Transaction::range`].
    pub fn range<'x, T: Target>(
        &'x mut self,
        target: &'x T,
        keys: impl RangeBounds<T::Key>,
    ) -> Scan<'x, 's, H, T> {
        self.tx.range(target, keys)
    }

    /// As [`Transaction::range_by`].
    pub fn range_by<'x, S: Key, K: Key>(
        &'x mut self,
        index: &'x SecondaryIndex<S, K>,
        keys: impl RangeBounds<S>,
    ) -> SecondaryScan<'x, 's, H, S, K> {
        self.tx.range_by(index, keys)
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Transaction<'static>>();
    is_send::<crate::Session>();
    const fn is_sync<T: Sync>() {}
    is_sync::<crate::Database>();
    is_sync::<ColumnGroup<u64, u64>>();
    const fn is_group<T: Group>() {}
    is_group::<u64>();
};
