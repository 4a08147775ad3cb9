import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;

/** Curator's GroupMember. */
final class Members {
    private final CuratorFramework client;
    private final Map<String, GroupMember> members = new ConcurrentHashMap<>();

    Members(CuratorFramework client) {
        this.client = client;
    }

    String handle(List<String> words) {
        String id = words.get(1);
        switch (words.get(0)) {
            case "join": {
                GroupMember member = new GroupMember(client, words.get(2), id, bytes(words.get(3)));
                members.put(id, member);
                member.start();
                return "";
            }
            case "set":
                members.get(id).setThisData(bytes(words.get(2)));
                return "";
            case "current": {
                StringBuilder current = new StringBuilder();
                Map<String, byte[]> sorted = new TreeMap<>(members.get(id).getCurrentMembers());
                sorted.forEach((each, data) ->
                    current.append(each).append('=').append(new String(data, StandardCharsets.UTF_8)).append(' '));
                return current.toString();
            }
            case "leave":
                members.remove(id).close();
                return "";
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
