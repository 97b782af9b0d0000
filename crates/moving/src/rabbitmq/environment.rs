//! `rabbitmq-env.conf`, and the variables of containers, as they stand in a file: never run.

use super::Entry;
use crate::source::{Refusal, Source};

/// Reads a file of lines `NAME=VALUE`.
pub(crate) fn read(file: &Source) -> Result<Vec<Entry>, Refusal> {
    let mut entries = Vec::new();
    for (line, text) in file.lines() {
        let text = text.trim();
        let text = text.strip_prefix("export ").unwrap_or(text);
        let Some((name, value)) = text.split_once('=').filter(|_| !text.starts_with('#')) else { continue };
        let name = name.trim();
        let value = unquoted(value.trim());
        let name = name.strip_prefix("RABBITMQ_").unwrap_or(name);
        let runs = value.contains('`') || value.contains("$(");
        match name {
            _ if runs => entries.push(entry(line, &format!("env.run.{name}"), value)),
            "SERVER_ADDITIONAL_ERL_ARGS" | "SERVER_START_ARGS" | "SERVER_ERL_ARGS" | "CTL_ERL_ARGS" => {
                unfold(line, name, value, &mut entries);
            }
            "NODE_PORT" => entries.push(entry(line, "listeners.tcp.default", value)),
            "NODE_IP_ADDRESS" => entries.push(entry(line, "env.NODE_IP_ADDRESS", value)),
            "DEFAULT_USER" | "DEFAULT_PASS" | "DEFAULT_VHOST" => {
                entries.push(entry(line, &name.to_ascii_lowercase(), value));
            }
            "ARTEMIS_USER" => entries.push(entry(line, "default_user", value)),
            "ARTEMIS_PASSWORD" => entries.push(entry(line, "default_pass", value)),
            other => entries.push(entry(line, &format!("env.{other}"), value)),
        }
    }
    Ok(entries)
}

fn entry(line: usize, key: &str, value: &str) -> Entry {
    Entry { line, key: key.to_owned(), value: value.to_owned() }
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inside) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inside;
        }
    }
    value.split(" #").next().unwrap_or(value).trim_end()
}

/// Settings within the arguments of Erlang: `-rabbit heartbeat 0`.
fn unfold(line: usize, name: &str, value: &str, entries: &mut Vec<Entry>) {
    let before = entries.len();
    let words: Vec<_> = value.split_whitespace().collect();
    for index in 0..words.len() {
        if let ("-rabbit", Some(key), Some(value)) = (words[index], words.get(index + 1), words.get(index + 2)) {
            entries.push(entry(line, &super::terms::new_name(key), value));
        }
    }
    if entries.len() == before {
        entries.push(entry(line, &format!("env.{name}"), value));
    }
}
