import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import javax.security.auth.x500.X500Principal;

import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Names users by Java's and Kafka's own classes: one line of a kind and fields in, one line out. */
public final class PrincipalWitness {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            var fields = line.split("\t", -1);
            out.write(switch (fields[0]) {
                case "subject" -> told(() -> new X500Principal(Base64.getDecoder().decode(fields[1])).getName());
                case "mapping" -> mapped(text(fields[1]), text(fields[2]));
                case "kerberos" -> named(texts(fields[1]), text(fields[2]), text(fields[3]));
                default -> throw new IllegalArgumentException(line);
            });
            out.newLine();
        }
        out.flush();
    }

    private static String mapped(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException error) {
            return "invalid";
        }
        return told(() -> mapper.getName(name));
    }

    private static String named(List<String> rules, String realm, String principal) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(realm, rules);
        } catch (RuntimeException error) {
            return "invalid";
        }
        return told(() -> namer.shortName(KerberosName.parse(principal)));
    }

    /** What it returns, or that the client would be refused. */
    private static String told(Callable<String> name) {
        try {
            return "=" + Base64.getEncoder().encodeToString(name.call().getBytes(StandardCharsets.UTF_8));
        } catch (Exception error) {
            return "refused";
        }
    }

    private static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    private static List<String> texts(String field) {
        return Arrays.stream(field.split(",", -1)).map(PrincipalWitness::text).collect(Collectors.toList());
    }
}
