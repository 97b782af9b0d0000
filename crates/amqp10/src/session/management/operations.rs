//! What is asked of `/management`: queues, exchanges and bindings, by RabbitMQ's paths and codes.

use std::time::Instant;

use broker::{
    BindingReport, BindingSpec, Broker, Client, DeleteIf, DestinationName, Error, ErrorKind, ExchangeSpec, QueueSpec,
    Table, Ticket,
};

use super::body::{self, Fields, Place};
use super::request::{Request, Response, Verb};
use crate::codec::{Value, ValueRef};
use crate::dialect::address::decoded;

/// The kind of exchange that is declared if none is named.
const DEFAULT_KIND: &str = "direct";

/// Who asks, and what it is answered from.
pub(super) struct Operator<'a> {
    pub(super) client: &'a mut Client,
    pub(super) broker: &'a Broker,
    /// The name of this node.
    pub(super) node: &'a str,
    pub(super) now: Instant,
}

/// A response, and what it must wait for. A refusal waits for nothing.
type Done = Result<(Response, Ticket), Response>;

/// The code of an error; one of a declaration that differs is 409.
fn refused(error: Error, differs: &'static str) -> Response {
    let status = match error.kind {
        ErrorKind::NotFound => "404",
        ErrorKind::AccessRefused | ErrorKind::ResourceLimit => "403",
        ErrorKind::Precondition => differs,
        ErrorKind::Internal => "500",
        ErrorKind::Locked | ErrorKind::NotAllowed | ErrorKind::NotImplemented => "400",
    };
    Response::refused(status, error.text)
}

fn bad(error: Error) -> Response {
    refused(error, "400")
}

fn name(segment: &str) -> Result<String, Response> {
    match decoded(segment) {
        Some(name) if name.contains(['\r', '\n']) => {
            Err(Response::refused("400", format!("name '{}' has a line break", name.escape_default())))
        }
        Some(name) => Ok(name),
        None => Err(Response::refused("400", format!("'{segment}' is not percent-encoded"))),
    }
}

const NOTHING: Value = Value::Null;

