//! [`TSkipMap`]: an ordered map, a skip list (Pugh, *Skip Lists: A Probabilistic Alternative to Balanced Trees*, 1990; §7.4 of the
//! paper).
//!
//! All entries are in a chain. Every fourth, by chance, is in a second chain as well, every fourth of those in a third, and
//! so on. Whoever looks for a key goes along the highest chain as far as its keys are less, then goes on from there in the next one
//! below.
//!
//! - **Invariant**: each chain is in the order of the keys.
//! - **Invariant**: an entry that has links of so many levels is in as many chains, from the lowest up.
//!
//! Nothing is ever balanced. But an insertion or a removal writes to the entry before it in each of its chains, and in the
//! higher ones that is one that many others have come by: it scales less well than a tree.
//!
//! *How many chains there are* is known from a number beside them that no transaction guards: it is raised by whoever makes an
//! entry of more levels than there were, and nobody relies on it. Who finds it too low looks at fewer chains, and takes longer; who
//! needs a place in a chain that he has not looked at looks once more; and who takes an entry out of one goes along it from its beginning.
//!
//! What it does not do: nothing bounds the way to an entry but chance. Links of higher levels lie apart from their node, in an
//! allocation of their own.

use super::value::Value;
use super::{Answer, Given, Key, Look, NodeOf, Ordered, Sealed, Stored, Structure, TMap, is_before};
use crate::node::{TLink, TLinks, TRef, TRoot};
use crate::transaction::{Reads, Writes};
use crate::world::{Global, World};
use noonmark_core::sync::{AtomicUsize, Ordering};
use std::borrow::Borrow;
use std::ops::Bound;

/// Chains, at most: enough for a trillion entries.
const LEVELS_MAX: usize = 20;

/// An ordered map, a skip list. See [`TMap`] for what it can do.
///
/// 48 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds; for every fourth another 8 in an
/// allocation of their own, for every sixteenth 16, and so on. An empty map takes 328 bytes.
pub type TSkipMap<K, V, W = Global> = TMap<SkipList<K, V, W>>;

/// An entry.
#[doc(hidden)]
#[derive(Debug)]
pub struct Node<K: Key, V: Value, W: World> {
    key: K,
    value: V::Stored,
    next: TLink<Node<K, V, W>, W>,
    /// The links in the higher chains, from the second on.
    above: TLinks<Node<K, V, W>, W>,
}

type Link<'tx, K, V, W> = Option<TRef<'tx, Node<K, V, W>, W>>;

/// A skip list, for [`TMap`].
pub struct SkipList<K: Key, V: Value, W: World> {
    first: [TRoot<Node<K, V, W>, W>; LEVELS_MAX],
    /// How many chains have ever had an entry, or fewer. At least 1.
    levels: AtomicUsize,
}

/// Where a key is, or would be.
///
/// **Invariant**: none of them comes after the one in the chain below, whatever the keys say of their order: one descent has found all.
///
/// Keys are not compared once a chain has been changed: that is users' code, and may panic. What is half put in could be freed
/// where a chain still leads to it.
#[doc(hidden)]
pub struct Place<'tx, K: Key, V: Value, W: World> {
    /// In each chain that was looked at, from the lowest up, the last entry with a lesser key.
    before: [Link<'tx, K, V, W>; LEVELS_MAX],
    /// How many chains that were.
    levels: usize,
}

impl<K: Key, V: Value, W: World> Default for Place<'_, K, V, W> {
    fn default() -> Self {
        Place { before: [None; LEVELS_MAX], levels: 0 }
    }
}

impl<K: Key, V: Value, W: World> std::fmt::Debug for Place<'_, K, V, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("levels", &self.levels).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, W: World> Default for SkipList<K, V, W> {
    fn default() -> Self {
        SkipList { first: std::array::from_fn(|_| TRoot::new_in()), levels: AtomicUsize::new(1) }
    }
}

impl<K: Key, V: Value, W: World> std::fmt::Debug for SkipList<K, V, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SkipList").finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, W: World> Drop for SkipList<K, V, W> {
    fn drop(&mut self) {
        // SAFETY: all nodes are this list's, and it gives out no references to them that outlast a transaction which
        // borrows it. Each is in the lowest chain once; the others are not followed.
        unsafe { self.first[0].free_all(|node, free| free(&mut node.next)) };
    }
}

