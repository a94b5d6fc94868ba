//! What a paper says, as a comparison of runs.
//!
//! A figure *agrees* with the paper's if it is within a quarter of it (and, if it is a ratio, on the same side of 1). That is
//! wide, as it must be: another engine, another language, a simulated machine. The figures themselves stand beside it.
//!
//! A *point* is one of the plot's: so many cores, or so many percent ([`Axis`]).
//!
//! What it does not do: a claim about runs that were not made is neither right nor wrong, and says so.

use super::Axis;
use noonmark::Protocol;
use noonmark_workloads::report::{Finding, RunReport, Verdict, rate};
use noonmark_workloads::store::Granularity;

/// What a paper's text says of an experiment.
#[derive(Debug)]
pub struct Claim {
    /// Where.
    pub section: &'static str,
    /// What, in our words.
    pub words: &'static str,
    /// As a comparison.
    pub test: Test,
    /// If it does not come out so: why, as far as is known.
    pub reason: &'static str,
}

/// A run of an experiment: at this point.
#[derive(Clone, Copy, Debug)]
pub struct At(pub Protocol, pub Granularity, pub usize);

/// A comparison.
#[derive(Debug)]
pub enum Test {
    /// So many percent of the attempts fail.
    Aborts {
        /// Where.
        at: At,
        /// So many.
        percent: f64,
    },
    /// One is so many times as fast as another.
    Times {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
    },
    /// One is at most so many times as fast as another, at any point.
    AtMost {
        /// The one.
        of: Protocol,
        /// The other.
        to: Protocol,
        /// With this.
        granularity: Granularity,
        /// So many times.
        paper: f64,
    },
    /// A protocol is faster than each of these, at each of these points.
    Faster {
        /// The protocol.
        of: Protocol,
        /// These; all others, if there are none.
        than: &'static [Protocol],
        /// With this.
        granularity: Granularity,
        /// These; all from 8 on, if there are none.
        points: &'static [usize],
    },
    /// For each commit, one fails so many times as often as another.
    FailsTimes {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
        /// Whether the paper says more than that; then less will not do.
        or_more: bool,
    },
    /// For each commit, one fails less often than another.
    FailsLess {
        /// The one.
        of: Protocol,
        /// The other.
        than: Protocol,
        /// With this.
        granularity: Granularity,
        /// At all points from this place of the plot on, counted from 0.
        from: usize,
    },
    /// Each fails more often for each commit from one point to the next.
    FailsMore {
        /// These.
        protocols: &'static [Protocol],
        /// With this.
        granularity: Granularity,
    },
    /// Each is slower at the last point than at the first.
    Slows {
        /// These.
        protocols: &'static [Protocol],
        /// With this.
        granularity: Granularity,
    },
    /// A protocol is slower than all others.
    Slowest {
        /// The protocol.
        protocol: Protocol,
        /// With this.
        granularity: Granularity,
        /// On so many cores.
        cores: usize,
    },
    /// Each is slower on so many cores than at its best on fewer.
    Falls {
        /// These; all, if there are none.
        protocols: &'static [Protocol],
        /// With this.
        granularity: Granularity,
        /// So many.
        cores: usize,
    },
    /// All are faster with fine timestamps than with coarse ones.
    FineGains {
        /// On so many cores.
        cores: usize,
    },
    /// These gain the most by fine timestamps.
    GainMost {
        /// These.
        protocols: &'static [Protocol],
        /// On so many cores.
        cores: usize,
    },
    /// One is at least so many times as fast as another.
    AtLeast {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        times: f64,
    },
    /// The share of failed attempts falls furthest for this one when timestamps become fine.
    FallsFurthest {
        /// This one.
        protocol: Protocol,
        /// On so many cores.
        cores: usize,
    },
}

/// The runs of an experiment.
pub(super) struct Results<'a> {
    /// Each with its point.
    pub(super) runs: &'a [(usize, RunReport)],
    pub(super) protocols: &'static [Protocol],
    pub(super) points: &'a [usize],
    pub(super) axis: Axis,
}

/// What reports call a granularity.
pub(super) fn name_of(granularity: Granularity) -> &'static str {
    match granularity {
        Granularity::Coarse => "coarse",
        Granularity::Fine => "fine",
        Granularity::Splitting => "splitting",
    }
}

