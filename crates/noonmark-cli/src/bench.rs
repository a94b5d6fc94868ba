//! `noonmark bench`: runs what the plan or the tour says, one run after the other, and shows the results.
//!
//! Results that are there are never thrown away: when a run fails, the table and the files are still made of
//! those before it. The exit status tells of the failure, or of a result that was inconsistent.

use crate::args::{Bench, Special};
use crate::error::Failure;
use crate::live::{Contestant, Live};
use crate::{machine, output, plan, single, stm, tour, workers};
use noonmark_workloads::report::{self, PageHead, Progress, RunReport};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Performs one run, telling how it gets along.
pub type Runner<'a, R> = &'a mut dyn FnMut(&R, &mut dyn FnMut(&Progress)) -> Result<RunReport, Failure>;

/// The command.
pub fn run(args: &Bench) -> Result<(), Failure> {
    match &args.special {
        Some(Special::Stm(args)) => return stm::run(args),
        Some(Special::Workers(args)) => return workers::run(args),
        None => {}
    }
    let (mut specs, tour) = match args.workload {
        Some(workload) => (plan::runs(workload, args)?, false),
        None => (tour::runs(args)?, true),
    };
    for spec in &specs {
        single::check(spec)?;
    }
    let default = |name: &str| (tour && !args.no_page).then(|| PathBuf::from(name));
    let html = args.html.clone().or_else(|| default(tour::PAGE));
    let json = args.json.clone().or_else(|| default(tour::RESULTS));
    output::can_write_all([&html, &json, &args.history].into_iter().flatten(), args.properties.as_deref())?;
    let paced = tour && args.seconds.is_none();
    if tour {
        let length = match args.seconds {
            None => "at most two minutes".into(),
            Some(seconds) => format!("{seconds} s each"),
        };
        let _ = writeln!(
            io::stderr(),
            "A tour of {} runs, {length}. For one workload at length: noonmark bench --help\n",
            specs.len()
        );
    }
    let (reports, failure) = race(&mut specs, paced, &mut single::run);
    conclude(&reports, failure, json.as_deref(), html.as_deref())
}

/// Runs all of them, and shows what came of it.
pub fn run_all<R: Contestant>(
    specs: &mut [R],
    runner: Runner<'_, R>,
    json: Option<&Path>,
    html: Option<&Path>,
) -> Result<(), Failure> {
    output::can_write_all([html, json].into_iter().flatten(), None)?;
    let (reports, failure) = race(specs, false, runner);
    conclude(&reports, failure, json, html)
}

