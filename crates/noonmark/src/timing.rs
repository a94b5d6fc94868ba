//! The commit time of a transaction that has a range of them: [`crate::range`] holds what others have left it.
//!
//! In a logical database that has a table of `dynamic` or `ranges`, this comes between *seal* and *validate*, for every
//! transaction: also one that uses only tables of other protocols settles for its time, and finds its range as it was
//! when it began. Everything to be written is locked then, so that nobody comes to rely on it any more.
//!
//! 1. *The earliest time* that is possible: after what was overwritten and read, as under every protocol, and where
//!    others have pushed this transaction.
//! 2. *Room*: a later one, if it is still this transaction's, that leaves time to those whom it pushes.
//! 3. *Come after* those who relied on what is replaced: those who run are pushed before the time, and if one of them has
//!    settled for a later one meanwhile, the time becomes later and the others need pushing no further than
//!    they are. Nobody new comes, so this ends.
//! 4. *Decide and settle*: others may have pushed this one until now. Where they pushed it up, it commits later than it
//!    said, and those it pushed are before that all the more. Where they pushed it down below its time, it aborts.
//!
//! Where there is a read frontier, it comes after that, too ([`crate::range::Ranges`]): the first step is the place for it, as all that
//! will be replaced is locked.
//!
//! An index node that this transaction relies on ([`crate::index::NodeStamp`]) bounds the time as well: one in which keys have come or
//! gone since it was seen holds until the read time it had then. Nodes push nobody; they are validated at the time
//! that is settled.
//!
//! What it does not do: take the versions of other protocols' cells that have been replaced for an upper bound. It would spare mixes
//! a few aborts.

use crate::abort::{Abort, AbortKind};
use crate::context::{Context, ReadEntry};
use crate::lines;
use crate::planted::Bug;
use crate::protocol::{Conflict, Order, Rules, What, with_protocol};
use crate::write_set::{Effect, WriteEntry};
use noonmark_core::sync::Ordering;
use noonmark_core::{Access, Host, Timestamp};

const RULE: &str = "range: commit";

/// Somebody who must come before has frozen all times that there are.
const FROZEN: &str = "range: frozen";

/// So many ticks are frozen, unless told otherwise, by a transaction that spans databases.
///
/// Any number is right. The smaller, the sooner the ranges that are frozen in different places have no time in common: some times the room that
/// a writer leaves to those whom it pushes should fit. The larger, the faster logical time passes, of which there are 2^50 ticks.
pub const FROZEN_TICKS: u64 = 256;

/// What is asked for each cell that is about to be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    LeaveRoom,
    ComeAfter,
}

