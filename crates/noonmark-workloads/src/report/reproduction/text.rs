//! Experiments on the terminal: plain text without escape codes.

use super::{
    BY_KIND, BY_PHASE, Failures, PAST_TIMES, PHASES, Reproduction, STUCK, Verdict, by_phase, clock_per_s,
    per_commit, rules, who,
};
use crate::report::table::{RULED, width};
use crate::report::{RunReport, latency, rate};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, TableStyle};
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

/// The experiments as text, where possible not wider than so many columns.
pub fn text(all: &[Reproduction], columns: usize) -> String {
    let mut text = String::new();
    for (at, one) in all.iter().enumerate() {
        let _ = writeln!(text, "{}: {} ({})", one.figure, one.title, one.name);
        let _ = writeln!(text, "{}, virtual; {}; seed {}", one.machine, one.size, one.seed);
        for (groups, runs) in one.parts() {
            text.push('\n');
            if !groups.is_empty() {
                let _ = writeln!(text, "{groups} timestamps");
            }
            let labels = one.labels();
            let mut rest = labels.as_slice();
            while !rest.is_empty() {
                let fits = |across: &usize| width(&by_point(one, &runs, &rest[..*across])) <= columns;
                let across = (1..=rest.len()).rev().find(fits).unwrap_or(1);
                let _ = writeln!(text, "{}", by_point(one, &runs, &rest[..across]));
                rest = &rest[across..];
            }
        }
        let runs = one.last();
        if let Some(last) = runs.first() {
            let _ = writeln!(text, "\n{}, a commit", one.place(last));
            let _ = writeln!(text, "{}", costs(&runs));
            if last.phases.is_some() {
                let _ = writeln!(text, "\n{BY_PHASE}, {}", one.place(last));
                for half in [0..PAST_TIMES, PAST_TIMES..PHASES.len()] {
                    let _ = writeln!(text, "{}", phases(&runs, half));
                }
            }
            let _ = writeln!(text, "\nwhy attempts failed");
            for run in runs.iter().filter(|run| run.aborted() > 0) {
                let _ = writeln!(text, "  {}: {}", who(run), rules(run, 3));
            }
        }
        if !one.changes.is_empty() {
            let place = one.changes.iter().flat_map(|change| &change.runs).next();
            let place = place.map_or(String::new(), |run| format!(", {}", one.place(run)));
            let _ = writeln!(text, "\none choice made otherwise{place}");
            let _ = writeln!(text, "{}", ablation(one));
        }
        let by_kind = one.runs_by_kind();
        if let Some((_, last)) = by_kind.first() {
            let _ = writeln!(text, "\n{BY_KIND}, {}", one.place(last));
            let _ = writeln!(text, "{}", kinds(one, &by_kind));
        }
        for run in one.runs.iter().filter(|run| run.consistent == Some(false)) {
            let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
            let _ = writeln!(text, "INCONSISTENT: {} {}: {why}", who(run), one.place(run));
        }
        let stuck = one.stuck();
        if !stuck.is_empty() {
            let _ = writeln!(text, "\n{STUCK}: {}", stuck.join(", "));
        }
        findings(&mut text, one);
        choices(&mut text, one, columns);
        left_out(&mut text, one, &all[..at]);
        text.push('\n');
    }
    text
}

fn findings(text: &mut String, one: &Reproduction) {
    text.push('\n');
    for (what, tally) in one.tallies() {
        let _ = writeln!(text, "{what}: {tally}");
    }
    if let Some((seeds, all)) = one.with_each_seed() {
        let _ = writeln!(text, "  (with each of {seeds} seeds: {all})");
    }
    if !one.agrees_if.is_empty() {
        let _ = writeln!(text, "  (agrees: {})", one.agrees_if);
    }
    for finding in &one.findings {
        let verdict = match finding.verdict {
            Verdict::Agrees => "agrees ",
            Verdict::Differs => "DIFFERS",
            Verdict::NotRun => "not run",
        };
        let _ = writeln!(text, "  {verdict}  {} ({})", finding.statement, finding.section);
        let _ = writeln!(text, "           here: {}", finding.ours);
        if let Some(others) = finding.others_in_words() {
            let _ = writeln!(text, "           {others}");
        }
        if !finding.reason.is_empty() {
            let _ = writeln!(text, "           why, as far as is known: {}", finding.reason);
        }
    }
}

