//! What the broker adds to a message, hides and takes away when the message is shown: deaths,
//! counts, what consumers noted, the delay that is over, that it was retained, `CC` and `BCC`, the
//! time to live of a dead letter.
//!
//! Invariant: it is decided here alone. Every dialect's writer, HTTP, browsing and tracing show the
//! same. A message without marks has no overlay, and nothing is computed for it.

use std::borrow::Cow;

use selector::Value as Selected;

use crate::error::Error;
use crate::message::Message;
use crate::message::dialect::{Dialects, Field};
use crate::message::properties::Properties;
use crate::message::scheduling::DELAY;
use crate::value::Value;

/// The header of a message that was retained, with the value true.
const RETAINED: &str = "x-retained";

/// How often a message came back, as far as its queue shows that. Zero is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many returns count towards the delivery limit.
    pub delivery: Option<u32>,
    /// How often in all.
    pub acquired: Option<u32>,
}

impl Counts {
    /// True when there is nothing to show.
    #[inline]
    fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The headers that show it.
    fn headers(self) -> impl Iterator<Item = (&'static str, Value)> {
        let all = [("x-delivery-count", self.delivery), ("x-acquired-count", self.acquired)];
        all.into_iter().filter_map(|(name, count)| Some((name, Value::I64(count?.into()))))
    }
}

/// What is shown otherwise than its publisher wrote it.
#[derive(Debug, PartialEq)]
pub struct Overlay {
    headers: Vec<(Cow<'static, str>, Value)>,
    hidden: &'static [&'static str],
    expiration: Expiration,
}

/// Whether the time to live is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiration {
    Shown,
    Spent,
}

impl Message {
    /// What the broker adds, hides and takes away; `None` if the message is shown as it was
    /// published.
    #[inline]
    pub fn overlay(&self, counts: Counts, dialects: &Dialects) -> Option<Overlay> {
        let plain = !self.is_altered() && !self.is_marked() && counts.is_none();
        if plain { None } else { Some(Overlay::of(self, counts, dialects)) }
    }
}

impl Overlay {
    fn of(message: &Message, counts: Counts, dialects: &Dialects) -> Self {
        let annotations = message.annotations().unwrap_or_default();
        let expiration = if annotations.deaths.is_empty() { Expiration::Shown } else { Expiration::Spent };
        let own = counts.headers().chain(annotations.headers());
        let own = own.chain(spent_delay(message, dialects).map(|spent| (DELAY, spent)));
        let own = own.chain(message.is_retained().then_some((RETAINED, Value::Bool(true))));
        let mut headers: Vec<_> = own.map(|(name, value)| (Cow::Borrowed(name), value)).collect();
        for (name, value) in annotations.noted.0 {
            if !headers.iter().any(|(known, _)| *known == name) {
                headers.push((Cow::Owned(name), value));
            }
        }
        Self { headers, hidden: message.copies().hidden(), expiration }
    }

