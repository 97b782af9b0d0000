//! The rows of a study: a line for each cell, what the study published, and what each target gives
//! here.

use maud::{Markup, html};

use super::super::standing::Standing;
use super::super::table;
use super::book::{Book, Player, Soundness, absence, anchor, figures, point, profile, soundness};
use super::quantity::{amount, count, extent, printed, ratio};
use bench_record::metric::spread_of;
use bench_record::suite::{Cell, Figures, Metric, Role, SuiteRecord};

/// A row of more points than this is folded: its figure says it better.
const UNFOLDED: usize = 8;

/// The tables of a study.
pub(super) fn section(book: &Book<'_>, suite: &SuiteRecord) -> Markup {
    let parts: Vec<&[Cell]> = suite.cells.chunk_by(|a, b| (&a.row, a.profile) == (&b.row, b.profile)).collect();
    // Rows of few points share a table.
    let tables: Vec<&[&[Cell]]> = parts.chunk_by(|a, b| a.len() <= UNFOLDED && b.len() <= UNFOLDED).collect();
    let mut anchored = Vec::new();
    html! {
        @for parts in tables {
            @if let [only] = parts && only.len() > UNFOLDED {
                details.rows-of id=[once(&mut anchored, suite, only)] {
                    summary {
                        span.row-id { (only[0].row) } " " (only[0].title) " "
                        span.soft { "(" (profile(only[0].profile)) ", " (count(only.len())) " points)" }
                    }
                    (rows_of(book, suite, &[only], &mut anchored))
                }
            } @else {
                (rows_of(book, suite, parts, &mut anchored))
            }
        }
    }
}

/// The anchor of a row, for its first cell only: anchors are unique.
fn once(anchored: &mut Vec<String>, suite: &SuiteRecord, cells: &[Cell]) -> Option<String> {
    let name = anchor(&[&suite.id, &cells.first()?.row]);
    let new = !anchored.contains(&name);
    anchored.push(name.clone());
    new.then_some(name)
}

fn rows_of(book: &Book<'_>, suite: &SuiteRecord, parts: &[&[Cell]], anchored: &mut Vec<String>) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead {
                    tr {
                        th scope="col" { "Row" }
                        th scope="col" { "Published" }
                        @for player in &book.players { th scope="col" class=(player.look.class) { (player.name()) } }
                    }
                }
                tbody {
                    @for cells in parts {
                        @for (at, cell) in cells.iter().enumerate() {
                            @let id = if at == 0 { once(anchored, suite, cells) } else { None };
                            (line(book, cell, id))
                        }
                    }
                }
            }
        }
    }
}

fn line(book: &Book<'_>, cell: &Cell, id: Option<String>) -> Markup {
    let values = (0..book.players.len()).filter_map(|index| figures(cell, index)).map(|found| found.value.median);
    let longest = values.fold(0.0, f64::max);
    html! {
        tr id=[id] {
            th scope="row" {
                span.row-id { (cell.row) } " " (cell.title)
                @let at = point(cell);
                @if !at.is_empty() { div { (at) } }
                div { small {
                    (profile(cell.profile)) ", " (cell.metric.title()) @if !cell.metric.unit().is_empty() { " in " (cell.metric.unit()) }
                } }
                details { summary { small { "load" } } small { (table::describe(&cell.load)) @if let Some(text) = &cell.scaled { "; " (text) } } }
            }
            (published(cell))
            @for (index, player) in book.players.iter().enumerate() { (result(book, cell, index, player, longest)) }
        }
    }
}

fn published(cell: &Cell) -> Markup {
    html! {
        td data-label="Published" class=(if cell.published.is_empty() { "wide soft" } else { "wide" }) {
            @if cell.published.is_empty() { "no figure" }
            @for one in &cell.published {
                div {
                    (one.platform) " " strong { (printed(one.value)) }
                    @if let (Some(low), Some(high)) = (one.low, one.high) { small { (printed(low)) "–" (printed(high)) } }
                    @if let Some(note) = &one.note { small { (note) } }
                }
            }
        }
    }
}

