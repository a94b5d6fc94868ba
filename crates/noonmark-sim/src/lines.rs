//! Cache lines: who has them, and what it costs to get at them.
//!
//! A line is *nobody's* (in memory only), *shared* (any number of cores have read it since it was written last), or
//! *owned*: one core has written it, and nobody has read it since. To read, a core needs a copy; to write, or to read,
//! modify and write, it must own the line, and all other copies go. What it has not got it must get: from the owner, from
//! whoever shares it, or from memory; from the same socket, or from another.
//!
//! **A line is moved by one at a time**: a transfer begins when the one before it has ended. So a line that all want
//! goes round, one transfer after another, and those who want it queue. Reads of a line that is shared do not queue
//! behind each other, as each copies it from a cache that has it.
//!
//! A core's own cache is direct-mapped: a line that it gets pushes out the one that lay in its place. So a core that
//! roams through more rows than fit finds few of them again. What is pushed out is still found in the socket, as the
//! shared cache is taken to be large enough.
//!
//! What it does not do: it knows no time but that which it is told, and nobody's waiting but for lines.

use crate::machine::{Machine, Picoseconds};
use noonmark_core::{Access, Line, prefetch};

/// What the lines have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Accesses to what was in the core's own cache.
    pub hits: u64,
    /// Lines that came from within the socket.
    pub near: u64,
    /// Lines that came from another socket.
    pub far: u64,
    /// Lines that came from memory.
    pub memory: u64,
    /// Time that cores spent in line for a line, before its transfer to them began.
    pub queued_ps: Picoseconds,
}

/// A core that no line is owned by.
const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct State {
    line: Line,
    /// Until when it is being moved.
    moving_until_ps: Picoseconds,
    /// How often its owner has changed, or its sharing begun: who has a copy of another version has none.
    version: u32,
    /// Who has written it, and alone has it. **Invariant**: [`NOBODY`] while it is shared.
    owner: u16,
    /// The sockets in which somebody has it, or had it since it was written.
    sockets: u8,
    /// Whether a worker may wait for it to be written ([`Lines::watch`]).
    is_watched: bool,
}

/// Where there is no state.
const NO_LINE: Line = Line { space: u32::MAX, line: u64::MAX };

impl State {
    /// In memory only.
    fn untouched(line: Line) -> Self {
        State { line, moving_until_ps: 0, version: 0, owner: NOBODY, sockets: 0, is_watched: false }
    }
}

/// A place in a core's own cache.
#[derive(Clone, Copy)]
struct Copy {
    /// Where the line's state is, so that what is found here need not be looked for.
    at: u32,
    version: u32,
}

/// No state is there.
const NOWHERE: u32 = u32::MAX;

/// Room for so many states at first.
const STATES_MIN: usize = 1 << 10;

/// All lines of a machine, and its cores' own caches.
pub struct Lines {
    machine: Machine,
    /// By hash: each in the first free place from its own on, so that what may be read is known ahead. A power of two, of which at most two thirds
    /// are of lines.
    states: Vec<State>,
    /// How many are of lines.
    known: usize,
    /// Core by core, [`Machine::private_lines`] each.
    caches: Vec<Copy>,
    /// Of each core, the bit of its socket.
    sockets: Vec<u8>,
    /// Of each worker, where the state is of the line that he watches, if he does.
    watched: Vec<u32>,
    /// Workers whose lines have been written, and who have not been told.
    to_call: Vec<usize>,
    counts: LineCounts,
}

/// Where a line comes from.
enum From {
    Near,
    Far,
    Memory,
}

impl Lines {
    /// Of a machine with so many cores in use, whose caches are empty.
    pub fn new(machine: Machine, cores: usize) -> Self {
        let copies = cores * machine.private_lines as usize;
        let caches = vec![Copy { at: NOWHERE, version: 0 }; copies];
        let states = vec![State::untouched(NO_LINE); STATES_MIN];
        let sockets = (0..cores).map(|core| 1 << machine.socket_of(core)).collect();
        Lines {
            machine,
            states,
            known: 0,
            caches,
            sockets,
            watched: vec![NOWHERE; cores],
            to_call: Vec::new(),
            counts: LineCounts::default(),
        }
    }

