#include "control/supervise/folder_lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/environment.h"

enum { PATH_SIZE = 4096, HOST_SIZE = 256 };

#define LOCK_NAME "job.lock"
#define PLACE_LOCK_NAME "copies.lock"

static const double patience_s = 60; /* seconds to wait for ranks that are ending because their launcher was killed */

typedef struct folder_holder {
    int pid; /* process that holds the lock; 0: unknown */
    char host[HOST_SIZE], since[64];
} folder_holder;

static void name_host(char host[HOST_SIZE])
{
    host[HOST_SIZE - 1] = '\0';
    if (gethostname(host, HOST_SIZE - 1) != 0)
        snprintf(host, HOST_SIZE, "this host");
}

static void read_holder(const char *path, folder_holder *h)
{
    FILE *file = fopen(path, "r");
    *h = (folder_holder){0};
    if (file == NULL)
        return;
    if (fscanf(file, "%d %255s %63s", &h->pid, h->host, h->since) != 3)
        h->pid = 0;
    fclose(file);
}

/* Writes into the file which job holds the folder. Messages use this; a failure does not weaken the lock. */
static void sign(int fd, const char *path)
{
    char text[512], host[HOST_SIZE], since[64];
    struct tm parts;
    time_t now = time(NULL);
    name_host(host);
    strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    int n = snprintf(text, sizeof(text), "%d %s %s\n", (int)getpid(), host, since);
    if (tess_os_resize_zeroed(fd, 0, path) != TESS_OK || tess_os_write_at(fd, 0, text, (size_t)n, path) != TESS_OK)
        tess_error_clear();
}

static tess_status refuse(const char *folder, const folder_holder *h)
{
    char who[512] = "another job";
    if (h->pid > 0)
        snprintf(who, sizeof(who), "the job of process %d on %s, since %s,", h->pid, h->host, h->since);
    return TESS_FAIL(
        TESS_E_INVALID,
        "job.dump_folder: %s writes into '%s': wait for it or end it (kill -TERM: it saves first), or name "
        "another folder, job.dump_folder=DIR",
        who, folder);
}

/* Whether the holder was a process of this host that has ended: what it has started will end soon. */
static bool is_gone(const folder_holder *h)
{
    char host[HOST_SIZE];
    char state = h->pid > 0 ? tess_os_process_state(h->pid) : 'R';
    name_host(host);
    return strcmp(h->host, host) == 0 && (state == '\0' || state == 'Z');
}

static tess_status lock(int fd, const char *folder, const char *path, const tess_reporter *reporter)
{
    static const struct timespec look_again = {.tv_nsec = 20000000};
    double deadline_s = tess_os_now_s() + patience_s;
    folder_holder h;
    while (!tess_os_lock(fd)) {
        if (errno != EWOULDBLOCK) {
            tess_report_line(reporter, "warning: %s: %s: whether another job writes there is not known", path,
                             strerror(errno));
            return TESS_OK;
        }
        read_holder(path, &h);
        if (!is_gone(&h) || tess_os_now_s() > deadline_s)
            return refuse(folder, &h);
        nanosleep(&look_again, NULL);
    }
    sign(fd, path);
    return TESS_OK;
}

/* Warns if the file cannot be opened. A full disk, or another user's file of that name, is no reason to refuse the
 * job. */
static tess_status on_open_failure(const char *dir, const char *path, tess_status status, const tess_reporter *reporter)
{
    char message[1024];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    TESS_CHECK(status == TESS_E_NO_SPACE || tess_os_is_file(path) || tess_os_is_dir(path), TESS_E_INVALID,
               "job.dump_folder: nothing can be written into '%s': %s: name another folder, job.dump_folder=DIR", dir,
               message);
    tess_report_line(reporter, "warning: %s: whether another job writes there is not known", message);
    tess_error_clear();
    return TESS_OK;
}

/* Opens and locks the file. A release removes the file first, so a lock on a removed file is void; the new file is
 * then locked instead. */
static tess_status open_and_lock(const char *dir, const char *path, const tess_reporter *reporter, int *fd)
{
    char opened[64];
    tess_status status;
    do {
        tess_os_close(fd);
        status = tess_os_open_shared(path, fd);
        if (status != TESS_OK)
            return on_open_failure(dir, path, status, reporter);
        status = lock(*fd, dir, path, reporter);
        snprintf(opened, sizeof(opened), "/proc/self/fd/%d", *fd);
    } while (status == TESS_OK && !tess_os_same_file(opened, path));
    if (status == TESS_OK)
        tess_os_inherit(*fd);
    else
        tess_os_close(fd);
    return status;
}

tess_status tess_folder_lock_take(const tess_config *config, const tess_reporter *reporter, tess_folder_lock *folder)
{
    char path[PATH_SIZE];
    const char *dir = config->job.dump_folder;
    tess_environment e;
    bool known = tess_environment_read(&e) == TESS_OK;
    tess_error_clear();
    *folder = (tess_folder_lock){.fd = -1};
    if (known && e.rank > 0 && e.starter != TESS_STARTER_NONE && e.starter != TESS_STARTER_TESSERA)
        return TESS_OK;
    folder->is_first = true;
    folder->made = !tess_os_is_dir(dir);
    TESS_TRY(tess_os_make_dirs(dir));
    TESS_TRY(tess_os_join(path, sizeof(path), dir, LOCK_NAME));
    return open_and_lock(dir, path, reporter, &folder->fd);
}

void tess_folder_lock_release(const tess_config *config, tess_folder_lock *folder)
{
    char path[PATH_SIZE];
    if (folder->fd >= 0 && tess_os_join(path, sizeof(path), config->job.dump_folder, LOCK_NAME) == TESS_OK)
        tess_os_remove(path);
    if (folder->made)
        tess_os_remove_empty_dir(config->job.dump_folder);
    tess_os_close(&folder->fd);
}

tess_status tess_folder_lock_place(const char *folder, int *fd)
{
    char path[PATH_SIZE];
    folder_holder h;
    *fd = -1;
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, PLACE_LOCK_NAME));
    TESS_TRY(tess_os_open_shared(path, fd));
    if (tess_os_lock(*fd)) {
        sign(*fd, path);
        return TESS_OK;
    }
    bool has_locks = errno == EWOULDBLOCK;
    tess_os_close(fd);
    read_holder(path, &h);
    TESS_CHECK(!has_locks || is_gone(&h), TESS_E_INVALID,
               "checkpoint.copies: process %d on %s keeps the copies of another job in '%s', since %s: give each job a "
               "folder of its own",
               h.pid, h.pid > 0 ? h.host : "some host", folder, h.pid > 0 ? h.since : "some time");
    return TESS_OK;
}
