//! The steps of an import, in order, and all faults of its document.
//!
//! Everything that could refuse a change is checked before the first change: passwords are hashed,
//! patterns compiled and records encoded. So a refused document has changed nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use auth::{Identity, PasswordError, PasswordHash, Permission, Tags, TopicPermission, User, UserLimits};
use broker::{
    Broker, Declaration, Error, ExchangeSpec, PolicyKind, QueueSpec, RetainedWanted, Sharing, SubscriptionName,
    SubscriptionSpec, Ticket, VhostLimits, VhostSpec,
};
use serde_json::{Map, Value as Json, json};

use super::document::{
    BindingEntry, Document, ExchangeEntry, Login, NamedEntry, ParameterEntry, PermissionEntry, QueueEntry, ShovelEntry,
    TopicEntry, UserEntry, VhostEntry,
};
use super::fields::Faults;
use super::{NOTHING, VHOST_LIMITS};
use crate::change::{Caller, Refused, Why, client, wait, without_line_ends};
use crate::json;
use crate::report::SubscriptionRow;
use crate::resources::bindings::{self, DestinationType};
use crate::resources::global_parameters;
use crate::resources::limits::MAX_QUEUES;
use crate::resources::policies::{self, PolicyFields};
use crate::resources::shovels;
use crate::resources::users::hash_password;

const QUEUE_TYPE: &str = "x-queue-type";
/// The type of RabbitMQ's replicated queues.
const QUORUM: &str = "quorum";
/// Exchanges that every vhost has, and their types.
const PREDECLARED: [(&str, &str); 5] = [
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
];
/// The names of exchanges that RabbitMQ makes for itself begin like this.
const OF_RABBITMQ: &str = "amq.rabbitmq.";
/// The exchange that is made when something is first bound to it.
const TRACE: &str = "amq.rabbitmq.trace";

/// The changes to make, in order.
pub(super) struct Plan<'a> {
    broker: &'a Broker,
    /// The vhosts that exist.
    known: BTreeMap<String, VhostSpec>,
    vhosts: BTreeMap<String, VhostSpec>,
    /// The default types of queues in all vhosts that will exist.
    default_types: BTreeMap<String, String>,
    users: BTreeMap<String, User>,
    limits: BTreeMap<String, VhostLimits>,
    /// What is declared in each vhost, in order: one change of that vhost.
    declarations: BTreeMap<String, Vec<Declaration>>,
    /// Queues and exchanges that will exist.
    there: BTreeSet<Place>,
    /// Queues and exchanges of the document, and how it declares them.
    declared: BTreeMap<Place, Declaration>,
    /// Queues and exchanges that are skipped.
    skipped: BTreeSet<Place>,
    /// New bindings of the document: the vhost, and the binding as text.
    bound: BTreeSet<(String, String)>,
    counts: Counts,
    /// Passwords that have not been hashed yet.
    passwords: BTreeMap<String, String>,
    parameters: Parameters,
    pub(super) faults: Faults,
}

/// Shovels, and the parameters of the whole broker.
#[derive(Default)]
struct Parameters {
    shovels: Vec<ShovelEntry>,
    global: Vec<NamedEntry>,
}

/// The vhost, whether it is a queue, and the name.
type Place = (String, bool, String);

/// How many of something exist, and how many the document adds.
#[derive(Clone, Copy, Default)]
struct Count {
    are: u64,
    come: u64,
}

/// Everything whose number is limited.
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

    /// Whether the document exceeds a limit. One that adds nothing is not to blame for what exists.
    fn is_over(self, limit: u64) -> bool {
        self.come > 0 && self.sum() > limit
    }
}

impl<'a> Plan<'a> {
    /// Checks a document. If there is a `vhost`, every entry goes into it.
    pub(super) fn of(broker: &'a Broker, mut document: Document, vhost: Option<&str>, mut faults: Faults) -> Self {
        match vhost {
            Some(vhost) if !broker.has_vhost(vhost) => faults.wrong.push(format!("vhost '{vhost}' does not exist")),
            Some(vhost) => document.confine(vhost, &mut faults),
            None => document.tell_its_vhost(&mut faults),
        }
        let mut plan = Self::new(broker, faults);
        if plan.faults.wrong.is_empty() {
            plan.read(document);
        }
        plan
    }

