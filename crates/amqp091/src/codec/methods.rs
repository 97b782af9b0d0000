//! Every method of AMQP 0-9-1 and of RabbitMQ's extensions, as plain structures that borrow from
//! the frame.
//!
//! One list at the end of this file says everything: class and method number, name, and arguments
//! in wire order. The numbers and names are those of the specification (§1.8 to §1.12 of its
//! reference) and of RabbitMQ's extensions.

use wire::{DecodeError, Reader};

use crate::codec::Table;
use crate::codec::fields::{Field, FieldReader, FieldWriter};
use crate::codec::frame::{FrameKind, begin_frame, finish_frame};

/// Why a method frame could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodError {
    /// No specification and no extension has this method.
    Unknown {
        /// Class number.
        class: u16,
        /// Method number within the class.
        method: u16,
    },
    /// The arguments do not decode.
    Malformed {
        /// Class number; 0 if the payload is too short for it.
        class: u16,
        /// Method number within the class; 0 if the payload is too short for it.
        method: u16,
        /// What is wrong.
        error: DecodeError,
    },
}

impl std::fmt::Display for MethodError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { class, method } => write!(f, "unknown method {class}.{method}"),
            Self::Malformed { class, method, error } => write!(f, "malformed method {class}.{method}: {error}"),
        }
    }
}

impl std::error::Error for MethodError {}

/// Reads the payload of a method frame.
///
/// # Errors
/// When the method is unknown, an argument is malformed, or bytes are missing or left over.
#[inline]
pub fn decode_method(payload: &[u8]) -> Result<Method<'_>, MethodError> {
    let mut head = Reader::new(payload);
    let ids = head.u16().and_then(|class| Ok((class, head.u16()?)));
    match ids {
        Ok((class, method)) => Method::decode(class, method, head.rest()),
        Err(error) => Err(MethodError::Malformed { class: 0, method: 0, error }),
    }
}

/// Reads the payload of a method frame if it is a publish, as most are.
#[inline(always)]
pub(crate) fn decode_publish(payload: &[u8]) -> Option<Result<BasicPublish<'_>, MethodError>> {
    let [0, 60, 0, 40, arguments @ ..] = payload else { return None };
    Some(BasicPublish::read(arguments))
}

/// Turns the list of methods into structures, an enum of all of them, and encoding and decoding. It
/// is a macro because each line of the list becomes a type of its own.
macro_rules! methods {
    ($( $(#[$doc:meta])* $class:literal $id:literal $wire_name:literal
        $name:ident $(<$life:lifetime>)? { $($field:ident : $kind:ty),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Default)]
            #[allow(missing_docs, reason = "the arguments are those of the specification, by its names")]
            pub struct $name $(<$life>)? { $(pub $field: $kind),* }

            impl<'a> $name $(<$life>)? {
                /// Reads its arguments. Part of the caller, which looks at them right away: what is
                /// handed over in pieces of other sizes waits until these are stored.
                #[inline(always)]
                fn read(arguments: &'a [u8]) -> Result<Self, MethodError> {
                    let malformed = |error| MethodError::Malformed { class: $class, method: $id, error };
                    let mut fields = FieldReader::new(arguments);
                    let read = Self { $($field: Field::read(&mut fields).map_err(malformed)?),* };
                    let _ = &mut fields;
                    fields.finish().map_err(malformed)?;
                    Ok(read)
                }
            }

            impl<'a> From<$name $(<$life>)?> for Method<'a> {
                #[inline]
                fn from(method: $name $(<$life>)?) -> Self {
                    Self::$name(method)
                }
            }
        )*

        /// Any method.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[allow(missing_docs, reason = "each variant is documented at its structure")]
        pub enum Method<'a> { $($name($name $(<$life>)?)),* }

        impl<'a> Method<'a> {
            #[inline]
            fn decode(class: u16, method: u16, arguments: &'a [u8]) -> Result<Self, MethodError> {
                Ok(match (class, method) {
                    $(($class, $id) => Self::$name($name::read(arguments)?),)*
                    _ => return Err(MethodError::Unknown { class, method }),
                })
            }

            /// Class and method number.
            pub fn id(&self) -> (u16, u16) {
                match self { $(Self::$name(_) => ($class, $id)),* }
            }

            /// The name in the specification's notation: `queue.declare`.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $wire_name),* }
            }

            /// The name of the method with these numbers, if there is one.
            pub fn name_of(class: u16, method: u16) -> Option<&'static str> {
                match (class, method) {
                    $(($class, $id) => Some($wire_name),)*
                    _ => None,
                }
            }

            /// Appends the payload of this method's frame.
            fn encode_payload(&self, out: &mut Vec<u8>) {
                let (class, method) = self.id();
                out.extend_from_slice(&class.to_be_bytes());
                out.extend_from_slice(&method.to_be_bytes());
                let mut fields = FieldWriter::new(out);
                match self {
                    $(Self::$name($name { $($field),* }) => { $(Field::write($field, &mut fields);)* })*
                }
                let _ = &mut fields;
            }
        }

        /// One method of each kind, for tests.
        #[cfg(test)]
        fn one_of_each() -> Vec<Method<'static>> {
            vec![$(Method::$name($name::default())),*]
        }
    };
}

