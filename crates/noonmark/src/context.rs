//! The state of one transaction, and how its rules are asked.
//!
//! A session owns one [`Context`] and uses it for one transaction after another, so that a
//! transaction allocates nothing once the buffers have grown. What the operations do is in
//! [`crate::operations`], [`crate::cells`], [`crate::scan`] and [`crate::commit`]; here is what they share.

use crate::abort::{Abort, AbortKind, Cause, Inner};
use crate::database::Shared;
use crate::gate::Passed;
use crate::group::{Groups, Row, RowReader};
use crate::index::{Finger, NodeSeen};
use crate::lines;
use crate::node_set::{NodeEntry, NodeSet};
use crate::protocol::{Conflict, Hold, Me, Order, Place, Rules, Seen, What, with_protocol};
use crate::record::{Cell, RecordPtr, free_boxed};
use crate::secondary::Unfollowed;
use crate::splitting::{Due, Other};
use crate::table::TableRef;
use crate::write_set::WriteSet;
use noonmark_core::{Access, Age, Host, Limbo, SlotId, Step, Timestamp, TxnId, WaitFor, Work};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

/// One cell that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadEntry {
    pub record: RecordPtr,
    pub table: TableRef,
    pub seen: Seen,
    /// Offset of the version word, in words.
    pub at: u32,
    /// What was read of the cell.
    pub groups: Groups,
}

impl ReadEntry {
    pub(crate) fn place(&self) -> Place {
        Place { table: self.table, record: self.record, at: self.at }
    }
}

/// Why an operation did not go on.
pub(crate) enum Stop {
    /// The record has left its index: look the key up again.
    LookAgain,
    /// The transaction is over.
    Abort(Abort),
}

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Self {
        Stop::Abort(abort)
    }
}

/// Counts of a session's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStatistics {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that the user's own error, or a rollback, ended.
    pub user_rollbacks: u64,
    /// Attempts that ended in a conflict.
    pub aborts: u64,
    /// Transactions that had to go through the gate.
    pub escapes: u64,
    /// The most attempts that one transaction took.
    pub attempts_max: u64,
}

pub(crate) struct Context<H: Host> {
    pub shared: Arc<Shared<H>>,
    /// The database's id, at hand for every operation.
    database: u64,
    pub slot: SlotId,
    /// The id of the transaction that runs, or ran last.
    pub txn: TxnId,
    /// Whether one runs.
    pub active: bool,
    /// An operation failed: the transaction can only end.
    pub failed: bool,
    /// The attempt met a conflict, whatever the user's closure made of the error.
    pub conflicted: bool,
    /// The database's order, settled when the session's first transaction began.
    pub order: Option<Order>,
    /// When the user's first attempt began, for those protocols that ask; kept over retries.
    pub age: Option<Age>,
    /// The time at which the transaction takes place, if it has one from elsewhere, and by how many ticks such times may be late.
    pub begins_at: Option<(Timestamp, u64)>,
    /// It is expected to write nothing, and to leave no marks where there is a read frontier.
    pub spares_marks: bool,
    /// When to stop waiting, in the host's time.
    pub deadline_ns: Option<u64>,
    pub reads: Vec<ReadEntry>,
    pub nodes: NodeSet,
    pub writes: WriteSet,
    /// Records that this transaction put into an index.
    pub created: Vec<(TableRef, RecordPtr)>,
    /// The latest version read.
    pub read_bound: Timestamp,
    /// The session's last commit time, or what has turned out elsewhere: the next is not before it.
    pub floor: Timestamp,
    /// Where the host defers: whether what is prepared is read in any case, though its lease be over before the transaction can commit.
    pub reads_prepared: bool,
    /// Buffers for rows that are too large for the stack.
    pub rows: Vec<Vec<u64>>,
    /// What it has got hold of in an operation that was [deferred](Host::DEFERS), and will be asked for again.
    pub kept_hold: Option<(Place, Hold)>,
    /// An operation that was deferred once it had changed its row, and will be asked for again to bring the row's secondary entries up
    /// to that.
    pub unfollowed: Option<Box<Unfollowed>>,
    /// A value that commit-time updates are applied to.
    pub value: Vec<u8>,
    pub limbo: Limbo,
    /// Where the transaction has put in its last key. Lifted when it ends, and with that its pin.
    pub finger: Finger,
    /// Absent records that will leave their index, with the epoch in which they were queued.
    pub reclaim: VecDeque<(u64, TableRef, RecordPtr)>,
    /// How many were queued since it last reclaimed some.
    pub queued: usize,
    /// Copies of long values of its own that the transaction has read: nobody else knows them, and they are freed when the
    /// row has been decoded, or at the end.
    pub own_copies: Vec<u64>,
    /// A row that it is to split.
    pub due: Option<Due>,
    /// Random state, for pauses between attempts.
    pub random: u64,
    pub statistics: SessionStatistics,
}

