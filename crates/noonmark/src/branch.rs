//! A transaction's part in one database, where the rest of it is elsewhere.
//!
//! A transaction that spans several databases has a *branch* in each that it touches. Somebody else, the coordinator, carries it
//! from operation to operation and through the commit; the branch has the reads, the writes and the locks, and applies the very
//! rules that a [`Transaction`](crate::Transaction) applies. What goes in and out is plain bytes.
//!
//! The commit is taken apart, so that others can have their say between its rounds:
//!
//! 1. [`Branch::prepare`] seals what is to be written and validates what was read, at the commit time that the coordinator has worked
//!    out from what each branch [stands for](Branch::standing). In the database's eyes the transaction has committed from
//!    then on: it can be [installed](Branch::install), and nobody can make it abort but its coordinator.
//! 2. [`Branch::install`] makes it visible, or [`Branch::roll_back`] takes it back.
//!
//! [`Branch::seal`] is the first half of the first round by itself, for protocols under which everything must be sealed
//! everywhere before anything is validated anywhere: see [`Standing::locks_late`].
//!
//! A branch never waits. Its database's host [defers](noonmark_core::Host::DEFERS): what another branch is in the way of comes back as
//! [`AbortKind::Held`], with that branch's transaction as its [`other`](Abort::other), and is asked for again once that one has
//! ended, or [given up](Branch::give_up). Everything that a transaction holds it lets go of when its branch ends, and not before. Who may wait for
//! whom is for the owner of the branches to say, since not all rules do: what is busy is so for a moment on threads, and for as long as messages
//! take here.
//!
//! Transactions of all protocols can have branches. What whoever keeps copies is told of index nodes is in [`Node`].
//!
//! Commit-time updates are [plain data](PlainUpdate) here. They become values as soon as everything is sealed, before the branch votes: what it
//! votes for is what will be installed.
//!
//! What it does not do: it knows no coordinator and no message, and keeps nothing of what it has answered.

mod nodes;

