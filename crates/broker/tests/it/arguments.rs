//! The manual's table of arguments, row by row: each example is declared, and the broker answers as
//! the table says.

use broker::{ApplyTo, ErrorKind, PolicyKind, PolicySpec};
use testkit::broker::table_of;
use testkit::script::Script;

const MANUAL: &str = include_str!("../../../../docs/manual/arguments.md");

/// The rows of the table under a heading: example, and the text of the refusal if it is refused.
fn rows(heading: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let section = MANUAL.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let rows: Vec<_> = lines
        .map(|line| {
            let cells: Vec<_> = line.split(" | ").collect();
            let (example, answer) = (cells[1].trim_matches('`'), cells[2].trim_end_matches(" |").trim_end());
            match answer.strip_prefix("refused: ") {
                Some(text) => (example, Some(text)),
                None => {
                    assert!(["works", "no effect"].contains(&answer), "{line}");
                    (example, None)
                }
            }
        })
        .collect();
    assert!(rows.len() > 3, "{heading}");
    rows
}

#[test]
fn queues_answer_as_the_manual_says() {
    for (example, refusal) in rows("Of queues") {
        let expected = refusal.map_or("0 0".to_owned(), |text| format!("406 {text}"));
        assert_eq!(Script::memory().say(&format!("a queue q durable {example}")), expected, "{example}");
    }
}

/// Examples without a type, with each type by its letter.
#[test]
fn the_types_that_take_an_argument_are_those_that_the_manual_says() {
    let section = MANUAL.split("\n## ").find(|section| section.starts_with("Of queues")).expect("the heading");
    let rows = section.lines().map(|line| line.split(" | ").collect::<Vec<_>>());
    let untyped = rows.filter(|cells| cells.len() > 3 && ["works", "no effect"].contains(&cells[2]));
    for cells in untyped.filter(|cells| !cells[1].contains("x-queue-type")) {
        for (letter, kind) in [("C", "classic"), ("Q", "quorum")] {
            let line = format!("a queue q durable x-queue-type={kind} {}", cells[1].trim_matches('`'));
            let answer = Script::memory().say(&line);
            assert_eq!(answer == "0 0", cells[3].contains(letter), "{line}: {answer}");
        }
    }
}

#[test]
fn consumers_answer_as_the_manual_says() {
    for (example, refusal) in rows("Of consumers") {
        let mut script = Script::memory();
        script.say("a queue q; publish - q m");
        let expected = refusal.map_or("c:1=m".to_owned(), |text| format!("406 {text}"));
        assert_eq!(script.say(&format!("a consume q c {example}")), expected, "{example}");
    }
}

#[test]
fn exchanges_answer_as_the_manual_says() {
    for (example, refusal) in rows("Of exchanges") {
        let expected = refusal.map_or(String::new(), |text| format!("406 {text}"));
        assert_eq!(Script::memory().say(&format!("a exchange e {example}")), expected, "{example}");
    }
}

#[test]
fn policies_answer_as_the_manual_says() {
    let script = Script::memory();
    let broker = &script.broker().broker;
    for (example, refusal) in rows("Of policies") {
        let definition = table_of(example);
        let name = definition.0[0].0.clone();
        let spec = PolicySpec { pattern: String::new(), apply_to: ApplyTo::All, priority: 0, definition };
        let set = broker
            .set_policy("/", PolicyKind::User, "p", spec.clone(), &auth::Identity::operator("test"))
            .map_err(|error| error.text);
        assert_eq!(set.err().as_deref(), refusal, "{example}");
        let by_operators =
            MANUAL.lines().any(|line| line.starts_with(&format!("| `{name}` ")) && line.contains("| op."));
        if refusal.is_none() {
            let set = broker.set_policy("/", PolicyKind::Operator, "p", spec, &auth::Identity::operator("test"));
            assert_eq!(
                set.map_err(|error| error.kind).err(),
                (!by_operators).then_some(ErrorKind::Precondition),
                "{example}"
            );
        }
    }
}
