package hermod.bench;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionMetaData;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/**
 * One load: its connections, its threads, and what these share. Phases go from running to draining to ended and never
 * back; whoever fails first ends it for all.
 */
final class Load {
    /** How long threads have to stop before they are interrupted, and after that. */
    private static final long STOP_MS = 5_000;
    /** Silence after which a queue that nobody consumed is taken to be empty, and the longest time spent on counting. */
    private static final long EMPTY_MS = 2_000;

    private static final long COUNTING_NS = 120_000_000_000L;

    private enum Phase {
        RUN,
        DRAIN,
        END
    }

    /** A worker and its thread. */
    private record Hand(Worker worker, Thread thread) {}

    final Spec spec;
    final Bodies bodies;
    final Tally tally;
    private final Provider provider;
    private final List<Hand> hands = new ArrayList<>();
    private final Set<Worker> finished = ConcurrentHashMap.newKeySet();
    private final CountDownLatch over = new CountDownLatch(1);
    private final List<Producer> producers = new ArrayList<>();
    private final List<Consumer> consumers = new ArrayList<>();
    private RoundTrips.Near near;
    private Answer.Ready names;
    private volatile Phase phase = Phase.RUN;
    private volatile long from;
    private volatile long until = Long.MAX_VALUE;
    private volatile boolean gate;
    private volatile boolean started;
    private volatile Exception failure;

    /** Opens all connections, consumers first, so that subscriptions exist before anybody publishes. */
    Load(Spec spec) throws Exception {
        this.spec = spec;
        bodies = new Bodies(spec.bodies());
        tally = new Tally(spec.producers() + spec.consumers());
        provider = new Provider(spec);
        if (spec.pingpong()) {
            hire("far-end", new RoundTrips.Far(this));
            near = new RoundTrips.Near(this);
            hire("near-end", near);
            return;
        }
        for (int id = 0; id < spec.consumers(); id++) {
            Consumer consumer = new Consumer(this, id);
            consumers.add(consumer);
            hire("consumer-" + id, consumer);
        }
        for (int queue = 0; queue < spec.queues() && spec.bystander(); queue++) {
            hire("bystander-" + queue, new Bystander(this, queue));
        }
        for (int id = 0; id < spec.producers() && spec.produce(); id++) {
            Producer producer = new Producer(this, id);
            producers.add(producer);
            hire("producer-" + id, producer);
        }
    }

    private void hire(String name, Worker worker) {
        Thread thread = new Thread(() -> work(name, worker), name);
        thread.setDaemon(true);
        hands.add(new Hand(worker, thread));
    }

