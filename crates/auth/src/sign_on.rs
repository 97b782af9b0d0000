//! Logging in on the pages of a server elsewhere, which gives a token for it (the authorization
//! code grant, RFC 6749 §4.1, with the proof key of RFC 7636).

/// A server whose pages people log in on.
pub trait SignOn: std::fmt::Debug + Send + Sync {
    /// What its users call it.
    fn label(&self) -> &str;

    /// The address that it wants to lead people back to, if not the one that they came from.
    fn back(&self) -> Option<&str>;

    /// The address of its page. It may ask the server, on a thread for that.
    ///
    /// # Errors
    /// Why there is none, in words for the log.
    fn page(&self, journey: &Journey) -> Result<String, String>;

    /// The token for a code with which the server has led a person back. It asks the server, on a
    /// thread for that.
    ///
    /// # Errors
    /// Why there is none, in words for the log, without the code.
    fn token(&self, code: &str, journey: &Journey) -> Result<String, String>;
}

/// One person's way to the server and back.
#[derive(Clone)]
pub struct Journey {
    /// The address here that the server leads back to.
    pub back: String,
    /// What proves that the person who comes back is the one who went.
    pub state: String,
    /// What proves that the code is for this broker: a secret, of which the page has the digest.
    pub verifier: String,
}

impl std::fmt::Debug for Journey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journey").field("back", &self.back).finish_non_exhaustive()
    }
}