impl<H: Host> Context<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>, slot: SlotId) -> Self {
        let sequence = shared.slots.get(slot).sequence();
        let random = shared.host.seed() | 1;
        // An age of its own, unlike any other's, also for a transaction that began before the first
        // table whose protocol asks for ages was made.
        shared.slots.get(slot).set_age(Age::new(shared.host.now_ns(), slot));
        Context {
            database: shared.id,
            slot,
            txn: TxnId::new(slot, sequence),
            active: false,
            failed: false,
            conflicted: false,
            order: None,
            age: None,
            begins_at: None,
            spares_marks: false,
            deadline_ns: None,
            reads: Vec::new(),
            nodes: NodeSet::default(),
            writes: WriteSet::default(),
            created: Vec::new(),
            read_bound: Timestamp::ZERO,
            floor: Timestamp::ZERO,
            reads_prepared: false,
            rows: Vec::new(),
            kept_hold: None,
            unfollowed: None,
            value: Vec::new(),
            limbo: Limbo::new(),
            finger: Finger::default(),
            reclaim: VecDeque::new(),
            queued: 0,
            own_copies: Vec::new(),
            due: None,
            random,
            statistics: SessionStatistics::default(),
            shared,
        }
    }

    /// Begins an attempt; false if its deadline has passed at the gate, or if it is too late for the time that it has brought.
    #[inline]
    #[must_use]
    pub(crate) fn begin(&mut self) -> bool {
        if self.active {
            // The one before was forgotten instead of dropped.
            self.roll_back();
        }
        let shared = &*self.shared;
        if self.order.is_none() {
            self.order = Some(shared.settle_order());
        }
        if shared.has_more_to_begin() {
            if shared.has_ages() {
                let age = *self.age.get_or_insert_with(|| Age::new(shared.host.now_ns(), self.slot));
                shared.slots.get(self.slot).set_age(age);
            }
            if shared.has_ranges() {
                shared.ranges.begin(self.slot, self.floor);
                if self.spares_marks && shared.ranges.has_frontier() && self.order == Some(Order::Logical) {
                    shared.host.touch(|| lines::FRONTIER, Access::Read);
                    shared.ranges.begin_at_frontier(self.slot);
                }
            }
        }
        self.txn = self.txn.next();
        self.start();
        self.shared.host.touch(|| lines::GATE, Access::Read);
        if self.shared.gate.is_closed() && !self.stand_in_line() {
            return false;
        }
        if self.shared.keeps_versions() && !self.draw_begin_time() {
            self.stop();
            return false;
        }
        self.shared.host.tell(|| format!("begins as {}", self.txn));
        self.active = true;
        self.failed = false;
        self.conflicted = false;
        self.read_bound = Timestamp::ZERO;
        if H::DEFERS {
            self.unfollowed = None;
        }
        true
    }

    /// Takes the time at which the transaction takes place, once it is let in. False: it has brought one for which it is too late.
    #[cold]
    #[inline(never)]
    fn draw_begin_time(&self) -> bool {
        let shared = &*self.shared;
        shared.host.touch(|| lines::slot(self.slot), Access::Write);
        shared.host.touch(|| lines::BEGIN_TIMES, Access::ReadModifyWrite);
        let looks = match self.begins_at {
            Some((time, trail)) => shared.begin_times.begin_at(self.slot, time, trail),
            None => Some(shared.begin_times.begin(self.slot).1),
        };
        if looks == Some(true) {
            for index in 0..shared.slots.count() {
                if let Some(slot) = SlotId::new(index) {
                    shared.host.touch(|| lines::slot(slot), Access::Read);
                }
            }
            shared.begin_times.advance();
        }
        looks.is_some()
    }

    /// Says that a transaction runs here, and pins it.
    #[inline(always)]
    pub(crate) fn start(&self) {
        let host = &self.shared.host;
        host.work(Work::Attempt);
        host.touch(|| lines::slot(self.slot), Access::ReadModifyWrite);
        self.shared.slots.get(self.slot).begin(self.txn.sequence());
        self.shared.epochs.pin(self.slot);
    }

    /// The opposite of [`Context::start`].
    #[inline(always)]
    pub(crate) fn stop(&mut self) {
        self.finger.lift();
        self.shared.host.touch(|| lines::slot(self.slot), Access::Write);
        if self.shared.keeps_versions() {
            self.shared.begin_times.end(self.slot);
        }
        self.shared.slots.get(self.slot).end(self.txn.sequence());
        self.shared.epochs.unpin(self.slot);
    }

    /// Somebody is at the gate: waits outside, or, if it is this one's turn, until it is alone. False if
    /// the deadline has passed meanwhile.
    #[cold]
    fn stand_in_line(&mut self) -> bool {
        let shared = self.shared.clone();
        loop {
            self.stop();
            match shared.gate.pass(self.slot, &shared.host, &shared.slots, &shared.room, self.deadline_ns) {
                Passed::Late => return false,
                Passed::Through => {
                    self.start();
                    if shared.has_ranges() {
                        // Alone, and nobody is left who could be late in pushing it for the sake of an earlier attempt.
                        shared.ranges.begin(self.slot, self.floor);
                    }
                    return true;
                }
                Passed::Outside { patient } => {
                    self.start();
                    if shared.gate.lets_in(patient) {
                        return true;
                    }
                }
            }
        }
    }

    /// Before each operation: may the transaction use this table, and go on at all?
    #[inline(always)]
    pub(crate) fn check(&mut self, table: &crate::table::TableCore) -> Result<(), Abort> {
        if self.failed || table.database != self.database {
            return Err(self.refuse(table));
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, table: &crate::table::TableCore) -> Abort {
        let kind = if self.failed { AbortKind::Continued } else { AbortKind::ForeignTable };
        self.failed = true;
        Abort::at(kind, &table.info, None)
    }

    /// An error that is no conflict ends the transaction.
    #[cold]
    pub(crate) fn fail(&mut self, kind: AbortKind, table: TableRef, key: Option<&[u8]>) -> Abort {
        self.failed = true;
        Abort::at(kind, &table.get().info, key)
    }

    /// Runs a part of an operation that calls code of the user's. If that panics, the operation has failed: what is
    /// half done is not committed, whoever catches the panic.
    #[inline(always)]
    pub(crate) fn fail_by_panic<T>(&mut self, part: impl FnOnce(&mut Self) -> T) -> T {
        /// Dropped by a panic only.
        struct Unwound<'c, H: Host>(&'c mut Context<H>);
        impl<H: Host> Drop for Unwound<'_, H> {
            fn drop(&mut self) {
                self.0.failed = true;
            }
        }
        let watched = Unwound(self);
        let answer = part(&mut *watched.0);
        std::mem::forget(watched);
        answer
    }

    /// For [`ask!`].
    #[inline(always)]
    pub(crate) fn asker(&self) -> Asker<'_, H> {
        Asker::new(&self.shared, self.txn, self.order, self.deadline_ns)
    }

    /// A conflict, counted and explained; the record's key and cell say where. `groups`: what this transaction wanted of
    /// the cell, a bit each. (The place in parts: see [`Asker::ask_again`].)
    #[inline(always)]
    pub(crate) fn explain(&mut self, refusal: Refusal, place: Place, groups: u8) -> Stop {
        let Place { table, record, at } = place;
        self.explain_at(refusal, table, record, at, groups)
    }

    #[cold]
    #[inline(never)]
    fn explain_at(
        &mut self,
        refusal: Refusal,
        table: TableRef,
        record: RecordPtr,
        at: u32,
        groups: u8,
    ) -> Stop {
        let place = Place { table, record, at };
        let Refusal { conflict, kind } = refusal;
        if conflict.what == What::Reclaimed && kind == AbortKind::Conflict && !self.failed {
            return Stop::LookAgain;
        }
        if H::DEFERS && kind == AbortKind::Held {
            // SAFETY: as below.
            let key = unsafe { place.record.key() };
            let cause = Cause::of(conflict, &self.shared.slots);
            return Stop::Abort(Abort::held(cause, &place.table.get().info, key, place.cell()));
        }
        let (place, groups, other) = match conflict.what {
            // Not where it asked for something: where it held what another wanted.
            What::Wounded { .. } => self.wounded_over().unwrap_or((place, groups, Other::Used)),
            What::ReadLocked { .. } => (place, groups, Other::Read),
            _ => (place, groups, Other::Wrote),
        };
        if place.table.get().is_whole(place.at) {
            self.watch_conflict(place, groups, other);
        }
        // SAFETY: the transaction is pinned, and found the record since.
        let key = unsafe { place.record.key() };
        Stop::Abort(self.abort_at(conflict, kind, place.table, key, place.cell()))
    }

    /// What this transaction holds that another wanted when it wounded it.
    fn wounded_over(&self) -> Option<(Place, u8, Other)> {
        let over = self.shared.slots.get(self.slot).wounded_by().1;
        let written = self.writes.entries().iter().map(|entry| (entry.place(), entry.asked, Other::Used));
        let read = self.reads.iter().map(|entry| (entry.place(), entry.groups.bits(), Other::Wrote));
        written.chain(read).find(|(place, ..)| place.name() == over)
    }

    #[cold]
    pub(crate) fn abort_at(
        &mut self,
        conflict: Conflict,
        kind: AbortKind,
        table: TableRef,
        key: &[u8],
        cell: usize,
    ) -> Abort {
        self.failed = true;
        self.conflicted = true;
        let info = &table.get().info;
        self.shared.conflicts.count(self.slot, info, cell, conflict.rule, key);
        let abort = Abort::new(Inner {
            kind,
            table: Some(info.clone()),
            key: Some(key.to_vec()),
            cell: Some(cell),
            cause: Some(Cause::of(conflict, &self.shared.slots)),
            detail: None,
            attempts: 1,
        });
        self.shared.host.tell(|| format!("refused: {abort}"));
        abort
    }

    /// Counts a conflict that has been explained already.
    #[cold]
    pub(crate) fn count_conflict(&mut self, abort: &Abort) {
        self.conflicted = true;
        let Inner { table: Some(info), key, cell, .. } = abort.inner() else { return };
        let (cell, key) = (cell.unwrap_or(0), key.as_deref().unwrap_or_default());
        self.shared.conflicts.count(self.slot, info, cell, abort.rule(), key);
    }

    #[inline(always)]
    pub(crate) fn note_read(&mut self, place: Place, groups: Groups, seen: Seen) {
        self.read_bound = self.read_bound.max(seen.word.time());
        self.reads.push(ReadEntry { record: place.record, table: place.table, seen, at: place.at, groups });
    }

    /// Notes what was read in order to be written. It is validated when it is locked, so it is not in the read set. Where leases
    /// are extended, the commit time is known to come after its lease, so that what is read from here on is extended up to there.
    #[inline(always)]
    pub(crate) fn note_update<P: Rules>(&mut self, table: &crate::table::TableCore, seen: Seen) {
        self.read_bound = self.read_bound.max(seen.word.time());
        if P::HAS_LEASES && table.leases.extended_by.is_some() && self.order == Some(Order::Logical) {
            self.read_bound = self.read_bound.max(seen.until.next());
        }
    }

    /// The transaction commits no earlier, for all that is known here while it executes.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.floor.max(self.read_bound)
    }

    /// Extends the lease of what was just read up to the earliest time at which the transaction may still commit, if the
    /// table is one that does so.
    #[inline(always)]
    pub(crate) fn extend_lease<P: Rules>(&self, place: Place, cell: Cell<'_>, seen: Seen) -> Seen {
        let Some(by) = place.table.get().leases.extended_by.filter(|_| P::HAS_LEASES) else { return seen };
        if self.order != Some(Order::Logical) {
            return seen;
        }
        let earliest = self.earliest().max(seen.word.time());
        P::extend(self.asker().me(place), cell, seen, Timestamp::new(earliest.ticks() + u64::from(by)))
    }

    /// The transaction relies on what a node does not hold.
    pub(crate) fn note_node(&mut self, table: TableRef, mut seen: NodeSeen, near: &[u8]) {
        if self.nodes.has(&seen) {
            return;
        }
        if self.shared.keeps_versions() {
            self.hold_node(table, &mut seen, near);
        }
        self.read_bound = self.read_bound.max(Timestamp::new(seen.wts));
        let near = self.writes.keep_bytes(near);
        self.nodes.push(NodeEntry { seen, table, near });
    }

    /// Where transactions take place when they begin, what a node does not hold is seen to at once: who puts in a key later, for
    /// an earlier time, will find that it was looked for. Who has just done so makes this one abort at its commit.
    #[cold]
    fn hold_node(&mut self, table: TableRef, seen: &mut NodeSeen, near: &[u8]) {
        let Some(began) = self.shared.begin_times.of(self.slot) else { return };
        if self.shared.planted.is(crate::planted::Bug::SkipLeafCheck) {
            return;
        }
        self.shared.host.touch(|| lines::of_stamp(table, near), Access::ReadModifyWrite);
        if crate::commit::holds_until(seen, began, true) {
            seen.rts = seen.rts.max(began.ticks());
        }
    }

    /// Ends an attempt that does not commit: lets go of everything.
    pub(crate) fn roll_back(&mut self) {
        if !self.active {
            return;
        }
        for index in 0..self.writes.len() {
            let entry = *self.writes.entry(index);
            self.release_hold(entry.table, entry.record, entry.at, entry.hold());
        }
        self.drop_kept_hold();
        self.end();
    }

    /// Lets go of what is held of a cell, leaving it as it was.
    pub(crate) fn release_hold(&mut self, table: TableRef, record: RecordPtr, at: u32, hold: Hold) {
        if hold.prev.is_some() || hold.intent {
            self.asker().release(Place { table, record, at }, hold);
        }
    }

    /// What the transaction holds of a cell that it has no entry for: nothing, but if this very operation was deferred.
    #[inline(always)]
    pub(crate) fn hold_before(&mut self, place: Place) -> Hold {
        if !H::DEFERS {
            return Hold::default();
        }
        if let Some((_, hold)) = self.kept_hold.take_if(|(kept, _)| kept.name() == place.name()) {
            return hold;
        }
        self.drop_kept_hold();
        Hold::default()
    }

    /// The same of a cell that is about to be read. An operation that was deferred is asked for again from its start, and may begin with a look at
    /// what it will write: it would meet its own lock. (Nobody comes between this and its getting hold of it again.)
    #[inline(always)]
    pub(crate) fn drop_hold_on(&mut self, place: Place) {
        if self.kept_hold.as_ref().is_some_and(|(kept, _)| kept.name() == place.name()) {
            self.drop_kept_hold();
        }
    }

    /// Lets go of what an operation got hold of that was deferred, and was not asked for again.
    #[inline(always)]
    pub(crate) fn drop_kept_hold(&mut self) {
        if H::DEFERS
            && let Some((place, hold)) = self.kept_hold.take()
        {
            self.release_hold(place.table, place.record, place.at, hold);
        }
    }

    /// A rule did not grant a cell: lets go of what is held of it, but if the operation is only deferred.
    #[inline(always)]
    pub(crate) fn let_go_unless_held(&mut self, refusal: &Refusal, place: Place, hold: Hold) {
        if H::DEFERS && refusal.kind == AbortKind::Held {
            self.kept_hold = Some((place, hold));
        } else {
            self.release_hold(place.table, place.record, place.at, hold);
        }
    }

    /// The value of a row that was just read. No other row is looked at any more.
    #[inline(always)]
    pub(crate) fn decode<R: Row>(&mut self, row: &[u64]) -> R {
        let value = R::decode_row(&RowReader::new(row, R::SIZES));
        if R::SIZES.iter().any(|size| size.is_boxed()) && !self.own_copies.is_empty() {
            self.free_own_copies();
        }
        value
    }

    /// Frees the copies of its own values that were made for rows that have been decoded since.
    #[cold]
    pub(crate) fn free_own_copies(&mut self) {
        for address in self.own_copies.drain(..) {
            // SAFETY: made by `read_own` of this transaction; nobody else has it, and the row is not looked at any more.
            unsafe { free_boxed(address) };
        }
    }

    /// Ends an attempt whose writes are released or published: read locks, slot, pin, buffers.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.shared.has_read_locks() {
            self.release_reads();
        }
        self.reads.clear();
        self.nodes.clear();
        self.writes.clear();
        if !self.own_copies.is_empty() {
            self.free_own_copies();
        }
        if !self.created.is_empty() {
            for index in 0..self.created.len() {
                let (table, record) = self.created[index];
                self.queue_if_absent(table, record);
            }
            self.created.clear();
        }
        self.active = false;
        self.stop();
        if !self.reclaim.is_empty() || self.shared.has_reclaim() {
            self.reclaim_some();
        }
        self.split_if_due();
        self.look_at_splits();
    }

    fn release_reads(&mut self) {
        for index in 0..self.reads.len() {
            let entry = self.reads[index];
            self.release_read(entry.table, entry.record, entry.at);
        }
        // A cell that is written may have been read under a lock first, and is in `reads` then too.
    }

    pub(crate) fn release_read(&self, table: TableRef, record: RecordPtr, at: u32) {
        let t = table.get();
        // SAFETY: the transaction is pinned, and `at` is of this table's layout.
        let cell = unsafe { record.cell(at as usize, t.aux_words) };
        let me = self.asker().me(Place { table, record, at });
        with_protocol!(t.protocol, P => P::release_read(me, cell));
    }

    /// The next random number (xorshift64*).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

