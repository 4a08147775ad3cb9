import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/**
 * Apache Curator's locks under load. The messages are those of ../peer.mjs, the parameters those of drive.mjs. Each
 * caller has a thread. With several clients, each client has its own session and an equal share of the callers.
 */
public final class CuratorBench {
    /** Every tenth turn of a caller is a write. */
    private static final int WRITE_EVERY = 10;
    /** The policy of Curator's example of a counter. The holder of the lock needs more tries. */
    private static final RetryPolicy TRIES = new RetryNTimes(10, 10);
    private static final RetryPolicy TRIES_OF_HOLDER = new RetryNTimes(10_000, 1);

    private final String connectString;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private final Caches caches = new Caches();
    private static final Queues QUEUES = new Queues();

    /** Acquires the lock, reads the clock and releases the lock. Returns the time of the grant. */
    interface Cycle {
        long run(CuratorFramework client, String path, int turn) throws Exception;
    }

    private CuratorBench(String connectString) {
        this.connectString = connectString;
    }

    public static void main(String[] args) throws Exception {
        CuratorBench bench = new CuratorBench(args[0]);
        // On another thread than the reading, so that the process notices the end of its input while it connects.
        new Thread(bench::connect).start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Map<String, String> parameters = new HashMap<>();
            for (String word : Arrays.asList(words).subList(2, words.length)) {
                int at = word.indexOf('=');
                parameters.put(word.substring(0, at), word.substring(at + 1));
            }
            try {
                System.out.println(words[0] + " ok " + bench.handle(words[1], parameters));
            } catch (Exception e) {
                System.out.println(words[0] + " error " + e.toString().replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    private String handle(String request, Map<String, String> parameters) throws Exception {
        switch (request) {
            case "elect":
                return elect(parameters);
            case "open-cache":
                return caches.open(client(0), parameters.get("path"));
            case "set-cached": {
                long from = nanoseconds(parameters.get("from"));
                long until = nanoseconds(parameters.get("until"));
                Times times = caches.set(client(1), Integer.parseInt(parameters.get("znodes")), from, until);
                return times.toJson(new long[] {times.count()});
            }
            default:
                return run(parameters);
        }
    }

    private void connect() {
        try {
            client(0);
            System.out.println("ready");
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private synchronized CuratorFramework client(int index) throws InterruptedException {
        while (clients.size() <= index) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(30_000)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 5))
                .build();
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        return clients.get(index);
    }

    private String run(Map<String, String> parameters) throws Exception {
        int callers = Integer.parseInt(parameters.get("callers"));
        int keys = Integer.parseInt(parameters.get("keys"));
        int sessions = Integer.parseInt(parameters.getOrDefault("sessions", "1"));
        double pace = Double.parseDouble(parameters.getOrDefault("pace", "0"));
        double[] sums = sums(keys, Double.parseDouble(parameters.getOrDefault("zipf", "0")));
        Cycle cycle = cycle(parameters);
        long from = nanoseconds(parameters.get("from"));
        long until = nanoseconds(parameters.get("until"));
        ExecutorService threads = Executors.newFixedThreadPool(callers);
        List<Future<Times>> running = new ArrayList<>();
        for (int index = 0; index < callers; index++) {
            int caller = index;
            CuratorFramework client = client(caller % sessions);
            running.add(threads.submit(() -> {
                Times times = new Times();
                for (int turn = 0; System.nanoTime() < until; turn++) {
                    if (pace > 0) {
                        Thread.sleep((long) (pace * (0.5 + ThreadLocalRandom.current().nextDouble())));
                    }
                    long asked = System.nanoTime();
                    int key = sums == null ? (int) ((caller + (long) turn * callers) % keys) : draw(sums);
                    long granted = cycle.run(client, parameters.get("path") + "/" + key, turn);
                    times.add(asked, granted, System.nanoTime(), from, until);
                }
                return times;
            }));
        }
        Times all = new Times();
        long[] shares = new long[sessions];
        for (int caller = 0; caller < callers; caller++) {
            Times times = running.get(caller).get();
            shares[caller % sessions] += times.count();
            all.addAll(times);
        }
        threads.shutdown();
        return all.toJson(shares);
    }

    /** Returns the sums of the weights of the keys by Zipf's law, as drive.mjs; null without an exponent. */
    private static double[] sums(int keys, double exponent) {
        if (exponent == 0) {
            return null;
        }
        double[] sums = new double[keys];
        double sum = 0;
        for (int key = 0; key < keys; key++) {
            sum += Math.pow(key + 1, -exponent);
            sums[key] = sum;
        }
        return sums;
    }

    private static int draw(double[] sums) {
        double drawn = ThreadLocalRandom.current().nextDouble() * sums[sums.length - 1];
        int found = Arrays.binarySearch(sums, drawn);
        return found < 0 ? -found - 1 : found + 1;
    }

    /** Uses one lock object per turn: threads that wait on a shared object wake at every release. */
    private static Cycle cycle(Map<String, String> parameters) {
        switch (parameters.get("lock")) {
            case "mutex":
                return (client, path, turn) -> hold(new InterProcessMutex(client, path));
            case "read":
                return (client, path, turn) -> hold(new InterProcessReadWriteLock(client, path).readLock());
            case "read-write":
                return (client, path, turn) -> {
                    InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                    return hold(turn % WRITE_EVERY == WRITE_EVERY - 1 ? lock.writeLock() : lock.readLock());
                };
            case "semaphore": {
                int permits = Integer.parseInt(parameters.get("permits"));
                return (client, path, turn) -> {
                    InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, permits);
                    Lease lease = semaphore.acquire();
                    long granted = System.nanoTime();
                    semaphore.returnLease(lease);
                    return granted;
                };
            }
            case "counter":
                return (client, path, turn) -> {
                    PromotedToLock promotion = PromotedToLock.builder()
                        .lockPath(path + "-lock").retryPolicy(TRIES_OF_HOLDER).timeout(60, TimeUnit.SECONDS).build();
                    if (!new DistributedAtomicLong(client, path, TRIES, promotion).increment().succeeded()) {
                        throw new IllegalStateException("an increment gave up");
                    }
                    return System.nanoTime();
                };
            case "queue": {
                int callers = Integer.parseInt(parameters.get("callers"));
                return (client, path, turn) -> QUEUES.putAndHandle(client, path, callers);
            }
            default:
                throw new IllegalArgumentException(parameters.get("lock"));
        }
    }

    private static long hold(InterProcessLock lock) throws Exception {
        lock.acquire();
        long granted = System.nanoTime();
        lock.release();
        return granted;
    }

    /** As election.mjs: the leader leaves, and joins again with a new latch. */
    private String elect(Map<String, String> parameters) throws Exception {
        int participants = Integer.parseInt(parameters.get("participants"));
        for (int index = 0; index < participants; index++) {
            client(index);
        }
        Elections elections = new Elections(clients.subList(0, participants), parameters.get("path"));
        long from = nanoseconds(parameters.get("from"));
        long until = nanoseconds(parameters.get("until"));
        Times times = new Times();
        while (System.nanoTime() < until) {
            long asked = System.nanoTime();
            long elected = elections.resign();
            times.add(asked, elected, elected, from, until);
        }
        elections.close();
        return times.toJson(new long[] {times.count()});
    }

    /** On Linux this is the clock of clock.ts. */
    private static long nanoseconds(String milliseconds) {
        return (long) (Double.parseDouble(milliseconds) * 1e6);
    }
}
