//! Which item comes next: the distributions of YCSB.
//!
//! The Zipfian generator is Gray et al.'s (*Quickly Generating Billion-Record Synthetic Databases*, SIGMOD
//! 1994, §3.2): it needs the sum zeta(n, theta) of 1/i^theta once, and then a power a draw. When items are
//! added, the sum is carried on from where it was. Like YCSB's it is exact for the first two items and close
//! for the others (the inverse of a continuous approximation).
//!
//! YCSB's scrambled form draws a rank among ten billion items, whose sum is known, and hashes it onto the real
//! ones with FNV-1a: several ranks may share an item, so it is a little flatter than a Zipfian over the items.
//! [`Scattered`] is the other way to keep hot items apart: a permutation, which keeps the probabilities as they
//! are.
//!
//! **The same draws on every machine.** Powers and logarithms are those of `libm`, which computes them step by step in Rust:
//! the system's differ in their last bit from one C library to the next, and so a key would now and then. All else is additions, products
//! and quotients, which are exact by the standard of floating-point numbers.
//!
//! What it does not do: know about keys that are not there yet. Who needs the *latest* item subtracts a rank
//! from the newest.

use crate::random::Random;

/// YCSB's skew unless told otherwise.
pub const THETA: f64 = 0.99;

/// The items that YCSB's scrambled generator pretends to draw from.
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// zeta([`SCRAMBLED_ITEMS`], [`THETA`]), which would take a minute to add up.
pub const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// FNV-1a over the eight bytes of a number, least significant first, made positive as YCSB does.
#[inline]
pub fn fnv1a(mut number: u64) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for _ in 0..8 {
        hash ^= number & 0xff;
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        number >>= 8;
    }
    // Java's Math.abs: the one number without a positive counterpart stays as it is.
    (hash as i64).unsigned_abs()
}

/// The sum of 1/i^theta for i from 1 to `items`, given that of the first `known_items`.
pub fn zeta(items: u64, theta: f64, known_items: u64, known: f64) -> f64 {
    (known_items..items).fold(known, |sum, index| sum + 1.0 / libm::pow((index + 1) as f64, theta))
}

/// Ranks from 0: rank r about as likely as 1/(r+1)^theta.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// What of `u * zeta` still means rank 1: 1 + 2^-theta.
    second: f64,
}

impl Zipfian {
    /// Over so many items, at least one. Theta must be between 0 and 1, both excluded: that is where the
    /// generator holds.
    pub fn new(items: u64, theta: f64) -> Result<Self, DistributionError> {
        check_theta(theta)?;
        let items = items.max(1);
        Ok(Self::with_zeta(items, theta, zeta(items, theta, 0, 0.0)))
    }

    /// Given the sum.
    fn with_zeta(items: u64, theta: f64, zeta_of_items: f64) -> Self {
        let zeta_of_two = zeta(2, theta, 0, 0.0);
        let eta = (1.0 - libm::pow(2.0 / items as f64, 1.0 - theta)) / (1.0 - zeta_of_two / zeta_of_items);
        Zipfian {
            items,
            theta,
            zeta: zeta_of_items,
            alpha: 1.0 / (1.0 - theta),
            // With two items or fewer the first two cases below are all there is; eta would be 0/0.
            eta: if items > 2 { eta } else { 0.0 },
            second: zeta_of_two,
        }
    }

