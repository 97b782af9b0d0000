//! What selectors are of messages: the examples of the specification (§3.8.1.1 to §3.8.1.3), and
//! cases that the suites of ActiveMQ, Artemis, Qpid, JORAM and RabbitMQ's SQL filter are known to
//! test.

use selector::{Selector, Value};

use crate::Named;

const T: Option<bool> = Some(true);
const F: Option<bool> = Some(false);
/// Unknown.
const U: Option<bool> = None;

fn properties() -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("yes", Value::Bool(true)),
        ("no", Value::Bool(false)),
        ("nothing", Value::Null),
        ("weight", Value::Int(5)),
        ("price", Value::Int(100)),
        ("rank", Value::Int(123)),
        ("version", Value::Int(2)),
        ("temperature", Value::Int(-5)),
        ("big", Value::Int(9_007_199_254_740_993)),
        ("octal", Value::Int(34)),
        ("least", Value::Int(i64::MIN)),
        ("rate", Value::Float(0.5)),
        ("whole", Value::Float(123.0)),
        ("name", Value::text("James")),
        ("color", Value::text("red")),
        ("digits", Value::text("21")),
        ("truth", Value::text("TRUE")),
        ("empty", Value::text("")),
        ("quote", Value::text("it's")),
        ("in_god", Value::text("'In God We Trust'")),
        ("underscored", Value::text("_foo")),
        ("phone", Value::text("12993")),
        ("word", Value::text("loose")),
        ("food", Value::text("car🥕rot")),
        ("Ünïcödé", Value::Int(1)),
        ("$a_1", Value::Int(1)),
        ("hyphenated-prop", Value::text("val")),
        ("with\"quote", Value::Int(1)),
        ("amqp.app_id", Value::text("shop")),
        ("JMSDeliveryMode", Value::text("PERSISTENT")),
    ]
}

