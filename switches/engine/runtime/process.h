/* One switch as one process: what is around the state machine when the wires are real.
 *
 *     process.c           arguments, the loop, control messages
 *     process_port.c      AF_PACKET sockets: frames in and out in batches
 *     process_ring.c      the mapped receive ring of a socket
 *     process_carrier.c   netlink: carrier comes and goes
 *     process_lateness.c  how late the loop served its deadlines
 */
#ifndef PROCESS_H
#define PROCESS_H

#include "switch.h"

#define BATCH 64                        /* frames a system call */
#define RECEIVE_BYTES_MIN (8 << 20)     /* of socket buffer; a default one holds 24 data frames */
#define RING_FRAMES 512                 /* of a mapped ring, where no such buffer can be had */

/* --- lateness */

/* Sixteen buckets an octave: quantiles are right to 6 %. */
struct histogram { uint64_t count, max_ns, buckets[64 * 16]; };

void histogram_add(struct histogram *histogram, uint64_t late_ns);
/* The smallest bound that `per_mille` thousandths of all values do not pass. */
uint64_t histogram_quantile(const struct histogram *histogram, uint32_t per_mille);

struct lateness { struct histogram timers, sends; uint64_t loops, receive_calls, send_calls; };

/* --- ports */

/* Slots that the kernel fills in order and we give back in order. */
struct ring { uint8_t *memory; size_t bytes; uint32_t slot_bytes, slots_per_block, slots, next; };

/* Before bind.  Gives 0, or an errno. */
int ring_open(struct ring *ring, int fd, const char *interface);
/* The next filled slot or NULL, its frame in *frame, *length bytes long on the wire and *here in the
 * slot; to be given back before the next is asked for. */
void *ring_take(struct ring *ring, const uint8_t **frame, uint32_t *length, uint32_t *here);
void ring_give(struct ring *ring, void *slot);

struct net_port {
    const char *interface;              /* NULL: a port without a wire */
    int fd, index;
    bool blocked;                       /* the kernel takes no frame now; EPOLLOUT will tell */
    bool use_ring;                      /* asked for, or because the kernel gives no large buffer */
    struct ring ring;
    struct fifo waiting;                /* frames for the wire, not yet taken by the kernel */
};

/* Opens and binds.  On failure says why on stderr and gives false. */
bool net_port_open(struct net_port *port, const char *switch_name);
/* Up to BATCH frames go into the switch. */
void net_port_receive(struct net_port *port, struct sw *sw, uint32_t number, uint64_t now_ns);
/* Packets kept ready for the next frames go back to the pool, so that its count is of frames alone. */
void net_port_give_back(struct sw *sw);
/* As many of the waiting frames as the kernel takes. */
void net_port_send(struct net_port *port, struct sw *sw, struct lateness *lateness, uint64_t now_ns);
/* Frames the socket lost since the last call. */
uint64_t net_port_drops(struct net_port *port);

/* --- carrier */

typedef void carrier_seen(void *context, int index, bool up);

/* A netlink socket that hears of every link of this namespace and has asked for all once; -1 and a
 * message on failure. */
int carrier_open(const char *switch_name);
/* Reports all that has been heard. */
void carrier_read(int fd, carrier_seen *seen, void *context);

#endif
