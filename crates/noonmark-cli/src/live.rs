//! The display while runs go on.
//!
//! On a terminal a contest is a race: a line for each contestant, a bar as long as its throughput beside the
//! best so far, and a footer that says how far the whole programme has got. When a contest ends its lines stay
//! and the next one begins below. Elsewhere it is one plain line for each finished run, without colours, bars
//! or escape codes.
//!
//! Everything here goes to standard error; results belong to standard output. Colours follow NO_COLOR.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use noonmark_workloads::report::{Phase, Progress, RunReport, latency, rate, share, times};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Draws no more often than this.
const FRAMES_PER_S: u8 = 12;
/// Columns of a bar, at most.
const BAR_WIDTH: usize = 20;
/// Columns of what stands beside name and bar, when a run has ended.
const FIGURES_WIDTH: usize = 53;
/// Loading and warm-up of a run that has not begun, in seconds; a guess until some runs are done.
const OVERHEAD_GUESS_S: f64 = 0.5;

/// What the display must know of a run.
pub trait Contestant {
    /// What is the same for all that compete with each other, in words.
    fn contest(&self) -> String;

    /// What it is called among those of its contest.
    fn name(&self, contest: &[&Self]) -> String;

    /// Whether the others are measured by it.
    fn is_baseline(&self) -> bool;

    /// Whether it cannot win, whatever its figures.
    fn is_hors_concours(&self) -> bool {
        false
    }

    /// How long it will be measured.
    fn seconds(&self) -> f64;

    /// Changes that.
    fn set_seconds(&mut self, seconds: f64);
}

/// Shows how the runs of a programme get along.
pub struct Live {
    race: Option<Race>,
    colours: bool,
    tty: bool,
    began: Instant,
    runs: usize,
    done: usize,
    /// Measured seconds of the whole programme, and of what is done.
    seconds: f64,
    seconds_done: f64,
    /// The name of each run, padded to the widest of its contest.
    names: Vec<String>,
    /// Columns of a bar: fewer where figures would be cut.
    bar_width: usize,
}

/// The contest that is being run.
struct Race {
    contest: String,
    screen: MultiProgress,
    footer: ProgressBar,
    lanes: Vec<Lane>,
    best_per_s: f64,
}

struct Lane {
    bar: ProgressBar,
    baseline: bool,
    /// Whether it may be the best: not if its result is wrong.
    competes: bool,
    per_s: f64,
    words: String,
}

impl Live {
    /// A display for these runs, on standard error.
    pub fn new<R: Contestant>(runs: &[R]) -> Live {
        // A terminal that cannot move its cursor is treated as none.
        let tty = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let mut contests: BTreeMap<String, Vec<&R>> = BTreeMap::new();
        for run in runs {
            contests.entry(run.contest()).or_default().push(run);
        }
        let padded = |run: &R| {
            let contest = contests.get(&run.contest()).map_or(&[][..], Vec::as_slice);
            let width = contest.iter().map(|other| other.name(contest).chars().count()).max().unwrap_or(0);
            format!("{:width$}", run.name(contest))
        };
        let names: Vec<String> = runs.iter().map(padded).collect();
        let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let columns =
            console::Term::stderr().size_checked().map_or(usize::MAX, |(_, columns)| columns.into());
        let bar_width = columns.saturating_sub(widest + FIGURES_WIDTH).min(BAR_WIDTH);
        Live {
            race: None,
            colours: tty && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            tty,
            began: Instant::now(),
            runs: runs.len(),
            done: 0,
            seconds: runs.iter().map(Contestant::seconds).sum(),
            seconds_done: 0.0,
            names,
            bar_width,
        }
    }

    /// The runs that are left will be measured for so many seconds in all.
    pub fn seconds_left(&mut self, seconds: f64) {
        self.seconds = self.seconds_done + seconds;
    }

