#include "pool.h"

#include <stdlib.h>

#define SLAB_PACKETS 32
#define FRAME_SPACE (FRAME_HEADROOM + FRAME_MAX)

struct slab {
    struct slab *next;
    struct slot slots[SLAB_PACKETS];
    uint8_t *memory;             /* per packet: phv, then the space of the frame */
};

static size_t align(size_t bytes) { return (bytes + PHV_ALIGN - 1) / PHV_ALIGN * PHV_ALIGN; }

void pool_init(struct pool *pool, uint32_t phv_bytes, uint32_t limit)
{
    *pool = (struct pool){ .phv_bytes = phv_bytes, .limit = limit };
}

void pool_free(struct pool *pool)
{
    while (pool->slabs) {
        struct slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab->memory);
        free(slab);
    }
    *pool = (struct pool){ .phv_bytes = pool->phv_bytes, .limit = pool->limit };
}

static bool grow(struct pool *pool)
{
    if (pool->made >= pool->limit) return false;
    size_t phv = align(pool->phv_bytes), stride = phv + align(FRAME_SPACE);
    struct slab *slab = calloc(1, sizeof *slab);
    if (!slab) return false;
    slab->memory = aligned_alloc(PHV_ALIGN, stride * SLAB_PACKETS);
    if (!slab->memory) {
        free(slab);
        return false;
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (uint32_t i = SLAB_PACKETS; i-- > 0;) {
        struct packet *packet = &slab->slots[i].packet;
        packet->phv = slab->memory + i * stride;
        packet->bytes = slab->memory + i * stride + phv;
        packet->next = pool->free;
        pool->free = packet;
    }
    pool->made += SLAB_PACKETS;
    return true;
}

struct packet *pool_take(struct pool *pool)
{
    if (!pool->free && !grow(pool)) return NULL;
    struct packet *packet = pool->free;
    pool->free = packet->next;
    packet->next = NULL;
    packet->offset = FRAME_HEADROOM;
    packet->length = 0;
    slot_of(packet)->loops = 0;
    slot_of(packet)->trimmed = false;
    if (++pool->used > pool->used_max) pool->used_max = pool->used;
    return packet;
}

void pool_give(struct pool *pool, struct packet *packet)
{
    packet->next = pool->free;
    pool->free = packet;
    pool->used--;
}
