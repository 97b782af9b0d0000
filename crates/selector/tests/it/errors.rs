//! What is no selector: where it says so, and that it says what to do.

use selector::{MAX_DEPTH, MAX_LENGTH, MAX_PATTERN, MAX_TOKENS, Selector};

#[test]
fn what_is_no_selector_is_refused_where_it_stops_making_sense() {
    // The text, the character, and what the reason must say.
    let cases = [
        ("3", 1, "compare it"),
        ("3 + 5", 1, "compare it"),
        ("'red'", 1, "compare it"),
        ("yes AND 3 + 5", 9, "a number stands where a condition must"),
        ("3 + 5 AND yes", 1, "a number stands where a condition must"),
        ("NOT 5", 5, "a number stands where a condition must"),
        ("color = 'red", 9, "close it with '"),
        ("color = \"red", 9, "close it with \""),
        ("color = \"\"", 9, "single quotes"),
        ("= 'test'", 1, "expected a property's name"),
        ("a = 1 AMD b = 2", 7, "found the name AMD; expected AND, OR"),
        ("a = b foo AND c = 'T'", 7, "found the name foo"),
        ("NULL = 0", 1, "only stands after IS"),
        ("a = NULL", 5, "only stands after IS"),
        ("TRUE > 0", 1, "only numbers are less or greater"),
        ("0 < FALSE", 5, "only numbers are less or greater"),
        ("'a' < 'b'", 1, "only numbers are less or greater"),
        ("weight >= '5'", 11, "only numbers are less or greater"),
        ("TRUE = 0", 1, "a condition is compared with a number"),
        ("'1' = 1", 1, "a text is compared with a number"),
        ("(a > 1) = 1", 1, "a condition is compared with a number"),
        ("BETWEEN > 0", 1, "found BETWEEN"),
        ("LIKE = 0", 1, "found LIKE"),
        ("ESCAPE > 0", 1, "found ESCAPE"),
        ("IS = 0", 1, "found IS"),
        ("NOT > 0", 5, "found '>'"),
        ("a NOT > 0", 7, "BETWEEN, IN or LIKE after NOT"),
        ("Cost LIKE 2", 11, "a pattern in single quotes"),
        ("'a' LIKE 'a'", 1, "write its name here"),
        ("1 IS NULL", 1, "write its name here"),
        ("a IS 5", 6, "expected NULL"),
        ("1uncorrect IS NULL", 1, "cannot begin with a digit"),
        ("%uncorrect IS NULL", 1, "found '%'"),
        ("'London' IN (city, country)", 1, "write its name here"),
        ("city IN (country)", 10, "IN compares texts only"),
        ("city IN (1, 2)", 10, "IN compares texts only"),
        ("city IN ()", 10, "IN compares texts only"),
        ("city IN 'a'", 9, "parentheses after IN"),
        ("city IN ('a'", 13, "closing parenthesis of the list"),
        ("a BETWEEN 1", 12, "upper bound"),
        ("a BETWEEN 'x' AND 'y'", 11, "a text stands where a number must"),
        ("a = 1 = 1", 7, "cannot follow each other"),
        ("a < b < c", 7, "cannot follow each other"),
        ("hyphenated-prop = 'val'", 1, "hyphen"),
        ("(a = 1", 7, "closing parenthesis"),
        ("a = 1)", 6, "found ')'"),
        ("a = ", 5, "the selector ends"),
        ("a = 1 AND", 10, "the selector ends"),
        ("a != 1", 3, "<>"),
        ("a == 1", 4, "found '='"),
        ("a && b", 3, "written AND"),
        ("a || b", 3, "written OR"),
        ("x-match # 1", 9, "double quotes"),
        ("é = ü §", 7, "'§' has no meaning"),
        ("hyphenated_props:a = 1", 17, "the only prefix"),
        ("a = 09", 5, "octal"),
        ("a = 9223372036854775808", 5, "64 bits"),
        ("a = -9223372036854775809", 5, "64 bits"),
        ("a = 99999999999999999999", 5, "64 bits"),
        ("a = 0x", 5, "64 bits"),
        ("a = 1E999", 5, "too large"),
        ("a = 1E", 5, "runs into a name"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "exactly one character"),
        ("a LIKE 'x' ESCAPE ''", 19, "exactly one character"),
        ("a LIKE 'x' ESCAPE 5", 19, "escape character in single quotes"),
        ("a * 'x' = 1", 5, "a text stands where a number must"),
        ("1 + 'x' = 'y'", 1, "a number stands where a text must"),
        ("(a = 1) + 1 = 2", 1, "a condition stands where a number must"),
        ("-'x' = 1", 2, "a text stands where a number must"),
    ];
    for (text, position, reason) in cases {
        let error = match Selector::parse(text) {
            Err(error) => error,
            Ok(selector) => panic!("{text} is taken as {selector:?}"),
        };
        assert!(error.reason.contains(reason), "{text}: {error}");
        assert_eq!(error.position, position, "{text}: {error}");
    }
}

#[test]
fn every_limit_is_refused_one_past_it() {
    let parses = |text: &str| match Selector::parse(text) {
        Ok(selector) => selector.is_some(),
        Err(_) => false,
    };
    let long = |length: usize| format!("a = '{}'", "x".repeat(length - 6));
    let many = |texts: usize| format!("a IN ({}'x')", "'x',".repeat(texts - 1));
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    let pattern = |length: usize| format!("a LIKE '{}'", "_".repeat(length));
    let most = (MAX_TOKENS - 4) / 2;
    assert!(parses(&long(MAX_LENGTH)) && !parses(&long(MAX_LENGTH + 1)));
    assert!(parses(&many(most)) && !parses(&many(most + 1)));
    assert!(parses(&deep(MAX_DEPTH)) && !parses(&deep(MAX_DEPTH + 1)));
    assert!(parses(&pattern(MAX_PATTERN)) && !parses(&pattern(MAX_PATTERN + 1)));
    for nested in ["NOT ", "-", "+", "("] {
        assert!(!parses(&nested.repeat(MAX_LENGTH / 4)), "{nested} without end");
    }
    assert!(!parses(&format!("{}a = 1", "-".repeat(MAX_DEPTH + 1))));
}

/// A selector cut anywhere is refused or taken, never worse.
#[test]
fn a_selector_cut_anywhere_is_judged() {
    let whole =
        r#"NOT ("ü""x" <> 'é''s' OR -a.b + 1.5E-3 * 0x1F >= 042L) AND c NOT IN ('x', 'ÿ') AND d LIKE '🥕%' ESCAPE '!'"#;
    assert!(matches!(Selector::parse(whole), Ok(Some(_))));
    for (end, _) in whole.char_indices() {
        let cut = &whole[..end];
        if let Err(error) = Selector::parse(cut) {
            assert!((1..=cut.chars().count() + 1).contains(&error.position), "{cut}: {error}");
        }
    }
}
