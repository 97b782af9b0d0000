//! The shovels of this broker: started when they are set, and ended when they are cleared.
//!
//! They run on a thread of their own, so the data path never waits for them. An end in this broker
//! is a connection like any other: a pair of sockets on loopback, of which `net` serves one. Its
//! user is the one that set the shovel, by EXTERNAL, and needs no password. That way in is open to
//! these pairs alone.

mod translate;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use auth::User;
use auth::sasl::Mechanism;
use broker::{Broker, ShovelReport};
use management::ShovelStatus;
use net::Net;
use parking_lot::Mutex;
use shovel::{About, Dial, Dialing, Ended, Job, Network, Order, Reach, Status, Stream, Uri};
use tokio::sync::{Notify, watch};
use wire::Protocol;

use crate::config::Settings;
use crate::protocols::SERVED;
use translate::Dialects;

/// A shovel whose user can't be used any more, or whose vhost is gone, is looked at this often.
const ROUND: Duration = Duration::from_secs(5);
/// How long shovels have to end when the server stops.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tags of users whose shovels may run.
const TAGS: [&str; 2] = ["administrator", "policymaker"];

/// Everything that shovels need of the program.
pub(crate) struct Shovels {
    broker: Broker,
    near: Near,
    running: Mutex<HashMap<Place, Running>>,
    notify: Arc<Woken>,
    stopping: AtomicBool,
}

/// Makes a connection to this broker that has this user logged in.
type Near = Arc<dyn Fn(&str) -> io::Result<TcpStream> + Send + Sync>;

/// Vhost and name.
type Place = (String, String);

/// A shovel while it runs.
struct Running {
    report: ShovelReport,
    order: watch::Sender<Order>,
    status: Arc<Status>,
    task: tokio::task::JoinHandle<Ended>,
}

/// Wakes the thread.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// The thread of shovels.
pub(crate) struct Thread {
    shovels: Arc<Shovels>,
    thread: JoinHandle<()>,
}

impl Thread {
    /// Starts the shovels that are set, and watches for others.
    pub(crate) fn start(broker: &Broker, settings: &Settings, net: &Net) -> io::Result<Self> {
        let shovels = Arc::new(Shovels {
            broker: broker.clone(),
            near: near(broker, settings, net),
            running: Mutex::default(),
            notify: Arc::default(),
            stopping: AtomicBool::new(false),
        });
        broker.watch_shovels(Waker::from(shovels.notify.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let there = shovels.clone();
        let thread = std::thread::Builder::new().name("hermod-shovels".to_owned()).spawn(move || {
            runtime.block_on(there.watch());
            runtime.shutdown_background();
        })?;
        Ok(Self { shovels, thread })
    }

    /// What shows how they are doing.
    pub(crate) fn states(&self) -> impl Fn() -> Vec<ShovelStatus> + Send + Sync + 'static {
        let shovels = self.shovels.clone();
        move || {
            let running = shovels.running.lock();
            let status = |((vhost, name), running): (&Place, &Running)| ShovelStatus {
                vhost: vhost.clone(),
                name: name.clone(),
                figures: running.status.figures(),
            };
            running.iter().map(status).collect()
        }
    }

    /// Ends all of them. What is on its way arrives, or is at its source again.
    pub(crate) fn stop(self) {
        self.shovels.stopping.store(true, Ordering::Release);
        self.shovels.notify.wake_by_ref();
        if self.thread.join().is_err() {
            tracing::error!("the thread of shovels had panicked");
        }
    }
}

impl Shovels {
    async fn watch(self: Arc<Self>) {
        while !self.stopping.load(Ordering::Acquire) {
            let is_idle = self.reconcile().await;
            match is_idle {
                true => self.notify.0.notified().await,
                // An elapsed time is the reason for another round.
                false => drop(tokio::time::timeout(ROUND, self.notify.0.notified()).await),
            }
        }
        let all: Vec<_> = self.running.lock().drain().collect();
        for (_, running) in &all {
            running.order.send_replace(Order::End);
        }
        let ends = async {
            for (_, running) in all {
                let _ = running.task.await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, ends).await;
    }

    /// Starts those that are new, and ends those that are gone or changed. True if there are none.
    async fn reconcile(self: &Arc<Self>) -> bool {
        let wanted: HashMap<Place, ShovelReport> = self
            .broker
            .shovels()
            .into_iter()
            .map(|shovel| ((shovel.vhost.clone(), shovel.name.clone()), shovel))
            .collect();
        let stale: Vec<_> = {
            let mut running = self.running.lock();
            let is_stale = |place: &Place, one: &Running| wanted.get(place) != Some(&one.report);
            let places: Vec<_> =
                running.iter().filter(|(place, one)| is_stale(place, one)).map(|(place, _)| place.clone()).collect();
            places.iter().filter_map(|place| running.remove(place)).collect()
        };
        for running in stale {
            running.order.send_replace(Order::End);
            tracing::info!(
                vhost = running.report.vhost,
                shovel = running.report.name,
                "shovel ends: it was cleared or changed"
            );
            // The next one of this name must not begin while it has messages on their way. The wait
            // is bounded where the shovel is.
            let _ = running.task.await;
        }
        let mut running = self.running.lock();
        for (place, report) in wanted {
            running.entry(place).or_insert_with(|| self.start(report));
        }
        running.is_empty()
    }

    fn start(self: &Arc<Self>, report: ShovelReport) -> Running {
        let (order, told) = watch::channel(Order::Go);
        let status = Arc::<Status>::default();
        let task = tokio::spawn(self.clone().carry_out(report.clone(), status.clone(), told));
        Running { report, order, status, task }
    }

    /// Carries a shovel out to its end. One that has moved all that it should is cleared.
    async fn carry_out(
        self: Arc<Self>,
        report: ShovelReport,
        status: Arc<Status>,
        order: watch::Receiver<Order>,
    ) -> Ended {
        let ShovelReport { vhost, name, spec } = &report;
        let cluster = self.broker.cluster_name();
        let about = About { vhost, name, cluster: &cluster };
        let fields = serde_json::from_str(&spec.definition).unwrap_or_default();
        let spec = match shovel::parse(&fields, about) {
            Ok(spec) => spec,
            Err(faults) => {
                let why = faults.join("; ");
                tracing::error!(vhost, shovel = name, "the shovel can't be read: {why}");
                return Ended::Failed(why);
            }
        };
        tracing::info!(vhost, shovel = name, "shovel starts");
        let near = self.near.clone();
        let dial = Arc::new(Way {
            broker: self.broker.clone(),
            author: report.spec.author.clone(),
            vhost: vhost.clone(),
            near,
        });
        let ended = shovel::run(Job { spec, dial, translate: Arc::new(Dialects), status }, order).await;
        match &ended {
            Ended::Told => {}
            Ended::Complete => {
                tracing::info!(vhost, shovel = name, "shovel has moved all that it should, and is cleared");
                if let Err(error) = self.broker.clear_shovel(vhost, name) {
                    tracing::warn!(vhost, shovel = name, %error, "the shovel is not cleared");
                }
            }
            Ended::Failed(why) => tracing::error!(vhost, shovel = name, why, "shovel ended, and does not try again"),
        }
        ended
    }
}

/// How the shovels of one user reach brokers.
struct Way {
    broker: Broker,
    /// `None` for the operator.
    author: Option<String>,
    vhost: String,
    near: Near,
}

impl Dial for Way {
    fn dial<'a>(&'a self, to: &'a Uri) -> Dialing<'a> {
        Box::pin(async move {
            let reach = self.reach()?;
            if !to.is_local() {
                return Network { reach }.dial(to).await;
            }
            let user = self.user()?;
            let socket = (self.near)(&user).and_then(|socket| {
                socket.set_nonblocking(true)?;
                tokio::net::TcpStream::from_std(socket)
            });
            let socket = socket.map_err(|error| format!("this broker can't be reached: {error}"))?;
            Ok(Box::new(socket) as Box<dyn Stream>)
        })
    }
}

impl Way {
    /// What the author's shovels may connect to now.
    fn reach(&self) -> Result<Reach, String> {
        if !self.broker.has_vhost(&self.vhost) {
            return Err(format!("vhost '{}' is gone", self.vhost));
        }
        let Some(author) = &self.author else { return Ok(Reach::Anywhere) };
        let user = self.broker.authority().user(author);
        let user =
            user.ok_or_else(|| format!("its user '{author}' is not a user of this broker: set the shovel as one"))?;
        if !TAGS.iter().any(|tag| user.tags.has(tag)) {
            return Err(format!("its user '{author}' has lost the tag {}", TAGS.join(" or ")));
        }
        Ok(if user.tags.has(TAGS[0]) { Reach::Anywhere } else { Reach::Remote })
    }

