//! A broker in memory and its peers, without sockets.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use broker::Dialects;
use testkit::broker::{Setup, TestBroker, TextDialect};
use testkit::driver::Driver;
use testkit::sim_disk::SimDisk;
use wire::ReadState;

use crate::codec::{Decoder, Version};
use crate::dialect::StompDialect;
use crate::{Settings, Stomp};

/// A broker that speaks STOMP.
pub(super) struct Scene {
    pub(super) test: TestBroker,
    pub(super) broker: broker::Broker,
    stomp: Stomp,
}

impl Scene {
    /// A broker in memory: everything is durable at once.
    pub(super) fn new() -> Self {
        Self::open(Setup::memory())
    }

    /// A broker whose journal is flushed only when the test does it.
    pub(super) fn stepped() -> Self {
        Self::open(Setup::stepped(&SimDisk::new(1, 64 << 20), 16 << 20))
    }

    /// Such a broker over a disk that a test can cut off.
    pub(super) fn stepped_on(disk: &SimDisk) -> Self {
        Self::open(Setup::stepped(disk, 16 << 20))
    }

    /// The broker after a power cut and a new start.
    pub(super) fn after_cut(self, disk: &SimDisk) -> Self {
        disk.power_cut();
        Self::open(self.test.abandon())
    }

    /// Such a broker with this limit of memory.
    pub(super) fn stepped_with_memory(memory_limit: u64) -> Self {
        let mut setup = Setup::stepped(&SimDisk::new(1, 1 << 30), 64 << 20);
        setup.settings.memory_limit = memory_limit;
        Self::open(setup)
    }

    /// A broker in memory that may hold this many bytes of messages.
    pub(super) fn with_memory(memory_limit: u64) -> Self {
        let mut setup = Setup::memory();
        setup.settings.memory_limit = memory_limit;
        Self::open(setup)
    }

    fn open(mut setup: Setup) -> Self {
        setup.dialects = Dialects::new(vec![Arc::new(TextDialect), Arc::new(StompDialect)]);
        let test = TestBroker::open(setup);
        test.user("reader", ".*", "^amq[.]gen.*", ".*");
        let broker = test.broker.clone();
        let stomp = Stomp::new(broker.clone(), Settings::default());
        Self { test, broker, stomp }
    }

    /// The same broker with other settings of the protocol.
    pub(super) fn with_settings(mut self, settings: Settings) -> Self {
        self.stomp = Stomp::new(self.broker.clone(), settings);
        self
    }

    /// A client of the broker without a protocol.
    pub(super) fn client(&self) -> broker::Client {
        self.test.attach("guest", Waker::noop().clone()).unwrap()
    }

    /// A connection that has sent nothing.
    pub(super) fn accept(&self) -> Peer {
        let driver = Driver::accept(&self.stomp, self.test.now());
        Peer { driver, decoder: Decoder::default(), session: String::new() }
    }

    /// A connection of `guest` that speaks this version.
    pub(super) fn connect(&self, version: &str) -> Peer {
        self.connect_as("guest", version)
    }

    pub(super) fn connect_as(&self, user: &str, version: &str) -> Peer {
        self.connect_with(user, version, "")
    }

    /// A connection of `guest` with this `client-id` in CONNECT.
    pub(super) fn connect_client(&self, client: &str, version: &str) -> Peer {
        self.connect_with("guest", version, &format!("client-id:{client}\n"))
    }

    fn connect_with(&self, user: &str, version: &str, headers: &str) -> Peer {
        let mut peer = self.accept();
        let accept = if version == "1.0" { String::new() } else { format!("accept-version:{version}\n") };
        peer.say(&format!("CONNECT\n{accept}host:/\n{headers}login:{user}\npasscode:{user}\n\n\0"));
        let heard = peer.wait_for_frames();
        assert!(heard[0].starts_with("CONNECTED"), "{heard:?}");
        let session = heard[0].lines().find_map(|line| line.strip_prefix("session:"));
        peer.session = session.unwrap().to_owned();
        peer.decoder.set_version(Version::parse(version).unwrap());
        peer
    }
}

/// The other end of a connection.
pub(super) struct Peer {
    pub(super) driver: Driver,
    decoder: Decoder,
    session: String,
}

impl Peer {
    /// Sends a text; `S-` in it stands for the name of the session.
    pub(super) fn say(&mut self, text: &str) {
        self.driver.say(text.replace("S-", &format!("{}-", self.session)).as_bytes());
    }

    pub(super) fn run(&mut self) {
        self.driver.run();
    }

    /// The frames that have arrived since the last call, as text; `S` stands for the name of the
    /// session.
    pub(super) fn heard(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        let bytes = std::mem::take(&mut self.driver.output);
        let mut at = 0;
        loop {
            let decoded = self.decoder.decode(&bytes[at..]).unwrap();
            at += decoded.consumed;
            let Some(frame) = decoded.frame else { break };
            let mut text = frame.command.as_str().to_owned();
            for (name, value) in frame.headers.iter().filter(|(name, _)| name != "content-length") {
                text.push_str(&format!("\n{name}:{value}"));
            }
            let body = frame.body.as_slice();
            if body.len() > 200 {
                text.push_str(&format!("\n\n{} bytes", body.len()));
            } else if !body.is_empty() {
                text.push_str(&format!("\n\n{}", String::from_utf8_lossy(body)));
            }
            frames.push(if self.session.is_empty() { text } else { text.replace(&self.session, "S") });
        }
        self.driver.output = bytes[at..].to_vec();
        frames
    }

    /// Waits for another thread until a frame arrives.
    pub(super) fn wait_for_frames(&mut self) -> Vec<String> {
        loop {
            self.run();
            let heard = self.heard();
            if !heard.is_empty() {
                return heard;
            }
            self.driver.wait();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.driver.pass(time);
    }

    pub(super) fn raw(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.driver.output)).unwrap()
    }

    pub(super) fn state(&self) -> ReadState {
        self.driver.state()
    }
}
