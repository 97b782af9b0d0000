//! The settings of the first vhost, and of what the first user may do there.

use auth::Permission;

use super::ConfigError;
use super::reader::{Reader, declare};
use super::value;

/// The first vhost, and what the first user may do there.
#[derive(Debug, Clone)]
pub(crate) struct FirstRights {
    pub(crate) vhost: String,
    pub(crate) tags: Vec<String>,
    pub(crate) configure: String,
    pub(crate) write: String,
    pub(crate) read: String,
}

impl FirstRights {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let vhost = reader.get(
            declare(
                "default_vhost",
                "text",
                "/",
                "Name of the virtual host that a new data directory starts with. `default_user` has rights there.",
            ),
            |text| match value::text(text)? {
                name if (1..=255).contains(&name.len()) => Ok(name),
                name => Err(format!("a name of {} bytes; write one of 1 to 255 bytes", name.len())),
            },
        )?;
        let tags = reader.get(
            declare(
                "default_user_tags",
                "names",
                "administrator",
                "Tags of `default_user`: `administrator`, `monitoring`, `policymaker`, `management`, or any of your own.",
            ),
            value::names,
        )?;
        let mut pattern = |name, doc| {
            reader.get(declare(name, "pattern", ".*", doc), |text| match Permission::new(text, "", "") {
                Ok(_) => value::text(text),
                Err(error) => Err(format!("{error}; write a regular expression, as ^shop\\.")),
            })
        };
        Ok(Self {
            vhost,
            tags,
            configure: pattern(
                "default_permissions.configure",
                "Names of the queues and exchanges in `default_vhost` that `default_user` may declare and delete.",
            )?,
            write: pattern("default_permissions.write", "Names of those to which `default_user` may publish.")?,
            read: pattern("default_permissions.read", "Names of those from which `default_user` may consume.")?,
        })
    }
}
