//! One pair of connections, from the first byte to the last: what moves messages.
//!
//! The destination is opened first, so that no message leaves the source before it can be given on.
//! A message is given on at once, in the order in which it came, and is in the [`Window`] until the
//! source knows that it has arrived. The source is not read while the window has enough bytes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::destination::{Destination, DestinationEvent};
use crate::dial::Stream;
use crate::peer::{Peer, Reads};
use crate::progress::{Order, Progress};
use crate::source::{Source, SourceEvent, Terms};
use crate::spec::{AckMode, Extent, Spec};
use crate::status::{State, Status};
use crate::translate::Translate;
use crate::uri::Uri;
use crate::window::Window;

/// Bytes of messages on their way; one message may have more.
const ENOUGH: usize = 16 << 20;
/// How often it looks at the time.
const TICK: Duration = Duration::from_secs(1);
/// How long both ends may take to open.
const OPENING: Duration = Duration::from_secs(30);
/// How long the destination has to confirm what is on its way when the shovel is told to end.
const ENDING: Duration = Duration::from_secs(10);
/// How long both ends have to answer the goodbye.
const CLOSING: Duration = Duration::from_secs(5);

/// Why a pair of connections has ended in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// It has moved all that it should.
    Complete,
    /// It was told to.
    Told,
}

/// See the module.
pub(crate) struct Carry<'a> {
    ack: AckMode,
    status: &'a Status,
    progress: &'a mut Progress,
    source: Source,
    destination: Destination,
    from: Peer,
    to: Peer,
    window: Window,
    /// How many more messages it takes; `None` for any number.
    wanted: Option<u64>,
    stage: Stage,
    /// When the stage must be over.
    deadline: Option<Instant>,
    /// Which ends have answered the goodbye: the source, the destination.
    closed: [Closed; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The destination is being opened.
    OpensDestination,
    /// The source is being opened.
    OpensSource,
    /// Messages are moved.
    Moves,
    /// No more are taken; those on their way are waited for.
    Ends(Finish),
    /// All is settled; the goodbye is said. Its answer means that the acknowledgements have come.
    Closes(Finish),
}

impl<'a> Carry<'a> {
    pub(crate) fn new(
        spec: &Spec,
        translate: &Arc<dyn Translate>,
        (status, progress): (&'a Status, &'a mut Progress),
        [from, to]: [&Uri; 2],
        [from_stream, to_stream]: [Box<dyn Stream>; 2],
    ) -> Self {
        let wanted = match progress.extent {
            Extent::Count(count) => Some(count),
            Extent::Endless | Extent::Present => None,
        };
        let most = wanted.and_then(|count| u16::try_from(count).ok()).unwrap_or(u16::MAX);
        let terms = Terms { prefetch: spec.prefetch.min(most).max(1), ack: spec.ack };
        Self {
            ack: spec.ack,
            status,
            progress,
            source: Source::new(&spec.source, from, terms),
            destination: Destination::new(&spec.destination, to, translate.clone()),
            from: Peer::new(from_stream, from),
            to: Peer::new(to_stream, to),
            window: Window::new(),
            wanted,
            stage: Stage::OpensDestination,
            deadline: Some(Instant::now() + OPENING),
            closed: [Closed::No; 2],
        }
    }

    /// Moves messages until it is told to end, or has moved all that it should.
    ///
    /// # Errors
    /// Why it can't go on. What was not acknowledged is still at the source.
    pub(crate) async fn run(mut self, order: &mut watch::Receiver<Order>) -> Result<Finish, String> {
        self.destination.start(&mut self.to.out);
        let mut tick = tokio::time::interval(TICK);
        loop {
            while self.step()? {}
            if let Stage::Closes(finish) = self.stage
                && self.closed == [Closed::Yes; 2]
            {
                return Ok(finish);
            }
            let reads = self.reads();
            tokio::select! {
                result = self.from.progress(reads), if self.closed[0] == Closed::No => self.went_on(0, result)?,
                result = self.to.progress(Reads::On), if self.closed[1] == Closed::No => self.went_on(1, result)?,
                _ = tick.tick() => self.tick(Instant::now())?,
                told = order.wait_for(|order| *order == Order::End), if self.may_be_told() => {
                    drop(told);
                    self.end(Finish::Told);
                }
            }
        }
    }

    /// # Errors
    /// If a connection ended that is still needed.
    fn went_on(&mut self, end: usize, result: io::Result<()>) -> Result<(), String> {
        match (result, self.stage) {
            (Ok(()), _) => Ok(()),
            (Err(_), Stage::Closes(_)) => {
                self.closed[end] = Closed::Yes;
                Ok(())
            }
            (Err(error), _) => {
                let name = if end == 0 { "source" } else { "destination" };
                Err(format!("the connection to the {name} ended: {error}"))
            }
        }
    }

    /// Whether messages that come are still given on. Others are dropped here, and stay there.
    fn may_be_told(&self) -> bool {
        !matches!(self.stage, Stage::Ends(_) | Stage::Closes(_))
    }

    fn reads(&self) -> Reads {
        let waits = self.may_be_told() && self.is_full();
        if waits || self.stage == Stage::OpensDestination { Reads::Off } else { Reads::On }
    }

    fn is_full(&self) -> bool {
        self.window.bytes().max(self.to.waiting() + self.destination.waiting()) >= ENOUGH
    }

    fn end(&mut self, finish: Finish) {
        self.stage = Stage::Ends(finish);
        self.deadline = Some(Instant::now() + ENDING);
    }

