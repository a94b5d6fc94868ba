//! Beyond the papers: timestamps that split themselves, which [Granularity §5] leaves as future work.
//!
//! The workloads are those of [`granularity`], each with rows of one timestamp, of one for each column group, and
//! of one that [splits itself](noonmark::Granularity::Splitting). What is claimed is ours: that the last comes close to the second where
//! conflicts are over nothing but the timestamp, and costs next to nothing where there are none. TPC-C differs from
//! Granularity's in that coarse is coarse: the warehouse's total, too, is under its row's timestamp then.

use super::choices::SPREAD;
use super::granularity::{
    self, ADAPTIVE, OCC, POINTS, PROTOCOLS, SWISS, TICTOC, TPCC, TWO_PHASE_NO_WAIT, YCSB,
};
use super::{Alternative, At, Axis, Claim, Experiment, Rules, Test, Variant, WarehouseTotal, Workload};
use noonmark_workloads::report::Failures;
use noonmark_workloads::store::Granularity::{self, Coarse, Fine, Splitting};
use noonmark_workloads::tpcc::{Homes, Items, OrderNumbers};

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "splitting-tpcc",
        title: "TPC-C on 8 warehouses: timestamps that split themselves",
        figure: "Granularity, §5: future work",
        variant: Variant {
            workload: Workload::Tpcc {
                warehouse_total: WarehouseTotal::AsGranularity,
                adds_district_total: false,
                order_numbers: OrderNumbers::Sequence,
                items: Items::NonUniform,
                homes: Homes::Blocks,
            },
            ..TPCC
        },
        axis: Axis::Cores,
        points: POINTS,
        granularity: Splitting,
        compares: true,
        protocols: PROTOCOLS,
        claims: OF_TPCC,
        failures: Failures::Share,
        kinds: &[],
        alternatives: granularity::OF_TPCC,
        ablated: &[(OCC, Splitting), (OCC, Fine), (OCC, Coarse)],
        left_out: LEFT_OUT,
    },
    Experiment {
        name: "splitting-ycsb",
        title: "YCSB, one write in fifty, Zipfian 0.9, reads of even columns and writes of odd ones: timestamps that split themselves",
        figure: "Granularity, §5: future work",
        variant: Variant {
            workload: Workload::Ycsb { ascending: false, parts_columns: true, writes_percent: 2 },
            ..YCSB
        },
        axis: Axis::Cores,
        points: POINTS,
        granularity: Splitting,
        compares: true,
        protocols: PROTOCOLS,
        claims: OF_YCSB,
        failures: Failures::Share,
        kinds: &[],
        alternatives: OF_SKEWED_YCSB,
        ablated: ABLATED,
        left_out: LEFT_OUT_OF_YCSB,
    },
];

const SPLIT_LATER: &str = "all rows are whole when the run begins, and of those that are less hot some are split only while it is measured; under \
     two-phase locking the hottest one, too, with some seeds, as hardly anybody gets hold of it. With more time before that, these come closer";

const ON_ONE_LINE: &str = "under OCC the version words of a split row's two groups lie on one line, as with a line each a row of this size would take four \
     instead of three, which costs those that are never split more than two in a hundred; and of the rows that are less hot some are split only while it is \
     measured";

/// What of the costs is not here.
const THE_LOOK: (&str, &str) = (
    "what it takes to look whether there is something to split",
    "the virtual cores are not told of it; on threads it is 1 to 2 % of the instructions, with all rows in the cache",
);

/// Nor is anything found out within a group.
const THE_GROUPS: (&str, &str) = (
    "columns that nobody has told apart",
    "what a row can be split into are the column groups that its type declares; which rows are split, and when, is found out",
);

const LEFT_OUT: &[(&str, &str)] = &[THE_LOOK, THE_GROUPS];

