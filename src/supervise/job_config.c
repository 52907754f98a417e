#include "supervise/job_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "job/environment.h"

enum { CONFIG_LIMIT = 1 << 20 };

static const char variable[] = "TESSERA_CONFIG";

tess_status tess_job_config_persist(tess_mem *mem, const char *path)
{
    char *text, name[32];
    size_t size;
    int fd = -1;
    TESS_TRY(tess_os_read(mem, path, CONFIG_LIMIT, &text, &size));
    tess_status status = tess_os_memfd("tessera-config", size, &fd);
    if (status == TESS_OK)
        status = tess_os_write_at(fd, 0, text, size, "the configuration's copy");
    tess_mem_free(mem, text);
    if (status != TESS_OK) {
        tess_os_close(&fd);
        return status;
    }
    tess_os_inherit(fd);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    setenv(variable, name, 1);
    return TESS_OK;
}

const char *tess_job_config_path(const char *path)
{
    const char *copy = getenv(variable);
    return copy != NULL && tess_launch_is_rank() ? copy : path;
}
