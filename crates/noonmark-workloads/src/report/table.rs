//! The table on the terminal: one for each section, contestants downwards, thread counts across.
//!
//! Plain text without escape codes, so that it reads the same in a file. The fastest of each contest carries
//! a star. Thread counts that do not fit beside each other go below. What does not fit at all, the median and
//! the abort reasons among it, is on the page and in the JSON.

use super::compare::{BASELINE, Contest, ENGINE, PLAIN, Section};
use super::{RunReport, count, latency, rate, sections, share, times};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};
use std::fmt::Write;

/// A rule above and below the headings, one at the end, and nothing between the rows.
pub(super) const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The runs as text, where possible not wider than so many columns: a heading and a table for each section,
/// and below it what was found of consistency.
pub fn table(runs: &[RunReport], columns: usize) -> String {
    let mut text = String::new();
    for section in sections(runs) {
        let common = section.common();
        let rest = if common.is_empty() { String::new() } else { format!(" ({common})") };
        let _ = writeln!(text, "{}{rest}", section.title());
        let threads = section.threads();
        let mut rest = threads.as_slice();
        while !rest.is_empty() {
            let fits = |across: &usize| width(&section_table(&section, &rest[..*across])) <= columns;
            let across = (1..=rest.len()).rev().find(fits).unwrap_or(1);
            let _ = writeln!(text, "{}", section_table(&section, &rest[..across]));
            rest = &rest[across..];
        }
        let _ = writeln!(text, "{}", consistency(&section));
    }
    if runs.is_empty() {
        return text;
    }
    text.push_str("★ the fastest of its contest");
    let words = [
        (BASELINE, "times the throughput of the baseline"),
        (PLAIN, "times the throughput without synchronization, on one thread"),
        (
            ENGINE,
            "times the throughput of the same transactions without messages, on as many threads as there are workers",
        ),
    ];
    for (baseline, words) in words {
        let was_run = runs.iter().any(|run| run.protocol == baseline);
        if was_run && sections(runs).iter().any(|section| section.baseline() == baseline) {
            let _ = write!(text, "; × {baseline}: {words}");
        }
    }
    text.push('\n');
    text
}

/// A line for each run that went wrong, or one that says how many went right.
fn consistency(section: &Section<'_>) -> String {
    let mut text = String::new();
    let mut held = 0;
    for run in &section.runs {
        match run.consistent {
            Some(false) => {
                let who = section.contestant(run).join(" ");
                let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
                let _ = writeln!(text, "INCONSISTENT: {}, {} threads: {why}", who.trim_end(), run.threads);
            }
            Some(true) => held += 1,
            None => {}
        }
    }
    if held > 0 {
        let _ = writeln!(text, "consistency conditions held after {held} of {} runs", section.runs.len());
    }
    text
}

