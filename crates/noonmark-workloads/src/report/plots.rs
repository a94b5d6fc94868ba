//! One plot as inline SVG, drawn with `plotters` and coloured by the page's style sheet.
//!
//! Every colour used here is one of [`palette`]'s; the page maps each to a light and a dark shade by the
//! attribute that holds it, so the plots follow the reader's colour scheme without a script. Bars run
//! sideways, because protocols have long names. Of a pair
//! (coarse and fine, plain and at commit time) the plainer half is drawn faint or dashed: the hue is the
//! protocol's, everywhere on the page.
//!
//! Drawing into a string cannot fail but by a bug in the plot's geometry; such a failure is returned, and the
//! page says that the plot could not be drawn, rather than taking the figures down with it.

use super::compare::ENGINE;
use crate::stm;
use noonmark::Protocol;
use plotters::coord::ranged1d::{NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

/// A plot's SVG, or why there is none.
pub(super) type Drawn = Result<String, Box<dyn Error>>;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(0x33, 0x3A, 0x45);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xDF, 0xE3, 0xE8);

/// Height of a bar with its share of air.
const ROW: f64 = 18.0;
const WIDTH: u32 = 440;
const FONT: &str = "system-ui, sans-serif";
const TEXT: u32 = 15;

/// A colour for each protocol: name, shade on light ground, shade on dark ground. One that is not here is given
/// one ([`further_shades`]).
///
/// Told apart by lightness as well as by hue, for readers who see few colours.
pub(super) const PROTOCOLS: [(&str, RGBColor, RGBColor); 10] = [
    ("occ", RGBColor(0x1F, 0x6F, 0xC4), RGBColor(0x6C, 0xB2, 0xF5)),
    ("tictoc", RGBColor(0xC8, 0x3E, 0x4D), RGBColor(0xF2, 0x86, 0x8F)),
    ("two-phase-wait-die", RGBColor(0x1E, 0x8A, 0x5A), RGBColor(0x5F, 0xCF, 0x9B)),
    ("two-phase-no-wait", RGBColor(0x7D, 0xA8, 0x2A), RGBColor(0xB7, 0xDB, 0x6B)),
    ("two-phase-wound-wait", RGBColor(0x0F, 0x6B, 0x75), RGBColor(0x49, 0xB7, 0xC4)),
    ("swiss", RGBColor(0x7E, 0x4F, 0xB3), RGBColor(0xBE, 0x98, 0xEA)),
    ("adaptive", RGBColor(0xD9, 0x82, 0x1B), RGBColor(0xF5, 0xB8, 0x5F)),
    ("mutex", RGBColor(0x77, 0x7F, 0x8B), RGBColor(0xA5, 0xAD, 0xB9)),
    ("plain", RGBColor(0x1C, 0x20, 0x28), RGBColor(0xF0, 0xF3, 0xF6)),
    (ENGINE, RGBColor(0x10, 0x2A, 0x43), RGBColor(0xD9, 0xE2, 0xEC)),
];
/// The shades of a protocol without an entry of its own: the `further`th has a hue of its own, between those
/// of the ones before, and each three in turn are one lighter and one darker than the first.
fn further_shades(further: usize) -> (RGBColor, RGBColor) {
    // Turned by the golden angle each time, from a hue that none of the above has.
    let hue = (310.0 + 137.508 * further as f64) % 360.0 / 360.0;
    let shade = |lightness| {
        let (r, g, b) = HSLColor(hue, 0.45, lightness).rgb();
        RGBColor(r, g, b)
    };
    let lighter = [0.0, -0.14, 0.12][further % 3];
    (shade(0.45 + lighter), shade(0.7 + lighter))
}

/// Lines of reproductions that are a protocol's with something chosen.
const CHOSEN: [&str; 10] = [
    "sundial, hybrid",
    "sundial, always reuse",
    "sundial, always request",
    "sundial, as printed",
    "dynamic, frozen without end",
    "tictoc, one set",
    "tictoc, two sets",
    "tictoc, 1 worker",
    "tictoc, 2 workers",
    "tictoc, 3 workers",
];

/// How many clients a cluster has: so many, or more than half as many.
const CLIENTS: [&str; 9] = [
    "1 client",
    "2 clients",
    "4 clients",
    "8 clients",
    "16 clients",
    "32 clients",
    "64 clients",
    "128 clients",
    "256 clients",
];

/// Of so many clients, the entry of [`CLIENTS`].
fn of_clients(name: &str) -> Option<&'static str> {
    let count: usize = name.strip_suffix(" clients")?.parse().ok()?;
    let doublings = count.checked_next_power_of_two()?.ilog2() as usize;
    Some(CLIENTS[doublings.min(CLIENTS.len() - 1)])
}

