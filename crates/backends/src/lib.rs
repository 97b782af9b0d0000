//! Programs elsewhere that know users, behind [`auth::Backend`]: OAuth 2.0 and OpenID Connect, and
//! directories (LDAP) and web services.
//!
//! A backend is asked on a thread of its own and may wait for a network within its timeouts. What
//! it says becomes a grant. What it can't find out lets no one in.

mod fetch;
pub mod http;
pub mod ldap;
pub mod oauth2;
mod trust;

pub use fetch::{Address, AddressError, Fetch, Web};
pub use trust::Shown;
