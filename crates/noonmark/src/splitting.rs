//! Timestamps that split themselves: what [Granularity §5] leaves as future work.
//!
//! In a [splitting](crate::Granularity::Splitting) table a record begins *whole*: one cell, whose version word guards all its
//! groups. When transactions that want different groups of it keep aborting each other, it is *split*: from then on each
//! group has the version word that lies ready for it in the record. When it has not been written for a while, it is
//! made whole again.
//!
//! # How conflicts are told apart
//!
//! Whoever writes a whole record leaves behind which groups he wrote, and whoever reads it under a lock which ones he read
//! ([`LastUse`]); whoever meets a conflict over it knows which groups he wanted. If the two have none in common, the
//! conflict was over nothing but the shared timestamp. (What is there may be from another than the one who was met: over many
//! conflicts it comes to the same, and nothing but speed hangs on it.) Both kinds are counted in the record, by all sessions
//! together, and the one whose conflict makes it enough of that kind, and at least half, splits the row.
//!
//! # Why it is serializable
//!
//! To split a record, or to make it whole, is a transaction that reads the row and writes it back as it is. It locks the cells
//! that there are, as any writer under their protocol; it commits later than all versions and all reads of them; and it
//! gives the cells that there will be that commit time, and those that there were the word
//! [`RECLAIMED`](noonmark_core::Word::RECLAIMED), as if the record had left its index. So whoever has read the
//! record through a cell that is no more fails to validate it, whoever would lock such a cell cannot, and whoever
//! comes to one while executing looks the record up again and finds the other layout
//! ([`TableCore::layout_of`](crate::table::TableCore::layout_of)). No rule of any protocol knows of it.
//!
//! Who changes the layout holds the word of the whole cell from before the first step until after the last: a version that he
//! locks, to split; [`RECLAIMED`](noonmark_core::Word::RECLAIMED), to make it whole. So there is one at a time, and
//! nobody's cells are taken from him before he is done. (`noonmark fuzz` found out, with two at once.) For as long as that word is
//! locked, whoever looks a record up finds it whole, and locked. Who comes to a cell on an older knowledge, from the last
//! time that the record was so, finds it of no use, locked, or of the version that it has now.
//!
//! A cell's versions stay in the order of time through all this, as each change of layout is later than the last of
//! both: two equal words are the same version, as ever.
//!
//! It waits for about as long as a transaction of some operations takes, as that long somebody may hold something of the row, and if that is
//! not enough it is tried again after the session's next transaction, and so on. While it waits for those who are reading,
//! nobody else can begin to: else a row that somebody is always reading would never be split. Where transactions wait for each other by age, who is
//! reading may be waiting for who splits. So that has an age, too, keeps it from try to try as a transaction keeps
//! its own, and waits for the younger, or has them abort, as the protocol has it.
//!
//! # What it does not do
//!
//! It does not split a group: columns that are written apart must be declared as groups to be told apart, which costs a
//! whole record nothing. It keeps a record split as long as any group of it is written, also if nobody wants the others
//! any more. It sees conflicts in aborts only: who waits for a row until he has it has had none. (Where the only thing that transactions want is one
//! row, nobody aborts under wound-wait, and it stays whole.) Tables whose protocol keeps versions have no splitting, as those hang on cells.

use crate::abort::AbortKind;
use crate::context::{Asker, Context, Refusal};
use crate::group::GROUPS_MAX;
use crate::index::Lookup;
use crate::planted::Bug;
use crate::protocol::{Held, Hold, Place, Rules, What, with_protocol};
use crate::record::{Cell, Layout, RecordPtr};
use crate::table::TableRef;
use noonmark_core::sync::{AtomicU32, AtomicUsize, Mutex, Ordering};
use noonmark_core::{Access, Age, Host, Step, Timestamp, WaitFor, Word};
use std::collections::VecDeque;
use std::time::Duration;

