//! `2PLSF` (Ramalhete, Correia and Felber, PPoPP 2023): two-phase locking in which nobody starves, as SlowClocks measures it.
//!
//! Whatever a transaction reads it locks for reading, whatever it writes for writing, and it lets go of all of it when it
//! ends. Nothing is validated, no clock is looked at. A read lock is a bit in a row of the reader's own ([`super::read_rows`]), so
//! that readers of one object neither wait for each other nor take lines from each other.
//!
//! # Who waits for whom
//!
//! A transaction that meets a lock for the first time draws a timestamp from the *conflict clock*, announces it, and keeps it,
//! through all its attempts, until it commits. Of two that want the same, whoever has the lower one waits for the other, and
//! whoever has the higher one, or draws it only now, lets go of everything, and begins anew when the other is
//! over. So all waiting goes from the older to the younger, and is no circle; the oldest one is never interrupted; and as a
//! transaction that was interrupted waits until the older one is *over*, it is interrupted at most once by each
//! that is older: its attempts are at most as many as there are slots in use, and those that it loses to irrevocable ones. A transaction
//! that meets nobody draws nothing.
//!
//! An irrevocable one has a timestamp below all that are drawn, and is thus never interrupted. The ticket of the driver sees to it that
//! there is one at a time. A slot's next has the next one, so that whoever waits until one is over does not wait for those that follow.
//! As there is no end of those that come, a transaction that has lost `K` attempts to such takes the ticket itself, which is given in turn: it
//! gives up its own timestamp, and is irrevocable.
//!
//! # In whose rows a writer looks
//!
//! To look into the rows of all slots for each lock that is taken is what rows cost, and mostly in vain: what is written is
//! read by few. So the word of a lock keeps a *record of who has read it* ([`super::two_pl_lock`]). A reader that finds himself on record leaves the word as it
//! is. If not, he puts himself there, also while somebody holds the word: so the next writer finds him, and makes way if he is older.
//! A writer that takes the word takes all off the record, and looks into the rows of those who were there. If he
//! has to let go before all have left, he puts them back.
//!
//! So what one transaction reads and then writes, and no other does meanwhile, is looked for in no other row, whoever has it next; and what many read, and few
//! write, is on one line that all of them have in their caches.
//!
//! # The order that makes it right
//!
//! *Locks.* A reader *enters his row, then looks at the word*, and has the lock only if nobody else holds the word *and he is on record there*; a writer *takes the word, then looks into the rows of those who were on record*. All four steps are
//! sequentially consistent, so of two who come at once, one sees the other: whoever has the lock for reading is on record, or was when a holder
//! took the word who still looks for him. What a holder stored comes before his release, which whoever finds the lock free acquires.
//!
//! *Timestamps.* One who draws *announces that he is about to, draws, and announces what he drew*; the other *draws, then
//! looks*. If the other finds nothing, his own number is the lower one, whatever is drawn later. If he finds that somebody is
//! about to draw, he looks again. So what has been decided once stays decided, for as long as the two go on.
//!
//! *Sleep.* A writer that sleeps until a reader leaves *marks the reader's slot, then looks into its row again*; the reader *leaves, then takes the mark
//! off, and wakes whoever waits for the slot*. Both change the mark in one atomic step: if the writer's comes first, the reader finds the
//! mark; if the reader's does, the writer acquires what was before it, and finds the row as it was left. The marks are not in the rows, so
//! that to leave is a plain store for each lock, and one such step for all of them.
//! One that sleeps until the writer has gone has marked the word, from what it looked at; the release finds the mark.
//! A sleeping writer need not hear that somebody older has come, for whom it must make way: it sleeps for one who is
//! younger, who waits for nobody older and so ends; then it looks at all of them.
//!
//! # Departures
//!
//! - The paper's threads spin. Here rules answer [`Step::Wait`], and it is the driver who spins first, and then sleeps.
//! - Locks are one for each object, or in a table, as the world wants; the paper's are in a table. Places in rows are made of addresses in both.
//! - The record of readers in the lock word is ours; a writer of theirs looks into the rows of all threads (`docs/decisions/0038`).
//! - That whoever has lost too often to irrevocable transactions becomes one is ours.
//! - A word counts the commits that wrote it, for those who wait for a change of what they have read (`retry`).
//!
//! What it does not do: reads are not free of writes. Each sets a bit, in a step that empties the processor's buffer of stores; that is its price,
//! and why the paper leaves it behind. Two objects may share a bit, so that a writer of one waits for a reader of the other.

