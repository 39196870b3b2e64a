import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, asked line by line: {@code {assignor, racks, members}} gives {@code {member: [[topic, partition]]}}
 * or {@code {"error": …}}. A member is {@code {id, topics, instance, owned, generation, userData, rack}}, user data in base64;
 * {@code racks} are by topic and partition the racks of its replicas.
 */
public final class AssignorWitness {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private static AbstractPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Node[] nodes(JsonNode racks) {
        Node[] found = new Node[racks.size()];
        for (int id = 0; id < found.length; id++) {
            found[id] = new Node(id, "", 0, racks.get(id).textValue());
        }
        return found;
    }

    private static Map<String, List<PartitionInfo>> partitions(JsonNode racks) {
        Map<String, List<PartitionInfo>> found = new HashMap<>();
        racks.properties().forEach(topic -> {
            List<PartitionInfo> rows = new ArrayList<>();
            for (JsonNode partition : topic.getValue()) {
                Node[] replicas = nodes(partition);
                rows.add(new PartitionInfo(topic.getKey(), rows.size(), Node.noNode(), replicas, replicas));
            }
            found.put(topic.getKey(), rows);
        });
        return found;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(row -> owned.add(new TopicPartition(row.get(0).asText(), row.get(1).asInt())));
        byte[] data = Base64.getDecoder().decode(member.get("userData").asText());
        ByteBuffer userData = data.length == 0 ? null : ByteBuffer.wrap(data);
        Optional<String> rack = Optional.ofNullable(member.get("rack").textValue());
        Subscription found = new Subscription(topics, userData, owned, member.get("generation").asInt(), rack);
        found.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
        return found;
    }

    private static ObjectNode answer(JsonNode question) {
        Map<String, Subscription> members = new HashMap<>();
        question.get("members").forEach(member -> members.put(member.get("id").asText(), subscription(member)));
        AbstractPartitionAssignor assignor = assignor(question.get("assignor").asText());
        ObjectNode found = MAPPER.createObjectNode();
        assignor.assignPartitions(partitions(question.get("racks")), members).forEach((id, rows) -> {
            ArrayNode list = found.putArray(id);
            rows.forEach(row -> list.addArray().add(row.topic()).add(row.partition()));
        });
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode found;
            try {
                found = answer(MAPPER.readTree(line));
            } catch (RuntimeException | AssertionError error) {
                found = MAPPER.createObjectNode().put("error", error.toString());
            }
            System.out.println(MAPPER.writeValueAsString(found));
        }
    }
}
