//! Runs on threads: which memory, and what is run in it.
//!
//! Each control is compiled into each structure here, which takes longer than all the rest of this crate.
//!
//! What it does not do: know contenders from elsewhere.

use noonmark_stm::{
    Dcotl, DcotlSf, Dctl, DctlSf, Global, Memory, Own, THashMap, TRavlMap, TRbMap, TSkipMap, TZipMap,
    Threads, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World, world,
};
use parking_lot::Mutex;

use super::names::{Contender, Preset, Structure};
use super::plain::{Alone, PlainRavl, PlainRecords, PlainWords};
use super::plain_hash::PlainHash;
use super::spec::{Settings, fits};
use super::worlds::{self, Found, Mapped, Table, Vars};
use super::{churn, reads, recorded, records};
use crate::report::{Progress, RunReport};
use crate::workload::RunError;

fn irrevocable_after<W: World<Host = Threads>>(attempts: u32) -> Memory<W> {
    Memory::new(noonmark_stm::Settings::default().attempts_max(attempts), Threads::default())
}

world! {
    /// `DCTL-SF` with K = 1.
    pub struct DctlSfK1: DctlSf, Threads, Own = irrevocable_after(1);
    /// `DCTL-SF` with K = 10, told so.
    pub struct DctlSfK10: DctlSf, Threads, Own = irrevocable_after(10);
    /// `DCTL-SF` with K = 100.
    pub struct DctlSfK100: DctlSf, Threads, Own = irrevocable_after(100);
    /// `DCOTL-SF` with K = 1.
    pub struct DcotlSfK1: DcotlSf, Threads, Own = irrevocable_after(1);
    /// `DCOTL-SF` with K = 10, told so.
    pub struct DcotlSfK10: DcotlSf, Threads, Own = irrevocable_after(10);
    /// `DCOTL-SF` with K = 100.
    pub struct DcotlSfK100: DcotlSf, Threads, Own = irrevocable_after(100);
}

/// No two runs at a time: one would disturb the other, and they share what a control counts.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// Runs it, telling `progress` how it is getting along some eight times a second.
pub fn run(
    settings: &Settings,
    contender: Contender,
    progress: &mut dyn FnMut(&Progress),
) -> Result<RunReport, RunError> {
    settings.check()?;
    fits(settings, contender)?;
    let _alone = ONE_RUN.lock();
    let mut run = Run { settings, name: contender.name(), progress };
    match contender {
        Contender::Plain => run.plain(),
        Contender::Dctl => run.in_world::<Global<Dctl>>(),
        Contender::Dcotl => run.in_world::<Global<Dcotl>>(),
        Contender::DctlSf => run.in_world::<Global<DctlSf>>(),
        Contender::DcotlSf => run.in_world::<Global<DcotlSf>>(),
        Contender::Tl2Gv4 => run.in_world::<Global<Tl2Gv4>>(),
        Contender::Tl2Gv5 => run.in_world::<Global<Tl2Gv5>>(),
        Contender::TinyStm => run.in_world::<Global<TinyStm>>(),
        Contender::TwoPlSf => run.in_world::<Global<TwoPlSf>>(),
        Contender::TicToc => run.in_table::<TicToc>(),
        Contender::DctlSfK1 => run.ravl::<DctlSfK1>(),
        Contender::DctlSfK10 => run.ravl::<DctlSfK10>(),
        Contender::DctlSfK100 => run.ravl::<DctlSfK100>(),
        Contender::DcotlSfK1 => run.ravl::<DcotlSfK1>(),
        Contender::DcotlSfK10 => run.ravl::<DcotlSfK10>(),
        Contender::DcotlSfK100 => run.ravl::<DcotlSfK100>(),
    }
}

/// A run while it is put together.
struct Run<'a> {
    settings: &'a Settings,
    name: &'a str,
    progress: &'a mut dyn FnMut(&Progress),
}

impl Run<'_> {
    fn churn<M: churn::Map>(&mut self, map: impl FnOnce() -> M) -> Result<RunReport, RunError> {
        churn::run(self.settings, self.name, map, self.progress)
    }

    fn keys(&self) -> usize {
        self.settings.keys as usize
    }

    fn in_world<W: World>(&mut self) -> Result<RunReport, RunError> {
        let keys = self.keys();
        match self.settings.structure {
            Structure::Ravl => self.ravl::<W>(),
            Structure::Zip => self.churn(|| Mapped(TZipMap::<u64, u64, W>::new_in())),
            Structure::Skip => self.churn(|| Mapped(TSkipMap::<u64, u64, W>::new_in())),
            Structure::RedBlack => self.churn(|| Mapped(TRbMap::<u64, u64, W>::new_in())),
            Structure::Hash => self.churn(|| Mapped(THashMap::<u64, u64, W>::with_buckets_in(keys))),
            Structure::HashGrowing => self.churn(|| Mapped(THashMap::<u64, u64, W>::new_in())),
            Structure::Records => records::run(self.settings, self.name, Found::<W>::new, self.progress),
            Structure::Variables if self.settings.preset.is_recorded() => {
                let counted = worlds::counted::<W>;
                recorded::run_in::<W>(self.settings, self.name, &counted, self.progress)
            }
            Structure::Variables => reads::run(self.settings, self.name, Vars::<W>::new, self.progress),
            Structure::Fixed => self.in_table::<W::Control>(),
        }
    }

    fn ravl<W: World>(&mut self) -> Result<RunReport, RunError> {
        self.churn(|| Mapped(TRavlMap::<u64, u64, W>::new_in()))
    }

    fn in_table<C: noonmark_stm::Control>(&mut self) -> Result<RunReport, RunError> {
        let Run { settings, name, progress } = self;
        if settings.preset.is_recorded() {
            return recorded::run_fixed::<C>(settings, name, progress);
        }
        if settings.preset == Preset::SixteenReads {
            return reads::run(settings, name, |count| Table::<C>::new(count, reads::START), progress);
        }
        records::run(settings, name, |keys, _| Table::<C>::new(keys.len(), 0), progress)
    }

    fn plain(&mut self) -> Result<RunReport, RunError> {
        let keys = self.keys();
        let Run { settings, name, progress } = self;
        match (settings.structure, settings.preset) {
            (Structure::Hash | Structure::HashGrowing, _) => {
                self.churn(|| Alone::new(PlainHash::with_buckets(keys)))
            }
            (Structure::Records, _) => records::run(settings, name, PlainRecords::new, progress),
            (Structure::Fixed, Preset::Disjoint) => {
                records::run(settings, name, |keys, _| PlainWords::new(keys.len(), 0), progress)
            }
            (Structure::Fixed | Structure::Variables, _) => {
                reads::run(settings, name, PlainWords::variables, progress)
            }
            // What has no plain form has been refused.
            (Structure::Ravl | Structure::Zip | Structure::Skip | Structure::RedBlack, _) => {
                self.churn(|| Alone::new(PlainRavl::default()))
            }
        }
    }
}
