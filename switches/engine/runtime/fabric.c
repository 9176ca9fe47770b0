#include "fabric.h"

#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "switch.h"

#define POOL_LIMIT (1u << 22)            /* packets of all switches together */
#define MOMENT_EVENTS_MAX 1000000u       /* at one instant: two switches answer each other for ever */
#define TIMER UINT32_MAX                 /* in place of a port */

struct event {
    uint64_t at_ns, sequence;
    uint32_t node, port;
    struct packet *packet;
};
struct wire { uint32_t node, port; bool inside, watched; };
struct node {
    struct sw *sw;
    struct wire *wires;
    uint32_t wire_count;
    uint64_t armed_ns;                   /* of the one timer event that matters */
};
struct fabric {
    struct fabric_view view;
    struct pool pool;
    struct node *nodes;
    uint32_t node_count;
    struct event *heap;
    uint32_t heap_count, heap_space;
    uint64_t sequence;
    struct fabric_arrival *arrivals;
    struct packet **held;                /* behind the arrivals, until the next call */
    uint32_t arrival_space;
    uint32_t moment_events;
    bool out_of_memory;
};

/* --- the heap */

static bool before(const struct event *a, const struct event *b)
{
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    if (a->node != b->node) return a->node < b->node;
    return a->sequence < b->sequence;
}

static bool push(struct fabric *fabric, struct event event)
{
    if (fabric->heap_count == fabric->heap_space) {
        uint32_t space = fabric->heap_space ? 2 * fabric->heap_space : 256;
        struct event *heap = realloc(fabric->heap, space * sizeof *heap);
        if (!heap) return false;
        fabric->heap = heap;
        fabric->heap_space = space;
    }
    event.sequence = fabric->sequence++;
    uint32_t at = fabric->heap_count++;
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (!before(&event, &fabric->heap[parent])) break;
        fabric->heap[at] = fabric->heap[parent];
        at = parent;
    }
    fabric->heap[at] = event;
    return true;
}

static struct event pop(struct fabric *fabric)
{
    struct event top = fabric->heap[0], last = fabric->heap[--fabric->heap_count];
    uint32_t at = 0, count = fabric->heap_count;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && before(&fabric->heap[child + 1], &fabric->heap[child])) child++;
        if (!before(&fabric->heap[child], &last)) break;
        fabric->heap[at] = fabric->heap[child];
        at = child;
    }
    if (count) fabric->heap[at] = last;
    return top;
}

/* --- life */

struct fabric *fabric_create(uint32_t node_count)
{
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric) return NULL;
    fabric->nodes = calloc(node_count ? node_count : 1, sizeof *fabric->nodes);
    if (!fabric->nodes) {
        free(fabric);
        return NULL;
    }
    fabric->node_count = node_count;
    for (uint32_t i = 0; i < node_count; i++) fabric->nodes[i].armed_ns = NEVER;
    fabric->view.next_ns = NEVER;
    pool_init(&fabric->pool, PROGRAM.phv_size, POOL_LIMIT);
    return fabric;
}

void fabric_destroy(struct fabric *fabric)
{
    if (!fabric) return;
    for (uint32_t i = 0; i < fabric->node_count; i++) {
        fabric_remove(fabric, i);
        free(fabric->nodes[i].wires);
    }
    pool_free(&fabric->pool);
    free(fabric->nodes);
    free(fabric->heap);
    free(fabric->arrivals);
    free(fabric->held);
    free(fabric);
}

const struct fabric_view *fabric_view(const struct fabric *fabric) { return &fabric->view; }

static bool make_wires(struct node *node, uint32_t port_count)
{
    if (node->wire_count >= port_count) return true;
    struct wire *wires = realloc(node->wires, port_count * sizeof *wires);
    if (!wires) return false;
    memset(wires + node->wire_count, 0, (port_count - node->wire_count) * sizeof *wires);
    node->wires = wires;
    node->wire_count = port_count;
    return true;
}

