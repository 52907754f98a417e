/* The sending side of weight transfers, on trainers: units are gathered in forward order and sent in buckets. */
#include <string.h>

#include "rl/sync/weight_sync_impl.h"
#include "tessera/comm.h"

struct tess_weight_sender {
    tess_engine *engine;
    tess_weight_sync sync;
    weight_layout layout;
    int n_mine, *mine; /* ranks of `all` that this one serves */
    char *buckets[WEIGHT_SYNC_SLOTS];
    tess_work **works[WEIGHT_SYNC_SLOTS]; /* (n_mine) sends of the slot's bucket; NULL: it has arrived */
    int64_t open;                         /* the bucket that is being filled */
    int64_t n_sent;                       /* transfers */
    const void **w;                       /* parameters of the current unit */
    uint64_t *digests;                    /* (n_units) */
    char *seen;                           /* host copy of a unit on a device; NULL: units are on the host */
};

/* ---- Buckets ---- */
static tess_status wait_for_slot(tess_weight_sender *s, int slot)
{
    for (int i = 0; i < s->n_mine; i++)
        if (s->works[slot][i] != NULL)
            TESS_TRY(tess_work_wait(&s->works[slot][i], 0));
    return TESS_OK;
}

/* Sends the open bucket, and opens the next one when its slot is free. */
static tess_status send_open(tess_weight_sender *s)
{
    const int slot = (int)(s->open % WEIGHT_SYNC_SLOTS);
    const size_t size = weight_layout_bucket_size(&s->layout, s->open);
    for (int i = 0; i < s->n_mine; i++)
        TESS_TRY(
            tess_send(s->sync.all, s->buckets[slot], size, TESS_U8, s->mine[i], WEIGHT_SYNC_TAG, &s->works[slot][i]));
    s->open++;
    return wait_for_slot(s, (int)(s->open % WEIGHT_SYNC_SLOTS));
}

/* Appends bytes of the copy from `at` on; bytes between parameters are undefined. */
static tess_status put(tess_weight_sender *s, size_t at, const char *bytes, size_t size)
{
    const size_t room = s->layout.bucket_bytes;
    for (size_t done = 0; done < size;) {
        const size_t from = (at + done) % room, n = size - done < room - from ? size - done : room - from;
        while (s->open < (int64_t)((at + done) / room))
            TESS_TRY(send_open(s));
        memcpy(s->buckets[s->open % WEIGHT_SYNC_SLOTS] + from, bytes + done, n);
        done += n;
    }
    return TESS_OK;
}

/* ---- Units ---- */
/* Returns the unit's parameters in memory that the host may read. */
static tess_status see_unit(tess_weight_sender *s, int unit, int first, int n)
{
    const tess_compute *c = &s->engine->compute;
    for (int i = 0; i < n; i++)
        s->w[i] = tess_block_unit_param(&s->engine->units[unit], i);
    if (!c->resident)
        return TESS_OK;
    char *to = s->seen;
    for (int i = 0; i < n; i++) {
        TESS_TRY(tess_fetch(c->stream, to, s->w[i], s->layout.size[first + i]));
        s->w[i] = to;
        to += s->layout.size[first + i];
    }
    return TESS_OK;
}

static tess_status put_unit(tess_weight_sender *s, int unit, bool frozen)
{
    int first, n;
    const tess_model *model = s->engine->model;
    tess_model_unit_params(model, unit, &first, &n);
    TESS_TRY(see_unit(s, unit, first, n));
    if (!frozen)
        s->digests[unit] = weight_layout_digest(&s->layout, unit, s->w);
    for (int i = 0; i < n; i++)
        if (tess_param_is_constant(tess_model_param(model, first + i)) == frozen)
            TESS_TRY(put(s, s->layout.at[first + i], s->w[i], s->layout.size[first + i]));
    return TESS_OK;
}

/* Sends the frozen parameters, or the others. */
static tess_status put_all(tess_weight_sender *s, bool frozen)
{
    for (int unit = 0; unit < tess_model_n_units(s->engine->model); unit++) {
        TESS_TRY(tess_block_pre_forward(&s->engine->units[unit]));
        if (s->n_mine > 0)
            TESS_TRY(put_unit(s, unit, frozen));
        TESS_TRY(tess_block_post_forward(&s->engine->units[unit]));
    }
    return TESS_OK;
}

