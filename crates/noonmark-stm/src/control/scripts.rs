//! The four scenarios of §4 (Figure 1) as scripts: who does what, one step after another, and what each control answers.
//!
//! A script is a table. A row is a step of a transaction, named by its slot, and under each control stands the answer:
//!
//! ```text
//! .                it has begun, is written, has committed
//! 0, 7, ...        it was read
//! locked, newer    another's lock, or a value from after it began, which it met (and so its attempt ends, and is undone)
//! changed          something that it had read had changed when it was to commit (the same)
//! waits            it is to be asked again, which is done before the next step of the same transaction
//! -                its attempt has ended before, or is still under way and need not begin
//! ```
//!
//! and below the table what variables hold in the end, and what the clock shows. The starvation-free variants answer as those
//! without a fallback do, as long as nobody is irrevocable; both are run. Writers write their own number.
//!
//! In which orders these and other transactions can come at all, and that each of those is opaque, is tried by
//! [`super::plays`]; here is said what *happens* in the ones that the paper talks about, by its numbers.
//!
//! What it does not do: nothing comes between a copy and the look at its lock; no views, nobody called off.

use super::{Conflict, Control, Ending};
use crate::desk::{Common, Desk};
use crate::lines::Spot;
use crate::{Dcotl, DcotlSf, Dctl, DctlSf, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf};
use noonmark_core::sync::{AtomicU64, Ordering};
use noonmark_core::{Epochs, SlotId, Step, Threads};
use std::sync::Arc;

/// The variables, each with a lock of its own.
const NAMES: [&str; 2] = ["a", "b"];

struct Stage<C: Control> {
    locks: [C::Lock; 2],
    cells: [AtomicU64; 2],
    epochs: Epochs,
    /// By slot.
    desks: Vec<Desk<C>>,
    /// Whether an attempt is under way there.
    is_open: Vec<bool>,
    /// The step that was last told to wait.
    awaited: Vec<Option<String>>,
}

impl<C: Control> Stage<C> {
    fn new() -> Self {
        let common = Arc::new(Common::new(Threads::default(), 0));
        Stage {
            locks: Default::default(),
            cells: [AtomicU64::new(0), AtomicU64::new(0)],
            epochs: Epochs::new(1),
            desks: (0..4).map(|slot| Desk::new(SlotId::new(slot).unwrap(), common.clone())).collect(),
            is_open: vec![false; 4],
            awaited: vec![None; 4],
        }
    }

    fn answer(&mut self, step: &str) -> String {
        let slot = step[..1].parse::<usize>().expect("a slot");
        if let Some(awaited) = self.awaited[slot].take()
            && awaited != step
        {
            let answer = self.ask(&awaited);
            if !self.is_open[slot] || self.awaited[slot].is_some() {
                return answer;
            }
        }
        self.ask(step)
    }

    fn ask(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split_whitespace().collect();
        let slot: usize = words[0].parse().expect("a slot");
        let desk = &self.desks[slot];
        let var = words.get(2).map(|name| NAMES.iter().position(|known| known == name).expect("a variable"));
        if words[1] == "begins" && self.is_open[slot] {
            // Its attempt goes on.
            return "-".into();
        }
        let answer = match (words[1], var) {
            ("begins", None) => {
                if !matches!(C::may_begin(desk), Step::Ready(())) {
                    return "waits".into();
                }
                desk.begin(false, slot);
                C::begin(desk, false);
                self.is_open[slot] = true;
                return ".".into();
            }
            _ if !self.is_open[slot] => return "-".into(),
            ("reads", Some(var)) => {
                let load = || self.cells[var].load(Ordering::Relaxed);
                C::read(desk, Spot::of(&self.locks[var]), true, load).map(|value| value.to_string())
            }
            ("writes", Some(var)) => C::write(desk, Spot::of(&self.locks[var])).map(|()| {
                desk.store::<u64>(Spot::of(&self.locks[var]), &self.cells[var], slot as u64);
                ".".into()
            }),
            ("commits", None) => match C::validate(desk) {
                Ok(()) => {
                    self.end(slot, Ending::Commit);
                    Step::Ready(".".into())
                }
                Err(conflict) => Step::Abort(conflict),
            },
            _ => panic!("what is '{step}'?"),
        };
        match answer {
            Step::Ready(answer) => answer,
            Step::Busy(_) | Step::Wait(..) => {
                self.awaited[slot] = Some(step.into());
                "waits".into()
            }
            Step::Die(conflict) | Step::Abort(conflict) => {
                self.end(slot, Ending::Restart(conflict));
                match conflict {
                    Conflict::ReadLocked | Conflict::WriteLocked => "locked".into(),
                    Conflict::ReadNewer | Conflict::WriteNewer => "newer".into(),
                    Conflict::Changed => "changed".into(),
                }
            }
        }
    }

