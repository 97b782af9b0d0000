//! Policies: arguments that operators give to queues and exchanges by their names, existing ones
//! included.
//!
//! A queue or an exchange has the first policy that matches and the first operator policy, by
//! priority and then by name. Policies and declaration are merged as in RabbitMQ. Of limits the
//! lowest counts, and of all other arguments the declared one. Between the two policies the
//! operator's counts.

use auth::Pattern;
use journal::Owner;

use crate::arguments::{QueueType, check_value, copies, dead_letters};
use crate::error::Error;
use crate::value::{Table, Value};

/// The author of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// The users that run the applications.
    User,
    /// The operator of the broker: it bounds the requests of others.
    Operator,
}

impl PolicyKind {
    /// Its name in errors and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "policy",
            Self::Operator => "operator policy",
        }
    }
}

/// The objects that a policy applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApplyTo {
    /// Queues and exchanges.
    #[default]
    All,
    /// Queues of any type.
    Queues,
    /// Queues of type `classic`.
    ClassicQueues,
    /// Queues of type `quorum`.
    QuorumQueues,
    /// Exchanges.
    Exchanges,
}

impl ApplyTo {
    const EVERY: [Self; 5] = [Self::All, Self::Queues, Self::ClassicQueues, Self::QuorumQueues, Self::Exchanges];

    /// Its name in definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Exchanges => "exchanges",
        }
    }

    /// The value with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::EVERY.into_iter().find(|apply_to| apply_to.name() == name)
    }

    fn takes(self, queue_type: QueueType) -> bool {
        match self {
            Self::All | Self::Queues => true,
            Self::ClassicQueues => queue_type == QueueType::Classic,
            Self::QuorumQueues => queue_type == QueueType::Quorum,
            Self::Exchanges => false,
        }
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// A regular expression that is searched in names.
    pub pattern: String,
    /// The objects that it applies to.
    pub apply_to: ApplyTo,
    /// The policy with the highest priority counts among those that match.
    pub priority: i64,
    /// Names of arguments without `x-`, and their values.
    pub definition: Table,
}

/// How a value is merged with that of a declaration, or of the other policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// The declared value counts.
    Declared,
    /// The lowest counts.
    Lowest,
    /// The lowest value that is a limit counts; a negative one is none.
    LowestLimit,
}

/// A setting of policies.
struct Key {
    name: &'static str,
    /// The types of queues with this setting; empty for a setting of exchanges.
    types: &'static [QueueType],
    operator: bool,
    merge: Merge,
}

const BOTH: &[QueueType] = &[QueueType::Classic, QueueType::Quorum];
const CLASSIC: &[QueueType] = &[QueueType::Classic];
const QUORUM: &[QueueType] = &[QueueType::Quorum];
pub(crate) const ALTERNATE: &str = "alternate-exchange";
/// The settings that move messages out of queues: an exchange and a routing key each.
pub(crate) const MOVES: [(&str, &str); 2] =
    [("dead-letter-exchange", "dead-letter-routing-key"), ("expiry-exchange", "expiry-routing-key")];
/// The rules that name queues for dead letters, and for what expires.
pub(crate) const RULES: [&str; 2] = ["dead-letter-queue", "expiry-queue"];
/// The queue that gets copies.
pub(crate) const COPY_TO: &str = "copy-to";
/// It is no argument: the number of copies, which means nothing with one broker.
const TARGET_GROUP_SIZE: &str = "target-group-size";

/// A setting of policies of users.
const fn key(name: &'static str, types: &'static [QueueType], merge: Merge) -> Key {
    Key { name, types, operator: false, merge }
}

/// A setting that operator policies have too.
const fn shared(name: &'static str, types: &'static [QueueType], merge: Merge) -> Key {
    Key { operator: true, ..key(name, types, merge) }
}

