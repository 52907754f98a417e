/* Copies a unit's parameters to the device and its gradients back, through a few places. A place is device memory
 * for the parameters, or the gradients, of one unit at a time. Units of equal size share two places: one unit
 * computes while the next is copied. */
#include "nn/staging.h"

#include <stdio.h>

#include "base/core/round_up.h"
#include "base/mem/scoped.h"
#include "device/device.h"

typedef struct tess_stage_place {
    struct tess_stage_place *next;
    char *data;
    size_t bytes;
    int unit;   /* the unit whose values the place holds; -1: none yet */
    int n_held; /* number of open hooks that use these values */
    uint64_t released;
    tess_event *copied, *used;
} tess_stage_place;

/* A range of host memory that copies have used, and whether it is pinned. */
typedef struct staging_range {
    struct staging_range *next;
    char *begin, *end;
    bool pinned; /* false: the system refused to pin it */
} staging_range;

struct tess_staging {
    tess_stream *stream, *up, *down;
    const tess_model *model;
    tess_hooks inner;
    tess_staging_options options;
    tess_stage_place *params, *grads;
    tess_stage_place **at, **grad_at; /* (n_units) the place of each unit that a hook holds; else NULL */
    const void **w;                   /* (n_params) parameters on the device */
    float **dw;
    const void *const **host_w; /* (n_units) parameters from the inner hooks */
    float *const **host_dw;
    uint64_t n_released;
    staging_range *ranges;
    tess_staging_pins pins;
};

static size_t aligned(size_t bytes)
{
    return tess_round_up(bytes, 256);
}

static size_t param_bytes(const tess_staging *s, int param, tess_dtype dtype)
{
    return (size_t)tess_shape_count(&tess_model_param(s->model, param)->shape) * tess_dtype_size(dtype);
}

static size_t unit_bytes(const tess_staging *s, int unit, tess_dtype dtype)
{
    int first, n;
    size_t bytes = 0;
    tess_model_unit_params(s->model, unit, &first, &n);
    for (int i = first; i < first + n; i++)
        bytes += aligned(param_bytes(s, i, dtype));
    return bytes;
}

/* ---- Pinned memory of the host ---- */
/* Blocks of at least this size are on pages of their own (tessera/memory.h). */
enum { LEAST_PINNED = 4 << 20, PAGE = 4096 };

static void count_pinned(tess_staging *s, const staging_range *r, int sign)
{
    size_t *bytes = r->pinned ? &s->pins.pinned_bytes : &s->pins.refused_bytes;
    *bytes += (size_t)(sign * (r->end - r->begin));
}

/* Pins a range. A refusal is no error: copies work without pinning, only more slowly. */
static void pin_range(tess_staging *s, staging_range *r)
{
    r->pinned = tess_device_pin(tess_stream_device(s->stream), r->begin, (size_t)(r->end - r->begin)) == TESS_OK;
    if (!r->pinned && s->pins.refusal[0] == '\0')
        snprintf(s->pins.refusal, sizeof(s->pins.refusal), "%s", tess_error_message());
    if (!r->pinned)
        tess_error_clear();
    count_pinned(s, r, 1);
}

static void unpin_range(tess_staging *s, const staging_range *r)
{
    if (r->pinned)
        tess_device_unpin(tess_stream_device(s->stream), r->begin);
    count_pinned(s, r, -1);
}

/* Pins the range from `begin` to `end` at its first use. Units of similar size reuse one buffer, so a range may have
 * to grow: then it is pinned again. */
static tess_status meet_range(tess_staging *s, char *begin, char *end)
{
    staging_range *r = s->ranges;
    if ((uintptr_t)begin % PAGE != 0 || end - begin < LEAST_PINNED)
        return TESS_OK;
    while (r != NULL && r->begin != begin)
        r = r->next;
    if (r == NULL) {
        TESS_TRY(TESS_NEW(tess_stream_mem(s->stream), 1, "staging", &r));
        *r = (staging_range){.next = s->ranges, .begin = begin, .end = begin};
        s->ranges = r;
    }
    if (end <= r->end)
        return TESS_OK;
    unpin_range(s, r);
    r->end = end;
    pin_range(s, r);
    return TESS_OK;
}

