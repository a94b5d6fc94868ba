//! Schedules as lists of turns, and how such a list is made shorter.
//!
//! A run is noted as who took how many steps, in turn, and what happened in which turn; and a run can be told who is to take how many. What was noted, when told, is the same run
//! again, as far as it does not depend on how late it is. So a schedule in which a bug shows can be taken apart: turns are left out, or put off until the worker's
//! next one, or joined to the one before, as long as the bug still shows. Few are left, and can be read.

use std::fmt;
use std::str::FromStr;

/// Who goes on, and for how many steps: so often he touches what others can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The worker.
    pub worker: usize,
    /// How many steps: at least one.
    pub steps: u64,
}

/// Turns, one after the other. No two that follow each other are of one worker.
///
/// ```
/// use noonmark_sim::turns::Turns;
///
/// let turns: Turns = "0:14,1:60,0:3".parse()?;
/// assert_eq!((turns.as_slice().len(), turns.as_slice()[1].steps), (3, 60));
/// assert_eq!(turns.to_string(), "0:14,1:60,0:3");
/// assert!("0:14,1".parse::<Turns>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns(Vec<Turn>);

impl Turns {
    /// All of them.
    pub fn as_slice(&self) -> &[Turn] {
        &self.0
    }

    /// So many more steps of a worker.
    pub fn add(&mut self, worker: usize, steps: u64) {
        match self.0.last_mut() {
            Some(last) if last.worker == worker => last.steps = last.steps.saturating_add(steps),
            _ if steps == 0 => {}
            _ => self.0.push(Turn { worker, steps }),
        }
    }

    /// Where the turn of a worker is who goes on now, in this list or just behind it.
    pub fn place_of(&self, worker: usize) -> usize {
        match self.0.last() {
            Some(last) if last.worker == worker => self.0.len() - 1,
            _ => self.0.len(),
        }
    }

    /// The first turn of a worker from this place on.
    pub fn next_of(&self, worker: usize, from: usize) -> Option<usize> {
        let rest = self.0.get(from..)?;
        Some(from + rest.iter().position(|turn| turn.worker == worker)?)
    }

    /// Lists without these turns: their steps are left out; or are put off; or come before.
    fn without(&self, from: usize, count: usize) -> [Turns; 3] {
        let (before, rest) = self.0.split_at(from.min(self.0.len()));
        let (gone, after) = rest.split_at(count.min(rest.len()));
        let joined = |turns: &mut dyn Iterator<Item = Turn>| {
            let mut all = Turns::default();
            turns.for_each(|turn| all.add(turn.worker, turn.steps));
            all
        };
        let left_out = joined(&mut before.iter().chain(after).copied());
        let (mut earlier, mut later) = (before.to_vec(), after.to_vec());
        for turn in gone {
            if let Some(next) = later.iter_mut().find(|next| next.worker == turn.worker) {
                next.steps = next.steps.saturating_add(turn.steps);
            }
            if let Some(last) = earlier.iter_mut().rev().find(|last| last.worker == turn.worker) {
                last.steps = last.steps.saturating_add(turn.steps);
            }
        }
        let put_off = joined(&mut before.iter().chain(&later).copied());
        let brought_forward = joined(&mut earlier.iter().chain(after).copied());
        [left_out, put_off, brought_forward]
    }

    /// The shortest list that it could be made into of which `fails` still says that it does. Half of it is taken away at once where that
    /// goes, then a quarter, and so on to single turns: about as many runs as the square of what is left, and a few for each turn of the first.
    #[must_use]
    pub fn shrink(self, fails: impl Fn(&Turns) -> bool) -> Turns {
        let mut turns = self;
        let mut count = turns.0.len();
        while count > 0 {
            let (mut from, before) = (0, turns.0.len());
            while from < turns.0.len() {
                match turns.without(from, count).into_iter().find(&fails) {
                    Some(shorter) => turns = shorter,
                    None => from += count,
                }
            }
            if count > 1 || turns.0.len() == before {
                count /= 2;
            }
        }
        turns
    }
}

/// What happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The worker.
    pub worker: usize,
    /// In which turn, if that is his: otherwise on the way to his next one after it.
    pub turn: usize,
    /// In words.
    pub what: String,
}

