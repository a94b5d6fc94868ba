//! Histories known to be bad, each anomaly by its name; and their nearest good neighbours.

mod check_support;

use check_support::{PLAIN, SESSION, STRICT, kinds, report};
use noonmark_workloads::check::AnomalyKind::{
    self, DuplicateElements, G0, G1a, G1b, G1c, G2, G2Item, GSingle, GarbageRead, IncompatibleOrder,
    Internal, LostUpdate,
};
use noonmark_workloads::check::Needs::{Nothing, RealTime, Session};
use noonmark_workloads::check::{Options, Verdict};

fn bad(expected: &[AnomalyKind], text: &str) {
    assert_eq!(kinds(text, PLAIN), expected, "{}", report(text, PLAIN));
}

fn good(text: &str) {
    good_in(text, PLAIN);
}

fn good_in(text: &str, options: Options) {
    let report = report(text, options);
    assert_eq!(report.verdict, Verdict::Proved, "{report}");
}

#[test]
fn g0_writes_in_opposite_orders() {
    bad(
        &[G0(Nothing)],
        r#"ok [["append",1,1],["append",2,1]]
           ok [["append",1,2],["append",2,2]]
           ok [["r",1,[1,2]]]
           ok [["r",2,[2,1]]]"#,
    );
    good(
        r#"ok [["append",1,1],["append",2,1]]
           ok [["append",1,2],["append",2,2]]
           ok [["r",1,[1,2]]]
           ok [["r",2,[1,2]]]"#,
    );
}

/// Whichever version came first, one of the two must have read it after it was overwritten.
#[test]
fn g2_of_registers_written_without_being_read() {
    bad(
        &[G2Item(Nothing)],
        r#"ok [["w",1,1],["w",2,2]]
           ok [["r",1,1],["w",2,3]]
           ok [["r",2,2],["w",1,4]]"#,
    );
    good(
        r#"ok [["w",1,1],["w",2,2]]
           ok [["r",1,1],["w",2,3]]
           ok [["r",2,3],["w",1,4]]"#,
    );
    bad(
        &[G2Item(Nothing)],
        r#"ok [["w",1,1],["w",2,1]]
           ok [["w",1,2],["w",2,2]]
           ok [["r",1,2],["r",2,1]]"#,
    );
    let explained = report(
        r#"ok [["w",1,1],["w",2,1]]
           ok [["w",1,2],["w",2,2]]
           ok [["r",1,2],["r",2,1]]"#,
        PLAIN,
    );
    assert!(
        explained.to_string().contains("as who comes after the one read what the other left"),
        "{explained}"
    );
}

#[test]
fn g0_one_transactions_appends_around_anothers() {
    bad(
        &[G0(Nothing)],
        r#"ok [["append",1,1],["append",1,3]]
           ok [["append",1,2]]
           ok [["r",1,[1,2,3]]]"#,
    );
}

#[test]
fn g0_registers_read_and_overwritten_in_opposite_orders() {
    let kinds = kinds(
        r#"ok [["r",1,null],["w",1,1],["r",2,2],["w",2,1]]
           ok [["r",2,null],["w",2,2],["r",1,1],["w",1,2]]"#,
        PLAIN,
    );
    assert_eq!(kinds, [G0(Nothing)]);
}

#[test]
fn g1a_read_of_an_aborted_write() {
    bad(
        &[G1a],
        r#"fail [["append",1,1]]
           ok [["r",1,[1]]]"#,
    );
    bad(
        &[G1a],
        r#"fail [["w",1,7]]
           ok [["r",1,7]]"#,
    );
    bad(
        &[G1a],
        r#"fail [["w",1,7]]
           ok [["scan",[0,5],[[1,7]]]]"#,
    );
    good(
        r#"fail [["append",1,1]]
           ok [["r",1,[]]]"#,
    );
    good(
        r#"fail [["w",1,7]]
           ok [["scan",[0,5],[]]]"#,
    );
}

