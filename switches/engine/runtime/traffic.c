/* The traffic manager: queues, strict priority, the rate of a line, delay, and the wire.
 *
 * Rates are exact in the long run: the line is free again at free_ns + free_rem / rate, and the
 * remainder is carried from frame to frame.  A line that is served late (real time) may catch up two
 * frames; what is beyond that is lost and counted.  In virtual time nothing is ever late. */
#include "switch.h"

#define NS_PER_S UINT64_C(1000000000)
#define CATCH_UP_FRAMES 2

void fifo_push(struct fifo *fifo, struct packet *packet)
{
    packet->next = NULL;
    if (fifo->tail) fifo->tail->next = packet;
    else fifo->head = packet;
    fifo->tail = packet;
}

struct packet *fifo_pop(struct fifo *fifo)
{
    struct packet *packet = fifo->head;
    if (!packet) return NULL;
    fifo->head = packet->next;
    if (!fifo->head) fifo->tail = NULL;
    packet->next = NULL;
    return packet;
}

static struct packet *fifo_pop_due(struct fifo *fifo, uint64_t now_ns)
{
    return fifo->head && fifo->head->ready_ns <= now_ns ? fifo_pop(fifo) : NULL;
}

/* A delay may have been made shorter: still nothing overtakes. */
static void fifo_push_at(struct fifo *fifo, struct packet *packet, uint64_t ready_ns)
{
    bool earlier = fifo->tail && fifo->tail->ready_ns > ready_ns;
    packet->ready_ns = earlier ? fifo->tail->ready_ns : ready_ns;
    fifo_push(fifo, packet);
}

/* A control queue at its limit refuses trims, and has a quarter more for everything else: what a
 * trim says, loss recovery will find out too; an acknowledgement is not said again. */
static bool has_room(const struct queue *queue, bool control, bool trimmed, uint32_t bytes)
{
    struct queue_limit limit = queue->limit;
    if (control && !trimmed) {
        limit.packets += limit.packets / 4;
        limit.bytes += limit.bytes / 4;
    }
    return queue->packets < limit.packets && queue->bytes + bytes <= limit.bytes;
}

static void refuse(struct sw *sw, struct queue *queue, struct packet *packet)
{
    if (slot_of(packet)->trimmed) queue->trim_drop++;
    else queue->dropped++;
    pool_give(sw->pool, packet);
}

/* Whether the frame will leave shorter than it is: a trim. */
static bool is_cut(struct packet *packet)
{
    uint32_t keep = packet->truncate_to;
    if (!keep) return false;
    packet->truncate_to = 0;
    bool cut = keep < PROGRAM.frame_length(packet);
    packet->truncate_to = keep;
    return cut;
}

void traffic_enqueue(struct sw *sw, uint32_t port_number, struct packet *packet)
{
    if (port_number >= sw->port_count) {
        sw_drop(sw, packet, DROP_NO_PORT);
        return;
    }
    struct port *port = &sw->ports[port_number];
    if (packet->priority >= port->queue_count) {
        sw_drop(sw, packet, DROP_NO_QUEUE);
        return;
    }
    struct queue *queue = &port->queues[packet->priority];
    bool trimmed = is_cut(packet);
    packet->egress_port = (uint16_t)port_number;
    packet->queued_bytes = trimmed ? packet->truncate_to : PROGRAM.frame_length(packet);
    slot_of(packet)->trimmed = trimmed;
    queue->trim += trimmed;
    if (!has_room(queue, packet->priority > 0, trimmed, packet->queued_bytes)) {
        refuse(sw, queue, packet);
        return;
    }
    packet->enq_ns = sw->now_ns;
    packet->enq_qdepth = queue->packets;
    queue->enqueued++;
    queue->bytes += packet->queued_bytes;
    if (++queue->packets > queue->packets_max) queue->packets_max = queue->packets;
    fifo_push(&queue->fifo, packet);
    traffic_schedule(sw, port_number);
}

static struct queue *next_queue(struct port *port)
{
    for (uint32_t i = port->queue_count; i-- > 0;) {
        struct queue *queue = &port->queues[i];
        if (queue->packets && !queue->paused) return queue;
    }
    return NULL;
}

static struct packet *dequeue(struct queue *queue, uint64_t now_ns)
{
    struct packet *packet = fifo_pop(&queue->fifo);
    queue->dequeued++;
    queue->packets--;
    queue->bytes -= packet->queued_bytes;
    queue->trim_sent += slot_of(packet)->trimmed;
    packet->deq_ns = now_ns;
    packet->deq_qdepth = queue->packets;
    return packet;
}

