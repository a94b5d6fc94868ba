//! *Sundial*'s YCSB across servers: Figures 7, 14 and 15, in the setting of [`cluster`](super::cluster), and past them.
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    AT_ONCE, DEAR_MESSAGES, FAR_MESSAGES, MESSAGE_THREADS, MOSTLY_REMOTE, NOTHING_LENT, OUR_COMMIT,
    PREPARED_READ_ALWAYS, SLOW_ACCESSES, TOGETHER, UNBUFFERED, YOUNGER_REFUSED, of_servers,
};
use super::cluster::{
    COLD_START, DYNAMIC, F1, FIGURE, HYBRID, MAAT, MESSAGES_NS, MOST, OURS, PAPERS, PRINTED, REMOTE, SERVERS,
    SMALL, SPANNING, SPARED, SUNDIAL, THREADS, TICTOC, VARIANT, WAIT_DIE,
};
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, Part, Points, Servers, Site, Spanning, Test, Variant,
    Workload,
};
use noonmark_workloads::store::Granularity::Coarse;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "sundial-fig7",
        title: "YCSB on four servers, a tenth of the accesses remote: throughput by workers",
        figure: "Sundial, Figure 7",
        points: Points { all: &[1, 4, 8, THREADS, MOST], few: &[4, THREADS, MOST] },
        protocols: &[SUNDIAL, PRINTED, HYBRID, WAIT_DIE, F1, MAAT, DYNAMIC, TICTOC],
        claims: FIGURE_7,
        ablated: &[(SUNDIAL, Coarse), (WAIT_DIE, Coarse), (MAAT, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig7-messages",
        title: "YCSB on four servers, a tenth of the accesses remote: throughput by what a message takes",
        figure: "Sundial, Figure 7, by messages",
        axis: Axis::Messages { workers: MOST },
        points: Points { all: MESSAGES_NS, few: &[200, 10_000] },
        protocols: &[SUNDIAL, PRINTED, WAIT_DIE, F1, MAAT, DYNAMIC, TICTOC],
        claims: FIGURE_7_MESSAGES,
        alternatives: DEAR_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (WAIT_DIE, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "sundial-low-contention",
        title: "the same with all rows as likely as any other, by workers",
        figure: "Sundial §6.3, not shown there",
        variant: Variant {
            workload: Workload::Spanning(Spanning { reads_skew: 0, writes_skew: 0, ..SPANNING }),
            ..VARIANT
        },
        points: Points { all: &[1, THREADS, MOST], few: &[MOST] },
        protocols: &[SUNDIAL, WAIT_DIE, F1, MAAT],
        claims: LOW_CONTENTION,
        ablated: &[(SUNDIAL, Coarse), (F1, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig14",
        title: "YCSB, a tenth of the accesses remote: throughput by servers",
        figure: "Sundial, Figure 14",
        axis: Axis::Servers { workers: SMALL },
        points: Points { all: &[1, 2, 4, 8, 12, 16, 20], few: &[1, 2, 4] },
        protocols: &[SUNDIAL, PRINTED, WAIT_DIE, F1, MAAT, DYNAMIC],
        claims: FIGURE_14,
        alternatives: SPREAD_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (WAIT_DIE, Coarse)],
        left_out: IN_THE_CLOUD,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig15",
        title: "the same on eight servers, each in a datacenter of its own, from Virginia to Mumbai",
        figure: "Sundial, Figure 15",
        variant: Variant {
            workload: Workload::Spanning(Spanning {
                servers: Servers { count: 8, site: Site::World, ..SERVERS },
                ..SPANNING
            }),
            ..VARIANT
        },
        points: Points { all: &[SMALL], few: &[SMALL] },
        protocols: &[SUNDIAL, PRINTED, HYBRID, WAIT_DIE, F1, MAAT, DYNAMIC],
        claims: FIGURE_15,
        alternatives: FAR_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (WAIT_DIE, Coarse)],
        left_out: FAR_AWAY,
        ..FIGURE
    },
    Experiment {
        name: "cluster-servers",
        title: "the same up to 256 servers in one room: what a commit costs as the cluster grows",
        figure: "past Sundial, Figure 14",
        variant: Variant {
            workload: Workload::Spanning(Spanning { servers: OURS, fewer_rows: 50, ..SPANNING }),
            ..VARIANT
        },
        axis: Axis::Servers { workers: SMALL },
        points: Points { all: &[16, 64, 256], few: &[16, 64] },
        protocols: &[SUNDIAL, WAIT_DIE, F1, MAAT, DYNAMIC, TICTOC],
        claims: GROWING,
        alternatives: GROWING_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse)],
        left_out: &[],
        ..FIGURE
    },
];