    /// The headers that are set. They replace the publisher's of these names.
    pub fn headers(&self) -> &[(Cow<'static, str>, Value)] {
        &self.headers
    }

    /// Whether the publisher's headers of this name are not shown, because they are hidden or
    /// replaced.
    pub fn covers(&self, header: &str) -> bool {
        self.hidden.contains(&header) || self.headers.iter().any(|(name, _)| *name == header)
    }

    /// Whether the publisher's time to live is not shown, because it is spent.
    pub fn takes_expiration(&self) -> bool {
        self.expiration == Expiration::Spent
    }

    /// Lays it over the neutral view.
    fn lay_over(self, properties: &mut Properties) {
        properties.headers.0.retain(|(name, _)| !self.covers(name));
        properties.headers.0.extend(self.headers.into_iter().map(|(name, value)| (name.into_owned(), value)));
        if self.expiration == Expiration::Spent {
            properties.expiration = None;
        }
    }
}

impl Dialects {
    /// The neutral view of a message as consumers see it.
    ///
    /// # Errors
    /// If it is in an encoding that this build does not know.
    pub fn read_shown(&self, message: &Message, counts: Counts) -> Result<Properties, Error> {
        let mut properties = self.read_message(message)?;
        if let Some(overlay) = message.overlay(counts, self) {
            overlay.lay_over(&mut properties);
        }
        Ok(properties)
    }
}

/// The value of the header `x-delay` after the delay. It is negative, as RabbitMQ's plugin shows
/// it. So the message is not delayed again when it is published as it came.
fn spent_delay(message: &Message, dialects: &Dialects) -> Option<Value> {
    if !message.was_delayed() {
        return None;
    }
    let delay = match dialects.look_up(message, Field::Header(DELAY)) {
        Selected::Int(number) => number,
        Selected::Float(number) => number.trunc() as i64,
        Selected::Text(text) => text.trim().parse().ok()?,
        Selected::Bool(_) | Selected::Null => return None,
    };
    (delay > 0).then_some(Value::I64(-delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::write_table;
    use crate::message::annotations::{Annotations, Death, Reason};
    use crate::message::cc::Copies;
    use crate::message::{Arena, Head};
    use crate::value::Table;

    const PLAIN: Head<'_> = Head { routing_key: "k", ..Head::EMPTY };

    /// A message with the headers `x-delay`, `CC`, `BCC` and `x-delivery-count`.
    fn message(head: Head<'_>, deaths: usize) -> Message {
        let text = |text: &str| Value::Text(text.to_owned());
        let fields =
            [("x-delay", Value::I32(5)), ("CC", text("c")), ("BCC", text("b")), ("x-delivery-count", text("9"))];
        let mut properties = Vec::new();
        let table = Table(fields.map(|(name, value)| (name.to_owned(), value)).into());
        write_table(&mut properties, &table).unwrap();
        let mut annotations = Annotations::default();
        for queue in 0..deaths {
            annotations.record(Death {
                queue: queue.to_string(),
                reason: Reason::Expired,
                exchange: String::new(),
                routing_keys: vec![],
                count: 1,
                time: 1,
                original_expiration: Some(7),
            });
        }
        let mut marks = Vec::new();
        if deaths > 0 {
            annotations.encode(&mut marks);
        }
        let head = Head { properties: &properties, annotations: &marks, ..head };
        Arena::default().add(&head, b"")
    }

    /// The names of its headers as it is shown, with the values that the broker changes.
    fn shown(message: &Message, counts: Counts) -> String {
        let properties = Dialects::default().read_shown(message, counts).unwrap();
        let fields = properties.headers.0.iter().map(|(name, value)| match value {
            Value::I64(number) => format!("{name}={number}"),
            _ => name.clone(),
        });
        fields.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_message_without_marks_has_no_overlay() {
        let message = message(PLAIN, 0);
        assert_eq!(message.overlay(Counts::default(), &Dialects::default()), None);
        assert_eq!(shown(&message, Counts::default()), "x-delay CC BCC x-delivery-count");
    }

    #[test]
    fn what_was_noted_is_shown_and_hides_no_time_to_live() {
        let noted = Table(vec![("x-delay".to_owned(), Value::Text("no".to_owned()))]);
        let message = message(Head { expiration: Some(9), persistent: true, ..PLAIN }, 0).noted(&noted);
        assert_eq!((message.expiration(), message.persistent(), message.routing_key()), (Some(9), true, "k"));
        assert_eq!(shown(&message, Counts::default()), "CC BCC x-delivery-count x-delay");
        let overlay = message.overlay(Counts::default(), &Dialects::default()).unwrap();
        assert!(!overlay.takes_expiration());
        // What the broker itself says of the message is not replaced.
        let counted = message.noted(&Table(vec![("x-delivery-count".to_owned(), Value::I64(7))]));
        let counts = Counts { delivery: Some(2), acquired: None };
        assert_eq!(shown(&counted, counts), "CC BCC x-delivery-count=2 x-delay");
    }

    #[test]
    fn each_mark_changes_what_it_is_about() {
        let none = Counts::default();
        let counts = Counts { delivery: Some(2), acquired: Some(3) };
        let deaths = "x-death x-first-death-queue x-first-death-reason x-first-death-exchange x-last-death-queue \
                      x-last-death-reason x-last-death-exchange";
        for (copies, delayed, died, counts, expected) in [
            (Copies::Named, false, 0, none, "x-delay CC x-delivery-count"),
            (Copies::Spent, false, 0, none, "x-delay x-delivery-count"),
            (Copies::None, true, 0, none, "CC BCC x-delivery-count x-delay=-5"),
            (Copies::None, false, 0, counts, "x-delay CC BCC x-delivery-count=2 x-acquired-count=3"),
            (Copies::None, false, 2, none, &format!("x-delay CC BCC x-delivery-count {deaths}")),
            (Copies::Spent, true, 1, counts, &format!("x-delivery-count=2 x-acquired-count=3 {deaths} x-delay=-5")),
        ] {
            let message = message(Head { copies, delayed, ..PLAIN }, died);
            assert_eq!(shown(&message, counts), expected);
            let overlay = message.overlay(counts, &Dialects::default()).unwrap();
            assert_eq!(overlay.takes_expiration(), died > 0);
            assert_eq!(overlay.covers("x-delay"), delayed);
        }
    }
}
