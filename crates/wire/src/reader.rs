//! A cursor over received bytes for decoders: every read is bounds-checked, nothing is allocated.

/// Why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The value goes on past the end of the input.
    Truncated,
    /// A byte that no valid encoding has here; the text says what was wrong.
    Malformed(&'static str),
    /// A limit (depth, count, length) was exceeded; the text names it.
    Limit(&'static str),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the value ends too early"),
            Self::Malformed(what) | Self::Limit(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads big-endian values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length byte and that many bytes (AMQP's short string).
    #[inline]
    pub fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u8()?;
        self.bytes(length as usize)
    }

    /// Four length bytes and that many bytes (AMQP's long string).
    #[inline]
    pub fn long_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }
}
