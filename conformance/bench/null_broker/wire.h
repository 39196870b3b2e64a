/* A connection of the null broker: fields read from requests, fields written to answers, and the little I/O there is.
 *
 * Requests are read as they arrive, field by field; no field lies beyond its request, or the connection is closed.
 * Answers gather in `out`; what is large is referred to where it is (put_shared). Only complete answers are sent: when
 * there is nothing left to read, or when they fill the buffer.
 */
#ifndef NULL_BROKER_WIRE_H
#define NULL_BROKER_WIRE_H

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    IN_SIZE = 64 << 10,
    OUT_SIZE = 256 << 10,
    PIECES = 1000,         /* of one writev; IOV_MAX is 1024 */
    BLOB_SIZE = 16 << 10,  /* a member's metadata or assignment */
};
typedef struct {
    int length;            /* -1: null */
    char text[256];
} Name;

typedef struct {
    int length;
    uint8_t data[BLOB_SIZE];
} Blob;

typedef struct {
    int socket;
    int version, flexible; /* of the request being answered */
    size_t frame_left;     /* bytes of it that were not read yet */
    size_t start, end;     /* what is unread in `in` */
    size_t out_size;       /* what is written in `out` */
    size_t piece_start;    /* where the part of `out` begins that is no piece yet */
    size_t shared;         /* bytes of the present answer that are not in `out` */
    int silent;            /* the present request wants no answer */
    int pieces, complete;  /* pieces in all, and those of complete answers */
    struct iovec piece[PIECES + 2];
    uint8_t in[IN_SIZE], out[OUT_SIZE];
} Connection;

static _Noreturn void leave(Connection *c, const char *why) {
    if (why)
        fprintf(stderr, "null_broker: connection closed: %s\n", why);
    close(c->socket);
    free(c);
    pthread_exit(NULL);
}

/* ---- out -------------------------------------------------------------------------------------------------------- */

static void end_piece(Connection *c) {
    if (c->out_size > c->piece_start) {
        c->piece[c->pieces++] = (struct iovec){c->out + c->piece_start, c->out_size - c->piece_start};
        c->piece_start = c->out_size;
    }
}

/* Sends the complete answers; the one that is being made stays. */
static void flush(Connection *c) {
    struct iovec *next = c->piece;
    int left = c->complete;
    while (left) {
        ssize_t sent = writev(c->socket, next, left);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            leave(c, NULL);
        for (; left && (size_t)sent >= next->iov_len; left--)
            sent -= (ssize_t)(next++)->iov_len;
        if (left)
            *next = (struct iovec){(uint8_t *)next->iov_base + sent, next->iov_len - (size_t)sent};
    }
    c->pieces -= c->complete;
    memmove(c->piece, c->piece + c->complete, (size_t)c->pieces * sizeof *c->piece);
    c->complete = 0;
    if (!c->pieces && c->out_size == c->piece_start)
        c->out_size = c->piece_start = 0;
}

static void put(Connection *c, const void *data, size_t size) {
    if (c->out_size + size > OUT_SIZE)
        leave(c, "an answer is too large");
    memcpy(c->out + c->out_size, data, size);
    c->out_size += size;
}

static void put_shared(Connection *c, void *data, size_t size) {
    end_piece(c);
    c->piece[c->pieces++] = (struct iovec){data, size};
    c->shared += size;
}

static void put_i8(Connection *c, int8_t value) { put(c, &value, 1); }

static void put_i16(Connection *c, int value) {
    uint16_t wire = htobe16((uint16_t)value);
    put(c, &wire, 2);
}

static void put_i32(Connection *c, int64_t value) {
    uint32_t wire = htobe32((uint32_t)value);
    put(c, &wire, 4);
}

static void put_i64(Connection *c, int64_t value) {
    uint64_t wire = htobe64((uint64_t)value);
    put(c, &wire, 8);
}

static void put_varint(Connection *c, uint32_t value) {
    for (; value > 0x7f; value >>= 7)
        put_i8(c, (int8_t)(value | 0x80));
    put_i8(c, (int8_t)value);
}

