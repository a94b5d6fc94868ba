//! Column groups: the values that have timestamps of their own.
//!
//! A row is one group or a tuple of up to eight. Groups of fixed size lie in the record itself;
//! those of variable size, and large ones, lie in an immutable version behind a pointer. Either way
//! a group's bytes are its own wire format: little-endian fields, one after another.

use std::marker::PhantomData;
use std::mem::offset_of;

/// How much room a group's value takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always this many bytes.
    Fixed(usize),
    /// Any number of bytes below 4 GiB.
    Variable,
}

/// The largest group that lies in the record; a larger one goes behind a pointer.
pub(crate) const INLINE_BYTES_MAX: usize = 1024;

impl Size {
    /// Whether it is the same.
    pub(crate) const fn is(self, other: Size) -> bool {
        match (self, other) {
            (Size::Fixed(bytes), Size::Fixed(others)) => bytes == others,
            (Size::Variable, Size::Variable) => true,
            _ => false,
        }
    }

    /// Whether a value lies behind a pointer.
    #[inline(always)]
    pub(crate) const fn is_boxed(self) -> bool {
        !matches!(self, Size::Fixed(bytes) if bytes <= INLINE_BYTES_MAX)
    }

    /// How many words of the record it takes: the value's, or one for the pointer.
    #[inline(always)]
    pub(crate) const fn words(self) -> usize {
        match self {
            Size::Fixed(bytes) if bytes <= INLINE_BYTES_MAX => bytes.div_ceil(8),
            _ => 1,
        }
    }
}

/// Words of neighbouring groups of these sizes, one after another.
#[inline(always)]
pub(crate) const fn words_of(sizes: &[Size]) -> usize {
    let (mut words, mut index) = (0, 0);
    while index < sizes.len() {
        words += sizes[index].words();
        index += 1;
    }
    words
}

/// Bytes of groups of these sizes, which are fixed, without what the last word of each leaves.
const fn bytes_of(sizes: &[Size]) -> usize {
    let (mut all_bytes, mut index) = (0, 0);
    while index < sizes.len() {
        if let Size::Fixed(bytes) = sizes[index] {
            all_bytes += bytes;
        }
        index += 1;
    }
    all_bytes
}

/// The most groups a row can have.
pub const GROUPS_MAX: usize = 8;

/// Neighbouring groups of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    first: u16,
    count: u16,
}

impl Groups {
    /// As many as there are sizes.
    #[inline(always)]
    pub(crate) fn new(first: usize, sizes: &[Size]) -> Self {
        Groups { first: first as u16, count: sizes.len() as u16 }
    }

    /// Those of these numbers.
    #[inline(always)]
    pub(crate) fn of(numbers: &std::ops::Range<usize>) -> Self {
        Groups { first: numbers.start as u16, count: numbers.len() as u16 }
    }

    /// The fewest that have all these, a bit each, among them.
    #[cold]
    pub(crate) fn of_bits(bits: u8) -> Self {
        let first = bits.trailing_zeros() as u16;
        let end = (u8::BITS - bits.leading_zeros()) as u16;
        Groups { first: first.min(end), count: end.saturating_sub(first) }
    }

    /// A bit for each.
    pub(crate) fn bits(self) -> u8 {
        (((1u32 << self.count) - 1) << self.first) as u8
    }
}

/// A value that is read and written whole, under one timestamp.
///
/// Structs get this from [`column_group!`](crate::column_group); integers, floats, `bool`, byte
/// arrays, `Vec<u8>` and `String` have it already. A type of your own with another encoding
/// implements this, and gets [`Row`] from [`single_group_row!`](crate::single_group_row).
pub trait Group: Sized + 'static {
    /// The room that a value takes.
    const SIZE: Size;

    /// What to call it in an explanation: the type's own name unless told otherwise.
    fn name() -> &'static str {
        let full = std::any::type_name::<Self>();
        full.rsplit("::").next().unwrap_or(full)
    }

    /// How many bytes [`Group::encode`] writes for this value.
    fn encoded_bytes(&self) -> usize;

    /// Writes the value; `out` is as long as [`Group::encoded_bytes`] says.
    fn encode(&self, out: &mut [u8]);

    /// The value that was written. Only ever called with what [`Group::encode`] wrote, even in a
    /// transaction that will turn out to have read an inconsistent state.
    fn decode(bytes: &[u8]) -> Self;

    /// Whether it is in memory what [`Group::encode`] writes.
    #[doc(hidden)]
    const PLAIN: Plain<Self> = Plain::unknown();
}

