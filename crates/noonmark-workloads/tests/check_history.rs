//! The format: what is written is read again, and what is no history gets one clear error.

mod check_support;

use std::borrow::Cow;

use check_support::{Numbers, PLAIN, STRICT, Steps, history, operations, serial_run};
use noonmark_workloads::check::check;
use noonmark_workloads::history::{
    History, HistoryError, HistoryReader, HistoryWriter, Key, MicroOp, Model, Operation, OperationKind,
    Outcome, Process, Recorder, Value, merge_recorders,
};

fn read(text: &str) -> Result<History, HistoryError> {
    History::read(text.as_bytes())
}

fn error(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

/// A line with what differs filled in.
fn line(index: u64, kind: &str, process: u64, time: u64, value: &str) -> String {
    format!(
        r#"{{"index":{index},"type":"{kind}","process":{process},"time":{time},"f":"txn","value":{value}}}"#
    )
}

fn lines(lines: &[String]) -> String {
    lines.join("\n")
}

fn written(operations: &[Operation]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for operation in operations {
        serde_json::to_writer(&mut bytes, operation).expect("a line");
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn a_line_is_what_elle_reads() {
    let operation = Operation {
        index: 7,
        kind: OperationKind::Ok,
        process: Process(3),
        time_ns: 1900,
        f: Cow::Borrowed("txn"),
        value: vec![
            MicroOp::ReadList { key: Key(5), list: Some(vec![Value(1), Value(2)]) },
            MicroOp::Append { key: Key(5), value: Value(-7) },
            MicroOp::Write { key: Key(6), value: Some(Value(1)) },
            MicroOp::Write { key: Key(6), value: None },
            MicroOp::ReadRegister { key: Key(6), value: None },
            MicroOp::Scan { low: Key(0), high: Key(9), found: Some(vec![(Key(1), Value(2))]) },
        ],
    };
    let text = r#"{"index":7,"type":"ok","process":3,"time":1900,"f":"txn","value":[["r",5,[1,2]],["append",5,-7],["w",6,1],["w",6,null],["r",6,null],["scan",[0,9],[[1,2]]]]}"#;
    assert_eq!(serde_json::to_string(&operation).expect("a line"), text);
    assert_eq!(serde_json::from_str::<Operation>(text).expect("an operation"), operation);
}

#[test]
fn what_is_written_is_read_again() {
    for steps in [Steps::Lists, Steps::Registers, Steps::Scans] {
        let operations = operations(&serial_run(steps, 300, 1));
        let bytes = written(&operations);
        let again: Vec<Operation> =
            HistoryReader::new(&bytes[..]).map(|operation| operation.expect("an operation").1).collect();
        // An unread list is a `null` like an unread register, until the history is whole.
        if steps != Steps::Lists {
            assert_eq!(again, operations);
        }
        let whole = History::from_operations(operations).expect("a history");
        assert_eq!(History::read(&bytes[..]).expect("a history"), whole);
        assert_eq!(History::from_operations(again).expect("a history"), whole);
    }
}

#[test]
fn null_is_an_empty_list_where_lists_are() {
    let history = read(&lines(&[
        line(0, "invoke", 0, 1, r#"[["r",1,null]]"#),
        line(1, "ok", 0, 2, r#"[["r",1,null]]"#),
        line(2, "invoke", 0, 3, r#"[["append",2,1],["r",1,null]]"#),
        line(3, "info", 0, 4, "null"),
    ]))
    .expect("a history");
    assert_eq!(history.model(), Model::Lists);
    let [first, second] = history.transactions() else { panic!("two transactions") };
    assert_eq!(first.ops, [MicroOp::ReadList { key: Key(1), list: Some(Vec::new()) }]);
    assert_eq!(second.ops[1], MicroOp::ReadList { key: Key(1), list: None });
    assert_eq!((second.outcome, second.finish_ns, second.line), (Outcome::Info, None, 4));
}

#[test]
fn what_is_open_at_the_end_is_of_unknown_outcome() {
    let history = read(&line(0, "invoke", 0, 1, r#"[["append",1,1]]"#)).expect("a history");
    assert_eq!(history.transactions()[0].outcome, Outcome::Info);
    assert!(read("\n\n").expect("a history").transactions().is_empty());
}

#[test]
fn each_breach_is_told_with_its_line() {
    let invoke = line(0, "invoke", 0, 5, r#"[["append",1,1]]"#);
    assert_eq!(
        error(&lines(&[invoke.clone(), line(1, "invoke", 0, 6, "[]")])),
        "line 2: process 0 invokes a transaction while that of line 1 is open"
    );
    assert_eq!(
        error(&line(0, "ok", 4, 1, "[]")),
        "line 1: process 4 completes a transaction that it never invoked"
    );
    assert_eq!(
        error(&lines(&[invoke.clone(), line(1, "ok", 0, 6, r#"[["append",1,2]]"#)])),
        "line 2: the completion lists other micro-operations than its invoke on line 1"
    );
    assert_eq!(
        error(&lines(&[invoke.clone(), line(1, "ok", 0, 6, "null")])),
        "line 2: the completion lists other micro-operations than its invoke on line 1"
    );
    assert_eq!(
        error(&lines(&[invoke.clone(), line(0, "ok", 0, 6, r#"[["append",1,1]]"#)])),
        "line 2: index 0 follows index 0; indexes must rise"
    );
    assert_eq!(
        error(&lines(&[invoke.clone(), String::new(), line(1, "ok", 0, 4, "[]")])),
        "line 3: process 0 is at 4 ns, but was at 5 ns already"
    );
    assert_eq!(
        error(&lines(&[invoke.clone(), line(1, "invoke", 1, 6, r#"[["append",1,1]]"#)])),
        "line 2 appends 1 to key 1, which line 1 does already; appended values must be unique within their key"
    );
    assert_eq!(
        error(&lines(&[invoke, line(1, "invoke", 1, 6, r#"[["w",2,1]]"#)])),
        "line 2 uses registers but line 1 uses lists: a history is of one kind"
    );
}

#[test]
fn what_is_no_operation_is_told_with_its_column() {
    for (value, expected) in [
        (r#"[["push",1,1]]"#, "unknown variant `push`"),
        (r#"[["append",1]]"#, "invalid length 2, expected a micro-operation"),
        (r#"[["append",1,1,1]]"#, "invalid length 4, expected a micro-operation"),
        (r#"[["append",1,null]]"#, "invalid type: null, expected i64"),
        (r#"[["append","x",1]]"#, "invalid type: string \"x\", expected i64"),
        (r#"[["r",1,"x"]]"#, "expected null, an integer of 64 bits or an array of such"),
        (r#"[["r",1,1.5]]"#, "expected null, an integer of 64 bits or an array of such"),
        (r#"[["r",1,9223372036854775808]]"#, "invalid value: integer `9223372036854775808`"),
        (r#"[["w",1,99999999999999999999999]]"#, "invalid type: floating point"),
        (r#"[["w",1,1e999]]"#, "number out of range"),
        (r#"[["r",1,[1,null]]]"#, "invalid type: null, expected i64"),
        (r#"[["scan",[1],null]]"#, "invalid length 1"),
        (r#"[["scan",1,null]]"#, "invalid type: integer `1`"),
        (r#"[["scan",[1,2],[[1,null]]]]"#, "invalid type: null, expected i64"),
        (r#"{"append":1}"#, "invalid type: map, expected a sequence"),
        (r#"[["append",1,1]"#, "expected `,` or `]`"),
    ] {
        let error = error(&format!("\n{}", line(0, "invoke", 0, 1, value)));
        assert!(error.starts_with("line 2, column "), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("line 1"), "{error}");
    }
    let whole = line(0, "invoke", 0, 1, "[]");
    for (from, to, expected) in [
        (r#""index":0,"#, "", "missing field `index`"),
        ("invoke", "nemesis", "unknown variant `nemesis`"),
        (r#""process":0"#, r#""process":"p0""#, "invalid type: string \"p0\""),
        (r#""time":1"#, r#""time":-1"#, "invalid value: integer `-1`"),
        ("}", "} {", "trailing characters"),
        ("txn", "\\ud800", "unexpected end of hex escape"),
    ] {
        let error = error(&whole.replace(from, to));
        assert!(error.contains(expected), "{error}");
    }
    // What Jepsen writes of what it did to the system is no transaction.
    let done =
        r#"{"index":0,"type":"info","process":"nemesis","time":1,"f":"start-partition","value":["n1","n2"]}"#;
    let history = read(&lines(&[done.into(), line(1, "invoke", 0, 2, "[]"), line(2, "ok", 0, 3, "[]")]));
    assert_eq!(history.expect("a history").transactions().len(), 1);
    assert!(error(&done.replace("info", "ok")).contains("invalid type: string \"nemesis\""));
    let not_text = History::read(&b"{\"index\":0,\"type\":\"\xff\"}"[..]);
    assert!(matches!(not_text, Err(HistoryError::Malformed { line: 1, .. })));
    let deep = "[".repeat(100_000);
    assert!(error(&deep).starts_with("line 1, column "));
    assert!(error(&line(0, "invoke", 0, 1, &deep)).starts_with("line 1, column "));
}

#[test]
fn the_largest_numbers_are_numbers() {
    let value = r#"[["w",-9223372036854775808,9223372036854775807],["scan",[-9223372036854775808,9223372036854775807],null],["scan",[1,-1],null]]"#;
    let done =
        value.replacen("null", "[[-9223372036854775808,9223372036854775807]]", 1).replace("null", "[]");
    let end = u64::MAX;
    let history = read(&lines(&[line(0, "invoke", end, end, value), line(end, "ok", end, end, &done)]))
        .expect("a history");
    assert!(check(&history, &STRICT).is_ok());
}

#[test]
fn no_input_makes_the_reader_or_the_checker_panic() {
    let mut numbers = Numbers(5);
    let (mut read, mut refused) = (0, 0);
    for round in 0..6000 {
        let steps = *numbers.pick(&[Steps::Lists, Steps::Registers, Steps::Scans]);
        let mut bytes = written(&operations(&serial_run(steps, 12, round)));
        for _ in 0..1 + numbers.below(2) {
            let at = numbers.below(bytes.len() as u64) as usize;
            let other = numbers.below(bytes.len() as u64) as usize;
            match numbers.below(12) {
                0 => bytes[at] = numbers.below(256) as u8,
                1 => _ = bytes.remove(at),
                2 => bytes.insert(at, *numbers.pick(b"0123456789[]{},\"-e.n\n")),
                3 => bytes.swap(at, other),
                4 => bytes[at] = *numbers.pick(b"0123456789"),
                _ if numbers.one_in(10) => bytes.truncate(at),
                _ => {
                    // A digit for a digit keeps the line an operation, with another meaning.
                    let digits: Vec<usize> =
                        (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                    if !digits.is_empty() {
                        bytes[*numbers.pick(&digits)] = *numbers.pick(b"0123456789");
                    }
                }
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        match History::read(&bytes[..]) {
            Ok(history) => {
                read += 1;
                for options in [PLAIN, STRICT] {
                    let report = check(&history, &options);
                    assert!(!report.to_string().is_empty());
                }
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().starts_with("line "), "{error}");
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

/// Whole operations without sense: every kind of anomaly at once, in any order.
#[test]
fn no_history_makes_the_checker_panic() {
    let mut numbers = Numbers(6);
    let mut bad = 0;
    for _ in 0..4000 {
        let lists = numbers.one_in(2);
        let mut next_value = 0;
        let txns: Vec<_> = (0..1 + numbers.below(12))
            .map(|process| {
                let mut ops = Vec::new();
                for _ in 0..numbers.below(6) {
                    let key = Key(numbers.below(3) as i64);
                    let value = Value(numbers.below(8) as i64);
                    let maybe = (!numbers.one_in(4)).then_some(value);
                    next_value += 1;
                    ops.push(match (lists, numbers.below(3)) {
                        (true, 0) => MicroOp::Append { key, value: Value(next_value) },
                        (true, _) => {
                            let list =
                                (0..numbers.below(5)).map(|_| Value(numbers.below(12) as i64)).collect();
                            MicroOp::ReadList { key, list: Some(list) }
                        }
                        (false, 0) => MicroOp::Write { key, value: maybe },
                        (false, 1) => MicroOp::ReadRegister { key, value: maybe },
                        (false, _) => {
                            let found = (0..numbers.below(4))
                                .map(|_| (Key(numbers.below(4) as i64), value))
                                .collect();
                            let high = Key(numbers.below(4) as i64);
                            MicroOp::Scan { low: key, high, found: Some(found) }
                        }
                    });
                }
                let outcome = *numbers.pick(&[Outcome::Ok, Outcome::Ok, Outcome::Info, Outcome::Fail]);
                let start_ns = numbers.below(30);
                let finish_ns = start_ns + numbers.below(10);
                check_support::Txn { process, start_ns, finish_ns, outcome, ops }
            })
            .collect();
        let history = history(&txns);
        for options in [PLAIN, STRICT] {
            let report = check(&history, &options);
            assert!(!report.to_string().is_empty());
            bad += u32::from(!report.is_ok());
        }
    }
    assert!(bad > 4000, "{bad}");
}

#[test]
fn recorders_meet_in_one_history() {
    let mut recorders = Vec::new();
    for process in 0..4 {
        let mut recorder = Recorder::new(Process(process), "txn");
        for round in 0..50 {
            let at_ns = 100 * round + 10 * process;
            let key = Key(round as i64);
            recorder.begin(at_ns);
            recorder.op(MicroOp::Append { key, value: Value(-1) });
            // The engine tries again: this attempt is what its user sees.
            recorder.restart();
            let list = (0..process as i64).map(Value).collect();
            recorder.op(MicroOp::ReadList { key, list: Some(list) });
            recorder.op(MicroOp::Append { key, value: Value(process as i64) });
            recorder.finish(Outcome::Ok, at_ns + 25);
        }
        assert_eq!(recorder.attempts(), 50);
        // Begun and never ended, it may have had effects.
        recorder.begin(10_000);
        recorder.op(MicroOp::Append { key: Key(0), value: Value(100 + process as i64) });
        recorders.push(recorder);
    }
    let bytes = merge_recorders(recorders, HistoryWriter::new(Vec::new())).expect("a vector takes all");
    let operations: Vec<Operation> =
        HistoryReader::new(&bytes[..]).map(|operation| operation.expect("an operation").1).collect();
    assert_eq!(operations.len(), 404);
    assert!(operations.is_sorted_by_key(|operation| operation.time_ns));
    assert!(operations.iter().map(|operation| operation.index).eq(0..404));
    for operation in operations.iter().filter(|o| o.kind == OperationKind::Invoke) {
        assert_eq!(operation.value[0].unread(), operation.value[0]);
    }
    let history = History::read(&bytes[..]).expect("a history");
    let report = check(&history, &STRICT);
    assert!(report.is_ok(), "{report}");
    assert_eq!((report.ok, report.info), (200, 4));
}
