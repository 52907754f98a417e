/* Creates an optimizer with its state, and runs the parts of a step in order. The update of a span is in adamw.c,
 * optim_blocks.c and muon.c. */
#include <math.h>

#include "optim/optim_home.h"
#include "optim/optim_impl.h"
#include "base/core/abi.h"
#include "base/mem/scoped.h"

/* ---- Options ---- */
static tess_status check_part(const char *name, double value, bool below_one)
{
    if (below_one)
        TESS_CHECK(value >= 0 && value < 1, TESS_E_INVALID, "optimizer: %s is %g; it must be in [0, 1)", name, value);
    TESS_CHECK(value >= 0 && isfinite(value), TESS_E_INVALID, "optimizer: %s is %g; it must not be negative", name,
               value);
    return TESS_OK;
}

static tess_status check_options(const tess_optimizer_options *o)
{
    TESS_CHECK((int)o->kind >= TESS_ADAMW && o->kind <= TESS_ADAMW_8BIT, TESS_E_INVALID,
               "optimizer: kind %d is none of tess_optimizer_kind", (int)o->kind);
    TESS_CHECK(o->state_dtype == TESS_F32 || o->state_dtype == TESS_BF16, TESS_E_INVALID,
               "optimizer: state_dtype %s; it must be float32 or bfloat16", tess_dtype_name(o->state_dtype));
    TESS_TRY(check_part("beta1", (double)o->beta1, true));
    TESS_TRY(check_part("beta2", (double)o->beta2, true));
    TESS_TRY(check_part("momentum", (double)o->momentum, true));
    TESS_TRY(check_part("eps", (double)o->eps, false));
    return check_part("weight_decay", (double)o->weight_decay, false);
}

/* ---- Memory ---- */
/* Allocates state, journals and work space. A device has no journal: its memory is lost with the process, and the
 * host's copy has the state before the update. */
static tess_status alloc_all(tess_optimizer *o, const tess_span *spans, bool shares)
{
    optim_layout layout;
    bool found;
    const bool on_host = tess_home_device(o->home) == NULL, journals = on_host && !tess_home_is_private(o->home);
    TESS_TRY(TESS_PART(o, o->n_spans, "optimizer spans", &o->params));
    TESS_TRY(optim_layout_of(spans, o->n_spans, &o->options, o->exchange.n_ranks, o->params, &layout));
    if (journals)
        TESS_TRY(optim_journal_open(
            o->mem, (layout.has_row ? OPTIM_RECORD_ROWS : 0) | (layout.has_blocks ? OPTIM_RECORD_BLOCKS : 0),
            &o->journal));
    TESS_TRY(tess_home_alloc(o->home, TESS_POOL_OPTIMIZER, shares, layout.state_bytes,
                             on_host ? "optimizer state" : "moments", &o->block, &found));
    o->state = o->block->at;
    if (!layout.has_muon)
        return TESS_OK;
    return tess_scope_alloc(tess_scope_of(o), TESS_POOL_OPTIMIZER, layout.work_elements, sizeof(float), "muon",
                            (void **)&o->work);
}

tess_status tess_optimizer_check_device(const tess_optimizer_options *options)
{
    TESS_CHECK(options->kind == TESS_ADAMW && options->state_dtype == TESS_F32, TESS_E_UNSUPPORTED,
               "a GPU updates weights by AdamW with moments in float32: set optimizer.name=adamw "
               "optimizer.state_dtype=float32, or job.shards=host, where the host updates them");
    return TESS_OK;
}

/* home NULL: the optimizer has one of its own. */
static tess_status open_home(tess_optimizer *o, const tess_optimizer_place *place, tess_home *home)
{
    if (home == NULL)
        return tess_home_create(
            &(tess_home_options){.mem = o->mem, .stream = place->stream, .is_private = place->is_private}, &o->home);
    o->home = tess_home_share(home);
    return TESS_OK;
}

