//! The first bytes on a relay's socket: `HRLY`, the role, the number of the pair, the number of the
//! run.

/// What the relay answers: to a consumer when it waits, to a producer when it is paired.
pub(crate) const PAIRED: u8 = b'!';

const MAGIC: &[u8; 4] = b"HRLY";

/// Which end of a pair a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Connects second.
    Producer,
    /// Connects first and waits.
    Consumer,
}

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    /// Tells the pairs of one run apart.
    pub(crate) pair: u16,
    /// Tells runs apart.
    pub(crate) run: u32,
}

impl Hello {
    /// Bytes on the wire.
    pub(crate) const LENGTH: usize = 11;

    /// As sent.
    pub(crate) fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = match self.role {
            Role::Producer => b'P',
            Role::Consumer => b'C',
        };
        bytes[5..7].copy_from_slice(&self.pair.to_be_bytes());
        bytes[7..].copy_from_slice(&self.run.to_be_bytes());
        bytes
    }

    /// Reads it, or none when the bytes are something else.
    pub(crate) fn decode(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let [m0, m1, m2, m3, role, p0, p1, r0, r1, r2, r3] = *bytes;
        let role = match role {
            b'P' => Role::Producer,
            b'C' => Role::Consumer,
            _ => return None,
        };
        let hello = Self { role, pair: u16::from_be_bytes([p0, p1]), run: u32::from_be_bytes([r0, r1, r2, r3]) };
        (&[m0, m1, m2, m3] == MAGIC).then_some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_and_anything_else_does_not() {
        for role in [Role::Producer, Role::Consumer] {
            let hello = Hello { role, pair: 513, run: 0x0102_0304 };
            let bytes = hello.encode();
            assert_eq!(Hello::decode(&bytes), Some(hello));
            for at in 0..5 {
                let mut bad = bytes;
                bad[at] ^= 0x80;
                assert_eq!(Hello::decode(&bad), None, "byte {at}");
            }
        }
    }
}
