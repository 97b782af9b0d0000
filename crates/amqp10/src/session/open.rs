//! `open` (part 2, §2.4.1 and §2.7.1): limits, idle time-outs, vhost, container id, and what either
//! side offers.

use std::time::{Duration, Instant};

use broker::Terms;
use front::{Label, Wish};

use crate::codec::error::condition;
use crate::codec::performative::Open;
use crate::codec::{Symbols, Value};
use crate::dialect::to_table;
use crate::limits::MIN_MAX_FRAME_SIZE;
use crate::session::Shared;
use crate::session::connection::{Amqp10Connection, LoggedIn, Phase};
use crate::session::containers::Sole;
use crate::session::error::Failure;
use crate::session::frames::{self, OwnMap};
use crate::session::running::{Agreed, Container, Running};

/// The capability by which a client wants to be the only one of its container id.
const SOLE_CONNECTION: &str = "sole-connection-for-container";
/// A property that says how a container id is known to be in use: by a connection that wants to be
/// the only one of it, too. Without it, any other connection would count (Sole Connection
/// Enforcement, §4.1).
const DETECTION: &str = "sole-connection-detection-policy";
/// The weak one.
const WEAK: u32 = 1;
/// What works here, of what Qpid JMS and others ask for.
const OFFERED: [&str; 5] = [SOLE_CONNECTION, "ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", "LINK_PAIR_V1_0"];
/// What a `hostname` that means a vhost begins with; this is RabbitMQ's rule.
const VHOST: &str = "vhost:";
/// The vhost of all others.
const DEFAULT_VHOST: &str = "/";
/// A property by which Qpid JMS knows that a close follows an open that failed.
const FAILED: &str = "amqp:connection-establishment-failed";
/// The shortest `idle-time-out` that a peer may ask for, in milliseconds.
const SHORTEST_IDLE: u32 = 100;

impl Amqp10Connection {
    pub(super) fn take_open(&mut self, open: &Open<'_>, now: Instant) -> Result<(), Failure> {
        let idle = open.idle_time_out.filter(|ms| *ms > 0);
        if let Some(ms) = idle.filter(|ms| *ms < SHORTEST_IDLE) {
            let text = format!("idle-time-out is {ms} ms; it must be {SHORTEST_IDLE} ms or longer");
            return Err(Failure::new(condition::NOT_ALLOWED, text));
        }
        let Phase::Opening(logged_in) = std::mem::replace(&mut self.phase, Phase::Header) else { return Ok(()) };
        match self.attach(open, logged_in) {
            Ok(running) => {
                self.put_open(&running.agreed, &[]);
                self.running = Some(Box::new(running));
                self.phase = Phase::Running;
                self.line.phase_ends = None;
                let announced = Some(self.shared.settings.idle).filter(|idle| !idle.is_zero());
                let sends = idle.map(|ms| Duration::from_millis(ms.into()));
                self.line.keep_alive.agree(sends, announced, now);
                Ok(())
            }
            Err(refused) => {
                let failed = (Value::Symbol(FAILED.to_owned()), Value::Bool(true));
                self.put_open(&self.agreed(open), &[failed]);
                self.close_with(&refused, now);
                Ok(())
            }
        }
    }

    /// The smaller one of each limit counts.
    fn agreed(&self, open: &Open<'_>) -> Agreed {
        let sessions = self.shared.broker.sessions_per_connection();
        // Channels count from 0; a limit of 0 sessions stands for as many as there are numbers.
        let own = u16::try_from(sessions.wrapping_sub(1)).unwrap_or(u16::MAX);
        Agreed {
            channel_max: own.min(open.channel_max),
            own_channel_max: own,
            peer_frame_max: open.max_frame_size.max(MIN_MAX_FRAME_SIZE),
        }
    }

    fn attach(&mut self, open: &Open<'_>, logged_in: LoggedIn) -> Result<Running, Failure> {
        let LoggedIn { identity, mechanism, hostname } = logged_in;
        let hostname = open.hostname.or(hostname.as_deref());
        let vhost = hostname.and_then(|name| name.strip_prefix(VHOST)).unwrap_or(DEFAULT_VHOST);
        let sole = self.take_container(open, vhost)?;
        let agreed = self.agreed(open);
        let wish = Wish {
            vhost: vhost.to_owned(),
            name: Some(open.container_id.to_owned()).filter(|name| !name.is_empty()),
            properties: open.properties.map(to_table).unwrap_or_default(),
            terms: Terms {
                mechanism,
                keep_alive: Duration::from_millis(open.idle_time_out.unwrap_or(0).into()),
                piece_bytes: agreed.peer_frame_max.min(self.shared.settings.frame_max()),
                sessions: u32::from(agreed.channel_max) + 1,
            },
        };
        let client = self.entrance().attach(identity, wish)?;
        self.entrance().note_open(&client, Label::Name(Some(open.container_id)));
        let Shared { broker, settings, names, termini, .. } = &*self.shared;
        let names = names.of(client.vhost(), client.user(), open.container_id, self.line.waker.clone());
        let container = Container { id: open.container_id.to_owned(), names, termini: termini.clone(), _sole: sole };
        Ok(Running::new(client, broker.clone(), agreed, container, &settings.node))
    }

    /// Takes the container id, if the client wants to be the only one of it.
    fn take_container(&self, open: &Open<'_>, vhost: &str) -> Result<Option<Sole>, Failure> {
        if !open.desired_capabilities.has(SOLE_CONNECTION) {
            return Ok(None);
        }
        match self.shared.containers.take(vhost, open.container_id) {
            Some(sole) => Ok(Some(sole)),
            None => {
                let text = format!(
                    "container-id '{}' is in use by another connection; each needs an id (in JMS a client id) of its own",
                    open.container_id
                );
                // Qpid JMS makes an InvalidClientIDException of this.
                Err(Failure::invalid(text).about("invalid-field", Value::Symbol("container-id".to_owned())))
            }
        }
    }

    fn put_open(&mut self, agreed: &Agreed, failed: &[(Value, Value)]) {
        let settings = &self.shared.settings;
        let text = |name: &str, value: &str| (Value::Symbol(name.to_owned()), Value::Str(value.to_owned()));
        let mut properties = vec![
            text("product", &settings.product),
            text("version", &settings.version),
            text("platform", "Rust"),
            text("node", &settings.node),
            (Value::Symbol(DETECTION.to_owned()), Value::U32(WEAK)),
        ];
        properties.extend_from_slice(failed);
        let properties = OwnMap::new(properties);
        let idle = u32::try_from(settings.idle.as_millis()).unwrap_or(u32::MAX);
        let open = Open {
            container_id: &settings.node,
            max_frame_size: settings.frame_max(),
            channel_max: agreed.own_channel_max,
            idle_time_out: Some(idle).filter(|idle| *idle > 0),
            offered_capabilities: Symbols::of(&OFFERED),
            properties: properties.get(),
            ..Open::default()
        };
        frames::answer(&mut self.output, 0, &open);
    }
}
