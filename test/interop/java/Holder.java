import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** One who holds or waits, on a thread of its own: Curator's reentrant locks belong to threads. */
final class Holder {
    /** Milliseconds: whoever waits longer has been forgotten. */
    static final long LONG = 60_000;

    private final String name;
    private final InterProcessLock lock;
    private final ExecutorService thread;

    Holder(String name, InterProcessLock lock) {
        this.name = name;
        this.lock = lock;
        this.thread = Executors.newSingleThreadExecutor();
    }

    boolean acquire(long wait) throws Exception {
        return thread.submit(() -> lock.acquire(wait, TimeUnit.MILLISECONDS)).get();
    }

    void release() throws Exception {
        thread.submit(() -> {
            lock.release();
            return null;
        }).get();
        thread.shutdown();
    }

    /** Curator's cooperative way: the listener is told, and the owner gives the lock back. */
    void releaseWhenRevoked() {
        ((InterProcessMutex) lock).makeRevocable(revoked -> {
            try {
                revoked.release();
                CuratorPeer.say("event revoked " + name);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            } finally {
                thread.shutdown();
            }
        }, thread);
    }
}