    fn end(&mut self, slot: usize, ending: Ending) {
        let desk = &self.desks[slot];
        if ending != Ending::Commit {
            desk.undo();
        }
        C::release(desk, ending, |_| ());
        desk.settle(ending == Ending::Commit, &self.epochs);
        self.is_open[slot] = false;
    }

    /// Of `a`, `b` and the clock.
    fn state(&self, of: &str) -> String {
        match NAMES.iter().position(|name| *name == of) {
            Some(var) => self.cells[var].load(Ordering::Relaxed).to_string(),
            None if of == "clock" => C::time(self.desks[0].shared()).to_string(),
            None => panic!("what is '{of}'?"),
        }
    }
}

/// Plays the script under the control of this column; what came of each row.
fn play<C: Control>(rows: &[Vec<&str>]) -> Vec<String> {
    let mut stage = Stage::<C>::new();
    rows.iter()
        .map(|row| if row[0].contains(' ') { stage.answer(row[0]) } else { stage.state(row[0]) })
        .collect()
}

/// Plays a script under every control, and compares.
fn script(name: &str, table: &str) {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut rows: Vec<Vec<&str>> = lines.map(|line| line.split('|').map(str::trim).collect()).collect();
    let head = rows.remove(0);
    assert_eq!(head, ["", "DCTL", "DCOTL", "TL2-GV4", "TL2-GV5", "TinySTM", "2PLSF", "TicToc"], "{name}");
    let columns: [(usize, &str, Vec<String>); 9] = [
        (1, Dctl::NAME, play::<Dctl>(&rows)),
        (1, DctlSf::NAME, play::<DctlSf>(&rows)),
        (2, Dcotl::NAME, play::<Dcotl>(&rows)),
        (2, DcotlSf::NAME, play::<DcotlSf>(&rows)),
        (3, Tl2Gv4::NAME, play::<Tl2Gv4>(&rows)),
        (4, Tl2Gv5::NAME, play::<Tl2Gv5>(&rows)),
        (5, TinyStm::NAME, play::<TinyStm>(&rows)),
        (6, TwoPlSf::NAME, play::<TwoPlSf>(&rows)),
        (7, TicToc::NAME, play::<TicToc>(&rows)),
    ];
    let mut wrong = String::new();
    for (column, control, answers) in columns {
        for (row, answer) in rows.iter().zip(answers) {
            if row[column] != answer {
                wrong += &format!("{control}: {}: {answer} instead of {}\n", row[0], row[column]);
            }
        }
    }
    assert!(wrong.is_empty(), "{name}\n{wrong}");
}

/// §4.1: one reads a and b, the other writes both.
#[test]
fn first_scenario() {
    script(
        "case 1: the reader is through before the writer comes to what it reads last",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 writes a | .       | .       | .       | .       | .       | waits   | .
         1 reads b  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 commits  | .       | .       | .       | .       | .       | .       | .
         2 writes a | .       | .       | .       | .       | .       | .       | .
         2 writes b | .       | .       | .       | .       | .       | .       | .
         2 commits  | .       | .       | .       | .       | .       | .       | .
         a          | 2       | 2       | 2       | 2       | 2       | 2       | 2
         b          | 2       | 2       | 2       | 2       | 2       | 2       | 2
         clock      | 1       | 1       | 2       | 1       | 2       | 2       | 1",
    );
    script(
        "case 3: the reader meets the writer's lock",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 writes b | .       | .       | .       | .       | .       | .       | .
         1 reads b  | locked  | locked  | locked  | locked  | locked  | waits   | locked
         2 writes a | .       | .       | .       | .       | .       | locked  | .
         2 commits  | .       | .       | .       | .       | .       | -       | .
         1 reads b  | -       | -       | -       | -       | -       | 0       | -
         1 commits  | -       | -       | -       | -       | -       | .       | -
         a          | 2       | 2       | 2       | 2       | 2       | 0       | 2
         b          | 2       | 2       | 2       | 2       | 2       | 0       | 2
         clock      | 2       | 2       | 2       | 1       | 2       | 3       | 1",
    );
    script(
        "between cases 3 and 6: the reader comes to b when the writer has committed both",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 writes a | .       | .       | .       | .       | .       | waits   | .
         2 writes b | .       | .       | .       | .       | .       | waits   | .
         2 commits  | .       | .       | .       | .       | .       | waits   | .
         1 reads b  | newer   | newer   | newer   | newer   | newer   | 0       | 2
         1 commits  | -       | -       | -       | -       | -       | .       | changed
         clock      | 2       | 2       | 2       | 2       | 2       | 2       | 1",
    );
    script(
        "case 6: the writer is through before the reader, which had begun, reads anything; and then it begins anew",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         2 writes a | .       | .       | .       | .       | .       | .       | .
         2 writes b | .       | .       | .       | .       | .       | .       | .
         2 commits  | .       | .       | .       | .       | .       | .       | .
         1 reads a  | newer   | newer   | newer   | newer   | 2       | 2       | 2
         1 reads b  | -       | -       | -       | -       | 2       | 2       | 2
         1 commits  | -       | -       | -       | -       | .       | .       | .
         1 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 2       | 2       | 2       | 2       | 2       | 2       | 2
         1 reads b  | 2       | 2       | 2       | 2       | 2       | 2       | 2
         1 commits  | .       | .       | .       | .       | .       | .       | .
         clock      | 2       | 2       | 2       | 2       | 2       | 1       | 1",
    );
}

