/* The control messages of a switch; control.h says what they look like. */
#include "control.h"

#include <string.h>

/* --- bytes */

void put_bytes(struct writer *w, const void *bytes, size_t count)
{
    if ((size_t)(w->end - w->at) < count) {
        w->full = true;
        return;
    }
    if (count) memcpy(w->at, bytes, count);
    w->at += count;
}

void put_number(struct writer *w, uint64_t value, uint32_t bytes)
{
    uint8_t little[8];
    for (uint32_t i = 0; i < bytes; i++) little[i] = (uint8_t)(value >> (8 * i));
    put_bytes(w, little, bytes);
}

static void put_string(struct writer *w, const char *string)
{
    size_t length = strlen(string);
    put_number(w, length, 2);
    put_bytes(w, string, length);
}

const uint8_t *take_bytes(struct reader *r, size_t count)
{
    if (r->bad || (size_t)(r->end - r->at) < count) {
        r->bad = true;
        return NULL;
    }
    r->at += count;
    return r->at - count;
}

uint64_t take_number(struct reader *r, uint32_t bytes)
{
    const uint8_t *little = take_bytes(r, bytes);
    uint64_t value = 0;
    for (uint32_t i = 0; little && i < bytes; i++) value |= (uint64_t)little[i] << (8 * i);
    return value;
}

/* All of the request was understood and nothing is left over. */
static bool at_end(const struct reader *r) { return !r->bad && r->at == r->end; }

uint32_t refuse_request(struct writer *w, enum control_status status, const char *message)
{
    w->at = w->start;
    w->full = false;
    put_number(w, status, 1);
    put_bytes(w, message, strlen(message));
    return (uint32_t)(w->at - w->start);
}

/* --- what every operation sees, and says */

struct call { struct sw *sw; struct reader in; struct writer out; uint64_t now_ns; };

static uint32_t refuse(struct call *c, enum control_status status, const char *message)
{
    return refuse_request(&c->out, status, message);
}

static uint32_t done(struct call *c)
{
    if (c->out.full) return refuse(c, STATUS_INTERNAL, "the reply does not fit");
    return (uint32_t)(c->out.at - c->out.start);
}

static uint32_t malformed(struct call *c)
{
    return refuse(c, STATUS_INVALID_ARGUMENT, "malformed control message");
}