use super::read_rows::{self, Place, Row, Rows};
use super::two_pl_lock::{GROUPS, Lock, Record, VERSION, VERSION_SHIFT, WATCHED, Word};
use super::{Conflict, Control, Ending};
use crate::desk::Desk;
use crate::lines::{LINE_BYTES, Noted, Object, Space, Spot};
use crate::log::Lent;
use crate::planted::Bug;
use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{Access, Host, Label, SlotId, Step, WaitFor};
use std::cell::{Cell, OnceCell};

/// Two-phase locking without starvation: see `control/two_pl_sf.rs`.
#[derive(Clone, Copy, Debug)]
pub struct TwoPlSf;

/// No timestamp.
const NONE: u64 = u64::MAX;
/// One is about to be drawn.
const DRAWING: u64 = u64::MAX - 1;
/// The first timestamp that is drawn. Below are those of irrevocable transactions, by the slot: so many of one's pass before one comes again.
const FIRST: u64 = 1 << 40;
/// Of a timestamp: somebody sleeps until its transaction is over.
const AWAITED: u64 = 1;

/// What a slot has to say to the others.
#[derive(Debug)]
struct Announced {
    /// Twice its transaction's timestamp, and [`AWAITED`]; or [`NONE`], or [`DRAWING`].
    number: AtomicU64,
    /// Not 0: somebody sleeps until it leaves its row.
    is_read_awaited: AtomicU64,
    /// How many of its transactions were irrevocable. Nobody else looks at it.
    irrevocable: AtomicU64,
}

/// What all transactions share.
#[derive(Debug)]
pub struct Shared {
    /// The conflict clock: from 1 on, so much more than [`FIRST`] less one is the number that is drawn next.
    clock: CachePadded<AtomicU64>,
    /// By slot.
    announced: Box<[CachePadded<Announced>]>,
    rows: Rows,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            clock: CachePadded(AtomicU64::new(1)),
            announced: (0..read_rows::SLOTS)
                .map(|_| Announced {
                    number: AtomicU64::new(NONE),
                    is_read_awaited: AtomicU64::new(0),
                    irrevocable: AtomicU64::new(0),
                })
                .map(CachePadded)
                .collect(),
            rows: Rows::default(),
        }
    }
}

/// What a slot announces is about to be touched.
#[inline(always)]
fn touch_announced(host: &impl Host, slot: SlotId, access: Access) {
    host.touch(|| Space::Announced.line(slot.index() as u64), access);
}

impl Shared {
    /// What a slot announces, which is about to be touched.
    #[inline(always)]
    fn of(&self, host: &impl Host, slot: SlotId, access: Access) -> &AtomicU64 {
        touch_announced(host, slot, access);
        &self.announced[slot.index()].number
    }

    /// Whether somebody sleeps until a slot leaves its row.
    fn read_awaited(&self, host: &impl Host, slot: SlotId) -> &AtomicU64 {
        touch_announced(host, slot, Access::ReadModifyWrite);
        &self.announced[slot.index()].is_read_awaited
    }

    /// *Sequentially consistent*: after the caller's own drawing.
    fn look(&self, host: &impl Host, slot: SlotId) -> u64 {
        self.of(host, slot, Access::Read).load(Ordering::SeqCst)
    }

    /// The slot's number, drawn if it has none.
    fn number(&self, host: &impl Host, slot: SlotId, in_silence: bool) -> u64 {
        // Relaxed: the slot's own.
        let announced = self.of(host, slot, Access::Read).load(Ordering::Relaxed);
        if announced != NONE {
            return announced >> 1;
        }
        if !in_silence {
            self.of(host, slot, Access::Write).store(DRAWING, Ordering::SeqCst);
        }
        host.touch(|| Space::Clock.line(0), Access::ReadModifyWrite);
        let number = FIRST - 1 + self.clock.fetch_add(1, Ordering::SeqCst);
        self.of(host, slot, Access::Write).store(number << 1, Ordering::SeqCst);
        number
    }

