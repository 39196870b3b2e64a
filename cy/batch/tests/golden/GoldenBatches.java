// Prints the lines "java …" of batches.txt. Needs kafka-clients 4.3.1 and its codecs on the class path.
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

public class GoldenBatches {
    static final CompressionType[] CODECS = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY,
        CompressionType.LZ4, CompressionType.ZSTD};

    public static void main(String[] arguments) {
        for (byte magic = 0; magic <= 2; magic++)
            for (CompressionType codec : CODECS)
                for (TimestampType time : new TimestampType[]{TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME})
                    if ((magic == 2 || codec != CompressionType.ZSTD) && (magic > 0 || time == TimestampType.CREATE_TIME))
                        print("v" + magic + " " + codec.name + (time == TimestampType.CREATE_TIME ? " create" : " append"),
                            batch(magic, codec, time));
        print("v2 none transactional", transactional());
        print("v2 none control", MemoryRecords.withEndTransactionMarker(7L, 1700000000000L, 4, 4242L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 11)).buffer());
    }

    static ByteBuffer batch(byte magic, CompressionType codec, TimestampType time) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(), time, 1000L, 1700000009999L);
        for (int i = 0; i < 12; i++)
            builder.append(magic == 0 ? -1 : 1700000000000L + (i * 7919L) % 1000, key(i), value(i), headers(magic, i));
        return builder.build().buffer();
    }

    static byte[] key(int i) {
        return i % 3 == 2 ? null : ("k" + i).getBytes();
    }

    static byte[] value(int i) {
        return i % 5 == 4 ? null : ("value-" + i + "-" + "x".repeat(3 * i)).getBytes();
    }

    static Header[] headers(byte magic, int i) {
        if (magic < 2 || i % 4 != 1) return new Header[0];
        return new Header[]{new RecordHeader("h", ("b" + i).getBytes()), new RecordHeader("ä", null)};
    }

    static ByteBuffer transactional() {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 16), (byte) 2, Compression.NONE,
            TimestampType.CREATE_TIME, 5L, -1L, 4242L, (short) 3, 17, true, false, 9, 1 << 16);
        builder.append(123L, "a".getBytes(), "b".getBytes());
        builder.append(125L, "c".getBytes(), "d".getBytes());
        return builder.build().buffer();
    }

    static void print(String name, ByteBuffer bytes) {
        StringBuilder line = new StringBuilder("java " + name + " ");
        for (ByteBuffer left = bytes.duplicate(); left.hasRemaining(); ) line.append(String.format("%02x", left.get()));
        System.out.println(line);
    }
}
