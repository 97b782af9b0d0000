package hermod.bench;

/**
 * One line from the coordinator.
 *
 * @param op {@code hello}, {@code clock}, {@code prepare}, {@code start}, {@code sample}, {@code steer}, {@code end} or
 *     {@code bye}
 * @param v version of this protocol, with {@code hello}
 * @param t echoed with {@code clock}
 * @param spec with {@code prepare}
 * @param from with {@code steer}: messages meant to be sent from here on are measured; 0: not yet
 * @param until with {@code steer}: and those from here on no longer
 * @param gate with {@code steer}: producers may go on to the measured messages
 * @param drain with {@code steer}: producers send nothing more
 */
record Command(String op, int v, long t, Spec spec, long from, long until, boolean gate, boolean drain) {}
