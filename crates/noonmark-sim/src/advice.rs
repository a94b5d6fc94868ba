//! Which protocol and which column groups to choose for each table of a recorded workload, by trying.
//!
//! 1. Every protocol with every grouping, the same for all tables: coarse, fine, and rows that split themselves.
//! 2. From the best of these on, one table at a time: column groups are put together as long as that costs nothing, and each other protocol
//!    is tried for it. What is better is kept before the next table is looked at.
//!
//! A schedule that is a little different gives figures that are a little different, so whatever comes near the best is run with
//! several seeds. What is level goes to the plainer: fewer groups, and the protocol that stands first in the list.
//!
//! Who runs the trials is the caller's: they depend on nothing but the choices and the seed, so several may run beside each other.
//!
//! What it does not do: try all combinations. Two tables that would have to change together are not found.

use crate::replay::{Choice, Figures};
use crate::trace::{Trace, TracedTable};
use noonmark::Protocol;
use noonmark_workloads::report::{Advice, AdvisedOutcome, AdvisedTable, AdvisedTrial, Otherwise};

/// What comes within this of the best is looked at with all seeds.
const NEAR: f64 = 0.9;
/// What comes within this is as good.
const LEVEL: f64 = 0.98;
/// What groups may cost to be put together: nothing that can be told from chance.
const FREE: f64 = 0.99;
/// What a protocol of its own must gain a table.
const WORTH_IT: f64 = 1.03;

/// Seeds with which what is close is run.
pub const SEEDS: usize = 3;

/// A run: a choice for each table, and a seed.
pub type Trial = (Vec<Choice>, u64);

/// A grouping for all tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grouping {
    Coarse,
    Fine,
    Splitting,
}

impl Grouping {
    fn name(self) -> &'static str {
        match self {
            Grouping::Coarse => "coarse",
            Grouping::Fine => "fine",
            Grouping::Splitting => "splitting",
        }
    }

    fn of(self, protocol: Protocol, table: &TracedTable) -> Choice {
        match self {
            Grouping::Splitting if table.groups.len() > 1 => Choice::splitting(protocol, table),
            Grouping::Coarse => Choice::coarse(protocol, table),
            Grouping::Fine | Grouping::Splitting => Choice::fine(protocol, table),
        }
    }
}

/// Looks for the best choices, among these protocols; among all if there are none. `run` runs trials, and answers in their order.
///
/// # Errors
/// What `run` fails with.
pub fn advise<E>(
    trace: &Trace,
    protocols: &[Protocol],
    seeds: &[u64; SEEDS],
    run: impl FnMut(&[Trial]) -> Result<Vec<Figures>, E>,
) -> Result<Advice, E> {
    let protocols = if protocols.is_empty() { Protocol::ALL } else { protocols };
    let mut search = Search { trace, seeds, run, runs: 0 };
    let (trials, mut best) = search.uniform(protocols)?;
    let mut otherwise: Vec<Vec<Otherwise>> = vec![Vec::new(); trace.tables.len()];
    for (at, table) in trace.tables.iter().enumerate() {
        if !table.is_changed {
            // Nobody can be in the way of anybody.
            best.choices[at] = Choice::coarse(best.choices[at].protocol, table);
        }
    }
    best.outcome = search.outcomes(std::slice::from_ref(&best.choices), seeds)?.remove(0);
    for (at, table) in trace.tables.iter().enumerate().filter(|(_, table)| table.is_changed) {
        if table.groups.len() > 1 {
            search.regroup(at, &mut best, &mut otherwise[at])?;
        }
    }
    for (at, table) in trace.tables.iter().enumerate().filter(|(_, table)| table.is_changed) {
        if !table.is_index {
            search.reprotocol(at, protocols, &mut best, &mut otherwise[at])?;
        }
    }
    let tables = trace.tables.iter().zip(&best.choices).zip(otherwise);
    Ok(Advice {
        runs: search.runs,
        transactions: trace.transactions.len(),
        left_out: trace.left_out,
        trials,
        tables: tables.map(|((table, choice), otherwise)| told(table, choice, otherwise)).collect(),
        outcome: best.outcome,
        ..Advice::default()
    })
}

