//! Experiments of papers, done again: what the paper says, what came out, and what hangs on the choices that the paper leaves
//! open.
//!
//! Whoever ran them fills a [`Reproduction`] each; text and page are made from these alone. Field names are the names in the
//! JSON file. Neither has a date or a machine of this world in it: the cores are virtual, so that one seed gives the
//! same bytes everywhere.
//!
//! What this module does not do: it judges nothing. Whether a figure agrees comes in as a value.

mod page;
#[cfg(test)]
mod tests;
mod text;

pub use page::page as reproductions_page;
pub use text::text as reproductions_text;

use super::{Phases, RunReport, latency};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;

/// What came of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// What it is called on a command line.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The paper, and the figure in it.
    pub figure: String,
    /// What a timestamp covers in it: `coarse` or `fine`. Runs with the other are there for comparison. Empty where there is no such
    /// choice, as in transactional memory.
    pub groups: String,
    /// The machine that was simulated.
    pub machine: String,
    /// Where all random numbers came from.
    pub seed: u64,
    /// How much was run, in words.
    pub size: String,
    /// What varies along the plot: [`Reproduction::CORES`], or a parameter of the runs whose values begin with a number.
    pub axis: String,
    /// How failed attempts are shown.
    pub failures: Failures,
    /// The kinds of failed attempts that the paper tells apart, each with the rules that are of it here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<(String, Vec<String>)>,
    /// When a finding is said to agree.
    #[serde(default)]
    pub agrees_if: String,
    /// What the paper leaves open, and what was chosen.
    pub choices: Vec<(String, String)>,
    /// What of the paper's experiment is not in it, and what that changes.
    pub left_out: Vec<(String, String)>,
    /// What the paper says, beside what came out.
    pub findings: Vec<Finding>,
    /// All runs, in the order of the plot.
    pub runs: Vec<RunReport>,
    /// Runs with one choice made otherwise; the first is without.
    pub changes: Vec<Change>,
}

/// How failed attempts are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failures {
    /// As a share of all attempts.
    #[default]
    Share,
    /// For each 1000 commits.
    PerThousand,
    /// A virtual second, beside how often the clock was advanced.
    PerSecond,
}

impl Failures {
    /// Those of a run.
    fn of(self, run: &RunReport) -> f64 {
        match self {
            Failures::Share => run.abort_share(),
            Failures::PerThousand => 1000.0 * per_commit(run, run.aborted() as f64),
            Failures::PerSecond => per_second(run, run.aborted()),
        }
    }

    /// In words.
    fn show(self) -> fn(f64) -> String {
        match self {
            Failures::Share => super::share,
            Failures::PerSecond => super::rate,
            Failures::PerThousand => |count| match count {
                count if count < 10.0 => format!("{count:.2}"),
                count if count < 100.0 => format!("{count:.1}"),
                count => format!("{count:.0}"),
            },
        }
    }

    /// At the head of a column.
    fn heading(self) -> &'static str {
        match self {
            Failures::Share => "aborts",
            Failures::PerThousand => "aborts/1k",
            Failures::PerSecond => "restarts/s",
        }
    }

    /// Over a plot.
    fn title(self) -> &'static str {
        match self {
            Failures::Share => "Attempts that ended in a conflict",
            Failures::PerThousand => "Attempts that ended in a conflict, for each 1000 commits",
            Failures::PerSecond => "Restarts, a virtual second",
        }
    }
}

/// Something that a paper says, beside what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Where the paper says it.
    pub section: String,
    /// What it says.
    pub statement: String,
    /// What came out.
    pub ours: String,
    /// Whether that is the same.
    pub verdict: Verdict,
    /// If it is not: why, as far as is known.
    pub reason: String,
    /// What came out with other seeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with_others: Vec<WithSeed>,
}

/// What came out of the same runs with another seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithSeed {
    /// Which.
    pub seed: u64,
    /// What came out.
    pub ours: String,
    /// Whether that is what the paper says.
    pub verdict: Verdict,
}

