/* Saves beside training: the trainer's side of ckpt/async. */
#include "train/trainer_impl.h"

#include <stdio.h>

#include "base/os/os.h"
#include "base/text/text.h"

/* Short waits for the save before are nobody's business. */
static const double report_wait_s = 0.05;

/* ---- A failure ---- */
/* The others do not know of it, or the job is about to end: it is no save that failed. */
static bool ends_the_job(tess_status status)
{
    return status == TESS_E_PEER_LOST || status == TESS_E_TIMEOUT || status == TESS_E_MISMATCH ||
           status == TESS_E_CANCELLED || status == TESS_E_INTERRUPTED;
}

tess_status tess_trainer_judge_save(const tess_trainer *t, tess_status status, bool last)
{
    if (status == TESS_OK || ends_the_job(status) || last || t->config.checkpoint.on_error == TESS_SAVE_ERROR_STOP)
        return status;
    tess_trainer_warn(t, "%s; older checkpoints stand, and training goes on (checkpoint.on_error=warn)",
                      tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* ---- Having a writer ---- */
static void give_up(tess_trainer *t)
{
    tess_saver_destroy(&t->saver);
    tess_trainer_warn(t, "%s; training stands still while a checkpoint is written", tess_error_message());
    tess_error_clear();
}

static tess_status prepare(tess_trainer *t)
{
    tess_ckpt_tensor *tensors;
    int n;
    TESS_TRY(tess_trainer_list_tensors(t, &tensors, &n));
    tess_status status = tess_saver_prepare(t->saver, tensors, n);
    tess_mem_free(t->mem, tensors);
    return status;
}

tess_status tess_trainer_open_saver(tess_trainer *t)
{
    const tess_config *c = &t->config;
    tess_saver_options options = {.codec = (tess_codec)c->checkpoint.compress,
                                  .direct = c->checkpoint.direct_io,
                                  .host_local = c->checkpoint.host_local,
                                  .keep_latest_k = (int)c->checkpoint.keep_latest_k,
                                  .host_wait_s = c->comm.timeout_s,
                                  .fault = c->fault.spec,
                                  .fault_seed = (uint64_t)c->fault.seed};
    if (!c->checkpoint.enable || !c->checkpoint.async)
        return TESS_OK;
    TESS_TRY(tess_saver_create(t->runtime, t->hosts, t->engine->stream->threads, &options, &t->saver));
    if (t->saver == NULL)
        return TESS_OK;
    if (!t->goes_on) /* which reads no checkpoint */
        TESS_TRY(tess_saver_wait(t->saver));
    tess_status status = prepare(t);
    if (status == TESS_OK || ends_the_job(status))
        return status;
    give_up(t);
    return TESS_OK;
}

/* ---- Saving ---- */
static void report_stall(const tess_trainer *t, double waited_s, double staged_s)
{
    char waited[64] = "";
    if (waited_s >= report_wait_s)
        snprintf(waited, sizeof(waited), ", after %.2f s of waiting for the one before", waited_s);
    tess_trainer_note(t, "checkpoint: step-%08lld staged in %.3f s%s", (long long)t->engine->step, staged_s, waited);
}

/* How the save before went must be heard before it is forgotten. */
static tess_status await_last(tess_trainer *t, double *waited_s)
{
    double begin_s = tess_os_now_s();
    TESS_TRY(tess_saver_wait(t->saver));
    *waited_s = tess_os_now_s() - begin_s;
    return tess_trainer_hear_saves(t);
}

tess_status tess_trainer_stage(tess_trainer *t, const char *folder, const json_t *meta, const tess_ckpt_tensor *tensors,
                               int n, bool *done)
{
    double waited_s;
    tess_saver_times times;
    *done = false;
    if (t->saver == NULL)
        return TESS_OK;
    if (t->stopping)
        tess_saver_hurry(t->saver);
    TESS_TRY(await_last(t, &waited_s));
    tess_status status = tess_saver_save(t->saver, folder, t->engine->step, meta, tensors, n, &times);
    if (status == TESS_E_UNSUPPORTED) {
        give_up(t);
        return TESS_OK;
    }
    TESS_TRY(status);
    *done = true;
    report_stall(t, waited_s, times.staged_s);
    return TESS_OK;
}

/* ---- Hearing of it ---- */
static tess_status hear(tess_trainer *t, bool last)
{
    char bytes[32];
    tess_saver_outcome outcome;
    tess_status status = tess_saver_hear(t->saver, &outcome);
    if (outcome.warning[0] != '\0')
        tess_trainer_warn(t, "%s", outcome.warning);
    if (outcome.committed)
        tess_trainer_note(t, "checkpoint: %s/%s/step-%08lld written in %.2f s, %s/s", t->config.job.dump_folder,
                          t->config.checkpoint.folder, (long long)outcome.step, outcome.seconds,
                          tess_format_bytes((double)outcome.bytes / outcome.seconds, bytes, sizeof(bytes)));
    return tess_trainer_judge_save(t, status, last);
}

tess_status tess_trainer_hear_saves(tess_trainer *t)
{
    return t->saver != NULL ? hear(t, false) : TESS_OK;
}

tess_status tess_trainer_finish_saves(tess_trainer *t)
{
    if (t->saver == NULL)
        return TESS_OK;
    tess_runtime_phase(t->runtime, "checkpoint", t->engine->step, -1);
    TESS_TRY(tess_saver_wait(t->saver));
    return hear(t, true);
}
