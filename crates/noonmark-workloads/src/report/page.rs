//! The HTML page: one file that needs nothing else, not even a script.
//!
//! Plots are inline SVG (see `plots.rs`); the style sheet gives each colour a light and a dark shade. Each
//! plot has a title and a description for those who hear the page; the full table holds every figure that a
//! plot shows, and the JSON of all runs is embedded at the end under the id `runs`.
//!
//! What comes from outside (names, the command line, what a workload says about its consistency) is escaped
//! wherever it enters.

use super::compare::{BASELINE, Contest, ENGINE, PLAIN, Section, grouped, work_of};
use super::plots::{self, Bar, Line, Span};
use super::{RunReport, count, latency, rate, sections, share, to_json};
use std::fmt::Write;
use std::io;

/// What the page says about itself.
#[derive(Clone, Debug, Default)]
pub struct PageHead {
    /// The command line that made it.
    pub command: String,
    /// When.
    pub date: String,
    /// The machine: `("cores", "2")`, `("memory", "24 GiB")`, ...
    pub machine: Vec<(String, String)>,
}

/// The page for these runs.
pub fn page(runs: &[RunReport], head: &PageHead) -> io::Result<String> {
    let sections = sections(runs);
    let mut html = String::with_capacity(64 * 1024);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Noonmark bench</title>\n\
         <style>{STYLE}{}</style>\n</head>\n<body>\n<main>\n",
        colours()
    );
    header(&mut html, head, runs.len());
    legend(&mut html, runs);
    for section in &sections {
        section_of(&mut html, section);
    }
    full_table(&mut html, runs);
    // `</script>` inside a string would end the element; `<\/` is the same string to JSON.
    let json = to_json(runs)?.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let _ = write!(
        html,
        "</main>\n<script type=\"application/json\" id=\"runs\">\n{json}</script>\n</body>\n</html>\n"
    );
    Ok(html)
}

fn header(html: &mut String, head: &PageHead, runs: usize) {
    let _ = writeln!(
        html,
        "<header>\n<h1>Noonmark bench</h1>\n<p class=\"lead\">Concurrency controls compete for the same \
         data: {runs} {}, each measured once on one machine, in closed loop.</p>\n<dl>",
        if runs == 1 { "run" } else { "runs" }
    );
    let own = [("command", head.command.as_str()), ("date", head.date.as_str())];
    let machine = head.machine.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in own.into_iter().chain(machine).filter(|(_, value)| !value.is_empty()) {
        let value = if name == "command" { format!("<code>{}</code>", escape(value)) } else { escape(value) };
        let _ = writeln!(html, "<div><dt>{}</dt><dd>{value}</dd></div>", escape(name));
    }
    html.push_str("</dl>\n</header>\n");
}

/// A colour and the name of the protocol that has it.
pub(super) fn colour_keys(html: &mut String, runs: &[RunReport]) {
    for group in grouped(runs.iter(), |run| run.protocol.clone()) {
        let name = &group[0].protocol;
        let colour = plots::hex(plots::colour_of(name));
        let _ = writeln!(
            html,
            "<li><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect width=\"14\" height=\"14\" rx=\"3\" \
             fill=\"{colour}\"/></svg>{}</li>",
            escape(name)
        );
    }
}

/// The key to the colours, once for the whole page.
fn legend(html: &mut String, runs: &[RunReport]) {
    html.push_str("<ul class=\"key\" aria-label=\"Colours\">\n");
    colour_keys(html, runs);
    for (plainer, fuller, of, words) in PAIRS {
        let has = |wanted: &str| runs.iter().any(|run| of(run) == wanted && run.protocol != BASELINE);
        if has(plainer) && has(fuller) {
            let _ = writeln!(html, "<li class=\"note\">faint or dashed: {words}</li>");
        }
    }
    html.push_str("</ul>\n");
}

