/* Tile products as a stream that advances one step at a time between the vector instructions of a softmax, so that the
 * core executes both at once. A step is four TDPBF16PS of 16 cycles each, during which the vector units are free.
 *
 * The sums of a product are in tiles 0..3. Each tile is stored when the next product begins: a store must wait for the
 * last TDPBF16PS on its tile (52 cycles), which has ended by then. So products of two steps take 21 cycles per
 * instruction; they would take 30 if they stored their own sums. The last sums are in memory only after
 * products_finish. */
#ifndef TESS_DEVICE_CPU_ATTENTION_PRODUCTS_AMX_H
#define TESS_DEVICE_CPU_ATTENTION_PRODUCTS_AMX_H

#include "device/cpu/attention_tiles_amx.h"

/* c (2 x 2 tiles, the two of a row adjacent) = [c +] the sum over steps, in ascending order, of a (2 A tiles) by b (2 B
 * tiles). */
typedef struct product {
    const uint16_t *a, *b;                  /* first tile of the first step */
    int64_t a_pair, a_step, b_pair, b_step; /* offsets in elements: to the second tile, and to the next step */
    int64_t n_steps;                        /* one or more */
    float *c;
    int64_t c_row; /* offset in floats to the second row of tiles */
    bool add;      /* whether to add to the values in c */
} product;

typedef struct product_stream {
    const product *at, *end;
    int64_t step;                   /* next step of *at */
    int64_t n_steps, calls, credit; /* products_advance distributes n_steps over `calls` calls */
    float *c;                       /* place in memory of the sums in the tiles; `nowhere` if they are stored */
    int64_t c_row;
    float *nowhere; /* memory for four tiles */
} product_stream;

static inline product_stream products_none(float *nowhere)
{
    return (product_stream){.calls = 1, .c = nowhere, .nowhere = nowhere};
}

/* Begins a list of products, which is done after `calls` calls of products_advance. */
static inline void products_begin(product_stream *s, const product *list, int64_t n, int64_t calls)
{
    tess_tiles_fence();
    s->at = list;
    s->end = list + n;
    s->step = s->n_steps = s->credit = 0;
    s->calls = calls;
    for (int64_t i = 0; i < n; i++)
        s->n_steps += list[i].n_steps;
}

/* Runs the first step of a product, while the sums of the previous product are stored. */
static inline void product_begin(const product *p, float *old, int64_t old_row)
{
    static const float zeros[2 * TILE_FLOATS] __attribute__((aligned(64)));
    const float *c = p->add ? p->c : zeros;
    const int64_t row = p->add ? p->c_row : 0;
    _tile_loadd(4, p->a, 64);
    _tile_loadd(6, p->b, 64);
    _tile_stored(0, old, 64);
    _tile_loadd(0, c, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, p->b + p->b_pair, 64);
    _tile_stored(1, old + TILE_FLOATS, 64);
    _tile_loadd(1, c + TILE_FLOATS, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, p->a + p->a_pair, 64);
    _tile_stored(2, old + old_row, 64);
    _tile_loadd(2, c + row, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_stored(3, old + old_row + TILE_FLOATS, 64);
    _tile_loadd(3, c + row + TILE_FLOATS, 64);
    _tile_dpbf16ps(3, 5, 7);
}

static inline void products_step(product_stream *s)
{
    const product *p = s->at;
    if (s->step == 0) {
        product_begin(p, s->c, s->c_row);
        s->c = p->c;
        s->c_row = p->c_row;
    } else {
        const uint16_t *a = p->a + s->step * p->a_step, *b = p->b + s->step * p->b_step;
        sums_add(a, a + p->a_pair, 64, b, b + p->b_pair);
    }
    if (++s->step == p->n_steps) {
        s->step = 0;
        s->at++;
    }
}

static inline void products_advance(product_stream *s)
{
    for (s->credit += s->n_steps; s->credit >= s->calls; s->credit -= s->calls)
        products_step(s);
}

/* Runs the remaining products of the list, and stores all sums. */
static inline void products_finish(product_stream *s)
{
    while (s->at < s->end)
        products_step(s);
    sums_store(s->c, s->c + TILE_FLOATS, s->c + s->c_row, s->c + s->c_row + TILE_FLOATS);
    s->c = s->nowhere;
    s->c_row = 2 * TILE_FLOATS;
    tess_tiles_fence();
}

#endif
