/* Brings what an update uses from its home (device/home/home.h) and lets it go. Everything is requested at once and in
 * order, so that a pager can read as far in advance as memory allows. If state is away from the device that updates it,
 * a chunk of elements is updated at a time, while the next ones are on their way. */
#include "base/core/round_up.h"
#include "optim/optim_impl.h"

/* The arrays of a span: gradient, state, weights. */
static tess_home_span span_of(const optim_update *u, const tess_span *span, int i, optim_touch touch,
                              tess_home_part parts[OPTIM_ARRAYS])
{
    const optim_param *p = &u->optimizer->params[i];
    const size_t bytes = p->rule != OPTIM_FROZEN ? (size_t)p->n * sizeof(float) : 0;
    const bool moves = touch != OPTIM_MOMENTA, learns = touch != OPTIM_WEIGHTS;
    parts[0] = (tess_home_part){(float *)(uintptr_t)span->grad, span->grad != NULL ? bytes : 0, TESS_POOL_GRADS,
                                TESS_PAGE_READ, NULL};
    parts[1] = (tess_home_part){u->optimizer->state + p->values[0], p->state_bytes, TESS_POOL_OPTIMIZER,
                                learns ? TESS_PAGE_UPDATE : TESS_PAGE_READ, NULL};
    parts[2] = (tess_home_part){span->param, moves ? bytes : 0, TESS_POOL_PARAMS, TESS_PAGE_UPDATE, NULL};
    return (tess_home_span){.parts = parts, .n_parts = OPTIM_ARRAYS};
}

void optim_bring(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    tess_home_part parts[OPTIM_ARRAYS];
    tess_home_span span = span_of(u, &spans[i], i, touch, parts);
    (void)tess_home_bring(u->optimizer->home, &span); /* cannot fail: nothing is copied */
}

tess_status optim_wait(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    tess_home_part parts[OPTIM_ARRAYS];
    tess_home_span span = span_of(u, &spans[i], i, touch, parts);
    return tess_home_wait(u->optimizer->home, &span);
}

void optim_let_go(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    tess_home_part parts[OPTIM_ARRAYS];
    tess_home_span span = span_of(u, &spans[i], i, touch, parts);
    tess_home_let_go(u->optimizer->home, &span);
}

/* ---- Away from the device ---- */
enum { CHUNK = 1 << 20, AHEAD = 2, CHUNKS = AHEAD + 1 }; /* CHUNK: elements */

/* Elements [begin, begin + n) of span i. */
typedef struct chunk {
    tess_home_span span;
    tess_home_part parts[1 + OPTIM_MOMENTS + 1]; /* gradient, moments, weights */
    int i;
    int64_t begin, n;
} chunk;

bool optim_is_away(const tess_optimizer *o)
{
    return tess_home_is_away(o->home, TESS_POOL_PARAMS) || tess_home_is_away(o->home, TESS_POOL_GRADS) ||
           tess_home_is_away(o->home, TESS_POOL_OPTIMIZER);
}

/* All chunks use places of one size, in turn. */
static size_t room_of(const tess_optimizer *o)
{
    static const tess_pool pools[] = {TESS_POOL_GRADS, TESS_POOL_OPTIMIZER, TESS_POOL_OPTIMIZER, TESS_POOL_PARAMS};
    int64_t most = 0;
    size_t n_arrays = 0;
    for (int i = 0; i < o->n_spans; i++)
        most = o->params[i].rule == OPTIM_ADAMW_ROW && o->params[i].n > most ? o->params[i].n : most;
    for (size_t k = 0; k < sizeof(pools) / sizeof(pools[0]); k++)
        n_arrays += tess_home_is_away(o->home, pools[k]);
    const size_t bytes = (size_t)(most < CHUNK ? most : CHUNK) * sizeof(float);
    return n_arrays * tess_round_up(bytes, TESS_HOME_ALIGN);
}

/* Moves the chunk to the elements after those of `last`. False: there are none. */
static bool aim(const optim_update *u, const tess_span *spans, const chunk *last, chunk *c)
{
    const tess_optimizer *o = u->optimizer;
    int i = last->i;
    int64_t begin = last->begin + last->n;
    while (i < o->n_spans && (o->params[i].rule != OPTIM_ADAMW_ROW || begin >= o->params[i].n)) {
        i++;
        begin = 0;
    }
    if (i == o->n_spans)
        return false;
    const optim_param *p = &o->params[i];
    tess_home_forget(o->home, &c->span);
    *c = (chunk){.i = i, .begin = begin, .n = p->n - begin < CHUNK ? p->n - begin : CHUNK};
    const size_t bytes = (size_t)c->n * sizeof(float), at = (size_t)begin * sizeof(float);
    float *grad = (float *)(uintptr_t)spans[i].grad;
    c->parts[0] = (tess_home_part){grad != NULL ? grad + begin : NULL, bytes, TESS_POOL_GRADS, TESS_PAGE_READ, NULL};
    for (int k = 0; k < OPTIM_MOMENTS; k++)
        c->parts[1 + k] =
            (tess_home_part){o->state + p->values[k] + at, bytes, TESS_POOL_OPTIMIZER, TESS_PAGE_UPDATE, NULL};
    c->parts[3] = (tess_home_part){spans[i].param + begin, bytes, TESS_POOL_PARAMS, TESS_PAGE_UPDATE, NULL};
    c->span = (tess_home_span){
        .parts = c->parts, .n_parts = 2 + OPTIM_MOMENTS, .room = room_of(o), .n_places = CHUNKS, .advances = true};
    return true;
}

static tess_status update_chunk(optim_update *u, const tess_span *spans, chunk *c)
{
    tess_span span = spans[c->i];
    TESS_CHECK(span.grad != NULL, TESS_E_INVALID,
               "optimizer: '%s' has no gradient; end the step's sums first (tess_fsdp_step_end)", span.name);
    TESS_TRY(tess_home_wait(u->optimizer->home, &c->span));
    span.n = c->n;
    span.copy_begin -= c->begin;
    span.grad = c->parts[0].here;
    span.param = c->parts[3].here;
    TESS_TRY_CTX(optim_adamw_elements(u, &span, c->parts[1].here, c->parts[2].here), "optimizer: '%s'", span.name);
    tess_home_let_go(u->optimizer->home, &c->span);
    return TESS_OK;
}

static tess_status update_chunks(optim_update *u, const tess_span *spans, chunk *chunks)
{
    int64_t n = 0;
    const chunk *last = &(chunk){.i = 0};
    for (int64_t done = 0;; done++) {
        while (n <= done + AHEAD && aim(u, spans, last, &chunks[n % CHUNKS])) {
            last = &chunks[n++ % CHUNKS];
            TESS_TRY(tess_home_bring(u->optimizer->home, &chunks[(n - 1) % CHUNKS].span));
        }
        if (done == n)
            return TESS_OK;
        TESS_TRY(update_chunk(u, spans, &chunks[done % CHUNKS]));
    }
}

tess_status optim_update_away(optim_update *u, const tess_span *spans)
{
    chunk chunks[CHUNKS] = {{.i = 0}};
    tess_status status = update_chunks(u, spans, chunks);
    for (int k = 0; k < CHUNKS; k++)
        tess_home_forget(u->optimizer->home, &chunks[k].span);
    return status;
}
