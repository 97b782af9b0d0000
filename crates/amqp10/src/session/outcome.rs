//! Outcomes of this protocol as the broker's (part 3, §3.4).

use std::sync::Arc;

use broker::Outcome;

use crate::codec;
use crate::codec::state::{Modified, Rejected};
use crate::dialect::to_table;
use crate::session::error::Failure;

/// The broker's outcome.
pub(super) fn outcome_of(outcome: &codec::Outcome<'_>) -> Result<Outcome, Failure> {
    Ok(match outcome {
        codec::Outcome::Accepted => Outcome::Accepted,
        codec::Outcome::Released => Outcome::Released,
        codec::Outcome::Rejected(Rejected { error }) => {
            let said = error.map(|error| match error.description {
                Some(description) => format!("{}: {description}", error.condition.0),
                None => error.condition.0.to_owned(),
            });
            Outcome::Rejected { said: said.map(Arc::new) }
        }
        codec::Outcome::Modified(Modified { delivery_failed, undeliverable_here, message_annotations }) => {
            let annotations = message_annotations.map(to_table).filter(|table| !table.0.is_empty());
            Outcome::Modified {
                failed: *delivery_failed,
                elsewhere: *undeliverable_here,
                annotations: annotations.map(Arc::new),
            }
        }
        codec::Outcome::Declared(_) => return Err(Failure::invalid("declared is no outcome of a message")),
    })
}

/// The outcome that the peer is told, whose own words it is not told again.
pub(super) fn told_of(outcome: &Outcome) -> codec::Outcome<'static> {
    match outcome {
        Outcome::Accepted => codec::Outcome::Accepted,
        Outcome::Released => codec::Outcome::Released,
        Outcome::Rejected { .. } => codec::Outcome::Rejected(Rejected { error: None }),
        Outcome::Modified { failed, elsewhere, .. } => codec::Outcome::Modified(Modified {
            delivery_failed: *failed,
            undeliverable_here: *elsewhere,
            message_annotations: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Error, Symbol};

    #[test]
    fn the_four_outcomes() {
        let modified = |failed, elsewhere| Outcome::Modified { failed, elsewhere, annotations: None };
        let said = |text: &str| Outcome::Rejected { said: Some(Arc::new(text.to_owned())) };
        let error = |description| Some(Error { condition: Symbol("app:bad"), description, info: None });
        let modify = |delivery_failed, undeliverable_here| {
            codec::Outcome::Modified(Modified { delivery_failed, undeliverable_here, message_annotations: None })
        };
        for (outcome, expected) in [
            (codec::Outcome::Accepted, Outcome::Accepted),
            (codec::Outcome::Released, Outcome::Released),
            (codec::Outcome::Rejected(Rejected { error: None }), Outcome::REJECTED),
            (codec::Outcome::Rejected(Rejected { error: error(None) }), said("app:bad")),
            (codec::Outcome::Rejected(Rejected { error: error(Some("why")) }), said("app:bad: why")),
            (modify(false, false), modified(false, false)),
            (modify(true, false), modified(true, false)),
            (modify(true, true), modified(true, true)),
        ] {
            assert_eq!(outcome_of(&outcome), Ok(expected), "{outcome:?}");
        }
    }
}