/* Pins the memory of a unit's n tensors (NULL entries are skipped), if they are contiguous, with gaps of less than a
 * page. */
static tess_status pin_tensors(tess_staging *s, const void *const *tensors, int first, int n, tess_dtype dtype)
{
    const char *begin = NULL, *end = NULL;
    for (int i = 0; i < n; i++) {
        const char *at = tensors[i];
        if (at == NULL)
            continue;
        if (begin == NULL)
            begin = end = at;
        if (at < end || at - end >= PAGE)
            return TESS_OK;
        end = at + param_bytes(s, first + i, dtype);
    }
    return begin != NULL ? meet_range(s, (char *)(uintptr_t)begin, (char *)(uintptr_t)end) : TESS_OK;
}

/* Unpins and frees all ranges. */
static void unpin_all(tess_staging *s)
{
    while (s->ranges != NULL) {
        staging_range *r = s->ranges;
        s->ranges = r->next;
        unpin_range(s, r);
        tess_mem_free(tess_stream_mem(s->stream), r);
    }
}

const tess_staging_pins *tess_staging_pinned(const tess_staging *s)
{
    return &s->pins;
}

/* ---- Places ---- */
static tess_status create_place(tess_staging *s, tess_stage_place **list, size_t bytes, tess_stage_place **out)
{
    tess_device *device = tess_stream_device(s->stream);
    tess_stage_place *p;
    tess_pool pool = list == &s->params ? TESS_POOL_PARAMS : TESS_POOL_GRADS;
    TESS_TRY(TESS_NEW(tess_stream_mem(s->stream), 1, "place", &p));
    *p = (tess_stage_place){.next = *list, .bytes = bytes, .unit = -1};
    *list = p; /* the list now owns the place and destroys it */
    TESS_TRY(tess_event_create(device, &p->copied));
    TESS_TRY(tess_event_create(device, &p->used));
    TESS_TRY(tess_device_alloc(device, pool, bytes, list == &s->params ? "a unit's parameters" : "a unit's gradients",
                               (void **)&p->data));
    *out = p;
    return TESS_OK;
}

static void destroy_places(tess_staging *s, tess_stage_place *list)
{
    while (list != NULL) {
        tess_stage_place *p = list;
        list = p->next;
        tess_device_free(tess_stream_device(s->stream), p->data);
        tess_event_destroy(&p->copied);
        tess_event_destroy(&p->used);
        tess_mem_free(tess_stream_mem(s->stream), p);
    }
}

/* How many places the units of this size share. */
static int place_limit(const tess_staging *s, size_t bytes, tess_dtype dtype)
{
    int n = 0;
    for (int unit = 0; unit < tess_model_n_units(s->model); unit++)
        n += unit_bytes(s, unit, dtype) == bytes;
    return n < 2 || s->options.constant ? n : 2;
}

/* Bytes of all places for parameters, or gradients: for each size as many places as its units share. */
static size_t places_bytes(const tess_staging *s, tess_dtype dtype)
{
    size_t sum = 0;
    for (int unit = 0; unit < tess_model_n_units(s->model); unit++) {
        size_t bytes = unit_bytes(s, unit, dtype);
        int n_before = 0;
        for (int other = 0; other < unit; other++)
            n_before += unit_bytes(s, other, dtype) == bytes;
        sum += n_before < place_limit(s, bytes, dtype) ? bytes : 0;
    }
    return sum;
}

size_t tess_staging_bytes(const tess_model *model, const tess_staging_options *options)
{
    const tess_staging s = {.model = model, .options = *options};
    return places_bytes(&s, options->dtype) + (options->constant ? 0 : places_bytes(&s, TESS_F32));
}

/* Returns the place that already holds the unit's values, if there is one. Otherwise creates a place, or, if the
 * limit is reached, returns the free place of this size that was released first. */
