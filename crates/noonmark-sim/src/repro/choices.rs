//! Choices that papers leave open, made otherwise, where several experiments have them: of a machine with many cores, and of the servers of a cluster.
//!
//! What it does not do: make them; see [`SERVERS`](super::cluster::SERVERS).

use crate::{Machine, Placement};

use super::{Alternative, Servers, Site, Spanning, TwoPhaseCommit, Variant, Workload};

pub(super) const SPREAD: Alternative = Alternative {
    words: "cores of all sockets in turn",
    change: |variant| variant.placement = Placement::Spread,
};
pub(super) const ONE_SOCKET: Alternative = Alternative {
    words: "one socket of 64 cores, lines in 25 ns",
    change: |variant| variant.machine = Machine::SLOW_CLOCKS,
};
pub(super) const UNPAUSED: Alternative =
    Alternative { words: "run again at once after conflicts", change: |variant| variant.backs_off = false };

/// Changes what is about the servers.
pub(super) fn of_servers(variant: &mut Variant, change: fn(&mut Servers)) {
    if let Some(servers) = variant.workload.servers_mut() {
        change(servers);
    }
}

/// Changes what is about YCSB on them.
pub(super) fn of_spanning(variant: &mut Variant, change: fn(&mut Spanning)) {
    if let Workload::Spanning(spanning) = &mut variant.workload {
        change(spanning);
    }
}

pub(super) const TOGETHER: Alternative = Alternative {
    words: "all rows of a transaction asked for together",
    change: |variant| of_servers(variant, |servers| servers.together = true),
};
pub(super) const CHEAP_MESSAGES: Alternative = Alternative {
    words: "messages that take 0.2 µs",
    change: |variant| of_servers(variant, |servers| servers.take_for_messages(200)),
};
pub(super) const DEAR_MESSAGES: Alternative = Alternative {
    words: "messages that take 10 µs",
    change: |variant| of_servers(variant, |servers| servers.take_for_messages(10_000)),
};
pub(super) const FAR_MESSAGES: Alternative = Alternative {
    words: "messages on their way for 100 µs",
    change: |variant| of_servers(variant, |servers| servers.latency_us = 100),
};
pub(super) const LONG_TAIL: Alternative = Alternative {
    words: "messages on their way with a long tail",
    change: |variant| of_servers(variant, |servers| servers.site = Site::Crowded),
};
pub(super) const MESSAGE_THREADS: Alternative = Alternative {
    words: "two threads for messages either way",
    change: |variant| of_servers(variant, |servers| servers.io_threads = 2),
};
pub(super) const SLOW_ACCESSES: Alternative = Alternative {
    words: "accesses that take 5 µs",
    change: |variant| of_servers(variant, |servers| servers.access_ns = 5_000),
};
pub(super) const AT_ONCE: Alternative = Alternative {
    words: "run again at once after conflicts",
    change: |variant| of_servers(variant, |servers| servers.backoff_max_us = 0),
};
pub(super) const TEN_ROUND_TRIPS: Alternative = Alternative {
    words: "pauses of up to ten round trips",
    change: |variant| of_servers(variant, |servers| servers.backoff_round_trips = 10),
};
pub(super) const UNBUFFERED: Alternative = Alternative {
    words: "no abort buffer: a worker pauses with its transaction",
    change: |variant| of_servers(variant, |servers| servers.abort_buffer = 0),
};
pub(super) const UNBUFFERED_TOGETHER: Alternative = Alternative {
    words: "no abort buffer, and all rows of a transaction asked for together",
    change: |variant| {
        of_servers(variant, |servers| (servers.abort_buffer, servers.together) = (0, true));
    },
};
pub(super) const NEW_AGES: Alternative = Alternative {
    words: "a new age for each attempt",
    change: |variant| of_servers(variant, |servers| servers.new_ages = true),
};
pub(super) const MOSTLY_REMOTE: Alternative = Alternative {
    words: "three quarters of the accesses remote, as if keys knew no home",
    change: |variant| of_spanning(variant, |spanning| spanning.remote_percent = 75),
};

/// Where it is not so yet.
pub(super) const OUR_COMMIT: Alternative = Alternative {
    words: "our two-phase commit: asked are those that could have an objection, nobody waits for others to be told",
    change: |variant| of_servers(variant, |servers| servers.two_phase_commit = TwoPhaseCommit::Ours),
};

/// As in §5.1 of Sundial, not as in its Figure 12.
pub(super) const COUNTED_AS_LATER: Alternative = Alternative {
    words: "replaced at the commit time itself counted as (a)",
    change: |variant| of_servers(variant, |servers| servers.then_is_later = true),
};

// As in Sundial, each by itself.
pub(super) const PREPARED_READ_ALWAYS: Alternative = Alternative {
    words: "rows whose writer has prepared read in any case",
    change: |variant| of_servers(variant, |servers| servers.reads_prepared = true),
};
pub(super) const YOUNGER_REFUSED: Alternative = Alternative {
    words: "the younger of two writers refused though the other has prepared",
    change: |variant| of_servers(variant, |servers| servers.refuses_younger = true),
};
pub(super) const NOTHING_LENT: Alternative = Alternative {
    words: "no lease renewed of a row that somebody is about to write",
    change: |variant| of_servers(variant, |servers| servers.lends = false),
};

/// All of them, and no leases but those that are renewed at commit.
pub(super) const PRINTED_ALTERNATIVE: Alternative = Alternative {
    words: "all as it is printed",
    change: |variant| of_servers(variant, Servers::be_as_printed),
};

/// Not as the text has it of MaaT [Sundial §6.5].
pub(super) const FROZEN_MET_LATE: Alternative = Alternative {
    words: "who would write what is read by one who has frozen all times aborted only when it prepares itself",
    change: |variant| of_servers(variant, |servers| servers.meets_frozen_at_once = false),
};

pub(super) const EXTENDED: Alternative = Alternative {
    words: "leases extended while executing",
    change: |variant| of_servers(variant, |servers| servers.leases.extended_by = Some(0)),
};
pub(super) const EXTENDED_FURTHER: Alternative = Alternative {
    words: "leases extended by 100 ticks while executing",
    change: |variant| of_servers(variant, |servers| servers.leases.extended_by = Some(100)),
};
pub(super) const HALF_THE_VOTES: Alternative = Alternative {
    words: "copies reused if half of the votes are for it",
    change: |variant| of_servers(variant, |servers| servers.vote_percent = 50),
};
