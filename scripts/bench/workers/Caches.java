import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** CuratorCache, measured as in caches.mjs. */
final class Caches {
    private final BlockingQueue<Long> changed = new LinkedBlockingQueue<>();
    private String path;
    private CuratorCache cache;

    String open(CuratorFramework client, String path) throws InterruptedException {
        close();
        this.path = path;
        CountDownLatch initialized = new CountDownLatch(1);
        cache = CuratorCache.build(client, path);
        cache.listenable().addListener(CuratorCacheListener.builder()
            .forChanges((old, node) -> changed.add(System.nanoTime()))
            .forInitialized(initialized::countDown)
            .build());
        long start = System.nanoTime();
        cache.start();
        initialized.await();
        return String.format(Locale.ROOT, "{\"initialize\":%.4f}", (System.nanoTime() - start) / 1e6);
    }

    Times set(CuratorFramework writer, int znodes, long from, long until) throws Exception {
        Times times = new Times();
        for (int turn = 0; System.nanoTime() < until; turn++) {
            long asked = System.nanoTime();
            writer.setData().forPath(path + "/" + turn % znodes, String.valueOf(turn).getBytes());
            long event = changed.take();
            times.add(asked, event, System.nanoTime(), from, until);
        }
        close();
        return times;
    }

    private void close() {
        if (cache != null) {
            cache.close();
            cache = null;
        }
    }
}
