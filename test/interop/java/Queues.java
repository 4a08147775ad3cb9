import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;

/** Curator's DistributedQueue and DistributedPriorityQueue with a lock path. The items are words. */
final class Queues {
    private static final QueueSerializer<String> WORDS = new QueueSerializer<String>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    private final CuratorFramework client;
    private final Map<String, List<String>> handled = new ConcurrentHashMap<>();
    private final Map<String, QueueBase<String>> consumers = new ConcurrentHashMap<>();

    Queues(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) throws Exception {
        String path = words.get(1);
        List<String> rest = words.subList(2, words.size());
        switch (words.get(0)) {
            case "put":
            case "put-multi":
            case "put-priority":
                put(words.get(0), path, rest);
                return "";
            case "consume":
                consume(path, rest.get(0).equals("priority"), Long.parseLong(rest.get(1)), rest.get(2));
                return "";
            case "handled":
                return String.join(" ", handled.getOrDefault(path, new ArrayList<>()));
            case "close":
                consumers.remove(path).close();
                return "";
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    private QueueBuilder<String> builder(String path, QueueConsumer<String> consumer) {
        return QueueBuilder.builder(client, consumer, WORDS, path).lockPath(path + "-locks");
    }

    /** The first of the items to put with a priority is the priority. */
    private void put(String method, String path, List<String> items) throws Exception {
        try (DistributedQueue<String> queue = builder(path, null).buildQueue();
            DistributedPriorityQueue<String> byPriority = builder(path, null).buildPriorityQueue(0)) {
            queue.start();
            byPriority.start();
            if (method.equals("put-multi")) {
                Iterator<String> next = items.iterator();
                queue.putMulti(new MultiItem<String>() {
                    @Override
                    public String nextItem() {
                        return next.hasNext() ? next.next() : null;
                    }
                });
            } else if (method.equals("put-priority")) {
                for (String item : items.subList(1, items.size())) {
                    byPriority.put(item, Integer.parseInt(items.get(0)));
                }
            } else {
                for (String item : items) {
                    queue.put(item);
                }
            }
            queue.flushPuts(10, TimeUnit.SECONDS);
            byPriority.flushPuts(10, TimeUnit.SECONDS);
        }
    }

    /** Handles items until the close. After the item `last` it sends an event and never returns from the handler. */
    private void consume(String path, boolean priority, long delay, String last) throws Exception {
        List<String> items = new CopyOnWriteArrayList<>();
        handled.put(path, items);
        QueueConsumer<String> consumer = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String item) throws Exception {
                items.add(item);
                if (item.equals(last)) {
                    CuratorPeer.say("event handling " + item);
                    new CountDownLatch(1).await();
                }
                Thread.sleep(delay);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        QueueBase<String> queue =
            priority ? builder(path, consumer).buildPriorityQueue(0) : builder(path, consumer).buildQueue();
        queue.start();
        consumers.put(path, queue);
    }
}
