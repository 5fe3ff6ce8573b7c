package bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * Kafka Streams' windowed join of two topics, which are filled before the clock starts.
 *
 * <p>Arguments: broker, folders of CSV files (left, right, and both for the warm-up), type, lower and upper bound and grace
 * in milliseconds, a folder for state, and `memory` or `rocksdb`.
 */
public final class StreamsJoin {
    private static final long PRIME = 1_000_000_007L;
    private static final int PARTITIONS = 2;
    /** 1 January 2100: the time of records that close all windows, since Kafka Streams cannot drain. */
    private static final long NEVER = 4_102_444_800_000L;

    private final String broker;
    private final LongAdder inputs = new LongAdder();
    private final LongAdder rows = new LongAdder();
    private final LongAdder matches = new LongAdder();
    private final LongAdder checksum = new LongAdder();
    private final AtomicLong last = new AtomicLong();
    /** Nanoseconds for which the program itself, not the join, has waited. */
    private volatile long waited;
    private long total;

    private StreamsJoin(String broker) {
        this.broker = broker;
    }

    public static void main(String[] args) throws Exception {
        StreamsJoin warm = new StreamsJoin(args[0]);
        warm.load("warm", args[3], args[4]);
        warm.run("warm", args);
        StreamsJoin join = new StreamsJoin(args[0]);
        join.load("full", args[1], args[2]);
        System.out.printf("@@ {\"event\": \"start\", \"state\": [\"%s/full\", \"%s/broker/bench-full-*\"]}%n", args[9], args[9]);
        double seconds = join.run("full", args);
        System.out.printf(
                "@@ {\"event\": \"done\", \"seconds\": %.3f, \"rows\": %d, \"matches\": %d, \"checksum\": %d}%n",
                seconds, join.rows.sum(), join.matches.sum(), join.checksum.sum());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void load(String name, String left, String right) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", broker);
        try (Admin admin = Admin.create(properties)) {
            List<NewTopic> topics = new ArrayList<>();
            for (String side : new String[] {"left", "right"}) {
                topics.add(new NewTopic(name + "-" + side, PARTITIONS, (short) 1));
            }
            admin.createTopics(topics).all().get();
        }
        properties.put("linger.ms", "20");
        properties.put("batch.size", "262144");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            // Both topics file by file: a file of either side holds what arrived in the same interval.
            List<Path> lefts = files(left);
            List<Path> rights = files(right);
            for (int number = 0; number < lefts.size(); number++) {
                total += send(producer, name + "-left", lefts.get(number));
                total += send(producer, name + "-right", rights.get(number));
            }
        }
    }

    /** Lines are `"number","t","key","payload",...`; the value is the number and what follows the key. */
    private static long send(KafkaProducer<String, String> producer, String topic, Path file) throws IOException {
        long count = 0;
        try (BufferedReader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
            reader.readLine();
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                int first = line.indexOf(',');
                int second = line.indexOf(',', first + 1);
                int third = line.indexOf(',', second + 1);
                String key = line.substring(second + 2, third - 1);
                String value = line.substring(0, first) + line.substring(third);
                producer.send(new ProducerRecord<>(topic, null, Long.parseLong(line.substring(first + 1, second)), key, value));
                count++;
            }
        }
        return count;
    }

    private static List<Path> files(String folder) throws IOException {
        try (Stream<Path> found = Files.list(Path.of(folder))) {
            return found.filter(path -> path.toString().endsWith(".csv")).sorted().toList();
        }
    }

    private double run(String name, String[] args) throws Exception {
        boolean left = args[5].equals("left");
        Duration grace = Duration.ofMillis(Long.parseLong(args[8]));
        JoinWindows windows =
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, grace)
                        .before(Duration.ofMillis(-Long.parseLong(args[6])))
                        .after(Duration.ofMillis(Long.parseLong(args[7])));
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> consumed = Consumed.with(Serdes.String(), Serdes.String());
        KStream<String, String> lefts = builder.stream(name + "-left", consumed).peek((key, value) -> inputs.increment());
        KStream<String, String> rights = builder.stream(name + "-right", consumed).peek((key, value) -> inputs.increment());
        StreamJoined<String, String, String> joined =
                StreamJoined.<String, String, String>with(Serdes.String(), Serdes.String(), Serdes.String())
                        .withDslStoreSuppliers(
                                args[10].equals("memory") ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB);
        KStream<String, String> output =
                left
                        ? lefts.leftJoin(rights, StreamsJoin::pair, windows, joined)
                        : lefts.join(rights, StreamsJoin::pair, windows, joined);
        output.foreach((key, value) -> count(value));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench-" + name);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, args[9] + "/" + name);
        properties.put("auto.offset.reset", "earliest");
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            long started = System.nanoTime();
            last.set(started);
            streams.start();
            await(total);
            finish(name);
            return (last.get() - started) / 1e9;
        }
    }

    private void await(long count) throws InterruptedException {
        while (inputs.sum() < count) {
            Thread.sleep(20);
        }
    }

    /** Close all windows: twice, since unmatched rows are only looked for once a second. */
    private void finish(String name) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", broker);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int round = 0; round < 2; round++) {
                Thread.sleep(1100);
                waited += 1_100_000_000L;
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    for (String side : new String[] {"left", "right"}) {
                        long time = NEVER + round;
                        producer.send(new ProducerRecord<>(name + "-" + side, partition, time, "end-" + side, "-1,0"));
                    }
                }
                producer.flush();
                total += 2L * PARTITIONS;
                await(total);
            }
        }
        Thread.sleep(500);
    }

    private static String pair(String left, String right) {
        return right == null ? left : left + "|" + right;
    }

    private void count(String value) {
        long left = Long.parseLong(value, 0, value.indexOf(','), 10);
        if (left < 0) {
            return;
        }
        int bar = value.indexOf('|');
        long right = bar < 0 ? -1 : Long.parseLong(value, bar + 1, value.indexOf(',', bar), 10);
        rows.increment();
        if (bar >= 0) {
            matches.increment();
        }
        checksum.add(((left + 1) * (right + 2)) % PRIME);
        last.set(System.nanoTime() - waited);
    }
}
