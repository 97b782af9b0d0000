//! The SASL mechanisms, and what the responses say of those with a password. Sans-IO; the check is
//! [`crate::Authority`]'s.

pub mod amqplain;
mod mechanism;
pub mod plain;
pub mod scram;

pub use mechanism::Mechanism;

/// A name and a password as a client sent them. Its `Debug` output hides the password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The password: bytes, since nothing says that it is text.
    pub password: &'a [u8],
}

impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({:?}, hidden)", self.user)
    }
}

/// Why a response is not one of the mechanism; the text says what was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedResponse(pub &'static str);

impl std::fmt::Display for MalformedResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for MalformedResponse {}

/// The name as text.
fn user_name(bytes: &[u8]) -> Result<&str, MalformedResponse> {
    std::str::from_utf8(bytes).map_err(|_| MalformedResponse("the user name is not UTF-8"))
}
