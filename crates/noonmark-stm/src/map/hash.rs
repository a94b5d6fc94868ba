//! [`THashMap`]: a hash map, chains in buckets (§7.3 of the paper).
//!
//! A bucket is a link to the first of its entries, with a lock of its own. So two transactions meet if they change entries of one
//! bucket, and otherwise not, and one that only reads is a look at a bucket and a look at an entry.
//!
//! # Growing
//!
//! A map is made with a number of buckets, a power of two, and may be made to double it whenever they get full. Buckets lie in
//! segments: the first ones in a segment of their own, and each doubling adds one as large as all before it. Nothing that is
//! there moves, no transaction goes through the whole map, and no segment is ever freed before the map is:
//!
//! ```text
//! buckets   0 1 2 3 | 4 5 6 7 | 8 9 10 11 12 13 14 15 | ...      bucket 13 = 1101
//!           first     1st       2nd doubling                 its parent 5 = 0101, whose parent 1 = 0001
//! ```
//!
//! A bucket of a new segment is *unset*: what belongs in it is still in its *parent*, the bucket with the same number but for the
//! highest bit. The first insertion into it sets it: it moves what belongs there from the parent (and before that sets the
//! parent, if need be). Until then whoever looks for something there goes by way of the parent, which is one more line of
//! memory that he cannot guess. So *each insertion also sets a few others*, the next ones of a sweep through the new segment: after a
//! quarter as many insertions as there are new buckets all have been swept, and long before the next doubling. How far the sweep has come
//! is not transactional: what an attempt has claimed that was then undone is left to insertions into those very buckets.
//!
//! - **Invariant**: the parent of a bucket that is set is set. The first ones always are.
//! - **Invariant**: an entry is in the bucket of its hash's low bits, as many as there are for all buckets; or if that is unset, in
//!   the nearest ancestor that is set.
//!
//! How often the map has doubled is a transactional variable, and whether a bucket is set is seen by reading it. So it is the
//! transaction that makes this right among many threads: who read before a doubling, or found a bucket unset that
//! somebody has set since, or went through a chain from which something was moved, conflicts and runs again. A doubling conflicts
//! with all that are under way, and happens a few dozen times in the life of a map; a setting conflicts with those who are at one of
//! two buckets.
//!
//! *When to double?* Entries are not counted, as that would make every two insertions conflict. An insertion that finds
//! a long chain looks at some hundred buckets of the newest segment, at a glance that nothing is concluded from but this: if
//! three quarters have entries, then it is time: there are 1.4 entries a bucket (the share of empty buckets falls as the
//! exponential function), or, as many look and the first to find it so doubles, somewhat more than one. (In a small map, where all
//! look at the same buckets, seven of ten will do: keys that are not random spread less evenly.) An unset one
//! whose parent has entries counts as two thirds: so likely is it that one of them belongs in it.
//!
//! What it does not do: it does not shrink. Its default hasher ([`Folding`]) does not withstand keys that somebody chooses to
//! have the same hash.

use super::value::Value;
use super::{Answer, Given, Key, Look, NodeOf, Sealed, Stored, Structure, TMap};
use crate::node::{TLink, TRef, TRoot};
use crate::transaction::{Reads, Writes};
use crate::var::TVar;
use crate::world::{Global, World};
use noonmark_core::sync::{AtomicUsize, CachePadded, Ordering};
use std::borrow::Borrow;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

