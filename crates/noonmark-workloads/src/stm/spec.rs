//! One run, from its settings to its report.
//!
//! What does not go together is refused before anything is loaded ([`fits`]), and so is what would take too long to be meant.
//!
//! What it does not do: read arguments, or know contenders from elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use noonmark_stm::{
    Dcotl, DcotlSf, Dctl, DctlSf, Global, THashMap, TRavlMap, TRbMap, TSkipMap, TZipMap, TicToc, TinyStm,
    Tl2Gv4, Tl2Gv5, TwoPlSf, World,
};
use parking_lot::Mutex;

use super::names::{Contender, Preset, Structure};
use super::plain::{Alone, PlainRavl, PlainRecords, PlainWords};
use super::plain_hash::PlainHash;
use super::stage::{Counted, Measured, Pace};
use super::worlds::{self, Found, Mapped, Table, Vars};
use super::{churn, reads, recorded, records};
use crate::driver::{Length, Plan, check_plan};
use crate::report::{Latency, Progress, RunReport};
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

/// No two runs at a time: one would disturb the other, and they share what a control counts.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// Runs it, telling `progress` how it is getting along some eight times a second.
pub fn run(
    settings: &Settings,
    contender: Contender,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    settings.check()?;
    fits(settings, contender)?;
    let _alone = ONE_RUN.lock();
    let mut run = Run { settings, name: contender.name(), progress };
    match contender {
        Contender::Plain => run.plain(),
        Contender::Dctl => run.in_world::<Global<Dctl>>(),
        Contender::Dcotl => run.in_world::<Global<Dcotl>>(),
        Contender::DctlSf => run.in_world::<Global<DctlSf>>(),
        Contender::DcotlSf => run.in_world::<Global<DcotlSf>>(),
        Contender::Tl2Gv4 => run.in_world::<Global<Tl2Gv4>>(),
        Contender::Tl2Gv5 => run.in_world::<Global<Tl2Gv5>>(),
        Contender::TinyStm => run.in_world::<Global<TinyStm>>(),
        Contender::TwoPlSf => run.in_world::<Global<TwoPlSf>>(),
        Contender::TicToc => run.in_table::<TicToc>(),
        Contender::DctlSfK1 => run.ravl::<worlds::DctlSfK1>(),
        Contender::DctlSfK10 => run.ravl::<worlds::DctlSfK10>(),
        Contender::DctlSfK100 => run.ravl::<worlds::DctlSfK100>(),
        Contender::DcotlSfK1 => run.ravl::<worlds::DcotlSfK1>(),
        Contender::DcotlSfK10 => run.ravl::<worlds::DcotlSfK10>(),
        Contender::DcotlSfK100 => run.ravl::<worlds::DcotlSfK100>(),
    }
}

/// A run while it is put together.
struct Run<'a> {
    settings: &'a Settings,
    name: &'a str,
    progress: &'a mut dyn FnMut(&Progress),
}

impl Run<'_> {
    fn churn<M: churn::Map>(&mut self, map: impl FnOnce() -> M) -> Result<RunReport, RunError> {
        churn::run(self.settings, self.name, map, self.progress)
    }

    fn keys(&self) -> usize {
        self.settings.keys as usize
    }

    fn in_world<W: World>(&mut self) -> Result<RunReport, RunError> {
        let keys = self.keys();
        match self.settings.structure {
            Structure::Ravl => self.ravl::<W>(),
            Structure::Zip => self.churn(|| Mapped(TZipMap::<u64, u64, W>::new_in())),
            Structure::Skip => self.churn(|| Mapped(TSkipMap::<u64, u64, W>::new_in())),
            Structure::RedBlack => self.churn(|| Mapped(TRbMap::<u64, u64, W>::new_in())),
            Structure::Hash => self.churn(|| Mapped(THashMap::<u64, u64, W>::with_buckets_in(keys))),
            Structure::HashGrowing => self.churn(|| Mapped(THashMap::<u64, u64, W>::new_in())),
            Structure::Records => records::run(self.settings, self.name, Found::<W>::new, self.progress),
            Structure::Variables if self.settings.preset.is_recorded() => {
                let counted = worlds::counted::<W>;
                recorded::run_in::<W>(self.settings, self.name, &counted, self.progress)
            }
            Structure::Variables => reads::run(self.settings, self.name, Vars::<W>::new, self.progress),
            Structure::Fixed => self.in_table::<W::Control>(),
        }
    }

    fn ravl<W: World>(&mut self) -> Result<RunReport, RunError> {
        self.churn(|| Mapped(TRavlMap::<u64, u64, W>::new_in()))
    }

    fn in_table<C: noonmark_stm::Control>(&mut self) -> Result<RunReport, RunError> {
        let Run { settings, name, progress } = self;
        if settings.preset.is_recorded() {
            return recorded::run_fixed::<C>(settings, name, progress);
        }
        if settings.preset == Preset::SixteenReads {
            return reads::run(settings, name, |count| Table::<C>::new(count, reads::START), progress);
        }
        records::run(settings, name, |keys, _| Table::<C>::new(keys.len(), 0), progress)
    }

    fn plain(&mut self) -> Result<RunReport, RunError> {
        let keys = self.keys();
        let Run { settings, name, progress } = self;
        match (settings.structure, settings.preset) {
            (Structure::Hash | Structure::HashGrowing, _) => {
                self.churn(|| Alone::new(PlainHash::with_buckets(keys)))
            }
            (Structure::Records, _) => records::run(settings, name, PlainRecords::new, progress),
            (Structure::Fixed, Preset::Disjoint) => {
                records::run(settings, name, |keys, _| PlainWords::new(keys.len(), 0), progress)
            }
            (Structure::Fixed | Structure::Variables, _) => {
                reads::run(settings, name, PlainWords::variables, progress)
            }
            // What has no plain form has been refused.
            (Structure::Ravl | Structure::Zip | Structure::Skip | Structure::RedBlack, _) => {
                self.churn(|| Alone::new(PlainRavl::default()))
            }
        }
    }
}
