import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Curator's CuratorCache. A znode is written as path=mzxid. */
final class Caches {
    private final CuratorFramework client;
    private final Map<String, CuratorCache> caches = new ConcurrentHashMap<>();
    /** The znodes of the events of each cache, in their order. */
    private final Map<String, List<String>> histories = new ConcurrentHashMap<>();

    Caches(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) throws Exception {
        String path = words.get(1);
        switch (words.get(0)) {
            case "start":
                start(path);
                return "";
            case "state":
                return caches.get(path).stream().map(Caches::name).collect(Collectors.joining(" "));
            case "history":
                return String.join(" ", histories.get(path));
            case "write":
                return write(path, Integer.parseInt(words.get(2)), Long.parseLong(words.get(3)));
            case "close":
                caches.remove(path).close();
                return "";
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    private void start(String path) throws InterruptedException {
        List<String> history = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch initialized = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(client, path);
        cache.listenable().addListener(CuratorCacheListener.builder()
            .forCreates(node -> history.add(name(node)))
            .forChanges((old, node) -> history.add(name(node)))
            .forInitialized(initialized::countDown)
            .build());
        caches.put(path, cache);
        histories.put(path, history);
        cache.start();
        initialized.await();
    }

    /** Creates, sets and deletes znodes below a path at random. Returns all that it created or set. */
    private String write(String root, int steps, long seed) throws Exception {
        Random random = new Random(seed);
        List<String> written = new ArrayList<>();
        for (int step = 0; step < steps; step++) {
            String path = root;
            for (int depth = random.nextInt(3); depth >= 0; depth--) {
                path += "/" + (char) ('a' + random.nextInt(3));
            }
            byte[] data = String.valueOf(step).getBytes();
            try {
                int kind = random.nextInt(6);
                if (kind < 2) {
                    client.delete().forPath(path);
                } else {
                    Stat stat = new Stat();
                    try {
                        stat = client.setData().forPath(path, data);
                    } catch (KeeperException.NoNodeException e) {
                        client.create().storingStatIn(stat).forPath(path, data);
                    }
                    written.add(path + "=" + stat.getMzxid());
                }
            } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException
                | KeeperException.NodeExistsException e) {
                // The step does not fit the tree, or the other writer was faster.
            }
        }
        return String.join(" ", written);
    }

    private static String name(ChildData node) {
        return node.getPath() + "=" + node.getStat().getMzxid();
    }
}
