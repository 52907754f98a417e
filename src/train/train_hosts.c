/* Fits the configuration to the hosts and to an earlier run, and checks what hosts must have in common. */
#include <stdio.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/same_files.h"
#include "ckpt/shared_folder.h"
#include "ckpt/store/read.h"
#include "job/lives.h"
#include "mesh/rank_order.h"
#include "nn/named_models.h"
#include "tessera/comm.h"
#include "train/auto_batch.h"
#include "train/trainer_impl.h"

static tess_status fit_config(tess_trainer *t)
{
    TESS_AUTO(tess_mem_drop) int *counts = NULL;
    const tess_ckpt_hosts *hosts = t->hosts;
    TESS_TRY(TESS_NEW(t->mem, hosts->n, "ranks of hosts", &counts));
    for (int host = 0; host < hosts->n; host++)
        counts[host] = hosts->last[host] - hosts->first[host] + 1;
    return tess_config_fit_hosts(&t->config, counts, hosts->n);
}

static void choose_precision(tess_trainer *t)
{
    int named = t->config.training.mixed_precision_param;
    tess_precision chosen = tess_config_precision(&t->config, tess_runtime_kernels(t->runtime));
    t->config.training.mixed_precision_param = (int)chosen;
    t->fell_back = named == TESS_PRECISION_AUTO && chosen == TESS_PRECISION_F32;
}

/* Reads the rows of a step, and of a micro-batch, from the checkpoint that this run would resume from. */
static tess_status read_batch(tess_mem *mem, const tess_config *config, int64_t *rows, int64_t *micro)
{
    char folder[TESS_CKPT_PATH];
    tess_catalog *catalog;
    int64_t step = config->checkpoint.load_step;
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder));
    if (step < 0)
        TESS_TRY(tess_ckpt_latest(folder, NULL, &step));
    TESS_TRY(tess_ckpt_open_step(mem, folder, step, &catalog));
    const json_t *meta = json_object_get(catalog->meta, "meta");
    const json_t *training = json_object_get(json_object_get(meta, "config"), "training");
    tess_status status = tess_json_get_int(meta, "global_batch_size", folder, rows);
    if (status == TESS_OK)
        status = tess_json_get_int(training, "local_batch_size", folder, micro);
    tess_catalog_destroy(&catalog);
    return status;
}

void tess_train_take_batch(tess_mem *mem, tess_config *config)
{
    int64_t rows = 0, micro = 0;
    const bool is_open = config->training.global_batch_size == 0, chooses = tess_config_batch_is_open(config);
    if ((!is_open && !chooses) || !config->checkpoint.enable || !config->checkpoint.resume)
        return;
    if (read_batch(mem, config, &rows, &micro) != TESS_OK) {
        tess_error_clear();
        return;
    }
    if (is_open && rows > 0)
        config->training.global_batch_size = rows;
    if (chooses && micro > 0)
        config->training.local_batch_size = micro;
}

/* Makes the team of the mesh if its places are not in the order of the ranks. Collective over the ranks that train. */
static tess_status order_ranks(tess_trainer *t)
{
    TESS_AUTO(tess_mem_drop) int *hosts = NULL;
    bool ordered;
    if (t->is_aside)
        return TESS_OK;
    const int n = tess_team_size(t->team);
    TESS_TRY(TESS_NEW(t->mem, 2 * n, "order of ranks", &hosts));
    int *ranks = hosts + n;
    for (int rank = 0; rank < n; rank++)
        hosts[rank] = tess_team_host(t->team, rank);
    TESS_TRY(tess_rank_order_fill(&t->config.parallelism, hosts, ranks, &ordered));
    return ordered ? tess_rank_order_team(t->team, ranks, &t->ordered) : TESS_OK;
}