/// What was chosen where the paper leaves it open: names to the left, and what is too long for a line goes on below itself.
fn choices(text: &mut String, one: &Reproduction, columns: usize) {
    if one.choices.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nwhat the paper leaves open, and what was chosen");
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    for (name, value) in &one.choices {
        table.add_row([name, value]);
    }
    if let Some(names) = table.column_mut(0) {
        names.set_padding((2, 1)).set_constraint(ColumnConstraint::ContentWidth);
    }
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Once for the experiments that it is the same for.
fn left_out(text: &mut String, one: &Reproduction, before: &[Reproduction]) {
    if one.left_out.is_empty() {
        return;
    }
    let head = "\nwhat of the paper is not here, and what that changes";
    if let Some(same) = before.iter().find(|before| before.left_out == one.left_out) {
        let _ = writeln!(text, "{head}: as for {}", same.figure);
        return;
    }
    let _ = writeln!(text, "{head}");
    for (what, changes) in &one.left_out {
        let _ = writeln!(text, "  {what}: {changes}");
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

/// Protocols downwards, points of the plot across.
fn by_point(one: &Reproduction, runs: &[&RunReport], labels: &[Cow<'_, str>]) -> Table {
    // The paper that counts restarts a second counts what the clock does beside them.
    let shows_clock = one.failures == Failures::PerSecond;
    let mut head = vec![Cell::new("\nprotocol")];
    for label in labels {
        head.push(number(format!("{label}\ntx/s")));
        head.push(number(format!("\n{}", one.failures.heading())));
        head.push(number(if shows_clock { "\nclock/s" } else { "\np99" }));
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
        for label in labels {
            let run = runs.iter().find(|run| run.protocol == protocol && one.label(run) == *label);
            let cells = run.map_or([const { String::new() }; 3], |run| {
                let last = match shows_clock {
                    true => clock_per_s(run).map_or_else(String::new, rate),
                    false => latency(run.latency_us.p99),
                };
                [rate(run.committed_per_s), failures(one, run), last]
            });
            row.extend(cells.map(number));
        }
        table.add_row(row);
    }
    set_apart(&mut table, 1, 3);
    table
}

fn failures(one: &Reproduction, run: &RunReport) -> String {
    one.failures.show()(one.failures.of(run))
}

/// What a commit takes.
fn costs(runs: &[&RunReport]) -> Table {
    let has_groups = runs.iter().any(|run| !run.groups.is_empty());
    let names = ["protocol", if has_groups { "timestamps" } else { "" }].map(Cell::new);
    let spans = runs.iter().any(|run| run.traffic.is_some());
    let figures: &[&str] = match spans {
        true => &["p50", "p99", "p99.9", "messages", "bytes"],
        false => &["p50", "p99", "p99.9", "hits", "near lines", "far lines", "from memory", "in line"],
    };
    let mut table = ruled(names.into_iter().chain(figures.iter().map(number)).collect());
    for run in runs {
        let (lines, traffic) = (run.lines.unwrap_or_default(), run.traffic.unwrap_or_default());
        let each = |count: u64| format!("{:.1}", per_commit(run, count as f64));
        let of = run.latency_us;
        let mut row = [&run.protocol, &run.groups].map(Cell::new).to_vec();
        row.extend([latency(of.p50), latency(of.p99), latency(of.p999)].map(number));
        if spans {
            row.extend([each(traffic.messages), each(traffic.bytes)].map(number));
        } else {
            row.extend([each(lines.hits), each(lines.near), each(lines.far), each(lines.memory)].map(number));
            row.push(number(latency(per_commit(run, lines.queued_us))));
        }
        table.add_row(row);
    }
    set_apart(&mut table, 2, figures.len());
    table
}

/// Protocols downwards, some of the figures by phase across.
fn phases(runs: &[&RunReport], some: Range<usize>) -> Table {
    let heads = PHASES[some.clone()].iter().map(number);
    let mut table = ruled(std::iter::once(Cell::new("protocol")).chain(heads).collect());
    for run in runs {
        let Some(phases) = &run.phases else { continue };
        let mut row = vec![Cell::new(&run.protocol)];
        row.extend(by_phase(phases)[some.clone()].iter().map(number));
        table.add_row(row);
    }
    set_apart(&mut table, 1, some.len());
    table
}

/// Runs downwards, kinds of failed attempts across.
fn kinds(one: &Reproduction, runs: &[(String, &RunReport)]) -> Table {
    let head = std::iter::once(Cell::new("run")).chain(one.kind_headings().map(number));
    let mut table = ruled(head.collect());
    for (name, run) in runs {
        let mut row = vec![Cell::new(name)];
        row.extend(one.shares_by_kind(run).into_iter().map(|percent| number(format!("{percent:.2}"))));
        table.add_row(row);
    }
    set_apart(&mut table, 1, one.kinds.len() + 2);
    table
}

/// Choices downwards, protocols and granularities across.
fn ablation(one: &Reproduction) -> Table {
    let mut head = vec![Cell::new("\nchoice")];
    for run in one.changes.first().map_or(&[][..], |change| &change.runs) {
        head.push(number(format!("{}\ntx/s", who(run))));
        head.push(number(format!("\n{}", one.failures.heading())));
    }
    let mut table = ruled(head);
    for change in &one.changes {
        let mut row = vec![Cell::new(&change.words)];
        for run in &change.runs {
            row.extend([rate(run.committed_per_s), failures(one, run)].map(number));
        }
        table.add_row(row);
    }
    set_apart(&mut table, 1, 2);
    table
}
