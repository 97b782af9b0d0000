//! Horizontal bars in groups: a group for each cell, a bar for each target, its figure at the bar's
//! end. Where the axis is logarithmic there is no zero to begin a bar at, so that dots stand
//! instead of bars.

use maud::{Markup, html};

use super::super::book::Look;
use super::super::quantity::short;
use super::scale::{Kind, Scale};
use super::{Caption, Filling, WIDTH, at, drawing, marker, room};

/// The most that names on the left, and figures on the right, may take of the width.
const NAMES: f64 = 290.0;
const FIGURES: f64 = 185.0;
/// Between a text and what it is about.
const AIR: f64 = 6.0;
const TOP: f64 = 20.0;
/// Heights of a group's heading, of a further line of it, of a bar with its gap, and of the gap
/// between groups.
const HEADING: f64 = 20.0;
const LINE: f64 = 15.0;
const ROW: f64 = 19.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;
/// Texts longer than this are cut, headings go on below; all are whole in the table under the
/// figure.
const NAME: usize = 34;
const HEADING_LENGTH: usize = 62;
const REASON: usize = 44;

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
    let (left, right) = edges(groups);
    let across = match kind {
        Kind::Logarithmic => Scale::over(values.iter().copied(), kind, left, right),
        Kind::Linear => Scale::from_zero(values.iter().copied(), left, right),
    };
    let mut bottom = TOP;
    let placed: Vec<Placed<'_>> = groups
        .iter()
        .map(|group| {
            let (top, heading) = (bottom, lines(&group.heading, HEADING_LENGTH));
            let bars = top + HEADING + heading.len().saturating_sub(1) as f64 * LINE;
            bottom = bars + group.bars.len() as f64 * ROW + GAP;
            Placed { group, heading, top, bars }
        })
        .collect();
    let inside = html! {
        @for tick in across.ticks() {
            path class="grid" d=(format!("M{} {}V{}", at(across.at(tick)), at(TOP - 4.0), at(bottom))) {}
            text class="tick mid" x=(at(across.at(tick))) y="11" { (short(tick)) }
        }
        text class="axis end" x=(at(WIDTH)) y="11" { (unit) @if kind == Kind::Logarithmic { " (log)" } }
        @for Placed { group, heading, top, bars } in placed {
            @for (index, line) in heading.iter().enumerate() {
                text class="heading" x="0" y=(at(top + 12.0 + index as f64 * LINE)) { (line) }
            }
            @for (index, bar) in group.bars.iter().enumerate() { (one(bar, &across, left, bars + index as f64 * ROW)) }
        }
    };
    drawing(caption, bottom, &inside)
}

/// A group where it is drawn: its heading from `top` on, its bars from `bars` on.
struct Placed<'a> {
    group: &'a Group,
    heading: Vec<String>,
    top: f64,
    bars: f64,
}

/// Where bars begin, and where the longest of them ends: the names and figures of all bars have
/// room beside them.
fn edges(groups: &[Group]) -> (f64, f64) {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let widest = |rooms: &mut dyn Iterator<Item = f64>| rooms.fold(0.0, f64::max) + AIR;
    let names = widest(&mut bars().map(|bar| room(&cut(&bar.name, NAME))));
    let figures = widest(&mut bars().filter_map(|bar| bar.length.as_ref().ok()).map(|length| room(&length.text)));
    (names.min(NAMES), WIDTH - figures.min(FIGURES) - AIR)
}

fn one(bar: &Bar, across: &Scale, left: f64, top: f64) -> Markup {
    let middle = top + BAR / 2.0;
    html! {
        text class=(format!("{} name end", bar.look.class)) x=(at(left - AIR)) y=(at(middle + 4.0)) { (cut(&bar.name, NAME)) }
        @match &bar.length {
            Err(reason) => {
                text class="absent" x=(at(left + 4.0)) y=(at(middle + 4.0)) { title { (reason) } (cut(reason, REASON)) }
            }
            Ok(length) => (filled(bar, length, across, (left, top))),
        }
    }
}