const KEYS: &[Key] = &[
    key(ALTERNATE, &[], Merge::Declared),
    key("consumer-disconnected-timeout", QUORUM, Merge::Declared),
    key("consumer-timeout", BOTH, Merge::Declared),
    key("copy-selector", BOTH, Merge::Declared),
    key(COPY_TO, BOTH, Merge::Declared),
    key(MOVES[0].0, BOTH, Merge::Declared),
    key(MOVES[0].1, BOTH, Merge::Declared),
    key(RULES[0], BOTH, Merge::Declared),
    key("dead-letter-strategy", QUORUM, Merge::Declared),
    key("delayed-retry-max", BOTH, Merge::Declared),
    key("delayed-retry-min", BOTH, Merge::Declared),
    key("delayed-retry-multiplier", BOTH, Merge::Declared),
    key("delayed-retry-type", BOTH, Merge::Declared),
    shared("delivery-limit", QUORUM, Merge::LowestLimit),
    shared("expires", BOTH, Merge::Lowest),
    key("expires-if-empty", BOTH, Merge::Declared),
    key(MOVES[1].0, BOTH, Merge::Declared),
    key(RULES[1], BOTH, Merge::Declared),
    key(MOVES[1].1, BOTH, Merge::Declared),
    shared("max-in-memory-bytes", QUORUM, Merge::Lowest),
    shared("max-in-memory-length", QUORUM, Merge::Lowest),
    shared("max-length", BOTH, Merge::Lowest),
    shared("max-length-bytes", BOTH, Merge::Lowest),
    key("max-priority", CLASSIC, Merge::Declared),
    shared("message-ttl", BOTH, Merge::Lowest),
    shared("overflow", BOTH, Merge::Declared),
    key("queue-leader-locator", BOTH, Merge::Declared),
    key("queue-mode", CLASSIC, Merge::Declared),
    shared("queue-version", CLASSIC, Merge::Declared),
    key("single-active-consumer", BOTH, Merge::Declared),
    shared(TARGET_GROUP_SIZE, QUORUM, Merge::Declared),
];

fn key_of(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The argument of a setting of queues.
pub(crate) fn argument(name: &str) -> String {
    format!("x-{name}")
}

impl Key {
    /// Checks a value of this setting. `all` has the arguments of the whole policy.
    fn check(&self, value: &Value, all: &Table) -> Result<(), String> {
        match self.name {
            ALTERNATE if value.as_text().is_some() => Ok(()),
            ALTERNATE => Err("it is no name of an exchange".to_owned()),
            TARGET_GROUP_SIZE if value.as_integer().is_some_and(|size| size > 0) => Ok(()),
            TARGET_GROUP_SIZE => Err("it is no number above 0".to_owned()),
            name => check_value(&argument(name), value, all),
        }
    }

    /// Merges a value of a declaration or a user's policy with the one that bounds it.
    fn merge(&self, own: &Value, bound: &Value) -> Value {
        let (Some(one), Some(other)) = (own.as_integer(), bound.as_integer()) else { return own.clone() };
        let lower = match self.merge {
            Merge::Declared => return own.clone(),
            Merge::LowestLimit if one < 0 || other < 0 => one.max(other),
            Merge::Lowest | Merge::LowestLimit => one.min(other),
        };
        Value::I64(lower)
    }
}

/// A policy whose pattern is parsed.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// The owner of its fact; 0 before it has one.
    pub(crate) id: Owner,
    pub(crate) name: String,
    pub(crate) spec: PolicySpec,
    pattern: Pattern,
}

impl Policy {
    /// Parses and checks a policy.
    pub(crate) fn new(kind: PolicyKind, name: &str, spec: PolicySpec) -> Result<Self, Error> {
        let refuse = |what: String| Error::precondition(format!("{} '{name}': {what}", kind.name()));
        // An empty pattern is found in every name.
        let source = if spec.pattern.is_empty() { ".*" } else { &spec.pattern };
        let pattern = Pattern::new(source)
            .map_err(|error| refuse(format!("the pattern '{}' cannot be used: {}", error.pattern, error.reason)))?;
        if spec.definition.is_empty() {
            return Err(refuse("it sets nothing; give at least one setting".to_owned()));
        }
        Self::check_settings(kind, name, &spec.definition)?;
        Ok(Self { id: 0, name: name.to_owned(), spec, pattern })
    }

    pub(crate) fn with_id(self, id: Owner) -> Self {
        Self { id, ..self }
    }

    /// Checks the settings of a policy.
    pub(crate) fn check_settings(kind: PolicyKind, name: &str, settings: &Table) -> Result<(), Error> {
        let refuse = |what: String| Error::precondition(format!("{} '{name}': {what}", kind.name()));
        let all = Table(settings.0.iter().map(|(setting, value)| (argument(setting), value.clone())).collect());
        for (setting, value) in &settings.0 {
            let Some(key) = key_of(setting) else {
                return Err(refuse(format!("'{setting}' is not a recognised policy setting")));
            };
            if kind == PolicyKind::Operator && !key.operator {
                return Err(refuse(format!("'{setting}' is not a setting that operator policies may have")));
            }
            key.check(value, &all).map_err(|what| refuse(format!("invalid value of '{setting}': {what}")))?;
        }
        Ok(())
    }

