//! The program from outside: what it says, where it says it, and with which exit status.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("noonmark-cli-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn noonmark(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_noonmark")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The program failed with this status and one line, which names all of these.
fn complains(args: &[&str], status: i32, names: &[&str]) {
    let output = noonmark(args);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    assert!(said.starts_with("noonmark: ") && !said.contains("panicked"), "{args:?}: {said}");
    for name in names {
        assert!(said.contains(name), "{args:?}: {said} does not mention {name}");
    }
}

/// What a run adds is known only while it runs: new orders here, until there is no room for more.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_takes_all_memory_ends_with_one_line() {
    let run = "ulimit -v 400000; exec \"$0\" bench tpcc --protocol occ --threads 2 --seconds 600";
    let output = Command::new("sh")
        .args(["-c", run, env!("CARGO_BIN_EXE_noonmark")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("noonmark: out of memory"), "{said}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [
        &["--help"][..],
        &["bench", "--help"],
        &["bench", "stm", "--help"],
        &["check", "--help"],
        &["advise", "--help"],
    ] {
        let output = noonmark(args);
        assert!(output.status.success());
        assert!(out(&output).contains("Examples:") && err(&output).is_empty());
        assert!(!out(&output).contains('\x1b'));
    }
    assert!(out(&noonmark(&["--version"])).starts_with("noonmark "));
}

#[test]
fn wrong_options_are_status_2_and_one_line() {
    complains(&["brench"], 2, &["brench"]);
    complains(&["bench", "nonsense"], 2, &["nonsense", "ycsb"]);
    complains(&["bench", "ycsb", "--groups", "medium"], 2, &["medium", "coarse"]);
    complains(&["bench", "ycsb", "--threads", "0"], 2, &["0"]);
    complains(&["bench", "ycsb", "--threads", "two"], 2, &["two"]);
    complains(&["bench", "ycsb", "--seconds", "0"], 2, &["seconds"]);
    complains(&["bench", "ycsb", "--seconds", "NaN"], 2, &["seconds"]);
    complains(&["bench", "ycsb", "--theta", "2"], 2, &["theta"]);
    complains(&["bench", "ycsb", "--protocol", "magic"], 2, &["magic", "tictoc"]);
    complains(&["bench", "ycsb", "--warehouses", "2"], 2, &["--warehouses"]);
    complains(&["bench", "--rows", "2"], 2, &["--rows", "workload"]);
    complains(&["bench", "bank", "--history", "h"], 2, &["--history"]);
    complains(&["bench", "append", "--protocol", "occ,tictoc", "--history", "h"], 2, &["--history", "2"]);
    complains(&["bench", "ycsb", "--preset", "z"], 2, &["z", "granularity"]);
    complains(&["bench", "ycsb", "--preset", "e", "--index", "hash"], 2, &["ordered"]);
    complains(&["bench", "ycsb", "--updates", "commit-time"], 2, &["commit-time"]);
    complains(&["bench", "ycsb", "-p", "readproportion=2"], 2, &["readproportion"]);
    complains(&["bench", "stm", "--preset", "figure6"], 2, &["figure6", "sixteen-reads"]);
    complains(&["bench", "stm", "--control", "dctl,magic"], 2, &["magic", "2plsf"]);
    complains(&["bench", "stm", "--control", "tictoc"], 2, &["opaque"]);
    complains(&["bench", "stm", "--structure", "avl"], 2, &["avl", "ravl"]);
    complains(&["bench", "stm", "--updates", "101"], 2, &["101"]);
    complains(&["bench", "stm", "--keys", "1"], 2, &["keys"]);
    complains(&["bench", "stm", "--threads", "121"], 2, &["121"]);
    complains(&["bench", "stm", "--protocol", "occ"], 2, &["--protocol"]);
    complains(&["bench", "stm", "ycsb"], 2, &["ycsb"]);
    complains(&["check"], 2, &["FILE"]);
}

#[test]
fn protocols_are_mixed_where_there_are_tables_for_them() {
    let mixed = |workload: &'static str, protocol: &'static str| {
        ["bench", workload, "--protocol", protocol, "--threads", "2", "--transactions", "300"]
    };
    let output = noonmark(&mixed("scan", "tictoc+swiss"));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("tictoc+swiss"), "{}", out(&output));
    complains(&mixed("bank", "occ+tictoc"), 2, &["occ+tictoc", "one table"]);
    complains(&mixed("append", "occ+nonsense"), 2, &["nonsense", "wait-die"]);
}

