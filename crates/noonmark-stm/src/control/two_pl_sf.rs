//! `2PLSF` (Ramalhete, Correia and Felber, PPoPP 2023): two-phase locking in which nobody starves, as SlowClocks measures it.
//!
//! Whatever a transaction reads it locks for reading, whatever it writes for writing, and it lets go of all of it when it
//! ends. Nothing is validated, no clock is looked at. The read locks are a *read indicator*: a bit for each slot, so that
//! readers of one object meet on the line of its lock, but never wait for each other.
//!
//! # Who waits for whom
//!
//! A transaction that meets a lock for the first time draws a timestamp from the *conflict clock*, announces it, and keeps it,
//! through all its attempts, until it commits. Of two that want the same, whoever has the lower one waits for the other, and
//! whoever has the higher one, or draws it only now, lets go of everything, and begins anew when the other is
//! over. So all waiting goes from the older to the younger, and is no circle; the oldest one is never interrupted; and as a
//! transaction that was interrupted waits until the older one is *over*, it is interrupted at most once by each
//! that is older: its attempts are at most as many as there are slots in use (and one
//! more for each irrevocable one that comes, which is older than all). A transaction that meets nobody draws nothing.
//!
//! An irrevocable one has the timestamp 0, and is thus never interrupted. The ticket of the driver sees to it that there is
//! one at a time.
//!
//! # The order that makes it right
//!
//! *Locks.* A reader *enters the indicator, then looks at the writer's word*; a writer *takes the word, then looks at the
//! indicator*; all four steps are sequentially consistent ([`Readers`]). So of two who come at once, one sees the other.
//! What a holder stored comes before his release, which whoever finds the lock free acquires.
//!
//! *Timestamps.* One who draws *announces that he is about to, draws, and announces what he drew*; the other *draws, then
//! looks*. If the other finds nothing, his own number is the lower one, whatever is drawn later. If he finds that somebody is
//! about to draw, he looks again. So what has been decided once stays decided, for as long as the two go on.
//!
//! *Sleep.* All who wait at a lock wait for the same key. A writer that sleeps until readers leave has marked the indicator;
//! whoever leaves it finds the mark, and wakes. One that sleeps until the writer has gone has marked the word, from what it
//! looked at; the release finds the mark.
//! A sleeping writer need not hear that somebody older has come, for whom it must make way: it sleeps for one who is
//! younger, who waits for nobody older and so ends; then it looks at all of them.
//!
//! # Departures
//!
//! - The paper's threads spin. Here rules answer [`Step::Wait`], and it is the driver who spins first, and then sleeps.
//! - Locks are one for each object, or in a table, as the world wants; the paper's are in a table.
//! - A word counts the commits that wrote it, for those who wait for a change of what they have read (`retry`).
//! - Slots are at most [`SLOTS`]: two words of the indicator.
//!
//! What it does not do: reads are not free of writes to shared lines; that is its price, and why the paper leaves it behind.

use super::{Conflict, Control, Ending};
use crate::desk::Desk;
use crate::lines::{Note, Noted, Space, Spot};
use crate::log::Lent;
use crate::planted::Bug;
use noonmark_core::sync::{AtomicU64, CachePadded, Ordering};
use noonmark_core::{Access, Host, Line, Readers, SlotId, Step, WaitFor};
use std::cell::Cell;

/// How many slots an indicator has room for.
pub const SLOTS: usize = 126;
const READER_WORDS: usize = Readers::words_for(SLOTS);

/// Two-phase locking without starvation: see `control/two_pl_sf.rs`.
#[derive(Clone, Copy, Debug)]
pub struct TwoPlSf;

/// What a writer's word says.
///
/// ```text
///   63 .. 12                  11 .. 2                 1              0
///   commits that wrote this   the holder's slot + 1,  somebody wants somebody waits
///                             or 0: free              the lock       for a change
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

const WATCHED: u64 = 1;
const WANTED: u64 = 1 << 1;
const HOLDER_SHIFT: u32 = 2;
const HOLDER: u64 = 0x3ff << HOLDER_SHIFT;
const VERSION_SHIFT: u32 = 12;

impl Word {
    fn holder(self) -> Option<SlotId> {
        ((self.0 & HOLDER) >> HOLDER_SHIFT).checked_sub(1).and_then(|index| SlotId::new(index as usize))
    }

    #[inline(always)]
    fn is_free(self) -> bool {
        self.0 & HOLDER == 0
    }

    #[inline(always)]
    fn is_held_by(self, slot: SlotId) -> bool {
        self.0 & HOLDER == (slot.index() as u64 + 1) << HOLDER_SHIFT
    }

    #[inline(always)]
    fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    #[inline(always)]
    fn taken_by(self, slot: SlotId) -> Word {
        Word(self.0 & !HOLDER | (slot.index() as u64 + 1) << HOLDER_SHIFT)
    }
}

