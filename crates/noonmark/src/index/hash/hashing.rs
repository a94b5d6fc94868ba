//! How keys are hashed, and what stands in a table for them.
//!
//! Hashes are made of *folded multiplications*: each bit of a factor reaches the middle of the
//! product, and folding brings the middle to both ends. With a constant factor one is not enough
//! (of numbers counted up and shifted by 15 or 37 bits, seven in ten lines stay empty where chance
//! leaves four). With the key in both factors, turned by half a word in one, it is as even as chance
//! for all strides and shifts that were tried, and two such multiplications are no better.
//! `hashes_spread_over_shards_and_lines` holds it to that.
//!
//! What it does not do: withstand somebody who chooses keys that collide.

use super::super::head;

/// How keys of a class are hashed and told apart.
pub(super) trait Hashed {
    /// The hash of a key, and the tag that stands in the table for it.
    fn hash(key: &[u8]) -> (u64, u64);
    /// The hash that belongs to a tag.
    fn hash_of_tag(tag: u64) -> u64;
    /// Whether equal tags mean equal keys.
    const EXACT: bool;
}

/// Keys of at most 8 bytes, all equally long: the tag is the key.
pub(super) struct Short;
/// All others: the tag is the hash.
pub(super) struct Long;

/// Multiplies, and folds the halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Odd, half of their bits set, without pattern: the fractional parts of the roots of 2 and 3.
const ROOT_2: u64 = 0x6a09_e667_f3bc_c909;
const ROOT_3: u64 = 0xbb67_ae85_84ca_a73b;

impl Hashed for Short {
    const EXACT: bool = true;
    #[inline(always)]
    fn hash(key: &[u8]) -> (u64, u64) {
        debug_assert!(key.len() <= 8);
        let tag = head(key, 0);
        (Self::hash_of_tag(tag), tag)
    }
    #[inline(always)]
    fn hash_of_tag(tag: u64) -> u64 {
        fold(tag ^ ROOT_3, (tag ^ ROOT_2).rotate_left(32))
    }
}

impl Hashed for Long {
    const EXACT: bool = false;
    /// Two words with each multiplication, which the result of the one before goes into.
    #[inline(always)]
    fn hash(key: &[u8]) -> (u64, u64) {
        let mut hash = ROOT_3 ^ key.len() as u64;
        let mut rest = key;
        while rest.len() > 16 {
            let (first, behind) = rest.split_at(16);
            hash = fold(head(first, 0) ^ ROOT_2, head(first, 8) ^ hash);
            rest = behind;
        }
        let last = rest.len().saturating_sub(8);
        hash = fold(head(&rest[..rest.len() - last], 0) ^ ROOT_2, head(&rest[last..], 0) ^ hash);
        hash = fold(hash ^ ROOT_3, ROOT_2);
        (hash, hash)
    }
    #[inline(always)]
    fn hash_of_tag(tag: u64) -> u64 {
        tag
    }
}
