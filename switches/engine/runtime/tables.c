/* Match-action tables: exact and longest-prefix ones are hashed, the others are scanned by priority.
 *
 * Memory is taken when the control plane inserts, never for a packet.  Keys are compared in words of
 * eight bytes; the tail of the last word is zero everywhere. */
#include "tables.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

#define WORD_BYTES 8u
#define KEY_WORDS_MAX (TABLE_KEY_MAX / WORD_BYTES)
#define BUCKETS_MIN 16u

struct record {
    struct entry entry;
    struct record *next_in_bucket;
    uint32_t priority;
    uint32_t hash;          /* of value; hashed tables */
    uint16_t prefix;        /* index into table_state.prefixes; longest-prefix tables */
    uint8_t *params;
    /* value, mask: each `words`; in a range field value = low and mask = 0, and the third part has high */
    uint64_t words[];
};

/* One length of prefix that is in use. */
struct prefix {
    uint16_t bits;
    uint32_t count;
    uint64_t mask[KEY_WORDS_MAX];
};

enum method { METHOD_NONE, METHOD_EXACT, METHOD_LPM, METHOD_SCAN };

struct table_state {
    const struct table *info;
    enum method method;
    uint32_t key_bytes, words;
    struct record **records;            /* in order of insertion */
    uint32_t count, room;
    struct record **sorted;             /* METHOD_SCAN: by priority, falling, then age */
    struct record **buckets;            /* hashed methods */
    uint32_t bucket_mask;
    struct prefix *prefixes;            /* METHOD_LPM: longest first */
    uint32_t prefix_count;
    struct entry miss;                  /* default entry */
    uint8_t *miss_params;               /* set by the control plane; NULL: the program's own */
    bool miss_changed;
};

/* --- shapes */

static uint32_t field_bytes(const struct match_field *field) { return (field->bits + 7u) / 8u; }

uint32_t table_key_bytes(const struct table *table)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < table->field_count; i++) bytes += field_bytes(&table->fields[i]);
    return bytes;
}

uint32_t action_param_bytes(const struct action *action)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < action->param_count; i++) bytes += (action->params[i].bits + 7u) / 8u;
    return bytes;
}

bool table_has_priority(const struct table *table)
{
    for (uint32_t i = 0; i < table->field_count; i++)
        if (table->fields[i].kind != MATCH_EXACT && table->fields[i].kind != MATCH_LPM) return true;
    return false;
}

static enum method method_of(const struct table *table)
{
    enum method method = table->field_count ? METHOD_EXACT : METHOD_NONE;
    if (table_has_priority(table)) return METHOD_SCAN;
    for (uint32_t i = 0; i < table->field_count; i++)
        if (table->fields[i].kind == MATCH_LPM) method = METHOD_LPM;
    return method;
}

/* Byte `index` of `bytes` bytes that hold `bits` ones at the right. */
static uint8_t ones_byte(uint32_t bits, uint32_t index, uint32_t bytes)
{
    uint32_t padding = bytes * 8u - bits;
    return index == 0 ? (uint8_t)(0xffu >> padding) : 0xff;
}

/* --- parts of a record */

static uint64_t *record_value(struct record *record) { return record->words; }

static uint64_t *record_mask(const struct table_state *t, struct record *record)
{
    return record->words + t->words;
}

static uint64_t *record_high(const struct table_state *t, struct record *record)
{
    return record->words + 2 * t->words;
}

static uint32_t hash_words(const uint64_t *words, uint32_t count)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static bool same_words(const uint64_t *a, const uint64_t *b, uint32_t count)
{
    uint64_t differ = 0;
    for (uint32_t i = 0; i < count; i++) differ |= a[i] ^ b[i];
    return differ == 0;
}

/* --- what the control plane says, checked and brought into one form */

struct key { uint64_t value[KEY_WORDS_MAX], mask[KEY_WORDS_MAX], high[KEY_WORDS_MAX]; uint16_t prefix_bits; };

/* The length of a mask that is a prefix of a field, or -1. */
static int prefix_length(const uint8_t *mask, uint32_t bits)
{
    uint32_t bytes = (bits + 7u) / 8u, padding = bytes * 8u - bits, length = 0;
    bool ended = false;
    for (uint32_t i = 0; i < bytes * 8u; i++) {
        bool set = mask[i / 8u] >> (7u - i % 8u) & 1;
        if (i < padding ? set : set && ended) return -1;
        if (i >= padding && !set) ended = true;
        length += set;
    }
    return (int)length;
}