/// How many buckets a map has that is to grow. (Under the model checkers it grows soon.)
const BUCKETS_MIN: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };
/// How often a map can double.
const DOUBLINGS_MAX: usize = 32;
/// A chain of so many entries makes an insertion look whether the map is full.
const CHAIN_LONG: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };
/// At how many buckets it looks at most.
const GLANCES: usize = 256;
/// How many buckets an insertion sets beside its own, while some of a doubling are unset: those of one line of the cache.
const SWEEP: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// A hash map. See [`TMap`] for what it can do.
///
/// 32 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds; and 16 bytes for each bucket, of
/// which there are one or two for each entry, unless the map was made with a fixed number of them. An empty map that grows takes
/// 1.3 kilobytes.
///
/// ```
/// use noonmark_stm::{THashMap, atomically, view};
///
/// let (stock, prices) = (THashMap::<String, u32>::new(), THashMap::<String, u32>::with_buckets(64));
/// atomically(|tx| {
///     stock.insert(tx, "pear".into(), 7)?;
///     prices.insert(tx, "pear".into(), 40)
/// });
/// let worth = view(|tx| {
///     let mut worth = 0;
///     for entry in stock.iter(tx) {
///         let (name, number) = entry?;
///         worth += number * prices.get(tx, name.as_str())?.unwrap_or(0);
///     }
///     Ok(worth)
/// });
/// assert_eq!(worth, 280);
/// ```
pub type THashMap<K, V, W = Global, H = BuildHasherDefault<Folding>> = TMap<Buckets<K, V, W, H>>;

/// An entry.
#[doc(hidden)]
#[derive(Debug)]
pub struct Node<K: Key, V: Value, W: World> {
    key: K,
    value: V::Stored,
    next: TLink<Node<K, V, W>, W>,
}

type Bucket<K, V, W> = TRoot<Node<K, V, W>, W>;
type Segment<K, V, W> = Box<[Bucket<K, V, W>]>;
type Link<'tx, K, V, W> = Option<TRef<'tx, Node<K, V, W>, W>>;

/// Entries in buckets, for [`TMap`].
pub struct Buckets<K: Key, V: Value, W: World, H = BuildHasherDefault<Folding>> {
    /// A power of two of buckets, all of them set.
    first: Segment<K, V, W>,
    /// None: the first ones are all that there will be. **Invariant**: if there is one, there are [`BUCKETS_MIN`] first ones.
    growth: Option<Box<Growth<K, V, W>>>,
    hasher: H,
}

struct Growth<K: Key, V: Value, W: World> {
    /// How often the number of buckets has doubled.
    doublings: TVar<u64, W>,
    /// The segment of each doubling that there has been. (A segment that was made in an attempt that was undone is there for the next
    /// one: it is as new.)
    segments: [OnceLock<Segment<K, V, W>>; DOUBLINGS_MAX],
    /// The next bucket for an insertion to set that has not to. Nothing follows from it for a transaction. Apart from the rest, which
    /// everybody reads.
    swept: CachePadded<AtomicUsize>,
}

impl<K: Key, V: Value, W: World> Growth<K, V, W> {
    /// One that is not among the first. Its highest bit says which segment it is in, and the others where.
    #[inline(always)]
    fn bucket(&self, number: usize) -> &Bucket<K, V, W> {
        let highest = (number | BUCKETS_MIN).ilog2();
        let doubling = (highest - BUCKETS_MIN.ilog2()) as usize;
        let segment = self.segments[doubling].get().unwrap_or_else(|| self.add(doubling));
        &segment[number & !(1 << highest)]
    }

    /// How many buckets there are.
    #[inline(always)]
    fn count<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        Ok(BUCKETS_MIN << self.doublings.get(tx)?)
    }

    /// The next buckets to be set by the way, of so many; none, if all have been swept, or somebody else is at it.
    #[inline(always)]
    fn claim(&self, buckets: usize) -> Range<usize> {
        // Relaxed, also the step: it orders nothing, and who sees an old number fails to make it a later one.
        let begin = self.swept.0.load(Ordering::Relaxed);
        if begin >= buckets {
            return 0..0;
        }
        // Not past the last one: there will be others after that.
        let end = buckets.min(begin + SWEEP);
        match self.swept.0.compare_exchange(begin, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => begin..end,
            Err(_) => 0..0,
        }
    }

    /// The segment of a doubling, from 0.
    #[cold]
    #[inline(never)]
    fn add(&self, doubling: usize) -> &Segment<K, V, W> {
        self.segments[doubling].get_or_init(|| segment(BUCKETS_MIN << doubling, TRoot::unset))
    }
}