fn section_of(html: &mut String, section: &Section<'_>) {
    let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&section.title()));
    let common = section.common();
    if !common.is_empty() {
        let _ = writeln!(html, "<p class=\"common\">{}</p>", escape(&common));
    }
    for run in section.runs.iter().filter(|run| run.consistent == Some(false)) {
        let why = run.consistency.first().map_or("a consistency condition failed", String::as_str);
        let _ = writeln!(
            html,
            "<p class=\"bad\"><strong>Inconsistent:</strong> {}, {} threads: {}</p>",
            escape(section.contestant(run).join(" ").trim_end()),
            run.threads,
            escape(why)
        );
    }
    let contests = section.contests();
    if let Some(words) = winners(section, &contests) {
        let _ = writeln!(html, "<ul class=\"winners\">{words}</ul>");
    }
    // Lines say most about many values, bars about few.
    let (over, values_max) = over_numbers(section);
    let (first, last) = if values_max > 2 { (over.as_str(), "") } else { ("", over.as_str()) };
    html.push_str(first);
    for contest in &contests {
        contest_plots(html, section, contest);
    }
    html.push_str(last);
    html.push_str("</section>\n");
}

/// Who was fastest in each contest that had one to be fastest of.
fn winners(section: &Section<'_>, contests: &[Contest<'_>]) -> Option<String> {
    let mut words = String::new();
    for contest in contests.iter().filter(|contest| contest.runs.len() > 1) {
        let Some(best) = contest.best() else { continue };
        let _ = write!(
            words,
            "<li>{}: <strong>{}</strong>, {} transactions a second",
            escape(&where_(section, best)),
            escape(&name_of(section, best)),
            rate(best.committed_per_s)
        );
        if let Some(times) = contest.speedup(best).filter(|_| !contest.is_baseline(best)) {
            let of = match section.baseline() {
                PLAIN => "the plain structure",
                ENGINE => "the engine, without messages",
                _ => "the mutex baseline",
            };
            let _ = write!(words, ", {times:.2} times {of}");
        }
        words.push_str("</li>\n");
    }
    (!words.is_empty()).then_some(words)
}

