//! AMQPLAIN, the mechanism of AMQP 0-8: a field table without its length, with the long strings
//! `LOGIN` and `PASSWORD`.
//!
//! Other fields are passed over by their type's length; nothing is copied and nothing nested is
//! entered.

use super::{Credentials, MalformedResponse, user_name};

/// Fields that are looked at before giving up.
const MAX_FIELDS: usize = 64;

const CUT: MalformedResponse = MalformedResponse("the AMQPLAIN table ends too early");

/// Takes a response apart.
///
/// # Errors
/// When it is no table, or lacks `LOGIN` or `PASSWORD` as a long string.
pub fn parse(response: &[u8]) -> Result<Credentials<'_>, MalformedResponse> {
    let mut rest = response;
    let mut user = None;
    let mut password = None;
    for _ in 0..MAX_FIELDS {
        if rest.is_empty() {
            break;
        }
        let length = u8::from_be_bytes(*array(&mut rest)?);
        let name = bytes(&mut rest, usize::from(length))?;
        let kind = u8::from_be_bytes(*array(&mut rest)?);
        let length = value_length(kind, rest)?;
        let value = bytes(&mut rest, length)?;
        match (name, kind) {
            (b"LOGIN", b'S') => user = value.get(4..),
            (b"PASSWORD", b'S') => password = value.get(4..),
            _ => {}
        }
    }
    if !rest.is_empty() {
        return Err(MalformedResponse("the AMQPLAIN table has more than 64 fields"));
    }
    match (user, password) {
        (Some(user), Some(password)) => Ok(Credentials { user: user_name(user)?, password }),
        _ => Err(MalformedResponse("the AMQPLAIN table lacks LOGIN or PASSWORD as a long string")),
    }
}

/// The bytes that a value takes, its own length field included. The types are those RabbitMQ reads.
fn value_length(kind: u8, mut rest: &[u8]) -> Result<usize, MalformedResponse> {
    Ok(match kind {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'S' | b'x' | b'F' | b'A' => {
            let length = u32::from_be_bytes(*array(&mut rest)?);
            usize::try_from(length).ok().and_then(|length| length.checked_add(4)).ok_or(CUT)?
        }
        _ => return Err(MalformedResponse("the AMQPLAIN table has a field of an unknown type")),
    })
}

fn bytes<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], MalformedResponse> {
    let (head, tail) = rest.split_at_checked(count).ok_or(CUT)?;
    *rest = tail;
    Ok(head)
}

fn array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], MalformedResponse> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(CUT)?;
    *rest = tail;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x06secret";

    #[test]
    fn responses() {
        let with_others = [
            &b"\x01at\x01\x01bI\0\0\0\x01\x01cl\0\0\0\0\0\0\0\x01\x01dV\x01eF\0\0\0\x02\x01V\x01fD\x02\0\0\0\x01"[..],
            GOOD,
            b"\x01gs\0\x01",
        ]
        .concat();
        let many = [GOOD, &b"\x01aV".repeat(MAX_FIELDS)].concat();
        for (response, expected) in [
            (GOOD, Some(("guest", &b"secret"[..]))),
            (&with_others, Some(("guest", b"secret"))),
            (b"\x08PASSWORDS\0\0\0\0\x05LOGINS\0\0\0\x01u", Some(("u", b""))),
            (b"\x05LOGINS\0\0\0\x05guest", None),
            (b"\x05loginS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x06secret", None),
            (b"\x05LOGINs\0\x05\x08PASSWORDS\0\0\0\x06secret", None),
            (b"\x05LOGINS\0\0\0\x01\xff\x08PASSWORDS\0\0\0\x06secret", None),
            (b"\x05LOGINS\xff\xff\xff\xffguest", None),
            (b"\x05LOGIN?\0\0\0\x05guest", None),
            (b"", None),
            (&many, None),
        ] {
            let found = parse(response).ok().map(|found| (found.user, found.password));
            assert_eq!(found, expected, "{response:?}");
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        for end in 0..GOOD.len() {
            assert!(parse(&GOOD[..end]).is_err(), "cut at {end}");
        }
    }
}