/// A run as it was noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Who went on.
    pub turns: Turns,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl Noted {
    /// The turns, a line each, with what happened in them.
    pub fn story(&self) -> String {
        let turns = self.turns.as_slice();
        let mut happened = vec![Vec::new(); turns.len()];
        for Event { worker, turn, what } in &self.events {
            // What comes after all steps of his belongs to the last.
            let last = || turns.iter().rposition(|turn| turn.worker == *worker);
            if let Some(at) = self.turns.next_of(*worker, *turn).or_else(last) {
                // (Which is so of whatever is refused.)
                happened[at].push(what.trim_end_matches("; nothing was applied, retry is safe"));
            }
        }
        let line = |(Turn { worker, steps }, happened): (&Turn, Vec<&str>)| {
            let s = if *steps == 1 { "" } else { "s" };
            let line = format!("  worker {worker}, {steps} step{s}: {}", happened.join("; "));
            line.trim_end_matches([' ', ':']).to_owned() + "\n"
        };
        turns.iter().zip(happened).map(line).collect()
    }
}

/// As in `0:14,1:60`; or `none`.
impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, Turn { worker, steps }) in self.0.iter().enumerate() {
            write!(f, "{}{worker}:{steps}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Turns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut turns = Turns::default();
        if text == "none" {
            return Ok(turns);
        }
        for turn in text.split(',') {
            let parts = turn.split_once(':');
            let numbers = parts.and_then(|(worker, steps)| Some((worker.parse().ok()?, steps.parse().ok()?)));
            match numbers {
                Some((worker, steps)) if steps > 0 => turns.add(worker, steps),
                _ => return Err(format!("must be workers and their steps, as in 0:14,1:60, not {turn:?}")),
            }
        }
        Ok(turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(text: &str) -> Turns {
        text.parse().unwrap()
    }

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(turns("0:1,0:2,1:3").to_string(), "0:3,1:3");
        let mut noted = Turns::default();
        for worker in [2, 2, 0, 2] {
            noted.add(worker, 1);
        }
        assert_eq!(noted, turns("2:2,0:1,2:1"));
        assert_eq!((noted.place_of(2), noted.place_of(0)), (2, 3));
        assert_eq!((noted.next_of(2, 1), noted.next_of(0, 2), noted.next_of(0, 9)), (Some(2), None, None));
    }

    #[test]
    fn steps_are_left_out_put_off_or_brought_forward() {
        let without = turns("0:5,1:3,0:4,1:2").without(1, 1);
        assert_eq!(without, [turns("0:9,1:2"), turns("0:9,1:5"), turns("0:9,1:2")]);
        let without = turns("0:5,1:3,0:4,1:2").without(2, 1);
        assert_eq!(without, [turns("0:5,1:5"), turns("0:5,1:5"), turns("0:9,1:5")]);
        // What is wanted of the end is what there is.
        assert_eq!(turns("0:5,1:3").without(1, 7), [turns("0:5"), turns("0:5"), turns("0:5")]);
    }

    #[test]
    fn what_does_not_matter_goes() {
        // Worker 1 takes his third step after the second and before the fourth of worker 0.
        let fails = |turns: &Turns| {
            let mut taken = [0_u64; 4];
            for turn in turns.as_slice() {
                for _ in 0..turn.steps {
                    taken[turn.worker] += 1;
                    if turn.worker == 1 && taken[1] == 3 {
                        return (2..4).contains(&taken[0]);
                    }
                }
            }
            false
        };
        let first = turns("3:9,0:1,2:4,1:1,0:1,3:1,1:1,2:1,1:2,0:8,2:2,3:3,1:1");
        assert!(fails(&first));
        assert_eq!(first.shrink(fails), turns("0:2,1:4"));
        assert_eq!(turns("0:1").shrink(|_| true), turns("none"));
        assert_eq!(turns("none").to_string(), "none");
    }

    #[test]
    fn what_happens_is_told_in_the_turn_in_which_it_does() {
        let event = |worker, turn, what: &str| Event { worker, turn, what: what.into() };
        let noted = Noted {
            turns: turns("0:2,1:1,0:3"),
            events: vec![
                event(0, 0, "a"),
                event(1, 0, "b"),
                event(0, 1, "c"),
                event(0, 3, "d"),
                event(2, 0, "e"),
            ],
        };
        assert_eq!(
            noted.story(),
            "  worker 0, 2 steps: a\n  worker 1, 1 step: b\n  worker 0, 3 steps: c; d\n"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0", "0:", ":1", "0:0", "0:1,", "a:1", "0:1;1:2"] {
            assert!(text.parse::<Turns>().is_err(), "{text}");
        }
    }
}
