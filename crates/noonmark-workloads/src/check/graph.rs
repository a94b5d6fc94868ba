//! The graph of who must come before whom, kept as integers.
//!
//! Nodes `0..transactions` are the transactions by their number; those above are *junctions*,
//! which stand for no transaction and only save edges: where every one of many transactions
//! must come before every one of many others, the edges meet at junctions rather than number
//! the product of the two. [`EdgeKind::Link`] edges tie junctions together and to transactions.
//!
//! Invariant: on every path from one transaction to the next there is exactly one edge that is
//! no link; it says why the first comes before the second.

/// Why one transaction must come before another. In the order in which a cycle would rather
/// use them, the weakest claim on the system first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum EdgeKind {
    /// Its version of a key is the earlier one.
    Ww,
    /// The other read its version.
    Wr,
    /// The other overwrote the version that it read.
    Rw,
    /// The other put a key into a range in which it had found none.
    RwPredicate,
    /// As `Ww`, known from real time.
    WwByTime,
    /// As `Rw`, known from real time.
    RwByTime,
    /// As `RwPredicate`, known from real time.
    RwPredicateByTime,
    /// Its process ran it first.
    Process,
    /// It ended before the other began.
    RealTime,
    /// Their places around the lives of a key that was deleted, or around the versions of one that was written without being read.
    Life,
    /// As `Life`, of one that scanned and found no key.
    LifePredicate,
    /// As `Life`, known from the order of sessions.
    LifeBySession,
    /// As `LifePredicate`, known from the order of sessions.
    LifePredicateBySession,
    /// As `Life`, known from real time.
    LifeByTime,
    /// As `LifePredicate`, known from real time.
    LifePredicateByTime,
    /// No claim: a way between junctions.
    Link,
}

impl EdgeKind {
    pub(super) const ALL: [Self; 16] = [
        Self::Ww,
        Self::Wr,
        Self::Rw,
        Self::RwPredicate,
        Self::WwByTime,
        Self::RwByTime,
        Self::RwPredicateByTime,
        Self::Process,
        Self::RealTime,
        Self::Life,
        Self::LifePredicate,
        Self::LifeBySession,
        Self::LifePredicateBySession,
        Self::LifeByTime,
        Self::LifePredicateByTime,
        Self::Link,
    ];

    /// The same claim, as known from real time.
    pub(super) fn by_time(self) -> Self {
        match self {
            Self::Ww => Self::WwByTime,
            Self::Rw => Self::RwByTime,
            Self::RwPredicate => Self::RwPredicateByTime,
            other => other,
        }
    }

    /// Whether it is an anti-dependency.
    pub(super) fn is_rw(self) -> bool {
        self.is_rw_item() || self.is_rw_predicate()
    }

    fn is_rw_item(self) -> bool {
        matches!(self, Self::Rw | Self::RwByTime)
    }

    pub(super) fn is_rw_predicate(self) -> bool {
        matches!(self, Self::RwPredicate | Self::RwPredicateByTime)
    }

    /// The same claim about lives, of one that scanned.
    pub(super) fn of_predicate(self) -> Self {
        match self {
            Self::Life => Self::LifePredicate,
            Self::LifeBySession => Self::LifePredicateBySession,
            Self::LifeByTime => Self::LifePredicateByTime,
            other => other,
        }
    }

    /// Whether it follows from the order of lives, or of versions that nobody read before he overwrote them.
    pub(super) fn is_life(self) -> bool {
        self.is_life_predicate() || matches!(self, Self::Life | Self::LifeBySession | Self::LifeByTime)
    }

    pub(super) fn is_life_predicate(self) -> bool {
        matches!(self, Self::LifePredicate | Self::LifePredicateBySession | Self::LifePredicateByTime)
    }

    pub(super) fn needs_session(self) -> bool {
        matches!(self, Self::Process | Self::LifeBySession | Self::LifePredicateBySession)
    }

    pub(super) fn needs_time(self) -> bool {
        matches!(
            self,
            Self::RealTime
                | Self::WwByTime
                | Self::RwByTime
                | Self::RwPredicateByTime
                | Self::LifeByTime
                | Self::LifePredicateByTime
        )
    }
}

/// A set of [`EdgeKind`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u16);

impl Kinds {
    pub(super) fn of(kinds: &[EdgeKind]) -> Self {
        Self(kinds.iter().fold(0, |set, &kind| set | 1 << kind as u16))
    }

