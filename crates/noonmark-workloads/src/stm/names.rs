//! Presets, structures and contenders by name.
//!
//! Names are the paper's, as far as it has them; on a command line they are written small.
//!
//! What it does not do: say which of them go together ([`super::fits`]).

use std::fmt;
use std::str::FromStr;

use crate::workload::RunError;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Figure 6: each transaction writes one word of one of a million records.
    Disjoint,
    /// Figure 7: insertions and removals only.
    RavlAlloc,
    /// Figure 8: how many attempts there are before the irrevocable one.
    KSweep,
    /// Figure 9: a hash map with a bucket for each key.
    Hash,
    /// Figures 10 to 12: four ordered maps.
    Trees,
    /// Figure 13: beside maps made by hand.
    Maps,
    /// Transactions that read sixteen variables.
    SixteenReads,
    /// Lists that are appended to and read; the history is checked.
    Append,
    /// Registers that are read and written; the history is checked.
    Register,
}

impl Preset {
    /// All of them: the paper's in its order, and those for the checker.
    pub const ALL: [Preset; 9] = [
        Preset::Disjoint,
        Preset::RavlAlloc,
        Preset::KSweep,
        Preset::Hash,
        Preset::Trees,
        Preset::Maps,
        Preset::SixteenReads,
        Preset::Append,
        Preset::Register,
    ];

    /// Its name on a command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Disjoint => "disjoint",
            Preset::RavlAlloc => "ravl-alloc",
            Preset::KSweep => "k-sweep",
            Preset::Hash => "hash",
            Preset::Trees => "trees",
            Preset::Maps => "maps",
            Preset::SixteenReads => "sixteen-reads",
            Preset::Append => "append",
            Preset::Register => "register",
        }
    }

    /// Whether its runs are recorded, and their histories checked.
    pub fn is_recorded(self) -> bool {
        matches!(self, Preset::Append | Preset::Register)
    }

    /// The structures that it runs unless told otherwise.
    pub fn structures(self) -> &'static [Structure] {
        match self {
            Preset::Disjoint => &[Structure::Records, Structure::Fixed],
            Preset::RavlAlloc | Preset::KSweep => &[Structure::Ravl],
            Preset::Hash => &[Structure::Hash],
            Preset::Trees => &[Structure::Ravl, Structure::Zip, Structure::Skip, Structure::RedBlack],
            Preset::Maps => &[Structure::Ravl, Structure::Hash],
            Preset::SixteenReads => &[Structure::Variables],
            Preset::Append | Preset::Register => &[Structure::Variables, Structure::Fixed],
        }
    }

    /// The shares of updates that it runs unless told otherwise, in per cent.
    pub fn updates_percent(self) -> &'static [u8] {
        match self {
            Preset::Disjoint | Preset::RavlAlloc | Preset::Append | Preset::Register => &[100],
            Preset::SixteenReads => &[0],
            Preset::KSweep | Preset::Hash | Preset::Trees | Preset::Maps => &[100, 10, 0],
        }
    }

    /// The contenders that it runs unless told otherwise.
    pub fn contenders(self) -> &'static [Contender] {
        const ALL: &[Contender] = Contender::ALL.split_at(10).0;
        match self {
            Preset::KSweep => {
                &[Contender::Dcotl, Contender::DcotlSfK1, Contender::DcotlSfK10, Contender::DcotlSfK100]
            }
            // What runs on one thread alone has nothing to show.
            Preset::Append | Preset::Register => ALL.split_at(1).1,
            _ => ALL,
        }
    }
}

/// What transactions are run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A relaxed AVL tree.
    Ravl,
    /// A zip tree.
    Zip,
    /// A skip list.
    Skip,
    /// A red-black tree.
    RedBlack,
    /// A hash map with a bucket for each key of the range, which does not grow.
    Hash,
    /// A hash map that grows.
    HashGrowing,
    /// A relaxed AVL tree that leads to records of twelve words.
    Records,
    /// A table of words, for transactions that name what they touch before they begin.
    Fixed,
    /// Variables without a structure.
    Variables,
}

impl Structure {
    /// All of them.
    pub const ALL: [Structure; 9] = [
        Structure::Ravl,
        Structure::Zip,
        Structure::Skip,
        Structure::RedBlack,
        Structure::Hash,
        Structure::HashGrowing,
        Structure::Records,
        Structure::Fixed,
        Structure::Variables,
    ];

    /// Its name on a command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Structure::Ravl => "ravl",
            Structure::Zip => "zip",
            Structure::Skip => "skip",
            Structure::RedBlack => "rb",
            Structure::Hash => "hash",
            Structure::HashGrowing => "hash-growing",
            Structure::Records => "records",
            Structure::Fixed => "fixed",
            Structure::Variables => "variables",
        }
    }

    /// Whether it is a map, to be inserted into and removed from.
    pub fn is_map(self) -> bool {
        !matches!(self, Structure::Records | Structure::Fixed | Structure::Variables)
    }

    /// Whether it is a map in the order of its keys.
    pub fn is_ordered(self) -> bool {
        matches!(self, Structure::Ravl | Structure::Zip | Structure::Skip | Structure::RedBlack)
    }
}