impl Results<'_> {
    fn at(&self, At(protocol, granularity, wanted): At) -> Option<&RunReport> {
        let is_meant = |(point, run): &&(usize, RunReport)| {
            run.protocol == protocol.name() && run.groups == name_of(granularity) && *point == wanted
        };
        self.runs.iter().find(is_meant).map(|(_, run)| run)
    }

    /// Of one protocol, in the order of the plot.
    fn of(&self, protocol: Protocol, granularity: Granularity) -> Vec<(usize, &RunReport)> {
        let run = |&point: &usize| Some((point, self.at(At(protocol, granularity, point))?));
        self.points.iter().filter_map(run).collect()
    }

    /// The same, if there are two points at least.
    fn course(&self, protocol: Protocol, granularity: Granularity) -> Option<Vec<(usize, &RunReport)>> {
        Some(self.of(protocol, granularity)).filter(|runs| runs.len() > 1)
    }

    fn others(&self, than: &'static [Protocol], of: Protocol) -> impl Iterator<Item = Protocol> {
        let these = if than.is_empty() { self.protocols } else { than };
        these.iter().copied().filter(move |&protocol| protocol != of)
    }

    /// How many times as fast each is with fine timestamps, the one that gains most first.
    fn gains(&self, cores: usize) -> Option<Vec<(f64, Protocol)>> {
        let gain = |&protocol: &Protocol| {
            let coarse = self.at(At(protocol, Granularity::Coarse, cores))?;
            let fine = self.at(At(protocol, Granularity::Fine, cores))?;
            Some((fine.committed_per_s / coarse.committed_per_s, protocol))
        };
        sorted(self.protocols.iter().map(gain).collect())
    }
}

