//! Confirms that wait for a follower: whether one is awaited now.
//!
//! Invariant: nothing is confirmed by this node alone before something has waited for a follower as
//! long as it is to. It awaits one again once that has everything, and says that it was alone until
//! then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use journal::{Awaited, FeedError, LogEnd, LogId, Waiting};
use parking_lot::Mutex;

/// How long a wait without an end may take before an operator is told.
const PATIENCE: Duration = Duration::from_secs(10);
/// How finely waits are measured, as a part of the longest.
const FINE: u32 = 64;

/// How long confirms wait for a follower.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Waits {
    /// They never do.
    Never,
    /// So long; then this node goes on alone.
    For(Duration),
    /// Until there is one.
    Always,
}

/// How a node begins whose confirms wait.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Begins {
    /// It waits for a follower.
    Waiting,
    /// It was promoted, so the one that would follow it is gone: unless it always waits, it is
    /// alone until one has everything.
    Promoted,
}

/// What confirms rest on now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Confirms {
    /// The disk of this node, as the settings say.
    Local,
    /// The disk of a follower, too.
    Replicated,
    /// They would on that, but some have waited for it for long.
    Waiting,
    /// The disk of this node, because no follower has got on.
    Alone,
}

/// The journal, as far as it waits for followers.
pub trait Awaiting: Send + Sync {
    /// See [`journal::Journal::await_follower`].
    fn await_follower(&self, awaited: Awaited);
    /// See [`journal::Journal::waiting`].
    fn waiting(&self) -> Waiting;
    /// See [`journal::Journal::confirm`].
    fn confirm(&self, ends: &[(LogId, u64)]);
    /// See [`journal::Journal::shared_ends`].
    ///
    /// # Errors
    /// As there.
    fn shared_ends(&self, theirs: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError>;
}

/// See the module.
pub struct Confirming {
    waits: Waits,
    journal: Box<dyn Awaiting>,
    state: Mutex<State>,
}

struct State {
    awaited: Awaited,
    /// Since when it is alone, in milliseconds since 1970; 0 for the start.
    alone_since: u64,
    /// Up to this batch a follower must have everything before it is no longer alone.
    returning: Option<u64>,
    /// What was flushed at some moments.
    marks: VecDeque<(u64, Instant)>,
    /// How long something has waited when it was looked at last.
    waited: Duration,
    /// An operator was told that confirms wait.
    told: bool,
}

impl Confirming {
    /// Clients must not have been let in yet.
    pub fn begin(waits: Waits, begins: Begins, journal: Box<dyn Awaiting>) -> Self {
        let mut state = State::new(Awaited::Yes);
        if waits != Waits::Never {
            journal.await_follower(Awaited::Yes);
            if begins == Begins::Promoted && waits != Waits::Always {
                journal.await_follower(Awaited::No);
                state = State::new(Awaited::No);
                tracing::error!(
                    "this node was promoted, and none follows it: it confirms alone, and what it confirms is lost if it ends for \
                     good before another node has caught up"
                );
            }
        }
        Self { waits, journal, state: Mutex::new(state) }
    }

    /// What confirms rest on, and how long the oldest of them has waited.
    pub fn confirms(&self) -> (Confirms, Duration) {
        let state = self.state.lock();
        let confirms = match self.waits {
            Waits::Never => Confirms::Local,
            _ if state.awaited == Awaited::No || state.returning.is_some() => Confirms::Alone,
            Waits::Always if state.waited >= PATIENCE => Confirms::Waiting,
            Waits::For(most) if state.waited >= most / 2 => Confirms::Waiting,
            Waits::For(_) | Waits::Always => Confirms::Replicated,
        };
        (confirms, state.waited)
    }

    /// Whether they wait at all, so that a follower should be sent at once what is new.
    pub(crate) fn waits(&self) -> bool {
        self.waits != Waits::Never
    }

