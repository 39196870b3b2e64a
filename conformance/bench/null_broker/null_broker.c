/* A broker that costs next to nothing, so that what is measured in front of it is the client.
 *
 *     null_broker PORT PARTITIONS BATCH_FILE        prints "ready PORT\n"; port 0: any
 *
 * - Every topic exists, with PARTITIONS partitions, led by node 0: this process.
 * - Produce is answered with offsets that go on from batch to batch (the batch header's last offset delta); the records
 *   are thrown away inside the kernel (MSG_TRUNC) as far as they are not in the buffer already.
 * - Fetch serves the one batch of BATCH_FILE again and again: each partition is a log without an end, in which offset n
 *   lies in the batch that starts at n - n % records. Only the base offset is written anew (no CRC covers it); the rest
 *   goes out by writev from the same memory. There are no fetch sessions, and no fetch waits.
 * - A group has one member, which gets what it assigns itself; nothing is committed.
 *
 * A thread a connection, blocking: one recv and one writev a turn. Answers are sent when there is nothing left to read,
 * or when they fill the buffer. A request that does not parse closes its connection, on stderr with the reason.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>

#include "groups.h"

enum { UNSUPPORTED_VERSION = 35 };

typedef struct {
    int16_t key, least, most, flexible_from;
    void (*answer)(Connection *);
} Api;

static void api_versions(Connection *c);

static const Api apis[] = {
    {0, 3, 12, 9, produce},
    {1, 4, 16, 12, fetch},
    {2, 1, 7, 6, list_offsets},
    {3, 0, 12, 9, metadata},
    {8, 2, 7, 8, offset_commit},
    {9, 1, 5, 6, offset_fetch},
    {10, 0, 4, 3, find_coordinator},
    {11, 0, 5, 6, join_group},
    {12, 0, 3, 4, nod},
    {13, 0, 2, 4, nod},
    {14, 0, 3, 4, sync_group},
    {18, 0, 3, 3, api_versions},
    {22, 0, 4, 2, init_producer_id},
};
enum { APIS = sizeof apis / sizeof *apis };

static void put_apis(Connection *c, int error) {
    put_i16(c, error);
    put_count(c, APIS);
    for (const Api *api = apis; api < apis + APIS; api++) {
        put_i16(c, api->key);
        put_i16(c, api->least);
        put_i16(c, api->most);
        put_tags(c);
    }
    put_throttle_since(c, 1);
}

static void api_versions(Connection *c) {
    skip(c, c->frame_left);
    put_apis(c, 0);
}

/* A client that asks for too new a version of ApiVersions gets version 0, as from Kafka. */
static void refuse_version(Connection *c) {
    skip(c, c->frame_left);
    c->version = c->flexible = 0;
    put_apis(c, UNSUPPORTED_VERSION);
}

static const Api *find(Connection *c, int key, int version) {
    for (const Api *api = apis; api < apis + APIS; api++)
        if (api->key == key && (key == 18 || (version >= api->least && version <= api->most)))
            return api;
    fprintf(stderr, "null_broker: API %d version %d is not served\n", key, version);
    leave(c, "unknown request");
}

static void answer(Connection *c, const Api *api, int32_t correlation) {
    put_i32(c, correlation);
    get_name(c); /* client id: never compact */
    c->flexible = c->version >= api->flexible_from;
    get_tags(c);
    if (api->key == 18 && c->version > api->most) {
        refuse_version(c);
        return;
    }
    if (api->key != 18)
        put_tags(c);
    api->answer(c);
    skip(c, c->frame_left); /* what is of no interest at a request's end */
    put_tags(c);
}

/* Writes the size of the answer before it, or takes it back. */
static void finish(Connection *c, size_t at) {
    if (c->silent) {
        c->out_size = at;
        return;
    }
    uint32_t size = htobe32((uint32_t)(c->out_size - at - 4 + c->shared));
    memcpy(c->out + at, &size, 4);
    end_piece(c);
    c->complete = c->pieces;
    if (c->out_size > OUT_SIZE / 2 || c->pieces > PIECES / 2)
        flush(c);
}

static void serve(Connection *c) {
    c->frame_left = 14;
    c->flexible = c->silent = 0;
    uint32_t size = (uint32_t)get_i32(c);
    c->frame_left = size;
    int key = get_i16(c);
    c->version = get_i16(c);
    int32_t correlation = get_i32(c);
    const Api *api = find(c, key, c->version);
    size_t at = c->out_size;
    c->shared = 0;
    put_i32(c, 0);
    answer(c, api, correlation);
    finish(c, at);
}

static void *serve_all(void *connection) {
    for (;;)
        serve(connection);
    return NULL;
}

static void read_batch(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) || (batch_size = (size_t)ftell(file)) < HEADER_PEEKED) {
        fprintf(stderr, "null_broker: no batch in %s\n", path);
        exit(2);
    }
    batch = malloc(batch_size);
    rewind(file);
    if (!batch || fread(batch, 1, batch_size, file) != batch_size)
        exit(2);
    fclose(file);
    uint32_t delta;
    memcpy(&delta, batch + HEADER_PEEKED - 4, 4);
    batch_records = (int64_t)be32toh(delta) + 1;
}

static int listen_at(int wanted) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)wanted)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&here, size) || listen(listener, 128)
        || getsockname(listener, (struct sockaddr *)&here, &size)) {
        perror("null_broker");
        exit(2);
    }
    port = ntohs(here.sin_port);
    return listener;
}

static void accept_one(int listener) {
    int yes = 1, client = accept(listener, NULL, NULL);
    if (client < 0)
        return;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Connection *c = calloc(1, sizeof *c);
    pthread_t thread;
    if (!c || (c->socket = client, pthread_create(&thread, NULL, serve_all, c)))
        exit(1);
    pthread_detach(thread);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: null_broker PORT PARTITIONS BATCH_FILE\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never outlives who started it */
    signal(SIGPIPE, SIG_IGN);
    partitions = atoi(arguments[2]);
    read_batch(arguments[3]);
    int listener = listen_at(atoi(arguments[1]));
    printf("ready %d\n", port);
    fflush(stdout);
    for (;;)
        accept_one(listener);
}