    /// Sees to it that the caller is woken when this slot leaves its row, unless it has done so. He looks into the row after this.
    fn await_reader(&self, host: &impl Host, slot: SlotId) -> WaitFor {
        let awaited = self.read_awaited(host, slot);
        // Acquire: whatever was before the slot's own step, if that came first. Release, as it is one chain of steps: see the page.
        awaited.fetch_or(1, Ordering::AcqRel);
        self.left(slot)
    }

    /// What those wait for who wait for a slot to leave its row.
    fn left(&self, slot: SlotId) -> WaitFor {
        WaitFor::release_of(&self.announced[slot.index()].is_read_awaited)
    }

    /// The slot has left its row.
    #[inline(always)]
    fn has_left(&self, host: &impl Host, slot: SlotId, wake: impl FnOnce(WaitFor)) {
        let awaited = self.read_awaited(host, slot);
        // As above. A change in any case, if only to what it was: whoever marks it later acquires this.
        if awaited.swap(0, Ordering::AcqRel) != 0 {
            wake(self.left(slot));
        }
    }

    /// The slot's transaction is over.
    #[inline(always)]
    fn forget(&self, host: &impl Host, slot: SlotId, mut wake: impl FnMut(WaitFor)) {
        let announced = self.of(host, slot, Access::Read);
        if announced.load(Ordering::Relaxed) != NONE {
            // Release: its locks were let go before.
            if self.of(host, slot, Access::ReadModifyWrite).swap(NONE, Ordering::Release) & AWAITED != 0 {
                wake(WaitFor::release_of(announced));
            }
        }
    }
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It has all that it has asked for.
    #[default]
    Fine,
    /// It has entered its row, for the lock that it has logged last, and waits for the writer to go, or must put itself on record.
    AtTheDoor,
    /// It has taken a word, the last that it has logged, and waits for the readers to go.
    Incomplete,
    /// It makes way. Whatever its closure still asks for is refused: what it was asking for last it has not got.
    Doomed,
}

/// What is kept of a transaction.
#[derive(Debug, Default)]
pub struct Local {
    state: Cell<State>,
    /// The slot's, once it has read anything.
    row: OnceCell<Row>,
    /// Who was on record when the word was taken that was taken last, as long as not all of them are known to have left.
    readers: Cell<Record>,
    /// Who was older and in the way: his slot, and what he had announced.
    makes_way_for: Cell<Option<(SlotId, u64)>>,
    /// How many attempts its transaction has lost to irrevocable ones.
    lost_to_irrevocable: Cell<u32>,
}

/// What is logged of a read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    lock: Lent<Lock>,
    /// The version, as of the time of the read, for those who wait for a change, where a [`Word`] has it; and below, the number of the row's word.
    at: u64,
}

const _: () = assert!(Place::WORD_BITS <= VERSION_SHIFT);

impl Read {
    #[inline(always)]
    fn new(lock: &Lock, seen: Word, place: Place) -> Read {
        Read { lock: lend(lock), at: seen.0 & VERSION | u64::from(place.word()) }
    }

    #[inline(always)]
    fn version(self) -> u64 {
        self.at >> VERSION_SHIFT
    }

    #[inline(always)]
    fn row_word(self) -> u32 {
        (self.at & !VERSION) as u32
    }
}

/// The place of a lock in the rows.
#[inline(always)]
fn place_of<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>) -> Place {
    let address = std::ptr::from_ref(lock.lock()) as usize;
    let number = H::Label::look(lock.line()).map(|line| {
        if line.space == Space::Table as u32 {
            ((address - me.common.table.as_ptr() as usize) / size_of::<Lock>()) as u64
        } else {
            // Those of a whole line: see `read_rows`.
            Object::number_of(line) * (LINE_BYTES / size_of::<Lock>()) as u64
        }
    });
    // Neighbours' numbers follow each other, whatever the checkers put into an atomic.
    Place::of(number.unwrap_or((address / size_of::<Lock>()) as u64))
}

/// Lends the lock to the attempt.
#[inline(always)]
fn lend(lock: &Lock) -> Lent<Lock> {
    // SAFETY: whoever calls a rule holds the lock for the lifetime of the attempt (`'tx`, see
    // `crate::transaction`); and this goes into the logs of the desk only.
    unsafe { Lent::new(lock) }
}

/// Who goes first?
enum Order {
    MeFirst,
    /// He, who has announced this.
    HeFirst(u64),
    /// He is about to draw: look again.
    Unknown,
}

