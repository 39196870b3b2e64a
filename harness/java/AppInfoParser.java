package org.apache.kafka.common.utils;

/**
 * Kafka 4.4 has moved this class to another package. The file connectors that the harness runs are those of 4.3,
 * which look for it here to tell their version.
 */
public final class AppInfoParser {
    private AppInfoParser() {
    }

    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }
}
