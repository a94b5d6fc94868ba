//! The transactional memories that are run, and what is run in them.
//!
//! On threads each control has one world, which lasts as long as the program: the global one, or, where it says after how many attempts it
//! is irrevocable (`k-sweep`), one of those in `run.rs`. What a run has counted is therefore a difference, and no two runs go on at a
//! time. On virtual cores each run has a memory of its own.
//!
//! What it does not do: choose.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use noonmark_stm::{
    Control, Host, Interrupted, Look, Session, Settings, Snapshot, Structure, TFixed, TMap, TRavlMap, TVar,
    Threads, Tx, World,
};

use super::churn::{Audit, Map, MapSession};
use super::reads::{START, Variables, VariablesSession, Which};
use super::records::{Records, RecordsSession, WORDS};
use super::stage::Counted;

/// What the memory of a world has counted.
pub fn counted<W: World>() -> Counted {
    Counted::of(W::memory().statistics(), true, W::Control::IS_IRREVOCABLE)
}

/// What happens in an audit when a structure says by a panic that it is broken.
fn fault_of(panic: Box<dyn std::any::Any + Send>) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// A map in transactional memory, each operation a transaction.
pub struct Mapped<S: Structure>(
    /// The map.
    pub TMap<S>,
);

impl<S: Structure<Key = u64, Value = u64> + Look<u64>> Map for Mapped<S> {
    type Session<'a> = InMap<'a, S>;
    const ENTRY_BYTES: u64 = TMap::<S>::ENTRY_BYTES as u64 + 16;

    fn session(&self) -> InMap<'_, S> {
        InMap { map: &self.0, session: S::World::session() }
    }

    fn audit(&self) -> Audit {
        let mut session = S::World::session();
        let mut check = || session.view(|tx| self.0.check(tx));
        let fault = catch_unwind(AssertUnwindSafe(&mut check)).err().map(fault_of);
        if fault.is_some() {
            // What is broken may lead in a circle.
            return Audit { fault, ..Audit::default() };
        }
        S::World::session().view(|tx| {
            let mut keys = Vec::new();
            for entry in self.0.iter(tx) {
                keys.push(*entry?.0);
            }
            Ok(Audit::of(keys))
        })
    }

    fn counted(&self) -> Counted {
        counted::<S::World>()
    }

    fn begin(&self) {
        S::World::memory().forget_attempts_max();
    }
}

/// A thread at a map.
pub struct InMap<'a, S: Structure> {
    map: &'a TMap<S>,
    session: Session<S::World>,
}

impl<S: Structure<Key = u64, Value = u64> + Look<u64>> MapSession for InMap<'_, S> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.session.view(|tx| self.map.get(tx, &key))
    }

    #[inline]
    fn insert_if_absent(&mut self, key: u64, value: u64) -> bool {
        self.session.atomically(|tx| self.map.insert_if_absent(tx, key, value)).is_none()
    }

    #[inline]
    fn remove(&mut self, key: u64) -> bool {
        self.session.atomically(|tx| self.map.remove(tx, &key)).is_some()
    }
}

/// Records of twelve words, each with a lock of its own, found by a tree.
pub struct Found<W: World> {
    index: TRavlMap<u64, u64, W>,
    words: Box<[[TVar<u64, W>; WORDS]]>,
}

impl<W: World> Found<W> {
    /// With these keys, put in in this order; says how many there are as it goes on.
    pub fn new(keys: &[u32], done: &AtomicU64) -> Self {
        let index = TRavlMap::new_in();
        let mut session = W::session();
        for (number, key) in keys.iter().enumerate() {
            session.atomically(|tx| index.insert(tx, u64::from(*key), number as u64));
            done.store(number as u64 + 1, Ordering::Relaxed);
        }
        let words = keys.iter().map(|_| std::array::from_fn(|_| TVar::new_in(0))).collect();
        Found { index, words }
    }
}

impl<W: World> Found<W> {
    /// Writes a word of a record, if that is there, and reads none.
    #[inline]
    pub(super) fn overwrite<'tx>(
        &'tx self,
        tx: Tx<'tx, '_, W>,
        key: u64,
        word: usize,
        value: u64,
    ) -> Result<(), Interrupted> {
        match self.index.get(tx, &key)? {
            Some(number) => self.words[number as usize][word].set(tx, value),
            None => Ok(()),
        }
    }

    /// The words of a record, if it is there.
    pub(super) fn words_of<'tx>(
        &'tx self,
        tx: Snapshot<'tx, '_, W>,
        key: u64,
    ) -> Result<[u64; WORDS], Interrupted> {
        let mut words = [0; WORDS];
        if let Some(number) = self.index.get(tx, &key)? {
            for (word, var) in words.iter_mut().zip(&self.words[number as usize]) {
                *word = var.get(tx)?;
            }
        }
        Ok(words)
    }
}

impl<W: World> Records for Found<W> {
    type Session<'a> = AtRecords<'a, W>;

    fn session(&self) -> AtRecords<'_, W> {
        AtRecords { records: self, session: W::session() }
    }

    fn audit(&self) -> u64 {
        let mut session = W::session();
        let mut sum = 0;
        for record in &self.words {
            sum += session.view(|tx| record.iter().map(|word| word.get(tx)).sum::<Result<u64, _>>());
        }
        sum
    }

    fn counted(&self) -> Counted {
        counted::<W>()
    }

    fn begin(&self) {
        W::memory().forget_attempts_max();
    }
}