/// A part of a [`column_group!`](crate::column_group): something of fixed size.
pub trait Field: Sized + 'static {
    /// How many bytes it takes.
    const BYTES: usize;
    /// Writes it; `out` has [`Field::BYTES`] bytes.
    fn put(&self, out: &mut [u8]);
    /// Reads it; `bytes` has [`Field::BYTES`] bytes.
    fn take(bytes: &[u8]) -> Self;
    /// Writes several, one after another.
    #[inline(always)]
    fn put_all(fields: &[Self], out: &mut [u8]) {
        for (index, field) in fields.iter().enumerate() {
            field.put(&mut out[index * Self::BYTES..(index + 1) * Self::BYTES]);
        }
    }
    /// Whether it is in memory what [`Field::put`] writes.
    #[doc(hidden)]
    const PLAIN: Plain<Self> = Plain::unknown();
}

/// Whether values of a type are in memory what is written of them: these bytes, all of which may be any bytes, and none besides. A row's: these
/// words. Then a value is changed where it lies ([`change_plain`]), instead of being read, changed and written.
///
/// Of what a type of another crate is made only [`column_group!`](crate::column_group) says something.
#[doc(hidden)]
pub struct Plain<T>(bool, PhantomData<fn() -> T>);

impl<T> Plain<T> {
    /// It is not known to be so.
    pub const fn unknown() -> Self {
        Plain(false, PhantomData)
    }

    /// Numbers are written as little-endian machines have them in memory.
    const fn number() -> Self {
        Plain(cfg!(target_endian = "little"), PhantomData)
    }

    /// Of a struct with these fields, in the order in which they are written: where each lies in it, how many bytes it takes, and whether it is plain.
    ///
    /// # Safety
    /// The struct has these fields, at these bytes, and no others.
    pub const unsafe fn fields(fields: &[(usize, usize, bool)]) -> Self {
        let (mut at_bytes, mut index) = (0, 0);
        let mut is_plain = true;
        while index < fields.len() {
            let (own_at_bytes, bytes, own_is_plain) = fields[index];
            is_plain &= own_is_plain && own_at_bytes == at_bytes;
            at_bytes += bytes;
            index += 1;
        }
        Plain(is_plain && at_bytes == size_of::<T>(), PhantomData)
    }

    /// Whether it is.
    pub const fn is_plain(&self) -> bool {
        self.0
    }

    /// Whether it is, and may begin where a word does.
    pub(crate) const fn lies_in_words(&self) -> bool {
        self.0 && align_of::<T>() <= align_of::<u64>()
    }
}

/// Changes a row where it is: in words that are its groups, one after another, as in a cell.
///
/// # Panics
/// If it does not [lie in words](Plain::lies_in_words).
#[inline(always)]
pub(crate) fn change_plain<R: Row>(words: &mut [u64], change: impl FnOnce(&mut R)) {
    assert!(
        R::PLAIN.lies_in_words() && words.len() == words_of(R::SIZES) && size_of::<R>() <= size_of_val(words)
    );
    let start = words.as_mut_ptr();
    let _tail = Tail::<R>(start.cast(), PhantomData);
    // SAFETY: `Plain` says that these words are a value, and they are aligned for one and borrowed as long.
    change(unsafe { &mut *start.cast::<R>() });
}

/// The padding behind the groups of a row, if it has any. It need not be bytes any more when somebody has put another row there; so it becomes some
/// when the row has been changed, or was left by a panic.
struct Tail<R: Row>(*mut u8, PhantomData<R>);

impl<R: Row> Drop for Tail<R> {
    #[inline(always)]
    fn drop(&mut self) {
        for at in bytes_of(R::SIZES)..size_of::<R>() {
            // SAFETY: within the words that the row was changed in, which are still borrowed, and which nobody else refers to any more.
            unsafe { self.0.add(at).write(0) };
        }
    }
}

