//! Class `exchange`: declare, delete, and bindings between exchanges.

use broker::{BindingSpec, DeleteIf, DestinationName, ExchangeSpec};

use crate::codec::methods::{
    ExchangeBind, ExchangeBindOk, ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk, ExchangeUnbind,
    ExchangeUnbindOk,
};
use crate::dialect::table_to_neutral;
use crate::session::channel::Channel;
use crate::session::context::Context;
use crate::session::error::Failure;

impl Channel {
    pub(super) fn declare_exchange(
        &mut self,
        cx: &mut Context<'_>,
        declare: &ExchangeDeclare<'_>,
    ) -> Result<(), Failure> {
        let name = without_line_ends(declare.exchange);
        if declare.passive {
            let ticket = cx.client.check_exchange(&name, cx.now)?;
            if !declare.nowait {
                cx.link.send_when_durable(cx.client, ticket, cx.number, ExchangeDeclareOk {});
            }
            return Ok(());
        }
        let spec = ExchangeSpec {
            name,
            kind: declare.kind.to_owned(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: table_to_neutral(declare.arguments),
        };
        let ticket = cx.client.declare_exchange(&spec, cx.now)?;
        if !declare.nowait {
            cx.link.send_when_durable(cx.client, ticket, cx.number, ExchangeDeclareOk {});
        }
        Ok(())
    }

    pub(super) fn delete_exchange(&mut self, cx: &mut Context<'_>, delete: &ExchangeDelete<'_>) -> Result<(), Failure> {
        let name = without_line_ends(delete.exchange);
        let ticket = cx.client.delete_exchange(&name, DeleteIf { unused: delete.if_unused, empty: false }, cx.now)?;
        if !delete.nowait {
            cx.link.send_when_durable(cx.client, ticket, cx.number, ExchangeDeleteOk {});
        }
        Ok(())
    }

    pub(super) fn bind_exchange(&mut self, cx: &mut Context<'_>, bind: &ExchangeBind<'_>) -> Result<(), Failure> {
        let spec = BindingSpec {
            source: without_line_ends(bind.source),
            destination: DestinationName::Exchange(without_line_ends(bind.destination)),
            key: bind.routing_key.to_owned(),
            arguments: table_to_neutral(bind.arguments),
        };
        let ticket = cx.client.bind(&spec, cx.now)?;
        if !bind.nowait {
            cx.link.send_when_durable(cx.client, ticket, cx.number, ExchangeBindOk {});
        }
        Ok(())
    }

    pub(super) fn unbind_exchange(&mut self, cx: &mut Context<'_>, unbind: &ExchangeUnbind<'_>) -> Result<(), Failure> {
        let spec = BindingSpec {
            source: without_line_ends(unbind.source),
            destination: DestinationName::Exchange(without_line_ends(unbind.destination)),
            key: unbind.routing_key.to_owned(),
            arguments: table_to_neutral(unbind.arguments),
        };
        let ticket = cx.client.unbind(&spec, cx.now)?;
        if !unbind.nowait {
            cx.link.send_when_durable(cx.client, ticket, cx.number, ExchangeUnbindOk {});
        }
        Ok(())
    }
}

/// A name without line feeds and carriage returns, which RabbitMQ drops as well.
pub(super) fn without_line_ends(name: &str) -> String {
    name.replace(['\r', '\n'], "")
}