/// The contestant's name without what a contest's heading says already.
fn name_of(section: &Section<'_>, run: &RunReport) -> String {
    let parts = section.contestant(run);
    let own = parts.len() - section.varying_parameters().len();
    parts[..own].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// What a contest is about: its threads, and the parameters that differ within the section.
fn where_(section: &Section<'_>, run: &RunReport) -> String {
    let mut words =
        vec![if run.threads == 1 { "1 thread".into() } else { format!("{} threads", run.threads) }];
    for name in section.varying_parameters() {
        if let Some(value) = run.parameters.get(&name) {
            words.push(format!("{name} {value}"));
        }
    }
    words.join(", ")
}

/// Bars for throughput and aborts, spans for latency: the runs of one contest, a group for each protocol.
fn contest_plots(html: &mut String, section: &Section<'_>, contest: &Contest<'_>) {
    let Some(first) = contest.runs.first() else { return };
    let title = where_(section, first);
    let protocols = grouped(contest.runs.iter().copied(), |run| run.protocol.clone());
    let bars_of = |protocols: &[Vec<&RunReport>], value: fn(&RunReport) -> f64| -> Vec<Vec<Bar>> {
        let bar = |run: &&RunReport| Bar {
            label: name_of(section, run),
            colour: plots::colour_of(&run.protocol),
            faint: is_plainer(section, run),
            value: value(run),
        };
        protocols.iter().map(|runs| runs.iter().map(bar).collect()).collect()
    };
    let bars = |value| bars_of(&protocols, value);
    let span = |run: &&RunReport| Span {
        label: name_of(section, run),
        colour: plots::colour_of(&run.protocol),
        faint: is_plainer(section, run),
        quantiles: [run.latency_us.p50, run.latency_us.p99, run.latency_us.p999],
    };
    let spans: Vec<Vec<Span>> = protocols.iter().map(|runs| runs.iter().map(span).collect()).collect();

    let _ = writeln!(html, "<h3>{}</h3>\n<div class=\"plots\">", escape(&title));
    figure(
        html,
        "Throughput, transactions a second",
        "",
        plots::bars(&bars(|run| run.committed_per_s), rate),
    );
    if contest.runs.iter().any(|run| run.aborted() > 0) {
        let aborted = plots::bars(&bars(RunReport::abort_share), share);
        figure(html, "Attempts that ended in a conflict", "", aborted);
    }
    let mut with_clock = protocols.clone();
    with_clock.retain(|runs| runs.iter().all(|run| run.clock_increments.is_some()));
    if !with_clock.is_empty() {
        let a_second = |run: &RunReport| run.per_s(run.clock_increments.unwrap_or(0));
        let advanced = plots::bars(&bars_of(&with_clock, a_second), rate);
        figure(html, "Increments of the clock, a second", "", advanced);
    }
    figure(html, "Latency: 50%, 99% and 99.9%", "", plots::spans(&spans, latency));
    html.push_str("</div>\n");
}

/// Lines over every numeric dimension that has more than one value: threads, contention, sizes.
///
/// Also says how many values the longest of these dimensions has.
fn over_numbers(section: &Section<'_>) -> (String, usize) {
    let mut values_max = 0;
    let mut plotted: Vec<&str> = Vec::new();
    let mut axes = vec!["threads".to_string()];
    axes.extend(section.varying_parameters());
    let mut figures = String::new();
    for axis in &axes {
        let at = |run: &RunReport| -> Option<f64> {
            if axis == "threads" { Some(run.threads as f64) } else { run.parameters.get(axis)?.parse().ok() }
        };
        // Everything else that says how much work was done stays the same within a plot.
        let rest = |run: &RunReport| {
            let mut work = work_of(run);
            work.retain(|(name, _)| name != axis);
            (work, if axis == "threads" { 0 } else { run.threads })
        };
        for runs in grouped(section.runs.iter().copied(), rest) {
            let mut values: Vec<f64> = runs.iter().filter_map(|run| at(run)).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            values_max = values_max.max(values.len());
            if values.len() < 2 {
                continue;
            }
            if plotted.last() != Some(&axis.as_str()) {
                plotted.push(axis);
            }
            let contestants = grouped(runs.iter().copied(), |run| name_of(section, run));
            let drawn = |value: fn(&RunReport) -> f64, show: fn(f64) -> String| {
                let line = |runs: &Vec<&RunReport>| {
                    let mut points: Vec<(f64, f64)> =
                        runs.iter().filter_map(|run| Some((at(run)?, value(run)))).collect();
                    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
                    Line {
                        colour: plots::colour_of(&runs[0].protocol),
                        dashed: is_plainer(section, runs[0]),
                        points,
                    }
                };
                plots::lines(axis, &contestants.iter().map(line).collect::<Vec<_>>(), show)
            };
            let mut fixed: Vec<String> = Vec::new();
            if axis != "threads" {
                fixed.push(if runs[0].threads == 1 {
                    "1 thread".into()
                } else {
                    format!("{} threads", runs[0].threads)
                });
            }
            for name in axes[1..].iter().filter(|name| *name != axis) {
                fixed.extend(runs[0].parameters.get(name).map(|value| format!("{name} {value}")));
            }
            let fixed = fixed.join(", ");
            let title = |what: &str| format!("{what} over {axis}");
            figure(&mut figures, &title("Throughput"), &fixed, drawn(|run| run.committed_per_s, rate));
            figure(&mut figures, &title("Conflicts"), &fixed, drawn(RunReport::abort_share, share));
            figure(&mut figures, &title("Latency (99%)"), &fixed, drawn(|run| run.latency_us.p99, latency));
        }
    }
    if !figures.is_empty() {
        figures = format!(
            "<h3>Over {}</h3>\n<div class=\"plots\">\n{figures}</div>\n",
            escape(&plotted.join(" and "))
        );
    }
    (figures, values_max)
}

/// Whether a run is the plainer half of a pair in its section: what is drawn faint or dashed.
fn is_plainer(section: &Section<'_>, run: &RunReport) -> bool {
    run.protocol != BASELINE
        && PAIRS.iter().any(|(plainer, fuller, of, _)| of(run) == *plainer && section.has(*of, fuller))
}

/// Two manners of doing the same: the plainer, the fuller, where it stands, and what to say of the two.
type Pair = (&'static str, &'static str, fn(&RunReport) -> &str, &'static str);

const PAIRS: [Pair; 3] = [
    ("coarse", "fine", |run| &run.groups, "coarse (one timestamp a row) beside fine (one a column group)"),
    ("plain", "commit-time", |run| &run.updates, "plain updates beside updates at commit time"),
    ("one-by-one", "multi-get", |run| &run.access, "keys one by one beside keys together"),
];

pub(super) fn figure(html: &mut String, what: &str, of: &str, drawn: plots::Drawn) {
    let of = if of.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(of)) };
    let _ = writeln!(html, "<figure>\n<figcaption>{}{of}</figcaption>", escape(what));
    match drawn {
        Ok(svg) => {
            // The plot has a fixed size; the page lets it shrink with the window and names it to a reader.
            let label = format!(
                "<svg role=\"img\" aria-label=\"{}; all figures are in the table below\" ",
                escape(what)
            );
            html.push_str(&svg.replacen("<svg ", &label, 1));
        }
        Err(why) => {
            let _ = writeln!(
                html,
                "<p class=\"bad\">This plot could not be drawn: {}</p>",
                escape(&why.to_string())
            );
        }
    }
    html.push_str("</figure>\n");
}

