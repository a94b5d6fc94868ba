//! The workloads and their presets, by name.

use crate::bank::{BankSpec, Updates};
use crate::counter::CounterSpec;
use crate::queue::QueueSpec;
use crate::recorded::{Kind, RecordedSpec};
use crate::tpcc;
use crate::tpcc::population::Scale;
use crate::tpcc::request::Mix as TpccMix;
use crate::tpcc::schema::Split;
use crate::workload::RunError;
use crate::ycsb::properties::{InsertOrder, RequestDistribution};
use crate::ycsb::{CoreSpec, Keys, TransactionsSpec, core_spec};

use super::Access;

/// The rows of a transactional YCSB variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowShape {
    /// Ten columns of ten bytes, even and odd ones apart.
    EvenOdd,
    /// 1 KB in one group.
    Rows1k,
    /// Eight bytes.
    Words,
}

/// A workload and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSpec {
    /// YCSB's core workload.
    YcsbCore(CoreSpec),
    /// A paper's transactional variant of YCSB.
    YcsbTransactions {
        /// The rows.
        rows: RowShape,
        /// The transactions.
        spec: TransactionsSpec,
    },
    /// [DistTicToc §2.2]'s money-moving form of YCSB: the bank with string keys.
    YcsbMoney(BankSpec),
    /// Transfers between accounts.
    Bank(BankSpec),
    /// Hot counters.
    Counter(CounterSpec),
    /// A queue of orders.
    Queue(QueueSpec),
    /// A workload whose history is recorded and checked.
    Recorded(RecordedSpec),
    /// TPC-C.
    Tpcc(TpccSpec),
}

/// What of TPC-C is a setting here; the run has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpccSpec {
    /// How large it is.
    pub scale: Scale,
    /// Which transactions are run.
    pub mix: TpccMix,
    /// Which rows have more than one timestamp where groups are fine.
    pub fine_split: Split,
}

/// The presets of YCSB by name.
pub const YCSB_PRESETS: [&str; 11] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "granularity",
    "sundial",
    "disttictoc-read",
    "disttictoc-money",
    "dynamic",
];

