//! Advice: which protocol and which column groups to choose for each table, with the figures that say so.
//!
//! Whoever made the trials fills an [`Advice`]; the text is made from it alone. Field names are the names in the JSON file.

use super::table::{RULED, width};
use super::{count, latency, rate, share};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::io;

/// What came of looking for the best choices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What was done again: a workload, or a history.
    pub of: String,
    /// The machine that was simulated.
    pub machine: String,
    /// How many of its cores had a worker.
    pub cores: usize,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// How many runs there were.
    pub runs: usize,
    /// How many transactions each did.
    pub transactions: usize,
    /// How many transactions of the history are not among them: they did not commit, or nobody knows.
    pub left_out: usize,
    /// The same protocol and the same grouping for all tables.
    pub trials: Vec<AdvisedTrial>,
    /// What to choose.
    pub tables: Vec<AdvisedTable>,
    /// What all these choices together come to.
    pub outcome: AdvisedOutcome,
}

/// One protocol and one grouping for all tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdvisedTrial {
    /// The protocol.
    pub protocol: String,
    /// `coarse`, `fine` or `splitting`.
    pub groups: String,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: AdvisedOutcome,
}

/// What choices came to, in virtual time; means over the seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdvisedOutcome {
    /// Committed transactions a second.
    pub per_s: f64,
    /// Of all attempts, those that ended in a conflict.
    pub abort_share: f64,
    /// 99 of 100 transactions took no longer, all their attempts together.
    pub p99_us: f64,
    /// Updates of rows that were not there yet, or no more, which were passed over: the most of a run.
    pub missed: u64,
    /// Whether a run got nowhere and was given up.
    pub given_up: bool,
}

/// What to choose for a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdvisedTable {
    /// Its name.
    pub table: String,
    /// Whether it is a secondary index, which has its table's protocol in the engine.
    pub is_index: bool,
    /// Whether anything of it was changed.
    pub is_changed: bool,
    /// Its protocol.
    pub protocol: String,
    /// Its column groups, each as the groups of the recorded run that are in it.
    pub groups: Vec<Vec<String>>,
    /// One timestamp a row, which splits itself by these groups.
    pub splits_itself: bool,
    /// What else was tried for it.
    pub otherwise: Vec<Otherwise>,
}

/// What was tried for a table, and not taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Otherwise {
    /// What.
    pub what: String,
    /// The whole's throughput with it, beside that with what was taken.
    pub ratio: f64,
}

/// The advice as JSON.
///
/// # Errors
/// None that is known: a figure that is no number.
pub fn advice_json(advice: &Advice) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(advice)? + "\n")
}

/// The advice as text, where possible not wider than so many columns.
pub fn advice_text(advice: &Advice, columns: usize) -> String {
    let Advice { of, machine, cores, runs, transactions, left_out, outcome, .. } = advice;
    let mut text = String::new();
    let transactions = count(*transactions as u64);
    let without = match left_out {
        0 => String::new(),
        _ => format!(", without {} that did not commit", count(*left_out as u64)),
    };
    let seeds = advice.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{of}: {transactions} transactions once more{without}");
    let _ = writeln!(text, "{cores} virtual cores ({machine}), seeds {seeds}, {} runs", count(*runs as u64));
    let _ = writeln!(text, "\nAll tables alike\n{}", trials(advice, columns));
    let AdvisedOutcome { per_s, abort_share, p99_us, missed, .. } = outcome;
    let _ = writeln!(
        text,
        "Advice: {} tx/s, {} aborted, p99 {}\n{}",
        rate(*per_s),
        share(*abort_share),
        latency(*p99_us),
        tables(advice, columns)
    );
    let _ = writeln!(text, "Groups joined by + need no timestamps of their own; apart by | they do.");
    if *missed > 0 {
        let words = "updates of a run were passed over, of rows not there yet, or no more.";
        let _ = writeln!(text, "Up to {} {words}", count(*missed));
    }
    text
}

