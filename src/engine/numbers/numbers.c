/* Creates the checks of a step's numbers, and decides what to do if a step is not finite or its loss jumps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/numbers/numbers_impl.h"
#include "base/mem/scoped.h"

tess_status tess_numbers_create(tess_engine *e, tess_numbers **out)
{
    tess_numbers *n;
    const tess_config *c = e->config;
    TESS_TRY(TESS_NEW(e->mem, 1, "numbers", &n));
    n->engine = e;
    n->recording.mem = e->mem;
    n->recording.max_tokens = c->training.local_batch_size * c->training.seq_len;
    n->checking = c->numbers.check == TESS_NUMBERS_ALWAYS;
    tess_numbers_watch(n);
    *out = n;
    return TESS_OK;
}

void tess_numbers_destroy(tess_numbers **handle)
{
    tess_numbers *n = *handle;
    if (n == NULL)
        return;
    tess_recording_free(&n->recording);
    tess_mem_drop(handle);
}

tess_spikes *tess_numbers_losses(tess_numbers *n)
{
    return &n->losses;
}

tess_spikes *tess_numbers_norms(tess_numbers *n)
{
    return &n->norms;
}

void tess_numbers_set_drill(tess_numbers *n, const tess_watch *drill)
{
    n->drill = drill != NULL ? *drill : (tess_watch){NULL, NULL};
    tess_numbers_watch(n);
}

int64_t tess_numbers_local(const tess_numbers *n)
{
    return n->local;
}

void tess_numbers_blame(const tess_numbers *n, int rank)
{
    tess_runtime_report_of(n->engine->runtime, rank, tess_error_message());
}

/* ---- Messages about a step that is not finite ---- */
static void describe_place(const tess_numbers *n, const tess_replay *replay, char *text, size_t size)
{
    const tess_bad_number *b = &replay->first;
    char where[96] = "", others[64] = "";
    int64_t n_passes = n->engine->config->training.passes;
    if (b->stage == TESS_BAD_NONE || b->stage == TESS_BAD_LOSS) {
        snprintf(text, size, b->stage == TESS_BAD_LOSS ? "the loss of rank %d" : "no single value", b->rank);
        return;
    }
    if (b->stage == TESS_BAD_COMPUTED || b->stage == TESS_BAD_GRADIENT)
        snprintf(where, sizeof(where), ", micro-batch %lld of 0..%lld", (long long)b->micro,
                 (long long)(n->recording.source.n_micro - 1));
    if (b->stage == TESS_BAD_COMPUTED && n_passes > 1)
        snprintf(where + strlen(where), sizeof(where) - strlen(where), ", pass %lld of 0..%lld", (long long)b->pass,
                 (long long)n_passes - 1);
    if (b->stage == TESS_BAD_SUM && replay->culprit < 0 && !replay->repeats)
        snprintf(others, sizeof(others), "; who made it is not known, numbers.check=always would tell");
    else if (replay->n_ranks > 1)
        snprintf(others, sizeof(others), "; %d ranks see it at this place", replay->n_ranks);
    snprintf(text, size, "rank %d%s%s: %s is %g at row %lld, column %lld (%lld of %lld values are bad%s)", b->rank,
             b->stage == TESS_BAD_SUM ? " owns the rows" : "", where, b->tensor, isnan(b->value) ? NAN : b->value,
             (long long)b->row, (long long)b->column, (long long)b->n_bad, (long long)b->n_values, others);
}

static const char *advice(const tess_replay *replay)
{
    if (!replay->repeats)
        return "the same computation was well the second time: a fault of memory or processor, or a race; `tessera "
               "doctor preflight` checks the machine";
    switch (replay->first.stage) {
    case TESS_BAD_WEIGHT:
        return "the weights were bad before this step: go back to a checkpoint";
    case TESS_BAD_COMPUTED:
        return "all weights were finite: lower optimizer.lr, or look at this micro-batch's data";
    default:
        return "every micro-batch was finite, their sum is too large: lower optimizer.lr";
    }
}

