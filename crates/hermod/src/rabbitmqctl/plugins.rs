//! `rabbitmq-plugins`: what RabbitMQ has as plugins and Hermod has built in counts as enabled, and anything else is refused
//! by name.

use super::call::Call;
use super::{Refusal, SOFTWARE};

/// What is built in, under RabbitMQ's names.
const BUILT_IN: [&str; 4] =
    ["rabbitmq_consistent_hash_exchange", "rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_stomp"];

pub(super) fn help() -> String {
    "What Hermod has of rabbitmq-plugins:\n    disable\n    enable\n    is_enabled\n    list\n".to_owned()
}

pub(super) fn run(call: &Call) -> Result<String, Refusal> {
    let missing: Vec<&str> = call.words.iter().map(String::as_str).filter(|name| !BUILT_IN.contains(name)).collect();
    match call.verb.as_str() {
        "list" => {
            let fits = |name: &&&str| call.words.iter().all(|pattern| name.contains(pattern.as_str()));
            let line = |name: &&str| match call.flag("minimal") {
                true => format!("{name}\n"),
                false => format!("[E*] {name} {}\n", env!("CARGO_PKG_VERSION")),
            };
            Ok(BUILT_IN.iter().filter(fits).map(line).collect())
        }
        "enable" | "is_enabled" if missing.is_empty() => {
            let line = |name: &String| format!("{name} is built in\n");
            Ok(if call.flag("quiet") { String::new() } else { call.words.iter().map(line).collect() })
        }
        "enable" | "is_enabled" => Err(Refusal::new(SOFTWARE, format!("Hermod has no {}", missing.join(", ")))),
        "disable" => Err(Refusal::new(
            SOFTWARE,
            "what Hermod has is built in and can't be disabled; a protocol is turned off by its port: ports.stomp = 0",
        )),
        other => Err(Refusal::usage(format!("Hermod has nothing for `rabbitmq-plugins {other}`"))),
    }
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
        assert_eq!(ask("disable rabbitmq_stomp").unwrap_err().0, 70);
        assert_eq!(ask("directories").unwrap_err().0, 64);
    }
}