/// What is said of a trial.
type Said = (&'static str, fn(&AdvisedOutcome) -> String);

/// Protocols downwards, groupings across; with as many figures as fit.
fn trials(advice: &Advice, columns: usize) -> Table {
    let said: [Said; 3] = [
        ("tx/s", |outcome| {
            let limit = if outcome.given_up { "given up, " } else { "" };
            format!("{limit}{}", rate(outcome.per_s))
        }),
        ("aborted", |outcome| share(outcome.abort_share)),
        ("p99", |outcome| latency(outcome.p99_us)),
    ];
    let fits = |most: &usize| width(&trials_with(advice, &said[..*most])) <= columns;
    trials_with(advice, &said[..(1..=said.len()).rev().find(fits).unwrap_or(1)])
}

fn trials_with(advice: &Advice, said: &[Said]) -> Table {
    let mut groups: Vec<&str> = Vec::new();
    let mut protocols: Vec<&str> = Vec::new();
    for trial in &advice.trials {
        for (names, name) in [(&mut groups, &trial.groups), (&mut protocols, &trial.protocol)] {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let most = advice.trials.iter().map(|trial| trial.outcome.per_s).fold(0.0, f64::max);
    let right = |words: String| Cell::new(words).set_alignment(CellAlignment::Right);
    let mut table = ruled();
    let mut heading = vec![Cell::new("\nprotocol")];
    for group in &groups {
        for (at, (name, _)) in said.iter().enumerate() {
            heading.push(right(format!("{}\n{name}", if at == 0 { *group } else { "" })));
        }
    }
    table.set_header(heading);
    for protocol in protocols {
        let mut row = vec![Cell::new(protocol)];
        for group in &groups {
            let of_both = |trial: &&AdvisedTrial| trial.protocol == protocol && trial.groups == *group;
            let trial = advice.trials.iter().find(of_both);
            row.extend(said.iter().enumerate().map(|(at, (_, words))| match trial {
                Some(trial) if at == 0 && trial.outcome.per_s >= most => {
                    right(format!("★ {}", words(&trial.outcome)))
                }
                Some(trial) => right(words(&trial.outcome)),
                None => right(if at == 0 { "-".into() } else { String::new() }),
            }));
        }
        table.add_row(row);
    }
    table
}

fn tables(advice: &Advice, columns: usize) -> Table {
    let mut table = ruled();
    table.set_header(["table", "protocol", "groups", "otherwise"]);
    for advised in &advice.tables {
        let apart: Vec<String> = advised.groups.iter().map(|group| group.join(" + ")).collect();
        let mut groups = apart.join(" | ");
        if advised.splits_itself {
            groups = format!("one that splits itself: {groups}");
        }
        if advised.is_index {
            groups = "(a secondary index)".into();
        }
        let tried = |otherwise: &Otherwise| {
            let percent = (otherwise.ratio - 1.0) * 100.0;
            // As minus signs are written.
            format!("{}: {}", otherwise.what, format!("{percent:+.0} %").replace('-', "−"))
        };
        let otherwise = match (advised.is_changed, advised.is_index) {
            (false, _) => "never changed: all the same".to_owned(),
            (true, true) => "as its table".to_owned(),
            (true, false) => advised.otherwise.iter().map(tried).collect::<Vec<_>>().join("; "),
        };
        let protocol = if advised.is_index { String::new() } else { advised.protocol.clone() };
        table.add_row([advised.table.clone(), protocol, groups, otherwise]);
    }
    fitted(table, columns)
}

fn ruled() -> Table {
    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Its cells broken into lines only if it would be too wide otherwise.
fn fitted(mut table: Table, columns: usize) -> Table {
    if width(&table) > columns {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_to_choose_and_what_it_brings() {
        let outcome = |per_s| AdvisedOutcome { per_s, abort_share: 0.25, p99_us: 12.0, ..Default::default() };
        let trial = |protocol: &str, groups: &str, per_s| AdvisedTrial {
            protocol: protocol.into(),
            groups: groups.into(),
            outcome: outcome(per_s),
        };
        let group = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).into()).collect() };
        let table = |name: &str, is_changed| AdvisedTable {
            table: name.into(),
            is_changed,
            protocol: "occ".into(),
            groups: vec![group(&["Info", "Data"]), group(&["Ytd"])],
            otherwise: vec![Otherwise { what: "all groups together".into(), ratio: 0.6 }],
            ..Default::default()
        };
        let advice = Advice {
            of: "tpcc full".into(),
            machine: "a machine".into(),
            cores: 32,
            seeds: vec![1, 2],
            runs: 99,
            transactions: 5_000,
            left_out: 3,
            trials: vec![
                trial("occ", "coarse", 1e6),
                trial("occ", "fine", 2e6),
                trial("tictoc", "fine", 1.5e6),
            ],
            tables: vec![table("warehouse", true), table("item", false)],
            outcome: outcome(2.1e6),
        };
        let text = advice_text(&advice, 120);
        for words in [
            "5,000 transactions once more, without 3",
            "32 virtual cores (a machine), seeds 1, 2, 99 runs",
            "★ 2.00M",
            "Info + Data | Ytd",
            "all groups together: −40 %",
            "never changed",
            "2.10M tx/s, 25% aborted",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(
            advice_text(&advice, 60)
                .lines()
                .filter(|line| line.contains('─'))
                .all(|line| line.chars().count() <= 60)
        );
        let json = advice_json(&advice).unwrap();
        assert_eq!(serde_json::from_str::<Advice>(&json).unwrap(), advice);
    }
}