fn full_table(html: &mut String, runs: &[RunReport]) {
    html.push_str("<section>\n<h2>All figures</h2>\n<div class=\"wide\">\n<table>\n<thead><tr>");
    for heading in [
        "workload",
        "preset",
        "parameters",
        "protocol",
        "groups",
        "index",
        "updates",
        "access",
        "threads",
        "seconds",
        "committed",
        "tx/s",
        "aborted",
        "retries per commit",
        "p50",
        "p99",
        "p99.9",
        "max",
        "most attempts",
        "clock increments/s",
        "irrevocable",
        "rolled back by itself",
        "allocations per commit",
        "consistent",
        "why attempts failed",
        "hottest keys",
    ] {
        let _ = write!(html, "<th scope=\"col\">{heading}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for run in runs {
        let join = |pairs: Vec<String>| pairs.join("<br>");
        let parameters =
            join(run.parameters.iter().map(|(name, value)| escape(&format!("{name} {value}"))).collect());
        let mut rules: Vec<(&String, &u64)> = run.aborts.iter().filter(|(_, n)| **n > 0).collect();
        rules.sort_by(|a, b| b.1.cmp(a.1));
        let rules = join(rules.iter().map(|(rule, n)| format!("{} {}", count(**n), escape(rule))).collect());
        let hottest = join(run.hottest.iter().take(3).map(|key| escape(key)).collect());
        let consistent = match run.consistent {
            Some(true) => "yes",
            Some(false) => "<strong class=\"bad\">no</strong>",
            None => "",
        };
        html.push_str("<tr>");
        for text in [&run.workload, &run.preset] {
            let _ = write!(html, "<td>{}</td>", escape(text));
        }
        let _ = write!(html, "<td class=\"fine\">{parameters}</td>");
        for text in [&run.protocol, &run.groups, &run.index, &run.updates, &run.access] {
            let _ = write!(html, "<td>{}</td>", escape(text));
        }
        for figure in [
            run.threads.to_string(),
            format!("{:.2}", run.seconds),
            count(run.committed),
            count(run.committed_per_s.round() as u64),
            share(run.abort_share()),
            format!("{:.3}", run.retries_per_commit),
            latency(run.latency_us.p50),
            latency(run.latency_us.p99),
            latency(run.latency_us.p999),
            latency(run.latency_us.max),
            count(run.attempts_max),
            run.clock_increments.map(|n| count(run.per_s(n).round() as u64)).unwrap_or_default(),
            run.irrevocable.map(count).unwrap_or_default(),
            count(run.user_rollbacks),
            run.allocations_per_commit.map(|n| format!("{n:.2}")).unwrap_or_default(),
        ] {
            let _ = write!(html, "<td class=\"n\">{figure}</td>");
        }
        let _ = writeln!(
            html,
            "<td>{consistent}</td><td class=\"fine\">{rules}</td><td class=\"fine\">{hottest}</td></tr>"
        );
    }
    html.push_str("</tbody>\n</table>\n</div>\n</section>\n");
}

/// The dark shade of each colour in the plots.
pub(super) fn colours() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {\n");
    for (light, dark) in plots::palette() {
        let (light, dark) = (plots::hex(light), plots::hex(dark));
        let _ =
            writeln!(css, "[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}");
    }
    css.push_str("}\n");
    css
}

/// Text that may stand in an element or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

pub(super) const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests;
