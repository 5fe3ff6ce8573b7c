package bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;
import java.util.PriorityQueue;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.assigners.FileSplitAssigner;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.hadoop.conf.Configuration;

/** A folder of Parquet files as a stream in the order of file names, which is the order of arrival. */
public final class Files {
    private Files() {}

    /** Rows of a folder; watches it for more every so many milliseconds, or ends with it if that is zero. */
    public static DataStream<RowData> stream(
            StreamExecutionEnvironment environment, String folder, RowType type, String name, long watch) {
        ParquetColumnarRowInputFormat<FileSourceSplit> format =
                new ParquetColumnarRowInputFormat<>(
                        new Configuration(), type, InternalTypeInfo.of(type), 2048, true, true);
        FileSource.FileSourceBuilder<RowData> builder =
                FileSource.forBulkFileFormat(format, new Path(folder)).setSplitAssigner(Ordered::new);
        if (watch > 0) {
            builder = builder.monitorContinuously(Duration.ofMillis(watch));
        }
        return environment
                .fromSource(builder.build(), WatermarkStrategy.noWatermarks(), name, InternalTypeInfo.of(type))
                .setParallelism(1);
    }

    /** Hands out files by name: Flink's own assigners do not keep an order. */
    private static final class Ordered implements FileSplitAssigner {
        private final PriorityQueue<FileSourceSplit> waiting =
                new PriorityQueue<>(Comparator.comparing((FileSourceSplit split) -> split.path().getName()));

        Ordered(Collection<FileSourceSplit> splits) {
            waiting.addAll(splits);
        }

        @Override
        public Optional<FileSourceSplit> getNext(String host) {
            return Optional.ofNullable(waiting.poll());
        }

        @Override
        public void addSplits(Collection<FileSourceSplit> splits) {
            waiting.addAll(splits);
        }

        @Override
        public Collection<FileSourceSplit> remainingSplits() {
            return new ArrayList<>(waiting);
        }
    }
}
