#include "doctor/job/error_report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/table/clean.h"

static bool find_file(const char *folder, char *path, size_t size)
{
    static const char *const names[] = {TESS_ERROR_FILE, "../" TESS_ERROR_FILE};
    const char *slash = strrchr(folder, '/');
    const bool is_trace = strncmp(slash != NULL ? slash + 1 : folder, "trace", 5) == 0;
    for (int i = 0; i < 1 + is_trace; i++)
        if (tess_os_join(path, size, folder, names[i]) == TESS_OK && tess_os_is_file(path))
            return true;
    tess_error_clear();
    return false;
}

tess_status tess_error_report_read(tess_mem *mem, const char *folder, tess_error_file **record, char why[256])
{
    char path[4096];
    *record = NULL;
    why[0] = '\0';
    if (!tess_os_is_dir(folder) || !find_file(folder, path, sizeof(path)))
        return TESS_OK;
    TESS_TRY(TESS_NEW(mem, 1, TESS_ERROR_FILE, record));
    if (tess_error_file_read(path, *record) == TESS_OK)
        return TESS_OK;
    tess_clean_text(tess_error_message(), SIZE_MAX, why, 256);
    tess_error_clear();
    tess_mem_free(mem, *record);
    *record = NULL;
    return TESS_OK;
}

/* Appends text of a file that somebody else may have written: without control characters. */
static tess_status put_clean(tess_buffer *out, const char *before, const char *text)
{
    char clean[2048];
    tess_clean_text(text, SIZE_MAX, clean, sizeof(clean));
    return tess_buffer_printf(out, "%s%s\n", before, clean);
}

static tess_status put_time(const tess_error_file *r, tess_buffer *out)
{
    char when[32] = "";
    struct tm utc;
    const time_t seconds = (time_t)(r->time_ns / 1000000000);
    if (r->time_ns != 0 && gmtime_r(&seconds, &utc) != NULL)
        strftime(when, sizeof(when), ", %Y-%m-%d %H:%M:%S UTC", &utc);
    TESS_TRY(tess_buffer_printf(out, "\nerror.json%s: the job ended with code %d", when, r->job_code));
    return r->attempt > 0 ? tess_buffer_printf(out, ", in life %d\n", r->attempt + 1) : tess_buffer_printf(out, "\n");
}

/* Appends how the rank ended: "rank 3 on host h2 (pid 41): signal 9, in phase 'backward' of step 12". */
static tess_status put_rank(const tess_error_file *r, tess_buffer *out)
{
    char host[128], phase[96];
    tess_clean_text(r->host, SIZE_MAX, host, sizeof(host));
    tess_clean_text(r->phase, SIZE_MAX, phase, sizeof(phase));
    if (r->rank < 0)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "  rank %d on host %s (pid %d): ", r->rank, host, r->pid));
    if (r->signal != 0)
        TESS_TRY(tess_buffer_printf(out, "signal %d", r->signal));
    else if (r->exit_code == 0)
        TESS_TRY(tess_buffer_printf(out, "did not end"));
    else
        TESS_TRY(tess_buffer_printf(out, "exit code %d", r->exit_code));
    if (phase[0] != '\0')
        TESS_TRY(tess_buffer_printf(out, ", in phase '%s'", phase));
    return r->step >= 0 ? tess_buffer_printf(out, " of step %lld\n", (long long)r->step)
                        : tess_buffer_printf(out, "\n");
}

static tess_status put_output(const tess_error_file *r, tess_buffer *out)
{
    char here[64] = "", line[TESS_ERROR_OUTPUT_BYTES];
    if (r->output_file[0] == '\0')
        return TESS_OK;
    if (gethostname(here, sizeof(here) - 1) == 0 && strcmp(here, r->host) != 0)
        TESS_TRY(put_clean(out, "  its output is on its host: ", r->output_file));
    else
        TESS_TRY(put_clean(out, "  its output: ", r->output_file));
    for (const char *at = r->output; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)n, at);
        TESS_TRY(put_clean(out, "    | ", line));
        at += n + (at[n] == '\n');
    }
    return TESS_OK;
}

tess_status tess_error_report_put(const tess_error_file *r, tess_buffer *out)
{
    TESS_TRY(put_time(r, out));
    TESS_TRY(put_clean(out, "  ", r->cause));
    TESS_TRY(put_rank(r, out));
    if (r->advice[0] != '\0') {
        TESS_TRY(tess_buffer_printf(out, "  %s: ", r->kind));
        TESS_TRY(put_clean(out, "", r->advice));
    }
    for (int i = 0; i < r->n_messages; i++) {
        char before[32];
        snprintf(before, sizeof(before), "  rank %d: ", r->messages[i].rank);
        if (strstr(r->cause, r->messages[i].text) == NULL)
            TESS_TRY(put_clean(out, before, r->messages[i].text));
    }
    return put_output(r, out);
}
