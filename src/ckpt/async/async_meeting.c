/* Lets the writers of several hosts make one checkpoint through files in its folder. The first writer creates the
 * folder and a file that announces it. The others leave descriptions of the parts that they wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"
#include "ckpt/store/part.h"

enum { PATH = TESS_CKPT_PATH + 64 };
static const size_t largest_part = (size_t)1 << 30;
static const struct timespec poll_interval = {.tv_nsec = 20000000};

/* The path contains the job and the save, so a file of another save does not count as the announcement. */
static void open_path(const async_meeting *m, char path[PATH])
{
    snprintf(path, PATH, "%s/open-%016" PRIx64 "-%" PRIu64, m->folder, m->job, m->generation);
}

static void part_path(const async_meeting *m, int host, char path[PATH])
{
    snprintf(path, PATH, "%s/part-%05d.json", m->folder, host);
}

static tess_status await_file(const async_meeting *m, const char *path, const char *what)
{
    double deadline_s = tess_os_now_s() + m->wait_s;
    while (!tess_os_is_file(path)) {
        TESS_CHECK(tess_os_now_s() < deadline_s, TESS_E_TIMEOUT, "%s: not there after %.0f s: %s", path, m->wait_s,
                   what);
        nanosleep(&poll_interval, NULL);
    }
    return TESS_OK;
}

static tess_status begin(void *self, const char *folder, tess_status made)
{
    async_meeting *m = self;
    char path[PATH];
    m->folder = folder;
    TESS_TRY(made);
    open_path(m, path);
    if (m->host == 0)
        return tess_os_write_atomic(path, "", 0);
    return await_file(m, path, "the first host's writer has not begun, or this host sees another folder");
}

/* Leaves this host's part. After a failure (`made`), leaves the status and the message of the current error instead. */
static tess_status leave_part(const async_meeting *m, const json_t *part, tess_status made)
{
    char path[PATH];
    json_t *whole =
        json_pack("{s:I, s:I, s:i, s:o, s:O*}", "job", (json_int_t)m->job, "generation", (json_int_t)m->generation,
                  "status", (int)made, "error", tess_json_text(made != TESS_OK ? tess_error_message() : ""), "part",
                  made == TESS_OK ? (json_t *)part : NULL);
    part_path(m, m->host, path);
    tess_status status = tess_json_write(whole, JSON_COMPACT, path);
    return made == TESS_OK ? status : made;
}

/* Fails with the error that the other writer left instead of its part. */
static tess_status fail_as(const json_t *whole, const char *path, int host)
{
    int64_t status = TESS_E_IO;
    const char *error = "";
    TESS_TRY(tess_json_get_int(whole, "status", path, &status));
    TESS_TRY(tess_json_get_string(whole, "error", path, &error));
    return TESS_FAIL(status < 0 ? (tess_status)status : TESS_E_IO, "host %d: %s", host, error);
}

/* Reads the part that a writer left. *part stays NULL if the file belongs to another save. */
static tess_status read_part(const async_meeting *m, const char *path, int host, json_t **part)
{
    json_auto_t *whole = NULL;
    TESS_TRY(tess_json_load(path, largest_part, &whole));
    if (json_integer_value(json_object_get(whole, "job")) != (json_int_t)m->job ||
        json_integer_value(json_object_get(whole, "generation")) != (json_int_t)m->generation)
        return TESS_OK;
    *part = json_incref(json_object_get(whole, "part"));
    return *part == NULL ? fail_as(whole, path, host) : TESS_OK;
}

/* Checks that the files of a part are in the folder. If this writer had to create the folder again, another one may
 * have written to files that are gone. */
static tess_status check_files(const char *folder, const json_t *part)
{
    const char *name;
    json_t *bytes;
    json_object_foreach (json_object_get((json_t *)part, "files"), name, bytes) {
        char path[TESS_CKPT_PATH];
        uint64_t size;
        TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
        TESS_TRY(tess_os_file_size(path, &size));
        TESS_CHECK(size == (uint64_t)json_integer_value(bytes), TESS_E_IO, "%s has %llu bytes; %lld were written", path,
                   (unsigned long long)size, (long long)json_integer_value(bytes));
    }
    return TESS_OK;
}

/* Waits for the part of `host`, removes its file, and adds it to `part`. */
static tess_status take_part(const async_meeting *m, int host, json_t *part)
{
    char path[PATH];
    json_auto_t *more = NULL;
    part_path(m, host, path);
    while (more == NULL) {
        TESS_TRY(await_file(m, path, "that host's writer has not finished"));
        TESS_TRY(read_part(m, path, host, &more));
        tess_os_remove(path);
    }
    TESS_TRY(check_files(m->folder, more));
    return tess_part_merge(part, more);
}

static tess_status collect(void *self, tess_status made, json_t *part)
{
    const async_meeting *m = self;
    char path[PATH];
    if (m->host > 0)
        return leave_part(m, part, made);
    TESS_TRY(made);
    for (int host = 1; host < m->n_hosts; host++)
        TESS_TRY(take_part(m, host, part));
    open_path(m, path);
    tess_os_remove(path);
    return TESS_OK;
}

tess_store_peers async_meeting_peers(async_meeting *meeting)
{
    return (tess_store_peers){.self = meeting, .begin = begin, .collect = collect};
}