use crate::abort::{Abort, AbortKind};
use crate::context::{Context, ReadEntry};
use crate::database::{Database, TooManySessions};
use crate::group::{GROUPS_MAX, Row, RowReader, RowWriter, Size, words_of};
use crate::key::{Key, KeyBytes};
use crate::operations::{EntryWriter, look_until_found};
use crate::planted::Bug;
use crate::protocol::{Order, Rules, with_protocol};
use crate::record::{allocate_boxed, as_bytes_mut, free_boxed};
use crate::scan::Shape;
use crate::table::{TableCore, TableRef};
pub use crate::timing::FROZEN_TICKS;
use crate::typed::{SecondaryIndex, Table};
use crate::update::Update;
pub use crate::update::{NumberUpdate, PlainUpdate};
pub use nodes::{KeptScan, Node};
use noonmark_core::{Age, Host, Timestamp, TxnId};
use std::ops::{Bound, ControlFlow, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The host of a database whose transactions are branches. It has no clock of its own, and nobody waits on it.
///
/// One thread at a time may use the branches of such a database, as a server does that answers one message after another: a branch that is held
/// is asked again when another has ended, and nobody comes between an answer and what is done with it.
#[derive(Debug)]
pub struct BranchHost {
    now_ns: AtomicU64,
    seeds: AtomicU64,
}

impl BranchHost {
    /// At time zero. What is drawn follows from the seed.
    pub fn new(seed: u64) -> Self {
        BranchHost { now_ns: AtomicU64::new(0), seeds: AtomicU64::new(seed) }
    }

    /// Tells it the time, in nanoseconds since whatever its owner counts from.
    pub fn set_now_ns(&self, now_ns: u64) {
        // Relaxed: who tells it is who asks it.
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }
}

impl Host for BranchHost {
    type Label = noonmark_core::Unlabelled;

    const DEFERS: bool = true;

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn seed(&self) -> u64 {
        // SplitMix64's finish. Relaxed: only distinctness matters.
        let mut z = self.seeds.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn spin(&self, _: u32) {}

    /// Nobody waits here: what is not ready at once never will be.
    fn block_on<T>(&self, _: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        match poll(Waker::noop()) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn sleep_ns(&self, _: u64) {}

    fn caller_hint(&self) -> usize {
        0
    }
}

/// By so many ticks a transaction that brings the time of its beginning may be earlier than the latest that a database knows, unless told
/// otherwise: so long versions are kept.
pub const LATE_TICKS: u64 = 1 << 24;

/// A table without its types: what a [`Branch`] reads and writes. Cheap to clone.
#[derive(Clone)]
pub struct UntypedTable(Arc<TableCore>, Kind);

/// What is in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rows,
    /// The entries of a secondary index: rows without values, which only change with those that they are of.
    Entries,
}

impl UntypedTable {
    /// The same table.
    pub fn of<K: Key, R: Row>(table: &Table<K, R>) -> Self {
        UntypedTable(table.core_arc(), Kind::Rows)
    }

    /// The entries of a secondary index of such a table, as a table without column groups: it can be [scanned](Branch::scan), and is kept up by
    /// the branches that change the rows. Its keys are pairs of a secondary and a primary key; see [`entry_bounds`].
    pub fn of_index<S: Key, K: Key>(index: &SecondaryIndex<S, K>) -> Self {
        UntypedTable(index.core.clone(), Kind::Entries)
    }

    /// Whether it is of a protocol under which the younger of two transactions waits for the older, not the other way round.
    pub fn younger_waits(&self) -> bool {
        self.0.protocol.younger_waits()
    }

    /// Whether a row of it that has not been read to be written can be written at once, whatever others do: its protocol takes the right to write
    /// only when it seals. Never of entries: which there are must be looked up.
    pub fn writes_late(&self) -> bool {
        self.1 == Kind::Rows && !self.0.protocol.writes_early()
    }

    /// By how many ticks beyond what a transaction needs it extends its leases while it executes, if it does.
    pub fn extends_leases_by(&self) -> Option<u8> {
        self.0.leases.extended_by
    }

    /// How many column groups its rows have.
    pub fn groups(&self) -> usize {
        match self.1 {
            Kind::Rows => self.0.sizes.len(),
            Kind::Entries => 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.info.name
    }
}

impl std::fmt::Debug for UntypedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UntypedTable({:?}, {})", self.0.info.name, self.0.protocol)
    }
}

/// The bounds of those entries of a [secondary index](UntypedTable::of_index) whose secondary keys are in a range.
pub fn entry_bounds<S: Key, K: Key>(keys: &impl RangeBounds<S>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (lower, upper) = crate::scan::entry_bounds::<S, K>(keys);
    (lower.map(|key| key.as_slice().to_vec()), upper.map(|key| key.as_slice().to_vec()))
}

/// The values of neighbouring column groups as bytes that can go over a wire: those of fixed size as they are, before each other its
/// length, in four bytes, little-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<u8>);

impl Values {
    /// Those of a row.
    pub fn of<R: Row>(row: &R) -> Self {
        /// Puts the groups one after another.
        struct Append(Vec<u8>);
        impl RowWriter for Append {
            fn group<G: crate::group::Group>(&mut self, _: usize, value: &G) {
                let bytes = value.encoded_bytes();
                append_length(&mut self.0, G::SIZE, bytes);
                let at = self.0.len();
                self.0.resize(at + bytes, 0);
                value.encode(&mut self.0[at..]);
            }
        }
        let mut out = Append(Vec::new());
        row.encode_row(&mut out);
        Values(out.0)
    }

    /// The row that they are; `None` if they are of no such row.
    pub fn decode<R: Row>(&self) -> Option<R> {
        let values = self.split(R::SIZES)?;
        // Most rows are small.
        let (mut few, mut many) = ([0; 16], Vec::new());
        let count = words_of(R::SIZES);
        let words = match few.get_mut(..count) {
            Some(words) => words,
            None => {
                many.resize(count, 0);
                many.as_mut_slice()
            }
        };
        let mut at = 0;
        for (value, size) in values.iter().zip(R::SIZES) {
            match size.is_boxed() {
                true => words[at] = allocate_boxed(value),
                false => {
                    as_bytes_mut(&mut words[at..at + size.words()])[..value.len()].copy_from_slice(value)
                }
            }
            at += size.words();
        }
        let row = R::decode_row(&RowReader::new(words, R::SIZES));
        let mut at = 0;
        for size in R::SIZES {
            if size.is_boxed() {
                // SAFETY: allocated above, and the row has been decoded.
                unsafe { free_boxed(words[at]) };
            }
            at += size.words();
        }
        Some(row)
    }

    /// How many bytes they take.
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// The value of each group, and nothing for those that there are not; `None` if these are not groups of these sizes.
    fn split(&self, sizes: &[Size]) -> Option<[&[u8]; GROUPS_MAX]> {
        let mut left = self.0.as_slice();
        let mut values: [&[u8]; GROUPS_MAX] = [&[]; GROUPS_MAX];
        for (place, size) in values.iter_mut().zip(sizes) {
            let bytes = match size {
                Size::Fixed(bytes) => *bytes,
                Size::Variable => {
                    let (length, rest) = left.split_first_chunk()?;
                    left = rest;
                    u32::from_le_bytes(*length) as usize
                }
            };
            let (value, rest) = left.split_at_checked(bytes)?;
            left = rest;
            *place = value;
        }
        left.is_empty().then_some(values)
    }

    /// Those of groups as they were read.
    fn read(row: &RowReader<'_>, sizes: &[Size]) -> Self {
        let bytes = sizes.iter().enumerate().map(|(index, _)| 4 + row.bytes(index).len()).sum();
        let mut out = Vec::with_capacity(bytes);
        for (index, size) in sizes.iter().enumerate() {
            let value = row.bytes(index);
            append_length(&mut out, *size, value.len());
            out.extend_from_slice(value);
        }
        Values(out)
    }
}

fn append_length(out: &mut Vec<u8>, size: Size, bytes: usize) {
    if size == Size::Variable {
        // (No value is longer: who writes one is told so.)
        out.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Of groups of a row that were read: which versions those were, and for how long they hold.
///
/// **Invariant**: of one group, a version that follows another was written later. So two leases of the same groups whose versions
/// were written at the same times are of the same values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When the version of each group was written.
    pub written: Vec<Timestamp>,
    /// Nobody will write any of the groups at this time or an earlier one. Zero if that cannot be said: the versions may be replaced
    /// as soon as the transaction that read them has ended.
    pub until: Timestamp,
}

impl Lease {
    /// A transaction that has read these versions can commit no earlier.
    pub fn begins(&self) -> Timestamp {
        self.written.iter().copied().fold(Timestamp::ZERO, Timestamp::max)
    }
}

/// Groups of a row, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// Their values, and their lease; none if the transaction itself has written any of them.
    Values(Values, Option<Lease>),
    /// They are the versions that were known, with this lease.
    Known(Lease),
}

/// What a coordinator must know of a branch to commit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The transaction cannot commit before this time, for all that the branch knows now.
    pub bound: Timestamp,
    /// Nor can it after this one: others have left it no later one.
    pub latest: Timestamp,
    /// What it has read holds until this time, without another look.
    pub holds_until: Timestamp,
    /// It has read, or looked for, something that it does not write.
    pub has_reads: bool,
    /// It has something to install, or to be validated by locking it.
    pub has_writes: bool,
    /// It keeps others out, so it must be told how the transaction ended.
    pub holds_locks: bool,
    /// What it has read will be locked, or come after, when it is prepared, and stays so until it is told how the transaction ended.
    pub keeps_reads: bool,
    /// Others take account of what it has read, though nobody is kept out, until it is told how the transaction ended.
    pub has_marks: bool,
    /// Something that it writes is not locked before it is sealed. Where another branch [only looks](Standing::only_looks), everything
    /// must be sealed everywhere before anything is validated: see [`Branch::prepare`].
    pub locks_late: bool,
    /// Something that it has read, or looked for, is looked at once more when it is prepared, and nothing keeps it as it is from
    /// then on.
    pub only_looks: bool,
}

