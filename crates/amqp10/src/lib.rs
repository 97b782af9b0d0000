//! AMQP 1.0 (OASIS Standard, 29 October 2012; ISO/IEC 19464): the codec.
//!
//! [`codec`] turns bytes into values, frames and sections of messages, and back. It keeps no state
//! of a connection.

pub mod codec;
pub mod limits;
