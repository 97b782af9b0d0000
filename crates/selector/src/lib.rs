//! SQL-92 message selectors, as JMS 2.0 and 3.1 define them (§3.8.1): parsed once, evaluated in
//! three-valued logic over a look-up of properties.
//!
//! This crate is pure: it depends on nothing of ours and does no I/O. Whatever text comes in,
//! parsing and evaluation take bounded time, memory and depth, and evaluation allocates only where
//! it joins strings.
//!
//! ```
//! use selector::{Lookup, Selector, Value};
//!
//! struct Order;
//!
//! impl Lookup for Order {
//!     fn get(&self, name: &str) -> Value<'_> {
//!         match name {
//!             "country" => Value::text("UK"),
//!             "weight" => Value::Int(2500),
//!             _ => Value::Null,
//!         }
//!     }
//! }
//!
//! let selector = Selector::parse("country = 'UK' AND weight > 1000")?.expect("it is not blank");
//! assert!(selector.matches(&Order));
//! # Ok::<(), selector::ParseError>(())
//! ```

mod error;
mod evaluate;
mod node;
mod parse;
mod pattern;
mod token;
mod value;

use std::fmt;

pub use error::ParseError;
pub use value::Value;

use node::Node;

/// The longest selector, in bytes. Camel JMS asks for all replies that it waits for by one.
pub const MAX_LENGTH: usize = 128 << 10;
/// The most words, signs and literals in one selector.
pub const MAX_TOKENS: usize = 8192;
/// How deep parentheses, signs and NOTs may nest.
pub const MAX_DEPTH: usize = 64;
/// The longest pattern of LIKE, in characters. A character of the text takes a step for each 64 of
/// them, and one more at most.
pub const MAX_PATTERN: usize = 512;

/// In front of a selector: a property that is text counts as a number or a truth value where it is
/// compared with one. ActiveMQ and Artemis do the same.
const CONVERTS: &str = "convert_string_expressions:";

/// Where a selector finds the properties that it names.
pub trait Lookup {
    /// The property of this name, which is case-sensitive; [`Value::Null`] if there is none.
    fn get(&self, name: &str) -> Value<'_>;
}

/// A parsed selector. Two are equal when their texts are.
#[derive(Debug, Clone)]
pub struct Selector {
    text: Box<str>,
    root: Node,
    converts: bool,
}

impl Selector {
    /// Parses a selector; a blank one selects everything and is `None`.
    ///
    /// # Errors
    /// Says where the text stops making sense, why, and what to write instead.
    pub fn parse(text: &str) -> Result<Option<Self>, ParseError> {
        if text.len() > MAX_LENGTH {
            let reason = format!("the selector has {} bytes; at most {MAX_LENGTH} are allowed", text.len());
            return Err(ParseError::new(text, 0, reason));
        }
        let (start, converts) = if text.starts_with(CONVERTS) { (CONVERTS.len(), true) } else { (0, false) };
        if text[start..].trim().is_empty() {
            return Ok(None);
        }
        let root = parse::parse(text, start)?;
        Ok(Some(Self { text: text.into(), root, converts }))
    }

    /// True when the selector is true of these properties: neither false nor unknown.
    pub fn matches(&self, properties: &dyn Lookup) -> bool {
        self.evaluate(properties) == Some(true)
    }

    /// What the selector is of these properties; `None` for unknown.
    pub fn evaluate(&self, properties: &dyn Lookup) -> Option<bool> {
        evaluate::Evaluation { properties, converts: self.converts }.truth(&self.root)
    }

    /// The selector as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Selector {}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