/// All protocols in the order of their entries; after these come those that the engine has besides, who competes in the benchmarks of
/// the transactional memory, what reproductions choose, and the clients of clusters.
fn shades() -> impl Iterator<Item = (&'static str, RGBColor, RGBColor)> {
    let listed = |name: &str| PROTOCOLS.iter().any(|(known, _, _)| *known == name);
    let protocols = Protocol::ALL.iter().map(|protocol| protocol.name());
    let contenders = stm::Contender::ALL.iter().map(|contender| contender.name()).chain(stm::RIVALS);
    let further = protocols.chain(contenders).chain(CHOSEN).chain(CLIENTS).filter(move |name| !listed(name));
    let further = further.enumerate().map(|(number, name)| {
        let (light, dark) = further_shades(number);
        (name, light, dark)
    });
    PROTOCOLS.into_iter().chain(further)
}

/// All colours that can occur in a plot: on light ground (as drawn), and on dark.
pub(super) fn palette() -> Vec<(RGBColor, RGBColor)> {
    let mut all = vec![(INK, RGBColor(0xC9, 0xD1, 0xDB)), (GRID, RGBColor(0x2E, 0x36, 0x41))];
    all.extend(shades().map(|(_, light, dark)| (light, dark)));
    all
}

/// The colour that a protocol is drawn in.
pub(super) fn colour_of(protocol: &str) -> RGBColor {
    let protocol = of_clients(protocol).unwrap_or(protocol);
    shades().find(|(name, _, _)| *name == protocol).map_or(INK, |(_, light, _)| light)
}

/// A colour as the SVG writer spells it.
pub(super) fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// One bar.
pub(super) struct Bar {
    /// What it is of, at its left.
    pub label: String,
    pub colour: RGBColor,
    /// Drawn faint: the plainer half of a pair.
    pub faint: bool,
    pub value: f64,
}

/// Bars running sideways, grouped: a little air stands between two groups.
pub(super) fn bars(groups: &[Vec<Bar>], show: fn(f64) -> String) -> Drawn {
    let rows: usize = groups.iter().map(Vec::len).sum();
    let air = 0.5;
    let height_in_rows = rows as f64 + air * groups.len() as f64;
    let labels = groups.iter().flatten().map(|bar| bar.label.as_str());
    let largest = groups.iter().flatten().map(|bar| bar.value).fold(0.0, f64::max);
    // Room at the right for the figure beside the longest bar.
    let right = if largest > 0.0 { largest * 1.22 } else { 1.0 };

    let mut svg = String::new();
    {
        let height = (height_in_rows * ROW) as u32 + 36;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_right(14)
            .margin_top(4)
            .x_label_area_size(28)
            .y_label_area_size(label_width(labels))
            .build_cartesian_2d(0.0..right, height_in_rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(5)
            .x_label_formatter(&|value| show(*value))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_label_style(text(HPos::Center, VPos::Top))
            .draw()?;

        let mut top = air / 2.0;
        for group in groups {
            for bar in group {
                let (from, to) = (top + 0.09, top + 0.91);
                let fill = bar.colour.mix(if bar.faint { 0.45 } else { 1.0 }).filled();
                chart.draw_series([Rectangle::new([(0.0, from), (bar.value, to)], fill)])?;
                let (x, y) = chart.backend_coord(&(bar.value, top + 0.5));
                root.draw(&Text::new(show(bar.value), (x + 5, y), text(HPos::Left, VPos::Center)))?;
                let (x, _) = chart.backend_coord(&(0.0, top));
                root.draw(&Text::new(bar.label.clone(), (x - 8, y), text(HPos::Right, VPos::Center)))?;
                top += 1.0;
            }
            top += air;
        }
        root.present()?;
    }
    Ok(svg)
}

/// What a latency plot shows of one run.
pub(super) struct Span {
    pub label: String,
    pub colour: RGBColor,
    pub faint: bool,
    /// Half of the transactions, 99 of 100 and 999 of 1000 were at least as fast.
    pub quantiles: [f64; 3],
}

/// Latencies on a logarithmic axis: a line from the median to the slowest thousandth, a dot for each quantile,
/// growing towards the median.
pub(super) fn spans(groups: &[Vec<Span>], show: fn(f64) -> String) -> Drawn {
    let rows: usize = groups.iter().map(Vec::len).sum();
    let air = 0.5;
    let height_in_rows = rows as f64 + air * groups.len() as f64;
    let all = || groups.iter().flatten().flat_map(|span| span.quantiles).filter(|us| *us > 0.0);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let (low, high) = if low.is_finite() { (low / 1.5, high * 1.5) } else { (1.0, 10.0) };

    let mut svg = String::new();
    {
        let height = (height_in_rows * ROW) as u32 + 36;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_right(26)
            .margin_top(4)
            .x_label_area_size(28)
            .y_label_area_size(label_width(groups.iter().flatten().map(|span| span.label.as_str())))
            .build_cartesian_2d(Decades::new(low, high), height_in_rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(5)
            .x_label_formatter(&|log| {
                // Round figures need no digits behind the point.
                show(10f64.powf(*log)).replace(".00 ", " ").replace(".0 ", " ")
            })
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_label_style(text(HPos::Center, VPos::Top))
            .draw()?;
        let mut top = air / 2.0;
        for group in groups {
            for span in group {
                let style = span.colour.mix(if span.faint { 0.45 } else { 1.0 });
                let y = top + 0.5;
                let at: Vec<(f64, f64)> =
                    span.quantiles.iter().filter(|us| **us > 0.0).map(|us| (us.log10(), y)).collect();
                chart.draw_series([PathElement::new(at.clone(), style.stroke_width(2))])?;
                for (point, radius) in at.iter().zip([6, 4, 3]) {
                    chart.draw_series([Circle::new(*point, radius, style.filled())])?;
                }
                let x = chart.plotting_area().get_x_axis_pixel_range().start;
                let (_, y) = chart.backend_coord(&(low.log10(), y));
                root.draw(&Text::new(span.label.clone(), (x - 8, y), text(HPos::Right, VPos::Center)))?;
                top += 1.0;
            }
            top += air;
        }
        root.present()?;
    }
    Ok(svg)
}

/// One line over a numeric axis.
pub(super) struct Line {
    pub colour: RGBColor,
    /// Drawn dashed: the plainer half of a pair.
    pub dashed: bool,
    pub points: Vec<(f64, f64)>,
}

/// Lines over `x`, which has a label at each of its values and nowhere else.
pub(super) fn lines(x: &str, lines: &[Line], show: fn(f64) -> String) -> Drawn {
    let mut at: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
    at.sort_unstable_by(f64::total_cmp);
    at.dedup();
    let (Some(first), Some(last)) = (at.first().copied(), at.last().copied()) else {
        return Err("nothing to draw".into());
    };
    let pad = if last > first { (last - first) * 0.06 } else { 0.5 };
    let highest = lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y)).fold(0.0, f64::max);
    let highest = if highest > 0.0 { highest * 1.08 } else { 1.0 };

    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 280)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_right(16)
            .margin_top(10)
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(Marks { from: first - pad, to: last + pad, at }, 0.0..highest)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_desc(x)
            .axis_desc_style(text(HPos::Center, VPos::Top))
            .y_labels(6)
            .y_label_formatter(&|value| show(*value))
            .x_label_formatter(&|value| format!("{value}"))
            .x_label_style(text(HPos::Center, VPos::Top))
            .y_label_style(text(HPos::Right, VPos::Center))
            .draw()?;
        for line in lines {
            let style = line.colour.stroke_width(2);
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(line.points.iter().copied(), 6, 5, style))?;
            } else {
                chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            }
            let dots = line.points.iter().map(|point| {
                let fill = if line.dashed { line.colour.stroke_width(2) } else { line.colour.filled() };
                Circle::new(*point, 4, fill)
            });
            chart.draw_series(dots)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn text(horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    TextStyle::from((FONT, TEXT)).color(&INK).pos(Pos::new(horizontal, vertical))
}

