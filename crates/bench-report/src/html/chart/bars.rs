//! Horizontal bars in groups: a group for each cell, a bar for each target, its figure at the bar's
//! end. Where the axis is logarithmic there is no zero to begin a bar at, so that dots stand
//! instead of bars.

use maud::{Markup, html};

use super::super::book::Look;
use super::super::quantity::short;
use super::scale::{Kind, Scale};
use super::{Caption, Filling, WIDTH, at, drawing, marker};

/// Places of the edges: names on the left, figures on the right.
const LEFT: f64 = 92.0;
const RIGHT: f64 = WIDTH - 112.0;
const TOP: f64 = 20.0;
/// Heights of a group's heading, of a bar with its gap, and of the gap between groups.
const HEADING: f64 = 20.0;
const ROW: f64 = 19.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;
/// Names longer than this are cut; they are whole in the table under the figure.
const NAME: usize = 14;
const HEADING_LENGTH: usize = 66;
const REASON: usize = 52;

/// The bars of one cell.
#[derive(Debug, Clone)]
pub(in super::super) struct Group {
    pub(in super::super) heading: String,
    pub(in super::super) bars: Vec<Bar>,
}

/// One bar, or why there is none.
#[derive(Debug, Clone)]
pub(in super::super) struct Bar {
    pub(in super::super) name: String,
    pub(in super::super) look: Look,
    pub(in super::super) length: Result<Length, String>,
}

/// A figure.
#[derive(Debug, Clone)]
pub(in super::super) struct Length {
    pub(in super::super) value: f64,
    pub(in super::super) interval: Option<(f64, f64)>,
    /// What stands at the end of the bar.
    pub(in super::super) text: String,
    /// What it says when pointed at.
    pub(in super::super) title: String,
    /// It can't be relied on.
    pub(in super::super) doubtful: bool,
    /// Messages were harmed: the figure is struck through.
    pub(in super::super) struck: bool,
}

/// Draws the groups under one axis over `values`, which may be more than those of the groups so
/// that figures beside each other have the same.
pub(in super::super) fn draw(caption: &Caption, unit: &str, kind: Kind, values: &[f64], groups: &[Group]) -> Markup {
    let across = match kind {
        Kind::Logarithmic => Scale::over(values.iter().copied(), kind, LEFT, RIGHT),
        Kind::Linear => Scale::from_zero(values.iter().copied(), LEFT, RIGHT),
    };
    let heights = groups.iter().map(|group| HEADING + group.bars.len() as f64 * ROW + GAP);
    let bottom = TOP + heights.sum::<f64>();
    let mut top = TOP;
    let placed: Vec<(f64, &Group)> = groups
        .iter()
        .map(|group| {
            let here = top;
            top += HEADING + group.bars.len() as f64 * ROW + GAP;
            (here, group)
        })
        .collect();
    let inside = html! {
        @for tick in across.ticks() {
            path class="grid" d=(format!("M{} {}V{}", at(across.at(tick)), at(TOP - 4.0), at(bottom))) {}
            text class="tick mid" x=(at(across.at(tick))) y="11" { (short(tick)) }
        }
        text class="axis" x=(at(RIGHT + 8.0)) y="11" { (unit) @if kind == Kind::Logarithmic { " (log)" } }
        @for (top, group) in placed {
            text class="heading" x="0" y=(at(top + 12.0)) { title { (group.heading) } (cut(&group.heading, HEADING_LENGTH)) }
            @for (index, bar) in group.bars.iter().enumerate() {
                (one(bar, &across, top + HEADING + index as f64 * ROW))
            }
        }
    };
    drawing(caption, bottom, &inside)
}

fn one(bar: &Bar, across: &Scale, top: f64) -> Markup {
    let middle = top + BAR / 2.0;
    html! {
        text class=(format!("{} name end", bar.look.class)) x=(at(LEFT - 6.0)) y=(at(middle + 4.0)) { (cut(&bar.name, NAME)) }
        @match &bar.length {
            Err(reason) => {
                text class="absent" x=(at(LEFT + 4.0)) y=(at(middle + 4.0)) { title { (reason) } (cut(reason, REASON)) }
            }
            Ok(length) => (filled(bar, length, across, top)),
        }
    }
}

fn filled(bar: &Bar, length: &Length, across: &Scale, top: f64) -> Markup {
    let (middle, end) = (top + BAR / 2.0, across.at(length.value));
    let (class, text) = (&bar.look.class, if length.struck { "value struck" } else { "value" });
    let shape = if length.doubtful { "bar hollow" } else { "bar" };
    let right = length.interval.map_or(end, |(_, high)| across.at(high).max(end));
    let width = at((end - LEFT).max(1.0));
    let filling = if length.doubtful { Filling::Hollow } else { Filling::Full };
    html! {
        @if across.is_logarithmic() {
            path class=(format!("{class} stem")) d=(format!("M{} {}H{}", at(LEFT), at(middle), at(end))) {}
        } @else {
            rect class=(format!("{class} {shape}")) x=(at(LEFT)) y=(at(top)) width=(width) height=(at(BAR)) {
                title { (length.title) }
            }
        }
        @if let Some((low, high)) = length.interval { (whisker(across.at(low), across.at(high), middle)) }
        @if across.is_logarithmic() { (marker(end, middle, &bar.look, filling, &length.title)) }
        text class=(text) x=(at(right + 6.0)) y=(at(middle + 4.0)) { (length.text) }
    }
}

/// An interval as a line with a stop at each end.
fn whisker(low: f64, high: f64, middle: f64) -> Markup {
    let (low, high, up) = (at(low), at(high), at(middle - 3.0));
    html! { path class="whisker" d=(format!("M{low} {}H{high}M{low} {up}v6M{high} {up}v6", at(middle))) {} }
}

/// The beginning of a text that is too long, with an ellipsis.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end())
}