uint32_t fabric_add(struct fabric *fabric, uint32_t number, uint32_t port_count, uint64_t seed)
{
    if (number >= fabric->node_count || fabric->nodes[number].sw) return 0;
    struct node *node = &fabric->nodes[number];
    struct sw *sw = malloc(sizeof *sw);
    if (!sw) return 0;
    if (!make_wires(node, port_count) || !sw_init(sw, &fabric->pool, port_count, seed)) {
        free(sw);
        return 0;
    }
    node->sw = sw;
    return 1;
}

void fabric_remove(struct fabric *fabric, uint32_t number)
{
    struct node *node = &fabric->nodes[number];
    if (!node->sw) return;
    sw_free(node->sw);
    free(node->sw);
    node->sw = NULL;
}

void fabric_connect(struct fabric *fabric, uint32_t number, uint32_t port, uint32_t to_node, uint32_t to_port)
{
    struct node *node = &fabric->nodes[number];
    if (port < node->wire_count)
        node->wires[port] = (struct wire){ .node = to_node, .port = to_port, .inside = true };
}

void fabric_watch(struct fabric *fabric, uint32_t number, uint32_t port, uint32_t watched)
{
    struct node *node = &fabric->nodes[number];
    if (port < node->wire_count) node->wires[port].watched = watched != 0;
}

static uint32_t length_of(const struct fifo *fifo)
{
    uint32_t count = 0;
    for (const struct packet *packet = fifo->head; packet; packet = packet->next) count++;
    return count;
}

uint32_t fabric_held(const struct fabric *fabric, uint32_t number)
{
    const struct sw *sw = fabric->nodes[number].sw;
    if (!sw) return 0;
    uint32_t count = length_of(&sw->again) + length_of(&sw->out);
    for (uint32_t i = 0; i < sw->port_count; i++) {
        const struct port *port = &sw->ports[i];
        count += length_of(&port->ingress) + length_of(&port->wire);
        for (uint32_t j = 0; j < QUEUES_MAX; j++) count += length_of(&port->queues[j].fifo);
    }
    return count;
}

/* --- frames out of a switch */

static void release_arrivals(struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->view.arrival_count; i++) pool_give(&fabric->pool, fabric->held[i]);
    fabric->view.arrival_count = 0;
}

static bool room_for_arrival(struct fabric *fabric)
{
    if (fabric->view.arrival_count < fabric->arrival_space) return true;
    uint32_t space = fabric->arrival_space ? 2 * fabric->arrival_space : 64;
    struct fabric_arrival *arrivals = realloc(fabric->arrivals, space * sizeof *arrivals);
    if (arrivals) fabric->arrivals = arrivals;
    struct packet **held = realloc(fabric->held, space * sizeof *held);
    if (held) fabric->held = held;
    if (!arrivals || !held) return false;
    fabric->arrival_space = space;
    return true;
}

static void arrive(struct fabric *fabric, uint32_t number, struct packet *packet)
{
    if (!room_for_arrival(fabric)) {
        fabric->out_of_memory = true;
        pool_give(&fabric->pool, packet);
        return;
    }
    uint32_t at = fabric->view.arrival_count++;
    fabric->held[at] = packet;
    fabric->arrivals[at] = (struct fabric_arrival){
        .bytes = packet->bytes + packet->offset, .length = packet->length,
        .node = number, .port = packet->egress_port,
    };
    fabric->view.arrivals = fabric->arrivals;
}

static void put_on_wire(struct fabric *fabric, uint32_t number, struct packet *packet, uint64_t now_ns)
{
    const struct wire *wire = &fabric->nodes[number].wires[packet->egress_port];
    if (!wire->inside || wire->watched) {
        arrive(fabric, number, packet);
        return;
    }
    slot_of(packet)->loops = 0;
    slot_of(packet)->trimmed = false;
    struct event event = { .at_ns = now_ns, .node = wire->node, .port = wire->port, .packet = packet };
    if (!push(fabric, event)) {
        fabric->out_of_memory = true;
        pool_give(&fabric->pool, packet);
    }
}