/// Choices, and what they came to.
struct Found {
    choices: Vec<Choice>,
    outcome: AdvisedOutcome,
}

struct Search<'a, R> {
    trace: &'a Trace,
    seeds: &'a [u64; SEEDS],
    run: R,
    runs: usize,
}

impl<E, R: FnMut(&[Trial]) -> Result<Vec<Figures>, E>> Search<'_, R> {
    /// The outcomes of some choices: means over the seeds.
    fn outcomes(&mut self, choices: &[Vec<Choice>], seeds: &[u64]) -> Result<Vec<AdvisedOutcome>, E> {
        let trials: Vec<Trial> =
            choices.iter().flat_map(|choices| seeds.iter().map(|seed| (choices.clone(), *seed))).collect();
        self.runs += trials.len();
        let figures = (self.run)(&trials)?;
        Ok(figures.chunks(seeds.len().max(1)).map(outcome).collect())
    }

    /// The same choices for all tables.
    fn uniform(&mut self, protocols: &[Protocol]) -> Result<(Vec<AdvisedTrial>, Found), E> {
        let (tables, all_seeds) = (&self.trace.tables, self.seeds);
        let mut groupings = vec![Grouping::Coarse];
        if tables.iter().any(|table| table.groups.len() > 1) {
            groupings.extend([Grouping::Fine, Grouping::Splitting]);
        }
        // The plainer ones first.
        let tried: Vec<(Grouping, Protocol)> = groupings
            .iter()
            .flat_map(|grouping| protocols.iter().map(|protocol| (*grouping, *protocol)))
            .filter(|(grouping, protocol)| *grouping != Grouping::Splitting || !protocol.keeps_versions())
            .collect();
        let choices: Vec<Vec<Choice>> = tried
            .iter()
            .map(|(grouping, protocol)| tables.iter().map(|table| grouping.of(*protocol, table)).collect())
            .collect();
        let mut outcomes = self.outcomes(&choices, &all_seeds[..1])?;
        let near = |outcomes: &[AdvisedOutcome], share: f64| -> Vec<usize> {
            let most = outcomes.iter().map(|outcome| outcome.per_s).fold(0.0, f64::max);
            (0..outcomes.len()).filter(|at| outcomes[*at].per_s >= share * most).collect()
        };
        let again = near(&outcomes, NEAR);
        let of_them: Vec<Vec<Choice>> = again.iter().map(|at| choices[*at].clone()).collect();
        let means = self.outcomes(&of_them, all_seeds)?;
        for (at, mean) in again.iter().zip(&means) {
            outcomes[*at] = mean.clone();
        }
        let first = near(&means, LEVEL).first().map_or(0, |at| again[*at]);
        let trials = tried.iter().zip(&outcomes).map(|((grouping, protocol), outcome)| AdvisedTrial {
            protocol: protocol.name().into(),
            groups: grouping.name().into(),
            outcome: outcome.clone(),
        });
        let found = Found { choices: choices[first].clone(), outcome: outcomes[first].clone() };
        Ok((trials.collect(), found))
    }

    /// Puts groups of a table together as long as that costs nothing.
    fn regroup(&mut self, at: usize, best: &mut Found, otherwise: &mut Vec<Otherwise>) -> Result<(), E> {
        let table = &self.trace.tables[at];
        let protocol = best.choices[at].protocol;
        let with = |best: &Found, choice: Choice| {
            let mut choices = best.choices.clone();
            choices[at] = choice;
            choices
        };
        if best.choices[at].parts() == 1 {
            // It is coarse since that is as good for all tables together.
            let fine = with(best, Choice::fine(protocol, table));
            let outcome = self.outcomes(std::slice::from_ref(&fine), self.seeds)?.remove(0);
            otherwise.push(beside("each group by itself".into(), &outcome, &best.outcome));
            if outcome.per_s * FREE > best.outcome.per_s {
                otherwise.clear();
                otherwise.push(beside("all groups together".into(), &best.outcome, &outcome));
                *best = Found { choices: fine, outcome };
            }
            return Ok(());
        }
        let (apart, apart_outcome) = (best.choices[at].parts(), best.outcome.clone());
        let mut together = None;
        loop {
            let current = best.choices[at].part_of.clone();
            let parts = best.choices[at].parts() as u8;
            let mut merged = vec![Choice::coarse(protocol, table)];
            if parts > 2 {
                let pairs = (0..parts).flat_map(|one| (one + 1..parts).map(move |other| (one, other)));
                merged.extend(pairs.map(|(one, other)| Choice {
                    protocol,
                    part_of: joined(&current, one, other),
                    splits_itself: best.choices[at].splits_itself,
                }));
            }
            let choices: Vec<Vec<Choice>> = merged.iter().map(|choice| with(best, choice.clone())).collect();
            let outcomes = self.outcomes(&choices, self.seeds)?;
            let free = |at: &usize| outcomes[*at].per_s >= FREE * best.outcome.per_s;
            let most = (1..outcomes.len()).max_by(|a, b| outcomes[*a].per_s.total_cmp(&outcomes[*b].per_s));
            // All together, if that is free, or else the two that go together best.
            let Some(taken) = Some(0).filter(free).or(most.filter(free)) else {
                together = Some(outcomes[0].clone());
                break;
            };
            *best = Found { choices: choices[taken].clone(), outcome: outcomes[taken].clone() };
            if best.choices[at].parts() == 1 {
                break;
            }
        }
        if let Some(together) = together {
            otherwise.push(beside("all groups together".into(), &together, &best.outcome));
        }
        if best.choices[at].parts() < apart {
            otherwise.push(beside("each group by itself".into(), &apart_outcome, &best.outcome));
        }
        Ok(())
    }

    /// Tries each other protocol for a table.
    fn reprotocol(
        &mut self,
        at: usize,
        protocols: &[Protocol],
        best: &mut Found,
        otherwise: &mut Vec<Otherwise>,
    ) -> Result<(), E> {
        let own = best.choices[at].protocol;
        let others: Vec<Protocol> =
            protocols.iter().copied().filter(|other| *other != own && other.mixes_with(own)).collect();
        let choices: Vec<Vec<Choice>> = others
            .iter()
            .map(|other| {
                let mut choices = best.choices.clone();
                choices[at].protocol = *other;
                choices
            })
            .collect();
        if choices.is_empty() {
            return Ok(());
        }
        let looked = self.outcomes(&choices, &self.seeds[..1])?;
        let most = (0..looked.len()).max_by(|a, b| looked[*a].per_s.total_cmp(&looked[*b].per_s));
        let Some(most) = most else { return Ok(()) };
        let outcome = self.outcomes(&choices[most..=most], self.seeds)?.remove(0);
        if outcome.per_s >= WORTH_IT * best.outcome.per_s {
            otherwise.push(beside(own.name().into(), &best.outcome, &outcome));
            *best = Found { choices: choices[most].clone(), outcome };
        } else {
            otherwise.push(beside(others[most].name().into(), &outcome, &best.outcome));
        }
        Ok(())
    }
}