    pub(super) fn has(self, kind: EdgeKind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An edge before it has its place in a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: EdgeKind,
    /// The key that it is about, by the checker's number; 0 where it is about none.
    pub(super) key: u32,
}

/// Collects edges.
#[derive(Debug)]
pub(super) struct GraphBuilder {
    nodes: u32,
    edges: Vec<Edge>,
}

/// Up to this many edges a source, junctions are not worth their nodes.
const DIRECT_TARGETS: usize = 3;

impl GraphBuilder {
    pub(super) fn new(transactions: u32) -> Self {
        Self { nodes: transactions, edges: Vec::new() }
    }

    pub(super) fn junctions(&mut self, count: usize) -> u32 {
        let first = self.nodes;
        self.nodes += u32::try_from(count).expect("fewer junctions than transactions and edges");
        first
    }

    /// One edge; a transaction does not come before itself.
    pub(super) fn add(&mut self, from: u32, to: u32, kind: EdgeKind, key: u32) {
        if from != to {
            self.edges.push(Edge { from, to, kind, key });
        }
    }

    pub(super) fn link(&mut self, from: u32, to: u32) {
        self.add(from, to, EdgeKind::Link, 0);
    }

    /// Every source before every target but itself, in `O((sources + targets) log targets)`
    /// edges. `targets` are sorted and distinct.
    pub(super) fn fan(&mut self, sources: &[(u32, EdgeKind)], targets: &[u32], key: u32) {
        if targets.len() <= DIRECT_TARGETS || sources.len() <= 1 {
            for &(source, kind) in sources {
                for &target in targets {
                    self.add(source, target, kind, key);
                }
            }
            return;
        }
        let tree = Tree::outward(self, targets);
        for &(source, kind) in sources {
            match targets.binary_search(&source) {
                Ok(own) => {
                    tree.cover(0, own, |node| self.add(source, node, kind, key));
                    tree.cover(own + 1, targets.len(), |node| self.add(source, node, kind, key));
                }
                Err(_) => {
                    tree.cover(0, targets.len(), |node| self.add(source, node, kind, key));
                }
            }
        }
    }

    pub(super) fn build(self) -> Graph {
        Graph::new(self.nodes, self.edges)
    }
}

/// A balanced tree of junctions over a row of transactions: `O(log n)` of its nodes stand for
/// any stretch of the row. The bottom-up segment tree, node `i` over nodes `2i` and `2i + 1`.
pub(super) struct Tree<'t> {
    leaves: &'t [u32],
    /// The graph's node for node 0 of the tree, which is not used, as node 1 may not be.
    first: u32,
}

impl<'t> Tree<'t> {
    /// Edges that enter a node go on to all leaves below it.
    pub(super) fn outward(builder: &mut GraphBuilder, leaves: &'t [u32]) -> Self {
        Self::new(builder, leaves, GraphBuilder::link)
    }

    /// Edges that leave a node come from all leaves below it.
    pub(super) fn inward(builder: &mut GraphBuilder, leaves: &'t [u32]) -> Self {
        Self::new(builder, leaves, |builder, above, below| builder.link(below, above))
    }

    fn new(
        builder: &mut GraphBuilder,
        leaves: &'t [u32],
        mut link: impl FnMut(&mut GraphBuilder, u32, u32),
    ) -> Self {
        let tree = Self { leaves, first: builder.junctions(leaves.len()) };
        for node in 1..leaves.len() {
            link(builder, tree.node(node), tree.node(2 * node));
            link(builder, tree.node(node), tree.node(2 * node + 1));
        }
        tree
    }

    fn node(&self, place: usize) -> u32 {
        match place.checked_sub(self.leaves.len()) {
            Some(leaf) => self.leaves[leaf],
            None => self.first + place as u32,
        }
    }

    /// Calls `visit` with nodes that together stand for the leaves from `low` up to `high`.
    pub(super) fn cover(&self, low: usize, high: usize, mut visit: impl FnMut(u32)) {
        let (mut low, mut high) = (low + self.leaves.len(), high + self.leaves.len());
        while low < high {
            if low % 2 == 1 {
                visit(self.node(low));
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                visit(self.node(high));
            }
            low /= 2;
            high /= 2;
        }
    }
}

