//! Properties of MQTT 5 (section 2.2.2): which there are, what they hold, where they may stand.
//!
//! [`Properties`] is the block as it was received or is sent; it was checked, so reading it again
//! cannot fail.

use wire::Reader;

use super::fields::{put_binary, put_text, put_variable, read_binary, read_text, read_variable, variable_length};
use super::kind::PacketKind;
use super::topic::check_name;
use super::violation::Violation;

/// Where a block of properties stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a packet.
    In(PacketKind),
    /// In the will of a CONNECT.
    Will,
}

/// What a property holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A byte, 0 or 1.
    Flag,
    /// Two bytes.
    Two,
    /// Two bytes, not 0.
    TwoNotZero,
    /// Four bytes.
    Four,
    /// Four bytes, not 0.
    FourNotZero,
    /// A number of variable length, not 0.
    Variable,
    /// A string.
    Text,
    /// A string that is a topic name.
    Topic,
    /// Binary data.
    Binary,
    /// Two strings.
    Pair,
}

/// Declares the properties: name, identifier, form, places.
macro_rules! properties {
    ($($name:ident = $id:literal, $form:ident, [$($place:ident)*], $doc:literal;)*) => {
        /// A property, by its identifier.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum PropertyId {
            $(#[doc = $doc] $name = $id,)*
        }

        impl PropertyId {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            fn of(id: u8) -> Option<Self> {
                match id {
                    $($id => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn form(self) -> Form {
                match self {
                    $(Self::$name => Form::$form,)*
                }
            }

            fn is_in(self, place: Place) -> bool {
                use Place::Will;
                match self {
                    $(Self::$name => [$(places!($place)),*].contains(&place),)*
                }
            }
        }
    };
}

macro_rules! places {
    (Will) => {
        Will
    };
    ($kind:ident) => {
        Place::In(PacketKind::$kind)
    };
}

properties! {
    PayloadFormat = 0x01, Flag, [Publish Will], "1 if the payload is UTF-8.";
    MessageExpiry = 0x02, Four, [Publish Will], "The life of a message in seconds.";
    ContentType = 0x03, Text, [Publish Will], "What the payload is.";
    ResponseTopic = 0x08, Topic, [Publish Will], "Where an answer goes.";
    CorrelationData = 0x09, Binary, [Publish Will], "What an answer repeats.";
    SubscriptionId = 0x0B, Variable, [Publish Subscribe], "The number that a client gave to a subscription.";
    SessionExpiry = 0x11, Four, [Connect ConnAck Disconnect], "How long a session outlives its connection, in seconds.";
    AssignedClientId = 0x12, Text, [ConnAck], "The client identifier that the server chose.";
    ServerKeepAlive = 0x13, Two, [ConnAck], "The keep-alive that the server wants, in seconds.";
    AuthenticationMethod = 0x15, Text, [Connect ConnAck Auth], "The mechanism of an enhanced log-in.";
    AuthenticationData = 0x16, Binary, [Connect ConnAck Auth], "A step of an enhanced log-in.";
    RequestProblemInformation = 0x17, Flag, [Connect], "0 if reasons in words are not wanted.";
    WillDelay = 0x18, Four, [Will], "How long a will waits, in seconds.";
    RequestResponseInformation = 0x19, Flag, [Connect], "1 if response information is wanted.";
    ResponseInformation = 0x1A, Text, [ConnAck], "A base for topics of answers.";
    ServerReference = 0x1C, Text, [ConnAck Disconnect], "Another server.";
    ReasonString = 0x1F, Text, [ConnAck PubAck PubRec PubRel PubComp SubAck UnsubAck Disconnect Auth], "A reason in words.";
    ReceiveMaximum = 0x21, TwoNotZero, [Connect ConnAck], "The most messages that may be unanswered.";
    TopicAliasMaximum = 0x22, Two, [Connect ConnAck], "The largest topic alias that is taken.";
    TopicAlias = 0x23, TwoNotZero, [Publish], "A number that stands for the topic.";
    MaximumQoS = 0x24, Flag, [ConnAck], "The highest quality of service, if it is not 2.";
    RetainAvailable = 0x25, Flag, [ConnAck], "0 if messages cannot be retained.";
    UserProperty = 0x26, Pair,
        [Connect ConnAck Publish Will PubAck PubRec PubRel PubComp Subscribe SubAck Unsubscribe UnsubAck Disconnect Auth],
        "A name and a value of the application.";
    MaximumPacketSize = 0x27, FourNotZero, [Connect ConnAck], "The most bytes of a packet.";
    WildcardAvailable = 0x28, Flag, [ConnAck], "0 if filters cannot have wildcards.";
    SubscriptionIdsAvailable = 0x29, Flag, [ConnAck], "0 if subscriptions cannot have numbers.";
    SharedAvailable = 0x2A, Flag, [ConnAck], "0 if subscriptions cannot be shared.";
}

impl PropertyId {
    /// Whether a block may have it more than once.
    fn repeats(self, place: Place) -> bool {
        self == Self::UserProperty || (self == Self::SubscriptionId && place == Place::In(PacketKind::Publish))
    }
}

/// The value of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyValue<'a> {
    /// A number, whatever its length.
    Number(u32),
    /// A string.
    Text(&'a str),
    /// Binary data.
    Binary(&'a [u8]),
    /// A name and a value.
    Pair(&'a str, &'a str),
}

fn read_value<'a>(id: PropertyId, reader: &mut Reader<'a>) -> Result<PropertyValue<'a>, Violation> {
    use PropertyValue::{Binary, Number, Pair, Text};
    let wrong = Violation::PropertyValue(id as u8);
    let number = match id.form() {
        Form::Text => return read_text(reader).map(Text),
        Form::Topic => {
            let topic = read_text(reader)?;
            check_name(topic).map_err(|_| Violation::ResponseWildcard)?;
            return Ok(Text(topic));
        }
        Form::Binary => return read_binary(reader).map(Binary),
        Form::Pair => return Ok(Pair(read_text(reader)?, read_text(reader)?)),
        Form::Flag => reader.u8().map(u32::from)?,
        Form::Two | Form::TwoNotZero => reader.u16().map(u32::from)?,
        Form::Four | Form::FourNotZero => reader.u32()?,
        Form::Variable => read_variable(reader)?,
    };
    let is_valid = match id.form() {
        Form::Flag => number <= 1,
        Form::TwoNotZero if id == PropertyId::TopicAlias && number == 0 => return Err(Violation::AliasZero),
        Form::TwoNotZero | Form::FourNotZero | Form::Variable => number != 0,
        _ => true,
    };
    if is_valid { Ok(Number(number)) } else { Err(wrong) }
}

/// A block of properties without its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// None.
    pub const NONE: Properties<'static> = Properties(&[]);

    /// Reads a block with its length, and checks all of it.
    pub(super) fn read(reader: &mut Reader<'a>, place: Place) -> Result<Self, Violation> {
        let length = read_variable(reader)?;
        let block = reader.bytes(length as usize)?;
        Self::checked(block, place)
    }

    /// The properties of a PUBLISH in `block`, which stands without its length.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn of_publish(block: &'a [u8]) -> Result<Self, Violation> {
        Self::checked(block, Place::In(PacketKind::Publish))
    }

    fn checked(block: &'a [u8], place: Place) -> Result<Self, Violation> {
        let mut reader = Reader::new(block);
        let mut seen = 0u64;
        let mut has_data = false;
        let mut has_method = false;
        while !reader.is_empty() {
            // All identifiers have one byte; a longer one is none of them.
            let number = reader.u8()?;
            let id = PropertyId::of(number).filter(|id| id.is_in(place)).ok_or(Violation::Property(number))?;
            let bit = 1u64 << (number & 0x3f);
            if seen & bit != 0 && !id.repeats(place) {
                return Err(Violation::PropertyTwice(number));
            }
            seen |= bit;
            read_value(id, &mut reader)?;
            has_data |= id == PropertyId::AuthenticationData;
            has_method |= id == PropertyId::AuthenticationMethod;
        }
        if has_data && !has_method { Err(Violation::DataWithoutMethod) } else { Ok(Self(block)) }
    }

    /// The bytes of the block, without its length.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// All, in their order.
    pub fn iter(self) -> impl Iterator<Item = (PropertyId, PropertyValue<'a>)> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || {
            let id = PropertyId::of(reader.u8().ok()?)?;
            Some((id, read_value(id, &mut reader).ok()?))
        })
    }

    /// The value of one; the first, if there are more.
    pub fn get(self, id: PropertyId) -> Option<PropertyValue<'a>> {
        self.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// The number that it holds.
    pub fn number(self, id: PropertyId) -> Option<u32> {
        match self.get(id)? {
            PropertyValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text that it holds.
    pub fn text(self, id: PropertyId) -> Option<&'a str> {
        match self.get(id)? {
            PropertyValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The binary data that it holds.
    pub fn binary(self, id: PropertyId) -> Option<&'a [u8]> {
        match self.get(id)? {
            PropertyValue::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The bytes that it takes with its length.
    pub(super) fn encoded_length(self) -> usize {
        variable_length(self.0.len()) + self.0.len()
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_variable(out, self.0.len() as u32);
        out.extend_from_slice(self.0);
    }
}

/// A block of properties that is being written.
#[derive(Debug, Default)]
pub struct PropertyBlock(Vec<u8>);

impl PropertyBlock {
    /// What was written.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties(&self.0)
    }

    /// Removes all that was written.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a property as it was received.
    pub fn put(&mut self, id: PropertyId, value: PropertyValue<'_>) -> &mut Self {
        self.0.push(id as u8);
        match (value, id.form()) {
            (PropertyValue::Text(text), _) => put_text(&mut self.0, text),
            (PropertyValue::Binary(bytes), _) => put_binary(&mut self.0, bytes),
            (PropertyValue::Pair(name, value), _) => {
                put_text(&mut self.0, name);
                put_text(&mut self.0, value);
            }
            (PropertyValue::Number(number), Form::Flag) => self.0.push(number as u8),
            (PropertyValue::Number(number), Form::Two | Form::TwoNotZero) => {
                self.0.extend_from_slice(&(number as u16).to_be_bytes());
            }
            (PropertyValue::Number(number), Form::Variable) => put_variable(&mut self.0, number),
            (PropertyValue::Number(number), _) => self.0.extend_from_slice(&number.to_be_bytes()),
        }
        self
    }

    /// Adds a number, in the length that this property has.
    pub fn number(&mut self, id: PropertyId, number: u32) -> &mut Self {
        self.put(id, PropertyValue::Number(number))
    }

    /// Adds a text.
    pub fn text(&mut self, id: PropertyId, text: &str) -> &mut Self {
        self.put(id, PropertyValue::Text(text))
    }

    /// Adds binary data.
    pub fn binary(&mut self, id: PropertyId, bytes: &[u8]) -> &mut Self {
        self.put(id, PropertyValue::Binary(bytes))
    }

    /// Adds a user property.
    pub fn pair(&mut self, name: &str, value: &str) -> &mut Self {
        self.put(PropertyId::UserProperty, PropertyValue::Pair(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISH: Place = Place::In(PacketKind::Publish);

    fn check(block: &[u8], place: Place) -> Result<(), Violation> {
        Properties::checked(block, place).map(|_| ())
    }

    #[test]
    fn each_property_stands_only_where_the_table_of_the_specification_has_it() {
        let places = (1..=15u8).map(|kind| Place::In(PacketKind::of(kind << 4).unwrap())).chain([Place::Will]);
        // Table 2-4: the packets of each property, as numbers of their kinds; 16 is the will.
        let table: [(u8, &[usize]); 27] = [
            (0x01, &[3, 16]),
            (0x02, &[3, 16]),
            (0x03, &[3, 16]),
            (0x08, &[3, 16]),
            (0x09, &[3, 16]),
            (0x0B, &[3, 8]),
            (0x11, &[1, 2, 14]),
            (0x12, &[2]),
            (0x13, &[2]),
            (0x15, &[1, 2, 15]),
            (0x16, &[1, 2, 15]),
            (0x17, &[1]),
            (0x18, &[16]),
            (0x19, &[1]),
            (0x1A, &[2]),
            (0x1C, &[2, 14]),
            (0x1F, &[2, 4, 5, 6, 7, 9, 11, 14, 15]),
            (0x21, &[1, 2]),
            (0x22, &[1, 2]),
            (0x23, &[3]),
            (0x24, &[2]),
            (0x25, &[2]),
            (0x26, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16]),
            (0x27, &[1, 2]),
            (0x28, &[2]),
            (0x29, &[2]),
            (0x2A, &[2]),
        ];
        assert_eq!(table.len(), PropertyId::ALL.len());
        for (at, place) in places.into_iter().enumerate() {
            for (number, allowed) in table {
                let id = PropertyId::of(number).unwrap();
                assert_eq!(id.is_in(place), allowed.contains(&(at + 1)), "{id:?} in {place:?}");
            }
        }
        for number in (0..=255).filter(|number| !table.iter().any(|(known, _)| known == number)) {
            assert_eq!(check(&[number], PUBLISH), Err(Violation::Property(number)));
        }
    }

    #[test]
    fn values_and_repetitions_are_checked() {
        for (block, place, expected) in [
            (&b"\x01\x02"[..], PUBLISH, Violation::PropertyValue(1)),
            (b"\x23\0\0", PUBLISH, Violation::AliasZero),
            (b"\x0b\0", PUBLISH, Violation::PropertyValue(0x0b)),
            (b"\x0b\x80\0", PUBLISH, Violation::VariableNumber),
            (b"\x08\0\x01#", PUBLISH, Violation::ResponseWildcard),
            (b"\x01\0\x01\0", PUBLISH, Violation::PropertyTwice(1)),
            (b"\x26\0\x01a\0\x01", PUBLISH, Violation::Truncated),
            (b"\x26\0\x01a\0\x01\xff", PUBLISH, Violation::NotUtf8),
            (b"\x0b\x01\x0b\x02", Place::In(PacketKind::Subscribe), Violation::PropertyTwice(0x0b)),
            (b"\x21\0\0", Place::In(PacketKind::Connect), Violation::PropertyValue(0x21)),
            (b"\x27\0\0\0\0", Place::In(PacketKind::Connect), Violation::PropertyValue(0x27)),
            (b"\x16\0\x01a", Place::In(PacketKind::Connect), Violation::DataWithoutMethod),
        ] {
            assert_eq!(check(block, place), Err(expected), "{block:?}");
        }
        for (block, place) in [
            (&b"\x26\0\x01a\0\x01b\x26\0\x01a\0\x01b"[..], PUBLISH),
            (b"\x0b\x01\x0b\x02", PUBLISH),
            (b"\x16\0\x01a\x15\0\x01b", Place::In(PacketKind::Auth)),
            (b"\x11\0\0\0\0", Place::In(PacketKind::Disconnect)),
        ] {
            assert_eq!(check(block, place), Ok(()), "{block:?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut block = PropertyBlock::default();
        block
            .number(PropertyId::PayloadFormat, 1)
            .number(PropertyId::MessageExpiry, 70_000)
            .text(PropertyId::ContentType, "a/b")
            .binary(PropertyId::CorrelationData, &[0, 255])
            .number(PropertyId::SubscriptionId, 300)
            .number(PropertyId::SubscriptionId, 1)
            .number(PropertyId::TopicAlias, 9)
            .pair("b", "1")
            .pair("a", "2")
            .pair("b", "3");
        let read = Properties::of_publish(block.as_properties().bytes()).unwrap();
        assert_eq!(read.number(PropertyId::MessageExpiry), Some(70_000));
        assert_eq!(read.text(PropertyId::ContentType), Some("a/b"));
        assert_eq!(read.binary(PropertyId::CorrelationData), Some(&[0, 255][..]));
        let pairs: Vec<_> = read
            .iter()
            .filter_map(|(_, value)| match value {
                PropertyValue::Pair(name, value) => Some((name, value)),
                _ => None,
            })
            .collect();
        assert_eq!(pairs, [("b", "1"), ("a", "2"), ("b", "3")]);
        let mut again = PropertyBlock::default();
        read.iter().for_each(|(id, value)| _ = again.put(id, value));
        assert_eq!(again.as_properties(), read);
    }
}