/// Room for the longest label; without font metrics, by an average letter.
fn label_width<'a>(labels: impl Iterator<Item = &'a str>) -> u32 {
    labels.map(|label| label.chars().count() as u32).max().unwrap_or(0) * 13 / 2 + 18
}

/// An axis in powers of ten whose coordinate is the logarithm, with labels at 1 of each power, and at more when
/// it spans few of them.
struct Decades {
    from: f64,
    to: f64,
}

impl Decades {
    /// Both ends above zero.
    fn new(from: f64, to: f64) -> Decades {
        Decades { from: from.log10(), to: to.log10() }
    }
}

impl Ranged for Decades {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        scaled(*value, self.from, self.to, limit)
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let steps: &[f64] = match self.to - self.from {
            decades if decades < 1.2 => &[1.0, 2.0, 5.0],
            decades if decades < 2.2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let powers = self.from.floor() as i32..=self.to.ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step.log10() + f64::from(power)));
        all.filter(|log| (self.from..=self.to).contains(log)).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Decades {
    fn format(value: &f64) -> String {
        super::latency(10f64.powf(*value))
    }
}

/// A linear axis with labels at given values.
struct Marks {
    from: f64,
    to: f64,
    at: Vec<f64>,
}

impl Ranged for Marks {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        scaled(*value, self.from, self.to, limit)
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.at.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Marks {
    fn format(value: &f64) -> String {
        format!("{value}")
    }
}

fn scaled(value: f64, from: f64, to: f64, limit: (i32, i32)) -> i32 {
    let share = if to > from { (value - from) / (to - from) } else { 0.5 };
    limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_a_colour_of_its_own() {
        let mut drawn: Vec<String> = palette().into_iter().map(|(light, _)| hex(light)).collect();
        drawn.extend((0..60).map(|further| hex(further_shades(further).0)));
        drawn.sort();
        let all = drawn.len();
        // The first of the further ones are in the palette already.
        drawn.dedup();
        let further = shades().count() - PROTOCOLS.len();
        assert!(further >= stm::Contender::ALL.len());
        assert_eq!(drawn.len() + further, all);
        assert_eq!(of_clients("16 clients"), Some("16 clients"));
        assert_eq!((of_clients("5 clients"), of_clients("1 client")), (Some("8 clients"), None));
        assert_eq!(of_clients("9999 clients"), Some("256 clients"));
        for drawn in ["engine", "1 client", "300 clients"] {
            assert_ne!(colour_of(drawn), INK, "{drawn}");
        }
    }
}
