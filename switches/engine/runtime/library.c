#include "library.h"

#include <stdlib.h>

#include "control.h"
#include "switch.h"

/* Far above what queues of any sensible limits hold: only a runaway program gets here. */
#define POOL_LIMIT (1u << 18)

struct engine {
    struct view view;
    struct pool pool;
    struct sw sw;
    struct packet *shown;        /* the frame in the view */
};

struct engine *engine_create(uint32_t port_count, uint64_t seed)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return NULL;
    pool_init(&engine->pool, PROGRAM.phv_size, POOL_LIMIT);
    if (!sw_init(&engine->sw, &engine->pool, port_count, seed)) {
        free(engine);
        return NULL;
    }
    engine->view.next_ns = NEVER;
    return engine;
}

void engine_destroy(struct engine *engine)
{
    if (!engine) return;
    sw_free(&engine->sw);
    pool_free(&engine->pool);
    free(engine);
}

const struct view *engine_view(const struct engine *engine) { return &engine->view; }

static void show(struct engine *engine, uint64_t now_ns)
{
    if (!engine->shown) engine->shown = sw_poll(&engine->sw, now_ns);
    struct packet *packet = engine->shown;
    engine->view.next_ns = sw_next_timeout(&engine->sw);
    engine->view.ready = !packet ? 0 : engine->sw.out.head ? 2 : 1;
    if (!packet) return;
    engine->view.bytes = packet->bytes + packet->offset;
    engine->view.port = packet->egress_port;
    engine->view.length = packet->length;
}

void engine_receive(struct engine *engine, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t now_ns)
{
    if (port < engine->sw.port_count) sw_receive(&engine->sw, port, bytes, length, now_ns);
    show(engine, now_ns);
}

void engine_handle_timeout(struct engine *engine, uint64_t now_ns)
{
    sw_handle_timeout(&engine->sw, now_ns);
    show(engine, now_ns);
}

void engine_port_changed(struct engine *engine, uint32_t port, uint32_t up, uint64_t now_ns)
{
    sw_port_changed(&engine->sw, port, up != 0, now_ns);
    show(engine, now_ns);
}

void engine_taken(struct engine *engine, uint64_t now_ns)
{
    if (engine->shown) sw_sent(&engine->sw, engine->shown);
    engine->shown = NULL;
    show(engine, now_ns);
}

uint32_t engine_control(struct engine *engine, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns)
{
    uint32_t reply_length = control_handle(&engine->sw, request, length, reply, capacity, now_ns);
    show(engine, now_ns);
    return reply_length;
}