/// How a branch votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It can be installed at this commit time.
    Yes,
    /// It can be installed at any of these, from the first to the last.
    Range(Timestamp, Timestamp),
    /// Not at this commit time; but perhaps at this one or a later one.
    Later(Timestamp),
}

/// A transaction's part in one database. See the [module](self).
pub struct Branch<H: Host> {
    context: Context<H>,
    /// That of the transaction which runs, or ran last. (As it ends, the context may do work of the engine's, as a transaction of another id.)
    id: TxnId,
    /// If everything that is to be written is sealed: the earliest time at which it may be.
    sealed: Option<Timestamp>,
    /// It has agreed to commit: nobody can make it abort any more.
    has_agreed: bool,
    /// Whether [leases of what it will write](Branch::lend) can be renewed by others, for as long as that is safe.
    lends: bool,
    /// Of a transaction that has a range of commit times: how much of it is frozen when it is prepared.
    frozen_ticks: u64,
    /// Whether whoever has frozen all times is met by who asks to write, not by who prepares.
    meets_frozen_at_once: bool,
    /// What has been frozen, from the first to the last.
    frozen: Option<(Timestamp, Timestamp)>,
    /// Of a transaction that takes place when it begins: by how many ticks that may be earlier than others.
    late_ticks: u64,
}

impl<H: Host> Branch<H> {
    /// A place for branches, one after another.
    ///
    /// # Errors
    /// [`TooManySessions`] if as many are in use as the database may have.
    pub fn new(database: &Database<H>) -> Result<Self, TooManySessions> {
        let context = database.session()?.into_context();
        Ok(Branch {
            id: context.txn,
            context,
            sealed: None,
            has_agreed: false,
            lends: true,
            frozen_ticks: FROZEN_TICKS,
            meets_frozen_at_once: false,
            frozen: None,
            late_ticks: LATE_TICKS,
        })
    }

