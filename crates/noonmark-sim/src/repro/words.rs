//! What a choice that is left open is called, wherever it is made.

/// One or the other.
pub(super) fn either(is: bool, so: &str, otherwise: &str) -> String {
    if is { so } else { otherwise }.to_owned()
}

/// Who has failed: below so many round trips, if any, or so long.
pub(super) fn pause(round_trips: u8, most_us: u32) -> (&'static str, String) {
    let words = match (round_trips, most_us) {
        (0, 0) => "is run again at once".into(),
        (0, most) => format!("pauses for a random time below {most} µs"),
        (1, _) => "pauses for a random time below a round trip".into(),
        (trips, _) => format!("pauses for a random time below {trips} round trips"),
    };
    ("whoever has failed", words)
}

pub(super) fn abort_buffer(most: u8) -> (&'static str, String) {
    let words = match most {
        0 => "pauses with it".into(),
        most => format!("runs others, until {most} have failed and wait (an abort buffer)"),
    };
    ("the worker of one that pauses", words)
}

pub(super) fn ages(new_ages: bool) -> (&'static str, String) {
    ("who is run again", either(new_ages, "has a new age", "keeps its age"))
}

pub(super) fn asked(asks_everybody: bool) -> (&'static str, String) {
    let words = either(
        asks_everybody,
        "all where something is locked, or could have an objection, as in the paper",
        "those that could have an objection",
    );
    ("who is asked to prepare", words)
}

pub(super) fn told(waits_until_told: bool) -> (&'static str, String) {
    let words = either(
        waits_until_told,
        "when all who are prepared have been told, as in the paper",
        "once it is decided; others are told meanwhile",
    );
    ("a commit ends", words)
}

pub(super) fn prepared(reads_prepared: bool) -> (&'static str, String) {
    let words = either(
        reads_prepared,
        "are read in any case",
        "are read by those who can commit within their lease; others wait",
    );
    ("rows whose writer has prepared", words)
}

pub(super) fn younger(refuses_younger: bool) -> (&'static str, String) {
    let words = either(
        refuses_younger,
        "is refused whatever the other is about",
        "waits if the other has prepared, but under two-phase locking; is refused otherwise",
    );
    ("the younger of two writers", words)
}

pub(super) fn lending(lends: bool) -> (&'static str, String) {
    let words = either(
        lends,
        "is renewed until the writer prepares, who lends it until just before he replaces the row",
        "is renewed by nobody",
    );
    ("the lease of a row that somebody is about to write", words)
}

pub(super) fn votes(percent: u8) -> (&'static str, String) {
    ("copies are reused by vote", format!("if {percent} % of the votes of their table are for it"))
}

pub(super) fn replaced_then(then_is_later: bool) -> (&'static str, String) {
    let words = either(
        then_is_later,
        "is in case (a), as in the paper's §5.1",
        "is in case (b), as in the paper's figure",
    );
    ("what was replaced at the commit time itself", words)
}
