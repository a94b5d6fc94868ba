//! *Sundial*'s TPC-C across servers: Figures 8 and 9, on a virtual network.
//!
//! Four servers, each with its warehouses and all that belongs to them, and so many workers; each worker is a terminal of one of its
//! server's warehouses, and has one transaction at a time. All five transactions are run, in the standard's proportion. One line of a hundred is
//! supplied, and fifteen of a hundred payments are made, by a customer of, another warehouse: so a tenth of the orders and 15 % of the
//! payments go to other servers, or fewer where servers have several warehouses.
//!
//! **What is chosen where the text leaves a choice**, before any figure was looked at:
//!
//! - Messages, accesses and pauses take what they take in [`cluster`](super::cluster).
//! - A payment takes each row that it changes at once, to be written, as programs over hash indexes do: whoever reads a warehouse first, and
//!   wants to write it then, dies of it under two-phase locking when two do.
//! - A timestamp is of a row.
//! - Whoever is held back at a server is refused after 100 ms. It does not come to that.
//! - Figure 9 is plotted over the warehouses of a server, of which the text names sixteen. The plot is not in the text.
//!
//! The consistency conditions of the standard are checked after each run, across all servers; but not of one that came to its limit, twice its
//! time, as whoever is cut off in the midst of a commit does not know what became of it. With many workers on a warehouse some do.
//!
//! What is not here is on the page ([`Experiment::left_out`]).

use super::choices::{
    AT_ONCE, CHEAP_MESSAGES, COUNTED_AS_LATER, DEAR_MESSAGES, EXTENDED, EXTENDED_FURTHER, FROZEN_MET_LATE,
    HALF_THE_VOTES, MESSAGE_THREADS, NEW_AGES, NOTHING_LENT, OUR_COMMIT, PREPARED_READ_ALWAYS,
    PRINTED_ALTERNATIVE, SLOW_ACCESSES, TEN_ROUND_TRIPS, UNBUFFERED, YOUNGER_REFUSED, of_servers,
};
use super::cluster::{
    BEFORE, DYNAMIC, EMPTY, F1, FROZEN, HYBRID, LATER, LOCKED, MAAT, MOST, OURS, PAPERS, PRINTED, SERVERS,
    SUNDIAL, THREADS, VARIANT, WAIT_DIE, WRITERS,
};
use super::cluster_ranges::RANGES;
use super::{
    Alternative, At, Axis, Claim, Cost, Experiment, ItemsBy, Part, Points, Rules, Test, Variant, Warehouses,
    Workload,
};
use noonmark_workloads::store::Granularity::{Coarse, Fine};

const EVERYWHERE: Rules = Rules::Items(ItemsBy::Copies);
const ASKING: Rules = Rules::Items(ItemsBy::Asking);
const CACHE: Rules = Rules::Items(ItemsBy::Cache);
const TABLE_LEASES: Rules = Rules::Items(ItemsBy::CacheAndTableLeases);

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "sundial-fig8",
        title: "TPC-C on four servers of one warehouse each: throughput by workers",
        figure: "Sundial, Figure 8a",
        points: Points { all: &[1, 4, 8, THREADS, MOST], few: &[4, THREADS, MOST] },
        protocols: &[SUNDIAL, PRINTED, HYBRID, WAIT_DIE, F1, MAAT, DYNAMIC, RANGES],
        claims: FIGURE_8,
        kinds: &[&LATER, &BEFORE, &LOCKED, &WRITERS, &FROZEN, &EMPTY],
        ablated: &[(SUNDIAL, Coarse), (WAIT_DIE, Coarse), (MAAT, Coarse), (SUNDIAL, Fine), (WAIT_DIE, Fine)],
        ..FIGURE
    },
    Experiment {
        name: "sundial-fig9",
        title: "TPC-C on four servers, its items at each, asked for, or cached: throughput by warehouses",
        figure: "Sundial, Figure 9a",
        variant: Variant {
            workload: Workload::Warehouses(Warehouses { fewer_rows: 10, ..WAREHOUSES }),
            ..VARIANT
        },
        axis: Axis::Warehouses { workers: THREADS },
        points: Points { all: &[1, 2, 4, 8, 16], few: &[1, 16] },
        protocols: &[EVERYWHERE, ASKING, CACHE, TABLE_LEASES],
        claims: FIGURE_9,
        alternatives: ITEM_ALTERNATIVES,
        ablated: &[(EVERYWHERE, Coarse), (ASKING, Coarse), (CACHE, Coarse), (TABLE_LEASES, Coarse)],
        left_out: OF_ITEMS,
        ..FIGURE
    },
    Experiment {
        name: "cluster-warehouses",
        title: "TPC-C on up to 256 servers of one warehouse each: what a commit costs as the cluster grows",
        figure: "past Sundial, Figure 8",
        variant: Variant {
            workload: Workload::Warehouses(Warehouses { servers: OURS, fewer_rows: 50, ..WAREHOUSES }),
            ..VARIANT
        },
        axis: Axis::Servers { workers: 2 },
        points: Points { all: &[16, 64, 256], few: &[16, 64] },
        protocols: &[SUNDIAL, WAIT_DIE],
        claims: GROWING,
        alternatives: GROWING_ALTERNATIVES,
        ablated: &[(SUNDIAL, Coarse)],
        left_out: &[],
        ..FIGURE
    },
];

