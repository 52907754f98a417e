#include "cli/replacing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "ckpt/store/store.h"
#include "cli/cli.h"
#include "train/logbook.h"

/* One folder a job: by its dump folder, which is there. */
static tess_status copies_folder(const char *dump_folder, char *path, size_t size)
{
    char whole[PATH_MAX];
    TESS_CHECK(realpath(dump_folder, whole) != NULL, TESS_E_IO, "job.dump_folder: cannot find %s", dump_folder);
    snprintf(path, size, "/dev/shm/tessera-%u-%016llx", (unsigned)geteuid(), (unsigned long long)tess_hash_text(whole));
    return TESS_OK;
}

/* The newest step that rank 0 of an earlier launch has left, and how many ranks that launch had; -1: none. */
static tess_status peek(const tess_config *config, cli_replacing *r, int64_t *step, int *n_ranks)
{
    char path[1100];
    int fd;
    tess_keep *keep;
    *step = -1;
    TESS_TRY(tess_os_join(path, sizeof(path), r->folder, "rank-00000.keep"));
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY(tess_os_open_shared(path, &fd));
    if (tess_keep_open(r->mem, fd, &keep) == TESS_OK) {
        *step = tess_logbook_peek(keep, tess_os_folder_id(config->job.dump_folder));
        *n_ranks = (int)tess_keep_identity(keep);
        tess_keep_close(&keep);
    }
    tess_error_clear(); /* a block that is damaged holds nothing */
    tess_os_close(&fd);
    return TESS_OK;
}

/* What is kept is laid out for a number of ranks: another one cannot go on from it, and does not throw it away. */
static tess_status refuse_other_number(const tess_config *config, int n_ranks, cli_replacing *r)
{
    char folder[1024];
    int64_t kept, saved = -1;
    int before = n_ranks;
    if (!config->checkpoint.resume || config->checkpoint.load_step >= 0)
        return TESS_OK;
    TESS_TRY(peek(config, r, &kept, &before));
    if (kept < 0 || before == n_ranks)
        return TESS_OK;
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder));
    if (tess_ckpt_latest(folder, NULL, &saved) != TESS_OK)
        saved = -1;
    tess_error_clear();
    TESS_CHECK(kept <= saved, TESS_E_INVALID,
               "step %lld of this run is kept by %d ranks: -n %d goes on from there; checkpoint.memory_copies=false "
               "goes on from the newest checkpoint",
               (long long)kept, before, before);
    return TESS_OK;
}

static tess_status open_keep(const tess_config *config, int n_ranks, cli_replacing *r)
{
    if (config->checkpoint.memory_copies) {
        TESS_TRY(tess_os_make_dirs(config->job.dump_folder));
        TESS_TRY(copies_folder(config->job.dump_folder, r->folder, sizeof(r->folder)));
        TESS_TRY(refuse_other_number(config, n_ranks, r));
    }
    return tess_keep_set_create(r->mem, n_ranks, r->folder[0] != '\0' ? r->folder : NULL, (uint64_t)n_ranks, &r->keep);
}

/* Memory that nobody will give back, of a run that was broken off. */
static void tell_unused_copies(const char *dump_folder)
{
    char path[128];
    if (!tess_os_is_dir(dump_folder) || copies_folder(dump_folder, path, sizeof(path)) != TESS_OK ||
        !tess_os_is_dir(path))
        return;
    fprintf(stderr,
            "tessera: copies of this run's last step lie in memory (%s) and are not used: "
            "checkpoint.memory_copies=true goes on from them, `rm -r %s` removes them\n",
            path, path);
}

tess_status cli_replacing_begin(const tess_config *config, int n_ranks, tess_launch_options *options, cli_replacing *r)
{
    *r = (cli_replacing){0};
    options->keep = NULL;
    if (!config->checkpoint.memory_copies && options->n_before == 0)
        tell_unused_copies(config->job.dump_folder);
    if (!(config->recovery.enable && config->recovery.hot) && !config->checkpoint.memory_copies)
        return TESS_OK;
    TESS_TRY(tess_mem_create(&r->mem));
    tess_status status = open_keep(config, n_ranks, r);
    if (status != TESS_OK) {
        tess_mem_destroy(&r->mem);
        return tess_fail_context(status, "memory that outlives ranks (recovery.hot, checkpoint.memory_copies)");
    }
    options->keep = &r->keep;
    return TESS_OK;
}

void cli_replacing_end(cli_replacing *r, bool over)
{
    if (r->mem == NULL)
        return;
    if (!over && r->folder[0] != '\0')
        fprintf(stderr, "tessera: the state of the last step stays in memory (%s): the same command goes on from it\n",
                r->folder);
    tess_keep_set_destroy(&r->keep, over);
    tess_mem_destroy(&r->mem);
}
