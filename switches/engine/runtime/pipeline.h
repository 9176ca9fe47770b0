/* What the generated program and the runtime know of each other.
 *
 * Generated code (one .c file from p4c's JSON) defines `const struct program PROGRAM` and calls the
 * table, register, counter, random and hash functions declared here.  The runtime calls the two
 * halves of the pipeline: `ingress` on arrival, `egress` when the traffic manager takes the packet
 * out of its queue.  In between the parsed headers and metadata wait in the packet, as in BMv2.
 *
 * No clock, no socket, no float, no allocation per packet.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAX 9728      /* bytes: largest frame a port takes */
#define FRAME_HEADROOM 256  /* bytes kept free in front, for headers that the program adds */
#define DROP_PORT 511       /* v1model's 9-bit egress_spec for drop */

struct sw;  /* one switch; the runtime's own */

/* One packet.  `bytes` + `offset` .. `length`: the serialised frame.  Between ingress and egress
 * the first `parsed` bytes of it are represented by the headers in `phv` instead. */
struct packet {
    struct packet *next;          /* free list and queue link */
    uint32_t offset, length;      /* frame within `bytes` */
    uint32_t parsed;              /* bytes of the frame that became headers */
    uint32_t packet_length;       /* v1model packet_length: bytes at arrival */
    uint32_t truncate_to;         /* bytes of the deparsed frame to keep; 0 = all */
    uint32_t instance_type;       /* v1model numbering: 0 normal, 1 ingress clone, 2 egress clone, 4 recirc, 5 replication, 6 resubmit */
    uint16_t ingress_port, egress_spec, egress_port, mcast_grp, egress_rid;
    uint8_t priority;             /* queue number; larger is served first */
    bool exit_, dropped;          /* set by generated code; the runtime clears them */
    uint32_t clone_session, clone_fields; bool clone_ingress, clone_egress;
    uint32_t resubmit_fields, recirculate_fields; bool resubmit, recirculate;
    uint32_t parser_error, checksum_error;
    uint32_t enq_qdepth, deq_qdepth;       /* packets of this port and priority: before enqueue, after dequeue */
    uint64_t ingress_ns, enq_ns, deq_ns;   /* switch time */
    uint64_t ready_ns;            /* traffic manager: when the current delay stage ends */
    uint32_t queued_bytes;        /* traffic manager: bytes accounted to the queue */
    uint8_t *bytes;               /* FRAME_HEADROOM + FRAME_MAX */
    uint64_t *phv;                /* PROGRAM.phv_size bytes: headers and metadata of the program */
};

/* --- tables (runtime/tables.c); keys are the match fields concatenated big-endian, each padded to bytes */
enum match_kind { MATCH_EXACT, MATCH_LPM, MATCH_TERNARY, MATCH_RANGE, MATCH_OPTIONAL };
struct match_field { const char *name; enum match_kind kind; uint16_t bits; };
struct entry {                    /* what a lookup gives */
    uint32_t action;              /* index into PROGRAM.actions */
    const uint8_t *params;        /* each parameter big-endian, padded to bytes, in order */
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
struct counter { const char *name; uint32_t size; bool direct; };
struct reg { const char *name; uint32_t size; uint16_t bits; };

/* NULL never: the default action's entry is returned on a miss, *hit says which. */
const struct entry *table_lookup(struct sw *sw, uint32_t table, const uint8_t *key, bool *hit, uint32_t frame_bytes);

/* --- externs (runtime/externs.c) */
typedef unsigned __int128 u128;
u128 register_read(struct sw *sw, uint32_t reg, uint32_t index);
void register_write(struct sw *sw, uint32_t reg, uint32_t index, u128 value);
void counter_count(struct sw *sw, uint32_t counter, uint32_t index, uint32_t frame_bytes);
uint64_t random_between(struct sw *sw, uint64_t low, uint64_t high);   /* inclusive; the switch's seeded stream */
enum hash_algorithm { HASH_CRC32, HASH_CRC32C, HASH_CRC16, HASH_CSUM16, HASH_XOR16, HASH_IDENTITY };
uint64_t hash_bytes(enum hash_algorithm algorithm, const uint8_t *data, uint32_t length);
uint64_t switch_time_ns(const struct sw *sw);

/* --- the program */
struct program {
    const char *name;
    uint32_t phv_size;
    const struct table *tables; uint32_t table_count;
    const struct action *actions; uint32_t action_count;
    const struct counter *counters; uint32_t counter_count;
    const struct reg *registers; uint32_t register_count;
    void (*init)(struct sw *sw);                           /* const entries and defaults; may be NULL */
    void (*ingress)(struct sw *sw, struct packet *p);      /* parser, checksum verification, ingress */
    void (*egress)(struct sw *sw, struct packet *p);       /* egress, checksum update, deparser: bytes/offset/length are the frame again, truncate_to applied */
};
extern const struct program PROGRAM;

#endif
