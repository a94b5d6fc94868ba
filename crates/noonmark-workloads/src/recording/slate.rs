//! What a session notes down while a transaction runs.
//!
//! Operations get the transaction of the store within, which has no room for notes; so while a session runs a
//! transaction its slate lies in a place of the thread's own, where the operations find it. A session runs one
//! transaction at a time, on one thread, and nothing else records there meanwhile.
//!
//! # Commit-time updates
//!
//! Such an update is noted as a read and a write when it is handed over. What it read is not known then: it is
//! known when the closure runs, under the lock, at the commit (or earlier, if the transaction reads the group
//! after all). The closure runs on the transaction's own thread, finds the slate, and leaves there the number that
//! it found beside the value. When the transaction has committed the reads are filled in. An update that never
//! ran would leave its read as *absent*, which the row that was there contradicts.
//!
//! # Names
//!
//! Until the run is over a key is a *place*: its space (which column group of which table, or which index) in two
//! bytes, then its own bytes. Each session numbers the places that it meets; [`super::journal`] makes keys of them.
//!
//! What it does not do: order anything, or look at another session.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::journal::Journal;
use crate::history::{Key, MicroOp, Outcome, Process, Recorder, Value};
use crate::stamp::WriteId;

/// A key before it has a number: see [above](self#names).
pub(super) type Place = Arc<[u8]>;

thread_local! {
    /// The slate of the transaction that runs on this thread.
    static RUNNING: RefCell<Option<Box<Slate>>> = const { RefCell::new(None) };
}

/// A transaction begins on this thread.
pub(super) fn put(mut slate: Box<Slate>) {
    slate.recorder.begin(slate.journal.now_ns());
    slate.restart();
    RUNNING.set(Some(slate));
}

/// The transaction on this thread has ended.
pub(super) fn take(committed: bool) -> Option<Box<Slate>> {
    let mut slate = RUNNING.take()?;
    slate.finish(committed);
    Some(slate)
}

/// Does something with the slate of the transaction on this thread, if it is recorded.
pub(super) fn with<T>(note: impl FnOnce(&mut Slate) -> T) -> Option<T> {
    RUNNING.with_borrow_mut(|running| running.as_deref_mut().map(note))
}

/// A number for a write that is about to be made; 0 where nothing is recorded any more.
pub(super) fn new_id() -> WriteId {
    with(Slate::new_id).unwrap_or(0)
}

/// A commit-time update, which is write `id`, was applied to what write `found` had made.
pub(super) fn applied(id: WriteId, found: WriteId) {
    with(|slate| slate.applied.push((id, found)));
}

/// A session's notes.
pub(super) struct Slate {
    journal: Arc<Journal>,
    pub(super) recorder: Recorder,
    /// Every place that the session has met; its number is where it stands.
    pub(super) places: Vec<Place>,
    numbers: HashMap<Place, usize>,
    /// Whether the session loads.
    pub(super) loads: bool,
    /// The steps of the open attempt. Keys are numbers of places; so are the ends of a scan, of which the upper
    /// one is *not* included.
    steps: Vec<MicroOp>,
    /// Which of the steps are reads of commit-time updates, and which writes those are.
    updates: Vec<(usize, WriteId)>,
    /// Commit-time updates that have run, and what they found.
    applied: Vec<(WriteId, WriteId)>,
    /// Numbers of writes that are this session's to give out.
    ids: Range<WriteId>,
}

impl Slate {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        let process = Process(journal.new_process());
        Slate {
            journal,
            recorder: Recorder::new(process, "txn"),
            places: Vec::new(),
            numbers: HashMap::new(),
            loads: false,
            steps: Vec::new(),
            updates: Vec::new(),
            applied: Vec::new(),
            ids: 0..0,
        }
    }

    /// The attempt at hand, if there was one, has come to nothing; another begins.
    pub(super) fn restart(&mut self) {
        self.steps.clear();
        self.updates.clear();
        self.applied.clear();
    }

    fn finish(&mut self, committed: bool) {
        for &(step, id) in &self.updates {
            // The last time that it ran counts: what it made before was taken back.
            let found = self.applied.iter().rfind(|(applied, _)| *applied == id);
            if let (MicroOp::ReadRegister { value, .. }, Some((_, found))) = (&mut self.steps[step], found) {
                *value = Some(Value(*found));
            }
        }
        for step in self.steps.drain(..) {
            self.recorder.op(step);
        }
        let outcome = if committed { Outcome::Ok } else { Outcome::Fail };
        self.recorder.finish(outcome, self.journal.now_ns());
    }

    fn new_id(&mut self) -> WriteId {
        if self.ids.is_empty() {
            self.ids = self.journal.new_ids();
        }
        let id = self.ids.start;
        self.ids.start += 1;
        id
    }

    /// The key of a place, until the run is over.
    pub(super) fn key(&mut self, place: &[u8]) -> Key {
        if let Some(&number) = self.numbers.get(place) {
            return Key(number as i64);
        }
        let place: Place = place.into();
        self.numbers.insert(place.clone(), self.places.len());
        self.places.push(place);
        Key(self.places.len() as i64 - 1)
    }

    pub(super) fn read(&mut self, place: &[u8], id: Option<WriteId>) {
        let key = self.key(place);
        self.steps.push(MicroOp::ReadRegister { key, value: id.map(Value) });
    }

    pub(super) fn write(&mut self, place: &[u8], id: Option<WriteId>) {
        let key = self.key(place);
        self.steps.push(MicroOp::Write { key, value: id.map(Value) });
    }

    /// A commit-time update was handed over, which will be write `id`.
    pub(super) fn update_at_commit(&mut self, place: &[u8], id: WriteId) {
        self.updates.push((self.steps.len(), id));
        self.read(place, None);
        self.write(place, Some(id));
    }

    /// All from `low` up to, not including, `high` was read.
    pub(super) fn scan(&mut self, low: &[u8], high: &[u8], found: Vec<(Key, Value)>) {
        let (low, high) = (self.key(low), self.key(high));
        self.steps.push(MicroOp::Scan { low, high, found: Some(found) });
    }
}
