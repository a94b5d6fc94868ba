//! The transactional memory on virtual cores: what the benchmarks on threads do in real time, in virtual time.
//!
//! It is the memory's own code: its rules tell their host which lines they are about to touch (`noonmark-stm/src/lines.rs`), and the
//! host here is [`VirtualCores`]. The workloads are those of the benchmarks, too (`noonmark-workloads/src/stm/`): their
//! requests, their structures, and what is checked after a run.
//!
//! **A run has a memory of its own.** A memory belongs to a [`World`], which is a type, and types are not made at run time. So
//! the world of these runs is that of whichever run is under way on this thread; all workers of a run are on one thread.
//!
//! **Before a run** the structure is filled, by the first core, as a thread of its own fills it in the benchmarks: so what it has
//! filled lies in the caches that the cores of its socket share. Or by nobody's clock, and then all lines are in memory when it
//! begins.
//!
//! What it does not do: it knows no paper and no plot. Where more workers come than a control has slots for, those that find none do
//! nothing until others have left.

use crate::VirtualCores;
use crate::cores::Limits;
use crate::experiment::{self, Done, ExperimentError, Job, Left, Measured, Outcome, Plan};
use noonmark_stm::{
    Control, Dcotl, DcotlSf, Dctl, DctlSf, Memory, Opaque, Own, Settings, THashMap, TRavlMap, TRbMap,
    TSkipMap, TZipMap, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World,
};
use noonmark_workloads::driver::memory;
use noonmark_workloads::random::Random;
use noonmark_workloads::stm::churn::{self, Churn, Filling};
use noonmark_workloads::stm::overwriting::Overwriting;
use noonmark_workloads::stm::records::{Disjoint, Records, shuffled};
use noonmark_workloads::stm::stage::{Counted, Play, Work};
use noonmark_workloads::stm::worlds::{Found, Mapped, Table};
use noonmark_workloads::stm::{Contender, Structure};
use noonmark_workloads::store::Conflicts;
use noonmark_workloads::workload::{RunError, Seat};
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bench {
    /// On what: a map, or what single words are written in.
    pub structure: Structure,
    /// How many keys, or words, there are to choose from. Of a map's half are there.
    pub keys: u64,
    /// How many of a hundred operations change something; of a map.
    pub updates_percent: u8,
    /// Whether what is written is not read before; of [`Structure::Records`].
    pub overwrites: bool,
    /// Whether a core fills it; if not, it is filled by nobody's clock.
    pub is_filled_by_a_core: bool,
}

/// Runs it under this control, on cores on which nothing has been run yet.
///
/// # Errors
/// [`ExperimentError`] if it does not fit into memory, if there are more workers than cores, or if the control does not run on such
/// a structure.
pub fn run(
    cores: &VirtualCores,
    contender: Contender,
    bench: &Bench,
    plan: &Plan,
) -> Result<Measured, ExperimentError> {
    memory::check(bench.bytes())?;
    let run = Run { cores, bench, plan };
    match contender {
        Contender::Dctl => run.under::<Dctl>(None),
        Contender::Dcotl => run.under::<Dcotl>(None),
        Contender::DctlSf => run.under::<DctlSf>(None),
        Contender::DcotlSf => run.under::<DcotlSf>(None),
        Contender::DctlSfK1 => run.under::<DctlSf>(Some(1)),
        Contender::DctlSfK10 => run.under::<DctlSf>(Some(10)),
        Contender::DctlSfK100 => run.under::<DctlSf>(Some(100)),
        Contender::DcotlSfK1 => run.under::<DcotlSf>(Some(1)),
        Contender::DcotlSfK10 => run.under::<DcotlSf>(Some(10)),
        Contender::DcotlSfK100 => run.under::<DcotlSf>(Some(100)),
        Contender::Tl2Gv4 => run.under::<Tl2Gv4>(None),
        Contender::Tl2Gv5 => run.under::<Tl2Gv5>(None),
        Contender::TinyStm => run.under::<TinyStm>(None),
        Contender::TwoPlSf => run.under::<TwoPlSf>(None),
        Contender::TicToc if bench.structure == Structure::Fixed => run.in_table::<TicToc>(None),
        Contender::TicToc | Contender::Plain => {
            let structure = bench.structure;
            Err(RunError::Setting(format!("{contender} does not run on structure {structure}")).into())
        }
    }
}

