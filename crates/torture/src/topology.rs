//! The queues and exchanges of the load, as data: what each queue is for decides what the checker
//! demands of it.
//!
//! A queue is named by its place in [`QUEUES`], so that a set of queues is a word of bits.

/// One queue of the load.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its name at the broker.
    pub(crate) name: &'static str,
    /// Whether it survives a restart.
    pub(crate) durable: bool,
    /// Where a message goes that it rejects or has no room for.
    pub(crate) dead_letter: Option<usize>,
    /// The most messages it holds.
    pub(crate) max_length: Option<i64>,
    /// What happens to what it has no room for.
    pub(crate) overflow: Overflow,
    /// How often a message may come back to it before it goes where dead letters go.
    pub(crate) delivery_limit: Option<i64>,
    /// Whether first deliveries come in the order of publishing. Dead letters come in the order of
    /// their rejection.
    pub(crate) ordered: bool,
    /// Whether it takes nothing twice that has the same id.
    pub(crate) sifts: bool,
    /// The highest priority that it tells apart.
    pub(crate) max_priority: Option<u8>,
    /// How old a message gets in it before it goes where dead letters go, in milliseconds.
    pub(crate) ttl_ms: Option<u64>,
    /// Whether what died in it is sent back to it.
    pub(crate) redriven: bool,
    /// How long what comes back to it waits before it is ready again, in milliseconds.
    pub(crate) retry_ms: Option<u64>,
    /// Into how many groups its messages fall, each of which one consumer at a time gets; a queue
    /// with a single active consumer has one.
    pub(crate) groups: Option<u64>,
    /// Whether a message takes the place of the one before it with the same key.
    pub(crate) last_value: bool,
}

/// What a queue does with a message that it has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The oldest make room.
    DropHead,
    /// The new one is refused.
    Refuse,
    /// The same, and it goes where dead letters go.
    RefuseAndMove,
}

/// The name of a message's group, which follows from its number.
pub(crate) const fn group(seq: u64) -> u64 {
    seq % GROUP_COUNT
}

/// The header whose value a newer message of its producer has again.
pub(crate) const KEY: &str = "crash-key";

/// The key of a message among those of its producer, which follows from its number.
pub(crate) const fn key(seq: u64) -> u64 {
    seq % 3
}

impl Queue {
    /// The group of a message here, which follows from its number.
    pub(crate) fn group(&self, seq: u64) -> Option<u64> {
        self.groups.map(|groups| group(seq) % groups)
    }

    /// The priority of a message here, which follows from its number.
    pub(crate) fn rank(&self, seq: u64) -> u8 {
        self.max_priority.map_or(0, |most| (seq % (u64::from(most) + 1)) as u8)
    }

    /// The part of the queue that a message is in: those of one priority, or of one group. What
    /// comes from different parts has no order.
    pub(crate) fn part(&self, seq: u64) -> u8 {
        self.group(seq).map_or(self.rank(seq), |group| group as u8)
    }

    /// Why messages die in it, in the broker's words.
    pub(crate) fn reasons(&self) -> &'static [&'static str] {
        match (self.ttl_ms, self.max_length, self.delivery_limit) {
            (Some(_), ..) => &["expired"],
            (None, Some(_), _) => &["rejected", "maxlen"],
            (None, None, Some(_)) => &["rejected", "delivery_limit"],
            (None, None, None) => &["rejected"],
        }
    }

    /// The most messages it holds, where the oldest make room for others. One that refuses may hold
    /// more: what comes back to it finds its place.
    pub(crate) fn drop_limit(&self) -> Option<u64> {
        self.max_length.filter(|_| self.overflow == Overflow::DropHead).map(|limit| limit as u64)
    }

    /// Whether it passes messages on by itself at any moment.
    pub(crate) fn passes_on(&self) -> bool {
        let moves_at_once = self.overflow == Overflow::RefuseAndMove;
        moves_at_once || self.drop_limit().is_some() || self.ttl_ms.is_some() || self.delivery_limit.is_some()
    }
}

