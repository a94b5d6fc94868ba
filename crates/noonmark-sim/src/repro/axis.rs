//! What varies along a plot.

use super::{Variant, Workload};
use noonmark_workloads::report::Reproduction;

/// What an experiment varies from one point of its plot to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The number of cores.
    Cores,
    /// The x of a contention ratio x:y, in percent.
    Contention {
        /// On so many cores.
        cores: usize,
    },
    /// How many workers each server of a cluster has.
    Workers,
    /// How many servers a cluster has.
    Servers {
        /// Of so many workers each.
        workers: usize,
    },
    /// The exponent of the power law that rows of a cluster are read by, in hundredths.
    Skew {
        /// With so many workers a server.
        workers: usize,
    },
    /// The exponent of the one that rows of a cluster, or of one of its servers, are read and written by.
    Contended {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many of a thousand accesses to rows of a cluster are writes.
    Writes {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many thousandths of one server's rows each server may keep copies of.
    Cache {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many microseconds the clocks of a cluster's servers are apart.
    Clocks {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many nanoseconds a message takes of a thread of a cluster's server, at either end.
    Messages {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many warehouses each server of a cluster has.
    Warehouses {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many clients there are before workers that share nothing.
    Clients,
    /// How many workers there are that share nothing.
    Nodes {
        /// With so many clients.
        clients: usize,
    },
    /// The seed, of a cluster: so many more than that of the plan.
    Seeds {
        /// With so many workers a server.
        workers: usize,
    },
    /// How many percent of the transactions only read.
    ReadOnly {
        /// On so many cores.
        cores: usize,
    },
}

/// Where an experiment is run, in the order of its plot.
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// As the paper has it.
    pub all: &'static [usize],
    /// For a look.
    pub few: &'static [usize],
}

impl Axis {
    /// What a run's parameters call its contention ratio.
    pub(super) const CONTENTION: &str = "contention";
    /// What they call the share of transactions that only read.
    pub(super) const READ_ONLY: &str = "read-only";
    /// What they call the exponent of the power law that rows are read by.
    pub(super) const SKEW: &str = Reproduction::SKEW;
    /// What they call the exponent of the power law that rows are written by.
    pub(super) const WRITES_SKEW: &str = "exponent of writes";
    /// What they call the share of accesses that are writes.
    pub(super) const WRITES: &str = "writes";
    /// What they call the room that there is for copies.
    pub(super) const CACHE: &str = "room for copies, of one server's rows";
    /// What they call the difference between clocks.
    pub(super) const CLOCKS: &str = "difference of the servers' clocks";
    /// What they call what a message takes.
    pub(super) const MESSAGES: &str = "a message takes";
    /// What they call the workers that share nothing.
    pub(super) const NODES: &str = Reproduction::NODES;
    /// What they call the seed.
    pub(super) const SEED: &str = Reproduction::SEED;

    /// What it is called; but for the cores the parameter of a run that it is about.
    pub(super) fn name(self) -> &'static str {
        match self {
            Axis::Cores => Reproduction::CORES,
            Axis::Workers => Reproduction::WORKERS,
            Axis::Servers { .. } => Reproduction::SERVERS,
            Axis::Contention { .. } => Axis::CONTENTION,
            Axis::ReadOnly { .. } => Axis::READ_ONLY,
            Axis::Skew { .. } | Axis::Contended { .. } => Axis::SKEW,
            Axis::Writes { .. } => Axis::WRITES,
            Axis::Cache { .. } => Axis::CACHE,
            Axis::Clocks { .. } => Axis::CLOCKS,
            Axis::Messages { .. } => Axis::MESSAGES,
            Axis::Warehouses { .. } => Reproduction::WAREHOUSES,
            Axis::Clients => Reproduction::CLIENTS,
            Axis::Nodes { .. } => Axis::NODES,
            Axis::Seeds { .. } => Axis::SEED,
        }
    }

    /// Makes the variant that of a point, and says on how many cores it is run, or with how many workers a server. Percents are below 100.
    pub(super) fn move_to(self, point: usize, variant: &mut Variant) -> usize {
        let percent = u8::try_from(point).unwrap_or(u8::MAX).min(99);
        match (self, &mut variant.workload) {
            (Axis::Contention { cores }, Workload::Contended(contended)) => {
                contended.contention_percent = percent;
                cores
            }
            (Axis::ReadOnly { cores }, Workload::Contended(contended)) => {
                contended.read_only_percent = percent;
                cores
            }
            (Axis::Servers { workers }, workload) => {
                if let Some(servers) = workload.servers_mut() {
                    servers.count = u16::try_from(point).unwrap_or(u16::MAX);
                }
                workers
            }
            (Axis::Skew { workers }, Workload::Spanning(spanning)) => {
                spanning.reads_skew = u16::try_from(point).unwrap_or(u16::MAX);
                workers
            }
            (Axis::Contended { workers }, Workload::Spanning(spanning)) => {
                let skew = u16::try_from(point).unwrap_or(u16::MAX);
                (spanning.reads_skew, spanning.writes_skew) = (skew, skew);
                workers
            }
            (Axis::Contended { workers }, Workload::Leased(leased)) => {
                leased.skew = u16::try_from(point).unwrap_or(u16::MAX);
                workers
            }
            (Axis::Writes { workers }, Workload::Spanning(spanning)) => {
                spanning.writes_permille = u16::try_from(point).unwrap_or(u16::MAX).min(1_000);
                workers
            }
            (Axis::Cache { workers }, Workload::Spanning(spanning)) => {
                spanning.cache_permille = u16::try_from(point).unwrap_or(u16::MAX);
                workers
            }
            (Axis::Clocks { workers }, workload) => {
                if let Some(servers) = workload.servers_mut() {
                    servers.clocks_apart_us = u32::try_from(point).unwrap_or(u32::MAX);
                }
                workers
            }
            (Axis::Messages { workers }, workload) => {
                workload.take_for_messages(u32::try_from(point).unwrap_or(u32::MAX));
                workers
            }
            (Axis::Warehouses { workers }, Workload::Warehouses(warehouses)) => {
                warehouses.a_server = u16::try_from(point).unwrap_or(u16::MAX);
                workers
            }
            (Axis::Seeds { workers }, Workload::Spanning(spanning)) => {
                spanning.repetition = u8::try_from(point).unwrap_or(u8::MAX);
                workers
            }
            (Axis::Nodes { clients }, Workload::Sharing(sharing)) => {
                sharing.workers = u16::try_from(point).unwrap_or(u16::MAX);
                clients
            }
            (Axis::Contention { cores } | Axis::ReadOnly { cores } | Axis::Nodes { clients: cores }, _) => {
                cores
            }
            (
                Axis::Skew { workers }
                | Axis::Contended { workers }
                | Axis::Writes { workers }
                | Axis::Cache { workers }
                | Axis::Warehouses { workers }
                | Axis::Seeds { workers },
                _,
            ) => workers,
            (Axis::Cores | Axis::Workers | Axis::Clients, _) => point,
        }
    }

    /// The same with so many workers a server, if it is about a cluster's servers, and varies something else than how many workers they have.
    pub(super) fn with_workers(mut self, count: usize) -> Option<Axis> {
        match &mut self {
            Axis::Servers { workers }
            | Axis::Skew { workers }
            | Axis::Contended { workers }
            | Axis::Writes { workers }
            | Axis::Cache { workers }
            | Axis::Clocks { workers }
            | Axis::Messages { workers }
            | Axis::Warehouses { workers }
            | Axis::Seeds { workers } => *workers = count,
            Axis::Cores
            | Axis::Contention { .. }
            | Axis::Workers
            | Axis::Clients
            | Axis::Nodes { .. }
            | Axis::ReadOnly { .. } => return None,
        }
        Some(self)
    }

    /// Says in the words of the choices what varies, and what does not.
    pub(super) fn mark(self, choices: &mut Vec<(String, String)>) {
        let is_varied = |name: &str| {
            name == self.name() || matches!(self, Axis::Contended { .. }) && name == Axis::WRITES_SKEW
        };
        choices
            .iter_mut()
            .filter(|(name, _)| is_varied(name))
            .for_each(|(_, value)| *value = "varied".into());
        match self {
            Axis::Contention { cores } | Axis::ReadOnly { cores } => choices
                .insert(0, ("concurrent transactions".into(), format!("{cores}, each on a core of its own"))),
            Axis::Servers { workers }
            | Axis::Skew { workers }
            | Axis::Contended { workers }
            | Axis::Writes { workers }
            | Axis::Cache { workers }
            | Axis::Clocks { workers }
            | Axis::Messages { workers }
            | Axis::Warehouses { workers }
            | Axis::Seeds { workers } => {
                choices.insert(0, (Reproduction::WORKERS.into(), workers.to_string()))
            }
            Axis::Nodes { clients } => choices.insert(0, (Reproduction::CLIENTS.into(), clients.to_string())),
            Axis::Cores | Axis::Workers | Axis::Clients => {}
        }
    }

    /// Where these points are, in words.
    pub(super) fn in_words(self, points: &[usize]) -> String {
        let list = |show: fn(usize) -> String| {
            let words: Vec<String> = points.iter().map(|&point| show(point)).collect();
            words.join(" or ")
        };
        match (self, points) {
            (Axis::Cores, []) => "on enough numbers of cores".into(),
            (_, []) => "at enough points".into(),
            (Axis::Cores, [1]) => "on 1 core".into(),
            (Axis::Servers { .. }, _) => format!("with {} servers", list(|point| point.to_string())),
            (Axis::Workers, _) => format!("with {} workers a server", list(|point| point.to_string())),
            (Axis::Warehouses { .. }, _) => {
                format!("with {} warehouses a server", list(|point| point.to_string()))
            }
            (Axis::Cores, _) => format!("on {} cores", list(|point| point.to_string())),
            (Axis::Contention { .. }, _) => format!("at {}", list(ratio)),
            (Axis::ReadOnly { .. }, _) => format!("at {} read-only", list(|point| format!("{point} %"))),
            (Axis::Skew { .. } | Axis::Contended { .. }, _) => {
                format!("at an exponent of {}", list(hundredths))
            }
            (Axis::Writes { .. }, _) => format!("at {} writes", list(permille)),
            (Axis::Cache { .. }, _) => format!("with room for {}", list(permille)),
            (Axis::Clocks { .. }, _) => format!("with clocks {} apart", list(micros)),
            (Axis::Messages { .. }, _) => format!("with messages that take {}", list(nanos)),
            (Axis::Clients, _) => format!("with {} clients", list(|point| point.to_string())),
            (Axis::Nodes { .. }, _) => format!("at {} workers", list(|point| point.to_string())),
            (Axis::Seeds { .. }, _) => {
                format!("with seeds {} after the first", list(|point| point.to_string()))
            }
        }
    }

    /// Where this point is, in few words.
    pub(super) fn briefly(self, point: usize) -> String {
        match self {
            Axis::Cores => format!("on {point}"),
            Axis::Workers
            | Axis::Servers { .. }
            | Axis::Warehouses { .. }
            | Axis::Clients
            | Axis::Nodes { .. } => format!("with {point}"),
            Axis::Seeds { .. } => format!("at the {point}th after"),
            Axis::Contention { .. } => format!("at {}", ratio(point)),
            Axis::ReadOnly { .. } => format!("at {point} %"),
            Axis::Skew { .. } | Axis::Contended { .. } => format!("at {}", hundredths(point)),
            Axis::Writes { .. } | Axis::Cache { .. } => format!("at {}", permille(point)),
            Axis::Clocks { .. } => format!("at {}", micros(point)),
            Axis::Messages { .. } => format!("at {}", nanos(point)),
        }
    }
}

/// A contention ratio in words.
fn ratio(percent: usize) -> String {
    format!("{percent}:{}", 100_usize.saturating_sub(percent))
}

fn hundredths(point: usize) -> String {
    format!("{}", point as f64 / 100.0)
}

fn permille(point: usize) -> String {
    format!("{} %", point as f64 / 10.0)
}

fn micros(point: usize) -> String {
    format!("{point} µs")
}

fn nanos(point: usize) -> String {
    format!("{} µs", point as f64 / 1_000.0)
}