/// §4.2: each writes one, and then reads what the other writes.
#[test]
fn second_scenario() {
    script(
        "case 7: one is through before the other reads what it has written",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 writes a | .       | .       | .       | .       | .       | .       | .
         1 reads b  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 commits  | .       | .       | .       | .       | .       | .       | .
         2 writes b | .       | .       | .       | .       | .       | .       | .
         2 reads a  | newer   | newer   | newer   | newer   | 1       | 1       | 1
         2 commits  | -       | -       | -       | -       | .       | .       | .
         a          | 1       | 1       | 1       | 1       | 1       | 1       | 1
         b          | 0       | 0       | 0       | 0       | 2       | 2       | 2
         clock      | 2       | 2       | 3       | 2       | 3       | 1       | 1",
    );
    script(
        "case 8: both have written; what the first to read has undone is as new as the clock, so that under DCTL neither gets through",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 writes a | .       | .       | .       | .       | .       | .       | .
         2 writes b | .       | .       | .       | .       | .       | .       | .
         1 reads b  | locked  | locked  | locked  | locked  | locked  | waits   | locked
         2 reads a  | newer   | newer   | newer   | newer   | 0       | locked  | 0
         2 commits  | -       | -       | -       | -       | .       | -       | .
         1 reads b  | -       | -       | -       | -       | -       | 0       | -
         1 commits  | -       | -       | -       | -       | -       | .       | -
         a          | 0       | 0       | 0       | 0       | 0       | 1       | 0
         b          | 0       | 0       | 0       | 0       | 2       | 0       | 2
         clock      | 2       | 2       | 3       | 2       | 2       | 3       | 1",
    );
}

/// §4.3: each reads one, and then writes what the other has read. Not both commit. (TL2-GV4 and TinySTM let the first commit without
/// looking at what it has read, as nobody has committed since it began.)
#[test]
fn third_scenario() {
    script(
        "case 13: one is through before the other reads",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 writes b | .       | .       | .       | .       | .       | .       | .
         1 commits  | .       | .       | .       | .       | .       | .       | .
         2 reads b  | newer   | newer   | newer   | newer   | 1       | 1       | 1
         2 writes a | -       | -       | -       | -       | .       | .       | .
         2 commits  | -       | -       | -       | -       | .       | .       | .
         a          | 0       | 0       | 0       | 0       | 2       | 2       | 2
         b          | 1       | 1       | 1       | 1       | 1       | 1       | 1
         clock      | 2       | 2       | 2       | 2       | 3       | 1       | 1",
    );
    script(
        "write skew: both have read before either writes",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 reads b  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 writes b | .       | .       | .       | .       | .       | waits   | .
         2 writes a | .       | .       | .       | .       | .       | locked  | .
         1 writes b | .       | .       | .       | .       | .       | .       | .
         1 commits  | changed | changed | .       | changed | .       | .       | changed
         2 commits  | changed | changed | changed | changed | changed | -       | changed
         a          | 0       | 0       | 0       | 0       | 0       | 0       | 0
         b          | 0       | 0       | 1       | 0       | 1       | 1       | 0
         clock      | 2       | 2       | 4       | 2       | 3       | 3       | 1",
    );
}

