/* Saves checkpoints of other engines while they run, through the writer process of ckpt/async. Without that process,
 * ranks pause during a save. */
#include <stdio.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "ckpt/store/store.h"
#include "comm/agree.h"
#include "embed/embed_impl.h"

/* Timeout in seconds for writers of several hosts that wait for each other. */
static const double host_wait_s = 600;

struct tess_checkpoint_saver {
    tess_runtime *runtime;
    tess_mem *mem;
    tess_threads *threads;
    tess_ckpt_hosts *hosts;
    tess_saver *beside; /* NULL: ranks pause during a save */
    int keep;
    bool started; /* a save has begun, and its result has not been reported yet */
};

/* ---- Creating ---- */
/* Whether an error ends the job, or the other ranks do not know of it. */
static bool ends_the_job(tess_status status)
{
    return status == TESS_E_PEER_LOST || status == TESS_E_TIMEOUT || status == TESS_E_MISMATCH ||
           status == TESS_E_CANCELLED || status == TESS_E_INTERRUPTED;
}

static void warn(const tess_checkpoint_saver *s, const char *consequence)
{
    char text[1200];
    snprintf(text, sizeof(text), "checkpoint: %s%s", tess_error_message(), consequence);
    tess_error_clear();
    if (tess_runtime_rank(s->runtime) == 0)
        tess_runtime_warn(s->runtime, text);
}

static void give_up(tess_checkpoint_saver *s)
{
    tess_saver_destroy(&s->beside);
    warn(s, "; ranks stand still while a checkpoint is written");
}

/* Finds the writer process, and allocates memory for the listed tensors. */
static tess_status open_beside(tess_checkpoint_saver *s, const embed_tensors *list)
{
    const tess_saver_options options = {
        .keep_latest_k = s->keep, .host_wait_s = host_wait_s, .fault = tess_variable_value(TESS_VAR_FAULT)};
    TESS_TRY(tess_saver_create(s->runtime, s->hosts, s->threads, &options, &s->beside));
    tess_status status =
        s->beside != NULL ? tess_saver_prepare(s->beside, list->items, list->n)
                          : TESS_FAIL(TESS_E_NOT_FOUND,
                                      "nobody started a process that writes beside the ranks, as `tessera run` does");
    if (status == TESS_OK || ends_the_job(status))
        return status;
    give_up(s);
    return TESS_OK;
}

static tess_status open_all(tess_checkpoint_saver *s, const tess_checkpoint_state *state)
{
    tess_team *team = tess_runtime_team(s->runtime);
    int host = tess_runtime_host(s->runtime);
    TESS_AUTO(embed_tensors_free) embed_tensors list = {0};
    TESS_TRY(embed_tensors_list(s->runtime, state, &list));
    TESS_TRY(tess_team_agree(team, tess_threads_create(s->mem, tess_runtime_threads(s->runtime), &s->threads)));
    TESS_TRY(tess_ckpt_hosts_create(s->mem, team, host, tess_runtime_host_name(s->runtime, host), &s->hosts));
    return open_beside(s, &list);
}

tess_status tess_checkpoint_saver_create(tess_runtime *runtime, const tess_checkpoint_state *state, int keep,
                                         tess_checkpoint_saver **saver)
{
    TESS_CHECK(runtime != NULL && state != NULL && saver != NULL, TESS_E_INVALID,
               "tess_checkpoint_saver_create: a NULL argument");
    *saver = NULL;
    TESS_CHECK(keep >= 0, TESS_E_INVALID, "tess_checkpoint_saver_create: keep is %d; 0 keeps all", keep);
    tess_checkpoint_saver *s = NULL;
    tess_mem *mem = tess_runtime_mem(runtime);
    TESS_TRY(tess_team_agree(tess_runtime_team(runtime), TESS_NEW(mem, 1, "saver", &s)));
    *s = (tess_checkpoint_saver){.runtime = runtime, .mem = mem, .keep = keep};
    tess_status status = open_all(s, state);
    if (status == TESS_OK)
        *saver = s;
    else
        tess_checkpoint_saver_destroy(&s);
    return status;
}

