//! What a service manager is told, if it started the program and wants to know: how the start goes,
//! that the broker serves, that it stops, and that it is alive. On Linux the protocol is systemd's
//! (`sd_notify`), on Windows that of its services; without a manager nothing is sent.
//!
//! Nothing here can fail: a manager that can't be told is no reason to stop.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Progress;

use crate::worker::{Rest, Worker};

/// How often the progress of a start is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the manager is asked to wait on, each time that a start gets ahead.
#[cfg(any(target_os = "linux", windows))]
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How often the log tells of a long start.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Starts a thread that tells how far a start has come, until it is stopped.
pub(crate) fn starting(progress: Arc<Progress>) -> io::Result<Worker> {
    let (mut told, mut line) = (None, Instant::now());
    Worker::start("hermod-starting", move |_| {
        let percent = progress.percent();
        if told != Some(percent) {
            told = Some(percent);
            tell_start(&phase(percent));
        }
        if line.elapsed() >= BETWEEN_LINES {
            line = Instant::now();
            tracing::info!("the start goes on: {}", phase(percent));
        }
        Rest::For(LOOK)
    })
}

fn phase(percent: Option<usize>) -> String {
    match percent {
        None => "opening the data directory".to_owned(),
        Some(100) => "taking up the queues".to_owned(),
        Some(percent) => format!("reading the log: {percent} %"),
    }
}

/// Tells the manager now and then that the broker is alive: at most half of the time apart after
/// which it would be ended.
pub(crate) struct Pulse {
    every: Option<Duration>,
    last: Instant,
}

impl Pulse {
    /// The manager says in the environment whether it wants to know, and how often.
    pub(crate) fn new(now: Instant) -> Self {
        Self { every: watchdog().map(|patience| patience / 2), last: now }
    }

    /// Called after each round of work; `now` is its end. Returns the time until which it must be
    /// called again.
    pub(crate) fn beat(&mut self, now: Instant) -> Duration {
        let Some(every) = self.every else { return Duration::MAX };
        // Rounds are not exact: it is better to be early.
        if now.duration_since(self.last) >= every / 2 {
            self.last = now;
            tell_alive();
        }
        every / 2
    }
}

#[cfg(target_os = "linux")]
mod telling {
    use sd_notify::NotifyState::{ExtendTimeoutUsec, Ready, Status, Stopping, Watchdog};

    use super::{Duration, PATIENCE};

    fn send(states: &[sd_notify::NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::debug!("the service manager cannot be told: {error}");
        }
    }

    pub(super) fn watchdog() -> Option<Duration> {
        sd_notify::watchdog_enabled()
    }

    pub(super) fn tell_start(phase: &str) {
        let patience = u32::try_from(PATIENCE.as_micros()).unwrap_or(u32::MAX);
        send(&[Status(phase), ExtendTimeoutUsec(patience)]);
    }

    pub(super) fn tell_alive() {
        send(&[Watchdog]);
    }

    /// The broker serves.
    pub(crate) fn ready(status: &str) {
        send(&[Ready, Status(status)]);
    }

    /// The broker stops.
    pub(crate) fn stopping(status: &str) {
        send(&[Stopping, Status(status)]);
    }
}

/// Windows: the service control manager, once the program runs as its service.
#[cfg(windows)]
mod telling {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use windows_service::service::{ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType};
    use windows_service::service_control_handler::ServiceStatusHandle;

    use super::{Duration, PATIENCE};

    static MANAGER: OnceLock<ServiceStatusHandle> = OnceLock::new();
    /// Grows with each sign of a start that gets ahead.
    static CHECKPOINT: AtomicU32 = AtomicU32::new(0);

    fn send(state: ServiceState, exit: ServiceExitCode) {
        let Some(manager) = MANAGER.get() else { return };
        let pending = matches!(state, ServiceState::StartPending | ServiceState::StopPending);
        let accepted = ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN;
        let status = ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state: state,
            controls_accepted: if state == ServiceState::Running { accepted } else { ServiceControlAccept::empty() },
            exit_code: exit,
            checkpoint: if pending { CHECKPOINT.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 },
            wait_hint: if pending { PATIENCE } else { Duration::ZERO },
            process_id: None,
        };
        if let Err(error) = manager.set_service_status(status) {
            tracing::debug!("the service manager cannot be told: {error}");
        }
    }

    /// From now on this manager is told.
    pub(crate) fn register(manager: ServiceStatusHandle) {
        // There is one service in a process, and so one manager.
        let _ = MANAGER.set(manager);
        tell_start("");
    }

    /// The service has ended; zero if that was asked for.
    pub(crate) fn ended(code: u8) {
        let exit = if code == 0 { ServiceExitCode::Win32(0) } else { ServiceExitCode::ServiceSpecific(code.into()) };
        send(ServiceState::Stopped, exit);
    }

    pub(super) fn watchdog() -> Option<Duration> {
        None
    }

    pub(super) fn tell_start(_: &str) {
        send(ServiceState::StartPending, ServiceExitCode::Win32(0));
    }

    pub(super) fn tell_alive() {}

    /// The broker serves.
    pub(crate) fn ready(_: &str) {
        send(ServiceState::Running, ServiceExitCode::Win32(0));
    }

    /// The broker stops.
    pub(crate) fn stopping(_: &str) {
        send(ServiceState::StopPending, ServiceExitCode::Win32(0));
    }
}

#[cfg(not(any(target_os = "linux", windows)))]
mod telling {
    use super::Duration;

    pub(super) fn watchdog() -> Option<Duration> {
        None
    }

    pub(super) fn tell_start(_: &str) {}

    pub(super) fn tell_alive() {}

    /// The broker serves.
    pub(crate) fn ready(_: &str) {}

    /// The broker stops.
    pub(crate) fn stopping(_: &str) {}
}

#[cfg(windows)]
pub(crate) use telling::{ended, register};
pub(crate) use telling::{ready, stopping};
use telling::{tell_alive, tell_start, watchdog};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_of_a_start_has_its_text() {
        for (percent, text) in
            [(None, "opening"), (Some(0), "the log: 0 %"), (Some(99), "99 %"), (Some(100), "the queues")]
        {
            assert!(phase(percent).contains(text), "{percent:?}");
        }
    }

    #[test]
    fn a_pulse_is_told_in_time_and_not_more_often() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pulse = Pulse { every: Some(4 * second), last: start };
        assert_eq!(pulse.beat(start + second), 2 * second);
        assert_eq!(pulse.last, start);
        pulse.beat(start + 2 * second);
        assert_eq!(pulse.last, start + 2 * second);
        assert_eq!(Pulse { every: None, last: start }.beat(start + second), Duration::MAX);
    }
}