/* The length of an array or of bytes; -1: null. */
static void put_count(Connection *c, int64_t count) {
    if (c->flexible)
        put_varint(c, (uint32_t)(count + 1));
    else
        put_i32(c, count);
}

static void put_text(Connection *c, const char *text, int length) {
    if (c->flexible)
        put_varint(c, (uint32_t)(length + 1));
    else
        put_i16(c, length);
    if (length > 0)
        put(c, text, (size_t)length);
}

static void put_name(Connection *c, const Name *name) { put_text(c, name->text, name->length); }

static void put_null(Connection *c) { put_text(c, NULL, -1); }

static void put_blob(Connection *c, const Blob *blob) {
    put_count(c, blob->length);
    put(c, blob->data, (size_t)blob->length);
}

static void put_tags(Connection *c) {
    if (c->flexible)
        put_i8(c, 0);
}

static void put_throttle_since(Connection *c, int version) {
    if (c->version >= version)
        put_i32(c, 0);
}

/* ---- in --------------------------------------------------------------------------------------------------------- */

static void receive(Connection *c) {
    flush(c);
    memmove(c->in, c->in + c->start, c->end - c->start);
    c->end -= c->start;
    c->start = 0;
    ssize_t got;
    while ((got = recv(c->socket, c->in + c->end, IN_SIZE - c->end, 0)) < 0 && errno == EINTR)
        ;
    if (got <= 0)
        leave(c, NULL);
    c->end += (size_t)got;
}

/* The next bytes of the request; they stay where they are until the next call. */
static const uint8_t *take(Connection *c, size_t size) {
    if (size > c->frame_left || size > IN_SIZE)
        leave(c, "a field goes beyond its request");
    while (c->end - c->start < size)
        receive(c);
    c->frame_left -= size;
    c->start += size;
    return c->in + c->start - size;
}

static void skip(Connection *c, size_t size) {
    if (size > c->frame_left)
        leave(c, "a field goes beyond its request");
    c->frame_left -= size;
    size_t here = c->end - c->start < size ? c->end - c->start : size;
    c->start += here;
    size -= here;
    if (size)
        flush(c);
    while (size) {
        ssize_t gone = recv(c->socket, NULL, size, MSG_TRUNC | MSG_WAITALL);
        if (gone < 0 && errno == EINTR)
            continue;
        if (gone <= 0)
            leave(c, NULL);
        size -= (size_t)gone;
    }
}

static int get_i16(Connection *c) {
    uint16_t wire;
    memcpy(&wire, take(c, 2), 2);
    return (int16_t)be16toh(wire);
}

static int32_t get_i32(Connection *c) {
    uint32_t wire;
    memcpy(&wire, take(c, 4), 4);
    return (int32_t)be32toh(wire);
}

static int64_t get_i64(Connection *c) {
    uint64_t wire;
    memcpy(&wire, take(c, 8), 8);
    return (int64_t)be64toh(wire);
}

static uint32_t get_varint(Connection *c) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *take(c, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    leave(c, "a varint of more than five bytes");
}

static int32_t get_count(Connection *c) { return c->flexible ? (int32_t)get_varint(c) - 1 : get_i32(c); }

static Name get_name(Connection *c) {
    Name name = {c->flexible ? (int)get_varint(c) - 1 : get_i16(c), ""};
    if (name.length >= (int)sizeof name.text)
        leave(c, "a name is too long");
    if (name.length > 0)
        memcpy(name.text, take(c, (size_t)name.length), (size_t)name.length);
    return name;
}

static void get_blob(Connection *c, Blob *blob) {
    blob->length = get_count(c);
    if (blob->length < 0 || blob->length > BLOB_SIZE)
        leave(c, "metadata or an assignment is too long");
    memcpy(blob->data, take(c, (size_t)blob->length), (size_t)blob->length);
}

static void get_tags(Connection *c) {
    if (c->flexible)
        for (uint32_t left = get_varint(c); left; left--) {
            get_varint(c);
            skip(c, get_varint(c));
        }
}

#endif
