//! What a node has to know of itself after a restart: in which term it is, whether it follows, and
//! whether another node has taken its place.
//!
//! Invariant: what is kept is kept before it counts. A term never goes back. A node that was
//! replaced serves no more until an operator says otherwise.

use std::io;
use std::path::Path;

use crate::keeping;

const FILE: &str = "standing";

/// What a node does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// It serves clients, or has never done anything else.
    #[default]
    Serves,
    /// It follows the node at this address.
    Follows(String),
    /// That node, at that address, has taken its place.
    Replaced {
        /// Its name.
        by: String,
        /// Where it listens for nodes.
        address: String,
    },
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// How often a node of the cluster was promoted, as far as this one knows.
    pub term: u64,
    /// What it does.
    pub role: Role,
    /// Where the node was that it has taken the place of, if that one was not told yet.
    pub to_tell: Option<String>,
}

impl Standing {
    /// Reads it; that of a node which has never been in a cluster if there is none.
    ///
    /// # Errors
    /// When it can't be read, by its name.
    pub fn load(data: &Path) -> io::Result<Self> {
        let path = keeping::folder(data).join(FILE);
        match keeping::read(&path)? {
            None => Ok(Self::default()),
            Some(text) => Self::parse(&text).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: it is not as it was written", path.display()))
            }),
        }
    }

    /// Keeps it. It is on the disk then.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn keep(&self, data: &Path) -> io::Result<()> {
        keeping::write(&keeping::folder(data), FILE, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let role = match &self.role {
            Role::Serves => "serves".to_owned(),
            Role::Follows(address) => format!("follows\t{}", plain(address)),
            Role::Replaced { by, address } => format!("replaced\t{}\t{}", plain(by), plain(address)),
        };
        let tell = self.to_tell.as_deref().map(|address| format!("tell\t{}\n", plain(address))).unwrap_or_default();
        format!("term\t{}\n{role}\n{tell}end\n", self.term)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let term = match lines.next()?.as_slice() {
            ["term", term] => term.parse().ok()?,
            _ => return None,
        };
        let role = match lines.next()?.as_slice() {
            ["serves"] => Role::Serves,
            ["follows", address] => Role::Follows((*address).to_owned()),
            ["replaced", by, address] => Role::Replaced { by: (*by).to_owned(), address: (*address).to_owned() },
            _ => return None,
        };
        let mut next = lines.next()?;
        let mut to_tell = None;
        if let ["tell", address] = next.as_slice() {
            to_tell = Some((*address).to_owned());
            next = lines.next()?;
        }
        (next == ["end"]).then_some(Self { term, role, to_tell })
    }
}

/// A text of a peer, without what ends a field.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_nothing_else_is() {
        let role = Role::Replaced { by: "no\tde\n2".to_owned(), address: "h:1".to_owned() };
        let plain = Role::Replaced { by: "no de 2".to_owned(), address: "h:1".to_owned() };
        for (role, read) in [
            (Role::Serves, Role::Serves),
            (Role::Follows("[::1]:5679".to_owned()), Role::Follows("[::1]:5679".to_owned())),
            (role, plain),
        ] {
            for to_tell in [None, Some("old:5679".to_owned())] {
                let standing = Standing { term: 7, role: role.clone(), to_tell };
                let text = standing.text();
                assert_eq!(Standing::parse(&text), Some(Standing { role: read.clone(), ..standing }));
                for cut in 0..text.len() - 1 {
                    assert_eq!(Standing::parse(&text[..cut]), None, "{text:?} at {cut}");
                }
            }
        }
    }
}
