//! Random changes of the catalog: a broker that is opened again has the declarations, definitions,
//! users and rights that the live one had. `BROKER_SEED=n` replays one seed, `n..m` many.

use std::task::Waker;

use auth::{Identity, Permission, TopicPermission, User};
use broker::{
    ApplyTo, BindingSpec, Client, DeleteIf, DestinationName, ExchangeSpec, PolicyKind, PolicySpec, QueueSpec,
    RetainedWanted, Sharing, SubscriptionFilter, SubscriptionName, SubscriptionSpec, Switch, VhostLimits, VhostSpec,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::sim_disk::{Fault, Random, SimDisk};

use crate::seeds;

const VHOSTS: [&str; 3] = ["/", "v", "w"];
const QUEUES: [&str; 4] = ["q", "r", "quorum", "s"];
const EXCHANGES: [&str; 5] = ["x", "y", "z", "amq.topic", "amq.headers"];
const KINDS: [&str; 4] = ["fanout", "topic", "headers", "x-message-deduplication"];
const USERS: [&str; 2] = ["alice", "bob"];
const KEYS: [&str; 3] = ["", "a.b", "#"];
const ARGUMENTS: [&str; 4] = ["", "b=2 a=1", "x-match=any c=true", "a=1 b=2"];
const STEPS: u64 = 120;

struct World {
    random: Random,
    disk: SimDisk,
    broker: TestBroker,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut setup = Setup::stepped(&disk, 4 << 20);
        setup.journal.file_bytes = 128 << 10;
        let broker = TestBroker::open(setup);
        broker.flush();
        Self { random: Random::new(seed), disk, broker }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize]
    }

    /// Loses power, and opens it again.
    fn reopen(self) -> Self {
        let Self { random, disk, broker } = self;
        disk.power_cut();
        let broker = TestBroker::open(broker.abandon());
        Self { random, disk, broker }
    }

    /// One change. A refusal is as good as any other answer.
    fn change(&mut self) {
        let vhost = self.one_of(&VHOSTS);
        if self.random.chance(30) {
            self.administer(vhost);
            return;
        }
        let operator = Identity::operator("test");
        let Ok(mut client) = self.broker.broker.attach_unlisted(operator, vhost, "test", Waker::noop().clone()) else {
            let _ = self.broker.broker.put_vhost(vhost, &VhostSpec::default());
            return;
        };
        self.declare(&mut client);
        client.close(self.broker.now());
    }

    fn declare(&mut self, client: &mut Client) {
        let now = self.broker.now();
        match self.random.below(13) {
            10..12 => drop(client.subscribe(&self.subscription(), now)),
            12 => drop(client.unsubscribe(&self.subscription().name, self.one_of(&QUEUES), now)),
            0..3 => drop(client.declare_queue(&self.queue(), now)),
            3..5 => drop(client.declare_exchange(&self.exchange(), now)),
            5..7 => drop(client.bind(&self.binding(), now)),
            7 => drop(client.unbind(&self.binding(), now)),
            8 => drop(client.delete_queue(self.one_of(&QUEUES), DeleteIf::ALWAYS, now)),
            _ => drop(client.delete_exchange(self.one_of(&EXCHANGES), DeleteIf::ALWAYS, now)),
        }
    }

    fn queue(&mut self) -> QueueSpec {
        let name = self.one_of(&QUEUES);
        let arguments = if name == "quorum" { "x-queue-type=quorum" } else { "x-max-length=9 x-message-ttl=500" };
        let (durable, auto_delete) = (name == "quorum" || self.random.chance(80), false);
        QueueSpec { name: name.to_owned(), durable, exclusive: false, auto_delete, arguments: table_of(arguments) }
    }

    /// Of a queue that is declared otherwise, too, or of one of its own.
    fn subscription(&mut self) -> SubscriptionSpec {
        let client = self.one_of(&[None, Some("one"), Some("two")]).map(str::to_owned);
        let name = SubscriptionName { client, name: self.one_of(&["news", "prices"]).to_owned() };
        let (own, arguments) = (format!("{:?}.{}", name.client, name.name), self.one_of(&ARGUMENTS));
        let queue = match self.random.chance(70) {
            true => QueueSpec { name: own, durable: self.random.chance(80), ..QueueSpec::default() },
            false => self.queue(),
        };
        let filters = (0..self.random.below(3)).map(|_| SubscriptionFilter {
            exchange: self.one_of(&EXCHANGES).to_owned(),
            key: self.one_of(&KEYS).to_owned(),
            arguments: table_of(arguments),
        });
        let filters = filters.collect();
        let sharing = self.one_of(&[Sharing::Exclusive, Sharing::Shared]);
        let retained = RetainedWanted::None;
        SubscriptionSpec {
            name,
            sharing,
            selector: self.one_of(&["", "a = 1"]).to_owned(),
            expires: None,
            filters,
            retained,
            queue,
        }
    }

    fn exchange(&mut self) -> ExchangeSpec {
        let kind = self.one_of(&KINDS);
        let arguments = if kind == "x-message-deduplication" { "x-cache-size=10" } else { "alternate-exchange=y" };
        ExchangeSpec {
            name: self.one_of(&EXCHANGES[..3]).to_owned(),
            kind: kind.to_owned(),
            durable: self.random.chance(80),
            auto_delete: self.random.chance(30),
            internal: self.random.chance(20),
            arguments: table_of(arguments),
        }
    }

    fn binding(&mut self) -> BindingSpec {
        let destination = match self.random.chance(70) {
            true => DestinationName::Queue(self.one_of(&QUEUES).to_owned()),
            false => DestinationName::Exchange(self.one_of(&EXCHANGES).to_owned()),
        };
        BindingSpec {
            source: self.one_of(&EXCHANGES).to_owned(),
            destination,
            key: self.one_of(&KEYS).to_owned(),
            arguments: table_of(self.one_of(&ARGUMENTS)),
        }
    }

    fn administer(&mut self, vhost: &str) {
        let kind = self.one_of(&[PolicyKind::User, PolicyKind::Operator]);
        let (name, user) = (self.one_of(&["one", "two"]), self.one_of(&USERS));
        let broker = self.broker.broker.clone();
        match self.random.below(10) {
            0..3 => {
                let policy = self.policy();
                drop(broker.set_policy(vhost, kind, name, policy, &Identity::operator("test")));
            }
            3 => drop(broker.clear_policy(vhost, kind, name)),
            4 => {
                let queues = self.one_of(&[None, Some(3), Some(9)]);
                drop(broker.limit_vhost(vhost, VhostLimits { queues, connections: Some(7) }));
            }
            5 => {
                let spec = VhostSpec { description: name.to_owned(), ..VhostSpec::default() };
                drop(broker.put_vhost(vhost, &spec));
            }
            6 if vhost != "/" && self.random.chance(50) => drop(broker.delete_vhost(vhost)),
            7 if self.random.chance(50) => drop(broker.delete_user(user)),
            8 => {
                // The exchange of the copies stays.
                drop(broker.trace(vhost, Switch::On));
                drop(broker.trace(vhost, Switch::Off));
            }
            _ => {
                drop(broker.add_user(User::new(user, None)));
                let narrow = self.random.chance(50);
                drop(broker.change_user(user, |user| {
                    if broker.has_vhost(vhost) {
                        user.permissions.insert(vhost.into(), Permission::full());
                    }
                    if narrow && broker.has_vhost(vhost) {
                        let topic = TopicPermission::new("u", "topic", "", "").unwrap();
                        user.topic_permissions.insert((vhost.into(), "amq.topic".into()), topic);
                    }
                    Ok(())
                }));
            }
        }
    }

    fn policy(&mut self) -> PolicySpec {
        let definition =
            self.one_of(&["max-length=5", "message-ttl=100", "alternate-exchange=z", "overflow=drop-head"]);
        let pattern = self.one_of(&["", "^q", "^x"]).to_owned();
        let apply_to = self.one_of(&[ApplyTo::All, ApplyTo::Queues, ApplyTo::Exchanges]);
        PolicySpec { pattern, apply_to, priority: self.random.below(3) as i64, definition: table_of(definition) }
    }

    /// Fills the log, so that its oldest files leave and what they say is said again.
    fn turn_the_log(&self) {
        let oldest = || self.broker.broker.overview().journal.oldest_file;
        let (spec, before) = (VhostSpec { description: "x".repeat(60_000), ..VhostSpec::default() }, oldest());
        for _ in 0..80 {
            self.broker.broker.put_vhost("/", &spec).unwrap();
            self.broker.flush();
            self.broker.background(10);
        }
        self.broker.broker.put_vhost("/", &VhostSpec::default()).unwrap();
        assert!(oldest() > before, "no file has left");
    }

    /// All that a restart keeps, a line for each.
    fn kept(&self) -> Vec<String> {
        let broker = &self.broker.broker;
        let mut lines: Vec<_> = broker.vhosts().iter().map(|vhost| format!("{vhost:?}")).collect();
        for kind in [PolicyKind::User, PolicyKind::Operator] {
            lines.extend(broker.policies(kind).iter().map(|policy| format!("{} {policy:?}", kind.name())));
        }
        let exchanges: Vec<_> = broker.exchanges().into_iter().filter(|exchange| exchange.durable).collect();
        let queues: Vec<_> = broker.queues().into_iter().filter(|queue| queue.declared.durable).collect();
        lines.extend(queues.iter().map(|queue| {
            let effect = (&queue.policies.user, &queue.policies.operator, &queue.policies.definition);
            let (declared, subscription) = (&queue.declared, &queue.declared.subscription);
            let (kind, arguments) = (declared.kind, &declared.arguments);
            format!("{} {} {kind} {arguments:?} {effect:?} {subscription:?}", queue.vhost, queue.name)
        }));
        for binding in broker.bindings() {
            let lasting = |name: &str| exchanges.iter().any(|one| one.vhost == binding.vhost && one.name == name);
            let mut names = queues.iter().filter(|queue| queue.vhost == binding.vhost).map(|queue| &queue.name);
            let leads_to = match binding.to_queue {
                true => names.any(|name| *name == binding.destination),
                false => lasting(&binding.destination),
            };
            if lasting(&binding.source) && leads_to {
                let mut arguments = binding.arguments.clone();
                arguments.0.sort_by(|(one, _), (other, _)| one.cmp(other));
                let (vhost, source, key) = (&binding.vhost, &binding.source, &binding.key);
                lines.push(format!(
                    "{vhost} {source} -> {} {} {key} {arguments:?}",
                    binding.to_queue, binding.destination
                ));
            }
        }
        lines.extend(exchanges.iter().map(|exchange| format!("{exchange:?}")));
        lines.extend(
            broker.authority().users().iter().filter(|user| &*user.name != "guest").map(|user| format!("{user:?}")),
        );
        lines.push(format!("{} bytes are logged", broker.overview().memory.logged));
        lines.sort();
        lines
    }
}

#[test]
fn the_log_gives_back_the_catalog_of_the_live_broker() {
    for seed in seeds(0..40) {
        let mut world = World::new(seed);
        for _ in 0..3 {
            for _ in 0..STEPS / 3 {
                world.change();
                if world.random.chance(20) {
                    world.broker.flush();
                    world.broker.background(2);
                }
            }
            if world.random.chance(30) {
                world.turn_the_log();
            }
            world.broker.flush();
            let live = world.kept();
            world = world.reopen();
            assert_eq!(world.kept(), live, "seed {seed}");
        }
    }
}

/// A change counts after a power cut in the middle of its flush, or it does not: nothing of it is
/// there alone.
#[test]
fn a_power_cut_leaves_a_change_or_nothing_of_it() {
    for seed in seeds(0..40) {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            let before = world.kept();
            world.change();
            if world.random.chance(70) {
                world.broker.flush();
                continue;
            }
            let after = world.kept();
            let operation = world.random.below(4);
            world.disk.fault(operation, Fault::Crash);
            world.broker.try_flush();
            world = world.reopen();
            let found = world.kept();
            assert!(found == before || found == after, "seed {seed}: {found:#?} is neither {before:#?} nor {after:#?}");
        }
    }
}
