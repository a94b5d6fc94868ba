//! The commit: seal, choose a time, validate, hand on, install.
//!
//! Which rule is called when is said in [`crate::protocol`]; the order of the rounds is what
//! serializability rests on (see [`crate::order`]):
//!
//! 1. *Seal*: every cell to be written is locked.
//! 2. *Commit time*: not before anything read, after anything overwritten and whoever read it, and not
//!    before the session's last commit.
//!    Where transactions have ranges of commit times, also one that others have left it ([`crate::timing`]).
//! 3. *Validate*: every cell and every index node that was relied on, at that time.
//! 4. *Apply* commit-time updates to what is under the locks: user code that may panic, so it runs while
//!    everything can still be taken back.
//! 5. *Commit point*: from here on nobody can make this transaction abort.
//! 6. *Hand on*: the one place where the writes and their time are known, decided, and not yet
//!    visible. A log, a replica or a snapshot goes here.
//! 7. *Install*: values, then versions; cell by cell the new state becomes visible.

use crate::abort::{Abort, AbortKind};
use crate::context::{Asker, Context, ReadEntry, Refusal, Stop, ask};
use crate::group::{Groups, Size};
use crate::index::NodeSeen;
use crate::kept;
use crate::lines;
use crate::planted::Bug;
use crate::protocol::{Conflict, Me, Order, Place, Protocol, Rules, Seen, What, with_protocol};
use crate::record::{
    Cell, LINE_WORDS, Layout, RecordPtr, WHOLE_CELL_AT, allocate_boxed, as_bytes, free_boxed,
    store_changed_words, store_words,
};
use crate::table::TableRef;
use crate::write_set::{Effect, WriteEntry, WriteSet};
use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Epochs, Garbage, Host, Limbo, Step, Timestamp, TxnId, Word, Work};

/// A transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// At this logical time. In a [logical](Order::Logical) database it is the transaction's place in
    /// the serial order; in a momentary one it only says that its writes came after what they replaced.
    pub time: Timestamp,
    /// The transaction.
    pub txn: TxnId,
}

impl<H: Host> Context<H> {
    /// Commits the attempt, or rolls it back and says why.
    pub(crate) fn commit(&mut self) -> Result<Commit, Abort> {
        if self.failed {
            let abort = self.continued();
            self.roll_back();
            return Err(abort);
        }
        // What is reclaimed at its end is so by transactions of their own.
        let txn = self.txn;
        match self.try_commit() {
            Ok(time) => {
                self.end();
                self.statistics.commits += 1;
                Ok(Commit { time, txn })
            }
            Err(abort) => {
                self.failed = true;
                self.roll_back();
                Err(abort)
            }
        }
    }

    /// The transaction went on after a failure. That may rest on what has been read, so it is told only if that holds.
    #[cold]
    fn continued(&mut self) -> Abort {
        match self.conflicted {
            false => self.validate_observations().err(),
            true => None,
        }
        .unwrap_or_else(|| Abort::plain(AbortKind::Continued))
    }

    fn try_commit(&mut self) -> Result<Timestamp, Abort> {
        if self.is_planted(Bug::InstallBeforeLock) && !self.writes.has_updates() {
            for index in 0..self.writes.len() {
                let layout = self.writes.entry(index).layout();
                install_values(&self.writes, index, layout, &mut self.limbo, &self.shared.epochs);
            }
        }
        if self.is_planted(Bug::UpdateBeforeLock) && self.writes.has_updates() {
            self.apply_updates()?;
        }
        let mut time = self.seal()?;
        if self.shared.has_ranges() {
            time = self.settle_time(time)?;
        }
        if self.shared.keeps_versions() {
            time = self.time_of_beginning(time)?;
        }
        self.validate(time)?;
        if !self.writes.is_empty() {
            if self.is_planted(Bug::PanicWithLocks) && self.statistics.aborts > 0 {
                panic!("as planted");
            }
            if self.writes.has_updates() && !self.is_planted(Bug::UpdateBeforeLock) {
                self.apply_updates()?;
            }
            self.pass_commit_point()?;
            self.hand_on(time);
            self.install(time);
        }
        self.floor = time;
        Ok(time)
    }

