//! Class `basic` except for publishing: prefetch, consumers, fetching, settlements.

use std::num::NonZeroU32;

use broker::{Consume, ConsumerArguments, Credit, Fetch, Outcome, Settling, Tags};

use crate::codec::methods::{
    BasicAck, BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicGet, BasicGetEmpty, BasicNack, BasicQos,
    BasicQosOk, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReject,
};
use crate::dialect::table_to_neutral;
use crate::session::channel::{Channel, Mode, Step};
use crate::session::context::Context;
use crate::session::error::{Failure, ReplyCode};
use crate::session::events;
use crate::session::link::Waiting;
use crate::session::publish::{REPLY_PREFIX, REPLY_TO};

impl Channel {
    pub(super) fn qos(&mut self, cx: &mut Context<'_>, qos: &BasicQos) -> Result<(), Failure> {
        if qos.prefetch_size != 0 {
            let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Failure::new(ReplyCode::NotImplemented, text));
        }
        let window = NonZeroU32::new(qos.prefetch_count.into());
        if qos.global {
            cx.client.share_window(self.session, window, cx.now);
        } else {
            self.window = window;
            cx.client.show_window(self.session, window);
        }
        if cx.link.traits.strict_qos && !qos.global {
            cx.client.set_credit_of_all(self.session, Credit::Window { most: window }, cx.now);
        }
        cx.link.send(cx.number, BasicQosOk {});
        Ok(())
    }

    pub(super) fn consume(&mut self, cx: &mut Context<'_>, consume: &BasicConsume<'_>) -> Result<(), Failure> {
        let queue = self.queue_name(consume.queue)?;
        if queue == REPLY_TO {
            return self.consume_replies(cx, consume);
        }
        // no_local is ignored, as by RabbitMQ: clients may set it and expect their own messages.
        let wanted = Consume {
            source: queue.into(),
            tag: consumer_tag(cx, consume),
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            credit: Credit::Window { most: self.window },
            arguments: ConsumerArguments::parse(&table_to_neutral(consume.arguments)),
            ..Consume::default()
        };
        let tag = cx.client.consume(self.session, wanted, cx.now)?;
        if !consume.nowait {
            cx.link.send(cx.number, BasicConsumeOk { consumer_tag: &tag });
        }
        Ok(())
    }

    /// Replies reach a channel without a queue and are not acknowledged.
    fn consume_replies(&mut self, cx: &mut Context<'_>, consume: &BasicConsume<'_>) -> Result<(), Failure> {
        if !consume.no_ack {
            return Err(Failure::new(ReplyCode::PreconditionFailed, "reply consumer cannot acknowledge"));
        }
        let tag = consumer_tag(cx, consume);
        let tag = cx.client.consume_replies(self.session, &tag, REPLY_PREFIX, cx.now)?;
        if !consume.nowait {
            cx.link.send(cx.number, BasicConsumeOk { consumer_tag: &tag });
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, cx: &mut Context<'_>, cancel: &BasicCancel<'_>) {
        let Context { client, link, sessions, broker, .. } = cx;
        let ticket = client.cancel(self.session, cancel.consumer_tag, cx.now, &mut |event| {
            events::report(link, sessions, broker, event);
        });
        if !cancel.nowait {
            let reply = BasicCancelOk { consumer_tag: cancel.consumer_tag };
            link.send_when_durable(client, ticket, cx.number, reply);
        }
    }

    pub(super) fn get(&mut self, cx: &mut Context<'_>, get: &BasicGet<'_>) -> Result<Step, Failure> {
        let queue = self.queue_name(get.queue)?;
        let (number, now) = (cx.number, cx.now);
        let settling = if get.no_ack { Settling::Auto } else { Settling::Manual };
        let Context { client, link, sessions, broker, .. } = cx;
        let fetched = client.get(self.session, &queue, settling, now, &mut |delivery, remaining| {
            events::got(link, sessions, broker, delivery, remaining);
        })?;
        match fetched {
            Fetch::Message => {}
            Fetch::Empty => link.send(number, BasicGetEmpty::default()),
            Fetch::Wait(awaited) => {
                if !client.durable(awaited) {
                    link.waiting = Some(Waiting::Durable(awaited));
                }
                return Ok(Step::Later);
            }
        }
        Ok(Step::Done)
    }

    #[inline]
    pub(super) fn ack(&mut self, cx: &mut Context<'_>, ack: &BasicAck) -> Result<(), Failure> {
        let tags = if ack.multiple { up_to(ack.delivery_tag) } else { Tags::One(ack.delivery_tag) };
        self.settle(cx, tags, &Outcome::Accepted)
    }

    pub(super) fn nack(&mut self, cx: &mut Context<'_>, nack: &BasicNack) -> Result<(), Failure> {
        let tags = if nack.multiple { up_to(nack.delivery_tag) } else { Tags::One(nack.delivery_tag) };
        self.settle(cx, tags, if nack.requeue { &Outcome::Released } else { &Outcome::REJECTED })
    }

    /// A requeue counts as a failure, and that of a nack as a return, as in RabbitMQ.
    pub(super) fn reject(&mut self, cx: &mut Context<'_>, reject: &BasicReject) -> Result<(), Failure> {
        let outcome = if reject.requeue { &Outcome::FAILED } else { &Outcome::REJECTED };
        self.settle(cx, Tags::One(reject.delivery_tag), outcome)
    }

    #[inline]
    fn settle(&mut self, cx: &mut Context<'_>, tags: Tags, outcome: &Outcome) -> Result<(), Failure> {
        let settled = match self.mode {
            Mode::Transactional(_) => self.settle_at_commit(cx, tags, outcome)?,
            Mode::Plain | Mode::Confirming(_) => cx.client.settle(self.session, tags, outcome)?,
        };
        match tags {
            Tags::One(tag) | Tags::UpTo(tag) if settled == 0 => {
                Err(Failure::new(ReplyCode::PreconditionFailed, format!("unknown delivery tag {tag}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn recover(&mut self, cx: &mut Context<'_>, recover: &BasicRecover) -> Result<(), Failure> {
        if !recover.requeue {
            return Err(not_requeued());
        }
        let ticket = cx.client.recover(self.session, cx.now);
        cx.link.send_when_durable(cx.client, ticket, cx.number, BasicRecoverOk {});
        Ok(())
    }

    /// The old form of recover, which has no reply.
    pub(super) fn recover_async(&mut self, cx: &mut Context<'_>, recover: &BasicRecoverAsync) -> Result<(), Failure> {
        if !recover.requeue {
            return Err(not_requeued());
        }
        cx.client.recover(self.session, cx.now);
        Ok(())
    }

    /// `name`; if it is empty, the queue that was declared last.
    pub(super) fn queue_name(&self, name: &str) -> Result<String, Failure> {
        if !name.is_empty() {
            return Ok(name.to_owned());
        }
        if self.last_queue.is_empty() {
            return Err(Failure::new(ReplyCode::NotFound, "no previously declared queue"));
        }
        Ok(self.last_queue.clone())
    }
}

/// The deliveries that a settlement with `multiple` names: all up to the tag, and all of them with
/// tag 0.
#[inline]
fn up_to(tag: u64) -> Tags {
    if tag == 0 { Tags::All } else { Tags::UpTo(tag) }
}

/// The consumer's tag, or one of the form that RabbitMQ generates.
fn consumer_tag(cx: &Context<'_>, consume: &BasicConsume<'_>) -> String {
    match consume.consumer_tag {
        "" => cx.client.fresh_name("amq.ctag-"),
        tag => tag.to_owned(),
    }
}

/// With `requeue=false` the specification asks for redelivery to the same consumer. RabbitMQ does
/// not support that either.
#[cold]
fn not_requeued() -> Failure {
    Failure::new(ReplyCode::NotImplemented, "requeue=false")
}
