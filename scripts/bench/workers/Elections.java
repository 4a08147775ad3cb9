import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;

/** One latch of Curator for each client, all on one path. */
final class Elections {
    private final List<CuratorFramework> clients;
    private final String path;
    private final LeaderLatch[] latches;
    private final BlockingQueue<long[]> elected = new LinkedBlockingQueue<>();
    private int leader;

    Elections(List<CuratorFramework> clients, String path) throws Exception {
        this.clients = clients;
        this.path = path;
        latches = new LeaderLatch[clients.size()];
        for (int index = 0; index < latches.length; index++) {
            join(index);
        }
        leader = (int) elected.take()[0];
    }

    /** Returns the time at which the next latch became the leader. */
    long resign() throws Exception {
        int resigning = leader;
        latches[resigning].close();
        long[] next = elected.take();
        leader = (int) next[0];
        join(resigning);
        return next[1];
    }

    void close() throws Exception {
        for (LeaderLatch latch : latches) {
            latch.close();
        }
    }

    private void join(int index) throws Exception {
        LeaderLatch latch = new LeaderLatch(clients.get(index), path);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                elected.add(new long[] {index, System.nanoTime()});
            }

            @Override
            public void notLeader() {
            }
        });
        latch.start();
        latches[index] = latch;
    }
}
