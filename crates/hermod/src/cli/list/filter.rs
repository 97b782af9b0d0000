//! Conditions on rows, as `--where` takes them: `messages > 100 and name =~ ^orders`.
//!
//! A condition is comparisons with `and` between them, and `or` between such groups. A comparison
//! is a field, one of `= != < <= > >= =~ !~`, and a value. Numbers may have a unit of bytes. A
//! value with spaces is in quotes.

use auth::pattern::Pattern;
use management::at;
use serde_json::Value as Json;

use super::cell;
use crate::config::parse_size;

/// The comparisons, each before those that it is the beginning of.
const OPERATORS: [&str; 8] = ["=~", "!~", "!=", "<=", ">=", "=", "<", ">"];
const EXAMPLE: &str = "write it such as 'messages > 100 and name =~ ^orders'";

/// A condition that a row meets or not.
#[derive(Debug)]
pub(super) struct Filter {
    /// One of these must be met. Each is met if all its comparisons are.
    any: Vec<Vec<Comparison>>,
}

#[derive(Debug)]
struct Comparison {
    path: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Is(String),
    IsNot(String),
    Number(Order, f64),
    Matches(Pattern),
    MatchesNot(Pattern),
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Filter {
    /// Reads a condition. `path` gives the field that a name means.
    ///
    /// # Errors
    /// What is wrong with it, where, and what to write instead.
    pub(super) fn parse(text: &str, path: &dyn Fn(&str) -> String) -> Result<Self, String> {
        let mut rest = Rest { text, at: 0 };
        let mut any = vec![Vec::new()];
        loop {
            let comparison = rest.comparison(path)?;
            if let Some(all) = any.last_mut() {
                all.push(comparison);
            }
            let at = rest.place();
            match rest.word().to_ascii_lowercase().as_str() {
                "" if rest.is_done() => return Ok(Self { any }),
                "and" => {}
                "or" => any.push(Vec::new()),
                other => return Err(format!("at character {at}: expected 'and' or 'or', not '{other}'; {EXAMPLE}")),
            }
        }
    }

    /// The fields that it looks at.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.any.iter().flatten().map(|comparison| comparison.path.as_str())
    }

    /// Whether a row meets it.
    pub(super) fn matches(&self, row: &Json) -> bool {
        self.any.iter().any(|all| all.iter().all(|comparison| comparison.holds(row)))
    }
}

impl Comparison {
    fn holds(&self, row: &Json) -> bool {
        let value = at(row, &self.path);
        match &self.test {
            Test::Is(text) => cell(value) == *text,
            Test::IsNot(text) => cell(value) != *text,
            Test::Matches(pattern) => pattern.matches(&cell(value)),
            Test::MatchesNot(pattern) => !pattern.matches(&cell(value)),
            Test::Number(order, number) => {
                let Some(value) = value.and_then(Json::as_f64) else { return false };
                match order {
                    Order::Less => value < *number,
                    Order::LessOrEqual => value <= *number,
                    Order::More => value > *number,
                    Order::MoreOrEqual => value >= *number,
                }
            }
        }
    }
}

/// What is still to be read of a condition.
struct Rest<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Rest<'t> {
    fn comparison(&mut self, path: &dyn Fn(&str) -> String) -> Result<Comparison, String> {
        let place = self.place();
        let name = self.word();
        if name.is_empty() {
            return Err(format!("at character {place}: expected the name of a field; {EXAMPLE}"));
        }
        let place = self.place();
        let Some(operator) = OPERATORS.into_iter().find(|operator| self.left().starts_with(operator)) else {
            let all = OPERATORS.join(" ");
            return Err(format!("at character {place}: expected one of {all} after '{name}'; {EXAMPLE}"));
        };
        self.at += operator.len();
        let place = self.place();
        let value = self.value()?;
        let test = Test::of(operator, value).map_err(|error| format!("at character {place}: {error}"))?;
        Ok(Comparison { path: path(name), test })
    }

    /// Skips spaces. Returns the number of the next character, from 1 on.
    fn place(&mut self) -> usize {
        self.at = self.text.len() - self.left().trim_start().len();
        self.text[..self.at].chars().count() + 1
    }

    fn left(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn is_done(&self) -> bool {
        self.left().is_empty()
    }

    /// The letters up to a space or a comparison.
    fn word(&mut self) -> &'t str {
        let left = self.left();
        let end = left.find(|char: char| char.is_whitespace() || "=!<>".contains(char)).unwrap_or(left.len());
        self.at += end;
        &left[..end]
    }

    /// The text in quotes, or the letters up to a space.
    fn value(&mut self) -> Result<&'t str, String> {
        let place = self.place();
        let left = self.left();
        if let Some(quote) = left.chars().next().filter(|char| ['\'', '"'].contains(char)) {
            let end = left[1..].find(quote).ok_or_else(|| format!("at character {place}: no closing {quote}"))?;
            self.at += end + 2;
            return Ok(&left[1..=end]);
        }
        let end = left.find(char::is_whitespace).unwrap_or(left.len());
        if end == 0 {
            return Err(format!("at character {place}: expected a value; write '' for an empty one"));
        }
        self.at += end;
        Ok(&left[..end])
    }
}

