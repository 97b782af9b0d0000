//! Reads a document of definitions: RabbitMQ's of any version from 3.8 on, and Hermod's own.
//!
//! Entries are read one by one, so that memory holds no more of a document than what it declares.
//! An unreadable value is reported with its path and refuses the document. A list or a field that
//! nothing reads is reported too.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use super::fields::{Faults, Fields};
use super::{HERMOD_HASH, HERMOD_ROLES, HERMOD_SUBSCRIPTION};
use crate::json;
use crate::report::SubscriptionRow;
use crate::resources::bindings::{BindingFields, DestinationType};
use crate::resources::limits::{MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES};
use crate::resources::policies::{self, PolicyFields};
use crate::resources::shovels::SHOVEL;

/// Most values of one entry, including those within its arguments.
const MOST_VALUES: usize = 65_536;
/// Fields about the origin of a document.
const ORIGIN: [&str; 8] = [
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "rabbitmq_definition_format",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
];
/// Fields about the vhost of a document of one vhost, beside the lists.
const OF_THE_VHOST: [&str; 6] =
    ["description", "tags", "metadata", "default_queue_type", "limits", "protected_from_deletion"];
/// The priority of a policy that gives none.
const NO_PRIORITY: i64 = 0;

/// A document. Every list may be missing.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) users: Vec<UserEntry>,
    pub(super) vhosts: Vec<VhostEntry>,
    pub(super) permissions: Vec<PermissionEntry>,
    pub(super) topic_permissions: Vec<TopicEntry>,
    pub(super) parameters: Vec<ParameterEntry>,
    pub(super) shovels: Vec<ShovelEntry>,
    pub(super) global_parameters: Vec<NamedEntry>,
    pub(super) policies: Vec<PolicyFields>,
    pub(super) operator_policies: Vec<PolicyFields>,
    pub(super) queues: Vec<QueueEntry>,
    pub(super) exchanges: Vec<ExchangeEntry>,
    pub(super) bindings: Vec<BindingEntry>,
    /// The fields about the one vhost of the document, without its name.
    pub(super) vhost: Map<String, Json>,
}

#[derive(Debug)]
pub(super) struct UserEntry {
    pub(super) name: String,
    pub(super) login: Login,
    /// `None` keeps the tags that the user has.
    pub(super) tags: Option<Vec<String>>,
    /// Connections and sessions; `None` keeps the limits that the user has.
    pub(super) limits: Option<[Option<u64>; 2]>,
    /// `None` keeps the roles that the user has.
    pub(super) roles: Option<Vec<String>>,
}

/// How a document says that a user logs in.
pub(super) enum Login {
    /// There is no password.
    Nothing,
    /// The password itself.
    Password(String),
    /// A hash, and the name of its algorithm.
    Hash {
        /// Empty for RabbitMQ's usual algorithm.
        algorithm: String,
        /// In base 64, or as its algorithm writes it.
        hash: String,
    },
    /// A hash in Hermod's own form.
    Own(String),
}

/// Its `Debug` output never shows a password or a hash.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(hidden)")
    }
}

/// A vhost; fields that are `None` stay as they are.
#[derive(Debug)]
pub(super) struct VhostEntry {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) tags: Option<Vec<String>>,
    pub(super) default_queue_type: Option<String>,
    /// Connections and queues.
    pub(super) limits: Option<[Option<u64>; 2]>,
}

#[derive(Debug)]
pub(super) struct PermissionEntry {
    pub(super) user: String,
    pub(super) vhost: String,
    pub(super) configure: String,
    pub(super) write: String,
    pub(super) read: String,
}

#[derive(Debug)]
pub(super) struct TopicEntry {
    pub(super) user: String,
    pub(super) vhost: String,
    pub(super) exchange: String,
    pub(super) write: String,
    pub(super) read: String,
}

/// A parameter other than an operator policy.
/// A shovel.
#[derive(Debug)]
pub(super) struct ShovelEntry {
    pub(super) vhost: String,
    pub(super) name: String,
    pub(super) definition: Map<String, Json>,
}

