#include "ckpt/formats/output.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

enum { WAIT_BYTES = 1 << 20 };

tess_status output_create(tess_mem *mem, const char *path, output *out)
{
    *out = (output){.mem = mem, .fd = -1};
    TESS_CHECK(snprintf(out->path, sizeof(out->path), "%s", path) < (int)sizeof(out->path), TESS_E_INVALID,
               "a path of more than %zu bytes", sizeof(out->path));
    TESS_TRY(tess_os_create(path, 0));
    TESS_TRY(tess_os_open(path, &out->fd));
    tess_status status = tess_mem_alloc(mem, TESS_POOL_MISC, WAIT_BYTES, "output", (void **)&out->wait);
    if (status != TESS_OK)
        tess_os_close(&out->fd);
    return status;
}

static tess_status flush(output *out)
{
    size_t n = out->n_wait;
    out->n_wait = 0;
    return tess_os_write_all(out->fd, out->wait, n, out->path);
}

tess_status output_write(output *out, const void *data, size_t size)
{
    out->at += size;
    if (size >= WAIT_BYTES) {
        TESS_TRY(flush(out));
        return tess_os_write_all(out->fd, data, size, out->path);
    }
    if (size > WAIT_BYTES - out->n_wait)
        TESS_TRY(flush(out));
    if (size > 0)
        memcpy(out->wait + out->n_wait, data, size);
    out->n_wait += size;
    return TESS_OK;
}

tess_status output_finish(output *out, tess_status status)
{
    if (out->wait == NULL)
        return status;
    if (status == TESS_OK)
        status = flush(out);
    tess_mem_free(out->mem, out->wait);
    out->wait = NULL;
    if (status == TESS_OK)
        return tess_os_sync_close(&out->fd, out->path);
    tess_os_close(&out->fd);
    return status;
}
