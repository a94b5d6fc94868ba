//! Which runs may be compared, who won, and by how much.
//!
//! A *section* is a workload with its preset. Within it, runs that were asked to do the same work with the
//! same threads make a *contest*; what differs inside a contest (protocol, groups, index, kind of update,
//! kind of access) is the contestant. Figures are only ever compared within a contest, so a run over fewer
//! rows never beats one over more.
//!
//! The baseline of a section is what has no synchronization at all, `plain`, if that was run. It takes no part in the
//! contest, since it could not. Where a cluster was run it is the engine, without messages. Otherwise the baseline is the `mutex` run: the one with the same index, updates and access
//! where there is one, else the fastest.
//!
//! What this does not do: no averages over contests, and no test of significance. One run is one run.

use super::RunReport;
use crate::driver::hop::HOP;

/// The baseline's name among the protocols.
pub(super) const BASELINE: &str = "mutex";
/// The name of what has no synchronization.
pub(super) const PLAIN: &str = "plain";
/// The name of the engine, beside a cluster.
pub const ENGINE: &str = "engine";
/// A parameter that makes sections, rather than contests within one.
const STRUCTURE: &str = "structure";

/// The runs of one workload and preset, in the order in which they were run.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// All runs of the section.
    pub runs: Vec<&'a RunReport>,
}

/// Runs that did the same work with the same threads.
#[derive(Clone, Debug)]
pub struct Contest<'a> {
    /// The runs, in the order in which they were run.
    pub runs: Vec<&'a RunReport>,
    /// The name of what they are measured by: the same in all contests of a section, also in those that it was not run in.
    baseline: &'static str,
}

/// Sorts runs into sections, in the order in which each first appears.
pub fn sections(runs: &[RunReport]) -> Vec<Section<'_>> {
    let by =
        |run: &RunReport| (run.workload.clone(), run.preset.clone(), run.parameters.get(STRUCTURE).cloned());
    grouped(runs.iter(), by).into_iter().map(|runs| Section { runs }).collect()
}

impl<'a> Section<'a> {
    /// The workload and its preset, in words.
    pub fn title(&self) -> String {
        let Some(first) = self.runs.first() else { return String::new() };
        let workload = match first.workload.as_str() {
            "ycsb" => "YCSB",
            "tpcc" => "TPC-C",
            other => other,
        };
        let mut title = workload.to_string();
        if !first.preset.is_empty() && first.preset != first.workload {
            title.push_str(&format!(", {}", first.preset));
        }
        if let Some(structure) = first.parameters.get(STRUCTURE) {
            title.push_str(&format!(", {structure}"));
        }
        title
    }

