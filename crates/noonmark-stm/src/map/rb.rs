//! [`TRbMap`]: an ordered map, a red-black tree (Guibas and Sedgewick, *A Dichromatic Framework for Balanced Trees*, 1978; §7.4 of
//! the paper).
//!
//! - **Invariant**: the root is black, and so are the children of a red node.
//! - **Invariant**: each way from the root down to where there is no node has the same number of black nodes.
//!
//! So no way is more than twice as long as another. An insertion adds a red leaf, and a removal may leave a way with a black node too
//! few; either goes up from there, changing colours, until it can mend the rest with a rotation or two.
//!
//! It is here for comparison. (§7.4 of the paper: no scaling at all for transactions that write, as updates meet at the root. Here they seldom come so high,
//! and write nothing that stays as it is: on 128 virtual cores it scales as the other trees do, `docs/reproductions/slowclocks-fig12-rb.txt`.) Where small trees are
//! written a lot, take [`TRavlMap`](crate::TRavlMap).
//!
//! What it does not do: it does not go down once only, mending as it goes, which would write even more.

use super::tree::{Balance, Branching, Path, Pen, Side, Tree, Turn};
use super::{Answer, Sealed, TMap};
use crate::node::{TField, TRef};
use crate::transaction::{Reads, Writes};
use crate::world::Global;

/// An ordered map, a red-black tree. See [`TMap`] for what it can do.
///
/// 48 bytes an entry, for a key and a value of eight bytes each, and what the allocator adds.
pub type TRbMap<K, V, W = Global> = TMap<Tree<K, V, RedBlack, W>>;

/// Colours.
#[derive(Debug)]
pub struct RedBlack;

impl Sealed for RedBlack {}

/// In a node's mark: whether it is red.
const RED: bool = true;
const BLACK: bool = false;

/// Whether there is a node, and it is red.
#[inline(always)]
fn is_red<'tx, N, X>(pen: Pen<'tx, N, X>, link: Option<TRef<'tx, N, N::World>>) -> Answer<bool>
where
    N: Branching<Mark = TField<bool>>,
    X: Reads<'tx, N::World>,
{
    match link {
        Some(node) => Ok(pen.mark::<bool>(node)? == RED),
        None => Ok(false),
    }
}

/// Moves a node's child up into its place, and the node down to the other side.
fn rotate_up<'tx, N, X>(
    pen: Pen<'tx, N, X>,
    above: Option<Turn<'tx, N>>,
    node: TRef<'tx, N, N::World>,
    child: TRef<'tx, N, N::World>,
    side: Side,
) -> Answer<()>
where
    N: Branching,
    X: Writes<'tx, N::World>,
{
    pen.set_child(node, side, pen.child(child, side.other())?)?;
    pen.set_child(child, side.other(), Some(node))?;
    pen.set_link(above, Some(child))
}

impl RedBlack {
    /// The ways through the end of this path have a black node too few, and where it ends there is none, or a black one.
    fn mend<'tx, N, X>(pen: Pen<'tx, N, X>, path: &mut Path<'tx, N>) -> Answer<()>
    where
        N: Branching<Mark = TField<bool>>,
        X: Writes<'tx, N::World>,
    {
        while let Some((parent, side)) = path.pop() {
            let other = side.other();
            // The other side has a black node more than this one, so there is one.
            let Some(mut sibling) = pen.child(parent, other)? else { break };
            if pen.mark::<bool>(sibling)? == RED {
                // So that the sibling is black: a child of this one, which is under a black parent.
                rotate_up(pen, path.last(), parent, sibling, other)?;
                pen.set_mark(sibling, BLACK)?;
                pen.set_mark(parent, RED)?;
                path.push(sibling, side);
                let Some(child) = pen.child(parent, other)? else { break };
                sibling = child;
            }
            let (inner, outer) = (pen.child(sibling, side)?, pen.child(sibling, other)?);
            let top = match (inner, outer) {
                (_, Some(outer)) if is_red(pen, Some(outer))? => {
                    pen.set_mark(outer, BLACK)?;
                    sibling
                }
                (Some(inner), _) if is_red(pen, Some(inner))? => {
                    // Between the two.
                    rotate_up(pen, Some((parent, other)), sibling, inner, side)?;
                    inner
                }
                _ => {
                    // One less on that side, too. If the parent is red, it can make up for it.
                    pen.set_mark(sibling, RED)?;
                    if pen.mark::<bool>(parent)? == RED {
                        return pen.set_mark(parent, BLACK);
                    }
                    continue;
                }
            };
            // With the parent's colour in its place, and a black node more on either side of it.
            let colour: bool = pen.mark(parent)?;
            rotate_up(pen, path.last(), parent, top, other)?;
            pen.set_mark(top, colour)?;
            return pen.set_mark(parent, BLACK);
        }
        Ok(())
    }
}

