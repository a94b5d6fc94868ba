//! The random numbers of workloads: small, fast, and the same on every machine for the same seed.
//!
//! xoshiro256** (Blackman and Vigna, 2018), seeded through SplitMix64 as its authors advise. Every worker has
//! a generator of its own, drawn from the run's seed and the worker's number, so a run's requests do not
//! depend on how threads are scheduled.
//!
//! Not for secrets.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// The next number of a SplitMix64 sequence: also a good way to scatter integers.
pub const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The generator for one of many streams under one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = seed;
        let mut start = split_mix(&mut mixed) ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        // SplitMix64 never gives four zeros in a row, which would be the one bad state.
        Random { state: std::array::from_fn(|_| split_mix(&mut start)) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, each as likely (to within 2^-64); 0 when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included; `low` when they are the wrong way round.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low).and_then(|span| span.checked_add(1)) {
            Some(count) => low + self.below(count),
            None if low == 0 && high == u64::MAX => self.bits(),
            None => low,
        }
    }

    /// A number from 0 to 1, 1 excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Whether a thing of this probability happens.
    #[inline]
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Fills with random printable characters.
    pub fn fill_printable(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.bits().to_le_bytes();
            for (byte, drawn) in chunk.iter_mut().zip(drawn) {
                // 64 characters from the blank on: letters, digits, punctuation.
                *byte = b' ' + (drawn & 63);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers_and_others_do_not() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn the_generator_is_xoshiro256_starstar() {
        // The published generator from the state 1, 2, 3, 4: worked out by hand from its definition.
        let mut random = Random { state: [1, 2, 3, 4] };
        assert_eq!(random.bits(), 2_u64.wrapping_mul(5).rotate_left(7).wrapping_mul(9));
        assert_eq!(random.bits(), 0);
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(7, 0);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // Standard deviation is 95; five of them.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 475), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(5, 5), 5);
        assert_eq!(random.between(6, 5), 6);
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