tess_status tess_optimizer_create_home(tess_home *home, tess_mem *mem, const tess_span *spans, int n_spans,
                                       const tess_optimizer_options *options, const tess_optimizer_place *place,
                                       tess_optimizer **out)
{
    *out = NULL;
    TESS_TRY(TESS_CHECK_SIZE(tess_optimizer_options, options));
    TESS_TRY(check_options(options));
    if (place->stream != NULL && !tess_device_get_properties(tess_stream_device(place->stream))->host_memory)
        TESS_TRY(tess_optimizer_check_device(options));
    TESS_AUTO(tess_optimizer_destroy) tess_optimizer *o = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "optimizer", &o));
    *o = (tess_optimizer){.mem = mem,
                          .stream = place->stream,
                          .owner = place->owner,
                          .exchange = place->exchange,
                          .options = *options,
                          .n_spans = n_spans};
    for (int k = 0; k < OPTIM_MOMENTS; k++)
        tess_code_map_fill(k == 0, &o->maps[k]);
    TESS_TRY_CTX(open_home(o, place, home), "optimizer");
    TESS_TRY_CTX(alloc_all(o, spans, home != NULL), "optimizer");
    *out = TESS_GIVE(o);
    return TESS_OK;
}

tess_status tess_optimizer_create_at(tess_mem *mem, const tess_span *spans, int n_spans,
                                     const tess_optimizer_options *options, const tess_optimizer_place *place,
                                     tess_optimizer **out)
{
    return tess_optimizer_create_home(NULL, mem, spans, n_spans, options, place, out);
}

tess_status tess_optimizer_create(tess_mem *mem, const tess_span *spans, int n_spans,
                                  const tess_optimizer_options *options, tess_optimizer **out)
{
    return tess_optimizer_create_at(mem, spans, n_spans, options, &(tess_optimizer_place){.exchange = {.n_ranks = 1}},
                                    out);
}

void tess_optimizer_destroy(tess_optimizer **handle)
{
    tess_optimizer *o = *handle;
    if (o == NULL)
        return;
    tess_stream_destroy(&o->own_stream);
    optim_journal_close(o->mem, &o->journal);
    tess_home_free(o->home, o->block);
    tess_home_destroy(&o->home);
    tess_mem_drop(handle);
}

/* ---- Settings ---- */
tess_status tess_optimizer_set_threads(tess_optimizer *o, int n_threads)
{
    tess_stream *stream;
    TESS_TRY_CTX(tess_stream_create(o->mem, n_threads, NULL, &stream), "optimizer");
    tess_stream_destroy(&o->own_stream);
    o->stream = o->own_stream = stream;
    return TESS_OK;
}

void tess_optimizer_set_observer(tess_optimizer *o, tess_optimizer_observer observer, void *self)
{
    o->observer = observer;
    o->observer_self = self;
}

const void *tess_optimizer_owner(const tess_optimizer *o)
{
    return o->owner;
}

bool tess_optimizer_meets(const tess_optimizer *o)
{
    return o->work != NULL && o->exchange.n_ranks > 1;
}

/* ---- A step ---- */
static tess_status update_span(optim_update *u, const tess_span *span, const optim_param *param)
{
    if (param->rule == OPTIM_FROZEN || param->rule == OPTIM_MUON)
        return TESS_OK;
    if (param->rule == OPTIM_ADAMW_ROW)
        return optim_adamw_span(u, span, param);
    optim_pass pass = {.u = u,
                       .span = span,
                       .param = param,
                       .changes_weights = true,
                       .changes_moments = true,
                       .update = optim_rule_update,
                       .first = param->first};
    return optim_blocks_run(&pass);
}

/* Updates all spans that do not need whole matrices. */
static tess_status update_spans(optim_update *u, const tess_span *spans)
{
    const tess_optimizer *o = u->optimizer;
    if (optim_is_away(o))
        return optim_update_away(u, spans);
    for (int i = 0; i < o->n_spans; i++)
        if (o->params[i].rule != OPTIM_FROZEN && o->params[i].rule != OPTIM_MUON)
            optim_bring(u, spans, i, OPTIM_ALL);
    for (int i = 0; i < o->n_spans; i++) {
        if (o->params[i].rule == OPTIM_FROZEN || o->params[i].rule == OPTIM_MUON)
            continue;
        TESS_TRY(optim_wait(u, spans, i, OPTIM_ALL));
        TESS_TRY_CTX(update_span(u, &spans[i], &o->params[i]), "optimizer: '%s'", spans[i].name);
        optim_let_go(u, spans, i, OPTIM_ALL);
    }
    return TESS_OK;
}