static void describe(const tess_numbers *n, const tess_engine_report *report, const tess_replay *replay, char *text,
                     size_t size)
{
    char place[512];
    describe_place(n, replay, place, sizeof(place));
    snprintf(text, size, "step %lld: loss %g, gradient norm %g: %s %s; %s", (long long)n->engine->step + 1,
             report->loss, report->grad_norm,
             replay->repeats ? "first came" : "computed again it is well; what was seen first:", place, advice(replay));
}

/* ---- Consequences ---- */
/* Skips the step's update. Too many skips in a row end the run. */
static tess_status skip(tess_numbers *n, tess_engine_report *report)
{
    int64_t limit = n->engine->config->numbers.max_skips;
    report->skipped = true;
    n->n_skipped++;
    n->n_skipped_in_a_row++;
    TESS_CHECK(n->n_skipped_in_a_row <= limit, TESS_E_NOT_FINITE,
               "%s; %lld steps in a row were skipped before it (numbers.max_skips=%lld)", report->note,
               (long long)limit, (long long)limit);
    size_t used = strlen(report->note);
    snprintf(report->note + used, sizeof(report->note) - used, "; its update is skipped (%lld so far)",
             (long long)n->n_skipped);
    return TESS_OK;
}

/* Handles a step that is not finite. A gathered copy may be corrupt, so the weights are gathered again at their next
 * use. */
static tess_status handle_not_finite(tess_numbers *n, const tess_loss_sum *own, tess_engine_report *report)
{
    tess_replay replay = {0};
    const tess_config *c = n->engine->config;
    TESS_TRY(tess_numbers_replay(n, own, &replay));
    describe(n, report, &replay, report->note, sizeof(report->note));
    if (c->numbers.on_nonfinite == TESS_NUMBERS_STOP) {
        tess_status status = TESS_FAIL(replay.repeats ? TESS_E_NOT_FINITE : TESS_E_MISMATCH,
                                       "%s; the last checkpoint is untouched", report->note);
        tess_numbers_blame(n, replay.culprit);
        return status;
    }
    TESS_TRY(tess_fsdp_params_changed(n->engine->fsdp));
    if (replay.repeats)
        return skip(n, report);
    report->loss = replay.again.loss;
    report->grad_norm = replay.again.grad_norm;
    size_t used = strlen(report->note);
    snprintf(report->note + used, sizeof(report->note) - used, "; the run goes on with the second result");
    return TESS_OK;
}

static tess_status check_spikes(tess_numbers *n, tess_engine_report *report)
{
    const tess_config *c = n->engine->config;
    report->zloss = tess_spikes_add(&n->losses, report->loss);
    report->zgrad = tess_spikes_add(&n->norms, report->grad_norm);
    bool loss_skips = c->numbers.skip_update_lossz > 0 && report->zloss > c->numbers.skip_update_lossz;
    bool norm_skips = c->numbers.skip_update_gradz > 0 && report->zgrad > c->numbers.skip_update_gradz;
    double z = fmax(report->zloss, report->zgrad);
    int64_t step = n->engine->step + 1;
    bool is_news = n->told_step == 0 || step - n->told_step >= TESS_SPIKE_WINDOW || z > n->told_z;
    bool warn = c->numbers.spike_z > 0 && z > c->numbers.spike_z && is_news;
    if (warn) {
        n->told_step = step;
        n->told_z = z;
    }
    if (report->note[0] == '\0' && (warn || loss_skips || norm_skips))
        snprintf(report->note, sizeof(report->note),
                 "spike at step %lld: loss %.4f (z %+.2f), gradient norm %.4f (z %+.2f) among the newest %d",
                 (long long)step, report->loss, report->zloss, report->grad_norm, report->zgrad, TESS_SPIKE_WINDOW);
    return loss_skips || norm_skips ? skip(n, report) : TESS_OK;
}

tess_status tess_numbers_check_step(tess_numbers *n, const tess_loss_sum *own, tess_engine_report *report)
{
    report->zloss = report->zgrad = NAN;
    if (report->skipped) /* an overflow in the search for the loss scale, which is expected */
        return TESS_OK;
    if (!isfinite(report->loss) || !isfinite(report->grad_norm))
        TESS_TRY(handle_not_finite(n, own, report));
    if (!report->skipped)
        TESS_TRY(check_spikes(n, report));
    if (!report->skipped)
        n->n_skipped_in_a_row = 0;
    return TESS_OK;
}
