/* Counters, registers, the random stream, and the hashes, each as BMv2 computes it. */
#include "externs.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

/* --- counters */

void counter_count(struct sw *sw, uint32_t counter, uint64_t index, uint32_t frame_bytes)
{
    struct externs *externs = &state_of(sw)->externs;
    if (index >= externs->program->counters[counter].size) return;
    struct count *count = &externs->counters[counter][index];
    count->packets++;
    count->bytes += frame_bytes;
}

static struct count *counter_cell(const struct externs *externs, uint32_t counter, uint32_t index)
{
    if (counter >= externs->program->counter_count || externs->counters[counter] == NULL) return NULL;
    if (index >= externs->program->counters[counter].size) return NULL;
    return &externs->counters[counter][index];
}

bool counter_get(const struct externs *externs, uint32_t counter, uint32_t index, struct count *value)
{
    const struct count *cell = counter_cell(externs, counter, index);
    if (cell != NULL) *value = *cell;
    return cell != NULL;
}

bool counter_set(struct externs *externs, uint32_t counter, uint32_t index, struct count value)
{
    struct count *cell = counter_cell(externs, counter, index);
    if (cell != NULL) *cell = value;
    return cell != NULL;
}

/* --- registers: cells of 1, 2, 4, 8 or 16 bytes */

static uint8_t cell_width(uint16_t bits)
{
    uint8_t width = 1;
    while (width * 8u < bits) width = (uint8_t)(2 * width);
    return width;
}

static u128 cell_read(const struct cells *cells, uint64_t index)
{
    switch (cells->width) {
    case 1: return ((const uint8_t *)cells->data)[index];
    case 2: return ((const uint16_t *)cells->data)[index];
    case 4: return ((const uint32_t *)cells->data)[index];
    case 8: return ((const uint64_t *)cells->data)[index];
    default: return ((const u128 *)cells->data)[index];
    }
}

static void cell_write(const struct cells *cells, uint64_t index, u128 value)
{
    if (cells->bits < 128) value &= ((u128)1 << cells->bits) - 1;
    switch (cells->width) {
    case 1: ((uint8_t *)cells->data)[index] = (uint8_t)value; break;
    case 2: ((uint16_t *)cells->data)[index] = (uint16_t)value; break;
    case 4: ((uint32_t *)cells->data)[index] = (uint32_t)value; break;
    case 8: ((uint64_t *)cells->data)[index] = (uint64_t)value; break;
    default: ((u128 *)cells->data)[index] = value; break;
    }
}

u128 register_read(struct sw *sw, uint32_t reg, uint64_t index)
{
    const struct cells *cells = &state_of(sw)->externs.registers[reg];
    return index < cells->size ? cell_read(cells, index) : 0;
}

void register_write(struct sw *sw, uint32_t reg, uint64_t index, u128 value)
{
    const struct cells *cells = &state_of(sw)->externs.registers[reg];
    if (index < cells->size) cell_write(cells, index, value);
}

static const struct cells *register_cells(const struct externs *externs, uint32_t reg, uint32_t index)
{
    if (reg >= externs->program->register_count) return NULL;
    return index < externs->registers[reg].size ? &externs->registers[reg] : NULL;
}

bool register_get(const struct externs *externs, uint32_t reg, uint32_t index, u128 *value)
{
    const struct cells *cells = register_cells(externs, reg, index);
    if (cells != NULL) *value = cell_read(cells, index);
    return cells != NULL;
}

bool register_set(struct externs *externs, uint32_t reg, uint32_t index, u128 value)
{
    const struct cells *cells = register_cells(externs, reg, index);
    if (cells != NULL) cell_write(cells, index, value);
    return cells != NULL;
}

/* --- random: xoshiro256** of Blackman and Vigna, seeded by splitmix64 */

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotate_left(uint64_t value, int by) { return value << by | value >> (64 - by); }

