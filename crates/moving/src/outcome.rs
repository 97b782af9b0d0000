//! What comes of a conversion: settings, listeners and definitions on one side, what became of each
//! item of the source on the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Check;
use crate::definitions::Definitions;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is in the new files.
    Moved,
    /// Nothing has to be done, for the reason that is given.
    Needless,
    /// As needless; and the vendor's generator wrote it, so that reports are short about it.
    Shipped,
    /// It is left out; the reason says what to do instead.
    LeftOut,
    /// It is left out, and belongs to a part that Hermod is to have one day.
    NotBuilt,
    /// It is no setting of the other broker as far as is known.
    Unknown,
}

/// One item of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Its name there. Never its value, which may be secret.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What it is now, or why not.
    pub text: String,
}

/// One of `[[listeners]]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) bind: Option<String>,
    pub(crate) port: u16,
    /// Other fields, in their order.
    pub(crate) fields: Vec<(&'static str, toml::Value)>,
}

/// All that comes of a conversion.
pub struct Outcome<'a> {
    check: Check<'a>,
    file: String,
    settings: BTreeMap<&'static str, String>,
    listeners: Vec<Listener>,
    pub(crate) definitions: Definitions,
    items: Vec<Item>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for Outcome<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome").field("items", &self.items).field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

impl<'a> Outcome<'a> {
    pub(crate) fn new(check: Check<'a>) -> Self {
        Self {
            check,
            file: String::new(),
            settings: BTreeMap::new(),
            listeners: Vec::new(),
            definitions: Definitions::default(),
            items: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Items come from this file from now on.
    pub(crate) fn now_in(&mut self, file: &str) {
        file.clone_into(&mut self.file);
    }

    /// The directory of the file that items come from now, with the slash behind it.
    pub(crate) fn directory(&self) -> &str {
        self.file.rfind(['/', '\\']).map_or("", |at| &self.file[..=at])
    }

    /// What became of each item, in the order of the files.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// What behaves differently than before, a sentence for each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Notes what became of an item.
    pub(crate) fn note(&mut self, line: usize, name: &str, verdict: Verdict, text: impl Into<String>) {
        let (file, name, text) = (self.file.clone(), name.to_owned(), text.into());
        self.items.push(Item { file, line, name, verdict, text });
    }

    pub(crate) fn left_out(&mut self, line: usize, name: &str, text: impl Into<String>) {
        self.note(line, name, Verdict::LeftOut, text);
    }

    pub(crate) fn not_built(&mut self, line: usize, name: &str, text: impl Into<String>) {
        self.note(line, name, Verdict::NotBuilt, text);
    }

    pub(crate) fn needless(&mut self, line: usize, name: &str, text: impl Into<String>) {
        self.note(line, name, Verdict::Needless, text);
    }

    pub(crate) fn moved(&mut self, line: usize, name: &str, text: impl Into<String>) {
        self.note(line, name, Verdict::Moved, text);
    }

    /// Says that something behaves differently; once, however often it does.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// An item becomes a setting. A value that Hermod refuses leaves it out.
    pub(crate) fn set(&mut self, line: usize, name: &str, setting: &'static str, value: impl Into<String>) {
        let value = value.into();
        match (self.check)(setting, &value) {
            Ok(()) => {
                self.note(line, name, Verdict::Moved, setting);
                self.settings.insert(setting, value);
            }
            Err(_) if crate::source::is_placeholder(&value) => {
                self.left_out(line, name, format!("its value looks like a placeholder; write {setting} by hand"));
            }
            // The texts of Hermod's settings repeat the value, which might be anything.
            Err(_) => {
                self.left_out(line, name, format!("{setting} does not take this value; see hermod config --help"))
            }
        }
    }

    /// Whether a setting takes a value.
    pub(crate) fn takes(&self, setting: &str, value: &str) -> bool {
        (self.check)(setting, value).is_ok()
    }

    /// Sets what follows from several items, or from none.
    pub(crate) fn put(&mut self, setting: &'static str, value: impl Into<String>) {
        let value = value.into();
        if (self.check)(setting, &value).is_ok() {
            self.settings.insert(setting, value);
        }
    }

    /// The value that a setting has got.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// All settings that were made.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (*name, value.as_str()))
    }

    pub(crate) fn listen(&mut self, listener: Listener) {
        self.listeners.push(listener);
    }

    /// The definitions in RabbitMQ's JSON, if there are any.
    pub fn definitions(&self) -> Option<String> {
        (!self.definitions.is_empty()).then(|| self.definitions.to_json())
    }

    /// The configuration file, which takes the definitions from `definitions` if there are any.
    pub fn toml(&self, definitions: &str) -> String {
        let mut text =
            String::from("# Written by hermod config convert; `hermod config --config FILE` shows the effect.\n");
        let mut settings = self.settings.clone();
        if !self.definitions.is_empty() {
            settings.insert("definitions", definitions.to_owned());
        }
        for (name, value) in settings {
            let _ = writeln!(text, "{name} = {}", toml::Value::String(value));
        }
        for listener in &self.listeners {
            let _ = writeln!(text, "\n[[listeners]]");
            let own: Vec<_> = listener.protocols.iter().map(|name| toml::Value::String((*name).to_owned())).collect();
            let bind = listener.bind.clone().map(|bind| ("bind", toml::Value::String(bind)));
            let fields = [
                ("name", toml::Value::String(listener.name.clone())),
                ("protocols", toml::Value::Array(own)),
                ("port", toml::Value::Integer(listener.port.into())),
            ];
            for (name, value) in fields.into_iter().chain(bind).chain(listener.fields.clone()) {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        text
    }
}
