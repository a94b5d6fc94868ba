//! Whether what has come out is what a paper says.
//!
//! What it does not do: a claim about runs that were not made is neither right nor wrong, and says so.

use super::{At, Axis, Claim, Cost, Kind, Part, Rules, Test};
use noonmark_workloads::report::{Finding, RunReport, Verdict, rate};
use noonmark_workloads::store::Granularity;

/// The runs of an experiment.
pub(super) struct Results<'a> {
    /// Each with its point.
    pub(super) runs: &'a [(usize, RunReport)],
    pub(super) protocols: &'static [Rules],
    pub(super) points: &'a [usize],
    pub(super) axis: Axis,
}

impl Results<'_> {
    fn at(&self, At(protocol, granularity, wanted): At) -> Option<&RunReport> {
        let is_meant = |(point, run): &&(usize, RunReport)| {
            run.protocol == protocol.name() && run.groups == protocol.groups(granularity) && *point == wanted
        };
        self.runs.iter().find(is_meant).map(|(_, run)| run)
    }

    /// Of one protocol, in the order of the plot.
    fn of(&self, protocol: Rules, granularity: Granularity) -> Vec<(usize, &RunReport)> {
        let run = |&point: &usize| Some((point, self.at(At(protocol, granularity, point))?));
        self.points.iter().filter_map(run).collect()
    }

    /// The same, if there are two points at least.
    fn course(&self, protocol: Rules, granularity: Granularity) -> Option<Vec<(usize, &RunReport)>> {
        Some(self.of(protocol, granularity)).filter(|runs| runs.len() > 1)
    }

    fn others(&self, than: &'static [Rules], of: Rules) -> impl Iterator<Item = Rules> {
        let these = if than.is_empty() { self.protocols } else { than };
        these.iter().copied().filter(move |&protocol| protocol != of)
    }

    /// How many times as fast each is with fine timestamps, the one that gains most first.
    fn gains(&self, cores: usize) -> Option<Vec<(f64, Rules)>> {
        let gain = |&protocol: &Rules| {
            let coarse = self.at(At(protocol, Granularity::Coarse, cores))?;
            let fine = self.at(At(protocol, Granularity::Fine, cores))?;
            Some((fine.committed_per_s / coarse.committed_per_s, protocol))
        };
        sorted(self.protocols.iter().map(gain).collect())
    }
}