    /// Has its transactions read what is prepared in any case, as the paper's do [Sundial §3.3.1]; unless told so, they wait for what is about to
    /// replace it if its lease is over before they can commit.
    pub fn read_prepared(&mut self, in_any_case: bool) {
        self.context.reads_prepared = in_any_case;
    }

    /// Whether others can renew the leases of what its transactions are going to write until these are sealed, and are lent it once more when
    /// they vote, until just before the commit time. Unless told otherwise, they do; in print nobody renews a lease from its writer's first access
    /// on [Sundial §3.3.1, Algorithm 2]. Under `sundial`.
    pub fn lend(&mut self, lends: bool) {
        self.lends = lends;
    }

    /// Has its transactions freeze so many ticks of their ranges when they are prepared, where they have ranges: [`FROZEN_TICKS`] unless
    /// told otherwise. `u64::MAX`: all times from the first on [Sundial §5.2].
    pub fn freeze(&mut self, ticks: u64) {
        self.frozen_ticks = ticks;
    }

    /// Whether its transactions abort as soon as they ask to write what somebody has read who has [frozen](Branch::freeze) all times without end, as the
    /// text has it of MaaT [Sundial §6.5]. Unless told so, they find out when they are prepared, by when most of those have ended.
    pub fn meet_frozen_at_once(&mut self, at_once: bool) {
        self.meets_frozen_at_once = at_once;
    }

    /// Whether its transaction has a range of commit times, not one: it never votes for [a later one](Vote::Later).
    pub fn has_range(&self) -> bool {
        self.context.order == Some(Order::Logical) && self.context.shared.has_ranges()
    }

    /// Where transactions take place when they [begin](Order::Beginning): by how many ticks one may be late. [`LATE_TICKS`] unless told
    /// otherwise; the same for all branches of a database, as versions are kept for so long.
    pub fn keep_for(&mut self, ticks: u64) {
        self.late_ticks = ticks;
    }

    /// Begins. `age`: the transaction's, the same in all its branches and all its attempts. `floor`: it takes place no earlier; or, in the
    /// order of [beginnings](Order::Beginning), exactly then, and no other transaction of any of the databases may take place at the same
    /// time. `None`: that is so long ago that it would not find all versions any more.
    pub fn begin(&mut self, age: Age, floor: Timestamp) -> Option<TxnId> {
        self.context.age = Some(age);
        self.context.floor = floor;
        self.context.begins_at = Some((floor, self.late_ticks));
        self.context.deadline_ns = None;
        (self.sealed, self.frozen, self.has_agreed) = (None, None, false);
        self.context.shared.slots.get(self.context.slot).set_open_ended(true);
        // (There is no deadline.)
        let has_begun = self.context.begin();
        self.id = self.context.txn;
        has_begun.then_some(self.id)
    }

    /// Whether an older transaction wants something that this one has, and has made it abort: unless it is prepared, it can only be
    /// rolled back.
    pub fn is_wounded(&self) -> bool {
        self.context.shared.slots.get(self.context.slot).is_wounded()
    }

    /// Why, if it [is](Branch::is_wounded).
    pub fn wounded(&mut self) -> Option<Abort> {
        self.is_wounded().then(|| self.context.wounded())
    }

