//! Lines: what hosts are told of before it is touched.
//!
//! A simulator counts cache lines, and lets others run before one is touched. So whoever touches what transactions share says so
//! first, by [`Host::touch`]: the rules, of locks and clocks; whoever copies or stores a value, of the lines on which it lies; whoever
//! allocates, of what he has made. On threads none of this is in the program.
//!
//! A line is told by the structure that it belongs to, a [`Space`], and a number there, never by its address, so that a run
//! repeats on any machine. Clocks, announcements and the ticket have fixed numbers, the locks of a table their place in it.
//!
//! # Objects
//!
//! A variable or a node has no name. Under a host that is told, it carries a [label](noonmark_core::label), beside its lock (or, where
//! locks are in a table, alone): a number that is drawn when it is first touched. On threads the label takes no room
//! (`a_variable_takes_its_words_and_a_lock`), and what is worked out of it is not.
//!
//! What would have done without labels, and why not: *a table of addresses*, numbered as they are first touched. An address that is used
//! again must then be known to be another object. Nodes could say so when they are allocated; but a variable is made anywhere,
//! moved (when a `Vec` of them grows), and dropped, and nobody hears of it, so that whether the next one has its number is up to the
//! allocator. And where locks are in a table, it is the address that chooses one: a run would not repeat even if what it
//! reports did. With labels the number chooses.
//!
//! An object is taken to begin at the beginning of a line, with its lock, as if it carried no label; what is within [`LINE_BYTES`] of that
//! is on one line with it. So neighbours never share a line: whether they do in truth is up to the allocator.
//! (An array of variables of 16 bytes has four to a line in truth. It is told as four lines.)
//!
//! # What is told, and how often
//!
//! *A lock word, a read indicator, a clock, an announcement, the ticket*: at each access. *A value*: when it is
//! copied, each of its lines once; when it is written, or put back, each word that changes; when it is made, each line of the node, as
//! allocated. *A value in a box* is a line of its own: allocated when it is put in, read when it is lent. It keeps its
//! number though each value is in another place: a line made anew is as far from all others' caches.
//!
//! *What there is to compute* is told beside that ([`Host::work`]): each attempt, read, lock to be written under, and node made or freed.
//!
//! # What it does not do
//!
//! Not told are: what a desk keeps for itself; slots, pins and the waiting room, which only who waits for them or reclaims shares; what
//! is plain in a node, a key say, which does not change and mostly lies beside the lock; what a value has on the heap, or beyond the first line
//! of a box; the glances by which a hash map decides to grow. The first value of a box that comes with a new node is told when it is
//! read.

use crate::control::Control;
use crate::desk::Common;
use noonmark_core::{Host, Label, Line};
use std::ops::Deref;

/// How long a line is.
pub const LINE_BYTES: usize = 64;

/// The structures that lines belong to: [`Line::space`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Space {
    /// The clock, or under [`TwoPlSf`](crate::TwoPlSf) the conflict clock. It has one line.
    Clock = 1,
    /// What slots announce under [`TwoPlSf`](crate::TwoPlSf), and who waits for them, a line each.
    Announced = 2,
    /// The ticket of the irrevocable transaction: 0 is the number that is drawn next, 1 the one whose turn it is.
    Ticket = 3,
    /// The table of locks of a world that has one ([`InTable`](crate::InTable)), line by line.
    Table = 4,
    /// Variables, nodes and roots: the object's number times 2^24, and which of its lines.
    Object = 5,
    /// The links of an object that has them in an allocation of their own: as `Object`.
    Links = 6,
    /// Values in boxes: the object's number times 2^24, and which of its words leads there.
    Value = 7,
    /// The read indicator of [`TwoPlSf`](crate::TwoPlSf): 0 is how many rows there are; then the rows, slot by slot and line by line.
    Readers = 8,
}

impl Space {
    /// One of its lines.
    #[inline(always)]
    pub(crate) const fn line(self, line: u64) -> Line {
        Line { space: self as u32, line }
    }
}

/// Something that is remembered for hosts that are told; or nothing.
pub type Note<H, T> = <<H as Host>::Label as Label>::Note<T>;

/// Which object, and where it lies, so that where a word lies in it can be said. The address is never told.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    number: u64,
    /// The address at which it would begin if it carried no label.
    begins: usize,
    space: Space,
}

impl Object {
    const LINES: u64 = 1 << 24;

    /// The one with this label, which begins with so many bytes and the label.
    pub fn new<H: Host>(label: &H::Label, bytes_before: usize, draw: impl FnOnce() -> u64) -> Object {
        let ends = std::ptr::from_ref(label) as usize + size_of::<H::Label>();
        Object { number: label.number(draw), begins: ends - bytes_before, space: Space::Object }
    }

    fn nth(self, space: Space, nth: usize) -> Line {
        space.line(self.number.wrapping_mul(Self::LINES) | (nth as u64 % Self::LINES))
    }

    /// Which bytes of it are at these addresses.
    fn offset<T>(self, part: &T) -> usize {
        (std::ptr::from_ref(part) as usize).wrapping_sub(self.begins)
    }

    /// The number of the object that a line of it belongs to.
    pub fn number_of(line: Line) -> u64 {
        line.line / Self::LINES
    }

    /// The line on which it begins.
    fn first_line(self) -> Line {
        self.nth(self.space, 0)
    }

    /// The line on which a part of it begins.
    pub fn line_of<T>(self, part: &T) -> Line {
        self.nth(self.space, self.offset(part) / LINE_BYTES)
    }

    /// The lines on which a part of it lies.
    pub fn lines_of<T>(self, part: &T) -> impl Iterator<Item = Line> {
        let begins = self.offset(part);
        let lines = begins / LINE_BYTES..(begins + size_of::<T>()).div_ceil(LINE_BYTES);
        (if size_of::<T>() == 0 { 0..0 } else { lines }).map(move |nth| self.nth(self.space, nth))
    }

