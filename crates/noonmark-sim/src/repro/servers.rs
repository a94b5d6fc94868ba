//! The servers of a cluster: what papers leave open of them, whatever is run on them.
//!
//! What it does not do: know a workload; see [`Spanning`](super::Spanning) and [`Warehouses`](super::Warehouses).

use super::cell::{Cell, phases, report};
use super::{Axis, ItemsBy, Reuse, Rules, Site, either, leases_in_words};
use crate::Picoseconds;
use crate::experiment::Plan;
use crate::network::Conditions;
use crate::network::store::ClusterSpec;
use crate::network::ycsb::ClusterMeasured;
use noonmark::{Leases, Protocol};
use noonmark_cluster::cache::{CacheCounts, CacheOptions, ReusePolicy};
use noonmark_cluster::client::Policy;
use noonmark_cluster::coordinator::RESEND_AFTER_DEFAULT_NS;
use noonmark_cluster::table_lease::TableLeases;
use noonmark_workloads::report::{Reproduction, RunReport, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;

/// Servers of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Servers {
    /// How many.
    pub count: u16,
    /// Where they are.
    pub site: Site,
    /// Whether rows whose keys are known together are asked for together, with one message to each server.
    pub together: bool,
    /// Whoever has failed pauses for a random time below this.
    pub backoff_max_us: u32,
    /// Or below so many round trips, if any.
    pub backoff_round_trips: u8,
    /// How many transactions that have failed a worker puts aside, each until its pause is over, while it runs others; none: it pauses with them.
    pub abort_buffer: u8,
    /// Whether each attempt has an age of its own.
    pub new_ages: bool,
    /// Who is asked to prepare, and told.
    pub two_phase_commit: TwoPhaseCommit,
    /// How long somebody may be kept waiting for another, at least: longer where servers are far apart.
    pub wait_max_us: u32,
    /// How long a message is on its way, about.
    pub latency_us: u32,
    /// How long an input thread takes for each message.
    pub handling_ns: u32,
    /// How long an output thread does.
    pub sending_ns: u32,
    /// How many of either a server has.
    pub io_threads: u8,
    /// How long an access takes.
    pub access_ns: u32,
    /// What tables do besides under `sundial`.
    pub leases: Leases,
    /// And whether whole tables have leases, where servers keep copies.
    pub leases_tables: bool,
    /// Where reuse is voted on: how many percent of the votes must be for it.
    pub vote_percent: u8,
    /// Whether what is prepared is read in any case, under `sundial`.
    pub reads_prepared: bool,
    /// Whether the younger of two is refused though the other has prepared, where it would be kept waiting: not under two-phase locking, which refuses it at once.
    pub refuses_younger: bool,
    /// Whether leases of what somebody is going to write can be renewed for as long as that is safe, under `sundial`.
    pub lends: bool,
    /// How far the clocks of the servers are apart, for protocols that go by them.
    pub clocks_apart_us: u32,
    /// Where transactions have ranges of commit times: how many ticks of them are frozen when they are prepared.
    pub frozen_ticks: u64,
    /// And whether who asks to write what somebody has read who has frozen all times without end aborts at once.
    pub meets_frozen_at_once: bool,
    /// There, how many ticks of room are left to one that must come before another.
    pub range_room: u64,
    /// Whether transactions begin at the time of their server's clock, and no earlier.
    pub begins_by_clock: bool,
    /// Whether what was replaced at the commit time itself is counted as if it had been later: case (a) of Sundial's Figure 12, not (b).
    pub then_is_later: bool,
}

/// Who is asked to prepare, and when a commit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoPhaseCommit {
    /// Every server where something is locked is asked, and a commit ends when all who have prepared have been told [Sundial §3.3].
    AsPrinted,
    /// Those are asked that could have an objection, and nobody waits for others to be told.
    Ours,
}

impl TwoPhaseCommit {
    /// Behind a title.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            TwoPhaseCommit::AsPrinted => "two-phase commit as it is printed",
            TwoPhaseCommit::Ours => "our two-phase commit",
        }
    }
}

