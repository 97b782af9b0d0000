//! The neutral view of a message's properties, between one protocol's reader and another one's
//! writer.

use crate::message::id::Id;
use crate::value::Table;

/// Everything that protocols say about a message besides its body. It is built only where a message
/// crosses protocols, meets a headers exchange or dies; a delivery within one protocol never builds
/// it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties {
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// MIME content encoding of the body.
    pub content_encoding: Option<String>,
    /// The application's headers, in its order. Names may repeat.
    pub headers: Table,
    /// True when the message must survive a restart.
    pub persistent: bool,
    /// 0 (lowest) to 255.
    pub priority: Option<u8>,
    /// Relates a reply to its request.
    pub correlation_id: Option<Id>,
    /// The address for replies.
    pub reply_to: Option<String>,
    /// Time to live as published, in milliseconds.
    pub expiration: Option<u64>,
    /// The application's identifier of the message.
    pub message_id: Option<Id>,
    /// When the application made the message, in milliseconds since 1970-01-01T00:00:00Z.
    pub timestamp: Option<i64>,
    /// The application's name of the kind of message.
    pub kind: Option<String>,
    /// The user that published it, as the publisher claims.
    pub user_id: Option<String>,
    /// The application that published it.
    pub app_id: Option<String>,
    /// A cluster name that old clients set.
    pub cluster_id: Option<String>,
}
