/* Lists the tensors of a state that a rank holds: the state's own as boxes, and those of an fsdp as shards. */
#include "embed/embed_tensors.h"

#include "base/mem/scoped.h"
#include "base/text/name_index.h"
#include "comm/agree.h"
#include "tessera/fsdp.h"

/* ---- Own tensors ---- */
static tess_status check(const tess_checkpoint_tensor *t)
{
    char box[128], shape[96];
    TESS_CHECK(t->name != NULL && t->name[0] != '\0', TESS_E_INVALID, "checkpoint: a tensor has no name");
    TESS_CHECK(t->shape.n_dims >= 0 && t->shape.n_dims <= TESS_MAX_DIMS, TESS_E_INVALID,
               "checkpoint: tensor '%s' has %d dimensions; at most %d are possible", t->name, t->shape.n_dims,
               TESS_MAX_DIMS);
    TESS_CHECK((unsigned)t->dtype < TESS_DTYPE_COUNT, TESS_E_INVALID, "checkpoint: tensor '%s': %d is no dtype",
               t->name, (int)t->dtype);
    const tess_shape whole = tess_shape_atleast_1d(&t->shape);
    tess_box_format(whole.n_dims, &t->box, box, sizeof(box));
    tess_shape_format(&whole, shape, sizeof(shape));
    const tess_box all = tess_box_whole(&whole);
    TESS_CHECK(tess_box_contains(whole.n_dims, &all, &t->box), TESS_E_INVALID,
               "checkpoint: tensor '%s': the box %s is outside of the shape %s", t->name, box, shape);
    int64_t n = tess_box_count(whole.n_dims, &t->box);
    TESS_CHECK(n == 0 || t->data != NULL, TESS_E_INVALID, "checkpoint: tensor '%s': no data for the box %s", t->name,
               box);
    return TESS_OK;
}

static tess_status check_all(const tess_checkpoint_state *state)
{
    TESS_CHECK(state->n_tensors >= 0 && (state->n_tensors == 0 || state->tensors != NULL), TESS_E_INVALID,
               "checkpoint: %d tensors, but no list of them", state->n_tensors);
    TESS_CHECK(state->optimizer == NULL || state->fsdp != NULL, TESS_E_INVALID,
               "checkpoint: an optimizer without the fsdp whose state it has");
    TESS_CHECK(
        state->optimizer == NULL || tess_optimizer_owner(state->optimizer) == state->fsdp, TESS_E_INVALID,
        "checkpoint: the optimizer was not made for the fsdp that is saved or loaded with it, so its state is of "
        "other parameters: give the one of tess_fsdp_optimizer_create for this fsdp");
    for (int i = 0; i < state->n_tensors; i++)
        TESS_TRY(check(&state->tensors[i]));
    return TESS_OK;
}

/* Divides the rows of a box among the ranks that hold it. boxes (world, stride): the first of each row belongs to
 * tensor `t`. */
static tess_status divide(const tess_team *team, const tess_checkpoint_tensor *t, const tess_box *boxes, int stride,
                          tess_ckpt_tensor *out)
{
    int n_dims = tess_shape_atleast_1d(&t->shape).n_dims, me = tess_team_rank(team), n_sharing = 0, number = 0;
    bool holds = tess_box_count(n_dims, &t->box) > 0;
    *out = (tess_ckpt_tensor){.name = t->name,
                              .dtype = t->dtype,
                              .stored = t->dtype,
                              .shape = t->shape,
                              .box = t->box,
                              .primary = t->box,
                              .data = t->data};
    for (int rank = 0; rank < tess_team_size(team) && holds; rank++) {
        const tess_box *theirs = &boxes[(size_t)rank * (size_t)stride];
        bool same = tess_box_equal(n_dims, &t->box, theirs);
        char a[128], b[128];
        TESS_CHECK(same || !tess_box_meet(n_dims, &t->box, theirs, NULL), TESS_E_INVALID,
                   "checkpoint: tensor '%s': rank %d holds %s and rank %d holds %s, which overlap in part; ranks hold "
                   "the same box or boxes apart",
                   t->name, me, tess_box_format(n_dims, &t->box, a, sizeof(a)), rank,
                   tess_box_format(n_dims, theirs, b, sizeof(b)));
        n_sharing += same;
        number += same && rank < me;
    }
    if (holds) {
        tess_shard_rows(t->box.size[0], n_sharing, number, &out->primary.begin[0], &out->primary.size[0]);
        out->primary.begin[0] += t->box.begin[0];
    }
    return TESS_OK;
}

