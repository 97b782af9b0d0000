//! Shovels as RabbitMQ writes them: the value of a parameter of component `shovel`
//! (<https://www.rabbitmq.com/docs/shovel-dynamic>).
//!
//! Every field is read or refused by its name; none is passed over. All faults are found at once.

use std::time::Duration;

use amqp091::codec::table::Value;
use serde_json::{Map, Value as Json};

use crate::spec::{
    AckMode, Destination, Extent, GiveTo, Missing, Overrides, Protocol, Queue, Source, Spec, TakeFrom, TextProperty,
    Timestamp,
};
use crate::uri::Uri;

/// Messages on their way, if the definition does not say.
const PREFETCH: u16 = 1000;
/// The longest pause between attempts, if it does not say.
const RECONNECT: Duration = Duration::from_secs(5);
/// URIs of one end at most.
const MOST_URIS: usize = 16;

/// Whose definition it is.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Its vhost.
    pub vhost: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The name of the cluster, which forwarded messages carry.
    pub cluster: &'a str,
}

/// Reads a definition.
///
/// # Errors
/// All that is wrong with it, one line each. No line has a part of a URI.
pub fn parse(definition: &Map<String, Json>, about: About<'_>) -> Result<Spec, Vec<String>> {
    let mut fields = Fields { left: definition.clone(), faults: Vec::new() };
    let (source_uris, destination_uris) = (fields.uris("src-uri", about), fields.uris("dest-uri", about));
    let ack = fields.one_of("ack-mode", &ACK_MODES).unwrap_or_default();
    let from = source(&mut fields);
    let extent = extent(&mut fields, from.protocol(), ack);
    let mut to = destination(&mut fields);
    let prefetch = match fields.whole(&["src-prefetch-count", "prefetch-count"]) {
        None => PREFETCH,
        Some(count) => u16::try_from(count).ok().filter(|count| *count > 0).unwrap_or_else(|| {
            fields.wrong("src-prefetch-count is from 1 to 65535");
            PREFETCH
        }),
    };
    let reconnect = match fields.whole(&["reconnect-delay"]) {
        None => Some(RECONNECT),
        Some(0) => None,
        Some(seconds) => Some(Duration::from_secs(seconds)),
    };
    to = match together(from.protocol(), to, &destination_uris) {
        Ok(to) => to,
        Err(fault) => {
            fields.wrong(&fault);
            GiveTo::Exchange { name: None, key: None }
        }
    };
    let (properties, trail, timestamp) = forwarding(&mut fields, &to, &from, about);
    let source = Source { uris: source_uris, from };
    let destination = Destination { uris: destination_uris, to, properties, trail, timestamp };
    fields.end()?;
    Ok(Spec { source, destination, ack, prefetch, reconnect, extent })
}

/// The same definition without the passwords of its URIs. A URI without a user is shown as it was
/// given, another one as [`Uri`] shows itself.
pub fn without_secrets(definition: &Map<String, Json>) -> Map<String, Json> {
    fn shown(uri: &Json) -> Json {
        match uri {
            Json::String(text) => Json::String(match Uri::parse(text) {
                Ok(_) if !text.contains('@') => text.clone(),
                Ok(uri) => uri.to_string(),
                Err(_) => "amqp://?".to_owned(),
            }),
            Json::Array(uris) => uris.iter().map(shown).collect(),
            _ => Json::Null,
        }
    }
    let is_uri = |name: &str| name.ends_with("-uri");
    definition
        .iter()
        .map(|(name, value)| (name.clone(), if is_uri(name) { shown(value) } else { value.clone() }))
        .collect()
}

const ACK_MODES: [(&str, AckMode); 3] =
    [("on-confirm", AckMode::OnConfirm), ("on-publish", AckMode::OnPublish), ("no-ack", AckMode::NoAck)];
/// `local`, in RabbitMQ the inside of the broker without a protocol, is AMQP 0-9-1 here.
const PROTOCOLS: [(&str, Protocol); 3] =
    [("amqp091", Protocol::Amqp091), ("amqp10", Protocol::Amqp10), ("local", Protocol::Amqp091)];

/// The fields that were not read yet, and what was wrong with those that were.
struct Fields {
    left: Map<String, Json>,
    faults: Vec<String>,
}

