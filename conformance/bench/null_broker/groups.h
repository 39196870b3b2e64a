/* Groups of one member that commit nothing, and producer ids: FindCoordinator … OffsetFetch, InitProducerId. */
#ifndef NULL_BROKER_GROUPS_H
#define NULL_BROKER_GROUPS_H

#include "records.h"

static void find_coordinator(Connection *c) {
    Name key = {0, ""};
    if (c->version < 4)
        key = get_name(c);
    skip(c, c->version >= 1);
    put_throttle_since(c, 1);
    if (c->version < 4) {
        put_i16(c, 0);
        if (c->version >= 1)
            put_null(c);
        put_address(c);
        return;
    }
    int32_t keys = get_count(c);
    for (put_count(c, keys); keys > 0; keys--) {
        key = get_name(c);
        put_name(c, &key);
        put_address(c);
        put_i16(c, 0);
        put_null(c);
        put_tags(c);
    }
}

/* The member gets the first protocol that it names, and is the leader of generation 1. */
static void join_group(Connection *c) {
    get_name(c);
    skip(c, c->version >= 1 ? 8 : 4);
    Name member = get_name(c);
    if (!member.length)
        member = (Name){11, "null-member"};
    if (c->version >= 5)
        get_name(c);
    get_name(c);
    int32_t protocols = get_count(c);
    Name protocol = get_name(c);
    Blob subscription;
    get_blob(c, &subscription);
    while (--protocols > 0) {
        get_name(c);
        skip(c, (size_t)get_count(c));
    }
    put_throttle_since(c, 2);
    put_i16(c, 0);
    put_i32(c, 1);
    put_name(c, &protocol);
    put_name(c, &member);
    put_name(c, &member);
    put_count(c, 1);
    put_name(c, &member);
    if (c->version >= 5)
        put_null(c);
    put_blob(c, &subscription);
}

static void sync_group(Connection *c) {
    get_name(c);
    skip(c, 4);
    get_name(c);
    if (c->version >= 3)
        get_name(c);
    Blob assignment = {.length = 0};
    for (int32_t members = get_count(c); members > 0; members--) {
        get_name(c);
        get_blob(c, &assignment);
    }
    put_throttle_since(c, 1);
    put_i16(c, 0);
    put_blob(c, &assignment);
}

/* Heartbeat and LeaveGroup: whatever the member says is fine. */
static void nod(Connection *c) {
    skip(c, c->frame_left);
    put_throttle_since(c, 1);
    put_i16(c, 0);
}

static void offset_commit(Connection *c) {
    get_name(c);
    skip(c, 4);
    get_name(c);
    if (c->version >= 7)
        get_name(c);
    skip(c, c->version <= 4 ? 8 : 0);
    put_throttle_since(c, 3);
    int32_t topics = get_count(c);
    for (put_count(c, topics); topics > 0; topics--) {
        Name topic = get_name(c);
        put_name(c, &topic);
        int32_t rows = get_count(c);
        for (put_count(c, rows); rows > 0; rows--) {
            put_i32(c, get_i32(c));
            put_i16(c, 0);
            skip(c, c->version >= 6 ? 12 : 8);
            get_name(c);
        }
    }
}

static void offset_fetch(Connection *c) {
    get_name(c);
    put_throttle_since(c, 3);
    int32_t topics = get_count(c);
    for (put_count(c, topics < 0 ? 0 : topics); topics > 0; topics--) {
        Name topic = get_name(c);
        put_name(c, &topic);
        int32_t rows = get_count(c);
        for (put_count(c, rows); rows > 0; rows--) {
            put_i32(c, get_i32(c));
            put_i64(c, -1);
            if (c->version >= 5)
                put_i32(c, -1);
            put_text(c, "", 0);
            put_i16(c, 0);
        }
    }
    if (c->version >= 2)
        put_i16(c, 0);
}

static void init_producer_id(Connection *c) {
    skip(c, c->frame_left);
    put_i32(c, 0);
    put_i16(c, 0);
    put_i64(c, 1);
    put_i16(c, 0);
}

#endif