    /// Commits an attempt that has been sealed, and validated at this time, by whoever had a say in it.
    pub(crate) fn install_at(&mut self, time: Timestamp) {
        if !self.writes.is_empty() {
            self.hand_on(time);
            self.install(time);
        }
        self.floor = time;
        self.end();
        self.statistics.commits += 1;
    }

    /// Where transactions take place when they begin, that time; in snapshot order a later one, of its own, for who
    /// replaces what was read later than it began.
    #[cold]
    #[inline(never)]
    pub(crate) fn time_of_beginning(&self, bound: Timestamp) -> Result<Timestamp, Abort> {
        let began = self.shared.begin_times.of(self.slot).unwrap_or(bound);
        let time = match self.order {
            Some(Order::Snapshot) if bound > began => {
                self.shared.host.touch(|| lines::BEGIN_TIMES, Access::ReadModifyWrite);
                self.shared.begin_times.draw()
            }
            _ => began,
        };
        if time == Timestamp::MAX && !self.writes.is_empty() {
            return Err(Abort::plain(AbortKind::EndOfTime));
        }
        Ok(time)
    }

    #[inline(always)]
    fn is_planted(&self, bug: Bug) -> bool {
        self.shared.planted.is(bug)
    }

    fn writes_under(&self, protocol: Protocol) -> bool {
        (0..self.writes.len()).any(|index| self.writes.entry(index).table.get().protocol == protocol)
    }

    /// Locks every cell that will be written; gives the earliest time at which all of them may have a
    /// new version, if nothing else is in the way.
    #[inline(always)]
    pub(crate) fn seal(&mut self) -> Result<Timestamp, Abort> {
        let mut bound = self.floor.max(self.read_bound);
        if self.is_planted(Bug::FrontierSeenEarly) {
            bound = bound.max(self.shared.ranges.frontier().map_or(bound, Timestamp::next));
        }
        let mut from = 0;
        while from < self.writes.len() {
            let protocol = self.writes.entry(from).table.get().protocol;
            from = with_protocol!(protocol, P => self.seal_run::<P>(protocol, from, &mut bound))?;
        }
        if bound == Timestamp::MAX && from > 0 {
            return Err(Abort::plain(AbortKind::EndOfTime));
        }
        Ok(bound)
    }

    /// Seals, of what has leases and will be written, what nobody else may write already. So there is nothing to wait for.
    pub(crate) fn seal_intents(&mut self) {
        let asker = Asker::new(&self.shared, self.txn, self.order, self.deadline_ns);
        for entry in self.writes.entries_mut() {
            let mut hold = entry.hold();
            if !hold.intent || hold.prev.is_some() {
                continue;
            }
            let t = entry.table.get();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let me = asker.me(entry.place());
            with_protocol!(t.protocol, P => if P::HAS_LEASES {
                // (Should it be refused, it is once more when everything is sealed.)
                let _ = P::seal(me, cell, entry.seen(), &mut hold);
                entry.set_hold(hold);
            });
        }
    }

    /// The cells from number `from` on, as far as they are of this protocol; says where that ends. A cell's
    /// [`Rules::write_bound`] is asked for once it is locked; that others are not yet does not matter to it.
    #[inline(never)]
    fn seal_run<P: Rules>(
        &mut self,
        protocol: Protocol,
        from: usize,
        bound: &mut Timestamp,
    ) -> Result<usize, Abort> {
        if P::SEALS_READS {
            self.seal_reads::<P>(protocol)?;
        }
        let asker = Asker::new(&self.shared, self.txn, self.order, self.deadline_ns);
        let mut to = from;
        for entry in &mut self.writes.entries_mut()[from..] {
            let t = entry.table.get();
            if t.protocol != protocol {
                break;
            }
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let (seen, mut hold) = (entry.seen(), entry.hold());
            self.shared.host.work(Work::Commit);
            ask!(asker, place, hold, |me| P::seal(me, cell, seen, hold), |refusal| {
                entry.set_hold(hold);
                let entry = *entry;
                return Err(self.refused(&entry, Some(refusal)));
            });
            entry.set_hold(hold);
            let prev = hold.prev.unwrap_or(Word::FREE);
            if entry.must_exist && prev.is_absent() {
                let entry = *entry;
                return Err(self.refused(&entry, None));
            }
            *bound = (*bound).max(match asker.shared.planted.is(Bug::BoundNotMoved) {
                true => prev.time().next(),
                false => P::write_bound(cell, prev),
            });
            to += 1;
        }
        Ok(to)
    }

