//! Log-ins that are asked of several backends: their order, what is kept, what a failure lets in.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::{Backend, Credentials, Grant, No, NotRenewed, RightsOf, Scopes, Step, Vouched};

/// Knows users whose password is their name backwards, or says that it can't be asked. It takes no
/// secret that begins with a dot.
#[derive(Debug, Default)]
struct Mirror {
    asked: AtomicUsize,
    is_down: AtomicBool,
}

impl Backend for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn takes(&self, secret: &[u8]) -> bool {
        !secret.starts_with(b".")
    }

    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(No::Unavailable("no answer".to_owned()));
        }
        let user = credentials.user;
        let (name, words) = user.split_once(' ').unwrap_or((user, ""));
        if name.bytes().rev().ne(credentials.secret.iter().copied()) {
            return Err(No::Refused("not backwards".to_owned()));
        }
        let (scopes, tags) = Scopes::parse(words.split(' ')).unwrap();
        let grant = Grant { user: name.into(), backend: "mirror", tags, scopes, expires: Some(7) };
        Ok(Vouched { grant, valid_for: Duration::from_secs(10) })
    }
}

fn with(steps: &[&str]) -> (Authority, Arc<Mirror>) {
    let mirror = Arc::new(Mirror::default());
    let step = |name: &&str| match *name {
        "internal" => Step::Internal,
        "mirror" => Step::Elsewhere { backend: mirror.clone(), rights: RightsOf::Backend },
        _ => Step::Elsewhere { backend: mirror.clone(), rights: RightsOf::Internal },
    };
    let plan = Plan { steps: steps.iter().map(step).collect(), ..Plan::internal() };
    let authority = Authority::new(AuthoritySettings { plan, ..AuthoritySettings::new([5; 32]) }).unwrap();
    let hash = PasswordHash::create(b"wonder", [1; 16], QUICK).unwrap();
    let mut user = User::new("alice", Some(hash));
    user.tags = Tags::new(["policymaker"]);
    user.permissions.insert("/".into(), Permission::full());
    authority.put(user).unwrap();
    (authority, mirror)
}

#[test]
fn backends_are_asked_in_their_order_until_one_lets_in() {
    let internal_no = "internal: unknown user or wrong password";
    for (steps, user, password, expected) in [
        (&["internal", "mirror"][..], "alice", "wonder", Ok(("alice", None))),
        (&["internal", "mirror"], "bob", "bob", Ok(("bob", Some("mirror")))),
        (&["internal", "mirror"], "alice", "ecila", Ok(("alice", Some("mirror")))),
        (&["internal", "mirror"], "bob", "x", Err(format!("{internal_no}; mirror: not backwards"))),
        (&["internal", "mirror"], "bob", ".x", Err("unknown user or wrong password".to_owned())),
        (&["mirror", "internal"], "alice", "wonder", Ok(("alice", None))),
        (&["mirror", "internal"], "alice", "ecila", Ok(("alice", Some("mirror")))),
        (&["mirror"], "alice", "wonder", Err("mirror: not backwards".to_owned())),
        (&["mirror"], "alice", ".wonder", Err("unknown user or wrong password".to_owned())),
        // The rights are those of the user here.
        (&["mirror/internal"], "alice", "ecila", Ok(("alice", None))),
        (&["mirror/internal"], "bob", "bob", Err(Refusal::NoRights.to_string())),
        (&["internal", "mirror"], "guest", "tseug", Ok(("guest", Some("mirror")))),
    ] {
        let (authority, _) = with(steps);
        let outcome = authority.verify(user, password.as_bytes(), LOOPBACK, Instant::now());
        let seen = outcome.as_ref().map(|identity| (identity.user(), identity.backend()));
        assert_eq!(seen.map_err(Refusal::to_string), expected, "{user} of {steps:?}");
    }
}

#[test]
fn an_empty_password_and_a_user_from_elsewhere_are_refused_before_anything_is_asked() {
    let (authority, mirror) = with(&["mirror"]);
    let now = Instant::now();
    for (user, password, from, expected) in [
        ("", "", LOOPBACK, Refusal::EmptyPassword),
        ("bob", "", LOOPBACK, Refusal::EmptyPassword),
        ("guest", "tseug", ELSEWHERE, Refusal::NotLoopback),
        ("bob", &"x".repeat(16 * 1024 + 1), LOOPBACK, Refusal::WrongCredentials),
    ] {
        assert_eq!(authority.verify(user, password.as_bytes(), from, now).unwrap_err(), expected, "{user}");
    }
    assert_eq!(mirror.asked.load(Ordering::Relaxed), 0);
    // The name that a backend gives counts, too.
    let refused = authority.verify("guest tag:administrator", b"tseug", ELSEWHERE, now).unwrap_err();
    assert_eq!(refused, Refusal::NotLoopback);
}