    /// The user that an end in this broker logs in as. The operator is no user: the first
    /// administrator that may enter the vhost stands in.
    fn user(&self) -> Result<String, String> {
        if let Some(author) = &self.author {
            return Ok(author.clone());
        }
        let users = self.broker.authority().users();
        let may = |user: &&User| user.tags.has(TAGS[0]) && user.permissions.contains_key(self.vhost.as_str());
        let found = users.iter().find(may).map(|user| user.name.to_string());
        found.ok_or_else(|| {
            format!("it logs in here as an administrator, and none has permissions in vhost '{}': set some", self.vhost)
        })
    }
}

/// What makes a connection to this broker that has this user logged in.
fn near(broker: &Broker, settings: &Settings, net: &Net) -> Near {
    let mut inside = settings.clone();
    inside.users.mechanisms = vec![Mechanism::External];
    let by_amqp =
        SERVED.iter().zip(&settings.protocols).filter(|(row, _)| ["amqp", "amqp10"].contains(&row.names.name));
    let protocols: Vec<Arc<dyn Protocol>> = by_amqp.map(|(_, own)| own.make(broker, &inside)).collect();
    let adopt = net.adopting(&protocols);
    Arc::new(move |user| {
        let (ours, theirs) = pair()?;
        adopt(theirs, user)?;
        Ok(ours)
    })
}

/// Two sockets that are connected to each other. There is no such call for TCP, so they meet at a
/// port that closes at once; a stranger that comes between is turned away.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (from, to) = (ours.local_addr()?, ours.peer_addr()?);
    loop {
        let (theirs, remote) = listener.accept()?;
        if remote == from && theirs.local_addr()? == to {
            ours.set_nodelay(true)?;
            theirs.set_nodelay(true)?;
            return Ok((ours, theirs));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn the_two_sockets_of_a_pair_reach_each_other() {
        let (mut one, mut other) = pair().unwrap();
        one.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        other.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ping");
        assert_eq!(
            (one.local_addr().unwrap(), one.peer_addr().unwrap()),
            (other.peer_addr().unwrap(), other.local_addr().unwrap())
        );
    }
}
