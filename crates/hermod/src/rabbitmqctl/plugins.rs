//! `rabbitmq-plugins`: RabbitMQ's plugins that are built into Hermod count as enabled. Others are
//! refused by name.

use super::call::Call;
use super::{Refusal, SOFTWARE};
use crate::protocols::SERVED;

/// Built-in features besides protocols, by the names of RabbitMQ's plugins.
const FEATURES: [&str; 5] = [
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_management",
    "rabbitmq_message_deduplication",
    "rabbitmq_prometheus",
];

/// All that is built in and on by default, by the names of RabbitMQ's plugins.
pub(super) fn built_in() -> Vec<&'static str> {
    let mut names: Vec<_> = SERVED.iter().filter_map(|served| served.plugin).chain(FEATURES).collect();
    names.sort_unstable();
    names
}

/// The setting that turns on, at the next start, a feature that is built in and off by default.
fn turns_on(plugin: &str) -> Option<String> {
    let web = SERVED.iter().filter_map(|served| served.web.as_ref()).find(|web| web.plugin == plugin)?;
    Some(format!("{} = {}", web.port.setting, web.usual_port))
}

pub(super) fn help() -> String {
    "What Hermod has of rabbitmq-plugins:\n    disable\n    enable\n    is_enabled\n    list\n".to_owned()
}

pub(super) fn run(call: &Call) -> Result<String, Refusal> {
    let built_in = built_in();
    let missing: Vec<&str> = call.words.iter().map(String::as_str).filter(|name| !built_in.contains(name)).collect();
    match call.verb.as_str() {
        "list" => {
            let fits = |name: &&&str| call.words.iter().all(|pattern| name.contains(pattern.as_str()));
            let line = |name: &&str| match call.flag("minimal") {
                true => format!("{name}\n"),
                false => format!("[E*] {name} {}\n", env!("CARGO_PKG_VERSION")),
            };
            Ok(built_in.iter().filter(fits).map(line).collect())
        }
        "enable" | "is_enabled" if missing.is_empty() => {
            let line = |name: &String| format!("{name} is built in\n");
            Ok(if call.flag("quiet") { String::new() } else { call.words.iter().map(line).collect() })
        }
        "enable" | "is_enabled" => Err(Refusal::new(SOFTWARE, lacking(&missing))),
        "disable" => {
            let example = SERVED.iter().filter(|it| it.plugin.is_some()).find_map(|it| Some(it.own_ports()?.0.setting));
            let example = example.unwrap_or("ports.…");
            let text = "what Hermod has is built in and can't be disabled; a protocol is turned off by its port";
            Err(Refusal::new(SOFTWARE, format!("{text}: {example} = 0")))
        }
        other => Err(Refusal::usage(format!("Hermod has nothing for `rabbitmq-plugins {other}`"))),
    }
}

/// The remedy for plugins that are not enabled.
fn lacking(missing: &[&str]) -> String {
    let text = |name: &&str| match turns_on(name) {
        Some(setting) => format!("{name} is built in and off: set {setting} and start the server again"),
        None => format!("Hermod has no {name}"),
    };
    missing.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Result<String, (u8, String)> {
        let call = Call::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        run(&call).map_err(|refusal| (refusal.code, refusal.text))
    }

    #[test]
    fn what_is_built_in_is_enabled() {
        assert_eq!(ask("enable rabbitmq_stomp rabbitmq_management -q"), Ok(String::new()));
        assert_eq!(ask("list -m stomp"), Ok("rabbitmq_stomp\n".to_owned()));
        assert_eq!(ask("enable rabbitmq_stomp rabbitmq_top"), Err((70, "Hermod has no rabbitmq_top".to_owned())));
        let off = ask("enable rabbitmq_web_stomp rabbitmq_top").unwrap_err().1;
        assert!(off.contains("set ports.web_stomp = 15674") && off.ends_with("Hermod has no rabbitmq_top"), "{off}");
        assert_eq!(ask("disable rabbitmq_stomp").unwrap_err().0, 70);
        assert_eq!(ask("directories").unwrap_err().0, 64);
    }
}
