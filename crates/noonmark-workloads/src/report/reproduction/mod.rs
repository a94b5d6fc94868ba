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

use super::RunReport;
use serde::{Deserialize, Serialize};
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
    /// What a timestamp covers in it: `coarse` or `fine`. Runs with the other are there for comparison.
    pub groups: String,
    /// The machine that was simulated.
    pub machine: String,
    /// Where all random numbers came from.
    pub seed: u64,
    /// How much was run, in words.
    pub size: String,
    /// What the paper leaves open, and what was chosen.
    pub choices: Vec<(String, String)>,
    /// What the paper says, beside what came out.
    pub findings: Vec<Finding>,
    /// All runs, by number of cores.
    pub runs: Vec<RunReport>,
    /// Runs with one choice made otherwise; the first is without.
    pub changes: Vec<Change>,
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
    /// The numbers of cores that were run, ascending.
    fn cores(&self) -> Vec<usize> {
        let mut cores: Vec<usize> = self.runs.iter().map(|run| run.threads).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
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

    /// Runs that ended at a limit, in words: some of their transactions were still getting nowhere then.
    fn limits(&self) -> Vec<String> {
        let words = |run: &RunReport| {
            let limit = run.parameters.get(LIMIT)?;
            let RunReport { protocol, groups, threads, .. } = run;
            Some(format!("{protocol} {groups} on {threads} cores ({limit})"))
        };
        self.runs.iter().filter_map(words).collect()
    }

    /// How many of its findings have this verdict.
    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

/// The parameter of a run that says which limit has ended it, if one did.
pub const LIMIT: &str = "ended at a limit of";

/// What it means.
const LIMITED: &str =
    "some transactions had still not come through when twice the time was over, and the run was ended";

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
