//! `hermod why`: why a queue does not move, what that rests on, and what to do.

use management::DiagnosisRow;
use management::control::{Answer, Request};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::exit::{Exit, Failure};

/// Asks and prints.
pub(crate) fn run(server: &Server, vhost: &str, queue: &str, form: Form) -> Result<(), Failure> {
    let request = Request::Diagnose { vhost: vhost.to_owned(), queue: queue.to_owned() };
    let row = match ask(server, &request)? {
        Answer::Diagnosed(row) => row,
        Answer::NoSuchQueue(text) => return Err(Exit::NotFound.because(text)),
        other => return Err(strange(&other)),
    };
    if form == Form::Json { show_json(&row) } else { show(&text(&row)) }
}

/// The sentence, each cause with its advice, and who holds messages.
fn text(row: &DiagnosisRow) -> String {
    let mut text = format!("{}\n{}\n", row.sentence, row.evidence);
    if !row.advice.is_empty() {
        text.push_str(&format!("{}\n", row.advice));
    }
    for cause in row.others() {
        text.push_str(&format!("\nAlso {}: {}\n{}\n", cause.sentence, cause.evidence, cause.advice));
    }
    if !row.consumer_details.is_empty() {
        let rows: Vec<_> = row
            .consumer_details
            .iter()
            .map(|one| {
                vec![
                    one.consumer_tag.clone(),
                    one.user.clone(),
                    one.connection.clone(),
                    one.channel.to_string(),
                    one.state.clone(),
                    one.messages_unacknowledged.to_string(),
                    one.prefetch_count.to_string(),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table::text(
            &["consumer", "user", "connection", "session", "state", "unacked", "prefetch"],
            &rows,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use management::{CauseRow, HolderRow};

    use super::*;

    #[test]
    fn the_first_cause_is_told_once_and_the_others_follow() {
        let cause = |sentence: &str, evidence: &str, advice: &str| CauseRow {
            sentence: sentence.into(),
            evidence: evidence.into(),
            advice: advice.into(),
            ..CauseRow::default()
        };
        let row = DiagnosisRow {
            sentence: "It does not move: no consumers".into(),
            evidence: "7 ready.".into(),
            advice: "Start one.".into(),
            causes: vec![cause("no consumers", "7 ready.", "Start one."), cause("full", "It holds 7.", "Add some.")],
            consumer_details: vec![HolderRow {
                consumer_tag: "c".into(),
                state: "ready".into(),
                ..HolderRow::default()
            }],
            ..DiagnosisRow::default()
        };
        let said = text(&row);
        let begins = "It does not move: no consumers\n7 ready.\nStart one.\n\nAlso full: It holds 7.\nAdd some.\n\n";
        assert!(said.starts_with(begins), "{said}");
        assert!(said.contains("consumer") && said.contains("ready"), "{said}");
    }
}
