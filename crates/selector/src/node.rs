//! A parsed selector as a tree, and which types its parts can have.
//!
//! The tree is as deep as the text nests, never as long as it is: operands in a row are siblings.

use crate::pattern::Pattern;
use crate::value::{Comparison, Operation};

/// One part of a selector.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Property(Box<str>),
    Not(Box<Node>),
    /// All of them: AND.
    All(Vec<Node>),
    /// Any of them: OR.
    Any(Vec<Node>),
    Compare {
        comparison: Comparison,
        left: Box<Node>,
        right: Box<Node>,
    },
    Between {
        value: Box<Node>,
        low: Box<Node>,
        high: Box<Node>,
    },
    /// The texts are sorted.
    In {
        property: Box<str>,
        texts: Vec<Box<str>>,
    },
    Like {
        property: Box<str>,
        pattern: Box<Pattern>,
    },
    IsNull {
        property: Box<str>,
    },
    /// From left to right.
    Calculate {
        first: Box<Node>,
        rest: Vec<(Operation, Node)>,
    },
    Negate(Box<Node>),
}

/// The type of a part, as far as the text alone says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    Text,
    /// A property can have any type.
    Open,
}

impl Kind {
    /// True when a part of this kind may turn out to be a `wanted`.
    pub(crate) fn may_be(self, wanted: Self) -> bool {
        self == Self::Open || wanted == Self::Open || self == wanted
    }

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "a condition",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Open => "a property",
        }
    }
}

impl Node {
    /// Its type, as far as the text alone says it.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Property(_) => Kind::Open,
            Self::Int(_) | Self::Float(_) | Self::Negate(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
            Self::Calculate { first, rest } => {
                let kinds = || std::iter::once(first.kind()).chain(rest.iter().map(|(_, node)| node.kind()));
                // Only `+` takes anything but numbers, and the parser has checked that they agree.
                match () {
                    () if rest.iter().any(|(operation, _)| *operation != Operation::Add) => Kind::Number,
                    () => kinds().find(|kind| *kind != Kind::Open).unwrap_or(Kind::Open),
                }
            }
            _ => Kind::Bool,
        }
    }
}