#[test]
fn g1b_read_of_an_intermediate_write() {
    // The reader of half a transaction comes both after and before it.
    bad(
        &[G1b, GSingle(Nothing)],
        r#"ok [["append",1,1],["append",1,2]]
           ok [["r",1,[1]]]"#,
    );
    bad(
        &[G1b],
        r#"ok [["w",1,1],["w",1,2]]
           ok [["r",1,1]]"#,
    );
    bad(
        &[G1b],
        r#"ok [["w",1,1],["w",1,null]]
           ok [["r",1,1]]"#,
    );
    good(
        r#"ok [["append",1,1],["append",1,2]]
           ok [["r",1,[1,2]]]"#,
    );
    good(
        r#"ok [["w",1,1],["w",1,2]]
           ok [["r",1,2]]"#,
    );
}

#[test]
fn g1c_each_reads_what_the_other_wrote() {
    bad(
        &[G1c(Nothing)],
        r#"ok [["append",1,1],["r",2,[1]]]
           ok [["append",2,1],["r",1,[1]]]"#,
    );
    bad(
        &[G1c(Nothing)],
        r#"ok [["w",1,1],["r",2,1]]
           ok [["w",2,1],["r",1,1]]"#,
    );
    good(
        r#"ok [["w",1,1],["r",2,null]]
           ok [["w",2,1],["r",1,1]]"#,
    );
}

#[test]
fn g_single_read_skew() {
    bad(
        &[GSingle(Nothing)],
        r#"ok [["append",1,1],["append",2,1]]
           ok [["r",1,[]],["r",2,[1]]]"#,
    );
    bad(
        &[GSingle(Nothing)],
        r#"ok [["w",1,1],["w",2,1]]
           ok [["r",1,null],["r",2,1]]"#,
    );
    good(
        r#"ok [["w",1,1],["w",2,1]]
           ok [["r",1,1],["r",2,1]]"#,
    );
}

#[test]
fn g_single_phantom_that_a_scan_missed() {
    let text = r#"ok [["w",5,1],["w",100,1]]
                  ok [["scan",[0,9],[]],["r",100,1]]"#;
    bad(&[GSingle(Nothing)], text);
    let report = report(text, PLAIN);
    assert_eq!(report.edges.rw_predicate, 1);
    assert!(report.anomalies[0].explanation.contains("scanned keys 0 to 9 and found no key 5"), "{report}");
}

#[test]
fn g2_item_write_skew() {
    bad(
        &[G2Item(Nothing)],
        r#"ok [["r",1,[]],["append",2,1]]
           ok [["r",2,[]],["append",1,1]]"#,
    );
    bad(
        &[G2Item(Nothing)],
        r#"ok [["r",1,null],["w",2,1]]
           ok [["r",2,null],["w",1,1]]"#,
    );
    // The keys are there, so the scans read items.
    bad(
        &[G2Item(Nothing)],
        r#"ok [["w",1,10],["w",2,20]]
           ok [["scan",[1,2],[[1,10],[2,20]]],["w",1,11]]
           ok [["scan",[1,2],[[1,10],[2,20]]],["w",2,21]]"#,
    );
}

#[test]
fn g2_two_scans_that_miss_each_others_inserts() {
    bad(
        &[G2(Nothing)],
        r#"ok [["scan",[0,9],[]],["w",1,1]]
           ok [["scan",[0,9],[]],["w",2,1]]"#,
    );
    good(
        r#"ok [["scan",[0,9],[]],["w",1,1]]
           ok [["scan",[0,9],[[1,1]]],["w",2,1]]"#,
    );
    // The bounds are included.
    bad(
        &[G2(Nothing)],
        r#"ok [["scan",[0,2],[]],["w",0,1]]
           ok [["scan",[0,2],[]],["w",2,1]]"#,
    );
    good(
        r#"ok [["scan",[1,1],[]],["w",0,1]]
           ok [["scan",[1,1],[]],["w",2,1]]"#,
    );
}

