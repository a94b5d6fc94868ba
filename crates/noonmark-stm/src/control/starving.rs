//! Whether a long transaction starves: rule by rule, against one who always comes in between.
//!
//! The long one reads [`VARS`] variables and writes one. Each time that it has read some more, another runs as many steps as
//! it can of a transaction that overwrites two: one that the long one has read, and one that it has yet to read. There are no
//! threads and no chance: each attempt of the long one meets the same, so one that fails under
//! a control that knows no better fails for ever.
//!
//! What it does not do: there are no more than two.

use super::{Control, Ending};
use crate::desk::{Common, Desk};
use crate::lines::Spot;
use crate::{Dcotl, DcotlSf, Dctl, DctlSf, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf};
use noonmark_core::sync::{AtomicU64, Ordering};
use noonmark_core::{Epochs, SlotId, Step, Threads};
use std::sync::Arc;

const VARS: usize = 240;
/// After how many reads the other one comes.
const STRIDE: usize = 40;
/// `K`.
const ATTEMPTS_MAX: u32 = 10;
/// Who has not committed by then starves.
const ENOUGH: u32 = 200;

#[derive(Clone, Copy)]
enum Op {
    Read(usize),
    Write(usize),
}

struct Vars<C: Control> {
    locks: Vec<C::Lock>,
    cells: Vec<AtomicU64>,
    epochs: Epochs,
}

#[derive(PartialEq)]
enum Moved {
    On,
    Waits,
    Restarted,
    Committed,
}

struct Actor<C: Control> {
    desk: Desk<C>,
    /// 0: to begin.
    at: usize,
    failures: u32,
    /// After how many failures it is irrevocable, under a control that knows this; 0: from the first.
    patience: u32,
}

impl<C: Control> Actor<C> {
    fn new(slot: usize, common: &Arc<Common<C>>, patience: u32) -> Self {
        Actor { desk: Desk::new(SlotId::new(slot).unwrap(), common.clone()), at: 0, failures: 0, patience }
    }

    fn step(&mut self, vars: &Vars<C>, ops: &[Op]) -> Moved {
        let desk = &self.desk;
        if self.at == 0 {
            if !matches!(C::may_begin(desk), Step::Ready(())) {
                return Moved::Waits;
            }
            let falls_back = C::falls_back(desk, self.failures, self.patience);
            if falls_back {
                C::give_up(desk, |_| ());
            }
            let is_irrevocable = falls_back || C::IS_IRREVOCABLE && self.patience == 0;
            desk.begin(is_irrevocable, 0);
            C::begin(desk, is_irrevocable);
            self.at = 1;
            return Moved::On;
        }
        let Some(op) = ops.get(self.at - 1) else {
            return match C::validate(desk) {
                Ok(()) => self.end(vars, Ending::Commit),
                Err(conflict) => self.end(vars, Ending::Restart(conflict)),
            };
        };
        let answer = match *op {
            Op::Read(var) => {
                C::read(desk, Spot::of(&vars.locks[var]), true, || vars.cells[var].load(Ordering::Relaxed))
                    .map(|_| ())
            }
            Op::Write(var) => C::write(desk, Spot::of(&vars.locks[var])).map(|()| {
                let value = vars.cells[var].load(Ordering::Relaxed);
                desk.store::<u64>(Spot::of(&vars.locks[var]), &vars.cells[var], value + 1);
            }),
        };
        match answer {
            Step::Ready(()) => {
                self.at += 1;
                Moved::On
            }
            Step::Busy(_) | Step::Wait(..) => Moved::Waits,
            Step::Die(conflict) | Step::Abort(conflict) => self.end(vars, Ending::Restart(conflict)),
        }
    }

    fn end(&mut self, vars: &Vars<C>, ending: Ending) -> Moved {
        if ending != Ending::Commit {
            self.desk.undo();
        }
        C::release(&self.desk, ending, |_| ());
        self.desk.settle(ending == Ending::Commit, &vars.epochs);
        self.at = 0;
        if ending == Ending::Commit {
            self.failures = 0;
            Moved::Committed
        } else {
            self.failures += 1;
            Moved::Restarted
        }
    }
}

