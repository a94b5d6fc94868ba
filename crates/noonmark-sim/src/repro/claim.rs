//! What a paper says, as a comparison of runs.
//!
//! A figure *agrees* with the paper's if it is within a quarter of it (and, if it is a ratio, on the same side of 1). That is
//! wide, as it must be: another engine, another language, a simulated machine. The figures themselves stand beside it.
//!
//! What it does not do: a claim about runs that were not made is neither right nor wrong, and says so.

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

/// A run of an experiment.
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
    /// One is at most so many times as fast as another, on any number of cores.
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
    /// A protocol is faster than each of these, on each of these numbers of cores.
    Faster {
        /// The protocol.
        of: Protocol,
        /// These; all others, if there are none.
        than: &'static [Protocol],
        /// With this.
        granularity: Granularity,
        /// On these; on all from 8 on, if there are none.
        cores: &'static [usize],
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
    pub(super) runs: &'a [RunReport],
    pub(super) protocols: &'static [Protocol],
    pub(super) cores: &'a [usize],
}

/// What reports call a granularity.
pub(super) fn name_of(granularity: Granularity) -> &'static str {
    match granularity {
        Granularity::Coarse => "coarse",
        Granularity::Fine => "fine",
    }
}

impl Results<'_> {
    fn at(&self, At(protocol, granularity, cores): At) -> Option<&RunReport> {
        self.runs.iter().find(|run| {
            run.protocol == protocol.name() && run.groups == name_of(granularity) && run.threads == cores
        })
    }

    /// Of one protocol, by cores.
    fn of(&self, protocol: Protocol, granularity: Granularity) -> Vec<&RunReport> {
        self.cores.iter().filter_map(|&cores| self.at(At(protocol, granularity, cores))).collect()
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
            None => (format!("not run on {}", self.test.needs()), Verdict::NotRun),
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
            Test::AtMost { of, to, granularity, paper } => {
                let pairs = results.of(of, granularity).into_iter().zip(results.of(to, granularity));
                let ratio = |(of, to): (&RunReport, &RunReport)| {
                    (of.committed_per_s / to.committed_per_s, of.threads)
                };
                let (most, cores) = pairs.map(ratio).max_by(|a, b| a.0.total_cmp(&b.0))?;
                Some((format!("{most:.2} times at most, on {}", in_words(&[cores])), most <= paper))
            }
            Test::Faster { of, than, granularity, cores } => {
                let mut words = Vec::new();
                let mut holds = true;
                for run in results.of(of, granularity) {
                    let here = run.threads;
                    let is_meant = if cores.is_empty() { here >= 8 } else { cores.contains(&here) };
                    if !is_meant {
                        continue;
                    }
                    let rivals = results.others(than, of).filter_map(|protocol| {
                        let rival = results.at(At(protocol, granularity, here))?;
                        Some((run.committed_per_s / rival.committed_per_s, protocol))
                    });
                    let (least, rival) = rivals.min_by(|a, b| a.0.total_cmp(&b.0))?;
                    holds &= least > 1.0;
                    words.push(format!("{least:.2} times {} on {here}", rival.name()));
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
                    before.retain(|run| run.threads < cores);
                    let best =
                        before.iter().max_by(|a, b| a.committed_per_s.total_cmp(&b.committed_per_s))?;
                    holds &= last.committed_per_s < best.committed_per_s;
                    words.push(format!(
                        "{} {} on {}, {} on {}",
                        protocol.name(),
                        rate(best.committed_per_s),
                        best.threads,
                        rate(last.committed_per_s),
                        last.threads
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

    /// How many cores it is about.
    fn needs(&self) -> String {
        let mut cores = match *self {
            Test::Aborts { at: At(.., cores), .. }
            | Test::Slowest { cores, .. }
            | Test::Falls { cores, .. }
            | Test::FineGains { cores }
            | Test::GainMost { cores, .. }
            | Test::FallsFurthest { cores, .. } => vec![cores],
            Test::Times { of: At(.., one), to: At(.., other), .. } => vec![one, other],
            Test::Faster { cores, .. } => cores.to_vec(),
            Test::AtMost { .. } => Vec::new(),
        };
        cores.dedup();
        in_words(&cores)
    }
}

fn in_words(cores: &[usize]) -> String {
    match cores {
        [] => "enough numbers of cores".into(),
        [1] => "1 core".into(),
        some => {
            let words: Vec<String> = some.iter().map(usize::to_string).collect();
            format!("{} cores", words.join(" or "))
        }
    }
}
