//! MQTT 3.1, 3.1.1 and 5.0: packets and their bytes.
//!
//! Nothing here uses a socket or a clock.

pub mod codec;
