use super::*;
use crate::report::Latency;

/// Runs of made-up figures, as many kinds as the page tells apart.
fn runs() -> Vec<RunReport> {
    let mut runs = Vec::new();
    for (p, protocol) in
        ["occ", "tictoc", "two-phase-wait-die", "swiss", "adaptive", "mutex"].iter().enumerate()
    {
        for (g, groups) in ["coarse", "fine"].iter().enumerate() {
            for threads in [1, 2, 4] {
                for theta in ["0.5", "0.9"] {
                    if *protocol == "mutex" && g == 1 {
                        continue;
                    }
                    let speed = (p + 1) as f64 * 40_000.0 * (g + 2) as f64 * (threads as f64).sqrt();
                    let aborted =
                        if *protocol == "mutex" { 0 } else { threads as u64 * 900 * (p as u64 + 1) };
                    runs.push(RunReport {
                        workload: "ycsb".into(),
                        preset: "granularity".into(),
                        protocol: protocol.to_string(),
                        groups: groups.to_string(),
                        index: "hash".into(),
                        updates: "plain".into(),
                        access: "one-by-one".into(),
                        threads,
                        seconds: 1.0,
                        committed: speed as u64,
                        committed_per_s: speed,
                        aborts: [(format!("{protocol}: <validate> & \"more\""), aborted)].into(),
                        retries_per_commit: aborted as f64 / speed,
                        latency_us: Latency {
                            p50: 3.0 + p as f64,
                            p99: 40.0 * (p + 1) as f64,
                            p999: 900.0,
                            max: 12_000.0,
                        },
                        attempts_max: 17,
                        consistent: Some(true),
                        parameters: [("theta".into(), theta.into()), ("rows".into(), "100000".into())].into(),
                        ..RunReport::default()
                    });
                }
            }
        }
    }
    runs
}

/// The page, also left in `NOONMARK_PAGE` for a person to look at, when that is set.
fn sample() -> String {
    let head = PageHead {
        command: "noonmark bench ycsb --protocol '<all>'".into(),
        date: "2026-01-02 03:04 UTC".into(),
        machine: vec![("cores".into(), "4".into()), ("memory".into(), "8 GiB".into())],
    };
    let html = page(&runs(), &head).unwrap();
    if let Some(file) = std::env::var_os("NOONMARK_PAGE") {
        std::fs::write(file, &html).unwrap();
    }
    html
}

#[test]
fn the_page_needs_nothing_else() {
    let html = sample();
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link", "<script src"] {
        let found = html.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "the page mentions {outside}");
    }
}

#[test]
fn every_plot_is_drawn_and_named() {
    let html = sample();
    assert!(!html.contains("could not be drawn"));
    // Six contests (threads by theta) of three plots; lines over threads for two thetas, over theta for three
    // thread counts, three plots each.
    assert_eq!(html.matches("<figure>").count(), 6 * 3 + (2 + 3) * 3);
    assert_eq!(html.matches("role=\"img\"").count(), html.matches("<figure>").count());
}

#[test]
fn every_colour_in_the_plots_has_a_dark_shade() {
    let html = sample();
    for attribute in ["fill=\"#", "stroke=\"#"] {
        for (at, _) in html.match_indices(attribute) {
            let colour = &html[at + attribute.len() - 1..][..7];
            assert!(html.contains(&format!("[fill=\"{colour}\"] {{")), "{colour} has no dark shade");
        }
    }
}

#[test]
fn what_comes_from_outside_is_escaped_and_the_json_reads_back() {
    let mut runs = runs();
    runs[0].consistency.push("</script><script>".into());
    let html = page(&runs, &PageHead { command: "<b>".into(), ..PageHead::default() }).unwrap();
    assert!(html.contains("&lt;b&gt;") && !html.contains("<b>"));
    assert!(html.contains("occ: &lt;validate&gt; &amp; &quot;more&quot;"));
    assert_eq!(html.matches("</script>").count(), 1);
    let json = html.split("id=\"runs\">").nth(1).unwrap().split("</script>").next().unwrap();
    let read: Vec<RunReport> = serde_json::from_str(json).unwrap();
    assert_eq!(read.len(), runs.len());
    assert_eq!(read[0].consistency, runs[0].consistency);
    assert_eq!(read[0].aborts, runs[0].aborts);
}

#[test]
fn runs_that_did_nothing_make_a_page_too() {
    let idle = RunReport { workload: "bank".into(), protocol: "unheard-of".into(), ..RunReport::default() };
    let html = page(&[idle], &PageHead::default()).unwrap();
    assert!(!html.contains("could not be drawn"));
    assert!(page(&[], &PageHead::default()).is_ok());
}