fn order<H: Host>(me: &Desk<TwoPlSf, H>, other: SlotId) -> Order {
    let mine = me.shared().number(me.host(), me.slot, me.has_planted(Bug::DrawInSilence));
    match me.shared().look(me.host(), other) {
        NONE => Order::MeFirst,
        DRAWING => Order::Unknown,
        his if his >> 1 < mine => Order::HeFirst(his),
        _ => Order::MeFirst,
    }
}

/// Makes way for one who is older: lets go of everything soon.
fn make_way<H: Host, R>(
    me: &Desk<TwoPlSf, H>,
    other: SlotId,
    his: u64,
    conflict: Conflict,
) -> Step<R, Conflict> {
    me.local.makes_way_for.set(Some((other, his)));
    if his >> 1 < FIRST {
        me.local.lost_to_irrevocable.set(me.local.lost_to_irrevocable.get().saturating_add(1));
    }
    me.local.state.set(State::Doomed);
    Step::Abort(conflict)
}

impl Control for TwoPlSf {
    const NAME: &'static str = "2PLSF";
    const IS_IRREVOCABLE: bool = true;
    const FALLS_BACK: bool = false;
    const IS_PATIENT: bool = true;
    const SLOTS_MAX: usize = read_rows::SLOTS;

    type Lock = Lock;
    type Shared = Shared;
    type Local = Local;
    type Read = Read;
    type Held = Lent<Lock>;

    fn may_begin<H: Host>(me: &Desk<Self, H>) -> Step<(), Conflict> {
        let Some((other, his)) = me.local.makes_way_for.get() else { return Step::Ready(()) };
        let now = me.shared().look(me.host(), other);
        // The marked and the unmarked are of one transaction. Numbers do not come back.
        if now >> 1 != his >> 1 {
            me.local.makes_way_for.set(None);
            return Step::Ready(());
        }
        let announced = &me.shared().announced[other.index()].number;
        if me.goes_to_sleep() && now & AWAITED == 0 {
            touch_announced(me.host(), other, Access::ReadModifyWrite);
            // Relaxed, as `Lock::want`.
            let marked = announced.compare_exchange(now, now | AWAITED, Ordering::Relaxed, Ordering::Relaxed);
            if marked.is_err() {
                return Step::Busy(Conflict::WriteLocked);
            }
        }
        Step::Wait(WaitFor::release_of(announced), Conflict::WriteLocked)
    }

    fn local(_: SlotId) -> Local {
        Local::default()
    }

    fn falls_back<H: Host>(me: &Desk<Self, H>, _: u32, attempts_max: u32) -> bool {
        let lost = me.local.lost_to_irrevocable.get();
        lost > 0 && lost >= attempts_max
    }

