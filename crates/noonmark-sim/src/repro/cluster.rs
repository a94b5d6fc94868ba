//! *Sundial* across servers: its evaluation on a virtual network. What its experiments have in common: those of
//! [YCSB](super::cluster_ycsb) (Figures 7, 14, 15), of [aborts](super::cluster_aborts) (12), of the [cache](super::cluster_cache) (10, 11, Table 1), of
//! [clocks](super::cluster_clocks) (13), of [ranges](super::cluster_ranges) (Table 2) and of [TPC-C](super::cluster_tpcc) (8, 9).
//!
//! Four servers of so many workers each. A transaction has sixteen accesses to rows of one kilobyte, a tenth of them writes, which read the row
//! that they change, a tenth of them to one of the other servers, by a power law of 0.9 over each server's rows. Each worker has one transaction
//! at work at a time.
//!
//! **What is chosen where the text leaves a choice**, before any figure was looked at:
//!
//! - Accesses are one by one: the text has programs whose logic is intermixed with queries.
//! - A message is on its way for 30 µs, and takes 2 µs of the one output thread of its sender and of the one input thread of its receiver,
//!   which the text has; an access takes 1 µs. The text says none of these times. They are about what kernel sockets and hash tables
//!   of rows that are not in the cache take.
//! - Two-phase commit is as it is printed: every server where something is locked is asked to prepare, and a commit ends when all have been told. Ours
//!   is one of the choices.
//! - Whoever would write what a transaction under MaaT has read that prepares, and has frozen all times, aborts at once [Sundial §6.5]; not when it
//!   prepares itself, which is one of the choices.
//! - Whoever has failed is put into an abort buffer, and pauses for up to a millisecond, as in the text, while its worker runs another
//!   transaction. The text does not say how many there is room for: here, for ten.
//!
//! (Two-phase commit, MaaT and the abort buffer were otherwise at first, when figures were there already. The text decides all three.)
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    AT_ONCE, CHEAP_MESSAGES, COUNTED_AS_LATER, DEAR_MESSAGES, EXTENDED, FAR_MESSAGES, FROZEN_MET_LATE,
    LONG_TAIL, MESSAGE_THREADS, NEW_AGES, NOTHING_LENT, OUR_COMMIT, PREPARED_READ_ALWAYS, SLOW_ACCESSES,
    TEN_ROUND_TRIPS, TOGETHER, UNBUFFERED, UNBUFFERED_TOGETHER, YOUNGER_REFUSED, of_servers,
};
use super::{
    Alternative, Axis, Experiment, Kind, Points, Reuse, Rules, Servers, Site, Spanning, TwoPhaseCommit,
    Variant, Workload,
};
use crate::{Machine, Placement};
use noonmark::branch::FROZEN_TICKS;
use noonmark::{BUSY_TURNS_DEFAULT, Leases, Protocol, RANGE_ROOM_DEFAULT};
use noonmark_workloads::report::Failures;
use noonmark_workloads::store::Granularity::Coarse;

pub(super) const SUNDIAL: Rules = Rules::Engine(Protocol::Sundial);
pub(super) const WAIT_DIE: Rules = Rules::Engine(Protocol::TwoPhaseWaitDie);
pub(super) const F1: Rules = Rules::Engine(Protocol::F1);
pub(super) const PRINTED: Rules = Rules::Printed;
pub(super) const HYBRID: Rules = Rules::Copying(Reuse::Voted);
pub(super) const DYNAMIC: Rules = Rules::Engine(Protocol::Dynamic);
/// MaaT as it was measured.
pub(super) const MAAT: Rules = Rules::Freezing;
pub(super) const TICTOC: Rules = Rules::Engine(Protocol::TicToc);

/// What the paper has beside Sundial.
pub(super) const PAPERS: &[Rules] = &[WAIT_DIE, F1, MAAT];

/// Past the papers: with our two-phase commit.
pub(super) const OURS: Servers = Servers { two_phase_commit: TwoPhaseCommit::Ours, ..SERVERS };

/// The workers of a server of eight virtual threads: two see to messages.
pub(super) const SMALL: usize = 6;

/// The most workers of a server in the paper.
pub(super) const MOST: usize = 28;

/// As many as it has unless the text says otherwise.
pub(super) const THREADS: usize = 16;

/// What all of Sundial's experiments have in common, TPC-C's too.
pub(super) const SERVERS: Servers = Servers {
    count: 4,
    site: Site::Room,
    together: false,
    backoff_max_us: 1_000,
    backoff_round_trips: 0,
    abort_buffer: 10,
    new_ages: false,
    two_phase_commit: TwoPhaseCommit::AsPrinted,
    wait_max_us: 100_000,
    latency_us: 30,
    handling_ns: 2_000,
    sending_ns: 2_000,
    io_threads: 1,
    access_ns: 1_000,
    leases: Leases { extended_by: None, write_times: 0 },
    leases_tables: false,
    vote_percent: 80,
    reads_prepared: false,
    refuses_younger: false,
    lends: true,
    clocks_apart_us: 0,
    frozen_ticks: FROZEN_TICKS,
    meets_frozen_at_once: true,
    range_room: RANGE_ROOM_DEFAULT,
    begins_by_clock: false,
    then_is_later: false,
};

/// What YCSB's have.
pub(super) const SPANNING: Spanning = Spanning {
    servers: SERVERS,
    fewer_rows: 1,
    rows: None,
    writes_permille: 100,
    remote_percent: 10,
    reads_skew: 90,
    writes_skew: 90,
    cache_permille: 100,
    repetition: 0,
};

