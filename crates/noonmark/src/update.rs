//! Commit-time updates: changes of a group that the transaction has not read.
//!
//! An update is a closure from a value to a value. It is kept until the cell is locked for the
//! commit, and applied to what is there then; two transactions that only update a group this way
//! have no conflict to resolve, whichever comes first. That the order does not matter is the
//! caller's promise (`add`, `min`, `max` keep it; `append` does if the list is a bag to its readers).
//!
//! Every protocol can have them, because sealing gives every protocol the current version under a
//! lock: `occ`, `tictoc`, `adaptive` and `f1` lock at commit anyway; `two-phase` takes this lock late, which
//! two-phase locking allows, as nothing has been unlocked yet; `swiss` and `sundial` take intent and lock at once.
//!
//! Closures are kept in one buffer, without an allocation each. That takes `unsafe`, all of it here.

use crate::group::Group;
use std::mem::{MaybeUninit, size_of};

type Word = MaybeUninit<u64>;

/// A kept closure and how to call it. Only [`Closures::call`] of the buffer that made it may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apply {
    /// Where the closure begins in the buffer, in words.
    at: u32,
    call: unsafe fn(closure: *const Word, payload: &[u8], value: &mut Vec<u8>),
}

/// A closure, and the function that applies it to encoded values.
pub(crate) struct Update<U> {
    closure: U,
    call: unsafe fn(closure: *const Word, payload: &[u8], value: &mut Vec<u8>),
}

impl<U: Copy + Send + 'static> Update<U> {
    /// Decodes the value, applies the closure, encodes it again.
    pub(crate) fn of<G: Group>(closure: U) -> Self
    where
        U: Fn(&mut G),
    {
        /// # Safety
        /// `closure` points to a `U`, perhaps not aligned.
        unsafe fn call<G: Group, U: Fn(&mut G) + Copy>(closure: *const Word, _: &[u8], value: &mut Vec<u8>) {
            // SAFETY: promised by the caller; a `Copy` type may be read out.
            let closure = unsafe { closure.cast::<U>().read_unaligned() };
            let mut group = G::decode(value);
            closure(&mut group);
            value.resize(group.encoded_bytes(), 0);
            group.encode(value);
        }
        Update { closure, call: call::<G, U> }
    }
}

impl Update<()> {
    /// Adds the payload at the end of the value.
    pub(crate) fn append() -> Self {
        /// # Safety
        /// None needed: the closure is not looked at.
        unsafe fn call(_: *const Word, payload: &[u8], value: &mut Vec<u8>) {
            value.extend_from_slice(payload);
        }
        Update { closure: (), call }
    }
}

/// The closures of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Closures {
    words: Vec<Word>,
    /// How many are kept; some take no words.
    count: usize,
}

impl Closures {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        // Only `Copy` closures are kept, so there is nothing to drop.
        self.words.clear();
        self.count = 0;
    }

    pub(crate) fn keep<U: Copy + Send + 'static>(&mut self, update: Update<U>) -> Apply {
        let at = self.words.len();
        self.count += 1;
        self.words.resize(at + size_of::<U>().div_ceil(size_of::<Word>()), Word::uninit());
        // SAFETY: as many words were just added at `at` as a `U` takes.
        unsafe { self.words.as_mut_ptr().add(at).cast::<U>().write_unaligned(update.closure) };
        Apply { at: at as u32, call: update.call }
    }

    pub(crate) fn call(&self, apply: Apply, payload: &[u8], value: &mut Vec<u8>) {
        // An update that outlived its transaction would begin beyond the buffer, or find another
        // closure; the write set clears both together.
        assert!(apply.at as usize <= self.words.len());
        // SAFETY: `apply` was made by `keep` of this buffer since it was last cleared, so the type
        // that its function expects lies there.
        unsafe { (apply.call)(self.words.as_ptr().add(apply.at as usize), payload, value) }
    }
}

/// A number that commit-time updates can add up.
pub trait Number: Copy + PartialOrd + Send + 'static {
    /// The sum; integers wrap around at the end of their range.
    fn plus(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
floats!(f32, f64);