impl Finding {
    /// What came out with other seeds, those together that came to the same; nothing, if there were none.
    fn others_in_words(&self) -> Option<String> {
        let mut different: Vec<(&WithSeed, Vec<String>)> = Vec::new();
        for other in &self.with_others {
            let seed = other.seed.to_string();
            match different
                .iter_mut()
                .find(|(known, _)| (known.verdict, &known.ours) == (other.verdict, &other.ours))
            {
                Some((_, seeds)) => seeds.push(seed),
                None => different.push((other, vec![seed])),
            }
        }
        let in_words = |(other, seeds): (&WithSeed, Vec<String>)| {
            let word = if seeds.len() == 1 { "seed" } else { "seeds" };
            format!("{word} {}: {} ({})", seeds.join(", "), other.ours, other.verdict.in_words())
        };
        (!different.is_empty()).then(|| different.into_iter().map(in_words).collect::<Vec<_>>().join("; "))
    }
}

/// Whether something came out as the paper has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It did.
    Agrees,
    /// It did not.
    Differs,
    /// The runs that would show it were not made.
    NotRun,
}

impl Verdict {
    fn in_words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NotRun => "not run",
        }
    }
}

/// One choice made otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Which.
    pub words: String,
    /// What that gives.
    pub runs: Vec<RunReport>,
}

/// The experiments as a JSON array, indented, with a newline at the end.
pub fn reproductions_json(all: &[Reproduction]) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(all).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

impl Reproduction {
    /// What varies where it is the number of cores.
    pub const CORES: &str = "cores";

    /// The parameter that varies where it is how many workers each server of a cluster has.
    pub const WORKERS: &str = "workers a server";

    /// The parameter that varies where it is how many servers a cluster has.
    pub const SERVERS: &str = "servers";

    /// The parameter that varies where it is how many warehouses each server of a cluster has.
    pub const WAREHOUSES: &str = "warehouses a server";

    /// The parameter that varies where it is how hot the rows are that a cluster's transactions read.
    pub const SKEW: &str = "exponent of reads";

    /// The parameter that varies where it is how many clients there are before workers that share nothing.
    pub const CLIENTS: &str = "clients";

    /// The parameter that varies where it is how many of those workers there are.
    pub const NODES: &str = "workers";

    /// The parameter that varies where it is the seed.
    pub const SEED: &str = "seed";

