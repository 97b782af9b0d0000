//! The identifiers of messages: texts in most protocols, of four types in AMQP 1.0.

use std::borrow::Cow;

use crate::value::{Value, uuid_text};

/// A message id or correlation id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id {
    /// Text.
    Text(String),
    /// An unsigned number.
    Number(u64),
    /// A UUID, its first byte first.
    Uuid([u8; 16]),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Id {
    /// The text of it in protocols whose ids are texts: a number's digits, a UUID as a URN. Bytes
    /// have one if they are UTF-8.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Number(number) => Some(Cow::Owned(number.to_string())),
            Self::Uuid(bytes) => Some(Cow::Owned(uuid_text("urn:uuid:", *bytes))),
            Self::Bytes(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
        }
    }

    /// The bytes that stand for it wherever ids are compared.
    pub(crate) fn as_bytes(&self) -> Cow<'_, [u8]> {
        match (self, self.as_text()) {
            (Self::Bytes(bytes), _) => Cow::Borrowed(bytes),
            (_, Some(Cow::Borrowed(text))) => Cow::Borrowed(text.as_bytes()),
            (_, text) => Cow::Owned(text.unwrap_or_default().into_owned().into_bytes()),
        }
    }

    /// The text of it in JMS, as clients of AMQP 1.0 for JMS write the types.
    pub fn jms_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(format!("ID:AMQP_ULONG:{number}")),
            Self::Uuid(bytes) => Cow::Owned(uuid_text("ID:AMQP_UUID:", *bytes)),
            Self::Bytes(bytes) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
                Cow::Owned(format!("ID:AMQP_BINARY:{}", digits.collect::<String>()))
            }
        }
    }
}

impl From<Id> for Value {
    fn from(id: Id) -> Self {
        match id {
            Id::Text(text) => Self::Text(text),
            Id::Number(number) => Self::U64(number),
            Id::Uuid(bytes) => Self::Uuid(bytes),
            Id::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_texts() {
        let uuid = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 1, 2, 3, 4, 5, 6, 0xff];
        let digits = "01234567-89ab-cdef-0001-0203040506ff";
        for (id, text, jms) in [
            (Id::from("ID:1"), Some("ID:1".to_owned()), "ID:1".to_owned()),
            (Id::Number(u64::MAX), Some(u64::MAX.to_string()), format!("ID:AMQP_ULONG:{}", u64::MAX)),
            (Id::Uuid(uuid), Some(format!("urn:uuid:{digits}")), format!("ID:AMQP_UUID:{digits}")),
            (Id::Bytes(b"\x0f\xa0".to_vec()), None, "ID:AMQP_BINARY:0FA0".to_owned()),
            (Id::Bytes(b"k".to_vec()), Some("k".to_owned()), "ID:AMQP_BINARY:6B".to_owned()),
        ] {
            assert_eq!((id.as_text().map(Cow::into_owned), id.jms_text().into_owned()), (text.clone(), jms), "{id:?}");
            assert_eq!(id.as_bytes(), text.map_or(b"\x0f\xa0".to_vec(), String::into_bytes));
        }
    }
}
