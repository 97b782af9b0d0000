//! The command line of `rabbitmqctl`: a verb, words, and options at any place.

use std::collections::BTreeMap;

/// Options without a value, by their long names.
const FLAGS: [&str; 16] = [
    "quiet",
    "silent",
    "help",
    "no-table-headers",
    "longnames",
    "if-empty",
    "if-unused",
    "pre-hashed-password",
    "online",
    "offline",
    "local",
    "enabled",
    "minimal",
    "verbose",
    "global",
    "all",
];
/// Short options and their long names. `-u` is a flag of one verb only.
const SHORT: [(&str, &str); 12] = [
    ("-n", "node"),
    ("-p", "vhost"),
    ("-q", "quiet"),
    ("-s", "silent"),
    ("-t", "timeout"),
    ("-l", "longnames"),
    ("-h", "help"),
    ("-e", "if-empty"),
    ("-u", "if-unused"),
    ("-E", "enabled"),
    ("-m", "minimal"),
    ("-d", "description"),
];

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) verb: String,
    pub(super) words: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Call {
    /// Parses the command line after the program's name.
    ///
    /// # Errors
    /// The part that is invalid, as a text.
    pub(super) fn parse(line: &[String]) -> Result<Self, String> {
        let mut call = Self::default();
        let mut line = line.iter();
        let mut only_words = false;
        while let Some(word) = line.next() {
            let option = if only_words { None } else { option_of(word) };
            match option {
                _ if word == "--" && !only_words => only_words = true,
                None if call.verb.is_empty() => call.verb = word.clone(),
                None => call.words.push(word.clone()),
                Some((name, Some(value))) => drop(call.options.insert(name, value)),
                Some((name, None)) if FLAGS.contains(&name.as_str()) => drop(call.options.insert(name, String::new())),
                Some((name, None)) => {
                    let value = line.next().ok_or_else(|| format!("{word} needs a value"))?;
                    call.options.insert(name, value.clone());
                }
            }
        }
        Ok(call)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    pub(super) fn vhost(&self) -> &str {
        self.option("vhost").unwrap_or("/")
    }

    /// The words, if there are exactly this many.
    ///
    /// # Errors
    /// RabbitMQ's text for too few or too many.
    pub(super) fn exactly<const N: usize>(&self) -> Result<[&str; N], String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let count = words.len();
        words.try_into().map_err(|_| if count < N { "not enough arguments." } else { "too many arguments." }.to_owned())
    }
}

/// The long name of an option, and its value if that is in the same word.
fn option_of(word: &str) -> Option<(String, Option<String>)> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
        return Some((name.replace('_', "-"), value));
    }
    // Any other word may begin with a dash, such as a pattern or a password.
    SHORT.iter().find(|(short, _)| *short == word).map(|(_, name)| ((*name).to_owned(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Call, String> {
        Call::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_stand_anywhere() {
        let call = parse("-n rabbit@host -q list_queues --vhost=v name messages --no-table-headers").unwrap();
        assert_eq!((call.verb.as_str(), call.vhost()), ("list_queues", "v"));
        assert_eq!(call.words, ["name", "messages"]);
        assert!(call.flag("quiet") && call.flag("no-table-headers") && !call.flag("silent"));
        assert_eq!(parse("set_permissions -p v u -x.* .* -- -n").unwrap().words, ["u", "-x.*", ".*", "-n"]);
        assert_eq!(
            parse("add_vhost v --default_queue_type quorum").unwrap().option("default-queue-type"),
            Some("quorum")
        );
        assert_eq!(parse("list_queues -p").unwrap_err(), "-p needs a value");
    }

    #[test]
    fn words_are_counted() {
        let call = parse("v a b").unwrap();
        assert_eq!(call.exactly(), Ok(["a", "b"]));
        assert_eq!(call.exactly::<1>().unwrap_err(), "too many arguments.");
        assert_eq!(call.exactly::<3>().unwrap_err(), "not enough arguments.");
    }
}
