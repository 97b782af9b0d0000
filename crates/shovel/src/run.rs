//! A shovel from its begin to its end: connected again after each failure, with pauses that grow.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::carry::{Carry, Finish};
use crate::dial::Dial;
use crate::progress::{Order, Progress};
use crate::spec::{Extent, Spec};
use crate::status::{State, Status};
use crate::translate::Translate;
use crate::uri::Uri;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Why a shovel has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It has moved all that it should.
    Complete,
    /// It was told to.
    Told,
    /// It failed, and should not try again.
    Failed(String),
}

/// A shovel that runs.
pub struct Job {
    /// What it does.
    pub spec: Spec,
    /// How it reaches brokers.
    pub dial: Arc<dyn Dial>,
    /// What it makes messages of the other protocol with, if its ends speak two.
    pub translate: Arc<dyn Translate>,
    /// Where it says how it is doing.
    pub status: Arc<Status>,
}

/// Runs a shovel until it is told to end, has moved all that it should, or fails for good. It is
/// told to end, too, when the sender of its orders is dropped.
pub async fn run(job: Job, mut order: watch::Receiver<Order>) -> Ended {
    let Job { spec, status, .. } = &job;
    let (mut pause, mut extent) = (FIRST_PAUSE, spec.extent);
    for attempt in 0.. {
        status.enter(State::Starting);
        let mut progress = Progress { moved: 0, extent };
        let why = match once(&job, attempt, &mut order, &mut progress).await {
            Ok(finish) => return ended(status, finish),
            Err(why) => why,
        };
        status.fail(&why);
        extent = match progress.extent {
            Extent::Count(count) => Extent::Count(count.saturating_sub(progress.moved)),
            other => other,
        };
        let Some(longest) = spec.reconnect else {
            status.enter(State::Terminated);
            return Ended::Failed(why);
        };
        pause = if progress.moved > 0 { FIRST_PAUSE } else { pause * 2 }.min(longest);
        status.enter(State::Waiting);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = order.wait_for(|order| *order == Order::End) => return ended(status, Finish::Told),
        }
    }
    ended(status, Finish::Told)
}

fn ended(status: &Status, finish: Finish) -> Ended {
    status.enter(State::Terminated);
    match finish {
        Finish::Complete => Ended::Complete,
        Finish::Told => Ended::Told,
    }
}

/// Connects both ends, and moves messages until something fails.
async fn once(
    job: &Job,
    attempt: usize,
    order: &mut watch::Receiver<Order>,
    progress: &mut Progress,
) -> Result<Finish, String> {
    let Job { spec, dial, translate, status } = job;
    let choose = |uris: &[Uri]| uris.get(attempt % uris.len().max(1)).cloned();
    let (Some(from), Some(to)) = (choose(&spec.source.uris), choose(&spec.destination.uris)) else {
        return Err("it has no URI".to_owned());
    };
    status.connects([from.to_string(), to.to_string()]);
    let dialed = async { Ok::<_, String>([dial.dial(&from).await?, dial.dial(&to).await?]) };
    let streams = tokio::select! {
        streams = dialed => streams?,
        _ = order.wait_for(|order| *order == Order::End) => return Ok(Finish::Told),
    };
    Carry::new(spec, translate, (status, progress), [&from, &to], streams).run(order).await
}
