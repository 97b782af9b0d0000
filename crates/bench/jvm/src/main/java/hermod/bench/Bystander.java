package hermod.bench;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Session;

/** A consumer that is open on a queue and receives nothing: its client is sent what it fetches ahead. */
final class Bystander implements Worker {
    private final Connection connection;

    Bystander(Load load, int queue) throws Exception {
        connection = load.connect(null);
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        session.createConsumer(load.destination(session, queue));
        connection.start();
    }

    /** Nothing is to be done: what comes is the client's business. */
    @Override
    public void run() {}

    @Override
    public void close() throws JMSException {
        connection.close();
    }
}
