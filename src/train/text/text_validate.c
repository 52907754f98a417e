/* Evaluates the held-out text during training. An error here costs the result of the evaluation, never the training.
 *
 * Ranks meet before each round, and a rank that cannot read the text reports it there. Then all ranks retry with
 * smaller micro-batches, or all stop. Only a lost rank or a failed collective ends the process. The next process
 * repeats the evaluation, unless that evaluation ended ranks before. */
#include "train/text/text_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/rejoin.h"
#include "inject/inject.h"
#include "engine/batches.h"
#include "engine/loss.h"

enum { FAILURE_BYTES = 384 };

/* A rank's view of the next round. The maximum over all ranks decides. */
typedef enum validation_outlook {
    ENDED,   /* no text remains for this rank */
    GOES_ON, /* this rank has a micro-batch */
    STOPPED, /* the job was asked to stop */
    LATE,    /* the deadline has passed */
    FAILED
} validation_outlook;

typedef struct evaluation {
    text_task *t;
    double begin_s;
    tess_loss_sum sum; /* losses summed over this rank's tokens */
    int64_t rows;      /* number of rows in a micro-batch */
    int64_t n_rows;    /* number of rows that all ranks have evaluated; the next round begins there */
    /* Loader position after this rank's newest micro-batch, and its distance to n_rows in rows. A retry seeks to it. */
    tess_data_cursor cursor;
    int64_t gap;
    validation_outlook outlook;
    char failure[FAILURE_BYTES]; /* message of the first rank that failed: "rank 1: ..." */
    int n_retries;
} evaluation;

/* Returns the number of rows of the whole evaluation, which does not depend on ranks or retries; 0: all of the text. */
static int64_t row_limit(const text_task *t)
{
    return t->text.config->validation.steps * t->text.config->training.local_batch_size;
}

/* Reads this rank's micro-batch of the round. Not collective. */
static tess_status take_batch(const evaluation *e, tess_micro_batch *data, bool *end)
{
    const text_task *t = e->t;
    int64_t limit = row_limit(t), first = tess_coordinates_micro(&t->engine->at, 0);
    *end = limit > 0 && e->n_rows + first * e->rows >= limit;
    if (*end)
        return TESS_OK;
    TESS_TRY(tess_inject_failure(tess_trainer_runtime(t->text.trainer), "the held-out text"));
    return tess_loader_next(t->held_out, e->gap / e->rows + first, data, end);
}

static validation_outlook own_outlook(const evaluation *e, tess_status taken, bool end)
{
    double timeout_s = e->t->text.config->validation.timeout_s;
    if (taken != TESS_OK)
        return FAILED;
    if (end)
        return ENDED;
    if (timeout_s > 0 && tess_os_now_s() - e->begin_s > timeout_s)
        return LATE;
    return tess_runtime_stop_requested(tess_trainer_runtime(e->t->text.trainer)) ? STOPPED : GOES_ON;
}

/* Gives all ranks the error message of the lowest rank that failed. `taken`: this rank's status. Collective. */
static tess_status share_failure(evaluation *e, tess_status taken)
{
    char text[FAILURE_BYTES - 16] = "";
    int32_t first = taken != TESS_OK ? tess_team_rank(e->t->text.team) : tess_team_size(e->t->text.team);
    if (taken != TESS_OK) {
        snprintf(text, sizeof(text), "%s", tess_error_message());
        tess_error_clear();
    }
    TESS_TRY(tess_all_reduce(e->t->text.team, &first, &first, 1, TESS_I32, TESS_MIN, NULL));
    TESS_TRY(tess_broadcast(e->t->text.team, text, sizeof(text), TESS_U8, first, NULL));
    snprintf(e->failure, sizeof(e->failure), "rank %d: %s", tess_team_global_rank(e->t->text.team, first), text);
    return TESS_OK;
}

static tess_status run_batch(evaluation *e, const tess_micro_batch *data)
{
    tess_batch batch = tess_batch_of(data);
    const tess_coordinates *at = &e->t->engine->at;
    TESS_TRY(tess_engine_score(e->t->engine, &batch, &e->sum));
    if (tess_coordinates_lead(at))
        e->sum.n_bytes += (int64_t)data->n_bytes;
    tess_loader_cursor(e->t->held_out, &e->cursor);
    e->gap = (at->n_data - 1 - tess_coordinates_micro(at, 0)) * e->rows;
    return TESS_OK;
}

/* Runs an empty batch. A rank whose share of the text has ended still takes part in the rounds, because the engine's
 * hooks are collective. */
static tess_status run_idle(evaluation *e)
{
    static const int32_t zero = 0, none = -1, cu_seqlens[] = {0, 1};
    const tess_batch batch = {
        .n_tokens = 1, .n_seqs = 1, .ids = &zero, .pos = &zero, .targets = &none, .cu_seqlens = cu_seqlens};
    return tess_engine_score(e->t->engine, &batch, &e->sum);
}

/* Runs one round: every rank evaluates a micro-batch, or all ranks stop before it. Sets e->outlook, the same on all
 * ranks. */
