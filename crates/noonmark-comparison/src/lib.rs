//! What Noonmark's transactional memory is measured against: concurrent maps and transactional memories that others have made, and a lock
//! round what the standard library has.
//!
//! They run the experiments of [`noonmark_workloads::stm`] through its traits. They live in a crate of their own, so that nobody who uses
//! the rest builds them (`docs/decisions/0022-rivals-in-a-crate-of-their-own.md`).
//!
//! | contender | `ravl` and other trees | `hash` | `records` | `variables` |
//! |---|---|---|---|---|
//! | `mutex` | a `Mutex` round a `BTreeMap` | round a `HashMap` | round a `BTreeMap` of records | round a `Vec` |
//! | `rwlock` | a `RwLock` round a `BTreeMap` | round a `HashMap` | | round a `Vec` |
//! | `crossbeam-skiplist` | `SkipMap` | | | |
//! | `scc` | `TreeIndex` | `HashMap` | | |
//! | `scc-index` | | `HashIndex` | | |
//! | `congee` | `Congee`, a radix tree | | | |
//! | `dashmap` | | `DashMap` | | |
//! | `papaya` | | `HashMap` | | |
//! | `stm`, `fast-stm` | | | | `TVar`s |
//!
//! Each is used as its documentation advises for many threads, with room for all keys where it takes a capacity, and with the
//! hash function of our own map where it takes one: what is compared is the rest.
//!
//! What it does not do: offer anything to programs but the comparison.

mod locked;
mod maps;
mod variables;

use std::fmt;
use std::str::FromStr;

use noonmark_workloads::report::{Progress, RunReport};
use noonmark_workloads::stm::{Preset, Settings, Structure, churn, reads, records};
use noonmark_workloads::workload::RunError;

/// A contender that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A mutex round a structure of the standard library.
    Mutex,
    /// A lock that readers share, round the same.
    RwLock,
    /// A lock-free skip list.
    CrossbeamSkiplist,
    /// A B+ tree with lock-free reads, or a hash map with a lock for each bucket.
    Scc,
    /// A hash map with lock-free reads.
    SccIndex,
    /// An adaptive radix tree with optimistic locks.
    Congee,
    /// A hash map in parts, each with a lock.
    DashMap,
    /// A lock-free hash map.
    Papaya,
    /// A transactional memory with values on the heap.
    Stm,
    /// One that was made from it, to be faster.
    FastStm,
}

impl Rival {
    /// All of them.
    pub const ALL: [Rival; 10] = [
        Rival::Mutex,
        Rival::RwLock,
        Rival::CrossbeamSkiplist,
        Rival::Scc,
        Rival::SccIndex,
        Rival::Congee,
        Rival::DashMap,
        Rival::Papaya,
        Rival::Stm,
        Rival::FastStm,
    ];

    /// Its name on a command line and in reports: that of its crate, as a rule.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Mutex => "mutex",
            Rival::RwLock => "rwlock",
            Rival::CrossbeamSkiplist => "crossbeam-skiplist",
            Rival::Scc => "scc",
            Rival::SccIndex => "scc-index",
            Rival::Congee => "congee",
            Rival::DashMap => "dashmap",
            Rival::Papaya => "papaya",
            Rival::Stm => "stm",
            Rival::FastStm => "fast-stm",
        }
    }

    /// That it has something to run this on.
    pub fn fits(self, settings: &Settings) -> Result<(), RunError> {
        let structure = settings.structure;
        if settings.preset.is_recorded() {
            return Err(RunError::Setting(format!("{self} has no attempts that could be recorded")));
        }
        let is_hash = matches!(structure, Structure::Hash | Structure::HashGrowing);
        let is_variables = structure == Structure::Variables;
        let has_one = match self {
            Rival::Mutex => structure != Structure::Fixed,
            Rival::RwLock => structure.is_map() || is_variables,
            Rival::Scc => structure.is_map(),
            Rival::CrossbeamSkiplist | Rival::Congee => structure.is_ordered(),
            Rival::SccIndex | Rival::DashMap | Rival::Papaya => is_hash,
            Rival::Stm | Rival::FastStm => is_variables,
        };
        if has_one {
            return Ok(());
        }
        Err(RunError::Setting(format!("{self} has nothing to put beside structure {structure}")))
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rival {
    type Err = RunError;

    fn from_str(name: &str) -> Result<Self, RunError> {
        Rival::ALL.into_iter().find(|rival| rival.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names = Rival::ALL.map(Rival::name).join(", ");
            RunError::Setting(format!("rival {name}: one of {names} is wanted"))
        })
    }
}

