//! Resolves settings: default, then file, then environment, then flag. It also keeps a description
//! of each setting.
//!
//! A setting is declared by asking for its value. Reading all settings therefore also produces the
//! list of them. Listings, flags, the manual and the search for misspelt keys use that list.

use std::collections::BTreeMap;

use super::ConfigError;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No source sets it.
    Default,
    /// A line of a file.
    File {
        /// Path of the file, as given.
        path: String,
        /// Line, counted from 1.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Values by the name of their setting, from one source.
pub(crate) type Layer = BTreeMap<String, (String, Origin)>;

/// One setting as listings show it.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// Its name, with dots between the parts: `limits.frame_max`.
    pub(crate) name: &'static str,
    /// The kind of its value, in a word or two.
    pub(crate) kind: &'static str,
    /// Its default, in the form of the configuration file.
    pub(crate) default: String,
    /// What it does, in a sentence or two.
    pub(crate) doc: &'static str,
    /// The effective value; empty for secrets.
    pub(crate) value: String,
    /// The origin of the effective value.
    pub(crate) origin: Origin,
    /// Whether its value must not be shown.
    pub(crate) secret: bool,
}

impl Described {
    /// Name of its variable in the environment.
    pub(crate) fn variable(&self) -> String {
        format!("HERMOD_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Its value as it may be shown.
    pub(crate) fn shown(&self) -> &str {
        if self.secret { "(hidden)" } else { &self.value }
    }

    /// Whether it takes several values, which repeated flags may give one by one.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.kind, "addresses" | "names")
    }

    /// Name of its flag on the command line, without dashes in front.
    pub(crate) fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }
}

/// The parts of a setting's declaration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration<'a> {
    /// See [`Described::name`].
    pub(crate) name: &'static str,
    /// See [`Described::kind`].
    pub(crate) kind: &'static str,
    /// See [`Described::default`].
    pub(crate) default: &'a str,
    /// See [`Described::doc`].
    pub(crate) doc: &'static str,
}

/// A declaration of these parts.
pub(crate) fn declare<'a>(
    name: &'static str,
    kind: &'static str,
    default: &'a str,
    doc: &'static str,
) -> Declaration<'a> {
    Declaration { name, kind, default, doc }
}

/// What listings show of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Value,
    /// That it is there, and no more.
    Hidden,
}

/// Returns the effective value of each setting that is asked for.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The strongest first.
    layers: Vec<Layer>,
    described: Vec<Described>,
}

impl Reader {
    /// Reads from `layers`, the strongest first.
    pub(crate) fn new(layers: Vec<Layer>) -> Self {
        Self { layers, described: Vec::new() }
    }

    /// The value of a setting.
    pub(crate) fn get<T>(
        &mut self,
        declared: Declaration<'_>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.read(declared, Listing::Value, parse)
    }

    /// The value of a setting that listings must not show.
    pub(crate) fn secret(&mut self, declared: Declaration<'_>) -> Result<String, ConfigError> {
        self.read(declared, Listing::Hidden, super::value::text)
    }

    fn read<T>(
        &mut self,
        declared: Declaration<'_>,
        listing: Listing,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let Declaration { name, kind, default, doc } = declared;
        let found = self.layers.iter().find_map(|layer| layer.get(name));
        let (text, origin) = found.cloned().unwrap_or_else(|| (default.to_owned(), Origin::Default));
        let value = parse(&text).map_err(|what| ConfigError::value(name, &origin, &what))?;
        let secret = listing == Listing::Hidden;
        let text = if secret { String::new() } else { text };
        self.described.push(Described { name, kind, default: default.to_owned(), doc, value: text, origin, secret });
        Ok(value)
    }

    /// All settings that were asked for, in that order.
    pub(crate) fn into_described(self) -> Vec<Described> {
        self.described
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value;

    const SIZE: Declaration<'static> =
        Declaration { name: "limits.frame_max", kind: "size", default: "128 KiB", doc: "Largest frame." };

    fn layer(text: &str, origin: Origin) -> Layer {
        Layer::from([("limits.frame_max".to_owned(), (text.to_owned(), origin))])
    }

    #[test]
    fn the_strongest_layer_wins_and_is_named() {
        let file = layer("1", Origin::File { path: "hermod.toml".into(), line: 3 });
        let environment = layer("2", Origin::Environment("HERMOD_LIMITS_FRAME_MAX".into()));
        for (layers, value, origin) in [
            (vec![], 131_072, "default"),
            (vec![file.clone()], 1, "hermod.toml:3"),
            (vec![environment.clone(), file], 2, "HERMOD_LIMITS_FRAME_MAX"),
            (vec![layer("3", Origin::Flag("--limits-frame-max".into())), environment], 3, "--limits-frame-max"),
        ] {
            let mut reader = Reader::new(layers);
            assert_eq!(reader.get(SIZE, value::bytes).unwrap(), value);
            assert_eq!(reader.into_described()[0].origin.to_string(), origin);
        }
    }

    #[test]
    fn a_wrong_value_names_setting_place_and_remedy() {
        let mut reader = Reader::new(vec![layer("big", Origin::File { path: "hermod.toml".into(), line: 3 })]);
        let error = reader.get(SIZE, value::bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "hermod.toml:3: limits.frame_max: 'big' is no size; write bytes as 131072, 128 KiB, 16 MiB or 1 GiB"
        );
    }

    #[test]
    fn a_secret_is_read_but_not_kept() {
        let declared = Declaration { name: "default_pass", kind: "text", default: "guest", doc: "." };
        let mut reader = Reader::default();
        assert_eq!(reader.secret(declared).unwrap(), "guest");
        assert_eq!(reader.into_described()[0].value, "");
    }
}
