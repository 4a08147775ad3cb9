import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** A holder or waiter on a thread of its own, because Curator's reentrant locks belong to threads. */
final class Holder {
    /** The longest wait in milliseconds. */
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

    /** Curator's cooperative revocation: the listener is called, and the owner releases the lock. */
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
