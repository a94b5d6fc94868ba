//! Which transactions come before which, by the paths of a graph.
//!
//! The nodes are put into one order that keeps to the edges. Each has a row of bits, one for each of the places
//! before it in that order, the nearest some thousand of them: set where a path leads from the transaction in
//! that place. A row is the union of those of the nodes before it, so all rows cost the edges times the words of
//! a row. A path between two nodes passes only through places between theirs, so within its width a row is
//! exact; what lies farther back is not known, and counts as no path.
//!
//! What this does not do: answer for the whole of a long history, which would take the square of its length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{Graph, Kinds};

/// The words of all rows.
const WORDS_ALL: usize = 1 << 24;
/// The most words of a row: two generations of hot keys are some two thousand transactions.
const WORDS_MAX: usize = 64;

/// The paths of a graph without cycles.
#[derive(Debug)]
pub(super) struct Reach {
    /// The place of each node among the transactions in their order; a junction has that of the next of them.
    places: Vec<u32>,
    /// Words of a row. Its last one is for the 64 places among which the node's own is.
    width: usize,
    rows: Vec<u64>,
}

impl Reach {
    /// The paths by the edges in `kinds`; none if these make a cycle. `time_ns` is told of a transaction when it
    /// took effect, about, and is `None` for a junction: the nearer the order is to the true one, the nearer to
    /// each other stand those that have to do with each other.
    pub(super) fn new(graph: &Graph, kinds: Kinds, time_ns: impl Fn(u32) -> Option<u64>) -> Option<Self> {
        let nodes = graph.nodes() as usize;
        let order = topological_order(graph, kinds, &time_ns)?;
        let mut places = vec![0; nodes];
        let mut next_place = 0;
        for &node in &order {
            places[node as usize] = next_place;
            next_place += u32::from(time_ns(node).is_some());
        }
        let width = (WORDS_ALL / nodes.max(1)).min(next_place as usize / 64 + 1).clamp(1, WORDS_MAX);
        let mut rows = vec![0_u64; nodes * width];
        let mut row = vec![0; width];
        for &node in &order {
            let start = node as usize * width;
            let place = places[node as usize];
            if time_ns(node).is_some() {
                rows[start + width - 1] |= 1 << (place % 64);
            }
            row.copy_from_slice(&rows[start..start + width]);
            for edge in graph.out(node).iter().filter(|edge| kinds.has(edge.kind)) {
                let words = (places[edge.to as usize] / 64 - place / 64) as usize;
                if words < width {
                    let to = edge.to as usize * width;
                    let target = &mut rows[to..to + width - words];
                    for (target, source) in target.iter_mut().zip(&row[words..]) {
                        *target |= source;
                    }
                }
            }
        }
        Some(Self { places, width, rows })
    }

    /// The place of a transaction in the order.
    pub(super) fn place(&self, transaction: u32) -> u32 {
        self.places[transaction as usize]
    }

    /// Whether a path is known from one transaction to the other, or they are the same.
    pub(super) fn comes_before(&self, from: u32, to: u32) -> bool {
        let (from, place) = (self.places[from as usize], self.places[to as usize]);
        let Some(words) = (place / 64).checked_sub(from / 64) else {
            return false;
        };
        let words = words as usize;
        words < self.width && self.rows[(to as usize + 1) * self.width - 1 - words] >> (from % 64) & 1 == 1
    }
}

/// All nodes, each after those before it by the edges in `kinds`; by time where there is a choice.
fn topological_order(graph: &Graph, kinds: Kinds, time_ns: &impl Fn(u32) -> Option<u64>) -> Option<Vec<u32>> {
    let mut before = vec![0_u32; graph.nodes() as usize];
    for edge in graph.edges().iter().filter(|edge| kinds.has(edge.kind)) {
        before[edge.to as usize] += 1;
    }
    let ready = |node: u32| Reverse((time_ns(node).unwrap_or(0), node));
    let mut open: BinaryHeap<_> =
        (0..graph.nodes()).filter(|&node| before[node as usize] == 0).map(ready).collect();
    let mut order = Vec::with_capacity(before.len());
    while let Some(Reverse((_, node))) = open.pop() {
        order.push(node);
        for edge in graph.out(node).iter().filter(|edge| kinds.has(edge.kind)) {
            let before = &mut before[edge.to as usize];
            *before -= 1;
            if *before == 0 {
                open.push(ready(edge.to));
            }
        }
    }
    (order.len() == before.len()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::super::graph::{EdgeKind, GraphBuilder};
    use super::*;

    /// A number that repeats, below `bound`.
    fn number(state: &mut u64, bound: u32) -> u32 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) as u32 % bound
    }

    #[test]
    fn paths_are_those_that_a_search_finds() {
        const TRANSACTIONS: u32 = 300;
        const NODES: u32 = 340;
        let wanted = Kinds::of(&[EdgeKind::Wr, EdgeKind::Link]);
        let mut state = 1;
        for _ in 0..20 {
            let mut builder = GraphBuilder::new(TRANSACTIONS);
            builder.junctions((NODES - TRANSACTIONS) as usize);
            // A rank for each node, so that there is no cycle.
            let rank: Vec<u32> = (0..NODES).map(|_| number(&mut state, 1_000_000)).collect();
            for _ in 0..500 {
                let [a, b] = [0; 2].map(|_| number(&mut state, NODES));
                let [a, b] = if rank[a as usize] < rank[b as usize] { [a, b] } else { [b, a] };
                let kind = if number(&mut state, 5) == 0 { EdgeKind::Rw } else { EdgeKind::Wr };
                builder.add(a, b, kind, 0);
            }
            let graph = builder.build();
            let time_ns = |node: u32| (node < TRANSACTIONS).then_some(u64::from(node));
            let reach = Reach::new(&graph, wanted, time_ns).unwrap();
            for from in 0..TRANSACTIONS {
                let mut seen = [false; NODES as usize];
                let mut open = vec![from];
                while let Some(node) = open.pop() {
                    if !std::mem::replace(&mut seen[node as usize], true) {
                        let out = graph.out(node).iter().filter(|edge| wanted.has(edge.kind));
                        open.extend(out.map(|edge| edge.to));
                    }
                }
                for to in 0..TRANSACTIONS {
                    assert_eq!(reach.comes_before(from, to), seen[to as usize], "{from} {to}");
                }
            }
        }
    }

    #[test]
    fn of_a_long_chain_the_near_part_is_known_and_a_ring_has_no_order() {
        let nodes = 20_000;
        let mut builder = GraphBuilder::new(nodes);
        for node in 1..nodes {
            builder.add(node - 1, node, EdgeKind::Wr, 0);
        }
        let all = Kinds::of(&EdgeKind::ALL);
        let graph = builder.build();
        let reach = Reach::new(&graph, all, |_| Some(0)).unwrap();
        let near = 64 * (WORDS_MAX as u32 - 1);
        assert!(reach.comes_before(nodes - 1 - near, nodes - 1));
        assert!(!reach.comes_before(0, nodes - 1) && !reach.comes_before(nodes - 1, 0));
        let ring = graph.and(vec![super::super::graph::Edge { from: 9, to: 3, kind: EdgeKind::Rw, key: 0 }]);
        assert!(Reach::new(&ring, all, |_| Some(0)).is_none());
        assert!(Reach::new(&ring, Kinds::of(&[EdgeKind::Wr]), |_| Some(0)).is_some());
    }
}