#[test]
fn files_that_cannot_be_read_or_written_are_status_1_before_anything_runs() {
    let folder = Folder::new("files");
    let missing = folder.path("missing/file");
    complains(&["check", &missing], 1, &[&missing, "cannot read"]);
    complains(&["check", &folder.path("")], 1, &["directory"]);
    complains(&["bench", "ycsb", "-P", &missing], 1, &[&missing, "cannot read"]);
    let broken = folder.file("broken.properties", "recordcount=1\n=nonsense\n");
    complains(&["bench", "ycsb", "-P", &broken], 1, &["line 2"]);
    for option in ["--json", "--html", "--history"] {
        let args = ["bench", "append", "--protocol", "occ", "--threads", "1", option, &missing];
        complains(&args, 1, &[&missing, "cannot write"]);
    }
    let binary = folder.path("binary");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    complains(&["bench", "ycsb", "-P", &binary], 1, &[&binary]);
    complains(&["check", &binary], 1, &[&binary]);
}

#[test]
fn too_little_memory_is_status_1_and_one_line() {
    let rows = u64::MAX.to_string();
    for rows in ["1000000000000", &rows] {
        let args = ["bench", "ycsb", "--preset", "a", "--rows", rows, "--protocol", "occ", "--threads", "1"];
        complains(&args, 1, &["memory"]);
    }
    complains(&["bench", "stm", "--preset", "disjoint", "--keys", "1073741824"], 1, &["memory"]);
    // As long as a file can be, and empty.
    let folder = Folder::new("memory");
    let long = folder.file("long.jsonl", "");
    fs::File::options().write(true).open(&long).unwrap().set_len(1 << 42).unwrap();
    complains(&["check", &long], 1, &[&long, "memory"]);
}

#[test]
fn the_transactional_memory_is_measured_like_everything_else() {
    let folder = Folder::new("stm");
    let (json, html) = (folder.path("runs.json"), folder.path("runs.html"));
    for preset in ["disjoint", "ravl-alloc", "k-sweep", "hash", "trees", "maps", "sixteen-reads"] {
        let few = ["bench", "stm", "--preset", preset, "--keys", "400", "--transactions", "500"];
        let files = ["--threads", "1,2", "--json", &json, "--html", &html];
        let output = noonmark(&[&few[..], &files].concat());
        assert_eq!(output.status.code(), Some(0), "{preset}: {}", err(&output));
        let (table, progress) = (out(&output), err(&output));
        assert!(table.contains(&format!("stm, {preset}, ")) && table.contains("clock/s"), "{table}");
        assert!(!table.contains('\x1b') && !progress.contains(['\x1b', '\r', '█']), "{progress}");

        let runs: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let runs = runs.as_array().unwrap();
        assert_eq!(progress.lines().filter(|line| line.starts_with('[')).count(), runs.len());
        for run in runs {
            assert_eq!((&run["workload"], &run["preset"]), (&"stm".into(), &preset.into()));
            assert_eq!((&run["consistent"], &run["committed"]), (&true.into(), &500.into()), "{run}");
        }
        let one_thread = |protocol: &str| {
            let mine = |run: &&serde_json::Value| run["protocol"] == protocol && run["threads"] == 1;
            runs.iter().find(mine).unwrap_or_else(|| panic!("{preset}: no {protocol}"))
        };
        if preset == "disjoint" {
            assert_eq!(one_thread("DCTL")["clock_increments"], 0);
            assert_eq!(one_thread("DCOTL")["clock_increments"], 0);
            assert_eq!(one_thread("TL2-GV4")["clock_increments"], 500);
        }
        if preset == "maps" || preset == "hash" {
            assert!(table.contains("× plain") && one_thread("plain")["irrevocable"].is_null());
        }
        let page = fs::read_to_string(&html).unwrap();
        assert!(page.contains("<svg") && page.contains("</html>") && !page.contains("could not be drawn"));
    }
}

