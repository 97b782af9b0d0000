//! The thread of the broker's housekeeping. It also logs damage that the scrub found, and returns
//! memory that messages have left to the system. It sleeps until something is due or it is woken.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use management::Watch;

use crate::allocator;
use crate::spare::Spare;
use crate::worker::{Rest, Worker};

/// The longest time between two rounds.
const ROUND: Duration = Duration::from_secs(10);
/// The shortest time between two returns of memory to the system.
const BETWEEN: Duration = Duration::from_secs(5);

/// Starts the thread. `watch` counts rounds that hold up its timers.
pub(crate) fn start(broker: Broker, watch: Arc<Watch>) -> io::Result<Worker> {
    let (mut left, mut given) = (false, Instant::now());
    let mut spare = Spare::new(given);
    Worker::start("hermod-housekeeping", move |waker| {
        let now = Instant::now();
        left |= broker.take_swept() | spare.look(now, || spare_bytes(&broker));
        if left && now >= given + BETWEEN {
            allocator::give_holes_back();
            spare.gave_back(spare_bytes(&broker));
            (left, given) = (false, now);
        }
        for damage in broker.take_scrubbed() {
            tracing::error!("{damage}");
        }
        let tell = |milliseconds| tracing::warn!(milliseconds, "a round of housekeeping took long: timers had to wait");
        let due = watch.over(tell, || broker.housekeep(now, waker)).unwrap_or(now + ROUND);
        Rest::For(due.saturating_duration_since(Instant::now()).min(ROUND))
    })
}

/// Bytes that are resident and not for messages; 0 if the system does not tell.
fn spare_bytes(broker: &Broker) -> usize {
    let resident = management::resident_bytes().unwrap_or(0);
    usize::try_from(resident).unwrap_or(usize::MAX).saturating_sub(broker.memory_used())
}
