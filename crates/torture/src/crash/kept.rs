//! What stands without a queue of the load: retained messages and durable subscriptions. One client
//! changes them while all parts play, one after the other, each with a receipt. Behind a kill each
//! is as its last confirmed change left it, or as the one change did that had no receipt yet.

use std::ffi::OsStr;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use stomp::client::{AckMode, Client, Connect, Event as Heard, Requests, Send, Subscribe};
use stomp::codec::Version;
use stomp::limits::Limits;

use crate::history::Event;
use crate::random::Random;
use crate::server::Program;
use crate::stage::Stage;
use crate::talk::{Broken, Link};

/// The topics with retained messages, and their names without their numbers.
const TOPICS: usize = 12;
const TOPIC: &str = "/topic/crash.kept.";
/// The subscriptions, and the topic of each without its number.
const SUBSCRIPTIONS: usize = 4;
const NEWS: &str = "/topic/crash.news.";
/// The client that has the subscriptions.
const CLIENT: &str = "keeper";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The headers of a retained message; the first is that of a persistent one.
const RETAINED: [(&str, &str); 2] = [("persistent", "true"), ("x-retain", "true")];
/// What the broker says to declarations while its disk is short of room.
const LOW_ON_DISK: &str = "broker is low on disk";
/// The body behind the retained messages.
const END: &str = "end";

/// Publishes one persistent message to a queue.
pub(crate) fn publish(stage: &Stage, queue: &str) -> Result<(), String> {
    let publish = |mut keeper: Keeper| {
        send(keeper.client.requests(), &format!("/amq/queue/{queue}"), queue, Some("0"), &RETAINED[..1]);
        keeper.wait(&mut |event| matches!(event, Heard::Receipt(_)))
    };
    Keeper::open(stage, "publisher").and_then(publish).map_err(|broken| broken.to_string())
}

/// What there is. The value of a topic is the number of the change that set it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    topics: [Option<u64>; TOPICS],
    /// How many messages wait for each subscription; `None` where there is none.
    subscriptions: [Option<u64>; SUBSCRIPTIONS],
}

/// A change of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Retain(usize, u64),
    Remove(usize),
    Begin(usize),
    /// A message for a subscription.
    Send(usize),
    End(usize),
}

impl State {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Retain(topic, number) => self.topics[topic] = Some(number),
            Change::Remove(topic) => self.topics[topic] = None,
            Change::Begin(at) => self.subscriptions[at] = Some(self.subscriptions[at].unwrap_or(0)),
            Change::Send(at) => self.subscriptions[at] = self.subscriptions[at].map(|count| count + 1),
            Change::End(at) => self.subscriptions[at] = None,
        }
    }
}

/// What the broker has confirmed, and what it was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    state: State,
    pending: Option<Change>,
    next: u64,
}

impl Kept {
    /// Changes things until the broker dies, or until then.
    pub(crate) fn play(&mut self, stage: &Stage, random: &mut Random, until: Instant) {
        let outcome = Keeper::open(stage, CLIENT).and_then(|mut keeper| {
            while !stage.is_dying() && Instant::now() < until {
                let change = self.choose(random);
                self.pending = Some(change);
                match keeper.make(change) {
                    Ok(()) => {
                        self.state.apply(change);
                        stage.tell(&[Event::Kept]);
                    }
                    // Nothing new is declared then, and the connection is over.
                    Err(Broken::Refused(why)) if why.contains(LOW_ON_DISK) => keeper = Keeper::open(stage, CLIENT)?,
                    Err(broken) => return Err(broken),
                }
                self.pending = None;
            }
            Ok(())
        });
        if let (Err(broken), false) = (outcome, stage.is_dying()) {
            stage.report("keeper", &broken);
        }
    }

    fn choose(&mut self, random: &mut Random) -> Change {
        self.next += 1;
        let (topic, at) = (random.below(TOPICS as u64) as usize, random.below(SUBSCRIPTIONS as u64) as usize);
        match (random.below(10), self.state.subscriptions[at]) {
            (0..4, _) => Change::Retain(topic, self.next),
            (4, _) => Change::Remove(topic),
            (_, None) => Change::Begin(at),
            (5, Some(_)) => Change::End(at),
            (_, Some(_)) => Change::Send(at),
        }
    }

