import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts flights per route, exactly once: lines of CSV in, through a repartition topic by route, into a state store with
 * its changelog, and every new count out, so that the counts of a route read 1, 2, 3 … without a gap or a repetition.
 *
 * Arguments: bootstrap, state folder, application id, input, output, then key=value settings. Prints "state S" whenever
 * its state changes. A stream thread that dies, since its transaction was given up, is replaced. Ends in order on SIGTERM.
 */
public final class FlightsPerRoute {
    private static final int ORIGIN = 12;
    private static final int DESTINATION = 13;

    public static void main(String[] arguments) throws Exception {
        var config = config(arguments);
        var streams = new KafkaStreams(topology(arguments[3], arguments[4]).build(), config);
        var ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(thrown -> {
            thrown.printStackTrace(System.out);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(60))));
        streams.start();
        ended.await();
    }

    private static StreamsBuilder topology(String input, String output) {
        var builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .map((key, line) -> new KeyValue<>(route(line), line))
            .repartition(Repartitioned.with(Serdes.String(), Serdes.String()).withName("by-route"))
            .groupByKey()
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long())
                .withCachingDisabled())
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static String route(String line) {
        String[] fields = line.split(",", DESTINATION + 2);
        return fields[ORIGIN] + "-" + fields[DESTINATION];
    }

    private static Properties config(String[] arguments) {
        var config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        config.put("auto.offset.reset", "earliest");
        for (int place = 5; place < arguments.length; place++) {
            String[] pair = arguments[place].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        return config;
    }
}
