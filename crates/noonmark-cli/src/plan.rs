//! From the command line to the list of runs.
//!
//! The order is that of a race: everything that belongs to one contest (the same work, the same threads) comes
//! together, so that the live display can show its contestants beside each other. The baseline runs once a
//! contest, first: it has no timestamps to make coarse or fine, one kind of index, one way to update and to
//! read, so variants of it would measure the same thing again.
//!
//! Mixes that cannot mean anything are refused here, before anything is loaded; what only the workload can
//! know (a preset it has not got, an index its scans cannot use) is refused by the workload.

use crate::args::{Access, Bench, Groups, Index, RowHint, Updates, Workload};
use crate::error::Failure;
use crate::live::Contestant;
use crate::{machine, output};
use noonmark_workloads::spec::ProtocolChoice;
use noonmark_workloads::workload::RunError;
use noonmark_workloads::ycsb::properties::InsertOrder;
use noonmark_workloads::ycsb::{CoreSpec, core_properties};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The baseline's name among the protocols.
pub const BASELINE: &str = "mutex";

/// A file of properties is not longer than this.
const PROPERTIES_BYTES_MAX: u64 = 1 << 20;

/// Seconds measured, unless told otherwise.
const SECONDS: f64 = 2.0;
/// Warming up takes no longer than this.
const WARM_UP_MAX_S: f64 = 0.5;

/// One run, all choices made but those that are left to the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    pub workload: Workload,
    pub preset: Option<String>,
    pub protocol: String,
    /// Never `Both`.
    pub groups: Groups,
    pub index: Option<Index>,
    pub updates: Updates,
    pub access: Access,
    pub row_hint: bool,
    pub threads: usize,
    /// With a limit of transactions and none of time: a guess, for the display.
    pub seconds: f64,
    /// Whether the run ends when the seconds are over.
    pub timed: bool,
    /// Transactions after which it ends.
    pub transactions: Option<u64>,
    pub warm_up_s: f64,
    pub seed: u64,
    pub rows: Option<u64>,
    pub theta: Option<f64>,
    pub warehouses: Option<u16>,
    /// What properties say of YCSB, where some were given.
    pub properties: Option<Said>,
    pub allocations: bool,
    pub history: Option<PathBuf>,
}

impl Contestant for RunSpec {
    /// What has to be equal for two runs to be in one contest.
    fn contest(&self) -> String {
        let mut words = vec![match &self.preset {
            Some(preset) => format!("{} {preset}", self.workload.name()),
            None => self.workload.name().to_string(),
        }];
        words.extend(self.theta.map(|theta| format!("theta {theta}")));
        words.extend(
            self.warehouses.map(|n| if n == 1 { "1 warehouse".into() } else { format!("{n} warehouses") }),
        );
        words.push(if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) });
        words.join(", ")
    }

    /// Its protocol, and of what else was chosen for it what differs in the contest.
    fn name(&self, contest: &[&RunSpec]) -> String {
        if self.is_baseline() {
            return self.protocol.clone();
        }
        let rivals = || contest.iter().filter(|other| !other.is_baseline());
        let mut words = vec![self.protocol.as_str()];
        if rivals().any(|other| other.groups != self.groups) {
            words.push(self.groups.name());
        }
        if rivals().any(|other| other.updates != self.updates) {
            words.push(if self.updates == Updates::CommitTime { "commit-time" } else { "plain" });
        }
        if rivals().any(|other| other.access != self.access) {
            words.push(if self.access == Access::MultiGet { "multi-get" } else { "one-by-one" });
        }
        words.join(" ")
    }

    fn is_baseline(&self) -> bool {
        self.protocol == BASELINE
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
    }
}

