import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Answers questions about ACLs by Kafka's own authorizer: one line in, for each question one line out. */
public final class AuthorizerWitness {
    private static final String NOTHING = "-";

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 1; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    private static StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            var fields = line.split("\t", -1);
            switch (fields[0]) {
                case "begin" -> begin(fields[1], fields[2]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), StandardAcl.fromAclBinding(binding(fields, 1)));
                case "ready" -> authorizer.completeInitialLoad();
                case "may" -> out.write(may(fields) + "\n");
                case "filter" -> out.write(filter(fields).matches(binding(fields, 8)) ? "1\n" : "0\n");
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void begin(String superUsers, String everyone) {
        authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
            "super.users", superUsers, "allow.everyone.if.no.acl.found", everyone, "node.id", "1", "process.roles", "broker"));
    }

    /** kind, pattern, name, principal, host, operation, permission. */
    private static AclBinding binding(String[] fields, int at) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.fromString(fields[at]), fields[at + 2], PatternType.fromString(fields[at + 1])),
            new AccessControlEntry(
                fields[at + 3], fields[at + 4], AclOperation.fromString(fields[at + 5]),
                AclPermissionType.fromString(fields[at + 6])));
    }

    private static AclBindingFilter filter(String[] fields) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromString(fields[1]), wanted(fields[3]), PatternType.fromString(fields[2])),
            new AccessControlEntryFilter(
                wanted(fields[4]), wanted(fields[5]), AclOperation.fromString(fields[6]),
                AclPermissionType.fromString(fields[7])));
    }

    private static String wanted(String field) {
        return field.equals(NOTHING) ? null : field;
    }

    /** Of one resource, and of any of its kind. */
    private static String may(String[] fields) throws Exception {
        var who = fields[1].split(":", 2);
        var client = new Client(new KafkaPrincipal(who[0], who[1]), InetAddress.getByName(fields[2]));
        var operation = AclOperation.fromString(fields[3]);
        var kind = ResourceType.fromString(fields[4]);
        var resource = new ResourcePattern(kind, fields[5], PatternType.LITERAL);
        var one = authorizer.authorize(client, List.of(new Action(operation, resource, 1, false, false))).get(0);
        var any = authorizer.authorizeByResourceType(client, operation, kind);
        return bit(one) + bit(any);
    }

    private static String bit(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "1" : "0";
    }
}