impl<H: Host> Context<H> {
    /// Settles for a commit time, which is not before `bound`: all writes are sealed.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_time(&mut self, bound: Timestamp) -> Result<Timestamp, Abort> {
        if self.order != Some(Order::Logical) {
            return Ok(bound);
        }
        let time = self.time_to_be(bound)?;
        self.settle_for(time)
    }

    /// The same of a transaction that has a range in other databases, too: freezes so many ticks of this one, or fewer if others have
    /// left it fewer. The first time and the last.
    #[cold]
    #[inline(never)]
    pub(crate) fn freeze_time(
        &mut self,
        bound: Timestamp,
        ticks: u64,
    ) -> Result<(Timestamp, Timestamp), Abort> {
        let from = self.time_to_be(bound)?;
        let until = Timestamp::new(from.ticks().saturating_add(ticks)).min(self.latest_time());
        if from == Timestamp::MAX {
            return Err(self.no_time(FROZEN, from, until));
        }
        let range = self.shared.ranges.get(self.slot);
        let latest = range.upper().time;
        range.freeze(from, until).ok_or_else(|| self.no_time(RULE, from, until.min(latest)))
    }

    /// Of what is frozen: until when it can be said to hold from `from` on. What is not kept by a mark must be validated to the end.
    pub(crate) fn voted_until(&self, from: Timestamp, until: Timestamp) -> Timestamp {
        let has_ranges = |entry: &ReadEntry| with_protocol!(entry.table.get().protocol, P => P::HAS_RANGES);
        match self.nodes.is_empty() && self.reads.iter().all(has_ranges) {
            true => until,
            false => until.min(Timestamp::new(from.ticks().saturating_add(FROZEN_TICKS))),
        }
    }

    /// The earliest commit time, from `bound` on, for which those that must come before have been pushed; a later one, if others
    /// have left that, to be kind to them.
    fn time_to_be(&mut self, bound: Timestamp) -> Result<Timestamp, Abort> {
        let range = self.shared.ranges.get(self.slot);
        self.touch_range(Access::Read);
        let mut time = bound.max(range.lower().time);
        if !self.writes.is_empty() {
            time = time.max(self.after_frontier());
            let latest = self.latest_time();
            if time > latest {
                return Err(self.no_time(RULE, time, latest));
            }
            let wished = self.ask_writes(Ask::LeaveRoom, time);
            if wished == Timestamp::MAX {
                return Err(self.no_time(FROZEN, wished, latest));
            }
            time = time.max(wished.min(latest));
            loop {
                let after = self.ask_writes(Ask::ComeAfter, time);
                if after == time {
                    break;
                }
                time = after;
            }
        }
        Ok(time)
    }

    /// The earliest time after the read frontier, for one who has locked all that he will replace: whoever has read it, and left no mark, has
    /// loaded the frontier before he looked, or raised it and then looked once more.
    fn after_frontier(&self) -> Timestamp {
        let ranges = &self.shared.ranges;
        if !ranges.has_frontier() || self.shared.planted.is(Bug::FrontierSeenEarly) {
            return Timestamp::ZERO;
        }
        self.shared.host.touch(|| lines::FRONTIER, Access::Read);
        ranges.frontier().map_or(Timestamp::ZERO, Timestamp::next)
    }

    /// The same of a transaction that will write nothing, whatever it has sealed or not.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_time_of_reads(&mut self, bound: Timestamp) -> Result<Timestamp, Abort> {
        if self.order != Some(Order::Logical) {
            return Ok(bound);
        }
        self.settle_for(bound)
    }

    fn settle_for(&mut self, earliest: Timestamp) -> Result<Timestamp, Abort> {
        self.touch_range(Access::ReadModifyWrite);
        let range = self.shared.ranges.get(self.slot);
        let time = range.decide(earliest);
        self.touch_range(Access::ReadModifyWrite);
        // (It may have been decided before: a transaction that fails looks at what it has read more than once.)
        if time < earliest || !range.settle(time) {
            let latest = time.min(range.upper().time);
            return Err(self.no_time(RULE, earliest, latest));
        }
        if time == Timestamp::MAX && !self.writes.is_empty() {
            return Err(Abort::plain(AbortKind::EndOfTime));
        }
        Ok(time)
    }

    /// The latest time that others have left to this transaction, as far as it is known.
    fn latest_time(&self) -> Timestamp {
        let mut latest = self.shared.ranges.get(self.slot).upper().time;
        for node in self.nodes.entries() {
            let line = || lines::of_stamp(node.table, self.writes.kept_bytes(node.near));
            self.shared.host.touch(line, Access::Read);
            // SAFETY: the transaction is pinned since it saw the node.
            let stamp = unsafe { node.seen.stamp.as_ref() };
            // Relaxed: what has changed since is for the validation to find.
            if stamp.version.load(Ordering::Relaxed) != node.seen.version {
                latest = latest.min(Timestamp::new(node.seen.rts));
            }
        }
        latest
    }

    fn ask_writes(&self, ask: Ask, time: Timestamp) -> Timestamp {
        self.ask_cells(ask, time, |entry| entry.effect != Effect::Keep)
    }

    /// Of these of the cells that have been asked for to be written.
    fn ask_cells(&self, ask: Ask, mut time: Timestamp, are: impl Fn(&WriteEntry) -> bool) -> Timestamp {
        for entry in self.writes.entries() {
            // Nothing is replaced; or nothing will be. (Whoever is pushed to just before the end of time would freeze all until then, and
            // take it from everybody else.)
            if !are(entry) || time == Timestamp::MAX {
                continue;
            }
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let me = self.asker().me(place);
            time = with_protocol!(t.protocol, P => match ask {
                Ask::LeaveRoom => P::leave_room(me, cell, time),
                Ask::ComeAfter => P::come_after(me, cell, time),
            });
        }
        time
    }

    /// Refuses it if somebody who has read what it has asked to write has frozen all times that there are.
    pub(crate) fn meet_frozen(&mut self) -> Result<(), Abort> {
        let met = self.order == Some(Order::Logical)
            && self.ask_cells(Ask::LeaveRoom, Timestamp::ZERO, |_| true) == Timestamp::MAX;
        if met { Err(self.no_time(FROZEN, Timestamp::MAX, self.latest_time())) } else { Ok(()) }
    }

    fn touch_range(&self, access: Access) {
        self.shared.host.touch(|| lines::slot(self.slot), access);
    }

    /// The range has been frozen, and is over.
    pub(crate) fn no_time_left(&mut self, earliest: Timestamp, latest: Timestamp) -> Abort {
        self.no_time(RULE, earliest, latest)
    }

    /// Others have left no time: it would have to be from `earliest` on, and until `latest`. Told of the first cell that was written, or else
    /// read.
    fn no_time(&mut self, rule: &'static str, earliest: Timestamp, latest: Timestamp) -> Abort {
        let conflict = Conflict { rule, what: What::NoTime { earliest, latest } };
        self.watch_all();
        let written = self.writes.entries().first().map(|entry| entry.place());
        let read = self.reads.first().map(|entry| entry.place());
        let Some(place) = written.or(read) else {
            // Only by a late look at a mark of the transaction before: this one has none.
            self.failed = true;
            self.conflicted = true;
            return Abort::plain(AbortKind::Conflict);
        };
        // SAFETY: pinned since the record was found.
        let key = unsafe { place.record.key() };
        self.abort_at(conflict, AbortKind::Conflict, place.table, key, place.cell())
    }
}
