/* What generated code does with a packet as a whole: walk over its bytes, cut it. */
#ifndef FRAME_H
#define FRAME_H

#include "pipeline.h"

#define PARSER_END UINT32_MAX       /* the state after the last */

/* Where the parser is: the bytes ahead of it, and the error that ended it. */
struct cursor { const uint8_t *at; uint32_t left, error; };

static inline uint32_t parse_error(struct cursor *c, uint32_t error)
{
    c->error = error;
    return PARSER_END;
}

static inline void parse_advance(struct cursor *c, uint32_t bytes)
{
    c->at += bytes;
    c->left -= bytes;
}

static inline uint32_t truncated_length(const struct packet *p, uint32_t length)
{
    if (p->truncate_to == 0 || p->truncate_to >= length) return length;
    return p->truncate_to;
}

/* Of several cuts the shortest counts.  A cut to nothing leaves a frame that no port can send. */
static inline void truncate_packet(struct packet *p, uint32_t length)
{
    if (length == 0) p->dropped = true;
    else if (p->truncate_to == 0 || length < p->truncate_to) p->truncate_to = length;
}

#endif
