//! Maps: sequential code, made concurrent by the transaction.
//!
//! Each is written as it would be for one thread. All of them compose: a transaction may move an entry from one map to
//! another, or look something up in one to decide about another.
//!
//! The vocabulary is that of `BTreeMap`, and said once: [`TMap`] has it, and stands on a [`Structure`], which knows how to
//! find a key, to put a node where there was none, to take one out, and to go from one to the next. What can be looked
//! for is said by [`Look`], and what only a structure in order knows by [`Ordered`].
//!
//! | map | structure | an entry of two words takes | in order | writes of an insertion or removal |
//! |---|---|---|---|---|
//! | [`THashMap`](crate::THashMap) | chains in buckets | 32 bytes, and 16 a bucket | no | one link |
//! | [`TRavlMap`](crate::TRavlMap) | relaxed AVL tree | 48 bytes | yes | near the leaf |
//! | [`TZipMap`](crate::TZipMap) | zip tree | 48 bytes | yes | near the leaf, as a rule |
//! | [`TSkipMap`](crate::TSkipMap) | skip list | 48 bytes, and 8 or more for every fourth | yes | one or more links |
//! | [`TRbMap`](crate::TRbMap) | red-black tree | 48 bytes | yes | up to the root, now and then |
//!
//! (What the allocator adds comes on top.)
//!
//! A key does not change in its node, so comparing takes no lock, and a key may be of any type that threads can share. A
//! [`Value`] is plain and changes in place, or is [`Boxed`].
//!
//! What they do not do: none counts its entries as it goes, since a counter would make every two insertions conflict; so `len`
//! goes through all of them. (Keep a [`TCounter`](crate::TCounter) beside a map if you must know.) None iterates backwards.

pub mod hash;
pub mod ravl;
pub mod rb;
pub mod skip;
pub mod tree;
pub mod value;
pub mod zip;

use crate::node::TRef;
use crate::transaction::{Interrupted, Reads, Writes};
use crate::world::Global;
use std::ops::{Bound, RangeBounds, RangeFull};
use value::Value;

/// What a key must be: fit to be looked at and dropped by any thread.
pub trait Key: Send + Sync + 'static {}

impl<K: Send + Sync + 'static> Key for K {}

/// What an operation answers.
pub(crate) type Answer<T> = Result<T, Interrupted>;
/// A node of a structure.
pub(crate) type NodeOf<'tx, S> = TRef<'tx, <S as Structure>::Node, <S as Structure>::World>;
/// What is put in as a value.
pub(crate) type Given<S> = <<S as Structure>::Value as Value>::Given;
/// A value as it is found.
pub(crate) type Lent<'tx, S> = <<S as Structure>::Value as Value>::Lent<'tx>;
/// An entry as it is found.
pub(crate) type Entry<'tx, S> = (&'tx <S as Structure>::Key, Lent<'tx, S>);
/// An entry that has been taken out.
pub(crate) type Taken<'tx, S> = (<S as Structure>::Key, Lent<'tx, S>);
/// A value as it lies in a node.
pub(crate) type Stored<S> = <<S as Structure>::Value as Value>::Stored;

mod sealed {
    pub trait Sealed {}
}

pub(crate) use sealed::Sealed;

