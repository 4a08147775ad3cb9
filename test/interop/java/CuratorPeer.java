import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's side of the interop tests. Each message is a line of words:
 *
 *   in   <id> <request> <word>...   answered by   <id> ok <word>...   or   <id> error <text>
 *   out  visit <ticket> <id>        answered by   done <ticket>; until then this side holds the lock of request <id>
 *   out  event <word>...
 *
 * Exits when its input ends.
 */
public final class CuratorPeer {
    private final CuratorFramework client;
    private final Locks locks;
    private final Coordination coordination;
    private final Queues queues;
    private final ExecutorService requests = Executors.newCachedThreadPool();
    private final Map<String, Holder> holders = new ConcurrentHashMap<>();
    private final Map<String, CompletableFuture<Void>> visits = new ConcurrentHashMap<>();

    private CuratorPeer(String connectString, int sessionTimeout) {
        client = CuratorFrameworkFactory.builder()
            .connectString(connectString)
            .sessionTimeoutMs(sessionTimeout)
            .connectionTimeoutMs(10_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
        coordination = new Coordination(client);
        queues = new Queues(client);
        locks = new Locks(client, coordination);
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0], Integer.parseInt(args[1]));
        peer.client.start();
        peer.client.blockUntilConnected();
        say("event ready");
        peer.serve();
        System.exit(0);
    }

    static void say(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words = Arrays.asList(line.split(" "));
            if (words.get(0).equals("done")) {
                visits.remove(words.get(1)).complete(null);
            } else {
                requests.execute(() -> answer(words.get(0), words.get(1), words.subList(2, words.size())));
            }
        }
    }

    private void answer(String id, String request, List<String> words) {
        try {
            say((id + " ok " + handle(id, request, words)).trim());
        } catch (Exception e) {
            say(id + " error " + e.toString().replace('\n', ' '));
        }
    }

    private String handle(String id, String request, List<String> words) throws Exception {
        switch (request) {
            case "contend":
                contend(id, locks.make(words.get(0)), Integer.parseInt(words.get(1)));
                return "";
            case "acquire":
            case "acquire-revocable": {
                Holder holder = new Holder(words.get(0), locks.make(words.get(1)));
                holders.put(words.get(0), holder);
                if (request.endsWith("revocable")) {
                    holder.releaseWhenRevoked();
                }
                return String.valueOf(holder.acquire(Long.parseLong(words.get(2))));
            }
            case "acquire-again":
                return String.valueOf(holders.get(words.get(0)).acquire(Long.parseLong(words.get(1))));
            case "release":
                holders.remove(words.get(0)).release();
                return "";
            case "participants":
                return String.join(" ", locks.participants(words.get(0)));
            case "revoke":
                Revoker.attemptRevoke(client, words.get(0));
                return "";
            case "queue":
                return queues.handle(words);
            default:
                return coordination.handle(request, words);
        }
    }

    /** Acquires and releases on one thread, as reentrant locks require. */
    private void contend(String id, InterProcessLock lock, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            if (!lock.acquire(Holder.LONG, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("no grant within " + Holder.LONG + " ms in round " + round);
            }
            try {
                visit(id, id + "-" + round);
            } finally {
                lock.release();
            }
        }
    }

    private void visit(String id, String ticket) throws Exception {
        CompletableFuture<Void> over = new CompletableFuture<>();
        visits.put(ticket, over);
        say("visit " + ticket + " " + id);
        over.get();
    }
}
