/* Writers of several hosts meet in the checkpoint's folder: the first one makes it and says so, the others leave word
 * of what they wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/json.h"
#include "ckpt/async/async_impl.h"
#include "ckpt/store/part.h"

enum { PATH = TESS_CKPT_PATH + 64 };
static const size_t largest_part = (size_t)1 << 30;
static const struct timespec look_again = {.tv_nsec = 20000000};

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
        nanosleep(&look_again, NULL);
    }
    return TESS_OK;
}

tess_status async_meeting_open(const async_meeting *m)
{
    char path[PATH];
    open_path(m, path);
    return tess_os_write_atomic(path, "", 0);
}

tess_status async_meeting_await_open(const async_meeting *m)
{
    char path[PATH];
    open_path(m, path);
    return await_file(m, path, "the first host's writer has not begun, or this host sees another folder");
}

tess_status async_meeting_leave_part(const async_meeting *m, const json_t *part, tess_status made)
{
    char path[PATH];
    json_t *whole = json_pack("{s:I, s:I, s:i, s:o, s:O*}", "job", (json_int_t)m->job, "generation",
                              (json_int_t)m->generation, "status", (int)made, "error",
                              tess_json_text(made != TESS_OK ? tess_error_message() : ""), "part", (json_t *)part);
    part_path(m, m->host, path);
    return tess_json_write(whole, JSON_COMPACT, path);
}

static bool is_of(const async_meeting *m, const json_t *whole)
{
    return json_integer_value(json_object_get(whole, "job")) == (json_int_t)m->job &&
           json_integer_value(json_object_get(whole, "generation")) == (json_int_t)m->generation;
}

/* Of a writer that has no part. */
static tess_status error_of(const json_t *whole, const char *path, int host)
{
    int64_t status = TESS_E_IO;
    const char *error = "";
    TESS_TRY(tess_json_get_int(whole, "status", path, &status));
    TESS_TRY(tess_json_get_string(whole, "error", path, &error));
    return TESS_FAIL(status < 0 ? (tess_status)status : TESS_E_IO, "host %d: %s", host, error);
}

/* *part stays NULL when the file is of another save. */
static tess_status read_part(const async_meeting *m, const char *path, int host, json_t **part)
{
    json_t *whole;
    TESS_TRY(tess_json_load(path, largest_part, &whole));
    bool is_ours = is_of(m, whole);
    *part = is_ours ? json_incref(json_object_get(whole, "part")) : NULL;
    tess_status status = is_ours && *part == NULL ? error_of(whole, path, host) : TESS_OK;
    json_decref(whole);
    return status;
}

tess_status async_meeting_take_part(const async_meeting *m, int host, json_t **part)
{
    char path[PATH];
    part_path(m, host, path);
    for (*part = NULL; *part == NULL;) {
        TESS_TRY(await_file(m, path, "that host's writer has not come to its end"));
        TESS_TRY(read_part(m, path, host, part));
        tess_os_remove(path);
    }
    return TESS_OK;
}

void async_meeting_close(const async_meeting *m)
{
    char path[PATH];
    open_path(m, path);
    tess_os_remove(path);
}