static bool all_bytes(const uint8_t *bytes, const struct match_field *field, bool ones)
{
    uint32_t count = field_bytes(field);
    for (uint32_t i = 0; i < count; i++)
        if (bytes[i] != (ones ? ones_byte(field->bits, i, count) : 0)) return false;
    return true;
}

static bool field_is_sound(const struct match_field *field, const uint8_t *value, const uint8_t *mask)
{
    uint32_t bytes = field_bytes(field);
    for (uint32_t i = 0; i < bytes; i++) {
        uint8_t ones = ones_byte(field->bits, i, bytes);
        if (value[i] & ~ones || mask[i] & ~ones) return false;
        if (field->kind != MATCH_RANGE && value[i] & ~mask[i]) return false;
    }
    switch (field->kind) {
    case MATCH_EXACT: return all_bytes(mask, field, true);
    case MATCH_LPM: return prefix_length(mask, field->bits) >= 0;
    case MATCH_OPTIONAL: return all_bytes(mask, field, true) || all_bytes(mask, field, false);
    case MATCH_RANGE: return memcmp(value, mask, bytes) <= 0;
    case MATCH_TERNARY: break;
    }
    return true;
}

static enum table_error read_key(const struct table_state *t, const struct row *row, struct key *key)
{
    memset(key, 0, sizeof *key);
    if ((t->method == METHOD_SCAN) != (row->priority != 0)) return TABLE_BAD_PRIORITY;
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->info->field_count; i++) {
        const struct match_field *field = &t->info->fields[i];
        uint32_t bytes = field_bytes(field);
        const uint8_t *value = row->value + at, *mask = row->mask + at;
        if (!field_is_sound(field, value, mask)) return TABLE_BAD_MATCH;
        memcpy((uint8_t *)key->value + at, value, bytes);
        if (field->kind == MATCH_RANGE) memcpy((uint8_t *)key->high + at, mask, bytes);
        else memcpy((uint8_t *)key->mask + at, mask, bytes);
        if (field->kind == MATCH_LPM) key->prefix_bits = (uint16_t)prefix_length(mask, field->bits);
        if (field->only != NULL && field->kind != MATCH_RANGE)
            for (uint32_t b = 0; b < bytes; b++) ((uint8_t *)key->value)[at + b] &= field->only[b];
        at += bytes;
    }
    return TABLE_OK;
}

static bool action_is_sound(const struct tables *tables, const struct table *table, uint16_t action,
                            const uint8_t *params)
{
    bool listed = false;
    for (uint32_t i = 0; i < table->action_count; i++) listed |= table->actions[i] == action;
    if (!listed || action >= tables->program->action_count) return false;
    const struct action *info = &tables->program->actions[action];
    for (uint32_t i = 0; i < info->param_count; i++) {
        uint32_t bytes = (info->params[i].bits + 7u) / 8u;
        if (bytes && params[0] & ~ones_byte(info->params[i].bits, 0, bytes)) return false;
        params += bytes;
    }
    return true;
}

static uint8_t *copy_params(const struct tables *tables, uint16_t action, const uint8_t *params)
{
    uint32_t bytes = action_param_bytes(&tables->program->actions[action]);
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (copy != NULL && bytes) memcpy(copy, params, bytes);
    return copy;
}

/* --- finding */

static struct record *find_hashed(const struct table_state *t, const uint64_t *value, uint32_t hash,
                                  uint32_t prefix)
{
    for (struct record *r = t->buckets[hash & t->bucket_mask]; r != NULL; r = r->next_in_bucket)
        if (r->hash == hash && r->prefix == prefix && same_words(r->words, value, t->words)) return r;
    return NULL;
}

/* Where a prefix length is, or where it would go; *found says which. */
static uint32_t prefix_index(const struct table_state *t, uint16_t bits, bool *found)
{
    uint32_t i = 0;
    while (i < t->prefix_count && t->prefixes[i].bits > bits) i++;
    *found = i < t->prefix_count && t->prefixes[i].bits == bits;
    return i;
}

static struct record *find(const struct table_state *t, const struct key *key, uint32_t priority)
{
    if (t->count == 0) return NULL;
    if (t->method == METHOD_SCAN) {
        for (uint32_t i = 0; i < t->count; i++) {
            struct record *r = t->sorted[i];
            if (r->priority == priority && same_words(record_value(r), key->value, t->words)
                && same_words(record_mask(t, r), key->mask, t->words)
                && same_words(record_high(t, r), key->high, t->words)) return r;
        }
        return NULL;
    }
    uint32_t prefix = 0;
    if (t->method == METHOD_LPM) {
        bool found;
        prefix = prefix_index(t, key->prefix_bits, &found);
        if (!found) return NULL;
    }
    return find_hashed(t, key->value, hash_words(key->value, t->words), prefix);
}

