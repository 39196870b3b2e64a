import java.nio.charset.StandardCharsets;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramCredentialUtils;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFinalMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFirstMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ServerFirstMessage;

/** What Kafka's own classes say and store for each line of mechanism, user, password, nonces, salt and iterations. */
class ScramWitness {
    private static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new java.io.BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] row = line.split("\t", -1);
            ScramFormatter formatter = new ScramFormatter(ScramMechanism.forMechanismName(row[0]));
            byte[] salt = Base64.getDecoder().decode(row[5]);
            int iterations = Integer.parseInt(row[6]);
            byte[] salted = formatter.saltedPassword(text(row[2]), salt, iterations);
            byte[] stored = formatter.storedKey(formatter.clientKey(salted));
            byte[] server = formatter.serverKey(salted);
            String name = ScramFormatter.saslName(text(row[1]));
            if (!ScramFormatter.username(name).equals(text(row[1])))
                throw new IllegalStateException(line);
            ClientFirstMessage first = new ClientFirstMessage(name, row[3], Map.of());
            ServerFirstMessage challenge = new ServerFirstMessage(row[3], row[4], salt, iterations);
            ClientFinalMessage last = new ClientFinalMessage("n,,".getBytes(StandardCharsets.UTF_8), challenge.nonce());
            last.proof(formatter.clientProof(salted, first, challenge, last));
            byte[] signature = formatter.serverSignature(server, first, challenge, last);
            out.println(String.join("\t",
                ScramCredentialUtils.credentialToString(new ScramCredential(salt, stored, server, iterations)),
                Base64.getEncoder().encodeToString(first.toBytes()),
                Base64.getEncoder().encodeToString(challenge.toBytes()),
                Base64.getEncoder().encodeToString(last.toBytes()),
                Base64.getEncoder().encodeToString(signature)));
        }
        out.flush();
    }
}
