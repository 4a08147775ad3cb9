import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/** Curator's PersistentNode and PersistentTtlNode, one for each path. */
final class Nodes {
    private final CuratorFramework client;
    private final Map<String, Closeable> nodes = new ConcurrentHashMap<>();

    Nodes(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) throws IOException, InterruptedException {
        String path = words.get(1);
        switch (words.get(0)) {
            case "keep": {
                CreateMode mode = CreateMode.valueOf(words.get(2));
                PersistentNode node = new PersistentNode(client, mode, false, path, bytes(words.get(3)));
                nodes.put(path, node);
                node.start();
                return String.valueOf(node.waitForInitialCreate(30, TimeUnit.SECONDS));
            }
            case "keep-ttl": {
                PersistentTtlNode node =
                    new PersistentTtlNode(client, path, Long.parseLong(words.get(2)), bytes(words.get(3)));
                nodes.put(path, node);
                node.start();
                return String.valueOf(node.waitForInitialCreate(30, TimeUnit.SECONDS));
            }
            case "close":
                nodes.remove(path).close();
                return "";
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