/* At most one timer event a node matters: the earliest; later ones find nothing due. */
static void arm(struct fabric *fabric, uint32_t number, uint64_t now_ns)
{
    struct node *node = &fabric->nodes[number];
    uint64_t due_ns = sw_next_timeout(node->sw);
    if (due_ns == NEVER || node->armed_ns <= due_ns) return;
    node->armed_ns = due_ns < now_ns ? now_ns : due_ns;
    struct event event = { .at_ns = node->armed_ns, .node = number, .port = TIMER };
    if (!push(fabric, event)) fabric->out_of_memory = true;
}

static void drain(struct fabric *fabric, uint32_t number, uint64_t now_ns)
{
    struct sw *sw = fabric->nodes[number].sw;
    struct packet *packet;
    while ((packet = sw_poll(sw, now_ns))) {
        sw_forward(sw, packet);
        put_on_wire(fabric, number, packet, now_ns);
    }
    arm(fabric, number, now_ns);
}

static uint32_t come_back(struct fabric *fabric)
{
    fabric->view.next_ns = fabric->heap_count ? fabric->heap[0].at_ns : NEVER;
    return fabric->out_of_memory ? UINT32_MAX : fabric->view.arrival_count;
}

/* --- events */

static void receive(struct fabric *fabric, struct node *node, const struct event *event, uint64_t now_ns)
{
    if (event->port == TIMER) {
        node->armed_ns = NEVER;
    } else if (node->sw && event->port < node->sw->port_count) {
        sw_receive_packet(node->sw, event->port, event->packet, now_ns);
    } else {
        fabric->view.lost++;
        pool_give(&fabric->pool, event->packet);
    }
}

static void run_moment(struct fabric *fabric)
{
    uint64_t now_ns = fabric->heap[0].at_ns;
    uint32_t number = fabric->heap[0].node;
    struct node *node = &fabric->nodes[number];
    if (now_ns != fabric->view.now_ns) fabric->moment_events = 0;
    fabric->view.now_ns = now_ns;
    while (fabric->heap_count && fabric->heap[0].at_ns <= now_ns && fabric->heap[0].node == number) {
        struct event event = pop(fabric);
        fabric->view.events++;
        fabric->moment_events++;
        receive(fabric, node, &event, now_ns);
    }
    if (!node->sw) return;
    if (sw_next_timeout(node->sw) <= now_ns) sw_handle_timeout(node->sw, now_ns);
    drain(fabric, number, now_ns);
}

uint32_t fabric_run(struct fabric *fabric, uint64_t limit_ns)
{
    release_arrivals(fabric);
    while (fabric->heap_count && fabric->heap[0].at_ns < limit_ns && !fabric->view.arrival_count) {
        run_moment(fabric);
        if (fabric->moment_events > MOMENT_EVENTS_MAX) return UINT32_MAX;
    }
    return come_back(fabric);
}

uint32_t fabric_send(struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t at_ns)
{
    struct packet *packet = length > FRAME_MAX ? NULL : pool_take(&fabric->pool);
    if (!packet) return 0;
    memcpy(packet->bytes + packet->offset, bytes, length);
    packet->length = length;
    struct event event = { .at_ns = at_ns, .node = node, .port = port, .packet = packet };
    if (!push(fabric, event)) {
        pool_give(&fabric->pool, packet);
        return 0;
    }
    fabric->view.next_ns = fabric->heap[0].at_ns;
    return 1;
}

uint32_t fabric_wake(struct fabric *fabric, uint32_t node, uint64_t now_ns)
{
    release_arrivals(fabric);
    if (fabric->nodes[node].sw) drain(fabric, node, now_ns);
    return come_back(fabric);
}

void fabric_port_changed(struct fabric *fabric, uint32_t node, uint32_t port, uint32_t up, uint64_t now_ns)
{
    struct sw *sw = fabric->nodes[node].sw;
    if (sw) sw_port_changed(sw, port, up != 0, now_ns);
}

uint32_t fabric_control(struct fabric *fabric, uint32_t node, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns)
{
    struct sw *sw = fabric->nodes[node].sw;
    return sw ? control_handle(sw, request, length, reply, capacity, now_ns) : 0;
}
