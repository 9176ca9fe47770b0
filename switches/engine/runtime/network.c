#include "network.h"

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
struct network {
    struct network_view view;
    struct pool pool;
    struct node *nodes;
    uint32_t node_count;
    struct event *heap;
    uint32_t heap_count, heap_space;
    uint64_t sequence;
    struct network_arrival *arrivals;
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

static bool push(struct network *network, struct event event)
{
    if (network->heap_count == network->heap_space) {
        uint32_t space = network->heap_space ? 2 * network->heap_space : 256;
        struct event *heap = realloc(network->heap, space * sizeof *heap);
        if (!heap) return false;
        network->heap = heap;
        network->heap_space = space;
    }
    event.sequence = network->sequence++;
    uint32_t at = network->heap_count++;
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (!before(&event, &network->heap[parent])) break;
        network->heap[at] = network->heap[parent];
        at = parent;
    }
    network->heap[at] = event;
    return true;
}

static struct event pop(struct network *network)
{
    struct event top = network->heap[0], last = network->heap[--network->heap_count];
    uint32_t at = 0, count = network->heap_count;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && before(&network->heap[child + 1], &network->heap[child])) child++;
        if (!before(&network->heap[child], &last)) break;
        network->heap[at] = network->heap[child];
        at = child;
    }
    if (count) network->heap[at] = last;
    return top;
}

/* --- life */

struct network *network_create(uint32_t node_count)
{
    struct network *network = calloc(1, sizeof *network);
    if (!network) return NULL;
    network->nodes = calloc(node_count ? node_count : 1, sizeof *network->nodes);
    if (!network->nodes) {
        free(network);
        return NULL;
    }
    network->node_count = node_count;
    for (uint32_t i = 0; i < node_count; i++) network->nodes[i].armed_ns = NEVER;
    network->view.next_ns = NEVER;
    pool_init(&network->pool, PROGRAM.phv_size, POOL_LIMIT);
    return network;
}

void network_destroy(struct network *network)
{
    if (!network) return;
    for (uint32_t i = 0; i < network->node_count; i++) {
        network_remove(network, i);
        free(network->nodes[i].wires);
    }
    pool_free(&network->pool);
    free(network->nodes);
    free(network->heap);
    free(network->arrivals);
    free(network->held);
    free(network);
}

const struct network_view *network_view(const struct network *network) { return &network->view; }

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

uint32_t network_add(struct network *network, uint32_t number, uint32_t port_count, uint64_t seed)
{
    if (number >= network->node_count || network->nodes[number].sw) return 0;
    struct node *node = &network->nodes[number];
    struct sw *sw = malloc(sizeof *sw);
    if (!sw) return 0;
    if (!make_wires(node, port_count) || !sw_init(sw, &network->pool, port_count, seed)) {
        free(sw);
        return 0;
    }
    node->sw = sw;
    return 1;
}

void network_remove(struct network *network, uint32_t number)
{
    struct node *node = &network->nodes[number];
    if (!node->sw) return;
    sw_free(node->sw);
    free(node->sw);
    node->sw = NULL;
}

void network_connect(struct network *network, uint32_t number, uint32_t port, uint32_t to_node, uint32_t to_port)
{
    struct node *node = &network->nodes[number];
    if (port < node->wire_count)
        node->wires[port] = (struct wire){ .node = to_node, .port = to_port, .inside = true };
}

void network_watch(struct network *network, uint32_t number, uint32_t port, uint32_t watched)
{
    struct node *node = &network->nodes[number];
    if (port < node->wire_count) node->wires[port].watched = watched != 0;
}

static uint32_t length_of(const struct fifo *fifo)
{
    uint32_t count = 0;
    for (const struct packet *packet = fifo->head; packet; packet = packet->next) count++;
    return count;
}

