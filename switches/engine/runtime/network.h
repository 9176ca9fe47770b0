/* Many switches wired to each other in one process, with their share of a driver's event heap.
 *
 * A driver with nodes of its own (hosts) keeps the rest of the heap.  Events are in the order
 * (time, node, sequence): a node is run once for a moment: all frames due to it are delivered, then
 * its timeout, then it transmits.  A frame to a switch that is wired here becomes an event; a frame
 * to anything else, or over a watched wire, is an arrival: the driver's to carry.  `network_run`
 * comes back after the first moment that has any, because what the driver does with them may come
 * before the next event.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdint.h>

/* A frame that a switch put on a wire the network does not run. */
struct network_arrival {
    const uint8_t *bytes;        /* good until the next call */
    uint32_t length, node, port; /* the sender */
    uint32_t reserved;
};

/* Kept up to date by every call. */
struct network_view {
    uint64_t next_ns;            /* time of the next event (UINT64_MAX: none) */
    uint64_t now_ns;             /* time of the last */
    uint64_t events;             /* frames and timers handled so far */
    uint64_t lost;               /* frames for a switch that is not there */
    const struct network_arrival *arrivals;
    uint32_t arrival_count, reserved;
};
struct network;

/* Nodes are 0 .. node_count - 1, each at first without a switch.  NULL when memory is short. */
struct network *network_create(uint32_t node_count);
void network_destroy(struct network *network);
const struct network_view *network_view(const struct network *network);

/* A new switch at that node; 0 when memory is short, the node is taken or a number is wrong. */
uint32_t network_add(struct network *network, uint32_t node, uint32_t port_count, uint64_t seed);
/* The switch and all frames in it are gone.  Wires stay. */
void network_remove(struct network *network, uint32_t node);
/* One direction of a wire between switches. */
void network_connect(struct network *network, uint32_t node, uint32_t port, uint32_t to_node, uint32_t to_port);
/* Whether frames sent there are arrivals even though a switch is at the other end. */
void network_watch(struct network *network, uint32_t node, uint32_t port, uint32_t watched);
/* Packets inside that switch: in queues, delayed, on the way to the wire. */
uint32_t network_held(const struct network *network, uint32_t node);

/* A frame that reaches a switch at that time, now or later.  0 when it is too long or memory is short. */
uint32_t network_send(struct network *network, uint32_t node, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t at_ns);
/* Events before limit_ns, until there are arrivals.  Gives their number; UINT32_MAX when time stands
 * still: too many events at one instant. */
uint32_t network_run(struct network *network, uint64_t limit_ns);
/* Each lets the switch transmit what it can at once, and gives the number of arrivals. */
uint32_t network_wake(struct network *network, uint32_t node, uint64_t now_ns);
void network_port_changed(struct network *network, uint32_t node, uint32_t port, uint32_t up, uint64_t now_ns);
/* One control message (control.h); gives the length of the reply. */
uint32_t network_control(struct network *network, uint32_t node, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns);

#endif