pub(super) const VARIANT: Variant = Variant {
    workload: Workload::Spanning(SPANNING),
    busy_turns: BUSY_TURNS_DEFAULT,
    backs_off: true,
    placement: Placement::Filled,
    machine: Machine::GRANULARITY,
};

pub(super) const FIGURE: Experiment = Experiment {
    name: "",
    title: "",
    figure: "",
    variant: VARIANT,
    axis: Axis::Workers,
    points: Points { all: &[], few: &[] },
    granularity: Coarse,
    compares: false,
    protocols: &[],
    claims: &[],
    failures: Failures::Share,
    kinds: &[],
    alternatives: ALTERNATIVES,
    ablated: &[],
    left_out: LEFT_OUT,
};

pub(super) const LATER: Kind = Kind { words: "(a)", rules: &["sundial: renew, replaced later"] };

/// What the figure has as case (b): both.
pub(super) const BEFORE: Kind =
    Kind { words: "(b)", rules: &["sundial: renew, replaced then", "sundial: renew, replaced before"] };
pub(super) const LOCKED: Kind = Kind { words: "(c)", rules: &["sundial: renew, locked"] };
pub(super) const WRITERS: Kind = Kind { words: "writers", rules: &["sundial: write", "sundial: seal"] };

/// Somebody who must come before has frozen all times that there are.
pub(super) const FROZEN: Kind = Kind { words: "frozen", rules: &["range: frozen"] };

/// No time is left for another reason; two who write one row, of whom one has locked it, are among them.
pub(super) const EMPTY: Kind = Kind {
    words: "ranges",
    rules: &["range: commit", "cluster: ranges", "dynamic: read", "dynamic: seal", "dynamic: validate"],
};

pub(super) const ALTERNATIVES: &[Alternative] = &[
    TOGETHER,
    CHEAP_MESSAGES,
    DEAR_MESSAGES,
    FAR_MESSAGES,
    LONG_TAIL,
    SLOW_ACCESSES,
    AT_ONCE,
    UNBUFFERED,
    UNBUFFERED_TOGETHER,
    TEN_ROUND_TRIPS,
    NEW_AGES,
    Alternative {
        words: "nobody kept waiting for longer than 0.2 ms",
        change: |variant| of_servers(variant, |servers| servers.wait_max_us = 200),
    },
    MESSAGE_THREADS,
    OUR_COMMIT,
    COUNTED_AS_LATER,
    PREPARED_READ_ALWAYS,
    YOUNGER_REFUSED,
    NOTHING_LENT,
    FROZEN_MET_LATE,
    EXTENDED,
    Alternative {
        words: "leases extended, and three write times",
        change: |variant| {
            of_servers(variant, |servers| servers.leases = Leases { extended_by: Some(0), write_times: 3 });
        },
    },
];

// What of the paper's experiments is not here.
pub(super) const PREPARED_READ: (&str, &str) = (
    "reading what is prepared",
    "in the paper a row whose writer has prepared is read until its lease ends. Here, but under Sundial as printed, only those read it who can still commit within that, for all \
     that is known; the others wait for what comes next: see the choices",
);

pub(super) const YOUNGER: (&str, &str) = (
    "the younger of two writers",
    "in the paper it aborts whenever the older one has the row. Here, but under Sundial as printed, it waits if that one has prepared, who waits for nobody: see the choices",
);

pub(super) const FIRST_ACCESS: (&str, &str) = (
    "a lock from the first access on",
    "in the paper nobody renews the lease of a row that somebody is going to write. Here, but under Sundial as printed, it can be renewed until that one prepares, who lends it until \
     just before it replaces the row: see the choices",
);

pub(super) const BY_PHASE: (&str, &str) = (
    "figures of latency and traffic by phase",
    "the paper plots Figures 7b and 7c and states none of their figures: what is compared is what its text says of them",
);

pub(super) const ONE_SEED: (&str, &str) = (
    "30 seconds",
    "here it is one seed, and what comes through in the time, without what is still put aside at its end, which is in no latency; another seed is another repetition (--seed, --seeds)",
);

pub(super) const CACHE_OFF: (&str, &str) = (
    "a cache",
    "the paper's default configuration has its cache on. Here it is off, but in the lines that name one of its policies: where a tenth are writes, it makes little difference (see Figure 7)",
);

/// Of most of them.
pub(super) const LEFT_OUT: &[(&str, &str)] =
    &[PREPARED_READ, YOUNGER, FIRST_ACCESS, BY_PHASE, ONE_SEED, CACHE_OFF];

/// From what hardware that needs no kernel takes for a message, to what a slow one does.
pub(super) const MESSAGES_NS: &[usize] = &[200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];

/// What comes before the paper's measurements.
pub(super) const COLD_START: (&str, &str) = (
    "30 seconds, after half a minute of warming up",
    "here it is one seed, and what comes through in the time, without what is still put aside at its end, which is in no latency; another seed is another repetition (--seed, --seeds). Copies are there of what has been read since the start",
);

/// Why other shares fail under MaaT.
pub(super) const SPARED: &str = "it hangs on for what share of its time a transaction has its ranges frozen: one by one (`sundial-fig12-servers`) 27.0 % fail so, and 4.5 for other reasons of ranges, all asked for together (`sundial-fig12-batched`) 35.5 and 5.7. What a message takes makes little of it: see the choices";

/// What the gain of the cache hangs on.
pub(super) const REMOTE: &str = "it hangs on how many of the accesses are to other servers, which the text does not say again here, and on how much work is \
     left that no copy spares: writes, commits, and accesses at home";
