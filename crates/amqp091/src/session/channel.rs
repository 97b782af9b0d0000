//! One channel: a session of the broker, the content that is arriving, and the dispatch of methods
//! to their class.
//!
//! A method that can't be handled yet changes nothing: its frame is offered again later.

use std::num::NonZeroU32;

use broker::{Outcome, Purging, SessionId, TransactionId};

use crate::codec::methods::{AccessRequestOk, ChannelCloseOk, ChannelFlowOk};
use crate::codec::{Frame, FrameKind, Method, decode_method};
use crate::session::context::Context;
use crate::session::error::{Failure, ReplyCode};
use crate::session::events;
use crate::session::incoming::Incoming;
use crate::session::link::Waiting;

/// The outcome of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// The same frame must be offered again; the link says when, or at once.
    Later,
    /// The channel is closed and its number is free.
    Closed,
}

/// Whether publishes are answered, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    /// Publishes are numbered; so many have a number.
    Confirming(u64),
    /// Publishes and settlements wait for the commit of this transaction.
    Transactional(TransactionId),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) session: SessionId,
    pub(super) mode: Mode,
    /// The prefetch of later consumers.
    pub(super) window: Option<NonZeroU32>,
    /// The deliveries that the next commit settles, in order.
    pub(super) settlements: Vec<(u64, Outcome)>,
    /// The queue that was declared last; an empty name means this queue.
    pub(super) last_queue: String,
    pub(super) incoming: Incoming,
    /// The purge whose frame is offered again until it has ended.
    pub(super) purging: Option<Purging>,
    /// We sent a close, and ignore everything until the peer answers it.
    closing: bool,
}

impl Channel {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            mode: Mode::Plain,
            window: None,
            settlements: Vec::new(),
            last_queue: String::new(),
            incoming: Incoming::Method,
            purging: None,
            closing: false,
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Drops the content that was arriving and returns its size.
    pub(super) fn begin_closing(&mut self) -> u64 {
        self.closing = true;
        self.incoming.abandon()
    }

    pub(super) fn take_frame(&mut self, cx: &mut Context<'_>, frame: Frame<'_>) -> Result<Step, Failure> {
        if self.closing {
            return Ok(self.take_while_closing(cx, frame));
        }
        match (&self.incoming, frame.kind) {
            (Incoming::Method, FrameKind::Method) => {
                let method = decode_method(frame.payload)?;
                self.take_method(cx, method).map_err(|failure| failure.of(method.id()))
            }
            (Incoming::Method, _) => {
                let text = "expected method frame, got non method frame instead";
                Err(Failure::new(ReplyCode::UnexpectedFrame, text))
            }
            _ => self.take_content(cx, frame),
        }
    }

    fn take_while_closing(&mut self, cx: &mut Context<'_>, frame: Frame<'_>) -> Step {
        if frame.kind != FrameKind::Method {
            return Step::Done;
        }
        match decode_method(frame.payload) {
            Ok(Method::ChannelCloseOk(_)) => Step::Closed,
            Ok(Method::ChannelClose(_)) => {
                // Both sides closed at the same time: each answers the other.
                cx.link.send(cx.number, ChannelCloseOk {});
                Step::Done
            }
            _ => Step::Done,
        }
    }

    fn take_method(&mut self, cx: &mut Context<'_>, method: Method<'_>) -> Result<Step, Failure> {
        if !overtakes_parked(&method) && cx.client.parked(self.session) {
            cx.link.waiting = Some(Waiting::Unparked(self.session));
            return Ok(Step::Later);
        }
        match method {
            Method::BasicAck(m) => self.ack(cx, &m)?,
            Method::BasicNack(m) => self.nack(cx, &m)?,
            Method::BasicReject(m) => self.reject(cx, &m)?,
            Method::BasicPublish(m) => self.begin_publish(&m)?,
            Method::BasicGet(m) => return self.get(cx, &m),
            Method::BasicQos(m) => self.qos(cx, &m)?,
            Method::BasicConsume(m) => self.consume(cx, &m)?,
            Method::BasicCancel(m) => self.cancel(cx, &m),
            // The answer to our own cancel.
            Method::BasicCancelOk(_) => {}
            Method::BasicRecover(m) => self.recover(cx, &m)?,
            Method::BasicRecoverAsync(m) => self.recover_async(cx, &m)?,
            Method::QueueDeclare(m) => self.declare_queue(cx, &m)?,
            Method::QueueBind(m) => self.bind_queue(cx, &m)?,
            Method::QueueUnbind(m) => self.unbind_queue(cx, &m)?,
            Method::QueuePurge(m) => return self.purge_queue(cx, &m),
            Method::QueueDelete(m) => self.delete_queue(cx, &m)?,
            Method::ExchangeDeclare(m) => self.declare_exchange(cx, &m)?,
            Method::ExchangeDelete(m) => self.delete_exchange(cx, &m)?,
            Method::ExchangeBind(m) => self.bind_exchange(cx, &m)?,
            Method::ExchangeUnbind(m) => self.unbind_exchange(cx, &m)?,
            Method::ConfirmSelect(m) => self.select_confirms(cx, &m)?,
            Method::TxSelect(_) => self.select_transactions(cx)?,
            Method::TxCommit(_) => self.commit(cx)?,
            Method::TxRollback(_) => self.roll_back(cx)?,
            Method::AccessRequest(_) => cx.link.send(cx.number, AccessRequestOk { ticket: 1 }),
            Method::ChannelFlow(m) if m.active => cx.link.send(cx.number, ChannelFlowOk { active: true }),
            Method::ChannelFlow(_) => return Err(Failure::new(ReplyCode::NotImplemented, "active=false")),
            Method::ChannelOpen(_) => {
                return Err(Failure::new(ReplyCode::ChannelError, "second 'channel.open' seen"));
            }
            Method::ChannelClose(_) => return Ok(self.close(cx)),
            _ => return Err(Failure::new(ReplyCode::CommandInvalid, "unimplemented method")),
        }
        Ok(Step::Done)
    }

    /// The peer closes the channel. Its number is free when the answer is written, which comes
    /// before anything else.
    fn close(&mut self, cx: &mut Context<'_>) -> Step {
        let Context { client, link, sessions, broker, now, .. } = cx;
        client.report_returned(Some(self.session), *now, &mut |event| events::report(link, sessions, broker, event));
        let ticket = cx.client.close_session(self.session, cx.now);
        cx.link.send_when_durable(cx.client, ticket, cx.number, ChannelCloseOk {});
        Step::Closed
    }
}

/// Whether a method may overtake publishes that wait for an alarm. Methods that make room may, and
/// those that close the channel.
fn overtakes_parked(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::BasicAck(_)
            | Method::BasicNack(_)
            | Method::BasicReject(_)
            | Method::BasicPublish(_)
            | Method::BasicGet(_)
            | Method::BasicQos(_)
            | Method::BasicCancel(_)
            | Method::BasicCancelOk(_)
            | Method::ChannelClose(_)
    )
}
