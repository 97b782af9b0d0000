//! A deadline that moves with every frame, on a timer that is touched only when it must fire
//! earlier.
//!
//! Heartbeat deadlines move back with each read. To reset the runtime's timer each time would cost
//! more than the read's own bookkeeping. So the timer is left to fire early and is set again then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

/// The next point in time at which a task wants to run.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When `sleep` fires, while it is registered with the runtime.
    armed: Option<Instant>,
}

impl Timer {
    /// Sees to it that the task runs at `deadline`, if any. Ready when `deadline` has passed
    /// already. The task may run earlier as well.
    pub(crate) fn poll_until(&mut self, deadline: Option<Instant>, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        if deadline <= now {
            return Poll::Ready(());
        }
        if self.armed.is_some_and(|armed| now < armed && armed <= deadline) {
            return Poll::Pending;
        }
        self.armed = Some(deadline);
        let at = tokio::time::Instant::from_std(deadline);
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                sleep.as_mut().reset(at);
                sleep
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(at))),
        };
        sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_deadline_that_moves_back_leaves_the_timer_alone_and_one_that_moves_forward_resets_it() {
        let mut timer = Timer::default();
        let now = Instant::now();
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let after = |seconds| Some(now + Duration::from_secs(seconds));
        assert!(timer.poll_until(None, now, cx).is_pending());
        assert_eq!(timer.armed, None);
        for (deadline, armed) in [(60, 60), (61, 60), (90, 60), (30, 30), (45, 30)] {
            assert!(timer.poll_until(after(deadline), now, cx).is_pending());
            assert_eq!(timer.armed, after(armed), "deadline {deadline}");
        }
        // The early timer fired at 30: it is set again for what is wanted by now.
        assert!(timer.poll_until(after(50), now + Duration::from_secs(30), cx).is_pending());
        assert_eq!(timer.armed, after(50));
        assert!(timer.poll_until(after(50), now + Duration::from_secs(50), cx).is_ready());
    }
}
