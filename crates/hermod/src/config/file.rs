//! The configuration file: TOML tables become dotted names, each with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::reader::{Layer, Origin};

/// The deepest table that is read. TOML allows deeper ones; settings have two levels.
const DEEPEST: usize = 4;

/// Reads `path`.
pub(crate) fn read(path: &Path) -> Result<Layer, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("cannot read the configuration file {shown}: {error}")))?;
    parse(&shown, &text)
}

fn parse(path: &str, text: &str) -> Result<Layer, ConfigError> {
    let line_of =
        |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        ConfigError::new(format!("{path}:{line}: {}", error.message().replace('\n', " ")))
    })?;
    let mut layer = Layer::new();
    flatten(document.get_ref(), "", 0, &mut |name, offset, value| {
        let line = line_of(offset);
        let text = match value {
            Some(text) => text,
            None => {
                return Err(ConfigError::new(format!(
                    "{path}:{line}: {name} takes a text, a number, true or false, or a list of texts"
                )));
            }
        };
        layer.insert(name, (text, Origin::File { path: path.to_owned(), line }));
        Ok(())
    })?;
    Ok(layer)
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
        let layer = parse("h.toml", text).unwrap();
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
        ] {
            let error = parse("h.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/nowhere/hermod.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the configuration file /nowhere/hermod.toml: "), "{error}");
    }
}
