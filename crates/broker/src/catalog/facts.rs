//! The fact that the log has of an exchange. `docs/formats/facts.md` draws it.

use journal::{Appender, Owner};

use crate::catalog::Exchange;
use crate::encoding::{write_bool, write_text, write_varint};
use crate::store::facts::{EXCHANGE, table_bytes};

pub(crate) fn log_exchange(appender: &mut Appender<'_>, vhost: Owner, exchange: &Exchange) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, vhost);
    write_text(&mut bytes, &exchange.name);
    write_text(&mut bytes, exchange.kind.name());
    write_bool(&mut bytes, exchange.auto_delete);
    write_bool(&mut bytes, exchange.internal);
    table_bytes(&mut bytes, &exchange.arguments);
    appender.fact(None, exchange.id, EXCHANGE, &[&bytes]);
}