#[derive(Debug)]
pub(super) struct ParameterEntry {
    pub(super) component: String,
    pub(super) vhost: String,
    pub(super) name: String,
    /// Connections and queues, if it is about the limits of a vhost.
    pub(super) limits: Option<[Option<u64>; 2]>,
}

#[derive(Debug)]
pub(super) struct NamedEntry {
    pub(super) name: String,
    pub(super) value: Json,
}

#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) name: String,
    pub(super) vhost: String,
    pub(super) durable: bool,
    pub(super) auto_delete: bool,
    pub(super) arguments: Map<String, Json>,
    /// Documents of RabbitMQ 4 have the type beside the arguments.
    pub(super) kind: Option<String>,
    pub(super) subscription: Option<SubscriptionRow>,
}

#[derive(Debug)]
pub(super) struct ExchangeEntry {
    pub(super) name: String,
    pub(super) vhost: String,
    pub(super) kind: String,
    pub(super) durable: bool,
    pub(super) auto_delete: bool,
    pub(super) internal: bool,
    pub(super) arguments: Map<String, Json>,
}

#[derive(Debug)]
pub(super) struct BindingEntry {
    pub(super) vhost: String,
    pub(super) binding: BindingFields,
}

/// Reads a document. Its faults go to `faults`.
///
/// # Errors
/// If it is no document at all.
pub(super) fn read(text: &str, faults: &mut Faults) -> Result<Document, String> {
    let text = json::unmarked(text.as_bytes());
    // The deserializer would accept a list and take its items for the fields in their order.
    if !json::is_object(text) {
        return Err("no document of definitions: it must be an object".to_owned());
    }
    let mut document = Document::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = Lists { document: &mut document, faults }.deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|error| format!("no document of definitions: {error}"))?;
    Ok(document)
}

/// Reads the lists of a document.
struct Lists<'a> {
    document: &'a mut Document,
    faults: &'a mut Faults,
}

impl<'de> DeserializeSeed<'de> for Lists<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        document.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Lists<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut lists: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = lists.next_key::<String>()? {
            if ORIGIN.contains(&&*name) {
                lists.next_value::<serde::de::IgnoredAny>()?;
            } else if OF_THE_VHOST.contains(&&*name) {
                let mut left = MOST_VALUES;
                let value = lists.next_value_seed(json::Once { left: &mut left })?;
                self.document.vhost.insert(name.clone(), value);
            } else if let Some(take) = taking(&name) {
                let (document, faults) = (&mut *self.document, &mut *self.faults);
                lists.next_value_seed(List { name: &name, take, document, faults })?;
            } else {
                lists.next_value::<serde::de::IgnoredAny>()?;
                self.faults.unsupported.push(format!("{name}: Hermod has no meaning for this field"));
            }
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("'{}' is there twice", auth::shown::escaped(&name))));
            }
        }
        Ok(())
    }
}

/// Reads one entry of a list into the document.
type Take = fn(&mut Document, &mut Fields<'_>);

fn taking(list: &str) -> Option<Take> {
    Some(match list {
        "users" => |document, fields| document.users.push(UserEntry::read(fields)),
        "vhosts" => |document, fields| document.vhosts.push(VhostEntry::read(fields)),
        "permissions" => |document, fields| document.permissions.push(PermissionEntry::read(fields)),
        "topic_permissions" => |document, fields| document.topic_permissions.push(TopicEntry::read(fields)),
        "parameters" => take_parameter,
        "global_parameters" => |document, fields| document.global_parameters.push(NamedEntry::read(fields)),
        "policies" => |document, fields| document.policies.push(policy(fields)),
        // Hermod once wrote operator policies here. Now it writes them among the parameters, as
        // RabbitMQ does.
        "operator_policies" => |document, fields| document.operator_policies.push(policy(fields)),
        "queues" => |document, fields| document.queues.push(QueueEntry::read(fields)),
        "exchanges" => |document, fields| document.exchanges.push(ExchangeEntry::read(fields)),
        "bindings" => |document, fields| document.bindings.push(BindingEntry::read(fields)),
        _ => return None,
    })
}

/// Reads a list; null counts as an empty one.
struct List<'a> {
    name: &'a str,
    take: Take,
    document: &'a mut Document,
    faults: &'a mut Faults,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list for {}", self.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (mut number, mut left) = (0, MOST_VALUES);
        while let Some(entry) = entries.next_element_seed(json::Once { left: &mut left })? {
            let mut fields = Fields::new(&format!("{}[{number}]", self.name), entry, self.faults);
            (self.take)(self.document, &mut fields);
            fields.finish();
            (number, left) = (number + 1, MOST_VALUES);
        }
        Ok(())
    }
}

