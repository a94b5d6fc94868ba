//! A workload whose run is recorded: the same one, and afterwards its history is written and checked.
//!
//! A scan is a read of every key that was ever between its bounds. A queue whose oldest order is looked for from the
//! beginning passes all that were ever taken, so its history takes room with the square of its length; there is a
//! limit to that, and it is said rather than found out.
//!
//! What it does not do: change anything that the workload does.

use std::path::PathBuf;

use super::{Recording, RecordingSession};
use crate::store::{Store, TxnResult};
use crate::verdict::{self, Promise};
use crate::workload::{Condition, RunError, Seat, Share, Workload};

/// The most keys that all scans of a history may cover together: some gigabytes in the checker.
const SCANNED_MAX: u64 = 50_000_000;

/// A workload on a [`Recording`].
pub struct Watched<'a, S: Store, W> {
    /// The workload.
    pub workload: &'a W,
    /// Its store.
    pub store: &'a Recording<S>,
    /// Where to write the history, if anywhere. What its keys are is written beside it: the same name with
    /// `.keys` added.
    pub history: Option<PathBuf>,
    /// Whether the history must be serializable in real time, or only in the order of each session.
    pub strict: bool,
}

impl<S: Store, W: Workload<Recording<S>>> Workload<Recording<S>> for Watched<'_, S, W> {
    type Worker = W::Worker;

    fn rows(&self) -> u64 {
        self.workload.rows()
    }

    fn load_bytes(&self) -> u64 {
        self.workload.load_bytes()
    }

    fn growth_bytes(&self) -> u64 {
        self.workload.growth_bytes()
    }

    fn load(
        &self,
        session: &mut RecordingSession<S>,
        share: Share,
        loaded: &dyn Fn(u64),
    ) -> Result<(), RunError> {
        session.loads();
        self.workload.load(session, share, loaded)
    }

    fn worker(&self, seat: Seat) -> Result<W::Worker, RunError> {
        self.workload.worker(seat)
    }

    fn execute(
        &self,
        session: &mut RecordingSession<S>,
        worker: &mut W::Worker,
    ) -> TxnResult<Recording<S>, ()> {
        self.workload.execute(session, worker)
    }

    fn check(
        &self,
        session: &mut RecordingSession<S>,
        workers: &mut Vec<W::Worker>,
    ) -> Result<Vec<Condition>, RunError> {
        session.stop();
        let mut conditions = self.workload.check(session, workers)?;
        let recorded = self.store.journal().take();
        if recorded.scanned > SCANNED_MAX {
            let what = format!(
                "the scans of this history cover {} keys together, more than the {SCANNED_MAX} that can be checked: \
                 record fewer transactions",
                recorded.scanned
            );
            return Err(RunError::Setting(what));
        }
        if let Some(path) = &self.history {
            let mut legend = path.clone().into_os_string();
            legend.push(".keys");
            let legend = PathBuf::from(legend);
            let lines = (0..).zip(&recorded.keys).map(|(number, key)| format!("{number}\t{key}\n"));
            std::fs::write(&legend, lines.collect::<String>())
                .map_err(|source| RunError::History { path: legend, source })?;
        }
        conditions.extend(verdict::of(
            recorded.recorders,
            self.history.as_deref(),
            Promise::in_real_time(self.strict),
        )?);
        Ok(conditions)
    }
}