/// What a map is made of. Sealed.
///
/// **Invariant**: there is at most one node for a key, from [`Structure::put_in`] to [`Structure::take_out`].
///
/// A change that is interrupted half-way is undone with the attempt. But the closure may not hand the error on, and use the
/// map again before that (to read: it can write nothing more). So whatever order a change writes its links in, **they never make
/// a ring**, and nobody panics over what is half done.
pub trait Structure: Sealed + Send + Sync + Sized + 'static {
    /// What the maps of it are called.
    const NAME: &'static str;
    /// Keys.
    type Key: Key;
    /// Values.
    type Value: Value;
    /// The world that its nodes belong to.
    type World: crate::World;
    /// Its nodes.
    #[doc(hidden)]
    type Node: Send + Sync + 'static;
    /// Where a key is, or would be. It is large, and therefore handed on by reference.
    #[doc(hidden)]
    type Place<'tx>: Default;
    /// How far somebody has come who goes through all nodes.
    #[doc(hidden)]
    type Cursor<'tx>;

    /// The key of a node.
    #[doc(hidden)]
    fn key(node: &Self::Node) -> &Self::Key;

    /// The value of a node.
    #[doc(hidden)]
    fn value(node: &Self::Node) -> &Stored<Self>;

    /// Puts a node where there was none for this key.
    #[doc(hidden)]
    fn put_in<'tx, X: Writes<'tx, Self::World>>(
        &'tx self,
        tx: X,
        place: &mut Self::Place<'tx>,
        key: Self::Key,
        value: Given<Self>,
    ) -> Answer<()>;

    /// Takes the node of a place out, so that no link leads to it any more.
    #[doc(hidden)]
    fn take_out<'tx, X: Writes<'tx, Self::World>>(
        &'tx self,
        tx: X,
        place: &mut Self::Place<'tx>,
        node: NodeOf<'tx, Self>,
    ) -> Answer<()>;

    /// Before all nodes.
    #[doc(hidden)]
    fn begin<'tx, X: Reads<'tx, Self::World>>(&'tx self, tx: X) -> Answer<Self::Cursor<'tx>>;

    /// The next node.
    #[doc(hidden)]
    fn next<'tx, X: Reads<'tx, Self::World>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>>;

    /// This attempt has changed the shape of a map since the cursor came to this node: from here on the cursor comes by all nodes
    /// that are neither put in nor taken out meanwhile and that it has not come by yet, and by no other a second time.
    #[doc(hidden)]
    fn resume<'tx, X: Reads<'tx, Self::World>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
        last: NodeOf<'tx, Self>,
    ) -> Answer<()>;

    /// Panics unless the structure's own invariants hold; answers how many links the longest way to a node has.
    #[doc(hidden)]
    fn check<'tx, X: Reads<'tx, Self::World>>(&'tx self, tx: X) -> Answer<usize>;
}

