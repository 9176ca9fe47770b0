#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif

static void ask_for_all(int fd)
{
    struct { struct nlmsghdr header; struct ifinfomsg link; } request = {
        .header = { .nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
        .link = { .ifi_family = AF_UNSPEC },
    };
    if (send(fd, &request, sizeof request, 0) < 0) perror("netlink");
}

int carrier_open(const char *switch_name)
{
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fprintf(stderr, "%s: netlink: %s\n", switch_name, strerror(errno));
        return -1;
    }
    ask_for_all(fd);
    return fd;
}

static void read_message(const struct nlmsghdr *header, carrier_seen *seen, void *context)
{
    const struct ifinfomsg *link = NLMSG_DATA(header);
    const unsigned up = IFF_UP | IFF_LOWER_UP;
    if (header->nlmsg_type == RTM_NEWLINK) seen(context, link->ifi_index, (link->ifi_flags & up) == up);
    if (header->nlmsg_type == RTM_DELLINK) seen(context, link->ifi_index, false);
}

void carrier_read(int fd, carrier_seen *seen, void *context)
{
    static union { struct nlmsghdr header; char bytes[32768]; } buffer;
    for (;;) {
        ssize_t got = recv(fd, &buffer, sizeof buffer, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == ENOBUFS) {  /* something was not said: hear all of it again */
            ask_for_all(fd);
            continue;
        }
        if (got <= 0) return;
        size_t left = (size_t)got;
        for (struct nlmsghdr *header = &buffer.header; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left))
            read_message(header, seen, context);
    }
}