/// And what comes out otherwise where writes are more.
const LEFT_OUT_OF_YCSB: &[(&str, &str)] = &[
    THE_LOOK,
    THE_GROUPS,
    (
        "more writes than one in fifty",
        "half of the operations were writes at first, as in Granularity's, and were made fewer after figures had been seen; why was not written down. From one in ten on OCC is slower where timestamps are split, by themselves or by hand, than with whole rows (see the choices). Those who no longer fail \
         by a false conflict, early, come to the lock of the hottest row, where all who write it stand in line for its line (4.3 instead of 0.5 µs a commit \
         with one write in ten), and fail there. Adaptive, which gives up at once where there has been a conflict, gains by it all the same",
    ),
];

/// On 128 cores it is at least so many times as fast where timestamps split themselves as where they are like that.
const fn splitting(
    words: &'static str,
    protocol: Rules,
    times: f64,
    beside: Granularity,
    reason: &'static str,
) -> Claim {
    let test = Test::AtLeast { of: At(protocol, Splitting, 128), to: At(protocol, beside, 128), times };
    Claim { section: "ours", words, test, reason }
}

/// It comes to within 5 % of timestamps that were split by hand.
const fn as_by_hand(words: &'static str, protocol: Rules, reason: &'static str) -> Claim {
    splitting(words, protocol, 0.95, Fine, reason)
}

const FIRST: &str = "on 128 cores OCC comes to within 5 % of timestamps that were split by hand";

const NOTHING_TO_SPLIT: Claim = Claim {
    section: "ours",
    words: "on one core, where there is nothing to split, it costs at most 2 % in lines that are touched",
    test: Test::AtLeast { of: At(OCC, Splitting, 1), to: At(OCC, Coarse, 1), times: 0.98 },
    reason: "",
};

const OF_TPCC: &[Claim] = &[
    as_by_hand(FIRST, OCC, SPLIT_LATER),
    as_by_hand("so does TicToc", TICTOC, SPLIT_LATER),
    as_by_hand("so does two-phase locking", TWO_PHASE_NO_WAIT, SPLIT_LATER),
    as_by_hand("so does swiss", SWISS, SPLIT_LATER),
    as_by_hand("so does adaptive", ADAPTIVE, SPLIT_LATER),
    NOTHING_TO_SPLIT,
];

/// More writes: who wants to write the hottest row is in the way of the others who do, whatever its timestamps are.
const OF_SKEWED_YCSB: &[Alternative] = &[
    Alternative { words: "one write in ten", change: |variant| writes(variant, 10) },
    Alternative { words: "half of the operations are writes", change: |variant| writes(variant, 50) },
    granularity::NO_PAUSES,
    granularity::MORE_LOOKS,
    SPREAD,
    Alternative {
        words: "one write in ten, and no pauses after conflicts",
        change: |variant| {
            writes(variant, 10);
            variant.backs_off = false;
        },
    },
];

fn writes(variant: &mut Variant, percent: u8) {
    if let Workload::Ycsb { writes_percent, .. } = &mut variant.workload {
        *writes_percent = percent;
    }
}

const ABLATED: &[(Rules, Granularity)] = &[
    (OCC, Splitting),
    (OCC, Fine),
    (OCC, Coarse),
    (ADAPTIVE, Splitting),
    (ADAPTIVE, Fine),
    (ADAPTIVE, Coarse),
];

const OF_YCSB: &[Claim] = &[
    as_by_hand(FIRST, OCC, ON_ONE_LINE),
    as_by_hand("so does TicToc", TICTOC, SPLIT_LATER),
    as_by_hand("so does two-phase locking", TWO_PHASE_NO_WAIT, SPLIT_LATER),
    as_by_hand("so does swiss", SWISS, SPLIT_LATER),
    as_by_hand("so does adaptive", ADAPTIVE, SPLIT_LATER),
    splitting("on 128 cores OCC is at least as fast as with whole rows", OCC, 1.0, Coarse, SPLIT_LATER),
    splitting("so is TicToc", TICTOC, 1.0, Coarse, SPLIT_LATER),
    NOTHING_TO_SPLIT,
];
