//! Real sockets: who is let in, who is not, and what a stranger can do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::Broker;
use journal::{Awaited, FeedError, LogEnd, LogId, Waiting};
use nodes::{
    Awaiting, Begins, Came, Confirming, Confirms, Credentials, Doing, Event, FORMAT, FollowerStatus, Hello, Identity,
    Link, Listener, NodeId, Receiver, Refusal, Replaced, Serving, Token, Waits, connect, join, longest_sent, tell,
};
use parking_lot::Mutex;
use testkit::broker::{Setup, TestBroker};

/// A node that serves, over a real directory.
struct Leader {
    folder: tempfile::TempDir,
    broker: TestBroker,
    listener: Option<Listener>,
    address: SocketAddr,
    replaced: Arc<Mutex<Vec<Replaced>>>,
    quiet: Arc<AtomicBool>,
}

/// The journal of a broker.
struct JournalOf(Broker);

impl Awaiting for JournalOf {
    fn await_follower(&self, awaited: Awaited) {
        self.0.await_follower(awaited);
    }
    fn waiting(&self) -> Waiting {
        self.0.waiting()
    }
    fn confirm(&self, ends: &[(LogId, u64)]) {
        self.0.confirm(ends);
    }
    fn shared_ends(&self, theirs: &[LogEnd]) -> Result<Vec<(LogId, u64)>, FeedError> {
        self.0.shared_ends(theirs)
    }
}

impl Leader {
    fn start(term: u64) -> Self {
        Self::start_waiting(term, Waits::Never)
    }

    fn start_waiting(term: u64, waits: Waits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::create(folder.path()).unwrap();
        let broker = TestBroker::open(Setup::directory(folder.path(), 8 << 20));
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (replaced, quiet) = (Arc::<Mutex<Vec<Replaced>>>::default(), Arc::new(AtomicBool::new(false)));
        let [feeding, copying, keeping] = [(); 3].map(|()| broker.broker.clone());
        let (told, is_quiet) = (Arc::clone(&replaced), Arc::clone(&quiet));
        let serving = Serving {
            hello: hello(&identity, term, "leader"),
            identity,
            feed: Box::new(move |ends| feeding.feed(ends)),
            backup: Box::new(move |to| copying.backup(to)),
            keep: Box::new(move |most| keeping.keep_log(most)),
            most_kept: 4 << 20,
            confirming: Confirming::begin(waits, Begins::Waiting, Box::new(JournalOf(broker.broker.clone()))),
            replaced: Box::new(move |by| {
                told.lock().push(by);
                Ok(())
            }),
            is_quiet: Box::new(move || is_quiet.load(Ordering::Relaxed)),
        };
        let listener = Some(Listener::start(socket, serving).unwrap());
        Self { folder, broker, listener, address, replaced, quiet }
    }

    fn token(&self, until: u64) -> Token {
        let identity = Identity::load(self.folder.path()).unwrap().unwrap();
        identity.invite(&self.address.to_string(), 1000, until).unwrap()
    }

