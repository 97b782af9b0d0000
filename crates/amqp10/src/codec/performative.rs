//! The performatives (part 2, §2.7): what the frames of a connection say.
//!
//! Reading one allocates nothing, but for `attach`, which is so large that it lies in a box.

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, one_of, read_list};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::{Encode, ShortList};
use crate::codec::error::Error;
use crate::codec::format as code;
use crate::codec::state::DeliveryState;
use crate::codec::symbols::Symbols;
use crate::codec::terminus::{AttachTarget, Source};
use crate::codec::value::{Budget, Map};

composites! {
    /// Opens a connection (§2.7.1).
    0x10 "open" Open<'a> {
        container_id: &'a str,
        hostname: Option<&'a str>,
        max_frame_size: u32 = u32::MAX,
        channel_max: u16 = u16::MAX,
        idle_time_out: Option<u32>,
        outgoing_locales: Symbols<'a> = Symbols::NONE,
        incoming_locales: Symbols<'a> = Symbols::NONE,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: Option<Map<'a>>,
    }
    /// Begins a session (§2.7.2).
    0x11 "begin" Begin<'a> {
        remote_channel: Option<u16>,
        next_outgoing_id: u32,
        incoming_window: u32,
        outgoing_window: u32,
        handle_max: u32 = u32::MAX,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: Option<Map<'a>>,
    }
    /// Attaches a link (§2.7.3).
    0x12 "attach" Attach<'a> {
        name: &'a str,
        handle: u32,
        role: Role,
        snd_settle_mode: SenderSettleMode = SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode::First,
        source: Option<Source<'a>>,
        target: Option<AttachTarget<'a>>,
        unsettled: Option<Map<'a>>,
        incomplete_unsettled: bool = false,
        initial_delivery_count: Option<u32>,
        max_message_size: Option<u64>,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: Option<Map<'a>>,
    }
    /// Says how much may be sent, in a session and on a link (§2.7.4).
    0x13 "flow" Flow<'a> {
        next_incoming_id: Option<u32>,
        incoming_window: u32,
        next_outgoing_id: u32,
        outgoing_window: u32,
        handle: Option<u32>,
        delivery_count: Option<u32>,
        link_credit: Option<u32>,
        available: Option<u32>,
        drain: bool = false,
        echo: bool = false,
        properties: Option<Map<'a>>,
    }
    /// A message or a part of one; its bytes follow (§2.7.5).
    0x14 "transfer" Transfer<'a> {
        handle: u32,
        delivery_id: Option<u32>,
        delivery_tag: Option<&'a [u8]>,
        message_format: Option<u32>,
        settled: Option<bool>,
        more: bool = false,
        rcv_settle_mode: Option<ReceiverSettleMode>,
        state: Option<DeliveryState<'a>>,
        resume: bool = false,
        aborted: bool = false,
        batchable: bool = false,
    }
    /// The state of deliveries has changed (§2.7.6).
    0x15 "disposition" Disposition<'a> {
        role: Role,
        first: u32,
        last: Option<u32>,
        settled: bool = false,
        state: Option<DeliveryState<'a>>,
        batchable: bool = false,
    }
    /// Detaches a link (§2.7.7).
    0x16 "detach" Detach<'a> {
        handle: u32,
        closed: bool = false,
        error: Option<Error<'a>>,
    }
    /// Ends a session (§2.7.8).
    0x17 "end" End<'a> {
        error: Option<Error<'a>>,
    }
    /// Closes a connection (§2.7.9).
    0x18 "close" Close<'a> {
        error: Option<Error<'a>>,
    }
}

impl<'a> Transfer<'a> {
    /// Appends the only transfer of a message with a tag of eight bytes: the same as
    /// [`Encode::encode`], for every delivery.
    #[inline]
    pub(crate) fn put_only(handle: u32, id: u32, tag: [u8; 8], mode: SenderSettleMode, out: &mut Vec<u8>) {
        let [a, b, c, d, e, f, g, h] = tag;
        let mut list = ShortList::open(Self::CODE as u8, out);
        list.uint(handle);
        list.uint(id);
        list.put([code::BINARY_8, 8, a, b, c, d, e, f, g, h]);
        list.uint(0);
        list.put([if mode == SenderSettleMode::Settled { code::TRUE } else { code::FALSE }]);
        list.close();
    }