impl Servers {
    /// A message takes so long at either end.
    pub(super) fn take_for_messages(&mut self, ns: u32) {
        (self.handling_ns, self.sending_ns) = (ns, ns);
    }

    /// What is under `sundial` is as in the paper, without what is ours: see [`Rules::Printed`].
    pub(super) fn be_as_printed(&mut self) {
        self.reads_prepared = true;
        self.refuses_younger = true;
        self.lends = false;
        self.leases = Leases::default();
    }

    /// With what these rules change of it; the protocol of all tables; and when copies are read, if there are any. None: the rules are of something else.
    pub(super) fn under(mut self, rules: Rules) -> Option<(Servers, Protocol, Option<Reuse>)> {
        let (protocol, reuse) = match rules {
            Rules::Engine(protocol) => (protocol, None),
            Rules::Copying(reuse) => (Protocol::Sundial, Some(reuse)),
            Rules::Freezing => {
                self.frozen_ticks = u64::MAX;
                (Protocol::Dynamic, None)
            }
            Rules::Clocked => {
                self.begins_by_clock = true;
                (Protocol::Ranges, None)
            }
            Rules::Printed => {
                self.be_as_printed();
                (Protocol::Sundial, None)
            }
            Rules::Items(ItemsBy::Copies | ItemsBy::Asking) => (Protocol::Sundial, None),
            Rules::Items(ItemsBy::Cache) => (Protocol::Sundial, Some(Reuse::Voted)),
            Rules::Items(ItemsBy::CacheAndTableLeases) => {
                self.leases_tables = true;
                (Protocol::Sundial, Some(Reuse::Voted))
            }
            Rules::Sets(..) | Rules::Memory(_) => return None,
        };
        Some((self, protocol, reuse))
    }

    /// The cluster that it is, with one protocol for all tables, and room for copies of so many bytes at each server where they are kept.
    pub(super) fn spec(&self, protocol: Protocol, reuse: Option<Reuse>, copies_bytes: u64) -> ClusterSpec {
        let latency_ns = u64::from(self.latency_us) * 1_000;
        let latency = self.site.latency(latency_ns);
        let between_ns = self.site.between_ns(self.count);
        let farthest_ns = between_ns.iter().flatten().copied().max().unwrap_or(0);
        let cache = |reuse| CacheOptions {
            bytes_max: copies_bytes as usize,
            reuse: match reuse {
                Reuse::Always => ReusePolicy::Always,
                Reuse::Never => ReusePolicy::Never,
                Reuse::Voted => ReusePolicy::Voted(f64::from(self.vote_percent) / 100.0),
            },
            ..CacheOptions::default()
        };
        let is_printed = self.two_phase_commit == TwoPhaseCommit::AsPrinted;
        ClusterSpec {
            leases: self.leases,
            cache: reuse.filter(|_| copies_bytes > 0).map(cache),
            reads_prepared: self.reads_prepared,
            refuses_younger: self.refuses_younger,
            lends: self.lends,
            clock_skew_ns: u64::from(self.clocks_apart_us) * 1_000,
            frozen_ticks: self.frozen_ticks,
            meets_frozen_at_once: self.meets_frozen_at_once,
            range_room: self.range_room,
            begins_by_clock: self.begins_by_clock,
            table_leases: self.leases_tables.then(TableLeases::default),
            policy: Policy {
                attempts_max: None,
                backoff_max: match self.backoff_round_trips {
                    0 => Duration::from_micros(self.backoff_max_us.into()),
                    trips => Duration::from_nanos(u64::from(trips) * self.round_trip_ns()),
                },
                backoff_round_trips: None,
                // The papers know of none.
                escape_after: None,
            },
            new_ages: self.new_ages,
            asks_everybody: is_printed,
            waits_until_told: is_printed,
            conditions: Conditions {
                latency: latency.clone(),
                handling_ns: self.handling_ns.into(),
                sending_ns: self.sending_ns.into(),
                io_threads: self.io_threads.into(),
                access_ns: self.access_ns.into(),
                pairs: between_ns
                    .into_iter()
                    .map(|to| to.into_iter().map(|more_ns| latency.clone().and_ns(more_ns)).collect())
                    .collect(),
                ..Conditions::quiet()
            },
            // What takes long in the world is not yet lost.
            wait_max_ns: (u64::from(self.wait_max_us) * 1_000).max(50 * farthest_ns),
            resend_after_ns: RESEND_AFTER_DEFAULT_NS.max(10 * farthest_ns),
            ..ClusterSpec::new(self.count, protocol)
        }
    }

