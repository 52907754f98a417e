/* Finds the folder of a run, and reads from it what is wrong with the run's host. */
#include "doctor/top/top_impl.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/table/clean.h"

enum { MOST_BYTES = 1 << 16 }; /* bytes read from the end of the file: the job's last alert is near the end */

/* Reads one alert. Returns false if the line is not a health alert, or is an alert of another job. */
static bool read_line(const char *line, size_t n, int pid, char *text, size_t size)
{
    json_t *alert;
    int64_t of = 0;
    const char *event = "", *state = "", *message = "";
    if (tess_json_parse(line, n, "alert", false, &alert) != TESS_OK)
        return false;
    bool fits = tess_json_get_int(alert, "pid", "alert", &of) == TESS_OK && of == pid &&
                tess_json_get_string(alert, "event", "alert", &event) == TESS_OK && strcmp(event, "health") == 0 &&
                tess_json_get_string(alert, "state", "alert", &state) == TESS_OK &&
                tess_json_get_string(alert, "text", "alert", &message) == TESS_OK;
    if (fits && strcmp(state, "healthy") != 0)
        tess_clean(message, strlen(message), text, size);
    json_decref(alert);
    return fits;
}

const char *tess_top_health_of(const char *lines, size_t n, int pid, char *text, size_t size)
{
    text[0] = '\0';
    while (n > 0) {
        const char *newline = memrchr(lines, '\n', n - 1);
        const char *line = newline != NULL ? newline + 1 : lines;
        if (read_line(line, (size_t)(lines + n - line), pid, text, size))
            break;
        n = (size_t)(line - lines);
    }
    tess_error_clear();
    return text;
}

bool tess_top_folder(const tess_live_job *live, char folder[JOB_FOLDER_BYTES])
{
    snprintf(folder, JOB_FOLDER_BYTES, "%.*s", JOB_FOLDER_BYTES, live->job.header->trace_folder);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || strcmp(slash, "/trace") != 0)
        return false;
    *slash = '\0';
    return true;
}

static bool find_file(const tess_live_job *live, char *path, size_t size)
{
    char folder[JOB_FOLDER_BYTES];
    return tess_top_folder(live, folder) && tess_os_join(path, size, folder, "alerts.jsonl") == TESS_OK &&
           tess_os_is_file(path);
}

const char *tess_top_health(const tess_live_job *live, char *text, size_t size)
{
    char path[JOB_FOLDER_BYTES + 16];
    tess_mapping file;
    text[0] = '\0';
    if (find_file(live, path, sizeof(path)) && tess_os_map(path, &file) == TESS_OK) {
        size_t skip = file.size > MOST_BYTES ? file.size - MOST_BYTES : 0;
        tess_top_health_of((const char *)file.data + skip, file.size - skip, live->pid, text, size);
        tess_os_unmap(&file);
    }
    tess_error_clear();
    return text;
}
