//! Taking absent records out of their indexes while transactions run.
//!
//! A deleted row, and one whose insertion was rolled back, is a record that is absent: a version like
//! any other, which others may have read. It stays in the index for two epochs, so that whoever
//! deleted and inserted the same key again soon finds it, and then leaves:
//!
//! 1. its cells are sealed, as for a write, from their absent versions; if somebody holds anything of
//!    it, it is left for later;
//! 2. it is unlinked, and the index node takes over its times: whoever no longer finds it comes after
//!    its deletion, and whoever inserts the key anew comes after all that saw it absent;
//! 3. its version words become [`Word::RECLAIMED`], which fails every validation and tells whoever
//!    still has its address to look the key up again;
//! 4. its memory is retired.
//!
//! A record is in at most one queue: a flag in its header says so. Whoever deletes it while it is
//! queued need not queue it; whoever finds it present takes it from the queue, clears the flag, and
//! looks once more.

use crate::context::Context;
use crate::planted::Bug;
use crate::protocol::{Hold, Place, Rules, with_protocol};
use crate::record::RecordPtr;
use crate::table::{TableRef, free_record};
use noonmark_core::{Age, Garbage, Host, Step, Timestamp, Word, room_for};

/// A session reclaims at most this many after a transaction that has queued few itself, so that none pays for many.
const BATCH: usize = 64;
/// A session that has more queued than this leaves them to whoever runs next.
const KEPT: usize = 512;

impl<H: Host> Context<H> {
    /// Queues a record that was just left absent, or may have been. One that somebody has locked may
    /// be: he did not make it, and if he leaves it absent he will not queue it.
    pub(crate) fn queue_if_absent(&mut self, table: TableRef, record: RecordPtr) {
        let t = table.get();
        // SAFETY: pinned since it was found or made, or in this session's queue and so not freed.
        let cell = unsafe { record.cell(t.layout_of(record).cells()[0], t.aux_words) };
        let word = cell.word.load();
        let may_be_absent = word.is_absent() || word.is_locked();
        // SAFETY: as above.
        if may_be_absent && !word.is_reclaimed() && unsafe { record.try_mark_queued() } {
            self.reclaim.push_back((self.shared.epochs.current(), table, record));
            self.queued += 1;
        }
    }

    /// Reclaims some of what has waited long enough. Between transactions only.
    #[inline(never)]
    pub(crate) fn reclaim_some(&mut self) {
        // Several times what this transaction has queued itself, so that however large transactions are, and however long
        // somebody has held the epochs back, they become fewer again.
        let most = BATCH.max(4 * std::mem::take(&mut self.queued));
        if self.reclaim.len() < most && self.shared.has_reclaim() {
            self.shared.give_reclaim(&mut self.reclaim, most);
        }
        if self.reclaim.len() >= self.shared.reclaim_from {
            self.limbo.collect(&self.shared.epochs);
        }
        for _ in 0..most {
            match self.reclaim.front() {
                Some(&(epoch, table, record)) if epoch + 2 <= self.shared.epochs.current() => {
                    self.reclaim.pop_front();
                    self.reclaim_one(table, record);
                }
                _ => break,
            }
        }
        if self.reclaim.len() > KEPT {
            // Whoever runs next takes some of them: this session may have nothing to do for long.
            self.shared.adopt_reclaim(&mut self.reclaim);
        }
        if self.reclaim.capacity() > room_for(self.reclaim.len()) {
            self.reclaim.shrink_to(self.reclaim.len());
        }
    }

    /// Leaves what is queued to those who go on; when much has been left, reclaims some of it, since there may
    /// be nobody who goes on for long. For a session that ends.
    pub(crate) fn leave_reclaim(&mut self) {
        if self.reclaim.is_empty() {
            return;
        }
        let left = self.shared.adopt_reclaim(&mut self.reclaim);
        if left >= self.shared.reclaim_from && !std::thread::panicking() {
            self.limbo.collect(&self.shared.epochs);
            self.shared.give_reclaim(&mut self.reclaim, BATCH);
            for _ in 0..self.reclaim.len() {
                let Some((epoch, table, record)) = self.reclaim.pop_front() else { break };
                if epoch + 2 <= self.shared.epochs.current() {
                    self.reclaim_one(table, record);
                } else {
                    self.reclaim.push_back((epoch, table, record));
                }
            }
            self.shared.adopt_reclaim(&mut self.reclaim);
        }
    }

