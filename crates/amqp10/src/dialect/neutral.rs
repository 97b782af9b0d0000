//! The sections of a message as the neutral view of its properties.

use broker::{Field, Id, IdForm, Properties, Selected, Table};

use super::address::queue_of;
use super::stored::BodyKind;
use super::values::{select, to_neutral};
use crate::codec::{FieldError, MessageId, Sections, ValueRef, message};

/// RabbitMQ's annotation for the kind of a message, which AMQP 0-9-1 calls its type.
pub(super) const KIND: &str = "x-basic-type";
/// The annotation for the application that published it.
pub(super) const APP_ID: &str = "x-opt-app-id";
/// The kind of a message whose body only this protocol can read, as in RabbitMQ.
const ENCODED: &str = "amqp-1.0";
/// The headers for the group of a message, as JMS calls them.
pub(super) const GROUP_ID: &str = "JMSXGroupID";
pub(super) const GROUP_SEQUENCE: &str = "JMSXGroupSeq";

/// Whether an annotation is a header for other protocols, and a header an annotation here.
pub(super) fn is_annotation(name: &str) -> bool {
    name.starts_with("x-")
}

/// The annotations that are headers elsewhere.
fn shown_annotations<'a>(sections: &Sections<'a>) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> {
    let annotations = sections.message_annotations();
    let named = annotations.iter().filter_map(|(key, value)| Some((key.as_text()?, value)));
    named.filter(|(name, _)| is_annotation(name) && ![KIND, APP_ID].contains(name))
}

fn annotation<'a>(sections: &Sections<'a>, name: &str) -> Option<ValueRef<'a>> {
    sections.message_annotations().get(name)
}

pub(super) fn properties(sections: &Sections<'_>, kind: BodyKind) -> Result<Properties, FieldError> {
    let header = sections.header()?;
    let own = sections.properties()?;
    let text = |text: Option<&str>| text.map(str::to_owned);
    Ok(Properties {
        content_type: text(own.content_type.map(|symbol| symbol.0)),
        content_encoding: text(own.content_encoding.map(|symbol| symbol.0)),
        headers: headers(sections, &own),
        persistent: header.durable,
        priority: header.priority,
        correlation_id: own.correlation_id.map(id),
        reply_to: own.reply_to.map(queue_of),
        expiration: header.ttl.map(u64::from),
        message_id: own.message_id.map(id),
        timestamp: own.creation_time.map(|time| time.0),
        kind: text(kind_of(sections, &own, kind)),
        user_id: text(own.user_id.and_then(|bytes| str::from_utf8(bytes).ok())),
        app_id: text(annotation(sections, APP_ID).and_then(|value| value.as_text())),
        cluster_id: None,
    })
}

/// The application's properties, the group, and the annotations that are headers elsewhere.
fn headers(sections: &Sections<'_>, own: &message::Properties<'_>) -> Table {
    let application = sections.application_properties();
    let mut headers: Vec<(String, broker::Value)> =
        application.iter().filter_map(|(key, value)| Some((key.as_text()?.to_owned(), to_neutral(value)))).collect();
    headers.extend(own.group_id.map(|group| (GROUP_ID.to_owned(), broker::Value::Text(group.to_owned()))));
    headers.extend(own.group_sequence.map(|number| (GROUP_SEQUENCE.to_owned(), broker::Value::U32(number))));
    headers.extend(shown_annotations(sections).map(|(name, value)| (name.to_owned(), to_neutral(value))));
    Table(headers)
}

/// The kind of the message: RabbitMQ's annotation, or what JMS calls its type.
fn kind_of<'a>(sections: &Sections<'a>, own: &message::Properties<'a>, kind: BodyKind) -> Option<&'a str> {
    let said = annotation(sections, KIND).and_then(|value| value.as_text());
    let encoded = (kind == BodyKind::Encoded).then_some(ENCODED);
    encoded.or(said).or(own.subject)
}

pub(super) fn id(id: MessageId<'_>) -> Id {
    match id {
        MessageId::Number(number) => Id::Number(number),
        MessageId::Uuid(bits) => Id::Uuid(bits),
        MessageId::Binary(bytes) => Id::Bytes(bytes.to_vec()),
        MessageId::Text(text) => Id::Text(text.to_owned()),
    }
}

/// One property as selectors see it. Only the section that it may be in is read.
pub(super) fn look_up<'m>(sections: &Sections<'m>, kind: BodyKind, field: Field<'_>) -> Selected<'m> {
    let own = || sections.properties().unwrap_or_default();
    let text = match field {
        Field::Header(name) => return header(sections, name),
        Field::CorrelationId(form) => return select_id(own().correlation_id, form),
        Field::MessageId(form) => return select_id(own().message_id, form),
        Field::Timestamp => return own().creation_time.map_or(Selected::Null, |time| Selected::Int(time.0)),
        Field::ReplyTo => {
            return own().reply_to.map_or(Selected::Null, |address| Selected::Text(queue_of(address).into()));
        }
        Field::ContentType => own().content_type.map(|symbol| symbol.0),
        Field::ContentEncoding => own().content_encoding.map(|symbol| symbol.0),
        Field::Kind => kind_of(sections, &own(), kind),
        Field::UserId => own().user_id.and_then(|bytes| str::from_utf8(bytes).ok()),
        Field::AppId => annotation(sections, APP_ID).and_then(|value| value.as_text()),
    };
    text.map_or(Selected::Null, |text| Selected::Text(text.into()))
}

/// A header, in the order in which [`headers`] has them.
fn header<'m>(sections: &Sections<'m>, name: &str) -> Selected<'m> {
    let application: Option<ValueRef<'m>> = sections.application_properties().get(name);
    let own = || sections.properties().unwrap_or_default();
    let group = || match name {
        GROUP_ID => own().group_id.map(ValueRef::Str),
        GROUP_SEQUENCE => own().group_sequence.map(ValueRef::U32),
        _ => None,
    };
    let annotation = || shown_annotations(sections).find(|(known, _)| *known == name).map(|(_, value)| value);
    application.or_else(group).or_else(annotation).map_or(Selected::Null, select)
}

fn select_id(found: Option<MessageId<'_>>, form: IdForm) -> Selected<'_> {
    let Some(found) = found else { return Selected::Null };
    match (found, form) {
        (MessageId::Text(text), _) => Selected::Text(text.into()),
        (other, IdForm::Plain) => {
            id(other).as_text().map_or(Selected::Null, |text| Selected::Text(text.into_owned().into()))
        }
        (other, IdForm::Jms) => Selected::Text(id(other).jms_text().into_owned().into()),
    }
}
