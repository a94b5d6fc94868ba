//! Two functions that read a group's value: one tells its host what it touches, one does not. On
//! [`Threads`] both must compile to the same instructions; `scripts/host-costs-nothing` compares them.
//!
//! The touched one works its lines out at some cost (a search, a division, a check that may panic), so
//! that nothing but their not being worked out at all makes the two equal.

use noonmark_core::sync::{AtomicU64, Ordering, fence};
use noonmark_core::{Access, Host, Line, SlotId, Threads, Timestamp, VersionWord, Word};

/// A group of four words, and where it stands.
struct Group {
    space: u32,
    /// First lines of the chunks of its table.
    chunks: Vec<u64>,
    line_len_bytes: u64,
    offset_bytes: u64,
    word: VersionWord,
    value: [AtomicU64; 4],
}

impl Group {
    fn line(&self, nth: usize) -> Line {
        let chunk = self.chunks.binary_search(&self.offset_bytes).unwrap_or_else(|next| next - 1);
        Line {
            space: self.space,
            line: self.chunks[chunk] + self.offset_bytes / self.line_len_bytes + nth as u64,
        }
    }

    /// Copies the value, if it stays the same meanwhile.
    #[inline(always)]
    fn read<H: Host>(&self, host: &H, told: bool) -> Option<[u64; 4]> {
        if told {
            host.touch(|| self.line(0), Access::Read);
        }
        let first = self.word.load();
        if first.is_locked() {
            return None;
        }
        let mut copy = [0; 4];
        for (nth, (to, from)) in copy.iter_mut().zip(&self.value).enumerate() {
            if told {
                host.touch(|| self.line(nth), Access::Read);
            }
            *to = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if told {
            host.touch(|| self.line(0), Access::Read);
        }
        (self.word.load_after_fence() == first).then_some(copy)
    }
}

/// With a host that is told.
// SAFETY: the name is this example's own.
#[unsafe(no_mangle)]
#[inline(never)]
fn noonmark_read_told(group: &Group, host: &Threads) -> Option<[u64; 4]> {
    group.read(host, true)
}

/// With a host that is not told.
// SAFETY: the name is this example's own.
#[unsafe(no_mangle)]
#[inline(never)]
fn noonmark_read_untold(group: &Group, host: &Threads) -> Option<[u64; 4]> {
    group.read(host, false)
}

/// Not the same, to show that a difference is found.
// SAFETY: the name is this example's own.
#[unsafe(no_mangle)]
#[inline(never)]
fn noonmark_read_and_count(group: &Group, host: &Threads) -> Option<[u64; 4]> {
    group.chunks.get(group.offset_bytes as usize)?;
    group.read(host, false)
}

fn main() {
    let group = Group {
        space: 1,
        chunks: vec![0],
        line_len_bytes: 64,
        offset_bytes: 0,
        word: VersionWord::new(Word::version(Timestamp::new(1), SlotId::NOBODY, false)),
        value: [1, 2, 3, 4].map(AtomicU64::new),
    };
    let host = Threads::default();
    let (group, host) = std::hint::black_box((&group, &host));
    println!("{:?}", noonmark_read_told(group, host));
    println!("{:?}", noonmark_read_untold(group, host));
    println!("{:?}", noonmark_read_and_count(group, host));
}
