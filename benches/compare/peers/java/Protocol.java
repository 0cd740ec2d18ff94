import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * The subjects' side of the benchmarks' protocol in Java. A subject implements {@link Library}, and
 * its main calls {@link #serve}. {@code benches/compare/README.md} describes the protocol. A task
 * is a thread.
 */
final class Protocol<C> {
    /** The number of names that {@code hold} and {@code drop} process in parallel. */
    private static final int AT_A_TIME = 64;

    /** In milliseconds. */
    static final int TTL = 15_000;

    /** A connected lock library in its users' usual configuration. */
    interface Library<C> {
        /** Connects a client. The servers are URLs and, for Sentinels, {@code master=NAME}. */
        C connect(String backend, List<String> servers) throws Exception;

        /**
         * Acquires a name, with the library's own wait, and keeps it alive until the same thread
         * releases it.
         */
        Hold lock(C client, String name) throws Exception;
    }

    interface Hold {
        /** Releases the lock, or throws {@link Lost} if the lock is known to have expired. */
        void unlock() throws Exception;
    }

    @SuppressWarnings("serial")
    static final class Lost extends Exception {
        Lost() {
            super("the lock expired on the way");
        }
    }

    private final Library<C> library;
    private final PrintStream answers;
    private C client;
    /** The threads of {@code hold}. Each must release the locks that it acquired. */
    private final List<Holder> holders = new ArrayList<>();

    private Protocol(Library<C> library, PrintStream answers) {
        this.library = library;
        this.answers = answers;
    }

    /**
     * Runs a subject until its input ends. The subject's library is {@code group}:{@code artifact}
     * in the class path.
     */
    static <C> void serve(
            String name, String group, String artifact, List<String> backends, List<String> notes, Library<C> library) {
        var answers = System.out;
        // A library's output must not mix with the answers.
        System.setOut(System.err);
        answers.printf(
                "{\"name\": %s, \"library\": %s, \"runtime\": %s, \"backends\": %s, \"notes\": %s}%n",
                quoted(name),
                quoted(group + ":" + artifact + " " + version(group, artifact)),
                quoted("Java " + System.getProperty("java.version") + ", " + System.getProperty("java.vm.name")
                        + ", no flags"),
                quoted(backends),
                quoted(notes));
        answers.flush();
        var commands = new SynchronousQueue<String>();
        var worker = new Thread(() -> new Protocol<>(library, answers).work(commands));
        worker.setDaemon(true);
        worker.start();
        try (var input = new BufferedReader(new InputStreamReader(System.in))) {
            for (var line = input.readLine(); line != null; line = input.readLine()) {
                commands.put(line);
            }
        } catch (IOException | InterruptedException error) {
            System.err.println(error);
        }
        // The subject exits without releasing locks.
        Runtime.getRuntime().halt(0);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static String quoted(List<String> texts) {
        return texts.stream().map(Protocol::quoted).collect(Collectors.joining(", ", "[", "]"));
    }

    private static String version(String group, String artifact) {
        var properties = new Properties();
        var path = "/META-INF/maven/" + group + "/" + artifact + "/pom.properties";
        try (var file = Protocol.class.getResourceAsStream(path)) {
            properties.load(file);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return properties.getProperty("version");
    }

    private void work(SynchronousQueue<String> commands) {
        while (true) {
            String answer;
            try {
                answer = answer(new Scanner(commands.take()));
            } catch (Throwable error) {
                answer = complaint(error);
            }
            answers.println(answer);
            answers.flush();
        }
    }

    private static String complaint(Throwable error) {
        while (error instanceof ExecutionException && error.getCause() != null) {
            error = error.getCause();
        }
        var text = new StringBuilder("error " + error);
        for (var cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append(": ").append(cause);
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private String answer(Scanner words) throws Exception {
        var what = words.next();
        return switch (what) {
            case "open" -> {
                client = library.connect(words.next(), words.tokens().toList());
                yield "ready";
            }
            case "pairs" -> pairs(words.next(), words.nextLong(), words.nextLong());
            case "turns" -> turns(words);
            case "hold" -> hold(words.next(), words.nextLong(), words.nextLong(), words.nextLong(), words.nextLong());
            case "wait" -> await(words.next(), words.nextLong(), words.nextLong());
            case "drop" -> drop();
            default -> throw new IllegalArgumentException("no such command: " + what);
        };
    }

    private String pairs(String name, long ttl, long millis) throws Exception {
        var times = LongStream.builder();
        // The driver can compare processes' times: System.nanoTime uses CLOCK_MONOTONIC.
        var begun = System.nanoTime();
        var end = begun + millis * 1_000_000;
        while (begun < end) {
            library.lock(client, name).unlock();
            var over = System.nanoTime();
            times.add(over - begun);
            begun = over;
        }
        return times.build().mapToObj(Long::toString).collect(Collectors.joining(" ", "pairs ", ""));
    }

    /** The times of a turn. {@code lost} means that the lock had expired. */
    private record Turn(long asked, long granted, long released, boolean lost) {
    }

    private String turns(Scanner words) throws Exception {
        var name = words.next();
        words.nextLong(); // the TTL
        var tasks = (int) words.nextLong();
        var start = words.nextLong();
        var end = words.nextLong();
        var section = words.nextLong() * 1_000;
        var threads = Executors.newFixedThreadPool(tasks);
        try {
            var playing = new ArrayList<Future<List<Turn>>>();
            for (var task = 0; task < tasks; task++) {
                playing.add(threads.submit(() -> play(name, start, end, section)));
            }
            var answer = new StringBuilder("turns");
            for (var task = 0; task < tasks; task++) {
                for (var turn : playing.get(task).get()) {
                    answer.append(' ').append(task).append(':').append(turn.asked());
                    answer.append(':').append(turn.granted()).append(':').append(turn.released());
                    answer.append(turn.lost() ? ":lost" : "");
                }
            }
            return answer.toString();
        } finally {
            threads.shutdown();
        }
    }

    private List<Turn> play(String name, long start, long end, long section) throws Exception {
        var turns = new ArrayList<Turn>();
        sleepUntil(start);
        while (true) {
            var asked = System.nanoTime();
            if (asked >= end) {
                return turns;
            }
            var hold = library.lock(client, name);
            var granted = System.nanoTime();
            if (section > 0) {
                sleepUntil(granted + section);
            }
            var released = System.nanoTime();
            var lost = false;
            try {
                hold.unlock();
            } catch (Lost expired) {
                lost = true;
            }
            turns.add(new Turn(asked, granted, released, lost));
        }
    }

    private static void sleepUntil(long instant) {
        for (var left = instant - System.nanoTime(); left > 0; left = instant - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private String hold(String prefix, long first, long count, long ttl, long millis) throws Exception {
        while (holders.size() < AT_A_TIME) {
            holders.add(new Holder());
        }
        var end = System.nanoTime() + millis * 1_000_000;
        var next = new AtomicLong(first);
        each(holder -> () -> {
            for (var number = next.getAndIncrement();
                    number < first + count && System.nanoTime() < end;
                    number = next.getAndIncrement()) {
                holder.holds.add(library.lock(client, prefix + "/" + number));
            }
            return null;
        });
        return "held " + holders.stream().mapToLong(holder -> holder.holds.size()).sum();
    }

    private String drop() throws Exception {
        each(holder -> () -> {
            while (!holder.holds.isEmpty()) {
                holder.holds.remove().unlock();
            }
            return null;
        });
        return "dropped";
    }

    private void each(Function<Holder, Callable<Void>> work) throws Exception {
        var working = new ArrayList<Future<Void>>();
        for (var holder : holders) {
            working.add(holder.thread.submit(work.apply(holder)));
        }
        for (var one : working) {
            one.get();
        }
    }

    private static final class Holder {
        final ExecutorService thread = Executors.newSingleThreadExecutor();
        final Deque<Hold> holds = new ArrayDeque<>();
    }

    private String await(String name, long ttl, long tasks) throws Exception {
        var asking = new CountDownLatch((int) tasks);
        for (var task = 0; task < tasks; task++) {
            new Thread(() -> {
                asking.countDown();
                try {
                    library.lock(client, name);
                    System.err.println("a waiter was granted what somebody else holds");
                } catch (Exception error) {
                    System.err.println(complaint(error));
                }
            }).start();
        }
        asking.await();
        return "waiting";
    }
}
