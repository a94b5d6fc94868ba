//! Plain values: those that lie in a variable as words.
//!
//! A variable is read while others may write it, and what was read is thrown away if it turns out so. For that
//! not to be a data race as the language defines it, a value lies in memory as atomic words, which are copied
//! one by one with relaxed loads; only copies that have been validated become values again. A [`Plain`] type
//! says how its values and words correspond. Both directions are safe code: even words that belong together
//! nowhere could at worst make a wrong value, never an invalid one.
//!
//! Each scalar takes a word of eight bytes; a tuple, array or [`plain_struct!`](crate::plain_struct) takes those of
//! its parts, one after the other. Values that are not plain (a `String`, a `Vec`) lie behind a pointer:
//! [`TCell`](crate::TCell).
//!
//! What it does not do: it packs nothing. Two `u32` take sixteen bytes; who has millions of them packs them
//! into a `u64`.

use noonmark_core::sync::{AtomicU64, Ordering};

/// A small `Copy` value that lies in a variable as a few words.
///
/// Implemented for integers, `bool`, `char`, floats, `()`, and tuples, arrays and `Option`s of plain types; for
/// structs by [`plain_struct!`](crate::plain_struct). By hand it takes two conversions, [`PlainBy`], here by way of a
/// tuple:
///
/// ```
/// use noonmark_stm::{Plain, PlainBy};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// enum Signal { Go, Slow { at_most: u32 }, Stop }
///
/// impl PlainBy for Signal {
///     type As = (u8, u32);
///     fn into_plain(self) -> (u8, u32) {
///         match self { Signal::Go => (0, 0), Signal::Slow { at_most } => (1, at_most), Signal::Stop => (2, 0) }
///     }
///     fn from_plain((which, at_most): (u8, u32)) -> Self {
///         match which { 0 => Signal::Go, 1 => Signal::Slow { at_most }, _ => Signal::Stop }
///     }
/// }
///
/// let signal = noonmark_stm::TVar::new(Signal::Slow { at_most: 30 });
/// assert_eq!(signal.load(), Signal::Slow { at_most: 30 });
/// # fn is_plain<T: Plain>() {}
/// # is_plain::<Option<[(Signal, f64); 3]>>();
/// ```
pub trait Plain: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The atomic words that a value lies in.
    type Cells: Send + Sync + 'static;
    /// A copy of them.
    type Words: Copy;

    /// The words of a value.
    fn into_words(self) -> Self::Words;

    /// The value of words that [`Plain::into_words`] made. Given others, it may answer any value.
    fn from_words(words: Self::Words) -> Self;

    /// Cells with these words in them.
    fn cells(words: Self::Words) -> Self::Cells;

    /// Copies the words, relaxed: not to be trusted before it is known that nobody wrote meanwhile.
    fn load(cells: &Self::Cells) -> Self::Words;

    /// Calls `write` for each cell with the word that belongs in it.
    fn store(cells: &Self::Cells, words: Self::Words, write: &mut impl FnMut(&AtomicU64, u64));
}

/// Whoever stores logs the addresses of the cells that he is given; they must be those of the value, which only
/// code of this module can promise.
mod sealed {
    pub trait Sealed {}
    impl<T: super::PlainBy> Sealed for T {}
    impl Sealed for super::OneWord {}
    impl<T: super::Plain> Sealed for Option<T> where T::Words: Default {}
    impl<T: super::Plain, const N: usize> Sealed for [T; N] {}
}

/// A type that is plain by being turned into another one that is, and back.
pub trait PlainBy: Copy + Send + Sync + 'static {
    /// The other one.
    type As: Plain;
    /// Turns a value into one of the other type.
    fn into_plain(self) -> Self::As;
    /// And back. Given what [`PlainBy::into_plain`] never makes, it may answer any value.
    fn from_plain(plain: Self::As) -> Self;
}

impl<T: PlainBy> Plain for T {
    type Cells = <T::As as Plain>::Cells;
    type Words = <T::As as Plain>::Words;

    #[inline(always)]
    fn into_words(self) -> Self::Words {
        self.into_plain().into_words()
    }
    #[inline(always)]
    fn from_words(words: Self::Words) -> Self {
        T::from_plain(T::As::from_words(words))
    }
    #[inline(always)]
    fn cells(words: Self::Words) -> Self::Cells {
        T::As::cells(words)
    }
    #[inline(always)]
    fn load(cells: &Self::Cells) -> Self::Words {
        T::As::load(cells)
    }
    #[inline(always)]
    fn store(cells: &Self::Cells, words: Self::Words, write: &mut impl FnMut(&AtomicU64, u64)) {
        T::As::store(cells, words, write);
    }
}