const GROWING: &[Claim] = &[
    Claim {
        section: "ours",
        words: "messages and bytes for each commit are the same on any number of servers from 16 on, within 10 %",
        test: Test::SameTraffic { protocols: &[SUNDIAL, WAIT_DIE] },
        reason: "",
    },
    Claim {
        section: "ours",
        words: "sixteen times the servers commit at least fifteen times as much",
        test: Test::AtLeast { of: At(SUNDIAL, Coarse, 256), to: At(SUNDIAL, Coarse, 16), times: 15.0 },
        reason: "",
    },
];

/// What they have in common.
const WAREHOUSES: Warehouses = Warehouses {
    servers: SERVERS,
    a_server: 1,
    fewer_rows: 1,
    by_groups: false,
    adds_totals: false,
    cache_permille: 4_000,
};

const FIGURE: Experiment = Experiment {
    variant: Variant { workload: Workload::Warehouses(WAREHOUSES), ..VARIANT },
    alternatives: ALTERNATIVES,
    left_out: LEFT_OUT,
    ..super::cluster::FIGURE
};

const FIGURE_8: &[Claim] = &[
    Claim {
        section: "§6.3",
        words: "Sundial is 34 % faster than the next (two-phase locking)",
        test: Test::TimesNext { of: At(SUNDIAL, Coarse, MOST), others: PAPERS, paper: 1.34 },
        reason: FEW_ROWS,
    },
    Claim {
        section: "§6.3",
        words: "and so it is as printed, without what is ours",
        test: Test::TimesNext { of: At(PRINTED, Coarse, MOST), others: PAPERS, paper: 1.34 },
        reason: FEW_ROWS,
    },
    Claim {
        section: "§6.3",
        words: "two-phase locking is faster than F1",
        test: Test::Faster { of: WAIT_DIE, than: &[F1], granularity: Coarse, points: &[MOST] },
        reason: FEW_ROWS,
    },
    Claim {
        section: "§6.3",
        words: "and faster than MaaT",
        test: Test::Faster { of: WAIT_DIE, than: &[MAAT], granularity: Coarse, points: &[MOST] },
        reason: FEW_ROWS,
    },
    Claim {
        section: "§6.3",
        words: "the cache makes Sundial no faster, as all that is asked of other servers is asked for to be written",
        test: Test::NoMore { of: At(HYBRID, Coarse, MOST), to: At(SUNDIAL, Coarse, MOST), times: 1.05 },
        reason: "",
    },
    Claim {
        section: "§6.3",
        words: "under Sundial fewer abort than under two-phase locking",
        test: Test::FailsLess { of: SUNDIAL, than: WAIT_DIE, granularity: Coarse, from: 1 },
        reason: "under both the younger dies of whoever has the row that it would write, unless that one has prepared, and most of what fails are payments",
    },
    Claim {
        section: "§6.3",
        words: "and so they do as printed",
        test: Test::FailsLess { of: PRINTED, than: WAIT_DIE, granularity: Coarse, from: 1 },
        reason: "under both the younger dies of whoever has the row that it would write, and most of what fails are payments",
    },
    Claim {
        section: "Figure 8b",
        words: "of all, Sundial loses the least time in attempts that fail",
        test: Test::CostsMore {
            these: PAPERS,
            than: &[SUNDIAL],
            cost: Cost::Time(Part::Failed),
            point: THREADS,
        },
        reason: "who fails under two-phase locking does so at the row of the warehouse, the first that is asked for, and at home",
    },
    Claim {
        section: "Figure 8c",
        words: "two-phase locking and Sundial send fewer bytes for them than F1 and MaaT, as the warehouse's row is the first that is asked for",
        test: Test::CostsMore {
            these: &[F1, MAAT],
            than: &[WAIT_DIE, SUNDIAL],
            cost: Cost::Bytes(Part::Failed),
            point: THREADS,
        },
        reason: FEW_ROWS,
    },
    Claim {
        section: "ours",
        words: "ranges that shrink at the conflict, which the paper has in its appendix only, commit more than Sundial",
        test: Test::Faster { of: RANGES, than: &[SUNDIAL], granularity: Coarse, points: &[MOST] },
        reason: "",
    },
];

/// What the order of protocols hangs on.
const FEW_ROWS: &str = "every payment writes the one row of its warehouse, and every order that of its district: who does not wait for it fails, and tries again within a millisecond. So it hangs on who waits, and on how long those pause who do not: see the choices";

