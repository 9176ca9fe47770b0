/* libFuzzer: the switch fed with whatever its wires and its control socket may bring.
 *
 * Input: [kind 1, port or time 1, length 2, bytes]...  kind: even a frame, odd a control message; the
 * third bit lets time go on first.  tests/engine/fuzz.c makes its own random input; this one is guided
 * by coverage. */
#include <stdlib.h>
#include <string.h>

#include "control.h"

#define PORTS 4
#define POOL_LIMIT 500
#define RECORDS_MAX 200
#define TIMEOUTS_MAX 100

static void collect(struct sw *sw, uint64_t now_ns)
{
    for (struct packet *packet; (packet = sw_poll(sw, now_ns));) sw_sent(sw, packet);
}

static void pass_time(struct sw *sw, uint64_t now_ns)
{
    for (int i = 0; i < TIMEOUTS_MAX && sw_next_timeout(sw) <= now_ns; i++) {
        uint64_t due = sw_next_timeout(sw);
        sw_handle_timeout(sw, due > sw->now_ns ? due : sw->now_ns);
        collect(sw, sw->now_ns);
    }
}

static void check(const struct sw *sw)
{
    for (uint32_t i = 0; i < sw->port_count; i++)
        for (uint32_t j = 0; j < QUEUES_MAX; j++) {
            const struct queue *queue = &sw->ports[i].queues[j];
            if (queue->enqueued != queue->dequeued + queue->packets) abort();
            if (!queue->packets && queue->bytes) abort();
        }
    if (sw->pool->used > sw->pool->made) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t reply[CONTROL_REPLY_MAX];
    struct pool pool;
    struct sw sw;
    uint64_t now_ns = 0;
    pool_init(&pool, PROGRAM.phv_size, POOL_LIMIT);
    if (!sw_init(&sw, &pool, PORTS, 1)) abort();
    for (int records = 0; size >= 4 && records < RECORDS_MAX; records++) {
        uint8_t kind = data[0], detail = data[1];
        size_t length = (size_t)data[2] << 8 | data[3];
        data += 4, size -= 4;
        if (length > size) length = size;
        if (kind & 4) {
            now_ns += (uint64_t)1 << (detail & 31);
            pass_time(&sw, now_ns);
        }
        uint8_t *exact = malloc(length ? length : 1);   /* so that reading past the end is seen */
        if (!exact) abort();
        memcpy(exact, data, length);
        if (kind & 1) control_handle(&sw, exact, (uint32_t)length, reply, sizeof reply, now_ns);
        else if (length <= FRAME_MAX) sw_receive(&sw, detail % PORTS, exact, (uint32_t)length, now_ns);
        free(exact);
        if (sw.now_ns > now_ns) now_ns = sw.now_ns;
        collect(&sw, now_ns);
        check(&sw);
        data += length, size -= length;
    }
    sw_free(&sw);
    if (pool.used != 0) abort();
    pool_free(&pool);
    return 0;
}