macro_rules! number_fields {
    ($($t:ty),*) => {$(
        impl Field for $t {
            const BYTES: usize = size_of::<$t>();
            const PLAIN: Plain<Self> = Plain::number();
            #[inline(always)]
            fn put(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn take(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_le_bytes(own)
            }
        }
        fixed_group!($t);
    )*};
}

macro_rules! fixed_group {
    ($t:ty $(, $($generics:tt)*)?) => {
        impl $(<$($generics)*>)? Group for $t {
            const SIZE: Size = Size::Fixed(<$t as Field>::BYTES);
            #[inline(always)]
            fn encoded_bytes(&self) -> usize {
                <$t as Field>::BYTES
            }
            #[inline(always)]
            fn encode(&self, out: &mut [u8]) {
                self.put(out);
            }
            #[inline(always)]
            fn decode(bytes: &[u8]) -> Self {
                <$t as Field>::take(bytes)
            }
            const PLAIN: Plain<Self> = <$t as Field>::PLAIN;
        }
        $crate::single_group_row!($t $(, $($generics)*)?);
    };
}

/// Lets a type that is a [`Group`](crate::Group) be a row by itself.
#[macro_export]
macro_rules! single_group_row {
    ($t:ty $(, $($generics:tt)*)?) => {
        impl $(<$($generics)*>)? $crate::Row for $t {
            const SIZES: &'static [$crate::Size] = &[<$t as $crate::Group>::SIZE];
            fn names() -> Vec<&'static str> {
                vec![<$t as $crate::Group>::name()]
            }
            #[inline(always)]
            fn decode_row(row: &$crate::RowReader<'_>) -> Self {
                row.group::<$t>(0)
            }
            #[inline(always)]
            fn encode_row(&self, row: &mut impl $crate::RowWriter) {
                row.group(0, self);
            }
            const PLAIN: $crate::Plain<Self> = <$t as $crate::Group>::PLAIN;
        }
        impl $(<$($generics)*>)? $crate::HasGroup<0> for $t {
            type Group = $t;
        }
    };
}

impl Field for u8 {
    const BYTES: usize = 1;
    #[inline(always)]
    fn put(&self, out: &mut [u8]) {
        out[0] = *self;
    }
    #[inline(always)]
    fn take(bytes: &[u8]) -> Self {
        bytes[0]
    }
    #[inline(always)]
    fn put_all(fields: &[Self], out: &mut [u8]) {
        out.copy_from_slice(fields);
    }
    const PLAIN: Plain<Self> = Plain(true, PhantomData);
}
fixed_group!(u8);

number_fields!(u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Field for bool {
    const BYTES: usize = 1;
    #[inline(always)]
    fn put(&self, out: &mut [u8]) {
        out[0] = *self as u8;
    }
    #[inline(always)]
    fn take(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}
fixed_group!(bool);

impl<F: Field, const N: usize> Field for [F; N] {
    const BYTES: usize = F::BYTES * N;
    #[inline(always)]
    fn put(&self, out: &mut [u8]) {
        F::put_all(self, out);
    }
    #[inline(always)]
    fn take(bytes: &[u8]) -> Self {
        if F::PLAIN.0 {
            assert_eq!(bytes.len(), size_of::<Self>());
            // SAFETY: as many bytes are there as it takes, and `Plain` says that they are a value.
            return unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        }
        std::array::from_fn(|index| F::take(&bytes[index * F::BYTES..(index + 1) * F::BYTES]))
    }
    const PLAIN: Plain<Self> = Plain(F::PLAIN.0, PhantomData);
    #[inline(always)]
    fn put_all(fields: &[Self], out: &mut [u8]) {
        F::put_all(fields.as_flattened(), out);
    }
}
fixed_group!([F; N], F: Field, const N: usize);

impl Field for () {
    const BYTES: usize = 0;
    #[inline(always)]
    fn put(&self, _: &mut [u8]) {}
    #[inline(always)]
    fn take(_: &[u8]) -> Self {}
}
fixed_group!(());

macro_rules! tuple_fields {
    ($($name:ident . $index:tt),*) => {
        impl<$($name: Field),*> Field for ($($name,)*) {
            const BYTES: usize = 0 $(+ $name::BYTES)*;
            #[inline(always)]
            fn put(&self, out: &mut [u8]) {
                let rest = out;
                $(let (own, rest) = rest.split_at_mut($name::BYTES); self.$index.put(own);)*
                let _ = rest;
            }
            #[inline(always)]
            #[allow(non_snake_case, reason = "the type parameters' names serve as variables")]
            fn take(bytes: &[u8]) -> Self {
                let rest = bytes;
                $(let (own, rest) = rest.split_at($name::BYTES); let $name = $name::take(own);)*
                let _ = rest;
                ($($name,)*)
            }
        }
    };
}
tuple_fields!(A.0, B.1);
tuple_fields!(A.0, B.1, C.2);
tuple_fields!(A.0, B.1, C.2, D.3);

impl Group for Vec<u8> {
    const SIZE: Size = Size::Variable;
    fn encoded_bytes(&self) -> usize {
        self.len()
    }
    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(self);
    }
    fn decode(bytes: &[u8]) -> Self {
        bytes.to_vec()
    }
}
single_group_row!(Vec<u8>);

impl Group for String {
    const SIZE: Size = Size::Variable;
    fn encoded_bytes(&self) -> usize {
        self.len()
    }
    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Self {
        String::from_utf8_lossy(bytes).into_owned()
    }
}
single_group_row!(String);

/// One of the fields of a column group: which it is in a value, and where it is in the value's bytes. Two of one group are the same place in
/// every value. What [`columns`] answers for groups that are made with [`column_group!`](crate::column_group).
pub struct Column<G, F> {
    at_bytes: usize,
    field: fn(&mut G) -> &mut F,
}

impl<G, F> Clone for Column<G, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G, F> Copy for Column<G, F> {}

impl<G, F> std::fmt::Debug for Column<G, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Column(at byte {})", self.at_bytes)
    }
}

