//! *Sundial* across servers: its evaluation on a virtual network. Figures 7, 12, 14 and 15 are here, and what they have in common with those of the
//! [cache](super::cluster_cache) (10, 11, Table 1), of [clocks](super::cluster_clocks) (13), of [ranges](super::cluster_ranges) (Table 2) and of
//! [TPC-C](super::cluster_tpcc) (8, 9).
//!
//! Four servers of so many workers each. A transaction has sixteen accesses to rows of one kilobyte, a tenth of them writes, which read the row
//! that they change, a tenth of them to one of the other servers, by a power law of 0.9 over each server's rows. Each worker has one transaction
//! at a time.
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
//!   prepares itself, which is one of the choices. (This and the one before were otherwise at first, when figures were there already. The text decides
//!   both; so it does the abort buffer, with which only Figure 12 is run yet.)
//! - Whoever has failed pauses for up to a millisecond, as in the text; its worker does nothing else meanwhile, where the paper's takes
//!   up another transaction.
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    AT_ONCE, BUFFERED, BUFFERED_TOGETHER, CHEAP_MESSAGES, COUNTED_AS_LATER, DEAR_MESSAGES, EXTENDED,
    FAR_MESSAGES, FROZEN_MET_LATE, LONG_TAIL, MESSAGE_THREADS, MOSTLY_REMOTE, NEW_AGES, NOTHING_LENT,
    OUR_COMMIT, PREPARED_READ_ALWAYS, SLOW_ACCESSES, TEN_ROUND_TRIPS, TOGETHER, UNBUFFERED,
    UNBUFFERED_TOGETHER, YOUNGER_REFUSED, of_servers,
};
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, Kind, Part, Points, Reuse, Rules, Servers, Site,
    Spanning, Test, TwoPhaseCommit, Variant, Workload,
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
const TICTOC: Rules = Rules::Engine(Protocol::TicToc);

/// What the paper has beside Sundial.
pub(super) const PAPERS: &[Rules] = &[WAIT_DIE, F1, MAAT];

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
        name: "sundial-fig12-servers",
        title: "YCSB on four servers, a tenth of the accesses remote: aborts by kind",
        figure: "Sundial, Figure 12",
        variant: VARIANT_12,
        points: Points { all: &[THREADS], few: &[THREADS] },
        protocols: &[PRINTED, SUNDIAL, MAAT, DYNAMIC],
        claims: FIGURE_12,
        kinds: &[&LATER, &THEN, &EARLIER, &LOCKED, &WRITERS, &FROZEN, &EMPTY],
        alternatives: ALTERNATIVES_12,
        ablated: &[(PRINTED, Coarse), (SUNDIAL, Coarse), (MAAT, Coarse), (DYNAMIC, Coarse)],
        left_out: LEFT_OUT_12,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig12-batched",
        title: "the same, all rows of a transaction asked for together",
        figure: "Sundial, Figure 12, all asked for together",
        variant: Variant {
            workload: Workload::Spanning(Spanning {
                servers: Servers { together: true, ..SERVERS },
                ..SPANNING_12
            }),
            ..VARIANT
        },
        points: Points { all: &[THREADS], few: &[THREADS] },
        protocols: &[PRINTED, SUNDIAL, MAAT, DYNAMIC],
        claims: FIGURE_12,
        kinds: &[&LATER, &THEN, &EARLIER, &LOCKED, &WRITERS, &FROZEN, &EMPTY],
        alternatives: BATCHED_ALTERNATIVES,
        ablated: &[(PRINTED, Coarse), (MAAT, Coarse)],
        left_out: OF_THE_BATCHED,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig12-paired",
        title: "the same by seeds: our protocol beside Sundial as it is printed",
        figure: "past Sundial, Figure 12",
        variant: VARIANT_12,
        axis: Axis::Seeds { workers: THREADS },
        points: Points { all: &[0, 1, 2, 3, 4], few: &[0, 1, 2, 3, 4] },
        protocols: &[PRINTED, SUNDIAL, DYNAMIC],
        claims: PAIRED,
        kinds: &[&LATER, &THEN, &EARLIER, &LOCKED, &WRITERS, &FROZEN, &EMPTY],
        alternatives: PAIRED_ALTERNATIVES,
        ablated: &[(PRINTED, Coarse), (SUNDIAL, Coarse), (DYNAMIC, Coarse)],
        left_out: LEFT_OUT_12,
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig14",
        title: "YCSB, a tenth of the accesses remote: throughput by servers",
        figure: "Sundial, Figure 14",
        variant: Variant { workload: Workload::Spanning(Spanning { fewer_rows: 5, ..SPANNING }), ..VARIANT },
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
                fewer_rows: 5,
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

