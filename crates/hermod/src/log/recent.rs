//! Keeps the last lines of the log for management, beside writing them.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use management::{LogLine, RecentLog};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::line;

/// The text of an event, among its fields.
const TEXT: &str = "message";
/// The field that says how many lines were left out before this one.
const LEFT_OUT: &str = "left_out";

/// See the module.
pub(super) struct Keeper(pub(super) Arc<RecentLog>);

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = LogLine {
            number: 0,
            at: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            level: level(*metadata.level()),
            part: metadata.target().to_owned(),
            text: String::new(),
            fields: Vec::with_capacity(metadata.fields().len()),
        };
        event.record(&mut Fields(&mut line));
        match line::are_left_out() {
            0 => {}
            count => line.fields.push((LEFT_OUT, count.to_string())),
        }
        self.0.keep(line);
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Writes fields into a line.
struct Fields<'a>(&'a mut LogLine);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            TEXT => value.clone_into(&mut self.0.text),
            name => self.0.fields.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing to a text can't fail; a value that refuses to be shown is left out.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::gate::Gate;
    use super::*;

    #[test]
    fn lines_are_kept_with_their_fields_and_through_the_gate() {
        let recent = Arc::<RecentLog>::default();
        let layer = Keeper(Arc::clone(&recent)).with_filter(Gate::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(target: "audit", who = "ada", count = 3, why = %"none", "administrative change");
            for _ in 0..100 {
                tracing::warn!(user = "low", "closing");
            }
        });
        let kept = recent.copy();
        let said = |line: &LogLine| format!("{} {} {} {}", line.level, line.part, line.text, line.said());
        assert_eq!(said(&kept[0]), "info audit administrative change who=ada count=3 why=none");
        assert!(kept.len() < 60, "{} lines passed", kept.len());
        assert!(said(&kept[1]).ends_with("closing user=low"), "{}", said(&kept[1]));
    }
}
