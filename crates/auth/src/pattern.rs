//! Patterns of names: what permissions, topic permissions, policies and filters are written in. One
//! engine for all of them.
//!
//! They are written as RabbitMQ's are, in the language of PCRE, and searched for anywhere in a
//! name. What can be matched in linear time is. Look-around, back-references and atomic groups
//! backtrack. The work of each match, the memory of each pattern and the number of such patterns
//! are bounded. A match that comes to its bound has not matched: nothing is allowed by it. It is
//! counted, and told once for each pattern. A pattern is compiled when it is made, never to match.

mod pcre;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use regex::{Regex, RegexBuilder};

/// Longest pattern that is accepted, in bytes.
const MAX_PATTERN: usize = 4096;
/// Memory that a pattern compiled for linear time, and one cache of its automaton, may take.
const LINEAR_MEMORY: usize = 1024 * 1024;
/// The same for each part of a backtracking pattern that is matched in linear time; Unicode's
/// letters need a tenth of it.
const PART_MEMORY: usize = 256 * 1024;
/// Look-arounds, back-references and atomic groups that one pattern may have.
const MAX_HARD: usize = 32;
/// Instructions that a backtracking pattern may come to.
const MAX_INSTRUCTIONS: usize = 8192;
/// Steps back of one match.
const MAX_STEPS: usize = 10_000;
/// Longest name that backtracking patterns are searched for in, in bytes.
const MAX_NAME: usize = 1024;
/// Letters of a pattern that an error shows.
const SHOWN: usize = 80;

/// Matches that came to their bound.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// How many matches of this process came to their bound and so did not match.
pub fn given_up() -> u64 {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// A pattern that matches exactly what `text` says, anywhere in a name.
pub fn quoted(text: &str) -> String {
    regex::escape(text)
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// The beginning of the pattern as it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the permission pattern '{}' cannot be used: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for PatternError {}

/// One pattern. The empty pattern matches nothing but the empty name, as `^$` does.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    All,
    EmptyName,
    Linear(Regex),
    Backtracking(Arc<Backtracking>),
}

struct Backtracking {
    regex: fancy_regex::Regex,
    /// That it came to its bound has been told.
    told: AtomicBool,
}

impl Pattern {
    /// Compiles `source`.
    ///
    /// # Errors
    /// When it is no pattern, uses recursion, or is too large.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        Self::with_names(source, &[])
    }

    /// The pattern that matches everything.
    pub(crate) fn all() -> Self {
        Self { source: ".*".into(), matcher: Matcher::All }
    }

    /// A pattern of people who look for something: the case of letters does not matter, and the
    /// empty one matches everything.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn filter(source: &str) -> Result<Self, PatternError> {
        match source.is_empty() {
            true => Ok(Self::all()),
            false => Self::compiled(source, "(?i)", &[]),
        }
    }

    /// Compiles `source`, in which each of `names`, such as `{username}`, stands for a text letter
    /// by letter.
    pub(crate) fn with_names(source: &str, names: &[(&str, &str)]) -> Result<Self, PatternError> {
        Self::compiled(source, "", names)
    }

    fn compiled(source: &str, flags: &str, names: &[(&str, &str)]) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError { pattern: source.chars().take(SHOWN).collect(), reason };
        if source.len() > MAX_PATTERN {
            return Err(error(format!("it is {} bytes long, at most {MAX_PATTERN} are allowed", source.len())));
        }
        let matcher = match source {
            "" | "^$" => Matcher::EmptyName,
            ".*" | "^.*$" | "^.*" | ".*$" => Matcher::All,
            _ => Matcher::compile(source, flags, names).map_err(error)?,
        };
        Ok(Self { source: source.into(), matcher })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found anywhere in `name`.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::All => true,
            Matcher::EmptyName => name.is_empty(),
            Matcher::Linear(regex) => regex.is_match(name),
            Matcher::Backtracking(backtracking) => backtracking.matches(name, &self.source),
        }
    }
}

impl Matcher {
    fn compile(source: &str, flags: &str, names: &[(&str, &str)]) -> Result<Self, String> {
        let translated = match pcre::translate(source, names) {
            Ok(translated) => translated,
            // Flags and escapes that the engine alone knows were accepted before, and may be in
            // data directories.
            Err(reason) if reason.ends_with(pcre::NOT_SUPPORTED) => {
                return linear(&format!("{flags}{source}")).map_err(|_| reason);
            }
            Err(reason) => return Err(reason),
        };
        let text = format!("{flags}{}", translated.text);
        match translated.hard {
            0 => linear(&text),
            1..=MAX_HARD => backtracking(&text),
            more => Err(format!(
                "it has {more} look-arounds, back-references and atomic groups, at most {MAX_HARD} are allowed"
            )),
        }
    }
}

fn linear(text: &str) -> Result<Matcher, String> {
    let mut builder = RegexBuilder::new(text);
    let regex = builder.size_limit(LINEAR_MEMORY).dfa_size_limit(LINEAR_MEMORY).build();
    regex.map(Matcher::Linear).map_err(|error| last_line(&error))
}

fn backtracking(text: &str) -> Result<Matcher, String> {
    let mut builder = fancy_regex::RegexBuilder::new(text);
    builder.backtrack_limit(MAX_STEPS).max_prog_size(MAX_INSTRUCTIONS);
    builder.delegate_size_limit(PART_MEMORY).delegate_dfa_size_limit(PART_MEMORY);
    let regex = builder.build().map_err(|error| last_line(&error))?;
    Ok(Matcher::Backtracking(Arc::new(Backtracking { regex, told: AtomicBool::new(false) })))
}

/// What is wrong; the lines before show a pattern that is not quite the one that was given.
fn last_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl Backtracking {
    fn matches(&self, name: &str, source: &str) -> bool {
        // The engine is young: a bug of it must cost a match, not the process.
        let matched = catch_unwind(AssertUnwindSafe(|| match name.len() <= MAX_NAME {
            true => self.regex.is_match(name).ok(),
            false => None,
        }));
        if let Ok(Some(found)) = matched {
            return found;
        }
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        if !self.told.swap(true, Ordering::Relaxed) {
            let pattern: String = source.chars().take(SHOWN).collect();
            tracing::warn!(
                pattern,
                "a match took too much work: it counts as none; write the pattern without nested repeats"
            );
        }
        false
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}