/// Past the papers: with our two-phase commit.
pub(super) const OURS: Servers = Servers { two_phase_commit: TwoPhaseCommit::Ours, ..SERVERS };

/// The workers of a server of eight virtual threads: two see to messages.
const SMALL: usize = 6;

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
    abort_buffer: 0,
    writes_permille: 100,
    remote_percent: 10,
    reads_skew: 90,
    writes_skew: 90,
    cache_permille: 400,
    repetition: 0,
};

/// Figure 12's: as many transactions are at work all the time [Sundial §6.5].
const SPANNING_12: Spanning = Spanning { abort_buffer: 10, ..SPANNING };

const VARIANT_12: Variant = Variant { workload: Workload::Spanning(SPANNING_12), ..VARIANT };

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
/// What was replaced at the commit time itself, by itself.
const THEN: Kind = Kind { words: "(b), then", rules: &["sundial: renew, replaced then"] };
const EARLIER: Kind = Kind { words: "(b), before", rules: &["sundial: renew, replaced before"] };
/// What [Sundial §5.1] has as case (a): what was replaced at the commit time itself, too.
const LATER_OR_THEN: Kind = Kind {
    words: "(a), as in §5.1",
    rules: &["sundial: renew, replaced later", "sundial: renew, replaced then"],
};
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

