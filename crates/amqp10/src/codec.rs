//! Bytes of AMQP 1.0 and their meaning, for both ends of a connection.
//!
//! Decoders borrow from their input and allocate nothing. Encoders append to a buffer that the
//! caller owns. Decoders take bytes from untrusted peers: for any input they return a value or an
//! error.

mod composite;
mod descriptor;
mod encode;
pub mod error;
mod format;
pub mod frame;
pub mod message;
mod owned;
pub mod performative;
pub mod sasl;
pub mod state;
mod symbols;
pub mod terminus;
pub mod value;

pub use composite::FieldError;
pub use descriptor::descriptor_code;
pub use encode::{Encode, Symbol, Timestamp};
pub use error::{Error, condition};
pub use frame::{Frame, FrameError, FrameKind, ProtocolId, decode_frame, encode_frame};
pub use message::{Body, Message, MessageId, Section, Sections};
pub use owned::{Elements, Value};
pub use performative::{Performative, decode_performative};
pub use sasl::{SaslFrame, decode_sasl};
pub use state::{DeliveryState, Outcome};
pub use symbols::Symbols;
pub use terminus::{AttachTarget, CoordinatorRequest, Durability, ExpiryPolicy, Source, Target};
pub use value::{Array, Budget, Described, List, Map, ValueRef, read_value};