void tess_checkpoint_saver_destroy(tess_checkpoint_saver **saver)
{
    tess_checkpoint_saver *s = saver != NULL ? *saver : NULL;
    if (s == NULL)
        return;
    *saver = NULL;
    tess_saver_destroy(&s->beside);
    if (s->hosts != NULL)
        tess_ckpt_hosts_destroy(&s->hosts);
    if (s->threads != NULL)
        tess_threads_destroy(&s->threads);
    tess_mem_free(s->mem, s);
}

bool tess_checkpoint_saver_is_async(const tess_checkpoint_saver *saver)
{
    return saver != NULL && saver->beside != NULL;
}

/* ---- Saving ---- */
/* Makes `folder` an absolute path, because the writer process may have another working directory than this rank. */
static tess_status whole_path(const char *folder, char path[TESS_CKPT_PATH])
{
    char here[TESS_CKPT_PATH];
    if (folder[0] == '/')
        here[0] = '\0';
    else if (getcwd(here, sizeof(here)) == NULL)
        return tess_os_error("getcwd", folder);
    int n = snprintf(path, TESS_CKPT_PATH, "%s%s%s", here, here[0] != '\0' ? "/" : "", folder);
    return n < TESS_CKPT_PATH ? TESS_OK : TESS_FAIL(TESS_E_INVALID, "checkpoint: the path '%s' is too long", folder);
}

static tess_status stage(tess_checkpoint_saver *s, const char *folder, int64_t step, const embed_tensors *list,
                         const json_t *meta)
{
    char path[TESS_CKPT_PATH];
    tess_saver_times times;
    TESS_TRY(tess_team_agree(tess_runtime_team(s->runtime), whole_path(folder, path)));
    TESS_TRY(tess_ckpt_check_save(tess_runtime_team(s->runtime), path, step, list->items, list->n));
    return tess_saver_save(s->beside, path, step, meta, list->items, list->n, &times);
}

static tess_status start_beside(tess_checkpoint_saver *s, const char *folder, int64_t step,
                                const tess_checkpoint_state *state, const char *text)
{
    TESS_AUTO(embed_tensors_free) embed_tensors list = {0};
    json_auto_t *meta = NULL;
    TESS_TRY(embed_meta_parse(s->runtime, text, &meta));
    TESS_TRY(embed_tensors_list(s->runtime, state, &list));
    return stage(s, folder, step, &list, meta);
}

static tess_status save_here(tess_checkpoint_saver *s, const char *folder, int64_t step,
                             const tess_checkpoint_state *state, const char *meta)
{
    TESS_TRY(tess_checkpoint_save(s->runtime, folder, step, state, meta));
    return s->keep > 0 ? tess_checkpoint_prune(s->runtime, folder, s->keep) : TESS_OK;
}

tess_status tess_checkpoint_save_start(tess_checkpoint_saver *s, const char *folder, int64_t step,
                                       const tess_checkpoint_state *state, const char *meta)
{
    TESS_CHECK(s != NULL && folder != NULL && state != NULL, TESS_E_INVALID,
               "tess_checkpoint_save_start: a NULL argument");
    TESS_TRY(tess_checkpoint_save_wait(s));
    if (s->beside == NULL)
        return save_here(s, folder, step, state, meta);
    tess_status status = start_beside(s, folder, step, state, meta);
    s->started = status == TESS_OK;
    if (status != TESS_E_UNSUPPORTED)
        return status;
    give_up(s); /* the writer process is gone */
    return save_here(s, folder, step, state, meta);
}

bool tess_checkpoint_save_done(const tess_checkpoint_saver *s)
{
    return s == NULL || !s->started || !tess_saver_is_busy(s->beside);
}

tess_status tess_checkpoint_save_wait(tess_checkpoint_saver *s)
{
    tess_saver_outcome outcome;
    TESS_CHECK(s != NULL, TESS_E_INVALID, "tess_checkpoint_save_wait: a NULL argument");
    if (!s->started)
        return TESS_OK;
    TESS_TRY(tess_saver_wait(s->beside));
    s->started = false;
    tess_status status = tess_saver_hear(s->beside, &outcome);
    if (outcome.warning[0] != '\0' && tess_runtime_rank(s->runtime) == 0)
        tess_runtime_warn(s->runtime, outcome.warning);
    return status;
}