pub(super) fn width(table: &Table) -> usize {
    table.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// One column of figures.
type Figure = (String, fn(&Contest<'_>, &RunReport) -> String);

/// The figures for each thread count: those that every section has, and those that are counted in this one.
fn figures(section: &Section<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = vec![
        ("tx/s".into(), |contest, run| {
            let best = contest.runs.len() > 1 && contest.best().is_some_and(|best| std::ptr::eq(best, run));
            format!("{}{}", if best { "★ " } else { "" }, rate(run.committed_per_s))
        }),
        (format!("× {}", section.baseline()), |contest, run| match contest.speedup(run) {
            Some(_) if contest.is_baseline(run) => "1".into(),
            Some(ratio) => times(ratio),
            None => "-".into(),
        }),
        ("aborts".into(), |_, run| share(run.abort_share())),
        ("p99.9".into(), |_, run| latency(run.latency_us.p999)),
    ];
    if section.tells(|run| run.clock_increments) {
        figures.push(("clock/s".into(), |_, run| {
            run.clock_increments.map_or("-".into(), |count| rate(run.per_s(count)))
        }));
    }
    if section.tells(|run| run.requests) {
        figures.push(("requests".into(), |_, run| {
            run.requests
                .map_or("-".into(), |count| format!("{:.2}", count as f64 / run.committed.max(1) as f64))
        }));
    }
    if section.tells(|run| run.irrevocable.filter(|count| *count > 0)) {
        figures.push(("irrevocable".into(), |_, run| run.irrevocable.map_or("-".into(), count)));
    }
    figures
}

fn section_table(section: &Section<'_>, threads: &[usize]) -> Table {
    let contests = section.contests();
    let names = section.contestant_headings();
    let figures = figures(section);

    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Disabled);
    let mut head = Row::new();
    for name in &names {
        head.add_cell(Cell::new(format!("\n{name}")));
    }
    for count in threads {
        let threads: String = if *count == 1 { "1 thread".into() } else { format!("{count} threads") };
        for (number, (heading, _)) in figures.iter().enumerate() {
            let above = if number == 0 { threads.as_str() } else { "" };
            head.add_cell(Cell::new(format!("{above}\n{heading}")).set_alignment(CellAlignment::Right));
        }
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
        for count in threads {
            let found = contests.iter().find_map(|contest| {
                let mine = |run: &&&RunReport| run.threads == *count && section.contestant(run) == name;
                contest.runs.iter().find(mine).map(|run| (contest, *run))
            });
            for (_, figure) in &figures {
                let cell = found.map_or(String::new(), |(contest, run)| figure(contest, run));
                row.add_cell(Cell::new(cell).set_alignment(CellAlignment::Right));
            }
        }
        table.add_row(row);
    }
    // Figures stand close; a gap sets the thread counts apart.
    for (i, column) in table.column_iter_mut().enumerate() {
        let figure = i.checked_sub(names.len());
        column.set_padding(match figure.map(|figure| figure % figures.len()) {
            None => (0, 1),
            Some(0) => (2, 0),
            Some(_) => (1, 0),
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Latency;

    fn runs(threads: &[usize]) -> Vec<RunReport> {
        let mut runs = Vec::new();
        for (p, protocol) in [BASELINE, "occ", "tictoc"].iter().enumerate() {
            for groups in ["coarse", "fine"] {
                for threads in threads {
                    runs.push(RunReport {
                        workload: "ycsb".into(),
                        protocol: protocol.to_string(),
                        groups: groups.into(),
                        threads: *threads,
                        committed_per_s: (p + 1) as f64 * 1000.0 * if groups == "fine" { 2.0 } else { 1.0 },
                        latency_us: Latency { p999: 12.0, ..Latency::default() },
                        consistent: Some(true),
                        ..RunReport::default()
                    });
                }
            }
        }
        runs.retain(|run| run.protocol != BASELINE || run.groups == "coarse");
        runs
    }

    #[test]
    fn the_fastest_has_a_star_and_the_baseline_is_one() {
        let text = table(&runs(&[1]), 100);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words.contains(&vec!["mutex", "1.00k", "1", "0%", "12.0", "µs"]), "{text}");
        assert!(words.contains(&vec!["tictoc", "fine", "★", "6.00k", "6.00", "0%", "12.0", "µs"]), "{text}");
        assert_eq!(text.matches('★').count(), 2, "one winner, and the line that explains the star: {text}");
        assert!(text.contains("held after 5 of 5 runs"), "{text}");
    }

    #[test]
    fn thread_counts_go_beside_each_other_as_far_as_there_is_room() {
        let runs = runs(&[1, 2, 4, 8]);
        let tables =
            |columns| table(&runs, columns).lines().filter(|line| line.starts_with("protocol")).count();
        assert_eq!((tables(200), tables(100), tables(10)), (1, 2, 4));
        assert!(table(&runs, 100).lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn what_is_inconsistent_is_said_and_does_not_win() {
        let mut runs = runs(&[1]);
        let last = runs.len() - 1;
        runs[last].consistent = Some(false);
        runs[last].consistency = vec!["the total should be 10 but is 9".into()];
        let text = table(&runs, 100);
        assert!(
            text.contains("INCONSISTENT: tictoc fine, 1 threads: the total should be 10 but is 9"),
            "{text}"
        );
        assert!(text.contains("★ 4.00k"), "{text}");
    }

    #[test]
    fn no_runs_make_no_table() {
        assert_eq!(table(&[], 100), "");
    }
}
