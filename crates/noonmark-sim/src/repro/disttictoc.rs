//! *DistTicToc*: its evaluation, at virtual workers that share nothing.
//!
//! One, two or three workers, each a thread with its own partition, by hash, and its own queue; before them one network server, a thread that
//! hands each message on; and clients, each with one transaction at a time. A transaction reads one row (read-only), or moves
//! money between four accounts: reads, changes and writes them all.
//!
//! The paper plots and states hardly any figure: what is compared is what its text says of the curves.
//!
//! **What is chosen where the text leaves a choice**, before any figure was looked at:
//!
//! - The text names neither how many clients there were (four different numbers), nor how many rows and accounts, nor how many accounts a
//!   transfer has. Here they are 8, 16, 32 and 64 clients, a tenth of what YCSB has elsewhere of rows, and four accounts, as in the
//!   benchmark of the bank ([`noonmark_workloads::bank::BankSpec::disttictoc`]).
//! - Messages are as cheap as between cores: 1 µs on their way, 0.2 µs of whoever takes one out of a queue, the network server like a
//!   worker. The paper's clients came over Unix sockets with Protocol Buffers, which take several times that; see the choices.
//! - An access takes 1 µs, as in Sundial's figures, and so does what is seen to of each row at the commit.
//! - Whoever has failed pauses for up to ten times as long as a message is on its way; and nobody waits for another for longer than 100 µs: the
//!   text has each worker lock in the order of its keys, but two workers may have two transactions in two orders, and it does not say
//!   what becomes of those.
//!
//! - Figure 8 has a hundredth of the accounts of the others: where they are many, hardly any attempt fails under any protocol. (This was
//!   chosen because of that, and not for which of them fails less.)
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::cluster::VARIANT;
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, Part, Points, Rules, Sharing, Test, Variant, Workers,
    Workload,
};
use crate::network::disttictoc::WorkingSet::{Apart, Combined};
use noonmark::Protocol;
use noonmark_workloads::store::Granularity::Coarse;

