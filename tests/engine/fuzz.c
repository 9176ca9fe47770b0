/* Random frames, control messages and times for a switch, under the sanitizers.
 *
 *     fuzz SEED STEPS     the same seed, the same run; prints a digest of all that left the switch
 *
 * Control messages are made in three ways: sensible ones, sensible ones with a few bytes changed, and
 * noise.  So are frames, where the program is the tiny one; for others they are noise with a seed
 * frame given as hex in the third argument. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

#define PORTS 4
#define POOL_LIMIT 2000

static uint64_t state;
static uint64_t draw(void)              /* xorshift64*: the same everywhere */
{
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * UINT64_C(2685821657736338717);
}
static uint64_t below(uint64_t n) { return draw() % n; }

static uint8_t seed_frame[FRAME_MAX];
static uint32_t seed_length;

static void read_seed_frame(const char *hex)
{
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1 && seed_length < FRAME_MAX; hex += 2) seed_frame[seed_length++] = (uint8_t)byte;
}

static void flip(uint8_t *bytes, uint32_t length, uint64_t times)
{
    while (length && times-- > 0) bytes[below(length)] = (uint8_t)draw();
}

static uint32_t make_frame(uint8_t *bytes)
{
    uint32_t length = below(50) ? (uint32_t)below(400) : (uint32_t)below(FRAME_MAX + 100);
    if (seed_length && below(4)) {
        memset(bytes, 0x5a, length);
        memcpy(bytes, seed_frame, length < seed_length ? length : seed_length);
        flip(bytes, length, below(4));
        return length;
    }
    for (uint32_t i = 0; i < length; i++) bytes[i] = (uint8_t)draw();
    if (length > 5 && !seed_length) {
        bytes[0] = (uint8_t)(below(8) ? below(PORTS + 1) : 255);
        bytes[1] = (uint8_t)below(3);
        bytes[2] = 0;
        bytes[4] = (uint8_t)below(10);
        bytes[5] = (uint8_t)below(8);
    }
    return length;
}

static void put_match(struct writer *w, const struct table *table)
{
    bool priority = table_has_priority(table);
    put_number(w, priority ? 1 + below(3) : 0, 4);
    uint8_t key[2 * TABLE_KEY_MAX];
    uint32_t bytes = table_key_bytes(table);
    for (uint32_t i = 0; i < 2 * bytes; i++) key[i] = (uint8_t)(below(4) ? 0 : draw());
    if (below(2)) memset(key + bytes, 0xff, bytes);
    put_bytes(w, key, 2 * bytes);
}

static void put_call(struct writer *w)
{
    uint32_t action = (uint32_t)below(PROGRAM.action_count ? PROGRAM.action_count : 1);
    put_number(w, action, 2);
    uint32_t bytes = PROGRAM.action_count ? action_param_bytes(&PROGRAM.actions[action]) : 0;
    while (bytes-- > 0) put_number(w, below(3) ? below(PORTS) : draw() & 255, 1);
}

static void put_body(struct writer *w, enum control_op op)
{
    uint32_t table = PROGRAM.table_count ? (uint32_t)below(PROGRAM.table_count) : 0;
    bool with_match = op == OP_INSERT || op == OP_MODIFY || op == OP_DELETE || op == OP_READ_DIRECT || op == OP_WRITE_DIRECT;
    if (PROGRAM.table_count && ((op >= OP_INSERT && op <= OP_WRITE_DIRECT))) {
        put_number(w, table, 2);
        if (with_match) put_match(w, &PROGRAM.tables[table]);
        if (op == OP_INSERT || op == OP_MODIFY || op == OP_SET_DEFAULT) put_call(w);
        if (op == OP_READ_ROWS) put_number(w, below(20), 4);
        if (op == OP_WRITE_DIRECT) put_number(w, 1, 8), put_number(w, 2, 8);
        return;
    }
    switch (op) {
    case OP_INFO: put_number(w, below(5), 1), put_number(w, below(3), 4); break;
    case OP_READ_COUNTER: case OP_READ_REGISTER: put_number(w, below(6), 2), put_number(w, below(700), 4); break;
    case OP_WRITE_COUNTER: case OP_WRITE_REGISTER:
        put_number(w, below(6), 2), put_number(w, below(700), 4), put_number(w, below(512), 8), put_number(w, 0, 8);
        break;
    case OP_CONFIGURE_PORT:
        put_number(w, below(PORTS + 1), 2), put_number(w, below(3) ? below(1000000000) : 0, 8);
        put_number(w, below(2) ? 0 : below(100000), 8), put_number(w, below(2) ? 0 : below(100000), 8);
        uint64_t count = below(4);
        put_number(w, count, 1);
        while (count-- > 0) put_number(w, below(50), 4), put_number(w, below(100000), 8);
        break;
    case OP_PAUSE_QUEUE: put_number(w, below(PORTS), 2), put_number(w, below(3), 1), put_number(w, below(2), 1); break;
    case OP_SET_PORT: put_number(w, below(PORTS + 1), 2), put_number(w, below(3) ? 1 : 0, 1); break;
    case OP_READ_PORTS: put_number(w, below(3), 2); break;
    case OP_SET_MULTICAST: case OP_SET_SESSION:
        put_number(w, below(8), 4);
        if (op == OP_SET_SESSION) put_number(w, below(2) ? 0 : below(100), 4);
        count = below(4);
        put_number(w, count, 2);
        while (count-- > 0) put_number(w, below(PORTS + 1), 2), put_number(w, below(100), 2);
        break;
    default: break;
    }
}