/// Where a key is, or would be.
#[doc(hidden)]
pub struct Place<'tx, K: Key, V: Value, W: World> {
    hash: usize,
    /// How many buckets there are.
    buckets: usize,
    /// The number of the bucket in which the key was looked for: its own, or that one's nearest ancestor that is set.
    bucket: usize,
    /// The entry before the one that was found.
    before: Link<'tx, K, V, W>,
    /// How many entries have other keys.
    others: usize,
}

impl<K: Key, V: Value, W: World> Default for Place<'_, K, V, W> {
    fn default() -> Self {
        Place { hash: 0, buckets: 0, bucket: 0, before: None, others: 0 }
    }
}

impl<K: Key, V: Value, W: World> std::fmt::Debug for Place<'_, K, V, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// How far an iteration has come.
///
/// It goes through buckets as they were when it began. If the map grows meanwhile, what belonged in one of them is there or in one of
/// those that have come of it, and it goes through all of these together.
#[doc(hidden)]
pub struct Cursor<'tx, K: Key, V: Value, W: World> {
    /// How many buckets there were when it began.
    buckets: usize,
    /// How many there are.
    buckets_now: usize,
    /// The next bucket.
    bucket: usize,
    /// The entries of the one before that it has yet to come by.
    found: Vec<TRef<'tx, Node<K, V, W>, W>>,
}

impl<K: Key, V: Value, W: World> std::fmt::Debug for Cursor<'_, K, V, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl<K: Key + Eq + Hash, V: Value, H> TMap<Buckets<K, V, Global, H>>
where
    H: BuildHasher + Default + Send + Sync + 'static,
{
    /// An empty map of the [`Global`] world with at least so many buckets, rounded up to a power of two, which stays at that.
    pub fn with_buckets(buckets: usize) -> Self {
        Self::with_buckets_in(buckets)
    }
}

impl<K: Key + Eq + Hash, V: Value, W: World, H> TMap<Buckets<K, V, W, H>>
where
    H: BuildHasher + Default + Send + Sync + 'static,
{
    /// An empty map of any world with at least so many buckets, rounded up to a power of two, which stays at that.
    ///
    /// # Panics
    /// When that is more than can be addressed. (Where there merely is no memory for so many, the process ends, as it does with any
    /// allocation.)
    pub fn with_buckets_in(buckets: usize) -> Self {
        let buckets = buckets.min(1 << (usize::BITS - 1)).next_power_of_two();
        let first = segment(buckets, TRoot::new_in);
        TMap(Buckets { first, growth: None, hasher: H::default() })
    }

    /// How many buckets there are.
    ///
    /// # Errors
    /// [`Interrupted`](crate::Interrupted): hand it on.
    pub fn buckets<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Result<usize, crate::Interrupted> {
        self.0.count(tx)
    }
}

fn segment<B>(buckets: usize, new: impl Fn() -> B) -> Box<[B]> {
    (0..buckets).map(|_| new()).collect()
}

impl<K: Key, V: Value, W: World, H: Default> Default for Buckets<K, V, W, H> {
    fn default() -> Self {
        let growth = Growth {
            doublings: TVar::new_in(0),
            segments: [const { OnceLock::new() }; _],
            swept: CachePadded(AtomicUsize::new(BUCKETS_MIN)),
        };
        let first = segment(BUCKETS_MIN, TRoot::new_in);
        Buckets { first, growth: Some(Box::new(growth)), hasher: H::default() }
    }
}

impl<K: Key, V: Value, W: World, H> std::fmt::Debug for Buckets<K, V, W, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets").field("grows", &self.growth.is_some()).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, W: World, H> Drop for Buckets<K, V, W, H> {
    fn drop(&mut self) {
        let segments = self.growth.iter_mut().flat_map(|growth| &mut growth.segments);
        let later = segments.filter_map(OnceLock::get_mut).flatten();
        for bucket in self.first.iter_mut().chain(later) {
            // SAFETY: all nodes are this map's, and it gives out no references to them that outlast a transaction which
            // borrows it. Each is in one chain.
            unsafe { bucket.free_all(|node, free| free(&mut node.next)) };
        }
    }
}

