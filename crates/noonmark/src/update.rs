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
//!
//! A closure cannot go over a wire. What can is [`PlainUpdate`]: a number that is added, or is the least or the greatest, at a place
//! of the encoded value ([`Column`]), or bytes at its end. See decision 45.

use crate::group::{Column, Field, Group, Size};
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

impl Update<NumberUpdate> {
    /// Changes the number at a place of the value.
    pub(crate) fn of_number(update: NumberUpdate) -> Self {
        /// # Safety
        /// `closure` points to a `NumberUpdate`, perhaps not aligned.
        #[expect(clippy::ptr_arg, reason = "of the type that all of them are of")]
        unsafe fn call(closure: *const Word, _: &[u8], value: &mut Vec<u8>) {
            // SAFETY: promised by the caller; a `Copy` type may be read out.
            let update = unsafe { closure.cast::<NumberUpdate>().read_unaligned() };
            update.change(value);
        }
        Update { closure: update, call }
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

    /// The number as one of those that are built in, if it is one: only they go over a wire.
    fn plain(self) -> Option<PlainNumber> {
        None
    }
}

/// What becomes of a number and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum; integers wrap around at the end of their range.
    Add,
    /// The smaller of the two.
    Min,
    /// The larger of the two.
    Max,
}

impl Fold {
    /// What becomes of a number that there is, and another one. Of two that cannot be compared, the one that there is.
    #[inline(always)]
    pub fn of<N: Number>(self, number: N, other: N) -> N {
        match self {
            Fold::Add => number.plus(other),
            Fold::Min if other < number => other,
            Fold::Max if other > number => other,
            Fold::Min | Fold::Max => number,
        }
    }
}

/// A change of a number in a group's encoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberUpdate {
    /// Where the number begins.
    at_bytes: u32,
    fold: Fold,
    other: PlainNumber,
}

impl NumberUpdate {
    /// That of the number in a column.
    pub fn of<G, N: Field + Number>(column: Column<G, N>, fold: Fold, other: N) -> Option<Self> {
        Some(NumberUpdate { at_bytes: u32::try_from(column.at_bytes()).ok()?, fold, other: other.plain()? })
    }

    fn bytes(&self) -> std::ops::Range<usize> {
        let at = self.at_bytes as usize;
        at..at + self.other.len_bytes()
    }

    /// (Whoever keeps it has seen that the value is long enough.)
    fn change(&self, value: &mut [u8]) {
        if let Some(number) = value.get_mut(self.bytes()) {
            self.other.change(self.fold, number);
        }
    }
}

/// A commit-time update that is plain data, of one column group.
#[derive(Clone, Debug, PartialEq)]
pub enum PlainUpdate {
    /// Of a number.
    Number(NumberUpdate),
    /// These bytes at the end of the value.
    Append(Vec<u8>),
}

impl PlainUpdate {
    /// Whether a group of this size can be updated like this.
    pub(crate) fn fits(&self, size: Size) -> bool {
        match (self, size) {
            (PlainUpdate::Number(update), Size::Fixed(bytes)) => update.bytes().end <= bytes,
            (PlainUpdate::Append(bytes), Size::Variable) => u32::try_from(bytes.len()).is_ok(),
            _ => false,
        }
    }

    /// How many bytes it takes on a wire: of a number its place, what is done with it, its kind and the other one; of bytes at the end their
    /// number, and them.
    pub fn len_bytes(&self) -> usize {
        match self {
            PlainUpdate::Number(update) => 6 + update.other.len_bytes(),
            PlainUpdate::Append(bytes) => 5 + bytes.len(),
        }
    }
}

macro_rules! plain_numbers {
    ($($name:ident $t:ty),*) => {
        /// A number of one of the kinds that are built in.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum PlainNumber {
            $(#[doc = concat!("A `", stringify!($t), "`.")] $name($t)),*
        }

        impl PlainNumber {
            /// How many bytes it takes.
            pub fn len_bytes(self) -> usize {
                match self {
                    $(PlainNumber::$name(_) => <$t as Field>::BYTES),*
                }
            }

            /// Changes the number of the same kind that these bytes are.
            fn change(self, fold: Fold, number: &mut [u8]) {
                match self {
                    $(PlainNumber::$name(other) => fold.of(<$t>::take(number), other).put(number)),*
                }
            }
        }
    };
}
plain_numbers!(
    U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, F32 f32, F64 f64
);

macro_rules! integers {
    ($($name:ident $t:ty),*) => {$(
        impl Number for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn plain(self) -> Option<PlainNumber> {
                Some(PlainNumber::$name(self))
            }
        }
    )*};
}
integers!(U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128);

macro_rules! floats {
    ($($name:ident $t:ty),*) => {$(
        impl Number for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn plain(self) -> Option<PlainNumber> {
                Some(PlainNumber::$name(self))
            }
        }
    )*};
}
floats!(F32 f32, F64 f64);

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    crate::column_group! {
        struct Several { flag: bool, small: u16, balance: i64, ratio: f64, last: u8 }
    }

    /// What a plain update makes of the bytes is what the closure makes of the value.
    #[test]
    fn a_plain_update_changes_the_bytes_of_its_column_and_no_others() {
        fn check<N: Number + Field>(column: Column<Several, N>, others: [N; 3]) {
            for fold in [Fold::Add, Fold::Min, Fold::Max] {
                for other in others {
                    let mut several = Several { flag: true, small: 7, balance: -3, ratio: 0.5, last: 255 };
                    let mut bytes = vec![0; several.encoded_bytes()];
                    several.encode(&mut bytes);
                    let update = NumberUpdate::of(column, fold, other).unwrap();
                    assert!(PlainUpdate::Number(update).fits(Several::SIZE));
                    update.change(&mut bytes);
                    let number = (column.field())(&mut several);
                    *number = fold.of(*number, other);
                    let mut expected = vec![0; several.encoded_bytes()];
                    several.encode(&mut expected);
                    assert_eq!(bytes, expected, "{update:?}");
                }
            }
        }
        let of = crate::columns::<Several>();
        check(of.small, [0, 9, u16::MAX]);
        check(of.balance, [0, -9, i64::MAX]);
        check(of.ratio, [0.0, 2.5, f64::NAN]);
        check(of.last, [0, 9, 255]);
        assert_eq!(of.flag.at_bytes(), 0);
        assert_eq!(Column::<i64, i64>::whole().at_bytes(), 0);
    }

    #[test]
    fn what_does_not_fit_is_known_before() {
        let update = |at| {
            PlainUpdate::Number(NumberUpdate { at_bytes: at, fold: Fold::Add, other: PlainNumber::U32(1) })
        };
        assert!(update(4).fits(Size::Fixed(8)) && !update(5).fits(Size::Fixed(8)));
        assert!(!update(u32::MAX).fits(Size::Fixed(8)) && !update(0).fits(Size::Variable));
        let append = PlainUpdate::Append(vec![1, 2]);
        assert!(append.fits(Size::Variable) && !append.fits(Size::Fixed(2)));
        assert_eq!((update(0).len_bytes(), append.len_bytes()), (10, 7));
    }
}
