//! The transactions of a [`Trace`] once more, on virtual cores, under any protocol and any grouping of columns.
//!
//! They are handed out one by one, in their order, to whichever core is free. Each reads, writes, puts in, takes out and scans what it did
//! when it was recorded, as the engine's own transaction, again and again until it commits. So a transaction reads the same rows, but
//! perhaps other values: which rows it goes on to is not decided anew.
//!
//! A table has as many column groups here as the choice for it has, each a number that is counted up where it is written. A read or an
//! update of all of them is one operation, of some of them one for each.
//!
//! What it does not do: pretend that the rows which nobody touched were there, nor wait between transactions as the recorded
//! run may have.

use crate::cores::{Limit, Limits};
use crate::experiment::ExperimentError;
use crate::trace::{GroupBits, Step, Trace, TracedTable};
use crate::{Machine, Picoseconds, VirtualCores};
use noonmark::{
    Abort, ColumnGroup, Database, GROUPS_MAX, Granularity, IndexKind, Policy, Protocol, Row, Session, Table,
    TableOptions, Target, Transaction,
};
use noonmark_workloads::store::StoreError;
use noonmark_workloads::workload::RunError;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

/// What is chosen for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its protocol.
    pub protocol: Protocol,
    /// For each of its column groups in the trace, which group it is part of: numbers from 0, none left out.
    pub part_of: Vec<u8>,
    /// One timestamp a row, which [splits itself](Granularity::Splitting) by these groups.
    pub splits_itself: bool,
}

impl Choice {
    /// All column groups together.
    #[must_use]
    pub fn coarse(protocol: Protocol, table: &TracedTable) -> Self {
        Choice { protocol, part_of: vec![0; table.groups.len()], splits_itself: false }
    }

    /// Each column group by itself.
    #[must_use]
    pub fn fine(protocol: Protocol, table: &TracedTable) -> Self {
        Choice { protocol, part_of: (0..table.groups.len() as u8).collect(), splits_itself: false }
    }

    /// Each by itself when conflicts ask for it.
    #[must_use]
    pub fn splitting(protocol: Protocol, table: &TracedTable) -> Self {
        Choice { splits_itself: true, ..Choice::fine(protocol, table) }
    }

    /// How many groups it makes.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.part_of.iter().max().map_or(1, |most| usize::from(*most) + 1)
    }
}

/// Where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The machine.
    pub machine: Machine,
    /// Workers, each on a core of its own.
    pub cores: usize,
    /// Of ties, and of pauses.
    pub seed: u64,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that ended in a conflict.
    pub aborted: u64,
    /// Virtual time until the last of them had.
    pub took_ps: Picoseconds,
    /// 99 of 100 transactions took no longer, all their attempts together.
    pub p99_ns: u64,
    /// Updates of rows that were not there, since whoever puts them in had not come to it, or whoever takes them out had. They
    /// were passed over.
    pub missed: u64,
    /// The limit that ended it early, if one did.
    pub limit: Option<Limit>,
}

impl Figures {
    /// Committed transactions a virtual second.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        if self.took_ps == 0 { 0.0 } else { self.committed as f64 * 1e12 / self.took_ps as f64 }
    }

    /// Of all attempts, those that ended in a conflict.
    #[must_use]
    pub fn abort_share(&self) -> f64 {
        match self.committed + self.aborted {
            0 => 0.0,
            attempts => self.aborted as f64 / attempts as f64,
        }
    }
}

/// How often workers may touch lines for each row that the trace comes to, before a run is given up: some hundred times what one takes.
const TOUCHES_A_ROW: u64 = 1_000;
/// Rows put in by one transaction before the run.
const LOADED_AT_ONCE: usize = 256;