impl<K: Key, V: Value, W: World, H> Buckets<K, V, W, H> {
    /// How many buckets there are.
    #[inline(always)]
    fn count<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        match &self.growth {
            None => Ok(self.first.len()),
            Some(growth) => growth.count(tx),
        }
    }

    #[inline(always)]
    fn bucket(&self, number: usize) -> &Bucket<K, V, W> {
        match &self.growth {
            Some(growth) if number >= BUCKETS_MIN => growth.bucket(number),
            _ => &self.first[number],
        }
    }

    /// The bucket in which something is that belongs in this one, and its first entry.
    #[inline(always)]
    fn nearest_set<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        mut number: usize,
    ) -> Answer<(usize, Link<'tx, K, V, W>)> {
        loop {
            if let Some(first) = self.bucket(number).get_if_set(tx)? {
                return Ok((number, first));
            }
            // Only later ones are unset, so there is a highest bit.
            number = parent(number);
        }
    }

    /// How many buckets there are; that in which something is that has this hash; and its first entry.
    #[inline(always)]
    fn bucket_of<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        hash: usize,
    ) -> Answer<(usize, usize, Link<'tx, K, V, W>)> {
        match &self.growth {
            None => {
                let number = hash & (self.first.len() - 1);
                Ok((self.first.len(), number, self.first[number].get(tx)?))
            }
            Some(growth) => self.bucket_of_grown(tx, growth, hash),
        }
    }

    /// The same in a map that grows: out of line, so that it takes no registers from the other.
    #[inline(never)]
    fn bucket_of_grown<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        growth: &'tx Growth<K, V, W>,
        hash: usize,
    ) -> Answer<(usize, usize, Link<'tx, K, V, W>)> {
        let buckets = growth.count(tx)?;
        let (number, first) = self.nearest_set(tx, hash & (buckets - 1))?;
        Ok((buckets, number, first))
    }

    /// As [`Buckets::bucket_of`], the entry alone.
    #[inline(always)]
    fn first_of<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, hash: usize) -> Answer<Link<'tx, K, V, W>> {
        match &self.growth {
            None => self.first[hash & (self.first.len() - 1)].get(tx),
            Some(growth) => self.first_of_grown(tx, growth, hash),
        }
    }

    /// The same in a map that grows.
    #[inline(never)]
    fn first_of_grown<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        growth: &'tx Growth<K, V, W>,
        hash: usize,
    ) -> Answer<Link<'tx, K, V, W>> {
        let number = hash & (growth.count(tx)? - 1);
        Ok(self.nearest_set(tx, number)?.1)
    }

    /// Whether it is time for more buckets, as far as can be told at a glance.
    #[cold]
    fn seems_full(&self, hash: usize, buckets: usize) -> bool {
        let begins = if buckets > self.first.len() { buckets / 2 } else { 0 };
        let glances = GLANCES.min(buckets - begins);
        let group = begins + (hash & (buckets - begins - 1) & !(glances - 1));
        // Mostly a quarter of them shows that it is not.
        let few = glances.div_ceil(4);
        // Where these are all that there are, nobody finds others that are fuller by chance.
        let percent = if glances == buckets - begins { 70 } else { 75 };
        self.have_entries(group..group + few, 60) && self.have_entries(group..group + glances, percent)
    }

    /// Whether so many of some buckets have entries, at a glance.
    fn have_entries(&self, numbers: Range<usize>, percent: usize) -> bool {
        let wanted = numbers.len() * percent * 3;
        let thirds: usize = numbers
            .map(|number| match self.bucket(number).glance() {
                Some(has_entries) => 3 * usize::from(has_entries),
                None => 2 * usize::from(self.bucket(parent(number)).glance() == Some(true)),
            })
            .sum();
        thirds * 100 >= wanted
    }
}

/// The bucket with the same number, but for the highest bit.
fn parent(number: usize) -> usize {
    number & !(1 << number.ilog2())
}