#[test]
fn an_answer_is_taken_again_for_the_same_credentials_and_a_while() {
    let (authority, mirror) = with(&["internal", "mirror"]);
    let now = Instant::now();
    let ask = |user: &str, password: &str, after, expected_questions| {
        let outcome = authority.verify(user, password.as_bytes(), LOOPBACK, now + Duration::from_secs(after));
        assert_eq!(mirror.asked.load(Ordering::Relaxed), expected_questions, "{user} {password} after {after} s");
        outcome.is_ok()
    };
    assert!(ask("bob", "bob", 0, 1));
    assert!(ask("bob", "bob", 9, 1));
    assert!(!ask("bob", "bo", 9, 2), "another password");
    assert!(!ask("bo", "bob", 9, 3), "another user");
    assert!(ask("bob", "bob", 10, 4), "the backend lets an answer be kept for 10 s");
    authority.forget_answers();
    let again = authority.verify("bob", b"bob", LOOPBACK, now + Duration::from_secs(10));
    assert!(again.is_ok());
    assert_eq!(mirror.asked.load(Ordering::Relaxed), 5);
}

#[test]
fn a_backend_that_cannot_be_asked_lets_no_one_in_and_locks_no_one_out() {
    let (authority, mirror) = with(&["mirror", "internal"]);
    mirror.is_down.store(true, Ordering::Relaxed);
    let now = Instant::now();
    let refused = authority.verify("bob", b"bob", LOOPBACK, now).unwrap_err();
    let reasons = "mirror: no answer; internal: unknown user or wrong password";
    assert_eq!(refused, Refusal::Unavailable(reasons.to_owned()));
    assert!(authority.verify("alice", b"wonder", LOOPBACK, now).is_ok(), "the next backend still does");
    for _ in 0..100 {
        assert!(authority.verify("bob", b"bob", LOOPBACK, now).is_err());
    }
    mirror.is_down.store(false, Ordering::Relaxed);
    assert!(authority.verify("bob", b"bob", LOOPBACK, now).is_ok(), "the outage was no guess at bob's password");
}

#[test]
fn wrong_credentials_count_once_whatever_was_asked() {
    let (authority, mirror) = with(&["internal", "mirror"]);
    let now = Instant::now();
    for _ in 0..FailureLimits::default().per_user {
        let refused = authority.verify("bob", b"x", LOOPBACK, now).unwrap_err();
        assert!(matches!(refused, Refusal::Elsewhere(_)), "{refused:?}");
    }
    let asked = mirror.asked.load(Ordering::Relaxed);
    assert_eq!(authority.verify("bob", b"bob", LOOPBACK, now).unwrap_err(), Refusal::TooManyFailures);
    assert_eq!(mirror.asked.load(Ordering::Relaxed), asked, "none is asked for a user beyond the limit");
}

#[test]
fn rights_are_those_of_the_grant_and_not_of_a_user_of_that_name_here() {
    let (authority, _) = with(&["mirror"]);
    let user = "alice read:%2F/in.* write:%2F/logs/app.* tag:monitoring";
    let identity = authority.verify(user, b"ecila", LOOPBACK, Instant::now()).unwrap();
    assert!(authority.is_current(&identity) && authority.is_tagged(&identity, "monitoring"));
    assert!(!authority.is_tagged(&identity, "policymaker"), "that is the tag of alice here");
    assert_eq!((identity.backend(), identity.expires()), (Some("mirror"), Some(7)));
    assert!(authority.enter(&identity, "/").is_ok() && authority.enter(&identity, "other").is_err());
    // Twice: the second round meets decisions that are kept.
    for _ in 0..2 {
        for (name, right, expected) in
            [("in.1", Right::Read, true), ("in.1", Right::Write, false), ("out", Right::Read, false)]
        {
            let outcome = authority.authorize(&identity, "/", Resource::queue(name), right);
            assert_eq!(outcome.is_ok(), expected, "{right} {name}");
        }
    }
    for (key, expected) in [("app.x", true), ("sys.x", false)] {
        let outcome = authority.authorize_topic(&identity, "/", "logs", key, Right::Write);
        assert_eq!(outcome.is_ok(), expected, "{key}");
    }
}

#[test]
fn a_renewal_changes_the_rights_at_once_and_never_the_user() {
    let (authority, _) = with(&["mirror"]);
    let log_in = |user: &str, secret: &[u8]| authority.verify(user, secret, LOOPBACK, Instant::now()).unwrap();
    let identity = log_in("alice read:*/*", b"ecila");
    let reads = |identity: &Identity| authority.authorize(identity, "/", Resource::queue("q"), Right::Read).is_ok();
    assert!(reads(&identity));
    assert_eq!(identity.renew(&log_in("bob read:*/*", b"bob")), Err(NotRenewed::OtherUser));
    identity.renew(&log_in("alice write:*/*", b"ecila")).unwrap();
    assert!(!reads(&identity), "a decision of before does not count");
    let copy = identity.clone();
    identity.renew(&log_in("alice read:*/*", b"ecila")).unwrap();
    assert!(reads(&copy), "copies are renewed with it");
    let (own, _) = with(&["internal"]);
    let own_identity = own.verify("alice", b"wonder", LOOPBACK, Instant::now()).unwrap();
    assert_eq!(own_identity.renew(&identity), Err(NotRenewed::HasNone));
    let waker = Waker::noop().clone();
    assert!(own.renew(&own_identity, b"x", LOOPBACK, Instant::now(), waker).is_none());
}