impl<H: Host> Drop for Context<H> {
    fn drop(&mut self) {
        self.roll_back();
        self.leave_reclaim();
        self.limbo.abandon(&self.shared.epochs);
        self.shared.return_slot(self.slot);
    }
}

/// What a rule did not grant in the end.
pub(crate) struct Refusal {
    pub conflict: Conflict,
    pub kind: AbortKind,
}

/// `ask!(asker, place, |me| rule, |refusal| otherwise)`: asks a rule about a cell until it grants, and gives what
/// it granted; `otherwise`, which must leave, if the transaction cannot go on.
///
/// A macro, because the rule stands in it twice: once straight in the caller's code, and once in a closure
/// for the rare case that it must be asked again. Were it one closure, all that it captures would have to
/// lie in memory also when it is asked only once. For the same reason what the transaction holds of the cell,
/// if the rule changes it, is told apart: `ask!(asker, place, hold, |me, hold| rule, ..)`. The closure moves
/// what it captures.
macro_rules! ask {
    ($asker:expr, $place:expr, |$me:ident| $rule:expr, |$refusal:ident| $otherwise:expr) => {{
        let first = {
            let $me = $asker.me($place);
            $rule
        };
        match first {
            noonmark_core::Step::Ready(granted) => granted,
            other => match $asker.ask_again($place, other, move |$me| $rule) {
                Ok(granted) => granted,
                Err($refusal) => $otherwise,
            },
        }
    }};
    ($asker:expr, $place:expr, $hold:ident, |$me:ident| $rule:expr, |$refusal:ident| $otherwise:expr) => {{
        let first = {
            let $me = $asker.me($place);
            let $hold = &mut $hold;
            $rule
        };
        match first {
            noonmark_core::Step::Ready(granted) => granted,
            other => {
                let mut held = $hold;
                let answer = {
                    let $hold = &mut held;
                    $asker.ask_again($place, other, move |$me| $rule)
                };
                $hold = held;
                match answer {
                    Ok(granted) => granted,
                    Err($refusal) => $otherwise,
                }
            }
        }
    }};
}
pub(crate) use ask;

