//! Kafka on the wire: requests and answers with their lengths in front, in versions that brokers
//! from 0.11 to 4 have in common. Decoding takes what is whole and waits for the rest; what is no
//! Kafka is an error.

use wire::{DecodeError, Reader};

use bench_record::failure::{Context, Failure};

/// What a client of a run calls itself.
const CLIENT: &str = "hermod-bench";
/// A longer answer is refused: brokers send at most the largest request that they take, 100 MiB,
/// and something around it.
const LARGEST_ANSWER: usize = 128 * 1024 * 1024;
/// How long a broker may take to create and delete.
const TIMEOUT_MS: u32 = 30_000;
/// How long a Fetch waits for a message.
const POLL_MS: u32 = 500;
/// One replica.
const REPLICAS: u16 = 1;
const NO_ERROR: Code = Code(0);

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    OffsetCommit,
    FindCoordinator,
    ApiVersions,
    CreateTopics,
    DeleteTopics,
}

impl Call {
    /// All of them, with their numbers and the versions spoken here.
    const ALL: [(Self, u16, u16); 9] = [
        (Self::Produce, 0, 3),
        (Self::Fetch, 1, 4),
        (Self::ListOffsets, 2, 1),
        (Self::Metadata, 3, 1),
        (Self::OffsetCommit, 8, 2),
        (Self::FindCoordinator, 10, 0),
        (Self::ApiVersions, 18, 0),
        (Self::CreateTopics, 19, 2),
        (Self::DeleteTopics, 20, 1),
    ];

    fn number(self) -> (u16, u16) {
        let [_, number, version] =
            Self::ALL.iter().find(|(call, ..)| *call == self).map_or([0; 3], |(_, n, v)| [0, *n, *v]);
        (number, version)
    }
}

/// The end of a partition that offsets are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The oldest message that is kept.
    Earliest = -2,
    /// Where the next message comes.
    Latest = -1,
}

/// What is asked of a broker. Each topic has one partition, number 0.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'a> {
    Versions,
    Metadata {
        topics: &'a [String],
    },
    Create {
        topics: &'a [String],
        /// The largest batch that they take.
        largest: usize,
    },
    Delete {
        topics: &'a [String],
    },
    Offsets {
        topics: &'a [String],
        end: End,
    },
    Coordinator {
        group: &'a str,
    },
    /// All before `offset` is done with. Who says so is no member of the group: no other shares the
    /// partition.
    Commit {
        group: &'a str,
        topic: &'a str,
        offset: i64,
    },
    Fetch {
        topic: &'a str,
        from: i64,
        /// Most bytes, but one batch in any case.
        most: u32,
    },
}

impl Request<'_> {
    pub(super) fn call(&self) -> Call {
        match self {
            Self::Versions => Call::ApiVersions,
            Self::Metadata { .. } => Call::Metadata,
            Self::Create { .. } => Call::CreateTopics,
            Self::Delete { .. } => Call::DeleteTopics,
            Self::Offsets { .. } => Call::ListOffsets,
            Self::Coordinator { .. } => Call::FindCoordinator,
            Self::Commit { .. } => Call::OffsetCommit,
            Self::Fetch { .. } => Call::Fetch,
        }
    }

    /// Appends it.
    pub(super) fn encode(&self, correlation: u32, out: &mut Vec<u8>) {
        let frame = begin(self.call(), correlation, out);
        match *self {
            Self::Versions => {}
            Self::Metadata { topics } => texts(topics, out),
            Self::Create { topics, largest } => create(topics, largest, out),
            Self::Delete { topics } => {
                texts(topics, out);
                u32(TIMEOUT_MS, out);
            }
            Self::Offsets { topics, end } => {
                // No replica asks, but a client.
                i32(-1, out);
                u32(topics.len() as u32, out);
                for topic in topics {
                    partition(topic, out);
                    i64(end as i64, out);
                }
            }
            Self::Coordinator { group } => text(group, out),
            Self::Commit { group, topic, offset } => {
                text(group, out);
                // No member of a generation; kept as long as the broker usually does; without a
                // note.
                i32(-1, out);
                text("", out);
                i64(-1, out);
                u32(1, out);
                partition(topic, out);
                i64(offset, out);
                text("", out);
            }
            Self::Fetch { topic, from, most } => {
                i32(-1, out);
                u32(POLL_MS, out);
                // From one byte on there is an answer; messages of open transactions count too.
                u32(1, out);
                u32(most, out);
                out.push(0);
                u32(1, out);
                partition(topic, out);
                i64(from, out);
                u32(most, out);
            }
        }
        end(frame, out);
    }
}

/// Topics of one partition with their largest batch.
fn create(topics: &[String], largest: usize, out: &mut Vec<u8>) {
    u32(topics.len() as u32, out);
    for topic in topics {
        text(topic, out);
        u32(1, out);
        u16(REPLICAS, out);
        // Replicas where the broker likes.
        u32(0, out);
        u32(1, out);
        text("max.message.bytes", out);
        text(&largest.to_string(), out);
    }
    u32(TIMEOUT_MS, out);
    // In earnest.
    out.push(0);
}

