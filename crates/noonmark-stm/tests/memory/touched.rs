//! What a host is told before it is touched: line by line, in which order, and the same in every run.
//!
//! The expectations are written out by hand from the rules (`src/control/`), one word for each report: what, which, and how.
//!
//! ```text
//! clock:r       the clock's line is read              #1:m      the line with the lock of the first object is changed in one step
//! ticket.0:w    the number that is drawn is written   #2.1:a    the second line of the second object is made
//! slot.0:r      what the first slot announces         #1=1:r    what the second word of the first object leads to
//! table.5:r     a line of the table of locks          #1+0:r    the first line of the links of the first object
//! ```
//!
//! Objects are numbered as they are first touched.

use crate::support::run::Run;
use noonmark_core::{Access, Label, Line, Numbered, Unlabelled};
use noonmark_stm::{
    Boxed, Control, Dcotl, DcotlSf, Dctl, DctlSf, Host, InTable, Interrupted, LINE_BYTES, Look, Memory,
    Opaque, Own, Place, Settings, Space, StarvationFree, Structure, TCell, TCounter, TFixed, THashMap, TMap,
    TOwned, TQueue, TRavlMap, TSkipMap, TVar, TZipMap, TicToc, TinyStm, Tl2Gv4, Tl2Gv5, TwoPlSf, World,
};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// What another does while one sleeps.
type Meanwhile = Box<dyn FnOnce()>;

thread_local! {
    static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
    static TOLD: RefCell<Vec<(Line, Access)>> = const { RefCell::new(Vec::new()) };
    static MEMORY: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// A host for one thread, where nobody waits but for what is done [meanwhile](MEANWHILE): writes down what it is told. Whether of objects, too, is up to the label.
struct Recorder<L>(AtomicU64, PhantomData<fn() -> L>);

impl<L: Label> Default for Recorder<L> {
    fn default() -> Self {
        Recorder(AtomicU64::new(1), PhantomData)
    }
}

impl<L: Label> Host for Recorder<L> {
    type Label = L;

    fn touch<T: Into<Option<Line>>>(&self, line: impl Fn() -> T, access: Access) {
        let line = line().into();
        TOLD.with_borrow_mut(|told| told.extend(line.map(|line| (line, access))));
    }
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn seed(&self) -> u64 {
        self.now_ns()
    }
    fn spin(&self, _: u32) {}
    fn block_on<T>(&self, _: Option<u64>, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        loop {
            if let Poll::Ready(value) = poll(Waker::noop()) {
                return Some(value);
            }
            let meanwhile = MEANWHILE.take().expect("somebody to wait for");
            meanwhile();
        }
    }
    fn sleep_ns(&self, _: u64) {}
    fn caller_hint(&self) -> usize {
        0
    }
}

/// A world whose memory is that of the recording under way on this thread.
struct Fresh<C, P = Own, L = Numbered>(PhantomData<(C, P, L)>);

// SAFETY: set before a recording begins, and kept to its end, when no variable is left: `recorded` sees to it.
unsafe impl<C: Opaque, P: Place, L: Label> World for Fresh<C, P, L> {
    type Control = C;
    type Host = Recorder<L>;
    type Place = P;

    fn memory() -> &'static Memory<Self> {
        // SAFETY: as above.
        unsafe { &*MEMORY.get().cast::<Memory<Self>>() }
    }
}

/// What is told of a transaction, in a memory of its own.
fn recorded<C: Opaque, P: Place, L: Label>(play: impl FnOnce()) -> Vec<(Line, Access)> {
    let settings = Settings::default().slots(2);
    let memory = Memory::<Fresh<C, P, L>>::new(settings, Recorder::default());
    let memory: *mut Memory<Fresh<C, P, L>> = Box::into_raw(Box::new(memory));
    MEMORY.set(memory.cast_const().cast());
    TOLD.take();
    play();
    // SAFETY: the variables were the play's.
    drop(unsafe { Box::from_raw(memory) });
    TOLD.take()
}