/// What the lead hangs on.
const LEAD: &str = "it hangs on what fails, and so on for how long rows are locked, which is what messages and accesses take; on how many are at work; and on what two-phase commit costs: see the choices";

const FIGURE_7: &[Claim] = &[
    Claim {
        section: "§6.3",
        words: "Sundial is 57 % faster than the next (two-phase locking)",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, MOST), others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "§6.3",
        words: "and so it is as printed, without what is ours",
        test: Test::TimesNext { of: At(PRINTED, Coarse, MOST), others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §6.3",
        words: "and so it is, each at as many workers as it does best with",
        test: Test::TimesNextAtPeak { of: SUNDIAL, others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §6.3",
        words: "and as printed",
        test: Test::TimesNextAtPeak { of: PRINTED, others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §6.3",
        words: "it needs many workers: with one a server it is as fast as the next",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, 1), others: PAPERS, paper: 1.0 },
        reason: LEAD,
    },
    Claim {
        section: "ours",
        words: "it is faster than what the paper has not got, too: ranges that freeze for a time only, and TicToc's",
        test: Test::Faster { of: SUNDIAL, than: &[DYNAMIC, TICTOC], granularity: Coarse, points: &[MOST] },
        reason: "ranges that are not frozen without end let most of those through whom Sundial makes abort",
    },
    Claim {
        section: "§6.3",
        words: "two-phase locking is faster than F1",
        test: Test::Faster { of: WAIT_DIE, than: &[F1], granularity: Coarse, points: &[MOST] },
        reason: "",
    },
    Claim {
        section: "§6.3",
        words: "and faster than MaaT",
        test: Test::Faster { of: WAIT_DIE, than: &[MAAT], granularity: Coarse, points: &[MOST] },
        reason: SPARED,
    },
    Claim {
        section: "§6.3",
        words: "Sundial's cache makes it no faster here, as many accesses are writes: at most by a twentieth, say",
        test: Test::NoMore { of: At(HYBRID, Coarse, MOST), to: At(SUNDIAL, Coarse, MOST), times: 1.05 },
        reason: REMOTE,
    },
    Claim {
        section: "§1",
        words: "a commit of Sundial takes up to 41 % less time than one of two-phase locking (there the next), without what it spends put aside, which Figure 7b has not",
        test: Test::TimesCost {
            of: At(SUNDIAL, Coarse, THREADS),
            to: At(WAIT_DIE, Coarse, THREADS),
            cost: Cost::Time(Part::Working),
            paper: 0.59,
        },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §1",
        words: "or does with 28 workers, where more fails",
        test: Test::TimesCost {
            of: At(SUNDIAL, Coarse, MOST),
            to: At(WAIT_DIE, Coarse, MOST),
            cost: Cost::Time(Part::Working),
            paper: 0.59,
        },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §1",
        words: "or as printed, without what is ours, with 28 workers",
        test: Test::TimesCost {
            of: At(PRINTED, Coarse, MOST),
            to: At(WAIT_DIE, Coarse, MOST),
            cost: Cost::Time(Part::Working),
            paper: 0.59,
        },
        reason: LEAD,
    },
    Claim {
        section: "Figure 7b",
        words: "of all, Sundial loses the least time in attempts that fail",
        test: Test::CostsMore {
            these: &[WAIT_DIE, F1, MAAT],
            than: &[SUNDIAL],
            cost: Cost::Time(Part::Failed),
            point: THREADS,
        },
        reason: EARLY,
    },
    Claim {
        section: "Figure 7c",
        words: "and sends the fewest bytes for them",
        test: Test::CostsMore {
            these: &[WAIT_DIE, F1, MAAT],
            than: &[SUNDIAL],
            cost: Cost::Bytes(Part::Failed),
            point: THREADS,
        },
        reason: EARLY,
    },
    Claim {
        section: "Figure 7b",
        words: "as printed, without what is ours, it loses the least time, too",
        test: Test::CostsMore {
            these: &[WAIT_DIE, F1, MAAT],
            than: &[PRINTED],
            cost: Cost::Time(Part::Failed),
            point: THREADS,
        },
        reason: EARLY,
    },
    Claim {
        section: "Figure 7c",
        words: "and sends the fewest bytes",
        test: Test::CostsMore {
            these: &[WAIT_DIE, F1, MAAT],
            than: &[PRINTED],
            cost: Cost::Bytes(Part::Failed),
            point: THREADS,
        },
        reason: EARLY,
    },
    Claim {
        section: "§6.3",
        words: "under F1 and MaaT the commit phase takes longer than under two-phase locking and Sundial, as whoever has only been read at must be told, too",
        test: Test::CostsMore {
            these: &[F1, MAAT],
            than: &[WAIT_DIE, SUNDIAL, PRINTED],
            cost: Cost::Time(Part::Commit),
            point: THREADS,
        },
        reason: "",
    },
    Claim {
        section: "ours, of §6.3",
        words: "under F1 and MaaT more bytes are sent in the commit phase than under two-phase locking and Sundial",
        test: Test::CostsMore {
            these: &[F1, MAAT],
            than: &[WAIT_DIE, SUNDIAL],
            cost: Cost::Bytes(Part::Commit),
            point: THREADS,
        },
        reason: TOLD,
    },
    Claim {
        section: "§6.3",
        words: "with its cache Sundial sends fewer bytes in execution",
        test: Test::CostsMore {
            these: &[SUNDIAL],
            than: &[HYBRID],
            cost: Cost::Bytes(Part::Execution),
            point: THREADS,
        },
        reason: "",
    },
];

