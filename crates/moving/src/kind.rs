//! What kind a file is. That comes from its contents, never from its name.

use crate::source::{Kind, Refusal, Source};
use crate::xml;

/// Says what `file` is.
pub(crate) fn of(file: &Source) -> Result<Kind, Refusal> {
    let text = file.text.trim_start();
    refuse_templates(file)?;
    if text.is_empty() {
        return Err(Refusal::of(file, "there is nothing in it"));
    }
    if text.starts_with('<') {
        return xml::kind(file);
    }
    if let Some((line, _)) = file.lines().find(|(_, line)| line.contains("<?xml") || line.trim_start() == "<beans") {
        return Err(Refusal::at(file, line, "something stands before the XML begins; delete it"));
    }
    if text.starts_with('{') {
        return Err(Refusal::of(file, "this looks like definitions in JSON; import them by: hermod import FILE"));
    }
    let first = file.lines().map(|(_, line)| line.trim()).find(|line| !line.is_empty() && !line.starts_with('%'));
    if first.is_some_and(|line| line.starts_with('[')) {
        return Ok(Kind::Terms);
    }
    let names = || file.lines().filter_map(|(_, line)| assigned(line));
    let is_environment = names().next().is_some() && names().all(is_variable);
    Ok(if is_environment { Kind::Environment } else { Kind::RabbitMq })
}

/// The name that a line gives a value to.
fn assigned(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    line.split_once('=').map(|(name, _)| name.trim())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// A template is no configuration yet. `#{…}` and `${…}` are values, which brokers fill in.
fn refuse_templates(file: &Source) -> Result<(), Refusal> {
    const MARKS: [&str; 3] = ["{{", "{%", "<%"];
    for (line, text) in file.lines() {
        let is_comment = text.trim_start().starts_with(['#', '%']);
        if let Some(mark) = MARKS.iter().find(|mark| text.contains(**mark) && !is_comment) {
            return Err(Refusal::at(
                file,
                line,
                format!("'{mark}' is of a template; render it first, and convert the result"),
            ));
        }
    }
    Ok(())
}
