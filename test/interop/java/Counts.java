import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;

/** Curator's shared counts, one for each path. Each change is sent as an event. */
final class Counts {
    private final CuratorFramework client;
    private final Map<String, SharedCount> byPath = new ConcurrentHashMap<>();

    Counts(CuratorFramework client) {
        this.client = client;
    }

    SharedCount at(String path) {
        return byPath.get(path);
    }

    String handle(List<String> words) throws Exception {
        String path = words.get(1);
        switch (words.get(0)) {
            case "start":
                start(path, Integer.parseInt(words.get(2)));
                return "";
            case "get":
                return String.valueOf(at(path).getCount());
            case "set":
                at(path).setCount(Integer.parseInt(words.get(2)));
                return "";
            case "try-set":
                return String.valueOf(at(path).trySetCount(at(path).getVersionedValue(), Integer.parseInt(words.get(2))));
            case "close":
                byPath.remove(path).close();
                return "";
            default:
                throw new IllegalArgumentException(words.get(0));
        }
    }

    /** @param seed the value of a count that does not exist yet */
    private void start(String path, int seed) throws Exception {
        SharedCount count = new SharedCount(client, path, seed);
        count.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int value) {
                CuratorPeer.say("event count " + path + " " + value);
            }

            @Override
            public void stateChanged(CuratorFramework framework, ConnectionState state) {
            }
        });
        count.start();
        byPath.put(path, count);
    }
}
