package bench;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;

/**
 * A sink that discards rows after counting them: column 0 is the left row's id, column 1 the right row's.
 *
 * <p>Counts are static, since a mini cluster runs in the process that asks for them. With `period`, rows with a match are
 * also counted by the later publish number of their two sides (id divided by the period) and the moment.
 */
public final class CountingFactory implements DynamicTableSinkFactory {
    private static final LongAdder ROWS = new LongAdder();
    private static final LongAdder MATCHES = new LongAdder();
    private static final LongAdder CHECKSUM = new LongAdder();
    /** Counts by publish number and moment, in hundredths of a second since the class was loaded. */
    private static final Map<Long, LongAdder> ARRIVALS = new ConcurrentSkipListMap<>();

    private static final long EPOCH = System.currentTimeMillis();
    private static final long MOMENTS = 10_000_000L;

    private static final ConfigOption<Long> PERIOD = ConfigOptions.key("period").longType().defaultValue(0L);
    private static final long PRIME = 1_000_000_007L;

    public static void reset() {
        ROWS.reset();
        MATCHES.reset();
        CHECKSUM.reset();
        ARRIVALS.clear();
    }

    /** Rows, rows with a match and checksum, after the sink has been flushed. */
    public static String answer() {
        return ROWS.sum() + " " + MATCHES.sum() + " " + CHECKSUM.sum();
    }

    /** Lines of publish number, moment in milliseconds since 1970 and count. */
    public static String arrivals() {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<Long, LongAdder> entry : ARRIVALS.entrySet()) {
            text.append(entry.getKey() / MOMENTS).append(' ');
            text.append(EPOCH + entry.getKey() % MOMENTS * 10).append(' ');
            text.append(entry.getValue().sum()).append('\n');
        }
        return text.toString();
    }

    @Override
    public String factoryIdentifier() {
        return "counting";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Collections.emptySet();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Collections.singleton(PERIOD);
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new Table(Long.parseLong(context.getCatalogTable().getOptions().getOrDefault("period", "0")));
    }

    private static final class Table implements DynamicTableSink {
        private final long period;

        Table(long period) {
            this.period = period;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return ChangelogMode.insertOnly();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Discarding(period));
        }

        @Override
        public DynamicTableSink copy() {
            return new Table(period);
        }

        @Override
        public String asSummaryString() {
            return "counting";
        }
    }

    private static final class Discarding implements Sink<RowData> {
        private static final long serialVersionUID = 1;
        private final long period;

        Discarding(long period) {
            this.period = period;
        }

        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new Writer(period);
        }
    }

    private static final class Writer implements SinkWriter<RowData> {
        private final long period;
        private long rows;
        private long matches;
        private long checksum;

        Writer(long period) {
            this.period = period;
        }

        @Override
        public void write(RowData row, Context context) {
            rows++;
            long left = row.getLong(0);
            boolean match = !row.isNullAt(1);
            long right = match ? row.getLong(1) : -1;
            checksum += ((left + 1) * (right + 2)) % PRIME;
            if (match) {
                matches++;
            }
            if (period > 0 && match) {
                long number = Math.max(left, right) / period;
                long moment = (System.currentTimeMillis() - EPOCH) / 10;
                ARRIVALS.computeIfAbsent(number * MOMENTS + moment, key -> new LongAdder()).increment();
            }
        }

        @Override
        public void flush(boolean endOfInput) {
            ROWS.add(rows);
            MATCHES.add(matches);
            CHECKSUM.add(checksum);
            rows = matches = checksum = 0;
        }

        @Override
        public void close() {
            flush(true);
        }
    }
}