    /// Reads a frame's body as nearly every sender writes it: a transfer of few fields, in a list
    /// of the short form. `None` leaves it to the general reader, which can also say what is wrong.
    #[inline]
    pub(crate) fn read_plain(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [code::DESCRIBED, code::ULONG_8, TRANSFER, code::LIST_8, size, count, rest @ ..] = body else {
            return None;
        };
        let (fields, payload) = rest.split_at_checked(usize::from(*size).checked_sub(1)?)?;
        let mut fields = Plain { reader: Reader::new(fields), left: *count };
        let transfer = Self {
            handle: fields.uint()??,
            delivery_id: fields.uint()?,
            delivery_tag: fields.binary()?,
            message_format: fields.uint()?,
            settled: fields.bool()?,
            more: fields.bool()?.unwrap_or(false),
            ..Self::default()
        };
        (fields.left == 0 && fields.reader.is_empty()).then_some((transfer, payload))
    }
}

/// The number of [`Transfer`].
const TRANSFER: u8 = Transfer::CODE as u8;

/// Reads the fields of [`Transfer::read_plain`]: the inner option is a field that is missing.
struct Plain<'a> {
    reader: Reader<'a>,
    left: u8,
}

impl<'a> Plain<'a> {
    /// The format code of the next field.
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let Some(left) = self.left.checked_sub(1) else { return Some(code::NULL) };
        self.left = left;
        self.reader.u8().ok()
    }

    #[inline]
    fn uint(&mut self) -> Option<Option<u32>> {
        Some(match self.next()? {
            code::NULL => None,
            code::UINT_0 => Some(0),
            code::UINT_8 => Some(self.reader.u8().ok()?.into()),
            code::UINT => Some(self.reader.u32().ok()?),
            _ => return None,
        })
    }

    #[inline]
    fn binary(&mut self) -> Option<Option<&'a [u8]>> {
        Some(match self.next()? {
            code::NULL => None,
            code::BINARY_8 => Some(self.reader.short_bytes().ok()?),
            _ => return None,
        })
    }

    #[inline]
    fn bool(&mut self) -> Option<Option<bool>> {
        Some(match self.next()? {
            code::NULL => None,
            code::TRUE => Some(true),
            code::FALSE => Some(false),
            _ => return None,
        })
    }
}

/// The end of a link that a peer has (§2.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// It sends messages.
    #[default]
    Sender,
    /// It receives them.
    Receiver,
}

impl Field<'_> for Role {
    #[inline]
    fn read(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Self, FieldError> {
        bool::read(reader, budget).map(|receiver| if receiver { Self::Receiver } else { Self::Sender })
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        (*self == Self::Receiver).encode(out);
    }
}

/// Whether a sender settles what it sends (§2.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderSettleMode {
    /// It sends everything unsettled.
    Unsettled,
    /// It sends everything settled.
    Settled,
    /// It does either.
    Mixed,
}

const SENDER_SETTLE_MODES: [(u8, SenderSettleMode); 3] =
    [(0, SenderSettleMode::Unsettled), (1, SenderSettleMode::Settled), (2, SenderSettleMode::Mixed)];

impl Field<'_> for SenderSettleMode {
    fn read(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Self, FieldError> {
        one_of(u8::read(reader, budget)?, &SENDER_SETTLE_MODES, "a sender's settle mode is neither 0, 1 nor 2")
    }

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u8).encode(out);
    }
}

/// When a receiver settles (§2.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverSettleMode {
    /// By itself, with its disposition.
    First,
    /// After the sender has.
    Second,
}

const RECEIVER_SETTLE_MODES: [(u8, ReceiverSettleMode); 2] =
    [(0, ReceiverSettleMode::First), (1, ReceiverSettleMode::Second)];

impl Field<'_> for ReceiverSettleMode {
    fn read(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Self, FieldError> {
        one_of(u8::read(reader, budget)?, &RECEIVER_SETTLE_MODES, "a receiver's settle mode is neither 0 nor 1")
    }

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u8).encode(out);
    }
}

