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
    if args.size.is_some() || args.turns.is_some() {
        let one_seed = args.seeds.end - args.seeds.start == 1 && args.transactions.is_none();
        if !one_seed {
            return Err(Failure::usage("--size and --turns are for one seed, as in --seeds 7..8"));
        }
    }
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
            ran.add::<C>(case_of(args, seed, &protocols)?, seed, &protocols, &bar)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        let Ran { seeds, broken, transactions, steps, .. } = ran;
        let others = if broken > 0 { " in the others" } else { "" };
        output::print(&format!(
            "{}, {broken} of them broken; {transactions} transactions committed{others}, in {steps} steps\n",
            in_seeds(seeds)
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
            ran.add::<C>(C::draw(seed, protocols), seed, protocols, &bar)?;
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
    /// Runs one more case, drawn from this seed; what is broken is told.
    fn add<C: Seeded>(
        &mut self,
        case: C,
        seed: u64,
        protocols: &[Protocol],
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        self.seeds += 1;
        match run_case(&case)? {
            Verdict::Holds { committed, steps } => {
                self.transactions += committed;
                self.steps += steps;
                for kind in case.kinds() {
                    *self.kinds.entry(kind).or_default() += committed;
                }
                // Who has told a schedule wants to see what happens in it.
                if let Some(story) = case.story() {
                    bar.suspend(|| output::print(&format!("{case}\n{story}\n")))?;
                }
            }
            Verdict::Broken(fault, _) => {
                self.broken += 1;
                let first = case.to_string();
                let again = again(&C::draw(seed, protocols), &case, seed, protocols);
                bar.suspend(|| output::print(&format!("{first}\nto see it again: {again}\n")))?;
                let fails = |case: &C| case.run().is_ok_and(|verdict| verdict.fault() == Some(fault));
                let smaller = case.shortest(fails);
                let told = match run_case(&smaller)? {
                    Verdict::Broken(_, told) => told,
                    Verdict::Holds { .. } => unreachable!("a case is a function of its seed"),
                };
                let again = self::again(&C::draw(seed, protocols), &smaller, seed, protocols);
                let story = smaller.story().unwrap_or_default();
                bar.suspend(|| {
                    output::print(&format!(
                        "made smaller: {smaller}\nto see that again: {again}\n{story}{told}\n\n"
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
            broken => Err(Failure::run(format!("{broken} of {} show what may not be", in_seeds(self.seeds)))),
        }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { seeds, broken, transactions, kinds, .. } = self;
        let seeds = in_seeds(*seeds);
        write!(f, "{transactions} transactions committed in {seeds}, {broken} of them broken")?;
        for (at, (kind, count)) in kinds.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { " (" } else { ", " })?;
        }
        f.write_str(if kinds.is_empty() { "" } else { ")" })
    }
}

/// So many seeds, in words.
fn in_seeds(seeds: u64) -> String {
    format!("{seeds} seed{}", if seeds == 1 { "" } else { "s" })
}

/// What is drawn from a seed, changed as the user wants it.
fn case_of<C: Seeded>(args: &Fuzz, seed: u64, protocols: &[Protocol]) -> Result<C, Failure> {
    let drawn = C::draw(seed, protocols);
    let case = match args.size {
        Some(size) => drawn.sized(size),
        None => drawn,
    };
    let Some(turns) = &args.turns else { return Ok(case) };
    let (workers, _) = case.size();
    if let Some(turn) = turns.as_slice().iter().find(|turn| turn.worker >= workers) {
        let last = workers - 1;
        let message = format!("--turns: there is no worker {}, only 0 to {last} in {case}", turn.worker);
        return Err(Failure::usage(message));
    }
    case.told(turns.clone()).ok_or_else(|| Failure::usage("--turns: a network has no turns"))
}

fn run_case<C: Seeded>(case: &C) -> Result<Verdict, Failure> {
    case.run().map_err(|error| Failure::run(format!("{case} could not be run: {error}")))
}

/// The command that runs a case again that was drawn from a seed, and perhaps changed.
fn again<C: Seeded>(drawn: &C, case: &C, seed: u64, protocols: &[Protocol]) -> String {
    let mut command = "noonmark fuzz".to_owned();
    if C::ON_CLUSTERS {
        command += " --cluster";
    }
    if protocols != Protocol::ALL {
        let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
        command += &format!(" --protocol {}", names.join(","));
    }
    command += &format!(" --seeds {seed}..{}", seed + 1);
    let (workers, transactions) = case.size();
    if drawn.size() != case.size() {
        command += &format!(" --size {workers},{transactions}");
    }
    if let Some(turns) = case.turns() {
        command += &format!(" --turns {turns}");
    }
    command
}

/// The protocols of these names, each once; all if there are none.
pub fn protocols(names: &[String]) -> Result<Vec<Protocol>, Failure> {
    let mut protocols = Vec::new();
    for name in names {
        let named = match name.as_str() {
            "all" => Protocol::ALL.to_vec(),
            name => vec![name.parse().map_err(|error| Failure::usage(format!("{error}")))?],
        };
        // Named twice, it would count as a mix of two.
        for protocol in named {
            if !protocols.contains(&protocol) {
                protocols.push(protocol);
            }
        }
    }
    Ok(if protocols.is_empty() { Protocol::ALL.to_vec() } else { protocols })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_seed_can_be_run_again() {
        let protocols = &[Protocol::Occ, Protocol::TicToc];
        let drawn = Case::draw(7, protocols);
        assert_eq!(again(&drawn, &drawn, 7, protocols), "noonmark fuzz --protocol occ,tictoc --seeds 7..8");
        let smaller = drawn.sized((2, 3)).told("0:14,1:60".parse().unwrap()).unwrap();
        let command = again(&drawn, &smaller, 7, Protocol::ALL);
        assert_eq!(command, "noonmark fuzz --seeds 7..8 --size 2,3 --turns 0:14,1:60");
        let drawn = ClusterCase::draw(7, &[Protocol::Sundial]);
        let command = again(&drawn, &drawn.sized((1, 1)), 7, &[Protocol::Sundial]);
        assert_eq!(command, "noonmark fuzz --cluster --protocol sundial --seeds 7..8 --size 1,1");
    }

    #[test]
    fn a_protocol_that_is_named_twice_is_there_once() {
        let named =
            |names: &[&str]| protocols(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        assert_eq!(named(&["occ", "tictoc", "occ"]).unwrap(), [Protocol::Occ, Protocol::TicToc]);
        assert_eq!(named(&["all", "occ"]).unwrap(), Protocol::ALL);
        assert_eq!(named(&[]).unwrap(), Protocol::ALL);
        assert!(named(&["occ", "oc"]).is_err());
    }

    #[test]
    fn a_few_seeds_run_and_nonsense_is_refused() {
        let args = |protocol: &str, seeds, cluster| Fuzz {
            protocol: vec![protocol.into()],
            seeds,
            cluster,
            transactions: None,
            size: None,
            turns: None,
        };
        run(&args("occ", 0..5, false)).unwrap();
        run(&args("all", 5..10, false)).unwrap();
        run(&args("all", 5..10, true)).unwrap();
        let until = |transactions| Fuzz { transactions: Some(transactions), ..args("all", 0..1, true) };
        run(&until(300)).unwrap();
        let told = |turns: &str, seeds, cluster| Fuzz {
            size: Some((2, 3)),
            turns: Some(turns.parse().unwrap()),
            ..args("occ", seeds, cluster)
        };
        run(&told("1:14,0:60", 3..4, false)).unwrap();
        for (refused, why) in [
            (told("1:14", 3..5, false), "one seed"),
            (told("2:14", 3..4, false), "no worker 2"),
            (told("1:14", 3..4, true), "network"),
        ] {
            let refused = run(&refused).unwrap_err();
            assert_eq!(refused.status(), 2);
            assert!(refused.to_string().contains(why), "{refused}");
        }
        let refused = run(&args("ooc", 0..5, false)).unwrap_err();
        assert_eq!(refused.status(), 2);
        assert!(refused.to_string().contains("ooc"), "{refused}");
    }
}
