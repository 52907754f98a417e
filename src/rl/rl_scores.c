/* The models' values of a rollout's rows before its first step: values, log-probabilities of a reference that follows
 * the policy, and of the policy's own weights. A run that goes on between two steps of a rollout has other weights by
 * then, and reads these values from the journal. */
#include <string.h>

#include "comm/agree.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

bool rl_scores_are_kept(const tess_config *c)
{
    const bool follows = rl_wants_reference(c) && c->reference.update_interval > 0;
    return rl_steps_per_rollout(c) > 1 && (rl_has_values(c) || follows || rl_scores_samples(c));
}

static rl_origin origin_of(const rl *r)
{
    return (rl_origin){r->identity, r->training.chain, 0};
}

/* The values in the journal, (n_rows) each, in this order; values that the run does not need are left out. */
static int arrays_of(const rl *r, float *arrays[3])
{
    float *const all[] = {r->rows.old, r->rows.reference, r->rows.value};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (all[i] != NULL)
            arrays[n++] = all[i];
    return n;
}

static size_t bytes_of(const rl *r)
{
    return (size_t)r->rows.n_rows * sizeof(float);
}

/* ---- Keeping ---- */
static tess_status write_scores(const rl *r, tess_buffer *bytes)
{
    const rl_origin origin = origin_of(r);
    float *arrays[3];
    rl_journal *journal = NULL;
    for (int i = 0, n = arrays_of(r, arrays); i < n; i++)
        TESS_TRY(tess_buffer_append(bytes, arrays[i], bytes_of(r)));
    TESS_TRY(rl_journal_open(r->mem, r->folder, r->training.rollout, 0, &origin, &journal));
    tess_status status = rl_journal_append_bytes(journal, RL_ROUND_SCORES, bytes->data, bytes->size);
    rl_journal_close(&journal);
    return status;
}

tess_status rl_scores_keep(rl *r)
{
    tess_buffer bytes = {.mem = r->mem};
    tess_status status = tess_team_rank(r->team) == 0 ? write_scores(r, &bytes) : TESS_OK;
    tess_buffer_free(&bytes);
    status = rl_keep_or_warn(r, status, "a restart in the middle of this rollout will not be possible");
    return tess_team_agree(r->team, status);
}

/* ---- Recalling ---- */
/* A rl_record_fn; the last record counts. */
static tess_status take_scores(void *self, int64_t round, const void *bytes, size_t size)
{
    tess_buffer *scores = self;
    if (round != RL_ROUND_SCORES)
        return TESS_OK;
    scores->size = 0;
    return tess_buffer_append(scores, bytes, size);
}

static tess_status fill_arrays(const rl *r, const tess_buffer *bytes)
{
    float *arrays[3];
    const int n = arrays_of(r, arrays);
    TESS_CHECK(
        bytes->size == (size_t)n * bytes_of(r), TESS_E_NOT_FOUND,
        "what its models said before its first step is not in %s (%zu bytes where %zu are needed), and the weights "
        "have changed since: go on from an older checkpoint (checkpoint.load_step)",
        r->folder, bytes->size, (size_t)n * bytes_of(r));
    for (int i = 0; i < n; i++)
        memcpy(arrays[i], bytes->data + (size_t)i * bytes_of(r), bytes_of(r));
    return TESS_OK;
}

tess_status rl_scores_recall(rl *r)
{
    const rl_origin origin = origin_of(r);
    TESS_AUTO(tess_buffer_free) tess_buffer bytes = {.mem = r->mem};
    tess_status status = TESS_OK;
    if (tess_team_rank(r->team) == 0)
        status = rl_journal_read(r->folder, r->training.rollout, &origin, take_scores, &bytes);
    TESS_TRY(tess_team_agree(r->team, status));
    TESS_TRY(rl_share_bytes(r->team, &bytes));
    return fill_arrays(r, &bytes);
}