static uint32_t table_result(struct call *c, enum table_error error)
{
    switch (error) {
    case TABLE_OK: return done(c);
    case TABLE_DUPLICATE: return refuse(c, STATUS_ALREADY_EXISTS, "this match is in the table");
    case TABLE_FULL: return refuse(c, STATUS_RESOURCE_EXHAUSTED, "the table is full");
    case TABLE_MISSING: return refuse(c, STATUS_NOT_FOUND, "no such match in the table");
    case TABLE_BAD_ACTION:
        return refuse(c, STATUS_INVALID_ARGUMENT, "not an action of this table, or a parameter too wide");
    case TABLE_BAD_MATCH:
        return refuse(c, STATUS_INVALID_ARGUMENT, "bits outside field or mask, or no such prefix or range");
    case TABLE_BAD_PRIORITY:
        return refuse(c, STATUS_INVALID_ARGUMENT,
                      "priority must be above 0 with ternary, range or optional fields, else 0");
    case TABLE_CONST: return refuse(c, STATUS_PERMISSION_DENIED, "the program made it const");
    case TABLE_NO_TABLE: return refuse(c, STATUS_NOT_FOUND, "no such table");
    case TABLE_NO_MEMORY: return refuse(c, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    return refuse(c, STATUS_INTERNAL, "unknown table error");
}

/* A list is written item by item; the one that does not fit is taken back and told as `next`. */
struct list { uint8_t *next_at, *item_at; };

static struct list begin_list(struct call *c)
{
    struct list list = { .next_at = c->out.at };
    put_number(&c->out, 0, 4);
    list.item_at = c->out.at;
    return list;
}

/* False when item number `index` did not fit: the list ends before it. */
static bool end_item(struct call *c, struct list *list, uint32_t index)
{
    if (!c->out.full) {
        list->item_at = c->out.at;
        return true;
    }
    c->out.at = list->item_at;
    c->out.full = false;
    struct writer next = { .at = list->next_at, .end = list->item_at };
    put_number(&next, index, 4);
    return false;
}

/* --- what the program is */

static uint32_t hello(struct call *c)
{
    if (!at_end(&c->in)) return malformed(c);
    put_number(&c->out, CONTROL_PROTOCOL, 2);
    put_number(&c->out, c->sw->port_count, 4);
    put_number(&c->out, c->sw->seed, 8);
    put_string(&c->out, PROGRAM.name);
    put_number(&c->out, PROGRAM.table_count, 4);
    put_number(&c->out, PROGRAM.action_count, 4);
    put_number(&c->out, PROGRAM.counter_count, 4);
    put_number(&c->out, PROGRAM.register_count, 4);
    return done(c);
}

static void put_table(struct writer *w, uint32_t index)
{
    const struct table *table = &PROGRAM.tables[index];
    put_string(w, table->name);
    put_number(w, table->size, 4);
    put_number(w, table->const_entries * 1u + table->default_const * 2u + table->direct_counter * 4u, 1);
    put_number(w, table->field_count, 2);
    for (uint32_t i = 0; i < table->field_count; i++) {
        put_string(w, table->fields[i].name);
        put_number(w, table->fields[i].kind, 1);
        put_number(w, table->fields[i].bits, 2);
    }
    put_number(w, table->action_count, 2);
    for (uint32_t i = 0; i < table->action_count; i++) put_number(w, table->actions[i], 2);
}

static void put_action(struct writer *w, uint32_t index)
{
    const struct action *action = &PROGRAM.actions[index];
    put_string(w, action->name);
    put_number(w, action->param_count, 2);
    for (uint32_t i = 0; i < action->param_count; i++) {
        put_string(w, action->params[i].name);
        put_number(w, action->params[i].bits, 2);
    }
}

static void put_counter(struct writer *w, uint32_t index)
{
    const struct counter *counter = &PROGRAM.counters[index];
    put_string(w, counter->name);
    put_number(w, counter->size, 4);
    put_number(w, counter->direct, 1);
    put_number(w, counter->table, 2);
}

static void put_register(struct writer *w, uint32_t index)
{
    const struct reg *reg = &PROGRAM.registers[index];
    put_string(w, reg->name);
    put_number(w, reg->size, 4);
    put_number(w, reg->bits, 2);
}

static uint32_t info(struct call *c)
{
    const struct { uint32_t count; void (*put)(struct writer *, uint32_t); } kinds[] = {
        { PROGRAM.table_count, put_table }, { PROGRAM.action_count, put_action },
        { PROGRAM.counter_count, put_counter }, { PROGRAM.register_count, put_register },
    };
    uint64_t kind = take_number(&c->in, 1);
    uint32_t first = (uint32_t)take_number(&c->in, 4);
    if (!at_end(&c->in) || kind >= sizeof kinds / sizeof *kinds) return malformed(c);
    struct list list = begin_list(c);
    for (uint32_t i = first; i < kinds[kind].count; i++) {
        kinds[kind].put(&c->out, i);
        if (!end_item(c, &list, i)) break;
    }
    return done(c);
}

/* --- tables */

static const struct table *take_table(struct call *c, uint32_t *number)
{
    *number = (uint32_t)take_number(&c->in, 2);
    if (*number >= PROGRAM.table_count) c->in.bad = true;
    return c->in.bad ? NULL : &PROGRAM.tables[*number];
}

static void take_match(struct call *c, const struct table *table, struct row *row)
{
    row->priority = (uint32_t)take_number(&c->in, 4);
    row->value = take_bytes(&c->in, table_key_bytes(table));
    row->mask = take_bytes(&c->in, table_key_bytes(table));
}

static void take_call(struct call *c, struct row *row)
{
    row->action = (uint16_t)take_number(&c->in, 2);
    if (row->action >= PROGRAM.action_count) c->in.bad = true;
    else row->params = take_bytes(&c->in, action_param_bytes(&PROGRAM.actions[row->action]));
}

static uint32_t change_row(struct call *c,
                           enum table_error (*change)(struct tables *, uint32_t, const struct row *),
                           bool with_call)
{
    uint32_t number;
    struct row row = { 0 };
    const struct table *table = take_table(c, &number);
    if (table) take_match(c, table, &row);
    if (table && with_call) take_call(c, &row);
    if (!at_end(&c->in)) return malformed(c);
    return table_result(c, change(&c->sw->state.tables, number, &row));
}

static uint32_t insert_row(struct call *c) { return change_row(c, table_insert, true); }
static uint32_t modify_row(struct call *c) { return change_row(c, table_modify, true); }
static uint32_t delete_row(struct call *c) { return change_row(c, table_delete, false); }

static uint32_t set_default(struct call *c)
{
    uint32_t number;
    struct row row = { 0 };
    if (take_table(c, &number)) take_call(c, &row);
    if (!at_end(&c->in)) return malformed(c);
    return table_result(c, table_set_default(&c->sw->state.tables, number, row.action, row.params));
}

static uint32_t reset_default(struct call *c)
{
    uint32_t number;
    take_table(c, &number);
    if (!at_end(&c->in)) return malformed(c);
    return table_result(c, table_reset_default(&c->sw->state.tables, number));
}

static void put_call(struct writer *w, uint32_t action, const uint8_t *params)
{
    put_number(w, action, 2);
    if (action < PROGRAM.action_count) put_bytes(w, params, action_param_bytes(&PROGRAM.actions[action]));
}

static void put_count(struct writer *w, uint64_t packets, uint64_t bytes)
{
    put_number(w, packets, 8);
    put_number(w, bytes, 8);
}

static uint32_t read_rows(struct call *c)
{
    uint32_t number, cursor;
    const struct table *table = take_table(c, &number);
    cursor = (uint32_t)take_number(&c->in, 4);
    if (!at_end(&c->in)) return malformed(c);
    struct list list = begin_list(c);
    uint8_t mask[TABLE_KEY_MAX];
    struct row row;
    struct entry *entry;
    for (uint32_t at = cursor; table_next(&c->sw->state.tables, number, &cursor, &row, mask, &entry); at = cursor) {
        put_number(&c->out, row.priority, 4);
        put_bytes(&c->out, row.value, table_key_bytes(table));
        put_bytes(&c->out, row.mask, table_key_bytes(table));
        put_call(&c->out, row.action, row.params);
        put_count(&c->out, entry->hit_packets, entry->hit_bytes);
        if (!end_item(c, &list, at)) break;
    }
    return done(c);
}

static uint32_t read_default(struct call *c)
{
    uint32_t number;
    bool changed;
    take_table(c, &number);
    if (!at_end(&c->in)) return malformed(c);
    const struct entry *entry = table_default(&c->sw->state.tables, number, &changed);
    if (!entry) return refuse(c, STATUS_NOT_FOUND, "no such table");
    put_number(&c->out, changed, 1);
    put_call(&c->out, entry->action, entry->params);
    put_count(&c->out, entry->hit_packets, entry->hit_bytes);
    return done(c);
}

static uint32_t direct_counter(struct call *c, bool write)
{
    uint32_t number;
    struct row row = { 0 };
    const struct table *table = take_table(c, &number);
    if (table) take_match(c, table, &row);
    uint64_t packets = write ? take_number(&c->in, 8) : 0;
    uint64_t bytes = write ? take_number(&c->in, 8) : 0;
    if (!at_end(&c->in)) return malformed(c);
    struct entry *entry = table_find(&c->sw->state.tables, number, &row);
    if (!entry) return refuse(c, STATUS_NOT_FOUND, "no such match in the table");
    if (!table->direct_counter) return refuse(c, STATUS_FAILED_PRECONDITION, "the table has no direct counter");
    if (write) {
        entry->hit_packets = packets;
        entry->hit_bytes = bytes;
    } else {
        put_count(&c->out, entry->hit_packets, entry->hit_bytes);
    }
    return done(c);
}

static uint32_t read_direct(struct call *c) { return direct_counter(c, false); }
static uint32_t write_direct(struct call *c) { return direct_counter(c, true); }

/* --- counters and registers */

static uint32_t read_counter(struct call *c)
{
    uint32_t number = (uint32_t)take_number(&c->in, 2), first = (uint32_t)take_number(&c->in, 4);
    if (!at_end(&c->in)) return malformed(c);
    if (number >= PROGRAM.counter_count) return refuse(c, STATUS_NOT_FOUND, "no such counter");
    struct count value;
    struct list list = begin_list(c);
    for (uint32_t i = first; counter_get(&c->sw->state.externs, number, i, &value); i++) {
        put_count(&c->out, value.packets, value.bytes);
        if (!end_item(c, &list, i)) break;
    }
    return done(c);
}

static uint32_t write_counter(struct call *c)
{
    uint32_t number = (uint32_t)take_number(&c->in, 2), index = (uint32_t)take_number(&c->in, 4);
    struct count value = { .packets = take_number(&c->in, 8) };
    value.bytes = take_number(&c->in, 8);
    if (!at_end(&c->in)) return malformed(c);
    if (!counter_set(&c->sw->state.externs, number, index, value))
        return refuse(c, STATUS_OUT_OF_RANGE, "no such counter or cell");
    return done(c);
}

static uint32_t read_register(struct call *c)
{
    uint32_t number = (uint32_t)take_number(&c->in, 2), first = (uint32_t)take_number(&c->in, 4);
    if (!at_end(&c->in)) return malformed(c);
    if (number >= PROGRAM.register_count) return refuse(c, STATUS_NOT_FOUND, "no such register");
    u128 value;
    struct list list = begin_list(c);
    for (uint32_t i = first; register_get(&c->sw->state.externs, number, i, &value); i++) {
        put_number(&c->out, (uint64_t)value, 8);
        put_number(&c->out, (uint64_t)(value >> 64), 8);
        if (!end_item(c, &list, i)) break;
    }
    return done(c);
}

static uint32_t write_register(struct call *c)
{
    uint32_t number = (uint32_t)take_number(&c->in, 2), index = (uint32_t)take_number(&c->in, 4);
    uint64_t low = take_number(&c->in, 8), high = take_number(&c->in, 8);
    if (!at_end(&c->in)) return malformed(c);
    if (number < PROGRAM.register_count) {
        uint16_t bits = PROGRAM.registers[number].bits;
        if (bits < 128 && ((u128)high << 64 | low) >> bits)
            return refuse(c, STATUS_INVALID_ARGUMENT, "the value is wider than the register");
    }
    if (!register_set(&c->sw->state.externs, number, index, (u128)high << 64 | low))
        return refuse(c, STATUS_OUT_OF_RANGE, "no such register or cell");
    return done(c);
}

/* --- ports and queues */

static uint32_t configure_port(struct call *c)
{
    uint32_t number = (uint32_t)take_number(&c->in, 2);
    struct port_config config = { .rate_bps = take_number(&c->in, 8) };
    config.egress_delay_ns = take_number(&c->in, 8);
    config.ingress_delay_ns = take_number(&c->in, 8);
    config.queue_count = (uint32_t)take_number(&c->in, 1);
    if (config.queue_count > QUEUES_MAX) return refuse(c, STATUS_INVALID_ARGUMENT, "too many queues");
    for (uint32_t i = 0; i < config.queue_count; i++) {
        config.queues[i].packets = (uint32_t)take_number(&c->in, 4);
        config.queues[i].bytes = take_number(&c->in, 8);
    }
    if (!at_end(&c->in)) return malformed(c);
    if (number >= c->sw->port_count) return refuse(c, STATUS_NOT_FOUND, "no such port");
    if (!sw_configure_port(c->sw, number, &config, c->now_ns))
        return refuse(c, STATUS_INVALID_ARGUMENT, "a number out of bounds, or a queue to be removed is not empty");
    return done(c);
}

static uint32_t pause_queue(struct call *c)
{
    uint32_t port = (uint32_t)take_number(&c->in, 2), queue = (uint32_t)take_number(&c->in, 1);
    bool paused = take_number(&c->in, 1);
    if (!at_end(&c->in)) return malformed(c);
    if (!sw_pause_queue(c->sw, port, queue, paused, c->now_ns))
        return refuse(c, STATUS_NOT_FOUND, "no such port or queue");
    return done(c);
}

static uint32_t set_port(struct call *c)
{
    uint32_t port = (uint32_t)take_number(&c->in, 2);
    bool up = take_number(&c->in, 1);
    if (!at_end(&c->in)) return malformed(c);
    if (port >= c->sw->port_count) return refuse(c, STATUS_NOT_FOUND, "no such port");
    sw_port_changed(c->sw, port, up, c->now_ns);
    return done(c);
}

static void put_queue(struct writer *w, const struct queue *queue)
{
    const uint64_t counts[] = { queue->enqueued, queue->dequeued, queue->dropped,
                                queue->trim, queue->trim_sent, queue->trim_drop };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) put_number(w, counts[i], 8);
    put_number(w, queue->packets, 4);
    put_number(w, queue->bytes, 8);
    put_number(w, queue->packets_max, 4);
    put_number(w, queue->paused, 1);
}

static void put_port(struct writer *w, uint32_t number, const struct port *port)
{
    const uint64_t counts[] = { port->rx_packets, port->rx_bytes, port->tx_packets, port->tx_bytes,
                                port->link_down, port->ring_drops, port->busy_ns, port->lost_ns };
    put_number(w, number, 2);
    put_number(w, port->up, 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) put_number(w, counts[i], 8);
    put_number(w, port->queue_count, 1);
    for (uint32_t i = 0; i < port->queue_count; i++) put_queue(w, &port->queues[i]);
}

static uint32_t read_ports(struct call *c)
{
    uint32_t first = (uint32_t)take_number(&c->in, 2);
    if (!at_end(&c->in)) return malformed(c);
    struct list list = begin_list(c);
    for (uint32_t i = first; i < c->sw->port_count; i++) {
        put_port(&c->out, i, &c->sw->ports[i]);
        if (!end_item(c, &list, i)) break;
    }
    return done(c);
}

/* --- the switch as a whole */

static uint32_t read_switch(struct call *c)
{
    if (!at_end(&c->in)) return malformed(c);
    put_number(&c->out, c->sw->now_ns, 8);
    put_number(&c->out, c->sw->pool->used, 4);
    put_number(&c->out, c->sw->pool->used_max, 4);
    put_number(&c->out, c->sw->pool->made, 4);
    put_number(&c->out, DROP_REASONS, 1);
    for (uint32_t i = 0; i < DROP_REASONS; i++) put_number(&c->out, c->sw->drops[i], 8);
    return done(c);
}

static uint32_t reload(struct call *c)
{
    if (!at_end(&c->in)) return malformed(c);
    if (!sw_reload(c->sw)) return refuse(c, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    return done(c);
}

static uint32_t set_group(struct call *c, struct groups *groups, bool session)
{
    struct replica replicas[REPLICAS_MAX];
    uint32_t id = (uint32_t)take_number(&c->in, 4);
    uint32_t truncate_to = session ? (uint32_t)take_number(&c->in, 4) : 0;
    uint32_t count = (uint32_t)take_number(&c->in, 2);
    if (count > REPLICAS_MAX) return refuse(c, STATUS_INVALID_ARGUMENT, "too many replicas");
    for (uint32_t i = 0; i < count; i++) {
        replicas[i].port = (uint16_t)take_number(&c->in, 2);
        replicas[i].rid = (uint16_t)take_number(&c->in, 2);
    }
    if (!at_end(&c->in)) return malformed(c);
    if (id == 0) return refuse(c, STATUS_INVALID_ARGUMENT, "0 is no group or session");
    if (!groups_set(groups, id, truncate_to, replicas, count))
        return refuse(c, STATUS_RESOURCE_EXHAUSTED, "out of memory, or too many groups");
    return done(c);
}

static uint32_t set_multicast(struct call *c) { return set_group(c, &c->sw->multicast, false); }
static uint32_t set_session(struct call *c) { return set_group(c, &c->sw->sessions, true); }

static uint32_t (*const OPERATIONS[OP_COUNT])(struct call *) = {
    [OP_HELLO] = hello, [OP_INFO] = info,
    [OP_INSERT] = insert_row, [OP_MODIFY] = modify_row, [OP_DELETE] = delete_row,
    [OP_SET_DEFAULT] = set_default, [OP_RESET_DEFAULT] = reset_default,
    [OP_READ_ROWS] = read_rows, [OP_READ_DEFAULT] = read_default,
    [OP_READ_DIRECT] = read_direct, [OP_WRITE_DIRECT] = write_direct,
    [OP_READ_COUNTER] = read_counter, [OP_WRITE_COUNTER] = write_counter,
    [OP_READ_REGISTER] = read_register, [OP_WRITE_REGISTER] = write_register,
    [OP_CONFIGURE_PORT] = configure_port, [OP_PAUSE_QUEUE] = pause_queue, [OP_SET_PORT] = set_port,
    [OP_READ_PORTS] = read_ports, [OP_READ_SWITCH] = read_switch, [OP_RELOAD] = reload,
    [OP_SET_MULTICAST] = set_multicast, [OP_SET_SESSION] = set_session,
};

uint32_t control_handle(struct sw *sw, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns)
{
    struct call c = {
        .sw = sw, .now_ns = now_ns,
        .in = { .at = request, .end = request + length },
        .out = { .start = reply, .at = reply, .end = reply + capacity },
    };
    uint64_t op = take_number(&c.in, 1);
    if (op >= OP_COUNT || !OPERATIONS[op])
        return refuse(&c, c.in.bad ? STATUS_INVALID_ARGUMENT : STATUS_UNIMPLEMENTED, "no such operation");
    put_number(&c.out, STATUS_OK, 1);
    return OPERATIONS[op](&c);
}
