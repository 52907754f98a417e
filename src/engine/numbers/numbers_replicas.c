/* Compares all copies of weights and optimizer state.
 *
 * Some ranks have the same weights: with strategy none, in replicas of hybrid, and tensors that tensor parallelism
 * does not cut. They hash these weights and the optimizer's state with XXH3 and compare one number. If it differs,
 * they compare the hash of each tensor, and the majority is taken to be right.
 * The two stages of a pipeline that have a tied table compare its weights.
 * If ranks of a host share a gathered copy of sharded weights, each compares the copy with its own rows, rounded.
 *
 * State that exists only once cannot be compared; checkpoints have checksums for it. */
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tessera/comm.h"
#include "engine/numbers/numbers_impl.h"
#include "engine/stages/rank_stage.h"
#include "base/mem/scoped.h"

enum { BLOCK_BYTES = 1 << 18, KINDS = 1 + TESS_OPTIMIZER_STATES };

/* The finding of one rank, worst first. Ranks send it to each other as bytes. */
typedef enum finding_kind { FOUND_ODD, FOUND_TIE, FOUND_COPY, FOUND_NOTHING } finding_kind;

typedef struct finding {
    int32_t kind, culprit; /* rank of the job, -1: unknown */
    char text[376];
} finding;

/* ---- Hashes ---- */
typedef struct hashing {
    const char *data;
    size_t bytes;
    _Atomic uint64_t sum; /* sum of the blocks' hashes; a block's number is its seed, so the order does not matter */
} hashing;

static void hash_blocks(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    hashing *h = context;
    for (int64_t block = begin; block < end; block++) {
        size_t at = (size_t)block * BLOCK_BYTES, n = h->bytes - at < BLOCK_BYTES ? h->bytes - at : BLOCK_BYTES;
        h->sum += XXH3_64bits_withSeed(h->data + at, n, (uint64_t)block);
    }
}

/* Lists weights and optimizer state of parameter `index`. Returns the number of arrays. Narrow weights are hashed as
 * bytes. */
static int arrays_of(const tess_engine *e, int index, const tess_shard *shard, tess_optimizer_state arrays[KINDS])
{
    arrays[0] = shard->master != NULL ? (tess_optimizer_state){"weight", TESS_F32, 1, shard->master}
                                      : (tess_optimizer_state){"weight", TESS_U8, 1, tess_fsdp_narrow(e->fsdp, index)};
    return 1 + tess_optimizer_states(e->optimizer, index, arrays + 1);
}

static size_t bytes_of(const tess_shard *shard, const tess_optimizer_state *array)
{
    int64_t row = tess_shard_row(shard), rows = tess_shard_count(shard) > 0 ? shard->box.size[0] : 0;
    return (size_t)(rows * ((row + array->block - 1) / array->block)) * tess_dtype_size(array->dtype);
}

