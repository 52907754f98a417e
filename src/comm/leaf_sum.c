#include "comm/leaf_sum.h"

#include "comm/reduce.h"

enum { BLOCK = 4096 }; /* elements processed at a time, so that a step finds in the cache what the step before wrote */

float *tess_leaf_unused(const tess_leaf_counter *c)
{
    for (int i = 0; i < c->n_memory; i++) {
        bool used = false;
        for (int k = 0; k < TESS_LEAF_LEVELS; k++)
            used = used || c->level[k] == c->memory[i];
        if (!used)
            return c->memory[i];
    }
    return NULL;
}

/* Adds a sum of 2^k leaves, stored in y, to the counter. */
static void carry(tess_leaf_counter *c, int k, float *y, tess_leaf_step *steps, int *n_steps)
{
    c->n += (int64_t)1 << k;
    for (; c->level[k] != NULL; k++) {
        steps[(*n_steps)++] = (tess_leaf_step){.x = y, .y = c->level[k], .accumulate = true};
        y = c->level[k];
        c->level[k] = NULL;
    }
    c->level[k] = y;
}

static int run_at(int64_t position, int64_t left)
{
    int k = 0;
    while ((position >> k & 1) == 0 && (int64_t)2 << k <= left)
        k++;
    return k;
}

void tess_leaf_push(tess_leaf_counter *c, int n, tess_leaf_step *steps, int *n_steps)
{
    for (int begin = 0; begin < n;) {
        int k = run_at(c->n, n - begin), level = k;
        float *y = c->level[k];
        bool accumulate = y != NULL; /* the first carry is part of the sum over the leaves */
        if (accumulate) {
            c->level[level++] = NULL;
            c->n -= (int64_t)1 << k;
        } else {
            y = tess_leaf_unused(c);
        }
        steps[(*n_steps)++] = (tess_leaf_step){.begin = begin, .n = 1 << k, .y = y, .accumulate = accumulate};
        carry(c, level, y, steps, n_steps);
        begin += 1 << k;
    }
}

void tess_leaf_place(tess_leaf_counter *c, float *y, tess_leaf_step *steps, int *n_steps)
{
    carry(c, 0, y, steps, n_steps);
}

float *tess_leaf_total(tess_leaf_counter *c, tess_leaf_step *steps, int *n_steps)
{
    float *total = NULL;
    for (int k = 0; k < TESS_LEAF_LEVELS; k++) {
        if (c->level[k] == NULL)
            continue;
        if (total != NULL)
            steps[(*n_steps)++] = (tess_leaf_step){.x = total, .y = c->level[k], .accumulate = true};
        total = c->level[k];
        c->level[k] = NULL;
    }
    c->n = 0;
    return total;
}

int tess_leaf_memory(int64_t n, int portion, bool placed)
{
    int most = 0;
    for (int64_t position = 0; position < n;) {
        int64_t end = position - position % portion + portion;
        int k = run_at(position, (end < n ? end : n) - position);
        int alive = __builtin_popcountll((uint64_t)position) + (placed || (position >> k & 1) == 0);
        most = alive > most ? alive : most;
        position += (int64_t)1 << k;
    }
    return most;
}

static tess_status run_step(tess_stream *stream, const tess_leaf_step *step, const void *const *rows, tess_dtype dtype,
                            size_t at, size_t n, bool streams, bool *finite)
{
    if (step->n > 0)
        return tess_reduce_tree_f32(stream, rows + step->begin, step->n, dtype, step->y + at, n, step->accumulate,
                                    streams, finite);
    const void *x = step->x + at;
    return tess_reduce_tree_f32(stream, &x, 1, TESS_F32, step->y + at, n, step->accumulate, false, NULL);
}

tess_status tess_leaf_run(tess_stream *stream, const tess_leaf_step *steps, int n_steps, const void *const *rows,
                          const void **moved, int n_rows, tess_dtype dtype, size_t at, size_t n, bool streams,
                          bool *finite)
{
    if (n_steps == 1)
        return run_step(stream, steps, rows, dtype, at, n, streams, finite);
    for (size_t i = 0; i < n; i += BLOCK) {
        for (int r = 0; r < n_rows; r++)
            moved[r] = (const uint8_t *)rows[r] + i * tess_dtype_size(dtype);
        for (int s = 0; s < n_steps; s++)
            TESS_TRY(run_step(stream, &steps[s], moved, dtype, at + i, n - i < BLOCK ? n - i : BLOCK, false, finite));
    }
    return TESS_OK;
}
