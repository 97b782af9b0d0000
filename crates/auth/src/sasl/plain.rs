//! PLAIN (RFC 4616): `authzid NUL authcid NUL passwd`.
//!
//! Acting for another user is not supported, so the first part must be empty or repeat the user's
//! name.

use super::{Credentials, MalformedResponse, user_name};

/// Takes a response apart.
///
/// # Errors
/// When it does not have exactly three parts, or asks to act for another user.
pub fn parse(response: &[u8]) -> Result<Credentials<'_>, MalformedResponse> {
    let mut parts = response.split(|byte| *byte == 0);
    let (Some(authorize), Some(user), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(MalformedResponse("a PLAIN response has three parts separated by NUL"));
    };
    if !authorize.is_empty() && authorize != user {
        return Err(MalformedResponse("acting for another user is not supported"));
    }
    Ok(Credentials { user: user_name(user)?, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses() {
        for (response, expected) in [
            (&b"\0guest\0guest"[..], Some(("guest", &b"guest"[..]))),
            (b"guest\0guest\0secret", Some(("guest", b"secret"))),
            ("\0jürgen\0\u{20ac}".as_bytes(), Some(("jürgen", "\u{20ac}".as_bytes()))),
            (b"\0guest\0", Some(("guest", b""))),
            (b"\0\0x", Some(("", b"x"))),
            (b"\0u\0\xff\xfe", Some(("u", b"\xff\xfe"))),
            (b"other\0guest\0guest", None),
            (b"\0\xff\0x", None),
            (b"", None),
            (b"guest", None),
            (b"\0guest", None),
            (b"\0guest\0pass\0word", None),
        ] {
            let found = parse(response).ok().map(|found| (found.user, found.password));
            assert_eq!(found, expected, "{response:?}");
        }
        assert!(!format!("{:?}", parse(b"\0guest\0secret")).contains("secret"));
    }
}
