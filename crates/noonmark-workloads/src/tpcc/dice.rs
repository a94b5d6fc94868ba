//! The random draws of [TPC-C 2.1.6, 4.3.2]: uniform, non-uniform (`NURand`), strings and last names.
//!
//! Rows are drawn with dice that a seed and a place (a table and a key) decide, so that any row of the
//! population can be made alone, by any thread, in any order, and is always the same.
//!
//! What it does not do: generate random bits; that is [`random`](crate::random)'s.

use super::schema::ORIGINAL;
use crate::random::{Random, split_mix};

/// Draws what the standard wants drawn.
#[derive(Clone, Debug)]
pub struct Dice {
    random: Random,
}

/// The characters of an a-string [TPC-C 4.3.2.2]: at least 26 lower, 26 upper case letters and the digits.
/// 64 of them, so that six random bits choose one.
const ALPHANUMERIC: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";

/// The syllables of a last name [TPC-C 4.3.2.3].
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

impl From<Random> for Dice {
    fn from(random: Random) -> Self {
        Dice { random }
    }
}

impl Dice {
    /// The dice of one place under a seed: `what` says which kind of thing, `key` which one.
    pub fn at(seed: u64, what: u64, key: u64) -> Self {
        let mut mixed = what;
        Random::new(seed ^ split_mix(&mut mixed), key).into()
    }

    /// A number in `low..=high`, each as likely as another [TPC-C 2.1.5].
    #[inline]
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        self.random.between(low.into(), high.into()) as u32
    }

    /// True `percent` times in a hundred.
    #[inline]
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// `NURand(a, low, high)` with its constant `c` [TPC-C 2.1.6].
    #[inline]
    pub fn non_uniform(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let drawn = u64::from(self.uniform(0, a) | self.uniform(low, high)) + u64::from(c);
        (drawn % (u64::from(high - low) + 1)) as u32 + low
    }

    /// An a-string of `low..=high` characters, zero-padded to its column's width [TPC-C 4.3.2.2].
    ///
    /// `high` must not exceed the width.
    pub fn a_string<const N: usize>(&mut self, low: u32, high: u32) -> [u8; N] {
        let mut text = [0; N];
        self.fill_alphanumeric(&mut text, low, high);
        text
    }

    /// An n-string of `low..=high` digits, zero-padded to its column's width [TPC-C 4.3.2.2].
    pub fn n_string<const N: usize>(&mut self, low: u32, high: u32) -> [u8; N] {
        let mut text = [0; N];
        let len = self.uniform(low, high) as usize;
        for byte in &mut text[..len] {
            *byte = b'0' + self.uniform(0, 9) as u8;
        }
        text
    }

    /// An a-string that, ten times in a hundred, holds `ORIGINAL` somewhere within [TPC-C 4.3.3.1].
    pub fn data_string<const N: usize>(&mut self, low: u32, high: u32) -> [u8; N] {
        let mut text = [0; N];
        let len = self.fill_alphanumeric(&mut text, low, high);
        if self.percent(10) {
            let at = self.uniform(0, (len - ORIGINAL.len()) as u32) as usize;
            text[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        text
    }

    /// A zip code: an n-string of four and `11111` [TPC-C 4.3.2.7].
    pub fn zip(&mut self) -> [u8; 9] {
        let mut zip = *b"000011111";
        for byte in &mut zip[..4] {
            *byte = b'0' + self.uniform(0, 9) as u8;
        }
        zip
    }

    /// Puts `items` in a random order, each order as likely as another (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.uniform(0, end as u32) as usize;
            items.swap(end, other);
        }
    }

    /// Fills the beginning of `text` with `low..=high` characters; answers how many.
    fn fill_alphanumeric(&mut self, text: &mut [u8], low: u32, high: u32) -> usize {
        let len = self.uniform(low, high) as usize;
        for ten in text[..len].chunks_mut(10) {
            let mut bits = self.random.bits();
            for byte in ten {
                *byte = ALPHANUMERIC[(bits & 63) as usize];
                bits >>= 6;
            }
        }
        len
    }
}

/// The last name of a number in `0..=999`: a syllable for each decimal digit [TPC-C 4.3.2.3].
pub fn last_name(number: u32) -> [u8; 16] {
    let mut name = [0; 16];
    let mut len = 0;
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        name[len..len + syllable.len()].copy_from_slice(syllable);
        len += syllable.len();
    }
    name
}

