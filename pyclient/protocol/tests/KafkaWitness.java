import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Encodes messages with Kafka's own generated classes and tells where other bytes were expected.
 *
 * <p>Reads lines {@code kind class key version correlationId clientId bytes json}, separated by tabs, bytes in base64. Kind
 * is request or response (bytes: a whole frame) or record (bytes: the message alone). For each line the JSON becomes an
 * object of that class, the object bytes; these must equal the bytes given, and the bytes given must decode to the object.
 * Prints a line per difference, and at the end the number of lines that it read.
 *
 * <p>With the argument {@code tables} it prints Kafka's tables of APIs and errors instead.
 */
public final class KafkaWitness {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    /** How to make a message of a class, from JSON and from bytes. */
    private record Maker(MethodHandle fromJson, MethodHandle empty) {
        static Maker of(String name) throws ReflectiveOperationException {
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            Class<?> message = Class.forName(name);
            Class<?> converter = Class.forName(name + "JsonConverter");
            MethodType read = MethodType.methodType(message, JsonNode.class, short.class);
            return new Maker(
                    lookup.findStatic(converter, "read", read),
                    lookup.findConstructor(message, MethodType.methodType(void.class)));
        }

        Message read(JsonNode json, short version) throws Throwable {
            return (Message) fromJson.invoke(json, version);
        }

        Message read(ByteBuffer bytes, short version) throws Throwable {
            Message message = (Message) empty.invoke();
            message.read(new ByteBufferAccessor(bytes), version);
            return message;
        }
    }

    private static final Map<String, Maker> MAKERS = new HashMap<>();

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static byte[] header(String kind, short key, short version, int correlationId, String clientId) {
        if (kind.equals("record")) {
            return new byte[0];
        }
        ApiKeys api = ApiKeys.forId(key);
        if (kind.equals("response")) {
            ResponseHeaderData header = new ResponseHeaderData().setCorrelationId(correlationId);
            return bytes(header, api.responseHeaderVersion(version));
        }
        RequestHeaderData header = new RequestHeaderData()
                .setRequestApiKey(key).setRequestApiVersion(version).setCorrelationId(correlationId).setClientId(clientId);
        return bytes(header, api.requestHeaderVersion(version));
    }

    private static byte[] frame(String kind, byte[] header, byte[] message) {
        if (kind.equals("record")) {
            return message;
        }
        int size = header.length + message.length;
        return ByteBuffer.allocate(4 + size).putInt(size).put(header).put(message).array();
    }

    private static void compare(String[] row) throws Throwable {
        String kind = row[0];
        short version = Short.parseShort(row[3]);
        Maker maker = MAKERS.get(row[1]);
        if (maker == null) {
            maker = Maker.of(row[1]);
            MAKERS.put(row[1], maker);
        }
        byte[] given = Base64.getDecoder().decode(row[6]);
        Message message = maker.read(MAPPER.readTree(row[7]), version);
        byte[] header = header(kind, Short.parseShort(row[2]), version, Integer.parseInt(row[4]), row[5]);
        byte[] expected = frame(kind, header, bytes(message, version));
        int start = kind.equals("record") ? 0 : 4 + header.length;
        if (!Arrays.equals(given, expected)) {
            report(row, "Kafka's bytes are " + Base64.getEncoder().encodeToString(expected));
        } else if (!maker.read(ByteBuffer.wrap(given, start, given.length - start), version).equals(message)) {
            report(row, "Kafka decodes another message");
        }
    }

    private static void report(String[] row, String what) {
        System.out.println(row[1] + " version " + row[3] + ": " + what + " for " + row[6] + " of " + row[7]);
    }

    private static void tables() {
        for (ApiKeys api : ApiKeys.values()) {
            System.out.println("api\t" + api.id + "\t" + api.name + "\t" + api.oldestVersion() + "\t" + api.latestVersion(false));
        }
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            boolean stale = error.exception() instanceof InvalidMetadataException;
            System.out.println("error\t" + error.code() + "\t" + error.name() + "\t" + retriable + "\t" + stale);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            tables();
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        int count = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] row = line.split("\t", 8);
            try {
                compare(row);
            } catch (Throwable error) {
                report(row, error.toString());
            }
            count++;
        }
        System.out.println(count);
    }
}