/// The runs that a command line with a workload asks for.
pub fn runs(workload: Workload, args: &Bench) -> Result<Vec<RunSpec>, Failure> {
    refuse_impossible(workload, args)?;
    let seconds = args.seconds.unwrap_or(SECONDS);
    let base = RunSpec {
        workload,
        preset: args.preset.clone(),
        protocol: String::new(),
        groups: Groups::Fine,
        index: args.index,
        updates: Updates::Plain,
        access: Access::OneByOne,
        row_hint: args.row_hint == RowHint::Yes,
        threads: 1,
        seconds,
        timed: args.seconds.is_some() || args.transactions.is_none(),
        transactions: args.transactions,
        warm_up_s: WARM_UP_MAX_S.min(seconds / 2.0),
        seed: args.seed,
        rows: args.rows,
        theta: None,
        warehouses: None,
        properties: said(workload, args)?,
        allocations: args.allocations,
        history: args.history.clone(),
    };
    let threads: Vec<usize> = match args.threads.as_slice() {
        [] => vec![machine::cores()],
        given => given.iter().map(|n| usize::from(*n)).collect(),
    };
    let thetas = each(&args.theta);
    let warehouses = each(&args.warehouses);
    let mut runs = Vec::new();
    for theta in &thetas {
        for warehouses in &warehouses {
            for threads in &threads {
                let work =
                    RunSpec { theta: *theta, warehouses: *warehouses, threads: *threads, ..base.clone() };
                contestants(&work, args, &mut runs)?;
            }
        }
    }
    if args.history.is_some() && runs.len() > 1 {
        return Err(Failure::usage(format!(
            "--history holds the history of one run, but these options ask for {}: choose one protocol, one thread \
             count, and so on",
            runs.len()
        )));
    }
    Ok(runs)
}

/// The contestants for one piece of work.
pub fn contestants(work: &RunSpec, args: &Bench, runs: &mut Vec<RunSpec>) -> Result<(), Failure> {
    let groups: &[Groups] = match args.groups {
        Some(Groups::Coarse) => &[Groups::Coarse],
        Some(Groups::Fine) | None => &[Groups::Fine],
        Some(Groups::Splitting) => &[Groups::Splitting],
        Some(Groups::Both) => &[Groups::Coarse, Groups::Fine],
    };
    let updates = if args.updates.is_empty() { &[Updates::Plain][..] } else { &args.updates };
    let access = if args.access.is_empty() { &[Access::OneByOne][..] } else { &args.access };
    for protocol in protocols(&args.protocol, args.groups == Some(Groups::Splitting))? {
        if protocol == BASELINE {
            let groups = groups[0];
            runs.push(RunSpec { protocol, groups, updates: updates[0], access: access[0], ..work.clone() });
            continue;
        }
        for groups in groups {
            for updates in updates {
                for access in access {
                    runs.push(RunSpec {
                        protocol: protocol.clone(),
                        groups: *groups,
                        updates: *updates,
                        access: *access,
                        ..work.clone()
                    });
                }
            }
        }
    }
    Ok(())
}

/// The baseline, then all of the engine's protocols.
fn known_protocols() -> Vec<String> {
    let engine = ProtocolChoice::all().map(|choice| choice.to_string()).filter(|name| name != BASELINE);
    std::iter::once(BASELINE.to_string()).chain(engine).collect()
}

/// Whether rows can split their timestamps under this protocol.
fn can_split(name: &str) -> bool {
    !matches!(name.parse(), Ok(ProtocolChoice::Engine(protocol)) if protocol.keeps_versions())
}

/// The names asked for, each once, the baseline first. `splitting`: of those whose timestamps can split themselves.
fn protocols(asked: &[String], splitting: bool) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    let asked: Vec<&str> =
        if asked.is_empty() { vec!["all"] } else { asked.iter().map(|a| a.trim()).collect() };
    for name in asked {
        match name {
            "all" => {
                chosen.extend(known_protocols().into_iter().filter(|name| !splitting || can_split(name)))
            }
            name => {
                let choice: ProtocolChoice =
                    name.parse().map_err(|e: RunError| Failure::usage(e.to_string()))?;
                if splitting && !can_split(name) {
                    return Err(Failure::usage(format!(
                        "{name} keeps versions, and its timestamps cannot split themselves: leave it out, or take \
                         --groups coarse, fine or both"
                    )));
                }
                chosen.push(choice.to_string());
            }
        }
    }
    let mut once: Vec<String> = Vec::new();
    if chosen.iter().any(|name| name == BASELINE) {
        once.push(BASELINE.into());
    }
    for name in chosen {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    Ok(once)
}