impl Balance for RedBlack {
    const NAME: &'static str = "TRbMap";
    type Mark = TField<bool>;

    fn new_mark(_: impl FnOnce() -> u64) -> TField<bool> {
        TField::new(RED)
    }

    fn link<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        leaf: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = TField<bool>>,
        X: Writes<'tx, N::World>,
    {
        pen.set_link(path.last(), Some(leaf))?;
        // A red node, under which all is well.
        let mut node = leaf;
        while let Some((parent, side)) = path.pop() {
            if pen.mark::<bool>(parent)? == BLACK {
                return Ok(());
            }
            // A red one is not the root.
            let Some((grandparent, parent_side)) = path.pop() else { break };
            let uncle = pen.child(grandparent, parent_side.other())?;
            if let Some(uncle) = uncle
                && is_red(pen, Some(uncle))?
            {
                pen.set_mark(parent, BLACK)?;
                pen.set_mark(uncle, BLACK)?;
                pen.set_mark(grandparent, RED)?;
                node = grandparent;
                continue;
            }
            let top = if side == parent_side {
                parent
            } else {
                rotate_up(pen, Some((grandparent, parent_side)), parent, node, side)?;
                node
            };
            rotate_up(pen, path.last(), grandparent, top, parent_side)?;
            pen.set_mark(top, BLACK)?;
            return pen.set_mark(grandparent, RED);
        }
        // It is the root.
        pen.set_mark(node, BLACK)
    }

    fn unlink<'tx, N, X>(
        pen: Pen<'tx, N, X>,
        path: &mut Path<'tx, N>,
        node: TRef<'tx, N, N::World>,
    ) -> Answer<()>
    where
        N: Branching<Mark = TField<bool>>,
        X: Writes<'tx, N::World>,
    {
        let (left, right) = (pen.child(node, Side::Left)?, pen.child(node, Side::Right)?);
        let mut lost: bool = pen.mark(node)?;
        let child = match (left, right) {
            (Some(_), Some(right)) => {
                // Its successor comes in its place, with its colour, and what is missing is missing where that one was.
                let (above, place) = (path.last(), path.len());
                path.push(node, Side::Right);
                let mut successor = right;
                while let Some(next) = pen.child(successor, Side::Left)? {
                    path.push(successor, Side::Left);
                    successor = next;
                }
                let colour = std::mem::replace(&mut lost, pen.mark(successor)?);
                let child = pen.child(successor, Side::Right)?;
                if successor != right {
                    pen.set_link(path.last(), child)?;
                    pen.set_child(successor, Side::Right, Some(right))?;
                }
                pen.set_child(successor, Side::Left, left)?;
                pen.set_mark(successor, colour)?;
                pen.set_link(above, Some(successor))?;
                path.replace(place, successor);
                child
            }
            (only, None) | (None, only) => {
                pen.set_link(path.last(), only)?;
                only
            }
        };
        match child {
            _ if lost == RED => Ok(()),
            // A red one can make up for it.
            Some(child) if is_red(pen, Some(child))? => pen.set_mark(child, BLACK),
            _ => Self::mend(pen, path),
        }
    }

    fn check<'tx, N, X>(pen: Pen<'tx, N, X>) -> Answer<()>
    where
        N: Branching<Mark = TField<bool>>,
        X: Reads<'tx, N::World>,
    {
        assert!(!is_red(pen, pen.follow(None)?)?, "a red root");
        // How many black nodes there were down to the first place without one.
        let mut blacks = None;
        // Where to go, how many there were on the way, and whether the last was red.
        let mut stack = vec![(None, 0, BLACK)];
        while let Some((at, above, parent)) = stack.pop() {
            let Some(node) = pen.follow(at)? else {
                assert_eq!(*blacks.get_or_insert(above), above, "ways with different numbers of black nodes");
                continue;
            };
            let colour: bool = pen.mark(node)?;
            assert!(parent == BLACK || colour == BLACK, "a red child of a red node");
            let here = above + usize::from(colour == BLACK);
            stack.extend([Side::Left, Side::Right].map(|side| (Some((node, side)), here, colour)));
        }
        Ok(())
    }
}