/// The largest first.
fn sorted(figures: Option<Vec<(f64, Rules)>>) -> Option<Vec<(f64, Rules)>> {
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

/// The same of a ratio. What counts is the lead: 1.2 is within a quarter of 1.57, and a third of its lead.
fn about_ratio(ours: f64, paper: f64) -> bool {
    about(ours, paper) && (ours - paper).abs() <= (0.5 * (paper - 1.0).abs()).max(0.1)
}

/// Where it is fastest.
fn fastest(course: &[(usize, &RunReport)]) -> Option<f64> {
    course.iter().map(|(_, run)| run.committed_per_s).max_by(f64::total_cmp)
}

/// How often the clock is advanced, if there is one.
fn clock_per_s(run: &RunReport) -> Option<f64> {
    Some(run.clock_increments? as f64 / run.seconds)
}

/// Messages between servers and their bytes, for each commit.
fn per_commit(run: &RunReport) -> Option<(f64, f64)> {
    let (traffic, commits) = (run.traffic?, run.committed.max(1) as f64);
    Some((traffic.messages as f64 / commits, traffic.bytes as f64 / commits))
}

/// Attempts that failed, for each commit.
fn failed(run: &RunReport) -> f64 {
    run.aborted() as f64 / run.committed.max(1) as f64
}

/// Of 100 attempts, those that failed in this way.
fn percent_of(run: &RunReport, kind: &Kind) -> f64 {
    let failed: u64 = kind.rules.iter().filter_map(|rule| run.aborts.get(*rule)).sum();
    let attempts = run.committed.saturating_add(run.aborted()).max(1);
    100.0 * failed as f64 / attempts as f64
}

/// The same of some kinds, in words.
fn by_kind(run: &RunReport, kinds: &[&Kind]) -> String {
    let words: Vec<String> =
        kinds.iter().map(|kind| format!("{} {:.2} %", kind.words, percent_of(run, kind))).collect();
    words.join(", ")
}

/// The same, in words.
fn thousand(run: &RunReport) -> String {
    let failed = 1000.0 * failed(run);
    if failed < 10.0 { format!("{failed:.2}") } else { format!("{failed:.1}") }
}

fn list(figures: &[(f64, Rules)], show: fn(f64) -> String) -> String {
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
            with_others: Vec::new(),
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
            Test::FewFail { protocols, percent: most, point } => {
                let share = |protocol: &Rules| {
                    let run = results.at(At(*protocol, Granularity::Coarse, point))?;
                    Some((run.abort_share(), *protocol))
                };
                let shares = sorted(protocols.iter().map(share).collect())?;
                Some((list(&shares, percent), 100.0 * shares.first()?.0 <= most))
            }
            Test::AbortsOf { at, kind, percent: paper, beside } => {
                let run = results.at(at)?;
                let ours = percent_of(run, kind);
                let beside = beside.map(|kind| format!("; {}", by_kind(run, &[kind])));
                Some((format!("{ours:.2} %{}", beside.unwrap_or_default()), about(ours, paper)))
            }
            Test::MoreOf { at, kinds, than } => {
                let run = results.at(at)?;
                let holds = kinds
                    .iter()
                    .all(|kind| than.iter().all(|than| percent_of(run, kind) > percent_of(run, than)));
                Some((by_kind(run, &[kinds, than].concat()), holds))
            }
            Test::AsManyOf { at, kinds: kinds @ [one, other] } => {
                let run = results.at(at)?;
                let holds = about(percent_of(run, one), percent_of(run, other));
                Some((by_kind(run, &kinds), holds))
            }
            Test::ShareTimes { of, to, paper } => {
                let (of, to) = (results.at(of)?.abort_share(), results.at(to)?.abort_share());
                let ours = of / to;
                let words = format!("{ours:.2} times: {} and {}", percent(of), percent(to));
                Some((words, about_ratio(ours, paper)))
            }
            Test::SharesAtMost { of, to, times } => {
                let (of, to) = (results.at(of)?.abort_share(), results.at(to)?.abort_share());
                Some((format!("{:.2} times: {} and {}", of / to, percent(of), percent(to)), of <= times * to))
            }
            Test::Times { of, to, paper } => {
                let ours = results.at(of)?.committed_per_s / results.at(to)?.committed_per_s;
                Some((format!("{ours:.2} times"), about_ratio(ours, paper)))
            }
            Test::TimesNext { of: At(one, granularity, point), others, paper } => {
                let fast = |rules: &Rules| {
                    Some((*rules, results.at(At(*rules, granularity, point))?.committed_per_s))
                };
                let others: Option<Vec<_>> = others.iter().map(fast).collect();
                let next = others?.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
                let ours = results.at(At(one, granularity, point))?.committed_per_s / next.1;
                let words = format!("{ours:.2} times the next, which is {}", next.0.name());
                Some((words, about_ratio(ours, paper)))
            }
            Test::TimesNextAtPeak { of, others, paper } => {
                let peak = |rules: &Rules| {
                    let course = results.course(*rules, Granularity::Coarse)?;
                    let (point, run) = course
                        .into_iter()
                        .max_by(|a, b| a.1.committed_per_s.total_cmp(&b.1.committed_per_s))?;
                    Some((run.committed_per_s, point, *rules))
                };
                let others = others.iter().map(peak).collect::<Option<Vec<_>>>()?;
                let (next, next_at, next_is) =
                    others.into_iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
                let (own, own_at, _) = peak(&of)?;
                let ours = own / next;
                let words = format!(
                    "{ours:.2} times the next, which is {}: {} {}, {} {}",
                    next_is.name(),
                    rate(own),
                    results.axis.briefly(own_at),
                    rate(next),
                    results.axis.briefly(next_at)
                );
                Some((words, about_ratio(ours, paper)))
            }
            Test::TimesBytes { of, to, paper } => {
                let ours = per_commit(results.at(of)?)?.1 / per_commit(results.at(to)?)?.1;
                Some((format!("{ours:.2} times"), about_ratio(ours, paper)))
            }
            Test::FewerBytes { of, than } => {
                let [of, than] = [per_commit(results.at(of)?)?.1, per_commit(results.at(than)?)?.1];
                Some((format!("{of:.0} bytes against {than:.0}"), of < than))
            }
            Test::TimesAsLong { of, to, paper } => {
                let ours = results.at(of)?.latency_us.p50 / results.at(to)?.latency_us.p50;
                let words = format!("{ours:.2} times, of the medians");
                Some((words, about_ratio(ours, paper)))
            }
            Test::TimesCost { of, to, cost, paper } => {
                let (of, to) = (cost.of(results.at(of)?)?, cost.of(results.at(to)?)?);
                let (ours, show) = (of / to, cost.show());
                let words = format!("{ours:.2} times: {} and {}", show(of), show(to));
                Some((words, about_ratio(ours, paper)))
            }
            Test::ClosedLoop { of, to } => {
                let (of, to, work) = (results.at(of)?, results.at(to)?, Cost::Time(Part::Working));
                let (gain, spared) = (of.committed_per_s / to.committed_per_s, work.of(to)? / work.of(of)?);
                let words = format!("{gain:.2} times as much, in {spared:.2} times less time at work");
                Some((words, (gain / spared - 1.0).abs() <= 0.05))
            }
            Test::CostsMore { these, than, cost, point } => {
                let each = |protocol: &Rules| {
                    Some((cost.of(results.at(At(*protocol, Granularity::Coarse, point))?)?, *protocol))
                };
                let (these, than) =
                    (sorted(these.iter().map(each).collect())?, sorted(than.iter().map(each).collect())?);
                let holds = these.last()?.0 > than.first()?.0;
                Some((format!("{}; {}", list(&these, cost.show()), list(&than, cost.show())), holds))
            }
            Test::Flat { protocols } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let course = results.course(protocol, Granularity::Coarse)?;
                    let most = fastest(&course)?;
                    let least = course.iter().map(|(_, run)| run.committed_per_s).fold(most, f64::min);
                    holds &= least >= 0.75 * most;
                    words.push(format!("{} {} to {}", protocol.name(), rate(least), rate(most)));
                }
                Some((words.join("; "), holds))
            }
            Test::CostsAsMuch { protocols, cost } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let course = results.course(protocol, Granularity::Coarse)?;
                    let costs = course.iter().map(|(_, run)| cost.of(run)).collect::<Option<Vec<f64>>>()?;
                    let most = costs.iter().copied().fold(0.0, f64::max);
                    let least = costs.iter().copied().fold(most, f64::min);
                    holds &= least >= 0.75 * most;
                    words.push(format!(
                        "{} {} to {}",
                        protocol.name(),
                        cost.show()(least),
                        cost.show()(most)
                    ));
                }
                Some((words.join("; "), holds))
            }
            Test::Paired { of, to, times } => {
                let (of, to) =
                    (results.course(of, Granularity::Coarse)?, results.course(to, Granularity::Coarse)?);
                let all = |runs: &[(usize, &RunReport)], count: fn(&RunReport) -> u64| -> u64 {
                    runs.iter().map(|(_, run)| count(run)).sum()
                };
                let fewer =
                    of.iter().zip(&to).filter(|(of, to)| of.1.abort_share() < to.1.abort_share()).count();
                let (failed, commits) = (
                    [all(&of, RunReport::aborted), all(&to, RunReport::aborted)],
                    [all(&of, |run| run.committed), all(&to, |run| run.committed)],
                );
                let shares = [0, 1].map(|at| failed[at] as f64 / (failed[at] + commits[at]).max(1) as f64);
                let ours = shares[0] / shares[1];
                let words = format!(
                    "{ours:.3} times: {} and {} fail, fewer {fewer} of {} times; {} and {} commits",
                    percent(shares[0]),
                    percent(shares[1]),
                    to.len(),
                    commits[0],
                    commits[1]
                );
                Some((words, ours <= times && fewer == to.len() && commits[0] >= commits[1]))
            }
            Test::PairedCost { of, to, cost, times } => {
                let mean = |protocol| {
                    let course = results.course(protocol, Granularity::Coarse)?;
                    let all = course.iter().map(|(_, run)| Some(cost.of(run)? * run.committed as f64));
                    let commits: u64 = course.iter().map(|(_, run)| run.committed).sum();
                    Some(all.sum::<Option<f64>>()? / commits.max(1) as f64)
                };
                let (of, to) = (mean(of)?, mean(to)?);
                let (ours, show) = (of / to, cost.show());
                Some((format!("{ours:.3} times: {} and {}", show(of), show(to)), ours <= times))
            }
            Test::NoMore { of, to, times } => {
                let ours = results.at(of)?.committed_per_s / results.at(to)?.committed_per_s;
                Some((format!("{ours:.2} times"), ours <= times))
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
            Test::FallsBehind { of, than, paper } => {
                let pairs = results.course(of, Granularity::Coarse)?;
                let pairs = pairs.into_iter().zip(results.course(than, Granularity::Coarse)?);
                let is_behind =
                    pairs.map(|((_, of), (_, than))| of.committed_per_s < 0.98 * than.committed_per_s);
                let is_behind: Vec<bool> = is_behind.collect();
                let wanted = results.points.iter().position(|&point| point == paper)?;
                let Some(from) = is_behind.iter().position(|behind| *behind) else {
                    return Some(("never, by a fiftieth or more".into(), false));
                };
                let stays = is_behind[from..].iter().all(|behind| *behind);
                let from_here = results.axis.briefly(results.points[from]);
                let words = if stays {
                    format!("{from_here}, and from there on")
                } else {
                    format!("{from_here}, and not always after it")
                };
                Some((words, stays && from == wanted))
            }
            Test::FailsTimes { of, to, paper, or_more } => {
                let (of, to) = (results.at(of)?, results.at(to)?);
                let ours = failed(of) / failed(to);
                let words = format!("{ours:.2} times: {} and {} of 1000 commits", thousand(of), thousand(to));
                let holds = match or_more {
                    true => ours >= paper,
                    false => about_ratio(ours, paper),
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
            Test::Grows { protocols, from, until } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let mut runs = results.course(protocol, Granularity::Coarse)?;
                    runs.retain(|(point, _)| *point >= from && until.is_none_or(|until| *point <= until));
                    let [(_, first), .., (at_last, last)] = runs[..] else { return None };
                    holds &=
                        runs.windows(2).all(|pair| pair[0].1.committed_per_s < pair[1].1.committed_per_s);
                    words.push(format!(
                        "{} {} {}, {} {}",
                        protocol.name(),
                        rate(first.committed_per_s),
                        results.axis.briefly(from),
                        rate(last.committed_per_s),
                        results.axis.briefly(at_last)
                    ));
                }
                Some((words.join("; "), holds))
            }
            Test::SameTraffic { protocols } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let runs = results.course(protocol, Granularity::Coarse)?;
                    let each = runs.iter().map(|(_, run)| per_commit(run)).collect::<Option<Vec<_>>>()?;
                    let first = *each.first()?;
                    let is_same = |now: f64, then: f64| (now / then - 1.0).abs() <= 0.1;
                    holds &= each.iter().all(|now| is_same(now.0, first.0) && is_same(now.1, first.1));
                    let list = |figure: fn(&(f64, f64)) -> String| {
                        each.iter().map(figure).collect::<Vec<String>>().join(", ")
                    };
                    words.push(format!(
                        "{} {} messages, {} bytes",
                        protocol.name(),
                        list(|(messages, _)| format!("{messages:.2}")),
                        list(|(_, bytes)| format!("{bytes:.0}"))
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
            Test::Plateau { protocols, per_s } => {
                let mut words = Vec::new();
                let mut holds = true;
                for &protocol in protocols {
                    let course = results.course(protocol, Granularity::Coarse)?;
                    let most = fastest(&course)?;
                    let [.., (_, before), (_, last)] = course[..] else { return None };
                    let gain = last.committed_per_s / before.committed_per_s;
                    holds &= most <= per_s && gain <= 1.25;
                    words.push(format!(
                        "{} {} at most, {gain:.2} times from the last step",
                        protocol.name(),
                        rate(most)
                    ));
                }
                Some((words.join("; "), holds))
            }
            Test::Below { protocol, per_s } => {
                let most = fastest(&results.course(protocol, Granularity::Coarse)?)?;
                Some((format!("{} at most", rate(most)), most <= per_s))
            }
            Test::PerSecond { at, paper, or_more } => {
                let ours = results.at(at)?.committed_per_s;
                Some((rate(ours), if or_more { ours >= paper } else { about(ours, paper) }))
            }
            Test::Alike { protocols, points } => {
                let mut words = Vec::new();
                let mut holds = true;
                let is_meant =
                    |point: &&usize| if points.is_empty() { **point >= 8 } else { points.contains(point) };
                for &point in results.points.iter().filter(is_meant) {
                    let rates = protocols.iter().map(|&protocol| {
                        Some(results.at(At(protocol, Granularity::Coarse, point))?.committed_per_s)
                    });
                    let rates = rates.collect::<Option<Vec<f64>>>()?;
                    let most = rates.iter().copied().fold(0.0, f64::max);
                    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
                    holds &= least >= 0.75 * most;
                    words.push(format!("{:.2} of the fastest {}", least / most, results.axis.briefly(point)));
                }
                if words.is_empty() { None } else { Some((words.join(", "), holds)) }
            }
            Test::GainsNothing { protocol, from } => {
                let then = results.at(At(protocol, Granularity::Coarse, from))?.committed_per_s;
                let &last = results.points.last().filter(|&&last| last > from)?;
                let now = results.at(At(protocol, Granularity::Coarse, last))?.committed_per_s;
                let words = format!("{} on {from}, {} on {last}", rate(then), rate(now));
                Some((words, now <= 1.25 * then))
            }
            Test::Clock { at, paper, or_less } => {
                let ours = clock_per_s(results.at(at)?)?;
                let holds = if or_less { ours < paper } else { about(ours, paper) };
                Some((format!("{} times a second", rate(ours)), holds))
            }
            Test::ClockPerCommit { protocols } => {
                let &last = results.points.last()?;
                let each = |&protocol: &Rules| {
                    let run = results.at(At(protocol, Granularity::Coarse, last))?;
                    Some((clock_per_s(run)? / run.committed_per_s, protocol))
                };
                let each = sorted(protocols.iter().map(each).collect())?;
                let holds = each.iter().all(|&(times, _)| about(times, 1.0));
                Some((list(&each, |times| format!("{times:.2} times a commit")), holds))
            }
            Test::ClocksAlike { of, to } => {
                let (of, to) = (clock_per_s(results.at(of)?)?, clock_per_s(results.at(to)?)?);
                let words = format!("{} and {} times a second", rate(of), rate(to));
                Some((words, of == to || about(of, to)))
            }
            Test::Sparing { these, those, cores } => {
                let each = |&protocol: &Rules| {
                    Some((failed(results.at(At(protocol, Granularity::Coarse, cores))?), protocol))
                };
                let these = sorted(these.iter().map(each).collect())?;
                let those = sorted(those.iter().map(each).collect())?;
                let holds = these.first()?.0 < those.last()?.0;
                let show = |failed: f64| format!("{:.2}", 1000.0 * failed);
                Some((format!("{}; {} of 1000 commits", list(&these, show), list(&those, show)), holds))
            }
            Test::FallsFurthest { protocol, cores } => {
                let fall = |&protocol: &Rules| {
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
            | Test::AbortsOf { at: At(.., point), .. }
            | Test::MoreOf { at: At(.., point), .. }
            | Test::AsManyOf { at: At(.., point), .. }
            | Test::Slowest { cores: point, .. }
            | Test::Falls { cores: point, .. }
            | Test::FineGains { cores: point }
            | Test::GainMost { cores: point, .. }
            | Test::FallsFurthest { cores: point, .. }
            | Test::PerSecond { at: At(.., point), .. }
            | Test::GainsNothing { from: point, .. }
            | Test::Grows { from: point, .. }
            | Test::Clock { at: At(.., point), .. }
            | Test::TimesNext { of: At(.., point), .. }
            | Test::CostsMore { point, .. }
            | Test::FewFail { point, .. }
            | Test::Sparing { cores: point, .. } => vec![point],
            Test::Times { of: At(.., one), to: At(.., other), .. }
            | Test::TimesBytes { of: At(.., one), to: At(.., other), .. }
            | Test::FewerBytes { of: At(.., one), than: At(.., other) }
            | Test::TimesAsLong { of: At(.., one), to: At(.., other), .. }
            | Test::TimesCost { of: At(.., one), to: At(.., other), .. }
            | Test::ClosedLoop { of: At(.., one), to: At(.., other) }
            | Test::NoMore { of: At(.., one), to: At(.., other), .. }
            | Test::AtLeast { of: At(.., one), to: At(.., other), .. }
            | Test::ClocksAlike { of: At(.., one), to: At(.., other) }
            | Test::ShareTimes { of: At(.., one), to: At(.., other), .. }
            | Test::SharesAtMost { of: At(.., one), to: At(.., other), .. }
            | Test::FailsTimes { of: At(.., one), to: At(.., other), .. } => vec![one, other],
            Test::Faster { points, .. } => points.to_vec(),
            Test::AtMost { .. }
            | Test::FallsBehind { .. }
            | Test::FailsLess { .. }
            | Test::FailsMore { .. }
            | Test::Slows { .. }
            | Test::SameTraffic { .. }
            | Test::Flat { .. }
            | Test::CostsAsMuch { .. }
            | Test::Paired { .. }
            | Test::PairedCost { .. }
            | Test::Plateau { .. }
            | Test::Below { .. }
            | Test::Alike { .. }
            | Test::TimesNextAtPeak { .. }
            | Test::ClockPerCommit { .. } => Vec::new(),
        };
        points.dedup();
        points
    }
}