static tess_status run_round(evaluation *e)
{
    tess_micro_batch data;
    bool end = false;
    tess_status taken = take_batch(e, &data, &end);
    int32_t view = own_outlook(e, taken, end);
    TESS_TRY(tess_all_reduce(e->t->text.team, &view, &view, 1, TESS_I32, TESS_MAX, NULL));
    e->outlook = (validation_outlook)view;
    if (e->outlook == FAILED)
        return share_failure(e, taken);
    if (e->outlook != GOES_ON)
        return TESS_OK;
    e->gap += e->t->engine->at.n_data * e->rows;
    TESS_TRY(end ? run_idle(e) : run_batch(e, &data));
    e->n_rows += e->t->engine->at.n_data * e->rows;
    return TESS_OK;
}

/* Returns the largest proper divisor of `rows`, so that n_rows stays a whole number of rounds. */
static int64_t smaller(int64_t rows)
{
    for (int64_t part = rows / 2; part > 1; part--)
        if (rows % part == 0)
            return part;
    return 1;
}

/* Prepares to repeat the failed round with smaller micro-batches. Their size does not change the bits of a token's
 * result. */
static tess_status retry(evaluation *e)
{
    e->n_retries++;
    e->rows = smaller(e->rows);
    tess_trainer_warn(e->t->text.trainer, "validation: %s; retry %d of %d, with micro-batches of %lld row%s",
                      e->failure, e->n_retries, (int)e->t->text.config->validation.retries, (long long)e->rows,
                      e->rows > 1 ? "s" : "");
    tess_loader_set_rows(e->t->held_out, e->rows);
    return tess_loader_seek(e->t->held_out, &e->cursor);
}

static tess_status run_rounds(evaluation *e)
{
    tess_runtime_phase(tess_trainer_runtime(e->t->text.trainer), "validation", e->t->engine->step, -1);
    tess_loader_set_rows(e->t->held_out, e->rows);
    const tess_loss_meter *meter = &e->t->engine->meter;
    TESS_TRY(tess_loader_seek(e->t->held_out, &e->cursor));
    TESS_TRY(tess_loss_begin(meter));
    do {
        if (e->outlook == FAILED)
            TESS_TRY(retry(e));
        TESS_TRY(run_round(e));
    } while (e->outlook == GOES_ON || (e->outlook == FAILED && e->n_retries < e->t->text.config->validation.retries));
    TESS_TRY(tess_loss_end(meter, &e->sum));
    return tess_loss_all_reduce(e->t->text.team, &e->sum, 0);
}

/* Estimates the number of target tokens of the whole evaluation from the part that was read. */
static int64_t estimate_tokens(const evaluation *e)
{
    int64_t rows = tess_loader_estimate_rows(e->t->held_out), limit = row_limit(e->t);
    if (limit > 0 && limit < rows)
        rows = limit;
    return rows > e->n_rows ? (int64_t)((double)e->sum.n_tokens * (double)rows / (double)e->n_rows) : e->sum.n_tokens;
}

static void report_why(const evaluation *e, tess_validation_report *report)
{
    if (e->outlook == FAILED)
        snprintf(report->why, sizeof(report->why), "%s", e->failure);
    else if (e->outlook == LATE)
        snprintf(report->why, sizeof(report->why), "validation.timeout_s=%g passed",
                 e->t->text.config->validation.timeout_s);
    else if (e->outlook == STOPPED)
        snprintf(report->why, sizeof(report->why), "the job was asked to stop; it is repeated when the run goes on");
    else
        snprintf(report->why, sizeof(report->why), "the held-out text has no target tokens: raise validation.fraction");
}

tess_status text_validate(text_task *t, tess_validation_report *report)
{
    if (tess_launch_omits(tess_trainer_runtime(t->text.trainer), t->engine->step)) {
        *report = (tess_validation_report){.step = t->engine->step, .outcome = TESS_VALIDATION_MISSING};
        snprintf(report->why, sizeof(report->why), "ranks were lost in it twice: it is not tried again");
        return TESS_OK;
    }
    evaluation e = {.t = t, .begin_s = tess_os_now_s(), .rows = t->text.config->training.local_batch_size};
    while (e.rows > tess_config_pass_rows(t->text.config)) /* memory suffices for a forward pass */
        e.rows = smaller(e.rows);
    TESS_TRY_CTX(run_rounds(&e), "validation");
    *report = (tess_validation_report){.step = t->engine->step,
                                       .n_tokens = e.sum.n_tokens,
                                       .seconds = tess_os_now_s() - e.begin_s,
                                       .cut_off = e.outlook == STOPPED};
    report->outcome = e.sum.n_tokens == 0  ? TESS_VALIDATION_MISSING
                      : e.outlook == ENDED ? TESS_VALIDATION_WHOLE
                                           : TESS_VALIDATION_PARTIAL;
    if (report->outcome != TESS_VALIDATION_WHOLE)
        report_why(&e, report);
    if (report->outcome == TESS_VALIDATION_MISSING)
        return TESS_OK;
    report->n_tokens_all = e.outlook == ENDED ? e.sum.n_tokens : estimate_tokens(&e);
    tess_loss_score(&e.sum, &report->loss, &report->perplexity, &report->bits_per_byte);
    return TESS_OK;
}