/* Tells the number to a launcher of several hosts, which starts later lives of the job with it. */
static void tell_launcher(int64_t rows)
{
    char line[TESS_LIVES_LINE_BYTES + 2];
    if (tess_variable_value(TESS_VAR_LAUNCH_REPORTS) == NULL)
        return;
    tess_lives_rows_write(rows, line);
    strcat(line, "\n");
    fputs(line, stderr); /* a single write: otherwise, lines of other ranks could come in between */
}

/* Sets what is open of the batch. Rank 0 reads for all ranks: hosts may see different ages of a shared folder. */
static tess_status settle_batch(tess_trainer *t)
{
    const bool chooses = tess_config_batch_is_open(&t->config) && t->kind->program == NULL;
    tess_team *all = tess_runtime_team(t->runtime); /* ranks that only draw need the same numbers */
    if (tess_team_rank(all) == 0)
        tess_train_take_batch(t->mem, &t->config);
    int64_t rows[] = {t->config.training.global_batch_size, t->config.training.local_batch_size};
    TESS_TRY(tess_broadcast(all, rows, 2, TESS_I64, 0, NULL));
    t->config.training.global_batch_size = rows[0];
    t->config.training.local_batch_size = rows[1];
    if (chooses && rows[1] > 0)
        tess_trainer_note(t, "training.local_batch_size=auto: %lld row%s, as in the checkpoint", (long long)rows[1],
                          rows[1] == 1 ? "" : "s");
    else if (chooses)
        TESS_TRY(tess_trainer_choose_batch(t));
    if (chooses && tess_team_rank(all) == 0)
        tell_launcher(t->config.training.local_batch_size);
    return TESS_OK;
}

tess_status tess_trainer_join_hosts(tess_trainer *t)
{
    int host = tess_runtime_host(t->runtime);
    TESS_TRY(tess_ckpt_hosts_create(t->mem, t->team, host, tess_runtime_host_name(t->runtime, host), &t->hosts));
    TESS_TRY(fit_config(t));
    choose_precision(t);
    TESS_TRY(settle_batch(t));
    const int64_t warmup = t->config.lr_scheduler.warmup_steps;
    const int world = tess_runtime_world(t->runtime);
    TESS_TRY(t->kind->program != NULL ? tess_config_check_run(&t->config, world)
                                      : tess_config_check(&t->config, world));
    if (warmup > t->config.lr_scheduler.warmup_steps)
        tess_trainer_note(t,
                          "lr_scheduler.warmup_steps: %lld is more than the %lld steps of the schedule: warming up in "
                          "all of them",
                          (long long)warmup, (long long)t->config.lr_scheduler.warmup_steps);
    return order_ranks(t);
}

/* Compares the files that patterns match: a pattern may match more files on one host than on another. */
tess_status tess_trainer_check_files(const tess_trainer *t, const char *const *paths, size_t n_paths, const char *what)
{
    int64_t n[] = {(int64_t)n_paths, -(int64_t)n_paths};
    TESS_TRY(tess_all_reduce(t->team, n, n, 2, TESS_I64, TESS_MIN, NULL));
    TESS_CHECK(n[0] == -n[1], TESS_E_INVALID, "%s: %lld files on one host, %lld on another", what, (long long)n[0],
               -(long long)n[1]);
    return tess_ckpt_check_same_files(t->hosts, paths, (int)n_paths, what);
}

tess_status tess_trainer_check_hosts(tess_trainer *t)
{
    const tess_config *c = &t->config;
    bool from_weights = c->model.path[0] != '\0';
    const char *model = from_weights ? c->model.path : c->model.config;
    if (t->kind->program == NULL && (from_weights || tess_named_model(model) == NULL))
        TESS_TRY(tess_ckpt_check_same_files(t->hosts, &model, 1, from_weights ? "model.path" : "model.config"));
    if (c->checkpoint.host_local)
        return TESS_OK;
    return tess_ckpt_check_shared_folder(t->hosts, c->job.dump_folder, "job.dump_folder");
}
