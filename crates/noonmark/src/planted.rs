//! Bugs to plant: the engine broken on purpose.
//!
//! A checker that has never found anything may be one that cannot. Tests plant one of these, run what
//! they run otherwise, and expect that it is found. Only with the feature `planted-bugs`, which nothing but
//! tests turns on; without it nothing is ever planted, the compiler knows, and there is no trace of this in the program.

/// A way in which the engine is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What was read is not looked at again.
    SkipValidation,
    /// Who has been refused before panics when he has locked what he will write.
    PanicWithLocks,
    /// What index nodes did not hold is not looked at again.
    SkipLeafCheck,
    /// Values are written before their cells are locked.
    InstallBeforeLock,
    /// Cells are unlocked, with their new versions, before the values are written.
    UnlockBeforeInstall,
    /// In a database that mixes protocols, each table validates as if all tables were of its own: `tictoc`
    /// tables at logical times among others that know only moments.
    NaiveMix,
    /// `dynamic`: whoever replaces a version does not push those who have read it before its own time.
    ReadersNotPushed,
    /// `dynamic` and `ranges`: a reader takes its mark away before it has raised the read time.
    MarkLeftEarly,
    /// `dynamic`, with a read frontier: a writer looks at it before all that he will replace is locked.
    FrontierSeenEarly,
    /// `dynamic`, with a read frontier: who has read what is younger than the frontier was raises it, and does not look again.
    FrontierRaisedBlindly,
    /// `ranges`: a reader does not come before the current writer that it finds.
    WriterNotMet,
    /// `fixed`: a writer does not look for who has read later than it began.
    ReadsForgotten,
    /// `fixed`: who reads what is under the intent of somebody later leaves nothing behind.
    ReadUnderIntentUnseen,
    /// `fixed`: who reads what is under an intent does not look whose it is by then.
    IntentMistaken,
    /// `fixed`: a reader does not look again whether somebody has placed an intent meanwhile.
    IntentNotMet,
    /// `fixed`: what is replaced is not kept.
    NothingKept,
    /// `f1` looks at what was read when it would lock it, and locks only what is to be written.
    SealWritesOnly,
    /// `sundial` renews the lease of a version that has been replaced.
    RenewBlindly,
    /// `sundial`, where leases are extended while executing: that of a version that has been replaced meanwhile is, too.
    ExtendBlindly,
    /// `sundial`: a lease is renewed though its row is sealed.
    RenewSealed,
    /// `sundial`: values are replaced while their versions can be read yet.
    InstalledInSight,
    /// `sundial`, where write times are kept: a version is taken to hold until the current one was written, whatever came in between.
    VersionsSkipped,
    /// `sundial`, where write times are kept: those of a cell outlast a time in which its row was written through other cells.
    TimesOfOldCells,
    /// Momentary validation looks at versions only: what another has locked, and not yet replaced, passes.
    LocksIgnored,
    /// `tictoc` looks, then stretches the read time, and does not look again.
    LookBeforeRaise,
    /// A new version may follow the one before at once, whoever has relied on that one until later.
    BoundNotMoved,
    /// Two-phase locking lets go of a read lock as soon as the value has been read.
    ReadUnlockedEarly,
    /// A two-phase write lock is released without waking who waits for it.
    LostWakeup,
    /// A two-phase read lock is released without waking who waits for it.
    LostReaderWakeup,
    /// Who was called alone of those who wait, and takes what they wait for, does not mark it.
    QueueForgotten,
    /// Who goes away without what has been handed to him does not give it back.
    HandedAndKept,
    /// Under wait-die the younger waits, too.
    YoungerWaits,
    /// Under wound-wait the younger is not told.
    NobodyWounded,
    /// A commit-time update is worked out before its cell is locked.
    UpdateBeforeLock,
    /// Whoever splits a leaf that he relies on does not rely on what was split off.
    SplitNotNoted,
    /// A record leaves its index, and the node does not take over its times.
    TimesNotTakenOver,
    /// A row is split, or made whole, and its new timestamps are no later than those who have read it.
    SplitAtOldTime,
    /// A split row is made whole, whoever has locked a part of it.
    MadeWholeUnsealed,
    /// A record leaves its index, and whoever still has its address is not told.
    ReclaimedUnmarked,
    /// A row's entry in a secondary index stays when the row has another, or is deleted.
    EntryLeft,
    /// A row's new entry in a secondary index is not put in.
    EntryForgotten,
    /// Whoever is to look for a key once more, as when it was not found among others, takes it to be absent, and notes nothing.
    AbsenceUnnoted,
    /// At servers: an operation that was held once it had changed its row, and before the row's secondary entries had followed, is done
    /// once more from the start.
    HeldAndForgotten,
}

/// What is planted in a database.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted(#[cfg(feature = "planted-bugs")] Option<Bug>);

impl Planted {
    /// This one.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn some(bug: Bug) -> Self {
        Planted(Some(bug))
    }

    /// Whether it is this one.
    #[inline(always)]
    pub(crate) fn is(self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.0 == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }
}
