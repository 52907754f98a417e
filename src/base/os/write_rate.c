/* How fast a folder accepts the writes of a checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"

enum { WRITE_BLOCK = 1 << 20, WRITE_ALIGNMENT = 4096 };

/* Opens a file that disappears when it is closed. File systems without O_TMPFILE get one that is unlinked at once. */
static int open_nameless(const char *folder, int flags)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC | flags, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    if (snprintf(path, sizeof(path), "%s/.tessera-probe-%ld", folder, (long)getpid()) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
    int reason = errno;
    if (fd >= 0 || reason == EINVAL) /* the file was made before the system refused O_DIRECT */
        unlink(path);
    errno = reason;
    return fd;
}

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
    void *block;
    TESS_CHECK(posix_memalign(&block, WRITE_ALIGNMENT, WRITE_BLOCK) == 0, TESS_E_NOMEM, "no memory to write from");
    memset(block, 0x5a, WRITE_BLOCK); /* a disk that compresses zeroes would look fast */
    int fd = open_nameless(folder, O_DIRECT);
    if (fd < 0 && errno == EINVAL)
        fd = open_nameless(folder, 0);
    tess_status status =
        fd < 0 ? tess_os_error("write in", folder) : write_blocks(fd, folder, most_bytes, most_s, block, bytes_per_s);
    tess_os_close(&fd);
    free(block);
    return status;
}
