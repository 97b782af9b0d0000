//! Bytes of AMQP 0-9-1 and their meaning, for both ends of a connection and without any state.
//!
//! Decoders borrow from their input and allocate nothing. Encoders append to a buffer that the
//! caller owns. Decoders take bytes from untrusted peers: for any input they return a value or an
//! error.

mod content;
mod fields;
pub mod frame;
pub mod methods;
pub mod properties;
pub mod table;

pub use content::{Body, Content, Deliver, GetOk, Return, encode_deliver, encode_get_ok, encode_return};
pub use frame::{ContentHeader, Frame, FrameError, FrameKind, decode_frame};
pub use methods::{Method, MethodError, decode_method};
pub use properties::{BasicProperties, PropertyScan, decode_properties, scan_properties};
pub use table::{Table, Value, decode_table};