    /// Over more items; fewer are taken as they were.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Self::with_zeta(items, self.theta, zeta(items, self.theta, self.items, self.zeta));
        }
    }

    /// How many items there are.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The next rank.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < self.second || self.items == 2 {
            return 1;
        }
        let rank = self.items as f64 * libm::pow(self.eta * unit - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// Ranks from 0: rank r exactly as likely as 1/(r+1)^theta, for any theta from 0 (each as likely as any other) on. Takes eight bytes an item,
/// and a binary search a draw.
#[derive(Clone, Debug)]
pub struct PowerLaw {
    /// The sum of 1/i^theta up to each item.
    ///
    /// **Invariant**: not empty, and ascending.
    sums: Vec<f64>,
}

impl PowerLaw {
    /// Over so many items, at least one.
    ///
    /// # Errors
    /// [`DistributionError::Exponent`] if theta is less than 0 or no number.
    pub fn new(items: u64, theta: f64) -> Result<Self, DistributionError> {
        if !(theta >= 0.0 && theta.is_finite()) {
            return Err(DistributionError::Exponent(theta));
        }
        let mut sum = 0.0;
        let sums = (1..=items.max(1)).map(|item| {
            sum += 1.0 / libm::pow(item as f64, theta);
            sum
        });
        Ok(PowerLaw { sums: sums.collect() })
    }

    /// The next rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let last = self.sums.len() - 1;
        let scaled = random.unit() * self.sums[last];
        self.sums.partition_point(|sum| *sum <= scaled).min(last) as u64
    }
}

fn check_theta(theta: f64) -> Result<(), DistributionError> {
    if theta > 0.0 && theta < 1.0 { Ok(()) } else { Err(DistributionError::Theta(theta)) }
}

/// A distribution cannot be made of these figures.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// Theta is out of range.
    #[error("theta must be more than 0 and less than 1, not {0}; 0 is the uniform distribution")]
    Theta(f64),
    /// The exponent of a power law is out of range.
    #[error("the exponent of a power law must be 0 or more, not {0}")]
    Exponent(f64),
    /// A share is out of range.
    #[error("{name} must be from 0 to 1, not {value}")]
    Share {
        /// What it is called.
        name: &'static str,
        /// What it is.
        value: f64,
    },
}

/// A permutation of `0..items` that puts neighbours far apart.
#[derive(Clone, Copy, Debug)]
pub struct Scattered {
    items: u64,
    factor: u64,
}

impl Scattered {
    /// Of so many items, at least one.
    pub fn new(items: u64) -> Self {
        let items = items.max(1);
        // Near the golden section, so that 0, 1, 2, ... land evenly and apart; without a common divisor with
        // the number of items, so that no two land on one place.
        let mut factor = ((items as f64 * 0.618_033_988_749_894_9) as u64).max(1);
        while gcd(factor, items) != 1 {
            factor += 1;
        }
        Scattered { items, factor }
    }

    /// Where an item lands.
    #[inline]
    pub fn place(&self, item: u64) -> u64 {
        (u128::from(item) * u128::from(self.factor) % u128::from(self.items)) as u64
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Chooses items from `0..items`.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Each as likely as any other.
    Uniform {
        /// How many.
        items: u64,
    },
    /// YCSB's `zipfian`: ranks hashed onto the items.
    Scrambled {
        /// How many.
        items: u64,
        /// Over the pretended items.
        ranks: Zipfian,
    },
    /// A Zipfian over exactly these items, the hot ones far apart.
    Zipfian {
        /// Draws ranks.
        ranks: Zipfian,
        /// Puts ranks in their places.
        scattered: Scattered,
    },
    /// The newer the likelier: the rank counts down from the last item.
    Latest {
        /// Draws how far back.
        ranks: Zipfian,
    },
    /// A share of the draws goes to a share of the items, at the front.
    Hotspot {
        /// How many.
        items: u64,
        /// How many of them are hot.
        hot_items: u64,
        /// The probability of a hot one.
        hot_probability: f64,
    },
    /// The older the less likely, by the exponential distribution: counts down from the last item.
    Exponential {
        /// How many.
        items: u64,
        /// Its rate.
        gamma: f64,
    },
    /// One after the other, and round again.
    Sequential {
        /// How many.
        items: u64,
        /// Which is next.
        next: u64,
    },
}

impl Chooser {
    /// Uniform over so many, at least one.
    pub fn uniform(items: u64) -> Self {
        Chooser::Uniform { items: items.max(1) }
    }

