//! The performatives (part 2, §2.7): what the frames of a connection say.
//!
//! Reading one allocates nothing, but for `attach`, which is so large that it lies in a box.

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, one_of, read_list};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::Encode;
use crate::codec::error::Error;
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
