/* The yardstick of the engine: what a packet costs in C when nobody looks at it.
 *
 *     forwarder A B           moves every frame of interface A to B and back, 64 a system call
 *     forwarder A - SIZE HEX  sends frames of SIZE bytes that begin with HEX out of A, without end
 *
 * No parsing, no queue, no rate, no clock. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#define BATCH 64
#define FRAME_MAX 9728
#define BUFFER_BYTES (8 << 20)

static uint8_t frames[BATCH][FRAME_MAX];
static struct iovec parts[BATCH];
static struct mmsghdr messages[BATCH];

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static int open_port(const char *interface)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)), size = BUFFER_BYTES, on = 1;
    struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                   .sll_ifindex = (int)if_nametoindex(interface) };
    if (fd < 0 || address.sll_ifindex == 0) fail(interface);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0) fail("PACKET_IGNORE_OUTGOING");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("bind");
    return fd;
}

static void send_all(int fd, int count)
{
    for (int sent = 0; sent < count;) {
        int now = sendmmsg(fd, messages + sent, (unsigned)(count - sent), 0);
        if (now > 0) {
            sent += now;
        } else if (errno == EAGAIN || errno == ENOBUFS) {
            struct pollfd writable = { .fd = fd, .events = POLLOUT };
            poll(&writable, 1, -1);
        } else {
            sent++;
        }
    }
}

static void set_lengths(int count)
{
    for (int i = 0; i < count; i++) parts[i].iov_len = messages[i].msg_len;
}

static void move(int from, int to)
{
    for (int i = 0; i < BATCH; i++) parts[i].iov_len = FRAME_MAX;
    int count = recvmmsg(from, messages, BATCH, MSG_DONTWAIT, NULL);
    if (count <= 0) return;
    set_lengths(count);
    send_all(to, count);
}

static void generate(int fd, uint32_t size, const char *hex)
{
    unsigned byte;
    uint32_t at = 0;
    for (; sscanf(hex, "%2x", &byte) == 1 && at < size; hex += 2) frames[0][at++] = (uint8_t)byte;
    for (int i = 0; i < BATCH; i++) parts[i] = (struct iovec){ frames[0], size };
    for (;;) send_all(fd, BATCH);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){ frames[i], FRAME_MAX };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
    }
    if (argc == 5 && strcmp(argv[2], "-") == 0 && strtoul(argv[3], NULL, 10) <= FRAME_MAX)
        generate(open_port(argv[1]), (uint32_t)strtoul(argv[3], NULL, 10), argv[4]);
    if (argc != 3) return 2;
    struct pollfd ports[2] = { { .fd = open_port(argv[1]), .events = POLLIN },
                               { .fd = open_port(argv[2]), .events = POLLIN } };
    for (;;) {
        if (poll(ports, 2, -1) < 0 && errno != EINTR) fail("poll");
        for (int i = 0; i < 2; i++)
            if (ports[i].revents) move(ports[i].fd, ports[1 - i].fd);
    }
}
