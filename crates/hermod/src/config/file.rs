//! The configuration file: TOML tables become dotted names, each with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::reader::{Layer, Origin};

/// The deepest table that is read. TOML allows deeper ones; settings have two levels.
const DEEPEST: usize = 4;

/// A longer file is no configuration.
const MOST_BYTES: u64 = 4 << 20;
/// The one array of tables.
const LISTENERS: &str = "listeners";

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The settings.
    pub(crate) layer: Layer,
    /// The settings of each of `[[listeners]]`.
    pub(crate) listeners: Vec<Layer>,
}

/// Reads `path`.
pub(crate) fn read(path: &Path) -> Result<Contents, ConfigError> {
    let shown = path.display().to_string();
    let bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    if bytes > MOST_BYTES {
        return Err(ConfigError::new(format!(
            "{shown} has {bytes} bytes; a configuration file has at most {MOST_BYTES}: is it another file?"
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("cannot read the configuration file {shown}: {error}")))?;
    parse(&shown, &text)
}

/// Reads the text of a file that is called `path`.
pub(crate) fn parse(path: &str, text: &str) -> Result<Contents, ConfigError> {
    let line_of =
        |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        ConfigError::new(format!("{path}:{line}: {}", error.message().replace('\n', " ")))
    })?;
    let mut contents = Contents::default();
    let into = |layer: &mut Layer, name: String, offset, value| {
        let line = line_of(offset);
        let Some(text) = value else {
            return Err(ConfigError::new(format!(
                "{path}:{line}: {name} takes a text, a number, true or false, or a list of texts"
            )));
        };
        layer.insert(name, (text, Origin::File { path: path.to_owned(), line }));
        Ok(())
    };
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        match (name, value.get_ref()) {
            (LISTENERS, DeValue::Array(items)) => {
                for item in items.iter() {
                    let DeValue::Table(table) = item.get_ref() else {
                        return Err(no_listener(path, line_of(key.span().start)));
                    };
                    let mut layer = Layer::new();
                    flatten(table, LISTENERS, 1, &mut |name, offset, value| into(&mut layer, name, offset, value))?;
                    contents.listeners.push(layer);
                }
            }
            (LISTENERS, _) => return Err(no_listener(path, line_of(key.span().start))),
            (_, DeValue::Table(table)) => {
                flatten(table, name, 1, &mut |name, offset, value| into(&mut contents.layer, name, offset, value))?;
            }
            (_, leaf) => into(&mut contents.layer, name.to_owned(), key.span().start, as_text(leaf))?,
        }
    }
    Ok(contents)
}

fn no_listener(path: &str, line: usize) -> ConfigError {
    ConfigError::new(format!("{path}:{line}: listeners are tables; write [[listeners]] above the settings of each"))
}

/// Reports every value with its dotted name, its offset in the file, and its text if it has one.
fn flatten(
    table: &DeTable<'_>,
    prefix: &str,
    depth: usize,
    report: &mut dyn FnMut(String, usize, Option<String>) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        let offset = key.span().start;
        match value.get_ref() {
            DeValue::Table(inner) if depth < DEEPEST => flatten(inner, &name, depth + 1, report)?,
            leaf => report(name, offset, as_text(leaf))?,
        }
    }
    Ok(())
}

fn as_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect();
            items.map(|items| items.join(","))
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_dotted_names_with_their_lines() {
        let text = "port_offset = 1_0\nbind = [\"127.0.0.1\", \"::1\"]\n\n[limits]\nframe_max = \"64 KiB\"\n\
                    [tcp]\nnodelay = false\n";
        let layer = parse("h.toml", text).unwrap().layer;
        let shown: Vec<_> = layer.iter().map(|(name, (value, origin))| format!("{origin} {name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "h.toml:2 bind=127.0.0.1,::1",
                "h.toml:5 limits.frame_max=64 KiB",
                "h.toml:1 port_offset=10",
                "h.toml:7 tcp.nodelay=false"
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (text, start) in [
            ("a = 1\nb = \n", "h.toml:2: "),
            ("a = 1\na = 2\n", "h.toml:2: "),
            ("\n[tcp]\nnodelay = 1.5\n", "h.toml:3: tcp.nodelay takes a text"),
            ("bind = [1]\n", "h.toml:1: bind takes a text"),
            ("a.b.c.d.e.f.g = 1\n", "h.toml:1: a.b.c.d.e takes a text"),
            ("\n[listeners]\nport = 1\n", "h.toml:2: listeners are tables; write [[listeners]]"),
            ("listeners = ['amqp']\n", "h.toml:1: listeners are tables"),
            ("[[listeners]]\nport = 1.5\n", "h.toml:2: listeners.port takes a text"),
        ] {
            let error = parse("h.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn listeners_are_tables_of_their_own() {
        let contents =
            parse("h.toml", "port_offset = 1\n[[listeners]]\nport = 5\n[[listeners]]\nbind = ['::1']\n").unwrap();
        assert_eq!((contents.layer.len(), contents.listeners.len()), (1, 2));
        let (value, origin) = &contents.listeners[1]["listeners.bind"];
        assert_eq!((value.as_str(), origin.to_string().as_str()), ("::1", "h.toml:5"));
    }

    #[test]
    fn a_file_of_another_size_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(100_000_000).unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.contains("has 100000000 bytes; a configuration file has at most"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/nowhere/hermod.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the configuration file /nowhere/hermod.toml: "), "{error}");
    }
}
