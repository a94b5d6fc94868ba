//! One run, from its settings to its report.
//!
//! What does not go together is refused before anything is loaded ([`fits`]), and so is what would take too long to be meant.
//!
//! What it does not do: read arguments, or know contenders from elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::names::{Contender, Preset, Structure};
use super::stage::{Counted, Measured, Pace};
use super::{churn, recorded};
use crate::driver::{Length, Plan, check_plan};
use crate::report::{Latency, RunReport};
use crate::workload::{Condition, RunError};

/// As many keys as a request can name.
pub const KEYS_MAX: u64 = 1 << churn::KEY_BITS;
/// As many threads as a transactional memory has slots, but for those that load and check.
pub const THREADS_MAX: usize = 120;

/// Everything about a run but who runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The experiment.
    pub preset: Preset,
    /// What it is run on.
    pub structure: Structure,
    /// How many of a hundred operations change something.
    pub updates_percent: u8,
    /// How many keys there are to choose from, or records, or variables.
    pub keys: u64,
    /// Worker threads.
    pub threads: usize,
    /// How long to measure.
    pub length: Length,
    /// Seconds of warming up before.
    pub warm_up_s: f64,
    /// Whether operations of one thread may overlap.
    pub pace: Pace,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Requests that each worker draws ahead; unless told otherwise about a million.
    pub requests: Option<usize>,
    /// Where to write the history of a recorded run.
    pub history: Option<PathBuf>,
}

impl Settings {
    /// A run for one second, after a quarter of a second of warming up, on one thread, with a million keys.
    pub fn new(preset: Preset, structure: Structure, updates_percent: u8) -> Self {
        Settings {
            preset,
            structure,
            updates_percent,
            keys: 1_000_000,
            threads: 1,
            length: Length::seconds(1.0),
            warm_up_s: 0.25,
            pace: Pace::Free,
            seed: 1,
            requests: None,
            history: None,
        }
    }

    /// As the stage takes it.
    pub(super) fn plan(&self) -> Plan {
        // About as many as there are keys, so that what is near is no more often asked for than it should be.
        let usual = ((1 << 22) / self.threads.max(1)).clamp(1 << 13, 1 << 20);
        Plan {
            threads: self.threads,
            length: self.length,
            warm_up_s: self.warm_up_s,
            seed: self.seed,
            requests: self.requests.unwrap_or(usual),
            count_allocations: false,
        }
    }

    /// That they make sense together, whoever is to run them.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |what: String| Err(RunError::Setting(what));
        let (preset, structure) = (self.preset, self.structure);
        let runs = match preset {
            Preset::Disjoint => matches!(structure, Structure::Records | Structure::Fixed),
            Preset::SixteenReads | Preset::Append | Preset::Register => {
                matches!(structure, Structure::Variables | Structure::Fixed)
            }
            _ => structure.is_map(),
        };
        if !runs {
            return wrong(format!("preset {preset} does not run on structure {structure}"));
        }
        if self.updates_percent > 100 {
            return wrong(format!("updates must be 0 to 100 per cent, not {}", self.updates_percent));
        }
        if (preset == Preset::Disjoint || preset.is_recorded()) && self.updates_percent != 100 {
            return wrong(format!("the share of updates of preset {preset} is its own: 100 per cent"));
        }
        if preset.is_recorded() {
            recorded::check(self)?;
        } else if self.history.is_some() {
            return wrong(format!("preset {preset} writes no history: append and register do"));
        }
        if preset == Preset::SixteenReads && structure == Structure::Fixed && self.updates_percent != 0 {
            return wrong(
                "a fixed table writes all that it has read: sixteen reads of it are of 0 per cent updates"
                    .into(),
            );
        }
        if !(2..=KEYS_MAX).contains(&self.keys) {
            return wrong(format!("keys must be from 2 to {KEYS_MAX}, not {}", self.keys));
        }
        if self.threads > THREADS_MAX {
            return wrong(format!("threads must be from 1 to {THREADS_MAX}, not {}", self.threads));
        }
        check_plan(&self.plan())
    }

    /// What is said of a run.
    pub(super) fn report<T>(
        &self,
        name: &str,
        measured: &Measured<T>,
        mut conditions: Vec<Condition>,
    ) -> RunReport {
        // The failed ones first.
        conditions.sort_by_key(|condition| condition.holds);
        let per_commit =
            |count: u64| if measured.committed == 0 { 0.0 } else { count as f64 / measured.committed as f64 };
        let quantile_us = |quantile: f64| measured.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        let Counted { conflicts, irrevocable, clock, attempts_max } = &measured.counted;
        let aborts: BTreeMap<String, u64> = conflicts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| (format!("{name}: {kind}"), *count))
            .collect();
        let mut parameters = BTreeMap::from([
            ("structure".into(), self.structure.to_string()),
            ("updates %".into(), self.updates_percent.to_string()),
            ("keys".into(), self.keys.to_string()),
            ("seed".into(), self.seed.to_string()),
            ("requests drawn ahead".into(), format!("{} a thread", self.plan().requests)),
            ("warm-up".into(), format!("{} s", self.warm_up_s)),
            ("clock".into(), format!("{:.0} ns a reading", measured.clock_ns)),
        ]);
        if self.pace == Pace::Serial {
            parameters.insert("pace".into(), "serial".into());
        }
        RunReport {
            workload: "stm".into(),
            preset: self.preset.to_string(),
            protocol: name.into(),
            threads: self.threads,
            seconds: measured.seconds,
            committed: measured.committed,
            committed_per_s: measured.committed as f64 / measured.seconds,
            retries_per_commit: per_commit(measured.counted.aborted()),
            aborts,
            latency_us: Latency {
                p50: quantile_us(0.5),
                p99: quantile_us(0.99),
                p999: quantile_us(0.999),
                max: measured.latency_ns.max() as f64 / 1e3,
            },
            attempts_max: *attempts_max,
            clock_increments: *clock,
            irrevocable: *irrevocable,
            consistent: Some(conditions.iter().all(|condition| condition.holds)),
            consistency: conditions.into_iter().map(|condition| condition.words).collect(),
            parameters,
            ..RunReport::default()
        }
    }
}

/// That a contender can run this.
pub fn fits(settings: &Settings, contender: Contender) -> Result<(), RunError> {
    let structure = settings.structure;
    let wrong = |what: String| Err(RunError::Setting(what));
    match contender {
        Contender::Plain if settings.preset.is_recorded() => {
            wrong("plain has no attempts whose history could be judged".into())
        }
        Contender::Plain if settings.threads > 1 => {
            wrong("plain has no synchronization, and so takes one thread".into())
        }
        Contender::Plain if matches!(structure, Structure::Zip | Structure::Skip | Structure::RedBlack) => {
            wrong(format!("there is no plain form of structure {structure}"))
        }
        Contender::Plain if structure == Structure::HashGrowing => {
            wrong("there is no plain form of a hash map that grows".into())
        }
        Contender::TicToc if structure != Structure::Fixed => {
            wrong(format!("TicToc is not opaque, and so takes structure fixed only, not {structure}"))
        }
        other if other.is_of_k_sweep() && structure != Structure::Ravl => {
            wrong(format!("{other} is there for structure ravl only, not for {structure}"))
        }
        _ => Ok(()),
    }
}
