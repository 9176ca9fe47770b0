#include "process.h"

#define SUB_BITS 4
#define SUB_BUCKETS (1u << SUB_BITS)

static uint32_t octave(uint64_t value) { return 63u - (uint32_t)__builtin_clzll(value); }

/* Values below 16 have a bucket each; above, the four bits after the first select it. */
static uint32_t bucket_of(uint64_t value)
{
    if (value < SUB_BUCKETS) return (uint32_t)value;
    uint32_t shift = octave(value) - SUB_BITS;
    return (shift + 1) * SUB_BUCKETS + (uint32_t)(value >> shift & (SUB_BUCKETS - 1));
}

static uint64_t last_of(uint32_t bucket)
{
    if (bucket < SUB_BUCKETS) return bucket;
    uint32_t shift = bucket / SUB_BUCKETS - 1;
    return ((uint64_t)(SUB_BUCKETS + bucket % SUB_BUCKETS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t late_ns)
{
    histogram->count++;
    if (late_ns > histogram->max_ns) histogram->max_ns = late_ns;
    histogram->buckets[bucket_of(late_ns)]++;
}

uint64_t histogram_quantile(const struct histogram *histogram, uint32_t per_mille)
{
    uint64_t wanted = histogram->count * per_mille / 1000, seen = 0;
    for (uint32_t i = 0; i < sizeof histogram->buckets / sizeof *histogram->buckets; i++) {
        seen += histogram->buckets[i];
        if (seen <= wanted) continue;
        uint64_t bound = last_of(i);
        return bound < histogram->max_ns ? bound : histogram->max_ns;
    }
    return histogram->max_ns;
}