impl UserEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        let name = fields.text("name");
        let password = fields.optional_text("password");
        let hash = fields.optional_text("password_hash").filter(|hash| !hash.is_empty());
        let algorithm = fields.optional_text("hashing_algorithm").unwrap_or_default();
        let own = fields.optional_text(HERMOD_HASH);
        if password.is_some() && hash.is_some() {
            fields.wrong("password", "there is a password_hash too; give one of them");
        }
        let login = match (password.filter(|password| !password.is_empty()), own, hash) {
            (Some(password), _, _) => Login::Password(password),
            (None, None, None) => Login::Nothing,
            (None, None, Some(hash)) => Login::Hash { algorithm, hash },
            (None, Some(hash), _) => Login::Own(hash),
        };
        // Documents of RabbitMQ 2 have this field in place of tags.
        let administers = fields.truth("administrator");
        let of_old = || administers.map(|yes| if yes { vec!["administrator".to_owned()] } else { Vec::new() });
        let tags = fields.words("tags").or_else(of_old);
        let limits = fields.limits("limits", [MAX_CONNECTIONS, MAX_CHANNELS]);
        for limit in limits.iter().flatten().flatten().filter(|limit| **limit >= u64::from(u32::MAX)) {
            fields.wrong("limits", format!("{limit} is beyond what can be had"));
        }
        let roles = fields.words(HERMOD_ROLES);
        Self { name, login, tags, limits, roles }
    }
}

impl VhostEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        let name = fields.text("name");
        Self { name, ..Self::of_fields(fields) }
    }

    /// The vhost called `name`, from the fields beside the lists.
    pub(super) fn of_document(name: &str, vhost: Map<String, Json>, faults: &mut Faults) -> Self {
        let mut fields = Fields::new("the vhost of the document", Json::Object(vhost), faults);
        let entry = Self::of_fields(&mut fields);
        fields.finish();
        Self { name: name.to_owned(), ..entry }
    }

    /// Reads the fields beside `metadata` and within it. Some documents have both, others have one.
    fn of_fields(fields: &mut Fields<'_>) -> Self {
        let mut entry = Self::of_description(fields);
        entry.limits = fields.limits("limits", [MAX_CONNECTIONS, MAX_QUEUES]);
        let mut metadata = fields.within("metadata");
        let within = Self::of_description(&mut metadata);
        metadata.finish();
        entry.description = within.description.or(entry.description);
        entry.tags = within.tags.or(entry.tags);
        entry.default_queue_type = within.default_queue_type.or(entry.default_queue_type);
        entry
    }

    fn of_description(fields: &mut Fields<'_>) -> Self {
        for name in ["tracing", "protected_from_deletion"] {
            if fields.truth(name) == Some(true) {
                fields.unsupported(name, "it is not built; leave it out, or false");
            }
        }
        Self {
            name: String::new(),
            description: fields.optional_text("description"),
            tags: fields.words("tags"),
            default_queue_type: fields.optional_text("default_queue_type"),
            limits: None,
        }
    }
}

impl PermissionEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            user: fields.text("user"),
            vhost: fields.text("vhost"),
            configure: fields.text("configure"),
            write: fields.text("write"),
            read: fields.text("read"),
        }
    }
}

impl TopicEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            user: fields.text("user"),
            vhost: fields.text("vhost"),
            exchange: fields.text("exchange"),
            write: fields.text("write"),
            read: fields.text("read"),
        }
    }
}

impl NamedEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self { name: fields.text("name"), value: fields.any("value") }
    }
}

