package hermod.bench;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** One producer: fills its window or follows its schedule, and takes confirms. */
final class Producer implements Worker {
    /** Longest wait without looking at the phase of the load. */
    private static final long GLANCE_MS = 50;
    /** How long to wait for consumers when the in-flight bound is reached, and for the measured time to begin. */
    private static final long BOUND_PAUSE_NS = 100_000;
    /** Most messages sent between two looks at the in-flight bound. */
    private static final long LOOK_EVERY = 64;

    private final Load load;
    private final Spec spec;
    private final int id;
    private final Connection connection;
    private final Session session;
    /** One for each queue that it sends to; the message with number n goes to the one at n modulo their number. */
    private final MessageProducer[] producers;
    /** How each of them sends without waiting; empty where it waits. */
    private final AsyncSend[] asyncSends;
    /** Where replies come; null: none do. */
    private final MessageConsumer replies;
    private final Semaphore window;
    private final byte[] body;

    private final Samples lateness = new Samples();
    /** Since when nothing holds it back but itself: neither a full window nor the client's own sending. */
    private long freeSince = System.nanoTime();

    private long sent;
    /** What the broker took, guarded by its own lock: a provider's thread may write it. */
    private final Confirms confirms = new Confirms();

    Producer(Load load, int id) throws Exception {
        this.load = load;
        this.id = id;
        spec = load.spec;
        connection = load.connect(null);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        producers = new MessageProducer[spec.lanes()];
        asyncSends = new AsyncSend[spec.window() > 1 ? producers.length : 0];
        for (int lane = 0; lane < producers.length; lane++) {
            producers[lane] = open(spec.spread() ? lane : id % spec.queues());
            if (asyncSends.length > 0) {
                asyncSends[lane] = AsyncSend.of(producers[lane]);
            }
        }
        replies = spec.repliesTo(id) > 0 ? session.createConsumer(load.replyQueue(session, id)) : null;
        window = new Semaphore(Math.max(1, spec.window()));
        body = load.bodies.blank();
        connection.start();
    }

    private MessageProducer open(int queue) throws JMSException {
        MessageProducer producer = session.createProducer(load.destination(session, queue));
        producer.setDeliveryMode(spec.persistent() ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        if (spec.priority() >= 0) {
            producer.setPriority(spec.priority());
        }
        return producer;
    }

    /** Produces until its quota is sent or the load drains, and then until all is confirmed and answered. */
    @Override
    public void run() throws Exception {
        Schedule schedule = spec.rate() > 0 ? new Schedule(spec, id, System.nanoTime()) : null;
        long quota = spec.quotas()[id];
        long room = 0;
        boolean held = false;
        while (load.running() && sent < quota) {
            if (schedule != null) {
                if (!await(schedule.next())) {
                    break;
                }
            } else if (room == 0) {
                room = Math.min(load.room(), LOOK_EVERY);
                if (room == 0) {
                    LockSupport.parkNanos(BOUND_PAUSE_NS);
                    continue;
                }
            }
            if (sent >= spec.warmups()[id] && !load.gateIsOpen()) {
                LockSupport.parkNanos(BOUND_PAUSE_NS);
                continue;
            }
            if (!window.tryAcquire()) {
                held = true;
                if (!window.tryAcquire(GLANCE_MS, TimeUnit.MILLISECONDS)) {
                    continue;
                }
            }
            room--;
            long at = System.nanoTime();
            if (held) {
                freeSince = at;
                held = false;
            }
            put(schedule == null ? at : schedule.next(), at);
            if (schedule != null) {
                schedule.advance();
            }
        }
        while (!load.ended() && !window.tryAcquire(Math.max(1, spec.window()), GLANCE_MS, TimeUnit.MILLISECONDS)) {
            // Confirms are still to come.
        }
        for (int waiting = spec.repliesTo(id); waiting > 0 && load.running(); ) {
            waiting -= replies.receive(GLANCE_MS) == null ? 0 : 1;
        }
    }

    /** Waits until {@code intended}; false when the load drains first. */
    private boolean await(long intended) {
        for (long wait = intended - System.nanoTime(); wait > 0; wait = intended - System.nanoTime()) {
            if (!load.running()) {
                return false;
            }
            LockSupport.parkNanos(Math.min(wait, GLANCE_MS * 1_000_000));
        }
        return true;
    }

    private void put(long intended, long at) throws Exception {
        long number = ++sent;
        load.bodies.write(body, id, number, intended, at);
        if (spec.rate() > 0 && load.measures(intended)) {
            lateness.record(Math.min(at - intended, at - freeSince));
        }
        load.tally.sent(id, at);
        BytesMessage message = load.message(session, body, number);
        int lane = (int) (number % producers.length);
        send(message, lane, number, intended);
        freeSince = System.nanoTime();
    }

    private void send(BytesMessage message, int lane, long number, long intended) throws Exception {
        if (asyncSends.length > 0) {
            asyncSends[lane].send(message, problem -> {
                confirms.take(number, intended, problem == null);
                window.release();
            });
            return;
        }
        producers[lane].send(message);
        window.release();
        if (spec.window() == 1) {
            confirms.take(number, intended, true);
        }
    }

    @Override
    public void close() throws Exception {
        connection.close();
    }

    Answer.Produced answer() {
        synchronized (confirms) {
            return new Answer.Produced(
                    sent,
                    confirms.refused,
                    confirms.numbers.encoded(),
                    confirms.unknown,
                    confirms.times.answer(),
                    lateness.answer());
        }
    }

    private final class Confirms {
        private final Numbers numbers = new Numbers();
        private final Samples times = new Samples();
        private long unknown;
        private long refused;

        synchronized void take(long number, long intended, boolean accepted) {
            long at = System.nanoTime();
            if (!accepted) {
                refused++;
                load.tally.refused(id, at);
                return;
            }
            if (!load.bodies.counted() && !numbers.insert(number)) {
                unknown++;
                return;
            }
            load.tally.confirmed(id, at);
            if (load.measures(intended)) {
                times.record(at - intended);
            }
        }
    }
}
