//! Keys: typed above, order-preserving bytes below.
//!
//! Two keys compare as their bytes do (unsigned, shorter first), so indexes know only bytes. Integers
//! are big-endian, with the sign bit turned over if they have one. Within a tuple, strings and byte
//! vectors are escaped and ended by two zero bytes so that what follows cannot change their order;
//! alone, they stand as they are.
//!
//! | key type | bytes | index class |
//! |---|---|---|
//! | all parts of fixed size, at most 8 bytes together | that many | fastest: one word |
//! | all parts of fixed size, at most 16 bytes together | that many | fast: two words |
//! | anything else | up to 64 KiB | first bytes inline, ties settled in the record |

use std::mem::size_of;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;

const INLINE: usize = 48;

/// A key's bytes, on the stack while they are few.
#[derive(Clone)]
pub struct KeyBytes {
    inline: [u8; INLINE],
    inline_len: usize,
    /// All the bytes, once they are more than `INLINE`; empty before.
    spilled: Vec<u8>,
}

impl KeyBytes {
    /// No bytes yet.
    #[inline(always)]
    pub fn new() -> Self {
        KeyBytes { inline: [0; INLINE], inline_len: 0, spilled: Vec::new() }
    }

    /// The bytes of one key.
    #[inline(always)]
    pub fn of<K: Key>(key: &impl AsKey<K>) -> Self {
        let mut bytes = KeyBytes::new();
        key.write_key(&mut bytes);
        bytes
    }

    /// Adds bytes at the end.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() && self.inline_len + bytes.len() <= INLINE {
            self.inline[self.inline_len..self.inline_len + bytes.len()].copy_from_slice(bytes);
            self.inline_len += bytes.len();
        } else {
            self.push_spilled(bytes);
        }
    }

    #[cold]
    fn push_spilled(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.inline_len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// The bytes.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.inline_len] } else { &self.spilled }
    }
}

impl Default for KeyBytes {
    fn default() -> Self {
        Self::new()
    }
}

/// A type that can be a table's key.
///
/// Implemented for integers, `bool`, byte arrays, `Vec<u8>`, `String`, and tuples of up to six of
/// these. To implement it for a type of your own, go through one of them.
pub trait Key: Clone + std::fmt::Debug + 'static {
    /// How many bytes every key of this type has, if all have the same number. A key that has another is not put in
    /// ([`AbortKind::TooLong`](crate::AbortKind::TooLong)), and may be taken for one that it begins like.
    const FIXED_BYTES: Option<usize>;

    /// Adds the bytes of a key that stands alone.
    fn write(&self, out: &mut KeyBytes);

    /// Calls `f` with the bytes of a key that stands alone. Integers and arrays do without a buffer.
    #[inline(always)]
    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = KeyBytes::new();
        self.write(&mut bytes);
        f(bytes.as_slice())
    }

    /// Adds the bytes of a key that something else follows; nothing after them may change how they
    /// compare.
    #[inline(always)]
    fn write_delimited(&self, out: &mut KeyBytes) {
        self.write(out);
    }

    /// The key with these bytes; `None` if there is none.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// The key that begins these bytes, written by [`Key::write_delimited`], and the rest.
    #[inline]
    fn read_delimited(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(Self::FIXED_BYTES?)?;
        Some((Self::read(own)?, rest))
    }
}

/// Something that names a key of type `K`: the key, a reference to it, or its borrowed form.
pub trait AsKey<K: Key> {
    /// Adds the key's bytes.
    fn write_key(&self, out: &mut KeyBytes);

    /// Calls `f` with the key's bytes.
    #[inline(always)]
    fn with_key<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = KeyBytes::new();
        self.write_key(&mut bytes);
        f(bytes.as_slice())
    }
}

impl<K: Key> AsKey<K> for K {
    #[inline(always)]
    fn write_key(&self, out: &mut KeyBytes) {
        self.write(out);
    }
    #[inline(always)]
    fn with_key<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        self.with_bytes(f)
    }
}

