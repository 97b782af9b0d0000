//! Whether a purge or a deletion keeps messages for an undo: the choice in its form, and the task
//! that does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{TaskId, TaskState};
use maud::{Markup, html};

use super::form::Fields;
use super::parts::Form;
use super::trouble::Trouble;
use super::visitor::Visitor;
use crate::api;
use crate::resources::{TaskChange, TaskFields};
use crate::source::{Source, alarms};

/// For how long, in milliseconds.
const CHOICES: [(&str, &str); 3] =
    [("900000", "for 15 minutes"), ("3600000", "for an hour"), ("86400000", "for a day")];
const AT_ONCE: (&str, &str) = ("0", "no, drop them at once");
/// How long a page waits for the end of the task.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// How long messages are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    milliseconds: u64,
    shown: &'static str,
}

impl Keep {
    /// What the operator is told.
    pub(super) fn said(self) -> String {
        format!("They are kept {}: the page Tasks can undo it.", self.shown)
    }
}

/// Asks before messages are dropped, and whether they are kept. A broker that is short of memory or
/// disk keeps none unless it is told to, since what is kept takes room.
pub(super) fn ask(action: &str, question: &str, button: &str, back: &str, source: &Source) -> Markup {
    let is_short = !alarms(source.broker.alarms()).is_empty();
    let mut choices = CHOICES.to_vec();
    choices.insert(if is_short { 0 } else { choices.len() }, AT_ONCE);
    html! {
        form .card.danger method="post" action=(action) {
            p { (question) }
            div .fields { (Form::of("keep", &Fields::default()).choice("keep_ms", "Keep the messages", &choices)) }
            p .hint {
                "Kept messages wait in a queue of their own, which expires, and count like any others. "
                "Until then the page Tasks brings them back."
            }
            p .buttons {
                button .danger { (button) }
                a .button href=(back) { "Cancel" }
            }
        }
    }
}

/// What the form asks for.
pub(super) fn asked(sent: &Fields) -> Result<Option<Keep>, Trouble> {
    let text = sent.text("keep_ms");
    if text.is_empty() || text == AT_ONCE.0 {
        return Ok(None);
    }
    let choice = CHOICES.iter().find(|(value, _)| *value == text);
    let (value, shown) =
        choice.ok_or_else(|| Trouble::from("Keep the messages: this is none of the choices.".to_owned()))?;
    Ok(value.parse().ok().map(|milliseconds| Keep { milliseconds, shown }))
}

/// Purges or deletes a queue as a task that keeps its messages. Returns how many it has taken, when
/// it has ended or the page has waited long enough.
pub(super) async fn keep(
    visitor: &Visitor,
    source: &Arc<Source>,
    (kind, vhost, queue): (&str, &str, &str),
    keep: Keep,
) -> Result<u64, Trouble> {
    let task = TaskFields {
        kind: kind.to_owned(),
        queue: queue.to_owned(),
        target: None,
        selector: String::new(),
        limit: None,
        rate: None,
        keep_ms: Some(keep.milliseconds),
        dry_run: false,
    };
    let start = TaskChange::Start { vhost: vhost.to_owned(), task };
    let id = TaskId(api::make(source, &visitor.asker, start).await?);
    let begun = Instant::now();
    loop {
        let of = vhost.to_owned();
        let tasks = api::sum_up(source, &visitor.asker, move |source| source.broker.tasks(&of)).await?;
        let task = tasks.unwrap_or_default().into_iter().find(|task| task.name == id);
        match task.map(|task| (task.state, task.counts.taken)) {
            None => return Ok(0),
            Some((TaskState::Running, _)) if begun.elapsed() < PATIENCE => tokio::time::sleep(LOOK).await,
            Some((TaskState::Stopped(reason), _)) => return Err(Trouble::from(format!("Task {id}: {reason}."))),
            Some((_, taken)) => return Ok(taken),
        }
    }
}