/// What one has read is valid for as long as he says that it was: who writes it afterwards comes later. (Under TicToc, where times are told
/// by that; here those of b are ahead of those of a.)
#[test]
fn what_was_read_by_one_who_committed_is_written_later() {
    script(
        "write skew: one is through before the other writes, whose own read is still valid at the time at which a was written",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         3 begins   | .       | .       | .       | .       | .       | .       | .
         3 writes b | .       | .       | .       | .       | .       | .       | .
         3 commits  | .       | .       | .       | .       | .       | .       | .
         3 begins   | .       | .       | .       | .       | .       | .       | .
         3 writes b | .       | .       | .       | newer   | .       | .       | .
         3 commits  | .       | .       | .       | -       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         2 reads b  | newer   | newer   | 3       | 3       | 3       | 3       | 3
         1 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 writes b | .       | .       | .       | .       | .       | waits   | .
         1 commits  | .       | .       | .       | .       | .       | waits   | .
         2 writes a | -       | -       | .       | .       | .       | locked  | .
         2 commits  | -       | -       | changed | changed | changed | -       | changed
         a          | 0       | 0       | 0       | 0       | 0       | 0       | 0
         b          | 1       | 1       | 1       | 1       | 1       | 3       | 1
         clock      | 2       | 2       | 6       | 3       | 5       | 3       | 1",
    );
}

/// One sleeps until a changes, another undoes what he has written there: then a third commits, and the first is told. (TicToc lets nobody
/// sleep.)
#[test]
fn who_sleeps_hears_of_a_commit_that_follows_an_undoing() {
    fn told<C: Control>() {
        let mut stage = Stage::<C>::new();
        for step in ["1 begins", "1 reads a"] {
            stage.answer(step);
        }
        let sleeper = &stage.desks[1];
        C::release(sleeper, Ending::Cancel, |_| ());
        let read = sleeper.reads.iter().next().expect("it has read");
        assert!(C::watch(sleeper, read), "{}: nothing has changed", C::NAME);
        let awaited = C::awaited(read.entry);
        let mut woken = Vec::new();
        // (What is undone may be newer than the next one likes, who then begins anew.)
        for (step, ending) in [(2, Ending::Cancel), (3, Ending::Commit), (3, Ending::Commit)] {
            let desk = &stage.desks[step];
            desk.begin(false, step);
            C::begin(desk, false);
            let ending = match C::write(desk, Spot::of(&stage.locks[0])) {
                Step::Ready(()) => {
                    desk.store::<u64>(Spot::of(&stage.locks[0]), &stage.cells[0], step as u64);
                    ending
                }
                Step::Die(conflict) | Step::Abort(conflict) => Ending::Restart(conflict),
                Step::Busy(_) | Step::Wait(..) => panic!("{}: nobody is in the way", C::NAME),
            };
            if ending == Ending::Commit {
                C::validate(desk).expect("it has read nothing");
            } else {
                desk.undo();
            }
            C::release(desk, ending, |on| woken.push(on));
            desk.settle(ending == Ending::Commit, &stage.epochs);
        }
        assert_eq!(stage.state("a"), "3", "{}", C::NAME);
        assert!(woken.contains(&awaited), "{}: it sleeps on", C::NAME);
    }
    told::<Dctl>();
    told::<DctlSf>();
    told::<Dcotl>();
    told::<DcotlSf>();
    told::<Tl2Gv4>();
    told::<Tl2Gv5>();
    told::<TinyStm>();
    told::<TwoPlSf>();
}

/// §4.4: both read only. Under a deferred clock what was just written restarts them once, and advances the clock.
#[test]
fn fourth_scenario() {
    script(
        "nothing has been written at the clock's time: both commit, and nobody advances it",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 reads b  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 reads b  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         2 reads a  | 0       | 0       | 0       | 0       | 0       | 0       | 0
         1 commits  | .       | .       | .       | .       | .       | .       | .
         2 commits  | .       | .       | .       | .       | .       | .       | .
         clock      | 1       | 1       | 1       | 1       | 1       | 1       | 1",
    );
    script(
        "both have been written at the clock's time, before they began: both restart, and one of them advances it",
        "           | DCTL    | DCOTL   | TL2-GV4 | TL2-GV5 | TinySTM | 2PLSF   | TicToc
         3 begins   | .       | .       | .       | .       | .       | .       | .
         3 writes a | .       | .       | .       | .       | .       | .       | .
         3 writes b | .       | .       | .       | .       | .       | .       | .
         3 commits  | .       | .       | .       | .       | .       | .       | .
         1 begins   | .       | .       | .       | .       | .       | .       | .
         2 begins   | .       | .       | .       | .       | .       | .       | .
         1 reads a  | newer   | newer   | 3       | newer   | 3       | 3       | 3
         2 reads b  | newer   | newer   | 3       | newer   | 3       | 3       | 3
         1 begins   | .       | .       | -       | .       | -       | -       | -
         1 reads a  | 3       | 3       | 3       | 3       | 3       | 3       | 3
         1 reads b  | 3       | 3       | 3       | 3       | 3       | 3       | 3
         1 commits  | .       | .       | .       | .       | .       | .       | .
         clock      | 2       | 2       | 2       | 2       | 2       | 1       | 1",
    );
}
