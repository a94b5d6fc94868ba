//! What a paper says, as a comparison of runs.
//!
//! When a figure *agrees* with the paper's: [`AGREES_IF`]. That is
//! wide, as it must be: another engine, another language, a simulated machine. The figures themselves stand beside it.
//!
//! A *point* is one of the plot's: so many cores, or so many percent ([`Axis`]).
//!
//! What it does not do: compare; see [`judge`](super::judge).

use super::{Cost, Kind, Rules};
use noonmark_workloads::store::Granularity;

/// When a figure agrees with the paper's, in words.
pub const AGREES_IF: &str = "a figure within a quarter of the paper's; a ratio, besides, no further from the paper's than half of how far that is from 1, or a tenth; \
                             where the paper gives a bound or an order, if that holds; reasons are of full size and seed 1";

/// What a paper's text says of an experiment.
#[derive(Debug)]
pub struct Claim {
    /// Where.
    pub section: &'static str,
    /// What, in our words.
    pub words: &'static str,
    /// As a comparison.
    pub test: Test,
    /// If it does not come out so: why, as far as is known.
    pub reason: &'static str,
}

/// A run of an experiment: at this point.
#[derive(Clone, Copy, Debug)]
pub struct At(pub Rules, pub Granularity, pub usize);

/// A comparison.
#[derive(Debug)]
pub enum Test {
    /// So many percent of the attempts fail.
    Aborts {
        /// Where.
        at: At,
        /// So many.
        percent: f64,
    },
    /// Of each of these at most so many percent of the attempts fail.
    FewFail {
        /// These.
        protocols: &'static [Rules],
        /// So many.
        percent: f64,
        /// At this point.
        point: usize,
    },
    /// So many percent of the attempts fail in this way.
    AbortsOf {
        /// Where.
        at: At,
        /// In which.
        kind: &'static Kind,
        /// So many.
        percent: f64,
        /// What is shown besides, because it might be counted, too.
        beside: Option<&'static Kind>,
    },
    /// More attempts fail in any of these ways than in any of those.
    MoreOf {
        /// Where.
        at: At,
        /// These.
        kinds: &'static [&'static Kind],
        /// Those.
        than: &'static [&'static Kind],
    },
    /// About as many attempts fail in one way as in another.
    AsManyOf {
        /// Where.
        at: At,
        /// The one, and the other.
        kinds: [&'static Kind; 2],
    },
    /// Of all its attempts, so many times as many fail as of another's.
    ShareTimes {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
    },
    /// Of all its attempts, at most so many times as many fail as of another's.
    SharesAtMost {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        times: f64,
    },
    /// One is so many times as fast as another.
    Times {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
    },
    /// One is so many times as fast as the fastest of others, at the same point.
    TimesNext {
        /// The one.
        of: At,
        /// The others.
        others: &'static [Rules],
        /// So many times.
        paper: f64,
    },
    /// One at its fastest point is so many times as fast as the fastest of others at theirs.
    TimesNextAtPeak {
        /// The one.
        of: Rules,
        /// The others.
        others: &'static [Rules],
        /// So many times.
        paper: f64,
    },
    /// A commit of one sends so many times as many bytes between servers as one of another.
    TimesBytes {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
    },
    /// A commit of one sends fewer bytes between servers than one of another.
    FewerBytes {
        /// The one.
        of: At,
        /// The other.
        than: At,
    },
    /// Half of the transactions of one take so many times as long as half of another's, or less.
    TimesAsLong {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
    },
    /// A commit of one takes so many times as much as one of another.
    TimesCost {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// As much of this.
        cost: Cost,
        /// So many times.
        paper: f64,
    },
    /// So many times as much commits under one as under another as a commit takes less time at work: within a twentieth.
    ClosedLoop {
        /// The one.
        of: At,
        /// The other.
        to: At,
    },
    /// A commit of each of these takes more than one of each of those.
    CostsMore {
        /// These.
        these: &'static [Rules],
        /// Those.
        than: &'static [Rules],
        /// More of this.
        cost: Cost,
        /// At this point.
        point: usize,
    },
    /// Each is within a quarter of its fastest at all points.
    Flat {
        /// These.
        protocols: &'static [Rules],
    },
    /// A commit of each takes as much at all points, within a quarter of the most.
    CostsAsMuch {
        /// These.
        protocols: &'static [Rules],
        /// As much of this.
        cost: Cost,
    },
    /// At each point a smaller share of the attempts of one fails than of another's, in all at most so many times the share, and in all it
    /// commits no less.
    Paired {
        /// The one.
        of: Rules,
        /// The other.
        to: Rules,
        /// So many times.
        times: f64,
    },
    /// A commit of one takes at most so many times as much as one of another, over all points together.
    PairedCost {
        /// The one.
        of: Rules,
        /// The other.
        to: Rules,
        /// As much of this.
        cost: Cost,
        /// So many times.
        times: f64,
    },
    /// One is at most so many times as fast as another.
    NoMore {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        times: f64,
    },
    /// One is at most so many times as fast as another, at any point.
    AtMost {
        /// The one.
        of: Rules,
        /// The other.
        to: Rules,
        /// With this.
        granularity: Granularity,
        /// So many times.
        paper: f64,
    },
    /// A protocol is faster than each of these, at each of these points.
    Faster {
        /// The protocol.
        of: Rules,
        /// These; all others, if there are none.
        than: &'static [Rules],
        /// With this.
        granularity: Granularity,
        /// These; all from 8 on, if there are none.
        points: &'static [usize],
    },
    /// From this point on one is slower than another, by a fiftieth at least; it is not at any before.
    FallsBehind {
        /// The one.
        of: Rules,
        /// The other.
        than: Rules,
        /// This point.
        paper: usize,
    },
    /// For each commit, one fails so many times as often as another.
    FailsTimes {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        paper: f64,
        /// Whether the paper says more than that; then less will not do.
        or_more: bool,
    },
    /// For each commit, one fails less often than another.
    FailsLess {
        /// The one.
        of: Rules,
        /// The other.
        than: Rules,
        /// With this.
        granularity: Granularity,
        /// At all points from this place of the plot on, counted from 0.
        from: usize,
    },
    /// Each fails more often for each commit from one point to the next.
    FailsMore {
        /// These.
        protocols: &'static [Rules],
        /// With this.
        granularity: Granularity,
    },
    /// Each is slower at the last point than at the first.
    Slows {
        /// These.
        protocols: &'static [Rules],
        /// With this.
        granularity: Granularity,
    },
    /// Each is faster at each point from one to another than at the one before it.
    Grows {
        /// These.
        protocols: &'static [Rules],
        /// The point that the next is compared with first.
        from: usize,
        /// The last one, if it is not the last of all.
        until: Option<usize>,
    },
    /// Messages and bytes between servers for each commit stay what they are at the first point, within a tenth.
    SameTraffic {
        /// Of each of these.
        protocols: &'static [Rules],
    },
    /// A protocol is slower than all others.
    Slowest {
        /// The protocol.
        protocol: Rules,
        /// With this.
        granularity: Granularity,
        /// On so many cores.
        cores: usize,
    },
    /// Each is slower on so many cores than at its best on fewer.
    Falls {
        /// These; all, if there are none.
        protocols: &'static [Rules],
        /// With this.
        granularity: Granularity,
        /// So many.
        cores: usize,
    },
    /// All are faster with fine timestamps than with coarse ones.
    FineGains {
        /// On so many cores.
        cores: usize,
    },
    /// These gain the most by fine timestamps.
    GainMost {
        /// These.
        protocols: &'static [Rules],
        /// On so many cores.
        cores: usize,
    },
    /// Each commits at most so many a second at any point, and gains no more than a quarter by the last step of the plot.
    Plateau {
        /// These.
        protocols: &'static [Rules],
        /// So many.
        per_s: f64,
    },
    /// It commits at most so many a second, at any point.
    Below {
        /// It.
        protocol: Rules,
        /// So many.
        per_s: f64,
    },
    /// So many commits a second.
    PerSecond {
        /// Where.
        at: At,
        /// So many.
        paper: f64,
        /// Whether the paper says more than that; then less will not do.
        or_more: bool,
    },
    /// Each is within a quarter of the fastest of them, at each of these points.
    Alike {
        /// These.
        protocols: &'static [Rules],
        /// These; all from 8 on, if there are none.
        points: &'static [usize],
    },
    /// It is no more than a quarter faster at the last point than at this one.
    GainsNothing {
        /// It.
        protocol: Rules,
        /// From this point on.
        from: usize,
    },
    /// The clock is advanced so many times a second.
    Clock {
        /// Where.
        at: At,
        /// So many times.
        paper: f64,
        /// Whether the paper says less than that; then more will not do.
        or_less: bool,
    },
    /// The clock is advanced once a commit, at the last point.
    ClockPerCommit {
        /// By these.
        protocols: &'static [Rules],
    },
    /// Both advance the clock as often, within a quarter.
    ClocksAlike {
        /// One.
        of: At,
        /// The other.
        to: At,
    },
    /// For each commit, each of these fails less often than each of those.
    Sparing {
        /// These.
        these: &'static [Rules],
        /// Those.
        those: &'static [Rules],
        /// On so many cores.
        cores: usize,
    },
    /// One is at least so many times as fast as another.
    AtLeast {
        /// The one.
        of: At,
        /// The other.
        to: At,
        /// So many times.
        times: f64,
    },
    /// The share of failed attempts falls furthest for this one when timestamps become fine.
    FallsFurthest {
        /// This one.
        protocol: Rules,
        /// On so many cores.
        cores: usize,
    },
}
