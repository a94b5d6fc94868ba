//! `noonmark fuzz`: small workloads under many schedules, each from its seed, and what their histories show.

use crate::args::Fuzz;
use crate::error::Failure;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use noonmark::Protocol;
use noonmark_sim::fuzz::{Case, Seeded, Verdict};
use noonmark_sim::network::fuzz::ClusterCase;

/// Runs the seeds; a failure if one of them shows something that cannot be.
pub fn run(args: &Fuzz) -> Result<(), Failure> {
    if !args.cluster {
        return run_cases::<Case>(args, protocols(&args.protocol)?);
    }
    let spanning = ClusterCase::protocols();
    let named = args.protocol.iter().any(|name| name != "all");
    let protocols = if named { protocols(&args.protocol)? } else { spanning.clone() };
    if let Some(other) = protocols.iter().find(|protocol| !spanning.contains(protocol)) {
        let names: Vec<&str> = spanning.iter().map(|protocol| protocol.name()).collect();
        return Err(Failure::usage(format!("{other} does not span servers yet; {} do", names.join(", "))));
    }
    run_cases::<ClusterCase>(args, protocols)
}

fn run_cases<C: Seeded>(args: &Fuzz, protocols: Vec<Protocol>) -> Result<(), Failure> {
    let failed =
        |case: &C, error: &dyn std::fmt::Display| Failure::run(format!("{case} could not be run: {error}"));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    // (It shows itself on a terminal only.)
    let bar = ProgressBar::new(args.seeds.end - args.seeds.start);
    let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
    let (mut transactions, mut all_steps, mut broken) = (0, 0, 0);
    for seed in args.seeds.clone() {
        let case = C::draw(seed, &protocols);
        match case.run().map_err(|error| failed(&case, &error))? {
            Verdict::Holds { committed, steps } => {
                transactions += committed;
                all_steps += steps;
            }
            Verdict::Broken(_) => {
                broken += 1;
                let first = case.to_string();
                let smaller = case.shrink(|case| matches!(case.run(), Ok(Verdict::Broken(_))));
                let told = match smaller.run().map_err(|error| failed(&smaller, &error))? {
                    Verdict::Broken(told) => told,
                    Verdict::Holds { .. } => unreachable!("a case is a function of its seed"),
                };
                let again = again(&protocols, seed, args.cluster);
                bar.suspend(|| {
                    output::print(&format!(
                        "{first}\nto see it again: {again}\nmade smaller: {smaller}\n{told}\n\n"
                    ))
                })?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let seeds = args.seeds.end - args.seeds.start;
    output::print(&format!(
        "{seeds} seeds, {broken} of them broken; {transactions} transactions committed in the others, in {all_steps} steps\n"
    ))?;
    if broken > 0 {
        return Err(Failure::run(format!("{broken} of {seeds} seeds show what no serial execution could")));
    }
    Ok(())
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
        let args = |protocol: &str, seeds, cluster| Fuzz { protocol: vec![protocol.into()], seeds, cluster };
        run(&args("occ", 0..5, false)).unwrap();
        run(&args("all", 5..10, false)).unwrap();
        run(&args("all", 5..10, true)).unwrap();
        let refused = run(&args("swiss", 0..5, true)).unwrap_err();
        assert_eq!(refused.status(), 2);
        assert!(refused.to_string().contains("swiss does not span servers yet"), "{refused}");
        let refused = run(&args("ooc", 0..5, false)).unwrap_err();
        assert_eq!(refused.status(), 2);
        assert!(refused.to_string().contains("ooc"), "{refused}");
    }
}
