//! stomp
