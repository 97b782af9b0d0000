//! Configurations and what must come of them, as data under `cases/`. Each row of the manual's page
//! and each oddity that was seen in published files is there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a failed test")]

use moving::{Item, Outcome, Refusal, Source, Sources, Verdict};

const FILES: [(&str, &str); 3] = [
    ("rabbitmq", include_str!("cases/rabbitmq.txt")),
    ("artemis", include_str!("cases/artemis.txt")),
    ("activemq", include_str!("cases/activemq.txt")),
];
/// Every password of the cases. No report and no refusal may have it.
const SECRET: &str = "s3cret";

struct Case<'a> {
    title: &'a str,
    input: &'a str,
    expected: Vec<&'a str>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let read = |case| {
        let (title, rest) = str::split_once(case, '\n').unwrap();
        let (input, expected) = rest.split_once("\n---\n").unwrap();
        Case { title, input, expected: expected.lines().filter(|line| !line.is_empty()).collect() }
    };
    text.split("=== ").skip(1).map(read).collect()
}

/// Takes what settings of those kinds take.
fn takes(setting: &str, value: &str) -> Result<(), String> {
    let number = value.chars().all(|letter| letter.is_ascii_digit());
    let wrong = (setting.starts_with("ports.") || setting == "limits.channel_max") && !number;
    let wrong = wrong || (setting == "auth_oauth2.algorithms" && value.contains("HS256"));
    if wrong { Err("no number".to_owned()) } else { Ok(()) }
}

fn convert(input: &str) -> Result<Outcome<'static>, Refusal> {
    let file = Source::new("file", input.as_bytes())?;
    moving::convert(Sources { files: &[file], users: None, roles: None }, &takes)
}

fn found(outcome: &Outcome<'_>, verdicts: &[Verdict], wanted: &str) -> bool {
    let (name, text) = wanted.split_once(": ").unwrap_or((wanted, ""));
    let fits = |item: &&Item| item.name == name && verdicts.contains(&item.verdict) && item.text.contains(text);
    outcome.items().iter().any(|item| fits(&item))
}

fn check(case: &Case<'_>) -> Result<(), String> {
    let converted = convert(case.input);
    let refused = converted.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if refused.contains(SECRET) {
        return Err(format!("a refusal has a password: {refused}"));
    }
    let Ok(outcome) = &converted else {
        let fits =
            case.expected.iter().all(|line| line.strip_prefix("refused: ").is_some_and(|text| refused.contains(text)));
        return if fits { Ok(()) } else { Err(format!("refused: {refused}")) };
    };
    let (toml, definitions) = (outcome.toml("definitions.json"), outcome.definitions().unwrap_or_default());
    let report = moving::report(outcome);
    if report.contains(SECRET) {
        return Err(format!("the report has a password: {report}"));
    }
    for line in &case.expected {
        let (kind, wanted) = line.split_once(": ").unwrap();
        let holds = match kind {
            "toml" => toml.contains(wanted),
            "json" => definitions.contains(wanted),
            "absent" => !toml.contains(wanted) && !definitions.contains(wanted),
            "count" => {
                let (text, count) = wanted.rsplit_once(" = ").unwrap();
                definitions.matches(text).count() == count.parse::<usize>().unwrap()
            }
            "warn" => outcome.warnings().iter().any(|warning| warning.contains(wanted)),
            "moved" => found(outcome, &[Verdict::Moved], wanted),
            "left" => found(outcome, &[Verdict::LeftOut], wanted),
            "planned" => found(outcome, &[Verdict::NotBuilt], wanted),
            "unknown" => found(outcome, &[Verdict::Unknown], wanted),
            "none" => found(outcome, &[Verdict::Needless, Verdict::Shipped], wanted),
            _ => false,
        };
        if !holds {
            return Err(format!("not so: {line}\n{toml}\n{definitions}\n{report}"));
        }
    }
    Ok(())
}

