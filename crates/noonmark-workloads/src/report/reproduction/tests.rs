use super::*;
use crate::report::{Latency, Lines};

fn run(protocol: &str, groups: &str, threads: usize) -> RunReport {
    RunReport {
        workload: "tpcc".into(),
        protocol: protocol.into(),
        groups: groups.into(),
        threads,
        seconds: 0.01,
        committed: 1000,
        committed_per_s: 100_000.0,
        aborts: [("occ: <validate>".to_owned(), 250)].into(),
        latency_us: Latency { p50: 3.0, p99: 9.0, p999: 12.0, max: 20.0 },
        consistent: Some(true),
        lines: Some(Lines { hits: 9000, near: 500, far: 250, memory: 0, queued_us: 125.0 }),
        ..RunReport::default()
    }
}

fn reproduction() -> Reproduction {
    let runs: Vec<RunReport> = [1, 64]
        .into_iter()
        .flat_map(|cores| {
            [run("occ", "fine", cores), run("tictoc", "fine", cores), run("occ", "coarse", cores)]
        })
        .collect();
    let finding = |statement: &str, verdict, reason: &str| Finding {
        section: "§4.3".into(),
        statement: statement.into(),
        ours: "20.00 %".into(),
        verdict,
        reason: reason.into(),
        with_others: Vec::new(),
    };
    Reproduction {
        name: "granularity-fig3b".into(),
        title: "TPC-C & more".into(),
        figure: "Granularity, Figure 3b".into(),
        groups: "fine".into(),
        machine: "8 sockets".into(),
        seed: 7,
        size: "8 warehouses".into(),
        axis: Reproduction::CORES.into(),
        failures: Failures::Share,
        kinds: Vec::new(),
        agrees_if: "near enough".into(),
        choices: vec![("items".into(), "uniform".into()), ("keys".into(), "all different, ".repeat(9))],
        left_out: vec![("a network".into(), "nothing <waits>".into())],
        findings: vec![
            finding("OCC aborts 1.75 %", Verdict::Differs, "nobody knows"),
            finding("OCC is fastest", Verdict::Agrees, ""),
        ],
        changes: vec![Change { words: "pauses".into(), runs: vec![run("occ", "fine", 64)] }],
        runs,
    }
}

#[test]
fn the_text_has_what_the_paper_says_and_what_came_out() {
    let text = reproductions_text(&[reproduction()], 100);
    for wanted in [
        "Granularity, Figure 3b: TPC-C & more (granularity-fig3b)",
        "seed 7",
        "1 of 2 comes out, 1 does not",
        "DIFFERS  OCC aborts 1.75 % (§4.3)",
        "(agrees: near enough)",
        "  items  uniform\n",
        "\n         all different,",
        "here: 20.00 %",
        "as far as is known: nobody knows",
        "occ: <validate> 100%",
        "one choice made otherwise, on 64 cores",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // 250 of 1250 attempts; half a near line a commit.
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.iter().any(|line| line[..] == ["pauses", "100k", "20%"]), "{text}");
    assert!(
        words.iter().any(|line| line.starts_with(&["occ", "fine", "3.00"]) && line.contains(&"0.5")),
        "{text}"
    );
}

/// Statements of ours are told apart from a paper's, in the text and on the page.
#[test]
fn what_we_say_is_not_counted_as_the_papers() {
    let mut one = reproduction();
    one.findings[1].section = "ours, of §4.3".into();
    let text = reproductions_text(&[one.clone()], 100);
    assert!(text.contains("\nwhat the paper says: 0 of 1 come out, 1 does not\n"), "{text}");
    assert!(text.contains("\nwhat we say: 1 of 1 comes out, 0 do not\n"), "{text}");
    let html = reproductions_page(&[one.clone()], "noonmark repro").unwrap();
    assert!(html.contains("0 of 1 come out, 1 does not; what we say: 1 of 1"), "{html}");
    one.findings.remove(0);
    assert!(!reproductions_text(&[one], 100).contains("what the paper says"));
}

