//! The firehose: copies of what is published and delivered in a vhost that is traced, and the
//! exchange that they go to.
//!
//! Copies are transient messages of the broker's own, with RabbitMQ's routing keys and headers. A
//! message that came through that exchange is not traced itself.

use journal::Ticket;

use crate::arguments::ExchangeArguments;
use crate::catalog::change::{Change, NewExchange};
use crate::catalog::{Exchange, Vhost};
use crate::encoding::write_table;
use crate::engine::Engine;
use crate::message::cc::{CC, Copies, named_keys};
use crate::message::overlay::Counts;
use crate::message::properties::Properties;
use crate::message::{Arena, Head, Message, NAME_MAX};
use crate::routing::ExchangeKind;
use crate::store::facts::ExchangeFact;
use crate::value::{Table, Value};

/// The exchange of the copies.
pub(crate) const EXCHANGE: &str = "amq.rabbitmq.trace";

impl Engine {
    /// Makes the exchange of the copies, at its first use. Returns the ticket for an answer.
    pub(crate) fn make_trace_exchange(&self, vhost: &Vhost) -> Ticket {
        let mut tables = vhost.tables.write();
        if tables.is_ended() || tables.exchange(EXCHANGE).is_some() {
            return tables.logged();
        }
        self.catalog.admit_exchange(u64::MAX);
        let fact = ExchangeFact { internal: true, ..ExchangeFact::plain(vhost.id, EXCHANGE, ExchangeKind::Topic) };
        let parsed = ExchangeArguments::none(ExchangeKind::Topic);
        let new = NewExchange { id: self.owner(vhost.log()), fact, durable: true, parsed };
        self.change(vhost, &mut tables, Change::Exchange(Box::new(Exchange::new(new, &vhost.bindings))))
    }

    /// The copy of a message. Its routing key is `what`, a dot and `of`. Its headers describe the
    /// original, and contain `more`.
    pub(crate) fn traced(
        &self,
        message: &Message,
        (what, of): (&str, &str),
        more: Vec<(String, Value)>,
        arena: &mut Arena,
    ) -> Message {
        let properties = self.dialects.read_shown(message, Counts::default()).unwrap_or_default();
        let text = |text: &str| Value::Text(text.to_owned());
        let mut keys = vec![text(message.routing_key())];
        if message.copies() == Copies::Named {
            keys.extend(named_keys(&properties.headers, CC).map(text));
        }
        let mut headers = vec![
            ("exchange_name".to_owned(), text(message.exchange())),
            ("routing_keys".to_owned(), Value::Array(keys)),
            ("properties".to_owned(), Value::Table(as_table(properties))),
            ("node".to_owned(), text(&self.settings.names.node)),
        ];
        headers.extend(more);
        let mut bytes = Vec::new();
        if write_table(&mut bytes, &Table(headers.clone())).is_err() {
            // The headers of the original may be nested as deep as is allowed.
            headers.retain(|(name, _)| name != "properties");
            let written = write_table(&mut bytes, &Table(headers));
            debug_assert!(written.is_ok(), "what is left is flat");
        }
        let mut key = format!("{what}.{of}");
        key.truncate(key.floor_char_boundary(NAME_MAX));
        let head = Head {
            published_at: self.clock.unix_ms(),
            exchange: EXCHANGE,
            routing_key: &key,
            properties: &bytes,
            ..Head::EMPTY
        };
        arena.add(&head, message.body())
    }
}

/// Properties under the names of AMQP 0-9-1, those that are there.
fn as_table(properties: Properties) -> Table {
    let text = |text: Option<String>| text.map(Value::Text);
    let delivery_mode = Some(Value::U8(if properties.persistent { 2 } else { 1 }));
    let headers = Some(properties.headers).filter(|headers| !headers.is_empty()).map(Value::Table);
    let all = [
        ("content_type", text(properties.content_type)),
        ("content_encoding", text(properties.content_encoding)),
        ("headers", headers),
        ("delivery_mode", delivery_mode),
        ("priority", properties.priority.map(Value::U8)),
        ("correlation_id", properties.correlation_id.map(Value::from)),
        ("reply_to", text(properties.reply_to)),
        ("expiration", properties.expiration.map(|ttl| Value::Text(ttl.to_string()))),
        ("message_id", properties.message_id.map(Value::from)),
        ("timestamp", properties.timestamp.map(Value::Timestamp)),
        ("type", text(properties.kind)),
        ("user_id", text(properties.user_id)),
        ("app_id", text(properties.app_id)),
        ("cluster_id", text(properties.cluster_id)),
    ];
    Table(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}
