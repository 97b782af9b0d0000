//! The entries for fuzzers: one function per decoder of bytes from outside, each with the
//! properties that must hold for any input. The package in `fuzz/` runs them with libFuzzer. A test
//! here replays the corpus and simple mutations of it.
//!
//! A target returns for every input. A broken property panics, like a panic in the code under test.

mod amqp;
mod amqp10_client;
mod amqp10_codec;
mod configurations;
mod disk;
mod facts;
mod login;
mod messages;
mod mqtt_packets;
mod node_messages;
mod proxy_header;
mod recovery;
mod selectors;
mod stomp_frames;

/// One entry.
pub struct Target {
    /// The name of its folder in `fuzz/corpus` and of its program in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Runs the target with one input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 21] = [
    Target { name: "amqp_frame", run: amqp::frame },
    Target { name: "amqp_method", run: amqp::method },
    Target { name: "amqp_table", run: amqp::table },
    Target { name: "amqp_properties", run: amqp::properties },
    Target { name: "amqp_client", run: amqp::client },
    Target { name: "amqp10_value", run: amqp10_codec::value },
    Target { name: "amqp10_frame", run: amqp10_codec::frame },
    Target { name: "amqp10_sasl", run: amqp10_codec::sasl },
    Target { name: "amqp10_message", run: amqp10_codec::message },
    Target { name: "amqp10_stored", run: amqp10_codec::stored_form },
    Target { name: "amqp10_client", run: amqp10_client::client },
    Target { name: "stomp", run: stomp_frames::stomp },
    Target { name: "mqtt", run: mqtt_packets::mqtt },
    Target { name: "node_messages", run: node_messages::node_messages },
    Target { name: "proxy_header", run: proxy_header::proxy_header },
    Target { name: "login", run: login::login },
    Target { name: "selector", run: selectors::selector },
    Target { name: "configuration", run: configurations::configuration },
    Target { name: "facts", run: facts::facts },
    Target { name: "message_block", run: messages::block },
    Target { name: "journal_recovery", run: recovery::recovery },
];

/// Runs the target called `name`.
///
/// # Panics
/// If there is no such target, or if the input breaks a property.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("the name is written in a fuzz target, next to this list").run)(input);
}
