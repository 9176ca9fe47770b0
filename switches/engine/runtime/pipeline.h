/* What the generated program and the runtime know of each other.
 *
 * Generated code (one .c file from p4c's JSON) defines `const struct program PROGRAM` and calls the
 * table, register, counter, random and hash functions declared here.  The runtime calls the parts
 * of the pipeline: `ingress` on arrival, `egress` and `deparse` when the traffic manager takes the
 * packet out of its queue.  In between the parsed headers and metadata wait in the packet's `phv`,
 * as in BMv2; the bytes of the frame stay as they arrived until `deparse`.
 *
 *     arrival    begin, ingress; then, in this order: clone_ingress? resubmit? mcast_grp? dropped?
 *     departure  egress; clone_egress? dropped?  else deparse; recirculate? else transmit
 *
 * No clock, no socket, no float, no allocation per packet.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAX 9728      /* bytes: largest frame a port takes */
#define FRAME_HEADROOM 512  /* bytes kept free in front, for headers that the program adds */
#define DROP_PORT 511       /* v1model's 9-bit egress_spec for drop */
#define PHV_ALIGN 16        /* bytes: alignment of `phv` */

struct sw;  /* one switch; the runtime's own.  Its first member is `struct state` (state.h) */

enum instance_type {        /* v1model's standard_metadata.instance_type, as simple_switch sets it */
    INSTANCE_NORMAL = 0, INSTANCE_INGRESS_CLONE = 1, INSTANCE_EGRESS_CLONE = 2, INSTANCE_RECIRC = 4,
    INSTANCE_REPLICATION = 5, INSTANCE_RESUBMIT = 6,
};

/* One packet.  `bytes` + `offset`, `length` bytes: the serialised frame.  Between parsing and
 * deparsing its first `parsed` bytes are represented by the headers in `phv`. */
struct packet {
    struct packet *next;          /* free list and queue link */
    uint32_t offset, length;      /* frame within `bytes` */
    uint32_t parsed;              /* bytes of the frame that became headers */
    uint32_t packet_length;       /* v1model packet_length: bytes at arrival (see egress) */
    uint32_t truncate_to;         /* bytes of the deparsed frame to keep; 0 = all */
    uint32_t instance_type;       /* enum instance_type; set by the runtime before each half */
    uint16_t ingress_port, egress_spec, egress_port, mcast_grp, egress_rid;
    uint8_t priority;             /* queue number as the program wants it; larger is served first */
    bool exit_, dropped;          /* set by generated code for each half anew */
    uint32_t clone_session, clone_fields;      /* fields: number of the field list to keep */
    bool clone_ingress, clone_egress;          /* set by generated code; `begin` clears them */
    uint32_t resubmit_fields, recirculate_fields;
    bool resubmit, recirculate;
    uint32_t parser_error, checksum_error;
    uint32_t enq_qdepth, deq_qdepth;       /* packets of this port and priority: before enqueue, after dequeue */
    uint64_t ingress_ns, enq_ns, deq_ns;   /* switch time */
    uint64_t ready_ns;            /* traffic manager: when the current delay stage ends */
    uint32_t queued_bytes;        /* traffic manager: bytes accounted to the queue */
    uint8_t *bytes;               /* FRAME_HEADROOM + FRAME_MAX */
    void *phv;                    /* PROGRAM.phv_size bytes, aligned to PHV_ALIGN: headers and metadata */
};

/* --- tables (runtime/tables.c).  A key is the match fields in order, each big-endian and padded to
 * whole bytes; so are the parameters of an action. */
