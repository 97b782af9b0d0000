package hermod.bench;

import java.util.Map;

/**
 * What the coordinator asks for: one load, with everything that decides what is sent and how it is acknowledged. Names and
 * meanings are those of the coordinator's scenario.
 *
 * @param name begins the names of all destinations and subscriptions of this load
 * @param bodies what messages carry
 * @param bodyStream the property by which the client writes a large body into a stream; null: it has none
 * @param produce false: what is consumed was sent by an earlier load with these destinations
 * @param keep what nobody consumes stays in its queue, for a later load
 * @param spread each producer sends to all queues in turn, and each consumer reads all of them
 * @param reply each consumer sends one empty message back when all have come, and producers wait for it
 * @param topic messages go to one topic, and each of the {@code queues} is a subscription to it
 * @param durable subscriptions are durable
 * @param bystander a consumer is open on each queue and receives nothing
 * @param priority of each message; -1: the client's default
 * @param selects one of this many messages is one that consumers ask for; 0: they take all without asking
 * @param window most unconfirmed messages of a producer; 1 is a send that waits, 0 asks for no confirms
 * @param ack the mode of sessions that receive: a number of JMS, or of the client's own
 * @param ackEvery messages for one acknowledgement, where sessions leave it to us
 * @param rate messages a second of all producers; 0 is a closed loop
 * @param inFlight most messages sent and not received in a closed loop; 0 is no bound
 * @param quotas most messages of each producer
 * @param warmups those of them that come before the measured ones
 */
record Spec(
        String name,
        String queueName,
        Bodies bodies,
        Factory factory,
        String bodyStream,
        String user,
        String password,
        boolean pingpong,
        int producers,
        int consumers,
        int queues,
        boolean produce,
        boolean keep,
        boolean spread,
        boolean reply,
        boolean topic,
        boolean durable,
        boolean bystander,
        boolean persistent,
        int priority,
        long selects,
        int window,
        int ack,
        int ackEvery,
        double rate,
        boolean poisson,
        long seed,
        long inFlight,
        long[] quotas,
        long[] warmups) {

    /**
     * What messages carry.
     *
     * @param run tells them from those of all other loads
     * @param stamped bytes of the stamp: 40, 16, 8 or none; 6 are the digits of a counter
     * @param zero zeros follow, instead of bytes that no compression makes smaller
     * @param shortAfter messages with higher numbers have {@code shortSize} bytes
     */
    record Bodies(long run, int size, int stamped, boolean zero, long shortAfter, int shortSize) {}

    /**
     * How to get a connection factory: from a class, or from a naming service.
     *
     * @param className the factory's class, or that of the initial context
     * @param argument the constructor's only argument; none: it has no argument
     * @param lookup the factory's name in the naming service; none: there is no naming service
     * @param properties of the factory, or of the initial context
     */
    record Factory(String className, String argument, String lookup, Map<String, String> properties) {}

    /** How many subscribers or consumers receive each message; 0: nobody does. */
    long copies() {
        return consumers == 0 ? 0 : topic ? queues : 1;
    }

    /** Queues in which the messages of one producer are in order by themselves. */
    int lanes() {
        return spread ? queues : 1;
    }

    /** How many messages the consumer {@code id} receives before it replies; only where there are replies. */
    long repliesAfter(int id) {
        long all = 0;
        for (int producer = 0; producer < producers; producer++) {
            if (topic || producer % queues == id % queues) {
                all += quotas[producer];
            }
        }
        return all;
    }

    /** How many replies come to the producer {@code id}: consumer i answers to producer i modulo producers. */
    int repliesTo(int id) {
        return reply ? (consumers - id + producers - 1) / producers : 0;
    }

    /** True when several consumers share one queue or one subscription. */
    boolean shared() {
        return consumers > queues;
    }

    /** What consumers ask for, or null. */
    String selector() {
        return selects == 0 ? null : "kind = 'A'";
    }

    /** The {@code kind} of the message with this number. */
    String kind(long number) {
        return number % selects == 0 ? "A" : "B";
    }
}
