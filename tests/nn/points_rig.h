/* Ranks that share a model, as threads with points over plain memory, for tests. */
#ifndef TESS_TESTS_NN_POINTS_RIG_H
#define TESS_TESTS_NN_POINTS_RIG_H

#include <pthread.h>

#include "nn/fixture.h"

enum { MAX_RANKS = 8 };

/* Faults between ranks; the bits must reveal them. */
typedef enum fault {
    NO_FAULT,
    STALE_GATHER,  /* rank 1 misses what others give in one exchange */
    ROTATED_ORDER, /* sums over feed-forward channels start at the second rank's: the same addends in another order */
} fault;

typedef struct team {
    int degree;
    pthread_barrier_t barrier;
    const tess_exchange *at[MAX_RANKS];
    fault fault;
    int64_t mlp;     /* feed-forward channels */
    int64_t n_stale; /* the exchange that STALE_GATHER hits */
} team;

typedef struct points_rank {
    team *team;
    tess_points points;
    int64_t n_exchanges;
} points_rank;

/* The place of the holder's `begin` in a rotated order of the same pieces. */
static inline int64_t rotated(const team *t, tess_cut cut, int rank)
{
    int64_t at = 0, begin, size;
    for (int i = 1; i <= t->degree; i++) {
        if (i % t->degree == rank)
            return at;
        tess_cut_range(cut, t->degree, i % t->degree, &begin, &size);
        at += size;
    }
    return at;
}

/* The part of what rank `from` holds that `rank` wants. */
static inline void copy_part(const team *t, const tess_exchange *x, int rank, int from)
{
    const tess_exchange *other = t->at[from];
    int64_t first[2], last[2], held[2], wanted[2], shift[2] = {0, 0};
    for (int d = 0; d < 2; d++) {
        int64_t size, end;
        tess_cut_range(x->held[d], t->degree, from, &held[d], &size);
        if (t->fault == ROTATED_ORDER && x->held[d].unit > 0 && x->held[d].size == t->mlp)
            shift[d] = rotated(t, x->held[d], from) - held[d];
        end = held[d] + size;
        tess_cut_range(x->wanted[d], t->degree, rank, &wanted[d], &size);
        first[d] = held[d] > wanted[d] ? held[d] : wanted[d];
        last[d] = end < wanted[d] + size ? end : wanted[d] + size;
    }
    for (int64_t i = first[0]; i < last[0] && first[1] < last[1]; i++) {
        const char *source = other->mine;
        char *target = x->into;
        int64_t to = (i + shift[0] - wanted[0]) * x->into_ld + first[1] + shift[1] - wanted[1];
        memcpy(target + to * (int64_t)x->element,
               source + ((i - held[0]) * other->ld + first[1] - held[1]) * (int64_t)x->element,
               (size_t)(last[1] - first[1]) * x->element);
    }
}

static inline tess_status exchange(void *self, const tess_exchange *x)
{
    points_rank *me = self;
    team *t = me->team;
    t->at[me->points.rank] = x;
    pthread_barrier_wait(&t->barrier);
    bool stale = t->fault == STALE_GATHER && me->points.rank == 1 && me->n_exchanges == t->n_stale;
    for (int from = 0; from < t->degree; from++) {
        EXPECT(memcmp(x->held, t->at[from]->held, sizeof(x->held)) == 0 && x->element == t->at[from]->element);
        if (!stale || from == 1)
            copy_part(t, x, me->points.rank, from);
    }
    me->n_exchanges++;
    pthread_barrier_wait(&t->barrier);
    return TESS_OK;
}

static inline size_t count_of(const tess_param *param)
{
    return (size_t)tess_shape_count(&param->shape);
}

/* This rank's part of the whole parameter, element by element. */
static inline void take_slice(const tess_points *points, const tess_param *param, const float *whole, float *mine)
{
    const tess_param_slice *s = &param->slice;
    int64_t inner = 1, begin, size; /* elements after the cut dimension */
    for (int d = s->dim + 1; d < s->whole.n_dims; d++)
        inner *= s->whole.dim[d];
    tess_cut_range((tess_cut){s->whole.dim[s->dim], s->unit}, points->degree, points->rank, &begin, &size);
    EXPECT_INT(param->shape.dim[s->dim], size);
    for (int64_t i = 0; i < (int64_t)count_of(param); i++) {
        const int64_t outer = i / (size * inner);
        mine[i] = whole[(outer * s->whole.dim[s->dim] + begin) * inner + i % (size * inner)];
    }
}

/* Gives a part of the model its weights of the whole. */
static inline void give_weights(const tess_points *points, rig *mine, const rig *whole)
{
    for (int i = 0; i < mine->n_params; i++) {
        const tess_param *param = tess_model_param(mine->model, i);
        const int of = tess_model_find_param(whole->model, param->name);
        EXPECT_SAME(&param->slice.whole, &tess_model_param(whole->model, of)->shape, 1);
        take_slice(points, param, whole->w32[of], mine->w32[i]);
    }
    rig_refresh(mine);
}

#endif