    fn new(broker: &'a Broker, faults: Faults) -> Self {
        let mut counts = Counts::default();
        let mut there = BTreeSet::new();
        for queue in broker.queues() {
            counts.queues.entry(queue.vhost.clone()).or_default().are += 1;
            there.insert((queue.vhost, true, queue.name));
        }
        for exchange in broker.exchanges() {
            let is_counted = !exchange.name.is_empty() && !is_predeclared(&exchange.name);
            counts.exchanges.are += u64::from(is_counted);
            there.insert((exchange.vhost, false, exchange.name));
        }
        let known: BTreeMap<String, VhostSpec> =
            broker.vhosts().into_iter().map(|vhost| (vhost.name, vhost.spec)).collect();
        counts.vhosts.are = known.len() as u64;
        let kind = |(name, spec): (&String, &VhostSpec)| Some((name.clone(), spec.default_queue_type.clone()?));
        let default_types = known.iter().filter_map(kind).collect();
        counts.bindings.are = broker.bindings().iter().filter(|binding| !binding.source.is_empty()).count() as u64;
        Self {
            broker,
            known,
            vhosts: BTreeMap::new(),
            default_types,
            users: BTreeMap::new(),
            limits: BTreeMap::new(),
            declarations: BTreeMap::new(),
            there,
            declared: BTreeMap::new(),
            skipped: BTreeSet::new(),
            bound: BTreeSet::new(),
            counts,
            passwords: BTreeMap::new(),
            parameters: Parameters::default(),
            faults,
        }
    }

    fn read(&mut self, document: Document) {
        document.vhosts.into_iter().for_each(|entry| self.vhost(entry));
        document.users.into_iter().for_each(|entry| self.user(entry));
        document.permissions.into_iter().for_each(|entry| self.permission(&entry));
        document.topic_permissions.into_iter().for_each(|entry| self.topic(&entry));
        document.parameters.into_iter().for_each(|entry| self.parameter(entry));
        document.policies.into_iter().for_each(|entry| self.policy(entry, PolicyKind::User));
        document.operator_policies.into_iter().for_each(|entry| self.policy(entry, PolicyKind::Operator));
        document.global_parameters.into_iter().for_each(|entry| self.global_parameter(entry));
        document.exchanges.into_iter().for_each(|entry| self.exchange(entry));
        document.queues.into_iter().for_each(|entry| self.queue(entry));
        document.bindings.into_iter().for_each(|entry| self.binding(entry));
        document.shovels.into_iter().for_each(|entry| self.shovel(entry));
        self.check_users();
        self.keep_limits();
        self.tell_of_copies();
    }

    fn wrong(&mut self, text: impl AsRef<str>) {
        self.faults.wrong.push(text);
    }

    fn unsupported(&mut self, text: impl AsRef<str>) {
        self.faults.unsupported.push(text);
    }

    fn note(&mut self, text: impl AsRef<str>) {
        self.faults.notes.push(text);
    }

    /// Checks that the record of each user can be stored. This needs all permissions of the user.
    fn check_users(&mut self) {
        let check = |user: &User| {
            self.broker.check_user(user).err().map(|error| format!("user '{}': {}", user.name, error.text))
        };
        let mut lines: Vec<String> = self.users.values().filter_map(check).collect();
        let is_there = |role: &str| self.users.contains_key(role) || self.broker.authority().user(role).is_some();
        for user in self.users.values() {
            let missing = user.roles.iter().filter(|role| !is_there(role));
            lines.extend(missing.map(|role| format!("user '{}': there is no user '{role}' to be a role", user.name)));
        }
        lines.iter().for_each(|line| self.wrong(line));
    }

    fn tell_of_copies(&mut self) {
        let is_quorum = |declaration: &&Declaration| match declaration {
            Declaration::Queue(queue) | Declaration::Subscription(SubscriptionSpec { queue, .. }) => {
                queue.arguments.get(QUEUE_TYPE).and_then(broker::Value::as_text) == Some(QUORUM)
            }
            _ => false,
        };
        match self.declared.values().filter(is_quorum).count() {
            0 => {}
            1 => self.note("1 quorum queue: Hermod keeps one copy of it, on this machine"),
            count => self.note(format!("{count} quorum queues: Hermod keeps one copy of each, on this machine")),
        }
    }

