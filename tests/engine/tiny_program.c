/* A program of a few lines in the place of p4c's output: the frame says what becomes of it.
 *
 * byte 0     egress port (255: looked up in table `forward` by byte 5)
 * byte 1     priority
 * byte 2, 3  truncate_to, big-endian, 0 = whole
 * byte 4     what else: see enum request
 * byte 5     key of `forward`; number of multicast group or clone session
 * byte 6     set by egress: enq_qdepth (at most 255)
 * byte 7     set by egress: deq_qdepth
 * byte 8     set by egress: instance_type
 * byte 9     set by egress: egress_rid
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline.h"

enum request { NONE, DROP_IN, DROP_OUT, MULTICAST, CLONE_IN, CLONE_OUT, RESUBMIT, RECIRCULATE, LOOP };
enum { BEGUN = 1, PARSED };
#define HEADER 10

static const struct param SET_PORT_PARAMS[] = { { "port", 9 } };
static const struct action ACTIONS[] = {
    { "Tiny.set_port", SET_PORT_PARAMS, 1 },
    { "Tiny.drop", NULL, 0 },
};
static const uint16_t FORWARD_ACTIONS[] = { 0, 1 };
static const struct match_field FORWARD_FIELDS[] = { { .name = "key", .kind = MATCH_EXACT, .bits = 8 } };
static const struct match_field ACL_FIELDS[] = {
    { .name = "prefix", .kind = MATCH_LPM, .bits = 32 },
    { .name = "some", .kind = MATCH_TERNARY, .bits = 12 },
    { .name = "span", .kind = MATCH_RANGE, .bits = 16 },
    { .name = "maybe", .kind = MATCH_OPTIONAL, .bits = 8 },
};
static const struct table TABLES[] = {
    { .name = "Tiny.forward", .fields = FORWARD_FIELDS, .field_count = 1, .actions = FORWARD_ACTIONS,
      .action_count = 2, .size = 100, .default_action = 1, .direct_counter = true },
    { .name = "Tiny.acl", .fields = ACL_FIELDS, .field_count = 4, .actions = FORWARD_ACTIONS,
      .action_count = 2, .size = 1000, .default_action = 1 },
};
static const struct counter COUNTERS[] = { { .name = "Tiny.seen", .size = 300 } };
static const struct reg REGISTERS[] = { { .name = "wide", .size = 5000, .bits = 128 }, { .name = "nine", .size = 2, .bits = 9 } };

static uint8_t *frame(const struct packet *p) { return p->bytes + p->offset; }
static uint8_t byte(const struct packet *p, uint32_t at) { return at < p->length ? frame(p)[at] : 0; }

static void begin(struct packet *p)
{
    memset(p->phv, 0, PROGRAM.phv_size);
    *(uint8_t *)p->phv = BEGUN;
    p->parsed = p->truncate_to = 0;
    p->egress_spec = p->mcast_grp = 0;
    p->priority = 0;
    p->exit_ = p->dropped = p->clone_ingress = p->clone_egress = p->resubmit = p->recirculate = false;
}

static void ingress(struct sw *sw, struct packet *p)
{
    if (*(uint8_t *)p->phv != BEGUN) abort();    /* a new packet that nobody began */
    *(uint8_t *)p->phv = PARSED;
    uint64_t key = byte(p, 5);
    bool hit, fresh = p->instance_type == INSTANCE_NORMAL;
    counter_count(sw, 0, key, p->length);
    p->egress_spec = byte(p, 0);
    p->priority = byte(p, 1);
    p->truncate_to = (uint32_t)(byte(p, 2) << 8 | byte(p, 3));
    p->mcast_grp = byte(p, 4) == MULTICAST ? byte(p, 5) : 0;
    p->clone_ingress = byte(p, 4) == CLONE_IN && fresh;
    p->clone_session = byte(p, 5);
    p->resubmit = byte(p, 4) == LOOP || (byte(p, 4) == RESUBMIT && fresh);
    if (byte(p, 4) == DROP_IN) p->egress_spec = DROP_PORT;
    if (byte(p, 0) == 255) {
        const struct entry *entry = table_lookup(sw, 0, &key, &hit, p->length);
        p->egress_spec = entry->action == 0 ? (uint16_t)(entry->params[0] << 8 | entry->params[1]) : DROP_PORT;
    }
    p->dropped = p->egress_spec == DROP_PORT;
    p->parsed = p->length < HEADER ? p->length : HEADER;
}

static void egress(struct sw *sw, struct packet *p)
{
    (void)sw;
    bool fresh = p->instance_type == INSTANCE_NORMAL && byte(p, 8) == 0;
    p->dropped = byte(p, 4) == DROP_OUT;
    p->clone_session = byte(p, 5);
    p->clone_egress = byte(p, 4) == CLONE_OUT && fresh;
    p->recirculate = byte(p, 4) == RECIRCULATE && fresh;
}

static void deparse(struct sw *sw, struct packet *p)
{
    (void)sw;
    const uint32_t shown[] = { p->enq_qdepth, p->deq_qdepth, p->instance_type + 16, p->egress_rid };
    for (uint32_t i = 0; i < 4; i++)
        if (6 + i < p->length) frame(p)[6 + i] = (uint8_t)(shown[i] < 255 ? shown[i] : 255);
    if (p->truncate_to && p->truncate_to < p->length) p->length = p->truncate_to;
    p->parsed = 0;
}

static uint32_t frame_length(const struct packet *p)
{
    return p->truncate_to && p->truncate_to < p->length ? p->truncate_to : p->length;
}

static void clone_ingress(struct sw *sw, struct packet *copy, const struct packet *from, uint32_t fields)
{
    (void)sw, (void)from, (void)fields;
    copy->parsed = copy->length < HEADER ? copy->length : HEADER;
}

static void clone_egress(struct packet *copy, const struct packet *from, uint32_t fields)
{
    (void)copy, (void)from, (void)fields;
}

static void restart(struct packet *p, uint32_t fields)
{
    (void)fields;
    begin(p);
}

const struct program PROGRAM = {
    .name = "tiny", .phv_size = 64,
    .tables = TABLES, .table_count = 2, .actions = ACTIONS, .action_count = 2,
    .counters = COUNTERS, .counter_count = 1, .registers = REGISTERS, .register_count = 2,
    .begin = begin, .ingress = ingress, .egress = egress, .deparse = deparse,
    .frame_length = frame_length, .clone_ingress = clone_ingress, .clone_egress = clone_egress,
    .restart = restart,
};