    /// The name of what the runs of the section are measured by, if it was run.
    pub fn baseline(&self) -> &'static str {
        let was_run = |name: &&str| self.runs.iter().any(|run| run.protocol == *name);
        [PLAIN, ENGINE].into_iter().find(was_run).unwrap_or(BASELINE)
    }

    /// Whether a figure is told of any run of the section.
    pub(super) fn tells(&self, of: fn(&RunReport) -> Option<u64>) -> bool {
        self.runs.iter().any(|run| of(run).is_some())
    }

    /// What all runs of the section have in common, and goes not without saying: `theta 0.9, rows 1000, hash index`.
    pub fn common(&self) -> String {
        let Some(first) = self.runs.first() else { return String::new() };
        let mut words: Vec<String> = first
            .parameters
            .iter()
            .filter(|(name, value)| {
                (is_work(name) || *name == "seed")
                    && *name != STRUCTURE
                    && **value != first.preset
                    && self.runs.iter().all(|run| run.parameters.get(*name) == Some(value))
            })
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        for (what, suffix, of) in ASPECTS {
            let value = of(first);
            let usual = ["", "plain", "one-by-one"].contains(&value);
            if what != "groups" && !usual && !self.varies(of) {
                words.push(format!("{value}{suffix}"));
            }
        }
        words.join(", ")
    }

    /// The contests, in the order in which each first appears.
    pub fn contests(&self) -> Vec<Contest<'a>> {
        let by = |run: &RunReport| (work_of(run), run.threads);
        let baseline = self.baseline();
        grouped(self.runs.iter().copied(), by).into_iter().map(|runs| Contest { runs, baseline }).collect()
    }

    /// The thread counts that were run, ascending.
    pub fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<usize> = self.runs.iter().map(|run| run.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The parameters of the work that differ within the section.
    pub fn varying_parameters(&self) -> Vec<String> {
        let mut names: Vec<&String> = self.runs.iter().flat_map(|run| run.parameters.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let differs = |name: &String| {
            let mut values = self.runs.iter().map(|run| run.parameters.get(name));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        names.into_iter().filter(|name| is_work(name) && differs(name)).cloned().collect()
    }

    /// The contestant's name in this section: its protocol, and of the rest what differs here.
    pub fn contestant(&self, run: &RunReport) -> Vec<String> {
        let mut names = vec![run.protocol.clone()];
        for (_, suffix, of) in ASPECTS {
            if self.varies(of) {
                // The baseline has no timestamps, hence no groups to put them on.
                let value = if run.protocol == BASELINE && suffix == GROUPS { "" } else { of(run) };
                names.push(value.to_string());
            }
        }
        for name in self.varying_parameters() {
            names.push(run.parameters.get(&name).cloned().unwrap_or_default());
        }
        names
    }

    /// The headings of [`Section::contestant`].
    pub fn contestant_headings(&self) -> Vec<String> {
        let workload = self.runs.first().map(|run| run.workload.as_str());
        let mut names = vec![match workload {
            Some("stm") => "control".to_string(),
            Some("workers") => "run by".to_string(),
            _ => "protocol".to_string(),
        }];
        names.extend(
            ASPECTS.iter().filter(|(_, _, of)| self.varies(*of)).map(|(what, _, _)| what.to_string()),
        );
        names.extend(self.varying_parameters());
        names
    }

    /// Whether a run other than the baseline has this value.
    pub(super) fn has(&self, of: fn(&RunReport) -> &str, value: &str) -> bool {
        self.runs.iter().any(|run| run.protocol != BASELINE && of(run) == value)
    }

    fn varies(&self, of: fn(&RunReport) -> &str) -> bool {
        let mut values = self.runs.iter().filter(|run| run.protocol != BASELINE).map(|run| of(run));
        let first = values.next();
        values.any(|value| Some(value) != first)
    }
}

impl<'a> Contest<'a> {
    /// The fastest run that was not found inconsistent: a wrong result is not fast. Nor is what has no synchronization a contestant.
    pub fn best(&self) -> Option<&'a RunReport> {
        let sound =
            self.runs.iter().copied().filter(|run| run.consistent != Some(false) && run.protocol != PLAIN);
        sound.max_by(|a, b| a.committed_per_s.total_cmp(&b.committed_per_s))
    }

    /// Whether the others are measured by this run.
    pub(super) fn is_baseline(&self, run: &RunReport) -> bool {
        run.protocol == self.baseline
    }

    /// How many times as fast as the baseline a run is; none where no baseline was run.
    pub fn speedup(&self, run: &RunReport) -> Option<f64> {
        let baselines = || self.runs.iter().copied().filter(|run| run.protocol == self.baseline);
        let alike = |other: &RunReport| {
            other.index == run.index && other.updates == run.updates && other.access == run.access
        };
        let fastest = |a: &&RunReport, b: &&RunReport| a.committed_per_s.total_cmp(&b.committed_per_s);
        let baseline = baselines().filter(|other| alike(other)).max_by(fastest);
        let baseline = baseline.or_else(|| baselines().max_by(fastest))?;
        (baseline.committed_per_s > 0.0).then(|| run.committed_per_s / baseline.committed_per_s)
    }
}

type Aspect = (&'static str, &'static str, fn(&RunReport) -> &str);

const GROUPS: &str = " groups";

/// What can tell contestants of one protocol apart: name, what follows the value in a sentence, the value.
const ASPECTS: [Aspect; 4] = [
    ("groups", GROUPS, |run| &run.groups),
    ("index", " index", |run| &run.index),
    ("updates", " updates", |run| &run.updates),
    ("access", "", |run| &run.access),
];

/// Parameters that say how a run was measured, or repeat a field, not what work was done: runs that differ in
/// them compete.
const NOT_WORK: [&str; 8] =
    ["seed", "clock", HOP, "warm-up", "requests drawn ahead", "given up", "timestamps", OWN_LINES];
/// The parameter that says whose groups lie on lines of their own.
pub(crate) const OWN_LINES: &str = "on lines of their own";

/// Whether a parameter says what work was done.
fn is_work(name: &str) -> bool {
    !NOT_WORK.contains(&name)
}

/// All that says what work was done.
pub(super) fn work_of(run: &RunReport) -> Vec<(String, String)> {
    let own = run.parameters.iter().filter(|(name, _)| is_work(name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Groups by key, keeping the order of first appearance; sections hold few runs, so a search will do.
pub(super) fn grouped<'a, K: PartialEq>(
    runs: impl Iterator<Item = &'a RunReport>,
    key: impl Fn(&RunReport) -> K,
) -> Vec<Vec<&'a RunReport>> {
    let mut groups: Vec<(K, Vec<&RunReport>)> = Vec::new();
    for run in runs {
        let key = key(run);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(protocol: &str, groups: &str, threads: usize, theta: &str, per_s: f64) -> RunReport {
        RunReport {
            workload: "ycsb".into(),
            preset: "granularity".into(),
            protocol: protocol.into(),
            groups: groups.into(),
            index: "hash".into(),
            threads,
            committed_per_s: per_s,
            parameters: [("theta".to_string(), theta.to_string()), ("seed".into(), threads.to_string())]
                .into(),
            ..RunReport::default()
        }
    }

    #[test]
    fn only_runs_of_the_same_work_and_threads_meet() {
        let runs = [
            run("occ", "fine", 1, "0.9", 10.0),
            run("mutex", "coarse", 1, "0.9", 5.0),
            run("occ", "fine", 2, "0.9", 18.0),
            run("occ", "fine", 1, "0.5", 100.0),
        ];
        let sections = sections(&runs);
        assert_eq!(sections.len(), 1);
        let contests = sections[0].contests();
        assert_eq!(contests.len(), 3);
        assert_eq!(contests[0].speedup(&runs[0]), Some(2.0));
        assert_eq!(contests[1].speedup(&runs[2]), None, "no baseline with two threads");
        assert_eq!(contests[0].best().unwrap().committed_per_s, 10.0);
    }

    /// Where timestamps and values lie is the contestant's affair.
    #[test]
    fn coarse_and_fine_meet() {
        let mut runs = ["coarse", "fine"].map(|groups| run("occ", groups, 1, "0.9", 5.0)).to_vec();
        runs[0].parameters.insert("timestamps".into(), "whole rows".into());
        runs[1].parameters.insert(OWN_LINES.into(), "some groups".into());
        runs.push(run("mutex", "coarse", 1, "0.9", 5.0));
        let sections = sections(&runs);
        let contests = sections[0].contests();
        assert_eq!(contests.len(), 1);
        assert_eq!(contests[0].speedup(&runs[1]), Some(1.0));
    }

    #[test]
    fn an_inconsistent_run_never_wins() {
        let mut runs = [run("occ", "fine", 1, "0.9", 10.0), run("mutex", "coarse", 1, "0.9", 5.0)];
        runs[0].consistent = Some(false);
        assert_eq!(sections(&runs)[0].contests()[0].best().unwrap().protocol, "mutex");
    }

    #[test]
    fn what_has_no_synchronization_is_the_measure_and_never_wins() {
        let on = |protocol: &str, threads, per_s| RunReport {
            workload: "stm".into(),
            parameters: [("structure".to_string(), "ravl".to_string())].into(),
            ..run(protocol, "", threads, "", per_s)
        };
        let mut runs = [on("plain", 1, 40.0), on("DCTL", 1, 20.0), on("mutex", 1, 10.0), on("DCTL", 2, 30.0)];
        {
            let section = &sections(&runs)[0];
            let contests = section.contests();
            assert_eq!((section.baseline(), section.title().as_str()), ("plain", "stm, granularity, ravl"));
            assert_eq!(contests[0].best().unwrap().protocol, "DCTL");
            assert_eq!(contests[0].speedup(&runs[1]), Some(0.5));
            assert_eq!(contests[1].speedup(&runs[3]), None, "it takes one thread");
            assert_eq!(section.contestant_headings(), ["control"]);
        }
        runs[3].parameters.insert("structure".into(), "hash".into());
        assert_eq!(sections(&runs).len(), 2, "structures do not meet");
    }

    #[test]
    fn a_contestant_is_named_by_what_differs() {
        let runs = [
            run("occ", "fine", 1, "0.9", 10.0),
            run("occ", "coarse", 1, "0.9", 9.0),
            run("mutex", "coarse", 1, "0.9", 9.0),
        ];
        let section = &sections(&runs)[0];
        assert_eq!(section.contestant_headings(), ["protocol", "groups"]);
        assert_eq!(section.contestant(&runs[1]), ["occ", "coarse"]);
        assert_eq!(section.contestant(&runs[2]), ["mutex", ""]);
        assert_eq!(section.title(), "YCSB, granularity");
        assert_eq!(section.common(), "seed 1, theta 0.9, hash index");
    }
}
