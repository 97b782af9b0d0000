//! Messages (part 3, §3.2): the sections of one, found without a look into its body.
//!
//! Header, annotations and footer belong to those who pass a message on. The bare message between
//! them is its sender's, and stays as it is to the byte. [`Message::decode`] checks what a peer has
//! sent. [`Sections::find`] only finds what was checked before, and reads what is asked for.

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, read_list, read_list_into};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::{Encode, ShortList, Symbol, Timestamp, put};
use crate::codec::format as code;
use crate::codec::value::{Budget, Map, ValueRef, read_value, shallow};

composites! {
    /// How the network delivers a message (§3.2.1).
    0x70 "header" Header {
        durable: bool = false,
        priority: Option<u8>,
        ttl: Option<u32>,
        first_acquirer: bool = false,
        delivery_count: u32 = 0,
    }
    /// The properties that the specification defines (§3.2.4).
    0x73 "properties" Properties<'a> {
        message_id: Option<MessageId<'a>>,
        user_id: Option<&'a [u8]>,
        to: Option<&'a str>,
        subject: Option<&'a str>,
        reply_to: Option<&'a str>,
        correlation_id: Option<MessageId<'a>>,
        content_type: Option<Symbol<'a>>,
        content_encoding: Option<Symbol<'a>>,
        absolute_expiry_time: Option<Timestamp>,
        creation_time: Option<Timestamp>,
        group_id: Option<&'a str>,
        group_sequence: Option<u32>,
        reply_to_group_id: Option<&'a str>,
    }
}

impl Header {
    /// Appends the section. It is the same as [`Encode::encode`], for every delivery.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut list = ShortList::open(HEADER as u8, out);
        list.put_if(self.durable.then_some([code::TRUE]));
        list.put_if(self.priority.map(|priority| [code::UBYTE, priority]));
        list.uint_if(self.ttl);
        list.put_if(self.first_acquirer.then_some([code::TRUE]));
        list.uint_if(Some(self.delivery_count).filter(|count| *count > 0));
        list.close();
    }
}

/// The id of a message, or of the one that it relates to (§3.2.11 to §3.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageId<'a> {
    /// An unsigned number.
    Number(u64),
    /// A UUID.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(&'a [u8]),
    /// A text.
    Text(&'a str),
}

impl<'a> Field<'a> for MessageId<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        Ok(match read_value(reader, budget)? {
            ValueRef::U64(number) => Self::Number(number),
            ValueRef::Uuid(bits) => Self::Uuid(bits),
            ValueRef::Binary(bytes) => Self::Binary(bytes),
            ValueRef::Str(text) => Self::Text(text),
            _ => return Err(DecodeError::Malformed("an id is neither ulong, uuid, binary nor string").into()),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => number.encode(out),
            Self::Uuid(bits) => put(out, code::UUID, *bits),
            Self::Binary(bytes) => bytes.encode(out),
            Self::Text(text) => text.encode(out),
        }
    }
}

/// A section that is no composite type. The discriminants are the descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Section {
    /// A map for the next peer alone (§3.2.2).
    DeliveryAnnotations = 0x71,
    /// A map that goes with the message (§3.2.3).
    MessageAnnotations = 0x72,
    /// The application's map (§3.2.5).
    ApplicationProperties = 0x74,
    /// Bytes of the body (§3.2.6).
    Data = 0x75,
    /// A list of values of the body (§3.2.7).
    Sequence = 0x76,
    /// The only value of the body (§3.2.8).
    Value = 0x77,
    /// A map behind the body (§3.2.9).
    Footer = 0x78,
}

impl Section {
    /// Appends what stands before the `length` bytes of a section of data; the bytes follow
    /// elsewhere.
    pub fn encode_data_head(length: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&[code::DESCRIBED, code::ULONG_8, Self::Data as u8]);
        match u8::try_from(length) {
            Ok(short) => out.extend_from_slice(&[code::BINARY_8, short]),
            Err(_) => put(out, code::BINARY_32, (length as u32).to_be_bytes()),
        }
    }

    /// Appends the section with `value`, which has to be of the section's type.
    pub fn encode(self, value: &impl Encode, out: &mut Vec<u8>) {
        out.extend_from_slice(&[code::DESCRIBED, code::ULONG_8, self as u8]);
        value.encode(out);
    }
}

/// The sections of one message.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Message<'a> {
    /// How the network delivers it.
    pub header: Option<Header>,
    /// The bytes of the header's section.
    pub header_section: &'a [u8],
    /// For this peer alone.
    pub delivery_annotations: Option<Map<'a>>,
    /// They go with the message.
    pub message_annotations: Option<Map<'a>>,
    /// The bytes of the section of these.
    pub annotations_section: &'a [u8],
    /// The bytes from the properties to the end of the body.
    pub bare: &'a [u8],
    /// The specification's properties.
    pub properties: Option<Properties<'a>>,
    /// The application's properties.
    pub application_properties: Option<Map<'a>>,
    /// The body, of which only the extent is checked.
    pub body: Body<'a>,
    /// The bytes of the body's sections: the end of the bare message.
    pub body_sections: &'a [u8],
    /// What follows the body.
    pub footer: Option<Map<'a>>,
    /// The bytes of the footer's section.
    pub footer_section: &'a [u8],
}

