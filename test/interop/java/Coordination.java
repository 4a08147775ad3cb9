import java.io.Closeable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Curator's shared counts, counters, barriers, caches, group members and persistent nodes. A znode is written as path=mzxid. */
final class Coordination {
    private final CuratorFramework client;
    /** The started objects by their path, or by the name of a member. */
    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    /** The znodes of the events of each cache, in their order. */
    private final Map<String, List<String>> histories = new ConcurrentHashMap<>();

    Coordination(CuratorFramework client) {
        this.client = client;
    }

    SharedCount count(String path) {
        return (SharedCount) objects.get(path);
    }

    /** The first word is the method, the second one is the path or the name of the object. */
    String handle(String kind, List<String> words) throws Exception {
        String target = words.get(1);
        String third = words.size() > 2 ? words.get(2) : "0";
        Object object = objects.get(target);
        switch (kind + " " + words.get(0)) {
            case "count start":
                return startCount(target, Integer.parseInt(third));
            case "count get":
                return String.valueOf(count(target).getCount());
            case "count set":
                count(target).setCount(Integer.parseInt(third));
                return "";
            case "count try-set":
                return String.valueOf(count(target).trySetCount(count(target).getVersionedValue(), Integer.parseInt(third)));
            case "counter get":
                return values(counter(target).get());
            case "counter add":
                return values(counter(target).add(Long.parseLong(third)));
            case "counter initialize":
                return String.valueOf(counter(target).initialize(Long.parseLong(third)));
            case "counter compare-and-set":
                return values(counter(target).compareAndSet(Long.parseLong(third), Long.parseLong(words.get(3))));
            case "counter increment":
                return increment(target, third, Integer.parseInt(words.get(3)));
            case "barrier set":
                new DistributedBarrier(client, target).setBarrier();
                return "";
            case "barrier remove":
                new DistributedBarrier(client, target).removeBarrier();
                return "";
            case "barrier wait":
                return String.valueOf(new DistributedBarrier(client, target).waitOnBarrier(Long.parseLong(third), TimeUnit.MILLISECONDS));
            case "barrier join":
                objects.put(target, new DistributedDoubleBarrier(client, words.get(3), Integer.parseInt(third)));
                return "";
            case "barrier enter":
                return String.valueOf(((DistributedDoubleBarrier) object).enter(Holder.LONG, TimeUnit.MILLISECONDS));
            case "barrier leave":
                return String.valueOf(((DistributedDoubleBarrier) object).leave(Holder.LONG, TimeUnit.MILLISECONDS));
            case "cache start":
                return startCache(target);
            case "cache state":
                return ((CuratorCache) object).stream().map(Coordination::name).collect(Collectors.joining(" "));
            case "cache history":
                return String.join(" ", histories.get(target));
            case "cache write":
                return write(target, Integer.parseInt(third), Long.parseLong(words.get(3)));
            case "member join": {
                GroupMember member = new GroupMember(client, third, target, words.get(3).getBytes());
                objects.put(target, member);
                member.start();
                return "";
            }
            case "member set":
                ((GroupMember) object).setThisData(third.getBytes());
                return "";
            case "member current":
                return new TreeMap<>(((GroupMember) object).getCurrentMembers()).entrySet().stream()
                    .map(each -> each.getKey() + "=" + new String(each.getValue()))
                    .collect(Collectors.joining(" "));
            case "node keep": {
                PersistentNode node =
                    new PersistentNode(client, CreateMode.valueOf(third), false, target, words.get(3).getBytes());
                objects.put(target, node);
                node.start();
                return String.valueOf(node.waitForInitialCreate(30, TimeUnit.SECONDS));
            }
            case "node keep-ttl": {
                PersistentTtlNode node =
                    new PersistentTtlNode(client, target, Long.parseLong(third), words.get(3).getBytes());
                objects.put(target, node);
                node.start();
                return String.valueOf(node.waitForInitialCreate(30, TimeUnit.SECONDS));
            }
            default:
                if (!words.get(0).equals("close")) {
                    throw new IllegalArgumentException(kind + " " + words.get(0));
                }
                ((Closeable) objects.remove(target)).close();
                return "";
        }
    }

    /** Each change of the count is sent as an event. The seed is the value of a count that does not exist yet. */
    private String startCount(String path, int seed) throws Exception {
        SharedCount count = new SharedCount(client, path, seed);
        count.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int value) {
                CuratorPeer.say("event count " + path + " " + value);
            }

            @Override
            public void stateChanged(CuratorFramework framework, ConnectionState state) {
            }
        });
        count.start();
        objects.put(path, count);
        return "";
    }

    private DistributedAtomicLong counter(String path) {
        return new DistributedAtomicLong(client, path, new RetryNTimes(1000, 2));
    }

    private static String values(AtomicValue<Long> value) {
        return value.succeeded() + " " + value.preValue() + " " + value.postValue();
    }

    /**
     * Increments on four threads, and returns the new values.
     *
     * @param lockPath without optimistic retries, the lock to which each increment is promoted; "none" for none
     */
    private String increment(String path, String lockPath, int times) {
        PromotedToLock lock = PromotedToLock.builder().lockPath(lockPath.equals("none") ? path : lockPath)
            .retryPolicy(new RetryNTimes(1000, 2)).timeout(60, TimeUnit.SECONDS).build();
        List<String> values = Collections.synchronizedList(new ArrayList<>());
        ExecutorService threads = Executors.newFixedThreadPool(4);
        IntStream.range(0, 4).mapToObj(index -> CompletableFuture.runAsync(() -> {
            DistributedAtomicLong counter = lockPath.equals("none")
                ? counter(path)
                : new DistributedAtomicLong(client, path, new RetryNTimes(0, 0), lock);
            for (int i = 0; i < times; i++) {
                try {
                    AtomicValue<Long> value = counter.increment();
                    values.add(value.succeeded() ? String.valueOf(value.postValue()) : "none");
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }, threads)).collect(Collectors.toList()).forEach(CompletableFuture::join);
        threads.shutdown();
        return String.join(" ", values);
    }

    private String startCache(String path) throws InterruptedException {
        List<String> history = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch initialized = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(client, path);
        cache.listenable().addListener(CuratorCacheListener.builder()
            .forCreates(node -> history.add(name(node)))
            .forChanges((old, node) -> history.add(name(node)))
            .forInitialized(initialized::countDown)
            .build());
        objects.put(path, cache);
        histories.put(path, history);
        cache.start();
        initialized.await();
        return "";
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
