/* The control side of the match-action tables. */
#ifndef TABLES_H
#define TABLES_H

#include "pipeline.h"

enum table_error {
    TABLE_OK,
    TABLE_DUPLICATE,     /* insert: this match (and priority) is there */
    TABLE_FULL,          /* insert: `size` rows are there */
    TABLE_MISSING,       /* modify, delete, find: no such match */
    TABLE_BAD_ACTION,    /* not an action of this table, or parameters too wide */
    TABLE_BAD_MATCH,     /* bits outside field or mask, mask no prefix, low above high */
    TABLE_BAD_PRIORITY,  /* zero where a field is ternary, range or optional, else not zero */
    TABLE_CONST,         /* rows or default action are the program's own */
    TABLE_NO_TABLE,      /* no table of this number */
    TABLE_NO_MEMORY,
};

/* A row as the control plane says it.  `value` and `mask` are as long as a key (table_key_bytes).
 *   exact     mask all ones           lpm       mask = prefix
 *   ternary   any mask                optional  mask all ones, or all zero for the wildcard
 *   range     value = low, mask = high
 * Bits of `value` outside `mask` are zero.  "All ones" is in the bits of the field, not of its bytes.
 * Larger priority wins. */
struct row {
    const uint8_t *value, *mask;
    uint32_t priority;
    uint16_t action;          /* index into PROGRAM.actions; not looked at by delete and find */
    const uint8_t *params;    /* action_param_bytes(action) bytes */
};

struct table_state;           /* rows of one table; tables.c */
struct tables {
    const struct program *program;
    struct table_state *tables;
};

bool tables_init(struct tables *tables, const struct program *program);
void tables_free(struct tables *tables);

uint32_t table_key_bytes(const struct table *table);
uint32_t action_param_bytes(const struct action *action);
bool table_has_priority(const struct table *table);

enum table_error table_insert(struct tables *tables, uint32_t table, const struct row *row);
enum table_error table_modify(struct tables *tables, uint32_t table, const struct row *row);
enum table_error table_delete(struct tables *tables, uint32_t table, const struct row *row);

/* The program's own rows; insert without the check of const_entries.  For PROGRAM.init. */
enum table_error table_insert_const(struct tables *tables, uint32_t table, const struct row *row);

/* Sets the default action, or gives it back to the program's own. */
enum table_error table_set_default(struct tables *tables, uint32_t table, uint16_t action,
                                   const uint8_t *params);
enum table_error table_reset_default(struct tables *tables, uint32_t table);
/* The default entry; *changed says whether the control plane has set it. */
const struct entry *table_default(const struct tables *tables, uint32_t table, bool *changed);

uint32_t table_entry_count(const struct tables *tables, uint32_t table);
/* The entry of a match, or NULL.  Its counters may be written. */
struct entry *table_find(const struct tables *tables, uint32_t table, const struct row *row);
/* Iterates in order of insertion: start with *cursor = 0, until false.  *row points into the table
 * and into `mask` (room for a key, TABLE_KEY_MAX is enough) and is good until the table's next
 * change; *entry gives the direct counter. */
bool table_next(const struct tables *tables, uint32_t table, uint32_t *cursor, struct row *row,
                uint8_t *mask, struct entry **entry);

#endif