/// Who runs the transactions: a concurrency control, or a structure without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Without any synchronization, and so for one thread: what the others are measured by.
    Plain,
    /// Deferred clock (Algorithm 3).
    Dctl,
    /// With overwrites (Algorithm 4).
    Dcotl,
    /// Starvation-free (§5).
    DctlSf,
    /// Both.
    DcotlSf,
    /// A clock that every commit advances, or shares.
    Tl2Gv4,
    /// A clock that failed attempts advance.
    Tl2Gv5,
    /// Snapshots that are extended. (It stands for ORec, too.)
    TinyStm,
    /// Two-phase locking.
    TwoPlSf,
    /// Times beside the data, no clock, not opaque.
    TicToc,
    /// [`Contender::DctlSf`], irrevocable after 1 failed attempt.
    DctlSfK1,
    /// After 10, which is the usual.
    DctlSfK10,
    /// After 100.
    DctlSfK100,
    /// [`Contender::DcotlSf`], irrevocable after 1 failed attempt.
    DcotlSfK1,
    /// After 10, which is the usual.
    DcotlSfK10,
    /// After 100.
    DcotlSfK100,
}

impl Contender {
    /// All of them; those that a preset other than `k-sweep` runs come first.
    pub const ALL: &'static [Contender] = &[
        Contender::Plain,
        Contender::Dctl,
        Contender::Dcotl,
        Contender::DctlSf,
        Contender::DcotlSf,
        Contender::Tl2Gv4,
        Contender::Tl2Gv5,
        Contender::TinyStm,
        Contender::TwoPlSf,
        Contender::TicToc,
        Contender::DctlSfK1,
        Contender::DctlSfK10,
        Contender::DctlSfK100,
        Contender::DcotlSfK1,
        Contender::DcotlSfK10,
        Contender::DcotlSfK100,
    ];

    /// Its name, as the paper writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Contender::Plain => "plain",
            Contender::Dctl => "DCTL",
            Contender::Dcotl => "DCOTL",
            Contender::DctlSf => "DCTL-SF",
            Contender::DcotlSf => "DCOTL-SF",
            Contender::Tl2Gv4 => "TL2-GV4",
            Contender::Tl2Gv5 => "TL2-GV5",
            Contender::TinyStm => "TinySTM",
            Contender::TwoPlSf => "2PLSF",
            Contender::TicToc => "TicToc",
            Contender::DctlSfK1 => "DCTL-SF-K1",
            Contender::DctlSfK10 => "DCTL-SF-K10",
            Contender::DctlSfK100 => "DCTL-SF-K100",
            Contender::DcotlSfK1 => "DCOTL-SF-K1",
            Contender::DcotlSfK10 => "DCOTL-SF-K10",
            Contender::DcotlSfK100 => "DCOTL-SF-K100",
        }
    }

    /// Whether it says after how many attempts it is irrevocable.
    pub fn is_of_k_sweep(self) -> bool {
        self.name().contains("-K")
    }
}

/// Who else may be in a report, from a crate that this one does not know: reports keep a colour for each.
pub const RIVALS: [&str; 10] = [
    "mutex",
    "rwlock",
    "crossbeam-skiplist",
    "scc",
    "scc-index",
    "congee",
    "dashmap",
    "papaya",
    "stm",
    "fast-stm",
];

macro_rules! named {
    ($($kind:ident, $what:literal, $all:expr;)*) => { $(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $kind {
            type Err = RunError;

            fn from_str(name: &str) -> Result<Self, RunError> {
                let mut all = $all.iter().copied();
                all.find(|one| one.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
                    let names: Vec<String> = $all.iter().map(|one| one.name().to_lowercase()).collect();
                    RunError::Setting(format!("{} {name}: one of {} is wanted", $what, names.join(", ")))
                })
            }
        }
    )* };
}

named! {
    Preset, "preset", Preset::ALL;
    Structure, "structure", Structure::ALL;
    Contender, "control", Contender::ALL;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
            assert!(preset.contenders().iter().all(|one| one.is_of_k_sweep() <= (preset == Preset::KSweep)));
        }
        for structure in Structure::ALL {
            assert_eq!(structure.name().parse::<Structure>().unwrap(), structure);
        }
        for contender in Contender::ALL {
            assert_eq!(contender.name().to_lowercase().parse::<Contender>().unwrap(), *contender);
            assert!(!RIVALS.contains(&contender.name()));
        }
        let error = "dctl2".parse::<Contender>().unwrap_err().to_string();
        assert!(error.contains("dctl2") && error.contains("2plsf") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn controls_are_called_what_they_call_themselves() {
        use noonmark_stm::Control;
        let names = [
            noonmark_stm::Dctl::NAME,
            noonmark_stm::Dcotl::NAME,
            noonmark_stm::DctlSf::NAME,
            noonmark_stm::DcotlSf::NAME,
            noonmark_stm::Tl2Gv4::NAME,
            noonmark_stm::Tl2Gv5::NAME,
            noonmark_stm::TinyStm::NAME,
            noonmark_stm::TwoPlSf::NAME,
            noonmark_stm::TicToc::NAME,
        ];
        let ours: Vec<&str> = Contender::ALL[1..10].iter().map(|contender| contender.name()).collect();
        assert_eq!(ours, names);
    }
}