impl Fields {
    fn wrong(&mut self, what: &str) {
        self.faults.push(what.to_owned());
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Json::String(text) => Some(text),
            _ => {
                self.faults.push(format!("{name} is a text"));
                None
            }
        }
    }

    /// A whole number under the first of these names that is there.
    fn whole(&mut self, names: &[&str]) -> Option<u64> {
        let found: Vec<_> = names.iter().filter_map(|name| Some((*name, self.take(name)?))).collect();
        let (name, value) = found.into_iter().next()?;
        let number = value.as_u64();
        if number.is_none() {
            self.faults.push(format!("{name} is a whole number"));
        }
        number
    }

    fn flag(&mut self, name: &str) -> bool {
        match self.take(name) {
            None => false,
            Some(Json::Bool(flag)) => flag,
            Some(_) => {
                self.faults.push(format!("{name} is true or false"));
                false
            }
        }
    }

    fn table(&mut self, name: &str) -> Option<Map<String, Json>> {
        match self.take(name)? {
            Json::Object(table) => Some(table),
            // RabbitMQ's own tools write a table without fields as a list.
            Json::Array(list) if list.is_empty() => Some(Map::new()),
            _ => {
                self.faults.push(format!("{name} is an object"));
                None
            }
        }
    }

    fn arguments(&mut self, name: &str) -> Vec<(String, Value)> {
        let table = self.table(name).unwrap_or_default();
        table.iter().map(|(name, value)| (name.clone(), argument(value))).collect()
    }

    fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let found = choices.iter().find(|(choice, _)| *choice == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
            self.faults.push(format!("{name} is one of {}", names.join(", ")));
        }
        found
    }

    fn uris(&mut self, name: &str, about: About<'_>) -> Vec<Uri> {
        let texts = match self.take(name) {
            Some(Json::String(text)) => vec![Json::String(text)],
            Some(Json::Array(texts)) => texts,
            _ => Vec::new(),
        };
        if texts.is_empty() || texts.len() > MOST_URIS {
            self.faults.push(format!("{name} is a URI, or a list of 1 to {MOST_URIS} of them"));
            return Vec::new();
        }
        let mut uris = Vec::new();
        for text in texts {
            match Uri::parse(text.as_str().unwrap_or_default()) {
                Ok(uri) => uris.push(uri.in_vhost(about.vhost)),
                Err(error) => self.faults.push(format!("{name}: {error}")),
            }
        }
        uris
    }

    /// By these fields RabbitMQ changed messages of AMQP 1.0. Since 4.2 it ignores them.
    fn refuse_changes(&mut self) {
        let names = ["dest-properties", "dest-application-properties", "dest-message-annotations"];
        for name in names.into_iter().chain(["dest-publish-properties", "publish-properties"]) {
            if self.take(name).is_some() {
                self.faults.push(format!("{name} can't be there: by AMQP 1.0 a message goes on as it came (3.2)"));
            }
        }
    }

    /// # Errors
    /// What was wrong, with the fields that are left.
    fn end(mut self) -> Result<(), Vec<String>> {
        let unread = self.left.keys().map(|name| format!("{name} is not a field of such a shovel, or not supported"));
        self.faults.extend(unread);
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults) }
    }
}

/// A queue, and what happens if it is not there.
fn queue(fields: &mut Fields, end: &str, name: String) -> Queue {
    let is_there = fields.flag(&format!("{end}-predeclared"));
    let arguments = fields.arguments(&format!("{end}-queue-args"));
    Queue { name, missing: if is_there { Missing::Fail } else { Missing::Declare(arguments) } }
}

fn source(fields: &mut Fields) -> TakeFrom {
    let nothing = TakeFrom::Address(String::new());
    if fields.one_of("src-protocol", &PROTOCOLS) == Some(Protocol::Amqp10) {
        let address = fields.text("src-address");
        return address.map(TakeFrom::Address).unwrap_or_else(|| {
            fields.wrong("src-address is missing");
            nothing
        });
    }
    match (fields.text("src-queue"), fields.text("src-exchange")) {
        (Some(name), None) => {
            let consumer = fields.arguments("src-consumer-args");
            TakeFrom::Queue { queue: queue(fields, "src", name), consumer }
        }
        (None, Some(name)) => TakeFrom::Exchange { name, key: fields.text("src-exchange-key").unwrap_or_default() },
        _ => {
            fields.wrong("either src-queue or src-exchange must be there, and only one of them");
            TakeFrom::Exchange { name: String::new(), key: String::new() }
        }
    }
}

fn destination(fields: &mut Fields) -> GiveTo {
    if fields.one_of("dest-protocol", &PROTOCOLS) == Some(Protocol::Amqp10) {
        return GiveTo::Address(fields.text("dest-address").unwrap_or_else(|| {
            fields.wrong("dest-address is missing");
            String::new()
        }));
    }
    let (name, key) = (fields.text("dest-exchange"), fields.text("dest-exchange-key"));
    match fields.text("dest-queue") {
        None => GiveTo::Exchange { name, key },
        Some(queue_name) => {
            if name.is_some() || key.is_some() {
                fields.wrong("dest-queue and dest-exchange can't both be there");
            }
            GiveTo::Queue(queue(fields, "dest", queue_name))
        }
    }
}

