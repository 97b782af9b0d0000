//! Random selectors against a naive evaluation: truth tables written out, patterns by plain
//! recursion, numbers small enough to be exact.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use selector::{Selector, Value};

use crate::Named;

/// A condition.
#[derive(Debug, Clone)]
enum Condition {
    Literal(bool),
    Property(usize),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Compare(&'static str, Number, Number),
    Text { property: usize, equal: bool, text: String },
    Between { negated: bool, value: Number, low: Number, high: Number },
    In { negated: bool, property: usize, texts: Vec<String> },
    Like { negated: bool, property: usize, pattern: String },
    IsNull { negated: bool, property: usize },
}

/// A calculation.
#[derive(Debug, Clone)]
enum Number {
    Literal(i64),
    Property(usize),
    Apply(char, Box<Number>, Box<Number>),
    Negate(Box<Number>),
}

const NAMES: [&str; 6] = ["a", "b2", "$c", "_d", "e_f", "JMSType"];

/// What the oracle thinks of a value.
#[derive(Debug, Clone, PartialEq)]
enum Known {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
}

fn truth_and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), Some(true)) => Some(true),
        (Some(true), Some(false)) | (Some(false), Some(true)) | (Some(false), Some(false)) => Some(false),
        (Some(false), None) | (None, Some(false)) => Some(false),
        (Some(true), None) | (None, Some(true)) | (None, None) => None,
    }
}

fn truth_not(truth: Option<bool>) -> Option<bool> {
    match truth {
        Some(true) => Some(false),
        Some(false) => Some(true),
        None => None,
    }
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|taken| like(rest, &text[taken..])),
        Some((first, rest)) => {
            text.split_first().is_some_and(|(char, left)| (*first == '_' || first == char) && like(rest, left))
        }
    }
}

fn number(number: &Number, values: &[Known]) -> Known {
    match number {
        Number::Literal(literal) => Known::Number(*literal as f64),
        Number::Property(at) => values[*at].clone(),
        Number::Negate(inner) => match self::number(inner, values) {
            Known::Number(number) => Known::Number(-number),
            _ => Known::Nothing,
        },
        Number::Apply(sign, left, right) => match (self::number(left, values), self::number(right, values)) {
            (Known::Number(left), Known::Number(right)) => match sign {
                '+' => Known::Number(left + right),
                '-' => Known::Number(left - right),
                '*' => Known::Number(left * right),
                _ if right == 0.0 => Known::Nothing,
                '/' => Known::Number(left / right),
                _ => Known::Number(left % right),
            },
            (Known::Text(left), Known::Text(right)) if *sign == '+' => Known::Text(left + &right),
            _ => Known::Nothing,
        },
    }
}

fn compare(sign: &str, left: &Known, right: &Known) -> Option<bool> {
    match (left, right) {
        (Known::Nothing, _) | (_, Known::Nothing) => None,
        (Known::Number(left), Known::Number(right)) => Some(match sign {
            "=" => left == right,
            "<>" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }),
        (Known::Text(left), Known::Text(right)) => Some(match sign {
            "=" => left == right,
            "<>" => left != right,
            _ => false,
        }),
        (Known::Bool(left), Known::Bool(right)) => Some(match sign {
            "=" => left == right,
            "<>" => left != right,
            _ => false,
        }),
        _ => Some(false),
    }
}