    /// The lines from its beginning to the end of a part, which is its last one.
    pub fn lines_to<T>(self, last: &T) -> impl Iterator<Item = Line> {
        let lines = (self.offset(last) + size_of::<T>()).div_ceil(LINE_BYTES);
        (0..lines).map(move |nth| self.nth(self.space, nth))
    }

    /// The line of what a word of it leads to.
    pub fn line_behind<T>(self, word: &T) -> Line {
        self.nth(Space::Value, self.offset(word) / size_of::<u64>())
    }

    /// The same object's other allocation, which begins here.
    pub fn links<T>(self, first: *const T) -> Object {
        Object { begins: first as usize, space: Space::Links, ..self }
    }
}

/// What is noted of a lock and of what it guards.
#[derive(Clone, Copy, Debug)]
pub struct Whereabouts {
    lock: Line,
    object: Object,
}

/// A lock, and where it is, and what it guards.
pub struct Spot<'a, L, H: Host> {
    lock: &'a L,
    whereabouts: Note<H, Whereabouts>,
}

impl<L, H: Host> Clone for Spot<'_, L, H> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, H: Host> Copy for Spot<'_, L, H> {}

impl<L, H: Host> Deref for Spot<'_, L, H> {
    type Target = L;
    #[inline(always)]
    fn deref(&self) -> &L {
        self.lock
    }
}

impl<'a, L, H: Host> Spot<'a, L, H> {
    /// Of the lock of an object with this label, which begins with these bytes and the label.
    #[inline(always)]
    pub fn of_own<C: Control<Lock = L>>(lock: &'a L, label: &H::Label, common: &Common<C, H>) -> Self {
        let whereabouts = H::Label::note(|| {
            let object = common.object(label, size_of::<L>());
            Whereabouts { lock: object.first_line(), object }
        });
        Spot { lock, whereabouts }
    }

    /// Of a lock of the table, and an object with this label, which begins with it.
    #[inline(always)]
    pub fn of_table<C: Control<Lock = L>>(lock: &'a L, label: &H::Label, common: &'a Common<C, H>) -> Self {
        let whereabouts = H::Label::note(|| {
            let offset = std::ptr::from_ref(lock) as usize - common.table.as_ptr() as usize;
            let lock = Space::Table.line((offset / LINE_BYTES) as u64);
            Whereabouts { lock, object: common.object(label, 0) }
        });
        Spot { lock, whereabouts }
    }

    /// The lock itself, for the lifetime of the attempt.
    #[inline(always)]
    pub fn lock(self) -> &'a L {
        self.lock
    }

    /// The line of the lock.
    #[inline(always)]
    pub fn line(self) -> Note<H, Line> {
        H::Label::map(self.whereabouts, |whereabouts| whereabouts.lock)
    }

    /// What it guards.
    #[inline(always)]
    pub fn object(self) -> Note<H, Object> {
        H::Label::map(self.whereabouts, |whereabouts| whereabouts.object)
    }

    /// The same, for the object's links in an allocation of their own, which begins here.
    #[inline(always)]
    pub fn with_links<T>(self, first: *const T) -> Self {
        let whereabouts = H::Label::map(self.whereabouts, |whereabouts| Whereabouts {
            object: whereabouts.object.links(first),
            ..whereabouts
        });
        Spot { whereabouts, ..self }
    }
}

#[cfg(test)]
impl<'a, L> Spot<'a, L, noonmark_core::Threads> {
    /// Of a lock that nobody is told of.
    pub fn of(lock: &'a L) -> Self {
        Spot { lock, whereabouts: () }
    }
}

/// An entry of a log that is about a lock, and where that is.
pub struct Noted<T, H: Host> {
    /// What the control logs.
    pub entry: T,
    /// The line of the lock.
    pub line: Note<H, Line>,
}

impl<T: Copy, H: Host> Clone for Noted<T, H> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy, H: Host> Copy for Noted<T, H> {}

impl<T, H: Host> Deref for Noted<T, H> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.entry
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::control::lock_word::{Held, Lock};
    use noonmark_core::Threads;

    #[test]
    fn on_threads_a_spot_is_a_reference_and_an_entry_what_it_was() {
        assert_eq!(size_of::<Spot<'_, Lock, Threads>>(), size_of::<&Lock>());
        assert_eq!(size_of::<Noted<Held, Threads>>(), size_of::<Held>());
    }

    #[test]
    fn a_part_lies_on_the_lines_of_its_bytes() {
        let words = [0u64; 24];
        let object = Object { number: 3, begins: words.as_ptr() as usize, space: Space::Object };
        let lines =
            |begin: usize, end: usize| (begin..end).map(|nth| Space::Object.line(3 << 24 | nth as u64));
        let part = |nth: usize| words[nth..].first_chunk::<9>().unwrap();
        assert!(object.lines_of(&words).eq(lines(0, 3)) && object.lines_to(&words[7]).eq(lines(0, 1)));
        assert!(object.lines_of(part(0)).eq(lines(0, 2)) && object.lines_of(part(15)).eq(lines(1, 3)));
        assert!(object.lines_of(&words[8]).eq(lines(1, 2)) && object.lines_of(&()).eq(lines(0, 0)));
        assert_eq!(object.line_of(&words[16]), Space::Object.line(3 << 24 | 2));
        assert_eq!(object.line_behind(&words[16]), Space::Value.line(3 << 24 | 16));
        let links = object.links(&raw const words[8]);
        assert_eq!(links.line_of(&words[9]), Space::Links.line(3 << 24));
    }
}