static uint64_t random_next(uint64_t s[4])
{
    uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_between(struct sw *sw, uint64_t low, uint64_t high)
{
    uint64_t *s = state_of(sw)->externs.random, span = high - low + 1;
    if (span == 0) return random_next(s);           /* the whole range */
    uint64_t unfair = -span % span;                 /* 2^64 mod span: the first so many are over-full */
    uint64_t drawn = random_next(s);
    while (drawn < unfair) drawn = random_next(s);
    return low + drawn % span;
}

/* --- hashes */

struct crc_table { uint32_t polynomial, initial, final, values[256]; };  /* polynomial reflected */

static struct crc_table crc16_table = {.polynomial = 0xa001u};
static struct crc_table crc32_table = {0xedb88320u, 0xffffffffu, 0xffffffffu, {0}};
static struct crc_table crc32c_table = {0x82f63b78u, 0xffffffffu, 0xffffffffu, {0}};

static void crc_table_fill(struct crc_table *table)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ table->polynomial : value >> 1;
        table->values[i] = value;
    }
}

static uint32_t crc(const struct crc_table *table, const uint8_t *data, uint32_t length)
{
    uint32_t value = table->initial;
    for (uint32_t i = 0; i < length; i++) value = table->values[(value ^ data[i]) & 0xff] ^ value >> 8;
    return value ^ table->final;
}

/* The Internet checksum (RFC 1071); an odd last byte is the high one of its word. */
static uint16_t csum16(const uint8_t *data, uint32_t length)
{
    uint64_t sum = 0;
    for (; length >= 2; data += 2, length -= 2) sum += (uint32_t)data[0] << 8 | data[1];
    if (length) sum += (uint32_t)data[0] << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static uint16_t xor16(const uint8_t *data, uint32_t length)
{
    uint32_t result = 0;
    for (; length >= 2; data += 2, length -= 2) result ^= (uint32_t)data[0] << 8 | data[1];
    if (length) result ^= (uint32_t)data[0] << 8;
    return (uint16_t)result;
}

/* The first eight bytes as a number. */
static uint64_t identity(const uint8_t *data, uint32_t length)
{
    uint64_t result = 0;
    for (uint32_t i = 0; i < length && i < 8; i++) result = result << 8 | data[i];
    return result;
}

uint64_t hash_bytes(enum hash_algorithm algorithm, const uint8_t *data, uint32_t length)
{
    switch (algorithm) {
    case HASH_CRC32: return crc(&crc32_table, data, length);
    case HASH_CRC32C: return crc(&crc32c_table, data, length);
    case HASH_CRC16: return crc(&crc16_table, data, length);
    case HASH_CSUM16: return csum16(data, length);
    case HASH_XOR16: return xor16(data, length);
    case HASH_IDENTITY: return identity(data, length);
    }
    return 0;
}

/* --- life */

static bool cells_init(struct cells *cells, const struct reg *reg)
{
    *cells = (struct cells){.size = reg->size, .width = cell_width(reg->bits), .bits = reg->bits};
    cells->data = calloc(reg->size ? reg->size : 1, cells->width);
    return cells->data != NULL;
}

static bool allocate(struct externs *externs, const struct program *program)
{
    externs->counters = calloc(program->counter_count + 1u, sizeof *externs->counters);
    externs->registers = calloc(program->register_count + 1u, sizeof *externs->registers);
    if (externs->counters == NULL || externs->registers == NULL) return false;
    for (uint32_t i = 0; i < program->counter_count; i++) {
        const struct counter *counter = &program->counters[i];
        if (counter->direct) continue;
        externs->counters[i] = calloc(counter->size ? counter->size : 1, sizeof(struct count));
        if (externs->counters[i] == NULL) return false;
    }
    for (uint32_t i = 0; i < program->register_count; i++)
        if (!cells_init(&externs->registers[i], &program->registers[i])) return false;
    return true;
}

bool externs_init(struct externs *externs, const struct program *program, uint64_t seed)
{
    *externs = (struct externs){.program = program};
    crc_table_fill(&crc16_table);
    crc_table_fill(&crc32_table);
    crc_table_fill(&crc32c_table);
    for (int i = 0; i < 4; i++) externs->random[i] = splitmix64(&seed);
    if (allocate(externs, program)) return true;
    externs_free(externs);
    return false;
}

void externs_free(struct externs *externs)
{
    for (uint32_t i = 0; externs->counters != NULL && i < externs->program->counter_count; i++)
        free(externs->counters[i]);
    for (uint32_t i = 0; externs->registers != NULL && i < externs->program->register_count; i++)
        free(externs->registers[i].data);
    free(externs->counters);
    free(externs->registers);
    externs->counters = NULL;
    externs->registers = NULL;
}
