/* The host's copies of weights and moments in device memory. The host reads and writes these copies (first weights,
 * checkpoints, exports, checks), and they outlive the process.
 *
 * If named memory outlives the process (base/mem/named.h), there are two generations: one for even steps and one for
 * odd steps. One generation is copied during the next step's forward and backward, while the other stays complete. The
 * device's next update waits for this copy; the host waits only when it reads. Otherwise there is one generation, which
 * is copied when the host asks for it. Finished gradients are copied only for the checks that read them. */
#include <stdio.h>

#include "base/mem/named.h"
#include "device/device.h"
#include "parallel/fsdp/fsdp_impl.h"

enum { GENERATIONS = 2 };

/* A block of device memory, and its copies on the host. */
typedef struct mirrored {
    tess_pool pool;
    void *device;
    size_t bytes;
    void *copy[GENERATIONS];
    bool pinned[GENERATIONS]; /* number of generations that outlive the process and are pinned */
} mirrored;

struct tess_fsdp_mirror {
    tess_stream *stream; /* copies to the host run at the same time as fsdp's stream */
    tess_event *changed; /* marks the moment from which device memory may be copied */
    tess_event *copied;
    mirrored *blocks; /* (n_units + 1) master weights of each unit, then the optimizer's state */
    int n_generations, now;
    bool fresh;     /* generation `now` equals the device's memory, or will after its copy: */
    bool under_way; /* the copy */
    tess_optimizer *optimizer;
};

/* ---- Memory ---- */
static bool outlives(const tess_fsdp *fsdp)
{
    return tess_mem_has_store(fsdp->place.mem) && !fsdp->place.is_private;
}

tess_status tess_fsdp_mirror_open(tess_fsdp *fsdp)
{
    tess_fsdp_mirror *m;
    TESS_TRY(tess_mem_alloc(fsdp->place.mem, TESS_POOL_MISC, sizeof(*m), "copies on the host", (void **)&m));
    *m = (tess_fsdp_mirror){.n_generations = outlives(fsdp) ? GENERATIONS : 1, .fresh = true};
    fsdp->mirror = m;
    TESS_TRY(tess_mem_alloc_array(fsdp->place.mem, TESS_POOL_MISC, (size_t)fsdp->n_units + 1, sizeof(*m->blocks),
                                  "copies on the host", (void **)&m->blocks));
    for (int i = 0; i <= fsdp->n_units; i++)
        m->blocks[i] = (mirrored){.device = NULL};
    TESS_TRY(tess_device_stream(fsdp->place.device, 1, NULL, &m->stream));
    TESS_TRY(tess_event_create(fsdp->place.device, &m->changed));
    return tess_event_create(fsdp->place.device, &m->copied);
}

static void free_block(const tess_fsdp *fsdp, const mirrored *b)
{
    for (int g = 0; g < fsdp->mirror->n_generations; g++)
        if (!outlives(fsdp)) {
            tess_device_free_pinned(fsdp->place.device, b->copy[g]);
        } else if (b->copy[g] != NULL) {
            if (b->pinned[g])
                tess_device_unpin(fsdp->place.device, b->copy[g]);
            tess_mem_free_named(fsdp->place.mem, b->pool, b->bytes, b->copy[g]);
        }
}

void tess_fsdp_mirror_close(tess_fsdp *fsdp)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    if (m == NULL)
        return;
    tess_stream_destroy(&m->stream); /* first, because it may still copy */
    for (int i = 0; m->blocks != NULL && i <= fsdp->n_units; i++)
        free_block(fsdp, &m->blocks[i]);
    for (int u = 0; u < fsdp->n_units; u++)
        tess_device_free_pinned(fsdp->place.device, fsdp->units[u]->gradient_copy);
    tess_event_destroy(&m->changed);
    tess_event_destroy(&m->copied);
    tess_mem_free(fsdp->place.mem, m->blocks);
    tess_mem_free(fsdp->place.mem, m);
    fsdp->mirror = NULL;
}

static tess_status alloc_generation(const tess_fsdp *fsdp, mirrored *b, int g, const char *what, bool *found)
{
    char name[128];
    *found = false;
    if (!outlives(fsdp))
        return tess_device_alloc_pinned(fsdp->place.device, b->pool, b->bytes, what, &b->copy[g]);
    snprintf(name, sizeof(name), "%s, copy %d", what, g);
    TESS_TRY(tess_mem_alloc_named(fsdp->place.mem, b->pool, name, b->bytes, &b->copy[g], found));
    b->pinned[g] = tess_device_pin(fsdp->place.device, b->copy[g], b->bytes) == TESS_OK;
    if (!b->pinned[g])
        tess_error_clear(); /* memory cannot be pinned, e.g. because of a limit: copies are slower, and the step waits
                             */
    return TESS_OK;
}

/* *found: an earlier process has left it. */
static tess_status add_block(const tess_fsdp *fsdp, int index, const mirrored *block, const char *what, bool *found)
{
    mirrored *b = &fsdp->mirror->blocks[index];
    *b = *block;
    *found = true;
    for (int g = 0; g < fsdp->mirror->n_generations; g++) {
        bool here;
        TESS_TRY(alloc_generation(fsdp, b, g, what, &here));
        *found = *found && here;
    }
    return TESS_OK;
}

tess_status tess_fsdp_mirror_unit(const tess_unit *unit, bool *found)
{
    char what[112];
    const mirrored block = {
        TESS_POOL_PARAMS, unit->master, unit->layout.master_elements * sizeof(float), {NULL}, {false}};
    snprintf(what, sizeof(what), "weights of %s", unit->name);
    return add_block(unit->fsdp, unit->index, &block, what, found);
}

