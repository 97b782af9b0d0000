//! What was compared, and how it came out: where the first target is ahead, where it is not, and
//! how sure that is.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::standing::{Comparison, Standing};
use super::book::{Book, Player, anchor, point, profile};
use super::chart::{Caption, strip};
use super::quantity::{brief, count, counted, mebibytes, moment, ratio};
use bench_record::span::words;
use bench_record::suite::{Cell, Role, SuiteRecord};

/// Entries of a list that are shown at once; the others can be unfolded.
const SHOWN: usize = 8;

/// What was compared, as a title.
pub(super) fn title(book: &Book<'_>) -> String {
    let names: Vec<&str> = book.others().map(|(_, player)| player.name()).collect();
    match (book.first(), names.as_slice()) {
        (None, _) => "Limits of a machine".to_owned(),
        (Some(first), []) => format!("{}, measured", first.name()),
        (Some(first), [only]) => format!("{} beside {only}", first.name()),
        (Some(first), [most @ .., last]) => format!("{} beside {} and {last}", first.name(), most.join(", ")),
    }
}

/// When, where and how much, and a card for each target.
pub(super) fn circumstances(book: &Book<'_>) -> Markup {
    let report = book.report;
    let machine = &report.machine;
    let took = report.finished.map(|end| end.saturating_sub(report.started) as f64);
    html! {
        p {
            (counted(report.suites.len(), ["study", "studies"])) ", " (counted(book.cells().count(), ["cell", "cells"])) ", "
            (counted(report.extent.blocks, ["block", "blocks"])) "; "
            (moment(report.started)) " UTC"
            @if let Some(took) = took { ", " (words(took)) } @else { ", not finished" }
            "; " (machine.cores) " cores" @if let Some(name) = &machine.processor { " of " (name) }
            ", " (machine.os) @if let Some(kernel) = &machine.kernel { " " (kernel) }
            @if let Some(network) = &machine.network { "; over " (network) }
            "."
        }
        @for (index, other) in book.others() { (answer(book, index, other)) }
        ul.facts { @for player in &book.players { (card(player)) } }
    }
}

/// How it came out against one target, in a sentence.
fn answer(book: &Book<'_>, index: usize, other: &Player<'_>) -> Markup {
    let Some(first) = book.first() else { return html! {} };
    let ranked: Vec<Entry<'_>> = entries(book, index).into_iter().filter(Entry::is_ranked).collect();
    let ahead = ranked.iter().filter(|entry| entry.found.standing == Standing::Ahead).count();
    html! {
        p.answer {
            @if let Some(middle) = ranked.get(ranked.len() / 2) {
                (first.name()) " is ahead of " (other.name()) " in " b { (count(ahead)) " of " (count(ranked.len())) }
                " ranked " (if ranked.len() == 1 { "cell" } else { "cells" }) "; half of them are at "
                b { (ratio(middle.found.advantage, None)) } " or better."
            } @else {
                "No cell ranks " (first.name()) " and " (other.name()) "."
            }
        }
    }
}

fn card(player: &Player<'_>) -> Markup {
    let facts = player.facts;
    let role = match facts.role {
        Role::Broker => None,
        Role::Control => Some("the first target again: what differs is noise"),
        Role::Limit => Some("the machine's limit, no broker"),
    };
    html! {
        li class=(player.look.class) {
            b { (player.name()) }
            span {
                @if let Some(product) = &facts.product { (product) " " }
                @if let Some(version) = &facts.version { (version) " " }
                "over " (facts.target.scheme)
                @if let Some(role) = role { br; (role) }
                @if facts.role == Role::Broker { br; (durability(player)) }
                @if let Some(seconds) = facts.start_s { br; "up in " (brief(seconds)) }
                @if let Some(bytes) = facts.idle_bytes { ", " (mebibytes(bytes)) " idle" }
            }
        }
    }
}

/// What the target promises of persistent messages, and what was seen of it.
fn durability(player: &Player<'_>) -> Markup {
    html! {
        @match player.facts.declared {
            None => "no durability class declared",
            Some(class) => { span.badge { (class) } " declared" }
        }
        @match &player.facts.audited {
            None => ", not audited",
            Some(audited) if player.facts.declared.is_some_and(|class| audited.supports < class) => {
                ", " b { "claim not supported: " (audited.supports) }
            }
            Some(audited) => { ", audit supports " (audited.supports) }
        }
    }
}

/// A comparison with the place it is from.
struct Entry<'a> {
    suite: &'a SuiteRecord,
    cell: &'a Cell,
    found: Comparison,
}

impl Entry<'_> {
    fn name(&self) -> String {
        let at = point(self.cell);
        let comma = if at.is_empty() { "" } else { ", " };
        let Cell { row, title, profile: of, .. } = self.cell;
        format!("{} {row} {title}{comma}{at} ({})", self.suite.id, profile(*of))
    }

    /// One of the two is better, and the whole interval says so.
    fn is_ranked(&self) -> bool {
        matches!(self.found.standing, Standing::Ahead | Standing::Behind)
    }
}

