//! Bugs to plant: participants and coordinators broken on purpose.
//!
//! As in the engine: only with the feature `planted-bugs`, which nothing but tests turns on. Without it nothing is ever planted, and the
//! compiler knows.

/// A way in which a cluster is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A participant that is told that a transaction has aborted says that it knows, and keeps its locks.
    LostUnlock,
    /// What was late on its way, and of an attempt that is long over, is carried out.
    LateCarriedOut,
    /// A vote that arrives twice counts as two.
    VoteCountedTwice,
    /// A participant that wrote nothing is not asked, though its reads may not hold.
    ReaderSkipped,
    /// Everything is sealed and validated in one round, under whatever protocol.
    RoundsMerged,
    /// A transaction that is tried again is the same attempt once more.
    SameId,
    /// What was locked for reading when it was prepared is let go of with the vote.
    ReadsLetGo,
    /// A participant that could only commit later is taken to have agreed.
    LaterIgnored,
    /// A participant that votes yes is told to commit before the others have voted.
    DecidedEarly,
    /// A scan of several servers asks the first one only.
    BorderNotCrossed,
    /// A scan of a secondary index whose entries may be anywhere asks the home server only.
    IndexAskedAtHome,
    /// Entries of an index that will change with the first message of the commit are taken to be locked.
    EntriesTakenForLocked,
    /// What was read out of a copy is taken to hold for ever.
    CopyUsedPastItsLease,
    /// A row that was read out of a copy is written without a look whether that is current.
    CopyOverwritten,
    /// The lease of a whole table is extended while somebody is sealed who writes it.
    TableExtendedWhileSealed,
    /// The lease of a whole table is taken to hold for copies from before it was last written, too.
    TableLeaseOfOldCopies,
    /// A copied index node is taken to hold for ever.
    NodeUsedPastItsLease,
    /// A copied index node is taken to speak of keys beyond its end.
    NodeUsedBeyondItsFence,
    /// The ranges of commit times that servers have frozen are not intersected.
    RangesNotIntersected,
    /// Who has frozen a range, and only read, leaves nothing of it behind when he has voted.
    RangeNotLeftBehind,
    /// Whoever meets another waits for him, whatever the ages of both are.
    AgesIgnored,
    /// Who locks only what he reads lets go of that with his vote, though entries of an index that will change are not locked yet.
    LetGoBeforeEntries,
    /// The same, though what the transaction writes elsewhere is locked only when it is prepared.
    LetGoBeforeLateLocks,
    /// A request that arrives twice, and has a commit-time update in it, is carried out twice.
    DoubledUpdateCarriedOut,
    /// A write that the participant will hear of with the first message of the commit is taken to be locked.
    UnannouncedTakenForLocked,
    /// A server that is told to write a row with a message of the commit, and has not got it, goes on with the rest.
    LostRowPassedOver,
}

impl Bug {
    /// All of them.
    pub const ALL: &'static [Bug] = &[
        Bug::LostUnlock,
        Bug::LateCarriedOut,
        Bug::VoteCountedTwice,
        Bug::ReaderSkipped,
        Bug::RoundsMerged,
        Bug::SameId,
        Bug::ReadsLetGo,
        Bug::LaterIgnored,
        Bug::DecidedEarly,
        Bug::BorderNotCrossed,
        Bug::IndexAskedAtHome,
        Bug::EntriesTakenForLocked,
        Bug::CopyUsedPastItsLease,
        Bug::CopyOverwritten,
        Bug::TableExtendedWhileSealed,
        Bug::TableLeaseOfOldCopies,
        Bug::NodeUsedPastItsLease,
        Bug::NodeUsedBeyondItsFence,
        Bug::RangesNotIntersected,
        Bug::RangeNotLeftBehind,
        Bug::AgesIgnored,
        Bug::LetGoBeforeEntries,
        Bug::LetGoBeforeLateLocks,
        Bug::DoubledUpdateCarriedOut,
        Bug::UnannouncedTakenForLocked,
        Bug::LostRowPassedOver,
    ];
}

/// The bug that is planted, if one is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Bug>,
}

impl Planted {
    /// None is.
    pub const NONE: Planted = Planted {
        #[cfg(feature = "planted-bugs")]
        bug: None,
    };

    /// This one.
    #[cfg(feature = "planted-bugs")]
    pub fn some(bug: Bug) -> Self {
        Planted { bug: Some(bug) }
    }

    /// Whether it is this one.
    #[inline(always)]
    pub(crate) fn is(self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }
}