/// A choice that was not taken.
fn beside(what: String, outcome: &AdvisedOutcome, taken: &AdvisedOutcome) -> Otherwise {
    Otherwise { what, ratio: if taken.per_s > 0.0 { outcome.per_s / taken.per_s } else { 1.0 } }
}

/// The parts, two of them as one.
fn joined(part_of: &[u8], one: u8, other: u8) -> Vec<u8> {
    let joined = |part: u8| match part {
        part if part == other => one,
        part if part > other => part - 1,
        part => part,
    };
    part_of.iter().map(|part| joined(*part)).collect()
}

/// The mean of several runs of the same choices.
fn outcome(runs: &[Figures]) -> AdvisedOutcome {
    let mean = |of: fn(&Figures) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
    AdvisedOutcome {
        per_s: mean(Figures::per_s),
        abort_share: mean(Figures::abort_share),
        p99_us: mean(|figures| figures.p99_ns as f64 / 1e3),
        missed: runs.iter().map(|figures| figures.missed).max().unwrap_or(0),
        given_up: runs.iter().any(|figures| figures.limit.is_some()),
    }
}

fn told(table: &TracedTable, choice: &Choice, otherwise: Vec<Otherwise>) -> AdvisedTable {
    let mut groups = vec![Vec::new(); choice.parts()];
    for (number, (name, part)) in table.groups.iter().zip(&choice.part_of).enumerate() {
        // Two groups may be of one type.
        let is_alone = table.groups.iter().filter(|other| *other == name).count() == 1;
        let name = if is_alone && !name.is_empty() { name.clone() } else { format!("{number} {name}") };
        groups[usize::from(*part)].push(name.trim_end().to_owned());
    }
    AdvisedTable {
        table: table.name.clone(),
        is_index: table.is_index,
        is_changed: table.is_changed,
        protocol: choice.protocol.name().into(),
        groups,
        splits_itself: choice.splits_itself,
        otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn parts_are_joined_without_a_gap() {
        assert_eq!(joined(&[0, 1, 2, 3], 1, 3), [0, 1, 2, 1]);
        assert_eq!(joined(&[0, 1, 2], 0, 1), [0, 0, 1]);
    }

    fn table(name: &str, groups: &[&str], is_changed: bool) -> TracedTable {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        TracedTable { name: name.into(), groups, is_changed, ..TracedTable::default() }
    }

    /// Against a rule that is known: what it finds is what the rule says is best.
    #[test]
    fn the_best_is_found_where_each_table_counts_by_itself() {
        let tables = vec![
            table("hot", &["a", "b", "c"], true),
            table("cold", &["d", "e"], true),
            table("fixed", &["f", "g"], false),
            table("locked", &["h"], true),
        ];
        let trace = Trace { tables, transactions: vec![Vec::new()], left_out: 2 };
        // `a` must not be with the others of its table; `locked` is better off under two-phase locking.
        let rule = |choices: &[Choice]| -> u64 {
            let hot = &choices[0].part_of;
            let hot = if hot[0] == hot[1] || hot[0] == hot[2] { 50 } else { 100 };
            let locked = if choices[3].protocol == Protocol::TwoPhaseWaitDie { 20 } else { 0 };
            let occ = choices.iter().filter(|choice| choice.protocol == Protocol::Occ).count() as u64;
            let costs = if choices[0].splits_itself { 10 } else { 0 };
            hot * (100 + locked + 10 * occ - costs)
        };
        let run = |trials: &[Trial]| -> Result<Vec<Figures>, Infallible> {
            let figures = |(choices, _): &Trial| Figures {
                committed: rule(choices),
                took_ps: 1_000_000,
                ..Figures::default()
            };
            Ok(trials.iter().map(figures).collect())
        };
        let Ok(advice) = advise(&trace, Protocol::ALL, &[1, 2, 3], run);
        let told: Vec<(&str, Vec<Vec<String>>)> =
            advice.tables.iter().map(|table| (table.protocol.as_str(), table.groups.clone())).collect();
        let groups = |groups: &[&[&str]]| -> Vec<Vec<String>> {
            groups.iter().map(|group| group.iter().map(|name| (*name).to_owned()).collect()).collect()
        };
        assert_eq!(told[0], ("occ", groups(&[&["a"], &["b", "c"]])));
        assert_eq!(told[1], ("occ", groups(&[&["d", "e"]])));
        assert_eq!(told[2], ("occ", groups(&[&["f", "g"]])));
        assert_eq!(told[3].0, Protocol::TwoPhaseWaitDie.name());
        assert_eq!(advice.tables[0].otherwise[0].ratio, 0.5);
        assert_eq!(advice.outcome.per_s, 100.0 * 150.0 * 1e6);
        assert_eq!(advice.trials.len(), 3 * Protocol::ALL.len() - 1);
    }
}