/// So many conflicts over nothing but the timestamp split a row, unless the builder says otherwise.
pub(crate) const SPLIT_AFTER_DEFAULT: u32 = 4;
/// And at most so many: a record has 15 bits for them.
pub(crate) const SPLIT_AFTER_MAX: u32 = 500;
/// If who is to split it has not done so yet, so many times as many make it somebody else's turn.
const AGAIN_TIMES: u32 = 2;
/// Every so many transactions a session looks at a row that is split, unless the builder says otherwise.
pub(crate) const LOOK_EVERY_DEFAULT: u64 = 1024;
/// A row that has not been written for so long is made whole, unless the builder says otherwise.
pub(crate) const WHOLE_AFTER_DEFAULT: Duration = Duration::from_millis(100);
/// A session tries to split a row after so many transactions in turn, while others hold it.
const TRIES_MAX: u32 = 64;
/// Each time it looks so often whether the row is free.
const TURNS_MAX: u32 = 4_096;
/// And stands in line for so long, where there are lines.
const IN_LINE_MAX_NS: u64 = 100_000;

/// The row that a session is to split.
#[derive(Debug)]
pub(crate) struct Due {
    table: TableRef,
    key: Vec<u8>,
    /// How often that has been tried.
    tries: u32,
    /// Kept from try to try, so that whoever splits it becomes older than all who are at it.
    age: Age,
}

/// What was last done with which groups of a whole record, and what came of it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LastUse {
    /// A byte for the groups that were written, and one for those that were read under a lock, a bit a group. Advice: whoever changes
    /// one byte may undo the other's change.
    groups: AtomicU32,
    /// The conflicts of late, of all sessions: in the high half all, in the low half those over nothing but the timestamp, and whether the row
    /// was due to be split already.
    conflicts: AtomicU32,
}

const WAS_DUE: u32 = 1 << 15;
const FALSE_ONES: u32 = WAS_DUE - 1;

/// What the other one of a conflict did with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Wrote,
    Read,
    /// One of both: that is not known.
    Used,
}

impl LastUse {
    /// Whether that was new: then its line was taken from others.
    pub(crate) fn note_written(&self, groups: u8) -> bool {
        self.note(!0xff, u32::from(groups))
    }

    /// As above.
    pub(crate) fn note_read(&self, groups: u8) -> bool {
        self.note(!0xff00, u32::from(groups) << 8)
    }

    /// Only if that is new, as a store takes the line from others.
    #[inline(always)]
    fn note(&self, keep: u32, groups: u32) -> bool {
        // Relaxed: advice.
        let before = self.groups.load(Ordering::Relaxed);
        let after = before & keep | groups;
        if after != before {
            self.groups.store(after, Ordering::Relaxed);
        }
        after != before
    }

    /// The groups that others last used so.
    fn groups(&self, other: Other) -> u8 {
        // Relaxed: advice.
        let [written, read, ..] = self.groups.load(Ordering::Relaxed).to_le_bytes();
        match other {
            Other::Wrote => written,
            Other::Read => read,
            Other::Used => written | read,
        }
    }

    /// Counts a conflict. Whether there have been enough over nothing but the timestamp, and at least half of all: then the row is due,
    /// if the caller `can_split` it; or else who comes next is asked. The next one is after many more: this one may not come to it.
    #[cold]
    fn count(&self, is_false: bool, split_after: u32, can_split: bool) -> bool {
        let count = |counted: u32| {
            let (was_due, false_ones, all) = (counted & WAS_DUE, counted & FALSE_ONES, counted >> 16);
            let (false_ones, all) = (false_ones + u32::from(is_false), all + 1);
            let enough = if was_due == 0 { split_after } else { split_after * AGAIN_TIMES };
            let is_due = false_ones >= enough && false_ones * 2 >= all;
            let after = match is_due {
                true if can_split => WAS_DUE,
                // What is long past counts less.
                _ if all >= enough * 4 => was_due | (false_ones / 2) | ((all / 2) << 16),
                _ => was_due | false_ones | (all << 16),
            };
            (is_due && can_split, after)
        };
        // Relaxed: nothing follows from it but when a row is split.
        let relaxed = Ordering::Relaxed;
        let mut before = self.conflicts.load(relaxed);
        loop {
            let (is_due, after) = count(before);
            match self.conflicts.compare_exchange_weak(before, after, relaxed, relaxed) {
                Ok(_) => return is_due,
                Err(now) => before = now,
            }
        }
    }

