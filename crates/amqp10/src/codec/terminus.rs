//! The ends of a link: source and target (part 3, §3.5), and the coordinator of transactions with
//! what is sent to it (part 4, §4.5).

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, one_of, read_list};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::{Encode, Symbol};
use crate::codec::state::Outcome;
use crate::codec::symbols::Symbols;
use crate::codec::value::{Budget, Map};

composites! {
    /// Where the messages of a link come from (§3.5.3).
    0x28 "source" Source<'a> {
        address: Option<&'a str>,
        durable: Durability = Durability::None,
        expiry_policy: ExpiryPolicy = ExpiryPolicy::SessionEnd,
        timeout: u32 = 0,
        dynamic: bool = false,
        dynamic_node_properties: Option<Map<'a>>,
        distribution_mode: Option<Symbol<'a>>,
        filter: Option<Map<'a>>,
        default_outcome: Option<Outcome<'a>>,
        outcomes: Symbols<'a> = Symbols::NONE,
        capabilities: Symbols<'a> = Symbols::NONE,
    }
    /// Where they go (§3.5.4).
    0x29 "target" Target<'a> {
        address: Option<&'a str>,
        durable: Durability = Durability::None,
        expiry_policy: ExpiryPolicy = ExpiryPolicy::SessionEnd,
        timeout: u32 = 0,
        dynamic: bool = false,
        dynamic_node_properties: Option<Map<'a>>,
        capabilities: Symbols<'a> = Symbols::NONE,
    }
    /// A target that makes and ends transactions (§4.5.1).
    0x30 "coordinator" Coordinator<'a> {
        capabilities: Symbols<'a> = Symbols::NONE,
    }
    /// Asks a coordinator for a transaction (§4.5.2). It is the body of a message.
    0x31 "declare" Declare<'a> {
        global_id: Option<&'a [u8]>,
    }
    /// Asks a coordinator to end a transaction (§4.5.3). It is the body of a message.
    0x32 "discharge" Discharge<'a> {
        txn_id: &'a [u8],
        fail: bool = false,
    }
}

/// What of a terminus outlives its container (§3.5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing.
    None,
    /// That it exists, and how it is configured.
    Configuration,
    /// Also which deliveries are unsettled.
    UnsettledState,
}

const DURABILITIES: [(u32, Durability); 3] =
    [(0, Durability::None), (1, Durability::Configuration), (2, Durability::UnsettledState)];

impl Field<'_> for Durability {
    fn read(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Self, FieldError> {
        one_of(u32::read(reader, budget)?, &DURABILITIES, "a durability is neither 0, 1 nor 2")
    }

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u32).encode(out);
    }
}

/// When the time until a terminus expires begins to run (§3.5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryPolicy {
    /// When its link detaches.
    LinkDetach,
    /// When its last session ends.
    SessionEnd,
    /// When its last connection closes.
    ConnectionClose,
    /// Never.
    Never,
}

const EXPIRY_POLICIES: [(&str, ExpiryPolicy); 4] = [
    ("link-detach", ExpiryPolicy::LinkDetach),
    ("session-end", ExpiryPolicy::SessionEnd),
    ("connection-close", ExpiryPolicy::ConnectionClose),
    ("never", ExpiryPolicy::Never),
];

impl<'a> Field<'a> for ExpiryPolicy {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        one_of(Symbol::read(reader, budget)?.0, &EXPIRY_POLICIES, "an expiry policy is unknown")
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (name, _) = EXPIRY_POLICIES[*self as usize];
        Symbol(name).encode(out);
    }
}

/// The target of an `attach`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum AttachTarget<'a> {
    Target(Target<'a>),
    Coordinator(Coordinator<'a>),
}

impl<'a> Field<'a> for AttachTarget<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        match read_descriptor(reader)? {
            Target::CODE => read_list(reader, budget).map(Self::Target),
            Coordinator::CODE => read_list(reader, budget).map(Self::Coordinator),
            _ => Err(DecodeError::Malformed("this is no target").into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Target(target) => target.encode(out),
            Self::Coordinator(coordinator) => coordinator.encode(out),
        }
    }
}

/// What a message to a coordinator asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum CoordinatorRequest<'a> {
    Declare(Declare<'a>),
    Discharge(Discharge<'a>),
}

impl<'a> CoordinatorRequest<'a> {
    /// Reads the value that is the body of the message: all of `bytes`.
    ///
    /// # Errors
    /// If it is none of both.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FieldError> {
        let mut reader = Reader::new(bytes);
        let mut budget = Budget::default();
        let request = match read_descriptor(&mut reader)? {
            Declare::CODE => read_list(&mut reader, &mut budget).map(Self::Declare),
            Discharge::CODE => read_list(&mut reader, &mut budget).map(Self::Discharge),
            _ => Err(DecodeError::Malformed("a coordinator knows declare and discharge only").into()),
        }?;
        if reader.is_empty() { Ok(request) } else { Err(DecodeError::Malformed("bytes follow the request").into()) }
    }
}
