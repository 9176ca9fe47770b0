/* The shared library: one switch behind calls that a foreign function interface makes cheaply.
 *
 * Every call that takes `now_ns` leaves in the engine's `view` what a driver asks next, so that it
 * reads memory instead of calling again:
 *     next_ns  when to call engine_handle_timeout (UINT64_MAX: never)
 *     ready    0: no frame is waiting for the wire; 1: the one below is; 2: more behind it
 *     port, length, bytes   the first of them, if ready; good until the next engine_taken
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <stdint.h>

struct view {
    uint64_t next_ns;
    const uint8_t *bytes;
    uint32_t ready;
    uint32_t port;
    uint32_t length;
    uint32_t reserved;
};
struct engine;

/* NULL when memory is short or port_count is 0 or above 511.  Free with engine_destroy. */
struct engine *engine_create(uint32_t port_count, uint64_t seed);
void engine_destroy(struct engine *engine);
const struct view *engine_view(const struct engine *engine);

void engine_receive(struct engine *engine, uint32_t port, const uint8_t *bytes, uint32_t length, uint64_t now_ns);
void engine_handle_timeout(struct engine *engine, uint64_t now_ns);
void engine_port_changed(struct engine *engine, uint32_t port, uint32_t up, uint64_t now_ns);
/* The first frame of the view has been taken (counted as sent): show the next. */
void engine_taken(struct engine *engine, uint64_t now_ns);

/* One control message (control.h); gives the length of the reply, at most `capacity`. */
uint32_t engine_control(struct engine *engine, const uint8_t *request, uint32_t length,
                        uint8_t *reply, uint32_t capacity, uint64_t now_ns);

#endif