    /// Parameters about the identity of a cluster become notes, and refuse nothing.
    fn global_parameter(&mut self, entry: NamedEntry) {
        let name = &entry.name;
        if global_parameters::OF_A_CLUSTER.contains(&name.as_str()) {
            if entry.value != json!([]) && entry.value != self.broker.cluster_name() {
                self.note(format!("global parameter '{name}' is about the cluster of the document: left there"));
            }
            return;
        }
        match global_parameters::check(self.broker, name, &entry.value) {
            Ok(()) => self.parameters.global.push(entry),
            Err(error) => self.unsupported(format!("global parameter '{name}': {}", error.text)),
        }
    }

    /// Checks that the limits allow all that will exist.
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
        let over = all.into_iter().filter(|(_, count, limit)| count.is_over(*limit));
        let mut lines: Vec<String> = over
            .map(|(what, count, limit)| format!("there would be {} {what}, and limits.{what} is {limit}", count.sum()))
            .collect();
        for vhost in self.broker.vhosts() {
            let count = counts.queues.get(&vhost.name).copied().unwrap_or_default();
            // Limits that the document itself sets are applied after its queues.
            if let Some(limit) = vhost.limits.queues.filter(|limit| count.is_over(*limit))
                && !self.limits.contains_key(&vhost.name)
            {
                let (name, sum) = (vhost.name, count.sum());
                lines.push(format!("there would be {sum} queues in vhost '{name}', and its {MAX_QUEUES} is {limit}"));
            }
        }
        lines.iter().for_each(|line| self.wrong(line));
    }

    /// Fields of a vhost that the document does not give stay as they are.
    fn vhost(&mut self, entry: VhostEntry) {
        let known = self.known.get(&entry.name).cloned();
        let comes = known.is_none();
        let mut spec = known.unwrap_or_default();
        spec.description = entry.description.unwrap_or(spec.description);
        spec.tags = entry.tags.unwrap_or(spec.tags);
        if let Some(kind) = entry.default_queue_type {
            // RabbitMQ writes `classic` or `undefined` if no type was chosen.
            spec.default_queue_type = Some(kind).filter(|kind| !["classic", "undefined", ""].contains(&kind.as_str()));
        }
        if let Err(error) = self.broker.check_vhost(&entry.name, &spec) {
            match spec.default_queue_type.take().map(|_| self.broker.check_vhost(&entry.name, &spec)) {
                Some(Ok(())) => self.unsupported(format!("default queue type of {}", error.text)),
                _ => self.wrong(error.text),
            }
        }
        for (name, _) in PREDECLARED {
            self.there.insert((entry.name.clone(), false, name.to_owned()));
        }
        self.default_types.remove(&entry.name);
        self.default_types.extend(spec.default_queue_type.clone().map(|kind| (entry.name.clone(), kind)));
        // RabbitMQ takes limits from the parameters only, so empty limits here remove none.
        if let Some([connections, queues]) = entry.limits.filter(|limits| limits.iter().any(Option::is_some)) {
            self.limits.insert(entry.name.clone(), VhostLimits { connections, queues });
        }
        if self.vhosts.insert(entry.name, spec).is_none() {
            self.counts.vhosts.come += u64::from(comes);
        }
    }

    fn user(&mut self, entry: UserEntry) {
        let known = self.broker.authority().user(&entry.name);
        let mut user = known.unwrap_or_else(|| User::new(&entry.name, None));
        if let Some(tags) = &entry.tags {
            user.tags = Tags::new(tags.iter().map(String::as_str));
        }
        if let Some(limits) = entry.limits {
            // Larger limits have been refused already.
            let [connections, sessions] = limits.map(|limit| limit.and_then(|limit| u32::try_from(limit).ok()));
            user.limits = UserLimits { connections, sessions };
        }
        if let Some(roles) = &entry.roles {
            user.roles = roles.iter().map(|role| role.as_str().into()).collect();
        }
        self.passwords.remove(&entry.name);
        match entry.login {
            Login::Nothing => {
                if user.password.take().is_some() {
                    self.note(format!("user '{}' has no password any more: the document gives none", entry.name));
                }
            }
            Login::Password(password) => drop(self.passwords.insert(entry.name.clone(), password)),
            Login::Hash { algorithm, hash } => self.hash(&mut user, PasswordHash::import(&algorithm, &hash)),
            Login::Own(hash) => self.hash(&mut user, PasswordHash::parse(&hash)),
        }
        if let Err(error) = user.check() {
            self.wrong(format!("user '{}': {error}", entry.name));
        }
        self.users.insert(entry.name, user);
    }

    /// A hash that can't be imported keeps the password that the user has.
    fn hash(&mut self, user: &mut User, hash: Result<PasswordHash, PasswordError>) {
        match hash {
            Ok(hash) => user.password = Some(hash),
            Err(error) => self.unsupported(format!("password of user '{}': {error}", user.name)),
        }
    }

    /// The user of a permission, if both the user and the vhost will exist.
    fn of_right(&mut self, name: &str, vhost: &str) -> Option<&mut User> {
        if !self.has_vhost(vhost) {
            self.wrong(format!("rights of user '{name}' in vhost '{vhost}': there is no such vhost"));
            return None;
        }
        if !self.users.contains_key(name)
            && let Some(user) = self.broker.authority().user(name)
        {
            self.users.insert(name.to_owned(), user);
        }
        if !self.users.contains_key(name) {
            self.wrong(format!("rights of user '{name}' in vhost '{vhost}': there is no such user"));
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
            Err(error) => self.unsupported(format!("rights of user '{}' in '{}': {error}", entry.user, entry.vhost)),
        }
    }

    fn topic(&mut self, entry: &TopicEntry) {
        let Some(user) = self.of_right(&entry.user, &entry.vhost) else { return };
        match TopicPermission::new(&entry.user, &entry.vhost, &entry.write, &entry.read) {
            Ok(permission) => {
                user.topic_permissions
                    .insert((entry.vhost.as_str().into(), entry.exchange.as_str().into()), permission);
            }
            Err(error) => self.unsupported(format!(
                "rights of user '{}' on topics of exchange '{}' in '{}': {error}",
                entry.user, entry.exchange, entry.vhost
            )),
        }
    }

    fn parameter(&mut self, entry: ParameterEntry) {
        let ParameterEntry { component, vhost, name, limits } = entry;
        if component != VHOST_LIMITS {
            return self.unsupported(format!("parameter '{name}' of {component} in vhost '{vhost}'"));
        }
        if !self.has_vhost(&vhost) {
            self.wrong(format!("limits of vhost '{vhost}': there is no such vhost"));
        }
        if name != "limits" {
            self.wrong(format!("limits of vhost '{vhost}': the parameter is called 'limits', not '{name}'"));
        }
        let [connections, queues] = limits.unwrap_or_default();
        self.limits.insert(vhost, VhostLimits { connections, queues });
    }

    /// A shovel that is not supported as it stands is left out whole: part of one would move
    /// messages elsewhere.
    fn shovel(&mut self, entry: ShovelEntry) {
        let ShovelEntry { vhost, name, definition } = entry;
        if !self.has_vhost(&vhost) {
            return self.wrong(format!("shovel '{name}': there is no vhost '{vhost}'"));
        }
        match shovels::check(self.broker, (&vhost, &name), &definition, &Identity::operator("import")) {
            Ok(()) => self.parameters.shovels.push(ShovelEntry { vhost, name, definition }),
            Err(faults) => {
                faults.iter().for_each(|fault| self.unsupported(format!("shovel '{name}' in vhost '{vhost}': {fault}")))
            }
        }
    }

    /// Unsupported settings of a policy are reported; its other settings are kept.
    fn policy(&mut self, mut policy: PolicyFields, kind: PolicyKind) {
        let (name, vhost) = (policy.name.clone(), policy.vhost.clone());
        if !self.has_vhost(&vhost) {
            return self.wrong(format!("policy '{name}': there is no vhost '{vhost}'"));
        }
        let said = policy.definition.len();
        let takes = |settings: &Map<String, Json>| {
            let settings = json::table(settings).map_err(Error::precondition)?;
            self.broker.check_policy_settings(kind, &name, &settings)
        };
        // Some settings need each other. They are judged one by one only if not all are taken.
        let is_whole = takes(&policy.definition).is_ok();
        let (mut known, mut refused) = (Map::new(), Vec::new());
        for (setting, value) in std::mem::take(&mut policy.definition) {
            let one = Map::from_iter([(setting.clone(), value.clone())]);
            match if is_whole { Ok(()) } else { takes(&one) } {
                Ok(()) => drop(known.insert(setting, value)),
                Err(error) => refused.push(format!("{} in vhost '{vhost}'", error.text)),
            }
        }
        refused.into_iter().for_each(|text| self.unsupported(text));
        if said > 0 && known.is_empty() {
            return self.unsupported(format!("{} '{name}' in vhost '{vhost}': it has no other setting", kind.name()));
        }
        policy.definition = known;
        let checked =
            policies::spec(policy).and_then(|spec| self.broker.check_policy(kind, &name, spec.clone()).map(|()| spec));
        match checked {
            Ok(spec) => self.declare(vhost, Declaration::Policy { kind, name, spec }),
            Err(error) => self.unsupported(format!("{} in vhost '{vhost}'", error.text)),
        }
    }

    fn exchange(&mut self, entry: ExchangeEntry) {
        let ExchangeEntry { name, vhost, kind, durable, auto_delete, internal, arguments } = entry;
        let name = without_line_ends(name);
        if !self.has_vhost(&vhost) {
            return self.wrong(format!("exchange '{name}': there is no vhost '{vhost}'"));
        }
        if name.starts_with(OF_RABBITMQ) {
            self.skipped.insert((vhost.clone(), false, name.clone()));
            return self.note(format!("exchange '{name}' in vhost '{vhost}' is RabbitMQ's own: left there"));
        }
        // Every vhost has these exchanges, also a vhost that the document adds.
        if PREDECLARED.contains(&(&*name, &*kind)) && !self.broker.has_vhost(&vhost) {
            return;
        }
        let checked = json::table(&arguments).map_err(Error::precondition).and_then(|arguments| {
            let spec = ExchangeSpec { name: name.clone(), kind, durable, auto_delete, internal, arguments };
            self.broker.check_exchange_spec(&vhost, &spec).map(|()| Declaration::Exchange(spec))
        });
        self.object(checked, (vhost, false, name));
    }

    fn queue(&mut self, entry: QueueEntry) {
        let QueueEntry { name, vhost, durable, auto_delete, mut arguments, kind, subscription } = entry;
        let name = without_line_ends(name);
        if !self.has_vhost(&vhost) {
            return self.wrong(format!("queue '{name}': there is no vhost '{vhost}'"));
        }
        if name.is_empty() {
            return self.wrong(format!("a queue in vhost '{vhost}' has no name"));
        }
        let stays = durable && !auto_delete;
        let default = self.default_types.get(&vhost).filter(|_| stays).cloned();
        if !arguments.contains_key(QUEUE_TYPE)
            && let Some(kind) = queue_type(kind, default)
        {
            arguments.insert(QUEUE_TYPE.to_owned(), Json::String(kind));
        }
        let checked = json::table(&arguments).map_err(Error::precondition).and_then(|arguments| {
            let spec = QueueSpec { name: name.clone(), durable, exclusive: false, auto_delete, arguments };
            self.broker.check_queue_spec(&vhost, &spec).map(|()| spec)
        });
        let declaration = checked.map(|spec| match subscription {
            None => Declaration::Queue(spec),
            Some(row) => Declaration::Subscription(subscription_of(row, spec)),
        });
        self.object(declaration, (vhost, true, name));
    }

    fn declare(&mut self, vhost: String, declaration: Declaration) {
        self.declarations.entry(vhost).or_default().push(declaration);
    }

    fn object(&mut self, checked: Result<Declaration, Error>, place: Place) {
        match checked {
            Ok(declaration) => {
                let (vhost, is_queue, name) = &place;
                match self.declared.get(&place) {
                    Some(earlier) if *earlier == declaration => return,
                    Some(_) => {
                        let what = if *is_queue { "queue" } else { "exchange" };
                        self.wrong(format!("{what} '{name}' in vhost '{vhost}' is there twice, and not the same"));
                        return;
                    }
                    None => {}
                }
                let comes = u64::from(self.there.insert(place.clone()));
                match is_queue {
                    true => self.counts.queues.entry(vhost.clone()).or_default().come += comes,
                    false => self.counts.exchanges.come += comes,
                }
                self.declare(vhost.clone(), declaration.clone());
                self.declared.insert(place, declaration);
            }
            // A contradiction to what exists is a fault; anything else is unsupported.
            Err(error) if self.there.contains(&place) => self.wrong(error.text),
            Err(error) => {
                self.unsupported(error.text);
                self.skipped.insert(place);
            }
        }
    }

    fn binding(&mut self, entry: BindingEntry) {
        let BindingEntry { vhost, binding } = entry;
        let [source, destination] = [&binding.source, &binding.destination].map(|name| without_line_ends(name.clone()));
        // Every queue is bound to the default exchange, and nothing else can be.
        if source.is_empty() {
            return;
        }
        if !self.has_vhost(&vhost) {
            return self.wrong(format!("binding from '{source}' to '{destination}': there is no vhost '{vhost}'"));
        }
        let from = (vhost.clone(), false, source.clone());
        let to = (vhost.clone(), binding.destination_type == DestinationType::Queue, destination.clone());
        let what = format!("binding from '{source}' to '{destination}' in vhost '{vhost}'");
        let ends = if source == TRACE { vec![&to] } else { vec![&from, &to] };
        if ends.iter().any(|end| self.skipped.contains(*end)) {
            return self.unsupported(format!("{what}: see there"));
        }
        // RabbitMQ's exports lack internal exchanges, and still have their bindings.
        if let Some((_, is_queue, name)) = ends.into_iter().find(|end| !self.there.contains(*end)) {
            let end = if *is_queue { "queue" } else { "exchange" };
            return self.unsupported(format!("{what}: there is no {end} '{name}'"));
        }
        let source = match self.declared.get(&from) {
            Some(Declaration::Exchange(source)) => Some(source),
            _ => None,
        };
        let checked = bindings::spec(binding.clone())
            .and_then(|spec| self.broker.check_binding(&vhost, &spec, source).map(|comes| (spec, comes)));
        match checked {
            Ok((spec, comes)) => {
                if comes && self.bound.insert((vhost.clone(), json!(binding).to_string())) {
                    self.counts.bindings.come += 1;
                }
                self.declare(vhost, Declaration::Binding(spec));
            }
            Err(error) => self.unsupported(format!("{what}: {}", error.text)),
        }
    }

    pub(super) fn count(&self) -> u64 {
        let declarations = self.declarations.values().map(Vec::len).sum::<usize>();
        let others = self.limits.len() + self.parameters.shovels.len() + self.parameters.global.len();
        (self.vhosts.len() + self.users.len() + others + declarations) as u64
    }

    /// Makes all changes, and waits once until all of them are durable.
    pub(super) fn make(mut self, caller: &Caller) -> Result<(), Refused> {
        self.hash_passwords()?;
        let broker = self.broker;
        let tickets = self.change_all(caller).map_err(|error| {
            let Refused { why, text, .. } = error.into();
            Refused::new(
                why,
                format!(
                    "a part was imported, each vhost whole or not at all; look at what stands against the rest, and import \
                     it again: {text}"
                ),
            )
        })?;
        tickets.into_iter().for_each(|ticket| wait(broker, ticket));
        Ok(())
    }

    /// Hashes the passwords before the first change, because hashing may fail. A password that a
    /// user already has keeps its hash.
    fn hash_passwords(&mut self) -> Result<(), Refused> {
        for (name, password) in std::mem::take(&mut self.passwords) {
            let Some(user) = self.users.get_mut(&name) else { continue };
            if user.password.as_ref().is_some_and(|hash| hash.matches(password.as_bytes())) {
                continue;
            }
            let hash = hash_password(self.broker, &password).map_err(|error| {
                let line = format!("password of user '{name}': {}", error.text);
                Refused::for_items(Why::Invalid, NOTHING, vec![auth::shown::escaped(&line).into_owned()])
            })?;
            user.password = Some(hash);
        }
        Ok(())
    }

    /// Returns the last ticket of each log.
    fn change_all(self, caller: &Caller) -> Result<Vec<Ticket>, Error> {
        let mut last = BTreeMap::new();
        let mut reached = |ticket: Ticket| last.insert(ticket.log(), ticket);
        for (name, spec) in &self.vhosts {
            reached(self.broker.put_vhost(name, spec)?);
        }
        for (_, user) in self.users {
            reached(self.broker.put_user(user)?);
        }
        let queues_of = |vhost: &String| self.counts.queues.get(vhost).map_or(0, |count| count.sum());
        for (name, limits) in &self.limits {
            // A vhost may have more queues than its limit, if the limit was set later. So a lower
            // limit is set here after the queues.
            let queues = limits.queues.map(|limit| limit.max(queues_of(name)));
            reached(self.broker.limit_vhost(name, VhostLimits { queues, ..*limits })?);
        }
        for (vhost, declarations) in &self.declarations {
            let operator = Caller { identity: Identity::operator("operator"), from: caller.from.clone() };
            reached(client(self.broker, vhost, operator)?.declare_all(declarations, Instant::now())?);
        }
        let late =
            |(name, limits): &(&String, &VhostLimits)| limits.queues.is_some_and(|limit| limit < queues_of(name));
        for (name, limits) in self.limits.iter().filter(late) {
            reached(self.broker.limit_vhost(name, *limits)?);
        }
        // Last, since what they move needs what is declared here.
        for ShovelEntry { vhost, name, definition } in self.parameters.shovels {
            let text = Json::Object(definition).to_string();
            reached(self.broker.set_shovel(&vhost, &name, text, &caller.identity)?);
        }
        for NamedEntry { name, value } in self.parameters.global {
            reached(self.broker.set_global_parameter(&name, &value.to_string())?);
        }
        Ok(last.into_values().collect())
    }
}

