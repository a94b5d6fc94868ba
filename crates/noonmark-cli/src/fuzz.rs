//! `noonmark fuzz`: small workloads under many schedules, each from its seed, and what their histories show.

use crate::args::Fuzz;
use crate::error::Failure;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use noonmark::Protocol;
use noonmark_sim::fuzz::{Case, Seeded, Verdict};
use noonmark_sim::network::fuzz::ClusterCase;
use std::collections::BTreeMap;

/// Runs the seeds; a failure if one of them shows something that cannot be.
pub fn run(args: &Fuzz) -> Result<(), Failure> {
    let protocols = protocols(&args.protocol)?;
    match args.cluster {
        true => run_cases::<ClusterCase>(args, protocols),
        false => run_cases::<Case>(args, protocols),
    }
}

fn run_cases<C: Seeded>(args: &Fuzz, protocols: Vec<Protocol>) -> Result<(), Failure> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}, {per_sec}, {eta} left");
    let bar_of = |length, what: &'static str| {
        // (It shows itself on a terminal only.)
        let bar = ProgressBar::new(length).with_message(what);
        style.as_ref().map_or(bar.clone(), |style| bar.with_style(style.clone()))
    };
    let Some(transactions_min) = args.transactions else {
        let bar = bar_of(args.seeds.end - args.seeds.start, "seeds");
        let mut ran = Ran::default();
        for seed in args.seeds.clone() {
            ran.add::<C>(seed, &protocols, args.cluster, &bar)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        let Ran { seeds, broken, transactions, steps, .. } = ran;
        output::print(&format!(
            "{seeds} seeds, {broken} of them broken; {transactions} transactions committed in the others, in {steps} steps\n"
        ))?;
        return ran.result();
    };
    let mut all = Ran::default();
    let mixed = (protocols.len() > 1).then_some(&protocols[..]);
    for protocols in protocols.iter().map(std::slice::from_ref).chain(mixed) {
        let name = if let [protocol] = protocols { protocol.name() } else { "mixed" };
        let bar = bar_of(transactions_min, "transactions");
        let mut ran = Ran::default();
        let mut seeds = args.seeds.start..;
        while ran.transactions < transactions_min
            && !ran.gets_nowhere()
            && let Some(seed) = seeds.next()
        {
            ran.add::<C>(seed, protocols, args.cluster, &bar)?;
            bar.set_position(ran.transactions);
        }
        bar.finish_and_clear();
        output::print(&format!("{name}: {ran}\n"))?;
        all.seeds += ran.seeds;
        all.broken += ran.broken;
    }
    all.result()
}

/// What became of some seeds.
#[derive(Default)]
struct Ran {
    seeds: u64,
    broken: u64,
    /// Committed in those that are not broken, and the steps that it took.
    transactions: u64,
    steps: u64,
    /// The transactions by what they were cases of.
    kinds: BTreeMap<&'static str, u64>,
}

impl Ran {
    /// Runs one more seed; what is broken is told.
    fn add<C: Seeded>(
        &mut self,
        seed: u64,
        protocols: &[Protocol],
        cluster: bool,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let failed = |case: &C, error: &dyn std::fmt::Display| {
            Failure::run(format!("{case} could not be run: {error}"))
        };
        let case = C::draw(seed, protocols);
        self.seeds += 1;
        match case.run().map_err(|error| failed(&case, &error))? {
            Verdict::Holds { committed, steps } => {
                self.transactions += committed;
                self.steps += steps;
                for kind in case.kinds() {
                    *self.kinds.entry(kind).or_default() += committed;
                }
            }
            Verdict::Broken(_) => {
                self.broken += 1;
                let first = case.to_string();
                let smaller = case.shrink(|case| matches!(case.run(), Ok(Verdict::Broken(_))));
                let told = match smaller.run().map_err(|error| failed(&smaller, &error))? {
                    Verdict::Broken(told) => told,
                    Verdict::Holds { .. } => unreachable!("a case is a function of its seed"),
                };
                let again = again(protocols, seed, cluster);
                bar.suspend(|| {
                    output::print(&format!(
                        "{first}\nto see it again: {again}\nmade smaller: {smaller}\n{told}\n\n"
                    ))
                })?;
            }
        }
        Ok(())
    }

    /// Most seeds are broken, so that it would take for ever.
    fn gets_nowhere(&self) -> bool {
        self.broken >= 100 && self.broken * 2 > self.seeds
    }

    fn result(&self) -> Result<(), Failure> {
        match self.broken {
            0 => Ok(()),
            broken => Err(Failure::run(format!(
                "{broken} of {} seeds show what no serial execution could",
                self.seeds
            ))),
        }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { seeds, broken, transactions, kinds, .. } = self;
        write!(f, "{transactions} transactions committed in {seeds} seeds, {broken} seeds broken")?;
        for (at, (kind, count)) in kinds.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { " (" } else { ", " })?;
        }
        f.write_str(if kinds.is_empty() { "" } else { ")" })
    }
}

/// The command that runs one seed.
fn again(protocols: &[Protocol], seed: u64, cluster: bool) -> String {
    let cluster = if cluster { "--cluster " } else { "" };
    let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
    format!("noonmark fuzz {cluster}--protocol {} --seeds {seed}..{}", names.join(","), seed + 1)
}

/// The protocols of these names; all if there are none.
pub fn protocols(names: &[String]) -> Result<Vec<Protocol>, Failure> {
    let mut protocols = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => protocols.extend(Protocol::ALL),
            name => protocols.push(name.parse().map_err(|error| Failure::usage(format!("{error}")))?),
        }
    }
    Ok(if protocols.is_empty() { Protocol::ALL.to_vec() } else { protocols })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_seed_can_be_run_again() {
        let command = again(&[Protocol::Occ, Protocol::TicToc], 7, false);
        assert_eq!(command, "noonmark fuzz --protocol occ,tictoc --seeds 7..8");
        let command = again(&[Protocol::Sundial], 7, true);
        assert_eq!(command, "noonmark fuzz --cluster --protocol sundial --seeds 7..8");
    }

    #[test]
    fn a_few_seeds_run_and_nonsense_is_refused() {
        let args = |protocol: &str, seeds, cluster| Fuzz {
            protocol: vec![protocol.into()],
            seeds,
            cluster,
            transactions: None,
        };
        run(&args("occ", 0..5, false)).unwrap();
        run(&args("all", 5..10, false)).unwrap();
        run(&args("all", 5..10, true)).unwrap();
        let until = |transactions| Fuzz { transactions: Some(transactions), ..args("all", 0..1, true) };
        run(&until(300)).unwrap();
        let refused = run(&args("ooc", 0..5, false)).unwrap_err();
        assert_eq!(refused.status(), 2);
        assert!(refused.to_string().contains("ooc"), "{refused}");
    }
}
