//! What a workload runs on, and how its keys are handed over.

use crate::workload::RunError;
use noonmark::Protocol;
use std::fmt;
use std::str::FromStr;

/// What the workload runs on.
///
/// As text: `mutex`, a protocol's name, several joined by `+`, or `mixed` for all of them, or as many as there are tables.
/// `two-phase` alone is
/// the wait-die form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolChoice {
    /// The baseline: a map with a lock round it for each table.
    Mutex,
    /// The engine, under one of its protocols.
    Engine(Protocol),
    /// The engine, with tables that take these protocols in turn. Two at least, each once.
    Mixed(Vec<Protocol>),
}

/// The name of a mix of all protocols; of two or more tables that are fewer, each takes another.
pub const MIXED: &str = "mixed";

impl ProtocolChoice {
    /// The baseline and each protocol alone, the baseline last.
    pub fn all() -> impl Iterator<Item = ProtocolChoice> {
        let protocols = Protocol::ALL.iter().copied().map(ProtocolChoice::Engine);
        protocols.chain([ProtocolChoice::Mutex])
    }

    /// The protocols that tables take in turn; none is the baseline.
    pub fn protocols(&self) -> &[Protocol] {
        match self {
            ProtocolChoice::Mutex => &[],
            ProtocolChoice::Engine(protocol) => std::slice::from_ref(protocol),
            ProtocolChoice::Mixed(protocols) => protocols,
        }
    }

    /// Whether transactions are serialized in real time. Where all tables keep read times, they commit at
    /// logical times, in the order of each session.
    pub fn is_strict(&self) -> bool {
        *self == ProtocolChoice::Mutex || !self.protocols().iter().all(|protocol| protocol.keeps_read_times())
    }
}

impl fmt::Display for ProtocolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolChoice::Mutex => f.write_str("mutex"),
            ProtocolChoice::Engine(protocol) => f.write_str(protocol.name()),
            ProtocolChoice::Mixed(protocols) if *protocols == Protocol::all_that_mix() => f.write_str(MIXED),
            ProtocolChoice::Mixed(protocols) => {
                let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
                f.write_str(&names.join("+"))
            }
        }
    }
}

impl FromStr for ProtocolChoice {
    type Err = RunError;

    fn from_str(name: &str) -> Result<Self, RunError> {
        if name == "mutex" {
            return Ok(ProtocolChoice::Mutex);
        }
        if name == MIXED {
            return Ok(ProtocolChoice::Mixed(Protocol::all_that_mix()));
        }
        let mut protocols = Vec::new();
        for part in name.split('+').map(str::trim) {
            let protocol = match part {
                "mutex" => {
                    let what =
                        format!("{name}: mutex is not one of the engine's protocols, and mixes with none");
                    return Err(RunError::Setting(what));
                }
                "two-phase" => Protocol::TwoPhaseWaitDie,
                part => Protocol::from_str(part).map_err(|_| {
                    let names: Vec<String> = Self::all().map(|choice| choice.to_string()).collect();
                    let names = names.join(", ");
                    RunError::Setting(format!(
                        "there is no protocol '{part}': choose among {names}; joined by + they share one \
                         database, and {MIXED} is all that can"
                    ))
                })?,
            };
            if protocols.contains(&protocol) {
                return Err(RunError::Setting(format!("{name}: {protocol} is there twice")));
            }
            if let Some(other) = protocols.iter().find(|other| !protocol.mixes_with(**other)) {
                let what =
                    format!("{name}: {other} and {protocol} have no common order, and mix in no database");
                return Err(RunError::Setting(what));
            }
            protocols.push(protocol);
        }
        Ok(match protocols[..] {
            [protocol] => ProtocolChoice::Engine(protocol),
            _ => ProtocolChoice::Mixed(protocols),
        })
    }
}

/// How a transaction's keys are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Each with its operation.
    #[default]
    OneByOne,
    /// All reads together, then all writes together.
    MultiGet,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::OneByOne => "one-by-one",
            Access::MultiGet => "multi-get",
        })
    }
}