/// How many attempts the long one takes, at most [`ENOUGH`]; and how many transactions the other commits meanwhile.
fn attempts<C: Control>() -> (u32, u32) {
    attempts_beside::<C>(ATTEMPTS_MAX, u32::MAX)
}

/// The same, with the patience of both. Who is irrevocable has the ticket: the other one, who is so from the first, does not begin then.
fn attempts_beside<C: Control>(patience: u32, others: u32) -> (u32, u32) {
    let common = Arc::new(Common::new(Threads::default(), 0));
    let vars = Vars::<C> {
        locks: (0..VARS).map(|_| Default::default()).collect(),
        cells: (0..VARS).map(|_| AtomicU64::new(0)).collect(),
        epochs: Epochs::new(1),
    };
    let (mut long, mut other) = (Actor::new(1, &common, patience), Actor::new(2, &common, others));
    let long_ops: Vec<Op> = (0..VARS).map(Op::Read).chain([Op::Write(0)]).collect();
    let mut other_ops = [Op::Write(0), Op::Write(0)];
    let mut committed = 0;
    let mut turns = 0;
    loop {
        let moved = long.step(&vars, &long_ops);
        match moved {
            Moved::Committed => return (turns + 1, committed),
            Moved::Restarted => turns += 1,
            Moved::On | Moved::Waits => {}
        }
        if turns == ENOUGH {
            return (ENOUGH, committed);
        }
        if moved == Moved::Waits || (long.at > 1 && long.at < VARS && long.at.is_multiple_of(STRIDE)) {
            // One transaction of the other's, as far as it gets: something to be read, something read.
            if others == 0 && long.desk.is_irrevocable() {
                continue;
            }
            if other.at == 0 {
                other_ops = [Op::Write((long.at + VARS) / 2), Op::Write(long.at / 2)];
            }
            while other.step(&vars, &other_ops) == Moved::On {}
            if other.at == 0 && other.failures == 0 {
                committed += 1;
            }
        }
    }
}

/// §5: with `K` failed attempts and one more it is through.
#[test]
fn a_long_transaction_commits_in_k_attempts_and_one_more() {
    for (name, (attempts, _)) in
        [(DctlSf::NAME, attempts::<DctlSf>()), (DcotlSf::NAME, attempts::<DcotlSf>())]
    {
        assert_eq!(attempts, ATTEMPTS_MAX + 1, "{name}");
    }
}

/// At most as many as there are slots in use; here the other one draws his number first, if anybody does.
#[test]
fn a_long_transaction_makes_way_once_for_each_that_is_older() {
    let (attempts, _) = attempts::<TwoPlSf>();
    assert!(attempts <= 2, "{attempts} attempts");
}

/// Those that are irrevocable from the first go before all others, and there is no end of them.
#[test]
fn whoever_has_lost_to_irrevocable_ones_is_irrevocable_next() {
    let (attempts, committed) = attempts_beside::<TwoPlSf>(ATTEMPTS_MAX, 0);
    assert_eq!((attempts, committed), (ATTEMPTS_MAX + 1, ATTEMPTS_MAX));
    let (attempts, committed) = attempts_beside::<TwoPlSf>(u32::MAX, 0);
    assert_eq!((attempts, committed), (ENOUGH, ENOUGH - 1));
}

/// A test that cannot fail proves nothing: the same transaction starves where nothing is done about it.
#[test]
fn a_long_transaction_starves_under_the_others() {
    for (name, (attempts, committed)) in [
        (Dctl::NAME, attempts::<Dctl>()),
        (Dcotl::NAME, attempts::<Dcotl>()),
        (Tl2Gv4::NAME, attempts::<Tl2Gv4>()),
        (Tl2Gv5::NAME, attempts::<Tl2Gv5>()),
        (TinyStm::NAME, attempts::<TinyStm>()),
        (TicToc::NAME, attempts::<TicToc>()),
    ] {
        assert_eq!(attempts, ENOUGH, "{name}");
        assert!(committed >= ENOUGH, "{name}: {committed} of the other's");
    }
}