/// Any performative.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum Performative<'a> {
    Open(Open<'a>),
    Begin(Begin<'a>),
    Attach(Box<Attach<'a>>),
    Flow(Flow<'a>),
    Transfer(Transfer<'a>),
    Disposition(Disposition<'a>),
    Detach(Detach<'a>),
    End(End<'a>),
    Close(Close<'a>),
}

/// Reads the body of a frame: the performative, and the bytes behind it, which only a transfer has.
///
/// # Errors
/// If it is no performative, a field is wrong, or bytes follow where none may.
#[inline]
pub fn decode_performative(body: &[u8]) -> Result<(Performative<'_>, &[u8]), FieldError> {
    if let Some((transfer, payload)) = Transfer::read_plain(body) {
        return Ok((Performative::Transfer(transfer), payload));
    }
    decode_any(body)
}

/// The same in the general way.
fn decode_any(body: &[u8]) -> Result<(Performative<'_>, &[u8]), FieldError> {
    let mut reader = Reader::new(body);
    let mut budget = Budget::default();
    let code = read_descriptor(&mut reader)?;
    let (reader, budget) = (&mut reader, &mut budget);
    let performative = match code {
        Transfer::CODE => {
            let transfer = read_list(reader, budget)?;
            return Ok((Performative::Transfer(transfer), reader.rest()));
        }
        Flow::CODE => Performative::Flow(read_list(reader, budget)?),
        Disposition::CODE => Performative::Disposition(read_list(reader, budget)?),
        Open::CODE => Performative::Open(read_list(reader, budget)?),
        Begin::CODE => Performative::Begin(read_list(reader, budget)?),
        Attach::CODE => Performative::Attach(Box::new(read_list(reader, budget)?)),
        Detach::CODE => Performative::Detach(read_list(reader, budget)?),
        End::CODE => Performative::End(read_list(reader, budget)?),
        Close::CODE => Performative::Close(read_list(reader, budget)?),
        _ => return Err(DecodeError::Malformed("this is no performative").into()),
    };
    match reader.rest() {
        [] => Ok((performative, &[])),
        _ => Err(DecodeError::Malformed("bytes follow the performative").into()),
    }
}

impl Encode for Performative<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open(open) => open.encode(out),
            Self::Begin(begin) => begin.encode(out),
            Self::Attach(attach) => attach.encode(out),
            Self::Flow(flow) => flow.encode(out),
            Self::Transfer(transfer) => transfer.encode(out),
            Self::Disposition(disposition) => disposition.encode(out),
            Self::Detach(detach) => detach.encode(out),
            Self::End(end) => end.encode(out),
            Self::Close(close) => close.encode(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::message::Header;

    fn encoded(value: &impl Encode) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode(&mut out);
        out
    }

    #[test]
    fn what_every_delivery_has_is_written_as_the_general_writer_does() {
        for number in [0, 1, 255, 256, u32::MAX] {
            for (mode, settled) in [(SenderSettleMode::Settled, true), (SenderSettleMode::Unsettled, false)] {
                let tag = u64::from(number).to_be_bytes();
                let mut out = Vec::new();
                Transfer::put_only(number, number, tag, mode, &mut out);
                let whole = Transfer {
                    handle: number,
                    delivery_id: Some(number),
                    delivery_tag: Some(&tag),
                    message_format: Some(0),
                    settled: Some(settled),
                    ..Transfer::default()
                };
                assert_eq!(out, encoded(&whole), "{whole:?}");
                for (priority, ttl) in [(None, None), (Some(0), None), (None, Some(number)), (Some(9), Some(number))] {
                    let header =
                        Header { durable: settled, priority, ttl, first_acquirer: !settled, delivery_count: number };
                    let mut out = Vec::new();
                    header.put(&mut out);
                    assert_eq!(out, encoded(&header), "{header:?}");
                }
            }
        }
        let mut out = Vec::new();
        Header::default().put(&mut out);
        assert_eq!(out, encoded(&Header::default()));
    }

    #[test]
    fn a_plain_transfer_is_read_as_the_general_reader_does_however_it_is_cut_or_changed() {
        let first = Transfer {
            handle: 7,
            delivery_id: Some(300),
            delivery_tag: Some(b"tag"),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::default()
        };
        let mut plain = 0;
        for transfer in [
            first,
            Transfer { more: true, settled: None, ..first },
            Transfer { delivery_tag: None, ..first },
            Transfer { batchable: true, ..first },
            Transfer { handle: 1, ..Transfer::default() },
        ] {
            let bytes = [encoded(&transfer), b"payload".to_vec()].concat();
            for end in 0..=bytes.len() {
                for (at, flip) in (0..end).flat_map(|at| [0, 1, 2, 4, 8, 16, 32, 64, 128].map(|flip| (at, flip))) {
                    let mut body = bytes[..end].to_vec();
                    body[at] ^= flip;
                    if let Some((transfer, payload)) = Transfer::read_plain(&body) {
                        assert_eq!(decode_any(&body), Ok((Performative::Transfer(transfer), payload)), "{body:02x?}");
                        plain += 1;
                    }
                }
            }
        }
        assert!(plain > 1000, "only {plain} were read in the short way");
    }
}