impl Test {
    fn of(operator: &str, value: &str) -> Result<Self, String> {
        let number = |order| match value.parse().ok().or_else(|| parse_size(value).ok().map(|bytes| bytes as f64)) {
            Some(number) => Ok(Self::Number(order, number)),
            None => Err(format!("{operator} compares numbers, and '{value}' is none; use = or =~")),
        };
        let pattern = || Pattern::filter(value).map_err(|error| format!("'{value}' is no pattern: {}", error.reason));
        match operator {
            "=" => Ok(Self::Is(value.to_owned())),
            "!=" => Ok(Self::IsNot(value.to_owned())),
            "=~" => pattern().map(Self::Matches),
            "!~" => pattern().map(Self::MatchesNot),
            "<" => number(Order::Less),
            "<=" => number(Order::LessOrEqual),
            ">" => number(Order::More),
            _ => number(Order::MoreOrEqual),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Filter, String> {
        Filter::parse(text, &str::to_owned)
    }

    #[test]
    fn rows_meet_conditions() {
        let row = json!({
            "name": "orders.new", "messages": 120, "durable": true, "policy": null, "memory": 3_000_000,
            "message_stats": { "ack": 7 }, "vhost": "a b",
        });
        for (text, meets) in [
            ("messages > 100", true),
            ("messages>100 and name=~^orders", true),
            ("messages <= 119.5", false),
            ("messages >= 120 AND durable = true", true),
            ("messages < 100 or name =~ new$", true),
            ("messages < 100 and name =~ new or policy != ''", false),
            ("policy = ''", true),
            ("none > 0 or none = x", false),
            ("vhost = 'a b' and memory > 2MiB", true),
            ("message_stats.ack = 7", true),
            ("name !~ 'old|done'", true),
            ("name < 5", false),
        ] {
            assert_eq!(parse(text).map(|filter| filter.matches(&row)), Ok(meets), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_condition_is_told_with_its_place() {
        for (text, words) in [
            ("", "at character 1: expected the name of a field; write it such as"),
            ("messages", "at character 9: expected one of =~ !~ != <= >= = < > after 'messages'"),
            ("messages ~ 4", "at character 10: expected one of"),
            ("messages > many", "at character 12: > compares numbers, and 'many' is none; use = or =~"),
            ("name = ", "at character 8: expected a value; write '' for an empty one"),
            ("name = 'x", "at character 8: no closing '"),
            ("name = x but y = z", "at character 10: expected 'and' or 'or', not 'but'"),
            ("name = x and", "at character 13: expected the name of a field"),
            ("name =~ (", "at character 9: '(' is no pattern: "),
            ("größe = x = y", "at character 11: expected 'and' or 'or', not ''"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn conditions_cut_anywhere_are_refused_or_read() {
        let whole = "messages >= 1MiB and name =~ 'ö x' or vhost != \"/\"";
        for (end, _) in whole.char_indices() {
            drop(parse(&whole[..end]));
        }
        assert_eq!(parse(whole).unwrap().fields().collect::<Vec<_>>(), ["messages", "name", "vhost"]);
    }
}
