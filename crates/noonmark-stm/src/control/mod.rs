//! Concurrency controls: the rules of reading, writing and committing, one file each.
//!
//! A [`Control`] knows locks, the clock and what an attempt has logged; it knows no values and no variables, and of its host
//! only that it is to be told which line a rule is about to touch ([`crate::lines`]). Its rules look at one lock and answer a [`Step`]: granted, *busy* (ask again soon), *wait* (until somebody has
//! let go), or a [`Conflict`] to abort with. They never wait. What is common to all of them is done by others: values are written in place and
//! undone from a log ([`crate::desk`]), memory is reclaimed by epochs, and the driver ([`crate::run`]) repeats.
//!
//! All write in place, under a lock taken when the write is made, and none defers its writes to the commit: the
//! paper chose so because a read then never searches a write set (§3).
//!
//! Which there are, and what each promises: [`Control`].
//!
//! What it does not do: a control decides nothing about time. How long to spin, when to give up speculation and
//! how to wait is the driver's.

pub mod clock;
pub mod dcotl;
pub mod dcotl_sf;
pub mod dctl;
pub mod dctl_sf;
pub mod deferred;
pub mod lock_word;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom), not(shuttle)))]
mod plays;
pub mod read_rows;
#[cfg(all(test, not(loom), not(shuttle)))]
mod scripts;
#[cfg(all(test, not(loom), not(shuttle)))]
mod starving;
pub mod tictoc;
pub mod tinystm;
pub mod tl2;
pub mod two_pl_lock;
pub mod two_pl_sf;
pub mod versioned;

use crate::desk::Desk;
use crate::lines::{Noted, Spot};
use noonmark_core::{Host, SlotId, Step, WaitFor};

/// Why an attempt cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// A read found another transaction's write lock.
    ReadLocked,
    /// A read found a value that was written after the attempt began, or at the same time of the clock.
    ReadNewer,
    /// A write found another transaction's lock.
    WriteLocked,
    /// A write found a value that was written after the attempt began, or at the same time of the clock.
    WriteNewer,
    /// At the commit, something that was read had changed.
    Changed,
}

impl Conflict {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 5;

    /// Which of them this is.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its writes stay. It has been validated.
    Commit,
    /// Its writes have been undone, because of a conflict.
    Restart(Conflict),
    /// Its writes have been undone, because the user wants it so.
    Cancel,
}