    /// The transaction commits no earlier, as has turned out elsewhere.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        self.context.floor = self.context.floor.max(floor);
        if self.context.active && self.has_range() {
            // (Of one that is frozen, the coordinator finds out.)
            let _ = self.context.shared.ranges.get(self.context.slot).push_from(floor);
        }
    }

    /// Whether a transaction's branch is here.
    pub fn is_active(&self) -> bool {
        self.context.active
    }

    /// The id that others know it by, in this database; once it has ended, knew it by.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Reads groups of a row. `None`: there is no such row.
    ///
    /// # Errors
    /// An [`Abort`] that explains itself; of kind [`AbortKind::Held`] if it may be asked again.
    pub fn read(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: Range<usize>,
    ) -> Result<Option<Values>, Abort> {
        let (table, sizes) = self.use_groups(table, key, &groups)?;
        look_until_found(|| {
            let Some(record) = self.context.find(table, key) else { return Ok(None) };
            self.context.with_row(sizes, |context, row| {
                let present = context.read_groups(table, record, groups.start, sizes, row)?;
                Ok(present.then(|| take_values(context, row, sizes)))
            })
        })
    }

    /// Reads groups of a row, and tells the versions. Values that are known already, by when the version of each group was written,
    /// are not told again. `None`: there is no such row.
    ///
    /// The lease is of use once the branch has ended, too, to whoever has kept a copy: until it is over, and after that if a later
    /// branch, of any transaction, finds the versions still [to be current](Branch::is_current).
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn read_leased(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: Range<usize>,
        known: Option<&[Timestamp]>,
    ) -> Result<Option<Leased>, Abort> {
        let (table, sizes) = self.use_groups(table, key, &groups)?;
        look_until_found(|| {
            let Some(record) = self.context.find(table, key) else { return Ok(None) };
            let before = self.context.reads.len();
            self.context.with_row(sizes, |context, row| {
                if !context.read_groups(table, record, groups.start, sizes, row)? {
                    return Ok(None);
                }
                let lease = lease_of(context, before, &groups);
                Ok(Some(match lease {
                    Some(lease) if known == Some(lease.written.as_slice()) => {
                        context.free_own_copies();
                        Leased::Known(lease)
                    }
                    lease => Leased::Values(take_values(context, row, sizes), lease),
                }))
            })
        })
    }

    /// Reads groups of a row of which somebody has kept a copy: whether the versions of that, by when each was written, are the
    /// current ones.
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn is_current(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: Range<usize>,
        written: &[Timestamp],
    ) -> Result<bool, Abort> {
        let read = self.read_leased(table, key, groups, Some(written))?;
        Ok(matches!(read, Some(Leased::Known(_))))
    }

    /// Reads groups of a row that the transaction will write. `None`: there is no such row.
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn read_to_write(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: Range<usize>,
    ) -> Result<Option<Values>, Abort> {
        let (table, sizes) = self.use_groups(table, key, &groups)?;
        let read = look_until_found(|| {
            let Some(record) = self.context.find(table, key) else { return Ok(None) };
            let laid = self.context.laid(table, record);
            self.context.with_row(sizes, |context, row| {
                let entries = &mut [0; GROUPS_MAX];
                let present = context.read_groups_to_write(laid, groups.start, sizes, row, entries)?;
                Ok(present.then(|| take_values(context, row, sizes)))
            })
        })?;
        self.announce()?;
        Ok(read)
    }

    /// Gives groups of a row that is there new values, whether it has read them or not. False: there is no such row.
    ///
    /// # Errors
    /// As [`Branch::read`]; of kind [`AbortKind::TooLong`] if they are no values of these groups.
    pub fn write(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: Range<usize>,
        values: &Values,
    ) -> Result<bool, Abort> {
        let (table, sizes) = self.use_groups(table, key, &groups)?;
        let Some(values) = values.split(sizes) else { return Err(self.context.too_long(table, key)) };
        let done = self.context.write_groups(table, key, groups, |writer| put(writer, sizes, &values))?;
        self.announce()?;
        Ok(done)
    }

    /// Puts a row in. False: there is one, which stays as it is, or, if told to `replace` it, has these values now.
    ///
    /// # Errors
    /// As [`Branch::write`].
    pub fn insert(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        values: &Values,
        replace: bool,
    ) -> Result<bool, Abort> {
        let all = 0..table.groups();
        let (table, sizes) = self.use_groups(table, key, &all)?;
        let Some(values) = values.split(sizes) else { return Err(self.context.too_long(table, key)) };
        let done =
            self.context.insert_encoded(table, key, sizes, replace, |writer| put(writer, sizes, &values))?;
        self.announce()?;
        Ok(done)
    }

    /// Changes a column group of a row when the branch is sealed, without reading it; or at once, if the transaction has read or written it.
    /// False: there is no such row.
    ///
    /// # Errors
    /// As [`Branch::read`]; of kind [`AbortKind::TooLong`] if no such group can be changed like this.
    pub fn update(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        group: usize,
        update: &PlainUpdate,
    ) -> Result<bool, Abort> {
        let (table, sizes) = self.use_groups(table, key, &(group..group.saturating_add(1)))?;
        if !sizes.first().is_some_and(|size| update.fits(*size)) {
            return Err(self.context.too_long(table, key));
        }
        let context = &mut self.context;
        let done = match update {
            PlainUpdate::Number(update) => {
                context.update_at_commit(table, key, group, || Update::of_number(*update), &[])
            }
            PlainUpdate::Append(bytes) => context.update_at_commit(table, key, group, Update::append, bytes),
        }?;
        if context.shared.planted.is(Bug::UpdateBeforeLock) {
            context.apply_updates()?;
        }
        self.announce()?;
        Ok(done)
    }

    /// Takes a row away. False: there is none.
    ///
    /// # Errors
    /// As [`Branch::read`].
    pub fn delete(&mut self, table: &UntypedTable, key: &[u8]) -> Result<bool, Abort> {
        let (table, _) = self.use_groups(table, key, &(0..table.groups()))?;
        let done = self.context.delete_row(table, key)?;
        self.announce()?;
        Ok(done)
    }

    /// It has asked to write something. Unless it [lends](Branch::lend), nobody extends the leases of that from here on.
    fn announce(&mut self) -> Result<(), Abort> {
        if self.meets_frozen_at_once {
            self.context.meet_frozen()?;
        }
        if !self.lends && self.context.order == Some(Order::Logical) {
            self.context.seal_intents();
        }
        Ok(())
    }

    /// Reads groups of the rows within the bounds, at most `limit` of them, in the order of the keys or in reverse. No groups, if it is the
    /// entries of [an index](UntypedTable::of_index) that are wanted.
    ///
    /// # Errors
    /// As [`Branch::read`]; of kind [`AbortKind::NotOrdered`] if the table's index is not.
    pub fn scan(
        &mut self,
        table: &UntypedTable,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        groups: Range<usize>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Values)>, Abort> {
        let near = match lower {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let (table, sizes) = match table.1 {
            Kind::Entries if groups.is_empty() => (self.use_table(table)?, <() as Row>::SIZES),
            _ => self.use_groups(table, near, &groups)?,
        };
        let bounds = (lower.map(key_bytes), upper.map(key_bytes));
        let mut rows = Vec::new();
        self.context.scan(table, &bounds, (groups.start, sizes), Shape { reverse, limit }, |key, row| {
            rows.push((key.to_vec(), Values::read(row, sizes)));
            ControlFlow::Continue(())
        })?;
        self.context.free_own_copies();
        Ok(rows)
    }

    /// The transaction may use the table.
    fn use_table(&mut self, table: &UntypedTable) -> Result<TableRef, Abort> {
        if !self.context.active {
            return Err(Abort::plain(AbortKind::Continued));
        }
        self.context.check(&table.0)?;
        Ok(TableRef::new(&table.0))
    }

    /// The transaction may use the table, and these groups of its rows.
    fn use_groups(
        &mut self,
        table: &UntypedTable,
        key: &[u8],
        groups: &Range<usize>,
    ) -> Result<(TableRef, &'static [Size]), Abort> {
        let core = self.use_table(table)?;
        match table.0.sizes.get(groups.clone()) {
            Some(sizes) if !sizes.is_empty() && groups.end <= table.groups() => Ok((core, sizes)),
            _ => Err(self.context.too_long(core, key)),
        }
    }

    /// What its coordinator must know of it.
    pub fn standing(&self) -> Standing {
        let context = &self.context;
        let logical = context.order == Some(Order::Logical);
        let mut standing = Standing {
            bound: context.floor.max(context.read_bound),
            latest: Timestamp::MAX,
            holds_until: Timestamp::MAX,
            has_reads: !context.reads.is_empty() || !context.nodes.is_empty(),
            has_writes: !context.writes.is_empty(),
            holds_locks: !context.writes.is_empty(),
            keeps_reads: false,
            has_marks: false,
            locks_late: false,
            only_looks: !logical && !context.nodes.is_empty(),
        };
        if context.order == Some(Order::Beginning) {
            // Whoever would write what it has read, or put in what it has looked for, at an earlier time aborts, whatever becomes of it; and
            // it takes place at no other.
            let held = context.nodes.entries().iter().map(|node| Timestamp::new(node.seen.rts));
            let holds_until = held.fold(context.floor, Timestamp::min);
            let (bound, latest, only_looks) = (context.floor, context.floor, false);
            return Standing { bound, latest, holds_until, only_looks, ..standing };
        }
        if self.has_range() {
            let range = context.shared.ranges.get(context.slot);
            standing.bound = standing.bound.max(range.lower().time);
            standing.latest = range.upper().time;
        }
        for entry in context.writes.entries() {
            let t = entry.table.get();
            let hold = entry.hold();
            // (An intent keeps other writers out, but not those who look whether what they have read is current.)
            standing.locks_late |= !logical && hold.prev.is_none();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            let bound = with_protocol!(t.protocol, P => {
                // What it holds stays as it is; what it does not, it has seen, or will find out about.
                let now = cell.word.load();
                let prev = hold.prev.or(entry.seen()).or((!now.is_locked()).then_some(now));
                prev.map(|prev| P::write_bound(cell, prev))
            });
            standing.bound = standing.bound.max(bound.unwrap_or(Timestamp::ZERO));
        }
        for entry in &context.reads {
            with_protocol!(entry.table.get().protocol, P => {
                standing.keeps_reads |= P::SEALS_READS;
                standing.only_looks |= !logical && !P::SEALS_READS && entry.seen.until != Timestamp::MAX;
                standing.holds_locks |= P::LOCKS_READS && !P::HAS_RANGES;
                standing.has_marks |= logical && P::HAS_RANGES;
                // Where an older one may take the lock away, it must be asked for whether it is still there.
                let is_kept = !P::HAS_AGES || P::OLDER_WAITS && !context.shared.waits_both_ways();
                let is_locked = entry.seen.until == Timestamp::MAX && is_kept;
                let holds = logical || is_locked;
                let until = if holds { entry.seen.until.max(entry.seen.word.time()) } else { Timestamp::ZERO };
                standing.holds_until = standing.holds_until.min(until);
            });
        }
        standing.keeps_reads |= standing.has_marks;
        for node in context.nodes.entries() {
            let until = if logical { Timestamp::new(node.seen.rts) } else { Timestamp::ZERO };
            standing.holds_until = standing.holds_until.min(until);
        }
        standing
    }

    /// Locks everything that is to be written: the earliest time at which it may be.
    ///
    /// # Errors
    /// An [`Abort`]: the branch can only be rolled back.
    pub fn seal(&mut self) -> Result<Timestamp, Abort> {
        if let Some(bound) = self.sealed {
            return Ok(bound);
        }
        // (Who would commit though one of his operations is still held has gone on without it.)
        if self.context.failed || !self.context.active || self.context.unfollowed.is_some() {
            return Err(Abort::plain(AbortKind::Continued));
        }
        self.context.drop_kept_hold();
        // Others that must not wait for this one could be whom it would wait for.
        let sealed = self.context.seal();
        let sealed = match self.context.order {
            Some(Order::Beginning) => sealed.and_then(|bound| self.context.time_of_beginning(bound)),
            _ => sealed,
        };
        let sealed = match self.context.writes.has_updates() {
            true => sealed.and_then(|bound| self.context.apply_updates().map(|()| bound)),
            false => sealed,
        };
        let bound = sealed.map_err(|abort| self.end_by(abort))?;
        self.sealed = Some(bound);
        Ok(bound)
    }

    /// Seals what is not sealed yet, and validates everything at this commit time.
    ///
    /// To do both at once is not always safe. It is
    /// - in [logical order](Order::Logical): a commit time that all branches share is what orders two transactions. Of each
    ///   cell that one reads and the other writes, either the read time was raised to the reader's commit time first, and then the
    ///   writer finds that his is too early ([`Vote::Later`]), or it was sealed first, and the reader finds that;
    /// - if everything that is written was locked while executing, as under `two-phase`: nothing is validated before everything
    ///   is sealed;
    /// - if everything that was read is locked when it is looked at, as under `f1`: of two transactions that each read what the other
    ///   writes the second one meets a lock.
    ///
    /// It is not if one branch [locks late](Standing::locks_late) and another [only looks](Standing::only_looks). Two transactions
    /// that each read in one database what the other writes in another both pass, if each comes to its reads first. One of
    /// them may even have come and gone before the other comes to its writes; so it is of no help that a key which one of them
    /// looked for in vain is put in while the other still executes. Then [`Branch::seal`] must have been called for all
    /// branches before.
    ///
    /// # Errors
    /// An [`Abort`]: the branch can only be rolled back. But of kind [`AbortKind::Held`], if it may be asked again once another one
    /// has ended.
    pub fn prepare(&mut self, at: Timestamp) -> Result<Vote, Abort> {
        let bound = self.seal()?;
        if self.has_range() {
            let vote = self.prepare_range(bound.max(at)).and_then(|vote| self.agree().and(Ok(vote)));
            return vote.map_err(|abort| self.end_by(abort));
        }
        if bound > at {
            return Ok(Vote::Later(bound));
        }
        if self.context.failed {
            return Err(Abort::plain(AbortKind::Continued));
        }
        match self.context.validate(at).and_then(|()| self.agree()) {
            Ok(()) => {
                self.lend_until(at);
                Ok(Vote::Yes)
            }
            Err(abort) if abort.kind() == AbortKind::Held => Err(abort),
            Err(abort) => Err(self.end_by(abort)),
        }
    }

    /// From here on nobody can make it abort, unless somebody has already.
    fn agree(&mut self) -> Result<(), Abort> {
        if !self.has_agreed {
            self.context.pass_commit_point()?;
        }
        self.has_agreed = true;
        Ok(())
    }

    /// Freezes a range of commit times, and validates everything for all of it. (What it would have to wait for might wait for it.)
    ///
    /// Once is for all: whoever came after it meanwhile has been told when it ends.
    fn prepare_range(&mut self, earliest: Timestamp) -> Result<Vote, Abort> {
        if self.context.failed {
            return Err(Abort::plain(AbortKind::Continued));
        }
        let (from, until) = match self.frozen {
            Some(frozen) => frozen,
            None => self.context.freeze_time(earliest, self.frozen_ticks)?,
        };
        self.frozen = Some((from, until));
        let from = from.max(earliest);
        let until = self.context.voted_until(from, until);
        if until < from {
            return Err(self.context.no_time_left(from, until));
        }
        self.context.validate_range(until)?;
        Ok(Vote::Range(from, until))
    }

    /// Of a branch that has voted for a range with an end, and has nothing to install: all of it is left behind as the times at which its
    /// reads were relied on, as a lease would be. It need not be told how the transaction ends.
    pub fn leave_range(&mut self, until: Timestamp) {
        self.context.leave_read_times(until);
    }

    /// What will be replaced holds until just before the commit time, which will be this one or a later one. So whoever reads it meanwhile, and
    /// commits before, is in nobody's way.
    fn lend_until(&mut self, at: Timestamp) {
        if !self.lends || self.context.order != Some(Order::Logical) {
            return;
        }
        for entry in self.context.writes.entries().iter().filter(|entry| entry.hold().prev.is_some()) {
            let t = entry.table.get();
            // SAFETY: pinned since the record was found; the offset is of this table's layout.
            let cell = unsafe { entry.record.cell(entry.at as usize, t.aux_words) };
            with_protocol!(t.protocol, P => if P::HAS_LEASES {
                P::keep(cell, Timestamp::new(at.ticks().saturating_sub(1)));
            });
        }
    }

    /// Makes what was prepared visible, at the commit time. The branch ends.
    ///
    /// # Errors
    /// [`AbortKind::Continued`] if it is not sealed, or has not voted for this time: nothing has happened.
    pub fn install(&mut self, at: Timestamp) -> Result<(), Abort> {
        let is_late = |(from, until): (Timestamp, Timestamp)| at < from || until < at;
        if self.sealed.is_none()
            || self.context.failed
            || !self.context.active
            || self.has_range() && self.frozen.is_none_or(is_late)
        {
            return Err(Abort::plain(AbortKind::Continued));
        }
        if self.has_range() {
            self.context.leave_read_times(at);
        }
        self.sealed = None;
        self.context.install_at(at);
        Ok(())
    }

    /// Of what came back as [held](AbortKind::Held), and will not be asked for again: the same, as a conflict. The branch can only be rolled
    /// back.
    pub fn give_up(&mut self, held: Abort) -> Abort {
        self.end_by(held)
    }

    /// Takes everything back. The branch ends, if there was one.
    pub fn roll_back(&mut self) {
        self.sealed = None;
        self.context.roll_back();
    }

    /// The branch can only be rolled back.
    fn end_by(&mut self, mut abort: Abort) -> Abort {
        self.context.failed = true;
        if abort.kind() == AbortKind::Held {
            abort.inner_mut().kind = AbortKind::Conflict;
            self.context.count_conflict(&abort);
        }
        abort
    }
}