    /// YCSB's `zipfian` with its constant, or with another one.
    pub fn scrambled(items: u64, theta: f64) -> Result<Self, DistributionError> {
        check_theta(theta)?;
        let items = items.max(1);
        let ranks = if theta == THETA {
            Zipfian::with_zeta(SCRAMBLED_ITEMS, THETA, SCRAMBLED_ZETA)
        } else {
            // Ten billion terms are too many to add up; the tail beyond the real items matters little, and is
            // replaced by its integral.
            let head_items = items.clamp(1_000_000, SCRAMBLED_ITEMS);
            let head = zeta(head_items, theta, 0, 0.0);
            let integral = |x: f64| libm::pow(x, 1.0 - theta) / (1.0 - theta);
            let tail = integral(SCRAMBLED_ITEMS as f64 + 0.5) - integral(head_items as f64 + 0.5);
            Zipfian::with_zeta(SCRAMBLED_ITEMS, theta, head + tail)
        };
        Ok(Chooser::Scrambled { items, ranks })
    }

    /// Zipfian over exactly so many, hot ones scattered. Theta 0 is uniform.
    pub fn zipfian(items: u64, theta: f64) -> Result<Self, DistributionError> {
        if theta == 0.0 {
            return Ok(Self::uniform(items));
        }
        Ok(Chooser::Zipfian { ranks: Zipfian::new(items, theta)?, scattered: Scattered::new(items) })
    }

    /// The newest are the likeliest.
    pub fn latest(items: u64, theta: f64) -> Result<Self, DistributionError> {
        Ok(Chooser::Latest { ranks: Zipfian::new(items, theta)? })
    }

    /// A share of draws to a share of items.
    pub fn hotspot(items: u64, data_share: f64, draw_share: f64) -> Result<Self, DistributionError> {
        check_share("the hot share of the data", data_share)?;
        check_share("the share of hot operations", draw_share)?;
        let items = items.max(1);
        let hot_items = ((items as f64 * data_share) as u64).min(items);
        Ok(Chooser::Hotspot { items, hot_items, hot_probability: draw_share })
    }

    /// `percentile` percent of the draws among the newest `share` of the items.
    pub fn exponential(items: u64, percentile: f64, share: f64) -> Result<Self, DistributionError> {
        check_share("the exponential percentile, divided by 100,", percentile / 100.0)?;
        check_share("the exponential share of the data", share)?;
        let items = items.max(1);
        let gamma = -libm::log(1.0 - percentile / 100.0) / (items as f64 * share);
        Ok(Chooser::Exponential { items, gamma })
    }

    /// One after the other.
    pub fn sequential(items: u64) -> Self {
        Chooser::Sequential { items: items.max(1), next: 0 }
    }

    /// The next item.
    #[inline]
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        match self {
            Chooser::Uniform { items } => random.below(*items),
            Chooser::Scrambled { items, ranks } => fnv1a(ranks.draw(random)) % *items,
            Chooser::Zipfian { ranks, scattered } => scattered.place(ranks.draw(random)),
            Chooser::Latest { ranks } => ranks.items() - 1 - ranks.draw(random),
            Chooser::Hotspot { items, hot_items, hot_probability } => {
                let cold_items = *items - *hot_items;
                let hot = random.happens(*hot_probability);
                if (hot && *hot_items > 0) || cold_items == 0 {
                    random.below(*hot_items)
                } else {
                    *hot_items + random.below(cold_items)
                }
            }
            Chooser::Exponential { items, gamma } => loop {
                let back = -libm::log(1.0 - random.unit()) / *gamma;
                if back < *items as f64 {
                    return *items - 1 - back as u64;
                }
            },
            Chooser::Sequential { items, next } => {
                let item = *next;
                *next = if item + 1 == *items { 0 } else { item + 1 };
                item
            }
        }
    }
}

