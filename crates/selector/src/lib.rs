//! SQL-92 message selectors, as JMS, STOMP and AMQP 1.0 filters use them: parsed once, evaluated in three-valued logic over
//! a look-up of properties.
//!
//! This crate is pure: it depends on nothing of ours and does no I/O. The grammar is not built yet; protocols refuse a
//! selector by name until it is.