fn filled(bar: &Bar, length: &Length, across: &Scale, (left, top): (f64, f64)) -> Markup {
    let (middle, end) = (top + BAR / 2.0, across.at(length.value));
    let (class, text) = (&bar.look.class, if length.struck { "value struck" } else { "value" });
    let shape = if length.doubtful { "bar hollow" } else { "bar" };
    let right = length.interval.map_or(end, |(_, high)| across.at(high).max(end));
    let width = at((end - left).max(1.0));
    let filling = if length.doubtful { Filling::Hollow } else { Filling::Full };
    html! {
        @if across.is_logarithmic() {
            path class=(format!("{class} stem")) d=(format!("M{} {}H{}", at(left), at(middle), at(end))) {}
        } @else {
            rect class=(format!("{class} {shape}")) x=(at(left)) y=(at(top)) width=(width) height=(at(BAR)) {
                title { (length.title) }
            }
        }
        @if let Some((low, high)) = length.interval { (whisker(across, low, high, middle)) }
        @if across.is_logarithmic() { (marker(end, middle, &bar.look, filling, &length.title)) }
        text class=(text) x=(at(right + AIR)) y=(at(middle + 4.0)) { (length.text) }
    }
}

/// An interval as a line with a stop at each end, or an arrow where it goes on beyond the axis.
fn whisker(across: &Scale, low: f64, high: f64, middle: f64) -> Markup {
    let (from, to, up) = (at(across.at(low)), at(across.at(high)), at(middle - 3.0));
    let stop = |place: &str| format!("M{place} {up}v6");
    let begin = if across.is_below(low) { format!("M{from} {}m4 -3l-4 3l4 3", at(middle)) } else { stop(&from) };
    let end = if across.is_above(high) { format!("M{to} {}m-4 -3l4 3l-4 3", at(middle)) } else { stop(&to) };
    html! { path class="whisker" d=(format!("M{from} {}H{to}{begin}{end}", at(middle))) {} }
}

/// The lines of a text, each as long as words fit into it.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The beginning of a text that is too long, with an ellipsis.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::super::book::Shape;
    use super::*;

    fn group(name: &str, text: &str, interval: (f64, f64)) -> Group {
        let look = Look { class: "t1".to_owned(), shape: Shape::Circle, dashed: false };
        let (text, title) = (text.to_owned(), String::new());
        let length = Length { value: 10.0, interval: Some(interval), text, title, doubtful: false, struck: false };
        Group { heading: String::new(), bars: vec![Bar { name: name.to_owned(), look, length: Ok(length) }] }
    }

    /// Whiskers once ended at the frame as if there were no more: 142 857 was drawn as 60 000.
    #[test]
    fn a_whisker_that_goes_on_beyond_the_axis_has_an_arrow() {
        let caption = Caption { id: "x".to_owned(), title: String::new(), about: String::new() };
        let arrow = "l4 3l-4 3";
        for (high, expected) in [(11.0, false), (25.0, true)] {
            let groups = [group("a", "10", (9.0, high))];
            let drawn = draw(&caption, "msg/s", Kind::Linear, &[10.0, 12.0], &groups).into_string();
            assert_eq!(drawn.contains(arrow), expected, "{high}");
        }
    }

    /// Headings were cut where the words that told two rows apart began.
    #[test]
    fn a_long_heading_goes_on_below_it() {
        let words = "Q7 Queue, send and receive, persistent, lazy acknowledgement, two consumers";
        let broken = lines(words, HEADING_LENGTH);
        assert_eq!(broken.join(" "), words);
        assert_eq!(broken.len(), 2);
        assert_eq!(lines("short", HEADING_LENGTH), ["short"]);
        assert!(lines("", HEADING_LENGTH).is_empty());
    }

    /// Figures once ran into the drawing beside them, and names were cut where there was room.
    #[test]
    fn names_and_figures_have_room() {
        for (name, text) in [("a", "1"), ("Sun Java System Message Queue 3.0", "1 028 209 · D3 invalid")] {
            let (left, right) = edges(&[group(name, text, (9.0, 11.0))]);
            assert!(left >= room(name) && WIDTH - right >= room(text), "{name}: {left} {right}");
            assert_eq!(cut(name, NAME), name);
        }
    }
}
