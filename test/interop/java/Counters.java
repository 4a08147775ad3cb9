import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.retry.RetryNTimes;

/** Curator's DistributedAtomicLong. */
final class Counters {
    private final CuratorFramework client;

    Counters(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) throws Exception {
        String path = words.get(1);
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 2));
        switch (words.get(0)) {
            case "get":
                return values(counter.get());
            case "add":
                return values(counter.add(Long.parseLong(words.get(2))));
            case "initialize":
                return String.valueOf(counter.initialize(Long.parseLong(words.get(2))));
            case "compare-and-set":
                return values(counter.compareAndSet(Long.parseLong(words.get(2)), Long.parseLong(words.get(3))));
            case "increment":
                return increment(path, words.get(2), Integer.parseInt(words.get(3)));
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    private static String values(AtomicValue<Long> value) {
        return value.succeeded() + " " + value.preValue() + " " + value.postValue();
    }

    /**
     * Increments on four threads, and returns the new values.
     *
     * @param lockPath without optimistic retries, the lock to which each increment is promoted; "none" for none
     */
    private String increment(String path, String lockPath, int times) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<String>> results = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            results.add(threads.submit((Callable<String>) () -> {
                DistributedAtomicLong counter = lockPath.equals("none")
                    ? new DistributedAtomicLong(client, path, new RetryNTimes(1000, 2))
                    : new DistributedAtomicLong(client, path, new RetryNTimes(0, 0), PromotedToLock.builder()
                        .lockPath(lockPath).retryPolicy(new RetryNTimes(1000, 2)).timeout(60, TimeUnit.SECONDS).build());
                List<String> values = new ArrayList<>();
                for (int i = 0; i < times; i++) {
                    AtomicValue<Long> value = counter.increment();
                    if (!value.succeeded()) {
                        throw new IllegalStateException("an increment gave up");
                    }
                    values.add(String.valueOf(value.postValue()));
                }
                return String.join(" ", values);
            }));
        }
        List<String> values = new ArrayList<>();
        for (Future<String> result : results) {
            values.add(result.get());
        }
        threads.shutdown();
        return String.join(" ", values);
    }
}