const ONE: Rules = Rules::Sets(Combined, Workers::One);
const TWO: Rules = Rules::Sets(Combined, Workers::Two);
const THREE: Rules = Rules::Sets(Combined, Workers::Three);
const COMBINED: Rules = Rules::Sets(Combined, Workers::Varied);
const APART: Rules = Rules::Sets(Apart, Workers::Varied);
const FIXED: Rules = Rules::Engine(Protocol::Fixed);

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "disttictoc-fig6",
        title: "transfers at one, two and three workers: throughput, and the time of a commit, by clients",
        figure: "DistTicToc, Figures 6b and 6c",
        protocols: &[ONE, TWO, THREE],
        claims: FIGURE_6,
        ablated: &[(ONE, Coarse), (THREE, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "disttictoc-fig6a",
        title: "reads at one, two and three workers: throughput by clients",
        figure: "DistTicToc, Figure 6a",
        variant: Variant { workload: Workload::Sharing(READS), ..VARIANT },
        protocols: &[ONE, TWO, THREE],
        claims: FIGURE_6A,
        alternatives: OF_MESSAGES,
        ablated: &[(ONE, Coarse), (THREE, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "disttictoc-fig7",
        title: "transfers of 64 clients: throughput by workers",
        figure: "DistTicToc, Figure 7b",
        axis: BY_WORKERS,
        points: TO_SIXTEEN,
        protocols: &[COMBINED, APART],
        claims: FIGURE_7,
        ablated: &[(COMBINED, Coarse), (APART, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "disttictoc-fig7a",
        title: "reads of 64 clients: throughput by workers",
        figure: "DistTicToc, Figure 7a",
        variant: Variant { workload: Workload::Sharing(READS), ..VARIANT },
        axis: BY_WORKERS,
        points: TO_SIXTEEN,
        protocols: &[COMBINED],
        claims: FIGURE_7A,
        alternatives: OF_MESSAGES,
        ablated: &[(COMBINED, Coarse)],
        ..FIGURE
    },
    Experiment {
        name: "disttictoc-fig8",
        title: "transfers of 64 clients between few accounts: attempts that fail, by workers",
        figure: "DistTicToc, Figure 8",
        variant: Variant { workload: Workload::Sharing(Sharing { fewer_rows: 100, ..TRANSFERS }), ..VARIANT },
        axis: BY_WORKERS,
        points: Points { all: &[1, 2, 3], few: &[1, 3] },
        protocols: &[COMBINED, APART, FIXED],
        claims: FIGURE_8,
        alternatives: OF_FAILURES,
        ablated: &[(COMBINED, Coarse), (APART, Coarse), (FIXED, Coarse)],
        ..FIGURE
    },
];

/// The most clients.
const CLIENTS: usize = 64;

const BY_WORKERS: Axis = Axis::Nodes { clients: CLIENTS };

/// As far as the paper, and past it.
const TO_SIXTEEN: Points = Points { all: &[1, 2, 3, 4, 8, 16], few: &[1, 2, 3] };

const TRANSFERS: Sharing = Sharing {
    workers: 3,
    accounts: 4,
    fewer_rows: 1,
    together: false,
    backoff_max_us: 10,
    latency_ns: 1_000,
    handling_ns: 200,
    server_ns: Some(200),
    access_ns: 1_000,
    wait_max_us: 100,
};

/// Transactions of one read.
const READS: Sharing = Sharing { accounts: 0, ..TRANSFERS };

const FIGURE: Experiment = Experiment {
    variant: Variant { workload: Workload::Sharing(TRANSFERS), ..VARIANT },
    axis: Axis::Clients,
    points: Points { all: &[8, 16, 32, CLIENTS], few: &[8, CLIENTS] },
    alternatives: ALTERNATIVES,
    left_out: LEFT_OUT,
    ..super::cluster::FIGURE
};

/// Changes what is about the workload.
fn of_workload(variant: &mut Variant, change: fn(&mut Sharing)) {
    if let Workload::Sharing(sharing) = &mut variant.workload {
        change(sharing);
    }
}

const WITHOUT_SERVER: Alternative = Alternative {
    words: "no network server: clients put messages into the queues themselves",
    change: |variant| of_workload(variant, |sharing| sharing.server_ns = None),
};
const SOCKETS: Alternative = Alternative {
    words: "a network server that takes 2 µs for each message",
    change: |variant| of_workload(variant, |sharing| sharing.server_ns = Some(2_000)),
};
const NEAR: Alternative = Alternative {
    words: "accesses that take 0.2 µs",
    change: |variant| of_workload(variant, |sharing| sharing.access_ns = 200),
};

/// What both workloads hang on.
const OF_MESSAGES: &[Alternative] = &[WITHOUT_SERVER, SOCKETS, NEAR];

const TOGETHER: Alternative = Alternative {
    words: "a transfer's accounts asked for together",
    change: |variant| of_workload(variant, |sharing| sharing.together = true),
};
const TWO_ACCOUNTS: Alternative = Alternative {
    words: "transfers of two accounts",
    change: |variant| of_workload(variant, |sharing| sharing.accounts = 2),
};
const SHORT_WAITS: Alternative = Alternative {
    words: "nobody waits for longer than 10 µs",
    change: |variant| of_workload(variant, |sharing| sharing.wait_max_us = 10),
};

const ALTERNATIVES: &[Alternative] = &[
    WITHOUT_SERVER,
    SOCKETS,
    NEAR,
    TOGETHER,
    TWO_ACCOUNTS,
    Alternative {
        words: "a hundredth of the accounts",
        change: |variant| of_workload(variant, |sharing| sharing.fewer_rows = 100),
    },
    SHORT_WAITS,
];

/// Where accounts are few already.
const OF_FAILURES: &[Alternative] = &[
    WITHOUT_SERVER,
    SOCKETS,
    NEAR,
    TOGETHER,
    TWO_ACCOUNTS,
    Alternative {
        words: "a tenth of the accounts",
        change: |variant| of_workload(variant, |sharing| sharing.fewer_rows = 1_000),
    },
    SHORT_WAITS,
];

/// What of the paper's experiments is not here.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "figures",
        "the paper plots Figures 6, 7 and 8 and states none of their figures: what is compared is what its text says of the curves",
    ),
    (
        "Apache Cassandra and PostgreSQL",
        "programs of others, over sockets of their own. Beside Figure 8's PostgreSQL stands multiversion ordering here, whose transactions take place \
         when they begin",
    ),
    (
        "updates as messages",
        "the paper's client sends each update as it makes it; here it goes along with the next message to the row's worker, which spares a message \
         for each",
    ),
    (
        "three rounds to commit",
        "the paper's workers exchange their commit times, then their votes, then install. Here the commit time is known from the answers so far, \
         so that sealing and validating are one round, and the client does not wait for the installing",
    ),
];

/// Why more clients are slower to be served.
const QUEUES: &str = "with more clients than the workers can serve at a time, each waits in the queues for the others: in a closed loop what is not \
     throughput is latency. The paper's own clients may have been the slower part";

/// Why there is more to be had with more clients.
const FEW: &str = "few clients do not keep all workers busy, as each has one message under way";

const FIGURE_6: &[Claim] = &[
    Claim {
        section: "§3.2",
        words: "throughput does not depend on how many clients there are: within a quarter",
        test: Test::Flat { protocols: &[ONE, TWO, THREE] },
        reason: FEW,
    },
    Claim {
        section: "§3.2",
        words: "nor does the time to commit",
        test: Test::CostsAsMuch { protocols: &[ONE, TWO, THREE], cost: Cost::Time(Part::Prepare) },
        reason: QUEUES,
    },
    Claim {
        section: "§3.2",
        words: "which is the shorter the more workers share the validation: two against one",
        test: Test::CostsMore {
            these: &[ONE],
            than: &[TWO],
            cost: Cost::Time(Part::Prepare),
            point: CLIENTS,
        },
        reason: "",
    },
    Claim {
        section: "§3.2",
        words: "three against two",
        test: Test::CostsMore {
            these: &[TWO],
            than: &[THREE],
            cost: Cost::Time(Part::Prepare),
            point: CLIENTS,
        },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "and so with few clients",
        test: Test::CostsMore { these: &[ONE], than: &[THREE], cost: Cost::Time(Part::Prepare), point: 8 },
        reason: "a worker that decides alone needs one round, and says so at once; of several each must be asked",
    },
];

const FIGURE_6A: &[Claim] = &[Claim {
    section: "§3.1",
    words: "throughput does not depend on how many clients there are: within a quarter",
    test: Test::Flat { protocols: &[ONE, TWO, THREE] },
    reason: FEW,
}];

const FIGURE_7: &[Claim] = &[
    Claim {
        section: "§3.2",
        words: "transfers grow linearly with the workers, though they must talk to each other: three commit at least 2.25 times what one does",
        test: Test::AtLeast { of: At(COMBINED, Coarse, 3), to: At(COMBINED, Coarse, 1), times: 2.25 },
        reason: ALONE,
    },
    Claim {
        section: "§3.2",
        words: "each one more commits more",
        test: Test::Grows { protocols: &[COMBINED, APART], from: 1, until: Some(3) },
        reason: ALONE,
    },
    Claim {
        section: "ours",
        words: "and so does each from three to sixteen",
        test: Test::Grows { protocols: &[COMBINED, APART], from: 3, until: None },
        reason: "the one network server hands on each message, and is busy all the time from eight workers on",
    },
    Claim {
        section: "§2.4.2",
        words: "one working set or two sets is as many bytes",
        test: Test::TimesCost {
            of: At(COMBINED, Coarse, 3),
            to: At(APART, Coarse, 3),
            cost: Cost::Bytes(Part::All),
            paper: 1.0,
        },
        reason: "who fails sends more, and not both fail as often",
    },
];

/// Why a step is small.
const ALONE: &str = "one worker decides alone, and needs one round for each commit; from two on most transfers need two. And the one network server hands \
     on each message";

const FIGURE_7A: &[Claim] = &[
    Claim {
        section: "§3.1",
        words: "reads grow linearly with the workers: three commit at least 2.25 times what one does",
        test: Test::AtLeast { of: At(COMBINED, Coarse, 3), to: At(COMBINED, Coarse, 1), times: 2.25 },
        reason: ONE_SERVER,
    },
    Claim {
        section: "§3.1",
        words: "but less than three times",
        test: Test::NoMore { of: At(COMBINED, Coarse, 3), to: At(COMBINED, Coarse, 1), times: 3.0 },
        reason: "",
    },
    Claim {
        section: "§3.1",
        words: "each one more commits more",
        test: Test::Grows { protocols: &[COMBINED], from: 1, until: Some(3) },
        reason: ONE_SERVER,
    },
    Claim {
        section: "ours",
        words: "and so does each from three to sixteen",
        test: Test::Grows { protocols: &[COMBINED], from: 3, until: None },
        reason: ONE_SERVER,
    },
];

/// What bounds all workers.
const ONE_SERVER: &str = "the one network server hands on no more than one message in 0.2 µs";

const FIGURE_8: &[Claim] = &[
    Claim {
        section: "§3.2",
        words: "few attempts fail: fewer than where transactions take place when they begin, as under multiversion ordering",
        test: Test::FailsLess { of: COMBINED, than: FIXED, granularity: Coarse, from: 0 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "with sets apart the same",
        test: Test::FailsLess { of: APART, than: FIXED, granularity: Coarse, from: 0 },
        reason: "",
    },
];