/// The lock of one object: 24 bytes.
#[derive(Debug)]
pub struct Lock {
    /// See [`Word`].
    writer: AtomicU64,
    readers: [AtomicU64; READER_WORDS],
}

impl Default for Lock {
    fn default() -> Self {
        Lock { writer: AtomicU64::new(0), readers: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Lock {
    #[inline(always)]
    fn readers(&self) -> Readers<'_> {
        Readers::new(&self.readers)
    }

    /// *Sequentially consistent*: the reader's half of the Dekker pattern; and so it acquires what the last holder wrote.
    #[inline(always)]
    fn look(&self) -> Word {
        Word(self.writer.load(Ordering::SeqCst))
    }

    /// To one who may hold it, and asks himself.
    #[inline(always)]
    fn own(&self) -> Word {
        // Relaxed: if it names the caller, the caller wrote it; if not, he goes on to look properly.
        Word(self.writer.load(Ordering::Relaxed))
    }

    /// Marks the word as wanted, if it still is `seen`: then its release wakes.
    fn want(&self, seen: Word) -> bool {
        // Relaxed: the order of changes of this one word is enough, see `noonmark_core::WaitingRoom`.
        // A word that is marked already is looked at once more all the same.
        self.writer.compare_exchange(seen.0, seen.0 | WANTED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Lets go of it, as one who has written it or not; whether anybody must be woken.
    #[inline(always)]
    fn release(&self, has_changed: bool) -> bool {
        // Only the holder changes the version and the holder, and he is the caller; others may set marks, which this
        // takes off. Release: the values come before.
        if has_changed {
            let next = (self.own().version() + 1) << VERSION_SHIFT;
            self.writer.swap(next, Ordering::Release) & (WANTED | WATCHED) != 0
        } else {
            // Who waits for a change sleeps on.
            self.writer.fetch_and(!(HOLDER | WANTED), Ordering::Release) & WANTED != 0
        }
    }

    fn key(&self) -> WaitFor {
        WaitFor::release_of(self)
    }
}

/// No timestamp.
const NONE: u64 = u64::MAX;
/// One is about to be drawn.
const DRAWING: u64 = u64::MAX - 1;
/// Of a timestamp: somebody sleeps until its transaction is over.
const AWAITED: u64 = 1;

/// What all transactions share.
#[derive(Debug)]
pub struct Shared {
    /// The conflict clock: the number that is drawn next. From 1 on: 0 is the irrevocable transaction's.
    clock: CachePadded<AtomicU64>,
    /// By slot: twice its transaction's timestamp, and [`AWAITED`]; or [`NONE`], or [`DRAWING`].
    announced: Box<[CachePadded<AtomicU64>]>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            clock: CachePadded(AtomicU64::new(1)),
            announced: (0..SLOTS).map(|_| CachePadded(AtomicU64::new(NONE))).collect(),
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
        &self.announced[slot.index()]
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
        let number = self.clock.fetch_add(1, Ordering::SeqCst);
        self.of(host, slot, Access::Write).store(number << 1, Ordering::SeqCst);
        number
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
    /// It has entered an indicator, the last that it has logged, and waits for the writer to go.
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
    /// Who was older and in the way: his slot, and what he had announced.
    makes_way_for: Cell<Option<(SlotId, u64)>>,
}

/// What is logged of a read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    lock: Lent<Lock>,
    /// As of the time of the read, for those who wait for a change.
    version: u64,
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
    me.local.state.set(State::Doomed);
    Step::Abort(conflict)
}

impl Control for TwoPlSf {
    const NAME: &'static str = "2PLSF";
    const IS_IRREVOCABLE: bool = true;
    const FALLS_BACK: bool = false;
    const IS_PATIENT: bool = true;
    const SLOTS_MAX: usize = SLOTS;

    type Lock = Lock;
    type Shared = Shared;
    type Local = Local;
    type Read = Read;
    type Held = Lent<Lock>;

    fn may_begin<H: Host>(me: &Desk<Self, H>) -> Step<(), Conflict> {
        let Some((other, his)) = me.local.makes_way_for.get() else { return Step::Ready(()) };
        let now = me.shared().look(me.host(), other);
        // The marked and the unmarked are of one transaction; numbers do not come back.
        if now >> 1 != his >> 1 {
            me.local.makes_way_for.set(None);
            return Step::Ready(());
        }
        let announced = &me.shared().announced[other.index()].0;
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

    #[inline(always)]
    fn begin<H: Host>(me: &Desk<Self, H>, is_irrevocable: bool) {
        if is_irrevocable {
            // It is never begun anew, so it has no number yet. Before its first lock, as if it had drawn.
            me.shared().of(me.host(), me.slot, Access::Write).store(0, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn read_now<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        _: bool,
        load: impl Fn() -> R,
    ) -> Option<R> {
        let readers = lock.readers();
        if me.local.state.get() != State::Fine {
            return None;
        }
        me.touch(lock.line(), Access::Read);
        if readers.contains(me.slot) {
            return Some(load());
        }
        me.touch(lock.line(), Access::ReadModifyWrite);
        readers.enter(me.slot);
        me.touch(lock.line(), Access::Read);
        let word = lock.look();
        me.log_read(lock, Read { lock: lend(&lock), version: word.version() });
        if word.is_free() || word.is_held_by(me.slot) {
            return Some(load());
        }
        me.local.state.set(State::AtTheDoor);
        None
    }

    fn read_on<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Lock, H>,
        _: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict> {
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
            // Sequentially consistent: the writer's half of the Dekker pattern. It acquires what the last holder wrote.
            let taken = seen.taken_by(me.slot).0;
            me.touch(lock.line(), Access::ReadModifyWrite);
            if lock.writer.compare_exchange(seen.0, taken, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                return Step::Busy(Conflict::WriteLocked);
            }
            me.log_held(lock, lend(&lock));
            me.touch(lock.line(), Access::Read);
            if lock.readers().others(me.slot).next().is_none() || me.has_planted(Bug::SkipReaders) {
                return Step::Ready(());
            }
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
        if me.local.state.replace(State::Fine) != State::Fine
            && let Some(lock) = me.held.last()
        {
            // It may have waited for readers there; nobody else has, as it is the holder.
            clear_waiters(me, lock.line, &lock);
        }
        let has_changed = ending == Ending::Commit && !me.has_planted(Bug::CommitKeepsTime);
        for lock in me.held.iter() {
            let key = lock.key();
            me.touch(lock.line, Access::ReadModifyWrite);
            if lock.release(has_changed) && !me.has_planted(Bug::SkipWakes) {
                wake(key);
            }
        }
        for read in me.reads.iter() {
            let key = read.lock.key();
            me.touch(read.line, Access::ReadModifyWrite);
            if read.lock.readers().leave(me.slot) {
                wake(key);
            }
        }
        if !matches!(ending, Ending::Restart(_)) {
            me.local.makes_way_for.set(None);
            me.shared().forget(me.host(), me.slot, wake);
        }
    }

    fn awaited(read: Read) -> WaitFor {
        read.lock.key()
    }

    fn watch<H: Host>(me: &Desk<Self, H>, read: Noted<Read, H>) -> bool {
        me.touch(read.line, Access::Read);
        // Relaxed: see `super::lock_word::Lock::watch`.
        let mut seen = Word(read.lock.writer.load(Ordering::Relaxed));
        while seen.is_free() && seen.version() == read.version {
            let marked = Word(seen.0 | WATCHED);
            me.touch(read.line, Access::ReadModifyWrite);
            match read.lock.writer.compare_exchange(seen.0, marked.0, Ordering::Relaxed, Ordering::Relaxed) {
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

/// The holder takes back that he waits for readers. (Told as a change, though it is one only if he has slept.)
fn clear_waiters<H: Host>(me: &Desk<TwoPlSf, H>, line: Note<H, Line>, lock: &Lock) {
    me.touch(line, Access::ReadModifyWrite);
    lock.readers().clear_waiters();
}

/// Entered, but somebody writes.
#[cold]
fn wait_at_the_door<H: Host>(me: &Desk<TwoPlSf, H>, lock: Spot<'_, Lock, H>) -> Step<(), Conflict> {
    if me.local.state.get() == State::Doomed {
        return Step::Abort(Conflict::ReadLocked);
    }
    me.touch(lock.line(), Access::Read);
    let word = lock.look();
    let Some(holder) = word.holder().filter(|_| !me.has_planted(Bug::SkipPostValidation)) else {
        me.local.state.set(State::Fine);
        // The version that was logged was that of before the write.
        if let Some(read) = me.reads.pop() {
            me.log_read(lock, Read { version: word.version(), ..read.entry });
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
    if me.goes_to_sleep() {
        me.touch(lock.line(), Access::ReadModifyWrite);
        lock.readers().mark_waiters();
    }
    me.touch(lock.line(), Access::Read);
    let mut is_unknown = false;
    let mut is_alone = true;
    for reader in lock.readers().others(me.slot) {
        is_alone = false;
        match order(me, reader) {
            Order::HeFirst(his) => return make_way(me, reader, his, Conflict::WriteLocked),
            Order::Unknown => is_unknown = true,
            Order::MeFirst => {}
        }
    }
    if is_alone {
        me.local.state.set(State::Fine);
        clear_waiters(me, lock.line(), &lock);
        Step::Ready(())
    } else if is_unknown {
        Step::Busy(Conflict::WriteLocked)
    } else {
        Step::Wait(lock.key(), Conflict::WriteLocked)
    }
}
