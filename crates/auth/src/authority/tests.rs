//! Tables of logins and permissions against an authority with quick hashes.

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::password::MAX_PASSWORD;
use crate::{Actor, Cost, Permission, TopicPermission};

mod again;
mod backends;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const QUICK: Cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };

fn authority() -> Authority {
    let authority = Authority::new(AuthoritySettings::new([5; 32])).unwrap();
    for (name, password) in [("guest", Some("guest")), ("alice", Some("wonder")), ("robot", None)] {
        let hash = password.map(|password| PasswordHash::create(password.as_bytes(), [1; 16], QUICK).unwrap());
        let mut user = User::new(name, hash);
        user.permissions.insert("/".into(), Permission::new("^own\\.", "^(own|shared)\\.", ".*").unwrap());
        user.tags = Tags::new(["monitoring"]);
        authority.put(user).unwrap();
    }
    authority
}

#[test]
fn logins() {
    let authority = authority();
    let now = Instant::now();
    // Twice: the second round meets what the first one made the authority remember.
    for round in 0..2 {
        for (user, password, loopback, expected) in [
            ("guest", "guest", true, None),
            ("guest", "guest", false, Some(Refusal::NotLoopback)),
            ("guest", "wrong", false, Some(Refusal::NotLoopback)),
            ("guest", "wrong", true, Some(Refusal::WrongCredentials)),
            ("guest", "", true, Some(Refusal::EmptyPassword)),
            ("alice", "wonder", false, None),
            ("alice", "wonder", true, None),
            ("alice", "guest", true, Some(Refusal::WrongCredentials)),
            ("Alice", "wonder", true, Some(Refusal::WrongCredentials)),
            ("robot", "robot", true, Some(Refusal::WrongCredentials)),
            ("robot", "", true, Some(Refusal::EmptyPassword)),
            ("stranger", "x", true, Some(Refusal::WrongCredentials)),
            ("", "x", true, Some(Refusal::WrongCredentials)),
        ] {
            let from = if loopback { LOOPBACK } else { ELSEWHERE };
            let outcome = authority.verify(user, password.as_bytes(), from, now);
            match (outcome, expected) {
                (Ok(identity), None) => {
                    assert_eq!(identity.user(), user);
                    assert!(identity.tags().has("monitoring"));
                }
                (Err(refusal), Some(expected)) => assert_eq!(refusal, expected, "{user} in round {round}"),
                (outcome, expected) => unreachable!("{user} in round {round}: {outcome:?}, expected {expected:?}"),
            }
        }
    }
}

#[test]
fn who_is_admitted_without_a_password() {
    let authority = authority();
    for (user, loopback, expected) in [
        ("guest", true, Ok("guest")),
        ("guest", false, Err(Refusal::NotLoopback)),
        ("robot", false, Ok("robot")),
        ("stranger", true, Err(Refusal::WrongCredentials)),
    ] {
        let from = if loopback { LOOPBACK } else { ELSEWHERE };
        let outcome = authority.admit(user, from, Instant::now()).take();
        let admitted = outcome.map(|outcome| outcome.map(|identity| identity.user().to_owned()));
        assert_eq!(admitted, Some(expected.map(str::to_owned)), "{user}");
    }
}

#[test]
fn a_changed_password_ends_what_is_remembered() {
    let authority = authority();
    let now = Instant::now();
    assert!(authority.verify("alice", b"wonder", LOOPBACK, now).is_ok());
    authority.put(User::new("alice", Some(PasswordHash::create(b"land", [2; 16], QUICK).unwrap()))).unwrap();
    assert_eq!(authority.verify("alice", b"wonder", LOOPBACK, now).unwrap_err(), Refusal::WrongCredentials);
    assert!(authority.verify("alice", b"land", LOOPBACK, now).is_ok());
    assert!(authority.remove("alice"));
    assert!(!authority.remove("alice"));
    assert_eq!(authority.verify("alice", b"land", LOOPBACK, now).unwrap_err(), Refusal::WrongCredentials);
}