/// A concurrency control. Sealed; there are these:
///
/// | control | source | opaque | starvation-free | the clock is advanced | a read writes, for others to see | an undone write is left with |
/// |---|---|---|---|---|---|---|
/// | [`Dctl`](crate::Dctl) | §3.1, Algorithms 1 to 3; `dctl.rs` | yes | no | by an attempt that a conflict ends, if the clock is not yet past what was in its way | nothing | the clock's time |
/// | [`Dcotl`](crate::Dcotl) | §3.2, Algorithms 1, 2 and 4; `dcotl.rs` | yes | no | as `Dctl`, but for a conflict that a write met: that one advances nothing | nothing | the clock's time |
/// | [`DctlSf`](crate::DctlSf) | §5, Algorithms 1 to 3 and 5; `dctl_sf.rs` | yes | yes: irrevocable after `K` failed attempts | as `Dctl` | nothing; while irrevocable, a bit of the lock word | the clock's time |
/// | [`DcotlSf`](crate::DcotlSf), the default | §5, Algorithms 1, 2, 4 and 5; `dcotl_sf.rs` | yes | yes: as `DctlSf` | as `Dcotl` | as `DctlSf` | the clock's time |
/// | [`Tl2Gv4`](crate::Tl2Gv4) | §2, §7; DISC 2006; `tl2.rs` | yes | no | by a transaction that has locked something: before its validation, and once if it is undone; or by another one at the same moment | nothing | a new time of the clock |
/// | [`Tl2Gv5`](crate::Tl2Gv5) | §2, §7; `tl2.rs` | yes | no | by an attempt that a newer value ends, to that value's time; also if its own thread has written it | nothing | the clock's next time |
/// | [`TinyStm`](crate::TinyStm) | §2, §7; PPoPP 2008, TPDS 2010; `tinystm.rs` | yes | no | by a transaction that has locked something: before its validation, by one; and when it is undone, if a lock has the clock's present time | nothing | the time after the one before |
/// | [`TwoPlSf`](crate::TwoPlSf) | §2, §7; PPoPP 2023; `two_pl_sf.rs` | yes | yes: the older goes first; irrevocable after `K` attempts that were lost to irrevocable ones | by a transaction that finds somebody else in its way, once until it is over: it draws its age | a bit in its slot's own row of the read indicator, in a view too, which is cleared when it ends; and the lock word, if its slot has not read since it was last taken for writing | the version from before |
/// | [`TicToc`](crate::TicToc) | §2, §7; SIGMOD 2016; `tictoc.rs` | **no**: for [`TFixed`](crate::TFixed) only | no | there is none | nothing; when it is validated, a later end of the validity, if need be | a new version, valid from just after the last read of the one before |
///
/// (Sections and algorithms are the paper's.) All write in place, under a lock, and keep an undo log. `K` is
/// [`Settings::attempts_max`](crate::Settings::attempts_max). The transactions of one thread alone advance the clock
/// under `Tl2Gv4` and `TinyStm` when they write, under `Tl2Gv5` when they meet what the same thread has just written, and under
/// the others never, if all of them are of one session, or none of any: a session and what runs without one meet as two threads would. What it shows is [`Statistics::clock`](crate::Statistics::clock).
pub trait Control: Sized + Send + Sync + 'static {
    /// Its name, as the paper writes it.
    const NAME: &'static str;

    /// Whether it knows irrevocable attempts.
    const IS_IRREVOCABLE: bool;

    /// Whether a transaction that has failed too often is made irrevocable, whatever it has met.
    #[doc(hidden)]
    const FALLS_BACK: bool = Self::IS_IRREVOCABLE;
    /// Whether *busy* is asked again for as long as it takes.
    #[doc(hidden)]
    const IS_PATIENT: bool = false;
    /// Whether an attempt that only reads, logs nothing and is not irrevocable leaves nothing behind: no lock to let go
    /// of, and nothing to validate, as all that it has read was good at the one moment at which it began. One that logs what it
    /// reads, but has locked nothing, leaves nothing to let go of either.
    #[doc(hidden)]
    const VIEWS_LEAVE_NOTHING: bool = false;
    /// How many slots it knows.
    #[doc(hidden)]
    const SLOTS_MAX: usize = lock_word::SLOTS_MAX;

    /// What lies beside an object, or in the table of locks. New: never written.
    #[doc(hidden)]
    type Lock: Default + Send + Sync + 'static;
    /// What all transactions of one memory share.
    #[doc(hidden)]
    type Shared: Default + Send + Sync + 'static;
    /// What it keeps of the attempt at a desk.
    #[doc(hidden)]
    type Local: Send;
    /// What it logs of a read.
    #[doc(hidden)]
    type Read: Copy;
    /// What it logs of a lock.
    #[doc(hidden)]
    type Held: Copy;

    /// Whether the next attempt may begin. Asked before each, outside of any, until it may.
    #[doc(hidden)]
    #[inline(always)]
    fn may_begin<H: Host>(_: &Desk<Self, H>) -> Step<(), Conflict> {
        Step::Ready(())
    }

    /// What it keeps at the desk of this slot.
    #[doc(hidden)]
    fn local(slot: SlotId) -> Self::Local;

    /// Whether a transaction that has failed so often is to be irrevocable from now on, where that is after `attempts_max` failures.
    #[doc(hidden)]
    #[inline(always)]
    fn falls_back<H: Host>(_: &Desk<Self, H>, failures: u32, attempts_max: u32) -> bool {
        Self::FALLS_BACK && failures >= attempts_max
    }

    /// An attempt begins, which is irrevocable or not. A sequentially consistent fence comes after this and before its first
    /// read.
    #[doc(hidden)]
    fn begin<H: Host>(me: &Desk<Self, H>, is_irrevocable: bool);

    /// Reads what `load` copies, which `lock` guards; `tracked` if it is to be validated at the commit.
    /// `load` may be called more than once.
    #[doc(hidden)]
    #[inline(always)]
    fn read<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Self::Lock, H>,
        tracked: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict> {
        match Self::read_now(me, lock, tracked, &load) {
            Some(copy) => Step::Ready(copy),
            None => Self::read_on(me, lock, tracked, load),
        }
    }

    /// The first half of [`Control::read`]: what is granted at once, as most reads are. It is in line wherever something
    /// is read, so it is short. `None`: ask [`Control::read_on`].
    #[doc(hidden)]
    #[inline(always)]
    fn read_now<H: Host, R: Copy>(
        _: &Desk<Self, H>,
        _: Spot<'_, Self::Lock, H>,
        _tracked: bool,
        _load: impl Fn() -> R,
    ) -> Option<R> {
        None
    }

    /// The second half of [`Control::read`], asked as often as it answers that it is not over.
    #[doc(hidden)]
    fn read_on<H: Host, R: Copy>(
        me: &Desk<Self, H>,
        lock: Spot<'_, Self::Lock, H>,
        tracked: bool,
        load: impl Fn() -> R,
    ) -> Step<R, Conflict>;

    /// Gets the right to write what `lock` guards, until the attempt ends.
    #[doc(hidden)]
    #[inline(always)]
    fn write<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Self::Lock, H>) -> Step<(), Conflict> {
        if Self::write_now(me, lock) { Step::Ready(()) } else { Self::write_on(me, lock) }
    }

    /// The first half of [`Control::write`], as [`Control::read_now`] is of a read. False: ask [`Control::write_on`].
    #[doc(hidden)]
    #[inline(always)]
    fn write_now<H: Host>(_: &Desk<Self, H>, _: Spot<'_, Self::Lock, H>) -> bool {
        false
    }

    /// The second half of [`Control::write`], asked as often as it answers that it is not over.
    #[doc(hidden)]
    fn write_on<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Self::Lock, H>) -> Step<(), Conflict>;

    /// As [`Control::write`], where nobody writes but attempts of this slot and the lock guards nothing else
    /// ([`crate::owned`]): whether the attempt could read what is there is not asked.
    #[doc(hidden)]
    #[inline(always)]
    fn write_own<H: Host>(me: &Desk<Self, H>, lock: Spot<'_, Self::Lock, H>) -> Step<(), Conflict> {
        Self::write(me, lock)
    }

    /// Does what has been read so far belong together, without a write yet? Under an opaque control it always does.
    #[doc(hidden)]
    #[inline(always)]
    fn confirm<H: Host>(_: &Desk<Self, H>) -> Result<(), Conflict> {
        Ok(())
    }

    /// All is written: may it commit? Asked once.
    #[doc(hidden)]
    fn validate<H: Host>(me: &Desk<Self, H>) -> Result<(), Conflict>;

    /// The attempt ends: lets go of all locks, and names those for which others wait.
    #[doc(hidden)]
    fn release<H: Host>(me: &Desk<Self, H>, ending: Ending, wake: impl FnMut(WaitFor));

    /// A transaction whose last attempt was to be followed by another one is given up instead, by a panic in between; or it begins anew, as an
    /// irrevocable one.
    fn give_up<H: Host>(_: &Desk<Self, H>, _: impl FnMut(WaitFor)) {}

    /// What those wait for who wait for a change of what was read.
    #[doc(hidden)]
    fn awaited(read: Self::Read) -> WaitFor;

    /// The attempt has been released: if what was read has not changed since, sees to it that whoever changes it
    /// names it in [`Control::release`]. False: it has changed.
    #[doc(hidden)]
    fn watch<H: Host>(me: &Desk<Self, H>, read: Noted<Self::Read, H>) -> bool;

    /// What a clock shows, if there is one.
    #[doc(hidden)]
    fn time(shared: &Self::Shared) -> u64;
}

/// A control under which whatever an attempt has read belongs together at any moment, also if nothing comes of the attempt: what
/// closures, nodes and maps need.
pub trait Opaque: Control {}

impl<V: deferred::Variant> Opaque for V {}
impl<R: versioned::Rival> Opaque for versioned::Versioned<R> {}
impl Opaque for two_pl_sf::TwoPlSf {}