fn check_share(name: &'static str, value: f64) -> Result<(), DistributionError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(DistributionError::Share { name, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn counts(items: u64, mut draw: impl FnMut(&mut Random) -> u64) -> Vec<f64> {
        let mut random = Random::new(42, 0);
        let mut counts = vec![0.0; items as usize];
        for _ in 0..DRAWS {
            counts[draw(&mut random) as usize] += 1.0;
        }
        counts
    }

    /// Pearson's statistic over the cells with at least five expected.
    fn chi_square(counts: &[f64], expected: impl Fn(usize) -> f64) -> (f64, f64) {
        let cells = counts.iter().enumerate().map(|(cell, &count)| (count, expected(cell)));
        cells.filter(|(_, expected)| *expected >= 5.0).fold((0.0, 0.0), |(sum, cells), (count, expected)| {
            (sum + (count - expected).powi(2) / expected, cells + 1.0)
        })
    }

    #[test]
    fn a_power_law_is_exact_for_any_exponent() {
        for theta in [0.0, 0.6, 1.0, 1.7] {
            let law = PowerLaw::new(50, theta).unwrap();
            let mut random = Random::new(1, 1);
            let mut counts = [0_u32; 50];
            for _ in 0..200_000 {
                counts[law.draw(&mut random) as usize] += 1;
            }
            let sum = zeta(50, theta, 0, 0.0);
            for (rank, count) in counts.iter().enumerate() {
                let expected = 200_000.0 / libm::pow(rank as f64 + 1.0, theta) / sum;
                let deviation = (f64::from(*count) - expected).abs() / expected.sqrt();
                assert!(deviation < 5.0, "{theta}, rank {rank}: {count} for {expected}");
            }
        }
        assert_eq!(PowerLaw::new(5, -0.1).unwrap_err(), DistributionError::Exponent(-0.1));
        assert!(PowerLaw::new(5, f64::NAN).is_err());
    }

    #[test]
    fn zipfian_ranks_come_as_often_as_theory_says() {
        for theta in [0.5, 0.9, 0.99] {
            let items = 1000;
            let ranks = Zipfian::new(items, theta).unwrap();
            let sum = zeta(items, theta, 0, 0.0);
            let counts = counts(items, |random| ranks.draw(random));
            let expected = |rank: usize| DRAWS as f64 / sum / (rank as f64 + 1.0).powf(theta);
            // The first two are exact: five standard deviations.
            for (rank, count) in counts.iter().enumerate().take(2) {
                let deviation = expected(rank).sqrt() * 5.0;
                assert!((count - expected(rank)).abs() < deviation, "theta {theta}, rank {rank}: {count}");
            }
            // From there on the generator inverts a continuous curve: ranks follow that one exactly ...
            let reach = |rank: f64| ((rank / items as f64).powf(1.0 - theta) - 1.0 + ranks.eta) / ranks.eta;
            let curve = |rank: usize| {
                let from = reach(rank as f64).max(ranks.second / sum);
                DRAWS as f64 * (reach(rank as f64 + 1.0) - from).max(0.0)
            };
            let tail: Vec<f64> = counts[2..].to_vec();
            let (chi, cells) = chi_square(&tail, |cell| curve(cell + 2));
            assert!(chi < cells + 5.0 * (2.0 * cells).sqrt(), "theta {theta}: {chi} over {cells}");
            // ... and a Zipfian to within some per cent, worst at the lowest ranks.
            for (from, to, within) in [(2, 10, 0.08), (10, 100, 0.04), (100, 1000, 0.04)] {
                let found: f64 = counts[from..to].iter().sum();
                let wanted: f64 = (from..to).map(expected).sum();
                let off = (found / wanted - 1.0).abs();
                assert!(off < within, "theta {theta}, {from}..{to}: {found} {wanted}");
            }
        }
    }

    /// Worked out once, and the same ever since, on any machine and however compiled: runs on virtual cores repeat to the bit.
    #[test]
    fn draws_are_the_same_everywhere() {
        let first = |mut chooser: Chooser| {
            let mut random = Random::new(7, 7);
            let drawn: [u64; 8] = std::array::from_fn(|_| chooser.draw(&mut random));
            let all = (8..100_000).fold(0, |sum: u64, _| sum.rotate_left(7) ^ chooser.draw(&mut random));
            (drawn, all)
        };
        assert_eq!(zeta(1_000_000, 0.9, 0, 0.0).to_bits(), 0x403e_616f_54bd_70a8);
        let drawn = [485_989, 538_002, 170_717, 724_698, 886_610, 116_669, 13_122, 871_251];
        assert_eq!(first(Chooser::zipfian(1_000_000, 0.9).unwrap()), (drawn, 14_611_006_974_391_531_649));
        let drawn = [387_808, 856_754, 801_058, 566_537, 752_960, 547_253, 146_983, 177_453];
        assert_eq!(first(Chooser::scrambled(1_000_000, THETA).unwrap()), (drawn, 3_104_907_085_517_997_376));
        let drawn = [103_859, 859_905, 739_973, 904_236, 317_770, 863_637, 972_392, 669_524];
        assert_eq!(first(Chooser::latest(1_000_000, 0.5).unwrap()), (drawn, 15_862_703_199_058_496_951));
        let drawn = [217_481, 874_939, 809_691, 901_268, 533_208, 877_072, 951_625, 771_728];
        let exponential = Chooser::exponential(1_000_000, 95.0, 0.8).unwrap();
        assert_eq!(first(exponential), (drawn, 1_203_106_006_132_601_056));
    }

    #[test]
    fn a_grown_zipfian_is_one_made_so_large() {
        let mut grown = Zipfian::new(10, 0.9).unwrap();
        grown.grow(5000);
        let made = Zipfian::new(5000, 0.9).unwrap();
        assert!((grown.zeta - made.zeta).abs() < 1e-9);
        assert!((grown.eta - made.eta).abs() < 1e-12);
        grown.grow(10);
        assert_eq!(grown.items(), 5000);
    }

    #[test]
    fn tiny_zipfians_stay_within_their_items() {
        for items in 1..=3 {
            let ranks = Zipfian::new(items, 0.99).unwrap();
            let counts = counts(items, |random| ranks.draw(random));
            assert!(counts.iter().all(|count| *count > 0.0), "{counts:?}");
        }
        assert_eq!(Zipfian::new(5, 1.0).unwrap_err(), DistributionError::Theta(1.0));
        assert!(Zipfian::new(5, f64::NAN).is_err());
    }

    #[test]
    fn nine_tenths_of_skew_put_three_quarters_on_a_tenth() {
        // [Sundial §6.1]: with theta 0.9, 75 % of all accesses go to 10 % of the data, 10 GB of 1 KB tuples.
        let ranks = Zipfian::new(10_000_000, 0.9).unwrap();
        let mut random = Random::new(42, 0);
        let hot = (0..DRAWS).filter(|_| ranks.draw(&mut random) < 1_000_000).count();
        assert!((hot as f64 / DRAWS as f64 - 0.75).abs() < 0.01, "{hot}");
    }

    #[test]
    fn scrambling_hashes_ycsb_ranks() {
        // FNV-1a of eight zero bytes, made positive: worked out step by step.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for _ in 0..8 {
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
        assert_eq!(fnv1a(0), (hash as i64).unsigned_abs());
        let mut chooser = Chooser::scrambled(1000, THETA).unwrap();
        let counts = counts(1000, |random| chooser.draw(random));
        // Rank 0 alone has 1 / zeta of the draws, and lands on one item.
        let hottest = fnv1a(0) % 1000;
        let share = counts[hottest as usize] / DRAWS as f64;
        assert!(share > 0.95 / SCRAMBLED_ZETA && share < 1.15 / SCRAMBLED_ZETA, "{share}");
        // And the tail is spread over everything.
        assert!(counts.iter().all(|count| *count > 0.0));
    }

    #[test]
    fn the_sum_over_ten_billion_is_what_the_integral_says() {
        let theta = THETA;
        let head = zeta(1_000_000, theta, 0, 0.0);
        let integral = |x: f64| x.powf(1.0 - theta) / (1.0 - theta);
        let all = head + integral(SCRAMBLED_ITEMS as f64 + 0.5) - integral(1_000_000.5);
        assert!((all - SCRAMBLED_ZETA).abs() < 1e-6, "{all}");
    }

    #[test]
    fn scattering_is_a_permutation_that_parts_neighbours() {
        for items in [1, 2, 3, 10, 97, 1000, 65_536] {
            let scattered = Scattered::new(items);
            let mut seen = vec![false; items as usize];
            for item in 0..items {
                let place = scattered.place(item) as usize;
                assert!(!std::mem::replace(&mut seen[place], true));
            }
        }
        let scattered = Scattered::new(1_000_000);
        let mut hot: Vec<u64> = (0..100).map(|rank| scattered.place(rank)).collect();
        hot.sort_unstable();
        assert!(hot.windows(2).all(|pair| pair[1] - pair[0] > 1000), "{hot:?}");
    }

    #[test]
    fn uniform_hotspot_and_sequential_are_what_they_say() {
        let mut uniform = Chooser::uniform(100);
        let drawn = counts(100, |random| uniform.draw(random));
        let (chi, cells) = chi_square(&drawn, |_| DRAWS as f64 / 100.0);
        assert!(chi < cells + 5.0 * (2.0 * cells).sqrt(), "{chi}");
        let mut hotspot = Chooser::hotspot(100, 0.2, 0.8).unwrap();
        let drawn = counts(100, |random| hotspot.draw(random));
        let expected = |item: usize| DRAWS as f64 * if item < 20 { 0.8 / 20.0 } else { 0.2 / 80.0 };
        let (chi, cells) = chi_square(&drawn, expected);
        assert!(chi < cells + 5.0 * (2.0 * cells).sqrt(), "{chi}");
        let mut all_hot = Chooser::hotspot(10, 1.0, 0.0).unwrap();
        assert!(counts(10, |random| all_hot.draw(random)).iter().all(|count| *count > 0.0));
        let mut none_hot = Chooser::hotspot(10, 0.0, 1.0).unwrap();
        assert!(counts(10, |random| none_hot.draw(random)).iter().all(|count| *count > 0.0));
        let mut sequential = Chooser::sequential(3);
        let mut random = Random::new(1, 1);
        let drawn: Vec<u64> = (0..5).map(|_| sequential.draw(&mut random)).collect();
        assert_eq!(drawn, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn latest_and_exponential_prefer_the_newest() {
        let mut latest = Chooser::latest(1000, THETA).unwrap();
        let drawn = counts(1000, |random| latest.draw(random));
        let sum = zeta(1000, THETA, 0, 0.0);
        assert!((drawn[999] / DRAWS as f64 * sum - 1.0).abs() < 0.05, "{}", drawn[999]);
        // YCSB's defaults: 95 % of the draws within the newest 6/7 of the items.
        let mut exponential = Chooser::exponential(1000, 95.0, 0.857_142_857_1).unwrap();
        let drawn = counts(1000, |random| exponential.draw(random));
        let near: f64 = drawn[143..].iter().sum();
        // Draws beyond the items are drawn again, which moves 95 % up a little.
        let beyond = 0.05_f64.powf(1.0 / 0.857_142_857_1);
        let wanted = 0.95 / (1.0 - beyond);
        assert!((near / DRAWS as f64 - wanted).abs() < 0.005, "{near}");
    }
}