#[test]
fn a_selector_is_true_false_or_unknown_of_a_message() {
    let cases = [
        // Truth tables of §3.8.1.2.
        ("yes AND yes", T),
        ("yes AND no", F),
        ("yes AND absent", U),
        ("no AND absent", F),
        ("absent AND no", F),
        ("absent AND absent", U),
        ("no OR no", F),
        ("no OR yes", T),
        ("absent OR yes", T),
        ("yes OR absent", T),
        ("no OR absent", U),
        ("absent OR absent", U),
        ("NOT yes", F),
        ("NOT no", T),
        ("NOT absent", U),
        ("NOT (no AND absent)", T),
        ("NOT (yes AND absent)", U),
        ("not not(true)", T),
        ("not not not(true)", F),
        ("True or True and False", T),
        ("(True or True) and False", F),
        ("weight OR yes", T),
        ("weight OR no", U),
        ("NOT name", U),
        // Nothing known makes everything unknown but IS NULL.
        ("absent = 0", U),
        ("absent <> 0", U),
        ("absent > 0", U),
        ("absent = absent", U),
        ("NOT (absent = 'foo')", U),
        ("absent LIKE 'x'", U),
        ("absent NOT LIKE 'x'", U),
        ("absent IN ('x')", U),
        ("absent NOT IN ('x')", U),
        ("absent BETWEEN 1 AND 2", U),
        ("absent NOT BETWEEN 1 AND 2", U),
        ("-absent = 0", U),
        ("absent * 2 = 0", U),
        ("0 * absent = 0", U),
        ("absent / 2 = 0", U),
        ("nothing IS NULL", T),
        ("absent IS NULL", T),
        ("absent IS NOT NULL", F),
        ("weight IS NULL", F),
        ("weight IS NOT NULL", T),
        ("NOT (absent IS NOT NULL)", T),
        ("absent <> 'foo' OR absent IS NULL", T),
        // Unlike types: false, and neither unknown nor unequal.
        ("weight = '5'", F),
        ("weight <> '5'", F),
        ("NOT (weight = 'UK')", T),
        ("yes = 1", F),
        ("truth = yes", F),
        ("digits > 1", F),
        ("name < color", F),
        ("yes > no", F),
        ("color LIKE 'r%'", T),
        ("weight LIKE '5'", F),
        ("weight IN ('5')", F),
        // Numbers.
        ("weight = 5.0", T),
        ("0 = 0.0", T),
        ("whole = 123", T),
        ("rank = whole", T),
        ("big = 9007199254740992.0", F),
        ("big > 9007199254740992.0", T),
        ("1.2E3 = 1200", T),
        ("rate = .5", T),
        ("rate = 5E-1", T),
        ("rate = 5.E-1", T),
        ("rate = 0.5f", T),
        ("rate = 0.5D", T),
        ("weight = 5.", T),
        ("weight = +5", T),
        ("octal = 042", T),
        ("octal = 0x22", T),
        ("octal = 0X22L", T),
        ("least = -9223372036854775808L", T),
        ("least = -9223372036854775808", T),
        ("rank / version = 61.5", T),
        ("price / 4 = 25", T),
        ("1 + 1 / 10 = 1.1", T),
        ("(1 + 1) / 10 = 0.2", T),
        ("1 + 1 * 10 = 11", T),
        ("2 * 3 + 4 = 10", T),
        ("10 - 3 - 2 = 5", T),
        ("100 / 10 / 5 = 2", T),
        ("7 % temperature = 2", T),
        ("temperature % 3 = -2", T),
        ("6 - -weight = 11", T),
        ("6 + +weight = 11", T),
        ("-(-weight) = 5", T),
        ("6--weight=11", T),
        ("weight / 0 > 0", U),
        ("0 / 0 = 0", U),
        ("weight % 0 = 0", U),
        ("rate / 0.0 > 0", U),
        ("name * 2 = 10", U),
        ("9223372036854775807 + 1 > 9223372036854775807", T),
        ("weight > 4 AND weight >= 5 AND weight < 6 AND weight <= 5", T),
        ("weight<>5", F),
        ("weight BETWEEN 5 AND 5", T),
        ("rank between 100 and 150", T),
        ("rank between 10 and 120", F),
        ("rank BETWEEN 150 AND 100", F),
        ("rank NOT BETWEEN 10 AND 120", T),
        ("weight BETWEEN 1 AND absent", U),
        ("weight BETWEEN 6 AND absent", F),
        ("weight BETWEEN weight - 1 AND weight + 1 AND yes", T),
        ("name BETWEEN 1 AND 2", F),
        // Text.
        ("color = 'red'", T),
        ("color = 'Red'", F),
        ("COLOR = 'red'", U),
        ("quote = 'it''s'", T),
        ("in_god = '''In God We Trust'''", T),
        ("empty = ''", T),
        ("name + '!' = 'James!'", T),
        ("name + color = 'Jamesred'", T),
        ("'x' + name + '!' = 'xJames!'", T),
        ("name + weight = 'James5'", U),
        ("color IN ('blue', 'red', 'green')", T),
        ("color NOT IN ('blue','green')", T),
        ("color in('red')", T),
        ("JMSDeliveryMode = 'PERSISTENT'", T),
        // Patterns; more are next to the matcher.
        ("phone LIKE '12%3'", T),
        ("word LIKE 'l_se'", F),
        ("word NOT LIKE 'l_se'", T),
        (r"underscored LIKE '\_%' ESCAPE '\'", T),
        (r"color LIKE '\_%' ESCAPE '\'", F),
        ("underscored LIKE '%_%' ESCAPE '%'", T),
        ("food LIKE 'car_rot'", T),
        ("food LIKE 'car__rot'", F),
        ("empty LIKE '_'", F),
        ("empty LIKE '%'", T),
        ("color LIKE ''", F),
        ("color LIKE '[red]'", F),
        // How operators bind.
        ("not price = 100", F),
        ("not price not between 110 and 120", F),
        ("weight = 5 and not price = 2 or rank = 3", T),
        ("no AND no OR yes", T),
        ("no AND (no OR yes)", F),
        ("(weight > 1) = TRUE", T),
        ("(absent > 1) = TRUE", U),
        ("(weight > 1) = (price > 1)", T),
        ("((((weight)))) = 5", T),
        ("yes", T),
        ("weight", U),
        // Names.
        ("$a_1 = 1", T),
        ("_ident IS NULL", T),
        ("$ident IS NULL", T),
        ("Ünïcödé = 1", T),
        ("\"hyphenated-prop\" = 'val'", T),
        ("\"with\"\"quote\" = 1", T),
        ("amqp.app_id = 'shop'", T),
        ("\"weight\" = 5", T),
        ("\"and\" IS NULL", T),
        // Space is free.
        ("color='red'AND weight=5", T),
        ("\t color\r\n =\x0c'red' ", T),
        // Text counts as a number where that is asked for.
        ("convert_string_expressions:digits > 18", T),
        ("convert_string_expressions:digits BETWEEN 20 AND 22.5", T),
        ("convert_string_expressions: 21 = digits", T),
        ("convert_string_expressions:truth = TRUE", T),
        ("convert_string_expressions:name > 18", F),
        ("convert_string_expressions:digits = '21'", T),
        ("convert_string_expressions:absent > 18", U),
    ];
    let properties = properties();
    for (text, expected) in cases {
        let selector = match Selector::parse(text) {
            Ok(Some(selector)) => selector,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(selector.evaluate(&Named(&properties)), expected, "{text}");
        assert_eq!(selector.matches(&Named(&properties)), expected == T, "{text}");
        assert_eq!(selector.text(), text);
    }
}

#[test]
fn a_blank_selector_selects_everything() {
    for text in ["", " ", "\t\r\n", "convert_string_expressions:", "convert_string_expressions:  "] {
        assert_eq!(Selector::parse(text), Ok(None), "{text:?}");
    }
}

#[test]
fn the_examples_of_the_specification() {
    let parses = [
        "JMSType = 'car' AND color = 'blue' AND weight > 2500",
        "age BETWEEN 15 AND 19",
        "age >= 15 AND age <= 19",
        "Country IN ('UK', 'US', 'France')",
        "(Country = 'UK') OR (Country = 'US') OR (Country = 'France')",
        "phone LIKE '12%3'",
        r"underscored LIKE '\_%' ESCAPE '\'",
        "NOT (phone LIKE '12%3')",
        "prop_name IS NOT NULL",
        "JMSType = 'car' AND NOT (color IS NULL)",
        "max = 0. AND average = +6.2 AND NumberOfOrders > 1",
    ];
    for text in parses {
        assert!(matches!(Selector::parse(text), Ok(Some(_))), "{text}");
    }
    let ages = |age: i64| [("age", Value::Int(age)), ("Country", Value::text("Peru"))];
    for (text, age, expected) in [
        ("age BETWEEN 15 AND 19", 15, true),
        ("age BETWEEN 15 AND 19", 19, true),
        ("age BETWEEN 15 AND 19", 20, false),
        ("age NOT BETWEEN 15 AND 19", 20, true),
        ("Country IN ('UK', 'US', 'France')", 0, false),
        ("Country NOT IN ('UK', 'US', 'France')", 0, true),
    ] {
        let selector = Selector::parse(text).unwrap().unwrap();
        assert_eq!(selector.matches(&Named(&ages(age))), expected, "{text} {age}");
    }
}
