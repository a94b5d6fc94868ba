//! Finding a short cycle in each strongly connected component, of the weakest class there is.
//!
//! Classes are tried from the weakest isolation that already forbids them: writes alone (G0),
//! writes and reads (G1c), one anti-dependency (G-single), several (G2-item), several of which
//! one is of a predicate (G2); all of these first without the order of sessions and of real
//! time, then with the one, then with both. Whatever search finds a cycle, its name is read off
//! its edges, so the name is true of the cycle shown; a search that runs out of its allowance
//! may only miss a weaker one.
//!
//! Sources: Adya, *Weak Consistency* (MIT 1999), §4; Elle §6 for the order of the searches.

use std::collections::VecDeque;

use super::graph::{Edge, EdgeKind, Graph, Kinds};
use super::report::{AnomalyKind, Needs};

/// One transaction before the next, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: EdgeKind,
    pub(super) key: u32,
}

/// Edges that the searches of a whole history may follow before they take what they have.
pub(super) const ALLOWANCE_EDGES: usize = 20_000_000;
/// Once a cycle is found, edges to follow in the hope of a shorter one.
const SHORTER_EDGES: usize = 400_000;

/// A short cycle through transactions of `component`, which is sorted and strongly connected.
/// Takes the edges that it follows from `allowance`; with none left it still finds a cycle.
pub(super) fn shortest(
    graph: &Graph,
    transactions: u32,
    component: &[u32],
    allowance: &mut usize,
) -> Option<Vec<Step>> {
    let local = graph.between(component);
    let mut search = Search::new(&local, component, transactions, *allowance);
    let cycle = search.weakest();
    *allowance = allowance.saturating_sub(search.followed);
    cycle
}
/// The name of a cycle.
pub(super) fn classify(cycle: &[Step]) -> AnomalyKind {
    let needs = if cycle.iter().any(|step| step.kind.needs_time()) {
        Needs::RealTime
    } else if cycle.iter().any(|step| step.kind.needs_session()) {
        Needs::Session
    } else {
        Needs::Nothing
    };
    let rw = cycle.iter().filter(|step| step.kind.is_rw()).count();
    // The order of lives presumes serializability: what rests on it proves nothing weaker broken.
    let lives = cycle.iter().any(|step| step.kind.is_life());
    if rw == 1 && !lives {
        AnomalyKind::GSingle(needs)
    } else if cycle.iter().any(|step| step.kind.is_rw_predicate() || step.kind.is_life_predicate()) {
        AnomalyKind::G2(needs)
    } else if rw > 1 || lives {
        AnomalyKind::G2Item(needs)
    } else if cycle.iter().any(|step| step.kind == EdgeKind::Wr) {
        AnomalyKind::G1c(needs)
    } else {
        AnomalyKind::G0(needs)
    }
}