/// A structure in which such a key can be looked for: one's own type of keys, or what that can be borrowed as. Sealed.
///
/// It borrows nothing, and so has no transaction: to compare two keys cannot change the map in which one is looked for.
pub trait Look<Q: ?Sized + 'static>: Structure {
    /// The node of a key.
    #[doc(hidden)]
    fn find<'tx, X: Reads<'tx, Self::World>>(&'tx self, tx: X, key: &Q) -> Answer<Option<NodeOf<'tx, Self>>>;

    /// The node of a key. Makes the place, which is new, that of the key, or where it would be.
    #[doc(hidden)]
    fn find_place<'tx, X: Reads<'tx, Self::World>>(
        &'tx self,
        tx: X,
        key: &Q,
        place: &mut Self::Place<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>>;
}

/// A structure whose cursors go in the order of the keys. Sealed.
pub trait Ordered: Structure<Key: Ord> {
    /// Before the first node whose key is not before this bound.
    #[doc(hidden)]
    fn seek<'tx, X: Reads<'tx, Self::World>>(
        &'tx self,
        tx: X,
        start: Bound<&Self::Key>,
    ) -> Answer<Self::Cursor<'tx>>;

    /// The last node.
    #[doc(hidden)]
    fn last<'tx, X: Reads<'tx, Self::World>>(&'tx self, tx: X) -> Answer<Option<NodeOf<'tx, Self>>>;
}

/// Whether a key comes before a range that begins so.
#[inline]
pub(crate) fn is_before<K: Ord>(key: &K, start: Bound<&K>) -> bool {
    match start {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    }
}

/// Whether a key comes after a range that ends so.
#[inline]
fn is_after<K: Ord>(key: &K, end: Bound<&K>) -> bool {
    match end {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// A map in transactional memory, made of some structure: [`TRavlMap`](crate::TRavlMap), [`THashMap`](crate::THashMap) and so
/// on are names for it.
///
/// ```
/// use noonmark_stm::{TRavlMap, atomically, view};
///
/// let (waiting, served) = (TRavlMap::<u32, u64>::new(), TRavlMap::<u32, u64>::new());
/// atomically(|tx| {
///     for number in 0..10 {
///         waiting.insert(tx, number, 0)?;
///     }
///     Ok(())
/// });
/// // Moves the first from one map to the other: nobody ever sees it in both, or in neither.
/// let moved = atomically(|tx| {
///     let Some((number, value)) = waiting.pop_first(tx)? else { return tx.retry() };
///     served.insert(tx, number, value + 1)?;
///     Ok(number)
/// });
/// assert_eq!(moved, 0);
/// let between = view(|tx| waiting.range(tx, 3..=5).map(|entry| Ok(*entry?.0)).collect::<Result<Vec<_>, _>>());
/// assert_eq!(between, [3, 4, 5]);
/// ```
pub struct TMap<S>(pub(crate) S);

impl<S: Structure<World = Global> + Default> TMap<S> {
    /// An empty map of the [`Global`] world.
    pub fn new() -> Self {
        Self::new_in()
    }
}

impl<S: Structure + Default> TMap<S> {
    /// An empty map of any world.
    pub fn new_in() -> Self {
        TMap(S::default())
    }
}

impl<S: Structure + Default> Default for TMap<S> {
    fn default() -> Self {
        Self::new_in()
    }
}

/// Says that it is a map, and not what is in it: that takes a transaction, and this may be called inside one.
impl<S: Structure> std::fmt::Debug for TMap<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(S::NAME).finish_non_exhaustive()
    }
}

impl<S: Structure> TMap<S> {
    /// What an entry takes: its node, with the lock, without what the allocator adds, what a key or value has on the heap, and
    /// what the map has beside its nodes.
    pub const ENTRY_BYTES: usize = NodeOf::<'static, S>::BYTES;

    /// The value of a key.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on. So for all other operations.
    #[inline]
    pub fn get<'tx, Q: ?Sized + 'static, X>(
        &'tx self,
        tx: X,
        key: &Q,
    ) -> Result<Option<Lent<'tx, S>>, Interrupted>
    where
        S: Look<Q>,
        X: Reads<'tx, S::World>,
    {
        match self.0.find(tx, key)? {
            Some(node) => Ok(Some(S::Value::get(tx, node, S::value)?)),
            None => Ok(None),
        }
    }

    /// Whether there is a key.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[inline]
    pub fn contains_key<'tx, Q: ?Sized + 'static, X>(&'tx self, tx: X, key: &Q) -> Result<bool, Interrupted>
    where
        S: Look<Q>,
        X: Reads<'tx, S::World>,
    {
        Ok(self.0.find(tx, key)?.is_some())
    }

    /// Gives a key a value, and answers the one that it had.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn insert<'tx, X>(
        &'tx self,
        tx: X,
        key: S::Key,
        value: Given<S>,
    ) -> Result<Option<Lent<'tx, S>>, Interrupted>
    where
        S: Look<<S as Structure>::Key>,
        X: Writes<'tx, S::World>,
    {
        let mut place = S::Place::default();
        let Some(node) = self.0.find_place(tx, &key, &mut place)? else {
            self.put_in(tx, &mut place, key, value)?;
            return Ok(None);
        };
        let before = S::Value::get(tx, node, S::value)?;
        S::Value::set(tx, node, S::value, value)?;
        Ok(Some(before))
    }

    /// Gives a key a value if it has none; answers the one that it had, which stays.
    ///
    /// ```
    /// use noonmark_stm::{TRavlMap, atomically, view};
    /// let seats = TRavlMap::<u32, u64>::new();
    /// assert_eq!(atomically(|tx| seats.insert_if_absent(tx, 12, 1)), None);
    /// assert_eq!(atomically(|tx| seats.insert_if_absent(tx, 12, 2)), Some(1));
    /// assert_eq!(view(|tx| seats.get(tx, &12)), Some(1));
    /// ```
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn insert_if_absent<'tx, X>(
        &'tx self,
        tx: X,
        key: S::Key,
        value: Given<S>,
    ) -> Result<Option<Lent<'tx, S>>, Interrupted>
    where
        S: Look<<S as Structure>::Key>,
        X: Writes<'tx, S::World>,
    {
        let mut place = S::Place::default();
        if let Some(node) = self.0.find_place(tx, &key, &mut place)? {
            return Ok(Some(S::Value::get(tx, node, S::value)?));
        }
        self.put_in(tx, &mut place, key, value)?;
        Ok(None)
    }

    /// Makes the value of a key what the closure makes of it, `None` standing for no entry; answers what it was. (If the closure
    /// changes that entry by another way, what it answers comes last.)
    ///
    /// ```
    /// use noonmark_stm::{THashMap, atomically, view};
    /// let words = THashMap::<String, u64>::new();
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     atomically(|tx| words.update(tx, word.to_string(), |count| Some(count.unwrap_or(0) + 1)));
    /// }
    /// assert_eq!(view(|tx| words.get(tx, "be")), Some(2));
    /// ```
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn update<'tx, X>(
        &'tx self,
        tx: X,
        key: S::Key,
        change: impl FnOnce(Option<Lent<'tx, S>>) -> Option<Given<S>>,
    ) -> Result<Option<Lent<'tx, S>>, Interrupted>
    where
        S: Look<<S as Structure>::Key>,
        X: Writes<'tx, S::World>,
    {
        let mut place = S::Place::default();
        let found = self.0.find_place(tx, &key, &mut place)?;
        let before = match found {
            Some(node) => Some(S::Value::get(tx, node, S::value)?),
            None => None,
        };
        let shape = tx.desk().reshapings();
        let after = change(before);
        if tx.desk().reshapings() != shape {
            // The closure has the handle, too: what was found, and where, may not be there any more.
            self.make(tx, key, after)?;
            return Ok(before);
        }
        match (found, after) {
            (Some(node), Some(after)) => S::Value::set(tx, node, S::value, after)?,
            (Some(node), None) => self.take_out(tx, &mut place, node)?,
            (None, Some(after)) => self.put_in(tx, &mut place, key, after)?,
            (None, None) => {}
        }
        Ok(before)
    }

    /// Makes the value of a key this one, or none.
    #[cold]
    fn make<'tx, X>(&'tx self, tx: X, key: S::Key, after: Option<Given<S>>) -> Answer<()>
    where
        S: Look<<S as Structure>::Key>,
        X: Writes<'tx, S::World>,
    {
        match after {
            Some(value) => self.insert(tx, key, value).map(drop),
            None => self.remove(tx, &key).map(drop),
        }
    }

    /// Removes a key, and answers its value.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn remove<'tx, Q: ?Sized + 'static, X>(
        &'tx self,
        tx: X,
        key: &Q,
    ) -> Result<Option<Lent<'tx, S>>, Interrupted>
    where
        S: Look<Q>,
        X: Writes<'tx, S::World>,
    {
        let mut place = S::Place::default();
        let Some(node) = self.0.find_place(tx, key, &mut place)? else { return Ok(None) };
        let value = S::Value::get(tx, node, S::value)?;
        self.take_out(tx, &mut place, node)?;
        Ok(Some(value))
    }

    #[inline(always)]
    fn put_in<'tx, X>(&'tx self, tx: X, place: &mut S::Place<'tx>, key: S::Key, value: Given<S>) -> Answer<()>
    where
        X: Writes<'tx, S::World>,
    {
        tx.desk().reshapes();
        self.0.put_in(tx, place, key, value)
    }

    #[inline]
    fn take_out<'tx, X>(&'tx self, tx: X, place: &mut S::Place<'tx>, node: NodeOf<'tx, S>) -> Answer<()>
    where
        X: Writes<'tx, S::World>,
    {
        tx.desk().reshapes();
        self.0.take_out(tx, place, node)?;
        // SAFETY: no link leads to it any more, so whoever reads the map from now on does not find it. (It was found in this
        // shape of the map: nothing that runs between the finding and this has the handle, or it has been found anew.) Only the
        // transaction that takes it out frees it: another one that did so too would conflict with this one.
        unsafe { node.free(tx) };
        Ok(())
    }

    /// All entries: in order, if the structure has one. What is inserted or removed while it goes on (by the same
    /// transaction) may or may not be seen; all others are, once. (Whoever changes a map then, this one or another, makes the next
    /// step look for its place.)
    pub fn iter<'tx, X: Reads<'tx, S::World>>(&'tx self, tx: X) -> Iter<'tx, S, X> {
        Iter { map: &self.0, tx, cursor: None, last: None, shape: 0, is_over: false }
    }

    /// How many entries there are: it goes through all of them.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn len<'tx, X: Reads<'tx, S::World>>(&'tx self, tx: X) -> Result<usize, Interrupted> {
        let mut entries = self.iter(tx);
        let mut len = 0;
        while entries.step()?.is_some() {
            len += 1;
        }
        Ok(len)
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn is_empty<'tx, X: Reads<'tx, S::World>>(&'tx self, tx: X) -> Result<bool, Interrupted> {
        Ok(self.iter(tx).step()?.is_none())
    }

    /// Looks whether the structure's invariants hold; answers how many entries there are, and how many links the longest way
    /// to one has.
    ///
    /// # Panics
    /// If they do not.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    #[doc(hidden)]
    pub fn check<'tx, X: Reads<'tx, S::World>>(&'tx self, tx: X) -> Result<(usize, usize), Interrupted>
    where
        S: Look<<S as Structure>::Key>,
    {
        let mut entries = self.iter(tx);
        while let Some(node) = entries.step()? {
            let found = self.0.find(tx, S::key(node.content()))?;
            assert!(found == Some(node), "an entry that is not found by its key");
        }
        Ok((self.len(tx)?, self.0.check(tx)?))
    }
}

impl<S: Ordered> TMap<S> {
    /// The first entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn first_key_value<'tx, X>(&'tx self, tx: X) -> Result<Option<Entry<'tx, S>>, Interrupted>
    where
        X: Reads<'tx, S::World>,
    {
        self.iter(tx).next().transpose()
    }

    /// The last entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn last_key_value<'tx, X>(&'tx self, tx: X) -> Result<Option<Entry<'tx, S>>, Interrupted>
    where
        X: Reads<'tx, S::World>,
    {
        match self.0.last(tx)? {
            Some(node) => entry::<S, X>(tx, node).map(Some),
            None => Ok(None),
        }
    }

    /// Removes the first entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn pop_first<'tx, X>(&'tx self, tx: X) -> Result<Option<Taken<'tx, S>>, Interrupted>
    where
        S: Look<<S as Structure>::Key, Key: Clone>,
        X: Writes<'tx, S::World>,
    {
        let Some((key, _)) = self.first_key_value(tx)? else { return Ok(None) };
        Ok(self.remove(tx, key)?.map(|value| (key.clone(), value)))
    }

    /// Removes the last entry.
    ///
    /// # Errors
    /// [`Interrupted`]: hand it on.
    pub fn pop_last<'tx, X>(&'tx self, tx: X) -> Result<Option<Taken<'tx, S>>, Interrupted>
    where
        S: Look<<S as Structure>::Key, Key: Clone>,
        X: Writes<'tx, S::World>,
    {
        let Some((key, _)) = self.last_key_value(tx)? else { return Ok(None) };
        Ok(self.remove(tx, key)?.map(|value| (key.clone(), value)))
    }

    /// The entries whose keys are in a range, in order. What is inserted or removed while it goes on (by the same
    /// transaction) may or may not be seen; all others are, once. A range that ends before it begins is empty.
    pub fn range<'tx, X: Reads<'tx, S::World>, R: RangeBounds<S::Key>>(
        &'tx self,
        tx: X,
        range: R,
    ) -> Range<'tx, S, X, R> {
        Range { entries: self.iter(tx), range }
    }
}