/// Shows the results, and says whether they are all there and right.
fn conclude(
    reports: &[RunReport],
    failure: Option<Failure>,
    json: Option<&Path>,
    html: Option<&Path>,
) -> Result<(), Failure> {
    if !reports.is_empty() {
        let table = report::table(reports, output::columns());
        output::print(&if colours() { highlighted(&table) } else { table })?;
        let head =
            PageHead { command: command_line(), date: machine::now(), machine: machine::description() };
        let unmade = |e: io::Error| Failure::run(format!("cannot make the results into text: {e}"));
        if let Some(file) = json {
            output::write(file, &report::to_json(reports).map_err(unmade)?)?;
        }
        if let Some(file) = html {
            output::write(file, &report::page(reports, &head).map_err(unmade)?)?;
        }
        for (what, file) in [("page of plots", html), ("results", json)] {
            if let Some(file) = file {
                let _ = writeln!(io::stderr(), "{what}: {}", file.display());
            }
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => judge(reports),
    }
}

/// All runs, up to the first that fails.
fn race<R: Contestant>(
    specs: &mut [R],
    paced: bool,
    runner: Runner<'_, R>,
) -> (Vec<RunReport>, Option<Failure>) {
    let mut live = Live::new(specs);
    let mut reports = Vec::new();
    let (began, mut measured_s) = (Instant::now(), 0.0);
    for i in 0..specs.len() {
        if paced && (i == 0 || specs[i].contest() != specs[i - 1].contest()) {
            let seconds = tour::seconds_each(began.elapsed(), measured_s, i, specs.len() - i);
            for spec in &mut specs[i..] {
                spec.set_seconds(seconds);
            }
            live.seconds_left(seconds * (specs.len() - i) as f64);
        }
        let spec = &specs[i];
        live.begin(spec);
        match runner(spec, &mut |progress| live.progress(progress)) {
            Ok(report) => {
                measured_s += report.seconds;
                live.end(spec, &report);
                reports.push(report);
            }
            Err(failure) => {
                live.finish();
                return (reports, Some(failure));
            }
        }
    }
    live.finish();
    (reports, None)
}

/// A failure if a run's result was wrong.
fn judge(reports: &[RunReport]) -> Result<(), Failure> {
    let mut wrong = reports.iter().filter(|report| report.consistent == Some(false));
    let Some(first) = wrong.next() else { return Ok(()) };
    let others = match wrong.count() {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    let why = first.consistency.first().map_or("a consistency condition failed", String::as_str);
    let groups = if first.groups.is_empty() { String::new() } else { format!(", {} groups", first.groups) };
    Err(Failure::run(format!(
        "inconsistent result of {} under {}{groups}, {} threads: {why}{others}",
        first.workload, first.protocol, first.threads
    )))
}

/// Whether standard output takes colours.
fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The table with its headings in bold, its winners in green and what is wrong in red.
fn highlighted(table: &str) -> String {
    let mut text = String::new();
    let mut heading = true;
    for line in table.lines() {
        if heading && !line.is_empty() {
            text.push_str(&format!("\x1b[1m{line}\x1b[0m\n"));
        } else if line.starts_with("INCONSISTENT") {
            text.push_str(&format!("\x1b[31m{line}\x1b[0m\n"));
        } else {
            // The figure that follows a star, up to the blank after it.
            let mut parts = line.split('★');
            text.push_str(parts.next().unwrap_or_default());
            for part in parts {
                let figure = part
                    .trim_start()
                    .find(' ')
                    .map_or(part.len(), |end| end + part.len() - part.trim_start().len());
                text.push_str(&format!("\x1b[32m★{}\x1b[0m{}", &part[..figure], &part[figure..]));
            }
            text.push('\n');
        }
        heading = line.is_empty();
    }
    text
}

/// The command line as typed, quoted where a shell needs it.
pub fn command_line() -> String {
    let quoted = |arg: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    };
    let mut words = vec!["noonmark".to_string()];
    words.extend(std::env::args_os().skip(1).map(|arg| quoted(arg.to_string_lossy().into_owned())));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::plan::RunSpec;
    use clap::Parser;
    use noonmark_workloads::report::{Latency, Phase};
    use std::time::Duration;

    fn specs(line: &str) -> Vec<RunSpec> {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Some(Command::Bench(args)) => match args.workload {
                Some(workload) => plan::runs(workload, &args).unwrap(),
                None => tour::runs(&args).unwrap(),
            },
            _ => panic!("not a bench"),
        }
    }

    /// A report of made-up figures.
    fn report(spec: &RunSpec, per_s: f64) -> RunReport {
        RunReport {
            workload: spec.workload.name().into(),
            protocol: spec.protocol.clone(),
            groups: "fine".into(),
            threads: spec.threads,
            seconds: spec.seconds,
            committed: (per_s * spec.seconds) as u64,
            committed_per_s: per_s,
            latency_us: Latency { p50: 1.0, p99: 10.0, p999: 100.0, max: 1000.0 },
            consistent: Some(true),
            ..RunReport::default()
        }
    }

    #[test]
    fn runs_before_a_failure_are_kept() {
        let mut specs = specs("noonmark bench bank --protocol mutex,occ,tictoc --threads 1");
        let (reports, failure) =
            race(&mut specs, false, &mut |spec: &RunSpec, _| match spec.protocol.as_str() {
                "tictoc" => Err(Failure::run("out of luck")),
                _ => Ok(report(spec, 10.0)),
            });
        assert_eq!(reports.len(), 2);
        assert_eq!(failure.unwrap().to_string(), "out of luck");
    }

    #[test]
    fn the_runs_of_a_contest_are_measured_for_the_same_time() {
        let mut specs = specs("noonmark bench --threads 1,2");
        let count = specs.len();
        let (reports, _) = race(&mut specs, true, &mut |spec: &RunSpec, _| Ok(report(spec, 10.0)));
        assert_eq!(reports.len(), count);
        for pair in specs.windows(2).filter(|pair| pair[0].contest() == pair[1].contest()) {
            assert_eq!(pair[0].seconds, pair[1].seconds);
        }
    }

    #[test]
    fn a_wrong_result_is_a_failure_that_says_why() {
        let spec = &specs("noonmark bench bank --protocol occ --threads 2")[0];
        let mut wrong = report(spec, 10.0);
        assert!(judge(std::slice::from_ref(&wrong)).is_ok());
        wrong.consistent = Some(false);
        wrong.consistency = vec!["the total should be 10 but is 9".into()];
        let failure = judge(&[report(spec, 1.0), wrong.clone(), wrong]).unwrap_err();
        assert_eq!(failure.status(), 1);
        let words = failure.to_string();
        assert!(words.contains("the total should be 10 but is 9") && words.contains("and 1 more"), "{words}");
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let spec = &specs("noonmark bench bank --protocol occ --threads 2")[0];
        let mut slow = report(spec, 1_000.0);
        slow.protocol = "mutex".into();
        slow.consistent = Some(false);
        let plain = report::table(&[report(spec, 2_000.0), slow], 100);
        let coloured = highlighted(&plain);
        assert!(coloured.contains("\x1b[32m★ 2.00k\x1b[0m"), "{coloured}");
        let mut stripped = coloured;
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }

    /// For a person to look at the display, on a terminal:
    /// `cargo test -p noonmark-cli -- --ignored --nocapture display`
    #[test]
    #[ignore = "takes a minute and shows itself to a person"]
    fn the_display_for_a_person() {
        let mut specs = specs("noonmark bench --threads 1,2 --seconds 0.5");
        let mut per_s = 0.0;
        let runner: Runner<'_, RunSpec> = &mut |spec, listen| {
            per_s = (per_s + 370_003.0) % 1_000_000.0;
            let (per_s, steps) = (per_s + 100_000.0, 5);
            let mut tell = |phase, step: u32| {
                std::thread::sleep(Duration::from_millis(100));
                let elapsed_s = f64::from(step) * 0.1;
                let committed = (per_s * elapsed_s) as u64;
                let (total_s, aborted, recent_per_s) = (spec.seconds, committed / 20, per_s);
                listen(&Progress { phase, elapsed_s, total_s, committed, aborted, recent_per_s });
            };
            (0..2).for_each(|i| tell(Phase::Loading { done: i * 50, total: 100 }, 0));
            (0..steps).for_each(|i| tell(Phase::Running, i));
            let mut report = report(spec, per_s);
            report.groups = spec.groups.name().into();
            report.aborts = [("occ: validate".into(), report.committed / 20)].into();
            Ok(report)
        };
        let (reports, _) = race(&mut specs, false, runner);
        output::print(&highlighted(&report::table(&reports, output::columns()))).unwrap();
    }
}
