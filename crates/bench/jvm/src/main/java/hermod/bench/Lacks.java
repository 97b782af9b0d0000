package hermod.bench;

/** The provider, or what it implements of JMS, can't do what the load asks for: no fault, and not to be degraded silently. */
final class Lacks extends Exception {
    private static final long serialVersionUID = 1;

    Lacks(String what) {
        super(what);
    }
}
