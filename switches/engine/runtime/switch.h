/* One switch as a state machine: frames and times go in, frames and deadlines come out.
 *
 *     wire -> [ingress delay] -> parser, ingress -> queues of the egress port
 *          -> (strict priority, port rate) -> egress, deparser -> [egress delay] -> wire
 *
 * Nothing here reads a clock, opens a socket or draws randomness of its own.  Time is an argument,
 * in nanoseconds of the caller's clock, and never goes back.  No globals but PROGRAM: a process may
 * hold many switches.  After any call that takes `now_ns`, call sw_poll until it gives NULL, then
 * ask sw_next_timeout.
 *
 * Sources: pool.c, switch.c, groups.c and traffic.c (this file), control.c, tables.c, externs.c, the
 * generated program; besides library.c and network.c for the shared library, process*.c for the
 * executable.
 */
#ifndef SWITCH_H
#define SWITCH_H

#include "pipeline.h"
#include "pool.h"
#include "state.h"

#define PORTS_MAX DROP_PORT      /* ports are 0 .. 510 */
#define QUEUES_MAX 8             /* v1model's priority has 3 bits */
#define LOOPS_MAX 64             /* clone, resubmit and recirculation of one packet; then it is dropped */
#define NEVER UINT64_MAX

/* Packets of one stage, first in first out. */
struct fifo { struct packet *head, *tail; };

/* A queue is full when a packet more would pass either limit. */
struct queue_limit { uint32_t packets; uint64_t bytes; };

/* Counts never fall.  trim = trim_sent + trim_drop + trims queued now; `dropped` leaves trims out. */
struct queue {
    struct fifo fifo;
    struct queue_limit limit;
    bool paused;
    uint32_t packets, packets_max;
    uint64_t bytes;
    uint64_t enqueued, dequeued, dropped, trim, trim_sent, trim_drop;
};

struct port_config {
    uint64_t rate_bps;           /* bits of frame a second at egress, 0 = unlimited */
    uint64_t egress_delay_ns, ingress_delay_ns;
    uint32_t queue_count;
    struct queue_limit queues[QUEUES_MAX];
};

struct port {
    bool up;
    uint64_t rate_bps, egress_delay_ns, ingress_delay_ns;
    struct fifo ingress;         /* on the way from the wire to the parser */
    struct fifo wire;            /* being serialised or on the way to the wire */
    uint64_t free_ns, free_rem;  /* the line is free from free_ns + free_rem / rate_bps */
    uint32_t queue_count;
    struct queue queues[QUEUES_MAX];
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, link_down;
    uint64_t ring_drops;         /* lost in the socket before us; set by the process */
    uint64_t busy_ns, lost_ns;   /* time the line was used; time it lost because we came late */
};

/* Losses that belong to no queue and no wire. */
enum drop_reason {
    DROP_INGRESS,                /* by the program, in ingress */
    DROP_EGRESS,                 /* by the program, in egress */
    DROP_NO_PORT,                /* egress_spec is no port of this switch */
    DROP_NO_QUEUE,               /* priority is no queue of the port */
    DROP_NO_GROUP,               /* multicast group or clone session unknown or empty */
    DROP_NO_BUFFER,              /* the pool is at its limit */
    DROP_TOO_LONG,               /* longer than FRAME_MAX, when it came or when it should leave */
    DROP_LOOP,                   /* cloned, resubmitted or recirculated LOOPS_MAX times */
    DROP_REASONS
};

/* Where copies of a packet go: a multicast group, or a clone session. */
struct replica { uint16_t port, rid; };
struct group {
    uint32_t id;
    uint32_t truncate_to;        /* clone sessions: bytes to keep, 0 = all */
    uint32_t count;
    struct replica *replicas;
};
struct groups { struct group *groups; uint32_t count; };

struct sw {
    struct state state;          /* first: the generated program knows no more of us */
    struct pool *pool;
    uint64_t now_ns;
    uint32_t port_count;
    struct port *ports;
    uint64_t *wake_ns;           /* by port: when it next has something to do */
    struct fifo again;           /* resubmitted or recirculated, to be parsed at once */
    struct fifo out;             /* at the wire: what sw_poll gives */
    uint64_t drops[DROP_REASONS];
    struct groups multicast, sessions;
    uint64_t seed;
};

/* False when memory is short or there are too many ports.  Ports start up, unlimited, no delay. */
bool sw_init(struct sw *sw, struct pool *pool, uint32_t port_count, uint64_t seed);
void sw_free(struct sw *sw);
/* Tables, counters, registers and random stream as after sw_init, groups and sessions gone; ports,
 * queues and packets on their way are left alone.  False: no memory, nothing changed. */
bool sw_reload(struct sw *sw);

/* A frame from the wire (Ethernet header first, no FCS).  The second form takes over a packet of
 * the switch's pool whose offset and length are set: no copy. */
void sw_receive(struct sw *sw, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t now_ns);
void sw_receive_packet(struct sw *sw, uint32_t port, struct packet *packet, uint64_t now_ns);

/* Does what is due.  Harmless when nothing is. */
void sw_handle_timeout(struct sw *sw, uint64_t now_ns);
/* When to call sw_handle_timeout, or NEVER. */
uint64_t sw_next_timeout(const struct sw *sw);

/* The next frame for the wire of packet->egress_port, or NULL.  The caller owns it until sw_sent
 * (it left), sw_lost (the wire was dead) or sw_forward (it moved on to another switch). */
struct packet *sw_poll(struct sw *sw, uint64_t now_ns);
void sw_sent(struct sw *sw, struct packet *packet);
void sw_lost(struct sw *sw, struct packet *packet);
/* Counts as sent and leaves the packet to the caller, clean for sw_receive_packet elsewhere. */
void sw_forward(struct sw *sw, struct packet *packet);

/* A port that is down goes on draining at line rate through egress; its frames end at the wire as
 * link_down.  No queue is ever flushed, since programs that count a queue see only its dequeues. */
void sw_port_changed(struct sw *sw, uint32_t port, bool up, uint64_t now_ns);
/* False where port or queue does not exist or a number makes no sense; then nothing changes.
 * Packets stay queued. */
bool sw_configure_port(struct sw *sw, uint32_t port, const struct port_config *config, uint64_t now_ns);
bool sw_pause_queue(struct sw *sw, uint32_t port, uint32_t queue, bool paused, uint64_t now_ns);

/* Replaces the group of that id; count 0 deletes it.  False: no memory, nothing changed. */
bool groups_set(struct groups *groups, uint32_t id, uint32_t truncate_to,
                const struct replica *replicas, uint32_t count);
const struct group *groups_find(const struct groups *groups, uint32_t id);

/* --- between switch.c (the pipeline and its side paths) and traffic.c (queues and lines) */
void fifo_push(struct fifo *fifo, struct packet *packet);
struct packet *fifo_pop(struct fifo *fifo);
void sw_drop(struct sw *sw, struct packet *packet, enum drop_reason reason);
/* From ingress to a queue. */
void traffic_enqueue(struct sw *sw, uint32_t port, struct packet *packet);
/* Starts what the line of a port has time for. */
void traffic_transmit(struct sw *sw, uint32_t port);
/* Sets sw->wake_ns[port]. */
void traffic_schedule(struct sw *sw, uint32_t port);
/* A new packet at the parser; ingress, egress and what they ask for.  `egress` is false when nothing
 * is left to transmit. */
void switch_arrival(struct sw *sw, struct packet *packet);
void switch_ingress(struct sw *sw, struct packet *packet);
bool switch_egress(struct sw *sw, struct packet *packet);

#endif