    /// A follower begins with these ends of logs.
    ///
    /// # Errors
    /// When it has something else than this node.
    pub(crate) fn begin_behind(&self, theirs: &[LogEnd]) -> Result<(), FeedError> {
        let shared = self.journal.shared_ends(theirs)?;
        self.confirm(&shared);
        Ok(())
    }

    /// A follower has flushed logs up to these indexes.
    pub(crate) fn confirm(&self, ends: &[(LogId, u64)]) {
        if self.waits() && !ends.is_empty() {
            self.journal.confirm(ends);
        }
    }

    /// A follower has been sent everything, and has flushed all that was flushed here then, in
    /// milliseconds since 1970. If that was since this node is alone, it is awaited again.
    pub(crate) fn keeps_up(&self, durable_as_of: u64) {
        if !self.waits() {
            return;
        }
        let mut state = self.state.lock();
        if state.awaited == Awaited::No && durable_as_of > state.alone_since {
            self.journal.await_follower(Awaited::Yes);
            *state = State { returning: Some(self.journal.waiting().last), ..State::new(Awaited::Yes) };
        }
    }

    /// Looks how long something has waited; `now` also in milliseconds since 1970.
    pub(crate) fn look(&self, now: Instant, unix_ms: u64) {
        let most = match self.waits {
            Waits::Never => return,
            Waits::For(most) => most,
            Waits::Always => PATIENCE,
        };
        let mut state = self.state.lock();
        if state.awaited == Awaited::No {
            return;
        }
        state.note(self.journal.waiting(), now, most);
        if state.waited < most {
            return;
        }
        if let Waits::For(_) = self.waits {
            self.journal.await_follower(Awaited::No);
            *state = State { alone_since: unix_ms, ..State::new(Awaited::No) };
            tracing::error!(
                "no node that follows has flushed what it was to within {most:?}: this node confirms alone, and what it confirms \
                 is lost if it ends for good before another node has caught up"
            );
        } else if !state.told {
            state.told = true;
            tracing::error!("confirms have waited for {most:?}, since no node that follows has flushed what it was to");
        }
    }
}

impl State {
    fn new(awaited: Awaited) -> Self {
        Self { awaited, alone_since: 0, returning: None, marks: VecDeque::new(), waited: Duration::ZERO, told: false }
    }

    /// Notes what waits now.
    fn note(&mut self, Waiting { oldest, last }: Waiting, now: Instant, most: Duration) {
        if self.returning.is_some_and(|until| oldest.is_none_or(|oldest| oldest > until)) {
            self.returning = None;
            tracing::info!("a node that follows has everything: confirms wait for it again");
        }
        let Some(oldest) = oldest else {
            self.marks.clear();
            self.waited = Duration::ZERO;
            if std::mem::take(&mut self.told) {
                tracing::info!("a node that follows has got on: no confirm waits any longer");
            }
            return;
        };
        let is_new = |(mark, at): &(u64, Instant)| *mark < last && now.saturating_duration_since(*at) >= most / FINE;
        if self.marks.len() <= FINE as usize && self.marks.back().is_none_or(is_new) {
            self.marks.push_back((last, now));
        }
        while self.marks.pop_front_if(|(mark, _)| *mark < oldest).is_some() {}
        self.waited = self.marks.front().map_or(Duration::ZERO, |(_, at)| now.saturating_duration_since(*at));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A journal of which something waits, or nothing.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<(Waiting, Vec<Awaited>)>>);

    impl Told {
        fn waits(&self, oldest: Option<u64>, last: u64) {
            self.0.lock().0 = Waiting { oldest, last };
        }

        fn awaited(&self) -> Vec<Awaited> {
            self.0.lock().1.clone()
        }
    }

    impl Awaiting for Told {
        fn await_follower(&self, awaited: Awaited) {
            self.0.lock().1.push(awaited);
        }
        fn waiting(&self) -> Waiting {
            self.0.lock().0
        }
        fn confirm(&self, _: &[(LogId, u64)]) {}
        fn shared_ends(&self, _: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError> {
            Ok(Vec::new())
        }
    }

