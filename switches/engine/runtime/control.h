/* The control messages of a switch: one request, one reply, each a byte string.
 *
 * Numbers are little-endian; rows, matches and parameters are byte strings whose length follows from
 * the program (tables.h).  A request that is refused changes nothing.  Any bytes at all may be sent:
 * what does not parse, or has bytes left over, is INVALID_ARGUMENT.
 *
 *     request = u8 op, body          reply = u8 status, body (status 0) or a message in UTF-8
 *     str     = u16 length, bytes    match = u32 priority, value[key_bytes], mask[key_bytes]
 *     call    = u16 action, params[param_bytes of the action]
 *     count   = u64 packets, u64 bytes
 *
 *      op                 request body                      reply body
 *      1 HELLO            -                                 u16 PROTOCOL, u32 ports, u64 seed, str program,
 *                                                           u32 tables, u32 actions, u32 counters, u32 registers
 *      2 INFO             u8 kind, u32 first                u32 next, item* up to next (or up to the end: next = 0)
 *          kind 0, table      str name, u32 size, u8 flags (1 const entries, 2 const default, 4 direct counter),
 *                             u16 n, n * (str name, u8 match_kind, u16 bits), u16 m, m * u16 action
 *          kind 1, action     str name, u16 n, n * (str name, u16 bits)
 *          kind 2, counter    str name, u32 size, u8 direct, u16 table
 *          kind 3, register   str name, u32 size, u16 bits
 *      3 INSERT           u16 table, match, call            -
 *      4 MODIFY           u16 table, match, call            -
 *      5 DELETE           u16 table, match                  -
 *      6 SET_DEFAULT      u16 table, call                   -
 *      7 RESET_DEFAULT    u16 table                         -
 *      8 READ_ROWS        u16 table, u32 first              u32 next, (match, call, count)*
 *      9 READ_DEFAULT     u16 table                         u8 changed, call, count; action NO_ACTION: no params
 *     10 READ_DIRECT      u16 table, match                  count
 *     11 WRITE_DIRECT     u16 table, match, count           -
 *     12 READ_COUNTER     u16 counter, u32 first            u32 next, count*
 *     13 WRITE_COUNTER    u16 counter, u32 index, count     -
 *     14 READ_REGISTER    u16 register, u32 first           u32 next, 16-byte value*
 *     15 WRITE_REGISTER   u16 register, u32 index, 16-byte value    -
 *     16 CONFIGURE_PORT   u16 port, u64 rate_bps, u64 egress_delay_ns, u64 ingress_delay_ns,
 *                         u8 n, n * (u32 packets, u64 bytes)        -
 *     17 PAUSE_QUEUE      u16 port, u8 queue, u8 paused     -
 *     18 SET_PORT         u16 port, u8 up                   -
 *     19 READ_PORTS       u16 first                         u32 next, port*
 *          port               u16 number, u8 up, u64 rx_packets, rx_bytes, tx_packets, tx_bytes, link_down,
 *                             ring_drops, busy_ns, lost_ns, u8 n, n * queue
 *          queue              u64 enqueued, dequeued, dropped, trim, trim_sent, trim_drop,
 *                             u32 depth_packets, u64 depth_bytes, u32 depth_packets_max, u8 paused
 *     20 READ_SWITCH      -                                 u64 now_ns, u32 buffers used, most used, made,
 *                                                           u8 n, n * u64 drops by enum drop_reason
 *     21 RELOAD           -                                 -
 *     22 SET_MULTICAST    u32 group, u16 n, n * (u16 port, u16 rid)                  -
 *     23 SET_SESSION      u32 session, u32 truncate_to, u16 n, n * (u16 port, u16 rid)    -
 *     24 READ_LATENESS    u8 clear                          process.h; UNIMPLEMENTED in the library
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "switch.h"

#define CONTROL_PROTOCOL 1
#define CONTROL_REPLY_MAX 60000    /* bytes; well below what a SOCK_SEQPACKET message may hold */
#define REPLICAS_MAX 512

enum control_op {
    OP_HELLO = 1, OP_INFO, OP_INSERT, OP_MODIFY, OP_DELETE, OP_SET_DEFAULT, OP_RESET_DEFAULT,
    OP_READ_ROWS, OP_READ_DEFAULT, OP_READ_DIRECT, OP_WRITE_DIRECT, OP_READ_COUNTER, OP_WRITE_COUNTER,
    OP_READ_REGISTER, OP_WRITE_REGISTER, OP_CONFIGURE_PORT, OP_PAUSE_QUEUE, OP_SET_PORT, OP_READ_PORTS,
    OP_READ_SWITCH, OP_RELOAD, OP_SET_MULTICAST, OP_SET_SESSION, OP_READ_LATENESS, OP_COUNT
};

/* In the order of switches.api.SwitchErrorCode. */
enum control_status {
    STATUS_OK, STATUS_INVALID_ARGUMENT, STATUS_NOT_FOUND, STATUS_ALREADY_EXISTS,
    STATUS_PERMISSION_DENIED, STATUS_RESOURCE_EXHAUSTED, STATUS_FAILED_PRECONDITION,
    STATUS_UNIMPLEMENTED, STATUS_OUT_OF_RANGE, STATUS_INTERNAL, STATUS_UNAVAILABLE
};

/* Answers one request; gives the length of the reply, at least 1.  `capacity` is at least 4096; a
 * list goes as far as it fits. */
uint32_t control_handle(struct sw *sw, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns);

/* --- for what else answers in this encoding (process.c) */
struct writer { uint8_t *start, *at, *end; bool full; };
struct reader { const uint8_t *at, *end; bool bad; };

void put_bytes(struct writer *w, const void *bytes, size_t count);
void put_number(struct writer *w, uint64_t value, uint32_t bytes);
const uint8_t *take_bytes(struct reader *r, size_t count);   /* NULL and bad when there are not so many */
uint64_t take_number(struct reader *r, uint32_t bytes);
uint32_t refuse_request(struct writer *w, enum control_status status, const char *message);

#endif
