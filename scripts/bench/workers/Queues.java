import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;

/** Puts items into a queue, each of which a consumer of this process handles under its lock. */
final class Queues {
    private static final QueueSerializer<String> TEXT = new QueueSerializer<String>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    private final Map<String, DistributedQueue<String>> queues = new ConcurrentHashMap<>();
    private final Map<String, CompletableFuture<Long>> handled = new ConcurrentHashMap<>();
    private final AtomicLong items = new AtomicLong();

    /** Returns the time at which the handler was called. */
    long putAndHandle(CuratorFramework client, String path, int callers) throws Exception {
        DistributedQueue<String> queue = queues.computeIfAbsent(path, key -> open(client, key, callers));
        String item = String.valueOf(items.getAndIncrement());
        CompletableFuture<Long> time = new CompletableFuture<>();
        handled.put(item, time);
        queue.put(item);
        return time.get();
    }

    private DistributedQueue<String> open(CuratorFramework client, String path, int callers) {
        QueueConsumer<String> consumer = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String item) {
                handled.remove(item).complete(System.nanoTime());
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        DistributedQueue<String> queue = QueueBuilder.builder(client, consumer, TEXT, path)
            .lockPath(path + "-locks").executor(Executors.newFixedThreadPool(callers)).buildQueue();
        try {
            queue.start();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        return queue;
    }
}
