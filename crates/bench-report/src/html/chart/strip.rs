//! All comparisons with one target on a line: a dot for each cell, to the right of the middle where
//! the first target is better, hollow where no difference was detected.

use maud::{Markup, html};

use super::super::super::standing::{Comparison, Standing};
use super::super::book::Look;
use super::super::quantity::printed;
use super::scale::{Kind, Scale};
use super::{Caption, Filling, MARKER, WIDTH, at, drawing, marker};

const LEFT: f64 = 10.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 34.0;
/// Height of the room of one target, and of the axis under all of them.
const LANE: f64 = 90.0;
const FOOT: f64 = 34.0;
/// Height of a target's name.
const NAME: f64 = 14.0;
/// How many dots stand above each other at most on each side of the line.
const PILE: i32 = 4;

/// One target's line.
#[derive(Debug, Clone)]
pub(in super::super) struct Lane {
    pub(in super::super) name: String,
    pub(in super::super) look: Look,
    /// What stands beside the name: how many dots are where.
    pub(in super::super) count: String,
    /// The comparisons, each with what it says when pointed at.
    pub(in super::super) dots: Vec<(Comparison, String)>,
}

/// Draws the lines of all targets over one axis. `first` is who is better on the right.
pub(in super::super) fn draw(caption: &Caption, first: &str, lanes: &[Lane]) -> Markup {
    let values = lanes.iter().flat_map(|lane| &lane.dots).map(|(found, _)| found.advantage).chain([0.8, 1.25]);
    let across = Scale::over(values, Kind::Logarithmic, LEFT, RIGHT);
    let bottom = TOP + lanes.len() as f64 * LANE;
    let middle = across.at(1.0);
    let inside = html! {
        rect class="better" x=(at(middle)) y=(at(TOP - 8.0)) width=(at(RIGHT - middle)) height=(at(bottom - TOP + 8.0)) {}
        @for tick in across.ticks() {
            path class="grid" d=(format!("M{} {}V{}", at(across.at(tick)), at(TOP - 8.0), at(bottom + 4.0))) {}
            text class="tick mid" x=(at(across.at(tick))) y=(at(bottom + 18.0)) { (printed(tick)) "×" }
        }
        text class="axis" x=(at(LEFT)) y="14" { "← the other is better" }
        text class="axis end" x=(at(RIGHT)) y="14" { (first) " is better →" }
        @for (index, lane) in lanes.iter().enumerate() {
            @let top = TOP + index as f64 * LANE;
            // The line stops where a name stands.
            path class="one" d=(format!("M{} {}V{}", at(middle), at(top + NAME), at(top + LANE - 8.0))) {}
            (one(lane, &across, top))
        }
    };
    drawing(caption, bottom + FOOT, &inside)
}

fn one(lane: &Lane, across: &Scale, top: f64) -> Markup {
    let line = top + 50.0;
    html! {
        text class=(format!("{} name halo", lane.look.class)) x=(at(LEFT)) y=(at(top + 8.0)) {
            (lane.name) tspan class="axis" { "  " (lane.count) }
        }
        path class="grid" d=(format!("M{} {}H{}", at(LEFT), at(line), at(RIGHT))) {}
        @for ((found, title), (x, y)) in lane.dots.iter().zip(piled(lane, across, line)) {
            (marker(x, y, &lane.look, filling(found.standing), title))
        }
    }
}

/// A dot that ranks neither target is hollow.
fn filling(standing: Standing) -> Filling {
    match standing {
        Standing::Ahead | Standing::Behind => Filling::Full,
        _ => Filling::Hollow,
    }
}

/// Where the dots are: beside the line where another one is in the way.
fn piled(lane: &Lane, across: &Scale, line: f64) -> Vec<(f64, f64)> {
    let size = MARKER * 2.0 + 0.6;
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for (found, _) in &lane.dots {
        let x = across.at(found.advantage);
        let free = |y: &f64| placed.iter().all(|(px, py)| (px - x).hypot(py - y) >= size);
        let levels = (0..=PILE * 2).map(|n| if n % 2 == 0 { n / 2 } else { -(n + 1) / 2 });
        let y = levels.map(|level| line + f64::from(level) * size).find(free).unwrap_or(line);
        placed.push((x, y));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::super::super::book::Shape;
    use super::*;

    fn lane(advantages: &[f64]) -> Lane {
        let look = Look { class: "t1".to_owned(), shape: Shape::Circle, dashed: false };
        let dot = |advantage: &f64| {
            (Comparison { advantage: *advantage, interval: None, standing: Standing::Ahead }, String::new())
        };
        Lane { name: "other".to_owned(), look, count: String::new(), dots: advantages.iter().map(dot).collect() }
    }

    /// What the axis says at each of its marks. Published charts once said `1×` at 100: zeros were
    /// cut off a whole number.
    #[test]
    fn the_axis_says_what_it_marks() {
        for (advantages, expected) in [
            (&[322.0, 1.5][..], &["1×", "10×", "100×"][..]),
            (&[0.004, 2.0], &["0.01×", "0.1×", "1×"]),
            (&[4.0], &["1×", "2×"]),
            (&[24.0], &["1×", "2×", "5×", "10×", "20×"]),
        ] {
            let caption = Caption { id: "x".to_owned(), title: String::new(), about: String::new() };
            let drawn = draw(&caption, "first", &[lane(advantages)]).into_string();
            let marks: Vec<&str> = drawn
                .split("class=\"tick mid\"")
                .skip(1)
                .map(|rest| {
                    let text = &rest[rest.find('>').expect("an open tag ends") + 1..];
                    &text[..text.find('<').expect("the text ends")]
                })
                .collect();
            assert_eq!(marks, expected, "{advantages:?}");
        }
    }
}