/// The type of a queue whose arguments give none; `None` for the type that it gets anyway. A type
/// beside the arguments comes before the default type of the vhost, which applies to queues that
/// stay.
fn queue_type(kind: Option<String>, default: Option<String>) -> Option<String> {
    match kind {
        Some(kind) if kind == "classic" && default.is_none() => None,
        Some(kind) => Some(kind),
        None => default,
    }
}

/// The subscription of a queue. Its filters are bindings, and come as these.
fn subscription_of(row: SubscriptionRow, queue: QueueSpec) -> SubscriptionSpec {
    let SubscriptionRow { client, name, shared, selector, expires } = row;
    SubscriptionSpec {
        name: SubscriptionName { client, name },
        sharing: if shared { Sharing::Shared } else { Sharing::Exclusive },
        selector,
        expires,
        filters: Vec::new(),
        retained: RetainedWanted::None,
        queue,
    }
}

fn is_predeclared(name: &str) -> bool {
    PREDECLARED.iter().any(|(known, _)| *known == name)
}

impl Document {
    /// Puts everything into this vhost, whatever vhosts the document names.
    fn confine(&mut self, vhost: &str, faults: &mut Faults) {
        let lists = [
            ("users", self.users.len()),
            ("vhosts", self.vhosts.len()),
            ("permissions", self.permissions.len()),
            ("topic_permissions", self.topic_permissions.len()),
            ("global_parameters", self.global_parameters.len()),
        ];
        for (list, _) in lists.iter().filter(|(_, length)| *length > 0) {
            faults.wrong.push(format!("{list} are not in one vhost; import the document as a whole"));
        }
        let operators = self.operator_policies.iter_mut();
        let policies = self.policies.iter_mut().chain(operators).map(|entry| &mut entry.vhost);
        let queues = self.queues.iter_mut().map(|entry| &mut entry.vhost);
        let exchanges = self.exchanges.iter_mut().map(|entry| &mut entry.vhost);
        let bindings = self.bindings.iter_mut().map(|entry| &mut entry.vhost);
        let parameters = self.parameters.iter_mut().map(|entry| &mut entry.vhost);
        let shovels = self.shovels.iter_mut().map(|entry| &mut entry.vhost);
        for place in policies.chain(queues).chain(exchanges).chain(bindings).chain(parameters).chain(shovels) {
            vhost.clone_into(place);
        }
        let own = std::mem::take(&mut self.vhost);
        self.vhosts.push(VhostEntry::of_document(vhost, own, faults));
    }

    /// Refuses a document of one vhost, because it does not say which.
    fn tell_its_vhost(&self, faults: &mut Faults) {
        if !self.vhost.is_empty() {
            faults.wrong.push("it is the document of one vhost: say into which vhost it is to be imported");
        }
    }
}