impl<K: Key, V: Value, W: World> SkipList<K, V, W> {
    /// How many chains are known of.
    #[inline(always)]
    fn levels(&self) -> usize {
        // Relaxed: see the module's page.
        self.levels.load(Ordering::Relaxed)
    }

    /// The next entry in a chain after this one, or the first.
    #[inline(always)]
    fn after<'tx, X>(&'tx self, tx: X, before: Link<'tx, K, V, W>, level: usize) -> Answer<Link<'tx, K, V, W>>
    where
        X: Reads<'tx, W>,
    {
        match before {
            None => self.first[level].get(tx),
            Some(node) if level == 0 => node.follow(tx, |node| &node.next),
            Some(node) => node.follow_nth(tx, |node| &node.above, level - 1),
        }
    }

    fn lead<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        before: Link<'tx, K, V, W>,
        level: usize,
        to: Link<'tx, K, V, W>,
    ) -> Answer<()> {
        match before {
            None => self.first[level].set(tx, to),
            Some(node) if level == 0 => node.link(tx, |node| &node.next, to),
            Some(node) => node.link_nth(tx, |node| &node.above, level - 1, to),
        }
    }

    /// Goes down from the highest of so many chains, in each as far as `is_less` says so of the keys, and calls `note` with the last one.
    /// Answers the first one after that.
    #[inline(always)]
    fn descend<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        levels: usize,
        is_less: impl Fn(&K) -> bool,
        mut note: impl FnMut(usize, Link<'tx, K, V, W>),
    ) -> Answer<Link<'tx, K, V, W>> {
        // The entry before, and one that is known not to be less.
        let (mut before, mut beyond) = (None, None);
        for level in (0..levels).rev() {
            loop {
                let next = self.after(tx, before, level)?;
                match next {
                    Some(node) if next != beyond && is_less(&node.content().key) => before = next,
                    _ => {
                        beyond = next;
                        break;
                    }
                }
            }
            note(level, before);
        }
        Ok(beyond)
    }
}

impl<K: Key + Ord, V: Value, W: World> SkipList<K, V, W> {
    /// Where a key is, or would be, in so many chains at least.
    #[inline]
    fn look<'tx, X: Reads<'tx, W>, Q: Ord + ?Sized>(
        &'tx self,
        tx: X,
        key: &Q,
        place: &mut Place<'tx, K, V, W>,
        levels: usize,
    ) -> Answer<Link<'tx, K, V, W>>
    where
        K: Borrow<Q>,
    {
        let levels = levels.max(self.levels());
        place.levels = levels;
        self.descend(tx, levels, |other| other.borrow() < key, |level, before| place.before[level] = before)
    }

    /// The one before an entry in a chain that has it.
    fn before<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        node: NodeOf<'tx, Self>,
        level: usize,
    ) -> Answer<Link<'tx, K, V, W>> {
        let mut before = None;
        loop {
            match self.after(tx, before, level)? {
                Some(next) if next != node => before = Some(next),
                _ => return Ok(before),
            }
        }
    }
}

impl<K: Key, V: Value, W: World> Sealed for SkipList<K, V, W> {}

impl<K: Key + Ord, V: Value, W: World> Structure for SkipList<K, V, W> {
    const NAME: &'static str = "TSkipMap";
    type Key = K;
    type Value = V;
    type World = W;
    type Node = Node<K, V, W>;
    type Place<'tx> = Place<'tx, K, V, W>;
    /// The next one.
    type Cursor<'tx> = Link<'tx, K, V, W>;

    #[inline(always)]
    fn key(node: &Self::Node) -> &K {
        &node.key
    }

    #[inline(always)]
    fn value(node: &Self::Node) -> &Stored<Self> {
        &node.value
    }

