/* Reads the newest lines of a file of JSON lines in a run's folder. Nothing is mapped, because the run may cut the file
 * meanwhile. */
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/table/clean.h"
#include "doctor/top/top_facts.h"

bool tess_top_folder(const tess_live_job *live, char folder[JOB_FOLDER_BYTES])
{
    snprintf(folder, JOB_FOLDER_BYTES, "%.*s", JOB_FOLDER_BYTES, live->job.header->trace_folder);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || strcmp(slash, "/trace") != 0)
        return false;
    *slash = '\0';
    return true;
}

tess_status tess_top_lines_read(const char *folder, const char *name, tess_top_lines *lines)
{
    char path[JOB_FOLDER_BYTES + 32];
    int fd;
    uint64_t size;
    lines->n = 0;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    TESS_TRY(tess_os_open_read(path, &fd, &size));
    const size_t n = size < sizeof(lines->text) ? (size_t)size : sizeof(lines->text);
    tess_status status = tess_os_read_at(fd, size - n, lines->text, n, path);
    close(fd);
    lines->n = status == TESS_OK ? n : 0;
    return status;
}

json_t *tess_top_last_line(const char *text, size_t *n)
{
    json_t *line = NULL;
    while (*n > 0 && line == NULL) {
        const char *newline = memrchr(text, '\n', *n - 1);
        const size_t begin = newline != NULL ? (size_t)(newline + 1 - text) : 0;
        if (tess_json_parse(text + begin, *n - begin, "line", false, &line) != TESS_OK)
            line = NULL;
        *n = begin;
    }
    tess_error_clear();
    return line;
}

json_t *tess_top_metrics_of(const char *text, size_t n)
{
    json_t *line, *numbers = NULL, *value;
    const char *key;
    while (numbers == NULL && (line = tess_top_last_line(text, &n)) != NULL) {
        if (json_object_get(line, "loss") != NULL) /* else the line of an evaluation */
            numbers = json_object();
        json_object_foreach (numbers != NULL ? line : NULL, key, value) {
            char clean[64];
            if (json_is_number(value) && strcmp(tess_clean(key, strlen(key), clean, sizeof(clean)), key) == 0)
                json_object_set(numbers, key, value);
        }
        json_decref(line);
    }
    return numbers;
}
