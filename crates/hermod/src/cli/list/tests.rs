//! Lists: which rows are printed, in which order, and what is told of them.

use serde_json::json;

use super::*;

/// What `hermod queues` with these words makes of three queues: their names, and the field that
/// none has.
fn arranged(words: &str) -> (Vec<String>, Option<String>) {
    let rows = vec![
        json!({ "name": "b", "vhost": "/", "messages_ready": 2, "durable": true }),
        json!({ "name": "a", "vhost": "v", "messages_ready": 30 }),
        json!({ "name": "c", "vhost": "/", "messages_ready": 2 }),
    ];
    let given = arguments(Command::new("queues")).try_get_matches_from(format!("queues {words}").split_whitespace());
    let given = given.unwrap();
    let view = View::of(&QUEUES, &given, Form::Text).unwrap();
    let Rows { rows, missing, .. } = view.arrange(rows);
    (rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect(), missing)
}

#[test]
fn rows_are_kept_sorted_and_cut_as_asked() {
    for (words, names, missing) in [
        ("", &["b", "a", "c"][..], None),
        ("--sort name", &["a", "b", "c"], None),
        ("--sort -ready,name", &["a", "b", "c"], None),
        ("--sort ready,-name", &["c", "b", "a"], None),
        ("--sort -messages_ready --limit 1", &["a"], None),
        ("--where vhost=/ --sort -name", &["c", "b"], None),
        ("--where redy>3", &[], Some("redy")),
        ("--columns name,durable", &["b", "a", "c"], None),
    ] {
        assert_eq!(
            arranged(words),
            (names.iter().map(|name| (*name).to_owned()).collect(), missing.map(str::to_owned)),
            "{words}"
        );
    }
    assert_eq!(
        QUEUES.unknown("redy"),
        "no queue has the field 'redy' now; did you mean ready? --json shows all fields"
    );
}

#[test]
fn a_list_ends_with_how_much_there_is() {
    let given = |words: &str| arguments(Command::new("q")).try_get_matches_from(words.split_whitespace()).unwrap();
    for (words, shown, all, expected) in [
        ("q", 0, 0, "no queues\n"),
        ("q --vhost /", 0, 0, "no queues in vhost /\n"),
        ("q", 1, 1, "1 queue\n"),
        ("q", 20, 312, "20 of 312 queues\n"),
        ("q --vhost v", 0, 3, "0 of 3 queues in vhost v\n"),
    ] {
        assert_eq!(View::of(&QUEUES, &given(words), Form::Text).unwrap().summary(shown, all), expected, "{words}");
    }
}

#[test]
fn only_what_is_needed_is_asked_for() {
    let fields = |words: &str, form| {
        let given = arguments(Command::new("q")).try_get_matches_from(words.split_whitespace()).unwrap();
        View::of(&USERS, &given, form).unwrap().fields()
    };
    assert_eq!(fields("q", Form::Text), ["name", "tags", "limits", "held_bytes", "declared_bytes"]);
    assert_eq!(fields("q --sort -name", Form::Json), Vec::<String>::from(["name".into()]).split_off(1), "whole rows");
    assert_eq!(fields("q --columns name --sort tags --where limits=x", Form::Json), ["name", "tags", "limits"]);
}

#[test]
fn every_value_is_one_cell() {
    let value = json!({"a": [1, "x", null], "b": {"c": true}});
    assert_eq!(cell(Some(&value)), "a=1,x,,b=c=true");
}