    /// The row has been split.
    fn count_anew(&self) {
        self.conflicts.store(0, Ordering::Relaxed);
    }
}

/// The rows of a database that are split.
#[derive(Default)]
pub(crate) struct Splits {
    rows: Mutex<VecDeque<SplitRow>>,
    count: AtomicUsize,
}

struct SplitRow {
    table: TableRef,
    key: Vec<u8>,
    /// When its groups were last written, when it was last looked at.
    written: u64,
    /// When that was, or when it was split.
    looked_ns: u64,
}

impl Splits {
    /// Whether there are any. A hint.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count() > 0
    }

    /// How many there are, about.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        // Relaxed: a hint.
        self.count.load(Ordering::Relaxed)
    }

    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<SplitRow>) -> T) -> T {
        let mut rows = self.rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let answer = change(&mut rows);
        self.count.store(rows.len(), Ordering::Relaxed);
        answer
    }
}

impl<H: Host> Context<H> {
    /// There was a conflict over a whole record that can be split, of which this transaction wanted these groups.
    #[cold]
    pub(crate) fn watch_conflict(&mut self, place: Place, groups: u8, other: Other) {
        let layout = &place.table.get().layout;
        // SAFETY: the transaction is pinned, and found the record since; its table splits.
        let (last_use, key) = unsafe { (place.record.last_use(layout), place.record.key()) };
        let line = Place { at: layout.last_use_at(), ..place };
        self.shared.host.touch(|| line.line(), Access::ReadModifyWrite);
        let used = last_use.groups(other);
        if used == 0 {
            // SAFETY: as above.
            return unsafe { place.record.watch() };
        }
        if last_use.count(used & groups == 0, self.shared.split_after, self.due.is_none()) {
            let age = Age::new(self.shared.host.now_ns(), self.slot);
            self.due = Some(Due { table: place.table, key: key.to_vec(), tries: 0, age });
        }
    }

    /// Others leave no commit time, and it cannot be said over what: over any of the whole records that this transaction
    /// wanted something of.
    #[cold]
    pub(crate) fn watch_all(&mut self) {
        let written = self.writes.entries().iter().map(|entry| (entry.place(), entry.asked, Other::Used));
        let read = self.reads.iter().map(|entry| (entry.place(), entry.groups.bits(), Other::Wrote));
        let whole = |(place, ..): &(Place, u8, Other)| place.table.get().is_whole(place.at);
        let wanted: Vec<_> = written.chain(read).filter(whole).collect();
        for (place, groups, other) in wanted {
            self.watch_conflict(place, groups, other);
        }
    }

    /// Splits the row that is to be. Between transactions only.
    #[inline(always)]
    pub(crate) fn split_if_due(&mut self) {
        if self.due.is_some() {
            self.split_due();
        }
    }

    #[cold]
    fn split_due(&mut self) {
        let Some(Due { table, key, tries, age }) = self.due.take() else { return };
        let found = self.by_itself(age, |context, may| {
            let Lookup::Found(record) = table.get().index.get(&key, &mut context.finger) else { return None };
            if !context.layout_of(table, record).is_one_cell() {
                return None;
            }
            Some(may && context.try_split(table, record))
        });
        match found {
            Some(true) => {
                let looked_ns = self.shared.host.now_ns();
                self.shared
                    .splits
                    .change(|rows| rows.push_back(SplitRow { table, key, written: 0, looked_ns }));
            }
            Some(false) if tries < TRIES_MAX => self.due = Some(Due { table, key, tries: tries + 1, age }),
            _ => (),
        }
    }

