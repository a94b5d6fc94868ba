//! Whether what a run loads fits into memory: asked before, so that nobody waits for the system to kill it.

use crate::workload::RunError;

/// One clear error if so many bytes are not there to be had. Where the system does not say, all is well.
pub fn check(needed_bytes: u64) -> Result<(), RunError> {
    match available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => {
            Err(RunError::Memory { needed_bytes, available_bytes })
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

/// What a process can still take: the least of what the system and the control group leave, and what it has already,
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
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (one, other) => one.or(other),
    }
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
