package hermod.bench;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;

/** One message at a time: the near end sends, the far end sends the same body back, the near end takes the time. */
final class RoundTrips {
    /** How long one receive waits before the phase of the load is looked at. */
    private static final long SILENCE_MS = 50;
    /** A message that has not come back after this long is lost. */
    private static final long LOST_AFTER_NS = 10_000_000_000L;

    private RoundTrips() {}

    /** A connection that sends to one queue and receives from another. */
    private abstract static class End implements Worker {
        final Load load;
        final Connection connection;
        final Session session;
        final MessageProducer out;
        final MessageConsumer in;

        End(Load load, int to, int from) throws Exception {
            this.load = load;
            connection = load.connect(null);
            session = load.session(connection);
            in = session.createConsumer(load.destination(session, from));
            out = session.createProducer(load.destination(session, to));
            out.setDeliveryMode(load.spec.persistent() ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
            connection.start();
        }

        @Override
        public void close() throws JMSException {
            connection.close();
        }
    }

    /** Round trips until the load drains or the quota is done; its figures are those of a consumer. */
    static final class Near extends End {
        private final Consumer.Received received;

        Near(Load load) throws Exception {
            super(load, 0, 1);
            received = new Consumer.Received(load);
        }

        @Override
        public void run() throws Exception {
            byte[] body = load.bodies.blank();
            for (long number = 1; load.running() && number <= load.spec.quotas()[0]; number++) {
                long begin = System.nanoTime();
                load.bodies.write(body, 0, number, begin, begin);
                load.tally.sent(0, begin);
                out.send(load.message(session, body, number));
                Message back = null;
                while (back == null && !load.ended() && System.nanoTime() - begin < LOST_AFTER_NS) {
                    back = in.receive(SILENCE_MS);
                }
                if (back == null) {
                    return;
                }
                long at = System.nanoTime();
                received.note(back, at);
                load.tally.received(0, at);
            }
        }

        Answer.Consumed answer() {
            return received.answer(0);
        }
    }

    /** Sends every body back until the load ends. */
    static final class Far extends End {
        Far(Load load) throws Exception {
            super(load, 1, 0);
        }

        @Override
        public void run() throws Exception {
            BodyReader reader = new BodyReader(load.spec.bodyStream());
            while (!load.ended()) {
                if (in.receive(SILENCE_MS) instanceof BytesMessage message) {
                    byte[] body = new byte[(int) message.getBodyLength()];
                    reader.read(message, body, body.length);
                    BytesMessage back = session.createBytesMessage();
                    back.writeBytes(body);
                    out.send(back);
                }
            }
        }
    }
}