    fn put_in<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        place: &mut Place<'tx, K, V, W>,
        key: K,
        value: Given<Self>,
    ) -> Answer<()> {
        let levels = LEVELS_MAX.min(1 + tx.desk().random().trailing_zeros() as usize / 2);
        // Relaxed: see the module's page.
        self.levels.fetch_max(levels, Ordering::Relaxed);
        if place.levels < levels {
            self.look(tx, &key, place, levels)?;
        }
        let (value, next, above) = (V::store(value), TLink::none(), TLinks::none(levels - 1));
        let node = TRef::alloc(tx, Node { key, value, next, above });
        for (level, &before) in place.before[..levels].iter().enumerate() {
            self.lead(tx, Some(node), level, self.after(tx, before, level)?)?;
            self.lead(tx, before, level, Some(node))?;
        }
        Ok(())
    }

    fn take_out<'tx, X: Writes<'tx, W>>(
        &'tx self,
        tx: X,
        place: &mut Place<'tx, K, V, W>,
        node: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        for level in 0..=node.above.len() {
            let before =
                if level < place.levels { place.before[level] } else { self.before(tx, node, level)? };
            self.lead(tx, before, level, self.after(tx, Some(node), level)?)?;
        }
        Ok(())
    }

    fn begin<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Self::Cursor<'tx>> {
        self.first[0].get(tx)
    }

    fn next<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        let Some(node) = *cursor else { return Ok(None) };
        *cursor = node.follow(tx, |node| &node.next)?;
        Ok(Some(node))
    }

    /// What was the next one may have been put in by a branch that is undone: then its link leads nowhere.
    #[cold]
    fn resume<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        cursor: &mut Self::Cursor<'tx>,
        last: NodeOf<'tx, Self>,
    ) -> Answer<()> {
        *cursor = self.seek(tx, Bound::Excluded(&last.content().key))?;
        Ok(())
    }

    fn check<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<usize> {
        // In how many more chains each entry is to be met, in order.
        let mut awaited = Vec::new();
        let mut longest = 0;
        for level in 0..LEVELS_MAX {
            let (mut at, mut met, mut before) = (self.first[level].get(tx)?, Vec::new(), None);
            while let Some(node) = at {
                let key = &node.content().key;
                assert!(before.is_none_or(|before| before < key), "keys out of order");
                before = Some(key);
                met.push(node);
                at = self.after(tx, at, level)?;
            }
            if level > 0 {
                awaited.retain(|node: &NodeOf<'tx, Self>| node.above.len() >= level);
                assert!(awaited == met, "a chain that is not of the entries with links of its level");
            }
            awaited = met;
            if level == 0 {
                // The way to each: as many steps along chains, and down.
                for node in &awaited {
                    let steps = std::cell::Cell::new(0);
                    let is_less = |key: &K| {
                        steps.set(steps.get() + 1);
                        *key < node.content().key
                    };
                    self.descend(tx, self.levels(), is_less, |_, _| {})?;
                    longest = longest.max(steps.get());
                }
            }
        }
        Ok(longest)
    }
}

impl<K, V, W, Q> Look<Q> for SkipList<K, V, W>
where
    K: Key + Ord + Borrow<Q>,
    V: Value,
    W: World,
    Q: Ord + ?Sized + 'static,
{
    #[inline]
    fn find<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, key: &Q) -> Answer<Option<NodeOf<'tx, Self>>> {
        let found = self.descend(tx, self.levels(), |other| other.borrow() < key, |_, _| {})?;
        Ok(found.filter(|node| node.content().key.borrow() == key))
    }

    #[inline]
    fn find_place<'tx, X: Reads<'tx, W>>(
        &'tx self,
        tx: X,
        key: &Q,
        place: &mut Self::Place<'tx>,
    ) -> Answer<Option<NodeOf<'tx, Self>>> {
        let found = self.look(tx, key, place, 1)?;
        Ok(found.filter(|node| node.content().key.borrow() == key))
    }
}

impl<K: Key + Ord, V: Value, W: World> Ordered for SkipList<K, V, W> {
    fn seek<'tx, X: Reads<'tx, W>>(&'tx self, tx: X, start: Bound<&K>) -> Answer<Self::Cursor<'tx>> {
        self.descend(tx, self.levels(), |key| is_before(key, start), |_, _| {})
    }

    fn last<'tx, X: Reads<'tx, W>>(&'tx self, tx: X) -> Answer<Option<NodeOf<'tx, Self>>> {
        let mut last = None;
        self.descend(tx, self.levels(), |_| true, |_, before| last = before)?;
        Ok(last)
    }
}