/// The body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body<'a> {
    /// There is none, which the specification forbids and clients do.
    #[default]
    Missing,
    /// One or more sections of bytes.
    Data(Data<'a>),
    /// One or more sections of values: their bytes.
    Sequences(&'a [u8]),
    /// One encoded value.
    Value(&'a [u8]),
}

/// The sections of bytes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    sections: &'a [u8],
    /// The bytes of the only section.
    single: Option<&'a [u8]>,
}

impl<'a> Data<'a> {
    /// The bytes of each section. Together they are the body.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.parts().map(|(_, bytes)| bytes)
    }

    /// Of each section what stands before its bytes, and its bytes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let mut reader = Reader::new(self.sections);
        // All of it was checked before, so an error is the end.
        std::iter::from_fn(move || {
            let whole = reader.rest();
            read_descriptor(&mut reader).ok()?;
            let bytes = <&[u8]>::read(&mut reader, &mut Budget::default()).ok()?;
            Some((&whole[..whole.len() - reader.rest().len() - bytes.len()], bytes))
        })
    }

    /// The body, if it is in one piece: nearly always.
    pub fn single(&self) -> Option<&'a [u8]> {
        self.single
    }
}

const OUT_OF_ORDER: DecodeError = DecodeError::Malformed("a section is at the wrong place");

impl<'a> Message<'a> {
    /// Finds the sections, and checks all but the body.
    ///
    /// # Errors
    /// If a section is malformed, unknown, or not at its place.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FieldError> {
        let mut message = Self::default();
        message.read(bytes)?;
        Ok(message)
    }

    /// The same into an empty one, which is too large to be moved about for every message.
    ///
    /// # Errors
    /// As [`Message::decode`].
    pub(crate) fn read(&mut self, bytes: &'a [u8]) -> Result<(), FieldError> {
        let mut walk = Walk { reader: Reader::new(bytes), budget: Budget::default(), last: 0, sections: 0 };
        let mut bare: Option<usize> = None;
        let mut body = 0;
        let mut end = 0;
        while !walk.reader.is_empty() {
            let start = bytes.len() - walk.reader.rest().len();
            let section = walk.next()?;
            match section {
                HEADER => {
                    read_list_into(&mut self.header, &mut walk.reader, &mut walk.budget)?;
                    self.header_section = &bytes[start..bytes.len() - walk.reader.rest().len()];
                }
                DELIVERY_ANNOTATIONS => self.delivery_annotations = Some(walk.map("delivery-annotations")?),
                MESSAGE_ANNOTATIONS => {
                    self.message_annotations = Some(walk.map("message-annotations")?);
                    self.annotations_section = &bytes[start..bytes.len() - walk.reader.rest().len()];
                }
                PROPERTIES => read_list_into(&mut self.properties, &mut walk.reader, &mut walk.budget)?,
                APPLICATION_PROPERTIES => self.application_properties = Some(walk.map("application-properties")?),
                FOOTER => {
                    self.footer = Some(walk.map("footer")?);
                    self.footer_section = &bytes[start..bytes.len() - walk.reader.rest().len()];
                }
                _ => {
                    if self.body == Body::Missing {
                        body = start;
                    }
                    self.body = walk.body(section, &bytes[body..])?;
                    self.body_sections = &bytes[body..bytes.len() - walk.reader.rest().len()];
                }
            }
            if (PROPERTIES..FOOTER).contains(&section) {
                bare.get_or_insert(start);
                end = bytes.len() - walk.reader.rest().len();
            }
        }
        self.bare = bare.map_or(&[], |start| &bytes[start..end]);
        Ok(())
    }
}

/// The sections before the body of a message that [`Message::decode`] has accepted, as they lie.
/// Nothing is checked again: each is read when something asks for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sections<'a> {
    header: &'a [u8],
    message_annotations: &'a [u8],
    properties: &'a [u8],
    application_properties: &'a [u8],
    /// The bytes of the section of the annotations that go with the message.
    pub annotations_section: &'a [u8],
    /// The bytes from the properties on.
    pub bare: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Finds the sections.
    ///
    /// # Errors
    /// If the bytes are no sections.
    #[inline]
    pub fn find(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut found = Self::default();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let start = reader.rest();
            let section = read_descriptor(&mut reader)?;
            let value = code::skip(&mut reader)?;
            match section {
                HEADER => found.header = value,
                MESSAGE_ANNOTATIONS => {
                    found.message_annotations = value;
                    found.annotations_section = &start[..start.len() - reader.rest().len()];
                }
                PROPERTIES => found.properties = value,
                APPLICATION_PROPERTIES => found.application_properties = value,
                _ => {}
            }
            if found.bare.is_empty() && section >= PROPERTIES {
                found.bare = start;
            }
        }
        Ok(found)
    }

    /// How the network delivers the message.
    ///
    /// # Errors
    /// If it can't be read.
    #[inline]
    pub fn header(&self) -> Result<Header, FieldError> {
        read_section(self.header)
    }

    /// The specification's properties.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn properties(&self) -> Result<Properties<'a>, FieldError> {
        read_section(self.properties)
    }

    /// The annotations that go with the message; empty if there are none.
    pub fn message_annotations(&self) -> Map<'a> {
        map_of(self.message_annotations)
    }

    /// The application's properties; empty if there are none.
    pub fn application_properties(&self) -> Map<'a> {
        map_of(self.application_properties)
    }
}

