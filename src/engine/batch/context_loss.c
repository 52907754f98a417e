#include "engine/batch/context_loss.h"

#include <string.h>

#include "engine/batch/context_order.h"

/* Rows of a leaf. */
static int64_t piece_of(const tess_context_loss *l)
{
    return tess_context_filled(l->context, l->n_tokens) / l->context->n_leaves;
}

/* Returns the token of this rank's row. */
static int64_t token_of(const tess_context_loss *l, int64_t row)
{
    return tess_context_token(l->context, l->n_tokens, row);
}

static tess_status grade_rows(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                              float *dlogprob, float *dentropy)
{
    const tess_context_loss *l = self;
    const int64_t piece = piece_of(l);
    for (int64_t done = 0, run; done < n; done += run) {
        const int64_t row = begin + done, token = token_of(l, row), left = l->n_tokens - token;
        run = piece - row % piece < n - done ? piece - row % piece : n - done;
        const int64_t real = left < run ? left : run; /* tokens that fill up leaves have no loss */
        if (real > 0)
            TESS_TRY(l->inner->grade(l->inner->self, token, real, logprob + done, entropy + done, dlogprob + done,
                                     dentropy + done));
    }
    return TESS_OK;
}

/* ---- Losses that need all rows ---- */
static tess_status gather(const tess_context_loss *l, const float *own, float *by_token)
{
    if (l->context->points.degree > 1) {
        tess_team *team = l->team;
        tess_team_label(team, "rows of a loss", -1);
        tess_status status =
            tess_all_gather(team, own, l->room, (size_t)tess_context_tokens(l->context, l->n_tokens), TESS_F32, NULL);
        tess_team_label(team, NULL, -1);
        TESS_TRY(status);
        own = l->room;
    }
    tess_context_sort(l->context, l->n_tokens, own, by_token);
    return TESS_OK;
}

/* Returns array i of the room, after the one that `gather` uses. */
static float *array_of(const tess_context_loss *l, int i)
{
    return l->room + (1 + i) * l->max_tokens;
}

/* Copies this rank's rows; those that fill up leaves stay as they are. */
static void take(const tess_context_loss *l, const float *by_token, int64_t n, float *own)
{
    for (int64_t row = 0; row < n; row++) {
        const int64_t token = token_of(l, row);
        if (token < l->n_tokens)
            own[row] = by_token[token];
    }
}

static tess_status grade_all(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                             float *dlogprob, float *dentropy)
{
    const tess_context_loss *l = self;
    float *const all[] = {array_of(l, 0), array_of(l, 1), array_of(l, 2), array_of(l, 3)};
    (void)begin; /* all rows in one call */
    TESS_TRY(gather(l, logprob, all[0]));
    TESS_TRY(gather(l, entropy, all[1]));
    memset(all[2], 0, (size_t)l->n_tokens * sizeof(float));
    memset(all[3], 0, (size_t)l->n_tokens * sizeof(float));
    TESS_TRY(l->inner->grade(l->inner->self, 0, l->n_tokens, all[0], all[1], all[2], all[3]));
    take(l, all[2], n, dlogprob);
    take(l, all[3], n, dentropy);
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    const tess_context_loss *l = self;
    float *const all[] = {array_of(l, 0), array_of(l, 1)};
    TESS_TRY(gather(l, value, all[0]));
    memset(all[1], 0, (size_t)l->n_tokens * sizeof(float));
    TESS_TRY(l->inner->grade_values(l->inner->self, l->n_tokens, all[0], all[1]));
    take(l, all[1], n, dvalue);
    return TESS_OK;
}

void tess_context_loss_open(const tess_token_loss *inner, int64_t n_tokens, tess_context_loss *l)
{
    l->inner = inner;
    l->n_tokens = n_tokens;
    l->outer = *inner;
    l->outer.self = l;
    l->outer.grade = inner->grade == NULL ? NULL : inner->whole ? grade_all : grade_rows;
    l->outer.grade_values = inner->grade_values != NULL ? grade_values : NULL;
}
