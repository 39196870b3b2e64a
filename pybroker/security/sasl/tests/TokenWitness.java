import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jose4j.jwt.JwtClaims;
import org.jose4j.jwt.MalformedClaimException;
import org.jose4j.jwt.NumericDate;
import org.jose4j.jwt.consumer.JwtContext;
import org.jose4j.jwt.consumer.NumericDateValidator;

/** Whether the library of Kafka's brokers accepts the times of each line's claims; a line has now, skew and claims. */
class TokenWitness {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new java.io.BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] row = line.split("\t", -1);
            NumericDateValidator validator = new NumericDateValidator();
            validator.setRequireExp(true);
            validator.setRequireIat(true);
            validator.setEvaluationTime(NumericDate.fromSeconds(Long.parseLong(row[0])));
            validator.setAllowedClockSkewSeconds(Integer.parseInt(row[1]));
            boolean accepted;
            try {
                accepted = validator.validate(new JwtContext(JwtClaims.parse(row[2]), List.of())) == null;
            } catch (MalformedClaimException error) {
                accepted = false;
            }
            out.println(accepted);
        }
        out.flush();
    }
}
