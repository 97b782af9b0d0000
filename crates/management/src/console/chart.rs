//! Lines over time, drawn by the server: how figures moved within the last hour or day. Each chart
//! is there as a table, too, and says in words what it shows.

use maud::{Markup, html};

use super::figure;
use crate::history::{Point, Span};
use crate::quantity;

/// The area of the lines, in the units of the drawing, and the room for the numbers beside it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 10.0;
/// Rows of the table.
const ROWS: usize = 12;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Messages per second.
    Rate,
    /// Messages.
    Count,
}

impl Unit {
    fn show(self, value: f64) -> Markup {
        match self {
            Self::Rate => figure::rate(value),
            Self::Count => figure::count(value.max(0.0).round() as u64),
        }
    }
}

/// A line: its name, and its points from old to new.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<Point>,
}

/// The charts of the last hour, and below them those of the last day.
pub(super) fn spans(charts: impl Fn(Span) -> Markup) -> Markup {
    html! {
        h2 { "Last hour" }
        (charts(Span::Hour))
        h2 { "Last 24 hours" }
        (charts(Span::Day))
    }
}

/// A chart of these lines, which have points at the same moments.
pub(super) fn chart(title: &str, unit: Unit, lines: &[Line]) -> Markup {
    let moments: Vec<u64> =
        lines.first().map(|line| line.points.iter().map(|point| point.at).collect()).unwrap_or_default();
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return html! {} };
    if moments.len() < 2 {
        return html! {
            figure .chart {
                figcaption { strong { (title) } }
                p .hint { "Figures of more than one moment come in some seconds, and of a day after two minutes." }
            }
        };
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.value).fold(0.0, f64::max);
    let top = ceiling(most);
    let x = |at: u64| LEFT + WIDTH * (at - first) as f64 / (last - first).max(1) as f64;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value.clamp(0.0, top) / top);
    let span = quantity::span(std::time::Duration::from_millis(last - first));
    html! {
        figure .chart {
            figcaption {
                strong { (title) } " in the last " (span)
                @for (number, line) in lines.iter().enumerate() {
                    span class=(format!("key line-{number}")) {
                        (line.name) " " @if let Some(point) = line.points.last() { (unit.show(point.value)) }
                    }
                }
            }
            svg viewBox=(format!("0 0 {} {}", LEFT + WIDTH + 8.0, TOP + HEIGHT + 26.0)) role="img"
                aria-label=(format!("{title} in the last {span}; the table below has the figures")) {
                @for part in [0.0, 0.5, 1.0] {
                    line .grid x1=(LEFT) x2=(LEFT + WIDTH) y1=(round(y(top * part))) y2=(round(y(top * part))) {}
                    text x=(LEFT - 8.0) y=(round(y(top * part) + 4.0)) text-anchor="end" { (plain(&unit.show(top * part))) }
                }
                text x=(LEFT) y=(TOP + HEIGHT + 20.0) { (span) " ago" }
                text x=(LEFT + WIDTH) y=(TOP + HEIGHT + 20.0) text-anchor="end" { "now" }
                @for (number, line) in lines.iter().enumerate() {
                    polyline class=(format!("line-{number}")) points=(path(&line.points, x, y)) {}
                }
            }
            (as_table(title, unit, lines, &moments))
        }
    }
}

fn path(points: &[Point], x: impl Fn(u64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let points = points.iter().map(|point| format!("{},{}", round(x(point.at)), round(y(point.value))));
    points.collect::<Vec<_>>().join(" ")
}

/// A tenth of a unit is less than anybody sees.
fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// The least of 1, 2, 4, 6 and 8 times a power of ten that is at least so much, and at least 2: so
/// half of it is a whole number, too.
fn ceiling(most: f64) -> f64 {
    if most <= 2.0 {
        return 2.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|step| step * power).into_iter().find(|top| *top >= most).unwrap_or(most)
}

/// The text of a figure without its markup, which a drawing can't have.
fn plain(figure: &Markup) -> String {
    let text = figure
        .0
        .rsplit_once("</span>")
        .map_or(figure.0.as_str(), |(before, after)| if after.is_empty() { before } else { figure.0.as_str() });
    let inner = text.rsplit_once('>').map_or(text, |(_, inner)| inner);
    inner.replace("&lt;", "<")
}

fn as_table(title: &str, unit: Unit, lines: &[Line], moments: &[u64]) -> Markup {
    let step = moments.len().div_ceil(ROWS);
    let newest = moments.last().copied().unwrap_or_default();
    html! {
        details {
            summary { (title) " as a table" }
            div .scroll {
                table {
                    thead { tr { th scope="col" { "Before" } @for line in lines { th .number scope="col" { (line.name) } } } }
                    tbody {
                        @for index in (0..moments.len()).rev().step_by(step) {
                            tr {
                                th scope="row" { (quantity::span(std::time::Duration::from_millis(newest - moments[index]))) }
                                @for line in lines {
                                    td .number data-label=(line.name) {
                                        @if let Some(point) = line.points.get(index) { (unit.show(point.value)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &'static str, values: &[f64]) -> Line {
        let points = values.iter().enumerate().map(|(index, value)| Point { at: 5000 * index as u64, value: *value });
        Line { name, points: points.collect() }
    }

    #[test]
    fn the_axis_ends_at_a_round_number_above_all_lines() {
        for (most, top) in [
            (0.0, 2.0),
            (1.0, 2.0),
            (2.1, 4.0),
            (5.0, 6.0),
            (408.0, 600.0),
            (99.0, 100.0),
            (100.0, 100.0),
            (926.0, 1000.0),
        ] {
            assert_eq!(ceiling(most), top, "{most}");
        }
    }

    #[test]
    fn a_chart_says_what_it_shows_and_has_its_figures_in_a_table() {
        let text = chart("Traffic", Unit::Rate, &[line("in", &[0.0, 50.0, 100.0]), line("out", &[0.0, 0.0, 20.0])]).0;
        for said in
            ["Traffic</strong> in the last 10 s", "in 100/s", "out 20/s", ">50/s</text>", "10 s ago", "aria-label"]
        {
            assert!(text.contains(said), "{said} is missing in {text}");
        }
        assert!(text.contains("points=\"74,190 524,100 974,10\""), "{text}");
        assert_eq!(text.matches("scope=\"row\"").count(), 3);
    }

    #[test]
    fn what_began_just_now_is_told_in_words() {
        assert!(chart("Traffic", Unit::Count, &[line("in", &[1.0])]).0.contains("come in some seconds"));
        assert_eq!(chart("Traffic", Unit::Count, &[line("in", &[])]).0, "");
    }
}
