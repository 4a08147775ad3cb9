import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;

/** Curator's leader latch as a lock that is held while it leads. Each acquire creates a latch, because a closed latch stays closed. */
final class LatchAsLock implements InterProcessLock {
    private final CuratorFramework client;
    private final String path;
    private final String id;
    private LeaderLatch latch;

    LatchAsLock(CuratorFramework client, String path, String id) {
        this.client = client;
        this.path = path;
        this.id = id;
    }

    Collection<Participant> participants() throws Exception {
        return new LeaderLatch(client, path).getParticipants();
    }

    @Override
    public void acquire() throws Exception {
        acquire(Long.MAX_VALUE, TimeUnit.MILLISECONDS);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        latch = new LeaderLatch(client, path, id);
        latch.start();
        if (latch.await(time, unit)) {
            return true;
        }
        release();
        return false;
    }

    @Override
    public void release() throws Exception {
        latch.close();
        latch = null;
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return latch != null && latch.hasLeadership();
    }
}
