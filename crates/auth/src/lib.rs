//! Who may log in, and what each user may do: users, password hashes, permissions and the SASL
//! responses of clients.
//!
//! [`Authority`] holds all users in memory and answers the two questions that a session asks. Is
//! this password right ([`Authority::login`])? May this identity do that ([`Authority::authorize`],
//! which every operation of every protocol passes)? The crate does no I/O; the clock and all
//! randomness come in as arguments. Only answers from elsewhere are dated here.

mod again;
mod asking;
mod authority;
mod backend;
mod identity;
mod login;
mod members;
mod password;
pub mod pattern;
mod permission;
mod ruling;
pub mod sasl;
mod scopes;
pub mod shown;
mod sign_on;
mod successes;
mod throttle;
mod topic;
mod user;

pub use asking::{About, Asked, Judge};
pub use authority::{Authority, AuthoritySettings};
pub use backend::{Backend, Credentials, Grant, No, RightsOf, Step, Vouched};
pub use identity::{Identity, NotRenewed};
pub use login::{Login, LoginCounts, Plan, Refusal};
pub use password::{Cost, PasswordError, PasswordHash};
pub use pattern::{Pattern, PatternError};
pub use permission::{Denied, Permission, Resource, ResourceKind, Right};
pub use ruling::Ruling;
pub use scopes::{MOST_SCOPES, Scopes};
pub use sign_on::{Journey, SignOn};
pub use throttle::FailureLimits;
pub use topic::{Actor, Spelling, TopicPattern, TopicPermission};
pub use user::{Tags, User, UserError, UserLimits, shown_name};
/// Whether questions about rights may wait now: they ask a program elsewhere then.
pub use wire::waiting;