    /// The parameter of a run that varies, unless it is the number of cores: how much it is, without what is said of it besides.
    fn varied<'a>(&self, run: &'a RunReport) -> Option<&'a str> {
        let value = run.parameters.get(&self.axis).filter(|_| self.axis != Self::CORES)?;
        let besides = [" of ", ", "].iter().filter_map(|words| value.find(words)).min();
        Some(&value[..besides.unwrap_or(value.len())])
    }

    /// Where a run is on the plot.
    fn label<'a>(&self, run: &'a RunReport) -> Cow<'a, str> {
        self.varied(run).map_or_else(|| cores_in_words(run.threads).into(), Cow::from)
    }

    /// The same as a number: the one that a label begins with.
    fn x(&self, run: &RunReport) -> f64 {
        let label = self.label(run);
        let digits = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
        label[..digits].parse().unwrap_or(0.0)
    }

    /// What stands below a plot.
    fn x_title(&self) -> String {
        match self.axis.as_str() {
            Self::CORES
            | Self::WORKERS
            | Self::SERVERS
            | Self::WAREHOUSES
            | Self::SKEW
            | Self::CLIENTS
            | Self::NODES
            | Self::SEED => self.axis.clone(),
            other => {
                let is_time = self
                    .runs
                    .first()
                    .and_then(|run| self.varied(run))
                    .is_some_and(|value| value.ends_with("µs"));
                format!("{other}, {}", if is_time { "µs" } else { "%" })
            }
        }
    }

    /// Where the runs are, in the order of the plot.
    fn labels(&self) -> Vec<Cow<'_, str>> {
        let mut labels = Vec::new();
        for run in &self.runs {
            let label = self.label(run);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    /// The last runs of the plot.
    fn last(&self) -> Vec<&RunReport> {
        let last = self.runs.last().map(|run| self.label(run));
        self.runs.iter().filter(|run| Some(self.label(run)) == last).collect()
    }

    /// Where a run is, in words.
    fn place(&self, run: &RunReport) -> String {
        match self.varied(run) {
            Some(value) => format!("at {value} {}", self.axis),
            None => format!("on {}", cores_in_words(run.threads)),
        }
    }

    /// The runs that the figure itself shows, and those beside them for comparison.
    fn parts(&self) -> Vec<(&str, Vec<&RunReport>)> {
        let other = if self.groups == "coarse" { "fine" } else { "coarse" };
        [self.groups.as_str(), other]
            .into_iter()
            .map(|groups| (groups, self.runs.iter().filter(|run| run.groups == groups).collect::<Vec<_>>()))
            .filter(|(_, runs)| !runs.is_empty())
            .collect()
    }

    /// Runs in which transactions got nowhere, in words.
    fn stuck(&self) -> Vec<String> {
        let words = |run: &RunReport| {
            let given_up = run.parameters.get(GIVEN_UP)?;
            Some(format!("{} {} ({given_up})", who(run), self.place(run)))
        };
        self.runs.iter().filter_map(words).collect()
    }

    /// The runs whose failed attempts are shown by kind, each with what it is called: those of the last point of the plot, then those
    /// with a choice made otherwise. None if the paper tells no kinds apart.
    fn runs_by_kind(&self) -> Vec<(String, &RunReport)> {
        if self.kinds.is_empty() {
            return Vec::new();
        }
        let who = |run: &RunReport| format!("{} {}", run.protocol, run.groups);
        let last = self.last().into_iter().map(|run| (who(run), run));
        // (The first change is none: its runs are among the last ones.)
        let changed = self.changes.iter().skip(1).flat_map(|change| {
            let name = |run| match change.runs.len() {
                1 => change.words.clone(),
                _ => format!("{}: {}", who(run), change.words),
            };
            change.runs.iter().map(move |run| (name(run), run))
        });
        last.chain(changed).collect()
    }

    /// Of all attempts of a run, those that failed, in percent: by kind, then those of no kind, then all.
    fn shares_by_kind(&self, run: &RunReport) -> Vec<f64> {
        let attempts = run.committed.saturating_add(run.aborted()).max(1) as f64;
        let of = |rules: &[String]| rules.iter().filter_map(|rule| run.aborts.get(rule)).sum::<u64>();
        let counts: Vec<u64> = self.kinds.iter().map(|(_, rules)| of(rules)).collect();
        let others = run.aborted() - counts.iter().sum::<u64>().min(run.aborted());
        let all = counts.into_iter().chain([others, run.aborted()]);
        all.map(|count| 100.0 * count as f64 / attempts).collect()
    }

    /// At the heads of those figures.
    fn kind_headings(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|(words, _)| words.as_str()).chain(["others", "all"])
    }

    /// Adds what the same experiment came to with another seed to its findings.
    pub fn add_seed(&mut self, other: &Reproduction) {
        for (finding, other_finding) in self.findings.iter_mut().zip(&other.findings) {
            finding.with_others.push(WithSeed {
                seed: other.seed,
                ours: other_finding.ours.clone(),
                verdict: other_finding.verdict,
            });
        }
    }

    /// With how many seeds it was run, and how many of its findings come out with each of them; if there was one only, nothing.
    fn with_each_seed(&self) -> Option<(usize, usize)> {
        let others = self.findings.first()?.with_others.len();
        let agrees = |finding: &&Finding| {
            let mut verdicts = finding.with_others.iter().map(|other| other.verdict);
            finding.verdict == Verdict::Agrees && verdicts.all(|verdict| verdict == Verdict::Agrees)
        };
        (others > 0).then(|| (others + 1, self.findings.iter().filter(agrees).count()))
    }

    /// What became of the statements of its paper, and of ours besides; of neither, if there are none.
    fn tallies(&self) -> impl Iterator<Item = (&'static str, Tally)> {
        [("what the paper says", false), ("what we say", true)].into_iter().filter_map(|(what, ours)| {
            let tally = Tally::of(self.findings.iter().filter(|finding| finding.is_ours() == ours));
            (tally.all > 0).then_some((what, tally))
        })
    }
}