    /// Locks what was read under this protocol and will not be written.
    fn seal_reads<P: Rules>(&mut self, protocol: Protocol) -> Result<(), Abort> {
        let asker = Asker::new(&self.shared, self.txn, self.order, self.deadline_ns);
        for entry in &self.reads {
            let t = entry.table.get();
            if t.protocol != protocol || self.writes.find(entry.record, entry.at).is_some() {
                continue;
            }
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let seen = entry.seen;
            self.shared.host.work(Work::Commit);
            ask!(asker, place, |me| P::seal_read(me, cell, seen), |refusal| {
                let entry = *entry;
                return Err(self.invalid(&entry, refusal));
            });
            if self.is_planted(Bug::SealWritesOnly) {
                P::release_read(asker.me(place), cell);
            }
        }
        Ok(())
    }

    /// Why a cell of the write set was not granted: because it is gone, if no rule refused it.
    #[cold]
    fn refused(&mut self, entry: &WriteEntry, refusal: Option<Refusal>) -> Abort {
        let place = entry.place();
        match refusal.map(|refusal| self.explain(refusal, place, entry.asked)) {
            Some(Stop::Abort(abort)) => abort,
            // Its own reclamation takes a record out, which starts from absence; or it was split.
            Some(Stop::LookAgain) | None => self.gone(entry.table, entry.record, entry.at),
        }
    }

    #[cold]
    fn gone(&mut self, table: TableRef, record: RecordPtr, at: u32) -> Abort {
        match self.vanished(table, record, at) {
            Stop::Abort(abort) => abort,
            Stop::LookAgain => Abort::plain(AbortKind::Conflict),
        }
    }

    #[inline(always)]
    pub(crate) fn validate(&mut self, time: Timestamp) -> Result<(), Abort> {
        self.validate_reads(time)?;
        if self.nodes.is_empty() { Ok(()) } else { self.validate_nodes(time) }
    }

    #[inline(always)]
    fn validate_reads(&mut self, time: Timestamp) -> Result<(), Abort> {
        if self.is_planted(Bug::SkipValidation) {
            return Ok(());
        }
        let mut from = 0;
        while let Some(entry) = self.reads.get(from) {
            let protocol = entry.table.get().protocol;
            from = with_protocol!(protocol, P => self.validate_run::<P>(protocol, from, time))?;
        }
        Ok(())
    }

    /// What was read, from number `from` on, as far as it is of this protocol; says where that ends.
    #[inline(never)]
    fn validate_run<P: Rules>(
        &mut self,
        protocol: Protocol,
        from: usize,
        time: Timestamp,
    ) -> Result<usize, Abort> {
        if P::SEALS_READS && self.is_planted(Bug::SealWritesOnly) && self.writes_under(protocol) {
            let other = |entry: &ReadEntry| entry.table.get().protocol != protocol;
            return Ok(self.reads[from..]
                .iter()
                .position(other)
                .map_or(self.reads.len(), |count| from + count));
        }
        let order = self.order;
        let order = match self.is_planted(Bug::NaiveMix) && P::KEEPS_READ_TIMES {
            true => Some(Order::Logical),
            false => order,
        };
        let asker = Asker::new(&self.shared, self.txn, order, self.deadline_ns);
        let mut to = from;
        for entry in &self.reads[from..] {
            let t = entry.table.get();
            if t.protocol != protocol {
                break;
            }
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let seen = entry.seen;
            let own = own_lock::<P>(&mut self.writes, entry, cell);
            self.shared.host.work(Work::Commit);
            ask!(asker, place, |me| validate_or_seal::<P>(me, cell, seen, own, time), |refusal| {
                let entry = *entry;
                return Err(self.invalid(&entry, refusal));
            });
            to += 1;
        }
        Ok(to)
    }