/* Hashes this rank's part of parameter `index`. The hash of state that does not exist is 0. */
static tess_status hash_parameter(const tess_engine *e, int index, uint64_t hashes[KINDS])
{
    tess_shard shard;
    tess_optimizer_state arrays[KINDS];
    TESS_TRY(tess_fsdp_shard(e->fsdp, index, &shard));
    int n = arrays_of(e, index, &shard, arrays);
    for (int k = 0; k < KINDS; k++) {
        hashing h = {.bytes = 0};
        if (k < n)
            h = (hashing){.data = arrays[k].data,
                          .bytes = k == 0 && shard.master == NULL ? tess_fsdp_narrow_bytes(e->fsdp, index)
                                                                  : bytes_of(&shard, &arrays[k])};
        int64_t n_blocks = (int64_t)((h.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
        tess_threads_run(tess_stream_threads(e->stream), hash_blocks, &h, n_blocks, 1);
        hashes[k] = h.sum;
    }
    return TESS_OK;
}

/* Hashes all parameters: hashes (parameters, KINDS). */
static tess_status hash_state(const tess_engine *e, uint64_t *hashes)
{
    for (int i = 0; i < tess_fsdp_shards(e->fsdp); i++)
        TESS_TRY(hash_parameter(e, i, hashes + (ptrdiff_t)i * KINDS));
    return TESS_OK;
}

/* ---- The vote ---- */
tess_vote tess_vote_on(const uint64_t *value, size_t stride, int n, bool *odd)
{
    int most = 0;
    uint64_t winner = 0;
    bool tie = false;
    for (int i = 0; i < n; i++) {
        uint64_t mine = value[(size_t)i * stride];
        int holders = 0;
        for (int k = 0; k < n; k++)
            holders += value[(size_t)k * stride] == mine;
        tie = holders > most ? false : tie || (holders == most && mine != winner);
        if (holders > most) {
            most = holders;
            winner = mine;
        }
    }
    for (int i = 0; i < n; i++)
        odd[i] = !tie && value[(size_t)i * stride] != winner;
    return most == n ? TESS_VOTE_SAME : tie ? TESS_VOTE_TIE : TESS_VOTE_ODD;
}

typedef struct ballot {
    tess_team *team;
    int n_ranks, n_tensors;
    uint64_t *hashes; /* (n_ranks, n_tensors) hash of each rank's part of each tensor */
    bool *odd;        /* (n_ranks) whether the rank differs from the majority */
} ballot;

static tess_vote vote_on(const ballot *b, int tensor)
{
    return tess_vote_on(b->hashes + tensor, (size_t)b->n_tensors, b->n_ranks, b->odd);
}

/* Writes "rank 3" or "ranks 1, 2 and 5", numbered as in the job: those in `listed` (NULL: all). */
static void list_ranks(const ballot *b, const bool *listed, char *text, size_t size)
{
    int n = 0, seen = 0;
    for (int r = 0; r < b->n_ranks; r++)
        n += listed == NULL || listed[r];
    size_t used = (size_t)snprintf(text, size, n == 1 ? "rank" : "ranks");
    for (int r = 0; r < b->n_ranks && used < size; r++)
        if (listed == NULL || listed[r]) {
            const char *before = seen == 0 ? " " : seen == n - 1 ? " and " : ", ";
            used += (size_t)snprintf(text + used, size - used, "%s%d", before, tess_team_global_rank(b->team, r));
            seen++;
        }
}

static const char *name_state(const tess_engine *e, int tensor, char *text, size_t size)
{
    tess_optimizer_state states[TESS_OPTIMIZER_STATES];
    tess_optimizer_states(e->optimizer, tensor / KINDS, states);
    snprintf(text, size, "%s of", states[tensor % KINDS - 1].name);
    return text;
}

/* Describes the result of the vote. The first tensor that differs decides which rank is named; the others are
 * counted. */
static void describe_vote(const tess_engine *e, const ballot *b, finding *found)
{
    int first = -1, n_differ = 0, n_odd = 0;
    char who[128], others[48] = "", state[48];
    for (int t = b->n_tensors - 1; t >= 0; t--)
        if (vote_on(b, t) != TESS_VOTE_SAME) {
            first = t;
            n_differ++;
        }
    if (first < 0)
        return;
    bool tie = vote_on(b, first) == TESS_VOTE_TIE;
    const char *name = tess_engine_param(e, first / KINDS)->name;
    const char *kind = first % KINDS == 0 ? "weight" : name_state(e, first, state, sizeof(state));
    for (int r = b->n_ranks - 1; r >= 0; r--)
        if (b->odd[r]) {
            n_odd++;
            found->culprit = tess_team_global_rank(b->team, r);
        }
    found->kind = tie ? FOUND_TIE : FOUND_ODD;
    list_ranks(b, tie ? NULL : b->odd, who, sizeof(who));
    if (n_differ > 1)
        snprintf(others, sizeof(others), ", and %d tensors more", n_differ - 1);
    if (tie)
        snprintf(found->text, sizeof(found->text),
                 "%s hold %s '%s' with different bits%s; no majority says who is "
                 "right (a tie)",
                 who, kind, name, others);
    else
        snprintf(found->text, sizeof(found->text), "%s: %s '%s'%s: other bits than on %d of %d ranks", who, kind, name,
                 others, b->n_ranks - n_odd, b->n_ranks);
}

static tess_status vote(const tess_engine *e, ballot *b, const uint64_t *hashes, finding *found)
{
    size_t n_ranks = (size_t)b->n_ranks;
    uint64_t total = XXH3_64bits(hashes, (size_t)b->n_tensors * sizeof(*hashes));
    TESS_TRY(tess_all_gather(b->team, &total, b->hashes, 1, TESS_I64, NULL));
    if (tess_vote_on(b->hashes, 1, b->n_ranks, b->odd) == TESS_VOTE_SAME)
        return TESS_OK;
    TESS_TRY(tess_mem_grow(e->mem, TESS_POOL_MISC, n_ranks * (size_t)b->n_tensors * sizeof(*hashes), "hashes",
                           (void **)&b->hashes));
    TESS_TRY(tess_all_gather(b->team, hashes, b->hashes, (size_t)b->n_tensors, TESS_I64, NULL));
    describe_vote(e, b, found);
    return TESS_OK;
}

/* Compares the tensors of which all ranks of `team` hold the same part. `hashes` has the hashes of all of this
 * rank's tensors. */
static tess_status compare_in(const tess_engine *e, tess_team *team, const uint64_t *hashes, finding *found)
{
    ballot b = {.team = team, .n_ranks = tess_team_size(team), .n_tensors = KINDS * tess_fsdp_shards(e->fsdp)};
    uint64_t *alike;
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = e->mem};
    TESS_TRY(TESS_NEW_IN(&own, b.n_tensors, "hashes", &alike));
    TESS_TRY(TESS_NEW_IN(&own, b.n_ranks, "hashes", &b.hashes));
    TESS_TRY(TESS_NEW_IN(&own, b.n_ranks, "votes", &b.odd));
    for (int t = 0; t < b.n_tensors; t++)
        alike[t] = tess_fsdp_holders(e->fsdp, t / KINDS) == team ? hashes[t] : 0;
    tess_team_label(team, "replicas", -1);
    const tess_status status = vote(e, &b, alike, found);
    tess_team_label(team, NULL, -1);
    return status;
}

/* The teams whose ranks hold the same parts. In each of two families, experts that ranks divide and all others, at most
 * one each for weights that tensor parallelism cuts or does not cut, and that are sharded or not. */
enum { MOST_TEAMS = 2 * 4 };

static int list_teams(const tess_fsdp *fsdp, tess_team *teams[MOST_TEAMS])
{
    int n = 0;
    for (int i = 0; i < tess_fsdp_shards(fsdp); i++) {
        tess_team *team = tess_fsdp_holders(fsdp, i);
        bool listed = team == NULL;
        for (int k = 0; k < n; k++)
            listed = listed || teams[k] == team;
        if (!listed && n < MOST_TEAMS)
            teams[n++] = team;
    }
    return n;
}

static tess_status compare_replicas(const tess_engine *e, finding *found)
{
    tess_team *teams[MOST_TEAMS];
    const int n_teams = list_teams(e->fsdp, teams), n_hashes = KINDS * tess_fsdp_shards(e->fsdp);
    TESS_AUTO(tess_mem_drop) uint64_t *hashes = NULL;
    if (n_teams == 0)
        return TESS_OK;
    TESS_TRY(TESS_NEW(e->mem, n_hashes, "hashes", &hashes));
    TESS_TRY(hash_state(e, hashes));
    for (int k = 0; k < n_teams; k++) {
        finding now = *found;
        TESS_TRY(compare_in(e, teams[k], hashes, &now));
        *found = now.kind < found->kind ? now : *found;
    }
    return TESS_OK;
}

/* ---- A tied table on two stages of a pipeline ---- */
static tess_status compare_table(const tess_engine *e, finding *found)
{
    uint64_t hashes[KINDS] = {0};
    int differs;
    if (e->stage == NULL)
        return TESS_OK;
    if (tess_model_trains_table(e->model) || tess_model_copies_table(e->model))
        TESS_TRY(hash_parameter(e, 0, hashes));
    TESS_TRY(tess_stage_compare_table(e->stage, hashes[0], &differs));
    if (differs < 0 || found->kind <= FOUND_TIE)
        return TESS_OK;
    found->kind = FOUND_TIE;
    snprintf(
        found->text, sizeof(found->text),
        "ranks %d and %d hold weight '%s' with different bits; nothing says which of the two was changed in memory",
        differs, tess_runtime_rank(e->runtime), tess_model_param(e->model, 0)->name);
    return TESS_OK;
}

/* ---- Shared copies ---- */
static tess_status compare_copies(const tess_engine *e, finding *found)
{
    for (int i = 0; i < tess_fsdp_shards(e->fsdp) && found->kind == FOUND_NOTHING; i++) {
        int64_t at;
        TESS_TRY(tess_fsdp_copy_differs(e->fsdp, i, &at));
        if (at < 0)
            continue;
        const tess_param *p = tess_engine_param(e, i);
        int64_t row = tess_shape_row_count(&p->shape);
        found->kind = FOUND_COPY;
        found->culprit = tess_runtime_rank(e->runtime);
        snprintf(found->text, sizeof(found->text),
                 "rank %d: the gathered copy of '%s' is not what this rank's weights round to at row %lld, column "
                 "%lld: one of the two was changed in memory",
                 found->culprit, p->name, (long long)(at / row), (long long)(at % row));
    }
    return TESS_OK;
}

/* ---- All ranks together ---- */
/* Reports the worst finding of all ranks, which ends the run. */
static tess_status report_worst(tess_numbers *n, int64_t step, finding *found)
{
    const tess_engine *e = n->engine;
    TESS_AUTO(tess_mem_drop) finding *all = NULL;
    TESS_TRY_CTX(tess_numbers_gather(e, "replicas", found, sizeof(*found), (void **)&all), "comparing replicas");
    for (int r = 0; r < e->at.world; r++)
        if (r == 0 || all[r].kind < found->kind)
            *found = all[r];
    if (found->kind == FOUND_NOTHING)
        return TESS_OK;
    tess_status status = TESS_FAIL(TESS_E_MISMATCH,
                                   "step %lld: replicas have diverged: %s; go back to a checkpoint, and check that "
                                   "machine (`tessera doctor preflight`)",
                                   (long long)step, found->text);
    tess_numbers_blame(n, found->culprit);
    return status;
}

tess_status tess_numbers_compare(tess_numbers *n)
{
    finding found = {.kind = FOUND_NOTHING, .culprit = -1};
    TESS_TRY_CTX(compare_replicas(n->engine, &found), "comparing replicas");
    TESS_TRY_CTX(compare_table(n->engine, &found), "comparing replicas");
    TESS_TRY_CTX(compare_copies(n->engine, &found), "comparing replicas");
    return report_worst(n, n->engine->step + 1, &found);
}

tess_status tess_numbers_compare_for_save(tess_numbers *n)
{
    finding found = {.kind = FOUND_NOTHING, .culprit = -1};
    if (n->engine->config->numbers.replica_check_interval == 0)
        return TESS_OK;
    TESS_TRY_CTX(compare_replicas(n->engine, &found), "comparing replicas");
    return report_worst(n, n->engine->step, &found);
}

tess_status tess_numbers_compare_at_times(tess_numbers *n)
{
    TESS_TRY(tess_numbers_drill_state(n));
    int64_t interval = n->engine->config->numbers.replica_check_interval;
    return interval > 0 && (n->engine->step + 1) % interval == 0 ? tess_numbers_compare(n) : TESS_OK;
}