    fn reclaim_one(&mut self, table: TableRef, record: RecordPtr) {
        self.by_itself(Age::YOUNGEST, |context, may| {
            if !may || !context.try_reclaim(table, record) {
                // SAFETY: the record was in this session's queue, so nobody else frees it.
                unsafe { record.unmark_queued() };
                // It is absent but somebody relies on it; or somebody has deleted it after we looked,
                // and seen the mark.
                context.queue_if_absent(table, record);
            }
        });
    }

    /// Does the engine's own work as a transaction of its own, for as long as its id stands in the locks. Between transactions
    /// only. `age` says who waits for whom, where ages do. `work` is told whether it may lock anything: not while somebody is at the gate, who
    /// must meet nobody.
    pub(crate) fn by_itself<T>(&mut self, age: Age, work: impl FnOnce(&mut Self, bool) -> T) -> T {
        let shared = self.shared.clone();
        self.txn = self.txn.next();
        if shared.has_ages() {
            shared.slots.get(self.slot).set_age(age);
        }
        if shared.has_ranges() {
            // It commits nothing; but others may come to its locks, and put themselves before or after it.
            shared.ranges.begin(self.slot, self.floor);
        }
        self.start();
        let may = !shared.gate.is_closed();
        let answer = work(self, may);
        self.stop();
        answer
    }

    /// Makes the cells of a record, which it has sealed, unreadable until they are let go of.
    pub(crate) fn hide_all(&mut self, table: TableRef, record: RecordPtr, cells: &[usize]) {
        let t = table.get();
        for at in cells {
            // SAFETY: whoever has sealed a cell keeps its record from being freed; the offset is of this table's layouts.
            let cell = unsafe { record.cell(*at, t.aux_words) };
            let me = self.asker().me(Place { table, record, at: *at as u32 });
            with_protocol!(t.protocol, P => P::hide(me, cell));
        }
    }

    fn try_reclaim(&mut self, table: TableRef, record: RecordPtr) -> bool {
        let planted = self.shared.planted;
        let t = table.get();
        let mut holds = [Hold::default(); crate::group::GROUPS_MAX];
        let cells = t.layout_of(record).cells();
        let mut wts = Timestamp::ZERO;
        let mut rts = Timestamp::ZERO;
        let mut sealed = true;
        for (at, hold) in cells.iter().zip(&mut holds) {
            let place = Place { table, record, at: *at as u32 };
            // SAFETY: the record is in this session's queue, so nobody else frees it.
            let cell = unsafe { record.cell(*at, t.aux_words) };
            let word = cell.word.load();
            let me = self.asker().me(place);
            sealed = !word.is_locked()
                && word.is_absent()
                && with_protocol!(t.protocol, P => {
                    matches!(P::seal(me, cell, Some(word), hold), Step::Ready(()))
                        && P::reclaim_bound(me, cell, word).is_ok_and(|bound| {
                            rts = rts.max(bound);
                            true
                        })
                });
            if !sealed {
                break;
            }
            wts = wts.max(word.time());
        }
        if !sealed {
            for (at, hold) in cells.iter().zip(holds) {
                self.release_hold(table, record, *at as u32, hold);
            }
            return false;
        }
        // Whoever has come to it without a look learns by the lock that it may be gone (`Context::validate_observations`).
        self.hide_all(table, record, cells);
        // SAFETY: as above.
        let key = unsafe { record.key() };
        if planted.is(Bug::TimesNotTakenOver) {
            (wts, rts) = (Timestamp::ZERO, Timestamp::ZERO);
        }
        let unlinked =
            t.index.remove(key, record, wts.ticks(), rts.ticks(), &mut self.limbo, &self.shared.epochs);
        debug_assert!(unlinked, "a record is in its index until it is reclaimed, which happens once");
        for (at, hold) in cells.iter().zip(holds) {
            let place = Place { table, record, at: *at as u32 };
            // SAFETY: as above.
            let cell = unsafe { record.cell(*at, t.aux_words) };
            let me = self.asker().me(place);
            let last = match planted.is(Bug::ReclaimedUnmarked) {
                true => hold.prev.unwrap_or(Word::RECLAIMED),
                false => Word::RECLAIMED,
            };
            with_protocol!(t.protocol, P => P::publish(me, cell, last));
        }
        // SAFETY: the record has just left its index, so nobody who is pinned from now on finds it;
        // the table lasts as long as the database, whose epochs are emptied before it goes.
        let garbage =
            unsafe { Garbage::new(record.as_ptr().cast(), table.as_ptr().expose_provenance(), free_record) };
        self.limbo.retire(&self.shared.epochs, garbage);
        true
    }
}
