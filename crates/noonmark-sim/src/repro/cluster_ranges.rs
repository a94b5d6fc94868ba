//! *Sundial* beside ranges that shrink at the conflict, across servers: the table of its appendix.
//!
//! The authors put the protocol of Lomet et al. (reference 34) into their system, and ran YCSB with it twice: rows drawn evenly, and by a power law
//! of 0.9. (The text calls this Table 2; where §6.4.3 names a Table 2, Table 1 is meant.) `ranges` is that protocol here, with the
//! change that they made, too: of each row there is one version.
//!
//! **What is chosen where the text leaves a choice**, before any figure was looked at but where it is said:
//!
//! - The appendix says neither how many servers and workers there were nor how many accesses were remote. Here it is what §6 has
//!   unless it says otherwise: four servers of sixteen workers, a tenth of the accesses remote; and messages, accesses and pauses take what
//!   they take in [`cluster`](super::cluster).
//! - *Clocks*: the authors' ranges begin at the time of synchronized clocks. That is a protocol of the plot, *by clocks*, and what the text's
//!   figures are compared with; a microsecond is four ticks. Beside it stand the ranges that are ours, which begin at the last commit that
//!   the client knows of, as on one machine. (It was one of the choices until it was found that most hangs on it.)
//! - *Where to part two ranges*: the original's procedures are not in the text. Here who comes first is left a little room (16 ticks) if neither
//!   range has an end, and half of what both have if one does.
//! - *The commit*: up to 256 ticks are agreed on at each server; see decision 37.
//!
//! `dynamic`, which has ranges as well and shrinks them at the commit, is run beside them, since the text blames the moment at which ranges are
//! shrunk.
//!
//! On a virtual network an access takes what it takes, whatever the protocol keeps beside the row. The text has it that evenly this is what
//! tells the two apart, so they are run on the virtual cores of one server, too, where each line costs what it costs.
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    DEAR_MESSAGES, ONE_SOCKET, OUR_COMMIT, SPREAD, TOGETHER, UNBUFFERED, UNPAUSED, of_servers, of_spanning,
};
use super::cluster::{
    BEFORE, DYNAMIC, FIGURE, LATER, LOCKED, PRINTED, SPANNING, SUNDIAL, THREADS, VARIANT, WRITERS,
};
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, Kind, Leased, Part, Points, Rules, Test, Variant,
    Workload,
};
use noonmark::{Leases, Protocol};
use noonmark_workloads::store::Granularity::Coarse;

pub(super) const RANGES: Rules = Rules::Engine(Protocol::Ranges);
const CLOCKED: Rules = Rules::Clocked;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "sundial-table2",
        title: "YCSB on four servers, rows drawn evenly and by a power law: Sundial beside ranges that shrink at the conflict",
        figure: "Sundial, Table 2",
        variant: Variant { workload: Workload::Spanning(SPANNING), ..VARIANT },
        axis: Axis::Contended { workers: THREADS },
        points: Points { all: &[EVENLY, HOT], few: &[EVENLY, HOT] },
        protocols: &[SUNDIAL, PRINTED, CLOCKED, RANGES, DYNAMIC],
        claims: TABLE_2,
        kinds: &[&LATER, &BEFORE, &LOCKED, &WRITERS, &MET, &PARTED, &NO_TIME],
        alternatives: ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (CLOCKED, Coarse), (RANGES, Coarse)],
        left_out: LEFT_OUT,
        ..FIGURE
    },
    Experiment {
        name: "sundial-table2-cores",
        title: "the same on one of the servers, where what the protocols keep beside the rows takes time",
        figure: "Sundial, Table 2",
        variant: Variant {
            workload: Workload::Leased(Leased {
                distinct: true,
                overwrites: false,
                leases: Leases { extended_by: None, write_times: 0 },
                skew: 90,
            }),
            ..VARIANT
        },
        axis: Axis::Contended { workers: THREADS },
        points: Points { all: &[EVENLY, HOT], few: &[EVENLY, HOT] },
        protocols: &[SUNDIAL, RANGES, DYNAMIC],
        claims: ON_CORES,
        kinds: &[&LATER, &BEFORE, &LOCKED, &WRITERS, &MET, &PARTED, &NO_TIME],
        alternatives: OF_THE_MACHINE,
        ablated: &[(SUNDIAL, Coarse), (RANGES, Coarse)],
        left_out: OFF_CORES,
        ..FIGURE
    },
];

/// The exponent of the power law, in hundredths: low contention.
const EVENLY: usize = 0;
/// And high.
const HOT: usize = 90;

/// Two writers of one row, or a reader that must come after the writer that it meets: the younger dies.
const MET: Kind = Kind { words: "met", rules: &["ranges: read", "ranges: write", "ranges: seal"] };
/// A writer cannot come after a reader.
const PARTED: Kind = Kind { words: "parted", rules: &["ranges: part", "ranges: validate"] };
/// Others have left no time.
const NO_TIME: Kind = Kind {
    words: "no time",
    rules: &[
        "range: commit",
        "range: frozen",
        "cluster: ranges",
        "dynamic: read",
        "dynamic: seal",
        "dynamic: validate",
    ],
};