impl<K: Key + Hash, V: Value, W: World, H: BuildHasher> Buckets<K, V, W, H> {
    #[inline(always)]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.hasher.hash_one(key) as usize
    }

    /// Sets a bucket that is not, and answers the first entry in it.
    #[cold]
    fn set_up<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, number: usize) -> Answer<Link<'tx, K, V, W>> {
        let parent = parent(number);
        let mut at = match self.bucket(parent).get_if_set(tx)? {
            Some(first) => first,
            None => self.set_up(tx, parent)?,
        };
        // Entries whose hashes have these low bits are in the parent's chain, and are to be in this one. All are hashed before any is
        // moved: that is code of the user's, and if it panics, and the closure goes on all the same, none may have been left out.
        let mask = (1 << (number.ilog2() + 1)) - 1;
        let mut chain = Vec::new();
        while let Some(node) = at {
            chain.push((node, self.hash(&node.content().key) & mask == number));
            at = node.follow(tx, |node| &node.next)?;
        }
        let (mut moved, mut last_kept): (Link<'tx, K, V, W>, Link<'tx, K, V, W>) = (None, None);
        for (at, &(node, is_moved)) in chain.iter().enumerate() {
            if is_moved {
                let next = chain.get(at + 1).map(|&(next, _)| next);
                self.lead(tx, parent, last_kept, next)?;
                node.link(tx, |node| &node.next, moved)?;
                moved = Some(node);
            } else {
                last_kept = Some(node);
            }
        }
        self.bucket(number).set(tx, moved)?;
        Ok(moved)
    }

    /// Notes the entries of a chain that belong in the bucket at which an iteration is.
    #[inline]
    fn collect<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Cursor<'tx, K, V, W>,
        mut at: Link<'tx, K, V, W>,
    ) -> Answer<()> {
        let mask = cursor.buckets - 1;
        while let Some(node) = at {
            if self.growth.is_none() || self.hash(&node.content().key) & mask == cursor.bucket {
                cursor.found.push(node);
            }
            at = node.follow(tx, |node| &node.next)?;
        }
        Ok(())
    }

    /// Something with this hash has been put in: doubles the number of buckets, if it is time, and sets some that are unset.
    #[inline(never)]
    fn grow<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        growth: &'tx Growth<K, V, W>,
        hash: usize,
        buckets: usize,
        has_long_chain: bool,
    ) -> Answer<()> {
        if has_long_chain && buckets >> DOUBLINGS_MAX < self.first.len() && self.seems_full(hash, buckets) {
            // What is read from now on may be in buckets of the new segment, which are unset.
            growth.doublings.update(tx, |doublings| doublings + 1)?;
        }
        let numbers = growth.claim(buckets);
        if numbers.is_empty() { Ok(()) } else { self.sweep(tx, numbers) }
    }

    /// Sets some buckets, unless somebody has set them since.
    #[cold]
    fn sweep<'tx, X: Writes<'tx, W>>(&'tx self, tx: X, numbers: Range<usize>) -> Answer<()> {
        for number in numbers {
            if self.bucket(number).get_if_set(tx)?.is_none() {
                self.set_up(tx, number)?;
            }
        }
        Ok(())
    }
}

impl<K: Key, V: Value, W: World, H> Buckets<K, V, W, H> {
    /// Makes what leads to an entry lead elsewhere: the entry before it, or the bucket.
    #[inline(always)]
    fn lead<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        bucket: usize,
        before: Link<'tx, K, V, W>,
        to: Link<'tx, K, V, W>,
    ) -> Answer<()> {
        match before {
            Some(before) => before.link(tx, |node| &node.next, to),
            None => self.bucket(bucket).set(tx, to),
        }
    }
}

impl<K: Key, V: Value, W: World, H> Sealed for Buckets<K, V, W, H> {}

