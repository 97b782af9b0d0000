//! AMQP 1.0 (OASIS Standard, 29 October 2012; ISO/IEC 19464): the codec.
//!
//! [`codec`] turns bytes into values, frames and sections of messages, and back, without state.
//! [`delivery`] cuts messages into transfers, and puts them together.

pub mod codec;
pub mod delivery;
pub mod limits;
