//! What patterns find, held against the engine that RabbitMQ has; what they cost at most.

use super::*;

const NO_RECURSION: &str = "recursion and subroutine calls are not supported";

/// Pattern, names in which it is found, names in which it is not. Erlang's `re:run(Name, Pattern)`
/// says the same of each.
const CASES: [(&str, &[&str], &[&str]); 64] = [
    ("ord", &["my-orders"], &["x"]),
    ("^ord", &["orders"], &["my-orders"]),
    (r"^(amq\.gen.*|amq\.default)$", &["amq.gen-1234", "amq.default"], &["amq.direct"]),
    ("a.c", &["abc"], &["ac"]),
    (r"^(?!amq\.).*", &["orders", "amqp"], &["amq.topic"]),
    (r"^(?!(amq\.|test)).*$", &["orders"], &["amq.topic", "test1"]),
    (r"^((?!dead).)*$", &["orders", ""], &["my-dead-letters"]),
    ("(?<=order)s$", &["orders"], &["s"]),
    ("(?<!dead)letters", &["letters"], &["deadletters"]),
    ("(?<=a|bcd)e", &["ae", "bcde"], &["cde"]),
    ("(?=.*x)(?=.*y)z", &["zxy"], &["zx"]),
    (r"^(\w+)-\1$", &["a-a", "ab-ab"], &["a-b"]),
    (r"^(?<n>\w+)-\k<n>$", &["a-a"], &["a-b"]),
    (r"^(?P<n>\w+)-(?P=n)$", &["a-a"], &["a-b"]),
    (r"^(?'n'\w+)-\k'n'$", &["a-a"], &["a-b"]),
    (r"^(\w)\g{-1}$", &["aa"], &["ab"]),
    (r"^(\w)\g1$", &["aa"], &["ab"]),
    (r"^(\w)(\w)\g{2}\g{1}$", &["abba"], &["abab"]),
    ("^(?>a+)b", &["aab"], &["b"]),
    ("^(?>a+)ab", &[], &["aab"]),
    ("^a++ab", &[], &["aab"]),
    ("^a*+b", &["aab", "b"], &["a"]),
    ("^a?+a$", &["aa"], &["a"]),
    ("^(?:ab){1,2}+c", &["ababc"], &["ababab"]),
    ("^a{2}$", &["aa"], &["a", "aaa"]),
    ("^a{2,}$", &["aaa"], &["a"]),
    ("^a{1,2}?b", &["ab", "aab"], &["aaab"]),
    ("^a{x}$", &["a{x}"], &["ax"]),
    ("^{client_id}$", &["{client_id}"], &["a"]),
    (r"^\Qa.b*\E\.c", &["a.b*.c"], &["axb*.c"]),
    (r"\Qa.b", &["xa.b"], &["axb"]),
    (r"\E^a", &["a"], &["b"]),
    ("(?i)^Orders", &["ORDERS.x"], &["x"]),
    ("^a(?i)b$", &["aB", "ab"], &["AB"]),
    ("^(?i:a)b$", &["Ab"], &["aB"]),
    ("^a(?-i)b$", &["ab"], &["aB"]),
    ("(?x) ^ a \\  b # the end", &["a b"], &["ab"]),
    ("^(?x: a b )c d$", &["abc d"], &["ab c d"]),
    ("(?s)^a.b$", &["a\nb"], &[]),
    ("^a.b$", &["axb"], &["a\nb"]),
    ("(?m)^b$", &["a\nb\nc"], &["ab"]),
    (r"\Aa\z", &["a"], &["ba", "ab"]),
    (r"a\Z", &["a", "a\n"], &["ab"]),
    (r"^a\Kb", &["ab"], &["b"]),
    (r"\Gab", &["ab"], &["xab"]),
    ("^[[:alpha:]_]+$", &["a_b"], &["a1"]),
    ("^[[:^digit:]]+$", &["ab"], &["a1"]),
    ("^[]a]+$", &["]a"], &["b"]),
    ("^[^]a]+$", &["b"], &["]"]),
    ("^[a-c[]+$", &["a["], &["d"]),
    ("^[a&&b]+$", &["a&b"], &["c"]),
    (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
    (r"^[a\-c]+$", &["a-c"], &["b"]),
    (r"^[\Qa]\E]+$", &["a]"], &["b"]),
    (r"^\h+\H$", &[" \ta"], &["\n a"]),
    (r"^a\Rb$", &["a\r\nb", "a\nb"], &["a b"]),
    (r"^\N+$", &["ab"], &["a\nb"]),
    (r"^\x41\x{42}\103\t\e$", &["ABC\t\u{1b}"], &["ABC"]),
    (r"^\ca$", &["\u{1}"], &["a"]),
    (r"^\<a\>\/\-\:\@$", &["<a>/-:@"], &["a"]),
    (r"^(a)?(?(1)b|c)$", &["ab", "c"], &["ac", "b"]),
    ("a(?#a comment)b", &["ab"], &["a"]),
    (r"^orders\.(eu|us)\.[0-9]{1,3}$", &["orders.eu.12"], &["orders.asia.1", "orders.eu.1234"]),
    ("^(a|b)*?c$", &["abac", "c"], &["abd"]),
];

#[test]
fn patterns_find_what_rabbitmq_finds() {
    for (pattern, found, not_found) in CASES {
        let compiled = Pattern::new(pattern).unwrap();
        assert_eq!(compiled.as_str(), pattern);
        for (names, expected) in [(found, true), (not_found, false)] {
            names.iter().for_each(|name| assert_eq!(compiled.matches(name), expected, "{pattern} in {name:?}"));
        }
    }
    for (pattern, name, expected) in [
        (".*", "", true),
        ("", "orders", false),
        ("", "", true),
        ("^$", "orders", false),
        ("^größe$", "größe", true),
        ("^[ä-ü]+$", "äöü", true),
        (r"^\p{Lu}\P{Lu}\pL$", "Äab", true),
        // Read by the engine alone, as before.
        ("(?U)^a", "a", true),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().matches(name), expected, "{pattern:?} in {name:?}");
    }
}