pub(crate) const PLAIN: usize = 0;
pub(crate) const FAN_A: usize = 1;
pub(crate) const FAN_B: usize = 2;
pub(crate) const TOPIC_A: usize = 3;
pub(crate) const TOPIC_ALL: usize = 4;
pub(crate) const WORK: usize = 5;
pub(crate) const DEAD: usize = 6;
pub(crate) const SHORT: usize = 7;
pub(crate) const SPILL: usize = 8;
pub(crate) const LEFT: usize = 9;
pub(crate) const RIGHT: usize = 10;
pub(crate) const DONE: usize = 11;
pub(crate) const TRANSIENT: usize = 12;
pub(crate) const LATER: usize = 13;
pub(crate) const RANKS: usize = 14;
pub(crate) const BRIEF: usize = 15;
pub(crate) const EXPIRED: usize = 16;
pub(crate) const RETRIED: usize = 17;
pub(crate) const PARKED: usize = 18;
pub(crate) const FAR: usize = 19;
pub(crate) const ASTRAY: usize = 20;
pub(crate) const SINGLE: usize = 21;
pub(crate) const LIMITED: usize = 22;
pub(crate) const TIRED: usize = 23;
pub(crate) const FULL: usize = 24;
pub(crate) const HEADED: usize = 25;
pub(crate) const HASHED: usize = 26;
pub(crate) const GROUPS: usize = 27;
pub(crate) const LAST: usize = 28;
pub(crate) const RETRY: usize = 29;
pub(crate) const OVER: usize = 30;
pub(crate) const SPILT: usize = 31;

/// How many groups there are.
const GROUP_COUNT: u64 = 5;

/// All queues.
pub(crate) const QUEUES: [Queue; 32] = [
    durable("crash.plain"),
    durable("crash.fan.a"),
    durable("crash.fan.b"),
    durable("crash.topic.a"),
    durable("crash.topic.all"),
    Queue { dead_letter: Some(DEAD), ..durable("crash.work") },
    Queue { ordered: false, ..durable("crash.dead") },
    Queue { dead_letter: Some(SPILL), max_length: Some(100), ..durable("crash.short") },
    Queue { ordered: false, ..durable("crash.spill") },
    durable("crash.left"),
    durable("crash.right"),
    durable("crash.done"),
    Queue { durable: false, ..durable("crash.transient") },
    Queue { ordered: false, sifts: true, ..durable("crash.later") },
    Queue { max_priority: Some(4), ..durable("crash.ranks") },
    Queue { dead_letter: Some(EXPIRED), ttl_ms: Some(400), ..durable("crash.brief") },
    Queue { ordered: false, ..durable("crash.expired") },
    Queue { dead_letter: Some(PARKED), redriven: true, ordered: false, ..durable("crash.retried") },
    Queue { ordered: false, ..durable("crash.parked") },
    durable("crash.far"),
    durable("crash.astray"),
    Queue { groups: Some(1), ..durable("crash.single") },
    Queue { dead_letter: Some(TIRED), delivery_limit: Some(3), ..durable("crash.limited") },
    Queue { ordered: false, ..durable("crash.tired") },
    Queue { max_length: Some(50), overflow: Overflow::Refuse, ..durable("crash.full") },
    durable("crash.headed"),
    durable("crash.hashed"),
    Queue { groups: Some(GROUP_COUNT), ..durable("crash.groups") },
    Queue { last_value: true, ..durable("crash.last") },
    Queue { retry_ms: Some(50), ordered: false, ..durable("crash.retry") },
    Queue {
        dead_letter: Some(SPILT),
        max_length: Some(50),
        overflow: Overflow::RefuseAndMove,
        ..durable("crash.over")
    },
    Queue { ordered: false, ..durable("crash.spilt") },
];

const fn durable(name: &'static str) -> Queue {
    Queue {
        name,
        durable: true,
        dead_letter: None,
        max_length: None,
        overflow: Overflow::DropHead,
        delivery_limit: None,
        ordered: true,
        sifts: false,
        max_priority: None,
        ttl_ms: None,
        redriven: false,
        retry_ms: None,
        groups: None,
        last_value: false,
    }
}

/// One exchange of the load.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: &'static str,
    /// Where what no binding matches goes.
    pub(crate) alternate: Option<&'static str>,
}

/// The fanout exchange.
pub(crate) const FANOUT: &str = "crash.fan";

/// The exchanges besides the default one, each behind its alternate.
pub(crate) const EXCHANGES: [Exchange; 7] = [
    Exchange { name: FANOUT, kind: "fanout", alternate: None },
    Exchange { name: "crash.topic", kind: "topic", alternate: None },
    Exchange { name: "crash.stray", kind: "fanout", alternate: None },
    Exchange { name: "crash.entry", kind: "direct", alternate: Some("crash.stray") },
    Exchange { name: "crash.inner", kind: "topic", alternate: None },
    Exchange { name: "crash.headers", kind: "headers", alternate: None },
    Exchange { name: "crash.hash", kind: "x-consistent-hash", alternate: None },
];

