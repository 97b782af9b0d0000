//! An open connection: its channels, and the way of a frame to its channel.
//!
//! A publish that is complete in the input goes straight from the read buffer to the broker. Every
//! other frame goes through the state of its channel.

use std::time::Instant;

use broker::{Broker, Client, SessionId};

use crate::codec::methods::ChannelOpenOk;
use crate::codec::{Frame, FrameKind, Method, decode_method};
use crate::session::channel::{Channel, Step};
use crate::session::content;
use crate::session::context::{Context, Sessions, UserNames};
use crate::session::error::{Failure, ReplyCode};
use crate::session::events;
use crate::session::link::{Link, Waiting};

/// The outcome of a frame.
pub(super) enum Taken {
    /// It was taken, and also this many bytes of input after it.
    Frames(usize),
    /// It must be offered again: the link says what is waited for, unless that has come meanwhile.
    Later,
}

/// See the module.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) sessions: Sessions,
    broker: Broker,
    /// By number; grows with the highest number in use.
    channels: Vec<Option<Box<Channel>>>,
    open_channels: usize,
    channel_max: u16,
    names: UserNames,
    /// Bytes of incomplete bodies, on all channels together.
    unfinished: u64,
}

impl Running {
    pub(super) fn new(client: Client, broker: Broker, channel_max: u16, names: UserNames) -> Self {
        Self {
            client,
            sessions: Sessions::default(),
            broker,
            channels: Vec::new(),
            open_channels: 0,
            channel_max,
            names,
            unfinished: 0,
        }
    }

    /// Takes a frame of a channel other than 0; `after` is the input after it.
    #[inline]
    pub(super) fn take_frame(
        &mut self,
        link: &mut Link,
        frame: Frame<'_>,
        after: &[u8],
        now: Instant,
    ) -> Result<Taken, Failure> {
        if frame.kind == FrameKind::Heartbeat {
            return Err(Failure::new(ReplyCode::UnexpectedFrame, "type 8, all octets = <<>>"));
        }
        let Self { client, sessions, broker, channels, unfinished, names, .. } = self;
        let Some(channel) = channels.get_mut(usize::from(frame.channel)).and_then(Option::as_deref_mut) else {
            return self.take_first_frame(link, frame);
        };
        let names = *names;
        let mut context = Context { client, link, sessions, broker, unfinished, names, number: frame.channel, now };
        if content::is_publish(frame) {
            match channel.take_whole_publish(&mut context, frame, after)? {
                0 => {}
                more => return Ok(Taken::Frames(more)),
            }
        }
        match channel.take_frame(&mut context, frame)? {
            Step::Done => Ok(Taken::Frames(0)),
            Step::Later => Ok(Taken::Later),
            Step::Closed => {
                self.forget(frame.channel);
                Ok(Taken::Frames(0))
            }
        }
    }

    /// The first frame of a channel must open it.
    fn take_first_frame(&mut self, link: &mut Link, frame: Frame<'_>) -> Result<Taken, Failure> {
        if frame.kind != FrameKind::Method {
            let text = "expected method frame, got non method frame instead";
            return Err(Failure::new(ReplyCode::UnexpectedFrame, text));
        }
        let method = decode_method(frame.payload)?;
        match method {
            Method::ChannelOpen(_) => self.open_channel(link, frame.channel).map_err(|f| f.of(method.id()))?,
            // The answer to a close that crossed ours: the channel is closed already.
            Method::ChannelCloseOk(_) => {}
            _ => return Err(Failure::new(ReplyCode::ChannelError, "expected 'channel.open'").of(method.id())),
        }
        Ok(Taken::Frames(0))
    }

    fn open_channel(&mut self, link: &mut Link, number: u16) -> Result<(), Failure> {
        let (open, max) = (self.open_channels, self.channel_max);
        if open >= usize::from(max) {
            let text = format!("number of channels opened ({open}) has reached the negotiated channel_max ({max})");
            return Err(Failure::new(ReplyCode::NotAllowed, text));
        }
        if let Some(limit) = self.client.session_limit_reached() {
            let user = self.client.user();
            let text = format!(
                "number of channels opened for user '{user}' has reached the maximum allowed user limit of {limit}"
            );
            return Err(Failure::new(ReplyCode::NotAllowed, text));
        }
        self.client.check_session("channel")?;
        if number > max {
            let text = format!("channel number {number} is higher than the negotiated channel_max ({max})");
            return Err(Failure::new(ReplyCode::ChannelError, text));
        }
        let index = usize::from(number);
        if index >= self.channels.len() {
            self.channels.resize_with(index + 1, || None);
        }
        let session = self.client.open_session(number.into());
        self.sessions.insert(session, number);
        self.channels[index] = Some(Box::new(Channel::new(session)));
        self.open_channels += 1;
        link.send(number, ChannelOpenOk::default());
        Ok(())
    }

    /// Closes a channel from our side.
    pub(super) fn close_channel(&mut self, link: &mut Link, number: u16, failure: &Failure, now: Instant) {
        let Some(channel) = self.channels.get_mut(usize::from(number)).and_then(Option::as_deref_mut) else { return };
        if channel.is_closing() {
            return;
        }
        self.unfinished -= channel.begin_closing();
        let session = channel.session;
        self.report_returned(link, Some(session), now);
        self.client.close_session(session, now);
        self.sessions.remove(session);
        // A commit that waited for an alarm is rolled back now, and no event reports that. A commit
        // that stands needs no report, because its channel is closed. So the connection stops
        // waiting here.
        link.waiting.take_if(|waiting| matches!(waiting, Waiting::Commit { channel } if *channel == number));
        link.send_failure(number, failure);
    }

    /// Returns the unroutable messages of a channel, or of all, before it closes.
    pub(super) fn report_returned(&mut self, link: &mut Link, session: Option<SessionId>, now: Instant) {
        let Self { client, sessions, broker, .. } = self;
        client.report_returned(session, now, &mut |event| events::report(link, sessions, broker, event));
    }

    fn forget(&mut self, number: u16) {
        if let Some(channel) = self.channels.get_mut(usize::from(number)).and_then(Option::take) {
            self.open_channels -= 1;
            self.sessions.remove(channel.session);
        }
    }
}
