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
use noonmark_core::{Access, Line};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
}

impl State {
    /// In memory only.
    fn untouched(line: Line) -> Self {
        State { line, moving_until_ps: 0, version: 0, owner: NOBODY, sockets: 0 }
    }
}

/// A place in a core's own cache.
#[derive(Clone, Copy)]
struct Copy {
    /// The number of the line's state, so that what is found here need not be looked for.
    number: u32,
    version: u32,
}

/// No state has this number.
const NOWHERE: u32 = u32::MAX;

/// All lines of a machine, and its cores' own caches.
pub struct Lines {
    machine: Machine,
    states: Vec<State>,
    /// The numbers of their states.
    numbers: HashMap<Line, u32, BuildHasherDefault<LineHasher>>,
    /// Core by core, [`Machine::private_lines`] each.
    caches: Vec<Copy>,
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
        let caches = vec![Copy { number: NOWHERE, version: 0 }; copies];
        let (states, numbers) = (Vec::new(), HashMap::default());
        Lines { machine, states, numbers, caches, counts: LineCounts::default() }
    }

    /// What they have seen since the counts were last taken.
    pub fn take_counts(&mut self) -> LineCounts {
        std::mem::take(&mut self.counts)
    }

    /// A core touches a line at this time: when it has done so.
    pub fn access(&mut self, core: usize, line: Line, access: Access, now_ps: Picoseconds) -> Picoseconds {
        let machine = &self.machine;
        let place = core * machine.private_lines as usize
            + (hash(line) >> 32) as usize % machine.private_lines as usize;
        let copy = &mut self.caches[place];
        let is_its_place = self.states.get(copy.number as usize).is_some_and(|state| state.line == line);
        if !is_its_place {
            let next = self.states.len() as u32;
            let number = *self.numbers.entry(line).or_insert(next);
            if number == next {
                self.states.push(State::untouched(line));
            }
            // What lay here is pushed out; of this line there is no copy yet.
            let version = self.states[number as usize].version.wrapping_sub(1);
            *copy = Copy { number, version };
        }
        let state = &mut self.states[copy.number as usize];
        let has_copy = copy.version == state.version;
        let owns = state.owner == core as u16;
        let writes = access != Access::Read;
        let hit_ps = if access == Access::ReadModifyWrite { machine.atomic_hit_ps } else { machine.hit_ps };
        let socket = 1 << machine.socket_of(core);
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
        if has_copy && (owns || !writes) {
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

/// Hashes lines without a seed. Nobody who could choose lines to collide has a reason to.
#[derive(Default)]
pub struct LineHasher {
    space: u32,
    hash: u64,
}

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a line is two numbers")
    }

    fn write_u32(&mut self, space: u32) {
        self.space = space;
    }

    fn write_u64(&mut self, line: u64) {
        self.hash = hash(Line { space: self.space, line });
    }
}