static struct record *lookup_lpm(const struct table_state *t, const uint64_t *key)
{
    uint64_t masked[KEY_WORDS_MAX];
    for (uint32_t i = 0; i < t->prefix_count; i++) {
        for (uint32_t w = 0; w < t->words; w++) masked[w] = key[w] & t->prefixes[i].mask[w];
        struct record *r = find_hashed(t, masked, hash_words(masked, t->words), i);
        if (r != NULL) return r;
    }
    return NULL;
}

static bool in_ranges(const struct table_state *t, struct record *r, const uint8_t *key)
{
    const uint8_t *low = (const uint8_t *)record_value(r), *high = (const uint8_t *)record_high(t, r);
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->info->field_count; i++) {
        uint32_t bytes = field_bytes(&t->info->fields[i]);
        if (t->info->fields[i].kind == MATCH_RANGE
            && (memcmp(key + at, low + at, bytes) < 0 || memcmp(key + at, high + at, bytes) > 0))
            return false;
        at += bytes;
    }
    return true;
}

static struct record *lookup_scan(const struct table_state *t, const uint64_t *key)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct record *r = t->sorted[i];
        const uint64_t *value = record_value(r), *mask = record_mask(t, r);
        uint64_t differ = 0;
        for (uint32_t w = 0; w < t->words; w++) differ |= (key[w] ^ value[w]) & mask[w];
        if (differ == 0 && in_ranges(t, r, (const uint8_t *)key)) return r;
    }
    return NULL;
}

const struct entry *table_lookup(struct sw *sw, uint32_t table, const uint64_t *key, bool *hit,
                                 uint32_t frame_bytes)
{
    struct table_state *t = &state_of(sw)->tables.tables[table];
    struct record *r = NULL;
    if (t->count != 0) {
        switch (t->method) {
        case METHOD_EXACT: r = find_hashed(t, key, hash_words(key, t->words), 0); break;
        case METHOD_LPM: r = lookup_lpm(t, key); break;
        case METHOD_SCAN: r = lookup_scan(t, key); break;
        case METHOD_NONE: break;
        }
    }
    *hit = r != NULL;
    if (r == NULL) return &t->miss;
    r->entry.hit_packets++;
    r->entry.hit_bytes += frame_bytes;
    return &r->entry;
}

/* --- changing */

static bool make_room(struct table_state *t)
{
    if (t->count < t->room) return true;
    uint32_t room = t->room ? 2 * t->room : BUCKETS_MIN;
    struct record **records = realloc(t->records, room * sizeof *records);
    if (records == NULL) return false;
    t->records = records;
    if (t->method == METHOD_SCAN) {
        struct record **sorted = realloc(t->sorted, room * sizeof *sorted);
        if (sorted == NULL) return false;
        t->sorted = sorted;
    } else {
        struct record **buckets = calloc(2u * room, sizeof *buckets);
        if (buckets == NULL) return false;
        t->bucket_mask = 2u * room - 1;
        for (uint32_t i = 0; i < t->count; i++) {
            struct record **bucket = &buckets[t->records[i]->hash & t->bucket_mask];
            t->records[i]->next_in_bucket = *bucket;
            *bucket = t->records[i];
        }
        free(t->buckets);
        t->buckets = buckets;
    }
    t->room = room;
    return true;
}

/* Counts one more row of this prefix length; the index, or -1 when memory is short. */
static int take_prefix(struct table_state *t, const struct key *key)
{
    bool found;
    uint32_t index = prefix_index(t, key->prefix_bits, &found);
    if (!found) {
        struct prefix *grown = realloc(t->prefixes, (t->prefix_count + 1) * sizeof *grown);
        if (grown == NULL) return -1;
        t->prefixes = grown;
        memmove(grown + index + 1, grown + index, (t->prefix_count - index) * sizeof *grown);
        t->prefix_count++;
        grown[index] = (struct prefix){.bits = key->prefix_bits};
        memcpy(grown[index].mask, key->mask, sizeof grown[index].mask);
        for (uint32_t i = 0; i < t->count; i++) t->records[i]->prefix += t->records[i]->prefix >= index;
    }
    t->prefixes[index].count++;
    return (int)index;
}

static void drop_prefix(struct table_state *t, uint32_t index)
{
    if (--t->prefixes[index].count != 0) return;
    t->prefix_count--;
    memmove(t->prefixes + index, t->prefixes + index + 1,
            (t->prefix_count - index) * sizeof *t->prefixes);
    for (uint32_t i = 0; i < t->count; i++) t->records[i]->prefix -= t->records[i]->prefix > index;
}

