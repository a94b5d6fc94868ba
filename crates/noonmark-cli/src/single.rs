//! One run of the plan, in the words of `noonmark-workloads`.
//!
//! The defaults that depend on the workload are chosen here: which preset it has when none is named.

use crate::args::{Access, Groups, Index, Updates, Workload};
use crate::error::Failure;
use crate::plan::{RunSpec, Said};
use noonmark_workloads::driver::Length;
use noonmark_workloads::report::{Progress, RunReport};
use noonmark_workloads::spec::{self, Spec, WorkloadSpec};
use noonmark_workloads::store::{Granularity, IndexKind};
use noonmark_workloads::workload::RunError;
use noonmark_workloads::{bank, spec::Access as KeyAccess};

/// Refuses what the workload cannot do, before anything is loaded.
pub fn check(run: &RunSpec) -> Result<(), Failure> {
    translated(run)?.check().map_err(failure)
}

/// Performs the run.
pub fn run(run: &RunSpec, listen: &mut dyn FnMut(&Progress)) -> Result<RunReport, Failure> {
    spec::run(&translated(run)?, listen).map_err(failure)
}

fn translated(run: &RunSpec) -> Result<Spec, Failure> {
    let preset = match (&run.preset, &run.properties, run.workload) {
        (Some(preset), _, _) => preset.clone(),
        (None, Some(_), _) => "properties".into(),
        (None, None, Workload::Ycsb) => "granularity".into(),
        (None, None, Workload::Tpcc) => "full".into(),
        (None, None, _) => "default".into(),
    };
    let mut workload = match &run.properties {
        Some(Said::Core(core)) => WorkloadSpec::YcsbCore(core.clone()),
        _ => WorkloadSpec::named(run.workload.name(), &preset).map_err(failure)?,
    };
    if let Some(Said::InsertOrder(order)) = run.properties {
        workload.set_insert_order(order).map_err(failure)?;
    }
    if let Some(rows) = run.rows {
        workload.set_rows(rows).map_err(failure)?;
    }
    if let Some(theta) = run.theta {
        workload.set_theta(theta).map_err(failure)?;
    }
    if let Some(warehouses) = run.warehouses {
        workload.set_warehouses(warehouses).map_err(failure)?;
    }
    let protocol = run.protocol.parse().map_err(failure)?;
    Ok(Spec {
        threads: run.threads,
        length: Length { seconds: run.timed.then_some(run.seconds), transactions: run.transactions },
        warm_up_s: run.warm_up_s,
        groups: match run.groups {
            Groups::Coarse => Granularity::Coarse,
            Groups::Splitting => Granularity::Splitting,
            Groups::Fine | Groups::Both => Granularity::Fine,
        },
        index: run.index.map(|index| match index {
            Index::Hash => IndexKind::Hash,
            Index::Ordered => IndexKind::Ordered,
        }),
        updates: match run.updates {
            Updates::Plain => bank::Updates::Plain,
            Updates::CommitTime => bank::Updates::CommitTime,
        },
        access: match run.access {
            Access::OneByOne => KeyAccess::OneByOne,
            Access::MultiGet => KeyAccess::MultiGet,
        },
        row_hint: run.row_hint,
        seed: run.seed,
        count_allocations: run.allocations,
        history: run.history.clone(),
        ..Spec::new(workload, preset, protocol)
    })
}

/// A setting that makes no sense is the command line's fault; all else is the run's.
fn failure(error: RunError) -> Failure {
    match error {
        RunError::Setting(why) => Failure::Usage(why),
        other => Failure::Run(other.to_string()),
    }
}
