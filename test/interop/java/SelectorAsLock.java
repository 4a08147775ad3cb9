import java.util.Collection;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;

/** Curator's leader selector as a lock that is held while takeLeadership runs. One selector serves all acquires; each requeues it. */
final class SelectorAsLock implements InterProcessLock {
    private final LeaderSelector selector;
    private final Semaphore taken = new Semaphore(0);
    private final Semaphore returned = new Semaphore(0);
    private boolean started;

    SelectorAsLock(CuratorFramework client, String path, String id) {
        selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework framework) throws Exception {
                taken.release();
                returned.acquire();
            }
        });
        selector.setId(id);
    }

    Collection<Participant> participants() throws Exception {
        return selector.getParticipants();
    }

    @Override
    public void acquire() throws Exception {
        acquire(Long.MAX_VALUE, TimeUnit.MILLISECONDS);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        if (!started) {
            started = true;
            selector.start();
        } else {
            // The selector refuses until the node of the last term is deleted.
            while (!selector.requeue()) {
                Thread.sleep(1);
            }
        }
        if (taken.tryAcquire(time, unit)) {
            return true;
        }
        selector.close();
        return false;
    }

    @Override
    public void release() {
        returned.release();
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return selector.hasLeadership();
    }
}
