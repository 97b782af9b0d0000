//! The frames of the SASL layer (part 5, §5.3.3).

use wire::{DecodeError, Reader};

use crate::codec::composite::{Composite, Field, FieldError, composites, one_of, read_list};
use crate::codec::descriptor::read_descriptor;
use crate::codec::encode::{Encode, Symbol};
use crate::codec::symbols::Symbols;
use crate::codec::value::Budget;

composites! {
    /// The mechanisms that a server offers (§5.3.3.1).
    0x40 "sasl-mechanisms" SaslMechanisms<'a> {
        sasl_server_mechanisms: Symbols<'a>,
    }
    /// The mechanism that a client takes, and its first response (§5.3.3.2).
    0x41 "sasl-init" SaslInit<'a> {
        mechanism: Symbol<'a>,
        initial_response: Option<Secret<'a>>,
        hostname: Option<&'a str>,
    }
    /// A question of the server (§5.3.3.3).
    0x42 "sasl-challenge" SaslChallenge<'a> {
        challenge: &'a [u8],
    }
    /// The client's answer (§5.3.3.4).
    0x43 "sasl-response" SaslResponse<'a> {
        response: Secret<'a>,
    }
    /// Whether the client is logged in (§5.3.3.5).
    0x44 "sasl-outcome" SaslOutcome<'a> {
        code: SaslCode,
        additional_data: Option<&'a [u8]>,
    }
}

/// What a client answers. It may be a password, so it is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Secret<'a>(pub &'a [u8]);

impl std::fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<'a> Field<'a> for Secret<'a> {
    fn read(reader: &mut Reader<'a>, budget: &mut Budget) -> Result<Self, FieldError> {
        <&[u8]>::read(reader, budget).map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

/// How a log-in ended (§5.3.3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SaslCode {
    /// It succeeded.
    #[default]
    Ok,
    /// It failed because of the credentials.
    Auth,
    /// It failed because of a system error.
    Sys,
    /// It failed because of a system error that lasts.
    SysPerm,
    /// It failed because of a system error that may pass.
    SysTemp,
}

const SASL_CODES: [(u8, SaslCode); 5] =
    [(0, SaslCode::Ok), (1, SaslCode::Auth), (2, SaslCode::Sys), (3, SaslCode::SysPerm), (4, SaslCode::SysTemp)];

impl Field<'_> for SaslCode {
    fn read(reader: &mut Reader<'_>, budget: &mut Budget) -> Result<Self, FieldError> {
        one_of(u8::read(reader, budget)?, &SASL_CODES, "a SASL code is greater than 4")
    }

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u8).encode(out);
    }
}

/// Any frame of the SASL layer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each variant is documented at its structure")]
pub enum SaslFrame<'a> {
    Mechanisms(SaslMechanisms<'a>),
    Init(SaslInit<'a>),
    Challenge(SaslChallenge<'a>),
    Response(SaslResponse<'a>),
    Outcome(SaslOutcome<'a>),
}

/// Reads the body of a SASL frame.
///
/// # Errors
/// If it is none, a field is wrong, or bytes follow.
pub fn decode_sasl(body: &[u8]) -> Result<SaslFrame<'_>, FieldError> {
    let mut reader = Reader::new(body);
    let budget = &mut Budget::default();
    let frame = match read_descriptor(&mut reader)? {
        SaslMechanisms::CODE => SaslFrame::Mechanisms(read_list(&mut reader, budget)?),
        SaslInit::CODE => SaslFrame::Init(read_list(&mut reader, budget)?),
        SaslChallenge::CODE => SaslFrame::Challenge(read_list(&mut reader, budget)?),
        SaslResponse::CODE => SaslFrame::Response(read_list(&mut reader, budget)?),
        SaslOutcome::CODE => SaslFrame::Outcome(read_list(&mut reader, budget)?),
        _ => return Err(DecodeError::Malformed("this is no frame of SASL").into()),
    };
    if reader.is_empty() { Ok(frame) } else { Err(DecodeError::Malformed("bytes follow the frame's body").into()) }
}

impl Encode for SaslFrame<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Mechanisms(mechanisms) => mechanisms.encode(out),
            Self::Init(init) => init.encode(out),
            Self::Challenge(challenge) => challenge.encode(out),
            Self::Response(response) => response.encode(out),
            Self::Outcome(outcome) => outcome.encode(out),
        }
    }
}
