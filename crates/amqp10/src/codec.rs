//! Bytes of AMQP 1.0 and their meaning, for both ends of a connection.
//!
//! Decoders borrow from their input and allocate nothing. Encoders append to a buffer that the
//! caller owns. Decoders take bytes from untrusted peers: for any input they return a value or an
//! error.

mod encode;
mod format;
mod owned;
pub mod value;

pub use encode::{Encode, Symbol, Timestamp};
pub use owned::{Elements, Value};
pub use value::{Array, Budget, Described, List, Map, ValueRef, read_value};