    /// As in RabbitMQ, a policy with a setting that the type does not have does not apply to the
    /// queue.
    pub(crate) fn fit(&self, name: &str, queue_type: QueueType) -> Fit<'_> {
        let known =
            |setting: &str| key_of(setting).is_some_and(|key| key.types.is_empty() || key.types.contains(&queue_type));
        if !self.spec.apply_to.takes(queue_type) {
            return Fit::OtherType;
        }
        let mut settings = self.spec.definition.0.iter().map(|(setting, _)| setting.as_str());
        match settings.find(|setting| !known(setting)) {
            Some(foreign) => Fit::ForeignSetting(foreign),
            None if self.pattern.matches(name) => Fit::Fits,
            None => Fit::OtherName,
        }
    }

    pub(crate) fn is_for_queue(&self, name: &str, queue_type: QueueType) -> bool {
        self.fit(name, queue_type) == Fit::Fits
    }

    pub(crate) fn is_for_exchange(&self, name: &str) -> bool {
        matches!(self.spec.apply_to, ApplyTo::All | ApplyTo::Exchanges) && self.pattern.matches(name)
    }
}

/// Whether a policy is for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit<'a> {
    Fits,
    OtherType,
    /// The type of the queue does not have this setting.
    ForeignSetting(&'a str),
    OtherName,
}

/// The policies of a vhost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    user: Vec<Policy>,
    operator: Vec<Policy>,
}

/// The policies of one object.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Matched<'a> {
    pub(crate) user: Option<&'a Policy>,
    pub(crate) operator: Option<&'a Policy>,
}

impl Policies {
    fn list_mut(&mut self, kind: PolicyKind) -> &mut Vec<Policy> {
        match kind {
            PolicyKind::User => &mut self.user,
            PolicyKind::Operator => &mut self.operator,
        }
    }

    /// Adds a policy, in place of the one with its name.
    pub(crate) fn put(&mut self, kind: PolicyKind, policy: Policy) {
        self.remove(kind, &policy.name);
        let list = self.list_mut(kind);
        list.push(policy);
        list.sort_by(|a, b| b.spec.priority.cmp(&a.spec.priority).then_with(|| a.name.cmp(&b.name)));
    }

    pub(crate) fn remove(&mut self, kind: PolicyKind, name: &str) {
        self.list_mut(kind).retain(|policy| policy.name != name);
    }

    pub(crate) fn get(&self, kind: PolicyKind, name: &str) -> Option<&Policy> {
        self.list(kind).iter().find(|policy| policy.name == name)
    }

    /// The policy whose fact has this owner, and its kind.
    pub(crate) fn by_id(&self, id: Owner) -> Option<(PolicyKind, &Policy)> {
        let kinds = [PolicyKind::User, PolicyKind::Operator];
        let mut all = kinds.into_iter().flat_map(|kind| self.list(kind).iter().map(move |policy| (kind, policy)));
        all.find(|(_, policy)| policy.id == id)
    }

    pub(crate) fn count(&self) -> usize {
        self.user.len() + self.operator.len()
    }

    /// All of a kind, in the order in which they count.
    pub(crate) fn list(&self, kind: PolicyKind) -> &[Policy] {
        match kind {
            PolicyKind::User => &self.user,
            PolicyKind::Operator => &self.operator,
        }
    }

    /// The policies of a queue.
    pub(crate) fn of_queue(&self, name: &str, queue_type: QueueType) -> Matched<'_> {
        let first = |list: &'_ [Policy]| list.iter().position(|policy| policy.is_for_queue(name, queue_type));
        Matched {
            user: first(&self.user).map(|at| &self.user[at]),
            operator: first(&self.operator).map(|at| &self.operator[at]),
        }
    }

    /// The alternate exchange of an exchange by its policy.
    pub(crate) fn alternate_of(&self, name: &str) -> Option<String> {
        let policy = self.user.iter().find(|policy| policy.is_for_exchange(name))?;
        policy.spec.definition.get(ALTERNATE).and_then(Value::as_text).map(str::to_owned)
    }
}

