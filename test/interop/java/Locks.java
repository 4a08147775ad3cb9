import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.utils.ZKPaths;

/**
 * Creates Curator's locks from text: <code>mutex:/path</code>, <code>read:</code>, <code>write:</code>,
 * <code>semaphore-mutex:</code>, <code>semaphore:/path:permits:count</code>, where the permits are a number or
 * the path of a shared count; several locks, separated by commas, are a multi-lock. <code>latch:/path:id</code> and
 * <code>selector:/path:id</code> join an election, and are held while they lead.
 */
final class Locks {
    private final CuratorFramework client;
    private final Coordination coordination;

    Locks(CuratorFramework client, Coordination coordination) {
        this.client = client;
        this.coordination = coordination;
    }

    InterProcessLock make(String text) throws Exception {
        List<InterProcessLock> made = new ArrayList<>();
        for (String one : text.split(",")) {
            made.add(makeOne(one.split(":")));
        }
        return made.size() == 1 ? made.get(0) : new InterProcessMultiLock(made);
    }

    Collection<String> participants(String text) throws Exception {
        String[] words = text.split(":");
        if (words[0].equals("semaphore")) {
            List<String> paths = new ArrayList<>();
            for (String name : semaphore(words).getParticipantNodes()) {
                paths.add(ZKPaths.makePath(words[1], "leases", name));
            }
            return paths;
        }
        if (words[0].equals("latch")) {
            return described(((LatchAsLock) makeOne(words)).participants());
        }
        if (words[0].equals("selector")) {
            return described(((SelectorAsLock) makeOne(words)).participants());
        }
        return ((InterProcessMutex) makeOne(words)).getParticipantNodes();
    }

    private static Collection<String> described(Collection<Participant> participants) {
        List<String> texts = new ArrayList<>();
        for (Participant participant : participants) {
            texts.add(participant.getId() + (participant.isLeader() ? ":leader" : ""));
        }
        return texts;
    }

    private InterProcessLock makeOne(String[] words) throws Exception {
        String path = words[1];
        switch (words[0]) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return new InterProcessReadWriteLock(client, path).readLock();
            case "write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            case "semaphore-mutex":
                return new InterProcessSemaphoreMutex(client, path);
            case "semaphore":
                return new SemaphoreAsLock(semaphore(words), Integer.parseInt(words[3]));
            case "latch":
                return new LatchAsLock(client, path, words[2]);
            case "selector":
                return new SelectorAsLock(client, path, words[2]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private InterProcessSemaphoreV2 semaphore(String[] words) throws Exception {
        return words[2].startsWith("/")
            ? new InterProcessSemaphoreV2(client, words[1], coordination.count(words[2]))
            : new InterProcessSemaphoreV2(client, words[1], Integer.parseInt(words[2]));
    }

    private static final class SemaphoreAsLock implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private final int count;
        private Collection<Lease> leases;

        SemaphoreAsLock(InterProcessSemaphoreV2 semaphore, int count) {
            this.semaphore = semaphore;
            this.count = count;
        }

        @Override
        public void acquire() throws Exception {
            leases = semaphore.acquire(count);
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            leases = semaphore.acquire(count, time, unit);
            return leases != null;
        }

        @Override
        public void release() {
            semaphore.returnAll(leases);
            leases = null;
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return leases != null;
        }
    }
}