    fn begin(waits: Waits, begins: Begins) -> (Told, Confirming, impl Fn(&Confirming, u64)) {
        let (told, start) = (Told::default(), Instant::now());
        let confirming = Confirming::begin(waits, begins, Box::new(told.clone()));
        let look = move |confirming: &Confirming, ms| confirming.look(start + Duration::from_millis(ms), 1000 + ms);
        (told, confirming, look)
    }

    #[test]
    fn it_goes_on_alone_once_something_has_waited_for_long_and_returns_when_all_is_there() {
        let (told, confirming, look) = begin(Waits::For(Duration::from_secs(10)), Begins::Waiting);
        let confirms = || confirming.confirms().0;
        look(&confirming, 100_000);
        told.waits(Some(5), 5);
        look(&confirming, 200_000);
        // More is flushed, and each time a follower has what came before: nothing waits for long.
        for step in 1..=40 {
            told.waits(Some(5 + step), 6 + step);
            look(&confirming, 200_000 + 500 * step);
            assert!(confirming.confirms().1 <= Duration::from_secs(1), "{:?}", confirming.confirms());
        }
        assert_eq!(confirms(), Confirms::Replicated);
        // It gets no further, whatever is added.
        for (ms, last, expected) in [
            (221_000, 47, Confirms::Replicated),
            (225_900, 50, Confirms::Waiting),
            (229_900, 60, Confirms::Waiting),
            (230_500, 61, Confirms::Alone),
        ] {
            told.waits(Some(46), last);
            look(&confirming, ms);
            assert_eq!(confirms(), expected, "{ms}: {:?}", confirming.confirms());
        }
        // What a follower has from before does not end it.
        confirming.keeps_up(1000 + 230_500);
        assert_eq!(told.awaited(), [Awaited::Yes, Awaited::No]);
        told.waits(Some(70), 75);
        confirming.keeps_up(1000 + 230_600);
        assert_eq!(told.awaited(), [Awaited::Yes, Awaited::No, Awaited::Yes]);
        look(&confirming, 231_000);
        assert_eq!(confirms(), Confirms::Alone, "until all is there that was confirmed alone");
        told.waits(Some(76), 90);
        look(&confirming, 231_100);
        assert_eq!(confirms(), Confirms::Replicated);
    }

    #[test]
    fn a_node_that_was_promoted_is_alone_unless_it_always_waits() {
        for (waits, begins, awaited, confirms) in [
            (Waits::Never, Begins::Promoted, &[][..], Confirms::Local),
            (Waits::Always, Begins::Promoted, &[Awaited::Yes], Confirms::Waiting),
            (Waits::For(PATIENCE), Begins::Promoted, &[Awaited::Yes, Awaited::No], Confirms::Alone),
            (Waits::For(2 * PATIENCE), Begins::Waiting, &[Awaited::Yes], Confirms::Waiting),
        ] {
            let (told, confirming, look) = begin(waits, begins);
            told.waits(Some(1), 1);
            for ms in [0, 5000, 12_000] {
                look(&confirming, ms);
            }
            assert_eq!((&told.awaited()[..], confirming.confirms().0), (awaited, confirms), "{waits:?} {begins:?}");
        }
    }

    #[test]
    fn a_wait_without_an_end_is_measured_in_bounded_memory() {
        let (told, confirming, look) = begin(Waits::Always, Begins::Waiting);
        for step in 1..1000 {
            told.waits(Some(1), step);
            look(&confirming, 1000 * step);
        }
        assert_eq!(told.awaited(), [Awaited::Yes]);
        assert_eq!(confirming.confirms(), (Confirms::Waiting, Duration::from_secs(998)));
        assert!(confirming.state.lock().marks.len() <= 1 + FINE as usize);
    }
}
