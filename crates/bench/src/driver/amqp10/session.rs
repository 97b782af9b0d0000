//! An AMQP 1.0 connection with one session that asks and waits for answers.

use amqp10::client::{Client, Event as Said, LinkId, Login, Options};
use amqp10::codec::performative::{Attach, Open, Role};
use wire::Output;

use crate::driver::link::Link;
use bench_record::failure::{Context, Failure};
use bench_record::target::Target;

/// A broker with this capability has management nodes.
const LINK_PAIR: &str = "LINK_PAIR_V1_0";

/// A connection whose session has begun.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) client: Client,
    pub(super) output: Output,
    pub(super) channel: u16,
    /// What the broker says of itself: product and version.
    pub(super) server: (String, String),
    pub(super) has_management: bool,
}

/// Is shown what the broker says, and returns what was waited for.
pub(super) type Hear<'a, T> = &'a mut dyn FnMut(&Said<'_>) -> Option<T>;

impl Session {
    /// Connects to `target` and begins the session; `part` goes into the container's name.
    pub(super) fn open(target: &Target, part: &str) -> Result<Self, Failure> {
        let link = Link::open(&target.address)?;
        let options = Options {
            login: Login::plain(&target.user, &target.password),
            container_id: format!("hermod-bench {part} {}", link.local_port()?),
            hostname: (target.vhost != "/").then(|| format!("vhost:{}", target.vhost)),
            // As large as the frames of the JMS client, and of what brokers take at most.
            max_frame_size: 1024 * 1024,
            incoming_window: 65_536,
            ..Options::default()
        };
        let (client, server) = (Client::new(options), Default::default());
        let output = Output::keeping_all();
        let mut session = Self { link, client, output, channel: 0, server, has_management: false };
        session.client.start(session.output.tail());
        (session.server, session.has_management) = session.wait("the opening of the connection", &mut |said| {
            let Said::Opened(open) = said else { return None };
            Some((product(open), open.offered_capabilities.has(LINK_PAIR)))
        })?;
        session.channel = session.client.begin(session.output.tail()).context("a session")?;
        session.wait("the begin of a session", &mut |said| matches!(said, Said::Begun { .. }).then_some(()))?;
        Ok(session)
    }

    /// Attaches a link. A sender waits for its first credit, too.
    pub(super) fn attach(&mut self, attach: &Attach<'_>) -> Result<LinkId, Failure> {
        let what = format!("the link {}", attach.name);
        let asked = self.client.attach(self.channel, attach, self.output.tail()).context(&what)?;
        let sends = attach.role == Role::Sender;
        let filters = attach.source.is_some_and(|source| source.filter.is_some());
        let filtered = self.wait(&what, &mut |said| match said {
            Said::Attached { link, attach } if *link == asked && !sends => {
                Some(attach.source.is_none_or(|source| source.filter.is_some_and(|known| !known.is_empty())))
            }
            Said::Credit { link, .. } => (*link == asked).then_some(true),
            _ => None,
        })?;
        // A broker names the filters that it knows; the others are not in force.
        if filters && !filtered { Err(Failure::lacking("selectors over AMQP 1.0")) } else { Ok(asked) }
    }

    /// Writes what is queued, and reads until `hear` has its answer.
    pub(super) fn wait<T>(&mut self, what: &str, hear: Hear<'_, T>) -> Result<T, Failure> {
        loop {
            let mut rest = self.link.input();
            let before = rest.len();
            let mut answer = None;
            while answer.is_none()
                && let Some(said) = self.client.poll(&mut rest, self.output.tail()).context(what)?
            {
                if let Some(failure) = refusal(&said) {
                    return Err(failure).context(what);
                }
                answer = hear(&said);
            }
            let used = before - rest.len();
            self.link.consume(used);
            self.link.write_all(&mut self.output)?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            if !self.link.read()? {
                return Err(Failure::new(format!("no answer to {what}")));
            }
        }
    }
}

fn product(open: &Open<'_>) -> (String, String) {
    let text = |name: &str| {
        let value = open.properties.and_then(|properties| properties.get(name));
        value.and_then(|value| value.as_text().map(str::to_owned)).unwrap_or_default()
    };
    (text("product"), text("version"))
}

/// The failure that an event means, if it does.
pub(super) fn refusal(said: &Said<'_>) -> Option<Failure> {
    let (what, error) = match said {
        Said::Detached { error, .. } => ("detached a link", error),
        Said::Ended { error, .. } => ("ended the session", error),
        Said::Closed { error } => ("closed the connection", error),
        _ => return None,
    };
    let why = error.as_ref().map_or("without a reason".to_owned(), |error| {
        format!("{}: {}", error.condition.0, error.description.unwrap_or_default())
    });
    Some(Failure::new(format!("the broker {what}: {why}")))
}
