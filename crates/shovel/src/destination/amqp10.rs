//! A destination by AMQP 1.0: transfers that are settled by its outcome. Any outcome but *accepted*
//! ends the connection before the message is acknowledged to its source.

use std::time::{SystemTime, UNIX_EPOCH};

use amqp10::client::{Client, Event, LinkId, SendMode};
use amqp10::codec::performative::{Attach, Role};
use amqp10::codec::{AttachTarget, DeliveryState, Outcome, Source, Target};

use super::DestinationEvent;
use crate::annotations::Annotating;
use crate::peer::{condition, options10};
use crate::spec::Destination;
use crate::uri::Uri;

/// See the module.
pub(crate) struct Destination10 {
    client: Client,
    address: String,
    link: Option<LinkId>,
    annotating: Annotating,
}

impl Destination10 {
    pub(crate) fn new(spec: &Destination, address: &str, uri: &Uri) -> Self {
        let client = Client::new(options10(uri, "destination"));
        Self { client, address: address.to_owned(), link: None, annotating: Annotating::of(spec) }
    }

    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        self.client.start(out);
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        self.client.close(out);
    }

    pub(crate) fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.client.heartbeat(out);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.client.waiting()
    }

    pub(crate) fn give(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let link = self.link.ok_or_else(|| "the destination is not open".to_owned())?;
        let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let annotated = self.annotating.apply(message, milliseconds)?;
        let message = annotated.as_deref().unwrap_or(message);
        self.client.send(link, SendMode::default(), &[message], out).map_err(|error| error.to_string())?;
        Ok(())
    }

    pub(crate) fn poll(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<DestinationEvent>, String> {
        let Some(event) = self.client.poll(input, out).map_err(|error| error.to_string())? else { return Ok(None) };
        Ok(Some(match event {
            Event::Opened(_) => {
                let channel = self.client.begin(out).map_err(|error| error.to_string())?;
                let target = Target { address: Some(&self.address), ..Target::default() };
                let attach = Attach {
                    name: "shovel",
                    role: Role::Sender,
                    source: Some(Source::default()),
                    target: Some(AttachTarget::Target(target)),
                    ..Attach::default()
                };
                self.client.attach(channel, &attach, out).map_err(|error| error.to_string())?;
                DestinationEvent::Progress
            }
            Event::Attached { link, attach } if attach.target.is_some() => {
                self.link = Some(link);
                DestinationEvent::Ready
            }
            Event::Answered { numbers, state: Some(DeliveryState::Outcome(Outcome::Accepted)), .. } => {
                DestinationEvent::Confirmed(numbers)
            }
            Event::Answered { state: Some(DeliveryState::Received(_)), .. } => DestinationEvent::Progress,
            Event::Answered { state, .. } => return Err(format!("the destination refused a message: {}", why(state))),
            Event::Closed { error: None } => DestinationEvent::Closed,
            Event::Detached { error, .. } | Event::Ended { error, .. } | Event::Closed { error } => {
                return Err(format!("the destination refused it: {}", condition(error.as_ref())));
            }
            _ => DestinationEvent::Progress,
        }))
    }
}

fn why(state: Option<DeliveryState<'_>>) -> String {
    match state {
        Some(DeliveryState::Outcome(Outcome::Rejected(rejected))) => condition(rejected.error.as_ref()),
        Some(DeliveryState::Outcome(Outcome::Released)) => "it is released: does it reach a queue?".to_owned(),
        Some(DeliveryState::Outcome(Outcome::Modified(_))) => "it is modified".to_owned(),
        _ => "without an outcome".to_owned(),
    }
}
