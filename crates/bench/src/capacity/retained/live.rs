//! Two clients with messages between them at a steady rate, whose latency tells what else the
//! broker does. Each message counts from the time at which it was meant to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use mqtt::codec::{Packet, QoS};

use crate::driver::mqtt::session::Session;
use crate::measure::schedule::Schedule;
use crate::measure::stamp::{Bodies, Stamp};
use bench_record::arrivals::Arrivals;
use bench_record::failure::Failure;
use bench_record::latency::{Latency, Summary};
use machine::clock::now;

/// Longest time without a look at whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// What has not come after this long, when no more is sent, is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the two do.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) topic: String,
    pub(super) bodies: Bodies,
    /// Messages a second.
    pub(super) rate: f64,
}

/// What they noticed.
#[derive(Debug)]
pub(super) struct Noticed {
    pub(super) before: Option<Summary>,
    pub(super) during: Option<Summary>,
    /// Messages that did not come.
    pub(super) lost: u64,
}

/// Nanoseconds of the run's clock at which the storm began and ended, and whether no more is sent.
#[derive(Debug)]
struct Times {
    begin: AtomicU64,
    end: AtomicU64,
    is_over: AtomicBool,
    sent: AtomicU64,
}

/// The two clients while they work.
#[derive(Debug)]
pub(super) struct Live {
    times: Arc<Times>,
    source: JoinHandle<Result<(), Failure>>,
    sink: JoinHandle<Result<Noticed, Failure>>,
}

impl Live {
    /// Begins.
    pub(super) fn begin(source: Session, mut sink: Session, order: Order) -> Result<Self, Failure> {
        sink.subscribe(&order.topic, QoS::AtMostOnce)?;
        sink.link.set_read_timeout(LOOK)?;
        let (begin, end) = (AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
        let times = Arc::new(Times { begin, end, is_over: AtomicBool::new(false), sent: AtomicU64::new(0) });
        let (of_source, of_sink, bodies) = (Arc::clone(&times), Arc::clone(&times), order.bodies.clone());
        Ok(Self {
            times,
            source: std::thread::spawn(move || send(source, &order, &of_source)),
            sink: std::thread::spawn(move || receive(sink, &bodies, &of_sink)),
        })
    }

    /// What comes from now on is noticed apart.
    pub(super) fn storm_begins(&self) {
        self.times.begin.store(now(), Ordering::Relaxed);
    }

    /// What is sent from now on is not noticed.
    pub(super) fn storm_ends(&self) {
        self.times.end.store(now(), Ordering::Relaxed);
    }

    /// Sends no more, and waits for what is on its way.
    pub(super) fn end(self) -> Result<Noticed, Failure> {
        self.times.is_over.store(true, Ordering::Release);
        let panicked = || Failure::new("a load thread ended by a panic");
        self.source.join().map_err(|_| panicked())??;
        self.sink.join().map_err(|_| panicked())?
    }
}

fn send(mut session: Session, order: &Order, times: &Times) -> Result<(), Failure> {
    let mut schedule = Schedule::new(Arrivals::Uniform, order.rate, now(), 0.0, 1);
    let mut body = order.bodies.blank();
    while !times.is_over.load(Ordering::Acquire) {
        let intended = schedule.next();
        if let Some(early) = intended.checked_sub(now()).filter(|early| *early > 0) {
            sleep(Duration::from_nanos(early).min(LOOK));
            continue;
        }
        let number = times.sent.load(Ordering::Relaxed) + 1;
        order.bodies.write(&mut body, &Stamp { number, intended, sent: now(), ..Stamp::default() });
        session.publish(&order.topic, &body);
        session.link.write_all(&mut session.output)?;
        times.sent.store(number, Ordering::Release);
        schedule.advance();
    }
    session.end()
}

fn receive(mut session: Session, bodies: &Bodies, times: &Times) -> Result<Noticed, Failure> {
    let (mut before, mut during) = (Latency::new()?, Latency::new()?);
    let (mut came, mut last) = (0, Instant::now());
    loop {
        let heard = session.take(&mut |packet| {
            let Packet::Publish(message) = packet else { return };
            let Ok(stamp) = bodies.read(message.payload) else { return };
            let at = now();
            came += 1;
            let latency = at.saturating_sub(stamp.intended);
            if at < times.begin.load(Ordering::Relaxed) {
                before.record(latency);
            } else if stamp.intended <= times.end.load(Ordering::Relaxed) {
                during.record(latency);
            }
        })?;
        if heard {
            last = Instant::now();
        }
        if times.is_over.load(Ordering::Acquire) {
            let sent = times.sent.load(Ordering::Acquire);
            if came >= sent || last.elapsed() > PATIENCE {
                session.end()?;
                return Ok(Noticed {
                    before: before.summary(),
                    during: during.summary(),
                    lost: sent.saturating_sub(came),
                });
            }
        }
    }
}
