/* What a program keeps between packets: rows of tables, counters, registers, the random stream.
 *
 * `struct sw` (switch.h) has a `struct state` as its first member, so that generated code and
 * the table functions reach it without knowing the rest of the switch. */
#ifndef STATE_H
#define STATE_H

#include "externs.h"
#include "tables.h"

struct state {
    struct tables tables;
    struct externs externs;
};

static inline struct state *state_of(struct sw *sw) { return (struct state *)(void *)sw; }

/* The cells of a register array, for generated code that has checked the index. */
#define REGISTER_CELLS(type, sw, reg) ((type *)state_of(sw)->externs.registers[reg].data)

/* False when memory is short; then nothing is left allocated.  The const entries are put
 * in by PROGRAM.init, which the caller calls next. */
static inline bool state_init(struct state *state, const struct program *program, uint64_t seed)
{
    if (!tables_init(&state->tables, program)) return false;
    if (externs_init(&state->externs, program, seed)) return true;
    tables_free(&state->tables);
    return false;
}

static inline void state_free(struct state *state)
{
    tables_free(&state->tables);
    externs_free(&state->externs);
}

#endif