#define NO_ACTION 0xffff    /* a miss in a table that has no default action */
enum match_kind { MATCH_EXACT, MATCH_LPM, MATCH_TERNARY, MATCH_RANGE, MATCH_OPTIONAL };
struct match_field {
    const char *name; enum match_kind kind; uint16_t bits;
    const uint8_t *only;          /* bits of the field that count (key = { f & 0xf: exact }); NULL = all */
};
struct entry {                    /* what a lookup gives */
    uint32_t action;              /* index into PROGRAM.actions, or NO_ACTION */
    const uint8_t *params;
    uint64_t hit_packets, hit_bytes;   /* direct counter */
};
struct param { const char *name; uint16_t bits; };
struct action { const char *name; const struct param *params; uint16_t param_count; };
struct table {
    const char *name;
    const struct match_field *fields; uint16_t field_count;
    const uint16_t *actions; uint16_t action_count;      /* indexes into PROGRAM.actions */
    uint32_t size;                                       /* most entries */
    uint16_t default_action; const uint8_t *default_params; bool default_const;
    bool direct_counter, const_entries;
};
struct counter { const char *name; uint32_t size; bool direct; uint16_t table; /* of a direct one */ };
struct reg { const char *name; uint32_t size; uint16_t bits; };

#define TABLE_KEY_MAX 512         /* bytes of the largest key */

/* Never NULL: on a miss the default entry, *hit says which.  Counts direct counters.  `key` is
 * padded with zero bytes to whole words. */
const struct entry *table_lookup(struct sw *sw, uint32_t table, const uint64_t *key, bool *hit,
                                 uint32_t frame_bytes);

/* --- externs (runtime/externs.c); an index out of bounds changes nothing and reads 0 */
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;
u128 register_read(struct sw *sw, uint32_t reg, uint64_t index);
void register_write(struct sw *sw, uint32_t reg, uint64_t index, u128 value);
void counter_count(struct sw *sw, uint32_t counter, uint64_t index, uint32_t frame_bytes);
uint64_t random_between(struct sw *sw, uint64_t low, uint64_t high);   /* inclusive; the switch's seeded stream */
enum hash_algorithm { HASH_CRC32, HASH_CRC32C, HASH_CRC16, HASH_CSUM16, HASH_XOR16, HASH_IDENTITY };
uint64_t hash_bytes(enum hash_algorithm algorithm, const uint8_t *data, uint32_t length);

/* --- the program */
struct program {
    const char *name;
    uint32_t phv_size;
    const struct table *tables; uint32_t table_count;
    const struct action *actions; uint32_t action_count;
    const struct counter *counters; uint32_t counter_count;
    const struct reg *registers; uint32_t register_count;
    /* Const entries; called once, after state_init.  May be NULL. */
    void (*init)(struct sw *sw);
    /* Clears phv and the request flags: a new packet. */
    void (*begin)(struct packet *p);
    /* Parser, checksum verification, ingress control.  Needs ingress_port, packet_length,
     * instance_type, ingress_ns.  Sets egress_spec, mcast_grp, priority, parsed, dropped
     * (egress_spec is DROP_PORT; look at clone, resubmit and mcast_grp first) and the requests. */
    void (*ingress)(struct sw *sw, struct packet *p);
    /* Egress control.  Needs egress_port, egress_rid, instance_type, enq_qdepth, deq_qdepth,
     * enq_ns, deq_ns, packet_length.  Sets dropped and the requests. */
    void (*egress)(struct sw *sw, struct packet *p);
    /* Checksum update and deparser: bytes/offset/length are the frame again, truncate_to applied,
     * parsed is 0. */
    void (*deparse)(struct sw *sw, struct packet *p);
    /* Length in bytes that `deparse` would give the frame now. */
    uint32_t (*frame_length)(const struct packet *p);
    /* The phv of a clone.  `copy` has begun and holds the same bytes/offset/length (and, for an
     * egress clone, parsed) and ports as `from`.  An ingress clone is parsed anew from the frame as
     * it arrived, an egress clone has the headers of `from`; both keep the metadata of the list. */
    void (*clone_ingress)(struct sw *sw, struct packet *copy, const struct packet *from, uint32_t fields);
    void (*clone_egress)(struct packet *copy, const struct packet *from, uint32_t fields);
    /* Instead of `begin` for a resubmitted or recirculated packet: clears all but the list. */
    void (*restart)(struct packet *p, uint32_t fields);
};
extern const struct program PROGRAM;

#endif
