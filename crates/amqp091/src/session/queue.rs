//! Class `queue`: declare, bind, unbind, purge, delete. The broker's decisions and texts are passed
//! on unchanged.

use broker::{BindingSpec, Declared, DeleteIf, DestinationName, QueueSpec};

use crate::codec::Table;
use crate::codec::methods::{
    QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge, QueuePurgeOk,
    QueueUnbind, QueueUnbindOk,
};
use crate::dialect::table_to_neutral;
use crate::session::channel::{Channel, Step};
use crate::session::context::Context;
use crate::session::error::Failure;
use crate::session::exchange::without_line_ends;
use crate::session::publish::{REPLY_PREFIX, REPLY_TO};

impl Channel {
    pub(super) fn declare_queue(&mut self, cx: &mut Context<'_>, declare: &QueueDeclare<'_>) -> Result<(), Failure> {
        let name = without_line_ends(declare.queue);
        let declared = if name == REPLY_TO {
            // It is not a queue, and always exists.
            Declared { name, ready: 0, consumers: 1, ticket: cx.client.settled_ticket() }
        } else if declare.passive || name.starts_with(REPLY_PREFIX) {
            cx.client.check_queue(&self.queue_name(&name)?, cx.now)?
        } else {
            let spec = QueueSpec {
                name,
                durable: declare.durable,
                exclusive: declare.exclusive,
                auto_delete: declare.auto_delete,
                arguments: table_to_neutral(declare.arguments),
            };
            cx.client.declare_queue(&spec, cx.now)?
        };
        if !declare.nowait {
            let reply = QueueDeclareOk {
                queue: &declared.name,
                message_count: clamp(declared.ready),
                consumer_count: clamp(declared.consumers),
            };
            cx.link.send_when_durable(cx.client, declared.ticket, cx.number, reply);
        }
        self.last_queue = declared.name;
        Ok(())
    }

    pub(super) fn bind_queue(&mut self, cx: &mut Context<'_>, bind: &QueueBind<'_>) -> Result<(), Failure> {
        let spec = self.binding(bind.queue, bind.exchange, bind.routing_key, bind.arguments)?;
        let ticket = cx.client.bind(&spec, cx.now)?;
        if !bind.nowait {
            cx.link.send_when_durable(cx.client, ticket, cx.number, QueueBindOk {});
        }
        Ok(())
    }

    pub(super) fn unbind_queue(&mut self, cx: &mut Context<'_>, unbind: &QueueUnbind<'_>) -> Result<(), Failure> {
        let spec = self.binding(unbind.queue, unbind.exchange, unbind.routing_key, unbind.arguments)?;
        let ticket = cx.client.unbind(&spec, cx.now)?;
        cx.link.send_when_durable(cx.client, ticket, cx.number, QueueUnbindOk {});
        Ok(())
    }

    /// An empty queue name means the queue that was declared last. If the key is empty as well, the
    /// queue's name is the key.
    fn binding(&self, queue: &str, exchange: &str, key: &str, arguments: Table<'_>) -> Result<BindingSpec, Failure> {
        let name = self.queue_name(&without_line_ends(queue))?;
        let key = if queue.is_empty() && key.is_empty() { name.clone() } else { key.to_owned() };
        Ok(BindingSpec {
            source: without_line_ends(exchange),
            destination: DestinationName::Queue(name),
            key,
            arguments: table_to_neutral(arguments),
        })
    }

    /// A long purge takes several turns, and its frame is offered again in each. So what comes
    /// behind it waits, and other connections do not.
    pub(super) fn purge_queue(&mut self, cx: &mut Context<'_>, purge: &QueuePurge<'_>) -> Result<Step, Failure> {
        let mut purging = match self.purging.take() {
            Some(purging) => purging,
            None => cx.client.begin_purge(&self.queue_name(purge.queue)?, cx.now)?,
        };
        let Some((count, ticket)) = cx.client.go_on_purging(&mut purging) else {
            self.purging = Some(purging);
            return Ok(Step::Later);
        };
        if !purge.nowait {
            let reply = QueuePurgeOk { message_count: clamp(count) };
            cx.link.send_when_durable(cx.client, ticket, cx.number, reply);
        }
        Ok(Step::Done)
    }

    pub(super) fn delete_queue(&mut self, cx: &mut Context<'_>, delete: &QueueDelete<'_>) -> Result<(), Failure> {
        let name = self.queue_name(&without_line_ends(delete.queue))?;
        let only = DeleteIf { unused: delete.if_unused, empty: delete.if_empty };
        let (count, ticket) = cx.client.delete_queue(&name, only, cx.now)?;
        if !delete.nowait {
            let reply = QueueDeleteOk { message_count: clamp(count) };
            cx.link.send_when_durable(cx.client, ticket, cx.number, reply);
        }
        Ok(())
    }
}

/// A count, cut to the protocol's largest number.
fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
