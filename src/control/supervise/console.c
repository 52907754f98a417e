#include "control/supervise/console.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

/* Whether the descriptor may have a reader. A descriptor that was closed when the program began is open for reading
 * only (main.c). */
static bool is_read(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return false;
    return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

void tess_console_keep(FILE *stream, const char *folder, const tess_reporter *reporter)
{
    char path[4096];
    if (is_read(fileno(stream)))
        return;
    snprintf(path, sizeof(path), "%s/console.log", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool kept = fd >= 0;
    if (!kept)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    dup2(fd, fileno(stream));
    close(fd);
    clearerr(stream);
    if (kept && stream == stdout)
        tess_report_line(reporter, "nobody reads standard output: the run goes on, and its lines go to %s", path);
}
