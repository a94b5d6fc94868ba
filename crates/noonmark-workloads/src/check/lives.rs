//! Registers that are deleted: which absence a reader found, though all look alike.
//!
//! A register that comes and goes has *lives*. Each begins when a transaction that had found no such key puts it
//! there, goes on from one written value to the next, and ends with a delete; the last may go on for ever. Within
//! a life everything is known, as each write follows a read. What is open is the order of the lives, and between
//! which of them a reader stood that found nothing.
//!
//! Both follow from what else is known, since lives do not overlap and nobody who found nothing stood within one:
//!
//! ```text
//!      ┌───── life A ─────┐                   ┌─ life B ─┐
//!   put 1 ── 1 to 2 ── deleted            put 7 ── deleted          R: found nothing
//!
//!   the putting of A comes before the end of B    ⇒  the end of A comes before the putting of B
//!   the putting of A comes before R               ⇒  the end of A comes before R
//!   R comes before the end of A                   ⇒  R comes before the putting of A
//!   A has no end                                  ⇒  all other lives, and R, come before the putting of A
//! ```
//!
//! "Comes before" is a path in the graph: each conclusion is a new edge that may allow others, on this key and on
//! others, so rounds are made until one adds nothing. As every edge is forced, a contradiction closes a cycle,
//! which is reported as any other; two lives without an end are a lost update at once.
//!
//! What rests on such a conclusion presumes serializability and not a weaker isolation, so a cycle with one of
//! its edges gets the name of no weaker anomaly than G2-item, or G2 where an absence was found by a scan.
//!
//! Paths are asked of [`Reach`], which knows those between transactions not too far from each other in one serial
//! order of the graph; those that it does not know are conclusions missed, never wrong ones.
//!
//! Invariants: only a key is looked at of which all writes that count followed a read, of values that were written
//! once, and which nobody deleted whose commit is in doubt. Deleting what is absent is a read that found nothing.
//!
//! The rules are ours; that of two orders one is forced when the other would close a cycle is the pruning of
//! Tan and others, *Cobra: Making Transactional Key-Value Stores Verifiably Serializable* (OSDI 2020), §3.
//!
//! What this does not do: choose. Where two orders remain possible, `witness.rs` tries one.

use super::access::{Accesses, NONE, Seen};
use super::graph::{Edge, EdgeKind};
use super::reach::Reach;
use super::registers::Source;
use super::report::{AnomalyKind, Findings};
use super::words;
use crate::history::Outcome;

/// One life of a register.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Who put it there.
    first: u32,
    /// Who deleted it, or [`NONE`].
    end: u32,
}

/// A read that found no key.
#[derive(Clone, Copy, Debug)]
struct Absence {
    transaction: u32,
    /// Where it stands in the reads.
    place: u32,
    /// The life that its transaction then began, or [`NONE`].
    begins: u32,
    predicate: bool,
}

#[derive(Debug)]
struct KeyLives {
    key: u32,
    lives: Vec<Life>,
    absences: Vec<Absence>,
}

/// The registers whose absences are to be told apart.
#[derive(Debug, Default)]
pub(super) struct Lives {
    keys: Vec<KeyLives>,
}