fn truth(condition: &Condition, values: &[Known]) -> Option<bool> {
    let turned = |negated: &bool, truth| if *negated { truth_not(truth) } else { truth };
    let text_of = |property: &usize, judge: &dyn Fn(&str) -> bool| match &values[*property] {
        Known::Nothing => None,
        Known::Text(text) => Some(judge(text)),
        _ => Some(false),
    };
    match condition {
        Condition::Literal(truth) => Some(*truth),
        Condition::Property(at) => match values[*at] {
            Known::Bool(truth) => Some(truth),
            _ => None,
        },
        Condition::Not(inner) => truth_not(truth(inner, values)),
        Condition::And(left, right) => truth_and(truth(left, values), truth(right, values)),
        Condition::Or(left, right) => {
            truth_not(truth_and(truth_not(truth(left, values)), truth_not(truth(right, values))))
        }
        Condition::Compare(sign, left, right) => compare(sign, &number(left, values), &number(right, values)),
        Condition::Text { property, equal, text } => {
            compare(if *equal { "=" } else { "<>" }, &values[*property], &Known::Text(text.clone()))
        }
        Condition::Between { negated, value, low, high } => {
            let (value, low, high) = (number(value, values), number(low, values), number(high, values));
            turned(negated, truth_and(compare(">=", &value, &low), compare("<=", &value, &high)))
        }
        Condition::In { negated, property, texts } => {
            turned(negated, text_of(property, &|text| texts.iter().any(|one| one == text)))
        }
        Condition::Like { negated, property, pattern } => {
            let pattern: Vec<char> = pattern.chars().collect();
            turned(negated, text_of(property, &|text| like(&pattern, &text.chars().collect::<Vec<_>>())))
        }
        Condition::IsNull { negated, property } => turned(negated, Some(values[*property] == Known::Nothing)),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn write_number(number: &Number, out: &mut String) {
    match number {
        Number::Literal(literal) => write!(out, "{literal}").unwrap(),
        Number::Property(at) => out.push_str(NAMES[*at]),
        Number::Negate(inner) => {
            out.push_str("-(");
            write_number(inner, out);
            out.push(')');
        }
        Number::Apply(sign, left, right) => {
            out.push('(');
            write_number(left, out);
            write!(out, " {sign} ").unwrap();
            write_number(right, out);
            out.push(')');
        }
    }
}

fn write_condition(condition: &Condition, out: &mut String) {
    let not = |negated: &bool| if *negated { " NOT" } else { "" };
    match condition {
        Condition::Literal(truth) => write!(out, "{truth}").unwrap(),
        Condition::Property(at) => out.push_str(NAMES[*at]),
        Condition::Not(inner) => {
            out.push_str("not (");
            write_condition(inner, out);
            out.push(')');
        }
        Condition::And(left, right) | Condition::Or(left, right) => {
            out.push('(');
            write_condition(left, out);
            out.push_str(if matches!(condition, Condition::And(..)) { ")AND " } else { ") or " });
            write_condition(right, out);
        }
        Condition::Compare(sign, left, right) => {
            write_number(left, out);
            out.push_str(sign);
            write_number(right, out);
        }
        Condition::Text { property, equal, text } => {
            write!(out, "{}{}{}", NAMES[*property], if *equal { "=" } else { "<>" }, quoted(text)).unwrap();
        }
        Condition::Between { negated, value, low, high } => {
            write_number(value, out);
            write!(out, "{} BETWEEN ", not(negated)).unwrap();
            write_number(low, out);
            out.push_str(" and ");
            write_number(high, out);
        }
        Condition::In { negated, property, texts } => {
            let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
            write!(out, "{}{} In({})", NAMES[*property], not(negated), texts.join(" ,")).unwrap();
        }
        Condition::Like { negated, property, pattern } => {
            write!(out, "{}{} LIKE {}", NAMES[*property], not(negated), quoted(pattern)).unwrap();
        }
        Condition::IsNull { negated, property } => {
            write!(out, "{} IS{} NULL", NAMES[*property], not(negated)).unwrap();
        }
    }
}

/// On the right of AND and OR stands what binds no looser.
fn write_whole(condition: &Condition) -> String {
    fn guarded(condition: Condition) -> Condition {
        let inside = |inner: Box<Condition>| Box::new(guarded(*inner));
        // A double NOT changes nothing in three-valued logic, and puts parentheses around its
        // inside.
        let alone = |inner: Box<Condition>| Box::new(Condition::Not(Box::new(Condition::Not(inside(inner)))));
        match condition {
            Condition::And(left, right) => Condition::And(inside(left), alone(right)),
            Condition::Or(left, right) => Condition::Or(inside(left), alone(right)),
            Condition::Not(inner) => Condition::Not(inside(inner)),
            other => other,
        }
    }
    let mut out = String::new();
    write_condition(&guarded(condition.clone()), &mut out);
    out
}

fn any_text() -> impl Strategy<Value = String> {
    "[ab'_%é]{0,5}"
}

fn any_number() -> impl Strategy<Value = Number> {
    let leaf = prop_oneof![(-9i64..10).prop_map(Number::Literal), (0..NAMES.len()).prop_map(Number::Property)];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Number::Negate(Box::new(inner))),
            (prop::sample::select(vec!['+', '-', '*', '/', '%']), inner.clone(), inner)
                .prop_map(|(sign, left, right)| Number::Apply(sign, Box::new(left), Box::new(right))),
        ]
    })
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let property = || 0..NAMES.len();
    let signs = vec!["=", "<>", "<", "<=", ">", ">="];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Condition::Literal),
        property().prop_map(Condition::Property),
        (prop::sample::select(signs), any_number(), any_number())
            .prop_map(|(sign, left, right)| Condition::Compare(sign, left, right)),
        (property(), any::<bool>(), any_text()).prop_map(|(property, equal, text)| Condition::Text {
            property,
            equal,
            text
        }),
        (any::<bool>(), any_number(), any_number(), any_number())
            .prop_map(|(negated, value, low, high)| Condition::Between { negated, value, low, high }),
        (any::<bool>(), property(), prop::collection::vec(any_text(), 1..4))
            .prop_map(|(negated, property, texts)| Condition::In { negated, property, texts }),
        (any::<bool>(), property(), any_text()).prop_map(|(negated, property, pattern)| Condition::Like {
            negated,
            property,
            pattern
        }),
        (any::<bool>(), property()).prop_map(|(negated, property)| Condition::IsNull { negated, property }),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| Condition::And(Box::new(left), Box::new(right))),
            (inner.clone(), inner).prop_map(|(left, right)| Condition::Or(Box::new(left), Box::new(right))),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Known> {
    prop_oneof![
        Just(Known::Nothing),
        any::<bool>().prop_map(Known::Bool),
        (-20i32..20).prop_map(|halves| Known::Number(f64::from(halves) / 2.0)),
        (-20i32..20).prop_map(|whole| Known::Number(f64::from(whole))),
        any_text().prop_map(Known::Text),
    ]
}

/// Whole numbers are given as integers.
fn value(known: &Known) -> Value<'_> {
    match known {
        Known::Nothing => Value::Null,
        Known::Bool(truth) => Value::Bool(*truth),
        Known::Number(number) if number.fract() == 0.0 => Value::Int(*number as i64),
        Known::Number(number) => Value::Float(*number),
        Known::Text(text) => Value::text(text),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, rng_seed: RngSeed::Fixed(92), ..ProptestConfig::default() })]

    #[test]
    fn a_selector_is_what_a_naive_evaluation_says(
        condition in any_condition(),
        values in prop::collection::vec(any_value(), NAMES.len()),
    ) {
        let text = write_whole(&condition);
        let selector = Selector::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let named: Vec<_> = NAMES.iter().copied().zip(values.iter().map(value)).collect();
        let found = selector.map(|selector| selector.evaluate(&Named(&named)));
        prop_assert_eq!(found, Some(truth(&condition, &values)), "{}", text);
    }
}
