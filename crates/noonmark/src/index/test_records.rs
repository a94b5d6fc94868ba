//! Records, and what else the tests of both indexes need.

use super::*;
use noonmark_core::{Epochs, Limbo, SlotId};

/// A record that holds nothing but its key, laid out as [`crate::record`] says.
pub(super) fn make_record(key: &[u8]) -> RecordPtr {
    let words = vec![0u64; 1 + key.len().div_ceil(8)].into_boxed_slice();
    let address = NonNull::from(Box::leak(words)).cast::<u64>();
    // SAFETY: the block was just made, and is long enough for the header and the key.
    unsafe { make_record_at(address, key) }
}

/// The same in memory that there is already.
///
/// # Safety
/// There is room for the header and the key, and nobody else refers to it.
pub(super) unsafe fn make_record_at(address: NonNull<u64>, key: &[u8]) -> RecordPtr {
    // SAFETY: promised by the caller.
    unsafe {
        address.cast::<u32>().write(8);
        address.cast::<u32>().add(1).write(key.len() as u32);
        std::ptr::copy_nonoverlapping(key.as_ptr(), address.cast::<u8>().add(8).as_ptr(), key.len());
    }
    RecordPtr::new(address)
}

/// Frees a record of [`make_record`].
pub(super) fn free_record(record: RecordPtr) {
    // SAFETY: tests free a record once, when nobody can find it any more.
    unsafe {
        let words = 1 + record.key().len().div_ceil(8);
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(record.as_ptr(), words)));
    }
}

/// Retires a record of [`make_record`].
pub(super) fn retire_record(record: RecordPtr, limbo: &mut Limbo, epochs: &Epochs) {
    // SAFETY: its caller hands on the address of a record that `make_record` made, once, when nobody refers to it any more.
    unsafe fn free(address: *mut u8, _: usize) {
        if let Some(address) = NonNull::new(address.cast::<u64>()) {
            free_record(RecordPtr::new(address));
        }
    }
    // SAFETY: any thread may free it, once.
    limbo.retire(epochs, unsafe { noonmark_core::Garbage::new(record.as_ptr().cast(), 0, free) });
}

/// The shape of records that hold nothing but a key of this length.
pub(super) fn shape(key_bytes: usize) -> Option<RecordShape> {
    let block = std::alloc::Layout::from_size_align(16, 16).expect("a power of two");
    Some(RecordShape { key_bytes, block })
}

/// A record in the memory that the index gave, which is of that shape, or of its own.
pub(super) fn make(key: &[u8], memory: Option<NonNull<u64>>) -> RecordPtr {
    // SAFETY: the memory is of the shape above, for keys of at most 8 bytes, and nobody else's.
    memory.map_or_else(|| make_record(key), |memory| unsafe { make_record_at(memory, key) })
}

/// An index that may have memory of its own for records.
pub(super) trait GivesMemory {
    /// # Safety
    /// Nobody refers to the record any more, and the index has forgotten it.
    unsafe fn take_back(&self, record: RecordPtr) -> bool;
}

impl GivesMemory for HashIndex {
    unsafe fn take_back(&self, record: RecordPtr) -> bool {
        // SAFETY: passed on.
        unsafe { HashIndex::take_back(self, record) }
    }
}

impl GivesMemory for OrderedIndex {
    unsafe fn take_back(&self, record: RecordPtr) -> bool {
        // SAFETY: passed on.
        unsafe { OrderedIndex::take_back(self, record) }
    }
}

/// Retires a record of [`make`] that the index has forgotten. The epochs must be gone before the index is, or moves.
pub(super) fn retire<I: GivesMemory>(index: &I, record: RecordPtr, limbo: &mut Limbo, epochs: &Epochs) {
    unsafe fn free<I: GivesMemory>(address: *mut u8, index: usize) {
        if let Some(address) = NonNull::new(address.cast::<u64>()) {
            // SAFETY: promised by the caller of `retire`.
            let index = unsafe { &*std::ptr::with_exposed_provenance::<I>(index) };
            let record = RecordPtr::new(address);
            // SAFETY: a grace period has passed.
            if !unsafe { index.take_back(record) } {
                free_record(record);
            }
        }
    }
    let address = std::ptr::from_ref(index).expose_provenance();
    // SAFETY: any thread may free it, once.
    limbo.retire(epochs, unsafe { noonmark_core::Garbage::new(record.as_ptr().cast(), address, free::<I>) });
}

/// The key of a record that the test knows to be alive.
pub(super) fn key_of<'a>(record: RecordPtr) -> &'a [u8] {
    // SAFETY: the caller is pinned, or the record is not yet retired.
    unsafe { record.key() }
}

/// A seeded generator (SplitMix64).
#[derive(Clone)]
pub(super) struct Dice(pub u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// A name, a class, and how to draw a key.
pub(super) type KeyKind = (&'static str, KeyClass, fn(&mut Dice) -> Vec<u8>);

/// The kinds of keys that the model tests draw, by name, class, and how to draw one.
pub(super) fn key_kinds() -> Vec<KeyKind> {
    vec![
        ("u64, dense", KeyClass::Fixed8, |dice| dice.below(3000).to_be_bytes().to_vec()),
        ("u64, scattered", KeyClass::Fixed8, |dice| {
            (dice.below(3000).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes().to_vec()
        }),
        ("u64, extremes", KeyClass::Fixed8, |dice| {
            let near = dice.below(600);
            let key = if dice.below(2) == 0 { near } else { u64::MAX - near };
            key.to_be_bytes().to_vec()
        }),
        ("u64, in groups", KeyClass::Fixed8, |dice| {
            (dice.below(5) << 32 | dice.below(600)).to_be_bytes().to_vec()
        }),
        ("u32", KeyClass::Fixed8, |dice| (dice.below(3000) as u32).to_be_bytes().to_vec()),
        ("u16", KeyClass::Fixed8, |dice| (dice.below(2000) as u16).to_be_bytes().to_vec()),
        ("nothing", KeyClass::Fixed8, |_| Vec::new()),
        ("pairs of u64", KeyClass::Fixed16, |dice| {
            let pair = u128::from(dice.below(3)) << 64 | u128::from(dice.below(1000));
            pair.to_be_bytes().to_vec()
        }),
        ("u128, scattered", KeyClass::Fixed16, |dice| {
            let key = u128::from(dice.below(2000)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            key.to_be_bytes().to_vec()
        }),
        ("twelve bytes", KeyClass::Fixed16, |dice| {
            let mut key = b"abcdefgh".to_vec();
            key.extend((dice.below(2000) as u32).to_be_bytes());
            key
        }),
        ("short strings", KeyClass::Bytes, |dice| {
            let len = dice.below(6);
            (0..len).map(|_| dice.below(3) as u8).collect()
        }),
        ("runs of zeros", KeyClass::Bytes, |dice| {
            let mut key = vec![0; dice.below(300) as usize];
            key.extend((0..dice.below(2)).map(|_| 1));
            key
        }),
        ("long common prefixes", KeyClass::Bytes, |dice| {
            let mut key = vec![b'p'; [0, 1, 7, 8, 9, 40, 1000][dice.below(7) as usize]];
            key.extend(dice.below(100).to_string().bytes());
            key
        }),
        ("names", KeyClass::Bytes, |dice| format!("user:{:08}", dice.below(3000)).into_bytes()),
    ]
}

/// Slots for tests.
pub(super) fn slot(index: usize) -> SlotId {
    SlotId::new(index).expect("few slots")
}