/* Sends the open bucket, and the digests after it. */
static tess_status send_rest(tess_weight_sender *s)
{
    const size_t n_units = (size_t)tess_model_n_units(s->engine->model);
    while (s->n_mine > 0 && s->open < s->layout.n_buckets)
        TESS_TRY(send_open(s));
    for (int slot = 0; slot < WEIGHT_SYNC_SLOTS; slot++)
        TESS_TRY(wait_for_slot(s, slot));
    for (int i = 0; i < s->n_mine; i++)
        TESS_TRY(tess_send(s->sync.all, s->digests, n_units, TESS_I64, s->mine[i], WEIGHT_SYNC_TAG, &s->works[0][i]));
    return wait_for_slot(s, 0);
}

tess_status tess_weights_send(tess_weight_sender *s, int64_t *bytes)
{
    s->open = weight_layout_first_bucket(&s->layout, s->n_sent++);
    *bytes = (int64_t)(s->layout.bytes - (size_t)s->open * s->layout.bucket_bytes) * s->n_mine;
    if (s->open < s->layout.n_frozen)
        TESS_TRY_CTX(put_all(s, true), "send weights");
    TESS_TRY_CTX(put_all(s, false), "send weights");
    TESS_TRY_CTX(send_rest(s), "send weights");
    return TESS_OK;
}

/* ---- Making ---- */
static tess_status list_mine(tess_weight_sender *s)
{
    const int n = tess_team_size(s->sync.all) - s->sync.n_trainers, me = tess_team_rank(s->sync.all);
    TESS_TRY(TESS_PART(s, n, "receivers of weights", &s->mine));
    for (int i = 0; i < n; i++)
        if (tess_weight_sync_source(&s->sync, i) == me)
            s->mine[s->n_mine++] = s->sync.n_trainers + i;
    return TESS_OK;
}

/* Allocates the host copy of the largest unit. */
static tess_status make_seen(tess_weight_sender *s)
{
    size_t most = 0;
    if (s->n_mine == 0 || !s->engine->compute.resident)
        return TESS_OK;
    for (int unit = 0; unit < tess_model_n_units(s->engine->model); unit++) {
        int first, n;
        size_t bytes = 0;
        tess_model_unit_params(s->engine->model, unit, &first, &n);
        for (int i = first; i < first + n; i++)
            bytes += s->layout.size[i];
        most = bytes > most ? bytes : most;
    }
    return tess_scope_alloc(tess_scope_of(s), TESS_POOL_COMM, most, 1, "a unit's weights", (void **)&s->seen);
}

static tess_status make(tess_weight_sender *s)
{
    const tess_model *model = s->engine->model;
    TESS_TRY(weight_layout_create(tess_scope_of(s), model, tess_fsdp_param_dtype(s->engine->fsdp), s->sync.bucket_bytes,
                                  &s->layout));
    TESS_TRY(list_mine(s));
    TESS_TRY(TESS_PART(s, tess_model_n_params(model), "weights", &s->w));
    TESS_TRY(TESS_PART(s, tess_model_n_units(model), "digests of weights", &s->digests));
    for (int slot = 0; slot < WEIGHT_SYNC_SLOTS && s->n_mine > 0; slot++) {
        TESS_TRY(tess_scope_alloc(tess_scope_of(s), TESS_POOL_COMM, s->layout.bucket_bytes, 1, "bucket of weights",
                                  (void **)&s->buckets[slot]));
        TESS_TRY(TESS_PART(s, s->n_mine, "bucket of weights", &s->works[slot]));
    }
    return make_seen(s);
}

tess_status tess_weight_sender_create(tess_engine *engine, const tess_weight_sync *sync, tess_weight_sender **out)
{
    TESS_AUTO(tess_weight_sender_destroy) tess_weight_sender *s = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(engine->mem, 1, "sender of weights", &s));
    *s = (tess_weight_sender){.engine = engine, .sync = *sync};
    TESS_TRY(make(s));
    *out = TESS_GIVE(s);
    return TESS_OK;
}

void tess_weight_sender_destroy(tess_weight_sender **handle)
{
    tess_weight_sender *s = *handle;
    if (s == NULL)
        return;
    for (int slot = 0; slot < WEIGHT_SYNC_SLOTS; slot++)
        for (int i = 0; s->works[slot] != NULL && i < s->n_mine; i++)
            tess_work_cancel(&s->works[slot][i]);
    tess_mem_drop(handle);
}
