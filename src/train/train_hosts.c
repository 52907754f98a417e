/* A run over several hosts: what follows from where its ranks are, and what the hosts must have in common. */
#include "ckpt/same_files.h"
#include "ckpt/shared_folder.h"
#include "tessera/comm.h"
#include "train/trainer_impl.h"

static tess_status fit_config(tess_trainer *t)
{
    int *counts;
    const tess_ckpt_hosts *hosts = t->hosts;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)hosts->n, sizeof(*counts), "ranks of hosts",
                                  (void **)&counts));
    for (int host = 0; host < hosts->n; host++)
        counts[host] = hosts->last[host] - hosts->first[host] + 1;
    tess_status status = tess_config_fit_hosts(&t->config, counts, hosts->n);
    tess_mem_free(t->mem, counts);
    return status;
}

/* Rank 0 looks for all: hosts may see a shared folder at different ages. */
static tess_status take_batch(tess_trainer *t)
{
    int64_t *rows = &t->config.training.global_batch_size;
    if (t->rank == 0)
        tess_train_take_batch(t->mem, &t->config);
    return tess_broadcast(t->team, rows, 1, TESS_I64, 0, NULL);
}

tess_status tess_trainer_join_hosts(tess_trainer *t)
{
    int host = tess_runtime_host(t->runtime);
    TESS_TRY(tess_ckpt_hosts_create(t->mem, t->team, host, tess_runtime_host_name(t->runtime, host), &t->hosts));
    TESS_TRY(fit_config(t));
    TESS_TRY(take_batch(t));
    return tess_config_check(&t->config, t->world);
}

static tess_status check_list(const tess_trainer *t, const tess_text_list *list, const char *what)
{
    const char *paths[TESS_LIST_SIZE];
    for (int i = 0; i < list->n; i++)
        paths[i] = list->item[i];
    return tess_ckpt_check_same_files(t->hosts, paths, list->n, what);
}

tess_status tess_trainer_check_hosts(tess_trainer *t)
{
    const tess_config *c = &t->config;
    bool from_weights = c->model.path[0] != '\0';
    const char *model = from_weights ? c->model.path : c->model.config;
    TESS_TRY(tess_ckpt_check_same_files(t->hosts, &model, 1, from_weights ? "model.path" : "model.config"));
    TESS_TRY(check_list(t, &c->data.files, "data.files"));
    if (c->validation.enable)
        TESS_TRY(check_list(t, &c->validation.files, "validation.files"));
    if (c->checkpoint.host_local)
        return TESS_OK;
    return tess_ckpt_check_shared_folder(t->hosts, c->job.dump_folder, "job.dump_folder");
}