    /// Looks at what there is behind a kill. What was under way then is known from here on.
    ///
    /// # Errors
    /// Where it is none of what it may be.
    pub(crate) fn check(&mut self, program: &Program, stage: &Stage) -> Result<(), String> {
        let topics = Keeper::open(stage, "reader").and_then(|mut reader| reader.retained());
        let found = State { topics: topics.map_err(|broken| broken.to_string())?, subscriptions: subscribed(program)? };
        self.judge(found)
    }

    fn judge(&mut self, found: State) -> Result<(), String> {
        let mut changed = self.state.clone();
        self.pending.into_iter().for_each(|change| changed.apply(change));
        if found != self.state && found != changed {
            return Err(format!(
                "I15 retained messages and subscriptions: {found:?} behind a kill, not {:?}, with or without {:?}",
                self.state, self.pending
            ));
        }
        (self.state, self.pending) = (found, None);
        Ok(())
    }
}

/// A connection over STOMP that asks one thing at a time.
struct Keeper {
    link: Link,
    client: Client,
    output: Vec<u8>,
    asked: u64,
}

impl Keeper {
    fn open(stage: &Stage, client_id: &str) -> Result<Self, Broken> {
        let mut client = Client::new(Limits::default());
        let (guest, headers): (_, &[(&str, &str)]) = (Some("guest"), &[("client-id", client_id)]);
        let versions = &[Version::V1_2];
        let connect = Connect { login: guest, passcode: guest, versions, headers, ..Connect::default() };
        client.requests().connect(&connect);
        let mut keeper = Self { link: Link::open(stage.ports.stomp)?, client, output: Vec::new(), asked: 0 };
        keeper.wait(&mut |event| matches!(event, Heard::Connected(_)))?;
        Ok(keeper)
    }

    /// Asks for a change, and waits for its receipt.
    fn make(&mut self, change: Change) -> Result<(), Broken> {
        self.asked += 1;
        let receipt = self.asked.to_string();
        let asked = Some(receipt.as_str());
        let requests = self.client.requests();
        let named = |at: usize| (format!("s{at}"), format!("news.{at}"));
        match change {
            Change::Retain(topic, number) => {
                send(requests, &format!("{TOPIC}{topic}"), &number.to_string(), asked, &RETAINED);
            }
            Change::Remove(topic) => send(requests, &format!("{TOPIC}{topic}"), "", asked, &RETAINED),
            Change::Send(at) => send(requests, &format!("{NEWS}{at}"), "news", asked, &RETAINED[..1]),
            Change::Begin(at) => {
                let (id, name) = named(at);
                let (id, destination, ack) = (id.as_str(), format!("{NEWS}{at}"), AckMode::ClientIndividual);
                let headers = &[("durable-subscription-name", name.as_str()), ("prefetch-count", "1")];
                let subscribe = Subscribe { id, destination: &destination, ack, receipt: asked, headers };
                requests.subscribe(&subscribe);
                // What is consumed is not counted; the subscription stays.
                requests.unsubscribe(id, None);
            }
            Change::End(at) => {
                let (id, name) = named(at);
                requests.unsubscribe_durable(&id, asked, &[("durable-subscription-name", &name)]);
            }
        }
        self.wait(&mut |event| matches!(event, Heard::Receipt(text) if *text == *receipt))
    }

    /// The retained message of each topic.
    fn retained(&mut self) -> Result<[Option<u64>; TOPICS], Broken> {
        // While an alarm is up publishers wait, and so do retained messages: what is published when
        // it ends could overtake them. A start with less room than before begins with one.
        send(self.client.requests(), &format!("{TOPIC}{END}"), END, Some(END), &[]);
        self.wait(&mut |event| matches!(event, Heard::Receipt(text) if *text == *END))?;
        let (id, destination, headers) = ("all", format!("{TOPIC}#"), &[("x-retained", "true")]);
        let subscribe = Subscribe { id, destination: &destination, ack: AckMode::Auto, receipt: None, headers };
        let requests = self.client.requests();
        requests.subscribe(&subscribe);
        // It is in the queue behind them.
        send(requests, &format!("{TOPIC}{END}"), END, None, &[]);
        let mut found = [None; TOPICS];
        let mut wrong = None;
        self.wait(&mut |event| {
            let Heard::Message(message) = event else { return false };
            let destination = message.headers.get("destination").unwrap_or_default();
            let topic = destination.strip_prefix(TOPIC).and_then(|topic| topic.parse::<usize>().ok());
            let number = std::str::from_utf8(message.body()).ok().and_then(|body| body.parse().ok());
            match topic.filter(|topic| *topic < TOPICS) {
                Some(topic) if number.is_some() && found[topic].is_none() => found[topic] = number,
                _ if message.body() == END.as_bytes() => return true,
                _ => wrong = Some(format!("a retained message of {destination} that is none, or a second one")),
            }
            false
        })?;
        wrong.map_or(Ok(found), |wrong| Err(Broken::Refused(wrong)))
    }