    /// Of a transaction whose range is frozen: from here on, what it relies on holds at all times of it, of which this is the last.
    #[cold]
    pub(crate) fn validate_range(&mut self, until: Timestamp) -> Result<(), Abort> {
        for index in 0..self.reads.len() {
            let entry = self.reads[index];
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let own = self.writes.find(entry.record, entry.at);
            let own = own.and_then(|own| self.writes.entry(own).hold().prev);
            with_protocol!(t.protocol, P => {
                ask!(self.asker(), place, |me| match P::HAS_RANGES {
                    true => P::rely(me, cell, entry.seen, own),
                    false => validate_or_seal::<P>(me, cell, entry.seen, own, until),
                }, |refusal| return Err(self.invalid(&entry, refusal)));
            });
        }
        self.validate_nodes(until)
    }

    /// Of a transaction that has committed at this time of its range: leaves it behind where its marks are, for whoever comes once
    /// they are gone.
    #[cold]
    pub(crate) fn leave_read_times(&mut self, time: Timestamp) {
        for entry in &self.reads {
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            if self.writes.find(entry.record, entry.at).is_some() {
                // Its new version says so.
                continue;
            }
            with_protocol!(t.protocol, P => if P::HAS_RANGES {
                // (It is marked, so nothing is refused.)
                let _ = P::validate(self.asker().me(place), cell, entry.seen, None, time);
            });
        }
    }

    /// Why something that was read does not hold.
    #[cold]
    fn invalid(&mut self, entry: &ReadEntry, refusal: Refusal) -> Abort {
        let place = entry.place();
        match self.explain(refusal, place, entry.groups.bits()) {
            Stop::Abort(abort) => abort,
            Stop::LookAgain => self.gone(entry.table, entry.record, entry.at),
        }
    }

    fn validate_nodes(&mut self, time: Timestamp) -> Result<(), Abort> {
        if self.is_planted(Bug::SkipLeafCheck) {
            return Ok(());
        }
        for index in 0..self.nodes.entries().len() {
            let node = self.nodes.entries()[index];
            self.shared.host.work(Work::Commit);
            let line = || lines::of_stamp(node.table, self.writes.kept_bytes(node.near));
            self.shared.host.touch(line, Access::Read);
            let has_times = self.order.is_some_and(|order| order != Order::Momentary);
            if has_times && time.ticks() > node.seen.rts {
                // Its read time is raised first.
                self.shared.host.touch(line, Access::ReadModifyWrite);
            }
            if !holds_until(&node.seen, time, has_times) {
                let conflict = Conflict { rule: "index: phantom", what: What::NodeChanged };
                let near = self.writes.kept_bytes(node.near).to_vec();
                return Err(self.abort_at(conflict, AbortKind::Conflict, node.table, &near, 0));
            }
        }
        Ok(())
    }

    /// Checks what the transaction has seen so far, without committing anything: before an outcome
    /// that depends on it is given to the user (a missing row, the user's own error).
    pub(crate) fn validate_observations(&mut self) -> Result<(), Abort> {
        self.read_what_must_exist()?;
        let mut time = self.floor.max(self.read_bound);
        if self.shared.has_ranges() {
            time = self.settle_time_of_reads(time)?;
        }
        if let Some(began) = self.shared.begin_times.of(self.slot) {
            time = began;
        }
        self.validate(time)?;
        for index in 0..self.writes.len() {
            let entry = *self.writes.entry(index);
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let own = entry.hold().prev;
            // Whose absent record has been reclaimed, or is about to be, no longer finds in the index what it has
            // itself put in; and yet all that it has read may hold: at a time before, or if it wrote unread.
            let now = cell.word.load_seq_cst();
            let is_lost = match entry.seen() {
                Some(seen) => self.order == Some(Order::Logical) && now != seen,
                None => now.is_locked() && now.owner() != Some(self.txn),
            };
            if own.is_none() && is_lost {
                return Err(self.gone(entry.table, entry.record, entry.at));
            }
            let Some(word) = entry.seen() else { continue };
            let seen = Seen::at(word);
            with_protocol!(t.protocol, P => {
                ask!(self.asker(), place, |me| P::validate(me, cell, seen, own, time), |refusal| {
                    return Err(self.refused(&entry, Some(refusal)));
                });
            });
        }
        // What the session has been told, it is not to be before.
        self.floor = time;
        Ok(())
    }

