//! The table on the terminal: one for each section, contestants downwards, thread counts across.
//!
//! Plain text without escape codes, so that it reads the same in a file. The fastest of each contest carries
//! a star. Two thread counts fit beside each other in 100 columns; more go below.

use super::compare::{BASELINE, Contest, Section};
use super::{RunReport, latency, rate, sections, share};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};
use std::fmt::Write;

/// Thread counts beside each other in one table.
const THREADS_ACROSS: usize = 2;

/// A rule above and below the headings, one at the end, and nothing between the rows.
const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The runs as text: a heading and a table for each section, and what was found inconsistent below.
pub fn table(runs: &[RunReport]) -> String {
    let mut text = String::new();
    for section in sections(runs) {
        let common = section.common();
        let rest = if common.is_empty() { String::new() } else { format!(" ({common})") };
        let _ = writeln!(text, "{}{rest}", section.title());
        for threads in section.threads().chunks(THREADS_ACROSS) {
            let _ = writeln!(text, "{}", section_table(&section, threads));
        }
        for run in section.runs.iter().filter(|run| run.consistent == Some(false)) {
            let who = section.contestant(run).join(" ");
            let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
            let _ = writeln!(text, "INCONSISTENT: {}, {} threads: {why}", who.trim_end(), run.threads);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    if !text.is_empty() {
        text.push_str("\n★ fastest of its column   × mutex: times the throughput of the mutex baseline\n");
    }
    text
}

fn section_table(section: &Section<'_>, threads: &[usize]) -> Table {
    let contests = section.contests();
    let names = section.contestant_headings();
    let checked = section.runs.iter().any(|run| run.consistent.is_some());

    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Disabled);
    let mut head = Row::new();
    for name in &names {
        head.add_cell(Cell::new(name));
    }
    for count in threads {
        let unit = if *count == 1 { "1 thread: tx/s".into() } else { format!("{count} threads: tx/s") };
        for heading in [unit.as_str(), "× mutex", "aborted", "p50", "p99"] {
            head.add_cell(Cell::new(heading).set_alignment(CellAlignment::Right));
        }
    }
    if checked {
        head.add_cell(Cell::new("consistent"));
    }
    table.set_header(head);

    let mut contestants: Vec<Vec<String>> = Vec::new();
    for run in &section.runs {
        let name = section.contestant(run);
        if !contestants.contains(&name) {
            contestants.push(name);
        }
    }
    for name in contestants {
        let mut row = Row::new();
        for part in &name {
            row.add_cell(Cell::new(part));
        }
        let mut verdicts = Vec::new();
        for count in threads {
            let found = contests.iter().find_map(|contest| {
                let mine = |run: &&&RunReport| run.threads == *count && section.contestant(run) == name;
                contest.runs.iter().find(mine).map(|run| (contest, *run))
            });
            verdicts.extend(found.and_then(|(_, run)| run.consistent));
            for cell in figures(found) {
                row.add_cell(Cell::new(cell).set_alignment(CellAlignment::Right));
            }
        }
        if checked {
            let verdict = match verdicts.as_slice() {
                [] => "",
                all if all.iter().all(|ok| *ok) => "yes",
                _ => "NO",
            };
            row.add_cell(Cell::new(verdict));
        }
        table.add_row(row);
    }
    table
}

fn figures(found: Option<(&Contest<'_>, &RunReport)>) -> [String; 5] {
    let Some((contest, run)) = found else { return Default::default() };
    let best = contest.runs.len() > 1 && contest.best().is_some_and(|best| std::ptr::eq(best, run));
    let speedup = match contest.speedup(run) {
        Some(_) if run.protocol == BASELINE => "1".into(),
        Some(times) => format!("{times:.2}"),
        None => "-".into(),
    };
    [
        format!("{}{}", if best { "★ " } else { "" }, rate(run.committed_per_s)),
        speedup,
        share(run.abort_share()),
        latency(run.latency_us.p50),
        latency(run.latency_us.p99),
    ]
}