/// A topic with its only partition.
fn partition(topic: &str, out: &mut Vec<u8>) {
    text(topic, out);
    u32(1, out);
    u32(0, out);
}

/// Appends the head of a request; `end` with what this returns is to follow.
pub(super) fn begin(call: Call, correlation: u32, out: &mut Vec<u8>) -> usize {
    let frame = out.len();
    let (number, version) = call.number();
    u32(0, out);
    u16(number, out);
    u16(version, out);
    u32(correlation, out);
    text(CLIENT, out);
    frame
}

/// Writes the length of the request that begins at `frame` and ends here.
pub(super) fn end(frame: usize, out: &mut [u8]) {
    let length = (out.len() - frame - 4) as u32;
    out[frame..frame + 4].copy_from_slice(&length.to_be_bytes());
}

pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    u16(text.len() as u16, out);
    out.extend_from_slice(text.as_bytes());
}

fn texts(texts: &[String], out: &mut Vec<u8>) {
    u32(texts.len() as u32, out);
    texts.iter().for_each(|one| text(one, out));
}

fn u16(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn u32(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn i32(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn i64(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Why a broker did not do what was asked; 0: it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(u16);

impl Code {
    /// Names of those that a run may meet, as Kafka writes them.
    const NAMES: [(u16, &'static str); 19] = [
        (1, "OFFSET_OUT_OF_RANGE"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (5, "LEADER_NOT_AVAILABLE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (7, "REQUEST_TIMED_OUT"),
        (10, "MESSAGE_TOO_LARGE"),
        (14, "COORDINATOR_LOAD_IN_PROGRESS"),
        (15, "COORDINATOR_NOT_AVAILABLE"),
        (16, "NOT_COORDINATOR"),
        (17, "INVALID_TOPIC_EXCEPTION"),
        (29, "TOPIC_AUTHORIZATION_FAILED"),
        (30, "GROUP_AUTHORIZATION_FAILED"),
        (31, "CLUSTER_AUTHORIZATION_FAILED"),
        (35, "UNSUPPORTED_VERSION"),
        (36, "TOPIC_ALREADY_EXISTS"),
        (38, "INVALID_REPLICATION_FACTOR"),
        (40, "INVALID_CONFIG"),
        (44, "POLICY_VIOLATION"),
        (56, "KAFKA_STORAGE_ERROR"),
    ];

    pub(super) fn is_fine(self) -> bool {
        self == NO_ERROR
    }

    /// The topic is there already.
    pub(super) fn is_there(self) -> bool {
        self.0 == 36
    }

    /// What was asked for is being made: it is asked for again.
    pub(super) fn is_early(self) -> bool {
        matches!(self.0, 3 | 5 | 6 | 14 | 15 | 16)
    }

    /// Fails unless the broker did it.
    pub(super) fn check(self, what: &str) -> Result<(), Failure> {
        if self.is_fine() { Ok(()) } else { Err(Failure::new(format!("{what}: the broker answered {self}"))) }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Self::NAMES.iter().find(|(code, _)| *code == self.0).map_or("error", |(_, name)| name);
        write!(f, "{name} ({})", self.0)
    }
}

/// An answer to the request with the number `correlation`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    pub(super) correlation: u32,
    pub(super) body: &'a [u8],
}

/// What is whole at the front of `input`, and its length.
pub(super) fn decode(input: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Failure> {
    let mut reader = Reader::new(input);
    let Ok(length) = reader.u32() else { return Ok(None) };
    let length = length as usize;
    if !(4..=LARGEST_ANSWER).contains(&length) {
        return Err(Failure::new(format!("the broker announced an answer of {length} bytes; does it speak Kafka?")));
    }
    let Ok(answer) = reader.bytes(length) else { return Ok(None) };
    let mut reader = Reader::new(answer);
    let correlation = reader.u32().context("an answer of the broker")?;
    Ok(Some((Answer { correlation, body: reader.rest() }, 4 + length)))
}

/// What a Fetch brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fetched<'a> {
    pub(super) code: Code,
    /// Batches, of which the last may be cut off.
    pub(super) records: &'a [u8],
}

/// What a broker says of itself and of topics.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) brokers: usize,
    /// One for each topic: fine if its partition has a leader.
    pub(super) topics: Vec<Code>,
}

/// Fails when the broker does not know what is asked of it.
pub(super) fn versions(body: &[u8]) -> Result<(), Failure> {
    let (code, ranges) = read(body, |reader| {
        let code = code(reader)?;
        let ranges = list(reader, |reader| Ok((reader.u16()?, reader.u16()?, reader.u16()?)))?;
        Ok((code, ranges))
    })?;
    code.check("ApiVersions")?;
    for (call, number, wanted) in Call::ALL {
        match ranges.iter().find(|(known, ..)| *known == number) {
            Some((_, least, most)) if (*least..=*most).contains(&wanted) => {}
            Some((_, least, most)) => {
                return Err(Failure::new(format!(
                    "the broker takes versions {least} to {most} of {call:?}, and this program sends {wanted}"
                )));
            }
            None => return Err(Failure::new(format!("the broker takes no {call:?}"))),
        }
    }
    Ok(())
}

/// The answer to Metadata.
pub(super) fn metadata(body: &[u8]) -> Result<Metadata, Failure> {
    read(body, |reader| {
        let brokers = list(reader, |reader| {
            reader.u32()?;
            skip_text(reader)?;
            reader.u32()?;
            skip_text(reader)
        })?;
        // The number of the controller.
        reader.u32()?;
        let topics = list(reader, |reader| {
            let topic = code(reader)?;
            skip_text(reader)?;
            reader.u8()?;
            let partitions = list(reader, |reader| {
                let partition = code(reader)?;
                reader.bytes(8)?;
                list(reader, Reader::u32)?;
                list(reader, Reader::u32)?;
                Ok(partition)
            })?;
            Ok([topic].into_iter().chain(partitions).find(|code| !code.is_fine()).unwrap_or(NO_ERROR))
        })?;
        Ok(Metadata { brokers: brokers.len(), topics })
    })
}

/// The answer to CreateTopics: one code for each topic.
pub(super) fn created(body: &[u8]) -> Result<Vec<Code>, Failure> {
    read(body, |reader| {
        reader.u32()?;
        list(reader, |reader| {
            skip_text(reader)?;
            let code = code(reader)?;
            skip_text(reader)?;
            Ok(code)
        })
    })
}

/// The answer to DeleteTopics: one code for each topic.
pub(super) fn deleted(body: &[u8]) -> Result<Vec<Code>, Failure> {
    read(body, |reader| {
        reader.u32()?;
        list(reader, |reader| {
            skip_text(reader)?;
            code(reader)
        })
    })
}

/// The answer to ListOffsets: one offset for each topic.
pub(super) fn offsets(body: &[u8]) -> Result<Vec<(Code, i64)>, Failure> {
    read(body, |reader| {
        let topics = list(reader, |reader| {
            skip_text(reader)?;
            list(reader, |reader| {
                reader.u32()?;
                let code = code(reader)?;
                // The time of the message there.
                reader.u64()?;
                Ok((code, reader.u64()? as i64))
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    })
}

/// The answer to FindCoordinator.
pub(super) fn coordinator(body: &[u8]) -> Result<Code, Failure> {
    read(body, code)
}

/// The answer to OffsetCommit of one partition.
pub(super) fn committed(body: &[u8]) -> Result<Code, Failure> {
    read(body, |reader| only_partition(reader, code))
}

/// The answer to Produce for one partition.
pub(super) fn produced(body: &[u8]) -> Result<Code, Failure> {
    read(body, |reader| only_partition(reader, code))
}

/// The answer to Fetch of one partition.
pub(super) fn fetched(body: &[u8]) -> Result<Fetched<'_>, Failure> {
    read(body, |reader| {
        reader.u32()?;
        only_partition(reader, |reader| {
            let code = code(reader)?;
            // The high watermark, and the end of what is stable.
            reader.bytes(16)?;
            list(reader, |reader| reader.bytes(16).map(drop))?;
            let records = match reader.u32()? as i32 {
                ..0 => &[][..],
                length => reader.bytes(length as usize)?,
            };
            Ok(Fetched { code, records })
        })
    })
}

/// Reads an answer by `of`.
fn read<'a, T>(body: &'a [u8], of: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>) -> Result<T, Failure> {
    of(&mut Reader::new(body)).context("an answer of the broker; does it speak Kafka?")
}

fn code(reader: &mut Reader<'_>) -> Result<Code, DecodeError> {
    reader.u16().map(Code)
}

/// A list of whatever `of` reads; a missing one is empty.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    of: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.u32()? as i32;
    // As long as something is there, not as long as was announced.
    (0..count).map(|_| of(reader)).collect()
}

/// The only partition of the only topic, read by `of` behind its number.
fn only_partition<'a, T>(
    reader: &mut Reader<'a>,
    of: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let one = |reader: &mut Reader<'a>| match reader.u32()? {
        1 => Ok(()),
        _ => Err(DecodeError::Malformed("an answer about another number of partitions than one")),
    };
    one(reader)?;
    skip_text(reader)?;
    one(reader)?;
    reader.u32()?;
    of(reader)
}

/// Passes over a text, which may be missing.
fn skip_text(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match reader.u16()? as i16 {
        ..0 => Ok(()),
        length => reader.bytes(length as usize).map(drop),
    }
}

#[cfg(test)]
mod tests;
