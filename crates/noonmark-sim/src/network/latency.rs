//! How long messages are on their way.

use noonmark_workloads::random::Random;

/// The distribution of the time that a message is on its way.
///
/// ```
/// use noonmark_sim::network::latency::Latency;
///
/// // As somebody has measured it: the least, the median, 99 % and the most.
/// let measured = Latency::quantiles(&[(0.0, 25_000), (0.5, 30_000), (0.99, 90_000), (1.0, 3_000_000)])?;
/// assert_eq!(measured.max_ns(), 3_000_000);
/// # Ok::<(), noonmark_sim::network::latency::LatencyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latency {
    /// At least and at most so many nanoseconds, and any time between them is as likely as any other.
    Uniform {
        /// The least. If it is more than the most, it is what every message takes.
        min_ns: u64,
        /// The most.
        max_ns: u64,
    },
    /// By quantiles, and in straight lines between them.
    Quantiles(Quantiles),
}

/// Times by the share of messages that take no longer, from none of them to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Shares in [`WHOLE`] parts, rising from none to the whole, and times in nanoseconds, which do not fall.
    points: Vec<(u64, u64)>,
}

/// How many parts shares are told in.
const WHOLE: u64 = 1_000_000_000;

/// Quantiles that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyError {
    /// The first share is not 0, or the last one is not 1.
    NotWhole,
    /// This share, counted from zero, is not more than the one before it.
    SharesFall(usize),
    /// This time, counted from zero, is less than the one before it.
    TimesFall(usize),
}

impl std::fmt::Display for LatencyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LatencyError::NotWhole => {
                write!(f, "quantiles of a latency begin with the share 0 and end with the share 1")
            }
            LatencyError::SharesFall(at) => write!(
                f,
                "quantile {at} of a latency has a share that is not more than that of the one before it (shares are told to a billionth)"
            ),
            LatencyError::TimesFall(at) => {
                write!(f, "quantile {at} of a latency is a shorter time than the one before it")
            }
        }
    }
}

impl std::error::Error for LatencyError {}

impl Latency {
    /// By quantiles: shares from 0 to 1, told apart to a billionth, with the time in nanoseconds that such a share of
    /// all messages does not exceed; in straight lines between them.
    ///
    /// # Errors
    /// [`LatencyError`] if shares do not rise from 0 to 1, or if times fall.
    pub fn quantiles(points: &[(f64, u64)]) -> Result<Self, LatencyError> {
        let part = |share: f64| (share * WHOLE as f64).round() as u64;
        let points: Vec<(u64, u64)> = points.iter().map(|&(share, ns)| (part(share), ns)).collect();
        let ends = points.first().zip(points.last());
        if !ends.is_some_and(|(first, last)| first.0 == 0 && last.0 == WHOLE) {
            return Err(LatencyError::NotWhole);
        }
        for (before, pair) in points.windows(2).enumerate() {
            if pair[1].0 <= pair[0].0 {
                return Err(LatencyError::SharesFall(before + 1));
            }
            if pair[1].1 < pair[0].1 {
                return Err(LatencyError::TimesFall(before + 1));
            }
        }
        Ok(Latency::Quantiles(Quantiles { points }))
    }

    /// The least time.
    pub fn min_ns(&self) -> u64 {
        match self {
            Latency::Uniform { min_ns, .. } => *min_ns,
            Latency::Quantiles(Quantiles { points }) => points.first().map_or(0, |point| point.1),
        }
    }

    /// The most.
    pub fn max_ns(&self) -> u64 {
        match self {
            Latency::Uniform { min_ns, max_ns } => *max_ns.max(min_ns),
            Latency::Quantiles(Quantiles { points }) => points.last().map_or(0, |point| point.1),
        }
    }

    /// The same, and so much longer.
    #[must_use]
    pub fn and_ns(self, more_ns: u64) -> Self {
        match self {
            Latency::Uniform { min_ns, max_ns } => Latency::Uniform {
                min_ns: min_ns.saturating_add(more_ns),
                max_ns: max_ns.saturating_add(more_ns),
            },
            Latency::Quantiles(Quantiles { points }) => {
                let points =
                    points.into_iter().map(|(share, ns)| (share, ns.saturating_add(more_ns))).collect();
                Latency::Quantiles(Quantiles { points })
            }
        }
    }

