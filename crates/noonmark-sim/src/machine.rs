//! The machines, and what an access costs on them. **All constants of the machines are in this file**; what messages cost is in [`network`](crate::network)
//! and, for each experiment, on its page.
//!
//! They were written down before any figure of the simulation was looked at, and none is moved to make a figure come
//! out. Each has its source:
//!
//! - *Transfers on the machine of Granularity* (8 Xeon E7 v4 of 24 cores, 2.2 GHz [Granularity §4]). Measured on a machine of
//!   the same family and shape, 8 sockets with three links each, by David, Guerraoui and Trigonakis (*Everything you
//!   always wanted to know about synchronization but were afraid to ask*, SOSP 2013, table 2), in cycles: a line
//!   that another core has modified, from the same socket 109, one hop away 289, two hops 400; the shared cache 44; memory
//!   355. At 2.2 GHz 109 cycles are 50 ns. Of the seven other sockets three are one hop away and four two: 352 cycles on
//!   average, 160 ns. (Others measured 40 to 42 ns within a smaller socket of the same generation.)
//! - *Transfers on the machine of SlowClocks* (one EPYC 7713 of 64 cores [SlowClocks §7]): the paper's own ceiling, fewer than 40
//!   million fetch-and-adds a second on one line from 4 threads up [SlowClocks §7.1]: a transfer takes 25 ns, whoever has
//!   the line.
//! - *What is in one's own cache*: 4 or 5 cycles to load; a locked instruction some 20. Private caches of 256 KiB and
//!   512 KiB, of lines of 64 bytes: vendors' figures for the two processors.
//! - *An instruction* takes a third of a nanosecond. Programs such as this one run some one to two instructions a cycle as
//!   long as they do not wait for memory; what they wait is charged by the line.
//! - *What there is to compute*: instructions, counted on the engine as it was then (docs/cost-of-a-transaction.md; of an operation that finds a
//!   row and reads it or gets it ready, 195 instructions; 95 to seal, validate and install), and shared out between looking
//!   up and the rest by its table of parts. (They are others by now, and these are not moved after them.)
//! - *What there is to compute in transactional memory*: the same, counted on the memory (docs/cost-of-a-memory-transaction.md). Of a lookup in
//!   a tree 11 instructions a level, of an update 42; what is left of a lookup, less the measuring program's, is 35 for the attempt. An
//!   update of a hash map that changes something takes some 330 more than one that finds nothing to do: a lock or two to take, write and
//!   let go of, and a node to make or to free. (Added with the memory's first experiments, before any of them was run.)
//! - *A turn of a spin* is one pause: some 10 cycles before Skylake, some 40 on Zen.
//! - *To wake* somebody takes as long as a line takes to get to him: the papers' systems spin on a word until it changes.
//!   What an operating system takes to run a thread that sleeps, some microseconds, is not modelled.
//!
//! What is not modelled: bandwidth; what a core does ahead of time while it waits for a line (each access waits for the one
//! before, which makes memory as dear as it can be); prefetching; hyperthreads; frequencies that change; pages.

use noonmark_core::Work;

/// Picoseconds of virtual time: 213 days fit.
pub type Picoseconds = u64;

/// A machine of cores with private caches, in sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name in reports.
    pub name: &'static str,
    /// How many sockets.
    pub sockets: u16,
    /// How many cores each of them has.
    pub cores_per_socket: u16,
    /// How many lines a core's own cache holds. A power of two.
    pub private_lines: u32,
    /// To load or store what is in one's own cache.
    pub hit_ps: Picoseconds,
    /// A locked instruction on what is in one's own cache.
    pub atomic_hit_ps: Picoseconds,
    /// To get a line from another core of the same socket, or from the cache that they share.
    pub near_ps: Picoseconds,
    /// To get a line from another socket.
    pub far_ps: Picoseconds,
    /// To get a line that nobody has from memory.
    pub memory_ps: Picoseconds,
    /// An instruction, of those that do not wait.
    pub instruction_ps: Picoseconds,
    /// A turn of a spin.
    pub pause_ps: Picoseconds,
}

impl Machine {
    /// That of [Granularity §4]: 8 sockets of 24 cores.
    pub const GRANULARITY: Machine = Machine {
        name: "8 sockets of 24 cores",
        sockets: 8,
        cores_per_socket: 24,
        private_lines: 4_096,
        hit_ps: 2_000,
        atomic_hit_ps: 9_000,
        near_ps: 50_000,
        far_ps: 160_000,
        memory_ps: 161_000,
        instruction_ps: 333,
        pause_ps: 4_500,
    };

    /// That of [SlowClocks §7]: one socket of 64 cores.
    pub const SLOW_CLOCKS: Machine = Machine {
        name: "one socket of 64 cores",
        sockets: 1,
        cores_per_socket: 64,
        private_lines: 8_192,
        hit_ps: 1_300,
        atomic_hit_ps: 6_000,
        near_ps: 25_000,
        far_ps: 25_000,
        memory_ps: 105_000,
        instruction_ps: 333,
        pause_ps: 12_000,
    };

    /// The same socket as if each of its 128 hardware threads were a core: [SlowClocks §7] goes up to so many.
    pub const SLOW_CLOCKS_THREADS: Machine =
        Machine { name: "one socket of 128 cores", cores_per_socket: 128, ..Machine::SLOW_CLOCKS };

    /// What it takes to compute this.
    pub fn work_ps(&self, work: Work) -> Picoseconds {
        let instructions = match work {
            Work::Attempt => 60,
            Work::Lookup => 60,
            Work::Operation => 135,
            Work::Commit => 95,
            Work::MemoryAttempt => 35,
            Work::MemoryRead => 11,
            Work::MemoryLoggedRead => 42,
            Work::MemoryWrite | Work::MemoryNode => 100,
        };
        instructions * self.instruction_ps
    }

    /// All its cores.
    pub fn cores(&self) -> usize {
        usize::from(self.sockets) * usize::from(self.cores_per_socket)
    }

    /// The socket of a core. Cores are numbered socket by socket, so that few workers share one.
    pub fn socket_of(&self, core: usize) -> u16 {
        (core / usize::from(self.cores_per_socket)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_are_those_of_the_papers() {
        assert_eq!(Machine::GRANULARITY.cores(), 192);
        assert_eq!(Machine::SLOW_CLOCKS.cores(), 64);
        assert_eq!(Machine::GRANULARITY.socket_of(23), 0);
        assert_eq!(Machine::GRANULARITY.socket_of(24), 1);
        assert_eq!(Machine::GRANULARITY.socket_of(191), 7);
        assert_eq!(Machine::SLOW_CLOCKS_THREADS.cores(), 128);
        for machine in [Machine::GRANULARITY, Machine::SLOW_CLOCKS, Machine::SLOW_CLOCKS_THREADS] {
            assert!(machine.private_lines.is_power_of_two());
            assert!(machine.sockets <= 8, "a line keeps a bit for each socket");
            assert!(machine.hit_ps < machine.atomic_hit_ps && machine.atomic_hit_ps < machine.near_ps);
            assert!(machine.near_ps <= machine.far_ps && machine.far_ps <= machine.memory_ps);
        }
    }
}