impl WorkloadSpec {
    /// A workload and a preset of it by name: [`YCSB_PRESETS`] of `ycsb`; `full`, `granularity` and `half` of
    /// `tpcc`; `default` of the others.
    pub fn named(workload: &str, preset: &str) -> Result<Self, RunError> {
        let spec = match (workload, preset) {
            ("ycsb", _) => return Self::ycsb(preset),
            ("tpcc", _) => return Self::tpcc(preset),
            ("bank", "default") => WorkloadSpec::Bank(BankSpec::classic()),
            ("counter", "default") => WorkloadSpec::Counter(CounterSpec::default()),
            ("queue", "default") => WorkloadSpec::Queue(QueueSpec::default()),
            ("append", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Append)),
            ("register", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Register)),
            ("scan", "default") => WorkloadSpec::Recorded(RecordedSpec::new(Kind::Scan)),
            ("bank" | "counter" | "queue" | "append" | "register" | "scan", _) => {
                return Err(RunError::Setting(format!("{workload} has no preset {preset}")));
            }
            _ => {
                let known = "ycsb, tpcc, bank, counter, queue, append, register, scan";
                return Err(RunError::Setting(format!("workload {workload}: one of {known} is wanted")));
            }
        };
        Ok(spec)
    }

    fn ycsb(preset: &str) -> Result<Self, RunError> {
        let spec = match preset {
            "granularity" => WorkloadSpec::YcsbTransactions {
                rows: RowShape::EvenOdd,
                spec: TransactionsSpec::granularity(),
            },
            "sundial" => {
                WorkloadSpec::YcsbTransactions { rows: RowShape::Rows1k, spec: TransactionsSpec::sundial() }
            }
            "dynamic" => {
                WorkloadSpec::YcsbTransactions { rows: RowShape::Words, spec: TransactionsSpec::dynamic() }
            }
            "disttictoc-read" => WorkloadSpec::YcsbCore(CoreSpec {
                field_bytes: 10,
                read: 1.0,
                update: 0.0,
                request_distribution: RequestDistribution::Uniform,
                ..CoreSpec::default()
            }),
            "disttictoc-money" => WorkloadSpec::YcsbMoney(BankSpec::disttictoc()),
            letter if letter.chars().count() == 1 => {
                let spec = letter.chars().next().and_then(core_spec).map(WorkloadSpec::YcsbCore);
                return spec.ok_or_else(|| Self::no_such_preset(preset));
            }
            _ => return Err(Self::no_such_preset(preset)),
        };
        Ok(spec)
    }

    fn tpcc(preset: &str) -> Result<Self, RunError> {
        let Some(mix) = TpccMix::ALL.into_iter().find(|mix| mix.to_string() == preset) else {
            let names: Vec<String> = TpccMix::ALL.iter().map(TpccMix::to_string).collect();
            let what = format!("preset {preset}: one of {} is wanted", names.join(", "));
            return Err(RunError::Setting(what));
        };
        // [Granularity §3.4] splits districts and customers, not warehouses.
        let fine_split = if mix == TpccMix::Granularity { Split::Paper } else { Split::Fine };
        Ok(WorkloadSpec::Tpcc(TpccSpec { scale: Scale::standard(1), mix, fine_split }))
    }

    fn no_such_preset(preset: &str) -> RunError {
        RunError::Setting(format!("preset {preset}: one of {} is wanted", YCSB_PRESETS.join(", ")))
    }

    /// The workload's name, as in a report.
    pub fn name(&self) -> &'static str {
        match self {
            WorkloadSpec::YcsbCore(_)
            | WorkloadSpec::YcsbTransactions { .. }
            | WorkloadSpec::YcsbMoney(_) => "ycsb",
            WorkloadSpec::Bank(_) => "bank",
            WorkloadSpec::Counter(_) => "counter",
            WorkloadSpec::Queue(_) => "queue",
            WorkloadSpec::Recorded(spec) => spec.kind.name(),
            WorkloadSpec::Tpcc(_) => "tpcc",
        }
    }

    /// Sets how many warehouses there are, where that is a setting.
    pub fn set_warehouses(&mut self, warehouses: u16) -> Result<(), RunError> {
        match self {
            WorkloadSpec::Tpcc(spec) => {
                spec.scale.warehouses = warehouses;
                Ok(())
            }
            other => Err(RunError::Setting(format!("{} has no warehouses", other.name()))),
        }
    }

    /// Sets how many rows there are, where that is a setting.
    pub fn set_rows(&mut self, rows: u64) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) => spec.record_count = rows,
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.rows = rows,
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.accounts = rows,
            WorkloadSpec::Counter(spec) => spec.counters = rows,
            WorkloadSpec::Queue(spec) => spec.waiting = rows,
            WorkloadSpec::Recorded(spec) => spec.hot_keys = rows,
            WorkloadSpec::Tpcc(_) => {
                let what = "tpcc has as many rows as its warehouses have: set those";
                return Err(RunError::Setting(what.into()));
            }
        }
        Ok(())
    }

    /// Sets the skew, where that is a setting; 0 is uniform.
    pub fn set_theta(&mut self, theta: f64) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) if theta == 0.0 => {
                spec.request_distribution = RequestDistribution::Uniform;
            }
            WorkloadSpec::YcsbCore(spec) => {
                spec.theta = theta;
                if spec.request_distribution != RequestDistribution::Latest {
                    spec.request_distribution = RequestDistribution::Zipfian;
                }
            }
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.keys = Keys::Zipfian { theta },
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.theta = theta,
            other => return Err(RunError::Setting(format!("{} has no skew to set", other.name()))),
        }
        Ok(())
    }

    /// Sets how the rows' numbers become keys, where that is a setting.
    pub fn set_insert_order(&mut self, order: InsertOrder) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) => spec.insert_order = order,
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.insert_order = order,
            other => {
                return Err(RunError::Setting(format!("{} has no insert order to set", other.name())));
            }
        }
        Ok(())
    }

    /// Whether it scans, so that its tables must be ordered.
    pub fn scans(&self) -> bool {
        match self {
            WorkloadSpec::YcsbCore(spec) => spec.scan > 0.0,
            WorkloadSpec::Queue(_) => true,
            WorkloadSpec::Recorded(spec) => spec.kind == Kind::Scan,
            _ => false,
        }
    }

    /// How many tables it has; `None`: as many as it is asked for.
    pub(super) fn tables(&self) -> Option<usize> {
        match self {
            WorkloadSpec::Recorded(_) => None,
            WorkloadSpec::Tpcc(_) => Some(tpcc::schema::TABLES),
            _ => Some(1),
        }
    }

    /// Takes over how values are updated and keys handed over, if it can.
    pub(super) fn set_manner(&mut self, updates: Updates, access: Access) -> Result<(), RunError> {
        let multi_get = access == Access::MultiGet;
        match self {
            WorkloadSpec::YcsbTransactions { spec, .. } if updates == Updates::Plain => {
                spec.multi_get = multi_get;
            }
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => {
                spec.updates = updates;
                spec.multi_get = multi_get;
                // What is not read cannot be refused.
                spec.overdraft |= updates == Updates::CommitTime;
            }
            WorkloadSpec::Counter(spec) if !multi_get => spec.updates = updates,
            WorkloadSpec::Recorded(spec) => {
                spec.updates = updates;
                spec.together = multi_get;
            }
            // The run has them.
            WorkloadSpec::Tpcc(_) => {}
            _ if updates == Updates::Plain && !multi_get => {}
            other => {
                let what = format!("{} has no form with {updates} updates and {access} access", other.name());
                return Err(RunError::Setting(what));
            }
        }
        Ok(())
    }
}

impl WorkloadSpec {
    /// That its settings go together.
    pub(super) fn check(&self) -> Result<(), RunError> {
        match self {
            WorkloadSpec::YcsbCore(spec) => {
                spec.check().map_err(|error| RunError::Setting(error.to_string()))
            }
            WorkloadSpec::YcsbTransactions { spec, .. } => spec.check(),
            WorkloadSpec::YcsbMoney(spec) | WorkloadSpec::Bank(spec) => spec.check(),
            WorkloadSpec::Counter(spec) => spec.check(),
            WorkloadSpec::Queue(spec) => spec.check(),
            WorkloadSpec::Recorded(spec) => spec.check(),
            WorkloadSpec::Tpcc(spec) => spec.scale.checked().map(drop),
        }
    }
}