fn extent(fields: &mut Fields, protocol: Protocol, ack: AckMode) -> Extent {
    let names = ["src-delete-after", "delete-after"];
    let found: Vec<_> = names.iter().filter_map(|name| fields.take(name)).collect();
    let extent = match found.into_iter().next() {
        None => Extent::Endless,
        Some(Json::String(text)) if text == "never" => Extent::Endless,
        Some(Json::String(text)) if text == "queue-length" => Extent::Present,
        Some(Json::Number(count)) if count.as_u64().is_some() => Extent::Count(count.as_u64().unwrap_or_default()),
        Some(_) => {
            fields.wrong("src-delete-after is 'never', 'queue-length', or a number of messages");
            Extent::Endless
        }
    };
    if extent == Extent::Present && protocol == Protocol::Amqp10 {
        fields.wrong("src-delete-after can't be 'queue-length' by AMQP 1.0, which does not say how long a queue is");
    }
    if extent != Extent::Endless && ack == AckMode::NoAck {
        fields.wrong("src-delete-after needs acknowledgements: with ack-mode 'no-ack' the source sends more than that");
    }
    extent
}

/// The destination of messages of this protocol. Those of AMQP 1.0 go to this broker by that
/// protocol, so that they are kept as they came. All others of the other protocol are translated.
fn together(from: Protocol, to: GiveTo, uris: &[Uri]) -> Result<GiveTo, String> {
    if from == Protocol::Amqp091 {
        return Ok(to);
    }
    let is_here = !uris.is_empty() && uris.iter().all(Uri::is_local);
    match to {
        GiveTo::Exchange { name: None, .. } => {
            Err("dest-queue or dest-exchange is missing: a message of AMQP 1.0 names no exchange".to_owned())
        }
        GiveTo::Queue(queue) if is_here => Ok(GiveTo::Address(address(&["queues", &queue.name]))),
        GiveTo::Exchange { name: Some(name), key } if is_here => {
            let key = key.unwrap_or_default();
            let parts = ["exchanges", &name, &key];
            Ok(GiveTo::Address(address(if key.is_empty() { &parts[..2] } else { &parts })))
        }
        to => Ok(to),
    }
}

/// An address of RabbitMQ's second form for AMQP 1.0.
fn address(parts: &[&str]) -> String {
    let encoded =
        |part: &&str| percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string();
    parts.iter().map(|part| format!("/{}", encoded(part))).collect()
}

/// What is done to messages on their way.
fn forwarding(
    fields: &mut Fields,
    to: &GiveTo,
    from: &TakeFrom,
    about: About<'_>,
) -> (Overrides, Vec<(String, String)>, Timestamp) {
    let by_amqp10 = to.protocol() == Protocol::Amqp10;
    if by_amqp10 {
        fields.refuse_changes();
    }
    let properties = ["dest-publish-properties", "publish-properties"]
        .iter()
        .filter_map(|name| fields.table(name))
        .next()
        .filter(|_| !by_amqp10)
        .map(|table| overrides(fields, &table))
        .unwrap_or_default();
    let adds = fields.flag("dest-add-forward-headers") | fields.flag("add-forward-headers");
    let timestamp = match fields.flag("dest-add-timestamp-header") {
        true => Timestamp::Added,
        false => Timestamp::None,
    };
    let trail = match (adds, by_amqp10) {
        (false, _) => Vec::new(),
        (true, true) => annotations(about),
        (true, false) => trail(from, to, about),
    };
    (properties, trail, timestamp)
}