/// A single word, the plain type that all others are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWord(pub u64);

impl Plain for OneWord {
    type Cells = AtomicU64;
    type Words = u64;

    #[inline(always)]
    fn into_words(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_words(word: u64) -> Self {
        OneWord(word)
    }
    #[inline(always)]
    fn cells(word: u64) -> AtomicU64 {
        AtomicU64::new(word)
    }
    #[inline(always)]
    fn load(cell: &AtomicU64) -> u64 {
        // Relaxed: what was read is validated, or the lock is held.
        cell.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn store(cell: &AtomicU64, word: u64, write: &mut impl FnMut(&AtomicU64, u64)) {
        write(cell, word);
    }
}

macro_rules! one_word {
    ($($type:ty: $into:expr, $from:expr;)*) => { $(
        impl PlainBy for $type {
            type As = OneWord;
            #[inline(always)]
            fn into_plain(self) -> OneWord {
                OneWord($into(self))
            }
            #[inline(always)]
            fn from_plain(word: OneWord) -> Self {
                $from(word.0)
            }
        }
    )* };
}

one_word! {
    u64: |value| value, |word| word;
    u32: u64::from, |word| word as u32;
    u16: u64::from, |word| word as u16;
    u8: u64::from, |word| word as u8;
    usize: |value| value as u64, |word| word as usize;
    i64: |value| value as u64, |word| word as i64;
    i32: |value| value as u64, |word| word as i32;
    i16: |value| value as u64, |word| word as i16;
    i8: |value| value as u64, |word| word as i8;
    isize: |value| value as u64, |word| word as isize;
    bool: u64::from, |word| word != 0;
    char: u64::from, |word| char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    f64: f64::to_bits, f64::from_bits;
    f32: |value: f32| u64::from(value.to_bits()), |word| f32::from_bits(word as u32);
}

macro_rules! pair_of_words {
    ($($type:ty),*) => { $(
        impl PlainBy for $type {
            type As = (u64, u64);
            #[inline(always)]
            fn into_plain(self) -> (u64, u64) {
                (self as u64, (self >> 64) as u64)
            }
            #[inline(always)]
            fn from_plain((low, high): (u64, u64)) -> Self {
                low as $type | (high as $type) << 64
            }
        }
    )* };
}

pair_of_words!(u128, i128);

/// A word that says whether there is a value, and the value's words, zero for `None`.
impl<T: Plain> Plain for Option<T>
where
    T::Words: Default,
{
    type Cells = (AtomicU64, T::Cells);
    type Words = (u64, T::Words);

    #[inline(always)]
    fn into_words(self) -> Self::Words {
        match self {
            Some(value) => (1, value.into_words()),
            None => (0, T::Words::default()),
        }
    }
    #[inline(always)]
    fn from_words((is_some, words): Self::Words) -> Self {
        (is_some != 0).then(|| T::from_words(words))
    }
    #[inline(always)]
    fn cells((is_some, words): Self::Words) -> Self::Cells {
        (AtomicU64::new(is_some), T::cells(words))
    }
    #[inline(always)]
    fn load((is_some, cells): &Self::Cells) -> Self::Words {
        (OneWord::load(is_some), T::load(cells))
    }
    #[inline(always)]
    fn store(cells: &Self::Cells, words: Self::Words, write: &mut impl FnMut(&AtomicU64, u64)) {
        write(&cells.0, words.0);
        T::store(&cells.1, words.1, write);
    }
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    type Cells = [T::Cells; N];
    type Words = [T::Words; N];

    #[inline(always)]
    fn into_words(self) -> Self::Words {
        self.map(T::into_words)
    }
    #[inline(always)]
    fn from_words(words: Self::Words) -> Self {
        words.map(T::from_words)
    }
    #[inline(always)]
    fn cells(words: Self::Words) -> Self::Cells {
        words.map(T::cells)
    }
    #[inline(always)]
    fn load(cells: &Self::Cells) -> Self::Words {
        std::array::from_fn(|index| T::load(&cells[index]))
    }
    #[inline(always)]
    fn store(cells: &Self::Cells, words: Self::Words, write: &mut impl FnMut(&AtomicU64, u64)) {
        for (cells, words) in cells.iter().zip(words) {
            T::store(cells, words, write);
        }
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Plain),*> sealed::Sealed for ($($name,)*) {}

        impl<$($name: Plain),*> Plain for ($($name,)*) {
            type Cells = ($($name::Cells,)*);
            type Words = ($($name::Words,)*);

            #[inline(always)]
            fn into_words(self) -> Self::Words {
                ($(self.$index.into_words(),)*)
            }
            #[inline(always)]
            fn from_words(words: Self::Words) -> Self {
                ($($name::from_words(words.$index),)*)
            }
            #[inline(always)]
            fn cells(words: Self::Words) -> Self::Cells {
                ($($name::cells(words.$index),)*)
            }
            #[inline(always)]
            fn load(cells: &Self::Cells) -> Self::Words {
                ($($name::load(&cells.$index),)*)
            }
            #[inline(always)]
            fn store(cells: &Self::Cells, words: Self::Words, write: &mut impl FnMut(&AtomicU64, u64)) {
                $($name::store(&cells.$index, words.$index, write);)*
            }
        }
    };
}

impl sealed::Sealed for () {}

impl Plain for () {
    type Cells = ();
    type Words = ();

