//! An AMQP 0-9-1 connection with one channel that asks and waits: for answers one by one, or with
//! some of them outstanding.

use std::time::Instant;

use amqp091::client::{Client, Event as Said, Options};
use amqp091::codec::Method;
use amqp091::codec::methods::ChannelOpen;
use amqp091::codec::table::Value;
use wire::Output;

use super::link::Link;
use bench_record::failure::{Context, Failure};
use bench_record::target::Target;

/// The one channel of each connection.
pub(crate) const CHANNEL: u16 = 1;

/// A connection that asks questions.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) link: Link,
    pub(crate) client: Client,
    pub(crate) output: Output,
    /// What the broker says of itself: product and version.
    pub(crate) server: (String, String),
    /// Nothing is waited for any longer after this; none: each answer has its own patience only.
    pub(crate) until: Option<Instant>,
}

/// Several questions of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Questions<'a> {
    /// What they are, for failures.
    pub(crate) what: &'a str,
    /// How many there are.
    pub(crate) count: usize,
    /// How many may be unanswered at once; at least 1.
    pub(crate) unanswered: usize,
}

/// Is shown what the broker says and the output, and returns how many questions that answers.
type Hear<'a> = &'a mut dyn FnMut(&Said<'_>, &mut Vec<u8>) -> Result<usize, Failure>;

impl Session {
    /// Connects to `target` and opens the channel; `part` goes into the connection's name.
    pub(crate) fn open(target: &Target, part: &str) -> Result<Self, Failure> {
        Self::over(Link::open(&target.address)?, target, part)
    }

    /// The same over a socket that is connected already.
    pub(crate) fn over(link: Link, target: &Target, part: &str) -> Result<Self, Failure> {
        let options = Options {
            user: target.user.clone(),
            password: target.password.clone(),
            virtual_host: target.vhost.clone(),
            connection_name: format!("hermod-bench {part}"),
            ..Options::default()
        };
        let mut session = Self {
            link,
            client: Client::new(options),
            output: Output::keeping_all(),
            server: Default::default(),
            until: None,
        };
        session.client.start(session.output.tail());
        let opening = Questions { what: "the opening of the connection", count: 1, unanswered: 1 };
        let mut server = (String::new(), String::new());
        session.ask(opening, &mut |_, _| {}, &mut |said, _| {
            let Said::Connected(connected) = said else { return Ok(0) };
            let property = |name: &str| match connected.server_properties.iter().find(|(key, _)| key == name) {
                Some((_, Value::Str(text))) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            server = (property("product"), property("version"));
            Ok(1)
        })?;
        session.server = server;
        session.call(ChannelOpen::default())?;
        Ok(session)
    }

    /// Sends a method and waits for its answer, which has the next number in its class. Returns the
    /// message count of `queue.declare-ok` and `queue.delete-ok`, else 0.
    pub(crate) fn call<'m>(&mut self, method: impl Into<Method<'m>>) -> Result<u64, Failure> {
        let method = method.into();
        let (class, number) = method.id();
        let mut count = 0;
        let one = Questions { what: method.name(), count: 1, unanswered: 1 };
        self.ask(one, &mut |_, out| method.encode(CHANNEL, out), &mut |said, _| {
            let Said::Method { method: answer, .. } = said else { return Ok(0) };
            match answer {
                Method::QueueDeclareOk(ok) => count = ok.message_count.into(),
                Method::QueueDeleteOk(ok) => count = ok.message_count.into(),
                _ => {}
            }
            Ok(usize::from(answer.id() == (class, number + 1)))
        })?;
        Ok(count)
    }

    /// Asks all `questions` in order: `ask` appends the one with the number it is given, `hear` is
    /// shown what the broker says and returns how many questions that answers. It may append to the
    /// output too. What comes behind the last answer stays for later.
    pub(crate) fn ask(
        &mut self,
        questions: Questions<'_>,
        ask: &mut dyn FnMut(usize, &mut Vec<u8>),
        hear: Hear<'_>,
    ) -> Result<(), Failure> {
        let Questions { what, count, unanswered } = questions;
        let (mut asked, mut answered) = (0, 0);
        while answered < count {
            while asked < count && asked.saturating_sub(answered) < unanswered {
                ask(asked, self.output.tail());
                asked += 1;
            }
            answered += self.hear(what, count - answered, hear)?;
            // The client may have answered what it read.
            self.link.write_all(&mut self.output)?;
            if answered < asked && self.until.is_some_and(|until| Instant::now() > until) {
                return Err(Failure::new(format!("{what}: the time limit was reached")));
            }
            if answered < asked && !self.link.read()? {
                return Err(Failure::new(format!("no answer to {what}")));
            }
        }
        Ok(())
    }

    /// Understands what was read, until `most` answers are among it.
    fn hear(&mut self, what: &str, most: usize, hear: Hear<'_>) -> Result<usize, Failure> {
        let mut rest = self.link.input();
        let (before, mut answered) = (rest.len(), 0);
        while answered < most {
            let Some(said) = self.client.poll(&mut rest, self.output.tail()).context(what)? else { break };
            if let Some(failure) = refusal(&said) {
                return Err(failure).context(what);
            }
            answered += hear(&said, self.output.tail()).context(what)?;
        }
        let used = before - rest.len();
        self.link.consume(used);
        Ok(answered)
    }
}

/// The failure that an event means, if it does.
pub(super) fn refusal(said: &Said<'_>) -> Option<Failure> {
    let text = match said {
        Said::Closed { reply_code, reply_text } => {
            format!("the broker closed the connection: {reply_code} {reply_text}")
        }
        Said::ChannelClosed { reply_code, reply_text, .. } => {
            format!("the broker closed the channel: {reply_code} {reply_text}")
        }
        Said::Cancelled { consumer_tag, .. } => format!("the broker cancelled the consumer {consumer_tag}"),
        _ => return None,
    };
    Some(Failure::new(text))
}