#[inline(always)]
fn entry<'tx, S: Structure, X: Reads<'tx, S::World>>(tx: X, node: NodeOf<'tx, S>) -> Answer<Entry<'tx, S>> {
    Ok((S::key(node.content()), S::Value::get(tx, node, S::value)?))
}

/// All entries of a map. Each is a `Result`: hand the error on. After an error there are no more, so that who does not hand
/// it on comes to an end, too.
pub struct Iter<'tx, S: Structure, X> {
    map: &'tx S,
    tx: X,
    /// None until the first entry is asked for.
    cursor: Option<S::Cursor<'tx>>,
    /// The last node that it came by.
    last: Option<NodeOf<'tx, S>>,
    /// The shape of things then: `Desk::reshapings`.
    shape: u64,
    is_over: bool,
}

impl<'tx, S: Structure, X: Reads<'tx, S::World>> Iter<'tx, S, X> {
    fn step(&mut self) -> Answer<Option<NodeOf<'tx, S>>> {
        self.step_from(S::begin)
    }

    /// The next node; if none has been asked for yet, that after the cursor with which to begin.
    fn step_from(
        &mut self,
        begin: impl FnOnce(&'tx S, X) -> Answer<S::Cursor<'tx>>,
    ) -> Answer<Option<NodeOf<'tx, S>>> {
        if self.is_over {
            return Ok(None);
        }
        // Unless it turns out that there is another one.
        self.is_over = true;
        let shape = self.tx.desk().reshapings();
        let cursor = match &mut self.cursor {
            Some(cursor) => {
                if let Some(last) = self.last.filter(|_| shape != self.shape) {
                    self.map.resume(self.tx, cursor, last)?;
                }
                cursor
            }
            none => none.insert(begin(self.map, self.tx)?),
        };
        let node = self.map.next(self.tx, cursor)?;
        self.is_over = node.is_none();
        (self.last, self.shape) = (node, shape);
        Ok(node)
    }

    /// The entry of a node, and the last one if it cannot be read.
    fn entry(&mut self, node: NodeOf<'tx, S>) -> Answer<Entry<'tx, S>> {
        let entry = entry::<S, X>(self.tx, node);
        self.is_over |= entry.is_err();
        entry
    }
}