/// How it came out, by target.
pub(super) fn section(book: &Book<'_>) -> Markup {
    let Some(first) = book.first() else { return html! {} };
    let entries: Vec<(usize, Vec<Entry<'_>>)> = book.others().map(|(index, _)| (index, entries(book, index))).collect();
    html! {
        h2 id="outcome" { "Outcome" }
        @if entries.is_empty() {
            p { "One target only: there is nothing to compare. Its figures follow by study." }
        } @else {
            p {
                "Each dot is a cell: a row of a study at one point and in one profile. It stands where the ratio of " (first.name())
                " to the other target is, turned so that more is always better for " (first.name()) ". A hollow dot ranks neither: no difference"
                " was detected, the blocks are too few, or the two promise different durability."
            }
            div.overview { (strips(book, first, &entries)) }
            @for (index, entries) in &entries { (against(first.name(), &book.players[*index], entries)) }
        }
    }
}

fn entries<'a>(book: &Book<'a>, index: usize) -> Vec<Entry<'a>> {
    let cells = book.cells();
    let mut found: Vec<Entry<'a>> = cells
        .filter_map(|(suite, cell)| Some(Entry { suite, cell, found: book.comparison(cell, index)? }))
        .filter(|entry| entry.found.advantage.is_finite() && entry.found.advantage > 0.0)
        .collect();
    found.sort_by(|a, b| a.found.advantage.total_cmp(&b.found.advantage));
    found
}

fn strips(book: &Book<'_>, first: &Player<'_>, entries: &[(usize, Vec<Entry<'_>>)]) -> Markup {
    let lanes: Vec<strip::Lane> = entries
        .iter()
        .map(|(index, entries)| {
            let player = &book.players[*index];
            let dots = entries.iter().map(|entry| {
                let says = format!("{}: {}", entry.name(), ratio(entry.found.advantage, entry.found.interval));
                (entry.found.clone(), says)
            });
            strip::Lane {
                name: player.name().to_owned(),
                look: player.look.clone(),
                count: tally(entries),
                dots: dots.collect(),
            }
        })
        .collect();
    let about = format!("How many times better {} is than each other target, a dot for each cell.", first.name());
    let caption = Caption { id: "overview".to_owned(), title: "All comparisons".to_owned(), about };
    strip::draw(&caption, first.name(), &lanes)
}

/// `behind 3, no difference 4, ahead 31`.
fn tally(entries: &[Entry<'_>]) -> String {
    let names = [
        (Standing::Behind, "behind"),
        (Standing::Level, "no difference"),
        (Standing::Ahead, "ahead"),
        (Standing::Unknown, "undecided"),
        (Standing::OtherPromise, "other promise"),
    ];
    let counted = names.map(|(standing, name)| (entries.iter().filter(|e| e.found.standing == standing).count(), name));
    let told: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{name} {n}")).collect();
    told.join(", ")
}

/// The comparisons with one target as lists: what does not speak for the first target comes first.
fn against(first: &str, other: &Player<'_>, entries: &[Entry<'_>]) -> Markup {
    let of = |wanted: &[Standing]| -> Vec<&Entry<'_>> {
        entries.iter().filter(|entry| wanted.contains(&entry.found.standing)).collect()
    };
    let (behind, level) = (of(&[Standing::Behind]), of(&[Standing::Level, Standing::Unknown]));
    let (mut ahead, unlike) = (of(&[Standing::Ahead]), of(&[Standing::OtherPromise]));
    ahead.reverse();
    html! {
        h3 class=(other.look.class) { (first) " against " (other.name()) }
        @if entries.is_empty() {
            p { "No cell has a figure of both." }
        } @else {
            (means(entries))
            div.scores {
                @if behind.len() + level.len() + unlike.len() > 0 {
                    div {
                        (list("bad", &format!("{first} is behind"), &behind))
                        (list("open", "Neither is ranked", &level))
                        (list("open", "Different promises, not ranked", &unlike))
                    }
                }
                @if !ahead.is_empty() { div { (list("good", &format!("{first} is ahead"), &ahead)) } }
            }
        }
    }
}

/// The geometric mean of the ranked ratios of each study: a mean of ratios that does not depend on
/// which is divided.
fn means(entries: &[Entry<'_>]) -> Markup {
    let mut by_suite: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.found.standing != Standing::OtherPromise) {
        by_suite.entry(&entry.suite.id).or_default().push(entry.found.advantage.ln());
    }
    html! {
        @if !by_suite.is_empty() {
            p.soft {
                "Geometric means of the ratios: "
                @for (at, (suite, logs)) in by_suite.iter().enumerate() {
                    @if at > 0 { ", " }
                    (suite) " " (ratio((logs.iter().sum::<f64>() / logs.len() as f64).exp(), None)) " over " (count(logs.len()))
                }
                "."
            }
        }
    }
}

fn list(class: &str, heading: &str, entries: &[&Entry<'_>]) -> Markup {
    let (shown, folded) = entries.split_at(entries.len().min(SHOWN));
    html! {
        @if !entries.is_empty() {
            p { span class=(format!("tag {class}")) { (heading) } " in " (count(entries.len())) }
            (items(shown))
            @if !folded.is_empty() {
                details { summary { (count(folded.len())) " more" } (items(folded)) }
            }
        }
    }
}

fn items(entries: &[&Entry<'_>]) -> Markup {
    html! {
        ol.list {
            @for entry in entries {
                li {
                    a href=(format!("#{}", anchor(&[&entry.suite.id, &entry.cell.row]))) { (entry.name()) }
                    span { (ratio(entry.found.advantage, entry.found.interval)) }
                }
            }
        }
    }
}
