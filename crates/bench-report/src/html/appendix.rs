//! What it takes to check and to repeat the run: targets, machine, method, command, and the values
//! of all slices.

use maud::{Markup, html};

use super::book::{Book, Player, absence, figures, point, profile};
use super::quantity::{amount, brief, count, mebibytes, moment, printed};
use bench_record::slice::SliceRecord;
use bench_record::span::words;
use bench_record::suite::{Cell, CellResult, SuiteRecord};

/// The appendix.
pub(super) fn section(book: &Book<'_>) -> Markup {
    html! {
        h2 id="appendix" { "Appendix" }
        h3 { "Targets" }
        (targets(book))
        h3 { "Machine and run" }
        (machine(book))
        h3 { "Method" }
        (method(book))
        h3 { "How to repeat it" }
        pre { (command(&book.report.command)) }
        p.soft { "The order of targets, the arrivals and the bodies follow from the seed " (book.report.extent.seed.to_string()) "." }
        h3 { "Every slice" }
        p.soft { "Values in the unit of the cell, in the order of the blocks. Struck through: it broke a rule; point at it to see which." }
        @for suite in &book.report.suites { (slices(book, suite)) }
    }
}

fn targets(book: &Book<'_>) -> Markup {
    let line = |name: &str, value: &dyn Fn(&Player<'_>) -> String| {
        html! { tr { th scope="row" { (name) } @for player in &book.players { td { (value(player)) } } } }
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    html! {
        div.scroll {
            table {
                thead { tr { th {} @for player in &book.players { th class=(player.look.class) { (player.name()) } } } }
                tbody {
                    (line("Product", &|p| or_dash(p.facts.product.clone())))
                    (line("Version", &|p| or_dash(p.facts.version.clone())))
                    (line("Protocol", &|p| p.facts.target.scheme.clone()))
                    (line("Address", &|p| p.facts.target.address.clone()))
                    (line("Queue type", &|p| or_dash(p.facts.target.queue_type.clone())))
                    (line("Durability declared", &|p| or_dash(p.facts.declared.map(|class| class.to_string()))))
                    (line("Durability audited", &|p| or_dash(
                        p.facts.audited.as_ref().map(|found| format!("{}: {}", found.supports, found.evidence)),
                    )))
                    (line("Time to start", &|p| or_dash(p.facts.start_s.map(brief))))
                    (line("Idle memory", &|p| or_dash(p.facts.idle_bytes.map(mebibytes))))
                }
            }
        }
    }
}

fn machine(book: &Book<'_>) -> Markup {
    let (report, machine, extent) = (book.report, &book.report.machine, &book.report.extent);
    let mut forced: Vec<f64> = report.forced.iter().map(|one| one.latency.p50).collect();
    forced.sort_by(f64::total_cmp);
    html! {
        ul {
            li { (machine.cores) " cores" @if let Some(name) = &machine.processor { ", " (name) } }
            li { (machine.os) @if let Some(kernel) = &machine.kernel { " " (kernel) } }
            li { "started " (moment(report.started)) " UTC" @if let Some(end) = report.finished { ", finished " (moment(end)) " UTC" } }
            li { (count(extent.blocks)) " blocks, counts × " (printed(extent.scale)) ", " (words(extent.budget_s)) " expected" }
            @if let (Some(low), Some(high)) = (forced.first(), forced.last()) {
                @let (low, high) = (amount(*low), amount(*high));
                li {
                    "an empty forced write of 4 KiB: median " (amount(forced[forced.len() / 2])) " µs"
                    @if low != high { " (" (low) "–" (high) " over the blocks)" }
                }
            }
        }
    }
}

fn method(book: &Book<'_>) -> Markup {
    let frozen = if book.report.extent.frozen { "; the others stand still meanwhile" } else { "" };
    html! {
        ul {
            li { "In each block every target has its turn once in random order" (frozen) "." }
            li { "The block is the unit of replication: medians are over blocks, and an interval is that of order statistics, from five blocks on: with five, from the least to the most, which holds the median in 94 of 100 cases." }
            li { "Ratios are taken within blocks, so that what the machine does meanwhile happens to both." }
            li { "A ratio ranks only if its whole interval lies on one side of 1 and is not within what the control, the same broker twice, shows." }
            li { "Every message is checked: lost, duplicated, reordered or corrupted ones make a slice invalid." }
            li { "A slice is also invalid when the generator was the limit or late, or when other processes or the hypervisor disturbed it." }
            li { "Latencies come from every message, in an open loop from the time at which it was meant to be sent." }
            li { "CPU is that of the broker's whole process tree, from the scheduler's nanoseconds." }
            li { "D0 to D3 say what a confirm promises: nothing, memory, page cache, forced to the disk. Across classes no target is ranked." }
            li { "Published figures are from other machines and years: shapes and ratios are compared with them, never levels." }
        }
    }
}

/// The command line as a shell takes it.
fn command(words: &[String]) -> String {
    let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./:=,@%+*".contains(c));
    let quoted = words.iter().enumerate().map(|(at, word)| match word {
        word if at == 0 => word.rsplit('/').next().unwrap_or(word).to_owned(),
        word if plain(word) => word.clone(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn slices(book: &Book<'_>, suite: &SuiteRecord) -> Markup {
    html! {
        details {
            summary { (suite.title) }
            div.scroll {
                table.figure-table {
                    thead { tr { th { "Cell" } th { "Target" } th { "Slices" } th { "Seconds" } th { "Lost, duplicated, reordered, corrupted" } } }
                    tbody {
                        @for cell in &suite.cells {
                            @for (index, result) in cell.results.iter().enumerate() { (points(book, cell, index, result)) }
                        }
                    }
                }
            }
        }
    }
}

fn points(book: &Book<'_>, cell: &Cell, index: usize, result: &CellResult) -> Markup {
    html! {
        tr {
            th scope="row" { (cell.row) " " (point(cell)) " " span.soft { (profile(cell.profile)) } }
            td { (book.players[index].name()) }
            @match figures(cell, index) {
                None => td colspan="3" { @if let Some((word, reason)) = absence(result) { (word) ": " (reason) } }
                Some(found) => {
                    td { @for slice in &found.all { (value(cell, slice)) " " } }
                    td { (amount(found.all.iter().filter_map(|slice| Some(slice.measured.as_ref()?.seconds)).sum())) }
                    td { (harm(&found.all)) }
                }
            }
        }
    }
}

fn value(cell: &Cell, slice: &SliceRecord) -> Markup {
    let Some(measured) = &slice.measured else {
        return html! { span.bad title=[slice.error.as_ref()] { "failed" } };
    };
    let text = cell.metric.of_slice(measured, &cell.load).map_or_else(|| "·".to_owned(), amount);
    let verdict = &measured.verdict;
    html! {
        @if verdict.valid && !slice.superseded { (text) }
        @else { s title=(verdict.violations.join("; ")) { (text) } }
    }
}

fn harm(slices: &[SliceRecord]) -> String {
    let sum = slices.iter().filter_map(|slice| slice.measured.as_ref()).map(|measured| measured.integrity).fold(
        [0; 4],
        |sum, found| {
            [sum[0] + found.lost, sum[1] + found.duplicated, sum[2] + found.reordered, sum[3] + found.corrupted]
        },
    );
    if sum == [0; 4] { "none".to_owned() } else { sum.map(count).join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let words = [
            "/usr/local/bin/hermod-bench",
            "suite",
            "kth2016",
            "--target",
            "amqp://h:1,pid=3",
            "--rows",
            "Q1 Q2",
            "it's",
        ];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(command(&words), r"hermod-bench suite kth2016 --target amqp://h:1,pid=3 --rows 'Q1 Q2' 'it'\''s'");
    }
}
