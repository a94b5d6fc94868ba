//! Labels: what tells one object from another, for a host that is told of their lines.
//!
//! A line that a host is told of is logical ([`Line`](crate::Line)). Where objects have names, as rows have keys, it is
//! made of those. Variables and nodes in plain memory have none but their address, and that names nothing: it is another one in
//! each run, and memory that was freed, or from which a variable was moved, is some other object's next. So an object *carries a
//! label*, of a type that the [host](crate::Host) chooses:
//!
//! - [`Numbered`], for a host that wants to know: a number, drawn when the object is first touched. So it is the same whenever the
//!   schedule is, it goes where the object goes, and nobody else gets it when that is gone.
//! - [`Unlabelled`], for threads: it takes no room, and there is nothing that could be told of the object.
//!
//! What is worked out of a label, and what must be remembered of it until a lock is let go of, is a [note](Label::Note): of the
//! second kind it is nothing, and the closure that would make it never runs. So it costs neither memory nor instructions.
//!
//! What it does not do: it numbers nothing by itself; whoever has the objects has the counter.

use std::sync::atomic::{AtomicU64, Ordering};

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Unlabelled {}
    impl Sealed for super::Numbered {}
}

/// What objects carry for a host: [`Unlabelled`] or [`Numbered`]. See the module's page. Sealed: an object may be known by its number
/// alone, so one that gave another number each time would be taken for many.
pub trait Label: sealed::Sealed + Default + Send + Sync + 'static {
    /// Something that is remembered for the host; or nothing.
    type Note<T: Copy + Send + Sync + 'static>: Copy + Send + Sync + 'static;

    /// The number on it, which is drawn if there is none yet. 0 if there never is one.
    fn number(&self, draw: impl FnOnce() -> u64) -> u64;

    /// Makes a note, if the host wants any.
    fn note<T: Copy + Send + Sync + 'static>(make: impl FnOnce() -> T) -> Self::Note<T>;

    /// What was noted.
    fn look<T: Copy + Send + Sync + 'static>(note: Self::Note<T>) -> Option<T>;

    /// Makes one note of another.
    fn map<T: Copy + Send + Sync + 'static, U: Copy + Send + Sync + 'static>(
        note: Self::Note<T>,
        make: impl FnOnce(T) -> U,
    ) -> Self::Note<U>;
}

/// Nothing, for hosts that are not told of objects' lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlabelled;

impl Label for Unlabelled {
    type Note<T: Copy + Send + Sync + 'static> = ();

    #[inline(always)]
    fn number(&self, _: impl FnOnce() -> u64) -> u64 {
        0
    }

    #[inline(always)]
    fn note<T: Copy + Send + Sync + 'static>(_: impl FnOnce() -> T) {}

    #[inline(always)]
    fn look<T: Copy + Send + Sync + 'static>((): ()) -> Option<T> {
        None
    }

    #[inline(always)]
    fn map<T: Copy + Send + Sync + 'static, U: Copy + Send + Sync + 'static>((): (), _: impl FnOnce(T) -> U) {
    }
}

/// A number, or 0 as long as the object has not been touched. (The standard library's atomic: it is no part of what a model
/// checker looks at.)
#[derive(Debug, Default)]
pub struct Numbered(AtomicU64);

impl Label for Numbered {
    type Note<T: Copy + Send + Sync + 'static> = T;

    fn number(&self, draw: impl FnOnce() -> u64) -> u64 {
        // Relaxed: the number orders nothing.
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let drawn = draw();
                match self.0.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => drawn,
                    Err(other) => other,
                }
            }
            number => number,
        }
    }

    fn note<T: Copy + Send + Sync + 'static>(make: impl FnOnce() -> T) -> T {
        make()
    }

    fn look<T: Copy + Send + Sync + 'static>(note: T) -> Option<T> {
        Some(note)
    }

    fn map<T: Copy + Send + Sync + 'static, U: Copy + Send + Sync + 'static>(
        note: T,
        make: impl FnOnce(T) -> U,
    ) -> U {
        make(note)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_drawn_once() {
        let (first, second) = (Numbered::default(), Numbered::default());
        assert_eq!((first.number(|| 7), first.number(|| 8), second.number(|| 8)), (7, 7, 8));
        assert_eq!(Numbered::look(Numbered::map(Numbered::note(|| 3), |noted| noted + 1)), Some(4));
    }

    #[test]
    fn no_label_takes_no_room_and_no_note_is_made() {
        assert_eq!(size_of::<Unlabelled>() + size_of::<<Unlabelled as Label>::Note<[u64; 9]>>(), 0);
        let never = || -> u64 { panic!("worked out for nobody") };
        Unlabelled::note(never);
        assert_eq!((Unlabelled.number(never), Unlabelled::look::<u64>(())), (0, None));
    }
}