#[test]
fn what_other_seeds_come_to_stands_beside_it() {
    let mut one = reproduction();
    assert!(!reproductions_text(&[one.clone()], 100).contains("with each of"));
    for (seed, ours, verdict) in
        [(8, "1.7 %", Verdict::Agrees), (9, "20.00 %", Verdict::Agrees), (10, "1.7 %", Verdict::Agrees)]
    {
        let mut other = Reproduction { seed, ..reproduction() };
        for finding in &mut other.findings {
            (finding.ours, finding.verdict) = (ours.into(), verdict);
        }
        one.add_seed(&other);
    }
    let words = "seeds 8, 10: 1.7 % (agrees); seed 9: 20.00 % (agrees)";
    let text = reproductions_text(&[one.clone()], 100);
    assert!(text.contains(words) && text.contains("(with each of 4 seeds: 1)"), "{text}");
    let page = reproductions_page(&[one.clone()], "noonmark repro").unwrap();
    assert!(page.contains(words) && page.contains("With each of 4 seeds 1 agree."), "{page}");
    let json = reproductions_json(&[one.clone()]).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Reproduction>>(&json).unwrap(), [one]);
}

/// A plot over something else than cores, with failures for each 1000 commits.
fn over_contention() -> Reproduction {
    let run = |contention: &str, failed| RunReport {
        parameters: [("contention".to_owned(), contention.to_owned())].into(),
        aborts: [("fixed: write".to_owned(), failed)].into(),
        ..run("fixed", "coarse", 50)
    };
    Reproduction {
        groups: "coarse".into(),
        axis: "contention".into(),
        failures: Failures::PerThousand,
        runs: vec![run("50:50", 2), run("99:1", 250)],
        changes: vec![Change { words: "pauses".into(), runs: vec![run("99:1", 31)] }],
        ..reproduction()
    }
}

#[test]
fn what_varies_need_not_be_the_cores() {
    let text = reproductions_text(&[over_contention()], 100);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.iter().any(|line| line[..] == ["50:50", "99:1"]), "{text}");
    let row = ["fixed", "100k", "2.00", "9.00", "µs", "100k", "250", "9.00", "µs"];
    assert!(words.iter().any(|line| line[..] == row), "{text}");
    for wanted in [
        "at 99:1 contention, a commit",
        "one choice made otherwise, at 99:1 contention",
        "a network: nothing <waits>",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(words.iter().any(|line| line[..] == ["pauses", "100k", "31.0"]), "{text}");
    let twice = reproductions_text(&[over_contention(), over_contention()], 100);
    assert_eq!(twice.matches("a network").count(), 1);
    assert_eq!(twice.matches("changes: as for Granularity, Figure 3b").count(), 1);
    let html = reproductions_page(&[over_contention()], "noonmark repro").unwrap();
    for wanted in
        ["for each 1000 commits", "contention, %", "<td class=\"n\">99:1</td>", "nothing &lt;waits&gt;"]
    {
        assert!(html.contains(wanted), "{wanted}");
    }
}

/// What is said of a parameter besides how much it is belongs with the choices, not below a plot.
#[test]
fn what_varies_has_its_unit_below_the_plot() {
    let taking = |message: &str| RunReport {
        parameters: [("a message takes".to_owned(), message.to_owned())].into(),
        ..run("fixed", "coarse", 2)
    };
    let over_messages = Reproduction {
        groups: "coarse".into(),
        axis: "a message takes".into(),
        runs: vec![taking("0.2 µs of the sender's thread"), taking("10 µs, of either")],
        ..reproduction()
    };
    let html = reproductions_page(&[over_messages], "noonmark repro").unwrap();
    for wanted in ["a message takes, µs", ">0.2 µs</td>", ">10 µs</td>"] {
        assert!(html.contains(wanted), "{wanted}");
    }
}

/// Of transactional memory, where timestamps cover nothing that could be chosen, and the clock is counted.
#[test]
fn of_a_memory_the_clock_is_shown_and_no_granularity() {
    let with_clock = |protocol: &str, clock_increments| RunReport {
        aborts: [("read, newer".to_owned(), 30)].into(),
        clock_increments,
        ..run(protocol, "", 128)
    };
    let runs = vec![with_clock("DCTL", Some(20)), with_clock("TicToc", None)];
    let changes = vec![Change { words: "fewer keys".into(), runs: runs.clone() }];
    let one = Reproduction {
        groups: String::new(),
        failures: Failures::PerSecond,
        runs,
        changes,
        ..reproduction()
    };
    let text = reproductions_text(std::slice::from_ref(&one), 100);
    assert!(!text.contains("timestamps") && text.contains("DCTL: read, newer 100%"), "{text}");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [&["DCTL", "100k", "3.00k", "2.00k"][..], &["TicToc", "100k", "3.00k"]] {
        assert!(words.iter().any(|line| line[..] == *row), "{row:?}: {text}");
    }
    let html = reproductions_page(&[one], "noonmark repro").unwrap();
    assert!(html.contains("Clock increments, a virtual second") && !html.contains("timestamps</h3>"));
    assert_eq!(html.matches("<svg role=\"img\"").count(), 5);
}

