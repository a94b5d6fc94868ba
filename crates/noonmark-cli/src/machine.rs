//! The machine and the moment, in words.
//!
//! Linux tells by files; elsewhere the figures that are not known are left out.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine as the page shows it.
pub fn description() -> Vec<(String, String)> {
    let mut machine = Vec::new();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if let Some(model) = field(&cpuinfo, "model name") {
        machine.push(("processor".into(), model.into()));
    }
    machine.push(("cores".into(), cores().to_string()));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let Some(bytes) = kib(&meminfo, "MemTotal") {
        machine.push(("memory".into(), gib(bytes)));
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name =
        release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|n| n.trim_matches('"'));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = match name {
        Some(name) => format!("{name}, {} {}", std::env::consts::OS, kernel.trim()),
        None => std::env::consts::OS.to_string(),
    };
    machine.push(("system".into(), format!("{}, {}", system.trim(), std::env::consts::ARCH)));
    machine.push(("noonmark".into(), env!("CARGO_PKG_VERSION").into()));
    machine
}

/// Bytes in words: `1.5 GiB`.
fn gib(bytes: u64) -> String {
    let gib = bytes as f64 / (1u64 << 30) as f64;
    if gib < 0.95 { format!("{:.0} MiB", gib * 1024.0) } else { format!("{gib:.1} GiB") }
}

/// The date and time now, in UTC to the minute.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds % 86_400 / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut rest) = (1970, days);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month, rest + 1)
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// The value of a `name: n kB` line, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let value = field(text, &format!("{name}:"))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_across_leap_years() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
        assert_eq!(civil(20_454), (2026, 1, 1));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(kib(text, "MemAvailable"), Some(8 << 20));
        assert_eq!(kib(text, "Swap"), None);
        assert_eq!(gib(8 << 20), "8 MiB");
        assert_eq!(gib(3 << 29), "1.5 GiB");
    }
}
