import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Kafka's Java clients and tools, driven from outside: one JVM holds as many of them as a test needs.
 *
 * A request is a line of JSON on stdin, {"id", "on", "call", "with"}; its answer is a line on stdout,
 * {"id", "result"} or {"id", "errors", "message"}, where errors are the classes of the exception and of its causes, and
 * for a consumer "events", what its rebalance listener has heard since the last answer. "on" names a client: its first call is "producer" or "consumer", with its config; the calls of
 * one client run one after the other in a thread of their own, so that a blocking one holds up nobody else. "wakeup"
 * is the exception: it goes to a consumer that is inside another call. Calls without "on" are those of the JVM.
 * Bytes travel as text of one character a byte. The end of stdin ends the program.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Charset BYTES = StandardCharsets.ISO_8859_1;
    private static final PrintStream ANSWERS = System.out;
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();
    private static final ExecutorService TOOLS = Executors.newSingleThreadExecutor(Driver::daemon);

    /** What a request asks for. */
    private interface Call {
        Object run(JsonNode with) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            take(JSON.readTree(line));
        }
        Runtime.getRuntime().exit(0);
    }

    private static void take(JsonNode request) {
        String call = request.path("call").asText();
        JsonNode with = request.path("with");
        if (request.path("on").isMissingNode()) {
            TOOLS.submit(() -> answer(request, () -> Tool.run(with)));
            return;
        }
        Client client = CLIENTS.computeIfAbsent(request.path("on").asText(), name -> new Client());
        if (call.equals("wakeup")) {
            answer(request, () -> client.call(call, with));
        } else {
            client.thread.submit(() -> answer(request, () -> client.call(call, with)));
        }
    }

    private static void answer(JsonNode request, Callable<Object> work) {
        var reply = new LinkedHashMap<String, Object>();
        reply.put("id", request.path("id").asLong());
        try {
            reply.put("result", work.call());
        } catch (Throwable thrown) {
            reply.put("errors", chain(thrown));
            reply.put("message", String.valueOf(thrown));
        }
        Client client = CLIENTS.get(request.path("on").asText());
        if (client != null && client.consuming != null) {
            reply.put("events", client.consuming.drained());
        }
        say(reply);
    }

    /** The names of an exception's class and of its causes'. */
    private static List<String> chain(Throwable thrown) {
        var names = new ArrayList<String>();
        for (Throwable one = thrown; one != null && names.size() < 10; one = one.getCause()) {
            if (!(one instanceof ExecutionException)) {
                names.add(one.getClass().getSimpleName());
            }
        }
        return names;
    }

    private static synchronized void say(Map<String, Object> reply) {
        try {
            ANSWERS.println(JSON.writeValueAsString(reply));
            ANSWERS.flush();
        } catch (Exception unexpected) {
            unexpected.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static Thread daemon(Runnable work) {
        var thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() || text.isMissingNode() ? null : text.asText().getBytes(BYTES);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, BYTES);
    }

    private static Properties properties(JsonNode with) {
        var found = new Properties();
        with.fields().forEachRemaining(field -> found.put(field.getKey(), field.getValue().asText()));
        return found;
    }

    private static Duration time(JsonNode with) {
        return Duration.ofMillis(with.path("timeout_ms").asLong(60_000));
    }

    private static List<Object> row(TopicPartition place, Object... more) {
        var row = new ArrayList<Object>(List.of(place.topic(), place.partition()));
        row.addAll(java.util.Arrays.asList(more));
        return row;
    }

    private static List<Object> rows(Collection<TopicPartition> places) {
        return new ArrayList<>(places.stream().map(place -> row(place)).toList());
    }

    private static List<TopicPartition> places(JsonNode rows) {
        var found = new ArrayList<TopicPartition>();
        rows.forEach(row -> found.add(new TopicPartition(row.get(0).asText(), row.get(1).asInt())));
        return found;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode rows) {
        var found = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (JsonNode row : rows) {
            String metadata = row.size() > 3 ? row.get(3).asText() : "";
            found.put(
                new TopicPartition(row.get(0).asText(), row.get(1).asInt()),
                new OffsetAndMetadata(row.get(2).asLong(), metadata));
        }
        return found;
    }

    /** A producer or a consumer, with its thread; before its first call neither. */
    private static final class Client {
        final ExecutorService thread = Executors.newSingleThreadExecutor(Driver::daemon);
        private volatile Map<String, Call> calls =
            Map.of("producer", this::openProducer, "consumer", this::openConsumer);
        private volatile Consuming consuming;

        /** What a producer needs of its consumer; asked for in the consumer's own thread. */
        ConsumerGroupMetadata groupMetadata() throws Exception {
            return thread.submit(() -> consuming.consumer.groupMetadata()).get();
        }

        Object call(String name, JsonNode with) throws Exception {
            Call call = calls.get(name);
            if (call == null) {
                throw new IllegalArgumentException("no call " + name);
            }
            return call.run(with);
        }

        private Object openProducer(JsonNode with) {
            calls = new Producing(properties(with)).calls();
            return null;
        }

        private Object openConsumer(JsonNode with) {
            consuming = new Consuming(properties(with));
            calls = consuming.calls();
            return null;
        }
    }

    /** The calls of a producer. */
    private static final class Producing {
        private final KafkaProducer<byte[], byte[]> producer;
        private final List<Future<RecordMetadata>> sent = new ArrayList<>();

        Producing(Properties config) {
            producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        }

        Map<String, Call> calls() {
            var calls = new HashMap<String, Call>();
            calls.put("init", with -> nothing(producer::initTransactions));
            calls.put("begin", with -> nothing(producer::beginTransaction));
            calls.put("commit", with -> nothing(producer::commitTransaction));
            calls.put("abort", with -> nothing(producer::abortTransaction));
            calls.put("send", this::send);
            calls.put("flush", this::flush);
            calls.put("send_offsets", this::sendOffsets);
            calls.put("close", with -> nothing(() -> producer.close(time(with))));
            return calls;
        }

        private Object nothing(Runnable work) {
            work.run();
            return null;
        }

        /** Rows of topic, partition or null, key or null, value or null; told of by the next flush. */
        private Object send(JsonNode with) {
            for (JsonNode row : with.path("records")) {
                Integer partition = row.get(1).isNull() ? null : row.get(1).asInt();
                sent.add(producer.send(
                    new ProducerRecord<>(row.get(0).asText(), partition, bytes(row.get(2)), bytes(row.get(3)))));
            }
            return sent.size();
        }

        /** Rows of topic, partition, offset of what was sent since the last flush, in that order; the first error. */
        private Object flush(JsonNode with) throws Exception {
            producer.flush();
            var done = List.copyOf(sent);
            sent.clear();
            var found = new ArrayList<Object>();
            for (Future<RecordMetadata> one : done) {
                RecordMetadata place = one.get();
                found.add(List.of(place.topic(), place.partition(), place.offset()));
            }
            return found;
        }

        private Object sendOffsets(JsonNode with) throws Exception {
            var group = with.has("group")
                ? new ConsumerGroupMetadata(with.get("group").asText())
                : CLIENTS.get(with.get("consumer").asText()).groupMetadata();
            producer.sendOffsetsToTransaction(offsets(with.get("offsets")), group);
            return null;
        }
    }

    /** The calls of a consumer. */
    private static final class Consuming implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final List<Object> events = new ArrayList<>();

        /** What the listener heard since the last call. */
        synchronized List<Object> drained() {
            var found = List.copyOf(events);
            events.clear();
            return found;
        }

        private synchronized void heard(String kind, Collection<TopicPartition> partitions) {
            events.add(List.of(kind, rows(partitions)));
        }

        Consuming(Properties config) {
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        Map<String, Call> calls() {
            var calls = new HashMap<String, Call>();
            calls.put("subscribe", this::subscribe);
            calls.put("unsubscribe", with -> nothing(consumer::unsubscribe));
            calls.put("assign", with -> nothing(() -> consumer.assign(places(with.path("partitions")))));
            calls.put("assignment", with -> rows(consumer.assignment()));
            calls.put("seek", this::seek);
            calls.put("poll", this::poll);
            calls.put("commit", this::commit);
            calls.put("committed", this::committed);
            calls.put("position", with -> consumer.position(places(with.path("partitions")).get(0), time(with)));
            calls.put("end_offsets", this::endOffsets);
            calls.put("pause", with -> nothing(() -> consumer.pause(places(with.path("partitions")))));
            calls.put("resume", with -> nothing(() -> consumer.resume(places(with.path("partitions")))));
            calls.put("member", with -> member());
            calls.put("rebalance", with -> nothing(consumer::enforceRebalance));
            calls.put("wakeup", with -> nothing(consumer::wakeup));
            calls.put("close", with -> nothing(() -> consumer.close(time(with))));
            return calls;
        }

        private Object nothing(Runnable work) {
            work.run();
            return null;
        }

        private Object subscribe(JsonNode with) {
            if (with.has("pattern")) {
                consumer.subscribe(Pattern.compile(with.get("pattern").asText()), this);
            } else if (with.has("regex")) {
                consumer.subscribe(new SubscriptionPattern(with.get("regex").asText()), this);
            } else {
                var topics = new ArrayList<String>();
                with.path("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
            }
            return null;
        }

        private Object seek(JsonNode with) {
            offsets(with.path("offsets")).forEach(consumer::seek);
            return null;
        }

        /** At most "limit" records; the consumer goes back to the first that it gave in vain. */
        private Object poll(JsonNode with) {
            int limit = with.path("limit").asInt(Integer.MAX_VALUE);
            var found = new ArrayList<Object>();
            var back = new HashMap<TopicPartition, Long>();
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(time(with))) {
                var place = new TopicPartition(record.topic(), record.partition());
                if (found.size() < limit) {
                    found.add(row(place, record.offset(), text(record.key()), text(record.value())));
                } else {
                    back.putIfAbsent(place, record.offset());
                }
            }
            back.forEach(consumer::seek);
            return found;
        }

        private Object commit(JsonNode with) {
            if (with.path("asynchronous").asBoolean() && with.has("offsets")) {
                consumer.commitAsync(offsets(with.get("offsets")), null);
            } else if (with.path("asynchronous").asBoolean()) {
                consumer.commitAsync();
            } else if (with.has("offsets")) {
                consumer.commitSync(offsets(with.get("offsets")), time(with));
            } else {
                consumer.commitSync(time(with));
            }
            return null;
        }

        private Object committed(JsonNode with) {
            var found = new ArrayList<Object>();
            var asked = new java.util.HashSet<>(places(with.path("partitions")));
            consumer.committed(asked, time(with)).forEach((place, offset) -> {
                if (offset != null) {
                    found.add(row(place, offset.offset(), offset.metadata()));
                }
            });
            return found;
        }

        private Object endOffsets(JsonNode with) {
            var found = new ArrayList<Object>();
            consumer.endOffsets(places(with.path("partitions")), time(with))
                .forEach((place, offset) -> found.add(row(place, offset)));
            return found;
        }

        private Object member() {
            ConsumerGroupMetadata found = consumer.groupMetadata();
            return List.of(found.groupId(), found.generationId(), found.memberId());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            heard("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            heard("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            heard("lost", partitions);
        }
    }

    /** A tool of Kafka's, run in this JVM by its main method, with streams of its own. */
    private static final class Tool {
        /** A tool has called exit. */
        private static final class Ended extends RuntimeException {
            final int code;

            Ended(int code) {
                super("exit " + code, null, false, false);
                this.code = code;
            }
        }

        static Object run(JsonNode with) throws Exception {
            PrintStream out = System.out;
            PrintStream errors = System.err;
            InputStream in = System.in;
            var printed = new ByteArrayOutputStream();
            var complained = new ByteArrayOutputStream();
            Exit.setExitProcedure((code, message) -> {
                throw new Ended(code);
            });
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            System.setIn(new ByteArrayInputStream(with.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
            int code;
            try {
                code = invoke(with);
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(out);
                System.setErr(errors);
                System.setIn(in);
            }
            return List.of(
                code, printed.toString(StandardCharsets.UTF_8), complained.toString(StandardCharsets.UTF_8));
        }

        private static int invoke(JsonNode with) throws Exception {
            var arguments = new ArrayList<String>();
            with.path("arguments").forEach(argument -> arguments.add(argument.asText()));
            var main = Class.forName(with.get("class").asText()).getMethod("main", String[].class);
            try {
                main.invoke(null, (Object) arguments.toArray(new String[0]));
                return 0;
            } catch (InvocationTargetException thrown) {
                if (thrown.getCause() instanceof Ended ended) {
                    return ended.code;
                }
                thrown.getCause().printStackTrace();
                return 1;
            }
        }
    }
}
