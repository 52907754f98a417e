#include "bench/step/step_models.h"

#include "base/os/os.h"

tess_status step_model_config(const char *name, tess_model_config *config, bool *folder)
{
    char path[1024];
    *folder = tess_os_is_dir(name);
    if (!*folder)
        return tess_model_config_load(name, config);
    TESS_TRY(tess_os_join(path, sizeof(path), name, "config.json"));
    return tess_model_config_load(path, config);
}
