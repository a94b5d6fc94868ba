//! `noonmark repro`: the papers' experiments on virtual cores, beside what the papers say.
//!
//! Each run is a function of its settings and the seed, so runs beside each other on several threads come out as they would one after
//! another. Results that are there are never thrown away: when a run fails, what the others came to is still shown, and
//! the exit status tells of the failure.
//!
//! What it does not do: measure. The time that it takes is nobody's figure.

use crate::args::{self, Repro};
use crate::error::Failure;
use crate::{bench, machine, output};
use indicatif::{ProgressBar, ProgressStyle};
use noonmark_sim::repro::{
    self, Axis, Cell, Contended, Experiment, Plan, Servers, Setting, Sharing, Short, Size, Spanning,
    TwoPhaseCommit, Workload,
};
use noonmark_workloads::driver::memory;
use noonmark_workloads::report::{
    self, Reproduction, RunReport, latency, rate, reproductions_json, reproductions_page, reproductions_text,
};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The command.
pub fn run(args: &Repro) -> Result<(), Failure> {
    if args.list {
        return list();
    }
    let plans = planned(args)?;
    for file in [&args.html, &args.json].into_iter().flatten() {
        output::can_write(file)?;
    }
    let (runs, mut failure) = perform(&args.size(), args.seed, &cells(&plans));
    let mut judged = judge(&runs);
    let whole = |e: io::Error| Failure::run(format!("cannot make the results into text: {e}"));
    if !runs.is_empty() {
        let mut all = conclude(&plans, &runs);
        for number in 1..args.seeds {
            if failure.is_some() {
                break;
            }
            let seed = args.seed.wrapping_add(u64::from(number));
            let plans: Vec<Plan> =
                plans.iter().map(|plan| Plan { seed, ablates: false, ..plan.clone() }).collect();
            let (runs, failed) = perform(&args.size(), seed, &cells(&plans));
            if failed.is_none() {
                all.iter_mut().zip(&conclude(&plans, &runs)).for_each(|(one, other)| one.add_seed(other));
            }
            failure = failed;
            judged = judged.and_then(|()| judge(&runs));
        }
        output::print(&reproductions_text(&all, output::columns()))?;
        if let Some(file) = &args.json {
            output::write(file, &reproductions_json(&all).map_err(whole)?)?;
        }
        if let Some(file) = &args.html {
            output::write(file, &reproductions_page(&all, &bench::command_line()).map_err(whole)?)?;
        }
        for (what, file) in [("page", &args.html), ("results", &args.json)] {
            if let Some(file) = file {
                let _ = writeln!(io::stderr(), "{what}: {}", file.display());
            }
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => judged,
    }
}

/// What the experiments of all plans come to, in their order.
fn conclude(plans: &[Plan], runs: &[(Cell, RunReport)]) -> Vec<Reproduction> {
    let of_plan = |plan: &Plan| {
        let conclude = |experiment: &&'static Experiment| repro::conclude(plan, experiment, runs);
        plan.experiments.iter().map(conclude).collect::<Vec<_>>()
    };
    plans.iter().flat_map(of_plan).collect()
}

fn list() -> Result<(), Failure> {
    let mut text = String::new();
    for experiment in repro::all() {
        let Experiment { name, figure, title, claims, alternatives, .. } = experiment;
        let counted = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        text.push_str(&format!(
            "{name:<22}  {figure}\n{:24}{title}\n{:24}{}, {} to change\n",
            "",
            "",
            counted(claims.len(), "statement"),
            counted(alternatives.len(), "choice")
        ));
    }
    output::print(&text)
}

/// The three names of experiments that are most like this one.
fn nearest_names(name: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = repro::all().map(|experiment| experiment.name).collect();
    // (Equal ones stay in their order.)
    names.sort_by(|a, b| strsim::jaro_winkler(name, b).total_cmp(&strsim::jaro_winkler(name, a)));
    names.truncate(3);
    names
}

/// What the command line asks for: a plan for each setting, in the order in which they are given.
fn planned(args: &Repro) -> Result<Vec<Plan>, Failure> {
    let mut experiments: Vec<&'static Experiment> = Vec::new();
    let names: Vec<&str> = match args.all {
        true => repro::all().map(|experiment| experiment.name).collect(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    for name in names {
        let found = repro::named(name).ok_or_else(|| {
            let nearest = nearest_names(name).join(", ");
            Failure::usage(format!(
                "there is no experiment '{name}': {nearest} come nearest; --list shows all"
            ))
        })?;
        if !experiments.iter().any(|known| known.name == found.name) {
            experiments.push(found);
        }
    }
    if experiments.is_empty() {
        return Err(Failure::usage("name an experiment, or take --all; --list shows what there is"));
    }
    let refuse_unless = |is_of: &dyn Fn(&Experiment) -> bool, option: &str, why: &str| match experiments
        .iter()
        .find(|experiment| !args.all && !is_of(experiment))
    {
        Some(Experiment { name, .. }) => Err(Failure::usage(format!("{option}: {name} {why}"))),
        None => Ok(()),
    };
    let [cores, workers] = [&args.cores, &args.workers].map(|counts| {
        let mut counts: Vec<usize> = counts.iter().map(|&count| usize::from(count)).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    });
    if !cores.is_empty() {
        let is_of = |experiment: &Experiment| experiment.axis == Axis::Cores;
        refuse_unless(&is_of, "--cores", "varies something else, on as many cores as its paper")?;
    }
    let mut settings: Vec<Setting> = Vec::new();
    for rows in or_none(&args.rows) {
        for message_us in or_none(&args.message_us) {
            let message_ns = message_us.map(|us| (1_000.0 * us).round() as u32);
            settings.extend(or_none(&workers).map(|workers| Setting {
                workers,
                message_ns,
                rows,
                two_phase_commit: args.two_phase_commit.map(two_phase_commit),
            }));
        }
    }
    let mut plans: Vec<Plan> = Vec::new();
    for setting in settings {
        let is_of = |experiment: &Experiment| {
            experiment.axis == Axis::Workers || setting.of(experiment).workers == setting.workers
        };
        refuse_unless(&is_of, "--workers", "is not about servers of a cluster")?;
        let is_of = |experiment: &Experiment| setting.of(experiment).message_ns == setting.message_ns;
        refuse_unless(&is_of, "--message-us", "has no messages, or varies what they take")?;
        let is_of = |experiment: &Experiment| setting.of(experiment).rows == setting.rows;
        refuse_unless(&is_of, "--rows", "is not about YCSB on servers of a cluster")?;
        let is_of =
            |experiment: &Experiment| setting.of(experiment).two_phase_commit == setting.two_phase_commit;
        refuse_unless(&is_of, "--two-phase-commit", "is not about servers of a cluster")?;
        // Once for each thing that is set: where the number of workers varies, all of them are in one plot.
        let is_new = |experiment: &&Experiment| {
            let has_it = |plan: &Plan| {
                let has_name = plan.experiments.iter().any(|known| known.name == experiment.name);
                has_name && plan.setting.of(experiment) == setting.of(experiment)
            };
            !plans.iter().any(has_it)
        };
        plans.push(Plan {
            experiments: experiments.iter().copied().filter(is_new).collect(),
            cores: cores.clone(),
            workers: workers.clone(),
            setting,
            few: args.quick,
            size: args.size(),
            seed: args.seed,
            ablates: !args.no_ablation,
        });
    }
    Ok(plans)
}

/// As experiments call it.
fn two_phase_commit(which: args::TwoPhaseCommit) -> TwoPhaseCommit {
    match which {
        args::TwoPhaseCommit::AsPrinted => TwoPhaseCommit::AsPrinted,
        args::TwoPhaseCommit::Ours => TwoPhaseCommit::Ours,
    }
}

/// Each of them; or once none, if there are none.
fn or_none<T: Copy>(some: &[T]) -> impl Iterator<Item = Option<T>> {
    let none = some.is_empty().then_some(None);
    some.iter().copied().map(Some).chain(none)
}

/// The runs of all plans, each once.
fn cells(plans: &[Plan]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for cell in plans.iter().flat_map(Plan::cells) {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells
}

/// As many runs beside each other as there are cores, and memory for.
fn at_once(size: &Size, cells: &[Cell]) -> usize {
    let bytes = cells.iter().map(|cell| size.bytes(&cell.variant.workload)).max().unwrap_or(0);
    // Twice of what the rows take, for what is not rows.
    let fit = memory::available_bytes().map_or(1, |available| available / (2 * bytes.max(1)));
    machine::cores().min(usize::try_from(fit).unwrap_or(usize::MAX)).clamp(1, cells.len().max(1))
}

/// Runs them all, up to the first that fails.
fn perform(size: &Size, seed: u64, cells: &[Cell]) -> (Vec<(Cell, RunReport)>, Option<Failure>) {
    let display = Display::new(cells);
    let state: Mutex<State> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..at_once(size, cells) {
            scope.spawn(|| {
                while let Some(at) = next(&state, cells.len()) {
                    let began = Instant::now();
                    let run = repro::run(&cells[at], size, seed);
                    let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    match run {
                        Ok(report) => {
                            display.done(&cells[at], &report, state.done.len() + 1, began.elapsed());
                            state.done.insert(at, report);
                        }
                        Err(error) => {
                            let failed = format!("{}: {error}", in_words(&cells[at]));
                            state.failure.get_or_insert(Failure::run(failed));
                        }
                    }
                }
            });
        }
    });
    display.bar.finish_and_clear();
    let state = state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    (state.done.into_iter().map(|(at, report)| (cells[at].clone(), report)).collect(), state.failure)
}

/// How far the runs have got.
#[derive(Default)]
struct State {
    begun: usize,
    done: BTreeMap<usize, RunReport>,
    failure: Option<Failure>,
}

/// Which run is next, unless all have begun, or one has failed.
fn next(state: &Mutex<State>, runs: usize) -> Option<usize> {
    let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let at = state.begun;
    (at < runs && state.failure.is_none()).then(|| {
        state.begun += 1;
        at
    })
}

fn in_words(cell: &Cell) -> String {
    let workload = match cell.variant.workload {
        Workload::Ycsb { .. } | Workload::Leased(_) => "YCSB".into(),
        Workload::Spanning(Spanning { servers: Servers { count: 1, .. }, .. }) => "YCSB on 1 server".into(),
        Workload::Spanning(spanning) => format!("YCSB on {} servers", spanning.servers.count),
        Workload::Sharing(Sharing { accounts: 0, workers, .. }) => format!("reads at {workers} workers"),
        Workload::Sharing(Sharing { workers, .. }) => format!("transfers at {workers} workers"),
        Workload::Contended(Contended { contention_percent: x, read_only_percent, .. }) => {
            format!("YCSB {x}:{} {read_only_percent} % read-only", 100 - x)
        }
        Workload::Tpcc { .. } => String::from("TPC-C"),
        Workload::Warehouses(warehouses) => {
            format!("TPC-C on {} servers of {} warehouses", warehouses.servers.count, warehouses.a_server)
        }
        Workload::Memory(Short { structure, updates_percent, .. }) => {
            format!("{structure} {updates_percent} % updates")
        }
    };
    let cores = match (&cell.variant.workload, cell.cores) {
        (Workload::Spanning(_) | Workload::Warehouses(_), workers) => format!("{workers} workers each"),
        (Workload::Sharing(_), clients) => format!("{clients} clients"),
        (_, 1) => "1 core".into(),
        (_, cores) => format!("{cores} cores"),
    };
    let groups = match cell.protocol.groups(cell.granularity) {
        "" => String::new(),
        groups => format!(" {groups}"),
    };
    format!("{workload}{groups} {}, {cores}", cell.protocol.name())
}

/// A bar on a terminal, a line for each run elsewhere.
struct Display {
    bar: ProgressBar,
    runs: usize,
    is_terminal: bool,
}

impl Display {
    fn new(cells: &[Cell]) -> Display {
        let is_terminal =
            io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let template =
            "{bar:30} {pos} of {len} runs, {elapsed_precise} so far, about {eta_precise} left  {wide_msg}";
        let style = ProgressStyle::with_template(template);
        let bar = if is_terminal { ProgressBar::new(cells.len() as u64) } else { ProgressBar::hidden() };
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        bar.enable_steady_tick(Duration::from_millis(250));
        Display { bar, runs: cells.len(), is_terminal }
    }

    fn done(&self, cell: &Cell, report: &RunReport, done: usize, took: Duration) {
        let words = format!(
            "{}: {} tx/s, {} aborted, p99 {}",
            in_words(cell),
            rate(report.committed_per_s),
            report::share(report.abort_share()),
            latency(report.latency_us.p99)
        );
        self.bar.inc(1);
        if self.is_terminal {
            self.bar.set_message(words);
        } else {
            // A reader that has gone away is no reason to stop.
            let _ = writeln!(io::stderr(), "[{done}/{}] {words} ({:.1} s)", self.runs, took.as_secs_f64());
        }
    }
}

/// A failure if a run's result was wrong. That a paper says otherwise is none.
fn judge(runs: &[(Cell, RunReport)]) -> Result<(), Failure> {
    match runs.iter().find(|(_, report)| report.consistent == Some(false)) {
        Some((cell, report)) => {
            let why = report.consistency.first().map_or("a consistency condition failed", String::as_str);
            Err(Failure::run(format!("inconsistent result of {}: {why}", in_words(cell))))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn plans_of(line: &str) -> Result<Vec<Plan>, Failure> {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Some(Command::Repro(args)) => planned(&args),
            _ => panic!("not a reproduction"),
        }
    }

    #[test]
    fn runs_that_two_figures_share_are_made_once() {
        let runs = |line: &str| cells(&plans_of(line).unwrap()).len();
        assert_eq!(runs("noonmark repro granularity-fig3a --cores 1,8 --no-ablation"), 10);
        assert_eq!(runs("noonmark repro granularity-fig3b --cores 8,1,8 --no-ablation"), 20);
        assert_eq!(runs("noonmark repro granularity-fig3a granularity-fig3b --cores 1,8 --no-ablation"), 20);
        assert_eq!(runs("noonmark repro dynamic-fig3 --quick --no-ablation"), 6);
        // Figure 1 is the half of Figure 4.
        assert_eq!(runs("noonmark repro dynamic-fig1 --no-ablation"), 6);
        assert_eq!(runs("noonmark repro dynamic-fig1 dynamic-fig4 --no-ablation"), 12);
        assert_eq!(runs("noonmark repro dynamic-fig5 --cores 2,4 --no-ablation"), 4);
        assert!(runs("noonmark repro --all --quick --cores 1,8") > 80);
        // Two numbers of workers are two points of one plot, or two plots; with two times for messages each is there twice.
        assert_eq!(runs("noonmark repro sundial-fig8 --workers 8,4 --no-ablation"), 16);
        assert_eq!(runs("noonmark repro sundial-fig12-servers --workers 8,4 --no-ablation"), 8);
        assert_eq!(runs("noonmark repro sundial-fig8 --workers 8,4 --message-us 1,0.2 --no-ablation"), 32);
        assert_eq!(runs("noonmark repro sundial-fig12-servers --message-us 2 --no-ablation"), 4);
        let all = runs("noonmark repro --all --quick --no-ablation");
        let more = runs("noonmark repro --all --quick --no-ablation --message-us 2,7");
        assert!(all < more && more < 2 * all, "{all} {more}");
    }

    #[test]
    fn each_setting_is_a_plan() {
        let of = |line: &str| -> Vec<(Setting, Vec<&str>)> {
            let names = |plan: &Plan| plan.experiments.iter().map(|experiment| experiment.name).collect();
            plans_of(line).unwrap().iter().map(|plan| (plan.setting, names(plan))).collect()
        };
        let set = |workers, message_ns| Setting { workers, message_ns, ..Setting::default() };
        assert_eq!(of("noonmark repro dynamic-fig1"), [(set(None, None), vec!["dynamic-fig1"])]);
        let (seven, ten) = ("sundial-fig7", "sundial-fig10");
        assert_eq!(
            of("noonmark repro sundial-fig7 sundial-fig10 --workers 8,4 --message-us 0.2,10"),
            [
                (set(Some(4), Some(200)), vec![seven, ten]),
                (set(Some(8), Some(200)), vec![ten]),
                (set(Some(4), Some(10_000)), vec![seven, ten]),
                (set(Some(8), Some(10_000)), vec![ten]),
            ]
        );
        let with_rows = |rows| Setting { rows: Some(rows), ..Setting::default() };
        assert_eq!(
            of("noonmark repro sundial-fig12-servers --rows 2000000,1000"),
            [
                (with_rows(2_000_000), vec!["sundial-fig12-servers"]),
                (with_rows(1000), vec!["sundial-fig12-servers"])
            ]
        );
        let with_ours = Setting { two_phase_commit: Some(TwoPhaseCommit::Ours), ..Setting::default() };
        assert_eq!(
            of("noonmark repro sundial-fig8 sundial-fig15 --two-phase-commit ours"),
            [(with_ours, vec!["sundial-fig8", "sundial-fig15"])]
        );
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let refused = |line: &str| {
            let failure = plans_of(line).unwrap_err();
            assert_eq!(failure.status(), 2);
            failure.to_string()
        };
        assert!(refused("noonmark repro").contains("--list"));
        assert!(refused("noonmark repro granularity-fig9").contains("granularity-fig2a"));
        assert!(
            refused("noonmark repro dynamic-fig3 --cores 8").contains("dynamic-fig3 varies something else")
        );
        assert!(refused("noonmark repro sundial-fig7 --cores 8").contains("sundial-fig7 varies"));
        assert!(refused("noonmark repro sundial-fig12 --workers 8").contains("sundial-fig12 is not about"));
        assert!(
            refused("noonmark repro dynamic-fig3 --message-us 1").contains("dynamic-fig3 has no messages")
        );
        assert!(
            refused("noonmark repro sundial-fig7-messages --message-us 1").contains("varies what they take")
        );
        assert!(
            refused("noonmark repro sundial-fig8 --rows 1000").contains("sundial-fig8 is not about YCSB")
        );
        assert!(
            refused("noonmark repro disttictoc-fig7 --two-phase-commit as-printed")
                .contains("disttictoc-fig7 is not about servers")
        );
    }
}