impl Matched<'_> {
    pub(crate) fn is_any(&self) -> bool {
        self.user.is_some() || self.operator.is_some()
    }

    /// The merged definition of both policies.
    pub(crate) fn definition(&self) -> Table {
        let mut given = self.user.map(|policy| policy.spec.definition.clone()).unwrap_or_default();
        for (setting, bound) in self.operator.iter().flat_map(|policy| &policy.spec.definition.0) {
            let Some(key) = key_of(setting) else { continue };
            let value = match given.get(setting) {
                Some(own) if key.merge != Merge::Declared => key.merge(own, bound),
                _ => bound.clone(),
            };
            given.set(setting, value);
        }
        given
    }

    /// The arguments of a queue with this declaration.
    pub(crate) fn arguments(&self, declared: &Table) -> Table {
        let mut table = declared.clone();
        for (setting, bound) in &self.definition().0 {
            let Some(key) = key_of(setting).filter(|key| ![ALTERNATE, TARGET_GROUP_SIZE].contains(&key.name)) else {
                continue;
            };
            let argument = argument(setting);
            let value = table.get(&argument).map_or_else(|| bound.clone(), |own| key.merge(own, bound));
            table.set(&argument, value);
        }
        dead_letters::settle_contradictions(declared, &mut table);
        if declared.get(copies::TO).is_some() && declared.get(copies::SELECTOR).is_none() {
            // All that comes is copied, as it says itself.
            table.0.retain(|(name, _)| name != copies::SELECTOR);
        }
        for (exchange, key) in MOVES.map(|(exchange, key)| (argument(exchange), argument(key))) {
            if table.get(&exchange).is_none() {
                // A key without an exchange has no effect.
                table.0.retain(|(name, _)| *name != key);
            }
        }
        if table.get("x-message-groups") == Some(&Value::Bool(true)) {
            // The two exclude each other, and only a declaration has groups. Everything else in the
            // policies counts.
            table.0.retain(|(name, _)| name != "x-single-active-consumer");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(fields: &[(&str, Value)]) -> Table {
        Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn spec(pattern: &str, apply_to: ApplyTo, priority: i64, definition: &[(&str, Value)]) -> PolicySpec {
        PolicySpec { pattern: pattern.to_owned(), apply_to, priority, definition: table(definition) }
    }

    fn policy(kind: PolicyKind, name: &str, pattern: &str, priority: i64, definition: &[(&str, Value)]) -> Policy {
        Policy::new(kind, name, spec(pattern, ApplyTo::All, priority, definition)).expect("a good policy")
    }

    #[test]
    fn the_first_by_priority_and_name_counts_among_those_that_fit_the_type() {
        let mut policies = Policies::default();
        let ttl = |ttl| [("message-ttl", Value::I64(ttl))];
        for (name, pattern, priority, ttl) in [("b", "^q", 1, ttl(1)), ("a", "^q", 1, ttl(2)), ("low", "", 0, ttl(3))] {
            policies.put(PolicyKind::User, policy(PolicyKind::User, name, pattern, priority, &ttl));
        }
        let limit = [("delivery-limit", Value::I64(3))];
        policies.put(PolicyKind::User, policy(PolicyKind::User, "limit", "q", 9, &limit));
        let apply_to = spec("q9", ApplyTo::ClassicQueues, 10, &ttl(4));
        policies.put(PolicyKind::User, Policy::new(PolicyKind::User, "classic", apply_to).unwrap());
        let cases = [
            ("q1", QueueType::Classic, "a"),
            ("q1", QueueType::Quorum, "limit"),
            ("q9", QueueType::Classic, "classic"),
            ("q9", QueueType::Quorum, "limit"),
            ("x", QueueType::Classic, "low"),
        ];
        for (name, queue_type, expected) in cases {
            let found = policies.of_queue(name, queue_type);
            assert_eq!(found.user.map(|policy| &*policy.name), Some(expected), "{name} {queue_type:?}");
            assert!(found.operator.is_none());
        }
        policies.remove(PolicyKind::User, "a");
        assert_eq!(policies.of_queue("q1", QueueType::Classic).user.map(|policy| &*policy.name), Some("b"));
        policies.put(PolicyKind::User, policy(PolicyKind::User, "b", "^z", 1, &ttl(1)));
        assert_eq!(policies.of_queue("q1", QueueType::Classic).user.map(|policy| &*policy.name), Some("low"));
    }

    #[test]
    fn declaration_policy_and_operator_policy_come_together() {
        let number = Value::I64;
        let user = [
            ("message-ttl", number(100)),
            ("max-length", number(10)),
            ("overflow", text("reject-publish")),
            ("dead-letter-exchange", text("from-policy")),
            ("delivery-limit", number(-1)),
            ("target-group-size", number(3)),
        ];
        let operator = [
            ("message-ttl", number(50)),
            ("max-length", number(20)),
            ("overflow", text("drop-head")),
            ("expires", number(1000)),
            ("delivery-limit", number(7)),
        ];
        let user = policy(PolicyKind::User, "u", "", 0, &user);
        let operator = policy(PolicyKind::Operator, "o", "", 0, &operator);
        let matched = Matched { user: Some(&user), operator: Some(&operator) };
        let declared = table(&[
            ("x-message-ttl", Value::I32(70)),
            ("x-max-length", Value::I32(5)),
            ("x-dead-letter-exchange", text("declared")),
            ("owner", text("us")),
        ]);
        let expected = [
            ("x-message-ttl", number(50)),
            ("x-max-length", number(5)),
            ("x-dead-letter-exchange", text("declared")),
            ("owner", text("us")),
            ("x-overflow", text("drop-head")),
            ("x-delivery-limit", number(7)),
            ("x-expires", number(1000)),
        ];
        let sorted = |mut table: Table| {
            table.0.sort_by(|(one, _), (other, _)| one.cmp(other));
            table
        };
        assert_eq!(sorted(matched.arguments(&declared)), sorted(table(&expected)));
        assert_eq!(Matched::default().arguments(&declared), declared);
    }

    /// Kind, pattern, definition, and the beginning of the refusal.
    type Refused<'a> = (PolicyKind, &'a str, Vec<(&'a str, Value)>, &'a str);

    #[test]
    fn what_is_refused_and_how() {
        let ttl = || vec![("message-ttl", Value::I64(1))];
        let cases: [Refused<'_>; 9] = [
            (PolicyKind::User, "(", ttl(), "policy 'p': the pattern '(' cannot be used"),
            (PolicyKind::User, "", vec![], "policy 'p': it sets nothing; give at least one setting"),
            (
                PolicyKind::User,
                "",
                vec![("ha-mode", text("all"))],
                "policy 'p': 'ha-mode' is not a recognised policy setting",
            ),
            (
                PolicyKind::Operator,
                "",
                vec![("dead-letter-exchange", text("x"))],
                "operator policy 'p': 'dead-letter-exchange' is not a setting that operator policies may have",
            ),
            (
                PolicyKind::User,
                "",
                vec![("message-ttl", Value::I64(-1))],
                "policy 'p': invalid value of 'message-ttl': {value_negative,-1}",
            ),
            (
                PolicyKind::Operator,
                "",
                vec![("message-ttl", Value::I64(315_360_000_001))],
                "operator policy 'p': invalid value of 'message-ttl': {value_too_large,315360000001}",
            ),
            (
                PolicyKind::User,
                "",
                vec![("consumer-timeout", Value::I64(315_360_000_001))],
                "policy 'p': invalid value of 'consumer-timeout': {value_too_large,315360000001}",
            ),
            (
                PolicyKind::User,
                "",
                vec![("overflow", text("drop-tail"))],
                "policy 'p': invalid value of 'overflow': invalid_overflow",
            ),
            (
                PolicyKind::User,
                "",
                vec![("alternate-exchange", Value::I64(1))],
                "policy 'p': invalid value of 'alternate-exchange': it is no name of an exchange",
            ),
        ];
        for (kind, pattern, definition, expected) in cases {
            let refused = Policy::new(kind, "p", spec(pattern, ApplyTo::All, 0, &definition)).unwrap_err();
            assert!(refused.text.starts_with(expected), "{}", refused.text);
        }
    }

    #[test]
    fn every_setting_minds_its_value() {
        for key in KEYS {
            let wrong = Value::Array(vec![]);
            let all = Table(vec![(argument(key.name), wrong.clone())]);
            assert!(key.check(&wrong, &all).is_err(), "{}", key.name);
        }
    }

    #[test]
    fn exchanges_take_no_policy_of_queues() {
        let mut policies = Policies::default();
        for (name, apply_to, to) in [("q", ApplyTo::Queues, "no"), ("x", ApplyTo::Exchanges, "yes")] {
            let spec = spec("^e", apply_to, 0, &[(ALTERNATE, text(to))]);
            policies.put(PolicyKind::User, Policy::new(PolicyKind::User, name, spec).unwrap());
        }
        assert_eq!(policies.alternate_of("e1").as_deref(), Some("yes"));
        assert_eq!(policies.alternate_of("f"), None);
    }
}
