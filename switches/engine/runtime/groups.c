/* Multicast groups and clone sessions: few, set by the control plane, kept sorted by id. */
#include "switch.h"

#include <stdlib.h>
#include <string.h>

/* Where the id is, or would be. */
static uint32_t place(const struct groups *groups, uint32_t id)
{
    uint32_t low = 0, high = groups->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (groups->groups[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool is_at(const struct groups *groups, uint32_t at, uint32_t id)
{
    return at < groups->count && groups->groups[at].id == id;
}

const struct group *groups_find(const struct groups *groups, uint32_t id)
{
    uint32_t at = place(groups, id);
    return is_at(groups, at, id) ? &groups->groups[at] : NULL;
}

static void delete_at(struct groups *groups, uint32_t at)
{
    free(groups->groups[at].replicas);
    groups->count--;
    memmove(&groups->groups[at], &groups->groups[at + 1], (groups->count - at) * sizeof *groups->groups);
}

static bool insert_at(struct groups *groups, uint32_t at)
{
    struct group *grown = realloc(groups->groups, (groups->count + 1) * sizeof *grown);
    if (!grown) return false;
    groups->groups = grown;
    memmove(&grown[at + 1], &grown[at], (groups->count - at) * sizeof *grown);
    groups->count++;
    return true;
}

bool groups_set(struct groups *groups, uint32_t id, uint32_t truncate_to,
                const struct replica *replicas, uint32_t count)
{
    uint32_t at = place(groups, id);
    bool present = is_at(groups, at, id);
    if (count == 0) {
        if (present) delete_at(groups, at);
        return true;
    }
    struct replica *copy = malloc(count * sizeof *copy);
    if (!copy) return false;
    if (!present && !insert_at(groups, at)) {
        free(copy);
        return false;
    }
    if (present) free(groups->groups[at].replicas);
    memcpy(copy, replicas, count * sizeof *copy);
    groups->groups[at] = (struct group){ id, truncate_to, count, copy };
    return true;
}