#[test]
fn a_bench_off_the_terminal_is_plain_and_leaves_what_it_was_asked_for() {
    let folder = Folder::new("bench");
    let (json, html) = (folder.path("runs.json"), folder.path("runs.html"));
    let args =
        ["bench", "bank", "--protocol", "mutex,occ", "--threads", "1,2", "--seconds", "0.05", "--rows", "50"];
    let output = noonmark(&[&args[..], &["--json", &json, "--html", &html, "--allocations"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let (table, progress) = (out(&output), err(&output));
    assert!(!table.contains('\x1b') && !progress.contains(['\x1b', '\r', '█']), "{progress}");
    assert!(
        table.contains("mutex") && table.contains("occ") && table.contains("held after 4 of 4 runs"),
        "{table}"
    );
    assert_eq!(progress.lines().filter(|line| line.starts_with('[')).count(), 4, "{progress}");

    let runs: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        assert_eq!(run["workload"], "bank");
        assert_eq!(run["consistent"], true);
        assert!(run["committed"].as_u64().unwrap() > 0 && run["aborts"].is_object());
        assert!(run["latency_us"]["p50"].as_f64().unwrap() <= run["latency_us"]["p999"].as_f64().unwrap());
        assert!(run["allocations_per_commit"].is_number());
    }
    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("<svg") && page.contains("</html>") && page.contains("Noonmark bench"));
}

#[test]
fn a_recorded_run_writes_a_history_that_the_check_accepts() {
    let folder = Folder::new("history");
    let history = folder.path("history.jsonl");
    let args = ["bench", "append", "--protocol", "tictoc", "--threads", "2", "--seconds", "0.05"];
    let output = noonmark(&[&args[..], &["--history", &history]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let output = noonmark(&["check", &history, "--session"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("verdict"));
}

#[test]
fn the_transactional_memory_writes_histories_with_aborted_attempts() {
    let folder = Folder::new("stm-history");
    let path = folder.path("history.jsonl");
    for (preset, control, structure) in [
        ("append", "dcotl-sf", "variables"),
        ("register", "tinystm", "variables"),
        ("append", "tictoc", "fixed"),
    ] {
        let args = ["bench", "stm", "--preset", preset, "--control", control, "--structure", structure];
        let more = ["--threads", "3", "--transactions", "3000", "--history", &path];
        let output = noonmark(&[&args[..], &more[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{preset} {control}: {}", err(&output));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.matches(r#""type":"ok""#).count() >= 3000);
        assert!(text.contains(r#""type":"fail""#), "{preset} {control}");
        let how = if control == "tictoc" { &[][..] } else { &["--opaque"] };
        let output = noonmark(&[&["check", &path][..], how].concat());
        assert_eq!(output.status.code(), Some(0), "{preset} {control}: {}", err(&output));
    }
}

#[test]
fn any_workload_writes_a_history_with_what_its_keys_are() {
    let folder = Folder::new("any-history");
    let history = folder.path("history.jsonl");
    for args in [
        &["bench", "bank", "--rows", "20", "--protocol", "occ"][..],
        &["bench", "counter", "--protocol", "tictoc", "--updates", "commit-time"],
        &["bench", "queue", "--rows", "10", "--protocol", "mutex"],
        &["bench", "ycsb", "--preset", "e", "--rows", "100", "--protocol", "two-phase"],
    ] {
        let more = ["--threads", "2", "--transactions", "500", "--history", &history];
        let output = noonmark(&[args, &more[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
        let output = noonmark(&["check", &history, "--session"]);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
        let keys = fs::read_to_string(format!("{history}.keys")).unwrap();
        assert!(keys.starts_with("0\t"), "{args:?}: {keys}");
        let output = noonmark(&["advise", &history, "--protocol", "occ,two-phase-no-wait", "--cores", "4"]);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
        assert!(out(&output).contains("Advice: "), "{args:?}: {}", out(&output));
    }
}

#[test]
fn advice_is_the_same_each_time_and_as_json_too() {
    let folder = Folder::new("advise");
    let json = folder.path("advice.json");
    let args = ["advise", "ycsb", "--rows", "200", "--transactions", "300", "--cores", "8", "--json", &json];
    let output = noonmark(&args);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).is_empty(), "{}", err(&output));
    let text = out(&output);
    assert_eq!(text.matches('★').count(), 1, "{text}");
    assert_eq!(out(&noonmark(&args)), text);
    let advice: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(advice["transactions"], 300);
    assert_eq!(advice["tables"][0]["table"], "usertable");
    assert!(advice["trials"].as_array().unwrap().iter().all(|trial| trial["per_s"].as_f64().unwrap() > 0.0));
    // A history of somebody else, whose keys are nothing but keys.
    let lists = folder.file("lists.jsonl", &history("[1,2]"));
    let output = noonmark(&["advise", &lists, "--protocol", "sundial"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("sundial") && out(&output).contains("keys"));
}

#[test]
fn advice_on_what_is_none_is_one_line() {
    let folder = Folder::new("advise-refused");
    let good = folder.file("good.jsonl", &history("[1,2]"));
    complains(&["advise", "nonsense"], 2, &["nonsense", "tpcc"]);
    complains(&["advise", &good, "--rows", "7"], 2, &["--rows"]);
    complains(&["advise", &good, "--protocol", "ooc"], 2, &["ooc"]);
    complains(&["advise", "bank", "--preset", "none"], 2, &["none"]);
    complains(&["advise", &good, "--json", &good], 2, &["overwrite"]);
    complains(&["advise", &folder.file("empty.jsonl", "")], 1, &["no transaction"]);
    complains(&["advise", &folder.file("broken.jsonl", "{")], 1, &["broken.jsonl", "line 1"]);
    let folder_name = folder.0.display().to_string();
    complains(&["advise", &folder_name], 1, &["directory"]);
    folder.file("good.jsonl.keys", "0\tt\t0 u64\t1\n");
    complains(&["advise", &good], 1, &["key 1"]);
    folder.file("good.jsonl.keys", "0 t.u64 1\n");
    complains(&["advise", &good], 1, &["good.jsonl.keys", "line 1"]);
    assert_eq!(fs::read_to_string(&good).unwrap(), history("[1,2]"));
}

/// Two processes that append to key 1 and read it, one operation map a line.
fn history(second_read: &str) -> String {
    [
        r#"{"index":0,"type":"invoke","process":0,"time":0,"f":"txn","value":[["append",1,1]]}"#,
        r#"{"index":1,"type":"ok","process":0,"time":1,"f":"txn","value":[["append",1,1]]}"#,
        r#"{"index":2,"type":"invoke","process":1,"time":2,"f":"txn","value":[["append",1,2],["r",1,null]]}"#,
        &format!(
            r#"{{"index":3,"type":"ok","process":1,"time":3,"f":"txn","value":[["append",1,2],["r",1,{second_read}]]}}"#
        ),
        r#"{"index":4,"type":"invoke","process":0,"time":4,"f":"txn","value":[["r",1,null]]}"#,
        r#"{"index":5,"type":"ok","process":0,"time":5,"f":"txn","value":[["r",1,[1,2]]]}"#,
    ]
    .join("\n")
}

#[test]
fn a_good_history_is_status_0_and_a_bad_one_1_with_the_reason() {
    let folder = Folder::new("check");
    let good = folder.file("good.jsonl", &history("[1,2]"));
    for args in [&["check", &good][..], &["check", &good, "--session"], &["check", &good, "--strict"]] {
        let output = noonmark(args);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).contains("serializable") && err(&output).is_empty());
    }
    // What an aborted attempt read is judged where it is asked for.
    let half = r#"{"index":6,"type":"invoke","process":0,"time":6,"f":"txn","value":[["r",1,null]]}
{"index":7,"type":"fail","process":0,"time":7,"f":"txn","value":[["r",1,[1]]]}"#;
    let half = folder.file("half.jsonl", &format!("{}\n{half}", history("[1,2]")));
    assert_eq!(noonmark(&["check", &half, "--strict"]).status.code(), Some(0));
    complains(&["check", &half, "--opaque"], 1, &[&half, "not opaque"]);
    let output = noonmark(&["check", &good, "--opaque"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("opaque"));
    // The second process does not see its own append, which the first one sees later.
    let bad = folder.file("bad.jsonl", &history("[1]"));
    complains(&["check", &bad], 1, &[&bad, "not serializable"]);
    let broken = folder.file("broken.jsonl", &history("[1,").replace("ok", "perhaps"));
    complains(&["check", &broken], 1, &[&broken, "line"]);
    complains(&["check", &folder.file("empty.jsonl", "")], 1, &["no transactions"]);
}

/// One command checks the histories of everything: its script takes the protocols from the engine's list, and names the controls itself.
#[test]
fn all_histories_are_of_every_protocol_and_control() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = fs::read_to_string(format!("{root}/scripts/check-histories")).unwrap();
    let line = |start: &str| script.lines().find(|line| line.starts_with(start)).unwrap();
    let listing = format!("{}\n{}\nprintf %s \"$protocols\"", line("list="), line("protocols="));
    let listed = Command::new("bash").current_dir(root).args(["-c", &listing]).output().unwrap();
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let listed = sorted(out(&listed).split(',').map(str::to_owned).collect());
    assert_eq!(listed, sorted(noonmark::Protocol::ALL.iter().map(ToString::to_string).collect()));
    let controls: Vec<&str> = line("controls=").trim_start_matches("controls=").split(',').collect();
    // The first has none, and what follows differs from one of these by a number.
    for control in &noonmark_workloads::stm::Contender::ALL[1..10] {
        let is_named = controls.iter().any(|name| name.eq_ignore_ascii_case(control.name()));
        assert!(is_named, "{control} is not in {controls:?}");
    }
}
