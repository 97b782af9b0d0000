//! What a reader must know before believing anything: what was interrupted, scaled, disturbed or
//! invalid, and what is missing to be sure.

use maud::{Markup, html};

use super::book::{Book, Soundness, figures, soundness};
use super::quantity::{count, counted, printed};
use bench_record::suite::{Cell, CellOutcome, Role};

/// Fewer blocks have no intervals.
const FEWEST_BLOCKS: usize = 5;

/// The warnings; nothing where there are none.
pub(super) fn section(book: &Book<'_>) -> Markup {
    let all: Vec<String> = [run(book), promises(book), cells(book), slices(book)].concat();
    html! {
        @if !all.is_empty() {
            aside.warnings aria-label="Warnings" {
                h3 { "Before you believe it" }
                ul { @for text in &all { li { (text) } } }
            }
        }
    }
}

/// Of the run as a whole.
fn run(book: &Book<'_>) -> Vec<String> {
    let (report, extent) = (book.report, &book.report.extent);
    let mut all = Vec::new();
    if report.finished.is_none() {
        all.push("The run was interrupted, or goes on: what was not measured says so.".to_owned());
    }
    if extent.scale != 1.0 {
        all.push(format!(
            "Message counts of the studies were multiplied by {}: queues were shallower and runs shorter than published.",
            printed(extent.scale)
        ));
    }
    if extent.blocks < FEWEST_BLOCKS {
        all.push(format!(
            "With fewer than {FEWEST_BLOCKS} blocks there are no intervals, and no target is ranked: ranges are shown instead."
        ));
    }
    if !extent.frozen && book.players.len() > 1 {
        all.push(
            "Targets that were not measured kept running: their background work is in the figures of the others."
                .to_owned(),
        );
    }
    if book.others().next().is_some() && !book.players.iter().any(|player| player.facts.role == Role::Control) {
        all.push("There is no control (the first target measured twice), so that differences below the noise of this machine are not told from real ones.".to_owned());
    }
    all
}

/// Of what the targets promise.
fn promises(book: &Book<'_>) -> Vec<String> {
    let brokers = || book.players.iter().filter(|player| player.facts.role == Role::Broker);
    let mut all: Vec<String> = Vec::new();
    for player in brokers() {
        let (name, facts) = (player.name(), player.facts);
        match (facts.declared, &facts.audited) {
            (None, _) => all.push(format!(
                "{name} declares no durability class: whether its persistent figures may stand beside others is not known."
            )),
            (Some(declared), Some(audited)) if audited.supports < declared => all.push(format!(
                "{name} declares {declared}, which the audit does not support ({}): {}",
                audited.supports, audited.evidence
            )),
            _ => {}
        }
    }
    let mut classes: Vec<_> = brokers().filter_map(|player| player.facts.declared).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() > 1 {
        let names: Vec<String> = classes.iter().map(ToString::to_string).collect();
        all.push(format!(
            "Targets promise different durability ({}): persistent cells are not ranked across classes.",
            names.join(", ")
        ));
    }
    all
}

/// Of cells without a figure, or with one that does not count.
fn cells(book: &Book<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for (index, player) in book.players.iter().enumerate() {
        let outcomes = || book.cells().filter_map(move |(_, cell)| Some((cell, &cell.results.get(index)?.outcome)));
        let failed = outcomes().filter(|(_, outcome)| matches!(outcome, CellOutcome::Failed { .. })).count();
        let judged = |cell: &Cell| figures(cell, index).map(|found| soundness(cell.metric, found));
        let sound = |wanted| outcomes().filter(|(cell, _)| judged(cell) == Some(wanted)).count();
        let (violated, doubtful) = (sound(Soundness::Violated), sound(Soundness::Doubtful));
        let mut tell = |number: usize, what: &str| {
            if number > 0 {
                all.push(format!("{}: {} {what}", player.name(), counted(number, ["cell", "cells"])));
            }
        };
        tell(
            violated,
            "in which no slice was valid and messages were lost, duplicated, reordered or corrupted: struck through.",
        );
        tell(doubtful, "in which every slice broke a rule of the measurement: drawn hollow.");
        tell(failed, "that could not be measured.");
    }
    let scaled = book.cells().filter(|(_, cell)| cell.scaled.is_some()).count();
    if scaled > 0 && book.report.extent.scale == 1.0 {
        all.push(format!("{} cells were loaded with other counts than published; each says which.", count(scaled)));
    }
    all
}

/// Of slices that do not count, by reason.
fn slices(book: &Book<'_>) -> Vec<String> {
    let measured =
        || book.cells().flat_map(|(_, cell)| (0..cell.results.len()).filter_map(move |at| figures(cell, at)));
    let (all, valid) = measured().fold((0, 0), |(all, valid), found| (all + found.slices, valid + found.valid));
    let again = measured().flat_map(|found| &found.all).filter(|slice| slice.superseded).count();
    let mut texts = Vec::new();
    if valid < all {
        texts.push(format!(
            "{} of {} slices broke a rule and are left out where valid ones exist; the tables name the rules.",
            count(all - valid),
            count(all)
        ));
    }
    if again > 0 {
        texts.push(format!("{} slices were disturbed by the machine and measured again.", count(again)));
    }
    texts
}