/* Moves the moment from which the line is free past this frame. */
static void occupy_line(struct port *port, const struct packet *packet, uint64_t now_ns)
{
    if (!port->rate_bps) {
        port->free_ns = now_ns;
        return;
    }
    uint64_t work = (uint64_t)packet->length * 8 * NS_PER_S;
    uint64_t allowance = CATCH_UP_FRAMES * (work / port->rate_bps);
    uint64_t earliest = now_ns > allowance ? now_ns - allowance : 0;
    if (packet->enq_ns > port->free_ns) {        /* the line was idle until this packet came */
        port->free_ns = packet->enq_ns;
        port->free_rem = 0;
    }
    if (port->free_ns < earliest) {
        port->lost_ns += earliest - port->free_ns;
        port->free_ns = earliest;
        port->free_rem = 0;
    }
    work += port->free_rem;
    port->free_ns += work / port->rate_bps;
    port->free_rem = work % port->rate_bps;
    port->busy_ns += work / port->rate_bps;
}

void traffic_transmit(struct sw *sw, uint32_t port_number)
{
    struct port *port = &sw->ports[port_number];
    struct queue *queue;
    while (port->free_ns <= sw->now_ns && (queue = next_queue(port))) {
        struct packet *packet = dequeue(queue, sw->now_ns);
        if (!switch_egress(sw, packet)) continue;
        occupy_line(port, packet, sw->now_ns);
        fifo_push_at(&port->wire, packet, port->free_ns + port->egress_delay_ns);
    }
}

void traffic_schedule(struct sw *sw, uint32_t port_number)
{
    struct port *port = &sw->ports[port_number];
    uint64_t wake_ns = next_queue(port) ? port->free_ns : NEVER;
    if (port->ingress.head && port->ingress.head->ready_ns < wake_ns) wake_ns = port->ingress.head->ready_ns;
    if (port->wire.head && port->wire.head->ready_ns < wake_ns) wake_ns = port->wire.head->ready_ns;
    sw->wake_ns[port_number] = wake_ns;
}

static void reach_wire(struct sw *sw, struct packet *packet)
{
    if (sw->ports[packet->egress_port].up) fifo_push(&sw->out, packet);
    else sw_lost(sw, packet);
}

static void serve_again(struct sw *sw)
{
    struct packet *packet;
    while ((packet = fifo_pop(&sw->again))) switch_ingress(sw, packet);
}

static void serve_port(struct sw *sw, uint32_t port_number)
{
    struct port *port = &sw->ports[port_number];
    struct packet *packet;
    while ((packet = fifo_pop_due(&port->ingress, sw->now_ns))) switch_arrival(sw, packet);
    traffic_transmit(sw, port_number);
    while ((packet = fifo_pop_due(&port->wire, sw->now_ns))) reach_wire(sw, packet);
    traffic_schedule(sw, port_number);
}

/* Until nothing is due: a port may give work to one already served. */
void sw_handle_timeout(struct sw *sw, uint64_t now_ns)
{
    sw->now_ns = now_ns;
    do {
        serve_again(sw);
        for (uint32_t port = 0; port < sw->port_count; port++)
            if (sw->wake_ns[port] <= now_ns) serve_port(sw, port);
    } while (sw->again.head || sw_next_timeout(sw) <= now_ns);
}

uint64_t sw_next_timeout(const struct sw *sw)
{
    uint64_t next_ns = NEVER;
    for (uint32_t port = 0; port < sw->port_count; port++)
        if (sw->wake_ns[port] < next_ns) next_ns = sw->wake_ns[port];
    return next_ns;
}

void sw_receive_packet(struct sw *sw, uint32_t port_number, struct packet *packet, uint64_t now_ns)
{
    struct port *port = &sw->ports[port_number];
    sw->now_ns = now_ns;
    port->rx_packets++;
    port->rx_bytes += packet->length;
    packet->ingress_port = (uint16_t)port_number;
    if (port->ingress_delay_ns || port->ingress.head) {
        fifo_push_at(&port->ingress, packet, now_ns + port->ingress_delay_ns);
        traffic_schedule(sw, port_number);
    } else {
        switch_arrival(sw, packet);
    }
    sw_handle_timeout(sw, now_ns);
}

struct packet *sw_poll(struct sw *sw, uint64_t now_ns)
{
    if (!sw->out.head && sw_next_timeout(sw) <= now_ns) sw_handle_timeout(sw, now_ns);
    return fifo_pop(&sw->out);
}

void sw_forward(struct sw *sw, struct packet *packet)
{
    struct port *port = &sw->ports[packet->egress_port];
    port->tx_packets++;
    port->tx_bytes += packet->length;
    slot_of(packet)->loops = 0;
    slot_of(packet)->trimmed = false;
}

void sw_sent(struct sw *sw, struct packet *packet)
{
    sw_forward(sw, packet);
    pool_give(sw->pool, packet);
}

void sw_lost(struct sw *sw, struct packet *packet)
{
    sw->ports[packet->egress_port].link_down++;
    pool_give(sw->pool, packet);
}
