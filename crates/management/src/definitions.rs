//! Definitions: users, vhosts, rights and what is declared, as RabbitMQ's JSON document, written and read.
//!
//! A document is looked at whole before anything changes. What Hermod has no meaning for is named, and refuses the document
//! unless whoever imports it said to skip that.

use std::collections::{BTreeMap, BTreeSet};

use auth::{PasswordHash, Permission, Tags, TopicPermission, User, UserLimits};
use broker::{Broker, Error, ExchangeSpec, QueueSpec, Ticket, VhostLimits, VhostSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::change::{AUDIT, Caller, Change, MAX_CONNECTIONS, MAX_QUEUES, Refused, Why, apply, wait};
use crate::json;
use crate::listing::{self, Listed};
use crate::objects::{self, BindingChange, DestinationType, ObjectChange};
use crate::policies::{self, PolicyChange};
use crate::source::Facts;

/// Parameters that name a cluster of RabbitMQ and mean nothing anywhere else.
const OF_A_CLUSTER: [&str; 2] = ["cluster_name", "internal_cluster_id"];
/// The one component of parameters that has a meaning here.
const VHOST_LIMITS: &str = "vhost-limits";
const QUEUE_TYPE: &str = "x-queue-type";
/// Exchanges that every vhost has.
const PREDECLARED: [&str; 5] = ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"];
/// The one that is made as soon as something is bound to it.
const TRACE: &str = "amq.rabbitmq.trace";

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// How many definitions it took over.
    pub taken: u64,
    /// What it skipped, a line for each.
    pub skipped: Vec<String>,
}

/// How a document is to be taken over.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    /// Everything in it goes into this vhost.
    pub(crate) vhost: Option<&'a str>,
    /// Leave out what is not supported.
    pub(crate) skip_unsupported: bool,
    /// Who asked.
    pub(crate) caller: Caller,
}

/// A document, as far as its fields have a meaning. Every list may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    users: Vec<UserEntry>,
    vhosts: Vec<VhostEntry>,
    permissions: Vec<PermissionEntry>,
    topic_permissions: Vec<TopicEntry>,
    parameters: Vec<ParameterEntry>,
    global_parameters: Vec<NamedEntry>,
    policies: Vec<PolicyChange>,
    operator_policies: Vec<PolicyChange>,
    queues: Vec<QueueEntry>,
    exchanges: Vec<ExchangeEntry>,
    bindings: Vec<BindingEntry>,
}

