//! Reads a database that is at rest and puts it before the [`Audit`].
//!
//! Each table is read once, in short read-only transactions one after another, so that no transaction remembers
//! millions of reads. That is one state of the database only because nothing else runs meanwhile: the check is
//! for after a run.
//!
//! WAREHOUSE, DISTRICT, CUSTOMER and STOCK, which may have a hash index, are read by the keys that their scale says
//! they have; all other tables from their first key to their last, whatever is in them.
//!
//! What it does not do: find rows of the first four tables beyond the scale; no transaction inserts any.

use std::ops::{Bound, ControlFlow};

use super::OrderNumbers;
use super::audit::{Audit, Finding, Growth};
use super::population::{Scale, district_ids};
use super::tables::Tables;
use crate::store::{Failure, Rows, Scan, Session, Store};
use crate::workload::RunError;

/// How many rows one transaction reads.
const ROWS_PER_READ: usize = 1024;

/// Reads all that the conditions are about, and answers them.
pub(super) fn check<S: Store>(
    tables: &Tables<S>,
    session: &mut S::Session,
    scale: Scale,
    order_numbers: OrderNumbers,
) -> Result<(Vec<Finding>, Growth), RunError> {
    let mut audit = Audit::new(scale, order_numbers);
    let districts: Vec<_> =
        scale.warehouse_ids().flat_map(|w_id| district_ids().map(move |d_id| (w_id, d_id))).collect();
    let mut reader = Reader { tables, session };

    let warehouses: Vec<_> = scale.warehouse_ids().collect();
    reader.keys(&tables.warehouse_ytd, &warehouses, |w_id, ytd| audit.warehouse(w_id, &ytd))?;
    reader.keys(&tables.district, &districts, |key, (_, orders, ytd)| audit.district(key, &orders, &ytd))?;
    for &(w_id, d_id) in &districts {
        let customers: Vec<_> = (1..=scale.customers).map(|c_id| (w_id, d_id, c_id)).collect();
        reader.keys(&tables.customer_account, &customers, |key, account| audit.customer(key, &account))?;
    }
    for w_id in scale.warehouse_ids() {
        let stocks: Vec<_> = (1..=scale.items).map(|i_id| (w_id, i_id)).collect();
        reader.keys(&tables.stock_level, &stocks, |key, level| audit.stock(key, &level))?;
    }
    reader.all(&tables.history, |_, row| audit.history(&row))?;
    reader.all(&tables.new_order, |key, _| audit.new_order(key))?;
    reader.all(&tables.order, |key, row| audit.order(key, &row))?;
    reader.all(&tables.order_line, |key, row| audit.order_line(key, &row))?;
    let growth = audit.growth();
    Ok((audit.finish(), growth))
}

struct Reader<'a, S: Store> {
    tables: &'a Tables<S>,
    session: &'a mut S::Session,
}

impl<S: Store> Reader<'_, S> {
    /// The rows that are there under these keys. One that is not fails the conditions that miss it.
    fn keys<T: Rows<S>>(
        &mut self,
        rows: &T,
        keys: &[T::Key],
        mut each: impl FnMut(T::Key, T::Value),
    ) -> Result<(), RunError> {
        for some in keys.chunks(ROWS_PER_READ) {
            let read = self.session.run(&self.tables.scopes.audit, |tx| {
                let mut values = Vec::with_capacity(some.len());
                for key in some {
                    values.push(rows.get(tx, key)?);
                }
                Ok(values)
            });
            for (key, value) in some.iter().zip(read.map_err(failed)?) {
                if let Some(value) = value {
                    each(key.clone(), value);
                }
            }
        }
        Ok(())
    }

    /// All rows of an ordered table.
    fn all<T: Rows<S>>(&mut self, rows: &T, mut each: impl FnMut(T::Key, T::Value)) -> Result<(), RunError> {
        let mut after: Bound<T::Key> = Bound::Unbounded;
        let mut read = Vec::with_capacity(ROWS_PER_READ);
        loop {
            let outcome = self.session.run(&self.tables.scopes.audit, |tx| {
                read.clear();
                let bounds = (after.clone(), Bound::Unbounded);
                rows.range(tx, bounds, Scan::first(ROWS_PER_READ), |key, value| {
                    read.push((key, value));
                    ControlFlow::Continue(())
                })?;
                Ok(())
            });
            outcome.map_err(failed)?;
            let Some((last, _)) = read.last() else { return Ok(()) };
            after = Bound::Excluded(last.clone());
            for (key, value) in read.drain(..) {
                each(key, value);
            }
        }
    }
}

fn failed<A: std::error::Error>(failure: Failure<A>) -> RunError {
    RunError::transaction("checking TPC-C", failure)
}
