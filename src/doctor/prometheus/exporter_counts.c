/* Counts alerts and notices since the exporter began. */
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/prometheus/exporter_impl.h"

enum { CHUNK = 1 << 16 };

const char *const exporter_health_states[TESS_EXPORTER_STATES] = {"healthy", "degraded", "unhealthy"};
const char *const exporter_recovery_states[TESS_EXPORTER_STATES] = {"stopped", "replaced", "restarted"};

static void count_state(const char *const states[TESS_EXPORTER_STATES], const char *state,
                        int64_t n[TESS_EXPORTER_STATES])
{
    for (int i = 0; i < TESS_EXPORTER_STATES; i++)
        n[i] += strcmp(states[i], state) == 0;
}

static void count_alert(tess_exporter *e, const json_t *alert)
{
    const char *event = "", *state = "";
    if (tess_json_get_string(alert, "event", "alert", &event) != TESS_OK ||
        tess_json_get_string(alert, "state", "alert", &state) != TESS_OK)
        return;
    if (strcmp(event, "health") == 0)
        count_state(exporter_health_states, state, e->n_health);
    if (strcmp(event, "recovery") == 0)
        count_state(exporter_recovery_states, state, e->n_recovery);
}

void exporter_count_alerts(tess_exporter *e, const char *text, size_t n)
{
    json_t *alert;
    while (n > 0) {
        const char *newline = memchr(text, '\n', n);
        const size_t line = newline != NULL ? (size_t)(newline - text) : n;
        if (line > 0 && tess_json_parse(text, line, "alert", false, &alert) == TESS_OK) {
            count_alert(e, alert);
            json_decref(alert);
        }
        text += line + (newline != NULL);
        n -= line + (newline != NULL);
    }
    tess_error_clear();
}

/* Counts the whole lines of one piece of the file. Returns the number of bytes that are counted. A line that is longer
 * than a piece is no alert, and is passed over. */
static size_t count_piece(tess_exporter *e, int fd, uint64_t size, const char *path)
{
    char text[CHUNK];
    const uint64_t left = size - e->alerts_read;
    const size_t n = left < CHUNK ? (size_t)left : CHUNK;
    if (n == 0 || tess_os_read_at(fd, e->alerts_read, text, n, path) != TESS_OK)
        return 0;
    const char *newline = memrchr(text, '\n', n);
    const size_t whole = newline != NULL ? (size_t)(newline + 1 - text) : 0;
    exporter_count_alerts(e, text, whole);
    return whole == 0 && n == CHUNK ? n : whole;
}

void exporter_read_alerts(tess_exporter *e, const char *folder)
{
    char path[JOB_FOLDER_BYTES + 32];
    int fd;
    uint64_t size;
    if (tess_os_join(path, sizeof(path), folder, "alerts.jsonl") == TESS_OK &&
        tess_os_open_read(path, &fd, &size) == TESS_OK) {
        e->alerts_read = size < e->alerts_read ? 0 : e->alerts_read; /* another file has its name */
        for (size_t n = 1; n > 0; e->alerts_read += n)
            n = count_piece(e, fd, size, path);
        close(fd);
    }
    tess_error_clear();
}

void exporter_read_notices(tess_exporter *e, const tess_live_job *live)
{
    tess_notice notices[TESS_NOTICES];
    const size_t n = tess_notices_read(&live->job.header->notices, notices);
    uint64_t newest_ns = e->notices_read_ns;
    for (size_t i = 0; i < n; i++) {
        if (notices[i].wall_ns <= e->notices_read_ns)
            continue;
        e->n_notices[notices[i].kind < TESS_NOTICE_COUNT ? notices[i].kind : TESS_NOTICE_OTHER]++;
        newest_ns = notices[i].wall_ns > newest_ns ? notices[i].wall_ns : newest_ns;
    }
    e->notices_read_ns = newest_ns;
}