impl Bench {
    /// About how many bytes it takes, with what is known of its lines.
    pub fn bytes(&self) -> u64 {
        self.keys.saturating_mul(match self.structure {
            Structure::Records => 640,
            Structure::Fixed => 160,
            _ => 256,
        })
    }
}

/// A run while it is put together.
struct Run<'a> {
    cores: &'a VirtualCores,
    bench: &'a Bench,
    plan: &'a Plan,
}

impl Run<'_> {
    /// A slot for each worker, and two for whoever fills and checks.
    fn settings(&self, attempts_max: Option<u32>) -> Settings {
        let settings = Settings::default().slots(self.plan.workers + 2);
        attempts_max.map_or(settings, |attempts_max| settings.attempts_max(attempts_max))
    }

    fn under<C: Opaque>(&self, attempts_max: Option<u32>) -> Result<Measured, ExperimentError> {
        let settings = self.settings(attempts_max);
        let keys = self.bench.keys as usize;
        in_memory::<C>(settings, self.cores, || match self.bench.structure {
            Structure::Ravl => self.churn(Mapped(TRavlMap::<u64, u64, Here<C>>::new_in())),
            Structure::Zip => self.churn(Mapped(TZipMap::<u64, u64, Here<C>>::new_in())),
            Structure::Skip => self.churn(Mapped(TSkipMap::<u64, u64, Here<C>>::new_in())),
            Structure::RedBlack => self.churn(Mapped(TRbMap::<u64, u64, Here<C>>::new_in())),
            Structure::Hash => self.churn(Mapped(THashMap::<u64, u64, Here<C>>::with_buckets_in(keys))),
            Structure::Records if self.bench.overwrites => {
                let (records, keys) = self.made(Found::<Here<C>>::new)?;
                self.play(&Overwriting { records, keys })
            }
            Structure::Records => self.disjoint(Found::<Here<C>>::new),
            Structure::Fixed => self.in_table::<C>(attempts_max),
            other @ (Structure::HashGrowing | Structure::Variables) => {
                Err(RunError::Setting(format!("structure {other} is for threads only")).into())
            }
        })
    }

    fn in_table<C: Control>(&self, attempts_max: Option<u32>) -> Result<Measured, ExperimentError> {
        let (settings, host) = (self.settings(attempts_max), self.cores.clone());
        self.disjoint(|keys, _| Table::<C, _>::with(settings, host, keys.len(), 0))
    }

    fn churn<M: churn::Map>(&self, map: M) -> Result<Measured, ExperimentError> {
        let Bench { keys, updates_percent, .. } = *self.bench;
        let filling = self.filled(|| Filling::of(&map, keys, self.plan.seed, &AtomicU64::new(0)))?;
        self.play(&Churn { map, choices: churn::Choices { keys, updates_percent }, filling })
    }

    fn disjoint<R: Records>(
        &self,
        make: impl FnOnce(&[u32], &AtomicU64) -> R,
    ) -> Result<Measured, ExperimentError> {
        let (records, keys) = self.made(make)?;
        self.play(&Disjoint { records, keys })
    }

    /// Records, and how many there are.
    fn made<R>(&self, make: impl FnOnce(&[u32], &AtomicU64) -> R) -> Result<(R, u64), ExperimentError> {
        let keys = shuffled(self.bench.keys, &mut Random::new(self.plan.seed, 0));
        Ok((self.filled(|| make(&keys, &AtomicU64::new(0)))?, self.bench.keys))
    }

    /// What is made by a core, or by nobody.
    fn filled<T>(&self, fill: impl FnOnce() -> T) -> Result<T, ExperimentError> {
        if !self.bench.is_filled_by_a_core {
            return Ok(fill());
        }
        let made = Cell::new(None);
        self.cores.run(Limits::default(), [|| made.set(Some(fill()))])?;
        made.take().ok_or_else(|| RunError::Panic.into())
    }

    fn play<P: Play>(&self, play: &P) -> Result<Measured, ExperimentError> {
        let Plan { workers: count, seed, requests, .. } = *self.plan;
        let epoch = std::time::Instant::now();
        let seat = |number: usize| {
            let random = Random::new(seed, number as u64 + 1);
            Seat { number, count, random, requests, epoch }
        };
        play.begin();
        let job = OfPlay { play, tallies: RefCell::default() };
        let seats = (0..count).map(seat).collect();
        let Done { tally, before, after, lines, report } =
            experiment::measure(self.cores, &job, seats, self.plan)?;
        let conditions = play.check(&job.tallies.into_inner());
        let counted = after.since(&before);
        let rules: BTreeMap<String, u64> = counted
            .conflicts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| ((*kind).to_owned(), *count))
            .collect();
        Ok(Measured {
            seconds: self.plan.measured_ps as f64 / 1e12,
            committed: tally.committed,
            user_rollbacks: 0,
            aborted: counted.aborted(),
            conflicts: Conflicts { rules, ..Conflicts::default() },
            attempts_max: counted.attempts_max,
            clock_increments: counted.clock,
            irrevocable: counted.irrevocable,
            latencies_ns: tally.latencies_ns,
            lines,
            steps: report.steps,
            limit: report.limit,
            stuck: tally.stuck,
            conditions,
        })
    }
}