#[test]
fn each_case_comes_to_what_it_must() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, text) in FILES {
        for case in cases(text) {
            count += 1;
            if let Err(what) = check(&case) {
                wrong.push(format!("{file}: {}: {what}", case.title));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count > 100, "{count}");
}

/// Whatever is cut off, the answer is an outcome or a refusal, and none has a password.
#[test]
fn a_file_may_end_anywhere() {
    for (_, text) in FILES {
        for case in cases(text) {
            for end in (0..case.input.len()).filter(|end| case.input.is_char_boundary(*end)) {
                let said = match convert(&case.input[..end]) {
                    Ok(outcome) => moving::report(&outcome),
                    Err(refusal) => refusal.to_string(),
                };
                assert!(!said.contains(SECRET), "{}: {said}", case.title);
            }
        }
    }
}

#[test]
fn line_ends_and_marks_of_other_systems_are_taken() {
    for text in [
        "heartbeat = 30\r\nchannel_max = 5\r\n",
        "\u{feff}heartbeat = 30\nchannel_max = 5",
        "heartbeat=30\nchannel_max=5",
    ] {
        let outcome = convert(text).unwrap();
        assert_eq!(
            (outcome.setting("limits.heartbeat"), outcome.setting("limits.channel_max")),
            (Some("30 s"), Some("5"))
        );
    }
}

#[test]
fn what_is_no_configuration_is_refused_early() {
    for (bytes, expected) in [
        (vec![b' '; 5 << 20], "has at most 4194304 bytes"),
        (b"heartbeat = \xff".to_vec(), "file:1: this is no UTF-8 text"),
        (b" \n".to_vec(), "there is nothing in it"),
        (format!("[{}", "[".repeat(1000)).into_bytes(), "nested too deeply"),
        (format!("<broker>{}</broker>", "<a/>".repeat(200_001)).into_bytes(), "more than 200000 elements"),
    ] {
        let refused = Source::new("file", &bytes)
            .and_then(|file| moving::convert(Sources { files: &[file], users: None, roles: None }, &takes).map(drop))
            .unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    // Elements within elements cost no stack.
    let deep = format!("<broker>{}{}</broker>", "<a>".repeat(90_000), "</a>".repeat(90_000));
    assert!(convert(&deep).is_ok());
}

#[test]
fn users_and_roles_come_from_their_own_files() {
    let xml = "<configuration><core><security-settings><security-setting match=\"#\"><permission type=\"send\" \
               roles=\"amq\"/><permission type=\"manage\" roles=\"amq\"/></security-setting></security-settings></core></configuration>";
    let users = "# people\nop = ENC(1024:00FF:AB)\nbo:s3cret\nkaraf=s3cret,amq\ncam=CN=cam, OU=x\nempty\n";
    let roles = "amq = nobody\namq = op,bo\n";
    let source = |name: &str, text: &str| Source::new(name, text.as_bytes()).unwrap();
    let files = [source("broker.xml", xml)];
    let (users, roles) = (source("users", users), source("roles", roles));
    let outcome = moving::convert(Sources { files: &files, users: Some(&users), roles: Some(&roles) }, &takes).unwrap();
    let definitions: serde_json::Value = serde_json::from_str(&outcome.definitions().unwrap()).unwrap();
    let user =
        |name: &str| definitions["users"].as_array().unwrap().iter().find(|user| user["name"] == name).unwrap().clone();
    assert_eq!(user("bo")["password"], "s3cret");
    assert_eq!(user("bo")["hermod-roles"], serde_json::json!(["amq"]));
    assert_eq!(user("bo")["tags"], serde_json::json!(["management"]));
    assert_eq!(user("karaf")["hermod-roles"], serde_json::Value::Null, "the last line of a role counts");
    assert!(["op", "cam", "empty", "amq"].iter().all(|name| user(name).get("password").is_none()));
    for (name, why) in [("op", "Artemis' own"), ("cam", "certificate's subject"), ("empty", "no password")] {
        assert!(found(&outcome, &[Verdict::LeftOut], &format!("{name}: {why}")), "{name}");
    }
    assert!(
        outcome.warnings().iter().any(|warning| warning.contains("the role amq stands there twice; line 2 counts"))
    );
    assert!(!moving::report(&outcome).contains(SECRET));
}
