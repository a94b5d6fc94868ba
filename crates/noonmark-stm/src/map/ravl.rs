//! [`TRavlMap`]: an ordered map, a relaxed AVL tree (Sen, Tarjan and Kim, *Deletion Without Rebalancing in Binary Search
//! Trees*, 2016; §7.4 of the paper).
//!
//! Each node has a *rank*, a leaf when it is inserted 0; where there is no node the rank is -1.
//!
//! - **Invariant**: a node's rank is greater than those of its children.
//!
//! An insertion can violate it, where the new node's parent is a leaf; going up, it promotes, or rotates once or
//! twice and is done. A deletion does not rebalance at all: it takes the node out, or puts its successor in its place, with its
//! rank. So deletions write little, and near the node, which is what makes the tree good for transactions. The height is at
//! most 1.44 times the binary logarithm of the number of *insertions* so far, whatever was deleted.
//!
//! What it does not do: it does not get flatter when much is deleted and little inserted.

use super::tree::{Balance, Branching, Path, Pen, Side, Tree};
use super::{Answer, Sealed, TMap};
use crate::node::{TField, TRef};
use crate::transaction::{Reads, Writes};
use crate::world::Global;

/// An ordered map, a relaxed AVL tree: the one to take, if the entries are to be in order. See [`TMap`] for what it can do.
///
/// 48 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds.
pub type TRavlMap<K, V, W = Global> = TMap<Tree<K, V, Ravl, W>>;

/// Ranks, and no rebalancing when something is removed.
#[derive(Debug)]
pub struct Ravl;

impl Sealed for Ravl {}

/// The rank of what a link leads to.
#[inline(always)]
fn rank<'tx, N, X>(pen: Pen<'tx, N, X>, link: Option<TRef<'tx, N, N::World>>) -> Answer<i64>
where
    N: Branching<Mark = TField<i64>>,
    X: Reads<'tx, N::World>,
{
    match link {
        Some(node) => pen.mark(node),
        None => Ok(-1),
    }
}

impl Balance for Ravl {
    const NAME: &'static str = "TRavlMap";
    type Mark = TField<i64>;

    fn new_mark(_: impl FnOnce() -> u64) -> TField<i64> {
        TField::new(0)
    }

    fn link<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        leaf: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = TField<i64>>,
        X: Writes<'tx, N::World>,
    {
        pen.set_link(path.last(), Some(leaf))?;
        // `node`'s rank may be its parent's.
        let (mut node, mut node_rank) = (leaf, 0);
        while let Some((parent, side)) = path.pop() {
            if pen.mark(parent)? != node_rank {
                break;
            }
            let sibling = pen.child(parent, side.other())?;
            if node_rank - rank(pen, sibling)? == 1 {
                // Promotes the parent, which may now have its own parent's rank.
                node_rank += 1;
                pen.set_mark(parent, node_rank)?;
                node = parent;
                continue;
            }
            // The parent goes down one rank.
            let inner = pen.child(node, side.other())?;
            match inner {
                Some(inner) if node_rank - pen.mark::<i64>(inner)? == 1 => {
                    // The inner child comes between the two.
                    pen.set_child(node, side.other(), pen.child(inner, side)?)?;
                    pen.set_child(parent, side, pen.child(inner, side.other())?)?;
                    pen.set_child(inner, side, Some(node))?;
                    pen.set_child(inner, side.other(), Some(parent))?;
                    pen.set_mark(inner, node_rank)?;
                    pen.set_mark(node, node_rank - 1)?;
                    pen.set_mark(parent, node_rank - 1)?;
                    pen.set_link(path.last(), Some(inner))?;
                }
                _ => {
                    pen.set_child(parent, side, inner)?;
                    pen.set_child(node, side.other(), Some(parent))?;
                    pen.set_mark(parent, node_rank - 1)?;
                    pen.set_link(path.last(), Some(node))?;
                }
            }
            break;
        }
        Ok(())
    }

    fn unlink<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = TField<i64>>,
        X: Writes<'tx, N::World>,
    {
        let (left, right) = (pen.child(node, Side::Left)?, pen.child(node, Side::Right)?);
        let replacement = match (left, right) {
            (Some(_), Some(right)) => {
                // Its successor comes in its place, with its rank: the leftmost node on the right.
                let (mut above, mut successor) = (None, right);
                while let Some(next) = pen.child(successor, Side::Left)? {
                    above = Some(successor);
                    successor = next;
                }
                if let Some(above) = above {
                    pen.set_child(above, Side::Left, pen.child(successor, Side::Right)?)?;
                    pen.set_child(successor, Side::Right, Some(right))?;
                }
                pen.set_child(successor, Side::Left, left)?;
                pen.set_mark(successor, pen.mark::<i64>(node)?)?;
                Some(successor)
            }
            (only, None) | (None, only) => only,
        };
        pen.set_link(path.last(), replacement)
    }

    fn check<'tx, N, X>(pen: Pen<'tx, N, X>) -> Answer<()>
    where
        N: Branching<Mark = TField<i64>>,
        X: Reads<'tx, N::World>,
    {
        pen.visit(|node, parent, _| {
            let above = parent.map(|(parent, _)| pen.mark::<i64>(parent)).transpose()?;
            let rank: i64 = pen.mark(node)?;
            assert!(rank >= 0, "a negative rank");
            assert!(above.is_none_or(|above| above > rank), "a rank that is not greater than a child's");
            Ok(())
        })
    }
}