tess_status tess_fsdp_mirror_optimizer(tess_fsdp *fsdp, tess_optimizer *optimizer)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    bool found;
    mirrored block = {.pool = TESS_POOL_OPTIMIZER};
    if (m == NULL)
        return TESS_OK;
    block.device = tess_optimizer_memory(optimizer, &block.bytes);
    TESS_TRY(add_block(fsdp, fsdp->n_units, &block, "moments", &found));
    m->optimizer = optimizer;
    tess_optimizer_show(optimizer, m->blocks[fsdp->n_units].copy[m->now]);
    return TESS_OK;
}

float *tess_fsdp_mirror_master(const tess_unit *unit)
{
    const tess_fsdp_mirror *m = unit->fsdp->mirror;
    return m->blocks[unit->index].copy[m->now];
}

/* ---- Copies ---- */
static void turn_to(tess_fsdp *fsdp, int generation)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    m->now = generation;
    if (m->optimizer != NULL)
        tess_optimizer_show(m->optimizer, m->blocks[fsdp->n_units].copy[generation]);
}

/* Starts the copy to generation `now`. */
static tess_status begin_copy(tess_fsdp *fsdp)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    TESS_TRY(tess_event_record(m->changed, fsdp->place.stream));
    TESS_TRY(tess_event_wait(m->changed, m->stream));
    for (int i = 0; i <= fsdp->n_units; i++)
        TESS_TRY(tess_stream_copy(m->stream, m->blocks[i].copy[m->now], m->blocks[i].device, m->blocks[i].bytes));
    TESS_TRY(tess_event_record(m->copied, m->stream));
    m->under_way = m->fresh = true;
    return TESS_OK;
}

tess_status tess_fsdp_kept(tess_fsdp *fsdp)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    if (m == NULL || !m->under_way)
        return TESS_OK;
    TESS_TRY_CTX(tess_event_synchronize(m->copied), "copy weights and moments to the host");
    m->under_way = false;
    return TESS_OK;
}

tess_status tess_fsdp_mirror_refresh(tess_fsdp *fsdp)
{
    if (fsdp->mirror == NULL)
        return TESS_OK;
    if (!fsdp->mirror->fresh)
        TESS_TRY(begin_copy(fsdp));
    return tess_fsdp_kept(fsdp);
}

tess_status tess_fsdp_mirror_outdate(tess_fsdp *fsdp)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    if (m == NULL)
        return TESS_OK;
    m->fresh = false;
    return tess_event_wait(m->copied, fsdp->place.stream);
}

tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step)
{
    tess_fsdp_mirror *m = fsdp->mirror;
    if (m == NULL || m->n_generations == 1)
        return TESS_OK;
    TESS_TRY(tess_fsdp_kept(fsdp));
    turn_to(fsdp, (int)(step % GENERATIONS));
    return begin_copy(fsdp);
}

/* A caller that changes the copies has read them first, and reading refreshes them. So stale copies were never
 * changed. */
tess_status tess_fsdp_upload(tess_fsdp *fsdp)
{
    const tess_fsdp_mirror *m = fsdp->mirror;
    if (m == NULL || !m->fresh)
        return TESS_OK;
    TESS_TRY(tess_fsdp_kept(fsdp));
    for (int i = 0; i <= fsdp->n_units; i++)
        TESS_TRY(
            tess_stream_copy(fsdp->place.stream, m->blocks[i].device, m->blocks[i].copy[m->now], m->blocks[i].bytes));
    return tess_stream_synchronize(fsdp->place.stream);
}

tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step)
{
    TESS_CHECK(fsdp->mirror != NULL && fsdp->mirror->n_generations > 1, TESS_E_INVALID,
               "fsdp: weights and moments are taken up where they are kept, from shards on a device");
    turn_to(fsdp, (int)(step % GENERATIONS));
    fsdp->mirror->fresh = true;
    TESS_TRY_CTX(tess_fsdp_upload(fsdp), "weights and moments of step %lld", (long long)step);
    tess_fsdp_slots_stale(fsdp);
    return TESS_OK;
}

/* ---- Gradients ---- */
static float *gradient_of(const tess_unit *unit, size_t *bytes)
{
    *bytes = unit->layout.gradient_elements * sizeof(float);
    return tess_fsdp_gathers_gradient(unit->family) ? unit->gradient : unit->total;
}

tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp)
{
    size_t bytes;
    if (fsdp->mirror == NULL || !fsdp->gradients_ready || fsdp->gradients_seen)
        return TESS_OK;
    for (int u = 0; u < fsdp->n_units; u++) {
        tess_unit *unit = fsdp->units[u];
        const float *gradient = gradient_of(unit, &bytes);
        if (gradient == NULL)
            continue;
        if (unit->gradient_copy == NULL)
            TESS_TRY(tess_device_alloc_pinned(fsdp->place.device, TESS_POOL_GRADS, bytes, "gradients for a check",
                                              (void **)&unit->gradient_copy));
        TESS_TRY(tess_stream_copy(fsdp->place.stream, unit->gradient_copy, gradient, bytes));
    }
    TESS_TRY(tess_stream_synchronize(fsdp->place.stream));
    fsdp->gradients_seen = true;
    return TESS_OK;
}

tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp)
{
    size_t bytes;
    for (int u = 0; u < fsdp->n_units && fsdp->gradients_seen; u++) {
        float *gradient = gradient_of(fsdp->units[u], &bytes);
        if (gradient != NULL)
            TESS_TRY(tess_stream_copy(fsdp->place.stream, gradient, fsdp->units[u]->gradient_copy, bytes));
    }
    return fsdp->gradients_seen ? tess_stream_synchronize(fsdp->place.stream) : TESS_OK;
}
