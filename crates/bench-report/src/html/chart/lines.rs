//! Lines over a variable: a line for each target with the band of its interval, named at its end.

use maud::{Markup, html};

use super::super::book::Look;
use super::super::quantity::short;
use super::scale::{Kind, Scale};
use super::{Caption, Filling, WIDTH, at, drawing, marker, room, spread_out};

/// Room for numbers on the left, and the most that names on the right may take.
const LEFT: f64 = 46.0;
const NAMES: f64 = 160.0;
/// Between the end of the axis and the names.
const LEADER: f64 = 11.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 236.0;
const HEIGHT: f64 = 276.0;
/// Lines of text are this far apart.
const LINE: f64 = 14.0;
/// A mark of the horizontal axis needs this much room.
const TICK_ROOM: f64 = 34.0;
/// From this many points on, they have no markers.
const CROWD: usize = 40;

/// One line.
#[derive(Debug, Clone)]
pub(in super::super) struct Line {
    pub(in super::super) name: String,
    pub(in super::super) look: Look,
    /// Ascending by `x`.
    pub(in super::super) points: Vec<Point>,
}

/// One point of a line.
#[derive(Debug, Clone)]
pub(in super::super) struct Point {
    pub(in super::super) x: f64,
    pub(in super::super) y: f64,
    pub(in super::super) band: Option<(f64, f64)>,
    /// What it says when pointed at.
    pub(in super::super) title: String,
    /// It can't be relied on.
    pub(in super::super) doubtful: bool,
}

/// An axis as it was asked for.
#[derive(Debug, Clone)]
pub(in super::super) struct Axis {
    /// What stands at it, with the unit.
    pub(in super::super) label: String,
    pub(in super::super) kind: Kind,
    /// How its numbers are written.
    pub(in super::super) number: fn(f64) -> String,
}

/// Where the marks of the horizontal axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Marks {
    /// At the values that were measured.
    Values,
    /// At round numbers.
    Round,
}

/// Draws the lines.
pub(in super::super) fn draw(caption: &Caption, x: &Axis, y: &Axis, marks: Marks, lines: &[Line]) -> Markup {
    let points = || lines.iter().flat_map(|line| &line.points);
    let names = lines.iter().map(|line| room(&line.name)).fold(0.0, f64::max);
    let right = WIDTH - LEADER - names.min(NAMES);
    let across = Scale::over(points().map(|point| point.x), x.kind, LEFT, right);
    let ends = points().flat_map(|point| [point.y, point.band.map_or(point.y, |band| band.1)]);
    let up = if y.kind == Kind::Logarithmic {
        let lower = points().map(|point| point.band.map_or(point.y, |band| band.0));
        Scale::over(ends.chain(lower), y.kind, BOTTOM, TOP)
    } else {
        Scale::from_zero(ends, BOTTOM, TOP)
    };
    let places: Vec<f64> = lines.iter().map(|line| line.points.last().map_or(BOTTOM, |last| up.at(last.y))).collect();
    let labels = spread_out(&places, LINE, TOP, BOTTOM);
    let inside = html! {
        (grid((&across, right), &up, x, y, &ticks(points().map(|point| point.x), &across, marks)))
        @for line in lines { (band(line, &across, &up)) }
        @for line in lines { (path(line, &across, &up)) }
        @for ((line, place), label) in lines.iter().zip(places).zip(labels) {
            @if let Some(last) = line.points.last() {
                path class="leader" d=(format!("M{} {}L{} {}", at(across.at(last.x) + 5.0), at(place), at(right + LEADER - 3.0), at(label))) {}
                text class=(format!("{} name", line.look.class)) x=(at(right + LEADER)) y=(at(label + 4.0)) { (line.name) }
            }
        }
    };
    drawing(caption, HEIGHT, &inside)
}

/// The marks of the horizontal axis that have room beside each other.
fn ticks(values: impl Iterator<Item = f64>, across: &Scale, marks: Marks) -> Vec<f64> {
    let mut all = match marks {
        Marks::Values => values.collect(),
        Marks::Round => across.ticks(),
    };
    all.sort_by(f64::total_cmp);
    all.dedup();
    let mut kept: Vec<f64> = Vec::new();
    // The last value is the most telling one, so room is given from the right.
    for value in all.into_iter().rev() {
        if kept.last().is_none_or(|right| across.at(*right) - across.at(value) >= TICK_ROOM) {
            kept.push(value);
        }
    }
    kept
}

fn grid((across, right): (&Scale, f64), up: &Scale, x: &Axis, y: &Axis, marks: &[f64]) -> Markup {
    html! {
        text class="axis" x="4" y="12" { (y.label) @if y.kind == Kind::Logarithmic { " (logarithmic)" } }
        @for tick in up.ticks() {
            path class="grid" d=(format!("M{} {}H{}", at(LEFT), at(up.at(tick)), at(right))) {}
            text class="tick end" x=(at(LEFT - 6.0)) y=(at(up.at(tick) + 4.0)) { ((y.number)(tick)) }
        }
        @for mark in marks {
            path class="grid" d=(format!("M{} {}v5", at(across.at(*mark)), at(BOTTOM))) {}
            text class="tick mid" x=(at(across.at(*mark))) y=(at(BOTTOM + 18.0)) { ((x.number)(*mark)) }
        }
        text class="axis mid" x=(at((LEFT + right) / 2.0)) y=(at(HEIGHT - 6.0)) {
            (x.label) @if x.kind == Kind::Logarithmic { " (logarithmic)" }
        }
    }
}

/// The intervals of a line's points as one area.
fn band(line: &Line, across: &Scale, up: &Scale) -> Markup {
    let banded: Vec<(f64, (f64, f64))> = line.points.iter().filter_map(|point| Some((point.x, point.band?))).collect();
    if banded.len() < 2 {
        return html! {};
    }
    let place = |x: f64, y: f64| format!("{} {}", at(across.at(x)), at(up.at(y)));
    let upper = banded.iter().map(|(x, (_, high))| place(*x, *high));
    let lower = banded.iter().rev().map(|(x, (low, _))| place(*x, *low));
    let outline: Vec<String> = upper.chain(lower).collect();
    html! { path class=(format!("{} band", line.look.class)) d=(format!("M{}Z", outline.join("L"))) {} }
}

fn path(line: &Line, across: &Scale, up: &Scale) -> Markup {
    let corners: Vec<String> =
        line.points.iter().map(|point| format!("{} {}", at(across.at(point.x)), at(up.at(point.y)))).collect();
    let class = format!("{} line{}", line.look.class, if line.look.dashed { " dashed" } else { "" });
    html! {
        @if corners.len() > 1 { path class=(class) d=(format!("M{}", corners.join("L"))) {} }
        @if corners.len() < CROWD {
            @for point in &line.points {
                (marker(across.at(point.x), up.at(point.y), &line.look, if point.doubtful { Filling::Hollow } else { Filling::Full }, &point.title))
            }
        }
    }
}

/// The usual vertical axis.
pub(in super::super) fn upwards(label: String, kind: Kind) -> Axis {
    Axis { label, kind, number: short }
}
