//! Bugs to plant: the engine broken on purpose.
//!
//! A checker that has never found anything may be one that cannot. Tests plant one of these, run what
//! they run otherwise, and expect that it is found. Only with the feature `planted-bugs`, which nothing but
//! tests turns on; without it there is no trace of this in the program.

/// A way in which the engine is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What was read is not looked at again.
    SkipValidation,
    /// What index nodes did not hold is not looked at again.
    SkipLeafCheck,
    /// Values are written before their cells are locked.
    InstallBeforeLock,
    /// In a database that mixes protocols, each table validates as if all tables were of its own: `tictoc`
    /// tables at logical times among others that know only moments.
    NaiveMix,
    /// `dynamic`: whoever replaces a version does not push those who have read it before its own time.
    BoundNotMoved,
    /// `dynamic` and `ranges`: a reader takes its mark away before it has raised the read time.
    MarkLeftEarly,
    /// `ranges`: a reader does not come before the current writer that it finds.
    WriterNotMet,
}
