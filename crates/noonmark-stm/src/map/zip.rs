//! [`TZipMap`]: an ordered map, a zip tree (Tarjan, Levy and Timmel, *Zip Trees*, 2019; §7.4 of the paper).
//!
//! Each node has a *rank*, drawn by chance when it is made, 0 for every second, 1 for every fourth, and so on. It never changes.
//!
//! - **Invariant**: a node's rank is greater than that of its left child, and not less than that of its right one.
//!
//! So there is but one shape for given keys and ranks, a node is most likely as deep as it would be in a tree that came about by
//! chance, and it does not matter in which order entries came. An insertion goes down to where the new node's rank says
//! that it belongs, and *unzips* what is below into what is less and what is greater; a removal *zips* the two sides together. Neither
//! looks at anything above, and what they change is short: less than two links each on the average.
//!
//! What it does not do: nothing bounds the height but chance.

use super::tree::{Balance, Branching, Path, Pen, Side, Tree};
use super::{Answer, Sealed, TMap};
use crate::node::TRef;
use crate::transaction::{Reads, Writes};
use crate::world::Global;

/// An ordered map, a zip tree: flat by chance, and few links are changed. See [`TMap`] for what it can do.
///
/// 48 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds.
pub type TZipMap<K, V, W = Global> = TMap<Tree<K, V, Zip, W>>;

/// Ranks that are drawn by chance.
#[derive(Debug)]
pub struct Zip;

impl Sealed for Zip {}

impl Balance for Zip {
    const NAME: &'static str = "TZipMap";
    type Mark = u8;

    fn new_mark(draw: impl FnOnce() -> u64) -> u8 {
        draw().trailing_zeros() as u8
    }

    fn link<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = u8>,
        X: Writes<'tx, N::World>,
    {
        // Above the first one that may not be its parent: of equals the one with the smaller key is above.
        let rank = *node.mark();
        let may_be_below = |(below, side): (TRef<'tx, N, N::World>, Side)| {
            *below.mark() < rank || (*below.mark() == rank && side == Side::Left)
        };
        let mut index = 0;
        while let Some(turn) = path.get(index)
            && !may_be_below(turn)
        {
            index += 1;
        }
        pen.set_link(path.get(index.wrapping_sub(1)), Some(node))?;
        // What is below comes to its left and to its right: each part hangs at the last of the one before.
        let (mut left, mut right) = ((node, Side::Left), (node, Side::Right));
        while let Some((below, side)) = path.get(index) {
            match side {
                // The key is greater, so this one and what is left of it come to the left.
                Side::Right => {
                    pen.lead(Some(left), Some(below))?;
                    left = (below, Side::Right);
                }
                Side::Left => {
                    pen.lead(Some(right), Some(below))?;
                    right = (below, Side::Left);
                }
            }
            index += 1;
        }
        pen.lead(Some(left), None)?;
        pen.lead(Some(right), None)
    }

    fn unlink<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = u8>,
        X: Writes<'tx, N::World>,
    {
        let (mut left, mut right) = (pen.child(node, Side::Left)?, pen.child(node, Side::Right)?);
        let mut end = path.last();
        loop {
            let (above, side) = match (left, right) {
                (Some(less), Some(greater)) if less.mark() < greater.mark() => (greater, Side::Left),
                (Some(less), Some(_)) => (less, Side::Right),
                (only, None) | (None, only) => return pen.lead(end, only),
            };
            pen.lead(end, Some(above))?;
            end = Some((above, side));
            let below = pen.child(above, side)?;
            match side {
                Side::Right => left = below,
                Side::Left => right = below,
            }
        }
    }

    fn check<'tx, N, X>(pen: Pen<'tx, N, X>) -> Answer<()>
    where
        N: Branching<Mark = u8>,
        X: Reads<'tx, N::World>,
    {
        pen.visit(|node, parent, _| {
            let is_good = parent.is_none_or(|(parent, side)| match side {
                Side::Left => parent.mark() > node.mark(),
                Side::Right => parent.mark() >= node.mark(),
            });
            assert!(is_good, "a rank that is too great for its place");
            Ok(())
        })
    }
}