/// A workload of the benchmarks.
struct OfPlay<'a, P: Play> {
    play: &'a P,
    /// What the workers have handed back that have left.
    tallies: RefCell<Vec<P::Tally>>,
}

impl<'a, P: Play> Job for OfPlay<'a, P> {
    type Worker = Seat;
    type Seated = P::Worker<'a>;
    type Counts = Counted;

    fn begin(&self, seat: Seat) -> Result<P::Worker<'a>, RunError> {
        Ok(self.play.worker(seat))
    }

    /// Nobody who works with a memory gives up.
    fn execute(&self, worker: &mut P::Worker<'a>) -> Result<Outcome, RunError> {
        worker.execute();
        Ok(Outcome::Committed)
    }

    fn end(&self, worker: P::Worker<'a>) -> Left {
        self.tallies.borrow_mut().push(worker.tally());
        Left::nothing(0)
    }

    fn counts(&self) -> Counted {
        self.play.counted()
    }
}

thread_local! {
    /// The memory of the run that is under way on this thread, and for which control it is. **Invariant**: set by [`in_memory`] only,
    /// for as long as that memory is there.
    static MEMORY: Cell<Option<(TypeId, NonNull<()>)>> = const { Cell::new(None) };
}

/// The world of the run that is under way on this thread.
///
/// **Invariant**: variables of it are made in [`in_memory`] only, and gone when that ends.
struct Here<C>(PhantomData<C>);

// SAFETY: all variables of such a world are made and dropped within one `in_memory` (private to this module, which hands none of them
// out), on its thread, and as long as that is under way the answer is one and the same.
unsafe impl<C: Opaque> World for Here<C> {
    type Control = C;
    type Host = VirtualCores;
    type Place = Own;

    fn memory() -> &'static Memory<Self> {
        match MEMORY.get() {
            // SAFETY: it is a memory of this type, and it is there, by the invariant. Nobody keeps it longer: who does has made it
            // out of a variable or a session of this world, and those are gone by then.
            Some((control, memory)) if control == TypeId::of::<C>() => unsafe { memory.cast().as_ref() },
            _ => panic!("no run under this control is under way on this thread"),
        }
    }
}

/// Does something that uses a memory of its own. What it answers has nothing in it that belongs to that.
fn in_memory<C: Opaque>(
    settings: Settings,
    cores: &VirtualCores,
    play: impl FnOnce() -> Result<Measured, ExperimentError>,
) -> Result<Measured, ExperimentError> {
    /// Takes the memory away, also after a panic.
    struct Away<C: Opaque>(NonNull<Memory<Here<C>>>);

    impl<C: Opaque> Drop for Away<C> {
        fn drop(&mut self) {
            // SAFETY: it was made of a box, below, and nobody uses it any more: what did was within `play`, which is over.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
            MEMORY.set(None);
        }
    }

    assert!(MEMORY.get().is_none(), "a run within a run");
    let memory = Box::new(Memory::<Here<C>>::new(settings, cores.clone()));
    let away = Away(NonNull::from(Box::leak(memory)));
    MEMORY.set(Some((TypeId::of::<C>(), away.0.cast())));
    play()
}