#[test]
fn lost_update() {
    bad(
        &[LostUpdate, GSingle(Nothing)],
        r#"ok [["r",1,[]],["append",1,1]]
           ok [["r",1,[]],["append",1,2]]
           ok [["r",1,[1,2]]]"#,
    );
    // Without the last read the order of the two is open, but either way one is lost.
    bad(
        &[LostUpdate, G2Item(Nothing)],
        r#"ok [["r",1,[]],["append",1,1]]
           ok [["r",1,[]],["append",1,2]]"#,
    );
    bad(
        &[LostUpdate, G2Item(Nothing)],
        r#"ok [["w",1,1]]
           ok [["r",1,1],["w",1,2]]
           ok [["r",1,1],["w",1,3]]"#,
    );
    good(
        r#"ok [["w",1,1]]
           ok [["r",1,1],["w",1,2]]
           ok [["r",1,2],["w",1,3]]"#,
    );
    // The update of a transaction that may not have committed is not lost.
    good(
        r#"ok [["r",1,[]],["append",1,1]]
           info [["r",1,[]],["append",1,2]]"#,
    );
}

#[test]
fn internal_contradictions() {
    for text in [
        r#"ok [["append",1,1],["r",1,[]]]"#,
        r#"ok [["r",1,[]],["append",1,1],["r",1,[1,1]]]"#,
        r#"ok [["w",1,1],["r",1,null]]"#,
        r#"ok [["w",1,1],["w",1,null],["r",1,1]]"#,
        r#"ok [["w",1,1],["scan",[0,5],[]]]"#,
        r#"ok [["scan",[0,5],[]],["w",1,1],["scan",[0,5],[]]]"#,
    ] {
        bad(&[Internal], text);
    }
    bad(
        &[Internal],
        r#"ok [["append",1,1]]
           ok [["r",1,[]],["r",1,[1]]]"#,
    );
    bad(
        &[Internal],
        r#"ok [["w",1,1]]
           ok [["scan",[0,5],[]],["r",1,1]]"#,
    );
    good(r#"ok [["r",1,[]],["append",1,1],["r",1,[1]],["append",1,2],["r",1,[1,2]]]"#);
    good(r#"ok [["r",1,null],["w",1,1],["r",1,1],["scan",[0,1],[[1,1]]],["w",1,null],["scan",[0,1],[]]]"#);
}

#[test]
fn internal_scans_that_cannot_be() {
    bad(
        &[Internal],
        r#"ok [["w",1,1]]
           ok [["scan",[2,5],[[1,1]]]]"#,
    );
    bad(
        &[Internal],
        r#"ok [["w",1,1]]
           ok [["scan",[0,5],[[1,1],[1,1]]]]"#,
    );
}

#[test]
fn internal_read_of_what_it_writes_later() {
    bad(&[Internal], r#"ok [["r",1,[1]],["append",1,1]]"#);
    bad(&[Internal], r#"ok [["r",1,1],["w",1,1]]"#);
    bad(
        &[Internal],
        r#"ok [["r",1,[1]],["append",1,1]]
           ok [["r",1,[1,2]],["append",1,3]]
           ok [["r",1,[1]],["append",1,2]]"#,
    );
}

#[test]
fn garbage_that_nobody_wrote() {
    bad(&[GarbageRead], r#"ok [["r",1,[9]]]"#);
    bad(&[GarbageRead], r#"ok [["r",1,9]]"#);
    bad(&[GarbageRead], r#"ok [["scan",[0,5],[[1,9]]]]"#);
}

#[test]
fn an_element_twice() {
    bad(
        &[DuplicateElements],
        r#"ok [["append",1,1]]
           ok [["r",1,[1,1]]]"#,
    );
}

#[test]
fn lists_that_do_not_continue_each_other() {
    bad(
        &[IncompatibleOrder],
        r#"ok [["append",1,1]]
           ok [["append",1,2]]
           ok [["r",1,[1,2]]]
           ok [["r",1,[2]]]"#,
    );
}

#[test]
fn unknown_outcomes() {
    // Never seen: it need not have happened.
    good(
        r#"info [["append",1,1],["append",2,1]]
           ok [["r",1,[]],["r",2,[]]]"#,
    );
    // Seen on one key, so it happened on the other too.
    bad(
        &[GSingle(Nothing)],
        r#"info [["append",1,1],["append",2,1]]
           ok [["r",1,[1]],["r",2,[]]]"#,
    );
    bad(
        &[GSingle(Nothing)],
        r#"info [["w",1,1],["w",2,1]]
           ok [["r",1,1],["r",2,null]]"#,
    );
    // Seen only by another of unknown outcome that was seen itself.
    let text = r#"info [["append",1,1],["append",2,1]]
                  info [["r",1,[1]],["append",3,1]]
                  ok [["r",3,[1]],["r",2,[]]]"#;
    bad(&[GSingle(Nothing)], text);
    assert_eq!(report(text, PLAIN).info_committed, 2);
    // Seen by one that aborted, or may have: that proves nothing.
    good(
        r#"info [["append",1,1],["append",2,1]]
           fail [["r",1,[1]]]
           info [["r",1,[1]]]
           ok [["r",2,[]]]"#,
    );
    // What it would have read is unknown, `null` or not.
    good(
        r#"ok [["w",2,5]]
           info [["r",2,null],["w",1,1]]
           ok [["r",1,1],["r",2,5]]"#,
    );
    // It may take effect after its end, in strict order too; not before its beginning.
    good_in(
        r#"info p0 1-2 [["append",1,1]]
           ok p1 3-4 [["r",1,[]]]
           ok p1 5-6 [["r",1,[1]]]"#,
        STRICT,
    );
    let early = r#"ok p0 1-2 [["r",1,[1]]]
                   info p1 3-4 [["append",1,1]]"#;
    good(early);
    assert_eq!(kinds(early, STRICT), [G1c(RealTime)]);
}

#[test]
fn a_deleted_register_and_an_absent_one_look_alike() {
    good(
        r#"ok [["r",1,null],["w",1,1]]
           ok [["r",1,1],["w",1,null]]
           ok [["r",1,null]]
           ok [["scan",[0,9],[]]]"#,
    );
    good(
        r#"ok [["w",1,null]]
           ok [["r",1,null],["w",1,1]]
           ok [["r",1,null],["w",1,2]]
           ok [["r",1,2],["w",1,null]]"#,
    );
    // But what was deleted was there, and its readers come first.
    bad(
        &[GSingle(Nothing)],
        r#"ok [["w",1,1]]
           ok [["r",1,1],["w",1,null],["w",2,1]]
           ok [["r",1,1],["r",2,1]]"#,
    );
}

#[test]
fn a_key_found_absent_while_it_was_there() {
    let text = r#"ok [["r",1,null],["w",1,1],["w",2,5]]
                  ok [["r",2,5],["r",1,null],["w",3,7]]
                  ok [["r",3,7],["r",1,1],["w",1,null]]"#;
    bad(&[G2Item(Nothing)], text);
    let report = report(text, PLAIN);
    let told = &report.anomalies[0].explanation;
    assert!(told.contains("found no key 1") || told.contains("deleted key 1"), "{told}");
    // Before it was put there, or after it was deleted, is well.
    good(&text.replace(r#"["r",2,5],"#, ""));
    good(&text.replace(r#"["r",3,7],"#, ""));
    // A delete of what is not there finds it absent too.
    bad(
        &[G2Item(Nothing)],
        &text.replace(r#"["r",1,null],["w",3,7]"#, r#"["r",1,null],["w",1,null],["w",3,7]"#),
    );
}

#[test]
fn a_scan_that_missed_a_key_while_it_was_there() {
    let text = r#"ok [["r",1,null],["w",1,1],["w",20,5]]
                  ok [["r",20,5],["scan",[0,9],[]],["w",30,7]]
                  ok [["r",30,7],["r",1,1],["w",1,null]]"#;
    bad(&[G2(Nothing)], text);
    good(&text.replace("[0,9]", "[2,9]"));
    // Put back, and missed in its second life.
    let text = r#"ok [["r",1,null],["w",1,1]]
                  ok [["r",1,1],["w",1,null],["w",40,1]]
                  ok [["r",40,1],["r",1,null],["w",1,2],["w",20,5]]
                  ok [["r",20,5],["scan",[0,9],[]],["w",30,7]]
                  ok [["r",30,7],["r",1,2],["w",1,null]]"#;
    bad(&[G2(Nothing)], text);
    good(&text.replace(r#""scan",[0,9],[]"#, r#""scan",[0,9],[[1,2]]"#));
}

#[test]
fn a_key_put_twice_and_deleted_once() {
    let text = r#"ok [["r",1,null],["w",1,1]]
                  ok [["r",1,1],["w",1,null]]
                  ok [["r",1,null],["w",1,2]]
                  ok [["r",1,null],["w",1,3]]"#;
    bad(&[LostUpdate], &format!("{text}\nok [[\"r\",1,3]]"));
    assert!(report(text, PLAIN).anomalies[0].explanation.contains("nobody deleted"));
    good(&format!("{text}\nok [[\"r\",1,3],[\"w\",1,null]]"));
    // Nobody knows of an unknown delete whether it happened, and nothing is concluded.
    assert_eq!(kinds(&format!("{text}\ninfo [[\"r\",1,3],[\"w\",1,null]]"), PLAIN), []);
}

#[test]
fn a_key_put_back_while_it_was_there() {
    // 2 is put there after 1 was, by key 2, and before 1 is deleted, by key 3.
    let text = r#"ok [["r",1,null],["w",1,1],["w",2,1]]
                  ok [["r",2,1],["r",1,null],["w",1,2],["w",3,1]]
                  ok [["r",3,1],["r",1,1],["w",1,null]]
                  ok [["r",1,2],["w",1,null]]"#;
    bad(&[G2Item(Nothing)], text);
    good(&text.replace(r#"["r",3,1],"#, ""));
}

#[test]
fn a_delete_that_was_undone() {
    // A row deleted, found absent, and there again, unwritten.
    bad(
        &[G2Item(Nothing)],
        r#"ok [["r",1,null],["w",1,1],["w",4,1]]
           ok [["r",1,1],["w",1,null],["w",2,1]]
           ok [["r",4,1],["r",1,null],["w",3,1]]
           ok [["r",3,1],["r",1,1]]"#,
    );
}

#[test]
fn a_write_skew_of_keys_that_are_put_back() {
    // Each found the other's key absent, after the first lives of both had begun.
    bad(
        &[G2Item(Nothing)],
        r#"ok [["r",1,null],["w",1,1],["r",2,null],["w",2,1]]
           ok [["r",1,1],["w",1,null],["r",2,1],["w",2,null],["w",9,1]]
           ok [["r",9,1],["r",1,null],["r",2,null],["w",1,2]]
           ok [["r",9,1],["r",1,null],["r",2,null],["w",2,2]]"#,
    );
}

#[test]
fn lives_are_ordered_by_sessions_and_by_time_where_asked() {
    let text = r#"ok p0 1-2 [["r",1,null],["w",1,1]]
                  ok p1 3-4 [["r",1,null]]
                  ok p0 5-6 [["r",1,1],["w",1,null]]"#;
    good_in(text, SESSION);
    assert_eq!(kinds(text, STRICT), [G2Item(RealTime)]);
    assert_eq!(kinds(&text.replace("p1", "p0"), SESSION), [G2Item(Session)]);
    assert_eq!(kinds(&text.replace(r#""r",1,null]]"#, r#""scan",[0,9],[]]]"#), STRICT), [G2(RealTime)]);
    good_in(&text.replace("3-4", "2-4"), STRICT);
}

#[test]
fn a_value_written_twice_says_nothing() {
    let text = r#"ok [["w",1,1],["w",2,1]]
                  ok [["w",1,1],["w",2,2]]
                  ok [["r",1,1],["r",2,1]]
                  ok [["r",1,1],["r",2,2]]"#;
    good(text);
    assert_eq!(report(text, PLAIN).ambiguous_reads, 2);
}

#[test]
fn session_order_is_asked_or_not() {
    let lists = r#"ok p0 1-2 [["append",1,1]]
                   ok p0 3-4 [["r",1,[]]]"#;
    let registers = r#"ok p0 1-2 [["w",1,1]]
                       ok p0 3-4 [["r",1,null]]"#;
    for text in [lists, registers] {
        good(text);
        assert_eq!(kinds(text, SESSION), [GSingle(Session)]);
        let other_process = text.replacen("p0", "p1", 1);
        good_in(&other_process, SESSION);
        assert_eq!(kinds(&other_process, STRICT), [GSingle(RealTime)]);
    }
    // A transaction that failed between them does not part the two.
    let text = r#"ok p0 1-2 [["append",1,1]]
                  fail p0 3-4 [["r",1,[1]]]
                  ok p0 5-6 [["r",1,[]]]"#;
    assert_eq!(kinds(text, SESSION), [GSingle(Session)]);
}

/// What logical commit times allow: T0 read 1 before T1 overwrote it, and 2 after T2 wrote it,
/// yet T1 had ended when T2 began.
#[test]
fn serializable_but_not_strictly() {
    let text = r#"ok p0 1-10 [["r",1,null],["r",2,1]]
                  ok p1 2-3 [["r",1,null],["w",1,1]]
                  ok p2 4-5 [["r",2,null],["w",2,1]]
                  ok p3 6-7 [["r",1,1]]"#;
    good(text);
    good_in(text, SESSION);
    let report = report(text, STRICT);
    assert_eq!(report.totals.keys().collect::<Vec<_>>(), [&GSingle(RealTime)], "{report}");
    assert!(report.anomalies[0].explanation.contains("ended at 3 ns, before T2"), "{report}");
    // Had they overlapped, or one ended in the moment the other began, nothing would be wrong.
    good_in(&text.replace("4-5", "3-5"), STRICT);
}

#[test]
fn real_time_orders_blind_writes() {
    // T2 reads what T1 had overwritten before.
    let stale = r#"ok p0 1-2 [["w",1,1]]
                   ok p1 3-4 [["w",1,2]]
                   ok p2 5-6 [["r",1,1]]"#;
    good(stale);
    assert_eq!(kinds(stale, STRICT), [G0(RealTime)]);
    // The writes overlap, and the reads tell different orders.
    let both = r#"ok p0 1-3 [["w",1,1]]
                  ok p1 2-4 [["w",1,2]]
                  ok p2 5-6 [["r",1,1]]
                  ok p3 7-8 [["r",1,2]]"#;
    good(both);
    assert_eq!(kinds(both, STRICT), [G0(RealTime)]);
    // Unless the second was still under way at the first read.
    good_in(&both.replace("2-4", "2-6"), STRICT);
    good_in(&both.replace("2-4", "2-5"), STRICT);
    // The overwriter of what was read is known by time alone.
    let skew = r#"ok p0 1-2 [["w",1,1]]
                  ok p1 3-9 [["w",1,2],["w",2,1]]
                  ok p2 4-8 [["r",1,1],["r",2,1]]"#;
    good(skew);
    assert_eq!(kinds(skew, STRICT), [GSingle(RealTime)]);
}

#[test]
fn the_weaker_name_wins() {
    // A cycle of reads and a longer one of writes in one component.
    bad(
        &[G0(Nothing)],
        r#"ok [["append",1,1],["append",2,1],["r",3,[2]]]
           ok [["append",1,2],["append",2,2],["append",3,2]]
           ok [["r",1,[1,2]]]
           ok [["r",2,[2,1]]]"#,
    );
}

#[test]
fn a_cycle_is_told_in_its_order() {
    let report = report(
        r#"ok p0 1-9 [["r",1,[]],["r",2,[1]]]
           ok p1 2-8 [["append",1,1],["append",2,1]]"#,
        PLAIN,
    );
    assert_eq!(
        report.anomalies[0].explanation,
        "T0 (process 0, line 4) read key 1 as [], to which T1 (process 1, line 3) appended 1; \
         T1 appended 1 to key 2, which T0 read as [1]; so T0 must come before itself"
    );
    assert!(report.to_string().contains("NOT serializable: 1 G-single"), "{report}");
}

#[test]
fn every_component_is_counted_and_some_explained() {
    let text: String = (0..50)
        .map(|key| {
            format!(
                "ok [[\"append\",{key},1],[\"r\",{other},[1]]]\nok [[\"append\",{other},1],[\"r\",{key},[1]]]\n",
                other = key + 1000
            )
        })
        .collect();
    let report = report(&text, PLAIN);
    assert_eq!(report.totals[&G1c(Nothing)], 50);
    assert!(report.anomalies.len() < 50);
    assert!(report.to_string().contains("and 42 more"), "{report}");
}
