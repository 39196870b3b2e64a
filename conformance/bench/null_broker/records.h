/* Topics and their records: Metadata, ListOffsets, Produce, Fetch. */
#ifndef NULL_BROKER_RECORDS_H
#define NULL_BROKER_RECORDS_H

#include <stdatomic.h>

#include "wire.h"

enum {
    COUNTERS = 1024,
    HEADER_PEEKED = 27,    /* of a batch: up to and with its last offset delta */
    UNKNOWN_TOPIC_ID = 100,
};
#define END_OFFSET ((int64_t)1 << 40)

static uint8_t *batch;
static size_t batch_size;
static int64_t batch_records;
static int partitions, port;
static _Atomic int64_t next_offset[COUNTERS];

static uint64_t hash(const Name *name) {
    uint64_t value = 0xcbf29ce484222325u;
    for (int place = 0; place < name->length; place++)
        value = (value ^ (uint8_t)name->text[place]) * 0x100000001b3u;
    return value;
}

static void metadata_of(Connection *c, const Name *topic) {
    int known = topic->length >= 0;
    put_i16(c, known ? 0 : UNKNOWN_TOPIC_ID);
    put_name(c, topic);
    if (c->version >= 10) { /* an id that follows from the name */
        put_i64(c, known ? (int64_t)(hash(topic) | 1) : 0);
        put_i64(c, 0);
    }
    put_i8(c, 0);
    put_count(c, known ? partitions : 0);
    for (int index = 0; known && index < partitions; index++) {
        put_i16(c, 0);
        put_i32(c, index);
        put_i32(c, 0);
        if (c->version >= 7)
            put_i32(c, 0);
        for (int in_sync = 0; in_sync < 2; in_sync++) {
            put_count(c, 1);
            put_i32(c, 0);
        }
        if (c->version >= 5)
            put_count(c, 0);
        put_tags(c);
    }
    if (c->version >= 8)
        put_i32(c, INT32_MIN);
    put_tags(c);
}

static void put_address(Connection *c) {
    put_i32(c, 0);
    put_text(c, "127.0.0.1", 9);
    put_i32(c, port);
}

static void metadata(Connection *c) {
    put_throttle_since(c, 3);
    put_count(c, 1);
    put_address(c);
    put_null(c); /* rack */
    put_tags(c);
    if (c->version >= 2)
        put_text(c, "null", 4);
    put_i32(c, 0);
    int32_t topics = get_count(c);
    put_count(c, topics < 0 ? 0 : topics);
    for (; topics > 0; topics--) {
        if (c->version >= 10)
            skip(c, 16);
        Name topic = get_name(c);
        get_tags(c);
        metadata_of(c, &topic);
    }
    if (c->version >= 8 && c->version <= 10)
        put_i32(c, INT32_MIN);
}

static void list_offsets(Connection *c) {
    skip(c, 4 + (c->version >= 2));
    put_throttle_since(c, 2);
    int32_t topics = get_count(c);
    for (put_count(c, topics); topics > 0; topics--) {
        Name topic = get_name(c);
        put_name(c, &topic);
        int32_t rows = get_count(c);
        for (put_count(c, rows); rows > 0; rows--) {
            put_i32(c, get_i32(c));
            put_i16(c, 0);
            skip(c, c->version >= 4 ? 4 : 0);
            int64_t timestamp = get_i64(c);
            get_tags(c);
            put_i64(c, -1);
            put_i64(c, timestamp == -1 ? END_OFFSET : 0);
            if (c->version >= 4)
                put_i32(c, 0);
            put_tags(c);
        }
        get_tags(c);
        put_tags(c);
    }
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

/* Takes the records of a partition; returns the offset that they get. */
static int64_t take_records(Connection *c, uint64_t slot) {
    int32_t size = get_count(c);
    if (size < HEADER_PEEKED)
        leave(c, "Produce without a batch");
    uint32_t delta;
    memcpy(&delta, take(c, HEADER_PEEKED) + HEADER_PEEKED - 4, 4);
    skip(c, (size_t)size - HEADER_PEEKED);
    return atomic_fetch_add(&next_offset[slot % COUNTERS], (int64_t)be32toh(delta) + 1);
}

static void produce_partition(Connection *c, const Name *topic) {
    int32_t index = get_i32(c);
    int64_t offset = take_records(c, hash(topic) + (uint64_t)index);
    get_tags(c);
    put_i32(c, index);
    put_i16(c, 0);
    put_i64(c, offset);
    put_i64(c, -1); /* log append time */
    if (c->version >= 5)
        put_i64(c, 0);
    if (c->version >= 8) {
        put_count(c, 0);
        put_null(c);
    }
    put_tags(c);
}

static void produce(Connection *c) {
    get_name(c); /* transactional id */
    int acks = get_i16(c);
    skip(c, 4);
    int32_t topics = get_count(c);
    for (put_count(c, topics); topics > 0; topics--) {
        Name topic = get_name(c);
        put_name(c, &topic);
        int32_t rows = get_count(c);
        for (put_count(c, rows); rows > 0; rows--)
            produce_partition(c, &topic);
        get_tags(c);
        put_tags(c);
    }
    put_i32(c, 0);
    c->silent = acks == 0;
}

static size_t least(size_t one, size_t other) { return one < other ? one : other; }

static void put_batches(Connection *c, int64_t offset, size_t count) {
    int64_t base = offset - offset % batch_records;
    put_count(c, (int64_t)(count * batch_size));
    for (; count; count--, base += batch_records) {
        put_i64(c, base);
        put_shared(c, batch + 8, batch_size - 8);
    }
}

/* Whole batches as far as both limits go; the first partition gets one in any case, as from Kafka. */
static void fetch_partition(Connection *c, size_t *left, int first) {
    put_i32(c, get_i32(c));
    skip(c, c->version >= 9 ? 4 : 0);
    int64_t offset = get_i64(c);
    skip(c, (c->version >= 12 ? 4u : 0u) + (c->version >= 5 ? 8u : 0u));
    size_t count = least((size_t)get_i32(c), *left) / batch_size;
    get_tags(c);
    count = least(count || !first ? count : 1, (size_t)(PIECES - c->pieces) / 2);
    *left -= least(*left, count * batch_size);
    put_i16(c, 0);
    put_i64(c, END_OFFSET);
    put_i64(c, END_OFFSET);
    if (c->version >= 5)
        put_i64(c, 0);
    put_count(c, c->version >= 11 ? -1 : 0); /* aborted transactions */
    if (c->version >= 11)
        put_i32(c, -1);
    put_batches(c, offset, count);
    put_tags(c);
}

static void fetch_topic(Connection *c, size_t *left, int *first) {
    if (c->version >= 13) {
        put(c, take(c, 16), 16);
    } else {
        Name topic = get_name(c);
        put_name(c, &topic);
    }
    int32_t rows = get_count(c);
    for (put_count(c, rows); rows > 0; rows--) {
        fetch_partition(c, left, *first);
        *first = 0;
    }
    get_tags(c);
    put_tags(c);
}

static void fetch(Connection *c) {
    skip(c, (c->version >= 15 ? 0 : 4) + 4 + 4);
    size_t left = (size_t)get_i32(c);
    skip(c, 1 + (c->version >= 7 ? 8 : 0));
    put_i32(c, 0);
    if (c->version >= 7) { /* no session */
        put_i16(c, 0);
        put_i32(c, 0);
    }
    int first = 1;
    int32_t topics = get_count(c);
    for (put_count(c, topics); topics > 0; topics--)
        fetch_topic(c, &left, &first);
}

#endif