/// The largest first.
fn sorted(figures: Option<Vec<(f64, Protocol)>>) -> Option<Vec<(f64, Protocol)>> {
    figures.map(|mut figures| {
        figures.sort_by(|a, b| b.0.total_cmp(&a.0));
        figures
    })
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn about(ours: f64, paper: f64) -> bool {
    (0.75..=1.25).contains(&(ours / paper))
}

/// Attempts that failed, for each commit.
fn failed(run: &RunReport) -> f64 {
    run.aborted() as f64 / run.committed.max(1) as f64
}

/// The same, in words.
fn thousand(run: &RunReport) -> String {
    let failed = 1000.0 * failed(run);
    if failed < 10.0 { format!("{failed:.2}") } else { format!("{failed:.1}") }
}

fn list(figures: &[(f64, Protocol)], show: fn(f64) -> String) -> String {
    let words: Vec<String> =
        figures.iter().map(|(figure, protocol)| format!("{} {}", protocol.name(), show(*figure))).collect();
    words.join(", ")
}

impl Claim {
    /// What came out.
    pub(super) fn judge(&self, results: &Results<'_>) -> Finding {
        let (ours, verdict) = match self.test.judge(results) {
            Some((ours, true)) => (ours, Verdict::Agrees),
            Some((ours, false)) => (ours, Verdict::Differs),
            None => (format!("not run {}", results.axis.in_words(&self.test.needs())), Verdict::NotRun),
        };
        let reason = if verdict == Verdict::Differs { self.reason } else { "" };
        Finding {
            section: self.section.into(),
            statement: self.words.into(),
            ours,
            verdict,
            reason: reason.into(),
        }
    }
}

impl Test {
    /// What came out, in words, and whether it is what the paper says; none if it was not run.
    fn judge(&self, results: &Results<'_>) -> Option<(String, bool)> {
        match *self {
            Test::Aborts { at, percent: paper } => {
                let ours = results.at(at)?.abort_share();
                Some((percent(ours), about(100.0 * ours, paper)))
            }
            Test::Times { of, to, paper } => {
                let ours = results.at(of)?.committed_per_s / results.at(to)?.committed_per_s;
                Some((format!("{ours:.2} times"), about(ours, paper) && (ours > 1.0) == (paper > 1.0)))
            }
            Test::AtLeast { of, to, times } => {
                let ours = results.at(of)?.committed_per_s / results.at(to)?.committed_per_s;
                Some((format!("{ours:.3} times"), ours >= times))
            }
            Test::AtMost { of, to, granularity, paper } => {
                let pairs = results.of(of, granularity).into_iter().zip(results.of(to, granularity));
                let ratios =
                    pairs.map(|((point, of), (_, to))| (of.committed_per_s / to.committed_per_s, point));
                let (most, point) = ratios.max_by(|a, b| a.0.total_cmp(&b.0))?;
                Some((format!("{most:.2} times at most, {}", results.axis.in_words(&[point])), most <= paper))
            }
            Test::Faster { of, than, granularity, points } => {
                let mut words = Vec::new();
                let mut holds = true;
                for (here, run) in results.of(of, granularity) {
                    let is_meant = if points.is_empty() { here >= 8 } else { points.contains(&here) };
                    if !is_meant {
                        continue;
                    }
                    let rivals = results.others(than, of).filter_map(|protocol| {
                        let rival = results.at(At(protocol, granularity, here))?;
                        Some((run.committed_per_s / rival.committed_per_s, protocol))
                    });
                    let (least, rival) = rivals.min_by(|a, b| a.0.total_cmp(&b.0))?;
                    holds &= least > 1.0;
                    words.push(format!("{least:.2} times {} {}", rival.name(), results.axis.briefly(here)));
                }
                if words.is_empty() { None } else { Some((words.join(", "), holds)) }
            }
            Test::Slowest { protocol, granularity, cores } => {
                let own = results.at(At(protocol, granularity, cores))?.committed_per_s;
                let times = results.others(&[], protocol).map(|other| {
                    let other_run = results.at(At(other, granularity, cores))?;
                    Some((other_run.committed_per_s / own, other))
                });
                let times = sorted(times.collect())?;
                let holds = times.iter().all(|(times, _)| *times > 1.0);
                Some((format!("{} as fast", list(&times, |times| format!("{times:.2} times"))), holds))
            }
            Test::Falls { protocols, granularity, cores } => {
                let mut words = Vec::new();
                let mut holds = true;
                let protocols = if protocols.is_empty() { results.protocols } else { protocols };
                for &protocol in protocols {
                    let last = results.at(At(protocol, granularity, cores))?;
                    let mut before = results.of(protocol, granularity);
                    before.retain(|(point, _)| *point < cores);
                    let (at_best, best) =
                        before.iter().max_by(|a, b| a.1.committed_per_s.total_cmp(&b.1.committed_per_s))?;
                    holds &= last.committed_per_s < best.committed_per_s;
                    words.push(format!(
                        "{} {} on {}, {} on {}",
                        protocol.name(),
                        rate(best.committed_per_s),
                        at_best,
                        rate(last.committed_per_s),
                        cores
                    ));
                }
                Some((words.join("; "), holds))
            }
            Test::FailsTimes { of, to, paper, or_more } => {
                let (of, to) = (results.at(of)?, results.at(to)?);
                let ours = failed(of) / failed(to);
                let words = format!("{ours:.2} times: {} and {} of 1000 commits", thousand(of), thousand(to));
                let holds = match or_more {
                    true => ours >= paper,
                    false => about(ours, paper) && (ours > 1.0) == (paper > 1.0),
                };
                Some((words, holds))
            }
            Test::FailsLess { of, than, granularity, from } => {
                let pairs = results.points.get(from..)?.iter().filter_map(|&point| {
                    let at = |protocol| results.at(At(protocol, granularity, point));
                    Some((point, at(of)?, at(than)?))
                });
                let mut words = Vec::new();
                let mut holds = true;
                for (point, of, than) in pairs {
                    holds &= failed(of) < failed(than);
                    let (of, than) = (thousand(of), thousand(than));
                    words.push(format!("{of} against {than} {}", results.axis.briefly(point)));
                }
                if words.is_empty() { None } else { Some((words.join(", "), holds)) }
            }
            Test::FailsMore { protocols, granularity } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let runs = results.course(protocol, granularity)?;
                    holds &= runs.windows(2).all(|pair| failed(pair[0].1) < failed(pair[1].1));
                    let figures: Vec<String> = runs.iter().map(|(_, run)| thousand(run)).collect();
                    words.push(format!("{} {} of 1000 commits", protocol.name(), figures.join(", ")));
                }
                Some((words.join("; "), holds))
            }
            Test::Slows { protocols, granularity } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let runs = results.course(protocol, granularity)?;
                    let ((at_first, first), (at_last, last)) = (*runs.first()?, *runs.last()?);
                    holds &= last.committed_per_s < first.committed_per_s;
                    words.push(format!(
                        "{} {} {}, {} {}",
                        protocol.name(),
                        rate(first.committed_per_s),
                        results.axis.briefly(at_first),
                        rate(last.committed_per_s),
                        results.axis.briefly(at_last)
                    ));
                }
                Some((words.join("; "), holds))
            }
            Test::FineGains { cores } => {
                let gains = results.gains(cores)?;
                let holds = gains.iter().all(|(gain, _)| *gain > 1.0);
                Some((list(&gains, |gain| format!("{gain:.2} times")), holds))
            }
            Test::GainMost { protocols, cores } => {
                let gains = results.gains(cores)?;
                let holds = gains.iter().take(protocols.len()).all(|(_, gainer)| protocols.contains(gainer));
                Some((list(&gains, |gain| format!("{gain:.2} times")), holds))
            }
            Test::FallsFurthest { protocol, cores } => {
                let fall = |&protocol: &Protocol| {
                    let coarse = results.at(At(protocol, Granularity::Coarse, cores))?;
                    let fine = results.at(At(protocol, Granularity::Fine, cores))?;
                    Some((coarse.abort_share() - fine.abort_share(), protocol))
                };
                let falls = sorted(results.protocols.iter().map(fall).collect())?;
                let holds = falls.first().is_some_and(|(_, first)| *first == protocol);
                Some((list(&falls, |fall| format!("{:.1} points", 100.0 * fall)), holds))
            }
        }
    }

    /// The points that it is about; none if it is about all that there are.
    fn needs(&self) -> Vec<usize> {
        let mut points = match *self {
            Test::Aborts { at: At(.., point), .. }
            | Test::Slowest { cores: point, .. }
            | Test::Falls { cores: point, .. }
            | Test::FineGains { cores: point }
            | Test::GainMost { cores: point, .. }
            | Test::FallsFurthest { cores: point, .. } => vec![point],
            Test::Times { of: At(.., one), to: At(.., other), .. }
            | Test::AtLeast { of: At(.., one), to: At(.., other), .. }
            | Test::FailsTimes { of: At(.., one), to: At(.., other), .. } => vec![one, other],
            Test::Faster { points, .. } => points.to_vec(),
            Test::AtMost { .. } | Test::FailsLess { .. } | Test::FailsMore { .. } | Test::Slows { .. } => {
                Vec::new()
            }
        };
        points.dedup();
        points
    }
}