    /// Reads the rows that were taken to exist without a look: that is an observation, too.
    fn read_what_must_exist(&mut self) -> Result<(), Abort> {
        for index in 0..self.writes.len() {
            let entry = *self.writes.entry(index);
            if !entry.must_exist || entry.seen().is_some() {
                continue;
            }
            let t = entry.table.get();
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let word = match entry.hold().prev {
                // Locked since: what it was then, it is.
                Some(word) => word,
                None => {
                    let seen = with_protocol!(t.protocol, P => {
                        let earliest = || self.earliest();
                        ask!(self.asker(), place, |me| P::read_from(me, cell, earliest, &mut ()), |refusal| {
                            return Err(self.refused(&entry, Some(refusal)));
                        })
                    });
                    self.note_read(place, Groups::of_bits(entry.asked), seen);
                    seen.word
                }
            };
            if word.is_absent() {
                return Err(self.refused(&entry, None));
            }
        }
        Ok(())
    }

    /// From here on nobody can make this transaction abort.
    #[inline(always)]
    pub(crate) fn pass_commit_point(&mut self) -> Result<(), Abort> {
        if !self.shared.has_ages() {
            return Ok(());
        }
        if self.shared.slots.get(self.slot).try_commit(self.txn.sequence()) {
            return Ok(());
        }
        Err(self.wounded())
    }

    /// Of a transaction that an older one has made abort: why. Told of what that one wanted.
    #[cold]
    pub(crate) fn wounded(&mut self) -> Abort {
        let by = self.shared.slots.get(self.slot).wounded_by().0;
        let conflict = Conflict { rule: "commit: wounded", what: What::Wounded { by } };
        let written = self.writes.entries().first().map(|entry| (entry.place(), entry.asked));
        let read = self.reads.first().map(|entry| (entry.place(), entry.groups.bits()));
        let refusal = Refusal { conflict, kind: AbortKind::Conflict };
        match written.or(read).map(|(place, groups)| self.explain(refusal, place, groups)) {
            Some(Stop::Abort(abort)) => abort,
            // (It holds something, or nobody would have wounded it.)
            Some(Stop::LookAgain) | None => Abort::plain(AbortKind::Conflict),
        }
    }

    /// The one place between *validated* and *visible*: the write set, its time and the transaction's
    /// id are final, all its locks are held, and nobody can see anything of it yet. Whoever must know
    /// of a commit before others can depend on it is told here, in an order in which each transaction
    /// comes after all that it depends on.
    #[inline(always)]
    fn hand_on(&mut self, time: Timestamp) {
        self.shared.slots.get(self.slot).remember_commit(time, self.txn.sequence());
    }

    #[inline(always)]
    fn install(&mut self, time: Timestamp) {
        // Pairs with the acquire fence of optimistic reads: whoever sees one of the stores below sees
        // the locks that were taken before it.
        fence(Ordering::Release);
        let mut from = 0;
        while from < self.writes.len() {
            let protocol = self.writes.entry(from).table.get().protocol;
            from = with_protocol!(protocol, P => self.install_run::<P>(protocol, from, time));
        }
    }

    /// The cells from number `from` on, as far as they are of this protocol; says where that ends.
    #[inline(never)]
    fn install_run<P: Rules>(&mut self, protocol: Protocol, from: usize, time: Timestamp) -> usize {
        for index in from..self.writes.len() {
            let entry = self.writes.entry(index);
            let t = entry.table.get();
            if t.protocol != protocol {
                return index;
            }
            let place = entry.place();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            if P::KEEPS_VERSIONS && entry.effect != Effect::Keep {
                self.keep_version(index, time);
            }
            let entry = self.writes.entry(index);
            let next = match entry.effect {
                Effect::Keep => {
                    P::keep(cell, time);
                    entry.hold().prev.unwrap_or(Word::FREE)
                }
                Effect::Change | Effect::Insert => {
                    if self.is_planted(Bug::UnlockBeforeInstall) {
                        P::publish(self.asker().me(place), cell, Word::version(time, self.slot, false));
                        self.shared.host.touch(|| place.line(), Access::Write);
                    }
                    if !self.is_planted(Bug::UnlockBeforeInstall) && !self.is_planted(Bug::InstalledInSight) {
                        P::hide(self.asker().me(place), cell);
                    }
                    let layout = self.layout_noted(index);
                    install_values(&self.writes, index, layout, &mut self.limbo, &self.shared.epochs);
                    if self.is_planted(Bug::UnlockBeforeInstall) {
                        continue;
                    }
                    Word::version(time, self.slot, false)
                }
                Effect::Delete => {
                    self.layout_noted(index);
                    Word::version(time, self.slot, true)
                }
            };
            P::publish(self.asker().me(place), cell, next);
            let (effect, table, record) = (entry.effect, entry.table, entry.record);
            if effect == Effect::Delete {
                self.queue_if_absent(table, record);
            }
        }
        self.writes.len()
    }