static uint32_t make_request(uint8_t *bytes, uint32_t capacity)
{
    struct writer w = { .start = bytes, .at = bytes, .end = bytes + capacity };
    enum control_op op = (enum control_op)below(OP_COUNT + 1);
    if (op == OP_RELOAD && below(20)) op = OP_INSERT;
    if (below(8) == 0) {
        uint32_t length = (uint32_t)below(100);
        for (uint32_t i = 0; i < length; i++) put_number(&w, i ? draw() & 255 : op, 1);
    } else {
        put_number(&w, op, 1);
        put_body(&w, op);
        if (below(4) == 0) flip(bytes, (uint32_t)(w.at - w.start), below(4));
        if (below(10) == 0) w.at -= below((uint64_t)(w.at - w.start) + 1);
    }
    return (uint32_t)(w.at - w.start);
}

static uint64_t digest = 1469598103934665603u;
static void note(const uint8_t *bytes, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) digest = (digest ^ bytes[i]) * 1099511628211u;
}

static void collect(struct sw *sw, uint64_t now_ns)
{
    for (struct packet *packet; (packet = sw_poll(sw, now_ns));) {
        note(packet->bytes + packet->offset, packet->length);
        if (below(10)) sw_sent(sw, packet);
        else sw_lost(sw, packet);
    }
}

static void check(const struct sw *sw)
{
    for (uint32_t i = 0; i < sw->port_count; i++)
        for (uint32_t j = 0; j < QUEUES_MAX; j++) {
            const struct queue *queue = &sw->ports[i].queues[j];
            if (queue->enqueued != queue->dequeued + queue->packets) abort();
            if (queue->trim < queue->trim_sent + queue->trim_drop) abort();
            if (!queue->packets != !queue->fifo.head || (!queue->packets && queue->bytes)) abort();
        }
    if (sw->pool->used > sw->pool->made || sw->pool->made > POOL_LIMIT + 64) abort();
}

int main(int argc, char **argv)
{
    static uint8_t bytes[FRAME_MAX + 200], reply[CONTROL_REPLY_MAX];
    struct pool pool;
    struct sw sw;
    uint64_t now_ns = 0;
    if (argc < 3) return 2;
    state = strtoull(argv[1], NULL, 0) * 2 + 1;
    uint64_t steps = strtoull(argv[2], NULL, 0);
    if (argc > 3) read_seed_frame(argv[3]);
    pool_init(&pool, PROGRAM.phv_size, POOL_LIMIT);
    if (!sw_init(&sw, &pool, PORTS, state)) return 2;
    for (uint64_t step = 0; step < steps; step++) {
        now_ns += below(3) ? below(2000) : 0;
        while (sw_next_timeout(&sw) <= now_ns && below(50)) {
            uint64_t due = sw_next_timeout(&sw);
            sw_handle_timeout(&sw, due > sw.now_ns ? due : sw.now_ns);
            collect(&sw, sw.now_ns);
        }
        uint64_t choice = below(10);
        if (choice < 5) {
            sw_receive(&sw, (uint32_t)below(PORTS), bytes, make_frame(bytes), now_ns);
        } else if (choice < 9) {
            uint32_t length = make_request(bytes, sizeof bytes);
            uint8_t *exact = malloc(length ? length : 1);       /* so that reading past the end is seen */
            if (!exact) return 2;
            memcpy(exact, bytes, length);
            note(reply, control_handle(&sw, exact, length, reply, below(5) ? sizeof reply : 4096, now_ns));
            free(exact);
        } else {
            sw_port_changed(&sw, (uint32_t)below(PORTS), below(4) != 0, now_ns);
        }
        collect(&sw, now_ns);
        check(&sw);
    }
    sw_free(&sw);
    if (pool.used != 0) abort();
    pool_free(&pool);
    printf("%016llx\n", (unsigned long long)digest);
    return 0;
}