/// Does a trace again, with a choice for each of its tables. What comes out is a function of the arguments.
///
/// # Errors
/// [`ExperimentError`] if the choices do not go together, or if there are more workers than the machine has cores.
pub fn replay(trace: &Trace, choices: &[Choice], setting: &Setting) -> Result<Figures, ExperimentError> {
    if choices.len() != trace.tables.len() {
        let (choices, tables) = (choices.len(), trace.tables.len());
        return Err(RunError::Setting(format!("{choices} choices for {tables} tables")).into());
    }
    let cores = VirtualCores::new(setting.machine, setting.seed);
    let builder = Database::builder().host(cores.clone()).max_sessions(setting.cores + 1);
    let db = builder.build().map_err(|error| {
        let reason = error.to_string();
        ExperimentError::Run(RunError::Store(StoreError::Session { reason }))
    })?;
    let session = || {
        db.session().map_err(|error| {
            let reason = error.to_string();
            ExperimentError::Run(RunError::Store(StoreError::Session { reason }))
        })
    };
    let mut tables = Vec::with_capacity(trace.tables.len());
    for (table, choice) in trace.tables.iter().zip(choices) {
        tables.push(Played::make(&db, table, choice)?);
    }
    let mut loader = session()?;
    for (table, played) in trace.tables.iter().zip(&tables) {
        played
            .load(&mut loader, &table.was_there)
            .map_err(|abort| RunError::transaction("the load", abort))?;
    }
    let next = Cell::new(0);
    let done = RefCell::new(Figures::default());
    let latencies_ps = RefCell::new(Vec::with_capacity(trace.transactions.len()));
    let failed = RefCell::new(None);
    let work = || -> Result<(), ExperimentError> {
        let mut session = session()?;
        while let Some(steps) = trace.transactions.get(next.replace(next.get() + 1)) {
            if cores.is_over() {
                break;
            }
            let began_ps = cores.now_ps();
            // No limit but that of the run: whoever loses often enough is let through alone.
            let mut missed = 0;
            let result = session.transact_with(&Policy::default(), |tx| {
                if cores.is_over() {
                    return Ok(false);
                }
                missed = 0;
                steps.iter().try_for_each(|step| do_again(tx, &tables, step, &mut missed)).map(|()| true)
            });
            match result {
                Ok(true) => {
                    let ended_ps = cores.now_ps();
                    latencies_ps.borrow_mut().push(ended_ps - began_ps);
                    let mut done = done.borrow_mut();
                    done.committed += 1;
                    done.missed += missed;
                    done.took_ps = done.took_ps.max(ended_ps);
                }
                Ok(false) => break,
                Err(abort) => return Err(RunError::transaction("a recorded transaction", abort).into()),
            }
        }
        done.borrow_mut().aborted += session.statistics().aborts;
        Ok(())
    };
    let began_ps = cores.now_ps();
    let limits = Limits { steps: trace.rows().saturating_mul(TOUCHES_A_ROW), ..Limits::default() };
    let workers = (0..setting.cores).map(|_| {
        let (work, failed) = (&work, &failed);
        move || {
            if let Err(error) = work() {
                failed.borrow_mut().get_or_insert(error);
            }
        }
    });
    let report = cores.run(limits, workers)?;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let mut latencies_ps = latencies_ps.into_inner();
    latencies_ps.sort_unstable();
    let rank = (latencies_ps.len() * 99).div_ceil(100).saturating_sub(1);
    let mut figures = done.into_inner();
    figures.took_ps = figures.took_ps.saturating_sub(began_ps);
    figures.p99_ns = latencies_ps.get(rank).map_or(0, |ps| ps / 1_000);
    figures.limit = report.limit;
    Ok(figures)
}

/// A row of so many numbers.
trait Counted: Row {
    fn zero() -> Self;
    fn count(&mut self);
}

impl Counted for u64 {
    fn zero() -> Self {
        0
    }

    fn count(&mut self) {
        *self = self.wrapping_add(1);
    }
}

macro_rules! counted {
    ($($row:ty: $($index:tt),*;)*) => {
        $(impl Counted for $row {
            fn zero() -> Self {
                Self::default()
            }

            fn count(&mut self) {
                $(self.$index.count();)*
            }
        })*
    };
}

counted! {
    (u64, u64): 0, 1;
    (u64, u64, u64): 0, 1, 2;
    (u64, u64, u64, u64): 0, 1, 2, 3;
    (u64, u64, u64, u64, u64): 0, 1, 2, 3, 4;
    (u64, u64, u64, u64, u64, u64): 0, 1, 2, 3, 4, 5;
    (u64, u64, u64, u64, u64, u64, u64): 0, 1, 2, 3, 4, 5, 6;
    (u64, u64, u64, u64, u64, u64, u64, u64): 0, 1, 2, 3, 4, 5, 6, 7;
}

/// Does the same with a table of however many groups.
macro_rules! with_table {
    ($handle:expr, $table:ident => $body:expr) => {
        match $handle {
            Handle::One($table) => $body,
            Handle::Two($table) => $body,
            Handle::Three($table) => $body,
            Handle::Four($table) => $body,
            Handle::Five($table) => $body,
            Handle::Six($table) => $body,
            Handle::Seven($table) => $body,
            Handle::Eight($table) => $body,
        }
    };
}

/// A table by how many groups it has.
macro_rules! tables {
    ($($count:literal $name:ident $row:ty: [$($index:tt)*];)*) => {
        enum Handle {
            $($name(Table<u64, $row>),)*
        }

        impl Played {
            fn make(
                db: &Database<VirtualCores>,
                table: &TracedTable,
                choice: &Choice,
            ) -> Result<Self, ExperimentError> {
                let index = if table.is_scanned { IndexKind::Ordered } else { IndexKind::Hash };
                let granularity =
                    if choice.splits_itself { Granularity::Splitting } else { Granularity::Fine };
                let options = TableOptions::new()
                    .protocol(choice.protocol)
                    .index(index)
                    .granularity(granularity)
                    .expected_rows(table.was_there.len());
                let failed = |error: &dyn std::fmt::Display| {
                    let reason = error.to_string();
                    ExperimentError::Run(StoreError::Table { name: table.name.clone(), reason }.into())
                };
                let (handle, groups) = match choice.parts() {
                    $($count => {
                        let made = db.create_table::<u64, $row>(&table.name, options);
                        let made = made.map_err(|error| failed(&error))?;
                        let groups = vec![$(made.group::<$index>(),)*];
                        (Handle::$name(made), groups)
                    })*
                    parts => return Err(failed(&format!("it cannot have {parts} groups"))),
                };
                let all = groups.iter().enumerate().fold(0, |bits, (group, _)| bits | 1 << group);
                let (part_of, stays) = (choice.part_of.clone(), table.stays.clone());
                Ok(Played { handle, groups, part_of, all, stays })
            }
        }
    };
}