/// Runs it, telling `progress` how it is getting along some eight times a second.
pub fn run(
    settings: &Settings,
    rival: Rival,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    settings.check()?;
    rival.fits(settings)?;
    match settings.preset {
        Preset::Disjoint => records::run(settings, rival.name(), locked::Records::new, progress),
        Preset::SixteenReads => on_variables(settings, rival, progress),
        Preset::RavlAlloc | Preset::KSweep | Preset::Hash | Preset::Trees | Preset::Maps => {
            on_map(settings, rival, progress)
        }
        // Refused above.
        Preset::Append | Preset::Register => rival.fits(settings).map(|()| RunReport::default()),
    }
}

fn on_map(
    settings: &Settings,
    rival: Rival,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    // With room for all from the start, unless growing is what is measured.
    let room = if settings.structure == Structure::Hash { settings.keys as usize } else { 0 };
    let mut on = OnMap { settings, rival, progress };
    match (rival, settings.structure.is_ordered()) {
        (Rival::Mutex, true) => on.run(locked::Map::<locked::Mutex<locked::Ordered>>::default),
        (Rival::Mutex, false) => on.run(|| locked::Map::<locked::Mutex<locked::Hashed>>::hashed(room)),
        (Rival::RwLock, true) => on.run(locked::Map::<locked::RwLock<locked::Ordered>>::default),
        (Rival::RwLock, false) => on.run(|| locked::Map::<locked::RwLock<locked::Hashed>>::hashed(room)),
        (Rival::Scc, true) => on.run(maps::scc_tree),
        (Rival::Scc, false) => on.run(|| maps::scc_hash(room)),
        (Rival::SccIndex, _) => on.run(|| maps::scc_index(room)),
        (Rival::CrossbeamSkiplist, _) => on.run(maps::skiplist),
        (Rival::Congee, _) => on.run(maps::congee),
        (Rival::DashMap, _) => on.run(|| maps::dashmap(room)),
        (Rival::Papaya, _) => on.run(|| maps::papaya(room)),
        (Rival::Stm | Rival::FastStm, _) => Err(RunError::Setting(format!("{rival} has no map"))),
    }
}

/// A run on a map that is yet to be made.
struct OnMap<'a> {
    settings: &'a Settings,
    rival: Rival,
    progress: &'a mut dyn FnMut(&Progress),
}

impl OnMap<'_> {
    fn run<M: churn::Map>(&mut self, map: impl FnOnce() -> M) -> Result<RunReport, RunError> {
        churn::run(self.settings, self.rival.name(), map, self.progress)
    }
}

fn on_variables(
    settings: &Settings,
    rival: Rival,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    let name = rival.name();
    match rival {
        Rival::Mutex => reads::run(settings, name, locked::Vars::<locked::Mutex<Vec<u64>>>::new, progress),
        Rival::RwLock => reads::run(settings, name, locked::Vars::<locked::RwLock<Vec<u64>>>::new, progress),
        Rival::Stm => reads::run(settings, name, variables::Stm::new, progress),
        Rival::FastStm => reads::run(settings, name, variables::FastStm::new, progress),
        other => Err(RunError::Setting(format!("{other} has no variables"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noonmark_workloads::driver::Length;
    use noonmark_workloads::stm::RIVALS;

    fn small(preset: Preset, structure: Structure, updates_percent: u8) -> Settings {
        Settings {
            keys: 500,
            threads: 3,
            length: Length::transactions(3000),
            warm_up_s: 0.0,
            requests: Some(1000),
            ..Settings::new(preset, structure, updates_percent)
        }
    }

    #[test]
    fn every_rival_runs_all_that_it_has_something_for_and_loses_nothing() {
        let mut runs = [0; Rival::ALL.len()];
        for preset in Preset::ALL {
            for structure in Structure::ALL {
                for updates in [100, 10, 0] {
                    let settings = small(preset, structure, updates);
                    for (rival, runs) in Rival::ALL.into_iter().zip(&mut runs) {
                        if settings.check().is_err() || rival.fits(&settings).is_err() {
                            assert!(run(&settings, rival, &mut |_| ()).is_err());
                            continue;
                        }
                        let report = run(&settings, rival, &mut |_| ()).unwrap();
                        // Where threads put in and remove the same keys, what this one's operations answer does not
                        // add up to what is in it (see `maps.rs`), and runs say so, now and then.
                        if rival != Rival::CrossbeamSkiplist {
                            assert_eq!(report.consistent, Some(true), "{rival}: {:?}", report.consistency);
                        }
                        assert_eq!((report.committed, report.protocol.as_str()), (3000, rival.name()));
                        *runs += 1;
                    }
                }
            }
        }
        assert!(runs.iter().all(|runs| *runs >= 3), "{runs:?}");
    }

    #[test]
    fn names_lead_back_and_have_colours() {
        for rival in Rival::ALL {
            assert_eq!(rival.name().parse::<Rival>().unwrap(), rival);
            assert!(RIVALS.contains(&rival.name()), "{rival} has no colour in reports");
        }
        assert!("sdc".parse::<Rival>().unwrap_err().to_string().contains("dashmap"));
    }
}
