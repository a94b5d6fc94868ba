//! From the options to the list of runs: contests together, and in each its contenders.
//!
//! A contender that a contest has no place for (one without synchronization, for two threads) is left out there. One that was named and
//! has a place nowhere is refused, and so is everything that makes no sense, before anything is loaded.

use super::args::Stm;
use super::failure;
use super::who::Who;
use crate::error::Failure;
use crate::live::Contestant;
use crate::machine;
use noonmark_workloads::driver::Length;
use noonmark_workloads::stm::stage::Pace;
use noonmark_workloads::stm::{Contender, Preset, Settings, Structure, THREADS_MAX};

/// Seconds measured, unless told otherwise.
const SECONDS: f64 = 1.0;
/// Transactions of a recorded run, unless told otherwise.
const TRANSACTIONS: u64 = 100_000;
/// Warming up takes no longer than this.
const WARM_UP_MAX_S: f64 = 0.25;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct StmRun {
    pub who: Who,
    pub settings: Settings,
    /// With a limit of transactions and none of time: a guess, for the display.
    seconds: f64,
}

impl Contestant for StmRun {
    fn contest(&self) -> String {
        let Settings { preset, structure, updates_percent, threads, .. } = &self.settings;
        let threads = if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        let pace = if self.settings.pace == Pace::Serial { ", serial" } else { "" };
        format!("stm {preset}, {structure}, {updates_percent}% updates{pace}, {threads}")
    }

    fn name(&self, _: &[&StmRun]) -> String {
        self.who.name().into()
    }

    fn is_baseline(&self) -> bool {
        self.is_hors_concours()
    }

    fn is_hors_concours(&self) -> bool {
        self.who == Who::Ours(Contender::Plain)
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
    }
}

/// The runs that the options ask for.
pub fn runs(args: &Stm) -> Result<Vec<StmRun>, Failure> {
    let preset: Preset = args.preset.trim().parse().map_err(failure)?;
    let structures = structures(preset, args)?;
    let updates = each(&args.updates, preset.updates_percent());
    let threads: Vec<usize> = match args.threads.as_slice() {
        [] => each(&[1, machine::cores().min(THREADS_MAX)], &[]),
        given => each(&given.iter().map(|n| usize::from(*n)).collect::<Vec<_>>(), &[]),
    };
    let seconds = args.seconds.unwrap_or(SECONDS);
    let transactions = args.transactions.or(preset.is_recorded().then_some(TRANSACTIONS));
    let timed = args.seconds.is_some() || transactions.is_none();
    let mut contests = Vec::new();
    for structure in &structures {
        for updates in &updates {
            for threads in &threads {
                let settings = Settings {
                    keys: args.keys,
                    threads: *threads,
                    length: Length { seconds: timed.then_some(seconds), transactions },
                    warm_up_s: if timed { WARM_UP_MAX_S.min(seconds / 2.0) } else { 0.0 },
                    pace: if args.serial { Pace::Serial } else { Pace::Free },
                    seed: args.seed,
                    history: args.history.clone(),
                    ..Settings::new(preset, *structure, *updates)
                };
                settings.check().map_err(failure)?;
                contests.push(settings);
            }
        }
    }
    let contenders = contenders(preset, &args.control)?;
    for named in contenders.iter().filter(|_| !args.control.is_empty()) {
        // Why it has no place in the first one is as good a reason as any.
        if contests.iter().all(|settings| named.fits(settings).is_err()) && !is_all(&args.control) {
            contests.first().map_or(Ok(()), |settings| named.fits(settings)).map_err(failure)?;
        }
    }
    let mut runs = Vec::new();
    for settings in contests {
        let fitting = contenders.iter().filter(|who| who.fits(&settings).is_ok());
        runs.extend(fitting.map(|who| StmRun { who: *who, settings: settings.clone(), seconds }));
    }
    if args.history.is_some() && runs.len() > 1 {
        return Err(Failure::Usage(format!(
            "--history holds the history of one run, but these options ask for {}: choose one control, structure and thread count",
            runs.len()
        )));
    }
    Ok(runs)
}

fn structures(preset: Preset, args: &Stm) -> Result<Vec<Structure>, Failure> {
    let named: Result<Vec<Structure>, _> = args.structure.iter().map(|name| name.trim().parse()).collect();
    Ok(each(&named.map_err(failure)?, preset.structures()))
}

fn is_all(names: &[String]) -> bool {
    names.iter().any(|name| name.trim() == "all")
}

fn contenders(preset: Preset, names: &[String]) -> Result<Vec<Who>, Failure> {
    let mut named = Vec::new();
    for name in names.iter().map(|name| name.trim()).filter(|name| *name != "all") {
        named.push(Who::named(name).map_err(failure)?);
    }
    if is_all(names) {
        named.extend(Who::all());
    }
    let mut contenders = each(&named, &Who::of_preset(preset));
    // What the others are measured by comes first.
    contenders.sort_by_key(|who| *who != Who::Ours(Contender::Plain));
    Ok(contenders)
}

