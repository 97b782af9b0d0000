//! The token of an invitation: one text that says where to go, which authority to trust there, and
//! by which secret the one that comes is known.
//!
//! Invariant: a text that was cut or mistyped is no token. The secret is in no file: what is kept
//! of it is its digest.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

/// The version of the token.
const VERSION: u8 = 1;
/// Bytes of the digest that tells a mistyped text.
const CHECK: usize = 4;
/// Most bytes of an address.
const LONGEST_ADDRESS: usize = 255;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// When it ends, in seconds since 1970.
    pub until: u64,
    /// What the one that shows it is known by.
    pub secret: [u8; 16],
    /// The public key of the cluster's authority.
    pub authority: [u8; 32],
    /// Where the node listens that it was made by: a host and a port.
    pub address: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { until, address, .. } = self;
        f.debug_struct("Token").field("until", until).field("address", address).finish_non_exhaustive()
    }
}

impl Token {
    /// The text.
    pub fn text(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.until.to_le_bytes());
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&self.authority);
        bytes.extend_from_slice(self.address.as_bytes());
        let check = digest(&SHA256, &bytes);
        bytes.extend_from_slice(&check.as_ref()[..CHECK]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, as a text.
    pub fn read(text: &str) -> Result<Self, String> {
        let broken =
            || "it is no token, or only a part of one: copy the whole line of hermod cluster invite".to_owned();
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| broken())?;
        let (bytes, check) = bytes.split_last_chunk::<CHECK>().ok_or_else(broken)?;
        if digest(&SHA256, bytes).as_ref()[..CHECK] != *check {
            return Err(broken());
        }
        let (&version, rest) = bytes.split_first().ok_or_else(broken)?;
        if version != VERSION {
            return Err(format!("it is of version {version}, and this program knows version {VERSION}"));
        }
        let (until, rest) = rest.split_first_chunk().ok_or_else(broken)?;
        let (secret, rest) = rest.split_first_chunk().ok_or_else(broken)?;
        let (authority, rest) = rest.split_first_chunk().ok_or_else(broken)?;
        let address = std::str::from_utf8(rest).map_err(|_| broken())?;
        if address.is_empty() || address.len() > LONGEST_ADDRESS {
            return Err(broken());
        }
        let (secret, authority, address) = (*secret, *authority, address.to_owned());
        Ok(Self { until: u64::from_le_bytes(*until), secret, authority, address })
    }
}

/// The name under which an invitation is kept.
pub(crate) fn name_of(secret: &[u8; 16]) -> String {
    digest(&SHA256, secret).as_ref().iter().fold(String::new(), |mut name, byte| {
        use fmt::Write;
        let _ = write!(name, "{byte:02x}");
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_whole_or_not_at_all() {
        let token = Token { until: 7, secret: [1; 16], authority: [2; 32], address: "[::1]:5679".to_owned() };
        let text = token.text();
        assert_eq!(Token::read(&format!(" {text}\n")), Ok(token.clone()));
        for cut in 0..text.len() {
            assert!(Token::read(&text[..cut]).is_err(), "{cut}");
            let mut changed = text.clone().into_bytes();
            changed[cut] = if changed[cut] == b'A' { b'B' } else { b'A' };
            assert!(Token::read(std::str::from_utf8(&changed).unwrap()).is_err(), "{cut}");
        }
        assert!(!format!("{token:?}").contains("secret"), "the secret is not shown: {token:?}");
    }
}