/// Where a paper tells kinds of failure apart: of the last runs and of the changed ones, with what is of no kind.
#[test]
fn failures_are_told_apart_by_kind() {
    let failed = |aborts: &[(&str, u64)]| RunReport {
        aborts: aborts.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect(),
        ..run("occ", "fine", 64)
    };
    let change = |words: &str, aborts| Change { words: words.into(), runs: vec![failed(aborts)] };
    let of_kind = |words: &str, rules: &[&str]| {
        (words.to_owned(), rules.iter().map(|rule| (*rule).to_owned()).collect())
    };
    let one = Reproduction {
        kinds: vec![of_kind("(a)", &["one", "two"]), of_kind("<b>", &["three"])],
        runs: vec![failed(&[("one", 100), ("two", 50), ("three", 25), ("other", 75)])],
        changes: vec![change("as above", &[]), change("pauses", &[("three", 250)])],
        ..reproduction()
    };
    let text = reproductions_text(std::slice::from_ref(&one), 100);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for wanted in [
        &["run", "(a)", "<b>", "others", "all"][..],
        &["occ", "fine", "12.00", "2.00", "6.00", "20.00"],
        &["pauses", "0.00", "20.00", "0.00", "20.00"],
    ] {
        assert!(words.iter().any(|line| line[..] == *wanted), "{wanted:?}: {text}");
    }
    let html = reproductions_page(std::slice::from_ref(&one), "noonmark repro").unwrap();
    assert!(html.contains("&lt;b&gt;") && html.contains("<td class=\"n\">12.00</td>"));
    let json = reproductions_json(std::slice::from_ref(&one)).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Reproduction>>(&json).unwrap(), [one]);
    // Others' files are as they were.
    assert!(!reproductions_json(&[reproduction()]).unwrap().contains("kinds"));
    assert!(!reproductions_text(&[reproduction()], 100).contains(super::BY_KIND));
}

#[test]
fn the_page_is_whole_and_escapes_what_comes_from_outside() {
    let html = reproductions_page(&[reproduction()], "noonmark repro <script>").unwrap();
    assert!(html.contains("TPC-C &amp; more") && html.contains("occ: &lt;validate&gt; 100%"));
    assert!(html.contains("noonmark repro &lt;script&gt;") && !html.contains("repro <script>"));
    assert_eq!(
        html.matches("<svg role=\"img\"").count(),
        8,
        "four plots for fine runs, and four for coarse ones"
    );
    assert_eq!(html.matches("<section").count(), html.matches("</section>").count());
    assert!(html.contains("id=\"reproductions\"") && html.ends_with("</html>\n"));
}

#[test]
fn what_is_written_reads_back() {
    let all = [reproduction()];
    let json = reproductions_json(&all).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Reproduction>>(&json).unwrap(), all);
    assert!(json.contains("\"verdict\": \"differs\"") && json.contains("\"queued_us\": 125.0"));
}

/// Where transactions span servers: what each phase takes, on the terminal, on the page, and in the file.
#[test]
fn phases_are_told_apart() {
    use crate::report::{ByPhase, Phases};
    let time_us = ByPhase { execution: 100.0, prepare: 20.0, commit: 3.0, failed: 40.0 };
    let bytes = ByPhase { execution: 5000.0, prepare: 600.0, commit: 70.0, failed: 800.0 };
    let spanning = RunReport {
        phases: Some(Phases { time_us, paused_us: 500.0, bytes }),
        ..run("sundial", "coarse", 16)
    };
    let one = Reproduction { runs: vec![spanning], ..reproduction() };
    let text = reproductions_text(std::slice::from_ref(&one), 100);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for wanted in [
        &["sundial", "100", "µs", "20.0", "µs", "3.00", "µs", "40.0", "µs", "500", "µs", "663", "µs"][..],
        &["sundial", "5000", "600", "70", "800", "6470"],
    ] {
        assert!(words.iter().any(|line| line[..] == *wanted), "{wanted:?}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let html = reproductions_page(std::slice::from_ref(&one), "noonmark repro").unwrap();
    assert!(html.contains("<td class=\"n\">663 µs</td>") && html.contains("<td class=\"n\">6470</td>"));
    let json = reproductions_json(std::slice::from_ref(&one)).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Reproduction>>(&json).unwrap(), [one]);
    // Others' files are as they were.
    assert!(!reproductions_json(&[reproduction()]).unwrap().contains("phases"));
    assert!(!reproductions_text(&[reproduction()], 100).contains(super::BY_PHASE));
}
