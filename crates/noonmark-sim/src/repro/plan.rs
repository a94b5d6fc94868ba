//! Which experiments are run, with what set otherwise than they have it, and what comes of them.
//!
//! What it does not do: run anything, or judge; see [`run`](super::run) and [`Claim`](super::Claim).

use super::{Axis, Cell, Experiment, Size, TwoPhaseCommit, Workload, claim, judge};
use noonmark_workloads::report::{Change, Reproduction, RunReport};

/// Some experiments, and how they are to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which.
    pub experiments: Vec<&'static Experiment>,
    /// On how many cores, ascending, where that is what varies; as many as each experiment has for itself, if there are none.
    pub cores: Vec<usize>,
    /// With how many workers a server, ascending, where that is what varies, in the same way.
    pub workers: Vec<usize>,
    /// What is set otherwise than the experiments have it.
    pub setting: Setting,
    /// Whether a few points of each plot are enough.
    pub few: bool,
    /// How large.
    pub size: Size,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Whether choices are changed, too.
    pub ablates: bool,
}

/// What experiments on servers of a cluster, or at workers that share nothing, are run with in place of what they have: what their figures hang on
/// most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// So many workers a server, where something else varies.
    pub workers: Option<usize>,
    /// A message takes so long of a thread, at either end, where something else varies.
    pub message_ns: Option<u32>,
    /// So many rows of YCSB a server.
    pub rows: Option<u32>,
    /// Who is asked to prepare, and told.
    pub two_phase_commit: Option<TwoPhaseCommit>,
}

impl Setting {
    /// As much of it as is of an experiment.
    pub fn of(self, experiment: &Experiment) -> Setting {
        let workers = self.workers.filter(|&count| experiment.axis.with_workers(count).is_some());
        let has_messages = |ns| experiment.variant.workload.clone().take_for_messages(ns);
        let varies_them = matches!(experiment.axis, Axis::Messages { .. });
        let message_ns = self.message_ns.filter(|&ns| !varies_them && has_messages(ns));
        let rows = self.rows.filter(|&rows| experiment.variant.workload.clone().take_rows(rows));
        let has_servers = experiment.variant.workload.servers().is_some();
        let two_phase_commit = self.two_phase_commit.filter(|_| has_servers);
        Setting { workers, message_ns, rows, two_phase_commit }
    }

    /// The experiment with it.
    fn applied_to(self, experiment: &Experiment) -> Experiment {
        let Setting { workers, message_ns, rows, two_phase_commit } = self.of(experiment);
        let mut experiment = experiment.clone();
        if let Some(axis) = workers.and_then(|count| experiment.axis.with_workers(count)) {
            experiment.axis = axis;
        }
        if let Some(ns) = message_ns {
            experiment.variant.workload.take_for_messages(ns);
        }
        if let Some(rows) = rows {
            experiment.variant.workload.take_rows(rows);
        }
        if let (Some(commit), Some(servers)) = (two_phase_commit, experiment.variant.workload.servers_mut()) {
            servers.two_phase_commit = commit;
        }
        experiment
    }

    /// Behind a title.
    fn in_words(self) -> String {
        let workers =
            self.workers.map_or_else(String::new, |count| format!("; with {count} workers a server"));
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let message =
            self.message_ns.map_or_else(String::new, |ns| format!("; with messages that take {} µs", us(ns)));
        let rows = self.rows.map_or_else(String::new, |count| format!("; with {count} rows a server"));
        let commit =
            self.two_phase_commit.map_or_else(String::new, |commit| format!("; with {}", commit.in_words()));
        workers + &message + &rows + &commit
    }
}

impl Plan {
    /// Where an experiment is run, in the order of its plot.
    fn points(&self, experiment: &Experiment) -> &[usize] {
        match experiment.axis {
            Axis::Cores if !self.cores.is_empty() => &self.cores,
            Axis::Workers if !self.workers.is_empty() => &self.workers,
            _ if self.few => experiment.points.few,
            _ => experiment.points.all,
        }
    }