impl Lives {
    /// The lives of all keys that had several and meet the module's invariants. Two without an end are reported.
    pub(super) fn new(
        accesses: &Accesses<'_>,
        committed: &[bool],
        sources: &[Source],
        findings: &mut Findings,
    ) -> Self {
        let keys = (0..accesses.keys.len() as u32)
            .filter_map(|key| KeyLives::new(accesses, committed, sources, key))
            .collect::<Vec<_>>();
        for KeyLives { key, lives, .. } in &keys {
            let open: Vec<u32> =
                lives.iter().filter(|life| life.end == NONE).map(|life| life.first).collect();
            if open.len() > 1 {
                findings.add(AnomalyKind::LostUpdate, &open, || words::put_twice(accesses, *key, &open));
            }
        }
        Self { keys }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key is among them.
    pub(super) fn tells_of(&self, key: u32) -> bool {
        self.keys.binary_search_by_key(&key, |lives| lives.key).is_ok()
    }

    /// One round of the module's rules: what follows of these paths, as edges of `kind`.
    pub(super) fn conclude(&mut self, reach: &Reach, kind: EdgeKind, edges: &mut Vec<Edge>) {
        for key in &mut self.keys {
            key.conclude(reach, kind, edges);
        }
    }

    /// Puts the delete behind each absence in its place of `sources`, where it is known.
    pub(super) fn tell_sources(&self, reach: &Reach, sources: &mut [Source]) {
        for key in &self.keys {
            key.tell_sources(reach, sources);
        }
    }

    /// Puts into `ordered` for each key here whether its lives are in one order, as `sources` tell.
    pub(super) fn tell_ordered(&self, sources: &[Source], ordered: &mut [bool]) {
        let known = |absence: &Absence| sources[absence.place as usize] != Source::Ambiguous;
        for KeyLives { key, absences, .. } in &self.keys {
            ordered[*key as usize] = absences.iter().filter(|absence| absence.begins != NONE).all(known);
        }
    }
}

impl KeyLives {
    fn new(accesses: &Accesses<'_>, committed: &[bool], sources: &[Source], key: u32) -> Option<Self> {
        let writes = accesses.writes_of(key);
        let counts = |who: u32| committed[who as usize];
        let in_doubt = |who: u32| !counts(who) && accesses.transaction(who).outcome == Outcome::Info;
        let deletes = |who: u32| writes.iter().any(|w| w.transaction == who && w.last && w.value.is_none());
        if !writes.iter().any(|write| write.value.is_none() && counts(write.transaction))
            || writes.iter().any(|write| write.value.is_none() && in_doubt(write.transaction))
        {
            return None;
        }
        // Each last write that counts, with what its transaction had read, sorted by that.
        let mut read_by_writer = 0;
        let mut next: Vec<(Source, u32)> = Vec::new();
        let mut absences = Vec::new();
        for place in accesses.places_of(key) {
            let read = &accesses.reads[place];
            let transaction = read.transaction;
            if !counts(transaction) {
                continue;
            }
            let write = writes.partition_point(|write| write.transaction < transaction);
            let writes_too = writes.get(write).is_some_and(|write| write.transaction == transaction);
            read_by_writer += usize::from(writes_too);
            match sources[place] {
                Source::Written(_) if writes_too => next.push((sources[place], transaction)),
                Source::Written(_) => {}
                Source::Ambiguous | Source::Initial if read.seen == Seen::Register(None) => {
                    let begins = if writes_too && !deletes(transaction) { 0 } else { NONE };
                    let (place, predicate) = (place as u32, read.predicate);
                    absences.push(Absence { transaction, place, begins, predicate });
                }
                _ => return None,
            }
        }
        let writers = writes.iter().filter(|write| write.last && counts(write.transaction)).count();
        next.sort_unstable();
        let twice = next.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if twice || writers != read_by_writer {
            return None;
        }
        let mut lives = Vec::new();
        let mut reached = 0;
        for absence in absences.iter_mut().filter(|absence| absence.begins != NONE) {
            absence.begins = lives.len() as u32;
            let mut life = Life { first: absence.transaction, end: NONE };
            let mut last = absence.transaction;
            while let Ok(at) = next.binary_search_by_key(&Source::Written(last), |&(source, _)| source) {
                reached += 1;
                last = next[at].1;
                if deletes(last) {
                    life.end = last;
                    break;
                }
            }
            lives.push(life);
        }
        // Else some values were written in a circle.
        (reached == next.len()).then_some(Self { key, lives, absences })
    }

    /// One round of the module's rules.
    fn conclude(&mut self, reach: &Reach, kind: EdgeKind, edges: &mut Vec<Edge>) {
        let Self { key, lives, absences } = self;
        let mut add = |from, to, kind| edges.push(Edge { from, to, kind, key: *key });
        for (number, a) in lives.iter().enumerate() {
            if a.end == NONE {
                continue;
            }
            for (other, b) in lives.iter().enumerate() {
                let follows = b.end == NONE || reach.comes_before(a.first, b.end);
                if number != other && follows && !reach.comes_before(a.end, b.first) {
                    add(a.end, b.first, kind);
                }
            }
        }
        // In the order in which the lives were begun, if that is known yet.
        let mut by_first: Vec<&Life> = lives.iter().collect();
        by_first.sort_unstable_by_key(|life| reach.place(life.first));
        for absence in absences.iter().filter(|absence| absence.begins == NONE) {
            let who = absence.transaction;
            let kind = if absence.predicate { kind.of_predicate() } else { kind };
            // The last life that ended before; what ended before that need not be said again.
            let mut last: Option<&Life> = None;
            for life in by_first.iter().rev().filter(|life| life.end != NONE) {
                if reach.comes_before(life.first, who)
                    && last.is_none_or(|last| !reach.comes_before(life.end, last.first))
                {
                    if !reach.comes_before(life.end, who) {
                        add(life.end, who, kind);
                    }
                    last = Some(life);
                }
            }
            let mut next: Option<&Life> = None;
            for life in &by_first {
                if (life.end == NONE || reach.comes_before(who, life.end))
                    && next.is_none_or(|next| next.end == NONE || !reach.comes_before(next.end, life.first))
                {
                    if !reach.comes_before(who, life.first) {
                        add(who, life.first, kind);
                    }
                    next = Some(life);
                }
            }
        }
    }

    /// Puts the delete behind each absence in its place of `sources`, where it is known.
    fn tell_sources(&self, reach: &Reach, sources: &mut [Source]) {
        for absence in &self.absences {
            let who = absence.transaction;
            let mut last: Option<&Life> = None;
            let mut known = true;
            for (number, life) in (0..).zip(&self.lives) {
                if number == absence.begins || reach.comes_before(who, life.first) {
                    continue;
                }
                if life.end == NONE || !reach.comes_before(life.end, who) {
                    known = false;
                    break;
                }
                let Some(before) = last else {
                    last = Some(life);
                    continue;
                };
                if reach.comes_before(before.end, life.first) {
                    last = Some(life);
                } else if !reach.comes_before(life.end, before.first) {
                    known = false;
                    break;
                }
            }
            if known {
                sources[absence.place as usize] =
                    last.map_or(Source::Initial, |life| Source::Written(life.end));
            }
        }
    }
}