tables! {
    1 One u64: [0];
    2 Two (u64, u64): [0 1];
    3 Three (u64, u64, u64): [0 1 2];
    4 Four (u64, u64, u64, u64): [0 1 2 3];
    5 Five (u64, u64, u64, u64, u64): [0 1 2 3 4];
    6 Six (u64, u64, u64, u64, u64, u64): [0 1 2 3 4 5];
    7 Seven (u64, u64, u64, u64, u64, u64, u64): [0 1 2 3 4 5 6];
    8 Eight (u64, u64, u64, u64, u64, u64, u64, u64): [0 1 2 3 4 5 6 7];
}

/// A table of the trace, in the database.
struct Played {
    handle: Handle,
    groups: Vec<ColumnGroup<u64, u64>>,
    /// See [`Choice::part_of`].
    part_of: Vec<u8>,
    /// All its groups.
    all: GroupBits,
    /// See [`TracedTable::stays`].
    stays: Vec<bool>,
}

impl Played {
    /// Puts in the rows that were there before.
    fn load(&self, session: &mut Session<VirtualCores>, was_there: &[bool]) -> Result<(), Abort> {
        let rows: Vec<u64> = (0..).zip(was_there).filter(|(_, there)| **there).map(|(row, _)| row).collect();
        for rows in rows.chunks(LOADED_AT_ONCE) {
            session.transact(|tx| rows.iter().try_for_each(|row| self.insert(tx, *row)))?;
        }
        Ok(())
    }

    /// The groups here that column groups of the trace are part of.
    fn parts(&self, groups: GroupBits) -> GroupBits {
        let parts = self.part_of.iter().enumerate().filter(|(group, _)| groups & 1 << group != 0);
        parts.fold(0, |bits, (_, part)| bits | 1 << part)
    }

    /// The handles of some groups.
    fn each(&self, groups: GroupBits) -> impl Iterator<Item = &ColumnGroup<u64, u64>> {
        self.groups
            .iter()
            .enumerate()
            .filter(move |(group, _)| groups & 1 << group != 0)
            .map(|(_, group)| group)
    }

    fn insert(&self, tx: &mut Transaction<'_, VirtualCores>, row: u64) -> Result<(), Abort> {
        with_table!(&self.handle, table => tx.insert(table, row, Counted::zero()).map(drop))
    }
}

fn scan<T: Target<Key = u64>>(
    tx: &mut Transaction<'_, VirtualCores>,
    target: &T,
    rows: std::ops::RangeInclusive<u64>,
) -> Result<(), Abort> {
    tx.range(target, rows).for_each(|_, _| ControlFlow::Continue(()))
}

/// Does a step again.
fn do_again(
    tx: &mut Transaction<'_, VirtualCores>,
    tables: &[Played],
    step: &Step,
    missed: &mut u64,
) -> Result<(), Abort> {
    match *step {
        Step::Row { table, row, reads, writes } => {
            let played = &tables[usize::from(table)];
            let (reads, writes) = (played.parts(reads), played.parts(writes));
            let (updates, reads, writes) = (reads & writes, reads & !writes, writes & !reads);
            let (stays, row) = (played.stays[row as usize], u64::from(row));
            if updates != 0 && !stays {
                // To update what is not there would be an error.
                let mut of_these = played.each(updates);
                let is_absent = match of_these.next() {
                    Some(group) => tx.get(group, row)?.is_none(),
                    None => false,
                };
                if is_absent {
                    *missed += 1;
                    return Ok(());
                }
            }
            if updates == played.all {
                with_table!(&played.handle, table => tx.update(table, row, |row| row.count()).map(drop))?;
            } else {
                played.each(updates).try_for_each(|group| tx.update(group, row, Counted::count).map(drop))?;
            }
            if reads == played.all {
                with_table!(&played.handle, table => tx.get(table, row).map(drop))?;
            } else {
                played.each(reads).try_for_each(|group| tx.get(group, row).map(drop))?;
            }
            played.each(writes).try_for_each(|group| tx.write(group, row, 0).map(drop))
        }
        Step::Insert { table, row } => tables[usize::from(table)].insert(tx, row.into()),
        Step::Delete { table, row } => {
            let handle = &tables[usize::from(table)].handle;
            with_table!(handle, table => tx.delete(table, u64::from(row)).map(drop))
        }
        Step::Scan { table, low, high, groups } => {
            let played = &tables[usize::from(table)];
            let (groups, rows) = (played.parts(groups), u64::from(low)..=u64::from(high));
            match groups.count_ones() {
                1 => played.each(groups).try_for_each(|group| scan(tx, group, rows.clone())),
                _ => with_table!(&played.handle, table => scan(tx, table, rows)),
            }
        }
    }
}

const _: () = assert!(GROUPS_MAX == 8, "a table of a trace can have as many groups as one of the engine");