static void put_sorted(struct table_state *t, struct record *record)
{
    uint32_t at = t->count;
    while (at > 0 && t->sorted[at - 1]->priority < record->priority) {
        t->sorted[at] = t->sorted[at - 1];
        at--;
    }
    t->sorted[at] = record;
}

static void remove_from(struct record **array, uint32_t count, const struct record *record)
{
    uint32_t at = 0;
    while (array[at] != record) at++;
    memmove(array + at, array + at + 1, (count - at - 1) * sizeof *array);
}

static struct record *new_record(const struct table_state *t, const struct key *key, uint32_t priority)
{
    uint32_t parts = t->method == METHOD_SCAN ? 3 : 2;
    struct record *record = calloc(1, sizeof *record + (size_t)parts * t->words * WORD_BYTES);
    if (record == NULL) return NULL;
    record->priority = priority;
    record->hash = hash_words(key->value, t->words);
    memcpy(record_value(record), key->value, t->words * WORD_BYTES);
    memcpy(record_mask(t, record), key->mask, t->words * WORD_BYTES);
    if (parts == 3) memcpy(record_high(t, record), key->high, t->words * WORD_BYTES);
    return record;
}

static void free_record(struct record *record)
{
    if (record == NULL) return;
    free(record->params);
    free(record);
}

static enum table_error add(struct tables *tables, struct table_state *t, const struct key *key,
                            const struct row *row)
{
    struct record *record = new_record(t, key, row->priority);
    uint8_t *params = copy_params(tables, row->action, row->params);
    int prefix = 0;
    if (record != NULL && params != NULL && make_room(t))
        prefix = t->method == METHOD_LPM ? take_prefix(t, key) : 0;
    else
        prefix = -1;
    if (prefix < 0) {
        free(params);
        free_record(record);
        return TABLE_NO_MEMORY;
    }
    record->prefix = (uint16_t)prefix;
    record->params = params;
    record->entry = (struct entry){.action = row->action, .params = params};
    if (t->method == METHOD_SCAN) {
        put_sorted(t, record);
    } else {
        record->next_in_bucket = t->buckets[record->hash & t->bucket_mask];
        t->buckets[record->hash & t->bucket_mask] = record;
    }
    t->records[t->count++] = record;
    return TABLE_OK;
}

static struct table_state *state_of_table(const struct tables *tables, uint32_t table)
{
    return table < tables->program->table_count ? &tables->tables[table] : NULL;
}

enum table_error table_insert_const(struct tables *tables, uint32_t table, const struct row *row)
{
    struct table_state *t = state_of_table(tables, table);
    if (t == NULL) return TABLE_NO_TABLE;
    if (t->method == METHOD_NONE) return TABLE_BAD_MATCH;
    struct key key;
    enum table_error error = read_key(t, row, &key);
    if (error != TABLE_OK) return error;
    if (!action_is_sound(tables, t->info, row->action, row->params)) return TABLE_BAD_ACTION;
    if (find(t, &key, row->priority) != NULL) return TABLE_DUPLICATE;
    if (t->count >= t->info->size) return TABLE_FULL;
    return add(tables, t, &key, row);
}

enum table_error table_insert(struct tables *tables, uint32_t table, const struct row *row)
{
    struct table_state *t = state_of_table(tables, table);
    if (t != NULL && t->info->const_entries) return TABLE_CONST;
    return table_insert_const(tables, table, row);
}

enum table_error table_modify(struct tables *tables, uint32_t table, const struct row *row)
{
    struct table_state *t = state_of_table(tables, table);
    if (t == NULL) return TABLE_NO_TABLE;
    if (t->info->const_entries) return TABLE_CONST;
    struct key key;
    enum table_error error = read_key(t, row, &key);
    if (error != TABLE_OK) return error;
    if (!action_is_sound(tables, t->info, row->action, row->params)) return TABLE_BAD_ACTION;
    struct record *record = find(t, &key, row->priority);
    if (record == NULL) return TABLE_MISSING;
    uint8_t *params = copy_params(tables, row->action, row->params);
    if (params == NULL) return TABLE_NO_MEMORY;
    free(record->params);
    record->params = params;
    record->entry.action = row->action;
    record->entry.params = params;
    return TABLE_OK;
}

