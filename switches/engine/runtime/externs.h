/* The control side of counters and registers, and the random stream of a switch. */
#ifndef EXTERNS_H
#define EXTERNS_H

#include "pipeline.h"

struct count { uint64_t packets, bytes; };
struct cells { void *data; uint32_t size; uint8_t width; uint16_t bits; };  /* width: bytes of a cell */

struct externs {
    const struct program *program;
    struct count **counters;     /* by counter number; NULL for a direct one, see table_find */
    struct cells *registers;     /* by register number */
    uint64_t random[4];          /* xoshiro256** */
};

/* False when memory is short; then nothing is left allocated. */
bool externs_init(struct externs *externs, const struct program *program, uint64_t seed);
void externs_free(struct externs *externs);

/* False where number or index is out of bounds; then nothing is read or written. */
bool counter_get(const struct externs *externs, uint32_t counter, uint32_t index, struct count *value);
bool counter_set(struct externs *externs, uint32_t counter, uint32_t index, struct count value);
bool register_get(const struct externs *externs, uint32_t reg, uint32_t index, u128 *value);
bool register_set(struct externs *externs, uint32_t reg, uint32_t index, u128 value);

#endif