impl<K: Key + Eq + Hash, V: Value, W: World, H> Structure for Buckets<K, V, W, H>
where
    H: BuildHasher + Send + Sync + 'static,
{
    const NAME: &'static str = "THashMap";
    type Key = K;
    type Value = V;
    type World = W;
    type Node = Node<K, V, W>;
    type Place<'tx> = Place<'tx, K, V, W>;
    type Cursor<'tx> = Cursor<'tx, K, V, W>;

    #[inline(always)]
    fn key(node: &Self::Node) -> &K {
        &node.key
    }

    #[inline(always)]
    fn value(node: &Self::Node) -> &Stored<Self> {
        &node.value
    }

    #[inline(always)]
    fn put_in<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        place: &mut Place<'tx, K, V, W>,
        key: K,
        value: Given<Self>,
    ) -> Answer<()> {
        let number = place.hash & (place.buckets - 1);
        let first =
            if number == place.bucket { self.bucket(number).get(tx)? } else { self.set_up(tx, number)? };
        let node = Node { key, value: V::store(value), next: TLink::to(first) };
        self.bucket(number).set(tx, Some(TRef::alloc(tx, node)))?;
        match &self.growth {
            None => Ok(()),
            // (A chain of several buckets is no wonder.)
            Some(growth) => {
                let has_long_chain = place.bucket == number && place.others >= CHAIN_LONG;
                self.grow(tx, growth, place.hash, place.buckets, has_long_chain)
            }
        }
    }

    #[inline(always)]
    fn take_out<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        place: &mut Place<'tx, K, V, W>,
        node: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        let next = node.follow(tx, |node| &node.next)?;
        self.lead(tx, place.bucket, place.before, next)
    }

    fn begin<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Self::Cursor<'tx>> {
        let buckets = self.count(tx)?;
        Ok(Cursor { buckets, buckets_now: buckets, bucket: 0, found: Vec::new() })
    }

    fn next<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        loop {
            if let Some(node) = cursor.found.pop() {
                return Ok(Some(node));
            }
            if cursor.bucket >= cursor.buckets {
                return Ok(None);
            }
            // What belongs in one that is unset is in another one, with what belongs there.
            self.collect(tx, cursor, self.nearest_set(tx, cursor.bucket)?.1)?;
            let later = (cursor.bucket + cursor.buckets..cursor.buckets_now).step_by(cursor.buckets);
            for number in later {
                let first = self.bucket(number).get_if_set(tx)?.flatten();
                self.collect(tx, cursor, first)?;
            }
            cursor.bucket += 1;
        }
    }

    /// Entries may have been moved to other buckets.
    #[cold]
    fn resume<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
        _: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        cursor.buckets_now = self.count(tx)?;
        Ok(())
    }

    fn check<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        let buckets = self.count(tx)?;
        let mut longest = 0;
        for number in 0..buckets {
            let Some(mut at) = self.bucket(number).get_if_set(tx)? else {
                assert!(number >= self.first.len(), "one of the first buckets is unset");
                continue;
            };
            if number >= self.first.len() {
                let parent = self.bucket(parent(number)).get_if_set(tx)?;
                assert!(parent.is_some(), "a bucket is set, and its parent is not");
            }
            let mut length = 0;
            while let Some(node) = at {
                let own = self.hash(&node.content().key) & (buckets - 1);
                assert_eq!(self.nearest_set(tx, own)?.0, number, "an entry in a bucket that is not its own");
                length += 1;
                at = node.follow(tx, |node| &node.next)?;
            }
            longest = longest.max(length);
        }
        Ok(longest)
    }
}

impl<K, V, W, H, Q> Look<Q> for Buckets<K, V, W, H>
where
    K: Key + Eq + Hash + Borrow<Q>,
    V: Value,
    W: World,
    H: BuildHasher + Send + Sync + 'static,
    Q: Eq + Hash + ?Sized + 'static,
{
    #[inline]
    fn find<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, key: &Q) -> Answer<Option<NodeOf<'tx, Self>>> {
        let mut at = self.first_of(tx, self.hash(key))?;
        while let Some(node) = at {
            if node.key.borrow() == key {
                break;
            }
            at = node.follow(tx, |node| &node.next)?;
        }
        Ok(at)
    }

    #[inline(always)]
    fn find_place<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        key: &Q,
        place: &mut Self::Place<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        let hash = self.hash(key);
        let (buckets, bucket, mut at) = self.bucket_of(tx, hash)?;
        *place = Place { hash, buckets, bucket, before: None, others: 0 };
        while let Some(node) = at {
            if node.key.borrow() == key {
                break;
            }
            place.before = at;
            place.others += 1;
            at = node.follow(tx, |node| &node.next)?;
        }
        Ok(at)
    }
}