#[test]
fn only_the_backend_that_let_in_is_asked_for_a_renewal() {
    let (authority, mirror) = with(&["internal", "mirror"]);
    let now = Instant::now();
    let identity = authority.verify("bob", b"bob", LOOPBACK, now).unwrap();
    let renew = |secret: &[u8]| {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let login = authority.renew(&identity, secret, LOOPBACK, now, waker).unwrap();
        loop {
            match login.take() {
                Some(outcome) => return outcome,
                None => std::thread::park(),
            }
        }
    };
    assert_eq!(renew(b"bob").unwrap().user(), "bob");
    assert_eq!(renew(b"x").unwrap_err(), Refusal::Elsewhere("mirror: not backwards".to_owned()));
    assert_eq!(renew(b"").unwrap_err(), Refusal::EmptyPassword);
    assert_eq!(renew(b".b").unwrap_err(), Refusal::WrongCredentials);
    assert_eq!(mirror.asked.load(Ordering::Relaxed), 3);
}

/// Who is let in by a token may give any name with it.
#[test]
fn a_success_under_another_name_opens_nothing_for_that_name() {
    let (authority, _) = with(&["mirror"]);
    let now = Instant::now();
    let limits = FailureLimits::default();
    // The mirror knows "bob" by this, and the client calls itself "bob read:*/*".
    assert!(authority.verify("bob read:*/*", b"bob", ELSEWHERE, now).is_ok());
    for number in 0..limits.per_address {
        assert!(authority.verify(&format!("user{number}"), b"x", ELSEWHERE, now).is_err());
    }
    let refused = authority.verify("bob read:*/*", b"x", ELSEWHERE, now).unwrap_err();
    assert_eq!(refused, Refusal::TooManyFailures);
}

#[test]
fn certificates_and_scram_let_no_one_in_where_users_of_this_broker_do_not_count() {
    let now = Instant::now();
    for (steps, expected) in [(&["mirror"][..], false), (&["mirror/internal"], true), (&["internal"], true)] {
        let (authority, _) = with(steps);
        let login = authority.admit("alice", LOOPBACK, now);
        assert_eq!(login.take().unwrap().is_ok(), expected, "{steps:?}");
    }
}

/// A role is given by a scope; what it allows is read from the users of this broker, as it is now.
#[test]
fn a_role_from_elsewhere_gives_the_permissions_of_that_user_here() {
    let (authority, _) = with(&["mirror"]);
    let mut readers = User::new("readers", None);
    readers.permissions.insert("/".into(), Permission::new("", "^amq.topic$", "^orders").unwrap());
    let topics = TopicPermission::new("readers", "/", "^own\\.{username}$", "").unwrap();
    readers.topic_permissions.insert(("/".into(), "amq.topic".into()), topics);
    authority.put(readers.clone()).unwrap();
    let now = Instant::now();
    let words = "bob role:readers role:gone read:other/x";
    let bob = authority.verify(words, b"bob", LOOPBACK, now).unwrap();
    let stranger = authority.verify("eve role:gone", b"eve", LOOPBACK, now).unwrap();
    let may = |who: &Identity, resource, right| authority.authorize(who, "/", resource, right).is_ok();
    let orders = Resource::queue("orders.1");
    assert!(may(&bob, orders, Right::Read) && !may(&bob, orders, Right::Configure));
    assert!(!may(&bob, Resource::queue("x"), Right::Read), "a scope counts where it says");
    assert!(!may(&stranger, orders, Right::Read), "a role that is not there gives nothing");
    assert!(authority.enter(&bob, "/").is_ok() && authority.enter(&stranger, "/").is_err());
    assert!(bob.has_role("readers") && !stranger.has_role("readers"));
    for (key, expected) in [("own.bob", true), ("own.eve", false)] {
        let asked = authority.authorize_topic(&bob, "/", "amq.topic", key, Right::Write);
        assert_eq!(asked.is_ok(), expected, "{key}");
    }
    let elsewhere = authority.authorize_topic(&bob, "/", "other", "own.bob", Right::Write);
    assert!(elsewhere.is_err(), "a role without a right on the exchange frees no key of it");
    let ruling = |resource| authority.explain_identity(&bob, "/", resource, Right::Read);
    let granted = Ruling::Granted { pattern: "^orders".to_owned(), role: Some("readers".to_owned()) };
    assert_eq!(ruling(orders), granted);
    let scope = authority.explain_identity(&bob, "other", Resource::queue("x"), Right::Read);
    assert_eq!(scope, Ruling::Scope("read:other/x".to_owned()));
    assert!(!ruling(Resource::queue("x")).allows());
    // What was allowed is not kept beyond the role.
    authority.remove("readers");
    assert!(!may(&bob, orders, Right::Read));
    assert!(authority.enter(&bob, "/").is_err());
}