impl<H: Host> std::fmt::Debug for Branch<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch").field("id", &self.id).field("active", &self.context.active).finish()
    }
}

/// The values of a row that was just read.
fn take_values<H: Host>(context: &mut Context<H>, row: &[u64], sizes: &[Size]) -> Values {
    let values = Values::read(&RowReader::new(row, sizes), sizes);
    context.free_own_copies();
    values
}

/// That of groups which were just read: the reads from this one on are theirs.
fn lease_of<H: Host>(context: &Context<H>, from: usize, groups: &Range<usize>) -> Option<Lease> {
    lease_of_reads(context.order, &context.reads[from..], groups)
}

/// That of groups of which these are all reads.
fn lease_of_reads(order: Option<Order>, reads: &[ReadEntry], groups: &Range<usize>) -> Option<Lease> {
    let logical = order == Some(Order::Logical);
    let mut written = vec![None; groups.len()];
    let mut until = Timestamp::MAX;
    for entry in reads {
        let word = entry.seen.word;
        until = until.min(if logical { entry.seen.until.max(word.time()) } else { Timestamp::ZERO });
        let bits = entry.groups.bits();
        for (at, group) in groups.clone().enumerate() {
            if bits >> group & 1 == 1 {
                written[at] = Some(word.time());
            }
        }
    }
    let written = written.into_iter().collect::<Option<Vec<_>>>()?;
    Some(Lease { written, until })
}

fn put(writer: &mut EntryWriter<'_>, sizes: &[Size], values: &[&[u8]]) {
    for (index, (size, value)) in sizes.iter().zip(values).enumerate() {
        writer.put(index, *size, value.len(), |out| out.copy_from_slice(value));
    }
}

fn key_bytes(key: &[u8]) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    bytes.push(key);
    bytes
}