/// The default hasher of [`THashMap`]: multiplies, and folds the halves of the product. The same in each run.
///
/// Made for numbers and short keys, and for speed; not for keys that somebody chooses who wants the map to be slow.
#[derive(Clone, Copy, Debug)]
pub struct Folding(u64);

impl Default for Folding {
    fn default() -> Self {
        // Digits of pi.
        Folding(0x243f_6a88_85a3_08d3)
    }
}

impl Hasher for Folding {
    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0xa409_3822_299f_31d1_u128;
        // The low half depends on the low bits only, the high one mostly on the high ones.
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
        // Or an empty string would be none.
        self.write_u64(bytes.len() as u64);
    }

    #[inline(always)]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }
    #[inline(always)]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }
    #[inline(always)]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }
    #[inline(always)]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Global, TwoPlSf};

    #[test]
    fn a_bucket_takes_what_the_docs_say() {
        assert_eq!(size_of::<Bucket<u64, u64, Global>>(), 16);
        assert_eq!(size_of::<Bucket<String, u64, Global<TwoPlSf>>>(), 16);
    }

    /// How many buckets of a map are unset, and how many there are.
    fn unset(map: &THashMap<u64, u64>) -> (usize, usize) {
        let buckets = crate::view(|tx| map.buckets(tx));
        ((0..buckets).filter(|number| map.0.bucket(*number).glance().is_none()).count(), buckets)
    }

    #[test]
    fn after_a_doubling_a_quarter_as_many_insertions_set_all_new_buckets() {
        let map = THashMap::new();
        let (mut seen, mut doublings) = (unset(&map).1, 0);
        for key in 0..20_000 {
            crate::atomically(|tx| map.insert(tx, key, key));
            let (left, buckets) = unset(&map);
            if buckets == seen {
                continue;
            }
            assert!(left > buckets / 2 - SWEEP, "{left} of {buckets}: those of the new segment are unset");
            let insertions = (buckets - seen) as u64 / SWEEP as u64;
            // What others insert meanwhile need not be near what is looked up.
            for other in 0..insertions {
                crate::atomically(|tx| map.insert(tx, (key + 1) << 32 | other, 0));
            }
            assert_eq!(unset(&map).0, 0, "of {buckets} after {insertions} insertions");
            (seen, doublings) = (unset(&map).1, doublings + 1);
        }
        assert!(doublings > 5, "{doublings}");
        crate::view(|tx| map.check(tx));
    }

    #[test]
    fn what_an_undone_attempt_has_claimed_is_set_when_something_is_inserted() {
        let map = THashMap::new();
        let mut key = 0;
        while unset(&map).0 == 0 {
            key += 1;
            crate::atomically(|tx| map.insert(tx, key, key));
        }
        let (left, buckets) = unset(&map);
        for number in 0..buckets as u64 {
            let called_off: Result<(), crate::Interrupted> = crate::try_atomically(|tx| {
                map.insert(tx, 1 << 40 | number, 0)?;
                Err(crate::Interrupted(()))
            });
            assert!(called_off.is_err());
        }
        assert_eq!(unset(&map), (left, buckets), "what was undone has set nothing");
        assert_eq!(crate::view(|tx| map.check(tx)).0 as u64, key);
        for other in 0..20 * buckets as u64 {
            crate::atomically(|tx| map.insert(tx, 1 << 41 | other, 0));
        }
        assert_eq!(crate::view(|tx| map.check(tx)).0 as u64, key + 20 * buckets as u64);
    }
}
