/* Saves and loads checkpoints of other engines. All ranks call these functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "comm/agree.h"
#include "embed/embed_impl.h"

/* Timeout in seconds for ranks that wait while another reads whole checkpoints. A rank that dies is reported at
 * once. */
static const double reading_s = 86400;

static tess_status parse_meta(const char *text, json_t **meta)
{
    *meta = NULL;
    if (text == NULL)
        return TESS_OK;
    TESS_TRY(tess_json_parse(text, strlen(text), "the meta of a checkpoint", true, meta));
    if (json_is_object(*meta))
        return TESS_OK;
    json_decref(*meta);
    *meta = NULL;
    return TESS_FAIL(TESS_E_INVALID, "the meta of a checkpoint is no JSON object: %.60s", text);
}

tess_status embed_meta_parse(tess_runtime *runtime, const char *text, json_t **meta)
{
    return tess_team_agree(tess_runtime_team(runtime), parse_meta(text, meta));
}

tess_status tess_checkpoint_save(tess_runtime *runtime, const char *folder, int64_t step,
                                 const tess_checkpoint_state *state, const char *meta)
{
    TESS_CHECK(runtime != NULL && folder != NULL && state != NULL, TESS_E_INVALID,
               "tess_checkpoint_save: a NULL argument");
    tess_team *team = tess_runtime_team(runtime);
    tess_io_faults faults = {tess_inject_faults(runtime), step};
    const tess_io io = tess_io_with_faults(&faults);
    TESS_AUTO(embed_tensors_free) embed_tensors list = {0};
    json_auto_t *object = NULL;
    TESS_TRY(embed_meta_parse(runtime, meta, &object));
    TESS_TRY(embed_tensors_list(runtime, state, &list));
    return tess_ckpt_save(list.mem, team, folder, step, object, list.items, list.n, &(tess_store_options){.io = &io});
}

/* The ranks of a host divide the verification among them, and each reads with its threads. */
static tess_status load(tess_runtime *runtime, const char *folder, int64_t step, const embed_tensors *list, bool whole)
{
    tess_team *team = tess_runtime_team(runtime);
    int host = tess_runtime_host(runtime);
    TESS_AUTO(tess_threads_destroy) tess_threads *threads = NULL;
    TESS_AUTO(tess_ckpt_hosts_destroy) tess_ckpt_hosts *hosts = NULL;
    TESS_TRY(tess_team_agree(team, tess_threads_create(list->mem, tess_runtime_threads(runtime), &threads)));
    TESS_TRY(tess_ckpt_hosts_create(list->mem, team, host, tess_runtime_host_name(runtime, host), &hosts));
    const tess_ckpt_load_options options = {.threads = threads, .hosts = hosts, .whole = whole};
    return tess_ckpt_load(list->mem, team, folder, step, list->items, list->n, &options, NULL);
}

tess_status tess_checkpoint_load(tess_runtime *runtime, const char *folder, int64_t step,
                                 const tess_checkpoint_state *state)
{
    TESS_CHECK(runtime != NULL && folder != NULL && state != NULL, TESS_E_INVALID,
               "tess_checkpoint_load: a NULL argument");
    embed_tensors list;
    tess_status status = embed_tensors_list(runtime, state, &list);
    if (status == TESS_OK)
        status = load(runtime, folder, step, &list, !state->partial);
    embed_tensors_free(&list);
    if (status == TESS_OK && state->fsdp != NULL)
        status = tess_fsdp_params_changed(state->fsdp);
    return status;
}

static void warn(void *runtime, const char *text)
{
    if (runtime != NULL)
        tess_runtime_warn(runtime, text);
}

tess_status tess_checkpoint_newest(tess_runtime *runtime, const char *folder, int64_t *step)
{
    TESS_CHECK(folder != NULL && step != NULL, TESS_E_INVALID, "tess_checkpoint_newest: a NULL argument");
    tess_team *team = runtime != NULL ? tess_runtime_team(runtime) : NULL;
    const tess_ckpt_listener listener = {.self = runtime, .note = warn};
    TESS_TRY(tess_team_agree(team, tess_agree_rank(team) == 0 ? tess_ckpt_latest(folder, &listener, step) : TESS_OK));
    return tess_agree_world(team) > 1 ? tess_broadcast(team, step, 1, TESS_I64, 0, NULL) : TESS_OK;
}

tess_status tess_checkpoint_resume(tess_runtime *runtime, const char *folder, const tess_checkpoint_state *state,
                                   int64_t *step)
{
    TESS_CHECK(runtime != NULL && step != NULL, TESS_E_INVALID, "tess_checkpoint_resume: a NULL argument");
    *step = 0;
    tess_status status = tess_checkpoint_newest(runtime, folder, step);
    if (status == TESS_OK)
        return tess_checkpoint_load(runtime, folder, *step, state);
    *step = 0;
    if (status != TESS_E_NOT_FOUND)
        return status;
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_checkpoint_prune(tess_runtime *runtime, const char *folder, int keep)
{
    TESS_CHECK(runtime != NULL && folder != NULL, TESS_E_INVALID, "tess_checkpoint_prune: a NULL argument");
    TESS_CHECK(keep >= 1, TESS_E_INVALID, "tess_checkpoint_prune: keep is %d; keep 1 at least", keep);
    tess_team *team = tess_runtime_team(runtime);
    const tess_ckpt_pruner pruner = {.mem = tess_runtime_mem(runtime), .self = runtime, .note = warn};
    tess_team_set_timeout(team, reading_s);
    tess_status status =
        tess_team_agree(team, tess_team_rank(team) == 0 ? tess_ckpt_prune(&pruner, folder, keep, INT64_MAX) : TESS_OK);
    tess_team_set_timeout(team, 0);
    return status;
}