/// The bindings between exchanges: from, key, to.
pub(crate) const LINKS: [(&str, &str, &str); 1] = [("crash.entry", "far.away", "crash.inner")];

/// A queue and a fanout exchange that stand for nothing, for requests that are only asked for their
/// answers.
pub(crate) const VOID: &str = "crash.void";
/// What is never there.
pub(crate) const NONE: &str = "crash.none";

/// The bindings: exchange, key, queue.
pub(crate) const BINDINGS: [(&str, &str, usize); 7] = [
    ("crash.fan", "", FAN_A),
    ("crash.fan", "", FAN_B),
    ("crash.topic", "a.#", TOPIC_A),
    ("crash.topic", "#", TOPIC_ALL),
    ("crash.inner", "far.*", FAR),
    ("crash.stray", "", ASTRAY),
    ("crash.hash", "3", HASHED),
];

/// The bindings by a header that a message must have: exchange, header, queue.
pub(crate) const HEADER_BINDINGS: [(&str, &str, usize); 1] = [("crash.headers", KEY, HEADED)];

/// Where a message is published, and the queues that must get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) exchange: &'static str,
    pub(crate) key: &'static str,
    /// A bit for each queue.
    pub(crate) queues: u32,
}

/// One copy for each of two queues.
pub(crate) const FAN: Route = Route { exchange: "crash.fan", key: "", queues: bit(FAN_A) | bit(FAN_B) };
/// A topic that both patterns match.
pub(crate) const TOPIC_BOTH: Route =
    Route { exchange: "crash.topic", key: "a.b.c", queues: bit(TOPIC_A) | bit(TOPIC_ALL) };
/// A topic that one pattern matches.
pub(crate) const TOPIC_ONE: Route = Route { exchange: "crash.topic", key: "b.a", queues: bit(TOPIC_ALL) };

/// Through a binding between two exchanges.
pub(crate) const THROUGH: Route = Route { exchange: "crash.entry", key: "far.away", queues: bit(FAR) };
/// What no binding matches, through the alternate exchange.
pub(crate) const UNBOUND: Route = Route { exchange: "crash.entry", key: "nowhere", queues: bit(ASTRAY) };

/// By a header that every message has.
pub(crate) const BY_HEADER: Route = Route { exchange: "crash.headers", key: "", queues: bit(HEADED) };
/// By the hash of its key, to the one queue there is.
pub(crate) const BY_HASH: Route = Route { exchange: "crash.hash", key: "any.key", queues: bit(HASHED) };

/// Through the default exchange to one queue.
pub(crate) const fn straight(queue: usize) -> Route {
    Route { exchange: "", key: QUEUES[queue].name, queues: bit(queue) }
}

/// The set of one queue.
pub(crate) const fn bit(queue: usize) -> u32 {
    1 << queue
}

/// How a message came to this set of queues, in which no other route ends.
pub(crate) fn route_of(queues: u32) -> Option<Route> {
    let routes = [FAN, TOPIC_BOTH, TOPIC_ONE, THROUGH, UNBOUND, BY_HEADER, BY_HASH].into_iter();
    routes.chain((0..QUEUES.len()).map(straight)).find(|route| route.queues == queues)
}

/// The queue whose dead letters come to `queue`.
pub(crate) fn source_of(queue: usize) -> Option<usize> {
    QUEUES.iter().position(|other| other.dead_letter == Some(queue))
}

/// The queues in a set.
pub(crate) fn members(queues: u32) -> impl Iterator<Item = usize> {
    (0..QUEUES.len()).filter(move |queue| queues & bit(*queue) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dead_letter_queue_has_one_source_and_no_order() {
        for (number, queue) in QUEUES.iter().enumerate() {
            if let Some(target) = queue.dead_letter {
                assert!(target != number && !QUEUES[target].ordered && QUEUES[target].dead_letter.is_none());
                assert_eq!(QUEUES.iter().filter(|other| other.dead_letter == Some(target)).count(), 1);
            }
        }
        // Whether a queue passes on by itself or is sent back to, its dead letters can be told from
        // others'.
        assert!(QUEUES.iter().all(|queue| queue.dead_letter.is_some() || !(queue.passes_on() || queue.redriven)));
        assert_eq!(members(FAN.queues).collect::<Vec<_>>(), [FAN_A, FAN_B]);
    }
}