/// What a shovel writes onto messages to say that it has moved them.
fn trail(from: &TakeFrom, to: &GiveTo, about: About<'_>) -> Vec<(String, String)> {
    let mut fields = vec![
        ("shovelled-by", about.cluster.to_owned()),
        ("shovel-type", "dynamic".to_owned()),
        ("shovel-name", about.name.to_owned()),
        ("shovel-vhost", about.vhost.to_owned()),
    ];
    match from {
        TakeFrom::Queue { queue, .. } => fields.push(("src-queue", queue.name.clone())),
        TakeFrom::Exchange { name, key } => {
            fields.extend([("src-exchange", name.clone()), ("src-exchange-key", key.clone())]);
        }
        TakeFrom::Address(_) => {}
    }
    match to {
        GiveTo::Queue(queue) => fields.push(("dest-queue", queue.name.clone())),
        GiveTo::Exchange { name, key } => {
            fields.extend(name.iter().map(|name| ("dest-exchange", name.clone())));
            fields.extend(key.iter().map(|key| ("dest-exchange-key", key.clone())));
        }
        GiveTo::Address(_) => {}
    }
    fields.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The same by AMQP 1.0, under RabbitMQ's names.
fn annotations(about: About<'_>) -> Vec<(String, String)> {
    let fields = [("shovelled-by", about.cluster), ("shovel-type", "dynamic"), ("shovel-name", about.name)];
    fields.into_iter().map(|(name, text)| (format!("x-opt-{name}"), text.to_owned())).collect()
}

fn overrides(fields: &mut Fields, table: &Map<String, Json>) -> Overrides {
    let mut overrides = Overrides::default();
    for (name, value) in table {
        let octet = value.as_u64().and_then(|number| u8::try_from(number).ok());
        let text = TextProperty::NAMED.iter().find(|(known, _)| known == name);
        match (name.as_str(), text, value.as_str()) {
            (_, Some((_, property)), Some(text)) if text.len() <= 255 => {
                overrides.texts.push((*property, text.to_owned()));
            }
            ("delivery_mode", ..) if matches!(octet, Some(1 | 2)) => overrides.delivery_mode = octet,
            ("priority", ..) if octet.is_some() => overrides.priority = octet,
            ("timestamp", ..) if value.is_u64() => overrides.timestamp = value.as_u64(),
            _ => fields.faults.push(format!("dest-publish-properties: '{name}' is no property, or has a wrong value")),
        }
    }
    overrides
}

/// A value of JSON as an argument of AMQP 0-9-1.
fn argument(value: &Json) -> Value {
    match value {
        Json::Null => Value::Void,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::I64(whole),
            None => Value::F64(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(list) => Value::Array(list.iter().map(argument).collect()),
        Json::Object(table) => {
            Value::Table(table.iter().map(|(name, value)| (name.clone(), argument(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ABOUT: About<'static> = About { vhost: "v", name: "n", cluster: "c" };

    fn read(definition: Json) -> Result<Spec, Vec<String>> {
        let Json::Object(definition) = definition else { panic!("no object") };
        parse(&definition, ABOUT)
    }

    #[test]
    fn rabbitmqs_fields_are_read() {
        let spec = read(json!({
            "src-protocol": "amqp091", "src-uri": ["amqp://a", "amqp://b/w"], "src-queue": "q",
            "src-queue-args": {"x-queue-type": "quorum"}, "src-consumer-args": {"x-priority": 3},
            "src-prefetch-count": 7, "src-delete-after": "queue-length",
            "dest-protocol": "amqp091", "dest-uri": "amqp://", "dest-exchange": "e", "dest-exchange-key": "k",
            "dest-add-forward-headers": true, "dest-add-timestamp-header": true,
            "dest-publish-properties": {"delivery_mode": 2, "app_id": "x"},
            "ack-mode": "on-publish", "reconnect-delay": 9,
        }))
        .unwrap();
        let arguments = vec![("x-queue-type".to_owned(), Value::from("quorum"))];
        let queue = Queue { name: "q".into(), missing: Missing::Declare(arguments) };
        let consumer = vec![("x-priority".to_owned(), Value::I64(3))];
        assert_eq!(spec.source.from, TakeFrom::Queue { queue, consumer });
        assert_eq!(spec.source.uris.iter().map(|uri| uri.vhost().unwrap()).collect::<Vec<_>>(), ["v", "w"]);
        assert_eq!(spec.destination.to, GiveTo::Exchange { name: Some("e".into()), key: Some("k".into()) });
        assert_eq!((spec.prefetch, spec.ack, spec.extent), (7, AckMode::OnPublish, Extent::Present));
        assert_eq!(spec.reconnect, Some(Duration::from_secs(9)));
        assert_eq!(spec.destination.properties.delivery_mode, Some(2));
        let names: Vec<_> = spec.destination.trail.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "shovelled-by",
            "shovel-type",
            "shovel-name",
            "shovel-vhost",
            "src-queue",
            "dest-exchange",
            "dest-exchange-key",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_a_definition_does_not_say_is_as_in_rabbitmq() {
        let spec = read(json!({"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://h"})).unwrap();
        assert_eq!(spec.destination.to, GiveTo::Exchange { name: None, key: None });
        assert_eq!((spec.prefetch, spec.ack, spec.extent), (1000, AckMode::OnConfirm, Extent::Endless));
        assert_eq!(spec.reconnect, Some(RECONNECT));
    }

    #[test]
    fn this_broker_speaks_the_protocol_of_the_other_one() {
        let spec = read(json!({
            "src-protocol": "amqp10", "src-uri": "amqp://h", "src-address": "a",
            "dest-uri": "amqp://", "dest-queue": "q/1",
        }))
        .unwrap();
        assert_eq!(spec.destination.to, GiveTo::Address("/queues/q%2F1".into()));
        let told = read(json!({
            "src-protocol": "amqp10", "src-uri": "amqp://h", "src-address": "a", "dest-uri": "amqp://i",
            "dest-protocol": "amqp10", "dest-address": "b", "dest-add-forward-headers": true,
        }));
        let expected = [("x-opt-shovelled-by", "c"), ("x-opt-shovel-type", "dynamic"), ("x-opt-shovel-name", "n")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(told.unwrap().destination.trail, expected);
    }

    #[test]
    fn another_broker_gets_messages_of_the_other_protocol() {
        let from_10 = |rest: Json| {
            let mut definition = json!({"src-protocol": "amqp10", "src-uri": "amqp://", "src-address": "a"});
            let Json::Object(rest) = rest else { panic!("no object") };
            definition.as_object_mut().unwrap().extend(rest);
            read(definition)
        };
        let queue =
            from_10(json!({"dest-uri": "amqp://h", "dest-queue": "q", "dest-publish-properties": {"priority": 1}}));
        let destination = queue.unwrap().destination;
        assert_eq!(destination.to, GiveTo::Queue(Queue { name: "q".into(), missing: Missing::Declare(Vec::new()) }));
        assert_eq!(destination.properties.priority, Some(1));
        let exchange = from_10(json!({"dest-uri": "amqp://h", "dest-exchange": "e"}));
        assert_eq!(exchange.unwrap().destination.to, GiveTo::Exchange { name: Some("e".into()), key: None });
        let nowhere = from_10(json!({"dest-uri": "amqp://h", "dest-exchange-key": "k"}));
        assert!(nowhere.unwrap_err()[0].contains("names no exchange"));
        let from_091 = read(json!({
            "src-uri": "amqp://", "src-queue": "q", "dest-protocol": "amqp10", "dest-uri": "amqp://h", "dest-address": "a",
        }));
        assert_eq!(from_091.unwrap().destination.to, GiveTo::Address("a".into()));
    }

    #[test]
    fn all_faults_are_named_at_once_and_none_has_a_password() {
        for (definition, faults) in [
            (json!({}), &["src-uri", "dest-uri", "src-queue or src-exchange"][..]),
            (
                json!({"src-uri": "amqp://u:hidden@h?x=1", "src-queue": "q", "dest-uri": "x://u:hidden@h", "surprise": 1}),
                &["src-uri: the parameter 'x'", "dest-uri: a URI begins", "surprise"],
            ),
            (
                json!({"src-uri": "amqp://", "src-queue": "q", "src-exchange": "e", "dest-uri": "amqp://",
                       "dest-queue": "q", "dest-exchange": "e", "src-prefetch-count": 0, "ack-mode": "later"}),
                &["ack-mode is one of", "only one of them", "can't both", "from 1 to 65535"],
            ),
            (
                json!({"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "ack-mode": "no-ack",
                       "src-delete-after": 5, "dest-publish-properties": {"color": "red"}}),
                &["needs acknowledgements", "'color' is no property"],
            ),
            (
                json!({"src-uri": "amqp://", "src-protocol": "amqp10", "src-address": "a", "dest-uri": "amqp://",
                       "dest-protocol": "amqp10", "dest-address": "b", "dest-add-forward-headers": true,
                       "dest-properties": {}, "src-delete-after": "queue-length"}),
                &["by AMQP 1.0", "dest-properties can't be there"],
            ),
        ] {
            let found = read(definition.clone()).unwrap_err();
            assert_eq!(found.len(), faults.len(), "{definition}: {found:?}");
            for (found, fault) in found.iter().zip(faults) {
                assert!(found.contains(fault) && !found.contains("hidden"), "{found}");
            }
        }
    }

    #[test]
    fn a_definition_is_shown_without_passwords() {
        let uris = ["amqp://u:hidden@h/v", "amqp://127.0.0.1/%2f"];
        let definition = json!({"src-uri": uris, "dest-uri": "hidden://x", "src-queue": "q"});
        let shown = Json::Object(without_secrets(definition.as_object().unwrap()));
        let uris = ["amqp://h:5672/v", "amqp://127.0.0.1/%2f"];
        assert_eq!(shown, json!({"src-uri": uris, "dest-uri": "amqp://?", "src-queue": "q"}));
    }
}