struct Search<'g> {
    /// The component alone.
    graph: &'g Graph,
    /// The number in the whole graph of each node.
    component: &'g [u32],
    transactions: u32,
    /// Edges that may still be followed.
    allowance: usize,
    /// Edges that were.
    followed: usize,
    /// The edge by which each node was reached in search `reached_in`.
    reached_by: Vec<Edge>,
    reached_in: Vec<u32>,
    searches: u32,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, component: &'g [u32], transactions: u32, allowance: usize) -> Self {
        let nodes = graph.nodes() as usize;
        let nowhere = Edge { from: 0, to: 0, kind: EdgeKind::Link, key: 0 };
        Self {
            graph,
            component,
            transactions,
            allowance,
            followed: 0,
            reached_by: vec![nowhere; nodes],
            reached_in: vec![0; nodes],
            searches: 0,
        }
    }

    /// A short cycle of the weakest class there is.
    fn weakest(&mut self) -> Option<Vec<Step>> {
        use EdgeKind::*;
        for (session, time) in [(false, false), (true, false), (true, true)] {
            let pick = |kinds: &[EdgeKind]| {
                let wanted =
                    |kind: &EdgeKind| (session || !kind.needs_session()) && (time || !kind.needs_time());
                Kinds::of(&kinds.iter().copied().filter(wanted).collect::<Vec<_>>())
            };
            let ww = pick(&[Link, Process, RealTime, Ww, WwByTime]);
            let wr = ww.and(pick(&[Wr]));
            let item = wr.and(pick(&[Rw, RwByTime]));
            let all = item.and(pick(&[RwPredicate, RwPredicateByTime]));
            let item_lives = item.and(pick(&[Life, LifeBySession, LifeByTime]));
            let scanned = pick(&[LifePredicate, LifePredicateBySession, LifePredicateByTime]);
            let found = self
                .any(ww)
                .or_else(|| self.any(wr))
                .or_else(|| self.single(wr, all))
                .or_else(|| self.any(item))
                .or_else(|| self.any(all))
                .or_else(|| self.any(item_lives))
                .or_else(|| self.any(all.and(item_lives).and(scanned)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn is_transaction(&self, node: u32) -> bool {
        self.component[node as usize] < self.transactions
    }

    /// The shortest path from `from` to `to` that takes an edge, counting each but links.
    fn path(&mut self, from: u32, to: u32, kinds: Kinds) -> Option<Vec<Edge>> {
        self.searches += 1;
        let mut open = VecDeque::from([(from, None)]);
        while let Some((node, by)) = open.pop_front() {
            // The start is marked only when it is reached again, as the end may be the same.
            if let Some(edge) = by {
                if self.reached_in[node as usize] == self.searches {
                    continue;
                }
                self.reached_in[node as usize] = self.searches;
                self.reached_by[node as usize] = edge;
                if node == to {
                    return Some(self.walk_back(from, to));
                }
                if node == from {
                    continue;
                }
            }
            for &edge in self.graph.out(node) {
                if self.allowance == 0 {
                    return None;
                }
                self.allowance -= 1;
                self.followed += 1;
                if kinds.has(edge.kind) && self.reached_in[edge.to as usize] != self.searches {
                    if edge.kind == EdgeKind::Link {
                        open.push_front((edge.to, Some(edge)));
                    } else {
                        open.push_back((edge.to, Some(edge)));
                    }
                }
            }
        }
        None
    }

    fn walk_back(&self, from: u32, to: u32) -> Vec<Edge> {
        let mut path = vec![self.reached_by[to as usize]];
        while let Some(edge) = path.last()
            && edge.from != from
        {
            path.push(self.reached_by[edge.from as usize]);
        }
        path.reverse();
        path
    }

    /// Keeps the shorter one, and says whether to go on.
    fn keep(&mut self, best: &mut Option<Vec<Step>>, cycle: &[Edge]) -> bool {
        let steps = self.steps(cycle);
        if best.is_none() {
            self.allowance = self.allowance.min(SHORTER_EDGES);
        }
        if best.as_ref().is_none_or(|best| steps.len() < best.len()) {
            *best = Some(steps);
        }
        best.as_ref().is_some_and(|best| best.len() > 2)
    }

    /// A short cycle by the edges in `kinds`.
    fn any(&mut self, kinds: Kinds) -> Option<Vec<Step>> {
        let mut best = None;
        // The first transaction tried is on a cycle if any is: that search must not run dry.
        let allowance = std::mem::replace(&mut self.allowance, usize::MAX);
        for members in self.graph.components(kinds) {
            for node in members {
                if self.is_transaction(node)
                    && let Some(cycle) = self.path(node, node, kinds)
                    && !self.keep(&mut best, &cycle)
                {
                    return best;
                }
            }
        }
        if best.is_none() {
            self.allowance = allowance;
        }
        best
    }

    /// A short cycle of one anti-dependency in `all` and for the rest edges in `kinds`.
    fn single(&mut self, kinds: Kinds, all: Kinds) -> Option<Vec<Step>> {
        let graph = self.graph;
        let mut best = None;
        for members in graph.components(all) {
            for node in members {
                for &edge in graph.out(node) {
                    if edge.kind.is_rw()
                        && all.has(edge.kind)
                        && let Some(mut cycle) = self.path(edge.to, edge.from, kinds)
                    {
                        cycle.insert(0, edge);
                        if !self.keep(&mut best, &cycle) {
                            return best;
                        }
                    }
                }
            }
        }
        best
    }

    /// A cycle of edges that starts at a transaction, without its junctions.
    fn steps(&self, cycle: &[Edge]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut from = cycle.first().map_or(0, |edge| edge.from);
        let mut why = None;
        for &edge in cycle {
            if edge.kind != EdgeKind::Link {
                why = Some(edge);
            }
            if self.is_transaction(edge.to) {
                if let Some(Edge { kind, key, .. }) = why.take() {
                    let [from, to] = [from, edge.to].map(|node| self.component[node as usize]);
                    steps.push(Step { from, to, kind, key });
                }
                from = edge.to;
            }
        }
        steps
    }
}
