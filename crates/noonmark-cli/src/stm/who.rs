//! Who runs transactions: the controls of `noonmark-stm`, or others.
//!
//! Those of others need the feature `comparison`, which a program has unless it was built without.

use noonmark_workloads::report::{Progress, RunReport};
use noonmark_workloads::stm::{self, Contender, Preset, Settings};
use noonmark_workloads::workload::RunError;

#[cfg(feature = "comparison")]
use noonmark_comparison::{self as comparison, Rival};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A control of ours, or none.
    Ours(Contender),
    /// Somebody else's.
    #[cfg(feature = "comparison")]
    Theirs(Rival),
}

impl Who {
    /// All there are, ours first.
    pub fn all() -> Vec<Who> {
        let ours = Contender::ALL.iter().copied().map(Who::Ours);
        #[cfg(feature = "comparison")]
        let all = ours.chain(Rival::ALL.map(Who::Theirs));
        #[cfg(not(feature = "comparison"))]
        let all = ours;
        all.collect()
    }

    /// Those that a preset has unless told otherwise.
    pub fn of_preset(preset: Preset) -> Vec<Who> {
        Self::all()
            .into_iter()
            .filter(|who| match who {
                Who::Ours(contender) => preset.contenders().contains(contender),
                #[cfg(feature = "comparison")]
                Who::Theirs(_) => matches!(preset, Preset::Maps | Preset::SixteenReads),
            })
            .collect()
    }

    /// By name. `orec` is an algorithm that `tinystm` is the same as (decision 21).
    pub fn named(name: &str) -> Result<Who, RunError> {
        let name = if name.eq_ignore_ascii_case("orec") { "tinystm" } else { name };
        let all = Self::all();
        all.iter().find(|who| who.name().eq_ignore_ascii_case(name)).copied().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|who| who.name().to_lowercase()).collect();
            RunError::Setting(format!("control {name}: one of {} or all is wanted", names.join(", ")))
        })
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Who::Ours(contender) => contender.name(),
            #[cfg(feature = "comparison")]
            Who::Theirs(rival) => rival.name(),
        }
    }

    /// That it can run this.
    pub fn fits(self, settings: &Settings) -> Result<(), RunError> {
        match self {
            Who::Ours(contender) => stm::fits(settings, contender),
            #[cfg(feature = "comparison")]
            Who::Theirs(rival) => rival.fits(settings),
        }
    }

    /// Has it run this.
    pub fn run(self, settings: &Settings, listen: &mut dyn FnMut(&Progress)) -> Result<RunReport, RunError> {
        match self {
            Who::Ours(contender) => stm::run(settings, contender, listen),
            #[cfg(feature = "comparison")]
            Who::Theirs(rival) => comparison::run(settings, rival, listen),
        }
    }
}