    /// The layout of the record of a cell that is to be written. If it can be split, and is, or there have been conflicts over it, what
    /// is written is noted.
    #[inline(always)]
    fn layout_noted<'a>(&self, index: usize) -> &'a Layout {
        let entry = self.writes.entry(index);
        let t = entry.table.get();
        match &t.split {
            Some(split) if !t.is_whole(entry.at) => {
                self.note_written(index);
                split
            }
            split => {
                // SAFETY: pinned since the record was found.
                if split.is_some() && unsafe { entry.record.is_watched() } {
                    self.note_written(index);
                }
                &t.layout
            }
        }
    }

    /// Of a record that can be split, and is, or over which there have been conflicts: what is told of what is written, and to whom.
    #[inline(never)]
    fn note_written(&self, index: usize) {
        let entry = self.writes.entry(index);
        let (table, record) = (entry.table, entry.record);
        let layout = &table.get().layout;
        let line_at = |at: u32| self.shared.host.touch(|| Place { table, record, at }.line(), Access::Write);
        if table.get().is_whole(entry.at) {
            let groups = match entry.effect {
                Effect::Keep => return,
                Effect::Change => entry.valued(),
                Effect::Delete => u8::MAX,
                // Of who comes from now on nobody is in the way of that one.
                Effect::Insert => 0,
            };
            // SAFETY: pinned since the record was found, whose table splits.
            if unsafe { record.last_use(layout) }.note_written(groups) {
                line_at(layout.last_use_at());
            }
        } else if entry.valued_groups().any(|group| layout.group(group).at < LINE_WORDS as u32) {
            // Whoever looks the record up looks at this line.
            line_at(WHOLE_CELL_AT);
        }
    }

    /// Keeps the version that is about to be replaced for those that began before, and gives up those that nobody will read.
    #[inline(never)]
    fn keep_version(&mut self, index: usize, time: Timestamp) {
        if self.is_planted(Bug::NothingKept) {
            return;
        }
        let entry = self.writes.entry(index);
        let (table, record, at) = (entry.table, entry.record, entry.at);
        self.shared.host.touch(|| entry.place().line(), Access::Write);
        kept::keep(table, record, entry.cell, entry.hold().prev.unwrap_or(Word::FREE));
        if let Some(cut) = kept::cut(table, record, at, time, self.shared.begin_times.frontier()) {
            self.limbo.retire(&self.shared.epochs, cut);
        }
    }

    /// Turns commit-time updates into values: what they make of what is there now, under the lock.
    #[cold]
    pub(crate) fn apply_updates(&mut self) -> Result<(), Abort> {
        let mut value = std::mem::take(&mut self.value);
        for index in 0..self.writes.len() {
            let entry = *self.writes.entry(index);
            for (number, group) in entry.layout().groups().iter().enumerate() {
                if group.cell != entry.cell || !self.writes.has_updates_of(index, number) {
                    continue;
                }
                // SAFETY: pinned since the record was found; the group is of its layout.
                let words = unsafe { entry.record.words(group.at, group.size.words()) };
                value.clear();
                match group.size {
                    Size::Fixed(bytes) if !group.size.is_boxed() => {
                        for word in words {
                            value.extend_from_slice(as_bytes(&[word.load(Ordering::Relaxed)]));
                        }
                        value.truncate(bytes);
                    }
                    _ => {
                        // SAFETY: only the holder of the lock, this transaction, replaces versions.
                        let bytes = unsafe { crate::record::boxed_bytes(words[0].load(Ordering::Acquire)) };
                        value.extend_from_slice(bytes);
                    }
                }
                self.writes.apply(index, number, &mut value);
                self.set_value(index, number, &value)?;
            }
        }
        self.value = value;
        Ok(())
    }
}