static tess_status take_place(tess_staging *s, tess_stage_place **list, int unit, tess_dtype dtype,
                              tess_stage_place **out)
{
    size_t bytes = unit_bytes(s, unit, dtype);
    tess_stage_place *oldest = NULL;
    int n = 0;
    for (tess_stage_place *p = *list; p != NULL; p = p->next) {
        if (p->bytes != bytes)
            continue;
        n++;
        if (p->n_held > 0)
            continue;
        if (p->unit == unit) {
            *out = p;
            return TESS_OK;
        }
        if (oldest == NULL || p->released < oldest->released)
            oldest = p;
    }
    *out = oldest;
    return oldest != NULL && n >= place_limit(s, bytes, dtype) ? TESS_OK : create_place(s, list, bytes, out);
}

/* ---- Parameters ---- */
static tess_status upload(tess_staging *s, tess_stage_place *place, int unit, const void *const *host)
{
    int first, n;
    char *at = place->data;
    tess_model_unit_params(s->model, unit, &first, &n);
    tess_model_name_unit(s->model, unit, s->up);
    if (s->options.pins_params)
        TESS_TRY(pin_tensors(s, host, first, n, s->options.dtype));
    TESS_TRY(tess_event_wait(place->used, s->up));
    for (int i = 0; i < n; i++) {
        size_t bytes = param_bytes(s, first + i, s->options.dtype);
        TESS_TRY(tess_stream_copy(s->up, at, host[i], bytes));
        at += aligned(bytes);
    }
    TESS_TRY(tess_event_record(place->copied, s->up));
    return tess_event_wait(place->copied, s->stream);
}

/* Puts the unit's parameters on the device and keeps them there until let_go(). */
static tess_status hold(tess_staging *s, int unit, const void *const **w)
{
    int first, n;
    tess_stage_place *place = s->at[unit];
    tess_model_unit_params(s->model, unit, &first, &n);
    if (place == NULL) {
        TESS_TRY(take_place(s, &s->params, unit, s->options.dtype, &place));
        if (!s->options.constant || place->unit != unit)
            TESS_TRY(upload(s, place, unit, s->host_w[unit]));
        place->unit = unit;
        s->at[unit] = place;
        char *at = place->data;
        for (int i = first; i < first + n; i++) {
            s->w[i] = at;
            at += aligned(param_bytes(s, i, s->options.dtype));
        }
    }
    place->n_held++;
    *w = s->w + first;
    return TESS_OK;
}

/* Releases the unit's place. When it returns, the copy no longer reads the host's parameters. */
static tess_status let_go(tess_staging *s, int unit)
{
    tess_stage_place *place = s->at[unit];
    TESS_TRY(tess_event_synchronize(place->copied));
    if (--place->n_held > 0)
        return TESS_OK;
    s->at[unit] = NULL;
    place->released = ++s->n_released;
    return tess_event_record(place->used, s->stream);
}

/* ---- Gradients ---- */
static tess_status hold_gradients(tess_staging *s, int unit, float *const **dw)
{
    int first, n;
    tess_stage_place *place;
    tess_model_unit_params(s->model, unit, &first, &n);
    TESS_TRY(take_place(s, &s->grads, unit, TESS_F32, &place));
    place->unit = unit;
    place->n_held = 1;
    s->grad_at[unit] = place;
    char *at = place->data;
    for (int i = 0; i < n; i++) {
        s->dw[first + i] = s->host_dw[unit][i] != NULL ? (void *)at : NULL;
        at += aligned(param_bytes(s, first + i, TESS_F32));
    }
    *dw = s->dw + first;
    return TESS_OK;
}