fn word((line, access): (Line, Access)) -> String {
    let access = match access {
        Access::Read => 'r',
        Access::Write => 'w',
        Access::ReadModifyWrite => 'm',
        Access::Allocate => 'a',
    };
    let (object, part) = (line.line >> 24, line.line & 0xff_ffff);
    let is = |space: Space| line.space == space as u32;
    match line.line {
        0 if is(Space::Clock) => format!("clock:{access}"),
        slot if is(Space::Announced) => format!("slot.{slot}:{access}"),
        number if is(Space::Ticket) => format!("ticket.{number}:{access}"),
        0 if is(Space::Readers) => format!("rows:{access}"),
        line if is(Space::Readers) => {
            format!("row.{}+{}:{access}", (line - 1) / ROW_LINES, (line - 1) % ROW_LINES)
        }
        number if is(Space::Table) => format!("table.{number}:{access}"),
        _ if is(Space::Object) && part == 0 => format!("#{object}:{access}"),
        _ if is(Space::Object) => format!("#{object}.{part}:{access}"),
        _ if is(Space::Links) => format!("#{object}+{part}:{access}"),
        _ if is(Space::Value) => format!("#{object}={part}:{access}"),
        _ => panic!("{line:?}"),
    }
}

fn told(record: Vec<(Line, Access)>) -> String {
    record.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// How many lines a row of the read indicator has.
const ROW_LINES: u64 = 2048;

type Var<T, C, P = Own, L = Numbered> = TVar<T, Fresh<C, P, L>>;

/// Reads one variable and writes another.
fn copy<C: Opaque>() -> String {
    told(recorded::<C, Own, Numbered>(|| {
        let (a, b) = (Var::<u64, C>::new_in(5), Var::<u64, C>::new_in(0));
        Fresh::<C>::atomically(|tx| b.set(tx, a.get(tx)? + 1));
    }))
}

#[test]
fn each_control_tells_of_its_clock_its_locks_and_the_values() {
    // The clock; the value and its lock; the other lock, looked at and taken, and the value; the lock of what was read once more; the
    // clock once more; and the lock let go of, by a store.
    assert_eq!(copy::<Dctl>(), "clock:r #1:r #1:r #2:r #2:m #2:w #1:r clock:r #2:w");
    assert_eq!(copy::<Dcotl>(), copy::<Dctl>());
    // Where somebody may set his bit meanwhile, the lock is let go of in one step.
    assert_eq!(copy::<DctlSf>(), "clock:r #1:r #1:r #2:r #2:m #2:w #1:r clock:r #2:m");
    assert_eq!(copy::<DcotlSf>(), copy::<DctlSf>());
    // The clock is advanced, and as nobody else did, nothing is validated.
    assert_eq!(copy::<Tl2Gv4>(), "clock:r #1:r #1:r #2:r #2:m #2:w clock:r clock:m #2:w");
    assert_eq!(copy::<Tl2Gv5>(), "clock:r #1:r #1:r #2:r #2:m #2:w clock:r #1:r #2:w");
    // A look before the copy, too.
    assert_eq!(copy::<TinyStm>(), "clock:r #1:r #1:r #1:r #2:r #2:m #2:w clock:m #2:w");
    // No clock. A row, as the slot has none; whether one has entered, entering, and the word; on which one is put on record; then
    // the value. Taking the word, on which nobody is on record; the value. Letting go of both; whether anybody waits for that; and whether one has
    // announced anything.
    let row = "rows:m row.0+0:r row.0+0:m #1:r #1:m #1:r";
    let ends = "#2:m row.0+0:w slot.0:m slot.0:r";
    assert_eq!(copy::<TwoPlSf>(), format!("{row} #2:r #2:m #2:w {ends}"));
}

/// One who is on record, as he has read before, or as one of many, changes nothing that others look at but his own row.
#[test]
fn under_2plsf_a_reader_writes_no_line_of_another_ones() {
    let record = recorded::<TwoPlSf, Own, Numbered>(|| {
        let a = Var::<u64, TwoPlSf>::new_in(5);
        let (mut first, mut second) = (Fresh::<TwoPlSf>::session(), Fresh::<TwoPlSf>::session());
        let look = |session: &mut noonmark_stm::Session<_>| _ = session.view(|tx| a.get(tx));
        look(&mut first);
        look(&mut second);
        TOLD.take();
        look(&mut first);
        look(&mut second);
        // He takes the word, and as both are on record, looks how many rows there are, and into the other one's.
        first.atomically(|tx| a.set(tx, 7));
        // Nobody is on record any more; and then he alone, and looks into no row.
        look(&mut first);
        first.atomically(|tx| a.set(tx, 8));
    });
    let look = |slot: u64| {
        format!("row.{slot}+0:r row.{slot}+0:m #1:r #1:r row.{slot}+0:w slot.{slot}:m slot.{slot}:r")
    };
    let registers = "row.0+0:r row.0+0:m #1:r #1:m #1:r row.0+0:w slot.0:m slot.0:r";
    let with_look = "#1:r #1:m rows:r row.1+0:r #1:w #1:m slot.0:r";
    let without = "#1:r #1:m rows:r #1:w #1:m slot.0:r";
    let expected = format!("{} {} {with_look} {registers} {without}", look(0), look(1));
    assert_eq!(told(record), expected);
}

#[test]
fn a_fixed_table_tells_of_its_places() {
    fn run<C: Control>() -> String {
        let host = Recorder::<Numbered>::default();
        let table: TFixed<u64, C, _> = TFixed::with(Settings::default().slots(2), host, [5, 0]);
        TOLD.take();
        assert_eq!(table.update([0, 1], |[a, _]| [a, a + 1]), Ok([5, 6]));
        told(TOLD.take())
    }
    // Each place: a look, the value, a look. Both are locked, and what changes is written. Then it is seen that the end of what was read must be
    // moved, and that one has it locked oneself; and they are let go of.
    let read = "#1:r #1:r #1:r #2:r #2:r #2:r";
    assert_eq!(run::<TicToc>(), format!("{read} #1:r #1:m #2:r #2:m #2:w #1:r #2:r #1:w #2:w"));
    let read = "clock:r #1:r #1:r #2:r #2:r";
    assert_eq!(run::<Dctl>(), format!("{read} #1:r #1:m #2:r #2:m #2:w #1:r #2:r clock:r #1:w #2:w"));
}

struct CalledOff;

impl From<Interrupted> for CalledOff {
    fn from(_: Interrupted) -> Self {
        CalledOff
    }
}

#[test]
fn what_is_called_off_is_put_back_and_let_go_of() {
    fn run<C: Opaque>() -> String {
        told(recorded::<C, Own, Numbered>(|| {
            let a = Var::<u64, C>::new_in(5);
            let called_off: Result<(), CalledOff> = Fresh::<C>::try_atomically(|tx| {
                a.set(tx, 6)?;
                // Nothing changes: nothing is written.
                a.set(tx, 6)?;
                Err(CalledOff)
            });
            assert!(called_off.is_err());
        }))
    }
    assert_eq!(run::<Dctl>(), "clock:r #1:r #1:m #1:w #1:r #1:w clock:r #1:w");
    assert_eq!(run::<TwoPlSf>(), "#1:r #1:m #1:w #1:r #1:w #1:m slot.0:r");
}

#[test]
fn who_meets_a_conflict_tells_of_what_it_takes() {
    let record = recorded::<Dctl, Own, Numbered>(|| {
        let (a, b) = (Var::<u64, Dctl>::new_in(5), Var::<u64, Dctl>::new_in(0));
        let (mut mine, mut other) = (Fresh::<Dctl>::session(), Fresh::<Dctl>::session());
        let mut attempts = 0;
        mine.atomically(|tx| {
            attempts += 1;
            a.get(tx)?;
            b.set(tx, attempts)?;
            if attempts == 1 {
                other.atomically(|tx| a.set(tx, 7));
            }
            Ok(())
        });
        assert_eq!(attempts, 2);
    });
    let attempt = "clock:r #1:r #1:r #2:r #2:m #2:w";
    let other = "clock:r #1:r #1:m #1:w clock:r #1:w";
    // What was read has changed: what was written is put back, the lock let go of, and the clock advanced.
    let undone = "#1:r #2:w clock:r #2:w clock:r clock:m";
    assert_eq!(told(record), format!("{attempt} {other} {undone} {attempt} #1:r clock:r #2:w"));
}

#[test]
fn who_waits_for_a_change_tells_of_his_mark() {
    let record = recorded::<Dctl, Own, Numbered>(|| {
        let var = Arc::new(Var::<u64, Dctl>::new_in(0));
        let same = var.clone();
        MEANWHILE.set(Some(Box::new(move || same.store(1))));
        Fresh::<Dctl>::atomically(|tx| if var.get(tx)? == 0 { tx.retry() } else { Ok(()) });
    });
    let marked = "clock:r #1:r #1:r #1:r #1:m";
    let other = "clock:r #1:r #1:m #1:w clock:r #1:w";
    // What it finds is as new as the clock, so it looks twice, and advances that.
    let too_new = "clock:r #1:r #1:r #1:r #1:r clock:r clock:m";
    assert_eq!(told(record), format!("{marked} {other} {too_new} clock:r #1:r #1:r"));
}

#[test]
fn an_irrevocable_transaction_tells_of_the_ticket_and_of_its_locks_for_reading() {
    fn run<C: Opaque + StarvationFree>() -> String {
        told(recorded::<C, Own, Numbered>(|| {
            let (a, b) = (Var::<u64, C>::new_in(5), Var::<u64, C>::new_in(0));
            Fresh::<C>::irrevocably(|tx| b.set(tx, a.get(tx)? + 1));
        }))
    }
    let begins = "ticket.0:m ticket.1:r";
    let ends = "ticket.1:w ticket.0:r";
    // What would be granted at once is not; then the lock is looked at, marked, and looked at again, and then the value.
    let read = "#1:r #1:r #1:r #1:m #1:r #1:r";
    // Likewise; and looked at and taken.
    let written = "#2:r #2:r #2:r #2:m #2:r #2:r #2:m #2:w";
    let expected = format!("{begins} {read} {written} clock:r #2:w #1:m #2:m {ends}");
    assert_eq!(run::<DcotlSf>(), expected);
    assert_eq!(run::<DctlSf>(), expected);
    let read = "slot.0:w rows:m row.0+0:r row.0+0:m #1:r #1:m #1:r";
    let lets_go = "#2:m row.0+0:w slot.0:m slot.0:r slot.0:m";
    assert_eq!(run::<TwoPlSf>(), format!("{begins} {read} #2:r #2:m #2:w {lets_go} {ends}"));
}

#[test]
fn a_long_value_lies_on_several_lines() {
    const WORDS: usize = 2 * LINE_BYTES / 8;
    let record = recorded::<Dctl, Own, Numbered>(|| {
        let long = Var::<[u64; WORDS], Dctl>::new_in([0; WORDS]);
        Fresh::<Dctl>::atomically(|tx| {
            let mut value = long.get(tx)?;
            // The first word lies behind the lock.
            value[6] = 1;
            value[7] = 1;
            long.set(tx, value)
        });
    });
    let read = "clock:r #1:r #1.1:r #1.2:r #1:r";
    assert_eq!(told(record), format!("{read} #1:r #1:m #1:w #1.1:w #1:r clock:r #1:w"));
}

#[test]
fn nodes_and_boxes_are_told_when_they_are_made() {
    let push = recorded::<Dctl, Own, Numbered>(|| {
        let queue = TQueue::<u64, Fresh<Dctl>>::new_in();
        Fresh::<Dctl>::atomically(|tx| queue.push(tx, 7));
    });
    // The last root; the node; the first root and the last one.
    let written = "#1:r #1:r #2:a #3:r #3:m #3:w #1:r #1:m #1:w";
    assert_eq!(told(push), format!("clock:r {written} #1:r clock:r #3:w #1:w"));

    let long = recorded::<Dctl, Own, Numbered>(|| {
        let queue = TQueue::<[u64; 8], Fresh<Dctl>>::new_in();
        Fresh::<Dctl>::atomically(|tx| queue.push(tx, [7; 8]));
    });
    assert!(told(long).starts_with("clock:r #1:r #1:r #2:a #2.1:a #3:r"), "a lock, ten words");

    let boxed = recorded::<Dctl, Own, Numbered>(|| {
        let name = TCell::<String, Fresh<Dctl>>::new_in("Ada".into());
        Fresh::<Dctl>::atomically(|tx| {
            assert_eq!(name.read(tx)?, "Ada");
            name.set(tx, "Grace".into())
        });
    });
    let read = "clock:r #1:r #1:r #1=1:r";
    assert_eq!(told(boxed), format!("{read} #1:r #1:m #1=1:a #1:w #1:r clock:r #1:w"));
}

/// It is the object that has the number, and not its place: whoever comes after it there has another one, and it keeps its own
/// elsewhere.
#[test]
fn a_number_is_an_objects_and_not_an_addresss() {
    let record = recorded::<Dctl, Own, Numbered>(|| {
        let look = |var: &Var<u64, Dctl>| _ = Fresh::<Dctl>::view(|tx| var.get(tx));
        let mut here = [Some(Var::new_in(1))];
        let address = std::ptr::from_ref(&here[0]);
        let first = here[0].as_ref().map(look);
        let moved = Box::new(here[0].take());
        here[0] = Some(Var::new_in(2));
        assert!(first.is_some() && std::ptr::eq(address, &here[0]));
        here.iter().flatten().for_each(look);
        moved.iter().for_each(look);
    });
    assert_eq!(told(record), "clock:r #1:r #1:r clock:r #2:r #2:r clock:r #1:r #1:r");
}

#[test]
fn a_host_whose_objects_carry_no_label_is_told_of_clocks_only() {
    let record = recorded::<Dctl, Own, Unlabelled>(|| {
        let a = Var::<u64, Dctl, Own, Unlabelled>::new_in(5);
        Fresh::<Dctl, Own, Unlabelled>::atomically(|tx| a.update(tx, |a| a + 1));
    });
    assert_eq!(told(record), "clock:r clock:r");
}

/// Some of everything, in maps of all kinds.
fn play<W: World>() {
    fn on<S>(map: TMap<S>, keys: u64)
    where
        S: Structure<Key = u64> + Look<u64>,
        S::Value: noonmark_stm::Value<Given = u64>,
    {
        for number in 0..4 * keys {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (keys - 1);
            S::World::run(&mut |tx| match number % 4 {
                0 => map.remove(tx, &key).map(|_| ()),
                _ => map.insert(tx, key, number).map(|_| ()),
            });
            S::World::look(&mut |tx| Ok(map.get(tx, &key)?.is_some()));
        }
    }
    on(TRavlMap::<u64, u64, W>::new_in(), 64);
    on(TZipMap::<u64, u64, W>::new_in(), 64);
    on(TSkipMap::<u64, u64, W>::new_in(), 64);
    // It doubles a few times.
    on(THashMap::<u64, Boxed<u64>, W>::new_in(), 256);
    let (count, owned) = (TCounter::<W>::new_in(), TOwned::<u64, W>::new_in(0));
    for number in 0..10 {
        W::atomically(|tx| {
            count.add(tx, 1)?;
            owned.set(tx, owned.get(tx)? + number)
        });
    }
    assert_eq!(count.load(), 10);
}

#[test]
fn a_run_that_is_repeated_tells_the_same() {
    fn run<C: Opaque, P: Place>(spaces: &mut HashSet<u32>) {
        let first = recorded::<C, P, Numbered>(play::<Fresh<C, P>>);
        // So that memory is given out in another order: what is freed here is found by whoever asks next.
        let mut kept: Vec<Box<[u64]>> = (0..3000).map(|size| vec![0; size % 20].into_boxed_slice()).collect();
        let mut number = 0;
        kept.retain(|_| {
            number += 1;
            number % 3 == 0
        });
        let second = recorded::<C, P, Numbered>(play::<Fresh<C, P>>);
        drop(kept);
        assert!(first.len() > 10_000, "{}", first.len());
        assert!(first == second, "{}: another record", C::NAME);
        spaces.extend(first.iter().map(|(line, _)| line.space));
    }
    fn of<C: Opaque>(spaces: &mut HashSet<u32>) {
        run::<C, Own>(spaces);
        run::<C, InTable>(spaces);
    }
    let spaces = &mut HashSet::new();
    of::<Dctl>(spaces);
    of::<Dcotl>(spaces);
    of::<DctlSf>(spaces);
    of::<DcotlSf>(spaces);
    of::<Tl2Gv4>(spaces);
    of::<Tl2Gv5>(spaces);
    of::<TinyStm>(spaces);
    of::<TwoPlSf>(spaces);
    let all = [
        Space::Clock,
        Space::Announced,
        Space::Table,
        Space::Object,
        Space::Links,
        Space::Value,
        Space::Readers,
    ];
    assert_eq!(*spaces, all.map(|space| space as u32).into(), "all but the ticket");
}