/// Asks rules on behalf of a transaction: repeats what is busy, waits where it must.
pub(crate) struct Asker<'a, H: Host> {
    pub shared: &'a Shared<H>,
    pub txn: TxnId,
    pub order: Option<Order>,
    pub deadline_ns: Option<u64>,
}

impl<H: Host> Clone for Asker<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Host> Copy for Asker<'_, H> {}

impl<'a, H: Host> Asker<'a, H> {
    #[inline(always)]
    pub(crate) fn new(
        shared: &'a Shared<H>,
        txn: TxnId,
        order: Option<Order>,
        deadline_ns: Option<u64>,
    ) -> Self {
        Asker { shared, txn, order, deadline_ns }
    }

    #[inline(always)]
    pub(crate) fn me(self, place: Place) -> Me<'a, H> {
        Me {
            txn: self.txn,
            host: &self.shared.host,
            slots: &self.shared.slots,
            room: &self.shared.room,
            ranges: &self.shared.ranges,
            begin_times: &self.shared.begin_times,
            order: self.order.unwrap_or(Order::Momentary),
            planted: self.shared.planted,
            place,
            asks_again: false,
            has_waited: false,
        }
    }

    /// Lets go of what is held of a cell, leaving it as it was. The transaction is pinned.
    fn release(self, place: Place, hold: Hold) {
        let t = place.table.get();
        // SAFETY: the transaction is pinned, and `at` is of this table's layout.
        let cell = unsafe { place.record.cell(place.at as usize, t.aux_words) };
        let me = self.me(place);
        with_protocol!(t.protocol, P => P::release(me, cell, hold));
    }

    /// Goes on asking after the first answer, which did not grant.
    ///
    /// The place is handed on in parts: as a whole it would lie in memory, also where nobody asks again, and whoever asks first would copy it from there by loads
    /// that wait for the stores just before.
    #[inline(always)]
    pub(crate) fn ask_again<T>(
        self,
        place: Place,
        first: Step<T, Conflict>,
        rule: impl FnMut(Me<'a, H>) -> Step<T, Conflict>,
    ) -> Result<T, Refusal> {
        let Place { table, record, at } = place;
        self.ask_again_at(table, record, at, first, rule)
    }

    #[cold]
    #[inline(never)]
    fn ask_again_at<T>(
        self,
        table: TableRef,
        record: RecordPtr,
        at: u32,
        first: Step<T, Conflict>,
        mut rule: impl FnMut(Me<'a, H>) -> Step<T, Conflict>,
    ) -> Result<T, Refusal> {
        let place = Place { table, record, at };
        let me = self.me(place);
        let refused = |conflict| Refusal { conflict, kind: AbortKind::Conflict };
        if H::DEFERS {
            if let Step::Wait(_, conflict) = first
                && self.shared.waits_both_ways()
            {
                me.wound_younger(conflict);
            }
            return match first {
                Step::Ready(granted) => Ok(granted),
                Step::Busy(conflict) | Step::Wait(_, conflict) | Step::Die(conflict)
                    if conflict.what.holder().is_some() =>
                {
                    // Whether he waits for that one is for whoever knows them both.
                    Err(Refusal { conflict, kind: AbortKind::Held })
                }
                Step::Busy(conflict)
                | Step::Wait(_, conflict)
                | Step::Die(conflict)
                | Step::Abort(conflict) => Err(refused(conflict)),
            };
        }
        let slot = self.shared.slots.get(self.txn.slot());
        let me = Me { asks_again: true, ..me };
        let mut step = first;
        let mut turn = 0;
        // A wound is seen at the next turn, whatever has become of what is busy.
        let may_be_wounded = self.shared.has_ages();
        let spin_end = |turn| if may_be_wounded { turn + 1 } else { self.shared.busy_turns_max };
        loop {
            if slot.is_wounded() {
                let rule = match step {
                    Step::Ready(granted) => return Ok(granted),
                    Step::Busy(c) | Step::Wait(_, c) | Step::Die(c) | Step::Abort(c) => c.rule,
                };
                let by = slot.wounded_by().0;
                return Err(refused(Conflict { rule, what: What::Wounded { by } }));
            }
            match step {
                Step::Ready(granted) => return Ok(granted),
                Step::Die(conflict) | Step::Abort(conflict) => return Err(refused(conflict)),
                Step::Busy(conflict)
                    if turn >= self.shared.busy_turns_max || conflict.what == What::Reclaimed =>
                {
                    return Err(refused(conflict));
                }
                Step::Busy(_) => {
                    turn = self.shared.host.spin_on(turn, spin_end(turn));
                    step = rule(me);
                }
                Step::Wait(on, conflict) => step = self.wait(me, on, conflict, &mut turn, &mut rule)?,
            }
        }
    }

    /// Waits until the rule answers something else than to wait for the same thing. What is busy is asked again here, too, as whoever
    /// has been called answers when he knows.
    fn wait<T>(
        &self,
        me: Me<'a, H>,
        on: WaitFor,
        conflict: Conflict,
        turn: &mut u32,
        rule: &mut impl FnMut(Me<'a, H>) -> Step<T, Conflict>,
    ) -> Result<Step<T, Conflict>, Refusal> {
        let shared = self.shared;
        let slot = self.txn.slot();
        let state = shared.slots.get(slot);
        let me = Me { has_waited: true, ..me };
        let mut last = conflict;
        let answer = shared.host.block_on(self.deadline_ns, |waker| {
            // Register first, then say where we wait, then look again: whoever lets go, or wounds
            // us, between the first look and the last either finds the waker or is seen here.
            shared.room.line_up(on, self.txn, state.age(), waker);
            state.set_waiting_for(on.key() as u64);
            loop {
                match rule(me) {
                    Step::Wait(same, conflict) if same == on && !state.is_wounded() => {
                        if shared.waits_both_ways() {
                            me.wound_younger(conflict);
                        }
                        last = conflict;
                        if shared.room.settle(on, slot) {
                            return Poll::Pending;
                        }
                    }
                    Step::Busy(conflict)
                        if *turn < shared.busy_turns_max
                            && conflict.what != What::Reclaimed
                            && !state.is_wounded() =>
                    {
                        shared.host.spin(*turn);
                        *turn += 1;
                    }
                    step => return Poll::Ready(step),
                }
            }
        });
        state.set_waiting_for(0);
        if let Some(handed) = shared.room.leave_line(on, slot)
            && !shared.planted.is(crate::planted::Bug::HandedAndKept)
        {
            // Who goes away without it, or has no use for it.
            self.release(me.place, Hold::handed(handed));
        }
        answer.ok_or(Refusal { conflict: last, kind: AbortKind::Deadline })
    }
}