const LOW_CONTENTION: &[Claim] = &[
    Claim {
        section: "§6.3",
        words: "Sundial and two-phase locking are equally fast",
        test: Test::Times { of: At(SUNDIAL, Coarse, MOST), to: At(WAIT_DIE, Coarse, MOST), paper: 1.0 },
        reason: "",
    },
    Claim {
        section: "§6.3",
        words: "30 % faster than F1",
        test: Test::Times { of: At(SUNDIAL, Coarse, MOST), to: At(F1, Coarse, MOST), paper: 1.3 },
        reason: TOLD,
    },
    Claim {
        section: "§6.3",
        words: "and than MaaT",
        test: Test::Times { of: At(SUNDIAL, Coarse, MOST), to: At(MAAT, Coarse, MOST), paper: 1.3 },
        reason: TOLD,
    },
];

const FIGURE_7_MESSAGES: &[Claim] = &[
    Claim {
        section: "ours, of §6.3",
        words: "the 57 % that Sundial is faster than the next, if a message takes 0.2 µs",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, 200), others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "ours, of §6.3",
        words: "if it takes 10 µs",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, 10_000), others: PAPERS, paper: 1.57 },
        reason: BUSY_THREADS,
    },
    Claim {
        section: "ours, of §6.3",
        words: "and if it takes 20 µs, so that it does not need cheap messages",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, 20_000), others: PAPERS, paper: 1.57 },
        reason: BUSY_THREADS,
    },
    Claim {
        section: "ours, of §6.3",
        words: "as printed, without what is ours, if a message takes 0.2 µs",
        test: Test::TimesNext { of: At(PRINTED, Coarse, 200), others: PAPERS, paper: 1.57 },
        reason: LEAD,
    },
    Claim {
        section: "ours",
        words: "whatever a message takes, Sundial is faster than each of the paper's others",
        test: Test::Faster { of: SUNDIAL, than: &[WAIT_DIE, F1, MAAT], granularity: Coarse, points: &[] },
        reason: BUSY_THREADS,
    },
];