/// The constants `C` of `NURand`, one for each use of it [TPC-C 2.1.6.1].
///
/// Invariant: `last_load` and `last_run` differ by 65 to 119, but by neither 96 nor 112.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names, when the population is made.
    pub last_load: u32,
    /// For last names, when the terminals ask for customers.
    pub last_run: u32,
    /// For customers by number.
    pub customer: u32,
    /// For items.
    pub item: u32,
}

impl Constants {
    /// The constants of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::at(seed, 0x43, 0);
        let last_load = dice.uniform(0, 255);
        let last_run = loop {
            let candidate = dice.uniform(0, 255);
            if Self::delta_allowed(last_load, candidate) {
                break candidate;
            }
        };
        Constants { last_load, last_run, customer: dice.uniform(0, 1023), item: dice.uniform(0, 8191) }
    }

    /// Whether the two constants for last names are as far apart as they must be [TPC-C 2.1.6.1].
    pub fn delta_allowed(load: u32, run: u32) -> bool {
        let delta = load.abs_diff(run);
        (65..=119).contains(&delta) && delta != 96 && delta != 112
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_draws_stay_within_and_reach_both_ends() {
        let mut dice = Dice::at(1, 0, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[dice.uniform(11, 20) as usize - 11] += 1;
        }
        for count in counts {
            assert!((9_500..10_500).contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn one_place_draws_the_same_and_two_places_do_not() {
        let draw = |what, key| Dice::at(7, what, key).uniform(0, u32::MAX);
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), Dice::at(8, 1, 2).uniform(0, u32::MAX));
    }

    /// The or of two draws has more ones than either: of NURand(255, 0, 999) - C, the numbers whose low eight
    /// bits are all ones are drawn far more often than those whose low eight bits are all zeros.
    #[test]
    fn tpcc_2_1_6_nurand_is_skewed_by_the_or_and_shifted_by_c() {
        let c = 123;
        let mut counts = vec![0u32; 1000];
        let mut dice = Dice::at(2, 0, 0);
        let draws = 1_000_000;
        for _ in 0..draws {
            counts[dice.non_uniform(255, c, 0, 999) as usize] += 1;
        }
        // Exactly: P(n) for n = x | y, x uniform in 0..256, y uniform in 0..1000; then shifted by c.
        let mut expected = vec![0f64; 1000];
        for x in 0..256u32 {
            for y in 0..1000u32 {
                expected[(((x | y) + c) % 1000) as usize] += f64::from(draws) / 256_000.0;
            }
        }
        let chi2: f64 =
            counts.iter().zip(&expected).map(|(&n, e)| (f64::from(n) - e).powi(2) / e.max(1.0)).sum();
        // 999 degrees of freedom: mean 999, deviation 45; this seed's value is fixed, so the test cannot flicker.
        assert!(chi2 < 1_250.0, "chi-square {chi2}");
        assert!(counts[((255 + c) % 1000) as usize] > 20 * counts[c as usize].max(1));
    }

    #[test]
    fn tpcc_4_3_2_3_last_names_are_made_of_syllables() {
        assert_eq!(&last_name(371)[..], b"PRICALLYOUGHT\0\0\0");
        assert_eq!(&last_name(40)[..], b"BARPRESBAR\0\0\0\0\0\0");
        assert_eq!(&last_name(777)[..], b"CALLYCALLYCALLY\0");
    }

    #[test]
    fn tpcc_2_1_6_1_the_two_constants_for_last_names_are_far_enough_apart() {
        for seed in 0..500 {
            let constants = Constants::of(seed);
            let delta = constants.last_load.abs_diff(constants.last_run);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{constants:?}");
            assert!(constants.last_load <= 255 && constants.last_run <= 255);
            assert!(constants.customer <= 1023 && constants.item <= 8191);
        }
    }

    #[test]
    fn strings_have_their_lengths_and_characters() {
        let mut dice = Dice::at(3, 0, 0);
        for _ in 0..1000 {
            let text: [u8; 20] = dice.a_string(10, 20);
            let len = text.iter().position(|&b| b == 0).unwrap_or(20);
            assert!((10..=20).contains(&len) && text[..len].iter().all(|b| ALPHANUMERIC.contains(b)));
            let zip = dice.zip();
            assert!(zip[..4].iter().all(u8::is_ascii_digit) && &zip[4..] == b"11111");
            let phone: [u8; 16] = dice.n_string(16, 16);
            assert!(phone.iter().all(u8::is_ascii_digit));
        }
    }
}