const ALTERNATIVES: &[Alternative] = &[
    TOGETHER,
    CHEAP_MESSAGES,
    DEAR_MESSAGES,
    FAR_MESSAGES,
    LONG_TAIL,
    SLOW_ACCESSES,
    AT_ONCE,
    BUFFERED,
    BUFFERED_TOGETHER,
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

/// The same of Figure 12.
const ALTERNATIVES_12: &[Alternative] = &[
    UNBUFFERED,
    TOGETHER,
    UNBUFFERED_TOGETHER,
    CHEAP_MESSAGES,
    DEAR_MESSAGES,
    FAR_MESSAGES,
    LONG_TAIL,
    SLOW_ACCESSES,
    AT_ONCE,
    TEN_ROUND_TRIPS,
    NEW_AGES,
    MESSAGE_THREADS,
    OUR_COMMIT,
    COUNTED_AS_LATER,
    PREPARED_READ_ALWAYS,
    YOUNGER_REFUSED,
    NOTHING_LENT,
    FROZEN_MET_LATE,
    EXTENDED,
];

/// Whether workers are kept busy, and our two-phase commit.
const PAIRED_ALTERNATIVES: &[Alternative] = &[UNBUFFERED, TOGETHER, UNBUFFERED_TOGETHER, OUR_COMMIT];

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
pub(super) const PAUSING: (&str, &str) = (
    "other transactions in the place of one that pauses",
    "the paper's threads put it into an abort buffer and go on with others, so that as many are at work all the time (so it is in Figure 12); here a worker pauses with its \
     transaction, so that fewer are at work the more fail. With an abort buffer (see the choices) more fail, not fewer: who is at work is the more likely one that has failed \
     before, over the same hot rows",
);
const ROWS: (&str, &str) = (
    "ten million rows a server",
    "here there are half a million, or fewer (see the size), so that hot rows are hotter",
);
const BY_PHASE: (&str, &str) = (
    "figures of latency and traffic by phase",
    "the paper plots Figures 7b and 7c and states none of their figures: what is compared is what its text says of them",
);
const ONE_SEED: (&str, &str) = (
    "30 seconds",
    "here it is one seed, and what comes through in the time; another seed is another repetition (--seed, --seeds)",
);
const CACHE_OFF: (&str, &str) = (
    "a cache",
    "the paper's default configuration has its cache on. Here it is off, but in the lines that name one of its policies: where a tenth are writes, it makes little difference (see Figure 7)",
);

/// Of Figure 12, where workers do not pause with their transactions.
const LEFT_OUT_12: &[(&str, &str)] =
    &[PREPARED_READ, YOUNGER, FIRST_ACCESS, ROWS, ONE_SEED, CACHE_OFF, TENTH];

/// Where all rows are asked for together.
const OF_THE_BATCHED: &[(&str, &str)] = &[
    PREPARED_READ,
    YOUNGER,
    FIRST_ACCESS,
    (
        "programs whose logic is intermixed with queries",
        "the text has those, whose accesses are one by one (see Figure 12). All together is how a rough model of it met the paper's figures",
    ),
    ROWS,
    ONE_SEED,
    CACHE_OFF,
    TENTH,
];

/// Of most of them.
const LEFT_OUT: &[(&str, &str)] =
    &[PREPARED_READ, YOUNGER, FIRST_ACCESS, PAUSING, ROWS, BY_PHASE, ONE_SEED, CACHE_OFF, TENTH];

/// From what hardware that needs no kernel takes for a message, to what a slow one does.
pub(super) const MESSAGES_NS: &[usize] = &[200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];

/// How much room there is for copies.
pub(super) const TENTH: (&str, &str) = (
    "a cache of a tenth of a server's rows",
    "here there is room for four tenths, but where that varies (Table 1). At full size neither is filled in the time of a run",
);

/// What comes before the paper's measurements.
pub(super) const COLD_START: (&str, &str) = (
    "30 seconds, after half a minute of warming up",
    "here it is one seed, and what comes through in the time; another seed is another repetition (--seed, --seeds). Copies are there of what has been read since the start",
);

/// What the lead hangs on.
const LEAD: &str = "it hangs on what fails, and so on how hot the rows are, on how many are at work, and on what two-phase commit costs: see the choices";

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
        words: "a commit of Sundial takes up to 41 % less time than one of two-phase locking (there the next)",
        test: Test::TimesCost {
            of: At(SUNDIAL, Coarse, THREADS),
            to: At(WAIT_DIE, Coarse, THREADS),
            cost: Cost::Time(Part::All),
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

/// The protocol as it is printed, as its kinds of failures are what the figure is of.
const FIGURE_12_AT: At = At(PRINTED, Coarse, THREADS);

const FIGURE_12: &[Claim] = &[
    Claim {
        section: "Figure 12a",
        words: "1.79 % of the transactions abort in case (a): what they read was replaced later than they would commit",
        test: Test::AbortsOf { at: FIGURE_12_AT, kind: &LATER, percent: 1.79, beside: Some(&THEN) },
        reason: COUNTED,
    },
    Claim {
        section: "Figure 12a",
        words: "1.56 % in case (b): what they read was replaced before they would commit, or then",
        test: Test::AbortsOf { at: FIGURE_12_AT, kind: &BEFORE, percent: 1.56, beside: Some(&THEN) },
        reason: COUNTED,
    },
    Claim {
        section: "§6.5",
        words: "(a) and (b) are about the same: of those replaced at the commit time itself §5.1 says that they are (a), and the figure that they are (b). As (a)",
        test: Test::AsManyOf { at: FIGURE_12_AT, kinds: [&LATER_OR_THEN, &EARLIER] },
        reason: "it is nearly so: within a third",
    },
    Claim {
        section: "§6.5",
        words: "and both are fewer than of the other two: what is locked, and writers",
        test: Test::MoreOf {
            at: FIGURE_12_AT,
            kinds: &[&LOCKED, &WRITERS],
            than: &[&LATER_OR_THEN, &EARLIER],
        },
        reason: "",
    },
    Claim {
        section: "Figure 12a",
        words: "6.60 % in case (c): what they read is locked",
        test: Test::AbortsOf { at: FIGURE_12_AT, kind: &LOCKED, percent: 6.6, beside: None },
        reason: HOT,
    },
    Claim {
        section: "Figure 12a",
        words: "4.05 % because somebody else writes what they would write",
        test: Test::AbortsOf { at: FIGURE_12_AT, kind: &WRITERS, percent: 4.05, beside: None },
        reason: HOT,
    },
    Claim {
        section: "Figure 12a",
        words: "14.00 % in all",
        test: Test::Aborts { at: FIGURE_12_AT, percent: 14.0 },
        reason: HOT,
    },
    Claim {
        section: "Figure 12b",
        words: "under MaaT 42.21 % abort because others have frozen their ranges",
        test: Test::AbortsOf { at: MAAT_AT, kind: &FROZEN, percent: 42.21, beside: None },
        reason: SPARED,
    },
    Claim {
        section: "Figure 12b",
        words: "4.45 % because their ranges are empty for other reasons",
        test: Test::AbortsOf { at: MAAT_AT, kind: &EMPTY, percent: 4.45, beside: None },
        reason: SPARED,
    },
    Claim {
        section: "Figure 12b",
        words: "46.66 % in all",
        test: Test::Aborts { at: MAAT_AT, percent: 46.66 },
        reason: SPARED,
    },
    Claim {
        section: "§6.5",
        words: "3.3 times the share that aborts under Sundial",
        test: Test::ShareTimes { of: MAAT_AT, to: FIGURE_12_AT, paper: 3.3 },
        reason: "what rows are hot: Sundial's share is the larger for it, and MaaT's is not",
    },
    Claim {
        section: "ours, of Figure 12b",
        words: "it is because ranges are frozen without end that so many abort: frozen for a time only, half as many at most",
        test: Test::SharesAtMost { of: At(DYNAMIC, Coarse, THREADS), to: MAAT_AT, times: 0.5 },
        reason: "",
    },
    Claim {
        section: "ours, of Figure 12",
        words: "and no more than under Sundial as printed",
        test: Test::SharesAtMost { of: At(DYNAMIC, Coarse, THREADS), to: FIGURE_12_AT, times: 1.0 },
        reason: "",
    },
];

/// What else the kinds hang on.
const BATCHED_ALTERNATIVES: &[Alternative] =
    &[UNBUFFERED, CHEAP_MESSAGES, DEAR_MESSAGES, AT_ONCE, OUR_COMMIT, FROZEN_MET_LATE];

const MAAT_AT: At = At(MAAT, Coarse, THREADS);

/// What was wanted: a tenth fewer failures, and no fewer commits, than under the protocol as it is printed; and what that costs.
const PAIRED: &[Claim] = &[
    Claim {
        section: "ours",
        words: "with each of five seeds a smaller share of the attempts fails than under Sundial as printed, in all at most nine tenths of it, and no \
                less commits",
        test: Test::Paired { of: SUNDIAL, to: PRINTED, times: 0.9 },
        reason: "where rows are few, most attempts fail as somebody else writes who has not prepared, which nothing of ours spares",
    },
    Claim {
        section: "ours",
        words: "under ranges of commit times, too",
        test: Test::Paired { of: DYNAMIC, to: PRINTED, times: 0.9 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "what it costs: messages for each commit, at most a fiftieth more, failed attempts included",
        test: Test::PairedCost { of: SUNDIAL, to: PRINTED, cost: Cost::Messages, times: 1.02 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "bytes in execution, as each request says how early the transaction may still commit: at most a fiftieth more",
        test: Test::PairedCost { of: SUNDIAL, to: PRINTED, cost: Cost::Bytes(Part::Execution), times: 1.02 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "time in execution, as who could not commit within a lease, or would write what is prepared, waits for what comes next: at most a tenth more",
        test: Test::PairedCost { of: SUNDIAL, to: PRINTED, cost: Cost::Time(Part::Execution), times: 1.1 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "the slowest of a hundred, some of whom have waited and fail all the same: at most a fifth slower",
        test: Test::PairedCost { of: SUNDIAL, to: PRINTED, cost: Cost::Tail, times: 1.2 },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "ranges of commit times: messages for each commit, at most a fiftieth more",
        test: Test::PairedCost { of: DYNAMIC, to: PRINTED, cost: Cost::Messages, times: 1.02 },
        reason: "who has only read marks what it reads, and must tell the servers of the end, unless its range has an end",
    },
];

/// Why other shares fail under MaaT.
const SPARED: &str = "what rows are hot (see above), and how many are at work";

/// Why other shares fail.
const HOT: &str = "what rows are hot, which are fewer here than in the paper: asked for one by one, of the attempts 31 % fail with half a million a server, and 23 % with two million; the paper has ten (`--rows`; 53 GB). And for how long they are \
     locked, which is what messages take, and the text does not say; and how many are at work: where workers pause with their transactions 20 % fail, 15 % with two million rows and 10 % with ten";

/// Why fewer are of case (a), and more of case (b), and more of both.
const COUNTED: &str = "§5.1 counts what was replaced at the commit time itself among (a), and the figure's own table among (b). As §5.1 has it both are about the same here, or nearly so, as the paper says that they are: so the figure, too, \
     may have been counted. And both together are more here, as rows are hotter (see the total)";

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
const ROUND_TRIPS: &str = "it hangs on what two-phase commit costs, which in the paper asks all and waits until all are told: see the choices";

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
        reason: EARLY,
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

/// What the gain of the cache hangs on.
pub(super) const REMOTE: &str = "it hangs on how many of the accesses are to other servers, which the text does not say again here, and on how much work is \
     left that no copy spares: writes, commits, and accesses at home";

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
    ("ten gigabytes a server", "here there are a hundred thousand rows, or fewer (see the size)"),
    ("a cache, and reading what is prepared", "as in Figure 7"),
    PAUSING,
    COLD_START,
];

/// What of Figure 15.
const FAR_AWAY: &[(&str, &str)] = &[
    ("figures of traffic by phase", "the paper plots Figure 15b and states none of its figures"),
    ("reading what is prepared, and who waits for it", "as in Figure 7"),
    PAUSING,
    TENTH,
    COLD_START,
];

/// Beside what a message takes, where that varies: what else is at work while the threads for messages are busy, and whether they are.
const DEAR_ALTERNATIVES: &[Alternative] = &[TOGETHER, FAR_MESSAGES, MESSAGE_THREADS, AT_ONCE, BUFFERED];

/// How many messages a commit takes, whatever the number of servers.
const GROWING_ALTERNATIVES: &[Alternative] = &[TOGETHER, MOSTLY_REMOTE];

const SPREAD_ALTERNATIVES: &[Alternative] =
    &[TOGETHER, DEAR_MESSAGES, FAR_MESSAGES, MESSAGE_THREADS, OUR_COMMIT];

const FAR_ALTERNATIVES: &[Alternative] = &[
    PREPARED_READ_ALWAYS,
    YOUNGER_REFUSED,
    NOTHING_LENT,
    TOGETHER,
    DEAR_MESSAGES,
    SLOW_ACCESSES,
    OUR_COMMIT,
    Alternative {
        words: "pauses of up to a round trip after conflicts",
        change: |variant| of_servers(variant, |servers| servers.backoff_round_trips = 1),
    },
];