    /// The runs that these experiments take, each once. The last points of each experiment first, the greatest ones, so that
    /// those that run beside each other end together.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |cell: Cell| {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        for experiment in &self.experiments {
            let experiment = self.setting.applied_to(experiment);
            for &point in self.points(&experiment).iter().rev() {
                experiment.cells(point).for_each(&mut add);
            }
            for (_, cell) in self.ablation(&experiment) {
                add(cell);
            }
        }
        cells
    }

    /// The runs in which one choice is changed, by alternative; those of the variant as it is come first. At the last point
    /// of the plot.
    fn ablation(&self, experiment: &Experiment) -> Vec<(&'static str, Cell)> {
        let Some(&point) = self.points(experiment).last().filter(|_| self.ablates) else { return Vec::new() };
        let (as_it_is, cores) = experiment.at(point);
        let changed = experiment.alternatives.iter().map(|alternative| {
            let mut variant = as_it_is.clone();
            (alternative.change)(&mut variant);
            (alternative.words, variant)
        });
        let mut cells = Vec::new();
        for (words, variant) in std::iter::once(("as above", as_it_is.clone())).chain(changed) {
            for &(protocol, granularity) in experiment.ablated {
                cells.push((words, Cell { variant: variant.clone(), protocol, granularity, cores }));
            }
        }
        cells
    }
}

/// What came of an experiment: what its paper says, beside these runs.
pub fn conclude(plan: &Plan, experiment: &Experiment, runs: &[(Cell, RunReport)]) -> Reproduction {
    let setting = plan.setting.of(experiment);
    let experiment = &setting.applied_to(experiment);
    let found = |wanted: &Cell| runs.iter().find(|(cell, _)| cell == wanted).map(|(_, run)| run);
    let points = plan.points(experiment);
    let mut own: Vec<(usize, RunReport)> = Vec::new();
    for &point in points {
        for cell in experiment.cells(point) {
            own.extend(found(&cell).map(|run| (point, run.clone())));
        }
    }
    let mut changes: Vec<Change> = Vec::new();
    for (words, cell) in plan.ablation(experiment) {
        let Some(run) = found(&cell) else { continue };
        match changes.last_mut().filter(|change| change.words == words) {
            Some(change) => change.runs.push(run.clone()),
            None => changes.push(Change { words: words.into(), runs: vec![run.clone()] }),
        }
    }
    let results =
        judge::Results { runs: &own, protocols: experiment.protocols, points, axis: experiment.axis };
    let findings = experiment.claims.iter().map(|claim| claim.judge(&results)).collect();
    let mut choices = own_words(experiment.variant.in_words());
    experiment.axis.mark(&mut choices);
    let left_out = experiment.left_out.iter();
    Reproduction {
        name: experiment.name.into(),
        title: format!("{}{}", experiment.title, setting.in_words()),
        figure: experiment.figure.into(),
        groups: experiment.groups().into(),
        machine: match (&experiment.variant.workload, experiment.variant.workload.servers()) {
            (_, Some(_)) if matches!(experiment.axis, Axis::Servers { .. }) => "servers of a cluster".into(),
            (_, Some(servers)) => format!("{} servers", servers.count),
            (Workload::Sharing(_), None) => "workers that share nothing".into(),
            _ => experiment.variant.machine.name.into(),
        },
        seed: plan.seed,
        size: match experiment.axis {
            Axis::Servers { .. } if points.iter().any(|servers| *servers >= 64) => format!(
                "{}; on 64 servers and more both are as many times shorter as there are 32 of them",
                plan.size.in_words(&experiment.variant.workload)
            ),
            _ => plan.size.in_words(&experiment.variant.workload),
        },
        axis: experiment.axis.name().into(),
        failures: experiment.failures,
        kinds: experiment
            .kinds
            .iter()
            .map(|kind| (kind.words.into(), kind.rules.iter().map(|&rule| rule.into()).collect()))
            .collect(),
        agrees_if: claim::AGREES_IF.into(),
        choices,
        left_out: left_out.map(|&(what, changes)| (what.to_owned(), changes.to_owned())).collect(),
        findings,
        runs: own.into_iter().map(|(_, run)| run).collect(),
        changes,
    }
}

fn own_words(words: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