    #[inline(always)]
    fn begin<H: Host>(me: &Desk<Self, H>, is_irrevocable: bool) {
        if is_irrevocable {
            let announced = me.shared().of(me.host(), me.slot, Access::Write);
            // Relaxed: the slot's own.
            let before = me.shared().announced[me.slot.index()].irrevocable.fetch_add(1, Ordering::Relaxed);
            // It has no number: it is in its first attempt, or has given up the one that it had. Before its first lock, as if it had drawn.
            debug_assert_eq!(
                announced.load(Ordering::Relaxed),
                NONE,
                "somebody may sleep until that one is over"
            );
            announced.store((before % FIRST) << 1, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn read_now<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        is_tracked: bool,
        load: impl Fn() -> R,
    ) -> Option<R> {
        if me.local.state.get() != State::Fine {
            return None;
        }
        // Who has no row gets one in `read_on`.
        let row = me.local.row.get()?;
        let place = place_of(me, lock);
        touch_row(me, place.word(), Access::Read);
        let was_set = row.has(place);
        if !was_set {
            // As a locked instruction: it waits until it is seen.
            touch_row(me, place.word(), Access::ReadModifyWrite);
            row.enter(place);
        }
        me.touch(lock.line(), Access::Read);
        let word = lock.look();
        let is_granted = word.lets_read(me.slot) || word.is_free() && me.has_planted(Bug::SkipRecord);
        // That it was set does not say that it is this lock that was read before. Who leaves clears it all the same; but who
        // waits for a change must have it in the log.
        if !was_set
            || !is_granted
            || is_tracked && me.reads.last().is_none_or(|last| last.lock != lend(&lock))
        {
            me.log_read(lock, Read::new(&lock, word, place));
        }
        if is_granted || word.is_free() && put_on_record(me, lock, word) {
            return Some(load());
        }
        me.local.state.set(State::AtTheDoor);
        None
    }

    fn read_on<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        is_tracked: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict> {
        if me.local.row.get().is_none() {
            me.local.row.get_or_init(|| me.shared().rows.make(me.host(), me.slot));
            if let Some(copy) = Self::read_now(me, lock, is_tracked, &load) {
                return Step::Ready(copy);
            }
        }
        wait_at_the_door(me, lock).map(|()| load())
    }

    #[inline]
    fn write_on<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
        me.touch(lock.line(), Access::Read);
        let seen = lock.own();
        if me.local.state.get() == State::Fine {
            if seen.is_held_by(me.slot) {
                return Step::Ready(());
            }
            if !seen.is_free() {
                return wait_for_the_writer(me, lock, seen);
            }
            me.touch(lock.line(), Access::ReadModifyWrite);
            if !lock.change(seen, seen.taken_by(me.slot)) {
                return Step::Busy(Conflict::WriteLocked);
            }
            me.log_held(lock, lend(&lock));
            let record = seen.record();
            // After the word is taken: who has no row by now will see that.
            let is_alone =
                record.is_empty() || record.is_only(me.slot) && me.shared().rows.count(me.host()) <= GROUPS;
            if is_alone || me.has_planted(Bug::SkipReaders) {
                return Step::Ready(());
            }
            me.local.readers.set(record);
            me.local.state.set(State::Incomplete);
        }
        wait_for_the_readers(me, lock)
    }

    #[inline(always)]
    fn validate<H: Host>(_: &Desk<Self, H>) -> Result<(), Conflict> {
        Ok(())
    }

    #[inline]
    fn release<H: Host>(me: &Desk<Self, H>, ending: Ending, mut wake: impl FnMut(WaitFor)) {
        me.local.state.set(State::Fine);
        let has_changed = ending == Ending::Commit && !me.has_planted(Bug::CommitKeepsTime);
        // Of the word that was taken last.
        let still = me.local.readers.take();
        let last = me.held.len().wrapping_sub(1);
        for (nth, lock) in me.held.iter().enumerate() {
            let still = if nth == last { still } else { Record::default() };
            let key = lock.key();
            me.touch(lock.line, Access::ReadModifyWrite);
            if lock.release(has_changed, still) && !me.has_planted(Bug::SkipWakes) {
                wake(key);
            }
        }
        if let (false, Some(row)) = (me.reads.is_empty(), me.local.row.get()) {
            for read in me.reads.iter() {
                touch_row(me, read.row_word(), Access::Write);
                row.leave(read.row_word());
            }
            me.shared().has_left(me.host(), me.slot, &mut wake);
        }
        if !matches!(ending, Ending::Restart(_)) {
            Self::give_up(me, wake);
        }
    }

    /// The slot's number goes with its transaction: whoever works here next would make others wait for ever.
    #[inline]
    fn give_up<H: Host>(me: &Desk<Self, H>, wake: impl FnMut(WaitFor)) {
        me.local.makes_way_for.set(None);
        me.local.lost_to_irrevocable.set(0);
        me.shared().forget(me.host(), me.slot, wake);
    }

    fn awaited(read: Read) -> WaitFor {
        read.lock.key()
    }

    fn watch<H: Host>(me: &Desk<Self, H>, read: Noted<Read, H>) -> bool {
        me.touch(read.line, Access::Read);
        // Relaxed: see `super::lock_word::Lock::watch`.
        let mut seen = read.lock.own();
        while seen.is_free() && seen.version() == read.version() {
            let marked = Word(seen.0 | WATCHED);
            me.touch(read.line, Access::ReadModifyWrite);
            match read.lock.0.compare_exchange(seen.0, marked.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                // Another's mark is no change.
                Err(now) => seen = Word(now),
            }
        }
        false
    }

    /// That of the conflict clock.
    fn time(shared: &Shared) -> u64 {
        shared.clock.load(Ordering::Acquire)
    }
}

/// Marks the word as wanted: see [`Lock::want`].
fn want<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>, seen: Word) -> bool {
    me.touch(lock.line(), Access::ReadModifyWrite);
    lock.want(seen)
}