    fn into_words(self) {}
    fn from_words((): ()) {}
    fn cells((): ()) {}
    fn load((): &()) {}
    fn store((): &(), (): (), _: &mut impl FnMut(&AtomicU64, u64)) {}
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Declares a struct of up to eight plain fields that is plain itself.
///
/// ```
/// noonmark_stm::plain_struct! {
///     /// A point on the map.
///     #[derive(Debug, PartialEq)]
///     pub struct Place { pub x: i32, pub y: i32, known: bool }
/// }
/// let place = noonmark_stm::TVar::new(Place { x: 3, y: -4, known: true });
/// assert_eq!(place.load(), Place { x: 3, y: -4, known: true });
/// ```
#[macro_export]
macro_rules! plain_struct {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        $visibility struct $name { $($(#[$field_meta])* $field_visibility $field: $type),* }

        impl $crate::PlainBy for $name {
            type As = ($($type,)*);
            #[inline(always)]
            fn into_plain(self) -> Self::As {
                ($(self.$field,)*)
            }
            #[inline(always)]
            fn from_plain(($($field,)*): Self::As) -> Self {
                $name { $($field),* }
            }
        }
    };
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::fmt::Debug;
    use std::mem::size_of;

    fn there_and_back<T: Plain + PartialEq + Debug>(value: T, other: T) {
        let cells = T::cells(other.into_words());
        assert_eq!(T::from_words(T::load(&cells)), other);
        T::store(&cells, value.into_words(), &mut |cell, word| cell.store(word, Ordering::Relaxed));
        assert_eq!(T::from_words(T::load(&cells)), value);
    }

    #[test]
    fn values_come_back_as_they_were() {
        there_and_back(u64::MAX, 0);
        there_and_back(i64::MIN, -1);
        there_and_back(i8::MIN, 5);
        there_and_back(-1i32, 1);
        there_and_back(usize::MAX, 3);
        there_and_back(true, false);
        there_and_back('\u{10ffff}', '\0');
        there_and_back(-0.25f32, 7.5);
        there_and_back(f64::INFINITY, f64::MIN_POSITIVE);
        there_and_back(u128::MAX - 7, 1 << 64);
        there_and_back(i128::MIN + 7, -1);
        there_and_back((), ());
        there_and_back((1u8, (2i16, [3u32, 4]), Some('x')), (5, (6, [7, 8]), None));
        there_and_back([Some(1.5), None, Some(-3.0)], [None, Some(0.0), None]);
    }

    #[test]
    fn each_scalar_takes_a_word() {
        assert_eq!(size_of::<<u8 as Plain>::Cells>(), 8);
        assert_eq!(size_of::<<(u8, bool, [i64; 3]) as Plain>::Cells>(), 40);
        assert_eq!(size_of::<<Option<u64> as Plain>::Cells>(), 16);
        assert_eq!(size_of::<<u128 as Plain>::Cells>(), 16);
        assert_eq!(size_of::<<() as Plain>::Cells>(), 0);
    }
}