/// What decides when messages are dear.
const BUSY_THREADS: &str = "the threads for messages are busy all the time then, and who sends the fewest, failed attempts included, is the fastest";

/// What is told to whom at the end.
const TOLD: &str = "whoever has only read under F1 and MaaT is asked whether it agrees, told of the end, and waited for; under Sundial neither, if its leases last; under two-phase \
     locking it lets go with its vote, and is told nothing";

const EARLY: &str =
    "whoever fails under two-phase locking fails early, most often at home, where little is lost with it";

const FIGURE_14: &[Claim] = &[
    Claim {
        section: "§6.7",
        words: "all are slower on two servers than on one, as transactions must be coordinated then",
        test: Test::Falls { protocols: &[], granularity: Coarse, cores: 2 },
        reason: "",
    },
    Claim {
        section: "§6.7",
        words: "and drop to the same level",
        test: Test::Alike { protocols: &[SUNDIAL, WAIT_DIE, F1, MAAT], points: &[2] },
        reason: "under F1 and MaaT whoever has only been read at is told of the end, and waited for; and under two-phase locking, which tells them nothing, more fails than under Sundial",
    },
    Claim {
        section: "§6.7",
        words: "from two servers on, all are the faster the more there are",
        test: Test::Grows { protocols: &[SUNDIAL, WAIT_DIE, F1, MAAT, DYNAMIC], from: 2, until: None },
        reason: "",
    },
    Claim {
        section: "§6.7",
        words: "Sundial stays ahead of the others",
        test: Test::Faster { of: SUNDIAL, than: PAPERS, granularity: Coarse, points: &[4, 8, 12, 16, 20] },
        reason: "",
    },
    Claim {
        section: "§6.7",
        words: "and does so as printed, without what is ours",
        test: Test::Faster { of: PRINTED, than: PAPERS, granularity: Coarse, points: &[4, 8, 12, 16, 20] },
        reason: LEAD,
    },
    Claim {
        section: "ours",
        words: "and of what the paper has not got: ranges that freeze for a time only",
        test: Test::Faster {
            of: SUNDIAL,
            than: &[DYNAMIC],
            granularity: Coarse,
            points: &[4, 8, 12, 16, 20],
        },
        reason: "ranges that are not frozen without end let most of those through whom Sundial makes abort",
    },
];

/// What the lead of ours is where a round trip takes long.
const ROUND_TRIPS: &str = "48 workers seldom meet over eighty million rows: of two-phase locking's attempts 17 % fail, and so much is left to gain. With a hundredth of the rows (`--rows 100000`) it is 1.21 times, and 1.15 as printed";