#[test]
fn after_too_many_failures_no_password_is_looked_at_for_a_while() {
    let settings = AuthoritySettings {
        failures: FailureLimits { per_address: 0, per_user: 3 },
        ..AuthoritySettings::new([5; 32])
    };
    let authority = Authority::new(settings).unwrap();
    authority.put(User::new("alice", Some(PasswordHash::create(b"wonder", [1; 16], QUICK).unwrap()))).unwrap();
    let now = Instant::now();
    // A user that is not there is refused in the same way and as often.
    for name in ["alice", "stranger"] {
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(authority.verify(name, b"guess", ELSEWHERE, now).unwrap_err());
        }
        assert_eq!(seen[..3], [const { Refusal::WrongCredentials }; 3], "{name}");
        assert_eq!(seen[3..], [const { Refusal::TooManyFailures }; 2], "{name}");
    }
    assert_eq!(authority.verify("alice", b"wonder", ELSEWHERE, now).unwrap_err(), Refusal::TooManyFailures);
    assert!(authority.verify("alice", b"wonder", LOOPBACK, now).is_ok(), "from elsewhere no user is locked out");
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, now + Duration::from_secs(20)).is_ok());
    assert_eq!(authority.login_counts(), LoginCounts { succeeded: 2, refused: 6, throttled: 5 });
}

/// An operator may have turned SCRAM off since: its verifiers are still there.
#[test]
fn what_every_check_computes_follows_from_how_passwords_are_kept() {
    let verifier = PasswordHash::create_scram(b"x", [1; 16]).unwrap();
    let quick = PasswordHash::create(b"x", [1; 16], QUICK).unwrap();
    for (scram, password, expected) in [
        (false, &quick, &[Work::Argon2][..]),
        (true, &quick, &[Work::Argon2, Work::Pbkdf2]),
        (false, &verifier, &[Work::Argon2, Work::Pbkdf2]),
    ] {
        let authority = Authority::new(AuthoritySettings { scram, ..AuthoritySettings::new([5; 32]) }).unwrap();
        authority.put(User::new("alice", Some(password.clone()))).unwrap();
        assert_eq!(authority.kept(), expected, "{scram}");
    }
}

#[test]
fn refusals_without_a_look_at_a_password_are_counted_apart() {
    let settings = AuthoritySettings {
        failures: FailureLimits { per_address: 4, per_user: 2 },
        ..AuthoritySettings::new([5; 32])
    };
    let authority = Authority::new(settings).unwrap();
    authority.put(User::new("guest", None)).unwrap();
    authority.put(User::new("alice", Some(PasswordHash::create(b"wonder", [1; 16], QUICK).unwrap()))).unwrap();
    let now = Instant::now();
    let refusal = |login: Login| outcome(&login).unwrap_err();
    let waker = || Waker::from(Arc::new(Count(AtomicUsize::new(0))));
    let long = [b'x'; MAX_PASSWORD + 1];
    let later = now + Duration::from_secs(600);
    let ways: [(Refusal, &dyn Fn() -> Login); 4] = [
        (Refusal::EmptyPassword, &|| authority.login("alice", b"", ELSEWHERE, now, waker())),
        (Refusal::NotLoopback, &|| authority.login("guest", b"guest", ELSEWHERE, now, waker())),
        (Refusal::WrongCredentials, &|| authority.admit("stranger", ELSEWHERE, later)),
        (Refusal::WrongCredentials, &|| authority.login("carol", &long, ELSEWHERE, later, waker())),
    ];
    for (expected, attempt) in ways {
        let seen: Vec<_> = (0..4).map(|_| refusal(attempt())).collect();
        assert_eq!(seen, [expected.clone(), expected, Refusal::TooManyFailures, Refusal::TooManyFailures]);
    }
    for _ in 0..200 {
        refusal(authority.login("alice", b"", ELSEWHERE, later, waker()));
        refusal(authority.admit("alice2", ELSEWHERE, later));
    }
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, later).is_ok(), "they take nothing from a password");
    // Without a password to guess, who may come in is let in after failures too.
    authority.put(User::new("robot", None)).unwrap();
    assert!(outcome(&authority.admit("robot", ELSEWHERE, later)).is_ok());
}

