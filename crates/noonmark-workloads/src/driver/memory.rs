//! Whether what a run loads fits into memory: asked before, so that nobody waits for the system to kill it.

use crate::workload::{RunError, human_bytes};

/// One clear error if so many bytes are not there to be had. Where the system does not say, all is well.
pub fn check(needed_bytes: u64) -> Result<(), RunError> {
    match available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => {
            Err(RunError::Memory { needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

/// What a transaction of a recorded workload leaves in the history, about: some steps of some tens of bytes, and lists.
const HISTORY_BYTES: u64 = 500;

/// One clear error if there is no room for a history of so many transactions, which is kept in memory until the run is over.
pub fn check_history(transactions: u64) -> Result<(), RunError> {
    let needed_bytes = transactions.saturating_mul(HISTORY_BYTES);
    match available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let [needed, available] = [needed_bytes, available_bytes].map(human_bytes);
            let what = format!(
                "a history of {transactions} transactions needs about {needed} of memory, {available} are available: record fewer"
            );
            Err(RunError::Setting(what))
        }
        _ => Ok(()),
    }
}

/// What it takes at most to read a history and to look for its order, for each byte of its file: of scans most (measured: 4.1 to 8.9).
const CHECKING_BYTES: u64 = 9;
/// The same of an order in real time (4.5 to 14.6).
const CHECKING_IN_REAL_TIME_BYTES: u64 = 15;

/// One clear error if there is no room to check a history whose file is of so many bytes.
pub fn check_history_file(file_bytes: u64, in_real_time: bool) -> Result<(), RunError> {
    let each = if in_real_time { CHECKING_IN_REAL_TIME_BYTES } else { CHECKING_BYTES };
    let needed_bytes = file_bytes.saturating_mul(each);
    match available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let [file, needed, available] = [file_bytes, needed_bytes, available_bytes].map(human_bytes);
            let what = format!(
                "to check {file} of history may take {needed} of memory, {available} are available: check a shorter one"
            );
            Err(RunError::Setting(what))
        }
        _ => Ok(()),
    }
}

/// Touches so many bytes of memory, or a quarter of what is there to be had, and gives them back to the allocator.
///
/// For memory that a run takes while it is measured. What the system does when a page is first touched is no
/// part of any protocol, depends on what ran before, and may cost more than the transaction that touches it. An allocator
/// that gives memory back to the system at once undoes this; that of the program `noonmark` is told not to.
pub fn touch(bytes: u64) {
    const BLOCK_BYTES: usize = 1 << 20;
    let bytes = bytes.min(available_bytes().unwrap_or(0) / 4);
    let touched = || {
        let mut block = vec![0u8; BLOCK_BYTES];
        // One store a page.
        block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(block)
    };
    let blocks: Vec<_> = (0..bytes / BLOCK_BYTES as u64).map(|_| touched()).collect();
    drop(blocks);
}

/// What a process can still take: the least of what the system, the control group and the limit of its addresses leave, and what it has already,
/// which before a run is loaded is mostly what its allocator has kept of the run before.
pub fn available_bytes() -> Option<u64> {
    left_bytes().map(|left| left.saturating_add(resident_bytes().unwrap_or(0)))
}

/// What the process has.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes_of(&status, "VmRSS:")
}

fn left_bytes() -> Option<u64> {
    let system = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(meminfo_available);
    let read = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    let group = read("memory.max").and_then(|max| Some(max.saturating_sub(read("memory.current")?)));
    [system, group, addresses_left_bytes()].into_iter().flatten().min()
}

/// What is left of the addresses that a process may have (`ulimit -v`), if they are limited.
fn addresses_left_bytes() -> Option<u64> {
    let most = most_addresses(&std::fs::read_to_string("/proc/self/limits").ok()?)?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(most.saturating_sub(kibibytes_of(&status, "VmSize:")?))
}

fn most_addresses(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn meminfo_available(meminfo: &str) -> Option<u64> {
    kibibytes_of(meminfo, "MemAvailable:")
}

/// The bytes of a line with this name, which tells kibibytes.
fn kibibytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_leaves_is_read() {
        let meminfo = "MemTotal:       24689764 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(meminfo_available(meminfo), Some(1 << 20));
        assert_eq!(meminfo_available("MemTotal: 1 kB\n"), None);
        assert_eq!(meminfo_available("MemAvailable: much\n"), None);
        let limits =
            "Limit           Soft Limit  Hard Limit  Units\nMax address space  4096  unlimited  bytes\n";
        assert_eq!(most_addresses(limits), Some(4096));
        assert_eq!(most_addresses("Max address space  unlimited  unlimited  bytes\n"), None);
    }

    #[test]
    fn too_much_is_one_clear_error() {
        if available_bytes().is_some() {
            let error = check(u64::MAX).unwrap_err().to_string();
            assert!(error.starts_with("loading needs about"), "{error}");
        }
        assert!(check(0).is_ok());
    }
}
