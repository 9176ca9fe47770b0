/* Packets, made in slabs and kept for ever: none is allocated or freed while frames flow.
 *
 * A pool grows to its high-water mark and stays there.  Switches that hand packets to each other
 * (one process, many switches) share one pool; a pool is not for two threads at once. */
#ifndef POOL_H
#define POOL_H

#include "pipeline.h"

/* A packet and what only the runtime knows of it. */
struct slot {
    struct packet packet;
    uint8_t loops;               /* times it was cloned, resubmitted or recirculated */
    bool trimmed;                /* counted as a trim by the queue it is in */
};
static inline struct slot *slot_of(struct packet *packet) { return (struct slot *)packet; }

struct slab;
struct pool {
    struct packet *free;
    struct slab *slabs;
    uint32_t phv_bytes;
    uint32_t made, limit;        /* packets; `limit` bounds what a runaway program can take */
    uint32_t used, used_max;
};

void pool_init(struct pool *pool, uint32_t phv_bytes, uint32_t limit);
void pool_free(struct pool *pool);

/* An empty packet (offset FRAME_HEADROOM, length 0; the phv is not cleared), or NULL when the limit
 * or the memory of the machine is reached. */
struct packet *pool_take(struct pool *pool);
void pool_give(struct pool *pool, struct packet *packet);

#endif
