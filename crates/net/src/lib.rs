//! Sockets and time: the only place with sockets on the data path.
//!
//! [`Listener`] binds, and the accept loop admits within limits. One task per connection
//! ([`drive`]) moves bytes between its socket and a [`wire::Connection`], which it never looks
//! into. [`Net`] owns the threads and the [`Registry`] of what is connected. Whether a socket is
//! plain, within TLS or a WebSocket is seen by `handshake` and `stream` alone. A connection never
//! outlives its registration, and a panic in one ends that one.

mod accept;
mod any;
mod aside;
mod detect;
mod drive;
mod encryption;
mod flush;
mod handshake;
mod handshake_threads;
mod heavy;
mod input;
mod linger;
mod listener;
mod log_throttle;
mod proxy;
mod registry;
mod screen;
mod server;
mod settings;
mod spin;
mod stream;
mod timer;
mod tls;
mod upgrade;
mod wakeup;
mod web;

pub use any::{Any, Plain, Spoken};
pub use encryption::{Encryption, PeerCertificate};
pub use listener::{Admission, BindError, Listener, Nagle};
pub use proxy::{Unproxied, introduce};
pub use registry::{ConnectionInfo, Registry};
pub use server::{Net, io_threads_for};
pub use settings::Settings;
pub use tls::Tls;
pub use web::{Naming, Web, WebMessages};