#[test]
fn who_has_just_logged_in_is_let_in_whatever_others_of_its_network_do() {
    let settings = AuthoritySettings {
        failures: FailureLimits { per_address: 5, per_user: 3 },
        ..AuthoritySettings::new([5; 32])
    };
    let authority = Authority::new(settings).unwrap();
    for (name, password) in [("alice", "wonder"), ("bob", "builder")] {
        let hash = PasswordHash::create(password.as_bytes(), [1; 16], QUICK).unwrap();
        authority.put(User::new(name, Some(hash))).unwrap();
    }
    let now = Instant::now();
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, now).is_ok());
    for number in 0..50 {
        let _ = authority.verify(&format!("user{number}"), b"guess", ELSEWHERE, now);
    }
    assert_eq!(authority.verify("bob", b"builder", ELSEWHERE, now).unwrap_err(), Refusal::TooManyFailures);
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, now).is_ok(), "it is remembered");
    let later = now + Duration::from_secs(300);
    (0..50).for_each(|number| drop(authority.verify(&format!("user{number}"), b"guess", ELSEWHERE, later)));
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, later).is_ok(), "it is computed again");
    // Guesses at its own password.
    (0..10).for_each(|_| drop(authority.verify("alice", b"guess", ELSEWHERE, later)));
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, later).is_ok());
    let guesses: Vec<_> = (0..50).map(|_| authority.verify("alice", b"guess", ELSEWHERE, later).unwrap_err()).collect();
    assert_eq!(guesses, vec![Refusal::TooManyFailures; 50], "a guess is told nothing");
}

#[test]
fn an_identity_is_current_while_its_user_has_the_password_that_it_has_shown() {
    let authority = authority();
    let now = Instant::now();
    let alice = authority.verify("alice", b"wonder", LOOPBACK, now).unwrap();
    let robot = outcome(&authority.admit("robot", LOOPBACK, now)).unwrap();
    assert!(authority.is_current(&alice) && authority.is_current(&alice.clone()) && authority.is_current(&robot));
    let change = |name: &str, hash| {
        let user = authority.user(name).unwrap();
        authority.put(User { password: hash, ..user }).unwrap();
    };
    change("alice", Some(PasswordHash::create(b"land", [2; 16], QUICK).unwrap()));
    change("robot", Some(PasswordHash::create(b"land", [2; 16], QUICK).unwrap()));
    assert!(!authority.is_current(&alice));
    assert!(authority.is_current(&robot), "it has shown no password");
    assert!(authority.is_current(&authority.verify("alice", b"land", LOOPBACK, now).unwrap()));
    authority.remove("robot");
    assert!(!authority.is_current(&robot));
    assert!(authority.is_current(&Identity::operator("robot")));
}

#[test]
fn of_log_ins_that_come_at_once_no_more_are_looked_at_than_may_fail() {
    let settings = AuthoritySettings {
        failures: FailureLimits { per_address: 0, per_user: 1 },
        ..AuthoritySettings::new([5; 32])
    };
    let authority = Authority::new(settings).unwrap();
    // Slow enough that none has failed when the last one comes.
    authority
        .put(User::new("alice", Some(PasswordHash::create(b"wonder", [1; 16], Cost::default()).unwrap())))
        .unwrap();
    let now = Instant::now();
    let waker = || Waker::from(Arc::new(Count(AtomicUsize::new(0))));
    let burst: Vec<_> = (0..50).map(|_| authority.login("alice", b"guess", ELSEWHERE, now, waker())).collect();
    let mut refused: Vec<_> = burst.iter().map(outcome).map(Result::unwrap_err).collect();
    assert_eq!(refused.remove(0), Refusal::WrongCredentials);
    assert_eq!(refused, [const { Refusal::TooManyFailures }; 49]);
    assert_eq!(authority.login_counts(), LoginCounts { succeeded: 0, refused: 1, throttled: 49 });
}

