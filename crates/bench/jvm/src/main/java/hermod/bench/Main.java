package hermod.bench;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import jakarta.jms.Connection;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * A worker beside the coordinator: it reads one command a line from its standard input and writes answers to its standard
 * output, while threads of its own make the load. No message crosses these pipes. It ends when its input does.
 */
public final class Main {
    /** How often the counters are told while a load runs: rates over time are made of them. */
    private static final long TELL_EVERY_NS = 10_000_000;
    /** How soon after its last message it is told that all is done. */
    private static final long LOOK_EVERY_MS = 2;

    static final Gson GSON =
            new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES).create();

    private final PrintStream out;
    private Load load;
    private Thread teller;

    private Main(PrintStream out) {
        this.out = out;
    }

    /** Serves the coordinator; the status is 0 after {@code bye}. */
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        // Whatever a client prints must not get among the answers.
        System.setOut(System.err);
        Main main = new Main(out);
        boolean bye = main.serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        // Threads of a provider would keep the machine alive.
        Runtime.getRuntime().halt(bye ? 0 : 1);
    }

    private boolean serve(BufferedReader in) throws IOException {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                Command command = GSON.fromJson(line, Command.class);
                if (command.op().equals("bye")) {
                    return true;
                }
                obey(command);
            } catch (Lacks lacks) {
                tell("lacks", lacks.getMessage());
            } catch (Exception | LinkageError problem) {
                tell("failed", described(problem));
            }
        }
        return false;
    }

    private void obey(Command command) throws Exception {
        switch (command.op()) {
            case "hello" -> hello(command.v());
            case "clock" -> tell("clock", new Answer.Clock(command.t(), System.nanoTime()));
            case "prepare" -> {
                // What an earlier load left is collected now, and not while this one is measured.
                System.gc();
                load = new Load(command.spec());
                tell("ready", load.names());
            }
            case "start" -> start();
            case "sample" -> tell("sample", load.sample());
            case "steer" -> load.steer(command);
            case "end" -> tell("result", end());
            default -> throw new JsonParseException("no such command: " + command.op());
        }
    }

    private void hello(int version) {
        if (version != Answer.VERSION) {
            throw new JsonParseException("this worker speaks version " + Answer.VERSION + ", not " + version);
        }
        String api = Connection.class.getName().startsWith("jakarta") ? "jakarta" : "javax";
        Runtime runtime = Runtime.getRuntime();
        String jvm = Runtime.version().toString();
        tell("hello", new Answer.Hello(version, api, jvm, ProcessHandle.current().pid(), runtime.maxMemory()));
    }

    private void start() {
        load.start();
        teller = new Thread(this::watch, "teller");
        teller.setDaemon(true);
        teller.start();
    }

    private Answer.Result end() throws Exception {
        if (teller != null) {
            teller.interrupt();
            teller.join();
            teller = null;
        }
        Load ended = load;
        load = null;
        return ended.end();
    }

    /** Tells the counters from time to time, and at once when all is sent and received or somebody has failed. */
    private void watch() {
        Load watched = load;
        long told = System.nanoTime();
        boolean wasDone = false;
        try {
            while (watched.failure() == null) {
                Thread.sleep(LOOK_EVERY_MS);
                boolean done = watched.sent() && watched.received();
                if (done && !wasDone || System.nanoTime() - told > TELL_EVERY_NS) {
                    tell("stats", watched.sample());
                    told = System.nanoTime();
                }
                wasDone = done;
            }
            Exception failure = watched.failure();
            tell(failure instanceof Lacks ? "lacks" : "failed", failure.getMessage());
        } catch (InterruptedException ended) {
            // The load is being ended.
        }
    }

    /** The failure and what caused it, in one line. */
    private static String described(Throwable problem) {
        if (problem instanceof UnsupportedClassVersionError) {
            return "this client needs a newer Java than " + Runtime.version() + "; JAVA_HOME chooses another: "
                    + problem.getMessage();
        }
        StringBuilder text = new StringBuilder(problem.toString());
        for (Throwable cause = problem.getCause(); cause != null; cause = cause.getCause()) {
            if (cause.getMessage() != null && text.indexOf(cause.getMessage()) < 0) {
                text.append(": ").append(cause.getMessage());
            }
        }
        return text.toString();
    }

    private synchronized void tell(String what, Object answer) {
        out.print(GSON.toJson(Map.of(what, answer)) + "\n");
        out.flush();
    }
}
