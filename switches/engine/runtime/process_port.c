#define _GNU_SOURCE
#include "process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#define SEND_BYTES (4 << 20)

static bool refuse(struct net_port *port, const char *switch_name, const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s: %s\n", switch_name, port->interface, what, strerror(error));
    if (port->fd >= 0) close(port->fd);
    port->fd = -1;
    return false;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* The kernel doubles the number for its own bookkeeping, and reports the double. */
static bool give_receive_buffer(int fd)
{
    int got = 0;
    socklen_t size = sizeof got;
    if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES_MIN) != 0)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES_MIN);
    return getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &size) == 0 && got / 2 >= RECEIVE_BYTES_MIN;
}

bool net_port_open(struct net_port *port, const char *switch_name)
{
    /* Protocol 0 hears nothing: no frame comes in before the socket is ready for it. */
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (port->fd < 0) return refuse(port, switch_name, "no packet socket (CAP_NET_RAW)", errno);
    port->index = (int)if_nametoindex(port->interface);
    if (port->index == 0) return refuse(port, switch_name, "no such interface", errno);
    if (!port->use_ring && !give_receive_buffer(port->fd)) port->use_ring = true;
    int error = port->use_ring ? ring_open(&port->ring, port->fd, port->interface) : 0;
    if (error) return refuse(port, switch_name, "neither a large receive buffer nor a ring", error);
    if (set_option(port->fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BYTES) != 0)
        set_option(port->fd, SOL_SOCKET, SO_SNDBUF, SEND_BYTES);
    if (set_option(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) != 0)
        return refuse(port, switch_name, "PACKET_IGNORE_OUTGOING (Linux 4.20)", errno);
    struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                   .sll_ifindex = port->index };
    if (bind(port->fd, (struct sockaddr *)&address, sizeof address) != 0)
        return refuse(port, switch_name, "bind", errno);
    struct packet_mreq promiscuous = { .mr_ifindex = port->index, .mr_type = PACKET_MR_PROMISC };
    if (setsockopt(port->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) != 0)
        return refuse(port, switch_name, "promiscuous mode", errno);
    return true;
}

/* Frames are received into packets of the pool, so that nothing is copied on the way in. */
static struct { struct mmsghdr messages[BATCH]; struct iovec parts[BATCH]; struct packet *packets[BATCH]; } in;

static uint32_t fill_batch(struct sw *sw)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        if (!in.packets[i]) in.packets[i] = pool_take(sw->pool);
        if (!in.packets[i]) return i;
        in.parts[i] = (struct iovec){ in.packets[i]->bytes + FRAME_HEADROOM, FRAME_MAX };
        in.messages[i].msg_hdr = (struct msghdr){ .msg_iov = &in.parts[i], .msg_iovlen = 1 };
    }
    return BATCH;
}

void net_port_give_back(struct sw *sw)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        if (in.packets[i]) pool_give(sw->pool, in.packets[i]);
        in.packets[i] = NULL;
    }
}

static void drop_long(struct sw *sw, uint32_t number, struct packet *packet, uint32_t length)
{
    sw->ports[number].rx_packets++;
    sw->ports[number].rx_bytes += length;
    sw_drop(sw, packet, DROP_TOO_LONG);
}

static void receive_by_call(struct net_port *port, struct sw *sw, uint32_t number, uint64_t now_ns)
{
    uint32_t room = fill_batch(sw);
    if (room == 0) return;              /* the frames wait in the socket, which counts what it loses */
    /* Errors need no answer: ENETDOWN is said once when the interface goes down. */
    int count = recvmmsg(port->fd, in.messages, room, MSG_DONTWAIT, NULL);
    for (int i = 0; i < count; i++) {
        struct packet *packet = in.packets[i];
        in.packets[i] = NULL;
        packet->length = in.messages[i].msg_len;
        if (in.messages[i].msg_hdr.msg_flags & MSG_TRUNC) drop_long(sw, number, packet, packet->length);
        else sw_receive_packet(sw, number, packet, now_ns);
    }
}

static void receive_from_ring(struct net_port *port, struct sw *sw, uint32_t number, uint64_t now_ns)
{
    int error;                          /* ENETDOWN, to be fetched, or epoll would tell of it for ever */
    socklen_t size = sizeof error;
    getsockopt(port->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    const uint8_t *frame;
    uint32_t length, here;
    void *slot;
    for (int i = 0; i < BATCH && (slot = ring_take(&port->ring, &frame, &length, &here)); i++) {
        struct packet *packet = pool_take(sw->pool);
        if (!packet) return;
        if (here < length || length > FRAME_MAX) {
            drop_long(sw, number, packet, length);
        } else {
            memcpy(packet->bytes + packet->offset, frame, length);
            packet->length = length;
            sw_receive_packet(sw, number, packet, now_ns);
        }
        ring_give(&port->ring, slot);
    }
}

void net_port_receive(struct net_port *port, struct sw *sw, uint32_t number, uint64_t now_ns)
{
    if (port->use_ring) receive_from_ring(port, sw, number, now_ns);
    else receive_by_call(port, sw, number, now_ns);
}

static struct { struct mmsghdr messages[BATCH]; struct iovec parts[BATCH]; } out;

static uint32_t gather(const struct net_port *port)
{
    uint32_t count = 0;
    for (struct packet *p = port->waiting.head; p && count < BATCH; p = p->next, count++) {
        out.parts[count] = (struct iovec){ p->bytes + p->offset, p->length };
        out.messages[count].msg_hdr = (struct msghdr){ .msg_iov = &out.parts[count], .msg_iovlen = 1 };
    }
    return count;
}

static bool is_full(int error) { return error == EAGAIN || error == ENOMEM; }

void net_port_send(struct net_port *port, struct sw *sw, struct lateness *lateness, uint64_t now_ns)
{
    uint32_t count;
    while ((count = gather(port)) > 0) {
        int sent = sendmmsg(port->fd, out.messages, count, MSG_DONTWAIT);
        lateness->send_calls++;
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && is_full(errno)) {
            port->blocked = true;
            return;
        }
        if (sent < 0 && errno == ENOBUFS) sent = 1;   /* the interface had it, lost it and counted it */
        for (int i = 0; i < sent; i++) {
            struct packet *packet = fifo_pop(&port->waiting);
            histogram_add(&lateness->sends, now_ns > packet->ready_ns ? now_ns - packet->ready_ns : 0);
            sw_sent(sw, packet);
        }
        /* The interface is down (ENETDOWN, ENXIO) or will not have this frame (EMSGSIZE, EINVAL). */
        if (sent < 0) sw_lost(sw, fifo_pop(&port->waiting));
    }
    port->blocked = false;
}

uint64_t net_port_drops(struct net_port *port)
{
    struct tpacket_stats stats;         /* reading sets the kernel's counts to zero */
    socklen_t size = sizeof stats;
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) != 0) return 0;
    return stats.tp_drops;
}