    /// One of them.
    pub(super) fn draw_ns(&self, random: &mut Random) -> u64 {
        match self {
            Latency::Uniform { min_ns, max_ns } => {
                min_ns + random.below(max_ns.saturating_sub(*min_ns).saturating_add(1))
            }
            Latency::Quantiles(quantiles) => quantiles.at(random.below(WHOLE)),
        }
    }
}

impl Quantiles {
    /// The time at this share, which is less than the whole.
    fn at(&self, share: u64) -> u64 {
        let next = self.points.partition_point(|point| point.0 <= share);
        let (Some(from), Some(to)) =
            (next.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(next))
        else {
            return self.points.last().map_or(0, |point| point.1);
        };
        let into = u128::from(to.1 - from.1) * u128::from(share - from.0) / u128::from(to.0 - from.0);
        from.1 + into as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &[(f64, u64)] = &[(0.0, 20), (0.5, 30), (0.99, 128), (1.0, 1_000_128)];

    #[test]
    fn draws_have_the_quantiles_that_were_told() {
        let latency = Latency::quantiles(MEASURED).unwrap();
        assert_eq!((latency.min_ns(), latency.max_ns()), (20, 1_000_128));
        let mut random = Random::new(1, 1);
        let mut drawn: Vec<u64> = (0..100_000).map(|_| latency.draw_ns(&mut random)).collect();
        drawn.sort_unstable();
        assert!(drawn[0] >= 20 && drawn[99_999] < 1_000_128);
        assert!((29..=31).contains(&drawn[50_000]), "{}", drawn[50_000]);
        // Half way of a line is half of its share.
        assert!((77..=81).contains(&drawn[74_500]), "{}", drawn[74_500]);
        let longer = drawn.iter().filter(|ns| **ns > 128).count();
        assert!((900..1_100).contains(&longer), "{longer}");
        assert!((400_000..600_000).contains(&drawn[99_500]), "{}", drawn[99_500]);
    }

    #[test]
    fn a_distance_comes_on_top() {
        let mut random = Random::new(2, 1);
        for latency in [Latency::quantiles(MEASURED).unwrap(), Latency::Uniform { min_ns: 20, max_ns: 40 }] {
            let farther = latency.clone().and_ns(1_000);
            assert_eq!((farther.min_ns(), farther.max_ns()), (1_020, latency.max_ns() + 1_000));
            assert!((0..1_000).all(|_| farther.draw_ns(&mut random) >= 1_020));
        }
        let backwards = Latency::Uniform { min_ns: 40, max_ns: 20 };
        assert_eq!((backwards.draw_ns(&mut random), backwards.max_ns()), (40, 40));
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        assert_eq!(Latency::quantiles(&[]), Err(LatencyError::NotWhole));
        assert_eq!(Latency::quantiles(&[(0.0, 1)]), Err(LatencyError::NotWhole));
        assert_eq!(Latency::quantiles(&[(0.1, 1), (1.0, 2)]), Err(LatencyError::NotWhole));
        assert_eq!(Latency::quantiles(&[(0.0, 1), (f64::NAN, 2)]), Err(LatencyError::NotWhole));
        let falls = [(0.0, 1), (0.5, 2), (0.5, 3), (1.0, 4)];
        assert_eq!(Latency::quantiles(&falls), Err(LatencyError::SharesFall(2)));
        let nan = [(0.0, 1), (f64::NAN, 2), (1.0, 4)];
        assert_eq!(Latency::quantiles(&nan), Err(LatencyError::SharesFall(1)));
        assert_eq!(Latency::quantiles(&[(0.0, 2), (1.0, 1)]), Err(LatencyError::TimesFall(1)));
        let said = LatencyError::TimesFall(1).to_string();
        assert_eq!(said, "quantile 1 of a latency is a shorter time than the one before it");
    }
}
