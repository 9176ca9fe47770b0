#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_BYTES (1u << 16)
/* Before the frame in a slot: header, address, and room that aligns what follows Ethernet. */
#define SLOT_HEAD 96
#define SLOT_ALIGN TPACKET_ALIGNMENT
#define ETHERNET_AND_VLAN 18

_Static_assert(SLOT_HEAD >= TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + 16, "room before the frame");

static uint32_t frame_bytes_max(int fd, const char *interface)
{
    struct ifreq request = { 0 };
    strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
    if (ioctl(fd, SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return FRAME_MAX;
    uint32_t bytes = (uint32_t)request.ifr_mtu + ETHERNET_AND_VLAN;
    return bytes < FRAME_MAX ? bytes : FRAME_MAX;
}

int ring_open(struct ring *ring, int fd, const char *interface)
{
    int version = TPACKET_V2;
    uint32_t frame_bytes = frame_bytes_max(fd, interface);
    uint32_t slot_bytes = (SLOT_HEAD + frame_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
    uint32_t per_block = BLOCK_BYTES / slot_bytes, blocks = (RING_FRAMES + per_block - 1) / per_block;
    struct tpacket_req request = { .tp_block_size = BLOCK_BYTES, .tp_block_nr = blocks,
                                   .tp_frame_size = slot_bytes, .tp_frame_nr = blocks * per_block };
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0) return errno;
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) return errno;
    size_t bytes = (size_t)blocks * BLOCK_BYTES;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return errno;
    *ring = (struct ring){ .memory = memory, .bytes = bytes, .slot_bytes = slot_bytes,
                           .slots_per_block = per_block, .slots = blocks * per_block };
    return 0;
}

static struct tpacket2_hdr *slot_at(const struct ring *ring, uint32_t index)
{
    uint32_t block = index / ring->slots_per_block, place = index % ring->slots_per_block;
    return (struct tpacket2_hdr *)(void *)(ring->memory + (size_t)block * BLOCK_BYTES + place * ring->slot_bytes);
}

void *ring_take(struct ring *ring, const uint8_t **frame, uint32_t *length, uint32_t *here)
{
    struct tpacket2_hdr *slot = slot_at(ring, ring->next);
    if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return NULL;
    *frame = (const uint8_t *)slot + slot->tp_mac;
    *length = slot->tp_len;
    *here = slot->tp_snaplen;
    return slot;
}

void ring_give(struct ring *ring, void *slot)
{
    __atomic_store_n(&((struct tpacket2_hdr *)slot)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = (ring->next + 1) % ring->slots;
}
