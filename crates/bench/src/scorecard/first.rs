//! The first message of a broker that has just started: published and received through its usual
//! protocol, as soon as it can be.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::{self, Event, Line, Part};
use crate::measure::stamp::{Bodies, Stamp};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{QueueKind, Scenario};
use bench_record::target::Target;
use machine::clock::{now, unix_time};

/// Protocols that this program speaks itself; a peer is asked by the first of them that it speaks.
pub(super) const SCHEMES: [&str; 7] = ["amqp", "stomp", "nats", "jetstream", "kafka", "mqtt5", "mqtt"];
/// A broker that has given no message by then gives none.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one wait for the broker lasts.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes of the message.
const SIZE: usize = 64;

/// Sends one message through the broker, and returns when it has come back.
pub(super) fn message(target: &Target) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt(target, end) {
            // What says that it is ready may not be yet.
            Err(failure) if failure.lacks().is_none() && Instant::now() < end => sleep(GLANCE),
            done => return done.context(&target.name),
        }
    }
}

fn attempt(target: &Target, end: Instant) -> Result<(), Failure> {
    let plain = Scenario::default().with(|s| {
        s.message.size = SIZE;
        (s.clients.window, s.clients.prefetch, s.clients.ack_every) = (0, 0, 0);
    });
    let scenario = plain.with(|s| s.topology.queue = QueueKind::Exclusive);
    let number = unix_time() as u32;
    let mut driver = driver::open(target, &scenario, number)?;
    driver.prepare()?;
    let mut consumer = driver.open(Part::Consume(0))?;
    let mut producer = driver.open(Part::Produce(0))?;
    let bodies = Bodies::new(number, SIZE);
    let mut body = bodies.blank();
    bodies.write(&mut body, &Stamp { producer: 0, number: 1, intended: now(), sent: now() });
    producer.talk.publish(&body)?;
    producer.link.write_all(producer.talk.output())?;
    receive(&mut consumer, &body, end)?;
    drop((producer, consumer));
    driver.clean()
}

fn receive(consumer: &mut Line, wanted: &[u8], end: Instant) -> Result<(), Failure> {
    consumer.link.set_read_timeout(GLANCE)?;
    let mut came = false;
    while !came {
        if Instant::now() > end {
            return Err(Failure::new(format!(
                "a message was published and did not come within {} s",
                PATIENCE.as_secs()
            )));
        }
        consumer.receive(&mut |event| {
            if let Event::Delivery { body, .. } = event {
                came |= body == wanted;
            }
        })?;
        consumer.link.write_all(consumer.talk.output())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::behaviour::Behaviour;
    use crate::simulate::local;

    #[test]
    fn a_message_goes_through_a_broker_and_nothing_stays() {
        let broker = local(&Behaviour::default());
        message(&broker.target.parse().unwrap()).unwrap();
        assert!(broker.held.lock().unwrap().queues.values().all(|queue| queue.len() == 0));
    }
}
