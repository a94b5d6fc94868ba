//! Experiments on the terminal: plain text without escape codes.

use super::{Change, LIMITED, Reproduction, Verdict, per_commit, rules};
use crate::report::table::{RULED, width};
use crate::report::{RunReport, latency, rate, share};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table};
use std::fmt::Write;

/// The experiments as text, where possible not wider than so many columns.
pub fn text(all: &[Reproduction], columns: usize) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(text, "{}: {} ({})", one.figure, one.title, one.name);
        let _ = writeln!(text, "{}, virtual; {}; seed {}", one.machine, one.size, one.seed);
        for (groups, runs) in one.parts() {
            let _ = writeln!(text, "\n{groups} timestamps");
            let cores = one.cores();
            let mut rest = cores.as_slice();
            while !rest.is_empty() {
                let fits = |across: &usize| width(&by_cores(&runs, &rest[..*across])) <= columns;
                let across = (1..=rest.len()).rev().find(fits).unwrap_or(1);
                let _ = writeln!(text, "{}", by_cores(&runs, &rest[..across]));
                rest = &rest[across..];
            }
        }
        if let Some(&most) = one.cores().last() {
            let _ = writeln!(text, "\non {}, a commit", cores_in_words(most));
            let runs: Vec<&RunReport> = one.runs.iter().filter(|run| run.threads == most).collect();
            let _ = writeln!(text, "{}", at_most_cores(&runs));
            let _ = writeln!(text, "\nwhy attempts failed");
            for run in runs.iter().filter(|run| run.aborted() > 0) {
                let _ = writeln!(text, "  {} {}: {}", run.protocol, run.groups, rules(run, 3));
            }
        }
        if !one.changes.is_empty() {
            let _ = writeln!(text, "\none choice made otherwise{}", on_cores(&one.changes));
            let _ = writeln!(text, "{}", ablation(&one.changes));
        }
        for run in one.runs.iter().filter(|run| run.consistent == Some(false)) {
            let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
            let _ =
                writeln!(text, "INCONSISTENT: {} {}, {} cores: {why}", run.protocol, run.groups, run.threads);
        }
        let limits = one.limits();
        if !limits.is_empty() {
            let _ = writeln!(text, "\n{LIMITED}: {}", limits.join(", "));
        }
        findings(&mut text, one);
        text.push('\n');
    }
    text
}

fn cores_in_words(cores: usize) -> String {
    if cores == 1 { "1 core".into() } else { format!("{cores} cores") }
}

fn on_cores(changes: &[Change]) -> String {
    let first = changes.iter().flat_map(|change| &change.runs).next();
    first.map_or(String::new(), |run| format!(", on {}", cores_in_words(run.threads)))
}

fn findings(text: &mut String, one: &Reproduction) {
    let _ = writeln!(
        text,
        "\nwhat the paper says: {} of {} come out, {} do not, {} were not run",
        one.count(Verdict::Agrees),
        one.findings.len(),
        one.count(Verdict::Differs),
        one.count(Verdict::NotRun)
    );
    for finding in &one.findings {
        let verdict = match finding.verdict {
            Verdict::Agrees => "agrees ",
            Verdict::Differs => "DIFFERS",
            Verdict::NotRun => "not run",
        };
        let _ = writeln!(text, "  {verdict}  {} ({})", finding.statement, finding.section);
        let _ = writeln!(text, "           here: {}", finding.ours);
        if !finding.reason.is_empty() {
            let _ = writeln!(text, "           why, as far as is known: {}", finding.reason);
        }
    }
}

fn ruled(head: Vec<Cell>) -> Table {
    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(Row::from(head));
    table
}

fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Figures stand close; a gap sets what they are of apart.
fn set_apart(table: &mut Table, names: usize, figures: usize) {
    for (at, column) in table.column_iter_mut().enumerate() {
        let figure = at.checked_sub(names);
        column.set_padding(match figure.map(|figure| figure % figures) {
            None => (0, 1),
            Some(0) => (2, 0),
            Some(_) => (1, 0),
        });
    }
}

/// Protocols downwards, cores across.
fn by_cores(runs: &[&RunReport], cores: &[usize]) -> Table {
    let mut head = vec![Cell::new("\nprotocol")];
    for &count in cores {
        head.push(number(format!("{}\ntx/s", cores_in_words(count))));
        head.extend(["\naborts", "\np99"].map(number));
    }
    let mut table = ruled(head);
    let mut protocols: Vec<&str> = Vec::new();
    for run in runs {
        if !protocols.contains(&run.protocol.as_str()) {
            protocols.push(&run.protocol);
        }
    }
    for protocol in protocols {
        let mut row = vec![Cell::new(protocol)];
        for &count in cores {
            let run = runs.iter().find(|run| run.protocol == protocol && run.threads == count);
            let cells = run.map_or([const { String::new() }; 3], |run| {
                [rate(run.committed_per_s), share(run.abort_share()), latency(run.latency_us.p99)]
            });
            row.extend(cells.map(number));
        }
        table.add_row(row);
    }
    set_apart(&mut table, 1, 3);
    table
}

/// What a commit takes.
fn at_most_cores(runs: &[&RunReport]) -> Table {
    let names = ["protocol", "timestamps"].map(Cell::new);
    let figures = ["p50", "p99", "p99.9", "hits", "near lines", "far lines", "from memory", "in line"];
    let mut table = ruled(names.into_iter().chain(figures.map(number)).collect());
    for run in runs {
        let lines = run.lines.unwrap_or_default();
        let each = |count: u64| format!("{:.1}", per_commit(run, count as f64));
        let of = run.latency_us;
        let mut row = [&run.protocol, &run.groups].map(Cell::new).to_vec();
        row.extend([latency(of.p50), latency(of.p99), latency(of.p999)].map(number));
        row.extend([each(lines.hits), each(lines.near), each(lines.far), each(lines.memory)].map(number));
        row.push(number(latency(per_commit(run, lines.queued_us))));
        table.add_row(row);
    }
    set_apart(&mut table, 2, 8);
    table
}

/// Choices downwards, protocols and granularities across.
fn ablation(changes: &[Change]) -> Table {
    let mut head = vec![Cell::new("\nchoice")];
    for run in changes.first().map_or(&[][..], |change| &change.runs) {
        head.push(number(format!("{} {}\ntx/s", run.protocol, run.groups)));
        head.push(number("\naborts"));
    }
    let mut table = ruled(head);
    for change in changes {
        let mut row = vec![Cell::new(&change.words)];
        for run in &change.runs {
            row.extend([rate(run.committed_per_s), share(run.abort_share())].map(number));
        }
        table.add_row(row);
    }
    set_apart(&mut table, 1, 2);
    table
}
