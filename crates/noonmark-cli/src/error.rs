//! The ways in which the program fails, each one line on standard error.

use std::fmt;

/// Why the program ends early.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for what cannot be: exit status 2.
    Usage(String),
    /// Something went wrong on the way, or the result is wrong: exit status 1.
    Run(String),
    /// A history could not be judged: exit status 3.
    Undecided(String),
}

impl Failure {
    /// A failure of the command line.
    pub fn usage(why: impl Into<String>) -> Failure {
        Failure::Usage(why.into())
    }

    /// A failure on the way.
    pub fn run(why: impl Into<String>) -> Failure {
        Failure::Run(why.into())
    }

    /// The exit status that tells a script.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
            Failure::Undecided(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(why) | Failure::Run(why) | Failure::Undecided(why)) = self;
        // Messages from below may hold line breaks; one failure is one line.
        for (i, line) in why.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            write!(f, "{}{line}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}