/// A composite type in a section that may be missing.
#[inline]
fn read_section<'a, T: Composite<'a> + Default>(list: &'a [u8]) -> Result<T, FieldError> {
    if list.is_empty() { Ok(T::default()) } else { read_list(&mut Reader::new(list), &mut Budget::default()) }
}

/// A map that was checked before, in a section that may be missing.
fn map_of(bytes: &[u8]) -> Map<'_> {
    match shallow(&mut Reader::new(bytes)) {
        Ok(ValueRef::Map(map)) => map,
        _ => Map::default(),
    }
}

/// The properties of a message and the value of its body, wherever they stand: for requests, in
/// which Proton's binding for Python writes a null before the properties.
///
/// # Errors
/// If a section is malformed, or the body is no value.
pub fn properties_and_value(bytes: &[u8]) -> Result<(Properties<'_>, ValueRef<'_>), FieldError> {
    let (mut reader, mut budget) = (Reader::new(bytes), Budget::default());
    let (mut properties, mut value) = (Properties::default(), ValueRef::Null);
    while !reader.is_empty() {
        match read_descriptor(&mut reader)? {
            PROPERTIES => properties = read_list(&mut reader, &mut budget)?,
            VALUE => value = read_value(&mut reader, &mut budget)?,
            DATA | SEQUENCE => return Err(DecodeError::Malformed("the body is no value").into()),
            _ => drop(read_value(&mut reader, &mut budget)?),
        }
    }
    Ok((properties, value))
}

const HEADER: u64 = Header::CODE;
const DELIVERY_ANNOTATIONS: u64 = Section::DeliveryAnnotations as u64;
const MESSAGE_ANNOTATIONS: u64 = Section::MessageAnnotations as u64;
const PROPERTIES: u64 = Properties::CODE;
const APPLICATION_PROPERTIES: u64 = Section::ApplicationProperties as u64;
const DATA: u64 = Section::Data as u64;
const SEQUENCE: u64 = Section::Sequence as u64;
const VALUE: u64 = Section::Value as u64;
const FOOTER: u64 = Section::Footer as u64;

/// A walk over the sections.
struct Walk<'a> {
    reader: Reader<'a>,
    budget: Budget,
    /// The section before; 0 at first.
    last: u64,
    /// How many sections the body has so far.
    sections: usize,
}

impl<'a> Walk<'a> {
    /// The descriptor of the next section, which must be at its place.
    fn next(&mut self) -> Result<u64, DecodeError> {
        let section = read_descriptor(&mut self.reader)?;
        if !(HEADER..=FOOTER).contains(&section) {
            return Err(DecodeError::Malformed("this is no section of a message"));
        }
        let repeated = section == self.last && matches!(section, DATA | SEQUENCE);
        // A body is of one kind.
        let second_body = (DATA..=VALUE).contains(&section) && (DATA..=VALUE).contains(&self.last);
        if !repeated && (section <= self.last || second_body) {
            return Err(OUT_OF_ORDER);
        }
        self.last = section;
        Ok(section)
    }

    fn map(&mut self, name: &'static str) -> Result<Map<'a>, FieldError> {
        Map::read(&mut self.reader, &mut self.budget).map_err(|error| FieldError { composite: name, ..error })
    }

    /// Passes one section of the body, whose sections begin at `all`.
    fn body(&mut self, section: u64, all: &'a [u8]) -> Result<Body<'a>, DecodeError> {
        let code = self.reader.rest().first().copied().ok_or(DecodeError::Truncated)?;
        let value = code::skip(&mut self.reader)?;
        self.sections += 1;
        let sections = &all[..all.len() - self.reader.rest().len()];
        match (section, code) {
            (DATA, code::BINARY_8 | code::BINARY_32) => {
                let head = if code == code::BINARY_8 { 2 } else { 5 };
                let single = value.get(head..).filter(|_| self.sections == 1);
                Ok(Body::Data(Data { sections, single }))
            }
            (DATA, _) => Err(DecodeError::Malformed("a data section is no binary")),
            (SEQUENCE, code::LIST_0 | code::LIST_8 | code::LIST_32) => Ok(Body::Sequences(sections)),
            (SEQUENCE, _) => Err(DecodeError::Malformed("a sequence section is no list")),
            _ => Ok(Body::Value(value)),
        }
    }
}