#[test]
fn a_proof_lets_in_who_knows_the_password_and_tells_nobody_who_is_there() {
    let settings = AuthoritySettings { scram: true, ..AuthoritySettings::new([5; 32]) };
    let authority = Authority::new(settings).unwrap();
    authority.put(User::new("alice", Some(authority.hash_password(b"wonder", [1; 16]).unwrap()))).unwrap();
    authority.put(User::new("guest", Some(authority.hash_password(b"guest", [2; 16]).unwrap()))).unwrap();
    authority.put(User::new("old", Some(PasswordHash::create(b"old", [3; 16], QUICK).unwrap()))).unwrap();
    let now = Instant::now();
    let mut nonces = BTreeSet::new();
    for (user, password, from, expected) in [
        ("alice", "wonder", ELSEWHERE, None),
        ("alice", "Wonder", ELSEWHERE, Some(Refusal::WrongCredentials)),
        ("guest", "guest", ELSEWHERE, Some(Refusal::NotLoopback)),
        ("guest", "guest", LOOPBACK, None),
        ("stranger", "x", ELSEWHERE, Some(Refusal::WrongCredentials)),
        // Kept in another way: no log-in by proof.
        ("old", "old", ELSEWHERE, Some(Refusal::WrongCredentials)),
    ] {
        let bare = format!("n={user},r=client");
        let (exchange, challenge) = authority.challenge(format!("n,,{bare}").as_bytes()).unwrap();
        assert!(challenge.ends_with(",i=600000"), "{challenge}");
        assert!(nonces.insert(challenge.clone()), "a nonce came twice");
        let last = scram::answer(password.as_bytes(), &bare, &challenge).unwrap();
        let (login, proof) = authority.prove(&exchange, last.as_bytes(), from, now).unwrap();
        let outcome = login.take().unwrap();
        assert_eq!(outcome.as_ref().err(), expected.as_ref(), "{user}");
        assert_eq!(proof.is_some(), expected.is_none(), "{user}");
    }
    // The same password serves other log-ins, and what is stored comes back.
    assert!(authority.verify("alice", b"wonder", ELSEWHERE, now).is_ok());
    assert!(authority.verify("alice", b"Wonder", ELSEWHERE, now).is_err());
    let alice = authority.user("alice").unwrap();
    assert_eq!(User::decode(&alice.encode().unwrap()), Ok(alice));
}