/// A thread at records.
pub struct AtRecords<'a, W: World> {
    records: &'a Found<W>,
    session: Session<W>,
}

impl<W: World> RecordsSession for AtRecords<'_, W> {
    #[inline]
    fn add(&mut self, key: u64, word: usize) {
        let Found { index, words } = self.records;
        self.session.atomically(|tx| {
            let Some(number) = index.get(tx, &key)? else { return Ok(()) };
            let word = &words[number as usize][word];
            word.set(tx, word.get(tx)? + 1)
        });
    }
}

/// A table of words.
pub struct Table<C: Control, H: Host = Threads>(TFixed<u64, C, H>);

impl<C: Control> Table<C> {
    /// Of so many words, which are all this.
    pub fn new(count: usize, start: u64) -> Self {
        Table::with(Settings::default(), Threads::default(), count, start)
    }
}

impl<C: Control, H: Host> Table<C, H> {
    /// The same, on this host.
    pub fn with(settings: Settings, host: H, count: usize, start: u64) -> Self {
        Table(TFixed::with(settings, host, std::iter::repeat_n(start, count)))
    }

    fn counted(&self) -> Counted {
        let has_clock = C::NAME != noonmark_stm::TicToc::NAME;
        Counted::of(self.0.statistics(), has_clock, C::IS_IRREVOCABLE)
    }

    fn sum(&self) -> u64 {
        // There are such places.
        let read = |place| self.0.read([place]).map_or(0, |[word]| word);
        (0..self.0.len()).fold(0, |sum, place| sum.wrapping_add(read(place)))
    }
}

impl<C: Control, H: Host> Records for Table<C, H> {
    type Session<'a> = &'a TFixed<u64, C, H>;
    const RECORD_BYTES: u64 = 16;

    fn session(&self) -> &TFixed<u64, C, H> {
        &self.0
    }

    fn audit(&self) -> u64 {
        self.sum()
    }

    fn counted(&self) -> Counted {
        Table::counted(self)
    }
}

impl<C: Control, H: Host> RecordsSession for &TFixed<u64, C, H> {
    #[inline]
    fn add(&mut self, key: u64, _: usize) {
        // There is such a place.
        let _ = self.update([key as usize], |[word]| [word + 1]);
    }
}

impl<C: Control, H: Host> Variables for Table<C, H> {
    type Session<'a> = &'a TFixed<u64, C, H>;

    fn session(&self) -> &TFixed<u64, C, H> {
        &self.0
    }

    fn audit(&self) -> u64 {
        self.sum()
    }

    fn counted(&self) -> Counted {
        Table::counted(self)
    }
}

impl<C: Control, H: Host> VariablesSession for &TFixed<u64, C, H> {
    #[inline]
    fn sum(&mut self, of: &Which) -> u64 {
        let read = self.read(of.map(|number| number as usize));
        read.map_or(0, |words| words.into_iter().fold(0, u64::wrapping_add))
    }

    /// Refused by [`super::fits`]: a table writes all that it has read.
    #[inline]
    fn sum_and_move(&mut self, of: &Which) -> u64 {
        self.sum(of)
    }
}

/// Variables of their own.
pub struct Vars<W: World>(Box<[TVar<u64, W>]>);

impl<W: World> Vars<W> {
    /// So many.
    pub fn new(count: usize) -> Self {
        Vars((0..count).map(|_| TVar::new_in(START)).collect())
    }
}

impl<W: World> Variables for Vars<W> {
    type Session<'a> = AtVars<'a, W>;

    fn session(&self) -> AtVars<'_, W> {
        AtVars { vars: &self.0, session: W::session() }
    }

    fn audit(&self) -> u64 {
        let mut session = W::session();
        self.0.iter().fold(0, |sum, var| sum.wrapping_add(session.view(|tx| var.get(tx))))
    }

    fn counted(&self) -> Counted {
        counted::<W>()
    }

    fn begin(&self) {
        W::memory().forget_attempts_max();
    }
}

/// A thread at variables.
pub struct AtVars<'a, W: World> {
    vars: &'a [TVar<u64, W>],
    session: Session<W>,
}

impl<W: World> VariablesSession for AtVars<'_, W> {
    #[inline]
    fn sum(&mut self, of: &Which) -> u64 {
        self.session.view(|tx| {
            let mut sum = 0_u64;
            for number in of {
                sum = sum.wrapping_add(self.vars[*number as usize].get(tx)?);
            }
            Ok(sum)
        })
    }

    #[inline]
    fn sum_and_move(&mut self, of: &Which) -> u64 {
        self.session.atomically(|tx| {
            let mut sum = 0_u64;
            for number in of {
                sum = sum.wrapping_add(self.vars[*number as usize].get(tx)?);
            }
            let [from, to, ..] = of.map(|number| &self.vars[number as usize]);
            from.set(tx, from.get(tx)?.wrapping_sub(1))?;
            to.set(tx, to.get(tx)?.wrapping_add(1))?;
            Ok(sum)
        })
    }
}
