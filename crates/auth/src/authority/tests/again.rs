//! What those may do who are connected, when their backend is asked again.

use super::*;
use crate::{Backend, Credentials, Grant, No, RightsOf, Scopes, Step, Vouched};

/// A directory of one user, whose rights change. Anybody's password is right.
#[derive(Debug)]
struct Book {
    /// Nothing: there is no such user. `down`: it can't be asked.
    words: Mutex<&'static str>,
}

impl Book {
    fn grant(&self, user: &str) -> Result<Grant, No> {
        let words = *self.words.lock();
        if words == "down" {
            return Err(No::Unavailable("no answer".to_owned()));
        }
        let (scopes, tags) = Scopes::parse(words.split_whitespace()).unwrap();
        match words {
            "" => Err(No::Refused("gone".to_owned())),
            _ => Ok(Grant { user: user.into(), backend: "book", tags, scopes, expires: Some(7) }),
        }
    }
}

impl Backend for Book {
    fn name(&self) -> &'static str {
        "book"
    }

    fn takes(&self, _secret: &[u8]) -> bool {
        true
    }

    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No> {
        Ok(Vouched { grant: self.grant(credentials.user)?, valid_for: Duration::MAX })
    }

    fn again(&self, user: &str) -> Result<Grant, No> {
        // The end of rights is not what is asked about.
        Ok(Grant { expires: Some(99), ..self.grant(user)? })
    }

    fn asked_again_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }
}

fn with(rights: RightsOf) -> (Authority, Arc<Book>) {
    let book = Arc::new(Book { words: Mutex::new("read:*/*") });
    let plan = Plan { steps: vec![Step::Elsewhere { backend: book.clone(), rights }], ..Plan::internal() };
    let authority = Authority::new(AuthoritySettings { plan, ..AuthoritySettings::new([5; 32]) }).unwrap();
    authority.put(User::new("ada", None)).unwrap();
    (authority, book)
}

fn log_in(authority: &Authority) -> Identity {
    authority.verify("ada", b"x", LOOPBACK, Instant::now()).unwrap()
}

#[test]
fn what_is_told_later_counts_at_once_and_lasts_no_longer() {
    let (authority, book) = with(RightsOf::Backend);
    assert_eq!(authority.asks_again_every(), Some(Duration::from_secs(60)));
    assert!(authority.connected_from_elsewhere().is_empty());
    let identity = log_in(&authority);
    let copies = [identity.clone(), log_in(&authority), identity];
    let [(backend, user)] = &authority.connected_from_elsewhere()[..] else { panic!("one user is connected") };
    assert_eq!((*backend, &**user), ("book", "ada"));
    for (told, expected, reads, writes, is_tagged) in [
        ("read:*/*", Ok(false), true, false, false),
        ("write:*/* tag:monitoring", Ok(true), false, true, true),
        ("write:*/* tag:monitoring", Ok(false), false, true, true),
        ("down", Err("book: no answer".to_owned()), false, true, true),
        ("", Ok(true), false, false, false),
        ("read:*/* write:*/*", Ok(true), true, true, false),
    ] {
        *book.words.lock() = told;
        assert_eq!(authority.ask_again(backend, user), expected, "{told}");
        for identity in &copies {
            // Twice: the second round meets decisions that are kept.
            for _ in 0..2 {
                let may = |right| authority.authorize(identity, "/", Resource::queue("q"), right).is_ok();
                let seen = (may(Right::Read), may(Right::Write), authority.is_tagged(identity, "monitoring"));
                assert_eq!(seen, (reads, writes, is_tagged), "{told}");
            }
            assert_eq!(identity.expires(), Some(7), "a new end is for a new log-in");
        }
    }
}

#[test]
fn a_log_in_gets_no_answer_of_before_rights_have_changed() {
    let (authority, book) = with(RightsOf::Backend);
    let first = log_in(&authority);
    *book.words.lock() = "write:*/*";
    assert_eq!(authority.ask_again("book", &"ada".into()), Ok(true));
    let second = log_in(&authority);
    assert!(authority.authorize(&second, "/", Resource::queue("q"), Right::Read).is_err());
    drop(first);
}

#[test]
fn only_those_are_asked_about_who_are_connected_by_such_rights() {
    let (authority, _) = with(RightsOf::Backend);
    for _ in 0..5000 {
        drop(log_in(&authority));
    }
    assert!(authority.connected_from_elsewhere().is_empty());
    assert_eq!(authority.ask_again("book", &"ada".into()), Ok(false));
    let (authority, _) = with(RightsOf::Internal);
    let _identity = log_in(&authority);
    assert_eq!((authority.asks_again_every(), authority.connected_from_elsewhere()), (None, Vec::new()));
}