/* Copies the unit's gradients to the host. The copy is complete when it returns. */
static tess_status download_gradients(tess_staging *s, int unit)
{
    int first, n;
    tess_stage_place *place = s->grad_at[unit];
    tess_model_unit_params(s->model, unit, &first, &n);
    tess_model_name_unit(s->model, unit, s->down);
    if (s->options.pins_grads)
        TESS_TRY(pin_tensors(s, (const void *const *)s->host_dw[unit], first, n, TESS_F32));
    TESS_TRY(tess_event_record(place->used, s->stream));
    TESS_TRY(tess_event_wait(place->used, s->down));
    for (int i = 0; i < n; i++)
        if (s->dw[first + i] != NULL)
            TESS_TRY(
                tess_stream_copy(s->down, s->host_dw[unit][i], s->dw[first + i], param_bytes(s, first + i, TESS_F32)));
    TESS_TRY(tess_event_record(place->copied, s->down));
    TESS_TRY(tess_stream_synchronize(s->down));
    place->n_held = 0;
    place->released = ++s->n_released;
    s->grad_at[unit] = NULL;
    return TESS_OK;
}

/* ---- Hooks ---- */
static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    tess_staging *s = self;
    TESS_TRY(s->inner.pre_forward(s->inner.self, unit, &s->host_w[unit]));
    return hold(s, unit, w);
}

static tess_status post_forward(void *self, int unit)
{
    tess_staging *s = self;
    TESS_TRY(let_go(s, unit));
    return s->inner.post_forward(s->inner.self, unit);
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    tess_staging *s = self;
    TESS_TRY(s->inner.pre_backward(s->inner.self, unit, &s->host_w[unit], &s->host_dw[unit]));
    TESS_TRY(hold(s, unit, w));
    return hold_gradients(s, unit, dw);
}

static tess_status post_backward(void *self, int unit)
{
    tess_staging *s = self;
    TESS_TRY(let_go(s, unit));
    TESS_TRY(download_gradients(s, unit));
    return s->inner.post_backward(s->inner.self, unit);
}

tess_hooks tess_staging_hooks(tess_staging *s)
{
    return (tess_hooks){s, pre_forward, post_forward, pre_backward, post_backward};
}

/* ---- Creation ---- */
static tess_status build(tess_staging *s)
{
    tess_mem *mem = tess_stream_mem(s->stream);
    tess_device *device = tess_stream_device(s->stream);
    size_t n_units = (size_t)tess_model_n_units(s->model), n_params = (size_t)tess_model_n_params(s->model);
    const struct {
        void *pointer;
        size_t n;
    } arrays[] = {{&s->at, n_units},  {&s->grad_at, n_units}, {&s->w, n_params},
                  {&s->dw, n_params}, {&s->host_w, n_units},  {&s->host_dw, n_units}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, arrays[i].n, sizeof(void *), "staging", arrays[i].pointer));
    TESS_TRY(tess_device_stream(device, 1, NULL, &s->up));
    TESS_TRY(tess_device_stream(device, 1, NULL, &s->down));
    tess_stream_set_name(s->up, "upload");
    tess_stream_set_name(s->down, "download");
    return TESS_OK;
}

tess_status tess_staging_create(tess_stream *stream, const tess_model *model, const tess_hooks *inner,
                                const tess_staging_options *options, tess_staging **out)
{
    TESS_AUTO(tess_staging_destroy) tess_staging *s = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(tess_stream_mem(stream), 1, "staging", &s));
    *s = (tess_staging){.stream = stream, .model = model, .inner = *inner, .options = *options};
    TESS_TRY(build(s));
    *out = TESS_GIVE(s);
    return TESS_OK;
}

void tess_staging_destroy(tess_staging **handle)
{
    tess_staging *s = *handle;
    if (s == NULL)
        return;
    destroy_places(s, s->params);
    destroy_places(s, s->grads);
    unpin_all(s);
    if (s->up != NULL)
        tess_stream_destroy(&s->up);
    if (s->down != NULL)
        tess_stream_destroy(&s->down);
    void *const arrays[] = {s->at, s->grad_at, s->w, s->dw, s->host_w, s->host_dw};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        tess_mem_free(tess_stream_mem(s->stream), arrays[i]);
    tess_mem_free(tess_stream_mem(s->stream), s);
    *handle = NULL;
}