    /// A run begins.
    pub fn begin(&mut self, spec: &impl Contestant) {
        if !self.tty {
            return;
        }
        let contest = spec.contest();
        let name = self.names.get(self.done).cloned().unwrap_or_default();
        if self.race.as_ref().is_none_or(|race| race.contest != contest) {
            let gap = if self.race.is_some() { "\n" } else { "" };
            self.end_race();
            let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(FRAMES_PER_S));
            let heading = if self.colours {
                format!("{gap}\x1b[1m{contest}\x1b[0m")
            } else {
                format!("{gap}{contest}")
            };
            let _ = screen.println(heading);
            let footer = screen.add(ProgressBar::new_spinner().with_style(plain("{spinner} {wide_msg}")));
            footer.enable_steady_tick(Duration::from_millis(150));
            let contest = contest.clone();
            self.race = Some(Race { contest, screen, footer, lanes: Vec::new(), best_per_s: 0.0 });
        }
        let footer = self.footer_words();
        let style = self.style("yellow");
        if let Some(race) = &mut self.race {
            let bar = ProgressBar::new(1000).with_style(style);
            let bar = race.screen.insert_before(&race.footer, bar);
            bar.set_prefix(name);
            let (baseline, competes) = (spec.is_baseline(), !spec.is_hors_concours());
            race.lanes.push(Lane { bar, baseline, competes, per_s: 0.0, words: "loading".into() });
            race.footer.set_message(footer);
            race.draw(None);
        }
    }

    /// The current run goes on.
    pub fn progress(&mut self, progress: &Progress) {
        let footer = self.footer_words();
        let Some(race) = &mut self.race else { return };
        race.footer.set_message(footer);
        let Some(lane) = race.lanes.last_mut() else { return };
        match progress.phase {
            Phase::Loading { done, total } => {
                let part = if total > 0 { done as f64 / total as f64 } else { 0.0 };
                lane.words = format!("loading {}", share(part.clamp(0.0, 1.0)));
            }
            Phase::WarmUp => lane.words = "warming up".into(),
            Phase::Running => {
                let attempts = progress.committed + progress.aborted;
                let aborted = if attempts > 0 { progress.aborted as f64 / attempts as f64 } else { 0.0 };
                // The mean so far is what the result will be; the first instants have none.
                lane.per_s = if progress.elapsed_s > 0.05 {
                    progress.committed as f64 / progress.elapsed_s
                } else {
                    progress.recent_per_s
                };
                let left = (progress.total_s - progress.elapsed_s).max(0.0);
                lane.words = format!("{:>6} aborted  {left:.1} s left", share(aborted));
            }
        }
        race.draw(None);
    }

    /// The current run has ended.
    pub fn end(&mut self, spec: &impl Contestant, report: &RunReport) {
        let name = self.names.get(self.done).map_or("", |name| name.trim_end());
        self.done += 1;
        self.seconds_done += spec.seconds();
        let verdict = if report.consistent == Some(false) { "   INCONSISTENT" } else { "" };
        if !self.tty {
            // A reader that has gone away is no reason to stop measuring.
            let _ = writeln!(
                io::stderr(),
                "[{}/{}] {}: {} {} tx/s, {} aborted, p50 {}, p99 {}{verdict}",
                self.done,
                self.runs,
                spec.contest(),
                name,
                rate(report.committed_per_s),
                share(report.abort_share()),
                latency(report.latency_us.p50),
                latency(report.latency_us.p99),
            );
            return;
        }
        let colours = (self.style("cyan"), self.style("green"));
        let Some(race) = &mut self.race else { return };
        if let Some(lane) = race.lanes.last_mut() {
            lane.per_s = report.committed_per_s;
            lane.competes &= report.consistent != Some(false);
            lane.words = format!(
                "{:>6} aborted  p99 {}{verdict}",
                share(report.abort_share()),
                latency(report.latency_us.p99)
            );
        }
        race.draw(Some(colours));
    }

    /// All runs have ended, or one has failed: leaves the last contest standing.
    pub fn finish(&mut self) {
        if self.race.is_some() {
            self.end_race();
            let _ = writeln!(io::stderr());
        }
    }

    fn end_race(&mut self) {
        let Some(race) = self.race.take() else { return };
        race.footer.finish_and_clear();
        for lane in &race.lanes {
            lane.bar.abandon();
        }
    }

    fn footer_words(&self) -> String {
        let overhead = if self.done > 0 {
            (self.began.elapsed().as_secs_f64() - self.seconds_done).max(0.0) / self.done as f64
        } else {
            OVERHEAD_GUESS_S
        };
        let whole = self.seconds + overhead * self.runs as f64;
        let left = (whole - self.began.elapsed().as_secs_f64()).max(0.0).ceil();
        let left = if left >= 90.0 { format!("{:.0} min", left / 60.0) } else { format!("{left:.0} s") };
        format!("run {} of {}, about {left} left", (self.done + 1).min(self.runs), self.runs)
    }

    fn style(&self, colour: &str) -> ProgressStyle {
        let colour = if self.colours { format!(".{colour}") } else { String::new() };
        plain(&format!("  {{prefix}} {{bar:{}{colour}}} {{wide_msg}}", self.bar_width))
            .progress_chars("█▉▊▋▌▍▎▏ ")
    }
}

impl Race {
    /// Redraws all lanes beside the best so far; at the end of a run also recolours them (rest, best).
    fn draw(&mut self, colours: Option<(ProgressStyle, ProgressStyle)>) {
        let competing = self.lanes.iter().filter(|lane| lane.competes);
        self.best_per_s = competing.map(|lane| lane.per_s).fold(0.0, f64::max);
        let baseline = self.lanes.iter().find(|lane| lane.baseline).map(|lane| lane.per_s);
        for lane in &self.lanes {
            let part = if self.best_per_s > 0.0 { (lane.per_s / self.best_per_s).min(1.0) } else { 0.0 };
            let best = lane.competes && lane.per_s > 0.0 && lane.per_s == self.best_per_s;
            if let Some((rest, first)) = &colours {
                lane.bar.set_style(if best { first.clone() } else { rest.clone() });
            }
            let times = match baseline {
                Some(of) if of > 0.0 && lane.per_s > 0.0 && !lane.baseline => {
                    format!("{:>6}×", times(lane.per_s / of))
                }
                _ => "       ".into(),
            };
            let figure = if lane.per_s > 0.0 { format!("{} tx/s", rate(lane.per_s)) } else { String::new() };
            lane.bar.set_position((part * 1000.0) as u64);
            lane.bar.set_message(format!(
                "{} {figure:>10} {times} {}",
                if best { '★' } else { ' ' },
                lane.words
            ));
        }
    }
}

/// A style from a template of this file; should one be wrong, indicatif's own bar stands in.
fn plain(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