/// RabbitMQ keeps the limits of vhosts, operator policies and shovels among the parameters.
fn take_parameter(document: &mut Document, fields: &mut Fields<'_>) {
    let component = fields.text("component");
    if component == super::OPERATOR_POLICY {
        let (vhost, name) = (fields.optional_text("vhost").unwrap_or_default(), fields.text("name"));
        let mut value = fields.within("value");
        let policy = PolicyFields { vhost, name, ..policy_of(&mut value) };
        value.finish();
        return document.operator_policies.push(policy);
    }
    if component == SHOVEL {
        let definition = fields.object("value").unwrap_or_default();
        let (vhost, name) = (fields.optional_text("vhost").unwrap_or_default(), fields.text("name"));
        return document.shovels.push(ShovelEntry { vhost, name, definition });
    }
    let limits = match component == super::VHOST_LIMITS {
        true => fields.limits("value", [MAX_CONNECTIONS, MAX_QUEUES]),
        false => None,
    };
    fields.pass("value");
    let (vhost, name) = (fields.optional_text("vhost").unwrap_or_default(), fields.text("name"));
    document.parameters.push(ParameterEntry { component, vhost, name, limits });
}

fn policy(fields: &mut Fields<'_>) -> PolicyFields {
    let (vhost, name) = (fields.optional_text("vhost").unwrap_or_default(), fields.text("name"));
    PolicyFields { vhost, name, ..policy_of(fields) }
}

/// A policy without its vhost and its name.
fn policy_of(fields: &mut Fields<'_>) -> PolicyFields {
    PolicyFields {
        vhost: String::new(),
        name: String::new(),
        pattern: fields.text("pattern"),
        apply_to: fields.optional_text("apply-to").unwrap_or_else(policies::to_all),
        priority: fields.number("priority").unwrap_or(NO_PRIORITY),
        definition: fields.object("definition").unwrap_or_default(),
    }
}

impl QueueEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        if fields.truth("exclusive") == Some(true) {
            fields.unsupported("exclusive", "such a queue belongs to a connection");
        }
        Self {
            name: fields.text("name"),
            vhost: fields.optional_text("vhost").unwrap_or_default(),
            durable: fields.truth("durable").unwrap_or(true),
            auto_delete: fields.truth("auto_delete").unwrap_or(false),
            arguments: fields.object("arguments").unwrap_or_default(),
            kind: fields.optional_text("type"),
            subscription: Self::subscription(fields),
        }
    }

    fn subscription(fields: &mut Fields<'_>) -> Option<SubscriptionRow> {
        let mut of_queue = fields.within_if_there(HERMOD_SUBSCRIPTION)?;
        let row = SubscriptionRow {
            client: of_queue.optional_text("client"),
            name: of_queue.text("name"),
            shared: of_queue.truth("shared").unwrap_or(false),
            selector: of_queue.optional_text("selector").unwrap_or_default(),
            expires: of_queue.number("expires").and_then(|ms| u64::try_from(ms).ok()),
        };
        of_queue.finish();
        Some(row)
    }
}

impl ExchangeEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.text("name"),
            vhost: fields.optional_text("vhost").unwrap_or_default(),
            kind: fields.text("type"),
            durable: fields.truth("durable").unwrap_or(true),
            auto_delete: fields.truth("auto_delete").unwrap_or(false),
            internal: fields.truth("internal").unwrap_or(false),
            arguments: fields.object("arguments").unwrap_or_default(),
        }
    }
}

impl BindingEntry {
    fn read(fields: &mut Fields<'_>) -> Self {
        let destination_type = match fields.text("destination_type").as_str() {
            "exchange" => DestinationType::Exchange,
            "queue" | "" => DestinationType::Queue,
            other => {
                fields.wrong("destination_type", format!("expected queue or exchange, not {other}"));
                DestinationType::Queue
            }
        };
        let binding = BindingFields {
            source: fields.text("source"),
            destination: fields.text("destination"),
            destination_type,
            routing_key: fields.text("routing_key"),
            arguments: fields.object("arguments").unwrap_or_default(),
        };
        // Lists of bindings have this field too.
        fields.pass("properties_key");
        Self { vhost: fields.optional_text("vhost").unwrap_or_default(), binding }
    }
}
