import java.util.Arrays;
import java.util.Locale;

/** The durations of cycles in nanoseconds. */
final class Times {
    private long[] cycles = new long[1024];
    private long[] waits = new long[1024];
    private int count;
    private long longestWait;

    /** Counts cycles that ended between `from` and `until`. The longest wait may be any. */
    void add(long asked, long granted, long done, long from, long until) {
        longestWait = Math.max(longestWait, granted - asked);
        if (done < from || done >= until) {
            return;
        }
        reserve(count + 1);
        cycles[count] = done - asked;
        waits[count++] = granted - asked;
    }

    void addAll(Times others) {
        reserve(count + others.count);
        System.arraycopy(others.cycles, 0, cycles, count, others.count);
        System.arraycopy(others.waits, 0, waits, count, others.count);
        count += others.count;
        longestWait = Math.max(longestWait, others.longestWait);
    }

    int count() {
        return count;
    }

    String toJson(long[] shares) {
        return String.format(
            Locale.ROOT,
            "{\"shares\":%s,\"p50\":%s,\"p99\":%s,\"p999\":%s,\"waitP50\":%s,\"longestWait\":%.4f}",
            Arrays.toString(shares), percentile(cycles, 0.5), percentile(cycles, 0.99),
            percentile(cycles, 0.999), percentile(waits, 0.5), longestWait / 1e6);
    }

    private String percentile(long[] values, double part) {
        long[] sorted = Arrays.copyOf(values, count);
        Arrays.sort(sorted);
        return count == 0
            ? "null"
            : String.format(Locale.ROOT, "%.4f", sorted[Math.max(0, (int) Math.ceil(part * count) - 1)] / 1e6);
    }

    private void reserve(int length) {
        if (length > cycles.length) {
            int longer = Math.max(length, 2 * cycles.length);
            cycles = Arrays.copyOf(cycles, longer);
            waits = Arrays.copyOf(waits, longer);
        }
    }
}