impl<G, F> Column<G, F> {
    /// The field that begins at this byte of an encoded value, and is encoded there as [`Field::put`] does.
    #[doc(hidden)]
    pub const fn new(at_bytes: usize, field: fn(&mut G) -> &mut F) -> Self {
        Column { at_bytes, field }
    }

    /// Where it begins in the bytes of a value.
    pub const fn at_bytes(self) -> usize {
        self.at_bytes
    }

    /// Finds it in a value.
    pub const fn field(self) -> fn(&mut G) -> &mut F {
        self.field
    }
}

impl<F: Field + Group> Column<F, F> {
    /// Of a group that is nothing but one field: all of it.
    pub const fn whole() -> Self {
        Column::new(0, |field| field)
    }
}

/// A column group whose columns are known by name.
pub trait HasColumns: Group {
    /// A struct with a [`Column`] for each field, which has the field's name.
    type Columns;
    /// The columns.
    const COLUMNS: Self::Columns;
}

/// The columns of a group that is made with [`column_group!`](crate::column_group), by the names of its fields.
///
/// ```
/// noonmark::column_group! { pub struct Account { pub owner: [u8; 16], pub balance: i64 } }
/// assert_eq!(noonmark::columns::<Account>().balance.at_bytes(), 16);
/// ```
pub const fn columns<G: HasColumns>() -> G::Columns {
    G::COLUMNS
}

/// Declares a struct as a column group: fields of fixed size, under one timestamp.
///
/// Fields are written one after another in the order in which they are declared, and lie in memory so, too. Where that leaves no gaps (numbers of up to
/// eight bytes that begin at multiples of their size, and a whole that is a multiple of the greatest) and all of them are such numbers or arrays of them, most updates
/// change the value where it lies; any other value is read, changed and written. What is told apart so is only how fast it is.
///
/// ```
/// noonmark::column_group! {
///     /// What an account holds.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Account { pub balance: i64, pub owner: [u8; 16] }
/// }
/// # let _ = Account { balance: 1, owner: [0; 16] };
/// ```
#[macro_export]
macro_rules! column_group {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty),* $(,)?
    })*) => {$(
        $(#[$meta])*
        #[repr(C)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type),* }

        impl $crate::Group for $name {
            const SIZE: $crate::Size = $crate::Size::Fixed(0 $(+ <$type as $crate::Field>::BYTES)*);
            #[inline(always)]
            fn encoded_bytes(&self) -> usize {
                0 $(+ <$type as $crate::Field>::BYTES)*
            }
            #[inline(always)]
            fn encode(&self, out: &mut [u8]) {
                let rest = out;
                $(
                    let (own, rest) = rest.split_at_mut(<$type as $crate::Field>::BYTES);
                    $crate::Field::put(&self.$field, own);
                )*
                let _ = rest;
            }
            #[inline(always)]
            fn decode(bytes: &[u8]) -> Self {
                let rest = bytes;
                $(
                    let (own, rest) = rest.split_at(<$type as $crate::Field>::BYTES);
                    let $field = <$type as $crate::Field>::take(own);
                )*
                let _ = rest;
                $name { $($field),* }
            }
            // SAFETY: the macro declares the struct, with these fields.
            const PLAIN: $crate::Plain<Self> = unsafe {
                $crate::Plain::fields(&[$((
                    ::core::mem::offset_of!($name, $field),
                    <$type as $crate::Field>::BYTES,
                    <$type as $crate::Field>::PLAIN.is_plain(),
                )),*])
            };
        }
        $crate::single_group_row!($name);

        const _: () = {
            #[doc(hidden)]
            #[allow(dead_code, missing_docs, unreachable_pub)]
            pub struct Columns { $(pub $field: $crate::Column<$name, $type>),* }

            impl $crate::HasColumns for $name {
                type Columns = Columns;
                const COLUMNS: Columns = {
                    let at = 0;
                    $(
                        let $field = $crate::Column::new(at, |group: &mut $name| &mut group.$field);
                        let at = at + <$type as $crate::Field>::BYTES;
                    )*
                    let _ = at;
                    Columns { $($field),* }
                };
            }
        };
    )*};
}

