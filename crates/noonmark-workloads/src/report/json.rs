//! The JSON file: an array, one object a run.

use super::RunReport;
use std::io;

/// The runs as a JSON array, indented, with a newline at the end.
///
/// Figures that are not finite become `null`: JSON has no other word for them.
pub fn to_json(runs: &[RunReport]) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(runs).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Latency;

    #[test]
    fn what_is_written_reads_back_and_has_the_names_that_scripts_rely_on() {
        let run = RunReport {
            workload: "ycsb".into(),
            preset: "granularity".into(),
            protocol: "tictoc".into(),
            groups: "fine".into(),
            threads: 2,
            seconds: 1.5,
            committed: 30,
            committed_per_s: 20.0,
            aborts: [("tictoc: validate".to_string(), 3)].into(),
            retries_per_commit: 0.1,
            latency_us: Latency { p50: 1.0, p99: 2.0, p999: 3.0, max: 4.0 },
            consistent: Some(true),
            ..RunReport::default()
        };
        let text = to_json(std::slice::from_ref(&run)).unwrap();
        assert_eq!(serde_json::from_str::<Vec<RunReport>>(&text).unwrap(), [run]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let object = value[0].as_object().unwrap();
        for name in [
            "workload",
            "preset",
            "protocol",
            "groups",
            "threads",
            "seconds",
            "committed",
            "committed_per_s",
            "aborts",
            "retries_per_commit",
            "latency_us",
            "consistent",
        ] {
            assert!(object.contains_key(name), "{name}");
        }
        assert_eq!(object["aborts"]["tictoc: validate"], 3);
        for name in ["p50", "p99", "p999"] {
            assert!(object["latency_us"].get(name).is_some(), "{name}");
        }
    }
}