impl<K: Key> AsKey<K> for &K {
    #[inline(always)]
    fn write_key(&self, out: &mut KeyBytes) {
        (**self).write(out);
    }
    #[inline(always)]
    fn with_key<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        (**self).with_bytes(f)
    }
}

impl AsKey<String> for &str {
    #[inline(always)]
    fn write_key(&self, out: &mut KeyBytes) {
        out.push(self.as_bytes());
    }
}

impl AsKey<Vec<u8>> for &[u8] {
    #[inline(always)]
    fn write_key(&self, out: &mut KeyBytes) {
        out.push(self);
    }
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl Key for $t {
            const FIXED_BYTES: Option<usize> = Some(size_of::<$t>());
            #[inline(always)]
            fn write(&self, out: &mut KeyBytes) {
                out.push(&self.to_be_bytes());
            }
            #[inline(always)]
            fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
                f(&self.to_be_bytes())
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<Self> {
                Some(<$t>::from_be_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
unsigned!(u8, u16, u32, u64, u128);

macro_rules! signed {
    ($($t:ty => $u:ty),*) => {$(
        impl Key for $t {
            const FIXED_BYTES: Option<usize> = Some(size_of::<$t>());
            #[inline(always)]
            fn write(&self, out: &mut KeyBytes) {
                // Turning the sign bit over puts the negative ones first.
                out.push(&(*self as $u ^ <$t>::MIN as $u).to_be_bytes());
            }
            #[inline(always)]
            fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
                f(&(*self as $u ^ <$t>::MIN as $u).to_be_bytes())
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<Self> {
                Some((<$u>::from_be_bytes(bytes.try_into().ok()?) ^ <$t>::MIN as $u) as $t)
            }
        }
    )*};
}
signed!(i8 => u8, i16 => u16, i32 => u32, i64 => u64, i128 => u128);

impl Key for bool {
    const FIXED_BYTES: Option<usize> = Some(1);
    #[inline(always)]
    fn write(&self, out: &mut KeyBytes) {
        out.push(&[*self as u8]);
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl<const N: usize> Key for [u8; N] {
    const FIXED_BYTES: Option<usize> = Some(N);
    #[inline(always)]
    fn write(&self, out: &mut KeyBytes) {
        out.push(self);
    }
    #[inline(always)]
    fn with_bytes<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        f(self)
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

/// Zero bytes become `0 255`, and `0 0` ends the string: a string sorts before its extensions.
fn write_escaped(bytes: &[u8], out: &mut KeyBytes) {
    for (index, part) in bytes.split(|&b| b == 0).enumerate() {
        if index > 0 {
            out.push(&[0, 255]);
        }
        out.push(part);
    }
    out.push(&[0, 0]);
}

fn read_escaped(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|&b| b == 0)?;
        out.extend_from_slice(&rest[..zero]);
        match rest.get(zero + 1)? {
            0 => return Some((out, &rest[zero + 2..])),
            255 => out.push(0),
            _ => return None,
        }
        rest = &rest[zero + 2..];
    }
}

impl Key for Vec<u8> {
    const FIXED_BYTES: Option<usize> = None;
    fn write(&self, out: &mut KeyBytes) {
        out.push(self);
    }
    fn write_delimited(&self, out: &mut KeyBytes) {
        write_escaped(self, out);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
    fn read_delimited(bytes: &[u8]) -> Option<(Self, &[u8])> {
        read_escaped(bytes)
    }
}

impl Key for String {
    const FIXED_BYTES: Option<usize> = None;
    fn write(&self, out: &mut KeyBytes) {
        out.push(self.as_bytes());
    }
    fn write_delimited(&self, out: &mut KeyBytes) {
        write_escaped(self.as_bytes(), out);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
    fn read_delimited(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = read_escaped(bytes)?;
        Some((String::from_utf8(own).ok()?, rest))
    }
}

/// The sum, if all parts have a fixed size.
const fn sum_fixed(parts: &[Option<usize>]) -> Option<usize> {
    let mut sum = 0;
    let mut index = 0;
    while index < parts.len() {
        match parts[index] {
            Some(bytes) => sum += bytes,
            None => return None,
        }
        index += 1;
    }
    Some(sum)
}

macro_rules! tuple {
    ($($name:ident . $index:tt),*) => {
        impl<$($name: Key),*> Key for ($($name,)*) {
            const FIXED_BYTES: Option<usize> = sum_fixed(&[$($name::FIXED_BYTES),*]);
            #[inline(always)]
            fn write(&self, out: &mut KeyBytes) {
                $(self.$index.write_delimited(out);)*
            }
            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                let (key, rest) = Self::read_delimited(bytes)?;
                rest.is_empty().then_some(key)
            }
            #[inline]
            #[allow(non_snake_case, reason = "the type parameters' names serve as variables")]
            fn read_delimited(bytes: &[u8]) -> Option<(Self, &[u8])> {
                $(let ($name, bytes) = $name::read_delimited(bytes)?;)*
                Some((($($name,)*), bytes))
            }
        }
    };
}
tuple!(A.0);
tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);
tuple!(A.0, B.1, C.2, D.3, E.4);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5);

impl crate::index::KeyClass {
    /// The class of keys with this fixed length, if they have one.
    pub(crate) const fn of(fixed_bytes: Option<usize>) -> Self {
        match fixed_bytes {
            Some(0..=8) => Self::Fixed8,
            Some(9..=16) => Self::Fixed16,
            _ => Self::Bytes,
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    fn bytes<K: Key>(key: &K) -> Vec<u8> {
        KeyBytes::of::<K>(key).as_slice().to_vec()
    }

    fn check<K: Key + Ord + std::fmt::Debug>(mut keys: Vec<K>) {
        keys.sort();
        for pair in keys.windows(2) {
            assert!(bytes(&pair[0]) <= bytes(&pair[1]), "{pair:?}");
        }
        for key in &keys {
            let b = bytes(key);
            assert_eq!(K::read(&b).as_ref(), Some(key));
            if let Some(n) = K::FIXED_BYTES {
                assert_eq!(b.len(), n);
            }
        }
    }

    #[test]
    fn bytes_order_as_keys_do_and_read_back() {
        check(vec![0u64, 1, 255, 256, u64::MAX]);
        check(vec![i64::MIN, -256, -1, 0, 1, i64::MAX]);
        check(vec![i8::MIN, -1, 0, i8::MAX]);
        let strings = ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "a\u{1}", "ab", "b"].map(String::from);
        check(strings.to_vec());
        let pairs: Vec<(String, i32)> =
            strings.iter().flat_map(|s| [-1, 0, 7].map(|n| (s.clone(), n))).collect();
        check(pairs);
        check(vec![
            (vec![0u8], vec![255u8]),
            (vec![0, 255], vec![]),
            (vec![0, 0], vec![1]),
            (vec![], vec![0]),
        ]);
        check(vec![(1u16, 2u8, 3u32, 4u8), (1, 2, 4, 0), (0, 255, u32::MAX, 255)]);
        assert_eq!(<(u16, u8, u32, u8)>::FIXED_BYTES, Some(8));
        let long = "x".repeat(1000);
        assert_eq!(bytes(&long).len(), 1000);
        assert_eq!(KeyBytes::of::<String>(&"abc").as_slice(), b"abc");
    }

    #[test]
    fn wrong_bytes_are_no_key() {
        assert_eq!(u32::read(&[1, 2, 3]), None);
        assert_eq!(bool::read(&[2]), None);
        assert_eq!(String::read(&[0xff]), None);
        assert_eq!(<(u8, u8)>::read(&[1, 2, 3]), None);
        assert_eq!(<(Vec<u8>, u8)>::read(&[1, 0, 7, 1]), None);
        assert_eq!(<(Vec<u8>, u8)>::read(&[1, 0]), None);
    }
}
