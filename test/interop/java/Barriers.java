import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Curator's barriers. The members of double barriers have names. */
final class Barriers {
    private final CuratorFramework client;
    private final Map<String, DistributedDoubleBarrier> members = new ConcurrentHashMap<>();

    Barriers(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) throws Exception {
        String target = words.get(1);
        long wait = words.size() > 2 ? Long.parseLong(words.get(2)) : 0;
        switch (words.get(0)) {
            case "set":
                new DistributedBarrier(client, target).setBarrier();
                return "";
            case "remove":
                new DistributedBarrier(client, target).removeBarrier();
                return "";
            case "wait":
                return String.valueOf(new DistributedBarrier(client, target).waitOnBarrier(wait, TimeUnit.MILLISECONDS));
            case "join":
                members.put(target, new DistributedDoubleBarrier(client, words.get(3), (int) wait));
                return "";
            case "enter":
                return String.valueOf(members.get(target).enter(wait, TimeUnit.MILLISECONDS));
            case "leave":
                return String.valueOf(members.get(target).leave(wait, TimeUnit.MILLISECONDS));
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }
}
