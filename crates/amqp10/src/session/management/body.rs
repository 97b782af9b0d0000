//! The bodies of requests and responses: maps whose keys are those of RabbitMQ.

use broker::{BindingReport, DestinationName, QueueReport, Table};

use super::request::Response;
use crate::codec::{Elements, Encode, Value, ValueRef};
use crate::dialect::{address::encoded, from_neutral, to_table};

/// The fields of a request that are read one by one; what is not asked for is refused.
pub(super) struct Fields<'a> {
    what: &'static str,
    left: Vec<(&'a str, ValueRef<'a>)>,
}

/// A field of the wrong type, or one that is not known.
type Refused<T> = Result<T, Response>;

impl<'a> Fields<'a> {
    /// Reads a map. `what` says in errors what it describes.
    pub(super) fn of(body: ValueRef<'a>, what: &'static str) -> Refused<Self> {
        let ValueRef::Map(map) = body else {
            return Err(Response::refused("400", format!("the body of a {what} must be a map")));
        };
        let field = |(key, value): (ValueRef<'a>, ValueRef<'a>)| match key {
            ValueRef::Str(name) => Ok((name, value)),
            other => Err(Response::refused("400", format!("bad {what} property {other}: a name must be a string"))),
        };
        Ok(Self { what, left: map.iter().map(field).collect::<Result<_, _>>()? })
    }

    fn take(&mut self, name: &str) -> Option<ValueRef<'a>> {
        let at = self.left.iter().position(|(field, _)| *field == name)?;
        Some(self.left.swap_remove(at).1)
    }

    fn bad(&self, name: &str, wanted: &str) -> Response {
        Response::refused("400", format!("bad {} property {name}: it must be {wanted}", self.what))
    }

    pub(super) fn truth(&mut self, name: &str, default: Option<bool>) -> Refused<bool> {
        match self.take(name) {
            Some(ValueRef::Bool(truth)) => Ok(truth),
            Some(_) => Err(self.bad(name, "a boolean")),
            None => default.ok_or_else(|| self.bad(name, "there")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Refused<Option<&'a str>> {
        match self.take(name) {
            Some(ValueRef::Str(text)) => Ok(Some(text)),
            Some(_) => Err(self.bad(name, "a string")),
            None => Ok(None),
        }
    }

    /// The same, which must be there.
    pub(super) fn required(&mut self, name: &str) -> Refused<&'a str> {
        self.text(name)?.ok_or_else(|| self.bad(name, "there"))
    }

    /// Arguments, in the types that AMQP 0-9-1 has: clients of both compare them.
    pub(super) fn arguments(&mut self) -> Refused<Table> {
        match self.take("arguments") {
            None => Ok(Table::default()),
            Some(ValueRef::Map(map)) => {
                let Table(fields) = to_table(map);
                let nearest = |value: broker::Value| value.nearest().unwrap_or(value);
                Ok(Table(fields.into_iter().map(|(name, value)| (name, nearest(value))).collect()))
            }
            Some(_) => Err(self.bad("arguments", "a map")),
        }
    }

    /// Fails for what was not asked for.
    pub(super) fn end(self) -> Refused<()> {
        match self.left.first() {
            Some((name, _)) => Err(Response::refused("400", format!("bad {} property {name}: unknown", self.what))),
            None => Ok(()),
        }
    }
}

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(name, value)| (Value::Str(name.to_owned()), value)).collect())
}

fn text(text: &str) -> Value {
    Value::Str(text.to_owned())
}

fn table(table: &Table) -> Value {
    from_neutral(&broker::Value::Table(table.clone()))
}

/// How many messages went.
pub(super) fn message_count(count: u64) -> Value {
    map(vec![("message_count", Value::U64(count))])
}

/// A queue, which has its only copy on this node.
pub(super) fn queue(queue: &QueueReport, node: &str) -> Value {
    let declared = &queue.declared;
    map(vec![
        ("message_count", Value::U64(queue.ready)),
        ("consumer_count", Value::U32(u32::try_from(queue.consumers).unwrap_or(u32::MAX))),
        ("name", text(&queue.name)),
        ("vhost", text(&queue.vhost)),
        ("durable", Value::Bool(declared.durable)),
        ("auto_delete", Value::Bool(declared.auto_delete)),
        ("exclusive", Value::Bool(declared.exclusive)),
        ("type", text(declared.kind)),
        ("arguments", table(&declared.arguments)),
        ("leader", text(node)),
        ("replicas", Value::Array(Elements::new(vec![text(node)]).unwrap_or_default())),
    ])
}

/// A binding, and the path by which it is deleted.
pub(super) fn binding(binding: &BindingReport) -> Value {
    let destination = if binding.to_queue { "destination_queue" } else { "destination_exchange" };
    map(vec![
        ("source", text(&binding.source)),
        (destination, text(&binding.destination)),
        ("binding_key", text(&binding.key)),
        ("arguments", table(&binding.arguments)),
        ("location", Value::Str(location(binding))),
    ])
}

fn location(binding: &BindingReport) -> String {
    let kind = if binding.to_queue { 'q' } else { 'e' };
    let (source, destination) = (encoded(&binding.source), encoded(&binding.destination));
    format!(
        "/bindings/src={source};dst{kind}={destination};key={};args={}",
        encoded(&binding.key),
        hash(&binding.arguments)
    )
}

/// What stands for arguments in a path: nothing if there are none, else their FNV-1a hash.
pub(super) fn hash(arguments: &Table) -> String {
    if arguments.0.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    table(arguments).encode(&mut bytes);
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The parts of a path that names a binding.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) source: String,
    pub(super) destination: DestinationName,
    pub(super) key: String,
    /// See [`hash`].
    pub(super) arguments: String,
}

impl Place {
    /// Reads `src=X;dstq=Q;key=K;args=A`, in which names are percent-encoded.
    pub(super) fn read(segment: &str) -> Option<Self> {
        use crate::dialect::address::decoded;
        let mut parts = segment.split(';');
        let mut next = |name: &str| parts.next()?.strip_prefix(name).map(str::to_owned);
        let source = decoded(&next("src=")?)?;
        let destination = next("dst")?;
        let destination = match destination.split_once('=')? {
            ("q", name) => DestinationName::Queue(decoded(name)?),
            ("e", name) => DestinationName::Exchange(decoded(name)?),
            _ => return None,
        };
        let place = Self { source, destination, key: decoded(&next("key=")?)?, arguments: next("args=")? };
        parts.next().is_none().then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_found_by_the_place_that_was_shown() {
        for (key, arguments) in
            [("k", Table::default()), ("a b;c=d/é", Table(vec![("x".into(), broker::Value::Bool(true))]))]
        {
            let report = BindingReport {
                vhost: "/".into(),
                source: "x;y".into(),
                destination: "a=b".into(),
                to_queue: true,
                key: key.into(),
                arguments,
            };
            let shown = location(&report);
            let place = Place::read(shown.strip_prefix("/bindings/").unwrap()).unwrap();
            assert_eq!((place.source, place.key.as_str()), ("x;y".to_owned(), key));
            assert_eq!(place.destination, DestinationName::Queue("a=b".into()));
            assert_eq!(place.arguments, hash(&report.arguments));
        }
        for wrong in
            ["", "src=a", "src=a;dstx=b;key=;args=", "src=a;dstq=b;key=;args=;more=", "src=%zz;dstq=b;key=;args="]
        {
            assert_eq!(Place::read(wrong), None, "{wrong}");
        }
    }
}
