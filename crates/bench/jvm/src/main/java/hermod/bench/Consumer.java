package hermod.bench;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;

/** One consumer: checks every body, acknowledges what is due and measures how long each message took. */
final class Consumer implements Worker {
    /** Silence after which acknowledgements that wait for company are sent, and the phase of the load is looked at. */
    private static final long SILENCE_MS = 10;

    private final Load load;
    private final Spec spec;
    private final int id;
    private final int queue;
    private final Connection connection;
    private final Session session;
    /** One, or one for each queue that it reads. */
    private final MessageConsumer[] consumers;
    /** Where it replies; null: it does not. */
    private final MessageProducer replies;
    /** The durable subscription that goes with this consumer; null: there is none, or another consumer ends it. */
    private String subscription;

    private final Received received;
    /** The newest message that is not acknowledged, and how many there are. */
    private Message newest;

    private int pending;
    private long count;
    /** The queue that was looked at last. */
    private int turn;

    Consumer(Load load, int id) throws Exception {
        this.load = load;
        this.id = id;
        spec = load.spec;
        queue = spec.spread() ? 0 : id % spec.queues();
        received = new Received(load);
        boolean alone = spec.topic() && spec.durable() && !spec.shared();
        connection = load.connect(alone ? spec.name() + "." + id : null);
        session = load.session(connection);
        consumers = new MessageConsumer[spec.lanes()];
        replies = spec.reply() ? session.createProducer(load.replyQueue(session, id % spec.producers())) : null;
        // What is in the queue already would come before the time begins: some brokers send as soon as there is a consumer.
        if (spec.produce()) {
            open();
        }
    }

    private void open() throws Exception {
        for (int lane = 0; lane < consumers.length; lane++) {
            consumers[lane] = spec.topic()
                    ? subscribe()
                    : session.createConsumer(load.destination(session, queue + lane), spec.selector());
        }
    }

    /** Subscribes to the topic: several consumers of one queue share a subscription. */
    private MessageConsumer subscribe() throws Exception {
        Topic topic = (Topic) load.destination(session, queue);
        String name = spec.name() + ".s" + queue;
        if (spec.durable() && id >= spec.consumers() - spec.queues()) {
            subscription = name;
        }
        if (!spec.shared()) {
            return spec.durable()
                    ? session.createDurableSubscriber(topic, name, spec.selector(), false)
                    : session.createConsumer(topic, spec.selector());
        }
        try {
            return spec.durable()
                    ? session.createSharedDurableConsumer(topic, name, spec.selector())
                    : session.createSharedConsumer(topic, name, spec.selector());
        } catch (UnsupportedOperationException | LinkageError absent) {
            throw new Lacks("shared subscription (JMS 2.0)");
        }
    }

    /** Consumes until the load ends. */
    @Override
    public void run() throws Exception {
        if (!spec.produce()) {
            open();
        }
        connection.start();
        while (!load.ended()) {
            Message message = next();
            if (message == null) {
                settle();
            } else {
                take(message, System.nanoTime());
            }
        }
        settle();
    }

    /** The next message of any queue; null after some silence. */
    private Message next() throws JMSException {
        for (int lane = 1; lane < consumers.length; lane++) {
            turn = (turn + 1) % consumers.length;
            Message message = consumers[turn].receiveNoWait();
            if (message != null) {
                return message;
            }
        }
        turn = (turn + 1) % consumers.length;
        return consumers[turn].receive(consumers.length > 1 ? 1 : SILENCE_MS);
    }

    private void take(Message message, long at) throws JMSException {
        received.note(message, at);
        newest = message;
        if (++pending >= spec.ackEvery()) {
            settle();
        }
        load.tally.received(spec.producers() + id, at);
        count++;
        if (replies != null && count == spec.repliesAfter(id)) {
            replies.send(session.createBytesMessage());
        }
    }

    private void settle() throws JMSException {
        if (pending > 0 && spec.ack() == Session.CLIENT_ACKNOWLEDGE) {
            newest.acknowledge();
        }
        pending = 0;
    }

    @Override
    public void close() throws Exception {
        for (MessageConsumer consumer : consumers) {
            // A load that ended before it was started has none.
            if (consumer != null) {
                consumer.close();
            }
        }
        if (subscription != null) {
            session.unsubscribe(subscription);
        }
        connection.close();
    }

    Answer.Consumed answer() {
        return received.answer(queue);
    }

    /** What one end saw of the messages that came to it. */
    static final class Received {
        private final Load load;
        private final Seen[] seen;
        private final byte[] body;
        private final BodyReader reader;
        private final Bodies.Stamp stamp = new Bodies.Stamp();
        private final long[] damages = new long[Bodies.Damage.values().length];
        private final Samples total = new Samples();
        private final Samples transit = new Samples();
        private long redelivered;

        Received(Load load) {
            this.load = load;
            seen = new Seen[load.spec.producers()];
            for (int producer = 0; producer < seen.length; producer++) {
                long quota = load.spec.quotas()[producer];
                seen[producer] = new Seen(quota == Long.MAX_VALUE ? -1 : quota, load.spec.lanes());
            }
            body = new byte[load.bodies.size()];
            reader = new BodyReader(load.spec.bodyStream());
        }

        /** Checks and times one message received at {@code at}. */
        void note(Message message, long at) throws JMSException {
            if (message.getJMSRedelivered()) {
                redelivered++;
            }
            Bodies.Damage damage = check(message, at);
            if (damage != null) {
                damages[damage.ordinal()]++;
            }
        }

        private Bodies.Damage check(Message message, long at) throws JMSException {
            if (!(message instanceof BytesMessage bytes)) {
                return Bodies.Damage.LENGTH;
            }
            long length = bytes.getBodyLength();
            if (length <= body.length && length > 0) {
                reader.read(bytes, body, (int) length);
            }
            Bodies.Damage damage = load.bodies.read(body, length, stamp);
            if (damage != null || load.bodies.counted()) {
                return damage;
            }
            if (stamp.producer >= seen.length || !seen[stamp.producer].take(stamp.number)) {
                return Bodies.Damage.STAMP;
            }
            if (stamp.intended != 0 && load.measures(stamp.intended)) {
                total.record(at - stamp.intended);
                if (load.spec.rate() > 0 && stamp.sent != 0) {
                    transit.record(at - stamp.sent);
                }
            }
            return null;
        }

        Answer.Consumed answer(int queue) {
            Answer.SeenOf[] all = new Answer.SeenOf[seen.length];
            for (int producer = 0; producer < all.length; producer++) {
                all[producer] = seen[producer].answer();
            }
            return new Answer.Consumed(queue, all, damages, redelivered, total.answer(), transit.answer());
        }
    }
}