impl<'tx, S: Structure, X: Reads<'tx, S::World>> Iterator for Iter<'tx, S, X> {
    type Item = Result<Entry<'tx, S>, Interrupted>;

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.step().transpose()?;
        Some(node.and_then(|node| self.entry(node)))
    }
}

impl<S: Structure, X> std::fmt::Debug for Iter<'_, S, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

/// Entries of a map in order. Each is a `Result`: hand the error on. After an error there are no more.
pub struct Range<'tx, S: Structure, X, R = RangeFull> {
    entries: Iter<'tx, S, X>,
    range: R,
}

impl<'tx, S: Ordered, X: Reads<'tx, S::World>, R: RangeBounds<S::Key>> Iterator for Range<'tx, S, X, R> {
    type Item = Result<Entry<'tx, S>, Interrupted>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.range.start_bound();
        match self.entries.step_from(|map, tx| map.seek(tx, start)).transpose()? {
            Ok(node) if is_after(S::key(node.content()), self.range.end_bound()) => {
                self.entries.is_over = true;
                None
            }
            Ok(node) => Some(self.entries.entry(node)),
            Err(interrupted) => Some(Err(interrupted)),
        }
    }
}

impl<S: Structure, X, R> std::fmt::Debug for Range<'_, S, X, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").finish_non_exhaustive()
    }
}