const TABLE_2: &[Claim] = &[
    Claim {
        section: "Table 2",
        words: "by a power law Sundial commits 1.70 times what ranges do (99.6 for 58.5)",
        test: Test::Times { of: At(SUNDIAL, Coarse, HOT), to: At(CLOCKED, Coarse, HOT), paper: 1.7 },
        reason: APART,
    },
    Claim {
        section: "Table 2",
        words: "or does, as printed, without what is ours",
        test: Test::Times { of: At(PRINTED, Coarse, HOT), to: At(CLOCKED, Coarse, HOT), paper: 1.7 },
        reason: APART,
    },
    Claim {
        section: "Appendix",
        words: "as fewer of its attempts fail",
        test: Test::FailsLess { of: SUNDIAL, than: CLOCKED, granularity: Coarse, from: 1 },
        reason: FEW,
    },
    Claim {
        section: "Table 2",
        words: "evenly 1.175 times (130.3 for 110.9)",
        test: Test::Times { of: At(SUNDIAL, Coarse, EVENLY), to: At(CLOCKED, Coarse, EVENLY), paper: 1.175 },
        reason: WORK,
    },
    Claim {
        section: "Appendix",
        words: "where very few fail under both: one of a hundred at most, say",
        test: Test::FewFail { protocols: &[SUNDIAL, CLOCKED], percent: 1.0, point: EVENLY },
        reason: "where rows are few, those that are drawn evenly meet, too",
    },
    Claim {
        section: "Appendix",
        words: "so that it is the work that tells them apart: a commit of ranges takes 1.175 times as long, pauses left out",
        test: Test::TimesCost {
            of: At(CLOCKED, Coarse, EVENLY),
            to: At(SUNDIAL, Coarse, EVENLY),
            cost: Cost::Time(Part::Working),
            paper: 1.175,
        },
        reason: WORK,
    },
    Claim {
        section: "Table 2",
        words: "Sundial commits 1.31 times as much evenly as by a power law (130.3 for 99.6)",
        test: Test::Times { of: At(SUNDIAL, Coarse, EVENLY), to: At(SUNDIAL, Coarse, HOT), paper: 1.31 },
        reason: HOTTER,
    },
    Claim {
        section: "Table 2",
        words: "or does, as printed",
        test: Test::Times { of: At(PRINTED, Coarse, EVENLY), to: At(PRINTED, Coarse, HOT), paper: 1.31 },
        reason: HOTTER,
    },
    Claim {
        section: "Table 2",
        words: "and ranges 1.90 times (110.9 for 58.5)",
        test: Test::Times { of: At(CLOCKED, Coarse, EVENLY), to: At(CLOCKED, Coarse, HOT), paper: 1.9 },
        reason: HOTTER,
    },
    Claim {
        section: "Appendix",
        words: "what decides late is the better for it: ranges that are shrunk at the commit fail less than at the conflict",
        test: Test::FailsLess { of: DYNAMIC, than: RANGES, granularity: Coarse, from: 1 },
        reason: "the younger of two writers waits here for one who has prepared, which spares ranges more than those who lock only then",
    },
    Claim {
        section: "ours",
        words: "it is the clocks that make ranges fail: without them fewer do",
        test: Test::FailsLess { of: RANGES, than: CLOCKED, granularity: Coarse, from: 1 },
        reason: FEW,
    },
    Claim {
        section: "ours",
        words: "and ranges commit at least nine tenths of what Sundial does",
        test: Test::AtLeast { of: At(RANGES, Coarse, HOT), to: At(SUNDIAL, Coarse, HOT), times: 0.9 },
        reason: "where rows are few, many writers meet, and a writer keeps others out from its first write on for as long as its messages take, under \
                 either; but ranges have it wait for readers that must be after it, too",
    },
];

/// What ranges by clocks hang on.
const APART: &str = "by clocks the ranges of two that meet lie as far apart as a transaction is long, and of a transaction's ranges at two servers 64 µs are agreed \
     on at each, which often have nothing in common. With 1 ms agreed on, ranges by clocks commit more than Sundial: see the choices. What the \
     authors' form agrees on, and by which procedures the original parts ranges, is not in the text";

/// Where nothing tells them apart.
const FEW: &str = "where rows are few, most attempts fail as writers meet, which they do under each";

/// Why ranges take no longer.
const WORK: &str = "an access takes the same time under each protocol here, and shrinking others' ranges takes none (see `sundial-table2-cores`): nothing is left that would tell them apart";

/// Why contention costs more, or less.
const HOTTER: &str = "what fails by a power law is lost, and little else: 6 % of the attempts of ours, 13 % as printed, 18 % of ranges. In the paper's own Figure 12, too, 14 % fail, which alone does not make it 1.31 times";

