/* Measures how fast a folder accepts the writes of a checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/disk_files.h"
#include "base/os/machine.h"
#include "base/os/os.h"

enum { WRITE_BLOCK = 1 << 20, WRITE_ALIGNMENT = 4096 };

static tess_status write_blocks(int fd, const char *folder, size_t most_bytes, double most_s, const void *block,
                                double *bytes_per_s)
{
    double begin = tess_os_now_s();
    size_t done = 0;
    while (done < most_bytes && (done == 0 || tess_os_now_s() - begin < most_s)) {
        TESS_TRY(tess_os_write_all(fd, block, WRITE_BLOCK, folder));
        done += WRITE_BLOCK;
    }
    if (fdatasync(fd) != 0)
        return tess_os_error("fsync in", folder);
    *bytes_per_s = (double)done / (tess_os_now_s() - begin);
    return TESS_OK;
}

tess_status tess_os_write_rate(const char *folder, size_t most_bytes, double most_s, double *bytes_per_s)
{
    TESS_AUTO(tess_malloc_drop) void *block = NULL;
    TESS_CHECK(posix_memalign(&block, WRITE_ALIGNMENT, WRITE_BLOCK) == 0, TESS_E_NOMEM, "no memory to write from");
    memset(block, 0x5a, WRITE_BLOCK); /* not zeroes, which a compressing disk would write too fast */
    TESS_AUTO(tess_os_close) int fd = tess_os_open_nameless(folder, O_WRONLY | O_DIRECT);
    if (fd < 0 && errno == EINVAL)
        fd = tess_os_open_nameless(folder, O_WRONLY);
    return fd < 0 ? tess_os_error("write in", folder)
                  : write_blocks(fd, folder, most_bytes, most_s, block, bytes_per_s);
}