#[test]
fn a_user_that_is_not_there_keeps_its_salt_over_a_restart() {
    let ask = |boot, decoy_key, user: &str| {
        let authority = Authority::new(AuthoritySettings { decoy_key, ..AuthoritySettings::new([boot; 32]) }).unwrap();
        let (_, challenge) = authority.challenge(format!("n,,n={user},r=client").as_bytes()).unwrap();
        let (nonce, rest) = challenge.split_once(',').map(|(nonce, rest)| (nonce.to_owned(), rest.to_owned())).unwrap();
        (nonce, rest)
    };
    let (before, after) = (ask(1, [9; 32], "stranger"), ask(2, [9; 32], "stranger"));
    assert_eq!(before.1, after.1);
    assert_ne!(before.0, after.0, "what must be fresh is");
    assert_ne!(before.1, ask(1, [8; 32], "stranger").1);
    assert_ne!(before.1, ask(1, [9; 32], "other").1);
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What comes of a login, once it is known.
fn outcome(login: &Login) -> Result<Identity, Refusal> {
    loop {
        match login.take() {
            Some(outcome) => return outcome,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_remembered_login_is_decided_at_once_and_wakes_nobody() {
    let authority = authority();
    let now = Instant::now();
    assert!(authority.verify("alice", b"wonder", LOOPBACK, now).is_ok());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let login = authority.login("alice", b"wonder", LOOPBACK, now, Waker::from(count.clone()));
    assert!(matches!(login.take(), Some(Ok(_))));
    assert!(login.take().is_none());
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    // An hour later the password is computed again, and the waker is called exactly once.
    let hour = now + Duration::from_secs(3600);
    let login = authority.login("alice", b"wonder", LOOPBACK, hour, Waker::from(count.clone()));
    assert!(outcome(&login).is_ok());
    while count.0.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn rights() {
    let authority = authority();
    let alice = authority.verify("alice", b"wonder", LOOPBACK, Instant::now()).unwrap();
    for (vhost, resource, right, expected) in [
        ("/", Resource::queue("own.a"), Right::Configure, true),
        ("/", Resource::queue("shared.a"), Right::Configure, false),
        ("/", Resource::exchange("shared.a"), Right::Write, true),
        ("/", Resource::exchange(""), Right::Write, false),
        ("/", Resource::exchange(""), Right::Read, true),
        ("/", Resource::queue("anything"), Right::Read, true),
        ("other", Resource::queue("own.a"), Right::Read, false),
    ] {
        // Twice: the second answer comes from the identity's own memory.
        for _ in 0..2 {
            let outcome = authority.authorize(&alice, vhost, resource, right);
            assert_eq!(outcome.is_ok(), expected, "{right} {resource:?} in {vhost}");
        }
    }
    assert!(authority.enter(&alice, "/").is_ok());
    let denied = authority.enter(&alice, "other").unwrap_err();
    assert_eq!(denied.to_string(), "access to vhost 'other' refused for user 'alice'");
    let denied = authority.authorize(&alice, "/", Resource::exchange(""), Right::Write).unwrap_err();
    assert_eq!(denied.to_string(), "write access to exchange 'amq.default' in vhost '/' refused for user 'alice'");
}

#[test]
fn a_withdrawn_right_is_gone_at_the_next_operation() {
    let authority = authority();
    let alice = authority.verify("alice", b"wonder", LOOPBACK, Instant::now()).unwrap();
    let may = |authority: &Authority| authority.authorize(&alice, "/", Resource::queue("q"), Right::Read).is_ok();
    assert!(may(&authority) && may(&authority));
    let mut user = authority.user("alice").unwrap();
    user.permissions.insert("/".into(), Permission::new(".*", ".*", "").unwrap());
    authority.put(user.clone()).unwrap();
    assert!(!may(&authority));
    user.permissions.insert("/".into(), Permission::full());
    authority.put(user).unwrap();
    assert!(may(&authority));
    authority.remove_vhost("/");
    assert!(authority.users().iter().all(|user| user.permissions.is_empty()));
    assert!(!may(&authority));
    assert!(authority.enter(&alice, "/").is_err());
}

#[test]
fn invalid_users_are_refused_and_change_nothing() {
    let authority = authority();
    for name in [String::new(), "n".repeat(256)] {
        assert!(authority.put(User::new(&name, None)).is_err());
    }
    assert_eq!(authority.users().len(), 3);
}

#[test]
fn the_operator_may_do_everything_even_under_the_name_of_a_user() {
    let authority = authority();
    for name in ["stranger", "alice"] {
        let operator = Identity::operator(name);
        assert_eq!(authority.enter(&operator, "anywhere"), Ok(()));
        assert_eq!(authority.authorize(&operator, "/", Resource::queue("x"), Right::Configure), Ok(()));
        assert_eq!(authority.authorize_topic(&operator, "/", "x", "k", Right::Write), Ok(()));
    }
}

/// Every permission of a few patterns, asked for everything that a few names make possible.
#[test]
fn an_explanation_says_what_is_decided() {
    const PATTERNS: [&str; 5] = ["", ".*", "^a", "b$", "^(a|b)\\."];
    const NAMES: [&str; 6] = ["", "a", "b", "a.b", "amq.default", "c"];
    let authority = authority();
    let mut asked = 0;
    for (first, second) in PATTERNS.iter().flat_map(|first| PATTERNS.iter().map(move |second| (first, second))) {
        let mut user = User::new("u", None);
        user.permissions.insert("/".into(), Permission::new(first, second, first).unwrap());
        let topic = TopicPermission::new("u", "/", second, first).unwrap();
        user.topic_permissions.insert(("/".into(), "t".into()), topic);
        authority.put(user).unwrap();
        for (name, vhost, who) in NAMES
            .iter()
            .flat_map(|name| [("/", "u"), ("other", "u"), ("/", "stranger")].map(|(vhost, who)| (name, vhost, who)))
        {
            let identity = Identity::new(who.into(), Tags::default());
            for right in [Right::Configure, Right::Write, Right::Read] {
                for resource in [Resource::queue(name), Resource::exchange(name)] {
                    let told = authority.explain(who, vhost, resource, right);
                    let decided = authority.authorize(&identity, vhost, resource, right).is_ok();
                    assert_eq!(told.allows(), decided, "{who} {vhost} {right} {resource:?}: {told:?}");
                    asked += 1;
                }
                for exchange in ["t", "free"] {
                    let told = authority.explain_topic(Actor::new(who, None), vhost, exchange, name, right);
                    let decided = authority.authorize_topic(&identity, vhost, exchange, name, right).is_ok();
                    assert_eq!(told.allows(), decided, "{who} {vhost} {right} {exchange} {name}: {told:?}");
                }
            }
        }
    }
    assert_eq!(asked, 25 * 6 * 3 * 6);
    let refused = authority.explain("u", "/", Resource::queue("c"), Right::Configure);
    assert_eq!(refused, Ruling::Refused { pattern: "^(a|b)\\.".into(), role: None });
    assert_eq!(authority.explain("stranger", "/", Resource::queue("c"), Right::Read), Ruling::NoUser);
    assert_eq!(authority.explain("u", "other", Resource::queue("c"), Right::Read), Ruling::NoPermissions);
    assert_eq!(authority.explain_topic(Actor::new("u", None), "/", "free", "k", Right::Write), Ruling::Free);
}

/// One user's rights, its own and by roles.
#[test]
fn a_role_gives_its_permissions_and_nothing_else() {
    let authority = authority();
    let mut role = User::new("hr", None);
    role.permissions.insert("/".into(), Permission::new("", "^hr\\.", "").unwrap());
    role.permissions.insert("staff".into(), Permission::full());
    role.tags = Tags::new(["administrator"]);
    role.topic_permissions
        .insert(("/".into(), "amq.topic".into()), TopicPermission::new("hr", "/", "^{username}\\.", "").unwrap());
    role.roles.insert("above".into());
    let mut above = User::new("above", None);
    above.permissions.insert("top".into(), Permission::full());
    let mut alice = authority.user("alice").unwrap();
    alice.roles.extend([Box::from("hr"), Box::from("gone")]);
    [role, above, alice].into_iter().for_each(|user| authority.put(user).unwrap());
    let identity = authority.verify("alice", b"wonder", LOOPBACK, Instant::now()).unwrap();
    let of = |role: &str| Some(role.to_owned());
    for (vhost, name, right, pattern, role, allowed) in [
        ("/", "own.q", Right::Configure, "^own\\.", None, true),
        ("/", "hr.q", Right::Write, "^hr\\.", of("hr"), true),
        // What neither allows is refused by the user's own pattern.
        ("/", "other", Right::Write, "^(own|shared)\\.", None, false),
        ("staff", "q", Right::Read, ".*", of("hr"), true),
    ] {
        let asked = authority.explain("alice", vhost, Resource::queue(name), right);
        let pattern = pattern.to_owned();
        let expected = if allowed { Ruling::Granted { pattern, role } } else { Ruling::Refused { pattern, role } };
        assert_eq!(asked, expected, "{vhost} {name} {right}");
        assert_eq!(authority.authorize(&identity, vhost, Resource::queue(name), right).is_ok(), allowed);
    }
    assert!(authority.enter(&identity, "staff").is_ok() && authority.may_enter("alice", "staff"));
    // Roles of a role, and its tags, are its own.
    assert!(authority.enter(&identity, "top").is_err() && !authority.is_tagged(&identity, "administrator"));
    assert_eq!(authority.explain("alice", "top", Resource::queue("q"), Right::Read), Ruling::NoPermissions);
    // The pattern of a role names who acts.
    for (key, allowed) in [("alice.x", true), ("hr.x", false)] {
        let asked = authority.authorize_topic(&identity, "/", "amq.topic", key, Right::Write);
        assert_eq!(asked.is_ok(), allowed, "{key}");
    }
    assert!(authority.authorize_topic(&identity, "/", "other", "any", Right::Write).is_ok());
    let members =
        |role: &str| authority.members(role).into_iter().map(|user| user.name.into_string()).collect::<Vec<_>>();
    assert_eq!((members("hr"), members("alice")), (vec!["alice".to_owned()], Vec::new()));
    // A role that goes takes its permissions at once, also those that were remembered.
    authority.remove("hr");
    assert!(authority.authorize(&identity, "/", Resource::queue("hr.q"), Right::Write).is_err());
    assert!(authority.enter(&identity, "staff").is_err());
}