    /// Takes what came from both ends. True if there may be more.
    fn step(&mut self) -> Result<bool, String> {
        let confirmed = self.take_destination()?;
        let took = self.take_source()?;
        self.settle()?;
        if let Stage::Ends(finish) = self.stage
            && self.window.len() == 0
        {
            self.source.close(&mut self.from.out);
            self.destination.close(&mut self.to.out);
            self.stage = Stage::Closes(finish);
            self.deadline = Some(Instant::now() + CLOSING);
        }
        Ok(confirmed || took)
    }

    fn take_destination(&mut self) -> Result<bool, String> {
        let Self { destination, to, window, status, closed, .. } = self;
        let Peer { input, out, .. } = to;
        let mut rest = &input[..];
        let mut is_ready = false;
        while let Some(event) = destination.poll(&mut rest, out)? {
            match event {
                DestinationEvent::Progress => {}
                DestinationEvent::Ready => is_ready = true,
                DestinationEvent::Confirmed(numbers) => window.confirm(numbers),
                DestinationEvent::Closed => closed[1] = Closed::Yes,
                DestinationEvent::Blocked => status.enter(State::Blocked),
                DestinationEvent::Unblocked => status.enter(State::Running),
            }
        }
        let taken = input.len() - rest.len();
        to.took(taken);
        if is_ready {
            self.stage = Stage::OpensSource;
            self.source.start(&mut self.from.out);
        }
        self.check_closed(1, "destination")?;
        Ok(taken > 0)
    }

    /// # Errors
    /// If an end has said goodbye by itself.
    fn check_closed(&self, end: usize, name: &str) -> Result<(), String> {
        match self.stage {
            Stage::Closes(_) => Ok(()),
            _ if self.closed[end] == Closed::No => Ok(()),
            _ => Err(format!("the {name} closed the connection")),
        }
    }

    fn take_source(&mut self) -> Result<bool, String> {
        let mut taken = 0;
        while self.takes() {
            let Some(size) = self.take_one(taken)? else { break };
            taken += size;
        }
        self.check_closed(0, "source")?;
        if self.wanted == Some(0) && self.may_be_told() {
            self.end(Finish::Complete);
        }
        self.from.took(taken);
        Ok(taken > 0)
    }

    fn takes(&self) -> bool {
        match self.stage {
            Stage::OpensDestination => false,
            Stage::OpensSource | Stage::Moves => !self.is_full() && self.wanted != Some(0),
            Stage::Ends(_) | Stage::Closes(_) => true,
        }
    }

    /// Takes one event of the source behind the first `skip` bytes. Returns how many bytes it had.
    fn take_one(&mut self, skip: usize) -> Result<Option<usize>, String> {
        let gives = self.may_be_told();
        let Self { source, destination, from, to, window, status, .. } = self;
        let Peer { input, out, .. } = from;
        let mut rest = &input[skip..];
        let before = rest.len();
        let Some(event) = source.poll(&mut rest, out)? else {
            // It may have passed over what is no event.
            let taken = before - rest.len();
            return Ok((taken > 0).then_some(taken));
        };
        match event {
            SourceEvent::Progress => {}
            SourceEvent::Closed => self.closed[0] = Closed::Yes,
            SourceEvent::Message { .. } if !gives => {}
            SourceEvent::Left(left) => status.leaves(Some(left)),
            SourceEvent::Ready { left } => {
                status.leaves(left);
                status.enter(State::Running);
                (self.stage, self.deadline) = (Stage::Moves, None);
                if self.progress.extent == Extent::Present {
                    let present = left.unwrap_or_default();
                    (self.wanted, self.progress.extent) = (Some(present), Extent::Count(present));
                }
            }
            SourceEvent::Message { tag, content } => {
                destination.give(&content, &mut to.out)?;
                let number = window.push(tag, content.size());
                if self.ack != AckMode::OnConfirm {
                    window.confirm(number..=number);
                }
                self.wanted = self.wanted.map(|wanted| wanted.saturating_sub(1));
            }
        }
        Ok(Some(before - rest.len()))
    }

    /// Acknowledges what has arrived.
    fn settle(&mut self) -> Result<(), String> {
        if let Some(done) = self.window.take_done() {
            self.source.settle(&done, &mut self.from.out)?;
            self.status.count(done.messages, done.bytes);
            self.progress.moved += done.messages;
        }
        self.status.carries(self.window.len());
        Ok(())
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            if matches!(self.stage, Stage::Closes(_)) {
                self.closed = [Closed::Yes; 2];
                return Ok(());
            }
            return Err(match self.stage {
                Stage::OpensDestination => "the destination does not open".to_owned(),
                Stage::OpensSource => "the source does not open".to_owned(),
                _ => "the destination did not confirm what was on its way in time".to_owned(),
            });
        }
        if self.reads() == Reads::Off {
            self.from.was_not_heard(now);
        }
        for (peer, name) in [(&self.from, "source"), (&self.to, "destination")] {
            if peer.is_silent(now) {
                return Err(format!("the {name} has said nothing for too long"));
            }
        }
        if self.stage == Stage::Moves {
            self.source.ask_left(&mut self.from.out)?;
        }
        if self.stage != Stage::OpensDestination && self.from.owes_heartbeat(now) {
            self.source.heartbeat(&mut self.from.out);
        }
        if self.to.owes_heartbeat(now) {
            self.destination.heartbeat(&mut self.to.out);
        }
        Ok(())
    }
}