/// Nodes and their outgoing edges, those to one node in the order of [`EdgeKind`].
#[derive(Debug)]
pub(super) struct Graph {
    /// The edges of node `n` are `edges[offsets[n]..offsets[n + 1]]`.
    offsets: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    fn new(nodes: u32, mut edges: Vec<Edge>) -> Self {
        // The stable sort is quick where most are in order already.
        edges.sort();
        edges.dedup();
        let mut offsets = vec![0; nodes as usize + 1];
        for edge in &edges {
            offsets[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            offsets[node + 1] += offsets[node];
        }
        Self { offsets, edges }
    }

    /// The same with some more edges between its nodes.
    pub(super) fn and(self, more: Vec<Edge>) -> Self {
        let nodes = self.nodes();
        let mut edges = self.edges;
        edges.extend(more);
        Self::new(nodes, edges)
    }

    pub(super) fn nodes(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(super) fn out(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.offsets[node] as usize..self.offsets[node + 1] as usize]
    }

    /// The strongly connected components of more than one node, by the edges in `kinds`
    /// (Tarjan 1972, with a stack of our own: a chain of a million nodes is no problem).
    pub(super) fn components(&self, kinds: Kinds) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        const DONE: u32 = u32::MAX - 1;
        let nodes = self.nodes() as usize;
        // The least node number on the stack that each can reach, or one of the marks above.
        let mut low = vec![UNSEEN; nodes];
        let mut stack: Vec<u32> = Vec::new();
        // A node, the next edge to follow, and the number it was given.
        let mut path: Vec<(u32, u32, u32)> = Vec::new();
        let mut next_number = 0;
        let mut components = Vec::new();
        for root in 0..self.nodes() {
            if low[root as usize] != UNSEEN {
                continue;
            }
            path.push((root, self.offsets[root as usize], next_number));
            low[root as usize] = next_number;
            next_number += 1;
            stack.push(root);
            while let Some(&mut (node, ref mut next, number)) = path.last_mut() {
                if *next < self.offsets[node as usize + 1] {
                    let edge = self.edges[*next as usize];
                    *next += 1;
                    if !kinds.has(edge.kind) {
                        continue;
                    }
                    let to = edge.to as usize;
                    if low[to] == UNSEEN {
                        low[to] = next_number;
                        path.push((edge.to, self.offsets[to], next_number));
                        next_number += 1;
                        stack.push(edge.to);
                    } else if low[to] != DONE {
                        low[node as usize] = low[node as usize].min(low[to]);
                    }
                    continue;
                }
                path.pop();
                let reached = low[node as usize];
                if let Some(&(above, ..)) = path.last() {
                    low[above as usize] = low[above as usize].min(reached);
                }
                if reached == number {
                    let start = stack
                        .iter()
                        .rposition(|&member| member == node)
                        .expect("a node stays on the stack until its component is complete");
                    for &member in &stack[start..] {
                        low[member as usize] = DONE;
                    }
                    if stack.len() - start > 1 {
                        components.push(stack[start..].to_vec());
                    }
                    stack.truncate(start);
                }
            }
        }
        components
    }

    /// The graph between `members` alone, numbered by their place, which must be sorted.
    pub(super) fn between(&self, members: &[u32]) -> Self {
        let mut edges = Vec::new();
        for (from, &member) in members.iter().enumerate() {
            for edge in self.out(member) {
                if let Ok(to) = members.binary_search(&edge.to) {
                    edges.push(Edge { from: from as u32, to: to as u32, ..*edge });
                }
            }
        }
        Self::new(members.len() as u32, edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_reaches_every_target_but_the_source_itself() {
        for targets in 0..12_u32 {
            let targets: Vec<u32> = (5..5 + targets).collect();
            let sources: Vec<_> = (0..20).map(|source| (source, EdgeKind::Rw)).collect();
            let mut builder = GraphBuilder::new(20);
            builder.fan(&sources, &targets, 0);
            let graph = builder.build();
            for source in 0..20 {
                let mut reached = Vec::new();
                let mut open: Vec<u32> = graph
                    .out(source)
                    .iter()
                    .filter(|edge| edge.kind == EdgeKind::Rw)
                    .map(|edge| edge.to)
                    .collect();
                while let Some(node) = open.pop() {
                    if node < 20 {
                        reached.push(node);
                    } else {
                        open.extend(graph.out(node).iter().map(|edge| edge.to));
                    }
                }
                reached.sort_unstable();
                let expected: Vec<u32> = targets.iter().copied().filter(|&target| target != source).collect();
                assert_eq!(reached, expected, "from {source}");
            }
        }
    }

    #[test]
    fn components_of_a_long_chain_closed_into_a_ring() {
        let nodes = 200_000;
        let mut builder = GraphBuilder::new(nodes);
        for node in 1..nodes {
            builder.add(node - 1, node, EdgeKind::Wr, 0);
        }
        builder.add(nodes - 1, 7, EdgeKind::Rw, 0);
        let graph = builder.build();
        assert!(graph.components(Kinds::of(&[EdgeKind::Wr])).is_empty());
        let components = graph.components(Kinds::of(&[EdgeKind::Wr, EdgeKind::Rw]));
        assert_eq!(components.len(), 1);
        assert_eq!(components[0].len() as u32, nodes - 7);
    }
}