/* Adds the state's own tensors. Collective. */
static tess_status add_own(tess_team *team, const tess_checkpoint_state *state, embed_tensors *list)
{
    enum { WORDS = sizeof(tess_box) / sizeof(int64_t) };
    size_t n = (size_t)state->n_tensors, me = (size_t)tess_team_rank(team);
    tess_box *boxes = NULL;
    if (n == 0)
        return TESS_OK;
    tess_status status =
        tess_team_agree(team, TESS_NEW(list->mem, (size_t)tess_team_size(team) * n, "boxes of ranks", &boxes));
    for (size_t i = 0; i < n && status == TESS_OK; i++)
        boxes[me * n + i] = state->tensors[i].box;
    if (status == TESS_OK)
        status = tess_all_gather(team, boxes + me * n, boxes, n * WORDS, TESS_I64, NULL);
    for (size_t i = 0; i < n && status == TESS_OK; i++)
        status = divide(team, &state->tensors[i], boxes + i, (int)n, &list->items[list->n++]);
    tess_mem_free(list->mem, boxes);
    return tess_team_agree(team, status);
}

/* ---- Those of an fsdp ---- */
static tess_status add_shard(const tess_checkpoint_state *state, int index, embed_tensors *list)
{
    tess_shard shard;
    tess_optimizer_state states[TESS_OPTIMIZER_STATES];
    TESS_TRY(tess_fsdp_shard(state->fsdp, index, &shard));
    TESS_CHECK(tess_fsdp_narrow(state->fsdp, index) == NULL, TESS_E_UNSUPPORTED,
               "checkpoint: '%s' is narrow: weights without float32 are read from where they came from", shard.name);
    const tess_ckpt_tensor weights = {
        .name = shard.name, .shape = shard.shape, .box = shard.box, .primary = shard.primary, .data = shard.master};
    list->items[list->n++] = weights;
    if (state->optimizer == NULL)
        return TESS_OK;
    for (int k = 0, n = tess_optimizer_states(state->optimizer, index, states); k < n; k++)
        list->items[list->n++] = tess_ckpt_state_tensor(&weights, &states[k]);
    return TESS_OK;
}

/* Fails if two tensors have the same name: a checkpoint has a single list of names, whichever object holds the
 * tensors. */
static tess_status check_names(const embed_tensors *list, int n_own)
{
    tess_name_index names = {0};
    tess_status status = TESS_OK;
    for (int i = 0, first; i < list->n && n_own > 0 && status == TESS_OK; i++) {
        if (list->items[i].state != NULL)
            continue;
        status = tess_name_index_add(&names, list->mem, list->items[i].name, &first);
        if (status == TESS_OK && first < n_own && first < names.n - 1)
            status = TESS_FAIL(TESS_E_INVALID, "checkpoint: two tensors have the name '%s'", list->items[i].name);
    }
    tess_name_index_free(&names, list->mem);
    return status;
}

static tess_status prepare(const tess_checkpoint_state *state, int n_shards, embed_tensors *list)
{
    TESS_TRY(check_all(state));
    return TESS_NEW(list->mem, (size_t)state->n_tensors + 3 * (size_t)n_shards, "checkpoint tables", &list->items);
}

tess_status embed_tensors_list(tess_runtime *runtime, const tess_checkpoint_state *state, embed_tensors *list)
{
    tess_team *team = tess_runtime_team(runtime);
    int n_shards = state->fsdp != NULL ? tess_fsdp_shards(state->fsdp) : 0;
    *list = (embed_tensors){.mem = tess_runtime_mem(runtime)};
    TESS_TRY(tess_team_agree(team, prepare(state, n_shards, list)));
    TESS_TRY(tess_team_agree_same(team, (uint64_t)state->n_tensors, "numbers of tensors"));
    TESS_TRY(add_own(team, state, list));
    tess_status status = TESS_OK;
    for (int i = 0; i < n_shards && status == TESS_OK; i++)
        status = add_shard(state, i, list);
    if (status == TESS_OK)
        status = check_names(list, state->n_tensors);
    return tess_team_agree(team, status);
}

void embed_tensors_free(embed_tensors *list)
{
    tess_mem_free(list->mem, list->items);
    *list = (embed_tensors){0};
}