    /// How long a message is on its way to another server and back, on the average over all pairs.
    pub(super) fn round_trip_ns(&self) -> u64 {
        let between_ns = self.site.between_ns(self.count);
        let pairs = between_ns.iter().flatten().filter(|ns| **ns > 0);
        let mean_ns = pairs.clone().sum::<u64>() / (pairs.count() as u64).max(1);
        2 * (u64::from(self.latency_us) * 1_000 + mean_ns)
    }

    /// Of what is planned for virtual cores: longer, as transactions take so much longer; but as many times shorter as there are 32 servers, which
    /// get through as many transactions in less time.
    pub(super) fn longer_ps(&self, ps: Picoseconds) -> Picoseconds {
        ps * self.site.slower() / Picoseconds::from(self.count / 32).max(1)
    }

    /// A run of that.
    pub(super) fn longer(&self, plan: Plan) -> Plan {
        let (warm_up_ps, measured_ps) = (self.longer_ps(plan.warm_up_ps), self.longer_ps(plan.measured_ps));
        Plan { warm_up_ps, measured_ps, ..plan }
    }

    /// What is said of a run on them.
    pub(super) fn report(
        &self,
        cell: &Cell,
        workload: &str,
        seed: u64,
        mut parameters: BTreeMap<String, String>,
        mut found: ClusterMeasured,
    ) -> RunReport {
        let rules = &mut found.measured.conflicts.rules;
        if self.then_is_later
            && let Some(then) = rules.remove("sundial: renew, replaced then")
        {
            *rules.entry("sundial: renew, replaced later".to_owned()).or_default() += then;
        }
        parameters.insert(Reproduction::WORKERS.to_owned(), cell.cores.to_string());
        parameters.insert(Reproduction::SERVERS.to_owned(), self.count.to_string());
        if found.cache != CacheCounts::default() {
            let CacheCounts { reused, requested, missed, current, stale, evicted } = found.cache;
            parameters.insert(
                "copies".to_owned(),
                format!(
                    "{reused} read, {requested} asked about, {missed} not there; {current} found to be current, {stale} stale; {evicted} evicted"
                ),
            );
        }
        let traffic = Traffic { messages: found.messages, bytes: found.bytes };
        let phases = phases(&found);
        let report = report(cell, workload, seed, parameters, found.measured);
        let threads = cell.cores * usize::from(self.count);
        RunReport { threads, lines: None, traffic: Some(traffic), phases: Some(phases), ..report }
    }

    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let Servers {
            count,
            site,
            together,
            backoff_max_us,
            backoff_round_trips,
            abort_buffer,
            new_ages,
            two_phase_commit,
            wait_max_us,
            latency_us,
            handling_ns,
            sending_ns,
            io_threads,
            access_ns,
            leases,
            leases_tables,
            vote_percent,
            reads_prepared,
            refuses_younger,
            lends,
            clocks_apart_us,
            frozen_ticks,
            meets_frozen_at_once,
            range_room,
            begins_by_clock,
            then_is_later,
        } = *self;
        let us = |ns: u32| f64::from(ns) / 1_000.0;
        let of_crowded = |permille| f64::from(latency_us) * Site::of_crowded(permille);
        let (asked, told) = match two_phase_commit {
            TwoPhaseCommit::AsPrinted => (
                "all where something is locked, or could have an objection, as in the paper's Algorithm 2; its §3.3 asks each server that was accessed",
                "when all who are prepared have been told, as in the paper",
            ),
            TwoPhaseCommit::Ours => {
                ("those that could have an objection", "once it is decided; others are told meanwhile")
            }
        };
        let begin = either(
            begins_by_clock,
            "at the time of their server's clock",
            "after the last commit that their client knows of",
        );
        let frozen = match frozen_ticks {
            u64::MAX => "all from the first on".to_owned(),
            ticks => format!("{ticks} ticks"),
        };
        let mut words = vec![
            ("servers", count.to_string()),
            (
                "rows whose keys are known together",
                either(
                    together,
                    "asked for together, with one message to each server",
                    "asked for one by one",
                ),
            ),
            (
                "whoever has failed",
                match (backoff_round_trips, backoff_max_us) {
                    (0, 0) => "is run again at once".into(),
                    (0, most) => format!("pauses for a random time below {most} µs"),
                    (1, _) => "pauses for a random time below a round trip".into(),
                    (trips, _) => format!("pauses for a random time below {trips} round trips"),
                },
            ),
            (
                "the worker of one that pauses",
                match abort_buffer {
                    0 => "pauses with it".into(),
                    most => format!("runs others, until {most} have failed and wait (an abort buffer)"),
                },
            ),
            ("who is run again", either(new_ages, "has a new age", "keeps its age")),
            ("who is asked to prepare", asked.to_owned()),
            ("a commit ends", told.to_owned()),
            (
                "a waiter waits",
                format!("for {} ms at most, or for 25 round trips", f64::from(wait_max_us) / 1e3),
            ),
            (
                "a message is on its way",
                match site {
                    Site::Room => format!("for {latency_us} µs, a sixth more or less; 10 Gbit/s a server"),
                    Site::Crowded => format!(
                        "for {latency_us} µs mostly, one in ten for {} µs or longer, one in a hundred for {} µs, one in a thousand for {} µs, and none for more than {} µs; 10 Gbit/s a server",
                        of_crowded(900),
                        of_crowded(990),
                        of_crowded(999),
                        of_crowded(1_000),
                    ),
                    Site::World => {
                        let (least, most) = site.round_trips_ms();
                        format!(
                            "for {latency_us} µs, and half of a round trip of {least} to {most} ms; 10 Gbit/s a server"
                        )
                    }
                },
            ),
            (
                Axis::MESSAGES,
                format!(
                    "{} µs of the sender's output thread, and {} µs of the receiver's input thread; of either a server has {io_threads}",
                    us(sending_ns),
                    us(handling_ns)
                ),
            ),
            (
                "an access takes",
                format!("{} µs, of its own worker at home, of the input thread elsewhere", us(access_ns)),
            ),
            (Axis::CLOCKS, format!("{clocks_apart_us} µs")),
            (
                "rows whose writer has prepared",
                either(
                    reads_prepared,
                    "are read in any case",
                    "are read by those who can commit within their lease; others wait",
                ),
            ),
            (
                "the younger of two writers",
                either(
                    refuses_younger,
                    "is refused whatever the other is about",
                    "waits if the other has prepared, but under two-phase locking; is refused otherwise",
                ),
            ),
            (
                "the lease of a row that somebody is about to write",
                either(
                    lends,
                    "is renewed until the writer prepares, who lends it until just before he replaces the row",
                    "is renewed by nobody",
                ),
            ),
            (
                "whole tables",
                either(
                    leases_tables,
                    "have leases where they are seldom written",
                    "have leases where a protocol's name says so",
                ),
            ),
            (
                "copies are reused by vote",
                format!("if {vote_percent} % of the votes of their table are for it"),
            ),
            (
                "what was replaced at the commit time itself",
                either(
                    then_is_later,
                    "is in case (a), as in the paper's §5.1",
                    "is in case (b), as in the paper's figure",
                ),
            ),
        ];
        words.push((
            "who would write what is read by one who has frozen all times",
            either(
                meets_frozen_at_once,
                "aborts at once, as in the paper",
                "aborts when it prepares itself, if that one has not ended by then",
            ),
        ));
        words.extend(leases_in_words(leases));
        words.push((
            "ranges of commit times",
            format!(
                "begin {begin}; who must come before another is left {range_room} ticks of room, if there is no end to it; who is prepared has \
                 frozen {frozen}, or fewer"
            ),
        ));
        words
    }
}
