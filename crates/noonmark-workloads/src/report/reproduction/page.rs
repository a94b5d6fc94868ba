//! Experiments as a page: one file that needs nothing else, not even a script.
//!
//! It has the style, the colours and the plots of the page of the benchmarks (`report/page.rs`). The JSON of everything is
//! embedded at the end under the id `reproductions`.

use super::{
    BY_KIND, BY_PHASE, Failures, PHASES, Reproduction, STUCK, Verdict, by_phase, clock_per_s, per_commit,
    per_second, reproductions_json, rules, who,
};
use crate::report::page::{STYLE, colour_keys, colours, escape, figure};
use crate::report::plots::{self, Line};
use crate::report::{RunReport, Traffic, count, latency, rate};
use std::fmt::Write;
use std::io;

/// The page; `command` is the command line that made it.
pub fn page(all: &[Reproduction], command: &str) -> io::Result<String> {
    let mut html = String::with_capacity(256 * 1024);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Noonmark repro</title>\n\
         <style>{STYLE}{OWN_STYLE}{}</style>\n</head>\n<body>\n<main>\n",
        colours()
    );
    let _ = write!(
        html,
        "<header>\n<h1>Papers' experiments, done again</h1>\n<p class=\"lead\">The engine's and the transactional memory's own transactions on virtual \
         cores: a simulated machine, virtual time, and the same figures from the same seed everywhere. Nothing is tuned to \
         agree; what does not come out is said.</p>\n<dl><div><dt>command</dt><dd><code>{}</code></dd></div>",
        escape(command)
    );
    if let Some(first) = all.first() {
        let _ = write!(
            html,
            "<div><dt>seed</dt><dd>{}</dd></div><div><dt>machine, simulated</dt><dd>{}</dd></div>",
            first.seed,
            escape(&first.machine)
        );
    }
    html.push_str("</dl>\n</header>\n");
    contents(&mut html, all);
    html.push_str("<ul class=\"key\" aria-label=\"Colours\">\n");
    let runs: Vec<RunReport> = all.iter().flat_map(|one| one.runs.iter().cloned()).collect();
    colour_keys(&mut html, &runs);
    html.push_str("</ul>\n");
    for one in all {
        experiment(&mut html, one);
    }
    // `</script>` inside a string would end the element; `<\/` is the same string to JSON.
    let json = reproductions_json(all)?.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let _ = write!(
        html,
        "</main>\n<script type=\"application/json\" id=\"reproductions\">\n{json}</script>\n</body>\n</html>\n"
    );
    Ok(html)
}

/// What there is, with how much of it came out.
fn contents(html: &mut String, all: &[Reproduction]) {
    html.push_str("<ul class=\"contents\">\n");
    for one in all {
        let _ = writeln!(
            html,
            "<li><a href=\"#{}\">{}</a>: {} <small>{}</small></li>",
            escape(&one.name),
            escape(&one.figure),
            escape(&one.title),
            one.tallies().map(|(what, tally)| format!("{what}: {tally}")).collect::<Vec<String>>().join("; ")
        );
    }
    html.push_str("</ul>\n");
}

fn experiment(html: &mut String, one: &Reproduction) {
    let _ = writeln!(
        html,
        "<section id=\"{}\">\n<h2>{}: {}</h2>\n<p class=\"common\">{}, virtual; {}; seed {}</p>",
        escape(&one.name),
        escape(&one.figure),
        escape(&one.title),
        escape(&capital(&one.machine)),
        escape(&one.size),
        one.seed
    );
    for run in one.runs.iter().filter(|run| run.consistent == Some(false)) {
        let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
        let _ = writeln!(
            html,
            "<p class=\"bad\"><strong>Inconsistent:</strong> {} {}: {}</p>",
            escape(&who(run)),
            escape(&one.place(run)),
            escape(why)
        );
    }
    findings(html, one);
    for (groups, runs) in one.parts() {
        if !groups.is_empty() {
            let _ = writeln!(html, "<h3>{} timestamps</h3>", capital(groups));
        }
        html.push_str("<div class=\"plots\">\n");
        let mut plot = |what: &str, value: &dyn Fn(&RunReport) -> f64, show: fn(f64) -> String| {
            over_points(html, one, what, &runs, value, show);
        };
        plot("Throughput, transactions a virtual second", &|run| run.committed_per_s, rate);
        if runs.iter().any(|run| run.clock_increments.is_some()) {
            let clock = |run: &RunReport| per_second(run, run.clock_increments.unwrap_or(0));
            plot("Clock increments, a virtual second (0: none, or no clock)", &clock, rate);
        }
        plot(one.failures.title(), &|run| one.failures.of(run), one.failures.show());
        plot("Virtual latency (99%)", &|run| run.latency_us.p99, latency);
        if runs.iter().any(|run| run.traffic.is_some()) {
            plot("Messages between servers, for each commit", &messages_per_commit, rate);
        } else {
            plot("Lines moved, for each commit", &moved_per_commit, rate);
        }
        html.push_str("</div>\n");
    }
    let stuck = one.stuck();
    if !stuck.is_empty() {
        let stuck = escape(&stuck.join(", "));
        let _ = writeln!(html, "<p class=\"common\">{}: {stuck}.</p>", capital(STUCK));
    }
    changes(html, one);
    kinds(html, one);
    phases(html, one);
    html.push_str("<h3>What the paper leaves open, and what was chosen</h3>\n<dl class=\"choices\">");
    for (name, value) in &one.choices {
        let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    html.push_str("</dl>\n");
    if !one.left_out.is_empty() {
        html.push_str(
            "<h3>What of the paper is not here, and what that changes</h3>\n<dl class=\"choices left-out\">",
        );
        for (what, changes) in &one.left_out {
            let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(what), escape(changes));
        }
        html.push_str("</dl>\n");
    }
    all_figures(html, one);
    html.push_str("</section>\n");
}

