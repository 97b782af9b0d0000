//! The memory of answers from elsewhere: when a question is asked, and what is kept for how long.

use std::sync::atomic::{AtomicUsize, Ordering};

use wire::waiting;

use super::*;

/// Allows what begins with `a`, can't decide about what begins with `x`, and counts.
#[derive(Debug, Default)]
struct Initials(AtomicUsize);

impl Judge for Initials {
    fn decide(&self, asked: &Asked<'_>) -> Result<bool, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match asked.about {
            About::Vhost => Ok(true),
            About::Resource(Resource { name, .. }, _) | About::Topic { key: name, .. } if name.starts_with('x') => {
                Err("gone".to_owned())
            }
            About::Resource(Resource { name, .. }, _) | About::Topic { key: name, .. } => Ok(name.starts_with('a')),
        }
    }
}

fn asking() -> (Asking, Arc<Initials>, Tags) {
    let judge = Arc::new(Initials::default());
    let keep_for = Duration::from_secs(60);
    (Asking::new(judge.clone(), "test", keep_for), judge, Tags::default())
}

fn ask<'a>(tags: &'a Tags, user: &'a str, about: About<'a>) -> Asked<'a> {
    Asked { actor: Actor::new(user, None), tags, from: [10, 0, 0, 1].into(), vhost: "/", about }
}

fn reads(name: &str) -> About<'_> {
    About::Resource(Resource::queue(name), Right::Read)
}

#[test]
fn what_is_not_known_is_asked_where_that_may_wait_and_refused_elsewhere() {
    let (asking, judge, tags) = asking();
    let allows = |about| asking.allows(&ask(&tags, "u", about));
    let asked = || judge.0.load(Ordering::Relaxed);
    assert!(!allows(reads("a")), "it is not known");
    assert_eq!(asked(), 0);
    assert!(waiting::allowed(|| allows(reads("a")) && waiting::has_waited()));
    assert!(allows(reads("a")), "it is kept");
    assert!(!asking.allows(&ask(&tags, "other", reads("a"))), "for its user");
    assert!(waiting::allowed(|| waiting::forbidden(|| allows(reads("a")) && !allows(reads("ab")))));
    assert_eq!(asked(), 1);
    for _ in 0..2 {
        assert!(!waiting::allowed(|| allows(reads("b"))));
    }
    assert_eq!(asked(), 3, "a refusal is not kept");
    asking.forget();
    assert!(!allows(reads("a")));
}

#[test]
fn each_part_of_a_question_counts() {
    let (_, _, tags) = asking();
    let about = [
        About::Vhost,
        reads("q"),
        About::Resource(Resource::queue("q"), Right::Write),
        About::Resource(Resource::exchange("q"), Right::Read),
        About::Topic { exchange: "q", key: "", right: Right::Read },
        About::Topic { exchange: "", key: "q", right: Right::Read },
        About::Topic { exchange: "q", key: "k", right: Right::Read },
        About::Topic { exchange: "q", key: "k", right: Right::Write },
    ];
    let mut keys: Vec<_> = about.map(|about| ask(&tags, "u", about).key()).into();
    let other = Asked { actor: Actor::new("u", Some("c")), ..ask(&tags, "u", reads("q")) };
    keys.push(other.key());
    keys.push(Asked { vhost: "v", ..ask(&tags, "u", reads("q")) }.key());
    keys.push(Asked { from: [10, 0, 0, 2].into(), ..ask(&tags, "u", About::Vhost) }.key());
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
    let from = Asked { from: [10, 0, 0, 2].into(), ..ask(&tags, "u", reads("q")) };
    assert_eq!(from.key(), ask(&tags, "u", reads("q")).key(), "only the way in depends on the address");
}

/// A program that hangs holds up its users once a second, not once a question.
#[test]
fn after_an_answer_that_did_not_come_nothing_is_asked_for_a_moment() {
    let (asking, judge, tags) = asking();
    let allows = |name| waiting::allowed(|| asking.allows(&ask(&tags, "u", reads(name))));
    assert!(!allows("known by none") && allows("a"));
    assert!(!allows("x"));
    let asked = judge.0.load(Ordering::Relaxed);
    assert!(!allows("ab"), "it is out of reach");
    assert!(allows("a"), "what is known counts");
    assert_eq!(judge.0.load(Ordering::Relaxed), asked);
    *asking.down.lock() = Some(Instant::now());
    assert!(allows("ab"), "it is asked again");
}

#[test]
fn the_memory_ends_with_time_and_each_user_has_its_share() {
    let (start, span) = (Instant::now(), Duration::from_secs(10));
    let mut memory = Memory::default();
    let key = |number: usize| Box::<[u8]>::from(number.to_be_bytes());
    for number in 0..OF_USER + 1 {
        memory.keep("u", key(number), start, span);
    }
    memory.keep("v", key(0), start, span);
    assert!(!memory.has("u", &key(0), start) && memory.has("u", &key(1), start) && memory.has("v", &key(0), start));
    assert_eq!(memory.count, OF_USER + 1);
    // Asked again, it counts from then on.
    memory.keep("v", key(0), start + span / 2, span);
    assert!(memory.has("v", &key(0), start + span) && !memory.has("u", &key(1), start + span));
    memory.keep("v", key(1), start + span, span);
    assert!(memory.has("v", &key(0), start + span), "the earlier of its two ends is not its own");
    assert_eq!(memory.count, OF_USER + 2);
    memory.make_room(start + span);
    assert_eq!((memory.users.len(), memory.count), (1, 2));
    memory.make_room(start + span);
    assert_eq!(memory.count, 1, "the user with the most gives its oldest");
}
