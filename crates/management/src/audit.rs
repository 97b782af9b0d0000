//! What the audit log says of a change: what was done, to what, and a bounded extract of the rest.
//! Never a secret.

use std::fmt::{self, Arguments, Write};

use auth::shown::extract;

use crate::change::Change;
use crate::objects::{BindingChange, ObjectChange};

/// Bytes of a name that are logged.
const NAME: usize = 255;
/// Bytes of everything else.
const ABOUT: usize = 1024;

/// A change as the audit log shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) action: &'static str,
    /// Empty if the change is in no vhost.
    pub(crate) vhost: String,
    /// The object that is changed.
    pub(crate) name: String,
    /// The new values, cut to a bounded length.
    pub(crate) about: String,
}

impl Told {
    pub(crate) fn of(change: &Change) -> Self {
        match change {
            Change::AddUser { name, tags, .. } => of("add_user", ["", name], format_args!("tags={tags:?}")),
            Change::PutUser { name, tags, .. } => of("put_user", ["", name], format_args!("tags={tags:?}")),
            Change::DeleteUser { name } => plain("delete_user", ["", name]),
            Change::ChangePassword { name, .. } => plain("change_password", ["", name]),
            Change::SetTags { name, tags } => of("set_tags", ["", name], format_args!("tags={tags:?}")),
            Change::LimitUser { name, connections, sessions } => {
                let limits = format_args!("connections={connections:?} sessions={sessions:?}");
                of("limit_user", ["", name], limits)
            }
            Change::SetUserLimit { user, limit, value } => {
                of("set_user_limit", ["", user], format_args!("{limit}={value:?}"))
            }
            Change::SetPermission { user, vhost, configure, write, read } => {
                let rights = format_args!("configure={configure:?} write={write:?} read={read:?}");
                of("set_permission", [vhost, user], rights)
            }
            Change::ClearPermission { user, vhost } => plain("clear_permission", [vhost, user]),
            Change::SetTopicPermission { user, vhost, exchange, write, read } => {
                let rights = format_args!("exchange={exchange:?} write={write:?} read={read:?}");
                of("set_topic_permission", [vhost, user], rights)
            }
            Change::ClearTopicPermission { user, vhost, exchange } => {
                of("clear_topic_permission", [vhost, user], format_args!("exchange={exchange:?}"))
            }
            Change::SetPolicy { operator, policy } => {
                let about = format_args!(
                    "pattern={:?} apply_to={:?} priority={} definition={:?}",
                    policy.pattern, policy.apply_to, policy.priority, policy.definition
                );
                of(if *operator { "set_operator_policy" } else { "set_policy" }, [&policy.vhost, &policy.name], about)
            }
            Change::ClearPolicy { operator, vhost, name } => {
                plain(if *operator { "clear_operator_policy" } else { "clear_policy" }, [vhost, name])
            }
            Change::Objects { vhost, change } => of_object(vhost, change),
            other => of_vhosts_and_connections(other),
        }
    }
}

fn of_vhosts_and_connections(change: &Change) -> Told {
    match change {
        Change::PutVhost { name, description, tags, default_queue_type } => {
            let about =
                format_args!("default_queue_type={default_queue_type:?} tags={tags:?} description={description:?}");
            of("put_vhost", [name, ""], about)
        }
        Change::DeleteVhost { name } => plain("delete_vhost", [name, ""]),
        Change::LimitVhost { name, connections, queues } => {
            of("limit_vhost", [name, ""], format_args!("connections={connections:?} queues={queues:?}"))
        }
        Change::SetVhostLimit { vhost, limit, value } => {
            of("set_vhost_limit", [vhost, ""], format_args!("{limit}={value:?}"))
        }
        Change::Trace { vhost, on } => of("trace", [vhost, ""], format_args!("on={on}")),
        Change::CloseConnections { id, name, vhost, user, reason } => {
            let about = format_args!("id={id:?} user={user:?} reason={reason:?}");
            let place = [vhost.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default()];
            of("close_connections", place, about)
        }
        Change::Alarm { resource, up } => of("alarm", ["", resource], format_args!("up={up}")),
        Change::MemoryLimit { bytes } => of("memory_limit", ["", ""], format_args!("bytes={bytes}")),
        // All other changes are matched above.
        _ => plain("change", ["", ""]),
    }
}

fn of_object(vhost: &str, change: &ObjectChange) -> Told {
    let binding = |action, binding: &BindingChange| {
        let about = format_args!(
            "destination={:?} routing_key={:?} arguments={:?}",
            binding.destination, binding.routing_key, binding.arguments
        );
        of(action, [vhost, &binding.source], about)
    };
    match change {
        ObjectChange::DeclareQueue { name, durable, auto_delete, arguments } => {
            let about = format_args!("durable={durable} auto_delete={auto_delete} arguments={arguments:?}");
            of("declare_queue", [vhost, name], about)
        }
        ObjectChange::DeleteQueue { name, .. } => plain("delete_queue", [vhost, name]),
        ObjectChange::PurgeQueue { name } => plain("purge_queue", [vhost, name]),
        ObjectChange::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
            let flags = format_args!(
                "type={kind:?} durable={durable} auto_delete={auto_delete} internal={internal} arguments={arguments:?}"
            );
            of("declare_exchange", [vhost, name], flags)
        }
        ObjectChange::DeleteExchange { name, .. } => plain("delete_exchange", [vhost, name]),
        ObjectChange::Bind(bound) => binding("bind", bound),
        ObjectChange::Unbind(bound) => binding("unbind", bound),
    }
}

fn plain(action: &'static str, place: [&str; 2]) -> Told {
    of(action, place, format_args!(""))
}

/// A change with a vhost and a name.
fn of(action: &'static str, place: [&str; 2], about: Arguments<'_>) -> Told {
    let [vhost, name] = place.map(|text| extract(text, NAME).into_owned());
    Told { action, vhost, name, about: bounded(about) }
}

/// Formats no more than is kept, because the whole text may take megabytes.
fn bounded(about: Arguments<'_>) -> String {
    let mut kept = Kept(String::new());
    if kept.write_fmt(about).is_err() {
        kept.0.push('…');
    }
    kept.0
}

struct Kept(String);

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = ABOUT - self.0.len().min(ABOUT);
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::change::Secret;

    #[test]
    fn what_is_told_is_bounded_and_never_a_secret() {
        let secret = Secret::Password("S3cret".to_owned());
        let user = Change::AddUser { name: "eve".to_owned(), secret, tags: vec!["monitoring".to_owned()] };
        let told = Told::of(&user);
        assert_eq!((told.action, &*told.name, &*told.about), ("add_user", "eve", "tags=[\"monitoring\"]"));
        let arguments = Map::from_iter([("x".to_owned(), json!(vec![0; 100_000]))]);
        let change =
            ObjectChange::DeclareQueue { name: "q".repeat(4000), durable: true, auto_delete: false, arguments };
        let told = Told::of(&Change::Objects { vhost: "v".to_owned(), change });
        assert_eq!((told.action, &*told.vhost), ("declare_queue", "v"));
        assert!(told.name.len() < 300 && told.about.len() <= ABOUT + 3 && told.about.ends_with('…'), "{told:?}");
        let purge =
            Change::Objects { vhost: "v".to_owned(), change: ObjectChange::PurgeQueue { name: "q".to_owned() } };
        assert_eq!(
            Told::of(&purge),
            Told { action: "purge_queue", vhost: "v".into(), name: "q".into(), about: String::new() }
        );
    }
}
