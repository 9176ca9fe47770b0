/* The executable: one switch between AF_PACKET sockets and a control socket.
 *
 *     engine --name p0t0n0 --seed 7 --control-fd 5 --port 0=p0t0n0-eth0 --port 1=p0t0n0-eth1
 *
 * All sockets are open before the first control message is read: whoever has an answer to HELLO
 * may send frames.  --ring receives through mapped rings even where large socket buffers can be
 * had (without privilege they cannot).  End of file on the control socket is the end of the process, with status 0; what
 * cannot start says why on stderr and ends with status 2. */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control.h"

#define EXIT_NO_START 2
#define NS_PER_S UINT64_C(1000000000)
#define REQUEST_MAX 65536
#define POOL_LIMIT (1u << 16)           /* packets; no sensible configuration gets here */
#define CONTROL_TAG PORTS_MAX           /* epoll tags: port numbers, then these */
#define CARRIER_TAG (PORTS_MAX + 1)
#define EVENTS_MAX 64

struct process {
    const char *name;
    uint64_t seed;
    int control_fd, carrier_fd, epoll_fd;
    uint32_t port_count;
    struct net_port ports[PORTS_MAX];
    struct pool pool;
    struct sw sw;
    struct lateness lateness;
    uint64_t now_ns;
    bool no_pwait2, use_ring;
};

static uint64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* --- start */

static bool parse_port(struct process *process, const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '=' || end[1] == '\0' || number >= PORTS_MAX) return false;
    if (process->ports[number].interface) return false;
    process->ports[number].interface = end + 1;
    if (number >= process->port_count) process->port_count = (uint32_t)number + 1;
    return true;
}

static bool parse_arguments(struct process *process, int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        { "name", required_argument, NULL, 'n' }, { "seed", required_argument, NULL, 's' },
        { "control-fd", required_argument, NULL, 'c' }, { "port", required_argument, NULL, 'p' },
        { "ring", no_argument, NULL, 'r' },
        { NULL, 0, NULL, 0 },
    };
    process->name = "engine";
    process->control_fd = -1;
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case 'n': process->name = optarg; break;
        case 's': process->seed = strtoull(optarg, NULL, 0); break;
        case 'c': process->control_fd = atoi(optarg); break;
        case 'r': process->use_ring = true; break;
        case 'p':
            if (parse_port(process, optarg)) break;
            fprintf(stderr, "%s: --port %s: wanted NUMBER=INTERFACE, each number once\n", process->name, optarg);
            return false;
        default: return false;
        }
    }
    if (process->control_fd < 0 || process->port_count == 0 || optind != argc) {
        fprintf(stderr, "usage: %s --name NAME --seed N --control-fd FD --port NUMBER=INTERFACE ...\n", argv[0]);
        return false;
    }
    return true;
}

static bool watch(struct process *process, int fd, uint32_t tag, uint32_t events, int operation)
{
    struct epoll_event event = { .events = events, .data.u32 = tag };
    return epoll_ctl(process->epoll_fd, operation, fd, &event) == 0;
}

static void carrier_changed(void *context, int index, bool up)
{
    struct process *process = context;
    for (uint32_t i = 0; i < process->port_count; i++)
        if (process->ports[i].interface && process->ports[i].index == index && process->sw.ports[i].up != up)
            sw_port_changed(&process->sw, i, up, process->now_ns);
}

static bool open_all(struct process *process)
{
    process->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    process->carrier_fd = carrier_open(process->name);
    if (process->epoll_fd < 0 || process->carrier_fd < 0) return false;
    for (uint32_t i = 0; i < process->port_count; i++) {
        struct net_port *port = &process->ports[i];
        process->sw.ports[i].up = false;            /* until its carrier has been heard of */
        if (!port->interface) continue;
        port->use_ring = process->use_ring;
        if (!net_port_open(port, process->name)) return false;
        if (!watch(process, port->fd, i, EPOLLIN, EPOLL_CTL_ADD)) return false;
    }
    carrier_read(process->carrier_fd, carrier_changed, process);
    return watch(process, process->carrier_fd, CARRIER_TAG, EPOLLIN, EPOLL_CTL_ADD)
        && watch(process, process->control_fd, CONTROL_TAG, EPOLLIN, EPOLL_CTL_ADD);
}

/* --- control */

static void count_ring_drops(struct process *process)
{
    for (uint32_t i = 0; i < process->port_count; i++)
        if (process->ports[i].interface) process->sw.ports[i].ring_drops += net_port_drops(&process->ports[i]);
}

static uint32_t read_lateness(struct process *process, const uint8_t *request, uint32_t length, struct writer *w)
{
    struct lateness *late = &process->lateness;
    if (length != 2) return refuse_request(w, STATUS_INVALID_ARGUMENT, "malformed control message");
    const uint64_t values[] = {
        late->timers.count, histogram_quantile(&late->timers, 999), late->timers.max_ns,
        late->sends.count, histogram_quantile(&late->sends, 999), late->sends.max_ns,
        late->loops, late->receive_calls, late->send_calls,
    };
    put_number(w, STATUS_OK, 1);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) put_number(w, values[i], 8);
    if (request[1]) memset(late, 0, sizeof *late);
    return (uint32_t)(w->at - w->start);
}