/// Each of these once; those others if there are none.
fn each<T: Copy + PartialEq>(given: &[T], usual: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    for value in if given.is_empty() { usual } else { given } {
        if !once.contains(value) {
            once.push(*value);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Special};
    use clap::Parser;

    fn planned(options: &str) -> Result<Vec<StmRun>, Failure> {
        let line = format!("noonmark bench stm {options}");
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Some(Command::Bench(args)) => match args.special {
                Some(Special::Stm(args)) => runs(&args),
                _ => panic!("not stm"),
            },
            _ => panic!("not a bench"),
        }
    }

    fn names(options: &str) -> Vec<&'static str> {
        planned(options).unwrap().into_iter().map(|run| run.who.name()).collect()
    }

    #[test]
    fn every_preset_has_runs_and_contests_stay_together() {
        for preset in Preset::ALL {
            let runs = planned(&format!("--preset {preset} --threads 1,2")).unwrap();
            assert!(runs.len() >= 8, "{preset}");
            let has_plain = preset != Preset::KSweep && !preset.is_recorded();
            let mut contests: Vec<String> = runs.iter().map(Contestant::contest).collect();
            contests.dedup();
            let once = contests.len();
            contests.sort();
            contests.dedup();
            assert_eq!(contests.len(), once, "{preset}");
            let plain = runs.iter().filter(|run| run.is_baseline());
            assert!(plain.clone().all(|run| run.settings.threads == 1), "{preset}");
            assert_eq!(plain.count() > 0, has_plain, "{preset}");
        }
    }

    #[test]
    fn contenders_are_those_that_are_named_each_once_where_they_have_a_place() {
        assert_eq!(names("--threads 1 --control dctl,DCTL,orec,plain"), ["plain", "DCTL", "TinySTM"]);
        assert_eq!(names("--threads 2,1 --control dctl,plain"), ["DCTL", "plain", "DCTL"]);
        // TicToc has no place on records, which are found by a tree.
        assert_eq!(names("--preset disjoint --threads 1 --control tictoc,dctl"), ["DCTL", "TicToc", "DCTL"]);
        let all = names("--threads 1 --control all");
        assert!(all.contains(&"DCOTL-SF-K100") && !all.contains(&"TicToc"), "{all:?}");
        #[cfg(feature = "comparison")]
        {
            assert!(all.contains(&"congee"));
            assert!(!names("--preset trees --threads 1").contains(&"congee"));
            assert!(names("--preset maps --threads 1").contains(&"papaya"));
            assert!(names("--preset sixteen-reads --threads 1").contains(&"fast-stm"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_loaded() {
        for (options, word) in [
            ("--preset figure-6", "sixteen-reads"),
            ("--control dctl3", "2plsf"),
            ("--structure avl", "ravl"),
            ("--structure fixed", "fixed"),
            ("--control tictoc", "opaque"),
            ("--control plain --threads 2", "one thread"),
            ("--preset k-sweep --control dcotl-sf-k1 --structure zip", "ravl only"),
            ("--preset disjoint --updates 10", "100"),
            ("--keys 1", "keys"),
            ("--keys 99999999999", "keys"),
            ("--preset append --history h --threads 1", "one run"),
            ("--preset append --seconds 1", "seconds"),
            ("--preset append --control plain", "judged"),
            ("--preset hash --history h", "append"),
        ] {
            match planned(options) {
                Err(Failure::Usage(why)) => {
                    assert!(why.contains(word) && !why.contains('\n'), "{options}: {why}");
                }
                other => panic!("{options}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_recorded_run_is_one_run() {
        let line = "--preset register --structure variables --control dctl --threads 4 --history h.jsonl";
        let runs = planned(line).unwrap();
        assert_eq!((runs.len(), runs[0].settings.length), (1, Length::transactions(TRANSACTIONS)));
        assert!(runs[0].settings.history.is_some());
        assert_eq!(names("--preset append --threads 1 --structure fixed").last(), Some(&"TicToc"));
    }

    #[test]
    fn transactions_alone_are_counted_exactly() {
        let runs = planned("--transactions 10 --threads 1 --control dctl").unwrap();
        assert_eq!((runs[0].settings.length.seconds, runs[0].settings.warm_up_s), (None, 0.0));
        assert_eq!(runs[0].settings.pace, Pace::Free);
        assert_eq!(planned("--serial --threads 1").unwrap()[0].settings.pace, Pace::Serial);
        let runs = planned("--transactions 10 --seconds 1 --threads 1 --control dctl").unwrap();
        assert_eq!(
            (runs[0].settings.length.seconds, runs[0].settings.length.transactions),
            (Some(1.0), Some(10))
        );
    }
}
