//! The report of a suite run as one HTML file that needs nothing else: style and figures are
//! inside, there is no script, and nothing is fetched. It is drawn from the record alone, so that
//! it can be drawn again.

mod appendix;
mod book;
mod chart;
mod headline;
mod percentiles;
mod plots;
mod quantity;
mod rows;
#[cfg(test)]
pub(crate) mod sample;
mod study;
#[cfg(test)]
mod tests;
mod timeline;
mod warnings;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use bench_record::failure::Failure;
use bench_record::suite::Report;
use book::Book;

/// The style sheet.
const STYLE: &str = include_str!("html/page.css");

/// Draws the page of a report. It fails when the record is of another version, or its parts don't
/// fit together.
pub fn render(report: &Report) -> Result<String, Failure> {
    let book = Book::open(report)?;
    Ok(page(&book).into_string())
}

fn page(book: &Book<'_>) -> Markup {
    let title = headline::title(book);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(book.report.program);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    (top(book))
                    h1 { (title) }
                    (headline::circumstances(book))
                }
                main {
                    (warnings::section(book))
                    (headline::section(book))
                    @for suite in &book.report.suites { (study::section(book, suite)) }
                    (appendix::section(book))
                }
                footer { p { "Drawn by " (book.report.program) " from the record of the run." } }
            }
        }
    }
}

/// Where to go on the page, and the choice of colours, which needs no script.
fn top(book: &Book<'_>) -> Markup {
    html! {
        div.bar-top {
            nav aria-label="Parts of this report" {
                a href="#outcome" { "Outcome" } " "
                @for suite in &book.report.suites { a href=(format!("#{}", suite.id)) { (suite.id) } " " }
                a href="#appendix" { "Appendix" }
            }
            fieldset.scheme {
                legend { "Colours" }
                label { input type="radio" name="scheme" id="system" checked; "as the system" }
                label { input type="radio" name="scheme" id="light"; "light" }
                label { input type="radio" name="scheme" id="dark"; "dark" }
            }
        }
    }
}
