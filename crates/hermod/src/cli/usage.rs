//! Explains an error of the command line on one line: the parser's whole message, its suggestion,
//! and where to find help.
//!
//! The parser (clap) writes a paragraph: the error, indented names, tips, a synopsis, a hint.
//! Scripts and logs need one line.

/// `text`, the parser's message, on one line.
pub(super) fn one_line(text: &str) -> String {
    let mut said = String::new();
    let mut command = "hermod".to_owned();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(synopsis) = line.strip_prefix("Usage: ") {
            command = command_of(synopsis);
        } else if let Some(error) = line.strip_prefix("error: ") {
            said.push_str(error);
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            said.push_str("; ");
            said.push_str(tip);
        } else if !line.starts_with("For more information") {
            let between = if line.starts_with('[') || said.ends_with(':') { " " } else { ", " };
            said.push_str(between);
            said.push_str(line);
        }
    }
    format!("{said}; see {command} --help")
}

/// The words of a synopsis before its first argument: `hermod queues declare` of
/// `hermod queues declare <QUEUE>`.
fn command_of(synopsis: &str) -> String {
    let words = synopsis.split_whitespace().take_while(|word| !word.starts_with(['<', '[', '-']));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    /// The first line of clap's message alone lacks the names that each of these must contain.
    #[test]
    fn a_wrong_command_line_is_told_whole() {
        for (line, expected) in [
            (
                "hermod queues declare",
                "the following required arguments were not provided: <NAME>; see hermod queues declare --help",
            ),
            (
                "hermod alarms set cpu",
                "invalid value 'cpu' for '<RESOURCE>' [possible values: memory, disk]; see hermod --help",
            ),
            (
                "hermod qeues",
                "unrecognized subcommand 'qeues'; a similar subcommand exists: 'queues'; see hermod --help",
            ),
            (
                "hermod status --jsn",
                "unexpected argument '--jsn' found; a similar argument exists: '--json'; see hermod status --help",
            ),
            ("hermod status --bogus", "unexpected argument '--bogus' found; see hermod status --help"),
            (
                "hermod permissions set",
                "the following required arguments were not provided: <USER>, <CONFIGURE>, <WRITE>, <READ>; \
                 see hermod permissions set --help",
            ),
        ] {
            let error = command().try_get_matches_from(line.split(' ')).unwrap_err();
            assert_eq!(one_line(&error.to_string()), expected, "{line}\n{error}");
        }
    }
}