/// A mix that only fails once the tables are loaded costs minutes; what can be known before is refused before.
fn refuse_impossible(workload: Workload, args: &Bench) -> Result<(), Failure> {
    let name = workload.name();
    if !args.warehouses.is_empty() && workload != Workload::Tpcc {
        return Err(Failure::usage(format!("--warehouses is for tpcc, and {name} has none")));
    }
    if args.rows.is_some() && workload == Workload::Tpcc {
        return Err(Failure::usage("tpcc takes its size from --warehouses, not from --rows"));
    }
    if !args.theta.is_empty() && workload == Workload::Tpcc {
        return Err(Failure::usage("tpcc chooses its keys by its own rules: --theta does not apply"));
    }
    if args.no_page {
        return Err(Failure::usage(
            "--no-page is for the tour; with a workload no page is written unless asked for",
        ));
    }
    Ok(())
}

/// What YCSB's properties say.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// All of the core workload.
    Core(CoreSpec),
    /// How a paper's variant makes keys of its rows' numbers.
    InsertOrder(InsertOrder),
}

/// What the properties say, if there are any: over the preset's those of the file, and over
/// them those of the command line. Also says which properties were passed over.
fn said(workload: Workload, args: &Bench) -> Result<Option<Said>, Failure> {
    if args.properties.is_none() && args.property.is_empty() {
        return Ok(None);
    }
    if workload != Workload::Ycsb {
        return Err(Failure::usage("-P and -p are for ycsb"));
    }
    let letter = args.preset.as_ref().and_then(|preset| preset.parse::<char>().ok());
    let of_letter = letter.and_then(core_properties);
    let is_core = args.preset.is_none() || of_letter.is_some();
    let mut properties = of_letter.unwrap_or_default();
    if let Some(file) = &args.properties {
        let name = file.display();
        let mut text = String::new();
        File::open(file)
            .and_then(|file| file.take(PROPERTIES_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|e| Failure::run(format!("cannot read the properties in {name}: {e}")))?;
        if text.len() as u64 > PROPERTIES_BYTES_MAX {
            return Err(Failure::run(format!("{name} is no file of properties: it is too long")));
        }
        properties.read(&text).map_err(|e| Failure::run(format!("{name}: {e}")))?;
    }
    for (name, value) in &args.property {
        if name == "recordcount" && args.rows.is_some() {
            return Err(Failure::usage("--rows and -p recordcount both say how many rows to load: give one"));
        }
        properties.set(name, value);
    }
    if !is_core {
        let order = InsertOrder::alone(&properties).map_err(|e| Failure::usage(e.to_string()))?;
        return Ok(order.map(Said::InsertOrder));
    }
    let (core, warnings) =
        CoreSpec::from_properties(&properties).map_err(|e| Failure::usage(e.to_string()))?;
    for warning in warnings {
        output::warn(&warning);
    }
    Ok(Some(Said::Core(core)))
}

/// Each given value, or once none.
fn each<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn planned(line: &str) -> Result<Vec<RunSpec>, Failure> {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Some(Command::Bench(args)) => runs(args.workload.unwrap(), &args),
            _ => panic!("not a bench"),
        }
    }

    #[test]
    fn contests_stay_together_and_the_baseline_opens_each_once() {
        let runs = planned(
            "noonmark bench ycsb --protocol occ,mutex,occ --groups both --threads 1,2 --theta 0.5,0.9",
        )
        .unwrap();
        assert_eq!(runs.len(), 2 * 2 * 3);
        for contest in runs.chunks(3) {
            assert_eq!(contest[0].protocol, BASELINE);
            assert!(contest.iter().all(|run| run.contest() == contest[0].contest()));
            assert_eq!((contest[1].groups, contest[2].groups), (Groups::Coarse, Groups::Fine));
        }
    }

    #[test]
    fn all_is_every_protocol_and_the_baseline() {
        let runs = planned("noonmark bench bank --threads 1").unwrap();
        assert_eq!(runs.iter().map(|run| run.protocol.clone()).collect::<Vec<_>>(), known_protocols());
    }

    #[test]
    fn mixes_of_protocols_are_contestants_of_their_own() {
        let names = |line: &str| -> Vec<String> {
            planned(line).unwrap().into_iter().map(|run| run.protocol).collect()
        };
        let all = noonmark::Protocol::all_that_mix()
            .iter()
            .map(|protocol| protocol.name())
            .collect::<Vec<_>>()
            .join("+");
        let line = format!("noonmark bench append --protocol mixed,two-phase+occ,occ,{all} --threads 1");
        assert_eq!(names(&line), ["mixed", "two-phase-wait-die+occ", "occ"]);
    }

    #[test]
    fn all_are_those_whose_timestamps_can_split_themselves_where_they_are_to() {
        let with = |groups: &str| -> Vec<String> {
            let line = format!("noonmark bench bank --protocol all --threads 1 --groups {groups}");
            planned(&line).unwrap().into_iter().map(|run| run.protocol).collect()
        };
        let (fine, splitting) = (with("fine"), with("splitting"));
        let expected: Vec<_> = fine.iter().filter(|name| *name != "fixed").cloned().collect();
        assert_eq!(splitting, expected);
        assert_eq!(splitting.len() + 1, fine.len());
    }

    #[test]
    fn impossible_mixes_are_refused_before_anything_is_loaded() {
        for line in [
            "noonmark bench ycsb --protocol silo",
            "noonmark bench append --protocol occ+silo",
            "noonmark bench append --protocol occ+mutex",
            "noonmark bench append --protocol occ+fixed",
            "noonmark bench append --protocol occ+occ",
            "noonmark bench append --protocol occ+",
            "noonmark bench ycsb --warehouses 1",
            "noonmark bench tpcc --rows 10",
            "noonmark bench tpcc --theta 0.9",
            "noonmark bench append --threads 1 --history h.jsonl",
            "noonmark bench bank -p recordcount=1",
            "noonmark bench ycsb --preset sundial -p recordcount=1",
            "noonmark bench ycsb -p recordcount=many",
            "noonmark bench ycsb -p recordcount=10 --rows 20",
            "noonmark bench ycsb --preset granularity -p insertorder=random",
            "noonmark bench ycsb --preset granularity -p insertorder=hashed -p readproportion=1",
            "noonmark bench bank --no-page",
            "noonmark bench bank --groups splitting --protocol occ,fixed",
        ] {
            assert!(matches!(planned(line), Err(Failure::Usage(_))), "{line}");
        }
    }

    #[test]
    fn a_paper_s_preset_takes_an_insert_order() {
        let said = |line: &str| planned(line).unwrap().remove(0).properties;
        let hashed = said("noonmark bench ycsb --preset granularity -p insertorder=hashed");
        assert_eq!(hashed, Some(Said::InsertOrder(InsertOrder::Hashed)));
        // A file that says nothing changes nothing.
        let line = "noonmark bench ycsb --preset disttictoc-read -P /dev/null";
        assert_eq!(said(line), said("noonmark bench ycsb --preset disttictoc-read"));
    }

    #[test]
    fn properties_of_the_command_line_win_over_the_file_and_the_file_over_the_preset() {
        let file = std::env::temp_dir().join(format!("noonmark-properties-{}", std::process::id()));
        std::fs::write(&file, "# a comment\nrecordcount = 10\n\nreadproportion=1\nupdateproportion=0\n")
            .unwrap();
        let line = format!("noonmark bench ycsb --preset a -P {} -p recordcount=20", file.display());
        let Some(Said::Core(core)) = planned(&line).unwrap().remove(0).properties else { panic!("{line}") };
        std::fs::write(&file, "=5\n").unwrap();
        let broken = planned(&line);
        std::fs::remove_file(&file).unwrap();
        assert_eq!((core.record_count, core.read, core.update), (20, 1.0, 0.0));
        assert!(matches!(broken, Err(Failure::Run(why)) if why.contains("line 1")));
        assert!(matches!(planned(&line), Err(Failure::Run(_))), "the file is gone");
    }
}