/// A word of the slot's own row is about to be touched.
#[inline(always)]
fn touch_row<H: Host>(me: &Desk<TwoPlSf, H>, word: u32, access: Access) {
    me.host().touch(|| read_rows::line_of(me.slot, word), access);
}

/// Puts the caller on record beside those who are, unless the word has changed.
#[inline(never)]
fn put_on_record<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>, seen: Word) -> bool {
    me.touch(lock.line(), Access::ReadModifyWrite);
    lock.change(seen, seen.read_by(me.slot))
}

/// Entered, but somebody writes, or the slot is not on record.
#[cold]
fn wait_at_the_door<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
    if me.local.state.get() == State::Doomed {
        return Step::Abort(Conflict::ReadLocked);
    }
    me.touch(lock.line(), Access::Read);
    let mut word = lock.look();
    if !word.covers(me.slot) && !word.is_held_by(me.slot) {
        // Also while somebody holds it, so that he who takes it next sees to it who is older.
        if !put_on_record(me, lock, word) {
            return Step::Busy(Conflict::ReadLocked);
        }
        word = word.read_by(me.slot);
    }
    let other = word.holder().filter(|&holder| holder != me.slot);
    let Some(holder) = other.filter(|_| !me.has_planted(Bug::SkipPostValidation)) else {
        me.local.state.set(State::Fine);
        // The version that was logged was that of before the write.
        if me.reads.pop().is_some() {
            me.log_read(lock, Read::new(&lock, word, place_of(me, lock)));
        }
        return Step::Ready(());
    };
    match order(me, holder) {
        Order::Unknown => Step::Busy(Conflict::ReadLocked),
        Order::HeFirst(his) => make_way(me, holder, his, Conflict::ReadLocked),
        Order::MeFirst if me.goes_to_sleep() && !want(me, lock, word) => Step::Busy(Conflict::ReadLocked),
        Order::MeFirst => Step::Wait(lock.key(), Conflict::ReadLocked),
    }
}

/// Somebody else writes.
#[cold]
fn wait_for_the_writer<H: Host>(
    me: &Desk<TwoPlSf, H>,
    lock: Spot<'_, Lock, H>,
    word: Word,
) -> Step<(), Conflict> {
    let Some(holder) = word.holder() else { return Step::Busy(Conflict::WriteLocked) };
    match order(me, holder) {
        Order::Unknown => Step::Busy(Conflict::WriteLocked),
        Order::HeFirst(his) => make_way(me, holder, his, Conflict::WriteLocked),
        Order::MeFirst if me.goes_to_sleep() && !want(me, lock, word) => Step::Busy(Conflict::WriteLocked),
        Order::MeFirst => Step::Wait(lock.key(), Conflict::WriteLocked),
    }
}