const FIGURE_15: &[Claim] = &[
    Claim {
        section: "Figure 15a",
        words: "without its cache Sundial commits 158 a second",
        test: Test::PerSecond { at: At(SUNDIAL, Coarse, SMALL), paper: 158.0, or_more: false },
        reason: "the text has round trips of about 100 ms; between the datacenters of the public figures that are taken here one takes 167 ms in the mean",
    },
    Claim {
        section: "Figure 15a",
        words: "and with it more: 161",
        test: Test::Faster { of: HYBRID, than: &[SUNDIAL], granularity: Coarse, points: &[SMALL] },
        reason: REMOTE,
    },
    Claim {
        section: "§6.8",
        words: "as the cache spares traffic",
        test: Test::CostsMore {
            these: &[SUNDIAL],
            than: &[HYBRID],
            cost: Cost::Bytes(Part::All),
            point: SMALL,
        },
        reason: "most bytes are of attempts that fail here, as pauses are a hundredth of a round trip; and with copies more fail, and sooner",
    },
    Claim {
        section: "Figure 15a",
        words: "the 158 are 1.30 times two-phase locking (122)",
        test: Test::Times { of: At(SUNDIAL, Coarse, SMALL), to: At(WAIT_DIE, Coarse, SMALL), paper: 1.30 },
        reason: ROUND_TRIPS,
    },
    Claim {
        section: "Figure 15a",
        words: "or are, as printed, without what is ours",
        test: Test::Times { of: At(PRINTED, Coarse, SMALL), to: At(WAIT_DIE, Coarse, SMALL), paper: 1.30 },
        reason: ROUND_TRIPS,
    },
    Claim {
        section: "Figure 15a",
        words: "and 1.40 times F1 (113)",
        test: Test::Times { of: At(SUNDIAL, Coarse, SMALL), to: At(F1, Coarse, SMALL), paper: 1.40 },
        reason: ROUND_TRIPS,
    },
    Claim {
        section: "Figure 15a",
        words: "and 1.48 times MaaT (107)",
        test: Test::Times { of: At(SUNDIAL, Coarse, SMALL), to: At(MAAT, Coarse, SMALL), paper: 1.48 },
        reason: ROUND_TRIPS,
    },
];

const GROWING: &[Claim] = &[
    Claim {
        section: "ours",
        words: "messages and bytes for each commit are the same on any number of servers from 16 on, within 10 %: more only as fewer rows of a transaction are at one server by chance",
        test: Test::SameTraffic { protocols: &[SUNDIAL, WAIT_DIE, F1, MAAT, DYNAMIC, TICTOC] },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "sixteen times the servers commit at least fifteen times as much",
        test: Test::AtLeast { of: At(SUNDIAL, Coarse, 256), to: At(SUNDIAL, Coarse, 16), times: 15.0 },
        reason: "",
    },
];

/// What of Figure 14 is not here.
const IN_THE_CLOUD: &[(&str, &str)] = &[
    (
        "virtual machines of Amazon",
        "messages and accesses take what they take in Figure 7 here; the text says of neither how long",
    ),
    ("a cache, and reading what is prepared", "as in Figure 7"),
    COLD_START,
];

/// What of Figure 15.
const FAR_AWAY: &[(&str, &str)] = &[
    ("figures of traffic by phase", "the paper plots Figure 15b and states none of its figures"),
    ("reading what is prepared, and who waits for it", "as in Figure 7"),
    COLD_START,
];

/// Beside what a message takes, where that varies: what else is at work while the threads for messages are busy, and whether they are.
const DEAR_ALTERNATIVES: &[Alternative] = &[TOGETHER, FAR_MESSAGES, MESSAGE_THREADS, AT_ONCE, UNBUFFERED];

/// How many messages a commit takes, whatever the number of servers.
const GROWING_ALTERNATIVES: &[Alternative] = &[TOGETHER, MOSTLY_REMOTE];

const SPREAD_ALTERNATIVES: &[Alternative] =
    &[TOGETHER, DEAR_MESSAGES, FAR_MESSAGES, MESSAGE_THREADS, UNBUFFERED, OUR_COMMIT];

const FAR_ALTERNATIVES: &[Alternative] = &[
    PREPARED_READ_ALWAYS,
    YOUNGER_REFUSED,
    NOTHING_LENT,
    TOGETHER,
    DEAR_MESSAGES,
    SLOW_ACCESSES,
    OUR_COMMIT,
    UNBUFFERED,
    Alternative {
        words: "pauses of up to a round trip after conflicts",
        change: |variant| of_servers(variant, |servers| servers.backoff_round_trips = 1),
    },
];