uint32_t network_held(const struct network *network, uint32_t number)
{
    const struct sw *sw = network->nodes[number].sw;
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

static void release_arrivals(struct network *network)
{
    for (uint32_t i = 0; i < network->view.arrival_count; i++) pool_give(&network->pool, network->held[i]);
    network->view.arrival_count = 0;
}

static bool room_for_arrival(struct network *network)
{
    if (network->view.arrival_count < network->arrival_space) return true;
    uint32_t space = network->arrival_space ? 2 * network->arrival_space : 64;
    struct network_arrival *arrivals = realloc(network->arrivals, space * sizeof *arrivals);
    if (arrivals) network->arrivals = arrivals;
    struct packet **held = realloc(network->held, space * sizeof *held);
    if (held) network->held = held;
    if (!arrivals || !held) return false;
    network->arrival_space = space;
    return true;
}

static void arrive(struct network *network, uint32_t number, struct packet *packet)
{
    if (!room_for_arrival(network)) {
        network->out_of_memory = true;
        pool_give(&network->pool, packet);
        return;
    }
    uint32_t at = network->view.arrival_count++;
    network->held[at] = packet;
    network->arrivals[at] = (struct network_arrival){
        .bytes = packet->bytes + packet->offset, .length = packet->length,
        .node = number, .port = packet->egress_port,
    };
    network->view.arrivals = network->arrivals;
}

static void put_on_wire(struct network *network, uint32_t number, struct packet *packet, uint64_t now_ns)
{
    const struct wire *wire = &network->nodes[number].wires[packet->egress_port];
    if (!wire->inside || wire->watched) {
        arrive(network, number, packet);
        return;
    }
    slot_of(packet)->loops = 0;
    slot_of(packet)->trimmed = false;
    struct event event = { .at_ns = now_ns, .node = wire->node, .port = wire->port, .packet = packet };
    if (!push(network, event)) {
        network->out_of_memory = true;
        pool_give(&network->pool, packet);
    }
}

/* At most one timer event a node matters: the earliest; later ones find nothing due. */
static void arm(struct network *network, uint32_t number, uint64_t now_ns)
{
    struct node *node = &network->nodes[number];
    uint64_t due_ns = sw_next_timeout(node->sw);
    if (due_ns == NEVER || node->armed_ns <= due_ns) return;
    node->armed_ns = due_ns < now_ns ? now_ns : due_ns;
    struct event event = { .at_ns = node->armed_ns, .node = number, .port = TIMER };
    if (!push(network, event)) network->out_of_memory = true;
}

static void drain(struct network *network, uint32_t number, uint64_t now_ns)
{
    struct sw *sw = network->nodes[number].sw;
    struct packet *packet;
    while ((packet = sw_poll(sw, now_ns))) {
        sw_forward(sw, packet);
        put_on_wire(network, number, packet, now_ns);
    }
    arm(network, number, now_ns);
}

static uint32_t come_back(struct network *network)
{
    network->view.next_ns = network->heap_count ? network->heap[0].at_ns : NEVER;
    return network->out_of_memory ? UINT32_MAX : network->view.arrival_count;
}

/* --- events */

static void receive(struct network *network, struct node *node, const struct event *event, uint64_t now_ns)
{
    if (event->port == TIMER) {
        node->armed_ns = NEVER;
    } else if (node->sw && event->port < node->sw->port_count) {
        sw_receive_packet(node->sw, event->port, event->packet, now_ns);
    } else {
        network->view.lost++;
        pool_give(&network->pool, event->packet);
    }
}

static void run_moment(struct network *network)
{
    uint64_t now_ns = network->heap[0].at_ns;
    uint32_t number = network->heap[0].node;
    struct node *node = &network->nodes[number];
    if (now_ns != network->view.now_ns) network->moment_events = 0;
    network->view.now_ns = now_ns;
    while (network->heap_count && network->heap[0].at_ns <= now_ns && network->heap[0].node == number) {
        struct event event = pop(network);
        network->view.events++;
        network->moment_events++;
        receive(network, node, &event, now_ns);
    }
    if (!node->sw) return;
    if (sw_next_timeout(node->sw) <= now_ns) sw_handle_timeout(node->sw, now_ns);
    drain(network, number, now_ns);
}

uint32_t network_run(struct network *network, uint64_t limit_ns)
{
    release_arrivals(network);
    while (network->heap_count && network->heap[0].at_ns < limit_ns && !network->view.arrival_count) {
        run_moment(network);
        if (network->moment_events > MOMENT_EVENTS_MAX) return UINT32_MAX;
    }
    return come_back(network);
}

uint32_t network_send(struct network *network, uint32_t node, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t at_ns)
{
    struct packet *packet = length > FRAME_MAX ? NULL : pool_take(&network->pool);
    if (!packet) return 0;
    memcpy(packet->bytes + packet->offset, bytes, length);
    packet->length = length;
    struct event event = { .at_ns = at_ns, .node = node, .port = port, .packet = packet };
    if (!push(network, event)) {
        pool_give(&network->pool, packet);
        return 0;
    }
    network->view.next_ns = network->heap[0].at_ns;
    return 1;
}

uint32_t network_wake(struct network *network, uint32_t node, uint64_t now_ns)
{
    release_arrivals(network);
    if (network->nodes[node].sw) drain(network, node, now_ns);
    return come_back(network);
}

void network_port_changed(struct network *network, uint32_t node, uint32_t port, uint32_t up, uint64_t now_ns)
{
    struct sw *sw = network->nodes[node].sw;
    if (sw) sw_port_changed(sw, port, up != 0, now_ns);
}

uint32_t network_control(struct network *network, uint32_t node, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns)
{
    struct sw *sw = network->nodes[node].sw;
    return sw ? control_handle(sw, request, length, reply, capacity, now_ns) : 0;
}