const FIGURE_9: &[Claim] = &[
    Claim {
        section: "§6.4.1",
        words: "it is slower to ask for items than to have them all",
        test: Test::Faster { of: EVERYWHERE, than: &[ASKING], granularity: Coarse, points: &[1, 16] },
        reason: "",
    },
    Claim {
        section: "§6.4.1",
        words: "with leases of whole tables it is as good to have copies of items as to have them all",
        test: Test::NoMore { of: At(EVERYWHERE, Coarse, 16), to: At(TABLE_LEASES, Coarse, 16), times: 1.05 },
        reason: SEAL,
    },
    Claim {
        section: "§6.4.1",
        words: "and so it is with any number of warehouses",
        test: Test::AtMost { of: EVERYWHERE, to: TABLE_LEASES, granularity: Coarse, paper: 1.05 },
        reason: "the fewer warehouses there are, the fewer transactions there are to fill the caches in the time of a run, which is short, and the more of them wait for whoever is asking for items",
    },
    Claim {
        section: "§6.4.1",
        words: "without, it is slower, as leases must be extended",
        test: Test::Faster { of: TABLE_LEASES, than: &[CACHE], granularity: Coarse, points: &[1, 16] },
        reason: "with one warehouse a server, most of the time goes by in pauses, and leases make no difference that could be told from chance",
    },
    Claim {
        section: "§6.4.1",
        words: "and sends more",
        test: Test::FewerBytes { of: At(TABLE_LEASES, Coarse, 16), than: At(CACHE, Coarse, 16) },
        reason: "",
    },
];

/// Why copies cost something, whatever their leases.
const SEAL: &str = "a copy must be there before it is read: the run is short, so that many items are asked for for the first time in it";

/// Changes what is about the workload.
fn of_workload(variant: &mut Variant, change: fn(&mut Warehouses)) {
    if let Workload::Warehouses(warehouses) = &mut variant.workload {
        change(warehouses);
    }
}

const TOGETHER: Alternative = Alternative {
    words: "rows whose keys are known together asked for together",
    change: |variant| of_servers(variant, |servers| servers.together = true),
};

const FOUR_WAREHOUSES: Alternative = Alternative {
    words: "four warehouses a server",
    change: |variant| of_workload(variant, |warehouses| warehouses.a_server = 4),
};

const ALTERNATIVES: &[Alternative] = &[
    AT_ONCE,
    Alternative {
        words: "pauses of up to 0.1 ms",
        change: |variant| of_servers(variant, |servers| servers.backoff_max_us = 100),
    },
    TEN_ROUND_TRIPS,
    UNBUFFERED,
    NEW_AGES,
    Alternative {
        words: "whoever waits refused after 1 ms",
        change: |variant| of_servers(variant, |servers| servers.wait_max_us = 1_000),
    },
    Alternative {
        words: "payments that read the rows before they change them",
        change: |variant| of_workload(variant, |warehouses| warehouses.by_groups = true),
    },
    Alternative {
        words: "payments that read the rows, and add to the totals at commit without reading those",
        change: |variant| {
            of_workload(variant, |warehouses| (warehouses.by_groups, warehouses.adds_totals) = (true, true));
        },
    },
    TOGETHER,
    CHEAP_MESSAGES,
    DEAR_MESSAGES,
    MESSAGE_THREADS,
    SLOW_ACCESSES,
    PREPARED_READ_ALWAYS,
    YOUNGER_REFUSED,
    NOTHING_LENT,
    FROZEN_MET_LATE,
    COUNTED_AS_LATER,
    EXTENDED,
    OUR_COMMIT,
    FOUR_WAREHOUSES,
];

/// How many messages a commit takes, whatever the number of servers.
const GROWING_ALTERNATIVES: &[Alternative] = &[TOGETHER, FOUR_WAREHOUSES];

const ITEM_ALTERNATIVES: &[Alternative] = &[
    PRINTED_ALTERNATIVE,
    OUR_COMMIT,
    TOGETHER,
    DEAR_MESSAGES,
    Alternative {
        words: "room for a tenth of all items",
        change: |variant| of_workload(variant, |warehouses| warehouses.cache_permille = 100),
    },
    HALF_THE_VOTES,
    EXTENDED_FURTHER,
];

/// What of the paper's experiments is not here.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "the younger of two writers, reading what is prepared, and a lock from the first access on",
        "Sundial here, but where it says as printed, is ours: the younger waits if the older has prepared; what is prepared is read by those who can commit within its lease; and leases are renewed, and \
         lent, of rows that somebody is about to write: see the choices, and Figure 7",
    ),
    (
        "figures of latency and traffic by phase",
        "the paper plots Figures 8b and 8c and states none of their figures: what is compared is what its text says",
    ),
    (
        "hash indexes only",
        "tables that are scanned are ordered here, and customers' names and orders have secondary indexes; an index takes no virtual time of its own",
    ),
    (
        "keying and waiting at terminals",
        "a worker asks for the next transaction as soon as one is answered, here and in the paper",
    ),
    (
        "30 seconds",
        "here it is one seed, and what comes through in the time, without what is still put aside at its end, which is in no latency; another seed is another repetition (--seed, --seeds)",
    ),
];

/// What of Figure 9.
const OF_ITEMS: &[(&str, &str)] = &[
    ("figures of latency by phase", "the paper plots Figure 9b and states none of its figures"),
    (
        "100 MB a warehouse",
        "here there is a tenth of the customers and of the items, so that 64 warehouses fit: a run is too short to read as many items as there are",
    ),
    ("what of Sundial is ours", "as in Figure 8"),
];
