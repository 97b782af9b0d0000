//! `$SYS`: figures of the broker as topics, under the names of Mosquitto and EMQX.
//!
//! No message is published and nothing is stored. One thread makes the values at an interval, while
//! a session reads them; each session writes those that its filters match. Users that may see all
//! virtual hosts read the figures of the broker, all others those of their own virtual host.
//!
//! Invariant: values are there only for views that a session reads. What a session has not written
//! yet is replaced by what is newer.

mod figures;
mod publisher;
mod reader;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

pub use publisher::{Host, SysPublisher};
pub(super) use reader::{News, SysReader};

/// The first level of the topics.
const ROOT: &str = "$SYS";

/// Whether a filter is one of these topics.
pub(super) fn is_sys(filter: &str) -> bool {
    filter.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whose figures a session reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum View {
    /// Those of the whole broker.
    Broker,
    /// Those of the virtual host of this name.
    Vhost(Arc<str>),
}

/// Topics and their values.
type Values = Arc<[(Box<str>, String)]>;

#[derive(Debug)]
struct Listener {
    view: View,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    listeners: HashMap<u64, Listener>,
    next: u64,
    published: HashMap<View, Values>,
    publisher: Option<Waker>,
}

impl State {
    /// Makes the publisher look whether a view has no values yet.
    fn ask_for(&self, view: &View) {
        if let (None, Some(publisher)) = (self.published.get(view), &self.publisher) {
            publisher.wake_by_ref();
        }
    }
}

/// What the publisher and the sessions share.
#[derive(Debug, Default)]
pub struct Sys {
    state: Mutex<State>,
    /// The number of the last publication of any view.
    latest: AtomicU64,
}

impl Sys {
    fn listen(&self, view: View, waker: Waker) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        state.ask_for(&view);
        state.listeners.insert(number, Listener { view, waker });
        number
    }

    fn change_view(&self, listener: u64, view: &View) {
        let mut state = self.state.lock();
        state.ask_for(view);
        state.listeners.get_mut(&listener).into_iter().for_each(|listener| listener.view = view.clone());
    }

    fn leave(&self, listener: u64) {
        let mut state = self.state.lock();
        state.listeners.remove(&listener);
        if state.listeners.is_empty() {
            state.published.clear();
        }
    }

    fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    fn published(&self, view: &View) -> Option<Values> {
        self.state.lock().published.get(view).cloned()
    }

    /// The views that are read, each with whether it has values. `publisher` is woken when there is
    /// one without.
    fn wanted(&self, publisher: &Waker) -> HashMap<View, bool> {
        let mut state = self.state.lock();
        match &mut state.publisher {
            Some(known) => known.clone_from(publisher),
            unknown => *unknown = Some(publisher.clone()),
        }
        let has = |view: &View| state.published.contains_key(view);
        state.listeners.values().map(|listener| (listener.view.clone(), has(&listener.view))).collect()
    }

    /// Replaces the values of these views, and wakes the sessions that read them.
    fn publish(&self, made: Vec<(View, Values)>) {
        let mut state = self.state.lock();
        for (view, values) in made {
            let readers = state.listeners.values().filter(|listener| listener.view == view);
            let mut is_read = false;
            for listener in readers {
                listener.waker.wake_by_ref();
                is_read = true;
            }
            if is_read {
                state.published.insert(view, values);
            }
        }
        let State { listeners, published, .. } = &mut *state;
        published.retain(|view, _| listeners.values().any(|listener| listener.view == *view));
        self.latest.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topics_are_told_from_others() {
        for (filter, expected) in
            [("$SYS", true), ("$SYS/#", true), ("$SYS/broker/uptime", true), ("$SYSTEM/x", false), ("#", false)]
        {
            assert_eq!(is_sys(filter), expected, "{filter}");
        }
    }

    #[test]
    fn values_are_kept_while_they_are_read() {
        let sys = Sys::default();
        let values = || -> Values { Arc::from([("$SYS/a".into(), "1".to_owned())]) };
        let own = View::Vhost("v".into());
        sys.publish(vec![(View::Broker, values())]);
        assert!(sys.published(&View::Broker).is_none(), "nothing reads them");
        let waker = Waker::noop();
        let (first, second) = (sys.listen(View::Broker, waker.clone()), sys.listen(own.clone(), waker.clone()));
        assert_eq!(sys.wanted(waker), HashMap::from([(View::Broker, false), (own.clone(), false)]));
        sys.publish(vec![(View::Broker, values()), (own.clone(), values())]);
        assert_eq!((sys.published(&View::Broker).is_some(), sys.latest()), (true, 2));
        sys.change_view(first, &own);
        sys.publish(vec![(own.clone(), values())]);
        assert!(sys.published(&View::Broker).is_none() && sys.published(&own).is_some());
        sys.leave(first);
        sys.leave(second);
        assert!(sys.published(&own).is_none() && sys.wanted(waker).is_empty());
    }
}
