#include "nn/staging.h"

#include "base/core/round_up.h"
#include "base/mem/scoped.h"

struct tess_staging {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks inner;
    tess_staging_options options;
    tess_home *home;
    tess_home_span *params, *grads;     /* (n_units) */
    tess_home_part *w_parts, *dw_parts; /* (n_params) */
    int *n_open;                        /* (n_units) open hooks that use the parameters */
    const void **w;                     /* (n_params) parameters on the device */
    float **dw;
};

/* ---- Bytes ---- */
static size_t param_bytes(const tess_model *model, int param, tess_dtype dtype)
{
    const tess_param *p = tess_model_param(model, param);
    return (size_t)tess_shape_count(&p->shape) * tess_dtype_size(tess_param_dtype(p, dtype));
}

static size_t unit_bytes(const tess_model *model, int unit, tess_dtype dtype)
{
    int first, n;
    size_t bytes = 0;
    tess_model_unit_params(model, unit, &first, &n);
    for (int i = first; i < first + n; i++)
        bytes += tess_round_up(param_bytes(model, i, dtype), TESS_HOME_ALIGN);
    return bytes;
}

/* How many of the first n units are as large as `unit`. */
static int n_alike(const tess_model *model, int unit, int n, tess_dtype dtype)
{
    int alike = 0;
    for (int other = 0; other < n; other++)
        alike += unit_bytes(model, other, dtype) == unit_bytes(model, unit, dtype);
    return alike;
}

/* How many places the units of this one's size share. */
static int place_limit(const tess_model *model, int unit, tess_dtype dtype, bool constant)
{
    const int n = n_alike(model, unit, tess_model_n_units(model), dtype);
    return n < 2 || constant ? n : 2;
}

static size_t places_bytes(const tess_model *model, tess_dtype dtype, bool constant)
{
    size_t sum = 0;
    for (int unit = 0; unit < tess_model_n_units(model); unit++)
        if (n_alike(model, unit, unit, dtype) < place_limit(model, unit, dtype, constant))
            sum += unit_bytes(model, unit, dtype);
    return sum;
}

size_t tess_staging_bytes(const tess_model *model, const tess_staging_options *o)
{
    return places_bytes(model, o->dtype, o->constant) + (o->constant ? 0 : places_bytes(model, TESS_F32, false));
}

/* ---- Hooks ---- */
/* Brings the unit's parameters, which the inner hooks have lent. */
static tess_status hold(tess_staging *s, int unit, const void *const *host, const void *const **w)
{
    int first, n;
    tess_home_span *span = &s->params[unit];
    tess_model_unit_params(s->model, unit, &first, &n);
    *w = s->w + first;
    if (s->n_open[unit]++ > 0)
        return TESS_OK;
    tess_model_name_unit(s->model, unit, tess_home_stream(s->home, false));
    for (int i = 0; i < n; i++)
        span->parts[i].at = (void *)(uintptr_t)host[i];
    TESS_TRY(tess_home_wait(s->home, span));
    for (int i = 0; i < n; i++)
        s->w[first + i] = span->parts[i].here;
    return TESS_OK;
}

static tess_status release(tess_staging *s, int unit)
{
    TESS_TRY(tess_home_settle(s->home, &s->params[unit]));
    if (--s->n_open[unit] == 0)
        tess_home_let_go(s->home, &s->params[unit]);
    return TESS_OK;
}

static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    tess_staging *s = self;
    const void *const *host;
    TESS_TRY(s->inner.pre_forward(s->inner.self, unit, &host));
    return hold(s, unit, host, w);
}

static tess_status post_forward(void *self, int unit)
{
    tess_staging *s = self;
    TESS_TRY(release(s, unit));
    return s->inner.post_forward(s->inner.self, unit);
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    int first, n;
    tess_staging *s = self;
    const void *const *host;
    float *const *host_dw;
    tess_home_span *span = &s->grads[unit];
    TESS_TRY(s->inner.pre_backward(s->inner.self, unit, &host, &host_dw));
    TESS_TRY(hold(s, unit, host, w));
    tess_model_unit_params(s->model, unit, &first, &n);
    for (int i = 0; i < n; i++)
        span->parts[i].at = host_dw[i];
    TESS_TRY(tess_home_wait(s->home, span));
    for (int i = 0; i < n; i++)
        s->dw[first + i] = span->parts[i].here;
    *dw = s->dw + first;
    return TESS_OK;
}

static tess_status post_backward(void *self, int unit)
{
    tess_staging *s = self;
    TESS_TRY(release(s, unit));
    tess_model_name_unit(s->model, unit, tess_home_stream(s->home, true));
    tess_home_let_go(s->home, &s->grads[unit]);
    TESS_TRY(tess_home_settle(s->home, &s->grads[unit]));
    return s->inner.post_backward(s->inner.self, unit);
}

tess_hooks tess_staging_hooks(tess_staging *s)
{
    return (tess_hooks){s, pre_forward, post_forward, pre_backward, post_backward};
}

const tess_staging_pins *tess_staging_pinned(const tess_staging *s)
{
    return tess_home_pinned(s->home);
}

/* ---- Creation ---- */
static void describe_unit(tess_staging *s, int unit)
{
    int first, n;
    const tess_staging_options *o = &s->options;
    tess_model_unit_params(s->model, unit, &first, &n);
    s->params[unit] = (tess_home_span){.parts = s->w_parts + first,
                                       .n_parts = n,
                                       .n_places = place_limit(s->model, unit, o->dtype, o->constant),
                                       .constant = o->constant,
                                       .pins = o->pins_params};
    s->grads[unit] = (tess_home_span){.parts = s->dw_parts + first,
                                      .n_parts = n,
                                      .n_places = place_limit(s->model, unit, TESS_F32, false),
                                      .pins = o->pins_grads};
    for (int i = first; i < first + n; i++) {
        s->w_parts[i] = (tess_home_part){.bytes = param_bytes(s->model, i, o->dtype), .pool = TESS_POOL_PARAMS};
        s->dw_parts[i] = (tess_home_part){
            .bytes = param_bytes(s->model, i, TESS_F32), .pool = TESS_POOL_GRADS, .use = TESS_PAGE_OVERWRITE};
    }
}

static tess_status build(tess_staging *s)
{
    const size_t n_units = (size_t)tess_model_n_units(s->model), n_params = (size_t)tess_model_n_params(s->model);
    const tess_home_options home = {.mem = tess_stream_mem(s->stream),
                                    .stream = s->stream,
                                    .away = 1u << TESS_POOL_PARAMS | 1u << TESS_POOL_GRADS,
                                    .is_private = true};
    const struct {
        void *pointer;
        size_t n, size;
    } arrays[] = {{&s->params, n_units, sizeof(*s->params)},
                  {&s->grads, n_units, sizeof(*s->grads)},
                  {&s->w_parts, n_params, sizeof(*s->w_parts)},
                  {&s->dw_parts, n_params, sizeof(*s->dw_parts)},
                  {&s->n_open, n_units, sizeof(*s->n_open)},
                  {&s->w, n_params, sizeof(*s->w)},
                  {&s->dw, n_params, sizeof(*s->dw)}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        TESS_TRY(tess_scope_alloc(tess_scope_of(s), TESS_POOL_MISC, arrays[i].n, arrays[i].size, "staging",
                                  arrays[i].pointer));
    for (int unit = 0; unit < (int)n_units; unit++)
        describe_unit(s, unit);
    return tess_home_create(&home, &s->home);
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
    tess_home_destroy(&s->home);
    tess_mem_drop(handle);
}
