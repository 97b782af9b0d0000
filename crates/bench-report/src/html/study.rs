//! One study: what it did, what was wrong with it, what its rows give here, its figures drawn
//! again, its claims judged.

use maud::{Markup, html};

use super::book::Book;
use super::{plots, rows};
use bench_record::suite::{Claim, ClaimVerdict, SuiteRecord};

/// The section of a study.
pub(super) fn section(book: &Book<'_>, suite: &SuiteRecord) -> Markup {
    html! {
        section aria-labelledby=(suite.id) {
            h2 id=(suite.id) { (suite.title) }
            @if !suite.gist.is_empty() { p { (suite.gist) } }
            p { small { (suite.citation) @if !suite.environment.is_empty() { " — " (suite.environment) } } }
            @if !suite.faults.is_empty() {
                details {
                    summary { "What is wrong with the published measurement (" (suite.faults.len()) ")" }
                    p { small { "The faithful profile repeats this; the fair one does not." } }
                    ul { @for fault in &suite.faults { li { (fault) } } }
                }
            }
            @if !suite.claims.is_empty() { h3 { "Do its claims hold here?" } (claims(&suite.claims)) }
            @if !suite.figures.is_empty() { h3 { "Its figures, drawn again" } (plots::section(book, suite)) }
            h3 { "All rows" }
            (rows::section(book, suite))
        }
    }
}

fn claims(claims: &[Claim]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "Verdict" } th { "Claim" } th { "Why" } } }
                tbody {
                    @for claim in claims {
                        tr {
                            td { (verdict(claim.verdict)) }
                            td { (claim.text) }
                            td.soft { (claim.why) }
                        }
                    }
                }
            }
        }
    }
}

fn verdict(verdict: ClaimVerdict) -> Markup {
    let (class, sign, word) = match verdict {
        ClaimVerdict::Holds => ("good", "✓", "holds"),
        ClaimVerdict::DoesNotHold => ("bad", "✗", "does not hold"),
        ClaimVerdict::Undecided => ("open", "?", "undecided"),
    };
    html! { span class=(format!("tag {class}")) { (sign) " " (word) } }
}
