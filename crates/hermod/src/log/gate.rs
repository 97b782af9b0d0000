//! Prevents users from filling the log with warnings. For each user or address, and each kind of
//! line, some lines may come at once, and then one per second. The next line that passes says how
//! many were left out.
//!
//! A client that has not logged in can choose any user name, so an event about a stranger has the
//! field `stranger`, which is empty and not written. Its lines are counted by the network of
//! `peer`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, callsite};
use tracing_subscriber::layer::{Context, Filter};

use super::line;

/// Lines of a user and kind that may come at once.
const BURST: u32 = 20;
/// After these, one line may come in each such interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Users and kinds that are counted separately; all others are counted together.
const MOST: usize = 1024;
/// Bytes of a name by which users are told apart.
const NAME: usize = 64;
/// Fields that identify the cause of an event, the better ones first.
const WHO: [&str; 3] = ["user", "who", PEER];
const PEER: &str = "peer";
/// Marks an event whose `user` has not been authenticated.
const STRANGER: &str = "stranger";

/// A kind of line, and the user or network that causes it.
type Key = (callsite::Identifier, String);

/// The count of lines of one kind and cause.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Lines that may still come, counted at `at`.
    left: u32,
    at: Instant,
    left_out: u64,
}

#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<HashMap<Key, Bucket>>);

impl Gate {
    /// Whether a line may pass; then also how many were left out since the last one.
    fn pass(&self, key: Key, now: Instant) -> Option<u64> {
        let mut buckets = self.0.lock();
        let key = match buckets.contains_key(&key) || buckets.len() < MOST {
            true => key,
            false => {
                // A cause without lines for this long is forgotten, so it starts with a full burst.
                buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < INTERVAL * BURST);
                if buckets.len() < MOST { key } else { (key.0, String::new()) }
            }
        };
        let bucket = buckets.entry(key).or_insert(Bucket { left: BURST, at: now, left_out: 0 });
        let passed = now.saturating_duration_since(bucket.at).as_secs() / INTERVAL.as_secs();
        if passed > 0 {
            let more = u32::try_from(passed).unwrap_or(BURST);
            bucket.left = bucket.left.saturating_add(more).min(BURST);
            bucket.at = now;
        }
        match bucket.left.checked_sub(1) {
            Some(left) => {
                bucket.left = left;
                Some(std::mem::take(&mut bucket.left_out))
            }
            None => {
                bucket.left_out += 1;
                None
            }
        }
    }
}

impl<S> Filter<S> for Gate {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        line::left_out(0);
        let fields = event.metadata().fields();
        if *event.metadata().level() != Level::WARN || WHO.iter().all(|name| fields.field(name).is_none()) {
            return true;
        }
        let trusted = if fields.field(STRANGER).is_some() { &WHO[WHO.len() - 1..] } else { &WHO[..] };
        let mut who = Who { trusted, names: Default::default() };
        event.record(&mut who);
        let name = who.names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        match self.pass((event.metadata().callsite(), name), Instant::now()) {
            Some(count) => {
                line::left_out(count);
                true
            }
            None => false,
        }
    }
}

/// The cause of an event, by each of the fields that can be trusted.
struct Who {
    trusted: &'static [&'static str],
    names: [String; WHO.len()],
}

impl Visit for Who {
    fn record_str(&mut self, field: &Field, value: &str) {
        let Some(place) = self.trusted.iter().position(|name| *name == field.name()) else { return };
        // Counted by network: there may be as many ports as connections, and a peer may have any
        // number of IPv6 addresses.
        let network = value.parse().ok().filter(|_| field.name() == PEER);
        let network = network.map(|peer: SocketAddr| wire::network(peer.ip()).to_string());
        let name = network.as_deref().unwrap_or(value);
        name[..name.floor_char_boundary(NAME)].clone_into(&mut self.names[place]);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if self.trusted.contains(&field.name()) {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Callsite;

    use super::*;

    struct Kind;

    impl Callsite for Kind {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("nobody asks")
        }
    }

    static KIND: Kind = Kind;

    #[test]
    fn some_lines_come_at_once_then_one_in_a_second_with_the_count_of_the_others() {
        let gate = Gate::default();
        let start = Instant::now();
        let at = |user: &str, seconds| {
            gate.pass((callsite::Identifier(&KIND), user.to_owned()), start + Duration::from_secs(seconds))
        };
        for _ in 0..BURST {
            assert_eq!(at("low", 0), Some(0));
        }
        assert_eq!([at("low", 0), at("low", 0), at("other", 0)], [None, None, Some(0)]);
        assert_eq!([at("low", 1), at("low", 1), at("low", 3)], [Some(2), None, Some(1)]);
    }

    /// How many lines of `emit` pass a gate of their own.
    fn passed(emit: impl FnOnce()) -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};

        use tracing_subscriber::layer::SubscriberExt;

        struct Count(std::sync::Arc<AtomicUsize>);
        impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Count {
            fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = std::sync::Arc::<AtomicUsize>::default();
        let layer = tracing_subscriber::Layer::with_filter(Count(count.clone()), Gate::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), emit);
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn names_that_strangers_choose_and_addresses_of_one_network_are_one() {
        let hosts = ["192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1"];
        let few = passed(|| {
            for round in 0..100 {
                let (peer, user) = (hosts[round % hosts.len()], format!("user {round}"));
                tracing::warn!(%peer, user, stranger = tracing::field::Empty, "login refused");
            }
        });
        // Three networks: two have 25 lines each, one has 50. More pass only after some seconds.
        assert!((60..90).contains(&few), "{few} lines");
        let all = passed(|| {
            for round in 0..100 {
                tracing::warn!(peer = hosts[0], user = format!("user {round}"), "closing");
            }
        });
        assert_eq!(all, 100, "users that have logged in are told apart");
    }

    #[test]
    fn what_is_known_of_users_does_not_grow_with_their_number() {
        let gate = Gate::default();
        let now = Instant::now();
        for user in 0..2 * MOST {
            gate.pass((callsite::Identifier(&KIND), user.to_string()), now);
        }
        assert!(gate.0.lock().len() <= MOST + 1);
    }
}