static optim_update begin_step(tess_optimizer *optimizer, int64_t step, float lr, float grad_scale)
{
    const tess_optimizer_options *o = &optimizer->options;
    int n_threads = tess_threads_count(tess_stream_threads(optimizer->stream));
    /* The factors come from the float betas that the kernel uses, so that the first step is lr * sign(g) as exactly as
     * floats allow. */
    optim_update u = {.optimizer = optimizer,
                      .step = step,
                      .lr = lr,
                      .call = {.lr = lr,
                               .beta1 = o->beta1,
                               .beta2 = o->beta2,
                               .eps = o->eps,
                               .grad_scale = grad_scale,
                               .bias1 = (float)(1 - pow((double)o->beta1, (double)step)),
                               .bias2 = (float)(1 - pow((double)o->beta2, (double)step))}};
    tess_adamw_update call = u.call;
    u.decay[0] = adamw_step_of(&call).decay;
    call.weight_decay = o->weight_decay;
    u.decay[1] = adamw_step_of(&call).decay;
    if (optimizer->journal != NULL)
        u.n_lanes = optim_journal_begin(optimizer->journal, step, n_threads);
    return u;
}

tess_status tess_optimizer_step(tess_optimizer *o, const tess_span *spans, int64_t step, float lr, float grad_scale)
{
    TESS_CHECK(step >= 1, TESS_E_INVALID, "optimizer: step %lld; the first is 1", (long long)step);
    if (o->stream == NULL)
        TESS_TRY(tess_optimizer_set_threads(o, 1));
    optim_update u = begin_step(o, step, lr, grad_scale);
    TESS_TRY(update_spans(&u, spans));
    if (o->work != NULL)
        TESS_TRY(optim_muon(&u, spans));
    if (o->journal != NULL)
        optim_journal_end(o->journal);
    return TESS_OK;
}

/* ---- State ---- */
/* Returns the state as the host sees it. */
static char *shown_of(const tess_optimizer *o)
{
    char *copy = tess_home_copy_of(o->home, o->block);
    return copy != NULL ? copy : o->state;
}

static int list_states(const optim_param *p, char *state, tess_optimizer_state *states)
{
    static const char *const moments[] = {"exp_avg", "exp_avg_sq"},
                             *const codes[] = {"exp_avg_8bit", "exp_avg_sq_8bit"},
                             *const most[] = {"exp_avg_absmax", "exp_avg_sq_absmax"};
    static const tess_dtype dtypes[] = {[OPTIM_F32] = TESS_F32, [OPTIM_BF16] = TESS_BF16, [OPTIM_8BIT] = TESS_U8};
    int n = 0;
    for (int k = 0; k < p->n_moments; k++) {
        const char *name = p->rule == OPTIM_SGD || p->rule == OPTIM_MUON ? "momentum_buffer" : moments[k];
        bool coded = p->coding == OPTIM_8BIT;
        states[n++] = (tess_optimizer_state){coded ? codes[k] : name, dtypes[p->coding], 1, state + p->values[k]};
        if (coded)
            states[n++] = (tess_optimizer_state){most[k], TESS_F32, OPTIM_BLOCK, state + p->absmax[k]};
    }
    return n;
}

int tess_optimizer_states(const tess_optimizer *o, int index, tess_optimizer_state *states)
{
    return o != NULL && index >= 0 && index < o->n_spans ? list_states(&o->params[index], shown_of(o), states) : 0;
}

int tess_optimizer_describe(const tess_optimizer *o, const tess_shape *shape, bool hidden, tess_optimizer_state *states)
{
    float some;
    const tess_span span = {.hidden = hidden, .shape = *shape, .param = &some};
    optim_param param;
    optim_layout layout;
    if (o == NULL)
        return 0;
    optim_layout_of(&span, 1, &o->options, 1, &param, &layout); /* cannot fail: there are no elements */
    int n = list_states(&param, o->state, states);
    for (int k = 0; k < n; k++)
        states[k].data = NULL;
    return n;
}
