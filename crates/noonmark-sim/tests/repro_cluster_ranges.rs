//! Sundial beside ranges that shrink at the conflict [Sundial, Appendix, Table 2]: what it comes to.

mod helpers;
mod on_servers;

use helpers::{SMALL, named, reproduced};
use noonmark_sim::repro::{self, Cell, Size};
use noonmark_workloads::report::Verdict::{Agrees, Differs};
use on_servers::experiment;

/// Where rows are few: evenly hardly anything tells the protocols apart; by a power law ranges fail most, begin they by clocks or not.
#[test]
fn sundial_table_2() {
    let size = Size { rows: 100_000, warm_up_ps: 200_000_000, measured_ps: 400_000_000, ..SMALL };
    let (runs, verdicts) = experiment("sundial-table2", size);
    assert_eq!(
        runs,
        [
            ("sundial", 4, 2609, 57),
            ("ranges, by clocks", 4, 2622, 36),
            ("ranges", 4, 2668, 23),
            ("dynamic", 4, 2601, 41),
            ("sundial", 4, 1106, 625),
            ("ranges, by clocks", 4, 880, 556),
            ("ranges", 4, 998, 661),
            ("dynamic", 4, 1125, 519),
        ]
    );
    let [lead, fewer, evenly, few, work, messages, hot, hotter, late, clocks, near] = verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert_eq!([fewer, work, messages, late, near], [Agrees; 5]);
    assert_eq!([lead, evenly, few, hot, hotter, clocks], [Differs; 6]);
}

/// In the table's own setting, as `noonmark repro sundial-table2` has it: all of it. On cores, what is evenly so.
#[test]
#[ignore = "three gigabytes and some minutes"]
fn sundial_table_2_as_it_is() {
    let done = reproduced("sundial-table2", Size::FULL);
    assert!(done.findings.iter().all(|finding| finding.verdict == Agrees), "{:#?}", done.findings);
    let done = reproduced("sundial-table2-cores", Size::FULL);
    println!("{:#?}", done.findings);
    assert!(done.findings[..2].iter().all(|finding| finding.verdict == Agrees), "{:#?}", done.findings);
}

/// Each choice made otherwise, by a power law: under `sundial`, under `ranges` by clocks, and under `ranges`, commits and attempts that
/// failed.
#[test]
fn each_option_of_table_2_does_something() {
    let experiment = named("sundial-table2");
    let figures = |change: Option<&repro::Alternative>| {
        let mut variant = experiment.variant.clone();
        if let Some(change) = change {
            (change.change)(&mut variant);
        }
        let run = |&(protocol, granularity)| {
            let cell = Cell { variant: variant.clone(), protocol, granularity, cores: 16 };
            let run = repro::run(&cell, &SMALL, 1).unwrap();
            (run.committed, run.aborted())
        };
        let [sundial, by_clocks, ranges] = experiment.ablated else { panic!("{:?}", experiment.ablated) };
        [sundial, by_clocks, ranges].map(run)
    };
    assert_eq!(figures(None), [(243, 161), (230, 137), (219, 144)]);
    let all: Vec<_> =
        experiment.alternatives.iter().map(|change| (change.words, figures(Some(change)))).collect();
    let pinned = [
        ("clocks that are 0.1 ms apart", [(243, 161), (239, 131), (219, 144)]),
        ("clocks that are 1 ms apart", [(243, 161), (235, 144), (219, 144)]),
        (
            "no room where two ranges are parted that have no end: a single time",
            [(243, 161), (229, 132), (235, 146)],
        ),
        ("256 ticks of room, 64 µs by clocks", [(243, 161), (224, 158), (227, 141)]),
        ("4,096 ticks of room, 1 ms by clocks", [(243, 161), (215, 134), (210, 130)]),
        ("65,536 ticks of room, 16 ms by clocks", [(243, 161), (212, 141), (212, 130)]),
        ("single commit times agreed on", [(243, 161), (219, 142), (219, 138)]),
        ("4,096 ticks agreed on", [(243, 161), (246, 146), (234, 135)]),
        (
            "all commit times agreed on that are left, without end, as in MaaT",
            [(243, 161), (207, 165), (232, 153)],
        ),
        ("rows written evenly", [(549, 60), (573, 27), (556, 39)]),
        ("all rows of a transaction asked for together", [(274, 215), (315, 159), (325, 184)]),
        ("messages that take 10 µs", [(89, 63), (93, 60), (98, 64)]),
        ("an abort buffer of ten: workers run others while one pauses", [(322, 355), (325, 414), (357, 397)]),
    ];
    assert_eq!(all, pinned);
}

/// On the cores of one server marks cost something, and by a power law fewer fail for them.
#[test]
fn sundial_table_2_on_cores() {
    let done = reproduced("sundial-table2-cores", Size { rows: 200_000, ..SMALL });
    let figures: Vec<_> =
        done.runs.iter().map(|run| (run.protocol.as_str(), run.committed, run.aborted())).collect();
    assert_eq!(
        figures,
        [
            ("sundial", 319, 0),
            ("ranges", 304, 0),
            ("dynamic", 304, 0),
            ("sundial", 310, 85),
            ("ranges", 281, 58),
            ("dynamic", 288, 25),
        ]
    );
    let found: Vec<_> =
        done.findings.iter().map(|finding| (finding.verdict, finding.ours.as_str())).collect();
    assert_eq!(
        found,
        [
            (Agrees, "1.05 times"),
            (Agrees, "sundial 0.00 %, ranges 0.00 %"),
            (Differs, "1.10 times"),
            (Differs, "274.2 against 206.4 at 0.9"),
        ]
    );
}