fn findings(html: &mut String, one: &Reproduction) {
    html.push_str(
        "<div class=\"wide\">\n<table class=\"findings\">\n<thead><tr><th scope=\"col\">the paper</th>\
         <th scope=\"col\">says</th><th scope=\"col\">here</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    for finding in &one.findings {
        let class = match finding.verdict {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "bad",
            Verdict::NotRun => "fine",
        };
        let others = finding.others_in_words();
        let others = others
            .map_or_else(String::new, |words| format!("<p class=\"reason\">With {}</p>", escape(&words)));
        let reason = if finding.reason.is_empty() {
            String::new()
        } else {
            format!("<p class=\"reason\">Why, as far as is known: {}</p>", escape(&finding.reason))
        };
        let _ = writeln!(
            html,
            "<tr><td class=\"fine\">{}</td><td>{}</td><td>{}{others}{reason}</td><td class=\"{class}\">{}</td></tr>",
            escape(&finding.section),
            escape(&finding.statement),
            escape(&finding.ours),
            finding.verdict.in_words()
        );
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
    if let Some((seeds, all)) = one.with_each_seed() {
        let _ = writeln!(html, "<p class=\"common\">With each of {seeds} seeds {all} agree.</p>");
    }
    if !one.agrees_if.is_empty() {
        let _ = writeln!(html, "<p class=\"common\">Agrees: {}.</p>", escape(&one.agrees_if));
    }
}

fn moved_per_commit(run: &RunReport) -> f64 {
    let lines = run.lines.unwrap_or_default();
    per_commit(run, (lines.near + lines.far + lines.memory) as f64)
}

fn messages_per_commit(run: &RunReport) -> f64 {
    per_commit(run, run.traffic.unwrap_or_default().messages as f64)
}

/// One line for each protocol.
fn over_points(
    html: &mut String,
    one: &Reproduction,
    what: &str,
    runs: &[&RunReport],
    value: &dyn Fn(&RunReport) -> f64,
    show: fn(f64) -> String,
) {
    let mut lines: Vec<(&str, Line)> = Vec::new();
    for run in runs {
        let point = (one.x(run), value(run));
        match lines.iter_mut().find(|(protocol, _)| *protocol == run.protocol) {
            Some((_, line)) => line.points.push(point),
            None => {
                let colour = plots::colour_of(&run.protocol);
                lines.push((&run.protocol, Line { colour, dashed: false, points: vec![point] }));
            }
        }
    }
    let lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
    figure(html, what, "", plots::lines(&one.x_title(), &lines, show));
}

fn changes(html: &mut String, one: &Reproduction) {
    let Some(first) = one.changes.first() else { return };
    let place = first.runs.first().map_or(String::new(), |run| one.place(run));
    let _ = writeln!(
        html,
        "<h3>One choice made otherwise, {}</h3>\n<div class=\"wide\">\n<table>\n<thead><tr>\
         <th scope=\"col\">choice</th>",
        escape(&place)
    );
    let heading = one.failures.heading();
    for run in &first.runs {
        let who = escape(&who(run));
        let _ = write!(
            html,
            "<th scope=\"col\" class=\"n\">{who}, tx/s</th><th scope=\"col\" class=\"n\">{heading}</th>"
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for change in &one.changes {
        let _ = write!(html, "<tr><td>{}</td>", escape(&change.words));
        for run in &change.runs {
            let _ = write!(
                html,
                "<td class=\"n\">{}</td><td class=\"n\">{}</td>",
                rate(run.committed_per_s),
                failures(one, run)
            );
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

fn kinds(html: &mut String, one: &Reproduction) {
    let runs = one.runs_by_kind();
    let Some((_, last)) = runs.first() else { return };
    let _ = writeln!(
        html,
        "<h3>{}, {}</h3>\n<div class=\"wide\">\n<table>\n<thead><tr><th scope=\"col\">run</th>",
        capital(BY_KIND),
        escape(&one.place(last))
    );
    for heading in one.kind_headings() {
        let _ = write!(html, "<th scope=\"col\" class=\"n\">{}</th>", escape(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (name, run) in runs {
        let _ = write!(html, "<tr><td>{}</td>", escape(&name));
        for percent in one.shares_by_kind(run) {
            let _ = write!(html, "<td class=\"n\">{percent:.2}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

/// Of all points, as the paper's figures have them.
fn phases(html: &mut String, one: &Reproduction) {
    if one.runs.iter().all(|run| run.phases.is_none()) {
        return;
    }
    let _ = write!(
        html,
        "<h3>{}</h3>\n<div class=\"wide\">\n<table>\n<thead><tr><th scope=\"col\">protocol</th>\
         <th scope=\"col\" class=\"n\">{}</th>",
        capital(BY_PHASE),
        escape(&one.axis)
    );
    for heading in PHASES {
        let _ = write!(html, "<th scope=\"col\" class=\"n\">{heading}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for run in &one.runs {
        let Some(phases) = &run.phases else { continue };
        let point = one.varied(run).map_or_else(|| run.threads.to_string(), escape);
        let _ = write!(html, "<tr><td>{}</td><td class=\"n\">{point}</td>", escape(&run.protocol));
        for text in by_phase(phases) {
            let _ = write!(html, "<td class=\"n\">{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

/// More exactly than on the terminal, where it is a share.
fn failures(one: &Reproduction, run: &RunReport) -> String {
    match one.failures {
        Failures::Share => format!("{:.2}%", 100.0 * run.abort_share()),
        Failures::PerThousand | Failures::PerSecond => one.failures.show()(one.failures.of(run)),
    }
}

fn all_figures(html: &mut String, one: &Reproduction) {
    html.push_str("<details>\n<summary>All figures</summary>\n<div class=\"wide\">\n<table>\n<thead><tr>");
    for heading in [
        "protocol",
        "timestamps",
        &one.axis,
        "committed",
        "tx/s",
        one.failures.heading(),
        "clock/s",
        "p50",
        "p99",
        "p99.9",
        "most attempts",
        "hits a commit",
        "near lines",
        "far lines",
        "from memory",
        "time in line",
        "messages",
        "bytes",
        "consistent",
        "why attempts failed",
    ] {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for run in &one.runs {
        let (lines, traffic) = (run.lines.unwrap_or_default(), run.traffic);
        let each = |count: u64| format!("{:.2}", per_commit(run, count as f64));
        let sent =
            |count: fn(Traffic) -> u64| traffic.map_or_else(String::new, |traffic| each(count(traffic)));
        let _ = write!(html, "<tr><td>{}</td><td>{}</td>", escape(&run.protocol), escape(&run.groups));
        for text in [
            one.varied(run).map_or_else(|| run.threads.to_string(), escape),
            count(run.committed),
            count(run.committed_per_s.round() as u64),
            failures(one, run),
            clock_per_s(run).map_or_else(String::new, rate),
            latency(run.latency_us.p50),
            latency(run.latency_us.p99),
            latency(run.latency_us.p999),
            count(run.attempts_max),
            each(lines.hits),
            each(lines.near),
            each(lines.far),
            each(lines.memory),
            latency(per_commit(run, lines.queued_us)),
            sent(|traffic| traffic.messages),
            sent(|traffic| traffic.bytes),
        ] {
            let _ = write!(html, "<td class=\"n\">{text}</td>");
        }
        let consistent = match run.consistent {
            Some(true) => "yes",
            Some(false) => "<strong class=\"bad\">no</strong>",
            None => "",
        };
        let _ =
            writeln!(html, "<td>{consistent}</td><td class=\"fine\">{}</td></tr>", escape(&rules(run, 4)));
    }
    html.push_str("</tbody>\n</table>\n</div>\n</details>\n");
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// What the page of the benchmarks has not got.
const OWN_STYLE: &str = "
.plots { grid-template-columns: repeat(auto-fill, minmax(min(100%, 310px), 1fr)) }
.contents { margin: 1.5rem 0 0; padding-left: 1.2rem }
.contents small { color: var(--soft) }
.contents a, summary { color: inherit }
.findings { width: 100%; font-size: .9rem; white-space: normal }
.findings td:nth-child(1), .findings td:nth-child(4) { white-space: nowrap }
.findings td:nth-child(2) { width: 34% }
.reason { margin: .25rem 0 0; color: var(--soft) }
.agrees { color: #1e7d4f }
.choices { font-size: .9rem }
summary { margin: 1.5rem 0 .5rem; cursor: pointer; font-weight: 600 }
section { scroll-margin-top: 3rem }
@media (prefers-color-scheme: dark) { .agrees { color: #5fcf9b } }
";
