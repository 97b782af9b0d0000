//! Diverts: copies of what an address gets. A queue copies to one other, so one divert of each
//! address that has a queue moves, unless it takes the message away or changes it.

use roxmltree::Node;

use super::Artemis;
use crate::outcome::Outcome;
use crate::xml::{child, elements, name, text};

/// The argument for the queue that gets the copies.
pub(crate) const TO: &str = "x-copy-to";
/// The argument for which messages are copied.
pub(crate) const SELECTOR: &str = "x-copy-selector";

/// Reads all of them. The queues of the file are known by now.
pub(super) fn convert(artemis: &Artemis<'_, '_>, diverts: Node<'_, '_>, outcome: &mut Outcome<'_>) {
    for divert in elements(diverts) {
        let line = artemis.xml.line(divert);
        match copy(divert, outcome) {
            Err(why) => outcome.left_out(line, "divert", why),
            Ok(Copy { from, to, selector }) => {
                outcome.definitions.queue(&to);
                let arguments = outcome.definitions.queues.entry(from).or_default();
                arguments.insert(TO.to_owned(), to.into());
                selector.map(|selector| arguments.insert(SELECTOR.to_owned(), selector.into()));
                outcome.moved(line, "divert", "x-copy-to of the queue in the definitions");
            }
        }
    }
}

/// What a divert copies.
struct Copy {
    from: String,
    to: String,
    selector: Option<String>,
}

fn copy(divert: Node<'_, '_>, outcome: &Outcome<'_>) -> Result<Copy, &'static str> {
    let part = |key: &str| child(divert, key).map(text).filter(|text| !text.is_empty());
    let selector =
        child(divert, "filter").and_then(|filter| filter.attribute("string")).filter(|text| !text.is_empty());
    let (Some(from), Some(to)) = (part("address"), part("forwarding-address")) else {
        return Err("it has no address and forwarding-address; bind a queue to the exchange, or publish with CC");
    };
    let has = |key: &str| divert.descendants().any(|node| node.is_element() && name(node) == key);
    if part("exclusive").as_deref() == Some("true") {
        return Err("it takes messages away from their address; publish to the other queue, or bind it");
    }
    if has("class-name") || has("transformer-class-name") {
        return Err("code of one's own is not loaded");
    }
    if selector.is_some_and(|selector| selector.contains("AMQ")) {
        return Err("its filter has names of Artemis; see the manual's selectors for those that are known");
    }
    match outcome.definitions.queues.get(&from) {
        None => Err("its address has no queue of that name in this file; set x-copy-to on the queue that has"),
        Some(arguments) if arguments.contains_key(TO) => Err("a queue copies to one other, and this one does already"),
        Some(_) if from == to => Err("a queue can't get copies of its own messages"),
        Some(_) => Ok(Copy { from, to, selector: selector.map(str::to_owned) }),
    }
}
