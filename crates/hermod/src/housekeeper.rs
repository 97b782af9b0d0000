//! The thread of the broker's housekeeping. It also logs damage that the scrub found, returns
//! memory that messages have left to the system, and tells the broker what the process takes. After
//! each round it tells a service manager that the broker is alive: a round takes the locks of the
//! engine, so a broker that hangs on one of them is noticed. It sleeps until something is due or it
//! is woken.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use management::Watch;

use crate::allocator;
use crate::notify::Pulse;
use crate::spare::{Resident, Spare};
use crate::worker::{Rest, Worker};

/// The longest time between two rounds: what the process takes is looked at as often.
const ROUND: Duration = Duration::from_secs(1);
/// The shortest time between two returns of memory that the sweep has freed to the system.
const BETWEEN: Duration = Duration::from_secs(5);

/// Starts the thread. `watch` counts rounds that hold up its timers.
pub(crate) fn start(broker: Broker, watch: Arc<Watch>) -> io::Result<Worker> {
    let (mut left, mut given) = (false, Instant::now());
    let (mut spare, mut pulse) = (Spare::new(given), Pulse::new(given));
    broker.process_has(resident(&broker).all);
    Worker::start("hermod-housekeeping", move |waker| {
        let now = Instant::now();
        left |= broker.take_swept();
        let mut seen = None;
        let spares = spare.look(now, || *seen.insert(resident(&broker)));
        if spares || (left && now >= given + BETWEEN) {
            allocator::give_holes_back();
            spare.gave_back(seen.insert(resident(&broker)).spare);
            (left, given) = (false, now);
        }
        if let Some(resident) = seen {
            broker.process_has(resident.all);
        }
        for damage in broker.take_scrubbed() {
            tracing::error!("{damage}");
        }
        let tell = |milliseconds| tracing::warn!(milliseconds, "a round of housekeeping took long: timers had to wait");
        let due = watch.over(tell, || broker.housekeep(now, waker)).unwrap_or(now + ROUND);
        let now = Instant::now();
        Rest::For(due.saturating_duration_since(now).min(ROUND).min(pulse.beat(now)))
    })
}

/// What the process has; nothing if the system does not tell.
fn resident(broker: &Broker) -> Resident {
    let all = usize::try_from(management::resident_bytes().unwrap_or(0)).unwrap_or(usize::MAX);
    let (used, limit) = broker.memory_of_limit();
    Resident { all, spare: all.saturating_sub(used), limit }
}
