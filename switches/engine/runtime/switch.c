/* One switch: its life, and the side paths of the pipeline (clone, multicast, resubmit,
 * recirculate) in the order of BMv2's simple_switch. */
#include "switch.h"

#include <stdlib.h>
#include <string.h>

static const struct port_config DEFAULT_PORT = {
    .queue_count = 2,
    .queues = { { 1024, 8 << 20 }, { 4096, 16 << 20 } },
};

static void set_config(struct port *port, const struct port_config *config)
{
    port->rate_bps = config->rate_bps;
    port->egress_delay_ns = config->egress_delay_ns;
    port->ingress_delay_ns = config->ingress_delay_ns;
    port->queue_count = config->queue_count;
    for (uint32_t i = 0; i < config->queue_count; i++) port->queues[i].limit = config->queues[i];
}

bool sw_init(struct sw *sw, struct pool *pool, uint32_t port_count, uint64_t seed)
{
    *sw = (struct sw){ .pool = pool, .port_count = port_count, .seed = seed };
    if (port_count == 0 || port_count > PORTS_MAX) return false;
    sw->ports = calloc(port_count, sizeof *sw->ports);
    sw->wake_ns = calloc(port_count, sizeof *sw->wake_ns);
    if (!sw->ports || !sw->wake_ns || !state_init(&sw->state, &PROGRAM, seed)) {
        free(sw->ports);
        free(sw->wake_ns);
        return false;
    }
    if (PROGRAM.init) PROGRAM.init(sw);
    for (uint32_t i = 0; i < port_count; i++) {
        sw->ports[i].up = true;
        sw->wake_ns[i] = NEVER;
        set_config(&sw->ports[i], &DEFAULT_PORT);
    }
    return true;
}

static void empty(struct sw *sw, struct fifo *fifo)
{
    struct packet *packet;
    while ((packet = fifo_pop(fifo))) pool_give(sw->pool, packet);
}

static void empty_all(struct sw *sw)
{
    for (uint32_t i = 0; i < sw->port_count; i++) {
        empty(sw, &sw->ports[i].ingress);
        empty(sw, &sw->ports[i].wire);
        for (uint32_t j = 0; j < QUEUES_MAX; j++) empty(sw, &sw->ports[i].queues[j].fifo);
    }
    empty(sw, &sw->again);
    empty(sw, &sw->out);
}

static void groups_free(struct groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++) free(groups->groups[i].replicas);
    free(groups->groups);
    *groups = (struct groups){ 0 };
}

void sw_free(struct sw *sw)
{
    empty_all(sw);
    state_free(&sw->state);
    groups_free(&sw->multicast);
    groups_free(&sw->sessions);
    free(sw->ports);
    free(sw->wake_ns);
}

bool sw_reload(struct sw *sw)
{
    struct state fresh;
    if (!state_init(&fresh, &PROGRAM, sw->seed)) return false;
    state_free(&sw->state);
    sw->state = fresh;
    if (PROGRAM.init) PROGRAM.init(sw);
    groups_free(&sw->multicast);
    groups_free(&sw->sessions);
    return true;
}

void sw_port_changed(struct sw *sw, uint32_t port, bool up, uint64_t now_ns)
{
    sw_handle_timeout(sw, now_ns);
    if (port < sw->port_count) sw->ports[port].up = up;
}

/* The line starts afresh: what waited before must not count as late. */
static void restart_line(struct sw *sw, uint32_t port_number)
{
    struct port *port = &sw->ports[port_number];
    if (port->free_ns < sw->now_ns) {
        port->free_ns = sw->now_ns;
        port->free_rem = 0;
    }
    sw_handle_timeout(sw, sw->now_ns);
}

bool sw_configure_port(struct sw *sw, uint32_t port_number, const struct port_config *config, uint64_t now_ns)
{
    if (port_number >= sw->port_count || config->queue_count == 0 || config->queue_count > QUEUES_MAX)
        return false;
    struct port *port = &sw->ports[port_number];
    for (uint32_t i = config->queue_count; i < port->queue_count; i++)
        if (port->queues[i].packets) return false;
    sw_handle_timeout(sw, now_ns);
    if (port->rate_bps != config->rate_bps) port->free_rem = 0;
    set_config(port, config);
    traffic_schedule(sw, port_number);
    return true;
}

bool sw_pause_queue(struct sw *sw, uint32_t port_number, uint32_t queue, bool paused, uint64_t now_ns)
{
    if (port_number >= sw->port_count || queue >= sw->ports[port_number].queue_count) return false;
    sw_handle_timeout(sw, now_ns);
    sw->ports[port_number].queues[queue].paused = paused;
    traffic_schedule(sw, port_number);
    if (!paused) restart_line(sw, port_number);
    return true;
}

void sw_drop(struct sw *sw, struct packet *packet, enum drop_reason reason)
{
    sw->drops[reason]++;
    pool_give(sw->pool, packet);
}