/// Stores the new values of a cell that is locked.
#[inline(always)]
fn install_values(writes: &WriteSet, index: usize, layout: &Layout, limbo: &mut Limbo, epochs: &Epochs) {
    let entry = writes.entry(index);
    // Where a row of several groups is changed, a long one may be there only to be looked at; and that was not long ago.
    let was_read = entry.effect == Effect::Change && entry.seen().is_some();
    for group in entry.valued_groups() {
        let group = layout.group(group);
        // SAFETY: pinned since the record was found; the group is of its layout.
        let words = unsafe { entry.record.words(group.at, group.words as usize) };
        if group.size.is_boxed() {
            install_boxed(&words[0], writes.boxed_value(index, group), limbo, epochs);
        } else {
            let image = writes.image_of(entry, group.in_cell as usize, words.len());
            match was_read && words.len() > LINE_WORDS {
                true => store_changed_words(words, image),
                false => store_words(words, image),
            }
        }
    }
}

/// Stores a new value that lies behind a pointer.
#[inline(never)]
fn install_boxed(place: &AtomicU64, value: &[u8], limbo: &mut Limbo, epochs: &Epochs) {
    // Release: the version is complete for whoever finds its address. Only we write here.
    retire_boxed(limbo, epochs, place.swap(allocate_boxed(value), Ordering::AcqRel));
}

/// Frees a replaced version once nobody can be reading it.
fn retire_boxed(limbo: &mut Limbo, epochs: &Epochs, address: u64) {
    if address == 0 {
        return;
    }
    /// # Safety
    /// As [`free_boxed`].
    unsafe fn free(_: *mut u8, address: usize) {
        // SAFETY: promised by the caller.
        unsafe { free_boxed(address as u64) }
    }
    // SAFETY: the address came from `allocate_boxed`, and is found nowhere any more.
    let garbage = unsafe { Garbage::new(std::ptr::null_mut(), address as usize, free) };
    limbo.retire(epochs, garbage);
}

/// [`Rules::validate`]; or [`Rules::seal_read`] in its place, for what is only read: it is not sealed yet if the
/// transaction writes nothing under this protocol.
#[inline(always)]
fn validate_or_seal<P: Rules>(
    me: Me<'_, impl Host>,
    cell: Cell<'_>,
    seen: Seen,
    own: Option<Word>,
    time: Timestamp,
) -> Step<(), Conflict> {
    if P::SEALS_READS && own.is_none() {
        P::seal_read(me, cell, seen)
    } else {
        P::validate(me, cell, seen, own, time)
    }
}

/// Of a cell that was read: the version that this transaction has locked there, if it will write it.
#[inline(always)]
fn own_lock<P: Rules>(writes: &mut WriteSet, entry: &ReadEntry, cell: Cell<'_>) -> Option<Word> {
    let mut find = || {
        let own = writes.find(entry.record, entry.at)?;
        writes.entry(own).hold().prev
    };
    // Most cells that are read are not written.
    if P::LOCKS_IN_WORD && cell.word.load() == entry.seen.word {
        debug_assert_eq!(find(), None);
        return None;
    }
    find()
}

/// Whether what a node does not hold is still not there, at the commit time.
///
/// In momentary order: the node is as it was. In logical order the stamp's read time works as that of
/// `tictoc`'s cells: raise, then look; an insertion latches, then reads it.
pub(crate) fn holds_until(seen: &NodeSeen, time: Timestamp, logical: bool) -> bool {
    // SAFETY: the transaction is pinned since it saw the node.
    let stamp = unsafe { seen.stamp.as_ref() };
    if logical {
        if time.ticks() <= seen.rts {
            return true;
        }
        if stamp.version.load(Ordering::SeqCst) == seen.version {
            stamp.rts.fetch_max(time.ticks(), Ordering::SeqCst);
        }
    }
    stamp.version.load(Ordering::SeqCst) == seen.version
}