impl Method<'_> {
    /// Appends this method as a whole frame.
    pub fn encode(&self, channel: u16, out: &mut Vec<u8>) {
        let start = begin_frame(out, FrameKind::Method, channel);
        self.encode_payload(out);
        finish_frame(out, start);
    }
}

/// The name of a method by its numbers, as `queue.declare`; `None` if there is none.
pub fn method_name(class: u16, method: u16) -> Option<&'static str> {
    match Method::decode(class, method, &[]) {
        Ok(method) => Some(method.name()),
        Err(MethodError::Unknown { .. }) => None,
        // The method does not decode without arguments, and does with zeroes: the longest needs
        // fewer than 32 octets.
        Err(MethodError::Malformed { .. }) => {
            const ZEROES: [u8; 32] = [0; 32];
            (1..ZEROES.len()).find_map(|n| Method::decode(class, method, &ZEROES[..n]).ok()).map(|m| m.name())
        }
    }
}

methods! {
    /// The server opens: version, properties, mechanisms.
    10 10 "connection.start" ConnectionStart<'a> {
        version_major: u8, version_minor: u8, server_properties: Table<'a>, mechanisms: &'a [u8], locales: &'a [u8],
    }
    /// The client chooses a mechanism and presents itself.
    10 11 "connection.start_ok" ConnectionStartOk<'a> {
        client_properties: Table<'a>, mechanism: &'a str, response: &'a [u8], locale: &'a str,
    }
    /// The server asks for more data of the log-in.
    10 20 "connection.secure" ConnectionSecure<'a> { challenge: &'a [u8] }
    /// The client's data for the log-in.
    10 21 "connection.secure_ok" ConnectionSecureOk<'a> { response: &'a [u8] }
    /// The server proposes limits.
    10 30 "connection.tune" ConnectionTune { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The client settles the limits.
    10 31 "connection.tune_ok" ConnectionTuneOk { channel_max: u16, frame_max: u32, heartbeat: u16 }
    /// The client names its virtual host.
    10 40 "connection.open" ConnectionOpen<'a> { virtual_host: &'a str, capabilities: &'a str, insist: bool }
    /// The connection is open.
    10 41 "connection.open_ok" ConnectionOpenOk<'a> { known_hosts: &'a str }
    /// Either side closes, with a reason.
    10 50 "connection.close" ConnectionClose<'a> {
        reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16,
    }
    /// The answer to a close; nothing follows.
    10 51 "connection.close_ok" ConnectionCloseOk {}
    /// The server does not read publishes at the moment (RabbitMQ).
    10 60 "connection.blocked" ConnectionBlocked<'a> { reason: &'a str }
    /// The server reads again (RabbitMQ).
    10 61 "connection.unblocked" ConnectionUnblocked {}
    /// The client renews its credentials (RabbitMQ).
    10 70 "connection.update_secret" ConnectionUpdateSecret<'a> { new_secret: &'a [u8], reason: &'a str }
    /// The new credentials are accepted (RabbitMQ).
    10 71 "connection.update_secret_ok" ConnectionUpdateSecretOk {}

    /// Opens a channel.
    20 10 "channel.open" ChannelOpen<'a> { out_of_band: &'a str }
    /// The channel is open.
    20 11 "channel.open_ok" ChannelOpenOk<'a> { channel_id: &'a [u8] }
    /// Asks the peer to stop or resume sending content.
    20 20 "channel.flow" ChannelFlow { active: bool }
    /// The answer to a flow request.
    20 21 "channel.flow_ok" ChannelFlowOk { active: bool }
    /// Either side closes the channel, with a reason.
    20 40 "channel.close" ChannelClose<'a> { reply_code: u16, reply_text: &'a str, class_id: u16, method_id: u16 }
    /// The answer to a close; the channel number is free.
    20 41 "channel.close_ok" ChannelCloseOk {}

    /// Asks for a ticket, which only old clients do.
    30 10 "access.request" AccessRequest<'a> {
        realm: &'a str, exclusive: bool, passive: bool, active: bool, write: bool, read: bool,
    }
    /// The ticket.
    30 11 "access.request_ok" AccessRequestOk { ticket: u16 }

    /// Declares an exchange.
    40 10 "exchange.declare" ExchangeDeclare<'a> {
        ticket: u16, exchange: &'a str, kind: &'a str, passive: bool, durable: bool, auto_delete: bool,
        internal: bool, nowait: bool, arguments: Table<'a>,
    }
    /// The exchange exists.
    40 11 "exchange.declare_ok" ExchangeDeclareOk {}
    /// Deletes an exchange.
    40 20 "exchange.delete" ExchangeDelete<'a> { ticket: u16, exchange: &'a str, if_unused: bool, nowait: bool }
    /// The exchange is deleted.
    40 21 "exchange.delete_ok" ExchangeDeleteOk {}
    /// Binds an exchange to an exchange (RabbitMQ).
    40 30 "exchange.bind" ExchangeBind<'a> {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, nowait: bool, arguments: Table<'a>,
    }
    /// The binding exists (RabbitMQ).
    40 31 "exchange.bind_ok" ExchangeBindOk {}
    /// Removes a binding between exchanges (RabbitMQ).
    40 40 "exchange.unbind" ExchangeUnbind<'a> {
        ticket: u16, destination: &'a str, source: &'a str, routing_key: &'a str, nowait: bool, arguments: Table<'a>,
    }
    /// The binding is deleted. The number is a mistake of RabbitMQ's that all clients follow.
    40 51 "exchange.unbind_ok" ExchangeUnbindOk {}

    /// Declares a queue.
    50 10 "queue.declare" QueueDeclare<'a> {
        ticket: u16, queue: &'a str, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, nowait: bool,
        arguments: Table<'a>,
    }
    /// The queue exists, with these numbers of ready messages and consumers.
    50 11 "queue.declare_ok" QueueDeclareOk<'a> { queue: &'a str, message_count: u32, consumer_count: u32 }
    /// Binds a queue to an exchange.
    50 20 "queue.bind" QueueBind<'a> {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, nowait: bool, arguments: Table<'a>,
    }
    /// The binding exists.
    50 21 "queue.bind_ok" QueueBindOk {}
    /// Drops all ready messages of a queue.
    50 30 "queue.purge" QueuePurge<'a> { ticket: u16, queue: &'a str, nowait: bool }
    /// How many messages were dropped.
    50 31 "queue.purge_ok" QueuePurgeOk { message_count: u32 }
    /// Deletes a queue.
    50 40 "queue.delete" QueueDelete<'a> {
        ticket: u16, queue: &'a str, if_unused: bool, if_empty: bool, nowait: bool,
    }
    /// The queue is deleted, with this number of messages.
    50 41 "queue.delete_ok" QueueDeleteOk { message_count: u32 }
    /// Removes a binding of a queue.
    50 50 "queue.unbind" QueueUnbind<'a> {
        ticket: u16, queue: &'a str, exchange: &'a str, routing_key: &'a str, arguments: Table<'a>,
    }
    /// The binding is deleted.
    50 51 "queue.unbind_ok" QueueUnbindOk {}

    /// Sets the prefetch limits.
    60 10 "basic.qos" BasicQos { prefetch_size: u32, prefetch_count: u16, global: bool }
    /// The limits are set.
    60 11 "basic.qos_ok" BasicQosOk {}
    /// Starts a consumer.
    60 20 "basic.consume" BasicConsume<'a> {
        ticket: u16, queue: &'a str, consumer_tag: &'a str, no_local: bool, no_ack: bool, exclusive: bool,
        nowait: bool, arguments: Table<'a>,
    }
    /// The consumer runs under this tag.
    60 21 "basic.consume_ok" BasicConsumeOk<'a> { consumer_tag: &'a str }
    /// Ends a consumer; the server also sends it when the queue is deleted.
    60 30 "basic.cancel" BasicCancel<'a> { consumer_tag: &'a str, nowait: bool }
    /// The consumer has ended.
    60 31 "basic.cancel_ok" BasicCancelOk<'a> { consumer_tag: &'a str }
    /// Publishes the content that follows.
    60 40 "basic.publish" BasicPublish<'a> {
        ticket: u16, exchange: &'a str, routing_key: &'a str, mandatory: bool, immediate: bool,
    }
    /// Returns an unroutable message; content follows.
    60 50 "basic.return" BasicReturn<'a> {
        reply_code: u16, reply_text: &'a str, exchange: &'a str, routing_key: &'a str,
    }
    /// Delivers a message to a consumer; content follows.
    60 60 "basic.deliver" BasicDeliver<'a> {
        consumer_tag: &'a str, delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str,
    }
    /// Fetches one message.
    60 70 "basic.get" BasicGet<'a> { ticket: u16, queue: &'a str, no_ack: bool }
    /// The fetched message, and how many are left; content follows.
    60 71 "basic.get_ok" BasicGetOk<'a> {
        delivery_tag: u64, redelivered: bool, exchange: &'a str, routing_key: &'a str, message_count: u32,
    }
    /// The queue has no ready message.
    60 72 "basic.get_empty" BasicGetEmpty<'a> { cluster_id: &'a str }
    /// Settles deliveries, or confirms publishes.
    60 80 "basic.ack" BasicAck { delivery_tag: u64, multiple: bool }
    /// Refuses one delivery.
    60 90 "basic.reject" BasicReject { delivery_tag: u64, requeue: bool }
    /// Asks for redelivery, without an answer.
    60 100 "basic.recover_async" BasicRecoverAsync { requeue: bool }
    /// Asks for redelivery.
    60 110 "basic.recover" BasicRecover { requeue: bool }
    /// The unsettled messages are delivered again.
    60 111 "basic.recover_ok" BasicRecoverOk {}
    /// Refuses deliveries, or reports refused publishes (RabbitMQ).
    60 120 "basic.nack" BasicNack { delivery_tag: u64, multiple: bool, requeue: bool }

    /// Switches the channel to confirm mode (RabbitMQ).
    85 10 "confirm.select" ConfirmSelect { nowait: bool }
    /// Publishes are confirmed from here on (RabbitMQ).
    85 11 "confirm.select_ok" ConfirmSelectOk {}

    /// Makes the channel transactional.
    90 10 "tx.select" TxSelect {}
    /// The channel is transactional.
    90 11 "tx.select_ok" TxSelectOk {}
    /// Commits the open transaction.
    90 20 "tx.commit" TxCommit {}
    /// The transaction is committed.
    90 21 "tx.commit_ok" TxCommitOk {}
    /// Rolls the open transaction back.
    90 30 "tx.rollback" TxRollback {}
    /// The transaction is rolled back.
    90 31 "tx.rollback_ok" TxRollbackOk {}
}

#[cfg(test)]
mod tests;