    /// The one follower, once it does this.
    fn follower(&self, doing: Doing) -> FollowerStatus {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match self.listener.as_ref().unwrap().followers().list().as_slice() {
                [one] if one.doing == doing => return one.clone(),
                other => assert!(Instant::now() < until, "none is {doing:?}: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn refused(&self) -> u64 {
        self.listener.as_ref().unwrap().followers().refused()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.stop();
        }
    }
}

/// Later than the tests run.
const LATER: u64 = 100_000_000_000;

fn hello(identity: &Identity, term: u64, name: &str) -> Hello {
    let (cluster, node) = (identity.cluster, identity.node);
    Hello { format: FORMAT, cluster, node, term, name: name.to_owned(), address: String::new() }
}

fn events(link: &mut Link, receiver: &mut Receiver, until: impl Fn(&Event) -> bool) -> Vec<Event> {
    let (mut found, end) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    while Instant::now() < end {
        link.write(&receiver.take_out()).unwrap();
        match link.read(Duration::from_millis(100)) {
            Ok(Came::Bytes(bytes)) => receiver.receive(&bytes),
            Ok(Came::Nothing) => {}
            Ok(Came::End) | Err(_) => return found,
        }
        while let Some(event) = receiver.next_event().unwrap() {
            let is_last = until(&event);
            found.push(event);
            if is_last {
                return found;
            }
        }
    }
    panic!("nothing more comes: {found:?}")
}

fn greeted(data: &Path, address: &str, hello: &Hello) -> Vec<Event> {
    let identity = Identity::load(data).unwrap().unwrap();
    let mut link = connect(address, &Credentials::of(&identity).unwrap()).unwrap();
    let mut receiver = Receiver::new(hello, 1 << 20, longest_sent(1 << 20));
    events(&mut link, &mut receiver, |event| matches!(event, Event::Greeted(_) | Event::Refused(..)))
}

#[test]
fn a_node_joins_by_a_token_once_and_follows_then() {
    let leader = Leader::start(1);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let token = Token::read(&leader.token(LATER).text()).unwrap();
    let identity = join(&token, one.path()).unwrap();
    let again = join(&token, two.path()).unwrap_err();
    assert!(again.to_string().contains("was used before"), "{again}");
    let old = join(&leader.token(1), two.path()).unwrap_err();
    assert!(old.to_string().contains("has ended"), "{old}");
    assert!(Identity::load(two.path()).unwrap().is_none(), "nothing of it is kept");

    let kept = Identity::load(one.path()).unwrap().unwrap();
    assert_eq!((kept.node, kept.cluster), (identity.node, identity.cluster));
    let mut link = connect(&token.address, &Credentials::of(&kept).unwrap()).unwrap();
    let me = hello(&kept, 0, "follower");
    let mut receiver = Receiver::new(&me, 1 << 20, longest_sent(1 << 20));
    let found = events(&mut link, &mut receiver, |event| matches!(event, Event::Greeted(_)));
    assert!(matches!(&found[..], [Event::Greeted(other)] if other.name == "leader"), "{found:?}");
    receiver.follow(Vec::new());
    let found = events(&mut link, &mut receiver, |event| matches!(event, Event::Entry(_)));
    assert!(!found.is_empty());
    assert_eq!(leader.follower(Doing::Following).node, kept.node);
    // Its connection ends: the log is kept for it until it is back.
    drop(link);
    assert!(leader.follower(Doing::Away).kept_bytes > 0);
    let mut link = connect(&token.address, &Credentials::of(&kept).unwrap()).unwrap();
    let mut receiver = Receiver::new(&me, 1 << 20, longest_sent(1 << 20));
    events(&mut link, &mut receiver, |event| matches!(event, Event::Greeted(_)));
    receiver.follow(Vec::new());
    events(&mut link, &mut receiver, |event| matches!(event, Event::Entry(_)));
    assert_eq!(leader.follower(Doing::Following).node, kept.node);

    // It takes over: the leader says that this was all once it is quiet.
    receiver.ask_to_hand_over();
    leader.quiet.store(true, Ordering::Relaxed);
    let found = events(&mut link, &mut receiver, |event| *event == Event::HandedOver);
    assert_eq!(found.last(), Some(&Event::HandedOver));
    assert_eq!(*leader.replaced.lock(), [Replaced { by: me, planned: true }]);
    assert!(!leader.broker.broker.queues().iter().any(|queue| queue.name.is_empty()));
}

#[test]
fn a_node_that_has_something_else_is_refused_and_confirms_nothing() {
    let leader = Leader::start_waiting(1, Waits::Always);
    let folder = tempfile::tempdir().unwrap();
    let identity = join(&leader.token(LATER), folder.path()).unwrap();
    let (address, credentials) = (leader.address.to_string(), Credentials::of(&identity).unwrap());
    let me = hello(&identity, 0, "follower");
    let begin = |ends: Vec<LogEnd>| {
        let mut link = connect(&address, &credentials).unwrap();
        let mut receiver = Receiver::new(&me, 1 << 20, longest_sent(1 << 20));
        events(&mut link, &mut receiver, |event| matches!(event, Event::Greeted(_)));
        receiver.follow(ends);
        (link, receiver)
    };
    // It takes all there is, and says so.
    let (mut link, mut receiver) = begin(Vec::new());
    let is_whole = |event: &Event| matches!(event, Event::Beat(beat) if beat.entries == 0);
    let found = events(&mut link, &mut receiver, is_whole);
    let of_entry = |event: &Event| if let Event::Entry(entry) = event { Some(entry.end()) } else { None };
    let entries: Vec<_> = found.iter().filter_map(of_entry).collect();
    let last = *entries.iter().rfind(|end| end.log == LogId::SYSTEM).unwrap();
    assert!(leader.broker.broker.waiting().oldest.is_some());
    drop(link);
    // The same index, other records.
    let (mut link, mut receiver) = begin(vec![LogEnd { link: last.link ^ 1, ..last }]);
    let found = events(&mut link, &mut receiver, |event| matches!(event, Event::Refused(..)));
    let words = format!("entry {} of log 0 is another one in the copy than here", last.index);
    assert!(matches!(&found[..], [Event::Refused(Refusal::Apart, why)] if why.contains(&words)), "{found:?}");
    assert!(leader.broker.broker.waiting().oldest.is_some());
    // All of it, as it is here.
    let mut ends: Vec<LogEnd> = Vec::new();
    for end in entries {
        ends.retain(|known| known.log != end.log);
        ends.push(end);
    }
    let (mut link, mut receiver) = begin(ends);
    events(&mut link, &mut receiver, is_whole);
    let until = Instant::now() + Duration::from_secs(20);
    while leader.broker.broker.waiting().oldest.is_some() {
        assert!(Instant::now() < until, "something waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(leader.listener.as_ref().unwrap().followers().confirms().0, Confirms::Replicated);
}

#[test]
fn those_of_another_cluster_and_those_without_a_certificate_learn_nothing() {
    let leader = Leader::start(1);
    let address = leader.address.to_string();
    let stranger = tempfile::tempdir().unwrap();
    let other = Identity::create(stranger.path()).unwrap();
    // Its own authority does not vouch for the leader, so it does not even speak to it.
    let refused = connect(&address, &Credentials::of(&other).unwrap()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("invalid peer certificate"), "{refused}");
    // A token for one authority at the address of another.
    let token = other.invite(&address, 1000, LATER).unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert!(join(&token, folder.path()).unwrap_err().to_string().contains("invalid peer certificate"));
    // Plain bytes.
    let mut plain = TcpStream::connect(leader.address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 32, "an alert at most: {answer:?}");
    assert!(leader.refused() >= 2, "{}", leader.refused());
}

#[test]
fn a_node_can_not_say_that_it_is_another() {
    let leader = Leader::start(1);
    let folder = tempfile::tempdir().unwrap();
    let identity = join(&leader.token(LATER), folder.path()).unwrap();
    let address = leader.address.to_string();
    let me = hello(&identity, 0, "n");
    for (hello, why) in [
        (Hello { node: NodeId([1; 16]), ..me.clone() }, Some(Refusal::Stranger)),
        (Hello { cluster: NodeId([1; 16]), ..me.clone() }, Some(Refusal::Stranger)),
        (Hello { format: 9, ..me.clone() }, Some(Refusal::Stranger)),
        (me, None),
    ] {
        let found = greeted(folder.path(), &address, &hello);
        let refused = match found.as_slice() {
            [Event::Refused(why, words)] if !words.is_empty() => Some(*why),
            [Event::Greeted(_)] => None,
            _ => panic!("{found:?}"),
        };
        assert_eq!(refused, why, "{hello:?}");
    }
}

#[test]
fn a_node_that_is_told_of_a_later_term_is_replaced() {
    let leader = Leader::start(4);
    let folder = tempfile::tempdir().unwrap();
    let identity = join(&leader.token(LATER), folder.path()).unwrap();
    let (address, credentials) = (leader.address.to_string(), Credentials::of(&identity).unwrap());
    assert!(!tell(&address, &credentials, &hello(&identity, 4, "no later term")).unwrap());
    assert!(leader.replaced.lock().is_empty());
    let later = hello(&identity, 5, "the new one");
    assert!(tell(&address, &credentials, &later).unwrap());
    assert_eq!(*leader.replaced.lock(), [Replaced { by: later, planned: false }]);
}

#[test]
fn a_flood_of_strangers_keeps_no_node_out() {
    let leader = Leader::start(1);
    let address = leader.address;
    // They say nothing, and stay.
    let flood: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(20);
    while leader.refused() < 24 {
        assert!(Instant::now() < until, "{} are refused", leader.refused());
        std::thread::sleep(Duration::from_millis(10));
    }
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let identity = join(&leader.token(LATER), folder.path()).unwrap();
    let found = greeted(folder.path(), &address.to_string(), &hello(&identity, 0, "n"));
    assert!(matches!(&found[..], [Event::Greeted(_)]), "{found:?}");
    // The places were taken: none of the flood had the time to go by itself.
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(flood);
}