/// What a table holds under each key: one [`Group`], or a tuple of up to eight.
///
/// A tuple is several groups, each with a timestamp of its own: a row of `(i64, i64)` has two. What takes one group,
/// as [`Transaction::add`](crate::Transaction::add) does, is given [`Table::group`](crate::Table::group) of such a
/// table. Columns that belong together are one struct, made with [`column_group!`](crate::column_group).
pub trait Row: Sized + 'static {
    /// The sizes of its groups.
    const SIZES: &'static [Size];
    /// What its groups are called in explanations.
    fn names() -> Vec<&'static str>;
    /// Puts the groups together.
    fn decode_row(row: &RowReader<'_>) -> Self;
    /// Takes the groups apart.
    fn encode_row(&self, row: &mut impl RowWriter);
    /// Whether it is in memory what its groups' words are in a cell.
    #[doc(hidden)]
    const PLAIN: Plain<Self> = Plain::unknown();
}

/// That group number `N` of a row has this type.
pub trait HasGroup<const N: usize>: Row {
    /// The type of the group.
    type Group: Group + Row;
}

/// Receives the groups of a row.
pub trait RowWriter {
    /// Group number `index`.
    fn group<G: Group>(&mut self, index: usize, value: &G);
}

/// Some neighbouring groups of a row, as read by a transaction.
pub struct RowReader<'a> {
    /// The words of the groups, one after another. Of a group that lies behind a pointer: the pointer,
    /// read as a pair with its version (or to this transaction's own value) by a transaction that has
    /// been pinned since.
    words: &'a [u64],
    sizes: &'a [Size],
}

impl<'a> RowReader<'a> {
    /// Groups of these sizes, whose words are as the field says.
    #[inline(always)]
    pub(crate) fn new(words: &'a [u64], sizes: &'a [Size]) -> Self {
        RowReader { words, sizes }
    }

    /// The same without the first groups.
    pub(crate) fn after(&self, groups: usize) -> Self {
        let (before, sizes) = self.sizes.split_at(groups);
        RowReader { words: &self.words[words_of(before)..], sizes }
    }

    /// Group number `index` of those that were read.
    #[inline(always)]
    pub fn group<G: Group>(&self, index: usize) -> G {
        G::decode(self.bytes(index))
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        let at = words_of(&self.sizes[..index]);
        match self.sizes[index] {
            Size::Fixed(bytes) if bytes <= INLINE_BYTES_MAX => {
                &crate::record::as_bytes(&self.words[at..at + bytes.div_ceil(8)])[..bytes]
            }
            // SAFETY: see the field.
            _ => unsafe { crate::record::boxed_bytes(self.words[at]) },
        }
    }
}

