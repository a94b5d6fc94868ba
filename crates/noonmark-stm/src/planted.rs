//! Bugs to plant: the controls broken on purpose.
//!
//! A test that has never found anything may be one that cannot. Tests plant one of these, run what they run
//! otherwise, and expect that it is found. Only with the feature `planted-bugs`, which nothing but the crate's own
//! tests turns on; without it there is no trace of this in the program.

/// A way in which a memory is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-bugs"), allow(dead_code, reason = "only tests plant bugs"))]
pub enum Bug {
    /// What was read is not looked at again at the commit.
    SkipValidation,
    /// What was copied counts, whatever the word beside it says.
    SkipPostValidation,
    /// What was undone is left with the time from before.
    UndoKeepsTime,
    /// What was committed is left with the time from before.
    CommitKeepsTime,
    /// Who takes a lock says that he could have read what it guards, whether or not.
    AlwaysConsistent,
    /// Who takes a lock takes the word that is there then, and not the one that was checked.
    TakeAnyWord,
    /// Who takes a lock for writing does not look for those who read.
    SkipReaders,
    /// Who reads does not put himself on record for those who write.
    SkipRecord,
    /// Who draws a timestamp does not say so before.
    DrawInSilence,
    /// Whoever changes what others wait for does not wake them.
    SkipWakes,
    /// Who becomes irrevocable does not give up what he has as a speculative one.
    FallBackInSilence,
}
