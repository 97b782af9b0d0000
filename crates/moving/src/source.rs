//! Files as they are read: bounded, and text.

/// A longer file is no configuration.
pub const MOST_BYTES: u64 = 4 << 20;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What reports call it.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// Why nothing was converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// Something is wrong at a line, counted from 1.
    pub(crate) fn at(file: &Source, line: usize, text: impl std::fmt::Display) -> Self {
        Self(format!("{}:{line}: {text}", file.name))
    }

    /// The file as a whole can't be converted.
    pub(crate) fn of(file: &Source, text: impl std::fmt::Display) -> Self {
        Self(format!("{}: {text}", file.name))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `rabbitmq.conf`.
    RabbitMq,
    /// Erlang terms: the old `rabbitmq.config`, `advanced.config`, `enabled_plugins`.
    Terms,
    /// `rabbitmq-env.conf`, or variables of a container.
    Environment,
    /// `broker.xml`.
    Artemis,
    /// `activemq.xml`.
    ActiveMq,
}

impl Source {
    /// Makes a source of a file's bytes.
    ///
    /// # Errors
    /// If there are too many of them, or they are no UTF-8.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let found = bytes.len();
        if u64::try_from(found).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(Refusal(format!(
                "{name}: a configuration has at most {MOST_BYTES} bytes, and this has {found}"
            )));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                Ok(Self { name: name.to_owned(), text: text.trim_start_matches('\u{feff}').replace("\r\n", "\n") })
            }
            Err(error) => {
                let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                Err(Refusal(format!("{name}:{line}: this is no UTF-8 text; save the file as UTF-8")))
            }
        }
    }

    /// Lines with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Whether a value is a place that a tool fills in later, as `%port%` or `===USER===`.
pub(crate) fn is_placeholder(value: &str) -> bool {
    const AROUND: [(&str, &str); 7] =
        [("${", "}"), ("#{", "}"), ("[[", "]]"), ("===", "==="), ("##", "##"), ("%", "%"), ("#", "#")];
    let value = value.trim();
    AROUND.iter().any(|(open, close)| {
        value.len() > open.len() + close.len() && value.starts_with(open) && value.ends_with(close)
    })
}