    /// Writes what was asked for, and reads until `is_it` is true of something.
    fn wait(&mut self, is_it: &mut dyn FnMut(&Heard<'_>) -> bool) -> Result<(), Broken> {
        let (end, mut seen) = (Instant::now() + PATIENCE, false);
        while !seen {
            if Instant::now() > end {
                return Err(Broken::Refused(format!("no answer to the keeper within {PATIENCE:?}")));
            }
            self.output.extend(self.client.requests().output().take());
            self.link.turn(&mut self.output, Duration::from_millis(20))?;
            let mut error = None;
            let used = self.client.feed(self.link.input(), |event, _| match event {
                Heard::Error(said) => error = Some(format!("ERROR: {}: {}", said.message(), said.detail())),
                event => seen |= is_it(&event),
            });
            self.link.consume(used.map_err(|error| Broken::Refused(error.to_string()))?);
            if let Some(error) = error {
                return Err(Broken::Refused(error));
            }
        }
        Ok(())
    }
}

fn send(requests: &mut Requests, destination: &str, body: &str, receipt: Option<&str>, headers: &[(&str, &str)]) {
    requests.send(&Send { destination, receipt, transaction: None, headers, text: false }, body.as_bytes());
}

/// The subscriptions, and how much waits for each. Each has the one binding that it asked for.
fn subscribed(program: &Program) -> Result<[Option<u64>; SUBSCRIPTIONS], String> {
    let (queues, bindings) = (list(program, "queues")?, list(program, "bindings")?);
    let mut found = [None; SUBSCRIPTIONS];
    for queue in queues.iter().filter(|queue| queue["subscription"]["client"] == CLIENT) {
        let name = queue["subscription"]["name"].as_str().unwrap_or_default();
        let at = name.strip_prefix("news.").and_then(|at| at.parse::<usize>().ok()).filter(|at| *at < SUBSCRIPTIONS);
        let at = at.ok_or_else(|| format!("a subscription of the keeper that it never began: {queue}"))?;
        let is_its_own = |binding: &&Value| binding["destination"] == queue["name"] && binding["source"] != "";
        let keys: Vec<_> = bindings.iter().filter(is_its_own).map(|binding| &binding["routing_key"]).collect();
        if keys != [&format!("crash.news.{at}")] {
            return Err(format!("the subscription {name} has the bindings {keys:?}"));
        }
        found[at] = queue["messages"].as_u64();
    }
    Ok(found)
}

/// What a verb of the program lists.
fn list(program: &Program, verb: &str) -> Result<Vec<Value>, String> {
    let words = [verb, "--json"].map(OsStr::new);
    let Output { status, stdout, stderr } = (program.ask(&words)?.wait_with_output())
        .map_err(|error| format!("cannot wait for `hermod {verb}`: {error}"))?;
    if !status.success() {
        return Err(format!("`hermod {verb}` ended with {status}: {}", String::from_utf8_lossy(&stderr)));
    }
    serde_json::from_slice(&stdout).map_err(|error| format!("`hermod {verb}` said what is no list: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_was_confirmed_or_what_was_asked_for_last() {
        let all = [
            Change::Retain(1, 7),
            Change::Begin(2),
            Change::Send(2),
            Change::Retain(1, 8),
            Change::Remove(1),
            Change::End(2),
        ];
        for made in 0..all.len() {
            for (shown, change) in (0..=all.len()).map(|shown| (shown, all[made])) {
                let mut kept = Kept { pending: Some(change), ..Kept::default() };
                all[..made].iter().for_each(|change| kept.state.apply(*change));
                let mut found = State::default();
                all[..shown].iter().for_each(|change| found.apply(*change));
                // Several changes may lead to the same.
                let mut changed = kept.state.clone();
                changed.apply(change);
                let fits = found == kept.state || found == changed;
                assert!(fits || (shown != made && shown != made + 1));
                assert_eq!(kept.judge(found.clone()).is_ok(), fits, "{made} made, {shown} shown");
                assert_eq!(kept.state == found, fits);
            }
        }
    }
}
