/* Big-endian numbers in a frame, and the few operators of P4 that C leaves undefined. */
#ifndef BYTES_H
#define BYTES_H

#include <string.h>

#include "pipeline.h"

#define U128(high, low) ((u128)UINT64_C(high) << 64 | UINT64_C(low))

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BE16(value) __builtin_bswap16(value)
#define BE32(value) __builtin_bswap32(value)
#define BE64(value) __builtin_bswap64(value)
#else
#define BE16(value) (value)
#define BE32(value) (value)
#define BE64(value) (value)
#endif

static inline uint8_t load8(const uint8_t *d) { return d[0]; }

static inline uint16_t load16(const uint8_t *d)
{
    uint16_t value;
    memcpy(&value, d, sizeof value);
    return BE16(value);
}

static inline uint32_t load32(const uint8_t *d)
{
    uint32_t value;
    memcpy(&value, d, sizeof value);
    return BE32(value);
}

static inline uint64_t load64(const uint8_t *d)
{
    uint64_t value;
    memcpy(&value, d, sizeof value);
    return BE64(value);
}

static inline uint32_t load24(const uint8_t *d) { return (uint32_t)load16(d) << 8 | d[2]; }
static inline uint64_t load40(const uint8_t *d) { return (uint64_t)load32(d) << 8 | d[4]; }
static inline uint64_t load48(const uint8_t *d) { return (uint64_t)load32(d) << 16 | load16(d + 4); }
static inline uint64_t load56(const uint8_t *d) { return (uint64_t)load32(d) << 24 | load24(d + 4); }
static inline u128 load128(const uint8_t *d) { return (u128)load64(d) << 64 | load64(d + 8); }

/* `count` bytes, at most 16. */
static inline u128 load_bytes(const uint8_t *d, unsigned count)
{
    u128 value = 0;
    for (unsigned i = 0; i < count; i++) value = value << 8 | d[i];
    return value;
}

static inline void store8(uint8_t *d, uint64_t value) { d[0] = (uint8_t)value; }

static inline void store16(uint8_t *d, uint64_t value)
{
    uint16_t swapped = BE16((uint16_t)value);
    memcpy(d, &swapped, sizeof swapped);
}

static inline void store32(uint8_t *d, uint64_t value)
{
    uint32_t swapped = BE32((uint32_t)value);
    memcpy(d, &swapped, sizeof swapped);
}

static inline void store64(uint8_t *d, uint64_t value)
{
    uint64_t swapped = BE64(value);
    memcpy(d, &swapped, sizeof swapped);
}

static inline void store24(uint8_t *d, uint64_t value) { store16(d, value >> 8); store8(d + 2, value); }
static inline void store40(uint8_t *d, uint64_t value) { store32(d, value >> 8); store8(d + 4, value); }
static inline void store48(uint8_t *d, uint64_t value) { store32(d, value >> 16); store16(d + 4, value); }
static inline void store56(uint8_t *d, uint64_t value) { store32(d, value >> 24); store24(d + 4, value); }

static inline void store128(uint8_t *d, u128 value)
{
    store64(d, (uint64_t)(value >> 64));
    store64(d + 8, (uint64_t)value);
}

/* `count` bytes, at most 16. */
static inline void store_bytes(uint8_t *d, unsigned count, u128 value)
{
    for (unsigned i = count; i-- > 0; value >>= 8) d[i] = (uint8_t)value;
}

/* Shifts by any count, as P4 defines them. */
static inline uint32_t shift_left32(uint32_t value, uint64_t by) { return by < 32 ? value << by : 0; }
static inline uint64_t shift_left64(uint64_t value, uint64_t by) { return by < 64 ? value << by : 0; }
static inline u128 shift_left128(u128 value, uint64_t by) { return by < 128 ? value << by : 0; }
static inline uint32_t shift_right32(uint32_t value, uint64_t by) { return by < 32 ? value >> by : 0; }
static inline uint64_t shift_right64(uint64_t value, uint64_t by) { return by < 64 ? value >> by : 0; }
static inline u128 shift_right128(u128 value, uint64_t by) { return by < 128 ? value >> by : 0; }
static inline int64_t shift_right_signed64(int64_t value, uint64_t by) { return value >> (by < 63 ? by : 63); }
static inline i128 shift_right_signed128(i128 value, uint64_t by) { return value >> (by < 127 ? by : 127); }

/* The two's complement number in the low `bits` of a word. */
static inline int64_t sign64(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static inline i128 sign128(u128 value, unsigned bits)
{
    return (i128)(value << (128 - bits)) >> (128 - bits);
}

/* An index into a header stack; anything outside picks the spare header behind the last. */
static inline uint64_t stack_index(uint64_t index, uint64_t size) { return index < size ? index : size; }

/* Appends bits to a buffer that starts zeroed. */
static inline void put_bits(uint8_t *buffer, uint32_t *at, u128 value, unsigned bits)
{
    for (unsigned i = bits; i-- > 0; ++*at)
        buffer[*at / 8] |= (uint8_t)((value >> i & 1) << (7 - *at % 8));
}

#endif
