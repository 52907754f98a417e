#include "control/supervise/run_memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/text.h"

enum { OTHER_NAMES = 100 };

/* Returns one folder name for each dump folder. If another user has taken the name, a number is appended. */
tess_status tess_run_memory_folder(const char *dump_folder, char *path, size_t size)
{
    char whole[PATH_MAX];
    TESS_CHECK(realpath(dump_folder, whole) != NULL, TESS_E_IO, "job.dump_folder: cannot find %s", dump_folder);
    for (int i = 0; i < OTHER_NAMES; i++) {
        struct stat info;
        size_t at = tess_text_add(path, size, 0, "/dev/shm/tessera-%u-%016llx", (unsigned)geteuid(),
                                  (unsigned long long)tess_hash_text(whole));
        if (i > 0)
            tess_text_add(path, size, at, "-%d", i);
        if (lstat(path, &info) != 0 || info.st_uid == geteuid())
            return TESS_OK;
    }
    return TESS_FAIL(TESS_E_INVALID, "%s and other such names belong to other users: remove them", path);
}

static tess_status create(const tess_config *config, int n_ranks, tess_run_memory *r)
{
    *r = (tess_run_memory){0};
    if (config->checkpoint.memory_copies) {
        TESS_TRY(tess_os_make_dirs(config->job.dump_folder));
        TESS_TRY(tess_run_memory_folder(config->job.dump_folder, r->folder, sizeof(r->folder)));
    }
    TESS_TRY(tess_mem_create(&r->mem));
    tess_status status = tess_persist_set_create(r->mem, n_ranks, r->folder[0] != '\0' ? r->folder : NULL,
                                                 (uint64_t)n_ranks, &r->persist);
    if (status != TESS_OK)
        tess_mem_destroy(&r->mem);
    return status;
}

/* Reports copies that an interrupted run left in memory, and that this run does not use. */
static void report_unused_copies(const char *dump_folder, const tess_reporter *reporter)
{
    char path[128];
    if (!tess_os_is_dir(dump_folder) || tess_run_memory_folder(dump_folder, path, sizeof(path)) != TESS_OK ||
        !tess_os_is_dir(path))
        return;
    tess_report_line(reporter,
                     "copies of this run's last step lie in memory (%s) and are not used: "
                     "checkpoint.memory_copies=true goes on from them, `rm -r %s` removes them",
                     path, path);
}

tess_status tess_run_memory_begin(const tess_config *config, int n_ranks, tess_launch_options *options,
                                  tess_run_memory *r)
{
    options->persist = NULL;
    if (!config->checkpoint.memory_copies && options->n_before == 0)
        report_unused_copies(config->job.dump_folder, &options->reporter);
    if (!(config->recovery.enable && config->recovery.hot) && !config->checkpoint.memory_copies)
        return TESS_OK;
    tess_status status =
        r->mem != NULL ? tess_persist_set_next(&r->persist, (uint64_t)n_ranks) : create(config, n_ranks, r);
    if (status == TESS_OK && tess_config_offloads_state(config) && config->offload.folder[0] != '\0')
        status = tess_persist_set_add_disk(&r->persist, config->offload.folder, (uint64_t)n_ranks);
    if (status != TESS_OK)
        return tess_fail_context(status, "memory that outlives ranks (recovery.hot, checkpoint.memory_copies)");
    options->persist = &r->persist;
    return TESS_OK;
}

void tess_run_memory_end(tess_run_memory *r, bool over, const tess_reporter *reporter)
{
    if (r->mem == NULL)
        return;
    if (!over && r->folder[0] != '\0')
        tess_report_line(reporter,
                         "the state of the last step stays in memory (%s): the same command goes on from it, "
                         "checkpoint.memory_copies=false from the newest checkpoint",
                         r->folder);
    tess_persist_set_destroy(&r->persist, over);
    tess_mem_destroy(&r->mem);
}
