#include "cli/replacing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "cli/cli.h"

/* One folder a job: by its dump folder, which need not be there yet. */
static tess_status copies_folder(const char *dump_folder, char *path, size_t size)
{
    char whole[PATH_MAX];
    TESS_TRY(tess_os_make_dirs(dump_folder));
    TESS_CHECK(realpath(dump_folder, whole) != NULL, TESS_E_IO, "job.dump_folder: cannot find %s", dump_folder);
    snprintf(path, size, "/dev/shm/tessera-%u-%016llx", (unsigned)geteuid(), (unsigned long long)tess_hash_text(whole));
    return TESS_OK;
}

static tess_status open_keep(const tess_config *config, int n_ranks, cli_replacing *r)
{
    if (config->checkpoint.memory_copies)
        TESS_TRY(copies_folder(config->job.dump_folder, r->folder, sizeof(r->folder)));
    return tess_keep_set_create(r->mem, n_ranks, r->folder[0] != '\0' ? r->folder : NULL, (uint64_t)n_ranks, &r->keep);
}

tess_status cli_replacing_begin(const tess_config *config, int n_ranks, tess_launch_options *options, cli_replacing *r)
{
    *r = (cli_replacing){0};
    options->keep = NULL;
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