    private void work(String name, Worker worker) {
        try {
            worker.run();
        } catch (Lacks lacks) {
            fail(lacks);
        } catch (Exception | LinkageError problem) {
            fail(new IllegalStateException(name + ": " + problem, problem));
        }
        finished.add(worker);
        try {
            // The time that it took of a core can be read as long as it lives.
            over.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends the load for all; the first failure is the one that is told. */
    private synchronized void fail(Exception problem) {
        // What breaks while connections are being closed is nobody's fault.
        if (phase != Phase.END) {
            failure = problem;
            phase = Phase.END;
            over.countDown();
        }
    }

    void start() {
        hands.forEach(hand -> hand.thread().start());
        started = true;
    }

    /** A connection that is not started; it ends the load when it breaks. */
    Connection connect(String clientId) throws JMSException {
        Connection connection = provider.connect();
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.setExceptionListener(problem -> fail(new IllegalStateException("a connection broke: " + problem, problem)));
        if (names == null) {
            ConnectionMetaData said = connection.getMetaData();
            names = new Answer.Ready(said.getJMSProviderName() + " " + said.getProviderVersion(), said.getJMSVersion());
        }
        return connection;
    }

    /** A session that acknowledges as this load is to. */
    Session session(Connection connection) throws JMSException {
        // Numbers that are not of JMS 1.1 have their place in JMS 2.0, and clients without that have none.
        boolean own = spec.ack() > Session.DUPS_OK_ACKNOWLEDGE;
        return own ? connection.createSession(spec.ack()) : connection.createSession(false, spec.ack());
    }

    Answer.Ready names() {
        return names;
    }

    /** The queue with this number, or the topic that all of them subscribe to. */
    Destination destination(Session session, int queue) throws JMSException {
        if (spec.topic()) {
            return session.createTopic(spec.name() + ".t");
        }
        return session.createQueue(spec.queueName() == null ? spec.name() + "." + queue : spec.queueName());
    }

    /** Where consumers reply to the producer {@code id}. */
    Destination replyQueue(Session session, int id) throws JMSException {
        return session.createQueue(spec.name() + ".reply." + id);
    }

    /** The message with this number, and with what selectors look at where there is one. */
    BytesMessage message(Session session, byte[] body, long number) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(body, 0, bodies.length(number));
        if (spec.selects() > 0) {
            message.setStringProperty("kind", spec.kind(number));
        }
        return message;
    }

    boolean running() {
        return phase == Phase.RUN;
    }

    boolean ended() {
        return phase == Phase.END;
    }

    /** What ended the load before its time, or null. */
    Exception failure() {
        return failure;
    }

    /** True when a message with this intended time counts. */
    boolean measures(long intended) {
        long begin = from;
        return begin != 0 && intended >= begin && intended < until;
    }

    /** True when producers may go on to the measured messages. */
    boolean gateIsOpen() {
        return gate;
    }

    void steer(Command told) {
        from = told.from();
        until = told.until();
        gate = told.gate();
        synchronized (this) {
            if (told.drain() && phase == Phase.RUN) {
                phase = Phase.DRAIN;
            }
        }
    }

    /** How many messages may be sent now before the in-flight bound is reached. */
    long room() {
        if (spec.inFlight() == 0 || spec.copies() == 0) {
            return Long.MAX_VALUE;
        }
        long underWay = tally.sent() - tally.received() * Math.max(1, spec.selects()) / spec.copies();
        return Math.max(0, spec.inFlight() - underWay);
    }

    /** True when nobody has anything left to send or to be confirmed; whoever has not begun has all of it left. */
    boolean sent() {
        return started && hands.stream()
                .filter(hand -> hand.worker() instanceof Producer || hand.worker() == near)
                .allMatch(hand -> finished.contains(hand.worker()));
    }

    /** True when all that was sent has been received by all who should. */
    boolean received() {
        long expected = 0;
        for (long sent : tally.sentBy(spec.producers())) {
            expected += sent / Math.max(1, spec.selects()) * spec.copies();
        }
        return tally.received() >= expected;
    }

    Answer.Sample sample() {
        boolean sent = sent();
        long collected = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            collected += Math.max(0, collector.getCollectionTime());
        }
        // Counters and time last and together: a rate is their quotient.
        // Where nobody produces here, the coordinator knows what an earlier load sent.
        long[] by = tally.sentBy(spec.produce() ? spec.producers() : 0);
        long moved = tally.moved();
        return new Answer.Sample(
                System.nanoTime(), by, tally.confirmed(), tally.refused(), tally.received(), moved, sent, collected);
    }

    /** Stops all threads, gives the connections back, and says what was seen. */
    Answer.Result end() throws Exception {
        synchronized (this) {
            phase = Phase.END;
        }
        over.countDown();
        for (Hand hand : hands) {
            hand.thread().join(STOP_MS);
            if (hand.thread().isAlive()) {
                hand.thread().interrupt();
                hand.thread().join(STOP_MS);
            }
            if (hand.thread().isAlive()) {
                throw new IllegalStateException(hand.thread().getName() + " did not stop: its client still waits for the broker");
            }
        }
        if (failure != null) {
            throw failure;
        }
        for (Hand hand : hands) {
            hand.worker().close();
        }
        boolean nobody = spec.consumers() == 0 && !spec.pingpong() && !spec.topic() && !spec.keep();
        boolean left = spec.consumers() > 0 && spec.selects() > 1 && !spec.topic();
        Long held = nobody || left ? takeAway() : null;
        return new Answer.Result(
                producers.stream().map(Producer::answer).toArray(Answer.Produced[]::new),
                near != null
                        ? new Answer.Consumed[] {near.answer()}
                        : consumers.stream().map(Consumer::answer).toArray(Answer.Consumed[]::new),
                nobody ? held : null);
    }

    /**
     * Takes away what nobody consumed, and counts it: where there were no consumers, as many as were confirmed, or more, mean
     * that none was lost. Null when that takes too long.
     */
    private Long takeAway() throws JMSException {
        long begin = System.nanoTime();
        long count = 0;
        try (Connection connection = provider.connect()) {
            connection.start();
            for (int queue = 0; queue < spec.queues(); queue++) {
                Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
                MessageConsumer consumer = session.createConsumer(destination(session, queue));
                while (consumer.receive(EMPTY_MS) != null) {
                    count++;
                    if (System.nanoTime() - begin > COUNTING_NS) {
                        return null;
                    }
                }
                session.close();
            }
        }
        return count;
    }
}
