//! The figures of a study drawn again: what was measured here, and beside it, under a scale of its
//! own, what was published. Compare shapes, not levels: the machines are many years
//! apart.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::book::{Book, Look, Soundness, absence, anchor, figures, point, profile, soundness};
use super::chart::Caption;
use super::chart::bars::{self, Bar, Group, Length};
use super::chart::lines::{self, Axis, Line, Marks, Point};
use super::chart::scale::Kind;
use super::quantity::{amount, bytes, count, extent, printed, short};
use super::{percentiles, timeline};
use bench_record::metric::spread_of;
use bench_record::statistics::spread::Spread;
use bench_record::suite::{Cell, Figure, FigureKind, Figures, Metric, Profile, SuiteRecord};

/// Groups of bars in one drawing; more go on in the next.
const GROUPS: usize = 6;
/// Panels of lines that are shown at once; the others can be unfolded.
const PANELS: usize = 6;

/// All figures of a study, in one flow.
pub(super) fn section(book: &Book<'_>, suite: &SuiteRecord) -> Markup {
    html! {
        div.figures {
            @for (number, figure) in suite.figures.iter().enumerate() {
                (Plot { book, suite, figure, number: number + 1 }.draw())
            }
        }
    }
}

/// One figure and where it stands.
struct Plot<'a> {
    book: &'a Book<'a>,
    suite: &'a SuiteRecord,
    figure: &'a Figure,
    number: usize,
}

/// Cells that share a panel: all variables but the one across are the same.
struct Panel<'a> {
    heading: String,
    cells: Vec<&'a Cell>,
}

impl<'a> Plot<'a> {
    fn draw(&self) -> Markup {
        let cells: Vec<&Cell> = self.suite.cells.iter().filter(|cell| self.figure.rows.contains(&cell.row)).collect();
        let panels: Vec<Markup> = match self.figure.kind {
            FigureKind::Bars => self.bars(&cells),
            FigureKind::Lines => {
                self.panels(&cells).iter().enumerate().map(|(at, panel)| self.lines(at, panel)).collect()
            }
            FigureKind::OverTime => {
                cells.iter().enumerate().filter_map(|(at, cell)| self.over_time(at, cell)).collect()
            }
            FigureKind::Percentiles => {
                cells.iter().enumerate().filter_map(|(at, cell)| self.percentiles(at, cell)).collect()
            }
        };
        let (shown, folded) = panels.split_at(panels.len().min(PANELS));
        html! {
            @if panels.is_empty() { p.soft { (self.figure.title) ": nothing was measured that it could show." } }
            @for panel in shown { (panel) }
            @if !folded.is_empty() {
                details.wide {
                    summary { (count(folded.len())) " more of: " (self.figure.title) }
                    div.figures { @for panel in folded { (panel) } }
                }
            }
        }
    }

    fn metric(&self, cell: &Cell) -> Metric {
        self.figure.metric.unwrap_or(cell.metric)
    }

    fn caption(&self, part: &str, title: &str) -> Caption {
        let id = anchor(&[&self.suite.id, &self.number.to_string(), part]);
        let about = format!("{}. The same figures are in the table below the drawing.", self.figure.title);
        Caption { id, title: title.to_owned(), about }
    }