/* False at the end of file. */
static bool serve_control(struct process *process)
{
    static uint8_t request[REQUEST_MAX], reply[CONTROL_REPLY_MAX];
    ssize_t got = recv(process->control_fd, request, sizeof request, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    struct writer w = { .start = reply, .at = reply, .end = reply + sizeof reply };
    uint32_t length;
    if (request[0] == OP_READ_PORTS) count_ring_drops(process);
    if (request[0] == OP_READ_SWITCH) net_port_give_back(&process->sw);
    if (request[0] == OP_READ_LATENESS) length = read_lateness(process, request, (uint32_t)got, &w);
    else length = control_handle(&process->sw, request, (uint32_t)got, reply, sizeof reply, process->now_ns);
    return send(process->control_fd, reply, length, MSG_NOSIGNAL) >= 0;
}

/* --- the loop */

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

/* epoll with a timeout in nanoseconds; kernels before 5.11 get the same in two calls. */
static int wait_for_events(struct process *process, struct epoll_event *events)
{
    uint64_t next_ns = sw_next_timeout(&process->sw);
    uint64_t wait_ns = next_ns > process->now_ns ? next_ns - process->now_ns : 0;
    struct timespec timeout = to_timespec(wait_ns);
    struct timespec *limit = next_ns == NEVER ? NULL : &timeout;
#ifdef SYS_epoll_pwait2
    if (!process->no_pwait2) {
        int count = (int)syscall(SYS_epoll_pwait2, process->epoll_fd, events, EVENTS_MAX, limit, NULL, 0);
        if (count >= 0 || errno != ENOSYS) return count;
        process->no_pwait2 = true;
    }
#endif
    struct pollfd any = { .fd = process->epoll_fd, .events = POLLIN };
    if (ppoll(&any, 1, limit, NULL) < 0) return -1;
    return epoll_wait(process->epoll_fd, events, EVENTS_MAX, 0);
}

static void serve_deadlines(struct process *process)
{
    uint64_t next_ns = sw_next_timeout(&process->sw);
    if (next_ns > process->now_ns) return;
    histogram_add(&process->lateness.timers, process->now_ns - next_ns);
    sw_handle_timeout(&process->sw, process->now_ns);
}

static void set_blocked(struct process *process, uint32_t number, bool was_blocked)
{
    struct net_port *port = &process->ports[number];
    if (port->blocked == was_blocked) return;
    watch(process, port->fd, number, EPOLLIN | (port->blocked ? EPOLLOUT : 0), EPOLL_CTL_MOD);
}

static void send_port(struct process *process, uint32_t number, uint64_t now_ns)
{
    bool was_blocked = process->ports[number].blocked;
    net_port_send(&process->ports[number], &process->sw, &process->lateness, now_ns);
    set_blocked(process, number, was_blocked);
}

static void transmit(struct process *process)
{
    bool any = false;
    for (struct packet *packet; (packet = sw_poll(&process->sw, process->now_ns)); any = true)
        fifo_push(&process->ports[packet->egress_port].waiting, packet);
    if (!any) return;
    uint64_t sending_ns = read_clock();
    for (uint32_t i = 0; i < process->port_count; i++)
        if (process->ports[i].waiting.head && !process->ports[i].blocked) send_port(process, i, sending_ns);
}

/* False: the end. */
static bool serve_event(struct process *process, const struct epoll_event *event)
{
    uint32_t tag = event->data.u32;
    if (tag == CONTROL_TAG) return serve_control(process);
    if (tag == CARRIER_TAG) {
        carrier_read(process->carrier_fd, carrier_changed, process);
        return true;
    }
    if (event->events & EPOLLOUT) send_port(process, tag, process->now_ns);
    if (event->events & (EPOLLIN | EPOLLERR)) {
        process->lateness.receive_calls++;
        net_port_receive(&process->ports[tag], &process->sw, tag, process->now_ns);
    }
    return true;
}

static void run(struct process *process)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = wait_for_events(process, events);
        if (count < 0 && errno != EINTR) {
            perror(process->name);
            exit(EXIT_FAILURE);
        }
        process->now_ns = read_clock();
        process->lateness.loops++;
        serve_deadlines(process);
        for (int i = 0; i < count; i++)
            if (!serve_event(process, &events[i])) return;
        transmit(process);
    }
}

int main(int argc, char **argv)
{
    static struct process process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (!parse_arguments(&process, argc, argv)) return EXIT_NO_START;
    pool_init(&process.pool, PROGRAM.phv_size, POOL_LIMIT);
    if (!sw_init(&process.sw, &process.pool, process.port_count, process.seed)) {
        fprintf(stderr, "%s: out of memory\n", process.name);
        return EXIT_NO_START;
    }
    process.now_ns = read_clock();
    if (!open_all(&process)) return EXIT_NO_START;
    run(&process);
    return EXIT_SUCCESS;
}
