//! Samples for histories: every few seconds, of the broker and of the queues that are looked at.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::{MissedTickBehavior, interval};

use crate::history::STEP_SECONDS;
use crate::pool::Work;
use crate::source::Source;

/// Samples for as long as it is polled. The work is done off the loop.
pub(crate) async fn run(source: Arc<Source>) {
    let mut ticks = interval(Duration::from_secs(STEP_SECONDS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let reader = Arc::clone(&source);
        if let Err(error) = source.pool.run(Work::Look, "", move || sample(&reader, now())).await {
            tracing::error!(error, "no sample was taken for the rates of management");
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn sample(source: &Source, at: u64) {
    let (broker, histories) = (&source.broker, &source.histories);
    let begun = Instant::now();
    let overview = broker.overview();
    histories.keep_broker(at, &overview);
    histories.glances.renew(broker, overview, begun);
    histories.paces.renew(broker, Instant::now());
    for place in histories.looked_at(at) {
        let (vhost, name) = (place.0.as_str(), place.1.as_str());
        histories.keep_queue(at, &place, broker.some_queues(vhost, &[name.into()]).first());
    }
}