    /// Bars, a few groups to a drawing. Cells of different units or profiles are never under one
    /// axis.
    fn bars(&self, cells: &[&'a Cell]) -> Vec<Markup> {
        let alike = cells.chunk_by(|a, b| (self.metric(a), a.profile) == (self.metric(b), b.profile));
        let parts = alike.flat_map(|cells| {
            let values: Vec<f64> = cells.iter().flat_map(|cell| self.extremes(cell)).collect();
            cells.chunks(GROUPS).map(move |chunk| (values.clone(), chunk))
        });
        parts.enumerate().map(|(at, (values, chunk))| self.bar_pair(at, &values, chunk)).collect()
    }

    fn bar_pair(&self, at: usize, values: &[f64], cells: &[&Cell]) -> Markup {
        let metric = self.metric(cells[0]);
        let (title, unit) = (metric.title(), metric.unit());
        let here: Vec<Group> = cells.iter().map(|cell| self.measured_group(cell)).collect();
        let studied: Vec<Group> = cells.iter().filter_map(|cell| self.published_group(cell)).collect();
        let lengths: Vec<f64> = studied
            .iter()
            .flat_map(|group| &group.bars)
            .filter_map(|bar| Some(bar.length.as_ref().ok()?.value))
            .collect();
        let kind = Kind::of_y(self.figure);
        let here = bars::draw(&self.caption(&format!("here-{at}"), title), unit, kind, values, &here);
        let then = (!studied.is_empty())
            .then(|| bars::draw(&self.caption(&format!("published-{at}"), title), unit, kind, &lengths, &studied));
        self.pair(&format!("{title}, {}", profile(cells[0].profile)), &here, then.as_ref(), &self.table(cells))
    }

    /// All values that an axis must hold for a cell.
    fn extremes(&self, cell: &Cell) -> Vec<f64> {
        let spreads =
            (0..self.book.players.len()).filter_map(|index| spread_of(self.metric(cell), cell, figures(cell, index)?));
        spreads.flat_map(|spread| [spread.median, spread.interval.map_or(spread.median, |(_, high)| high)]).collect()
    }

    fn measured_group(&self, cell: &Cell) -> Group {
        let players = self.book.players.iter().enumerate();
        let bars = players.map(|(index, player)| {
            let spread =
                figures(cell, index).and_then(|found| Some((found, spread_of(self.metric(cell), cell, found)?)));
            let length = match spread {
                None => Err(cell
                    .results
                    .get(index)
                    .and_then(absence)
                    .map_or_else(|| "no figure".to_owned(), |(word, reason)| format!("{word}: {reason}"))),
                Some((found, spread)) => Ok(self.length(cell, index, found, &spread)),
            };
            Bar { name: player.name().to_owned(), look: player.look.clone(), length }
        });
        Group { heading: heading(cell), bars: bars.collect() }
    }

    fn length(&self, cell: &Cell, index: usize, found: &Figures, spread: &Spread) -> Length {
        let state = soundness(cell.metric, found);
        let class = self.book.promise(cell, index).map_or_else(String::new, |class| format!(" · {class}"));
        let note = if state == Soundness::Sound { "" } else { " invalid" };
        Length {
            value: spread.median,
            interval: spread.interval,
            text: format!("{}{class}{note}", amount(spread.median)),
            title: self.says(cell, index, spread),
            doubtful: state != Soundness::Sound,
            struck: state == Soundness::Violated,
        }
    }

    /// A figure in full, for the pointer over it.
    fn says(&self, cell: &Cell, index: usize, spread: &Spread) -> String {
        let extent = extent(spread).map_or_else(String::new, |extent| format!(" ({extent})"));
        let (name, unit) = (self.book.players[index].name(), self.metric(cell).unit());
        format!("{name}, {}: {} {unit}{extent}", heading(cell), amount(spread.median))
    }

    fn published_group(&self, cell: &Cell) -> Option<Group> {
        if self.metric(cell) != cell.metric || cell.published.is_empty() {
            return None;
        }
        let bars = cell.published.iter().enumerate().map(|(at, one)| {
            let length = Length {
                value: one.value,
                interval: one.low.zip(one.high),
                text: printed(one.value),
                title: format!("{}: {} {}", one.platform, printed(one.value), cell.metric.unit()),
                doubtful: false,
                struck: false,
            };
            Bar { name: one.platform.clone(), look: Look::published(at), length: Ok(length) }
        });
        Some(Group { heading: heading(cell), bars: bars.collect() })
    }

    /// Cells by all variables but the one across.
    fn panels(&self, cells: &[&'a Cell]) -> Vec<Panel<'a>> {
        let across = self.figure.across.as_deref().unwrap_or_default();
        let mut panels: Vec<(Key, Panel<'a>)> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.point.contains_key(across)) {
            let rest = cell.point.iter().filter(|(name, _)| *name != across);
            let key: Key = (&cell.row, cell.profile, rest.map(|(name, at)| (name.clone(), at.to_bits())).collect());
            match panels.iter_mut().find(|(known, _)| *known == key) {
                Some((_, panel)) => panel.cells.push(cell),
                None => {
                    let mut fixed: Cell = (*cell).clone();
                    fixed.point.remove(across);
                    panels.push((key, Panel { heading: heading(&fixed), cells: vec![cell] }));
                }
            }
        }
        panels.into_iter().map(|(_, panel)| panel).collect()
    }

    fn lines(&self, at: usize, panel: &Panel<'_>) -> Markup {
        let across = self.figure.across.as_deref().unwrap_or_default();
        let metric = self.metric(panel.cells[0]);
        let number: fn(f64) -> String = if across == "size" { bytes } else { short };
        let label = if across == "size" { "size of a body in bytes".to_owned() } else { across.to_owned() };
        let x = Axis { label, kind: Kind::of_x(self.figure), number };
        let y = lines::upwards(format!("{}, {}", metric.title(), metric.unit()), Kind::of_y(self.figure));
        let here = self.measured_lines(across, panel);
        let then = self.published_lines(across, panel);
        let draw = |part: &str, lines: &[Line]| {
            lines::draw(&self.caption(&format!("{part}-{at}"), &panel.heading), &x, &y, Marks::Values, lines)
        };
        let studied = (!then.is_empty()).then(|| draw("published", &then));
        self.pair(&panel.heading, &draw("here", &here), studied.as_ref(), &self.table(&panel.cells))
    }

    fn measured_lines(&self, across: &str, panel: &Panel<'_>) -> Vec<Line> {
        let players = self.book.players.iter().enumerate();
        let lines = players.map(|(index, player)| {
            let points = panel.cells.iter().filter_map(|cell| {
                let found = figures(cell, index)?;
                let spread = spread_of(self.metric(cell), cell, found)?;
                let title = self.says(cell, index, &spread);
                let doubtful = soundness(cell.metric, found) != Soundness::Sound;
                Some(Point { x: *cell.point.get(across)?, y: spread.median, band: spread.interval, title, doubtful })
            });
            Line { name: player.name().to_owned(), look: player.look.clone(), points: ascending(points.collect()) }
        });
        lines.filter(|line| !line.points.is_empty()).collect()
    }

    fn published_lines(&self, across: &str, panel: &Panel<'_>) -> Vec<Line> {
        let mut platforms: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
        for cell in panel.cells.iter().filter(|cell| self.metric(cell) == cell.metric) {
            for one in &cell.published {
                let Some(x) = cell.point.get(across) else { continue };
                let title =
                    format!("{}, {}: {} {}", one.platform, heading(cell), printed(one.value), cell.metric.unit());
                let point = Point { x: *x, y: one.value, band: one.low.zip(one.high), title, doubtful: false };
                platforms.entry(&one.platform).or_default().push(point);
            }
        }
        let lines = platforms.into_iter().enumerate().map(|(at, (name, points))| Line {
            name: name.to_owned(),
            look: Look::published(at),
            points: ascending(points),
        });
        lines.collect()
    }

    /// The rate within a slice of each target; none where no slice recorded it.
    fn over_time(&self, at: usize, cell: &Cell) -> Option<Markup> {
        let drawn = timeline::lines(self.book, cell);
        if drawn.is_empty() {
            return None;
        }
        let x = Axis { label: "seconds since the measured time began".to_owned(), kind: Kind::Linear, number: short };
        let y = lines::upwards("message rate, msg/s".to_owned(), Kind::of_y(self.figure));
        let title = format!("{}; the slice in the middle of each target's", heading(cell));
        let here = lines::draw(&self.caption(&format!("time-{at}"), &title), &x, &y, Marks::Round, &drawn);
        Some(self.pair(&title, &here, None, &self.table(&[cell])))
    }

    /// How latency is spread in a cell; none where nothing measured it.
    fn percentiles(&self, at: usize, cell: &Cell) -> Option<Markup> {
        let drawn = percentiles::lines(self.book, cell);
        if drawn.is_empty() {
            return None;
        }
        let label = "share of messages that are faster".to_owned();
        let x = Axis { label, kind: Kind::Logarithmic, number: percentiles::share };
        let y = lines::upwards("latency, µs".to_owned(), Kind::of_y(self.figure));
        let title = heading(cell);
        let here = lines::draw(&self.caption(&format!("percentiles-{at}"), &title), &x, &y, Marks::Values, &drawn);
        Some(self.pair(&title, &here, None, &self.table(&[cell])))
    }

    /// What was measured, and beside it what was published.
    fn pair(&self, part: &str, here: &Markup, then: Option<&Markup>, table: &Markup) -> Markup {
        html! {
            figure class=[then.map(|_| "pair")] {
                figcaption { (self.figure.title) small { (part) } }
                @match then {
                    None => (here),
                    Some(then) => {
                        div.panes {
                            div.pane { p { "measured here" } (here) }
                            div.pane { p { "published, on a scale of its own" } (then) }
                        }
                    }
                }
                (table)
            }
        }
    }

    /// The same figures as a table.
    fn table(&self, cells: &[&Cell]) -> Markup {
        html! {
            details {
                summary { "The figures in a table" }
                div.scroll {
                    table.figure-table {
                        thead { tr { th { "Cell" } @for player in &self.book.players { th.n { (player.name()) } } } }
                        tbody {
                            @for cell in cells {
                                tr {
                                    th scope="row" { (heading(cell)) }
                                    @for index in 0..self.book.players.len() { td.n { (self.entry(cell, index)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn entry(&self, cell: &Cell, index: usize) -> Markup {
        let spread = figures(cell, index).and_then(|found| spread_of(self.metric(cell), cell, found));
        html! {
            @match spread {
                Some(spread) => { (amount(spread.median)) @if let Some(extent) = extent(&spread) { br; small { (extent) } } }
                None => span.soft { (cell.results.get(index).and_then(absence).map_or("–", |(word, _)| word)) }
            }
        }
    }
}

/// What the cells of a panel have in common: row, profile, and the other variables.
type Key<'a> = (&'a str, Profile, Vec<(String, u64)>);

/// A cell in words.
fn heading(cell: &Cell) -> String {
    let at = point(cell);
    let comma = if at.is_empty() { "" } else { ", " };
    format!("{} {}{comma}{at}, {}", cell.row, cell.title, profile(cell.profile))
}

fn ascending(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}
