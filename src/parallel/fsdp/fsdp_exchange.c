/* Sums over replicas that are no subtree of the canonical tree: because the number of shards or of replicas is no
 * power of two, or because the last micro-batches of a step do not reach all ranks. The replicas then exchange their
 * inputs of the sum, a block of elements at a time, and each adds all inputs to its own counter.
 *
 * The input of a replica is the sum over its shards, if that is a subtree. Otherwise it has one input for each
 * shard: the shard's leaf. */
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

enum { AT_ONCE = 1 << 16 }; /* elements of each input */

struct tess_fsdp_exchange {
    int given;       /* inputs of a replica */
    size_t elements; /* elements of the largest unit's shard */
    float *own;      /* (given, elements) */
    float *sent;     /* (given, AT_ONCE) */
    bool sent_shown;
    float *all;            /* (n_replicas, given, AT_ONCE) */
    const void **rows;     /* (n_replicas * given) of `all`; after them as many for scratch */
    tess_leaf_step *steps; /* (given) */
};

bool tess_fsdp_exchanges_any(const tess_fsdp_family *family, int64_t n_leaves)
{
    return family->teams.n_replicas > 1 &&
           (family->facts.portion > 1 || n_leaves % family->fsdp->step.shares.total != 0);
}

static tess_fsdp_exchange sizes_of(const tess_fsdp_family *family)
{
    tess_fsdp_exchange x = {.given = family->facts.leaf == family->teams.parts ? family->teams.n_shards : 1};
    for (int u = 0; u < family->fsdp->n_units; u++)
        if (family->fsdp->units[u]->layout.own_elements > x.elements)
            x.elements = family->fsdp->units[u]->layout.own_elements;
    return x;
}

static tess_status alloc_exchange(tess_fsdp_family *family, tess_fsdp_exchange *x)
{
    size_t given = (size_t)x->given, all = given * (size_t)family->teams.n_replicas;
    TESS_TRY(tess_fsdp_alloc(&family->fsdp->place, TESS_POOL_GRADS, given * x->elements, "leaves", &x->own));
    TESS_TRY(tess_fsdp_alloc(&family->fsdp->place, TESS_POOL_GRADS, given * AT_ONCE, "leaves for replicas", &x->sent));
    TESS_TRY(tess_fsdp_show(family, family->teams.replicate_team, x->sent, given * AT_ONCE, "leaves for replicas"));
    x->sent_shown = true;
    TESS_TRY(tess_fsdp_alloc(&family->fsdp->place, TESS_POOL_GRADS, all * AT_ONCE, "leaves of replicas", &x->all));
    TESS_TRY(tess_scope_alloc(tess_scope_of(x), TESS_POOL_MISC, all, 2 * sizeof(void *), "leaves", (void **)&x->rows));
    return TESS_PART(x, given, "leaves", &x->steps);
}

tess_status tess_fsdp_exchange_alloc(tess_fsdp_family *family)
{
    if (family->exchange != NULL)
        return TESS_OK;
    TESS_TRY(TESS_NEW(family->fsdp->place.mem, 1, "exchange of leaves", &family->exchange));
    *family->exchange = sizes_of(family);
    tess_status status = alloc_exchange(family, family->exchange);
    if (status != TESS_OK)
        tess_fsdp_exchange_free(family);
    return status;
}

void tess_fsdp_exchange_free(tess_fsdp_family *family)
{
    tess_fsdp_exchange *x = family->exchange;
    if (x == NULL)
        return;
    tess_fsdp_free(&family->fsdp->place, x->all);
    if (x->sent_shown)
        tess_fsdp_hide(family, family->teams.replicate_team, x->sent);
    tess_fsdp_free(&family->fsdp->place, x->sent);
    tess_fsdp_free(&family->fsdp->place, x->own);
    tess_mem_drop(&family->exchange);
}

const tess_leaf_step *tess_fsdp_exchange_steps(const tess_fsdp_family *family, int micro, int *n_steps)
{
    tess_fsdp_exchange *x = family->exchange;
    int left =
        tess_fsdp_gradients_of(&family->fsdp->step, family, micro) - family->teams.replica * family->teams.n_shards;
    *n_steps = x->given;
    for (int i = 0; i < x->given; i++)
        x->steps[i] = (tess_leaf_step){.begin = i, .n = 1, .y = x->own + (size_t)i * x->elements};
    if (x->given == 1) /* the sum of a replica whose micro-batches are all empty is not used */
        x->steps[0].n = left > 0 && left < family->teams.n_shards ? left : family->teams.n_shards;
    return x->steps;
}

/* Plans the additions of all replicas' inputs to the unit's counter. Returns the number of inputs that are not
 * empty. */
static int plan(tess_unit *unit)
{
    const tess_fsdp_family *family = unit->family;
    const tess_fsdp *fsdp = unit->fsdp;
    int leaves = tess_fsdp_gradients_of(&fsdp->step, family, unit->reduction.micro);
    int n = family->exchange->given > 1 ? leaves : (leaves + family->teams.n_shards - 1) / family->teams.n_shards;
    if (family->facts.portion > 1) {
        tess_leaf_push(&unit->sums.counter, n, unit->sums.steps, &unit->sums.n_steps);
    } else {
        float *sum = tess_leaf_unused(&unit->sums.counter);
        unit->sums.steps[unit->sums.n_steps++] = (tess_leaf_step){.n = n, .y = sum};
        tess_leaf_place(&unit->sums.counter, sum, unit->sums.steps, &unit->sums.n_steps);
    }
    return n;
}

static tess_status add_elements(tess_unit *unit, tess_stream *stream, int n_inputs, size_t at, size_t n)
{
    const tess_fsdp_family *family = unit->family;
    tess_fsdp_exchange *x = family->exchange;
    for (int i = 0; i < x->given; i++)
        TESS_TRY(tess_stream_copy(stream, x->sent + (size_t)i * n, x->own + (size_t)i * x->elements + at,
                                  n * sizeof(float)));
    TESS_TRY(tess_all_gather(family->teams.replicate_team, x->sent, x->all, (size_t)x->given * n, TESS_F32, NULL));
    /* The sums may have a part of these elements, or none. */
    const tess_fsdp_sums *sums = &unit->sums;
    const size_t end = at + n < sums->begin + sums->elements ? at + n : sums->begin + sums->elements;
    const size_t begin = at > sums->begin ? at : sums->begin;
    if (begin >= end)
        return TESS_OK;
    for (int i = 0; i < n_inputs; i++)
        x->rows[i] = x->all + (size_t)i * n + (begin - at);
    return tess_leaf_run(stream, sums->steps, sums->n_steps, x->rows, x->rows + x->given * family->teams.n_replicas,
                         n_inputs, TESS_F32, begin - sums->begin, end - begin, false, NULL);
}

tess_status tess_fsdp_exchange_add(tess_unit *unit, tess_stream *stream)
{
    tess_fsdp_family *family = unit->family;
    tess_status status = TESS_OK;
    int n_inputs = plan(unit);
    TESS_TRY(tess_fsdp_sums_here(unit, unit->sums.steps, unit->sums.n_steps));
    tess_team_label(family->teams.replicate_team, unit->label, unit->number);
    for (size_t at = 0; at < unit->layout.own_elements && status == TESS_OK; at += AT_ONCE) {
        size_t left = unit->layout.own_elements - at;
        status = add_elements(unit, stream, n_inputs, at, left < AT_ONCE ? left : AT_ONCE);
    }
    tess_team_label(family->teams.replicate_team, NULL, -1);
    unit->sums.n_steps = 0;
    tess_fsdp_sums_release(unit);
    return status;
}