#[test]
fn only_what_must_backtracks() {
    for (pattern, linear) in [
        ("^orders", true),
        (r"^\Qa.b\E[[:alpha:]]\h(?i)x$", true),
        ("^(?<n>a)", true),
        (r"^(?!amq\.)", false),
        ("a++", false),
    ] {
        assert_eq!(matches!(Pattern::new(pattern).unwrap().matcher, Matcher::Linear(_)), linear, "{pattern}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_by_its_name() {
    let long = "a".repeat(MAX_PATTERN + 1);
    let many = "(?=a)".repeat(MAX_HARD + 1);
    for (pattern, expected) in [
        ("(", "a '(' is not closed"),
        (")", "a ')' closes nothing"),
        ("[a", "a '[' is not closed"),
        ("*a", "the '*' repeats nothing"),
        ("a|+", "the '+' repeats nothing"),
        ("a\\", "it ends in a backslash"),
        (r"\y", r"\y is not supported"),
        ("(?R)", NO_RECURSION),
        ("(a)(?1)", NO_RECURSION),
        ("(?<n>a)(?&n)", NO_RECURSION),
        ("(?<n>a)(?P>n)", NO_RECURSION),
        (r"(a)\g<1>", NO_RECURSION),
        ("(?|a|b)", "(?|) is not supported"),
        ("(*UTF8)a", "verbs such as (*UTF8)"),
        ("[[:nope:]]", "[:nope:] is no class"),
        (r"(\w{100}){100}", "size limit"),
        (r"((?!a)\w{100}){100}", ""),
        (&many, "33 look-arounds"),
        (&long, "at most 4096 are allowed"),
    ] {
        let error = Pattern::new(pattern).unwrap_err().to_string();
        assert!(error.starts_with("the permission pattern '") && error.contains(expected), "{pattern}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Made to be slow: each ends at its bound, and then allows nothing.
#[test]
fn a_match_that_takes_too_much_work_is_none() {
    let name = format!("{}!", "a".repeat(200));
    let before = given_up();
    let patterns = [r"(a|aa)+\1b", r"^(?:(a|aa)\1?)+$", r"(x+x+)+y|^(a*)*\2b", r"^(?=(a+)+$)"];
    for pattern in patterns {
        assert!(!Pattern::new(pattern).unwrap().matches(&name), "{pattern}");
    }
    assert!(given_up() > before);
    // Nor is what is forbidden by a look-around allowed when that is not known.
    let pattern = Pattern::new(r"^(?!(a|aa)+\1b)").unwrap();
    assert!(!pattern.matches(&name));
    assert!(!Pattern::new("^(?=a)").unwrap().matches(&"a".repeat(MAX_NAME + 1)));
}

#[test]
fn names_stand_for_themselves_wherever_they_are() {
    let names = [("{username}", "a.b"), ("{vhost}", "/")];
    for (pattern, name, expected) in [
        (r"^{username}\.", "a.b.c", true),
        (r"^{username}\.", "axb.c", false),
        (r"^\Q{username}.\E{vhost}$", "a.b./", true),
        ("^[{username}]+$", "a.b", true),
        ("^{vhost}-{username}$", "/-a.b", true),
        ("^{client_id}$", "{client_id}", true),
    ] {
        assert_eq!(Pattern::with_names(pattern, &names).unwrap().matches(name), expected, "{pattern} in {name}");
    }
}

#[test]
fn filters_do_not_mind_the_case() {
    for (pattern, name, expected) in [
        ("", "x", true),
        ("^ORD", "orders", true),
        ("(?!x)Y$", "xy", true),
        (&*quoted("a.B"), "A.b", true),
        (&*quoted("a.B"), "AxB", false),
    ] {
        assert_eq!(Pattern::filter(pattern).unwrap().matches(name), expected, "{pattern} in {name}");
    }
}

proptest::proptest! {
    /// Whatever is written, it is refused or matched.
    #[test]
    fn nothing_that_is_written_panics(pattern in r"[\\()\[\]{}?*+|^$.:<>=!#'a-zA-Z0-9 &-]{0,24}", name in "[a-z]{0,12}") {
        if let Ok(pattern) = Pattern::new(&pattern) {
            pattern.matches(&name);
        }
    }
}