impl Document {
    /// Everything in it is about this vhost, whatever it says itself.
    ///
    /// # Errors
    /// It has what is in no vhost.
    fn confine(&mut self, vhost: &str) -> Result<(), String> {
        let lists = [
            ("users", self.users.len()),
            ("vhosts", self.vhosts.len()),
            ("permissions", self.permissions.len()),
            ("topic_permissions", self.topic_permissions.len()),
            ("global_parameters", self.global_parameters.len()),
        ];
        if let Some((list, _)) = lists.iter().find(|(_, length)| *length > 0) {
            return Err(format!("nothing was imported: {list} are not in one vhost; import the document as a whole"));
        }
        let operators = self.operator_policies.iter_mut();
        let policies = self.policies.iter_mut().chain(operators).map(|entry| &mut entry.vhost);
        let queues = self.queues.iter_mut().map(|entry| &mut entry.vhost);
        let exchanges = self.exchanges.iter_mut().map(|entry| &mut entry.vhost);
        let bindings = self.bindings.iter_mut().map(|entry| &mut entry.vhost);
        let parameters = self.parameters.iter_mut().map(|entry| &mut entry.vhost);
        for place in policies.chain(queues).chain(exchanges).chain(bindings).chain(parameters) {
            vhost.clone_into(place);
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct UserEntry {
    name: String,
    #[serde(default)]
    password_hash: String,
    #[serde(default)]
    hashing_algorithm: String,
    #[serde(default)]
    tags: Words,
    #[serde(default)]
    limits: BTreeMap<String, i64>,
}

/// A list of words, which older documents write as one text with commas.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Words {
    List(Vec<String>),
    Text(String),
}

#[derive(Debug, Deserialize)]
struct VhostEntry {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Words,
    #[serde(default)]
    default_queue_type: Option<String>,
    #[serde(default)]
    metadata: Map<String, Json>,
}

#[derive(Debug, Deserialize)]
struct PermissionEntry {
    user: String,
    vhost: String,
    configure: String,
    write: String,
    read: String,
}

#[derive(Debug, Deserialize)]
struct TopicEntry {
    user: String,
    vhost: String,
    exchange: String,
    write: String,
    read: String,
}

#[derive(Debug, Deserialize)]
struct ParameterEntry {
    component: String,
    #[serde(default)]
    vhost: String,
    name: String,
    value: Json,
}

#[derive(Debug, Deserialize)]
struct NamedEntry {
    name: String,
}

#[derive(Debug, Deserialize)]
struct QueueEntry {
    name: String,
    #[serde(default)]
    vhost: String,
    durable: bool,
    auto_delete: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
    /// Documents of RabbitMQ 4 have it beside the arguments.
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ExchangeEntry {
    name: String,
    #[serde(default)]
    vhost: String,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    #[serde(default)]
    internal: bool,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

#[derive(Debug, Deserialize)]
struct BindingEntry {
    source: String,
    #[serde(default)]
    vhost: String,
    destination: String,
    destination_type: DestinationType,
    routing_key: String,
    #[serde(default, deserialize_with = "json::unique")]
    arguments: Map<String, Json>,
}

impl Default for Words {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Words {
    pub(crate) fn list(&self) -> Vec<String> {
        match self {
            Self::List(words) => words.clone(),
            Self::Text(text) => {
                text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
            }
        }
    }
}

/// Everything that is kept, as one document. Exclusive and transient queues are no definitions, nor is what every vhost has.
pub(crate) fn export(broker: &Broker, facts: &Facts) -> Json {
    let list = |what| listing::list(broker, facts, &[], what, None);
    let is_durable = |row: &Json| row["durable"] == true && row["exclusive"] != true;
    let declared = |name: &Json| name.as_str().is_some_and(|name| !name.is_empty() && !name.starts_with("amq."));
    let queues: Vec<Json> = list(Listed::Queues).into_iter().filter(is_durable).collect();
    let mut exchanges = list(Listed::Exchanges);
    exchanges.retain(|row| is_durable(row) && declared(&row["name"]));
    let has = |rows: &[Json], binding: &Json, field: &str| {
        rows.iter().any(|row| row["vhost"] == binding["vhost"] && row["name"] == binding[field])
    };
    let mut bindings = list(Listed::Bindings);
    bindings.retain(|binding| {
        let source = binding["source"].as_str().unwrap_or_default();
        let from = source.starts_with("amq.") || has(&exchanges, binding, "source");
        let to = match binding["destination_type"] == "queue" {
            true => has(&queues, binding, "destination"),
            false => !declared(&binding["destination"]) || has(&exchanges, binding, "destination"),
        };
        !source.is_empty() && from && to
    });
    let limits = list(Listed::VhostLimits).into_iter().map(
        |row| json!({ "component": VHOST_LIMITS, "vhost": row["vhost"], "name": "limits", "value": row["value"] }),
    );
    json!({
        "product_name": "Hermod",
        "product_version": facts.version,
        "rabbit_version": facts.compat_version,
        "rabbitmq_version": facts.compat_version,
        "users": list(Listed::Users),
        "vhosts": narrowed(&list(Listed::Vhosts), &["name", "description", "tags", "default_queue_type", "metadata"]),
        "permissions": list(Listed::Permissions),
        "topic_permissions": list(Listed::TopicPermissions),
        "parameters": limits.collect::<Vec<_>>(),
        "global_parameters": [],
        "policies": list(Listed::Policies),
        "operator_policies": list(Listed::OperatorPolicies),
        "queues": narrowed(&queues, &["name", "vhost", "type", "durable", "auto_delete", "arguments"]),
        "exchanges": exchanges,
        "bindings": narrowed(&bindings, &["source", "vhost", "destination", "destination_type", "routing_key", "arguments"]),
    })
}

/// What of it is in a vhost, without saying which.
pub(crate) fn export_vhost(broker: &Broker, facts: &Facts, vhost: &str) -> Json {
    let mut document = export(broker, facts);
    let Json::Object(lists) = &mut document else { return document };
    for list in ["users", "vhosts", "permissions", "topic_permissions", "global_parameters"] {
        lists.remove(list);
    }
    for rows in lists.values_mut().filter_map(Json::as_array_mut) {
        rows.retain(|row| row["vhost"] == vhost);
        for row in rows.iter_mut().filter_map(Json::as_object_mut) {
            row.remove("vhost");
        }
    }
    document
}

/// Some fields of each row.
fn narrowed(rows: &[Json], fields: &[&str]) -> Vec<Json> {
    let narrow = |row: &Json| fields.iter().map(|field| ((*field).to_owned(), row[*field].clone())).collect();
    rows.iter().map(narrow).map(Json::Object).collect()
}

/// Takes over a document: what of it is there already is replaced, or must be the same. Blocks until all of it is durable.
///
/// # Errors
/// Nothing was changed: it is no such document, contradicts itself or what exists, or has things that are not supported while
/// they are not to be skipped. Or something else changed what exists between the look and the end; the text says what.
pub(crate) fn import(broker: &Broker, text: &str, import: &Import<'_>) -> Result<Imported, Refused> {
    let invalid = |text: String| Refused::new(Why::Invalid, text);
    // The reader would take a list for the fields in their order.
    if !json::is_object(text.as_bytes()) {
        return Err(invalid("no document of definitions: it must be an object".to_owned()));
    }
    let mut document: Document =
        serde_json::from_str(text).map_err(|error| invalid(format!("no document of definitions: {error}")))?;
    if let Some(vhost) = import.vhost {
        document.confine(vhost).map_err(invalid)?;
    }
    let mut plan = Plan::new(broker);
    plan.read(document);
    if !plan.wrong.is_empty() {
        return Err(invalid(format!("nothing was imported: {}", plan.wrong.join("; "))));
    }
    if !plan.unsupported.is_empty() && !import.skip_unsupported {
        let what = plan.unsupported.join("; ");
        return Err(invalid(format!("nothing was imported; not supported, and skipped only if asked for: {what}")));
    }
    let taken = plan.count();
    let (who, from) = (import.caller.identity.user(), &import.caller.from);
    tracing::info!(target: AUDIT, who, from, taken, skipped = plan.unsupported.len(), "definitions imported");
    let skipped = std::mem::take(&mut plan.unsupported);
    plan.make(from)?;
    Ok(Imported { taken, skipped })
}

/// What is to be done, in its order, and what stands against it.
struct Plan<'a> {
    broker: &'a Broker,
    vhosts: BTreeMap<String, VhostSpec>,
    /// The default types of queues that vhosts will have, those of the document and others.
    default_types: BTreeMap<String, String>,
    users: BTreeMap<String, User>,
    limits: BTreeMap<String, VhostLimits>,
    changes: Vec<Change>,
    /// Queues and exchanges that will be there.
    there: BTreeSet<Place>,
    /// Those that the document declares, and how.
    declared: BTreeMap<Place, Declaration>,
    /// Those that are skipped.
    skipped: BTreeSet<Place>,
    /// What the document binds and is not bound yet: vhost, and the rest as text.
    bound: BTreeSet<(String, String)>,
    counts: Counts,
    unsupported: Vec<String>,
    wrong: Vec<String>,
}

/// Vhost, whether it is a queue, name.
type Place = (String, bool, String);

/// A queue or an exchange as a document declares it.
#[derive(PartialEq)]
enum Declaration {
    Queue(QueueSpec),
    Exchange(ExchangeSpec),
}

/// How many of something there are, and how many the document adds.
#[derive(Clone, Copy, Default)]
struct Count {
    are: u64,
    come: u64,
}

/// What is limited.
#[derive(Default)]
struct Counts {
    vhosts: Count,
    /// By vhost.
    queues: BTreeMap<String, Count>,
    exchanges: Count,
    bindings: Count,
}

impl Count {
    fn sum(self) -> u64 {
        self.are + self.come
    }

    /// A document that adds nothing is not to blame for what is there.
    fn is_over(self, limit: u64) -> bool {
        self.come > 0 && self.sum() > limit
    }
}

impl<'a> Plan<'a> {
    fn new(broker: &'a Broker) -> Self {
        let mut counts = Counts::default();
        let mut there = BTreeSet::new();
        for queue in broker.queues() {
            counts.queues.entry(queue.vhost.clone()).or_default().are += 1;
            there.insert((queue.vhost, true, queue.name));
        }
        for exchange in broker.exchanges() {
            let is_counted = !exchange.name.is_empty() && !PREDECLARED.contains(&exchange.name.as_str());
            counts.exchanges.are += u64::from(is_counted);
            there.insert((exchange.vhost, false, exchange.name));
        }
        let mut default_types = BTreeMap::new();
        for vhost in broker.vhosts() {
            counts.vhosts.are += 1;
            default_types.extend(vhost.spec.default_queue_type.map(|kind| (vhost.name, kind)));
        }
        counts.bindings.are = broker.bindings().iter().filter(|binding| !binding.source.is_empty()).count() as u64;
        Self {
            broker,
            vhosts: BTreeMap::new(),
            default_types,
            users: BTreeMap::new(),
            limits: BTreeMap::new(),
            changes: Vec::new(),
            there,
            declared: BTreeMap::new(),
            skipped: BTreeSet::new(),
            bound: BTreeSet::new(),
            counts,
            unsupported: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn read(&mut self, document: Document) {
        document.vhosts.into_iter().for_each(|entry| self.vhost(entry));
        document.users.into_iter().for_each(|entry| self.user(entry));
        document.permissions.into_iter().for_each(|entry| self.permission(&entry));
        document.topic_permissions.into_iter().for_each(|entry| self.topic(&entry));
        document.parameters.into_iter().for_each(|entry| self.parameter(entry));
        document.policies.into_iter().for_each(|entry| self.policy(entry, false));
        document.operator_policies.into_iter().for_each(|entry| self.policy(entry, true));
        for entry in document.global_parameters.iter().filter(|entry| !OF_A_CLUSTER.contains(&entry.name.as_str())) {
            self.unsupported.push(format!("global parameter '{}'", entry.name));
        }
        document.exchanges.into_iter().for_each(|entry| self.exchange(entry));
        document.queues.into_iter().for_each(|entry| self.queue(entry));
        document.bindings.into_iter().for_each(|entry| self.binding(entry));
        self.keep_limits();
    }

    /// What there would be must not be more than there may be.
    fn keep_limits(&mut self) {
        let (limits, counts) = (self.broker.limits(), &self.counts);
        let queues = counts
            .queues
            .values()
            .fold(Count::default(), |sum, count| Count { are: sum.are + count.are, come: sum.come + count.come });
        let all = [
            ("vhosts", counts.vhosts, limits.vhosts),
            ("queues", queues, limits.queues),
            ("exchanges", counts.exchanges, limits.exchanges),
            ("bindings", counts.bindings, limits.bindings),
        ];
        for (what, count, limit) in all.into_iter().filter(|(_, count, limit)| count.is_over(*limit)) {
            self.wrong.push(format!("there would be {} {what}, and limits.{what} is {limit}", count.sum()));
        }
        for vhost in self.broker.vhosts() {
            let count = counts.queues.get(&vhost.name).copied().unwrap_or_default();
            // Limits of the document itself are set behind its queues.
            if let Some(limit) = vhost.limits.queues.filter(|limit| count.is_over(*limit))
                && !self.limits.contains_key(&vhost.name)
            {
                let (name, sum) = (vhost.name, count.sum());
                self.wrong
                    .push(format!("there would be {sum} queues in vhost '{name}', and its {MAX_QUEUES} is {limit}"));
            }
        }
    }

    fn vhost(&mut self, entry: VhostEntry) {
        let of_metadata = |name: &str| entry.metadata.get(name).and_then(Json::as_str).map(str::to_owned);
        let kind = entry.default_queue_type.or_else(|| of_metadata("default_queue_type"));
        let mut spec = VhostSpec {
            description: entry.description.or_else(|| of_metadata("description")).unwrap_or_default(),
            tags: entry.tags.list(),
            // RabbitMQ writes this where nothing was chosen.
            default_queue_type: kind.filter(|kind| !["classic", "undefined", ""].contains(&kind.as_str())),
        };
        if let Err(error) = self.broker.check_vhost(&entry.name, &spec) {
            match spec.default_queue_type.take().map(|_| self.broker.check_vhost(&entry.name, &spec)) {
                Some(Ok(())) => self.unsupported.push(format!("default queue type of {}", error.text)),
                _ => self.wrong.push(error.text),
            }
        }
        for name in PREDECLARED {
            self.there.insert((entry.name.clone(), false, name.to_owned()));
        }
        self.default_types.remove(&entry.name);
        self.default_types.extend(spec.default_queue_type.clone().map(|kind| (entry.name.clone(), kind)));
        let comes = !self.broker.has_vhost(&entry.name);
        if self.vhosts.insert(entry.name, spec).is_none() {
            self.counts.vhosts.come += u64::from(comes);
        }
    }

    fn user(&mut self, entry: UserEntry) {
        let mut user = self.broker.authority().user(&entry.name).unwrap_or_else(|| User::new(&entry.name, None));
        user.tags = Tags::new(entry.tags.list().iter().map(String::as_str));
        let limit = |name: &str| entry.limits.get(name).and_then(|limit| u32::try_from(*limit).ok());
        user.limits = UserLimits { connections: limit("max-connections"), sessions: limit("max-channels") };
        user.password = None;
        if !entry.password_hash.is_empty() {
            match PasswordHash::import(&entry.hashing_algorithm, &entry.password_hash) {
                Ok(hash) => user.password = Some(hash),
                Err(error) => self.unsupported.push(format!("password of user '{}': {error}", entry.name)),
            }
        }
        if let Err(error) = user.check() {
            self.wrong.push(format!("user '{}': {error}", entry.name));
        }
        self.users.insert(entry.name, user);
    }

    /// The user and the vhost that a right is about, if both will be there.
    fn of_right(&mut self, name: &str, vhost: &str) -> Option<&mut User> {
        if !self.has_vhost(vhost) {
            self.wrong.push(format!("rights of user '{name}' in vhost '{vhost}': there is no such vhost"));
            return None;
        }
        if !self.users.contains_key(name)
            && let Some(user) = self.broker.authority().user(name)
        {
            self.users.insert(name.to_owned(), user);
        }
        if !self.users.contains_key(name) {
            self.wrong.push(format!("rights of user '{name}' in vhost '{vhost}': there is no such user"));
        }
        self.users.get_mut(name)
    }

    fn has_vhost(&self, name: &str) -> bool {
        self.vhosts.contains_key(name) || self.broker.has_vhost(name)
    }

    fn permission(&mut self, entry: &PermissionEntry) {
        let Some(user) = self.of_right(&entry.user, &entry.vhost) else { return };
        match Permission::new(&entry.configure, &entry.write, &entry.read) {
            Ok(permission) => drop(user.permissions.insert(entry.vhost.as_str().into(), permission)),
            Err(error) => {
                self.unsupported.push(format!("rights of user '{}' in '{}': {error}", entry.user, entry.vhost))
            }
        }
    }

    fn topic(&mut self, entry: &TopicEntry) {
        let Some(user) = self.of_right(&entry.user, &entry.vhost) else { return };
        match TopicPermission::new(&entry.user, &entry.vhost, &entry.write, &entry.read) {
            Ok(permission) => {
                user.topic_permissions
                    .insert((entry.vhost.as_str().into(), entry.exchange.as_str().into()), permission);
            }
            Err(error) => self.unsupported.push(format!(
                "rights of user '{}' on topics of exchange '{}' in '{}': {error}",
                entry.user, entry.exchange, entry.vhost
            )),
        }
    }

    fn parameter(&mut self, entry: ParameterEntry) {
        if entry.component != VHOST_LIMITS {
            let (component, name, vhost) = (entry.component, entry.name, entry.vhost);
            self.unsupported.push(format!("parameter '{name}' of {component} in vhost '{vhost}'"));
            return;
        }
        if !self.has_vhost(&entry.vhost) {
            self.wrong.push(format!("limits of vhost '{}': there is no such vhost", entry.vhost));
        }
        let limit = |name: &str| entry.value.get(name).and_then(Json::as_u64);
        let limits = VhostLimits { connections: limit(MAX_CONNECTIONS), queues: limit(MAX_QUEUES) };
        self.limits.insert(entry.vhost, limits);
    }

    fn policy(&mut self, policy: PolicyChange, operator: bool) {
        let (name, vhost) = (policy.name.clone(), policy.vhost.clone());
        if !self.has_vhost(&vhost) {
            return self.wrong.push(format!("policy '{name}': there is no vhost '{vhost}'"));
        }
        match policies::check(self.broker, operator, policy.clone()) {
            Ok(()) => self.changes.push(Change::SetPolicy { operator, policy }),
            Err(error) => self.unsupported.push(format!("policy '{name}' in vhost '{vhost}': {}", error.text)),
        }
    }

    fn exchange(&mut self, entry: ExchangeEntry) {
        let ExchangeEntry { name, vhost, kind, durable, auto_delete, internal, arguments } = entry;
        if !self.has_vhost(&vhost) {
            return self.wrong.push(format!("exchange '{name}': there is no vhost '{vhost}'"));
        }
        let checked = json::table(&arguments).map_err(Error::precondition).and_then(|arguments| {
            let spec =
                ExchangeSpec { name: name.clone(), kind: kind.clone(), durable, auto_delete, internal, arguments };
            self.broker.check_exchange_spec(&vhost, &spec).map(|()| Declaration::Exchange(spec))
        });
        self.object(
            checked,
            (vhost, false, name.clone()),
            ObjectChange::DeclareExchange { name, kind, durable, auto_delete, internal, arguments },
        );
    }

    fn queue(&mut self, entry: QueueEntry) {
        let QueueEntry { name, vhost, durable, auto_delete, mut arguments, kind } = entry;
        if !self.has_vhost(&vhost) {
            return self.wrong.push(format!("queue '{name}': there is no vhost '{vhost}'"));
        }
        if name.is_empty() {
            return self.wrong.push(format!("a queue in vhost '{vhost}' has no name"));
        }
        if !arguments.contains_key(QUEUE_TYPE)
            && let Some(kind) = self.queue_type(&vhost, kind, durable && !auto_delete)
        {
            arguments.insert(QUEUE_TYPE.to_owned(), Json::String(kind));
        }
        let checked = json::table(&arguments).map_err(Error::precondition).and_then(|arguments| {
            let spec = QueueSpec { name: name.clone(), durable, exclusive: false, auto_delete, arguments };
            self.broker.check_queue_spec(&vhost, &spec).map(|()| Declaration::Queue(spec))
        });
        self.object(
            checked,
            (vhost, true, name.clone()),
            ObjectChange::DeclareQueue { name, durable, auto_delete, arguments },
        );
    }

    /// The type of a queue whose arguments name none, if that is not what it will be anyway. What the document says beside the
    /// arguments comes before the default type of its vhost, which is for queues that stay.
    fn queue_type(&self, vhost: &str, kind: Option<String>, stays: bool) -> Option<String> {
        let default = self.default_types.get(vhost).filter(|_| stays).cloned();
        match kind {
            Some(kind) if kind == "classic" && default.is_none() => None,
            Some(kind) => Some(kind),
            None => default,
        }
    }

    fn object(&mut self, checked: Result<Declaration, Error>, place: Place, change: ObjectChange) {
        match checked {
            Ok(declaration) => {
                let (vhost, is_queue, name) = &place;
                match self.declared.get(&place) {
                    Some(earlier) if *earlier == declaration => return,
                    Some(_) => {
                        let what = if *is_queue { "queue" } else { "exchange" };
                        self.wrong.push(format!("{what} '{name}' in vhost '{vhost}' is there twice, and not the same"));
                        return;
                    }
                    None => {}
                }
                let comes = u64::from(self.there.insert(place.clone()));
                match is_queue {
                    true => self.counts.queues.entry(vhost.clone()).or_default().come += comes,
                    false => self.counts.exchanges.come += comes,
                }
                self.changes.push(Change::Objects { vhost: vhost.clone(), change });
                self.declared.insert(place, declaration);
            }
            // What contradicts what exists is no matter of support.
            Err(error) if self.there.contains(&place) => self.wrong.push(error.text),
            Err(error) => {
                self.unsupported.push(error.text);
                self.skipped.insert(place);
            }
        }
    }

    fn binding(&mut self, entry: BindingEntry) {
        let BindingEntry { source, vhost, destination, destination_type, routing_key, arguments } = entry;
        // Every queue is bound to the default exchange, and nothing else is.
        if source.is_empty() {
            return;
        }
        let from = (vhost.clone(), false, source.clone());
        let to = (vhost.clone(), destination_type == DestinationType::Queue, destination.clone());
        let what = format!("binding from '{source}' to '{destination}' in vhost '{vhost}'");
        let ends = if source == TRACE { vec![&to] } else { vec![&from, &to] };
        if ends.iter().any(|end| self.skipped.contains(*end)) {
            return self.unsupported.push(format!("{what}: see there"));
        }
        if let Some((_, is_queue, name)) = ends.into_iter().find(|end| !self.there.contains(*end)) {
            let end = if *is_queue { "queue" } else { "exchange" };
            return self.wrong.push(format!("{what}: there is no {end} '{name}'"));
        }
        let binding = BindingChange { source, destination, destination_type, routing_key, arguments };
        let source = match self.declared.get(&from) {
            Some(Declaration::Exchange(source)) => Some(source),
            _ => None,
        };
        let checked =
            objects::binding_spec(binding.clone()).and_then(|spec| self.broker.check_binding(&vhost, &spec, source));
        match checked {
            Ok(comes) => {
                if comes && self.bound.insert((vhost.clone(), json!(binding).to_string())) {
                    self.counts.bindings.come += 1;
                }
                self.changes.push(Change::Objects { vhost, change: ObjectChange::Bind(binding) });
            }
            Err(error) => self.unsupported.push(format!("{what}: {}", error.text)),
        }
    }

    fn count(&self) -> u64 {
        (self.vhosts.len() + self.users.len() + self.limits.len() + self.changes.len()) as u64
    }

    /// Does all of it, and waits once for the whole.
    fn make(self, from: &str) -> Result<(), Refused> {
        let broker = self.broker;
        let ticket = self.change_all(from).map_err(|error| {
            let Refused { why, text } = error.into();
            Refused::new(
                why,
                format!("only a part was imported; look at what stands against the rest, and import it again: {text}"),
            )
        })?;
        wait(broker, ticket);
        Ok(())
    }

    fn change_all(self, from: &str) -> Result<Ticket, Error> {
        let mut last = Ticket::NONE;
        for (name, spec) in &self.vhosts {
            last = last.max(self.broker.put_vhost(name, spec)?);
        }
        for (_, user) in self.users {
            last = last.max(self.broker.put_user(user)?);
        }
        let queues_of = |vhost: &String| self.counts.queues.get(vhost).map_or(0, |count| count.sum());
        for (name, limits) in &self.limits {
            // A vhost may have more queues than its limit, which then came later: so it does here.
            let queues = limits.queues.map(|limit| limit.max(queues_of(name)));
            last = last.max(self.broker.limit_vhost(name, VhostLimits { queues, ..*limits })?);
        }
        for change in self.changes {
            let caller = Caller { identity: auth::Identity::operator("operator"), from: from.to_owned() };
            last = last.max(apply(self.broker, change, caller)?.1);
        }
        let late =
            |(name, limits): &(&String, &VhostLimits)| limits.queues.is_some_and(|limit| limit < queues_of(name));
        for (name, limits) in self.limits.iter().filter(late) {
            last = last.max(self.broker.limit_vhost(name, *limits)?);
        }
        Ok(last)
    }
}