    /// Nobody watches any line.
    pub fn forget_watches(&mut self) {
        self.watched.fill(NOWHERE);
        self.to_call.clear();
    }

    /// A worker will look at a line again and again, from this core, until it has been written: what it takes each time. `None`: the core has not
    /// got it, so that each look is a transfer.
    pub fn watch(&mut self, worker: usize, core: usize, line: Line) -> Option<Picoseconds> {
        let copy = self.caches[self.place(core, line)];
        let state = self.states.get_mut(copy.at as usize)?;
        if state.line != line || copy.version != state.version {
            return None;
        }
        state.is_watched = true;
        self.watched[worker] = copy.at;
        Some(self.machine.hit_ps)
    }

    /// A worker has stopped watching, having found what he looked at in his core's own cache so often.
    pub fn stop_watching(&mut self, worker: usize, hits: u64) {
        self.watched[worker] = NOWHERE;
        self.counts.hits += hits;
    }

    /// A worker whose line has been written.
    #[inline]
    pub fn next_to_call(&mut self) -> Option<usize> {
        self.to_call.pop()
    }

    /// What they have seen since the counts were last taken.
    pub fn take_counts(&mut self) -> LineCounts {
        std::mem::take(&mut self.counts)
    }

    /// A core will touch a line soon: what is known of it is asked for.
    pub fn foresee(&self, core: usize, line: Line) {
        prefetch(std::ptr::from_ref(&self.caches[self.place(core, line)]).cast());
        prefetch(std::ptr::from_ref(&self.states[self.home(line)]).cast());
    }

    /// Where a line has its place in a core's own cache.
    fn place(&self, core: usize, line: Line) -> usize {
        let lines = self.machine.private_lines as usize;
        core * lines + ((hash(line) >> 32) as usize & (lines - 1))
    }

    /// From where on a line's state is looked for.
    fn home(&self, line: Line) -> usize {
        hash(line) as usize & (self.states.len() - 1)
    }

    /// Where the state of a line is, or, if it has none, is to be.
    fn find(&self, line: Line) -> usize {
        let mask = self.states.len() - 1;
        let mut at = self.home(line);
        while self.states[at].line != line && self.states[at].line != NO_LINE {
            at = (at + 1) & mask;
        }
        at
    }

    /// The state of a line, which has one from here on.
    fn state_of(&mut self, line: Line) -> usize {
        let mut at = self.find(line);
        if self.states[at].line == NO_LINE {
            if 3 * (self.known + 1) > 2 * self.states.len() {
                self.grow();
                at = self.find(line);
            }
            self.states[at] = State::untouched(line);
            self.known += 1;
        }
        at
    }

    fn grow(&mut self) {
        let larger = vec![State::untouched(NO_LINE); 2 * self.states.len()];
        let before = std::mem::replace(&mut self.states, larger);
        for state in before.iter().filter(|state| state.line != NO_LINE) {
            let at = self.find(state.line);
            self.states[at] = *state;
        }
        for place in 0..self.caches.len() {
            if let Some(state) = before.get(self.caches[place].at as usize) {
                self.caches[place].at = self.find(state.line) as u32;
            }
        }
        for worker in 0..self.watched.len() {
            if let Some(state) = before.get(self.watched[worker] as usize) {
                self.watched[worker] = self.find(state.line) as u32;
            }
        }
    }

    /// A core touches a line at this time: when it has done so.
    #[inline]
    pub fn access(&mut self, core: usize, line: Line, access: Access, now_ps: Picoseconds) -> Picoseconds {
        let place = self.place(core, line);
        let copy = self.caches[place];
        if let Some(state) = self.states.get(copy.at as usize)
            && state.line == line
            && copy.version == state.version
            && access != Access::Allocate
            && (access == Access::Read || state.owner == core as u16)
        {
            self.counts.hits += 1;
            return now_ps + self.hit_ps(access);
        }
        self.fetch(core, line, access, place, now_ps)
    }

