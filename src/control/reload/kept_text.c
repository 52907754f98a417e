#include "control/reload/kept_text.h"

#include "base/os/os.h"
#include "ckpt/store/store.h"

enum { PATH_BYTES = 4096 };

static const char name[] = "before-reload.yaml"; /* inside job.dump_folder */

tess_status tess_kept_text_write(const tess_config_text *in_force)
{
    char path[PATH_BYTES];
    TESS_TRY(tess_os_join(path, sizeof(path), in_force->config.job.dump_folder, name));
    return tess_os_write_atomic(path, in_force->text, in_force->bytes);
}

void tess_kept_text_remove(const tess_config *config)
{
    char path[PATH_BYTES];
    if (tess_os_join(path, sizeof(path), config->job.dump_folder, name) == TESS_OK)
        tess_os_remove(path);
    else
        tess_error_clear();
}

int64_t tess_kept_text_begin(const tess_config *config)
{
    char folder[PATH_BYTES];
    int64_t newest = 0;
    if (!config->checkpoint.enable || !config->checkpoint.resume)
        return 0;
    if (tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder) != TESS_OK ||
        tess_ckpt_latest(folder, NULL, &newest) != TESS_OK)
        newest = 0;
    tess_error_clear();
    return newest;
}

tess_status tess_kept_text_choose(const tess_config_source *source, tess_config_text **text, bool *kept)
{
    char path[PATH_BYTES];
    tess_config_text *before;
    const tess_config *file = &(*text)->config;
    const int64_t step = file->job.reload ? file->job.reload_step : 0;
    *kept = false;
    if (step == 0 || tess_kept_text_begin(file) >= step)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), file->job.dump_folder, name));
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY_CTX(tess_config_text_read(source, path, &before),
                 "%s has the values until job.reload_step=%lld (remove it if those of %s are to count at once)", path,
                 (long long)step, source->path);
    tess_config_text_free(text);
    *text = before;
    *kept = true;
    return TESS_OK;
}