/// The word is taken, but some still read.
#[cold]
fn wait_for_the_readers<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
    if me.local.state.get() == State::Doomed {
        return Step::Abort(Conflict::WriteLocked);
    }
    let place = place_of(me, lock);
    let mut is_unknown = false;
    let mut first_in = None;
    for reader in me.local.readers.get().slots(me.shared().rows.count(me.host())) {
        if reader == me.slot || !me.shared().rows.reads(me.host(), reader, place) {
            continue;
        }
        first_in = first_in.or(Some(reader));
        match order(me, reader) {
            Order::HeFirst(his) => return make_way(me, reader, his, Conflict::WriteLocked),
            Order::Unknown => is_unknown = true,
            Order::MeFirst => {}
        }
    }
    let Some(reader) = first_in else {
        me.local.readers.set(Record::default());
        me.local.state.set(State::Fine);
        return Step::Ready(());
    };
    if is_unknown {
        return Step::Busy(Conflict::WriteLocked);
    }
    if me.goes_to_sleep() {
        let until = me.shared().await_reader(me.host(), reader);
        if !me.shared().rows.reads(me.host(), reader, place) {
            return Step::Busy(Conflict::WriteLocked);
        }
        return Step::Wait(until, Conflict::WriteLocked);
    }
    Step::Wait(me.shared().left(reader), Conflict::WriteLocked)
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::desk::Common;
    use noonmark_core::Threads;
    use std::sync::Arc;

    /// Whoever makes way comes again when the older one is over, not before.
    #[test]
    fn the_younger_begins_anew_when_the_older_is_over() {
        for ending in [Ending::Commit, Ending::Cancel] {
            let common = Arc::new(Common::<TwoPlSf, Threads>::new(Threads::default(), 0));
            let desk = |slot| Desk::new(SlotId::new(slot).unwrap(), common.clone());
            let (older, younger, third) = (desk(0), desk(1), desk(2));
            let (a, b) = (Lock::default(), Lock::default());
            assert_eq!(TwoPlSf::write(&third, Spot::of(&b)), Step::Ready(()));
            assert_eq!(TwoPlSf::write(&older, Spot::of(&a)), Step::Ready(()));
            // It draws.
            assert!(matches!(TwoPlSf::write(&older, Spot::of(&b)), Step::Wait(..)));
            assert_eq!(TwoPlSf::write(&younger, Spot::of(&a)), Step::Abort(Conflict::WriteLocked));
            TwoPlSf::release(&younger, Ending::Restart(Conflict::WriteLocked), |_| ());
            assert!(matches!(TwoPlSf::may_begin(&younger), Step::Wait(..)));
            // An attempt of the older one ends, but not the transaction.
            TwoPlSf::release(&older, Ending::Restart(Conflict::WriteLocked), |_| ());
            younger.set_goes_to_sleep(true);
            let Step::Wait(awaited, _) = TwoPlSf::may_begin(&younger) else {
                panic!("the older one is not over")
            };
            younger.set_goes_to_sleep(false);
            let mut woken = Vec::new();
            TwoPlSf::release(&older, ending, |on| woken.push(on));
            assert_eq!(woken, [awaited]);
            assert_eq!(TwoPlSf::may_begin(&younger), Step::Ready(()));
            TwoPlSf::release(&third, Ending::Commit, |_| ());
        }
    }

    /// Whoever waits at the door is on record, so that the one who takes the word next finds him, and makes way if he is older.
    #[test]
    fn the_next_writer_makes_way_for_an_older_reader_at_the_door() {
        let common = Arc::new(Common::<TwoPlSf, Threads>::new(Threads::default(), 0));
        let desk = |slot| Desk::new(SlotId::new(slot).unwrap(), common.clone());
        let (reader, first, next) = (desk(0), desk(1), desk(2));
        let lock = Lock::default();
        assert_eq!(TwoPlSf::write(&first, Spot::of(&lock)), Step::Ready(()));
        let read = || TwoPlSf::read(&reader, Spot::of(&lock), true, || 7);
        assert!(matches!(read(), Step::Wait(..)));
        TwoPlSf::release(&first, Ending::Commit, |_| ());
        assert_eq!(TwoPlSf::write(&next, Spot::of(&lock)), Step::Abort(Conflict::WriteLocked));
        TwoPlSf::release(&next, Ending::Restart(Conflict::WriteLocked), |_| ());
        let again = TwoPlSf::read_on(&reader, Spot::of(&lock), true, || 7);
        assert_eq!(again, Step::Ready(7));
        TwoPlSf::release(&reader, Ending::Commit, |_| ());
    }

    /// Who shares a bit of the record with a reader, and has no row yet himself, does not take him for himself.
    #[test]
    fn a_writer_waits_for_a_reader_whatever_their_slots() {
        for reader in [0, 1, GROUPS - 1, GROUPS, 2 * GROUPS + 1] {
            for writer in (0..3 * GROUPS).filter(|&writer| writer != reader) {
                let common = Arc::new(Common::<TwoPlSf, Threads>::new(Threads::default(), 0));
                let desk = |slot| Desk::new(SlotId::new(slot).unwrap(), common.clone());
                let (reader, writer) = (desk(reader), desk(writer));
                let lock = Lock::default();
                assert_eq!(TwoPlSf::read(&reader, Spot::of(&lock), true, || 7), Step::Ready(7));
                let answer = TwoPlSf::write(&writer, Spot::of(&lock));
                assert!(matches!(answer, Step::Wait(..)), "{} beside {}", writer.slot, reader.slot);
                TwoPlSf::release(&reader, Ending::Commit, |_| ());
                assert_eq!(TwoPlSf::write(&writer, Spot::of(&lock)), Step::Ready(()));
                TwoPlSf::release(&writer, Ending::Commit, |_| ());
            }
        }
    }
}