impl Finding {
    /// It is a statement of ours, about what a paper says or besides: its section says so.
    fn is_ours(&self) -> bool {
        self.section.split(',').next() == Some("ours")
    }
}

/// How many statements there are, and what became of them.
#[derive(Default)]
struct Tally {
    all: usize,
    agree: usize,
    differ: usize,
    not_run: usize,
}

impl Tally {
    fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        let mut tally = Tally::default();
        for finding in findings {
            tally.all += 1;
            match finding.verdict {
                Verdict::Agrees => tally.agree += 1,
                Verdict::Differs => tally.differ += 1,
                Verdict::NotRun => tally.not_run += 1,
            }
        }
        tally
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { all, agree, differ, not_run } = self;
        let word = |count: usize, one: &'static str, more: &'static str| if count == 1 { one } else { more };
        let (come, do_, were) =
            (word(*agree, "comes", "come"), word(*differ, "does", "do"), word(*not_run, "was", "were"));
        write!(f, "{agree} of {all} {come} out, {differ} {do_} not")?;
        if *not_run > 0 {
            write!(f, ", {not_run} {were} not run")?;
        }
        Ok(())
    }
}

/// What stands over failed attempts by kind.
const BY_KIND: &str = "of 100 attempts, those that failed, by kind";

/// The parameter of a run that says which of its transactions got nowhere, and were given up in the end, if any were.
pub const GIVEN_UP: &str = "given up";

/// What stands over figures by phase.
const BY_PHASE: &str = "a commit, phase by phase: what it takes, and bytes between servers";

/// At the heads of those figures.
const PHASES: [&str; 11] = [
    "execution",
    "prepare",
    "commit",
    "failed",
    "paused",
    "all",
    "execution, B",
    "prepare, B",
    "commit, B",
    "failed, B",
    "all, B",
];

/// So many of them are times.
const PAST_TIMES: usize = 6;

/// Those figures.
fn by_phase(phases: &Phases) -> [String; 11] {
    let [execution, prepare, commit, failed] = phases.time_us.each().map(latency);
    let bytes = |count: f64| format!("{count:.0}");
    let [execution_b, prepare_b, commit_b, failed_b] = phases.bytes.each().map(bytes);
    let (paused, all, all_b) =
        (latency(phases.paused_us), latency(phases.latency_us()), bytes(phases.bytes.total()));
    [execution, prepare, commit, failed, paused, all, execution_b, prepare_b, commit_b, failed_b, all_b]
}

/// What it means.
const STUCK: &str = "some transactions got nowhere: they were under way before what is measured began, and given up when it was over";

fn cores_in_words(cores: usize) -> String {
    if cores == 1 { "1 core".into() } else { format!("{cores} cores") }
}

/// By which rules it was run, and what a timestamp covered, if there is a choice.
fn who(run: &RunReport) -> String {
    format!("{} {}", run.protocol, run.groups).trim_end().to_owned()
}

/// How often the clock was advanced a second, if there is one.
fn clock_per_s(run: &RunReport) -> Option<f64> {
    run.clock_increments.map(|count| per_second(run, count))
}

/// So many in the time that was measured, a second.
fn per_second(run: &RunReport, count: u64) -> f64 {
    if run.seconds == 0.0 { 0.0 } else { count as f64 / run.seconds }
}

/// So many for each commit.
fn per_commit(run: &RunReport, count: f64) -> f64 {
    if run.committed == 0 { 0.0 } else { count / run.committed as f64 }
}

/// The rules by which attempts failed, most frequent first, each with its share of them.
fn rules(run: &RunReport, most: usize) -> String {
    let all = run.aborted().max(1) as f64;
    let mut rules: Vec<(&String, &u64)> = run.aborts.iter().collect();
    rules.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let words: Vec<String> = rules
        .iter()
        .take(most)
        .map(|(rule, count)| format!("{rule} {}", super::share(**count as f64 / all)))
        .collect();
    words.join(", ")
}