void sw_receive(struct sw *sw, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t now_ns)
{
    struct packet *packet = length > FRAME_MAX ? NULL : pool_take(sw->pool);
    if (!packet) {
        sw->ports[port].rx_packets++;
        sw->ports[port].rx_bytes += length;
        sw->drops[length > FRAME_MAX ? DROP_TOO_LONG : DROP_NO_BUFFER]++;
        sw_handle_timeout(sw, now_ns);
        return;
    }
    memcpy(packet->bytes + packet->offset, bytes, length);
    packet->length = length;
    sw_receive_packet(sw, port, packet, now_ns);
}

/* --- side paths */

/* Once more through the parser, or through egress as a clone: bounded, so that no program loops. */
static bool may_loop(struct sw *sw, struct packet *packet)
{
    if (++slot_of(packet)->loops <= LOOPS_MAX) return true;
    sw_drop(sw, packet, DROP_LOOP);
    return false;
}

/* The frame and what the runtime knows of it, without a phv. */
static struct packet *copy_frame(struct sw *sw, const struct packet *from, bool with_phv)
{
    struct packet *copy = pool_take(sw->pool);
    if (!copy) {
        sw->drops[DROP_NO_BUFFER]++;
        return NULL;
    }
    uint8_t *bytes = copy->bytes;
    void *phv = copy->phv;
    memcpy(copy, from, sizeof(struct slot));
    copy->next = NULL;
    copy->bytes = bytes;
    copy->phv = phv;
    memcpy(bytes + from->offset, from->bytes + from->offset, from->length);
    if (with_phv) memcpy(phv, from->phv, PROGRAM.phv_size);
    return copy;
}

/* Takes over the packet; each replica goes to its port. */
static void replicate(struct sw *sw, struct packet *packet, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        bool last = i + 1 == group->count;
        struct packet *copy = last ? packet : copy_frame(sw, packet, true);
        if (!copy) continue;
        copy->egress_rid = group->replicas[i].rid;
        traffic_enqueue(sw, group->replicas[i].port, copy);
    }
}

static void multicast(struct sw *sw, struct packet *packet)
{
    const struct group *group = groups_find(&sw->multicast, packet->mcast_grp);
    if (!group) {
        sw_drop(sw, packet, DROP_NO_GROUP);
        return;
    }
    packet->instance_type = INSTANCE_REPLICATION;
    replicate(sw, packet, group);
}

static void clone(struct sw *sw, const struct packet *packet, bool ingress)
{
    const struct group *session = groups_find(&sw->sessions, packet->clone_session);
    struct packet *copy = session ? copy_frame(sw, packet, false) : NULL;
    if (!copy || !may_loop(sw, copy)) return;
    uint32_t parsed = packet->parsed;
    PROGRAM.begin(copy);
    copy->instance_type = ingress ? INSTANCE_INGRESS_CLONE : INSTANCE_EGRESS_CLONE;
    if (ingress) {
        PROGRAM.clone_ingress(sw, copy, packet, packet->clone_fields);
    } else {
        copy->parsed = parsed;
        PROGRAM.clone_egress(copy, packet, packet->clone_fields);
    }
    copy->truncate_to = session->truncate_to;
    replicate(sw, copy, session);
}

static void parse_again(struct sw *sw, struct packet *packet, uint32_t fields, uint32_t instance_type)
{
    if (!may_loop(sw, packet)) return;
    PROGRAM.restart(packet, fields);
    packet->instance_type = instance_type;
    packet->egress_rid = 0;
    fifo_push(&sw->again, packet);
}

void switch_arrival(struct sw *sw, struct packet *packet)
{
    PROGRAM.begin(packet);
    packet->packet_length = packet->length;
    packet->instance_type = INSTANCE_NORMAL;
    packet->egress_rid = 0;
    packet->ingress_ns = sw->now_ns;
    switch_ingress(sw, packet);
}

void switch_ingress(struct sw *sw, struct packet *packet)
{
    PROGRAM.ingress(sw, packet);
    if (packet->clone_ingress) clone(sw, packet, true);
    if (packet->resubmit) {
        parse_again(sw, packet, packet->resubmit_fields, INSTANCE_RESUBMIT);
    } else if (packet->mcast_grp) {
        multicast(sw, packet);
    } else if (packet->dropped) {
        sw_drop(sw, packet, DROP_INGRESS);
    } else {
        packet->instance_type = INSTANCE_NORMAL;
        traffic_enqueue(sw, packet->egress_spec, packet);
    }
}

bool switch_egress(struct sw *sw, struct packet *packet)
{
    PROGRAM.egress(sw, packet);
    if (packet->clone_egress) clone(sw, packet, false);
    if (packet->dropped) {
        sw_drop(sw, packet, DROP_EGRESS);
        return false;
    }
    PROGRAM.deparse(sw, packet);
    if (packet->dropped) {
        sw_drop(sw, packet, DROP_TOO_LONG);
        return false;
    }
    if (!packet->recirculate) return true;
    packet->packet_length = packet->length;
    parse_again(sw, packet, packet->recirculate_fields, INSTANCE_RECIRC);
    return false;
}
