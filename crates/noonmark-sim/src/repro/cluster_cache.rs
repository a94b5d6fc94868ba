//! *Sundial*'s cache across servers: Figures 10 and 11, and Table 1, in the setting of [`cluster`](super::cluster).
//!
//! Each server keeps copies of rows of the others. Table 1 and Figure 10 have reads by a power law and writes drawn evenly, as in a social
//! network; Figure 11 has its three policies by the share of writes.
//!
//! **What is chosen where the text leaves a choice**, before any figure was looked at:
//!
//! - A cache has room for a tenth of a server's rows, but where that varies, as in the text.
//! - A tenth of the accesses are to other servers, as everywhere: the text does not say so again here.
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    AT_ONCE, DEAR_MESSAGES, EXTENDED_FURTHER, HALF_THE_VOTES, MESSAGE_THREADS, MOSTLY_REMOTE, OUR_COMMIT,
    PRINTED_ALTERNATIVE, TOGETHER, UNBUFFERED, of_servers,
};
use super::cluster::{
    COLD_START, FIGURE, FIRST_ACCESS, HYBRID, MESSAGES_NS, PREPARED_READ, REMOTE, SERVERS, SPANNING, SUNDIAL,
    THREADS, VARIANT, YOUNGER,
};
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, Part, Points, Reuse, Rules, Servers, Spanning, Test,
    Variant, Workload,
};
use noonmark_workloads::store::Granularity::Coarse;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "sundial-fig10",
        title: "YCSB on four servers, read by a power law and written evenly: throughput by how hot the hot rows are",
        figure: "Sundial, Figure 10a",
        variant: Variant { workload: Workload::Spanning(SOCIAL), ..VARIANT },
        axis: Axis::Skew { workers: THREADS },
        points: Points { all: &[60, 80, 90, 100, 130, 170], few: &[60, 170] },
        protocols: &[SUNDIAL, HYBRID],
        claims: FIGURE_10,
        alternatives: CACHE_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (HYBRID, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig11",
        title: "YCSB on four servers, a tenth of the accesses remote: policies of the cache by the share of writes",
        figure: "Sundial, Figure 11",
        axis: Axis::Writes { workers: THREADS },
        points: Points { all: &[0, 1, 3, 10, 30, 100], few: &[0, 10, 100] },
        protocols: &[SUNDIAL, ALWAYS, NEVER, HYBRID],
        claims: FIGURE_11,
        alternatives: CACHE_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (ALWAYS, Coarse), (HYBRID, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig11-cheap",
        title: "the same with messages that take 0.2 µs: policies of the cache by the share of writes",
        figure: "Sundial, Figure 11, with cheap messages",
        variant: Variant { workload: Workload::Spanning(with_messages(200)), ..VARIANT },
        axis: Axis::Writes { workers: THREADS },
        points: Points { all: &[0, 1, 3, 10, 30, 100], few: &[0, 3, 10, 100] },
        protocols: &[SUNDIAL, ALWAYS, HYBRID],
        claims: FIGURE_11_CHEAP,
        alternatives: OF_MESSAGES,
        ablated: &[(SUNDIAL, Coarse), (ALWAYS, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig11-dear",
        title: "the same with messages that take 10 µs: policies of the cache by the share of writes",
        figure: "Sundial, Figure 11, with dear messages",
        variant: Variant { workload: Workload::Spanning(with_messages(10_000)), ..VARIANT },
        axis: Axis::Writes { workers: THREADS },
        points: Points { all: &[0, 1, 3, 10, 30, 100], few: &[0, 10, 30, 100] },
        protocols: &[SUNDIAL, ALWAYS, HYBRID],
        claims: FIGURE_11_DEAR,
        alternatives: OF_MESSAGES,
        ablated: &[(SUNDIAL, Coarse), (ALWAYS, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig11-messages",
        title: "the same with 1 % of writes: policies of the cache by what a message takes",
        figure: "Sundial, Figure 11, by messages",
        variant: Variant {
            workload: Workload::Spanning(Spanning { writes_permille: 10, ..SPANNING }),
            ..VARIANT
        },
        axis: Axis::Messages { workers: THREADS },
        points: Points { all: MESSAGES_NS, few: &[200, 10_000] },
        protocols: &[SUNDIAL, ALWAYS, NEVER, HYBRID],
        claims: FIGURE_11_MESSAGES,
        alternatives: DEAR_CACHE_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse), (ALWAYS, Coarse), (HYBRID, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
    Experiment {
        name: "sundial-table1",
        title: "the same as Figure 10 at an exponent of 1.3: throughput by the size of the cache",
        figure: "Sundial, Table 1",
        variant: Variant { workload: Workload::Spanning(Spanning { reads_skew: 130, ..SOCIAL }), ..VARIANT },
        axis: Axis::Cache { workers: THREADS },
        points: Points { all: &[0, 2, 6, 25, 100, 400], few: &[0, 25, 400] },
        protocols: &[HYBRID],
        claims: TABLE_1,
        alternatives: CACHE_ALTERNATIVES,
        ablated: &[(HYBRID, Coarse)],
        left_out: OF_THE_CACHE,
        ..FIGURE
    },
];

const ALWAYS: Rules = Rules::Copying(Reuse::Always);
const NEVER: Rules = Rules::Copying(Reuse::Never);

/// Rows that many read and few write: the reads of a social network.
const SOCIAL: Spanning = Spanning { writes_skew: 0, ..SPANNING };

/// Figure 11's, with messages that take so long at either end.
const fn with_messages(ns: u32) -> Spanning {
    Spanning { servers: Servers { handling_ns: ns, sending_ns: ns, ..SERVERS }, ..SPANNING }
}

/// What else a message's price goes with.
const OF_MESSAGES: &[Alternative] = &[PRINTED_ALTERNATIVE, OUR_COMMIT, MOSTLY_REMOTE];

const FIGURE_11_CHEAP: &[Claim] = &[
    Claim {
        section: "ours, of §6.4.4",
        words: "the cheaper a message is, the fewer writes it takes until copies that are always reused are slower than none: 0.3 % if one takes 0.2 µs",
        test: Test::FallsBehind { of: ALWAYS, than: SUNDIAL, paper: 3 },
        reason: "as many as with messages ten times as dear (Figure 11): what a thread takes for one is little then beside what it is on its way",
    },
    NEVER_SLOWER,
];

const FIGURE_11_DEAR: &[Claim] = &[
    Claim {
        section: "ours, of §6.4.4",
        words: "the dearer a message is, the more writes it takes until copies that are always reused are slower than none: 10 % if one takes 10 µs",
        test: Test::FallsBehind { of: ALWAYS, than: SUNDIAL, paper: 100 },
        reason: "more yet: with a tenth both come to the same, as what copies spare is what an attempt costs that fails",
    },
    NEVER_SLOWER,
];

/// That of votes, whatever a message takes.
const NEVER_SLOWER: Claim = Claim {
    section: "§6.4.4",
    words: "the hybrid policy is never slower than none",
    test: Test::AtMost { of: SUNDIAL, to: HYBRID, granularity: Coarse, paper: 1.02 },
    reason: VOTES,
};

/// Where reuse begins to cost more than it spares.
const FEW_SPARED: &str = "it hangs on how many accesses are to other servers, and so on how many messages copies spare, beside what an attempt costs that fails: see the choices";

const FIGURE_11_MESSAGES: &[Claim] = &[
    Claim {
        section: "ours, of §6.4.4",
        words: "copies that are always reused, which with more than 1 % of writes are slower than none, are so with 1 %, whatever a message takes",
        test: Test::Faster { of: SUNDIAL, than: &[ALWAYS], granularity: Coarse, points: &[] },
        reason: "a failed attempt costs more than the messages that copies spare only while messages are cheap",
    },
    Claim {
        section: "ours, of §6.4.4",
        words: "the hybrid policy never is",
        test: Test::AtMost { of: SUNDIAL, to: HYBRID, granularity: Coarse, paper: 1.02 },
        reason: VOTES,
    },
];

const FIGURE_10: &[Claim] = &[
    Claim {
        section: "§6.4.2",
        words: "at an exponent of 1.7, with the cache 4.6 times as many transactions commit",
        test: Test::Times { of: At(HYBRID, Coarse, 170), to: At(SUNDIAL, Coarse, 170), paper: 4.6 },
        reason: REMOTE,
    },
    Claim {
        section: "§6.4.2",
        words: "at 0.6 the cache does not help much: at most by a fifth, say",
        test: Test::NoMore { of: At(HYBRID, Coarse, 60), to: At(SUNDIAL, Coarse, 60), times: 1.2 },
        reason: "",
    },
    Claim {
        section: "Figure 10b",
        words: "at 1.7 a commit sends 5.24 times as many bytes without the cache",
        test: Test::TimesBytes { of: At(SUNDIAL, Coarse, 170), to: At(HYBRID, Coarse, 170), paper: 5.24 },
        reason: REMOTE,
    },
    Claim {
        section: "Figure 10c",
        words: "and takes 3.8 times as long, without what it spends put aside",
        test: Test::TimesCost {
            of: At(SUNDIAL, Coarse, 170),
            to: At(HYBRID, Coarse, 170),
            cost: Cost::Time(Part::Working),
            paper: 3.8,
        },
        reason: LOOP,
    },
    Claim {
        section: "Figure 10c",
        words: "or does with that",
        test: Test::TimesCost {
            of: At(SUNDIAL, Coarse, 170),
            to: At(HYBRID, Coarse, 170),
            cost: Cost::Time(Part::All),
            paper: 3.8,
        },
        reason: LOOP,
    },
    Claim {
        section: "ours, of Figure 10c",
        words: "who is at work all the time gains as much in time as in throughput, so that the paper's 4.6 and 3.8 do not go together",
        test: Test::ClosedLoop { of: At(HYBRID, Coarse, 170), to: At(SUNDIAL, Coarse, 170) },
        reason: "",
    },
    Claim {
        section: "§4",
        words: "what is spared is in execution: time",
        test: Test::CostsMore {
            these: &[SUNDIAL],
            than: &[HYBRID],
            cost: Cost::Time(Part::Execution),
            point: 170,
        },
        reason: "",
    },
    Claim {
        section: "§4",
        words: "and bytes",
        test: Test::CostsMore {
            these: &[SUNDIAL],
            than: &[HYBRID],
            cost: Cost::Bytes(Part::Execution),
            point: 170,
        },
        reason: "",
    },
];

/// Why time and throughput go together.
const LOOP: &str = "whoever is at work all the time commits so many times as much in so many times less time: 3.8 and 4.6 do not go together";

const FIGURE_11: &[Claim] = &[
    Claim {
        section: "§6.4.4",
        words: "without writes, copies that are always reused are faster than none",
        test: Test::Faster { of: ALWAYS, than: &[SUNDIAL], granularity: Coarse, points: &[0] },
        reason: "",
    },
    Claim {
        section: "§6.4.4",
        words: "from about 1 % of writes on they are slower than none",
        test: Test::FallsBehind { of: ALWAYS, than: SUNDIAL, paper: 10 },
        reason: FEW_SPARED,
    },
    Claim {
        section: "§6.4.4",
        words: "and so they are with 3 % and with 10 %",
        test: Test::Faster { of: SUNDIAL, than: &[ALWAYS], granularity: Coarse, points: &[30, 100] },
        reason: "a tenth of writes does it, with messages of 0.2 µs as with these (`sundial-fig11-cheap`); with those of 10 µs no share does (`sundial-fig11-dear`)",
    },
    Claim {
        section: "§6.4.4",
        words: "without writes, copies that are always asked about are faster than none",
        test: Test::Faster { of: NEVER, than: &[SUNDIAL], granularity: Coarse, points: &[0] },
        reason: "",
    },
    Claim {
        section: "§6.4.4",
        words: "and slower than those that are always reused",
        test: Test::Faster { of: ALWAYS, than: &[NEVER], granularity: Coarse, points: &[0] },
        reason: "",
    },
    Claim {
        section: "§6.4.4",
        words: "they spare traffic: bytes, with a tenth of writes",
        test: Test::CostsMore { these: &[SUNDIAL], than: &[NEVER], cost: Cost::Bytes(Part::All), point: 100 },
        reason: "",
    },
    Claim {
        section: "§6.4.4",
        words: "copies that are always asked about are never slower than none",
        test: Test::AtMost { of: SUNDIAL, to: NEVER, granularity: Coarse, paper: 1.02 },
        reason: "the same messages are sent either way, and rows are no load for this network: what is left is who meets whom, a few percent either way \
                 from seed to seed where a tenth are writes",
    },
    Claim {
        section: "§6.4.4",
        words: "the hybrid policy is as fast as the better of the two with any share of writes: as always reusing",
        test: Test::AtMost { of: ALWAYS, to: HYBRID, granularity: Coarse, paper: 1.05 },
        reason: VOTES,
    },
    Claim {
        section: "§6.4.4",
        words: "and as always asking",
        test: Test::AtMost { of: NEVER, to: HYBRID, granularity: Coarse, paper: 1.05 },
        reason: VOTES,
    },
    NEVER_SLOWER,
];

const VOTES: &str = "votes count how often a copy is current, and not what an attempt that fails costs beside a message that is spared: where a hundredth are \
     writes, nearly all copies are, and it does as always reusing";

/// Why a cache gains less, and a larger one no more.
const COLD: &str = "what is left is work that no copy spares: accesses at home, writes, and the commit, in which leases of copies are renewed. The paper's caches have been filled for half a minute before; here none is filled in the time of a run, \
     so that all sizes come to the same. And it hangs on how many of the accesses are to other servers, which the text does not say again here";

const TABLE_1: &[Claim] = &[
    Claim {
        section: "Table 1",
        words: "with 16 MB beside ten gigabytes of rows 3.33 times as much commits as with no cache (429 for 129)",
        test: Test::Times { of: At(HYBRID, Coarse, 2), to: At(HYBRID, Coarse, 0), paper: 3.33 },
        reason: COLD,
    },
    Claim {
        section: "Table 1",
        words: "with 64 MB 3.53 times (455)",
        test: Test::Times { of: At(HYBRID, Coarse, 6), to: At(HYBRID, Coarse, 0), paper: 3.53 },
        reason: COLD,
    },
    Claim {
        section: "Table 1",
        words: "with 256 MB 3.62 times (467)",
        test: Test::Times { of: At(HYBRID, Coarse, 25), to: At(HYBRID, Coarse, 0), paper: 3.62 },
        reason: COLD,
    },
    Claim {
        section: "Table 1",
        words: "with 1 GB 3.58 times (462)",
        test: Test::Times { of: At(HYBRID, Coarse, 100), to: At(HYBRID, Coarse, 0), paper: 3.58 },
        reason: COLD,
    },
    Claim {
        section: "Table 1",
        words: "and with 4 GB no more (462), of which here neither is filled",
        test: Test::NoMore { of: At(HYBRID, Coarse, 400), to: At(HYBRID, Coarse, 25), times: 1.05 },
        reason: "",
    },
];

const CACHE_ALTERNATIVES: &[Alternative] = &[
    PRINTED_ALTERNATIVE,
    OUR_COMMIT,
    MOSTLY_REMOTE,
    TOGETHER,
    DEAR_MESSAGES,
    UNBUFFERED,
    HALF_THE_VOTES,
    Alternative {
        words: "leases of whole tables",
        change: |variant| of_servers(variant, |servers| servers.leases_tables = true),
    },
    EXTENDED_FURTHER,
];

/// What of the cache's figures is not here.
const OF_THE_CACHE: &[(&str, &str)] = &[
    (
        "figures of latency and traffic by phase",
        "the paper plots Figures 10b and 10c and states a figure for each as a whole, at 1.7",
    ),
    ("two votes for all tables", "votes are counted for each table, and are a share of all"),
    PREPARED_READ,
    YOUNGER,
    FIRST_ACCESS,
    COLD_START,
];

/// The same for policies of the cache: what a failed attempt costs, what copies spare, and who is asked about them.
const DEAR_CACHE_ALTERNATIVES: &[Alternative] =
    &[PRINTED_ALTERNATIVE, MOSTLY_REMOTE, TOGETHER, MESSAGE_THREADS, AT_ONCE, UNBUFFERED, HALF_THE_VOTES];
