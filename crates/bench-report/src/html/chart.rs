//! Figures as SVG: real text, colours by classes of the page's style sheet, a title and a
//! description for those who listen. Coordinates are in units of which a figure is `WIDTH` wide;
//! the page decides how large a unit is.

pub(super) mod bars;
pub(super) mod lines;
pub(super) mod scale;
pub(super) mod strip;

use maud::{Markup, html};

use super::book::{Look, Shape};

/// Width of every figure.
pub(super) const WIDTH: f64 = 480.0;
/// Half the size of a marker.
const MARKER: f64 = 3.6;

/// What a figure is called and what it shows, for those who can't see it.
#[derive(Debug, Clone)]
pub(super) struct Caption {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) about: String,
}

/// The frame of a figure around what it shows.
fn drawing(caption: &Caption, height: f64, inside: &Markup) -> Markup {
    let (title, about) = (format!("{}-t", caption.id), format!("{}-d", caption.id));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img" aria-labelledby=(format!("{title} {about}")) {
            title id=(title) { (caption.title) }
            desc id=(about) { (caption.about) }
            (inside)
        }
    }
}

/// A coordinate, as short as a tenth of a unit allows.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Whether a marker is of something that can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// It can.
    Full,
    /// It can't.
    Hollow,
}

/// A marker that says `title` when pointed at.
fn marker(x: f64, y: f64, look: &Look, filling: Filling, title: &str) -> Markup {
    let m = MARKER;
    let path = |points: &[(f64, f64)]| {
        let corners: Vec<String> = points.iter().map(|(dx, dy)| format!("{} {}", at(x + dx), at(y + dy))).collect();
        format!("M{}Z", corners.join("L"))
    };
    let class = format!("{} {}", look.class, if filling == Filling::Hollow { "mark hollow" } else { "mark" });
    let outline = match look.shape {
        Shape::Circle => {
            return html! { circle class=(class) cx=(at(x)) cy=(at(y)) r=(at(m)) { title { (title) } } };
        }
        Shape::Square => path(&[(-m, -m), (m, -m), (m, m), (-m, m)]),
        Shape::Triangle => path(&[(0.0, -m * 1.2), (m * 1.2, m), (-m * 1.2, m)]),
        Shape::Diamond => path(&[(0.0, -m * 1.3), (m * 1.3, 0.0), (0.0, m * 1.3), (-m * 1.3, 0.0)]),
        Shape::Cross => path(&[
            (-m, -m / 3.0),
            (-m / 3.0, -m / 3.0),
            (-m / 3.0, -m),
            (m / 3.0, -m),
            (m / 3.0, -m / 3.0),
            (m, -m / 3.0),
            (m, m / 3.0),
            (m / 3.0, m / 3.0),
            (m / 3.0, m),
            (-m / 3.0, m),
            (-m / 3.0, m / 3.0),
            (-m, m / 3.0),
        ]),
        Shape::Kite => path(&[(-m * 1.2, -m), (m * 1.2, -m), (0.0, m * 1.2)]),
        Shape::Hexagon => path(&around(6, |_| m * 1.15)),
        Shape::Star => path(&around(10, |corner| if corner % 2 == 0 { m * 1.5 } else { m * 0.6 })),
        Shape::Bow => path(&[(-m * 1.2, -m), (m * 1.2, m), (m * 1.2, -m), (-m * 1.2, m)]),
        Shape::Bar => path(&[(-m / 2.0, -m * 1.4), (m / 2.0, -m * 1.4), (m / 2.0, m * 1.4), (-m / 2.0, m * 1.4)]),
    };
    html! { path class=(class) d=(outline) { title { (title) } } }
}

/// Corners around a middle, from the top on, each as far from it as `radius` says.
fn around(corners: u8, radius: impl Fn(u8) -> f64) -> Vec<(f64, f64)> {
    let corner = |corner: u8| {
        let (sine, cosine) = (std::f64::consts::TAU * f64::from(corner) / f64::from(corners)).sin_cos();
        (radius(corner) * sine, -radius(corner) * cosine)
    };
    (0..corners).map(corner).collect()
}

/// The room that a line of text may take. A letter is counted as wide as on a narrow screen, whose
/// letters are larger beside the drawing.
fn room(text: &str) -> f64 {
    const LETTER: f64 = 8.2;
    text.chars().count() as f64 * LETTER
}

/// Moves labels apart so that none is nearer than `gap` to the next, each as near to its place as
/// that allows. Places are in the order of the labels; the answer stays within `low` and `high`
/// where there is room.
fn spread_out(places: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places.to_vec();
    let mut floor = low;
    for &index in &order {
        moved[index] = moved[index].max(floor);
        floor = moved[index] + gap;
    }
    let mut ceiling = high;
    for &index in order.iter().rev() {
        moved[index] = moved[index].min(ceiling);
        ceiling = moved[index] - gap;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_keep_their_order() {
        let moved = spread_out(&[50.0, 52.0, 10.0, 99.0], 12.0, 0.0, 100.0);
        let mut sorted = moved.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 12.0 - 1e-9), "{moved:?}");
        assert!(moved[0] < moved[1] && moved[2] == 10.0 && moved[3] <= 100.0);
    }
}