fn result(book: &Book<'_>, cell: &Cell, index: usize, player: &Player<'_>, longest: f64) -> Markup {
    html! {
        td data-label=(player.name()) class=(player.look.class) {
            @match (figures(cell, index), cell.results.get(index).and_then(absence)) {
                (Some(found), _) => (measured(book, cell, index, found, longest)),
                (None, Some((word, reason))) => { div.main.weak { (word) } small { (reason) } }
                (None, None) => "",
            }
        }
    }
}

fn measured(book: &Book<'_>, cell: &Cell, index: usize, found: &Figures, longest: f64) -> Markup {
    let state = soundness(cell.metric, found);
    let share = if longest > 0.0 { (found.value.median / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let text = match (cell.metric, found.passed()) {
        (Metric::Passed, (0, _)) => "did not pass".to_owned(),
        (Metric::Passed, (passed, tried)) if passed < tried => format!("passed in {passed} of {tried}"),
        (Metric::Passed, _) => "passed".to_owned(),
        _ => amount(found.value.median),
    };
    html! {
        div class=(if state == Soundness::Doubtful { "main weak" } else { "main" }) {
            @if state == Soundness::Violated { s { (text) } } @else { (text) }
            @if let Some(class) = book.promise(cell, index) { " " span.badge title=(class_title(class)) { (class) } }
        }
        @if cell.metric != Metric::Passed { span class=(if state == Soundness::Sound { "meter" } else { "meter hollow" }) style=(format!("--w:{share:.1}%")) { i {} } }
        @if let Some(extent) = extent(&found.value).filter(|_| cell.metric != Metric::Passed) { small { (extent) } }
        (against(book, cell, index))
        @if let Some(cpu) = cpu(cell, found) { small { (amount(cpu)) " µs CPU/msg" } }
        @if let Some(limit) = &found.of_limit { small { (of_limit(cell.metric, limit.median)) } }
        small class=[(found.valid < found.slices).then_some("bad")] { (found.valid) "/" (found.slices) " valid" }
        @if !found.remarks.is_empty() {
            details {
                summary { small { @if state == Soundness::Sound { "remarks" } @else { "why it does not count" } } }
                @for (text, slices) in &found.remarks { div { small { (text) " (" (slices) " of " (found.slices) ")" } } }
            }
        }
    }
}

/// The comparison with the first target, in this target's words: its figure over the first's.
fn against(book: &Book<'_>, cell: &Cell, index: usize) -> Markup {
    let (Some(found), Some(first)) = (book.comparison(cell, index), book.first()) else { return html! {} };
    let Some(to_first) = book.to_first(cell, index) else { return html! {} };
    let control = book.players[index].facts.role == Role::Control;
    let (class, sign, words) = match found.standing {
        _ if control => ("open", "≈", "noise of this machine"),
        Standing::Ahead => ("bad", "▼", "worse"),
        Standing::Behind => ("good", "▲", "better"),
        Standing::Level => ("open", "≈", "no difference detected"),
        Standing::Unknown => ("open", "?", "too few blocks"),
        Standing::OtherPromise => ("open", "", "other promise"),
    };
    html! {
        small title=(format!("its figure over that of {}, 95 % interval", first.name())) {
            (ratio(to_first.mean, to_first.interval))
        }
        @if found.standing == Standing::OtherPromise { span.badge.unlike { (words) } }
        @else { small class=(class) { span aria-hidden="true" { (sign) } " " (words) } }
    }
}

fn of_limit(metric: Metric, share: f64) -> String {
    if metric.more_is_better() {
        format!("{} % of the limit", amount(share * 100.0))
    } else {
        format!("{}× the limit", amount(share))
    }
}

/// Median CPU of the broker for each message, where that is not the cell's own figure.
fn cpu(cell: &Cell, found: &Figures) -> Option<f64> {
    if cell.metric == Metric::CpuUsPerMessage {
        return None;
    }
    Some(spread_of(Metric::CpuUsPerMessage, cell, found)?.median)
}

fn class_title(class: bench_record::durability::Durability) -> &'static str {
    use bench_record::durability::Durability;
    match class {
        Durability::D0 => "D0: nothing is promised",
        Durability::D1 => "D1: in the broker's memory when confirmed",
        Durability::D2 => {
            "D2: in the system's page cache when confirmed; survives the end of the process, not a power cut"
        }
        Durability::D3 => "D3: forced to the disk before the confirm; survives a power cut",
    }
}