    fn hit_ps(&self, access: Access) -> Picoseconds {
        if access == Access::ReadModifyWrite { self.machine.atomic_hit_ps } else { self.machine.hit_ps }
    }

    /// The same, of a line that the core has not got, or not for that; its place in the core's own cache is this.
    #[inline(never)]
    fn fetch(
        &mut self,
        core: usize,
        line: Line,
        access: Access,
        place: usize,
        now_ps: Picoseconds,
    ) -> Picoseconds {
        let is_its_place =
            self.states.get(self.caches[place].at as usize).is_some_and(|state| state.line == line);
        if !is_its_place {
            let at = self.state_of(line);
            // What lay here is pushed out; of this line there is no copy yet.
            let version = self.states[at].version.wrapping_sub(1);
            self.caches[place] = Copy { at: at as u32, version };
        }
        let hit_ps = self.hit_ps(access);
        let machine = &self.machine;
        let copy = &mut self.caches[place];
        let state = &mut self.states[copy.at as usize];
        let owns = state.owner == core as u16;
        let writes = access != Access::Read;
        let socket = self.sockets[core];
        if writes && std::mem::take(&mut state.is_watched) {
            for (worker, watched) in self.watched.iter_mut().enumerate() {
                if *watched == copy.at {
                    *watched = NOWHERE;
                    self.to_call.push(worker);
                }
            }
        }
        if access == Access::Allocate {
            // New memory, from one's own allocator: nobody else has had it since.
            *state = State {
                owner: core as u16,
                version: state.version.wrapping_add(1),
                sockets: socket,
                ..*state
            };
            copy.version = state.version;
            self.counts.hits += 1;
            return now_ps + hit_ps;
        }
        let begin_ps = now_ps.max(state.moving_until_ps);
        self.counts.queued_ps += begin_ps - now_ps;
        let from = match state.sockets {
            0 => From::Memory,
            // To write, all others' copies must go; to read, the nearest will do.
            sockets if writes && sockets & !socket != 0 => From::Far,
            sockets if sockets & socket != 0 => From::Near,
            _ => From::Far,
        };
        let transfer_ps = match from {
            From::Near => {
                self.counts.near += 1;
                machine.near_ps
            }
            From::Far => {
                self.counts.far += 1;
                machine.far_ps
            }
            From::Memory => {
                self.counts.memory += 1;
                machine.memory_ps
            }
        };
        let end_ps = begin_ps + transfer_ps;
        if writes {
            state.version = state.version.wrapping_add(1);
            state.owner = core as u16;
            state.sockets = socket;
            state.moving_until_ps = end_ps;
        } else {
            if state.owner != NOBODY && !owns {
                // The owner keeps a copy; from here on they share it.
                state.owner = NOBODY;
                state.moving_until_ps = end_ps;
            }
            state.sockets |= socket;
        }
        copy.version = state.version;
        end_ps
    }
}

/// Spreads a line's number over 64 bits; the same on every machine.
#[inline]
fn hash(line: Line) -> u64 {
    let mixed = line.line ^ u64::from(line.space).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When more lines are known than there was room for, who owns them is still known, and what a core has in its own cache.
    #[test]
    fn growing_forgets_nothing() {
        let machine = Machine::GRANULARITY;
        let mut lines = Lines::new(machine, 2);
        let line = |number| Line { space: 7, line: number };
        let many = 3 * STATES_MIN as u64;
        let few = 64;
        for number in 0..few {
            lines.access(0, line(number), Access::Write, 0);
        }
        lines.take_counts();
        for number in few..many {
            lines.access(1, line(number), Access::Write, 0);
        }
        assert_eq!(lines.take_counts().memory, many - few);
        for number in 0..few {
            lines.access(0, line(number), Access::Write, 0);
        }
        let again = lines.take_counts();
        assert!(again.hits > few / 2 && again.hits + again.near == few, "{again:?}");
        for number in 0..many {
            lines.access(0, line(number), Access::Read, 0);
        }
        let all = lines.take_counts();
        assert_eq!((all.memory, all.far, all.hits + all.near), (0, 0, many));
    }
}