macro_rules! tuple_row {
    ($($name:ident . $index:tt),*) => {
        impl<$($name: Group),*> Row for ($($name,)*) {
            const SIZES: &'static [Size] = &[$($name::SIZE),*];
            fn names() -> Vec<&'static str> {
                vec![$($name::name()),*]
            }
            #[inline(always)]
            fn decode_row(row: &RowReader<'_>) -> Self {
                ($(row.group::<$name>($index),)*)
            }
            #[inline(always)]
            fn encode_row(&self, row: &mut impl RowWriter) {
                $(row.group($index, &self.$index);)*
            }
            const PLAIN: Plain<Self> = Plain(true $(&& {
                // Each begins with a word, and where the one before ends.
                let (before, _) = Self::SIZES.split_at($index);
                let at_bytes = offset_of!(Self, $index);
                $name::PLAIN.0 && at_bytes == bytes_of(before) && at_bytes == 8 * words_of(before)
            })*, PhantomData);
        }
        tuple_row!(@has ($($name),*) $($name . $index),*);
    };
    (@has $all:tt $($name:ident . $index:tt),*) => {
        $(tuple_row!(@one $all $name . $index);)*
    };
    (@one ($($all:ident),*) $name:ident . $index:tt) => {
        impl<$($all: Group + Row),*> HasGroup<$index> for ($($all,)*) {
            type Group = $name;
        }
    };
}
tuple_row!(A.0);
tuple_row!(A.0, B.1);
tuple_row!(A.0, B.1, C.2);
tuple_row!(A.0, B.1, C.2, D.3);
tuple_row!(A.0, B.1, C.2, D.3, E.4);
tuple_row!(A.0, B.1, C.2, D.3, E.4, F.5);
tuple_row!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple_row!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{as_bytes, as_bytes_mut};

    column_group! {
        #[derive(Clone, Copy, Debug, PartialEq)]
        struct Level { quantity: i32, ytd: u32, counts: [u16; 4] }
        struct Info { texts: [[u8; 3]; 2], data: [u8; 5] }
        struct WithBool { ytd: u32, is_open: bool, rest: [u8; 3] }
        struct WithPadding { open: u8, ytd: u32 }
        struct Wide { ytd: u128 }
        struct Nothing {}
    }

    #[test]
    fn what_is_plain_lies_in_memory_as_it_is_written() {
        fn is_plain<R: Row>() -> bool {
            R::PLAIN.is_plain()
        }
        assert!(is_plain::<Level>() && is_plain::<Info>() && is_plain::<Nothing>() && is_plain::<[u16; 3]>());
        assert!(!is_plain::<WithBool>() && !is_plain::<WithPadding>() && !is_plain::<Vec<u8>>());
        // Of a tuple each group begins with a word, whatever the compiler would have, and none leaves a gap.
        assert!(is_plain::<(Level, Info)>() && is_plain::<(u64, u64, Info)>());
        assert!(!is_plain::<(Info, u64)>() && !is_plain::<([u32; 3], u64)>());
        assert!(!is_plain::<(u32, u32)>() && !is_plain::<(Level, WithBool)>());
        let wide = <Wide as Row>::PLAIN;
        assert!(wide.is_plain() && !wide.lies_in_words());

        let level = Level { quantity: -5, ytd: 6, counts: [1, 2, 3, 4] };
        let mut words = [0; 2];
        level.encode(as_bytes_mut(&mut words));
        change_plain(&mut words, |seen: &mut Level| {
            assert_eq!(*seen, level);
            seen.counts[3] = 77;
        });
        assert_eq!(Level::decode(as_bytes(&words)), Level { counts: [1, 2, 3, 77], ..level });
    }

    #[test]
    fn padding_of_a_row_that_was_put_in_whole_becomes_bytes_again() {
        assert_eq!((size_of::<(Level, Info)>(), words_of(<(Level, Info)>::SIZES) * 8), (28, 32));
        let mut words = [u64::MAX; 4];
        change_plain(&mut words, |row: &mut (Level, Info)| {
            *row = (
                Level { quantity: 1, ytd: 2, counts: [3; 4] },
                Info { texts: [*b"abc", *b"def"], data: *b"12345" },
            );
        });
        assert_eq!(&as_bytes(&words)[16..28], b"abcdef12345\0");

        let mut words = [u64::MAX; 4];
        let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            change_plain(&mut words, |row: &mut (Level, Info)| {
                row.1.data = [0; 5];
                panic!("as it should");
            });
        }));
        assert!(left.is_err());
        assert_eq!(as_bytes(&words)[22..28], [0; 6]);
    }

    #[test]
    #[should_panic(expected = "lies_in_words")]
    fn what_is_not_plain_is_not_changed_where_it_is() {
        change_plain(&mut [0; 1], |row: &mut WithBool| row.ytd = 1);
    }
}