const ON_CORES: &[Claim] = &[
    Claim {
        section: "Table 2",
        words: "evenly Sundial commits 1.175 times what ranges do (130.3 for 110.9)",
        test: Test::Times { of: At(SUNDIAL, Coarse, EVENLY), to: At(RANGES, Coarse, EVENLY), paper: 1.175 },
        reason: MARKS,
    },
    Claim {
        section: "Appendix",
        words: "though very few fail under both: one of a hundred at most, say",
        test: Test::FewFail { protocols: &[SUNDIAL, RANGES], percent: 1.0, point: EVENLY },
        reason: FEW,
    },
    Claim {
        section: "Table 2",
        words: "and by a power law 1.70 times (99.6 for 58.5)",
        test: Test::Times { of: At(SUNDIAL, Coarse, HOT), to: At(RANGES, Coarse, HOT), paper: 1.7 },
        reason: MARKS,
    },
    Claim {
        section: "Appendix",
        words: "as fewer of its attempts fail",
        test: Test::FailsLess { of: SUNDIAL, than: RANGES, granularity: Coarse, from: 1 },
        reason: "nobody goes by clocks here, and without them ranges fail less than leases do: those who meet settle who is first, where a lease cannot be \
                 renewed once its row is locked or replaced",
    },
];

/// What ranges take on cores.
const MARKS: &str = "who reads a row marks it, and takes the mark away again: that is what ranges cost here, where no message is sent. It is more where \
     readers of one row are many";

const OF_THE_MACHINE: &[Alternative] = &[UNPAUSED, SPREAD, ONE_SOCKET];

/// What of the experiment is not here.
const OFF_CORES: &[(&str, &str)] = &[
    (
        "messages",
        "all rows are at this server, and each is touched as often as if a tenth of the accesses came from others; clocks are not asked",
    ),
    (
        "rows of one kilobyte",
        "here they are ten columns of ten bytes: copying a row takes less, so that what is beside it weighs more",
    ),
    (
        "30 seconds",
        "here it is one seed, and what comes through in the time; another seed is another repetition (--seed, --seeds)",
    ),
];

const ALTERNATIVES: &[Alternative] = &[
    Alternative {
        words: "clocks that are 0.1 ms apart",
        change: |variant| of_servers(variant, |servers| servers.clocks_apart_us = 100),
    },
    Alternative {
        words: "clocks that are 1 ms apart",
        change: |variant| of_servers(variant, |servers| servers.clocks_apart_us = 1_000),
    },
    Alternative {
        words: "no room where two ranges are parted that have no end: a single time",
        change: |variant| of_servers(variant, |servers| servers.range_room = 0),
    },
    Alternative {
        words: "256 ticks of room, 64 µs by clocks",
        change: |variant| of_servers(variant, |servers| servers.range_room = 256),
    },
    Alternative {
        words: "4,096 ticks of room, 1 ms by clocks",
        change: |variant| of_servers(variant, |servers| servers.range_room = 4_096),
    },
    Alternative {
        words: "65,536 ticks of room, 16 ms by clocks",
        change: |variant| of_servers(variant, |servers| servers.range_room = 1 << 16),
    },
    Alternative {
        words: "single commit times agreed on",
        change: |variant| of_servers(variant, |servers| servers.frozen_ticks = 0),
    },
    Alternative {
        words: "4,096 ticks agreed on",
        change: |variant| of_servers(variant, |servers| servers.frozen_ticks = 4_096),
    },
    Alternative {
        words: "all commit times agreed on that are left, without end, as in MaaT",
        change: |variant| of_servers(variant, |servers| servers.frozen_ticks = u64::MAX),
    },
    Alternative {
        words: "rows written evenly",
        change: |variant| of_spanning(variant, |spanning| spanning.writes_skew = 0),
    },
    TOGETHER,
    DEAR_MESSAGES,
    UNBUFFERED,
    OUR_COMMIT,
];

/// What of the paper's experiment is not here.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "the younger of two writers",
        "in the paper it aborts whenever the older one has the row. Here it waits if that one has prepared, who waits for nobody: see Figure 12",
    ),
    (
        "what it takes to see to ranges",
        "an access takes the same time under each protocol here, and finding those whose ranges are to be shrunk takes none (see `sundial-table2-cores`): \
         what tells the protocols apart is whom they fail, whom they keep waiting, and what they send",
    ),
    (
        "many versions",
        "the original has them; in the text's form, and here, there is one of each row, and of those who would write it one at a time",
    ),
    (
        "what is counted in a second",
        "the table does not say of what its figures are thousands: ratios are compared",
    ),
    (
        "30 seconds",
        "here it is one seed, and what comes through in the time, without what is still put aside at its end, which is in no latency; another seed is another repetition (--seed, --seeds)",
    ),
];