impl Operator<'_> {
    /// Does what is asked for.
    pub(super) fn answer(&mut self, request: &Request<'_>) -> (Response, Ticket) {
        self.route(request).unwrap_or_else(|refused| (refused, Ticket::NONE))
    }

    fn route(&mut self, request: &Request<'_>) -> Done {
        use Verb::{Delete, Get, Post, Put};
        match (request.verb, &*request.segments) {
            (Some(Get), ["queues", queue]) => self.queue(name(queue)?),
            (Some(Put), ["queues", queue]) => self.declare_queue(name(queue)?, request.body),
            (Some(Delete), ["queues", queue]) => self.delete_queue(&name(queue)?),
            (Some(Delete), ["queues", queue, "messages"]) => self.purge_queue(&name(queue)?),
            (Some(Put), ["exchanges", exchange]) => self.declare_exchange(name(exchange)?, request.body),
            (Some(Delete), ["exchanges", exchange]) => self.delete_exchange(&name(exchange)?),
            (Some(Post), ["bindings"]) => self.bind(request.body),
            (Some(Get), ["bindings"]) => self.bindings(request),
            (Some(Delete), ["bindings", place]) => self.unbind(place),
            _ => Err(Response::refused("400", format!("{} is not supported", request.line))),
        }
    }

    fn queue(&mut self, name: String) -> Done {
        let ticket = self.client.check_queue(&name, self.now).map_err(bad)?.ticket;
        Ok((self.shown("200", &name)?, ticket))
    }

    fn shown(&self, status: &'static str, name: &str) -> Result<Response, Response> {
        let queues = self.broker.some_queues(self.client.vhost(), &[name.into()]);
        let gone = || Response::refused("404", format!("no queue '{name}' in vhost '{}'", self.client.vhost()));
        let queue = queues.first().ok_or_else(gone)?;
        Ok(Response::new(status, body::queue(queue, self.node)))
    }

    fn declare_queue(&mut self, name: String, body: ValueRef<'_>) -> Done {
        let mut fields = Fields::of(body, "queue")?;
        let spec = QueueSpec {
            name,
            durable: fields.truth("durable", Some(true))?,
            exclusive: fields.truth("exclusive", Some(false))?,
            auto_delete: fields.truth("auto_delete", Some(false))?,
            arguments: fields.arguments()?,
        };
        fields.end()?;
        if spec.name.is_empty() {
            return Err(Response::refused("400", "a queue must have a name"));
        }
        let is_new =
            self.client.check_queue(&spec.name, self.now).is_err_and(|error| error.kind == ErrorKind::NotFound);
        let declared = self.client.declare_queue(&spec, self.now).map_err(|error| refused(error, "409"))?;
        Ok((self.shown(if is_new { "201" } else { "200" }, &spec.name)?, declared.ticket))
    }

    fn delete_queue(&mut self, name: &str) -> Done {
        let (count, ticket) = self.client.delete_queue(name, DeleteIf::ALWAYS, self.now).map_err(bad)?;
        Ok((Response::new("200", body::message_count(count)), ticket))
    }

    fn purge_queue(&mut self, name: &str) -> Done {
        let (count, ticket) = self.client.purge_queue(name, self.now).map_err(bad)?;
        Ok((Response::new("200", body::message_count(count)), ticket))
    }

    fn declare_exchange(&mut self, name: String, body: ValueRef<'_>) -> Done {
        let mut fields = Fields::of(body, "exchange")?;
        let spec = ExchangeSpec {
            name,
            kind: fields.text("type")?.unwrap_or(DEFAULT_KIND).to_owned(),
            durable: fields.truth("durable", Some(true))?,
            auto_delete: fields.truth("auto_delete", Some(false))?,
            internal: fields.truth("internal", Some(false))?,
            arguments: fields.arguments()?,
        };
        fields.end()?;
        let ticket = self.client.declare_exchange(&spec, self.now).map_err(|error| refused(error, "409"))?;
        Ok((Response::new("204", NOTHING), ticket))
    }

    fn delete_exchange(&mut self, name: &str) -> Done {
        let ticket = self.client.delete_exchange(name, DeleteIf::ALWAYS, self.now).map_err(bad)?;
        Ok((Response::new("204", NOTHING), ticket))
    }

    fn bind(&mut self, body: ValueRef<'_>) -> Done {
        let mut fields = Fields::of(body, "binding")?;
        let source = fields.required("source")?.to_owned();
        let key = fields.required("binding_key")?.to_owned();
        let destination = match (fields.text("destination_queue")?, fields.text("destination_exchange")?) {
            (Some(queue), None) => DestinationName::Queue(queue.to_owned()),
            (None, Some(exchange)) => DestinationName::Exchange(exchange.to_owned()),
            _ => {
                return Err(Response::refused("400", "a binding has either destination_queue or destination_exchange"));
            }
        };
        let spec = BindingSpec { source, destination, key, arguments: fields.arguments()? };
        fields.end()?;
        let ticket = self.client.bind(&spec, self.now).map_err(bad)?;
        Ok((Response::new("204", NOTHING), ticket))
    }

    /// The bindings from an exchange to a destination, which the user may look at.
    fn between(&mut self, source: &str, destination: &DestinationName) -> Result<Vec<BindingReport>, Response> {
        self.client.check_exchange(source, self.now).map_err(bad)?;
        Ok(self.broker.bindings_between(self.client.vhost(), source, destination))
    }

    fn bindings(&mut self, request: &Request<'_>) -> Done {
        let missing = |what: &str| Response::refused("400", format!("missing {what} in the query of {}", request.line));
        let source = request.asked("src").ok_or_else(|| missing("src"))?;
        let key = request.asked("key").ok_or_else(|| missing("key"))?;
        let destination = match (request.asked("dstq"), request.asked("dste")) {
            (Some(queue), None) => DestinationName::Queue(queue.to_owned()),
            (None, Some(exchange)) => DestinationName::Exchange(exchange.to_owned()),
            _ => return Err(missing("dstq or dste")),
        };
        let found = self.between(source, &destination)?;
        let shown = found.iter().filter(|binding| binding.key == key).map(body::binding).collect();
        Ok((Response::new("200", Value::List(shown)), Ticket::NONE))
    }

    fn unbind(&mut self, place: &str) -> Done {
        let place = Place::read(place)
            .ok_or_else(|| Response::refused("400", format!("'{place}' is not src=X;dstq=Q;key=K;args=A")))?;
        let Place { source, destination, key, arguments } = place;
        let found = self.between(&source, &destination)?;
        let is_it = |binding: &&BindingReport| binding.key == key && body::hash(&binding.arguments) == arguments;
        let arguments = found.iter().find(is_it).map(|binding| binding.arguments.clone());
        // One that is not there is asked for anyway: the rights are checked, and it is no error.
        let spec = BindingSpec { source, destination, key, arguments: arguments.unwrap_or_else(Table::default) };
        let ticket = self.client.unbind(&spec, self.now).map_err(bad)?;
        Ok((Response::new("204", NOTHING), ticket))
    }
}