    /// Looks at one of the rows that are split, every so many transactions: if it has not been written since the last look, and that is
    /// long ago, it is made whole. Between transactions only.
    #[inline(always)]
    pub(crate) fn look_at_splits(&mut self) {
        if self.shared.splits.any() && self.txn.sequence().is_multiple_of(self.shared.look_every) {
            self.look_at_split();
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_split(&mut self) {
        let Some(mut row) = self.shared.splits.change(VecDeque::pop_front) else { return };
        let (table, now_ns) = (row.table, self.shared.host.now_ns());
        if now_ns < row.looked_ns.saturating_add(self.shared.whole_after_ns) {
            return self.shared.splits.change(|rows| rows.push_back(row));
        }
        let age = Age::new(row.looked_ns, self.slot);
        row.looked_ns = now_ns;
        let stays = self.by_itself(age, |context, may| {
            let Lookup::Found(record) = table.get().index.get(&row.key, &mut context.finger) else {
                return false;
            };
            let layout = context.layout_of(table, record);
            if layout.is_one_cell() {
                // Another record, under the same key, or one that is just being split.
                return false;
            }
            let before = std::mem::replace(&mut row.written, last_written(table, record, layout));
            before != row.written || !may || !context.try_make_whole(table, record)
        });
        if stays {
            self.shared.splits.change(|rows| rows.push_back(row));
        }
    }

    /// Splits a whole record, if nobody holds anything of it. See the module.
    fn try_split(&mut self, table: TableRef, record: RecordPtr) -> bool {
        let t = table.get();
        let Some(split) = &t.split else { return false };
        let mut holds = [Hold::default()];
        let Some(time) = self.seal_all(table, record, &t.layout, &mut holds) else { return false };
        for at in split.cells() {
            self.let_go(table, record, *at, Word::version(time, self.slot, false));
        }
        self.retire_cell(table, record, t.layout.cells()[0]);
        // SAFETY: pinned since the record was found, whose table splits.
        unsafe { record.last_use(&t.layout) }.count_anew();
        true
    }

    /// Makes a split record whole, if nobody holds anything of it. See the module.
    fn try_make_whole(&mut self, table: TableRef, record: RecordPtr) -> bool {
        let t = table.get();
        let Some(split) = &t.split else { return false };
        let whole = t.layout.cells()[0];
        // SAFETY: pinned since the record was found; the offset is of this table's layouts.
        let cell = unsafe { record.cell(whole, t.aux_words) };
        let place = Place { table, record, at: whole as u32 };
        self.shared.host.touch(|| place.line(), Access::ReadModifyWrite);
        if !cell.word.try_revive(self.txn) {
            return false;
        }
        let mut holds = [Hold::default(); GROUPS_MAX];
        let sealed = match self.shared.planted.is(Bug::MadeWholeUnsealed) {
            true => Some(Timestamp::new(last_written(table, record, split))),
            false => self.seal_all(table, record, split, &mut holds),
        };
        let Some(time) = sealed else {
            self.let_go(table, record, whole, Word::RECLAIMED);
            return false;
        };
        for at in split.cells() {
            self.retire_cell(table, record, *at);
        }
        self.let_go(table, record, whole, Word::version(time, self.slot, false));
        true
    }

    /// Locks the cells of a record that is there, which are these: the time of what this transaction makes of them. `None`, and
    /// nothing is locked: somebody holds something.
    fn seal_all(
        &mut self,
        table: TableRef,
        record: RecordPtr,
        layout: &Layout,
        holds: &mut [Hold],
    ) -> Option<Timestamp> {
        let t = table.get();
        let (mut bound, mut written) = (Timestamp::ZERO, Timestamp::ZERO);
        let mut sealed = true;
        for (at, hold) in layout.cells().iter().zip(&mut *holds) {
            let place = Place { table, record, at: *at as u32 };
            // SAFETY: pinned since the record was found; the offset is of this table's layouts.
            let cell = unsafe { record.cell(*at, t.aux_words) };
            let Some((word, used)) = self.seal_soon(place, cell, hold) else {
                sealed = false;
                break;
            };
            (bound, written) = (bound.max(used), written.max(word.time()));
        }
        if !sealed || bound == Timestamp::MAX {
            for (at, hold) in layout.cells().iter().zip(holds) {
                self.release_hold(table, record, *at as u32, *hold);
            }
            return None;
        }
        // Values stay where they are, and whoever has found the row laid out in the other way once may write them by its cells before these are
        // retired: nobody may read them by these any more.
        self.hide_all(table, record, layout.cells());
        if self.shared.planted.is(Bug::SplitAtOldTime) {
            bound = written;
        }
        self.shared.slots.get(self.slot).remember_commit(bound, self.txn.sequence());
        Some(bound)
    }

    /// Locks a cell of a record that is there, once nobody else has anything of it: its version, and a time after all that was done
    /// with it. `None` if that takes too long, or may not be waited for; the cell may be locked then.
    fn seal_soon(&self, place: Place, cell: Cell<'_>, hold: &mut Hold) -> Option<(Word, Timestamp)> {
        let word = self.lock_soon(place, cell, hold)?;
        Some((word, self.free_soon(place, cell, word)?))
    }

    /// Locks a cell of a record that is there: its version.
    ///
    /// Where all stand in line for the version word (two-phase locking), that is done here, too: what all want is handed from one to the next, and
    /// never free. And where there are lines, who has locked something waits for those only for whom the ages let him: the others may be in line
    /// for it.
    fn lock_soon(&self, place: Place, cell: Cell<'_>, hold: &mut Hold) -> Option<Word> {
        let protocol = place.table.get().protocol;
        let stands_in_line = protocol.waits_in_line() && protocol.locks_reads() && !protocol.has_ranges();
        let host = &self.shared.host;
        let deadline_ns = Some(host.now_ns().saturating_add(IN_LINE_MAX_NS));
        let asker = Asker { deadline_ns, ..self.asker() };
        for turn in 0..TURNS_MAX {
            // Locked already, it may have readers yet.
            let word = hold.prev.unwrap_or_else(|| {
                host.touch(|| place.line(), Access::Read);
                cell.word.load()
            });
            let is_gone = |word: Word| word.is_reclaimed() || word.is_absent() && !word.is_locked();
            if is_gone(word) {
                return None;
            }
            let seen = (!word.is_locked()).then_some(word);
            if seen.is_some() || stands_in_line {
                let mut seal = |me| with_protocol!(protocol, P => P::seal(me, cell, seen, hold));
                let refused = |conflict| Refusal { conflict, kind: AbortKind::Conflict };
                let answer = match seal(asker.me(place)) {
                    Step::Ready(()) => Ok(()),
                    first @ Step::Wait(..) if stands_in_line => asker.ask_again(place, first, seal),
                    Step::Wait(_, conflict) => {
                        if self.shared.waits_both_ways() {
                            asker.me(place).wound_younger(conflict);
                        }
                        Err(refused(conflict))
                    }
                    Step::Busy(conflict) | Step::Die(conflict) | Step::Abort(conflict) => {
                        Err(refused(conflict))
                    }
                };
                match answer.map_err(|refusal| (refusal.kind, refusal.conflict.what)) {
                    Ok(()) => return hold.prev.filter(|word| !is_gone(*word)),
                    Err(_) if hold.prev.is_some() && protocol.waits_in_line() => return None,
                    Err((AbortKind::Conflict, What::Locked { .. } | What::ReadLocked { .. })) => (),
                    Err(_) => return None,
                }
            }
            host.spin(turn);
        }
        None
    }

    /// Waits until nobody has a mark on a locked cell, which keeps nobody from locking it: a time after all that was done with it. Here, too, for
    /// whom the ages let him wait.
    fn free_soon(&self, place: Place, cell: Cell<'_>, word: Word) -> Option<Timestamp> {
        let protocol = place.table.get().protocol;
        let me = self.asker().me(place);
        let waits_for = |held: Held| {
            let reader = held.by.and_then(|by| self.shared.slots.running(by));
            !protocol.waits_in_line() || reader.is_none_or(|reader| me.is_older_than(reader))
        };
        for turn in 0..TURNS_MAX {
            let used = with_protocol!(protocol, P => {
                P::reclaim_bound(me, cell, word).map(|read| read.next().max(P::write_bound(cell, word)))
            });
            match used {
                Ok(used) => return Some(used),
                Err(held) if !waits_for(held) => return None,
                Err(_) if self.shared.has_ages() && self.shared.slots.get(self.slot).is_wounded() => {
                    return None;
                }
                Err(_) => (),
            }
            self.shared.host.touch(|| place.line(), Access::Read);
            self.shared.host.spin(turn);
        }
        None
    }

    /// Leaves a cell, which has been sealed, of no use.
    fn retire_cell(&self, table: TableRef, record: RecordPtr, at: usize) {
        let t = table.get();
        // SAFETY: pinned since the record was found; the offset is of this table's layouts.
        let cell = unsafe { record.cell(at, t.aux_words) };
        let me = self.asker().me(Place { table, record, at: at as u32 });
        with_protocol!(t.protocol, P => P::publish(me, cell, Word::RECLAIMED));
    }

    /// Leaves this word in a cell that was of no use, and that nobody else can have locked. What others keep beside it, such as
    /// an intent that they have found out to be in vain, they take away themselves.
    fn let_go(&self, table: TableRef, record: RecordPtr, at: usize, word: Word) {
        let place = Place { table, record, at: at as u32 };
        self.shared.host.touch(|| place.line(), Access::Write);
        // SAFETY: pinned since the record was found; the offset is of this table's layouts.
        let cell = unsafe { record.cell(at, table.get().aux_words) };
        if cell.word.unlock(word) {
            self.shared.room.wake(WaitFor::release_of(cell.word));
        }
    }
}

/// When the groups of a split record were last written, added up: while one is being written, like no time before.
fn last_written(table: TableRef, record: RecordPtr, layout: &Layout) -> u64 {
    let time = |at: &usize| {
        // SAFETY: the caller is pinned since the record was found; the offset is of its table's layouts.
        let word = unsafe { record.cell(*at, table.get().aux_words) }.word.load();
        if word.is_locked() { u64::MAX } else { word.time().ticks() }
    };
    layout.cells().iter().map(time).fold(0, u64::wrapping_add)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    /// How many conflicts it takes until a row is due, of which each second one is over a group, or none.
    fn due_after(last_use: &LastUse, half_are_true: bool, conflicts_max: u32) -> Option<u32> {
        (1..=conflicts_max).find(|number| last_use.count(!half_are_true || number % 2 == 0, 4, true))
    }

    fn unused() -> LastUse {
        LastUse { groups: AtomicU32::new(0), conflicts: AtomicU32::new(0) }
    }

    #[test]
    fn a_row_is_due_once_enough_conflicts_are_over_nothing() {
        let last_use = unused();
        assert_eq!(due_after(&last_use, false, 100), Some(4));
        assert_eq!(
            due_after(&last_use, false, 100),
            Some(4 * AGAIN_TIMES),
            "should the first session not come to it"
        );
        last_use.count_anew();
        assert_eq!(due_after(&last_use, true, 100), Some(8));
        last_use.count_anew();
        let most_are_true = (1..10_000).find(|number| last_use.count(number % 3 == 0, 4, true));
        assert_eq!(most_are_true, None);
    }

    #[test]
    fn who_cannot_split_leaves_it_to_the_next() {
        let last_use = unused();
        for _ in 0..1_000 {
            assert!(!last_use.count(true, 4, false));
        }
        assert!((0..8).any(|_| last_use.count(true, 4, true)));
        let most = SPLIT_AFTER_MAX;
        for _ in 0..2 {
            assert!((0..most * AGAIN_TIMES * 8).any(|_| last_use.count(true, most, true)));
        }
    }

    #[test]
    fn what_is_written_and_what_is_read_is_told_apart() {
        let last_use = unused();
        assert!(last_use.note_written(0b01));
        assert!(last_use.note_read(0b10) && !last_use.note_read(0b10));
        assert_eq!([Other::Wrote, Other::Read, Other::Used].map(|other| last_use.groups(other)), [1, 2, 3]);
        assert!(last_use.note_written(0b100));
        assert_eq!(last_use.groups(Other::Used), 0b110);
    }
}
