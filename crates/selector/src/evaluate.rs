//! What a selector is of a message: true, false, or unknown.
//!
//! An absent property is unknown, and so is everything that depends on it; AND is false as soon as
//! one side is, OR true.

use std::borrow::Cow;

use crate::Lookup;
use crate::node::Node;
use crate::value::{Comparison, Value, convert, negate};

/// One evaluation.
pub(crate) struct Evaluation<'a> {
    pub(crate) properties: &'a dyn Lookup,
    /// Text counts as a number or a truth value where it is compared with one.
    pub(crate) converts: bool,
}

impl<'a> Evaluation<'a> {
    /// The truth of a condition; a property that is no truth value is unknown.
    pub(crate) fn truth(&self, node: &'a Node) -> Option<bool> {
        match node {
            Node::Not(inner) => self.truth(inner).map(|truth| !truth),
            Node::All(nodes) => any(nodes.iter().map(|node| self.truth(node).map(|truth| !truth))).map(|truth| !truth),
            Node::Any(nodes) => any(nodes.iter().map(|node| self.truth(node))),
            Node::Compare { comparison, left, right } => self.compare(*comparison, self.value(left), self.value(right)),
            Node::Between { value, low, high } => {
                let value = self.value(value);
                let above = self.compare(Comparison::GreaterOrEqual, value.clone(), self.value(low));
                let below = self.compare(Comparison::LessOrEqual, value, self.value(high));
                both(above, below)
            }
            Node::In { property, texts } => match self.properties.get(property) {
                Value::Null => None,
                Value::Text(text) => Some(texts.binary_search_by(|one| (**one).cmp(&*text)).is_ok()),
                _ => Some(false),
            },
            Node::Like { property, pattern } => match self.properties.get(property) {
                Value::Null => None,
                Value::Text(text) => Some(pattern.matches(&text)),
                _ => Some(false),
            },
            Node::IsNull { property } => Some(self.properties.get(property) == Value::Null),
            other => match self.value(other) {
                Value::Bool(truth) => Some(truth),
                _ => None,
            },
        }
    }

    fn compare(&self, comparison: Comparison, left: Value<'a>, right: Value<'a>) -> Option<bool> {
        if !self.converts {
            return comparison.apply(&left, &right);
        }
        let left = convert(left, &right);
        let right = convert(right, &left);
        comparison.apply(&left, &right)
    }

    fn value(&self, node: &'a Node) -> Value<'a> {
        match node {
            Node::Bool(truth) => Value::Bool(*truth),
            Node::Int(number) => Value::Int(*number),
            Node::Float(number) => Value::Float(*number),
            Node::Text(text) => Value::Text(Cow::Borrowed(text)),
            Node::Property(name) => self.properties.get(name),
            Node::Negate(inner) => negate(&self.value(inner)),
            Node::Calculate { first, rest } => {
                let first = self.value(first);
                rest.iter().fold(first, |sum, (operation, node)| operation.apply(sum, self.value(node)))
            }
            condition => self.truth(condition).map_or(Value::Null, Value::Bool),
        }
    }
}

/// True as soon as one is true; else unknown if one is unknown; else false.
fn any(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut outcome = Some(false);
    for truth in truths {
        match truth {
            Some(true) => return Some(true),
            Some(false) => {}
            None => outcome = None,
        }
    }
    outcome
}

fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}