enum table_error table_delete(struct tables *tables, uint32_t table, const struct row *row)
{
    struct table_state *t = state_of_table(tables, table);
    if (t == NULL) return TABLE_NO_TABLE;
    if (t->info->const_entries) return TABLE_CONST;
    struct key key;
    enum table_error error = read_key(t, row, &key);
    if (error != TABLE_OK) return error;
    struct record *record = find(t, &key, row->priority);
    if (record == NULL) return TABLE_MISSING;
    remove_from(t->records, t->count, record);
    if (t->method == METHOD_SCAN) {
        remove_from(t->sorted, t->count, record);
    } else {
        struct record **link = &t->buckets[record->hash & t->bucket_mask];
        while (*link != record) link = &(*link)->next_in_bucket;
        *link = record->next_in_bucket;
    }
    t->count--;
    if (t->method == METHOD_LPM) drop_prefix(t, record->prefix);
    free_record(record);
    return TABLE_OK;
}

/* --- default action */

static void own_default(struct table_state *t)
{
    t->miss = (struct entry){.action = t->info->default_action, .params = t->info->default_params};
    t->miss_changed = false;
}

enum table_error table_set_default(struct tables *tables, uint32_t table, uint16_t action,
                                   const uint8_t *params)
{
    struct table_state *t = state_of_table(tables, table);
    if (t == NULL) return TABLE_NO_TABLE;
    if (t->info->default_const) return TABLE_CONST;
    if (!action_is_sound(tables, t->info, action, params)) return TABLE_BAD_ACTION;
    uint8_t *copy = copy_params(tables, action, params);
    if (copy == NULL) return TABLE_NO_MEMORY;
    free(t->miss_params);
    t->miss_params = copy;
    t->miss = (struct entry){.action = action, .params = copy};
    t->miss_changed = true;
    return TABLE_OK;
}

enum table_error table_reset_default(struct tables *tables, uint32_t table)
{
    struct table_state *t = state_of_table(tables, table);
    if (t == NULL) return TABLE_NO_TABLE;
    if (t->info->default_const) return TABLE_CONST;
    free(t->miss_params);
    t->miss_params = NULL;
    own_default(t);
    return TABLE_OK;
}

const struct entry *table_default(const struct tables *tables, uint32_t table, bool *changed)
{
    const struct table_state *t = &tables->tables[table];
    *changed = t->miss_changed;
    return &t->miss;
}

/* --- reading */

uint32_t table_entry_count(const struct tables *tables, uint32_t table)
{
    return tables->tables[table].count;
}

struct entry *table_find(const struct tables *tables, uint32_t table, const struct row *row)
{
    const struct table_state *t = state_of_table(tables, table);
    struct key key;
    if (t == NULL || read_key(t, row, &key) != TABLE_OK) return NULL;
    struct record *record = find(t, &key, row->priority);
    return record == NULL ? NULL : &record->entry;
}

/* A range field keeps its high end apart from the mask; a row shows it in the mask. */
static void merge_high(const struct table_state *t, struct record *record, uint8_t *mask)
{
    memcpy(mask, record_mask(t, record), t->key_bytes);
    if (t->method != METHOD_SCAN) return;
    const uint8_t *high = (const uint8_t *)record_high(t, record);
    for (uint32_t i = 0; i < t->key_bytes; i++) mask[i] |= high[i];
}

bool table_next(const struct tables *tables, uint32_t table, uint32_t *cursor, struct row *row,
                uint8_t *mask, struct entry **entry)
{
    const struct table_state *t = state_of_table(tables, table);
    if (t == NULL || *cursor >= t->count) return false;
    struct record *record = t->records[(*cursor)++];
    merge_high(t, record, mask);
    *row = (struct row){
        .value = (const uint8_t *)record_value(record), .mask = mask, .priority = record->priority,
        .action = (uint16_t)record->entry.action, .params = record->params,
    };
    *entry = &record->entry;
    return true;
}

/* --- life */

bool tables_init(struct tables *tables, const struct program *program)
{
    tables->program = program;
    tables->tables = calloc(program->table_count ? program->table_count : 1, sizeof *tables->tables);
    if (tables->tables == NULL) return false;
    for (uint32_t i = 0; i < program->table_count; i++) {
        struct table_state *t = &tables->tables[i];
        t->info = &program->tables[i];
        t->method = method_of(t->info);
        t->key_bytes = table_key_bytes(t->info);
        t->words = (t->key_bytes + WORD_BYTES - 1) / WORD_BYTES;
        own_default(t);
    }
    return true;
}

void tables_free(struct tables *tables)
{
    for (uint32_t i = 0; tables->tables != NULL && i < tables->program->table_count; i++) {
        struct table_state *t = &tables->tables[i];
        for (uint32_t r = 0; r < t->count; r++) free_record(t->records[r]);
        free(t->records);
        free(t->sorted);
        free(t->buckets);
        free(t->prefixes);
        free(t->miss_params);
    }
    free(tables->tables);
    tables->tables = NULL;
}
