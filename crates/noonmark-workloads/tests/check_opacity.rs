//! What aborted attempts saw: histories that are strictly serializable, and opaque or not.

mod check_support;

use check_support::{OPAQUE, STRICT, Steps, history, kinds, report, serial_run};
use noonmark_workloads::check::AnomalyKind::{self, G1a, GSingle, Internal};
use noonmark_workloads::check::Needs::{Nothing, RealTime, Session};
use noonmark_workloads::check::{Verdict, check};

/// Of what kinds an opaque history has none; without the aborted attempts nothing is wrong.
fn not_opaque(expected: &[AnomalyKind], text: &str) {
    let strict = report(text, STRICT);
    assert_eq!(strict.verdict, Verdict::Proved, "{strict}");
    assert_eq!(kinds(text, OPAQUE), expected, "{}", report(text, OPAQUE));
}

fn opaque(text: &str) {
    let report = report(text, OPAQUE);
    assert_eq!(report.verdict, Verdict::Proved, "{report}");
    assert!(report.to_string().contains("verdict   opaque"), "{report}");
}

#[test]
fn half_of_a_commit() {
    not_opaque(
        &[GSingle(Nothing)],
        r#"ok [["append",1,1],["append",2,1]]
           fail [["r",1,[1]],["r",2,[]]]"#,
    );
    not_opaque(
        &[GSingle(Nothing)],
        r#"ok p0 1-2 [["w",1,1],["w",2,1]]
           ok p0 3-6 [["r",1,1],["r",2,1],["w",1,2],["w",2,2]]
           fail p1 3-6 [["r",1,1],["w",3,7],["r",2,2]]"#,
    );
    opaque(
        r#"ok p0 1-2 [["w",1,1],["w",2,1]]
           ok p0 3-6 [["r",1,1],["r",2,1],["w",1,2],["w",2,2]]
           fail p1 3-6 [["r",1,2],["w",3,7],["r",2,2]]
           fail p2 3-6 [["r",1,1],["r",2,1]]"#,
    );
}

#[test]
fn what_was_over_before() {
    not_opaque(
        &[GSingle(RealTime)],
        r#"ok p0 1-2 [["append",1,1]]
           ok p0 5-6 [["r",1,[1]]]
           fail p1 3-4 [["r",1,[]]]"#,
    );
    not_opaque(
        &[GSingle(Session)],
        r#"ok p0 1-2 [["append",1,1]]
           fail p0 3-4 [["r",1,[]]]"#,
    );
}

#[test]
fn what_another_attempt_undid() {
    not_opaque(
        &[G1a],
        r#"fail p0 1-9 [["append",1,1]]
           fail p1 1-9 [["r",1,[1]]]"#,
    );
    not_opaque(
        &[G1a],
        r#"fail p0 1-9 [["w",1,1]]
           fail p1 1-9 [["r",1,1]]"#,
    );
}

#[test]
fn its_own_writes() {
    opaque(
        r#"ok p0 1-2 [["append",1,1]]
           fail p1 3-4 [["append",1,2],["r",1,[1,2]],["append",1,3],["r",1,[1,2,3]]]
           ok p0 5-6 [["r",1,[1]]]"#,
    );
    opaque(
        r#"ok p0 1-2 [["w",1,1]]
           fail p1 3-4 [["r",1,1],["w",1,2],["r",1,2]]"#,
    );
    not_opaque(
        &[Internal],
        r#"ok p0 1-2 [["append",1,1]]
           fail p1 3-4 [["append",1,2],["r",1,[1]]]"#,
    );
    not_opaque(
        &[Internal],
        r#"ok p0 1-2 [["w",1,1]]
           fail p1 3-4 [["r",1,1],["w",1,2],["r",1,1]]"#,
    );
}

/// What nobody knows is not held against anybody.
#[test]
fn unknown_reads() {
    opaque(
        r#"ok p0 1-2 [["w",1,1]]
           fail p1 3-4 [["r",1,null]]"#,
    );
}

#[test]
fn serial_runs_are_opaque_and_counted_as_they_are() {
    for (seed, steps) in (1..).zip([Steps::Lists, Steps::Registers]) {
        let history = history(&serial_run(steps, 2_000, seed));
        let (strict, opaque) = (check(&history, &STRICT), check(&history, &OPAQUE));
        assert_eq!(opaque.verdict, Verdict::Proved, "{opaque}");
        let counts = |report: &noonmark_workloads::check::Report| {
            (report.transactions, report.ok, report.fail, report.info, report.keys)
        };
        assert_eq!(counts(&opaque), counts(&strict));
        assert!(opaque.fail > 0);
    }
}
