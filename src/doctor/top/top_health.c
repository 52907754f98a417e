/* Reads from the folder of a run what is wrong with the run's host. */
#include "doctor/top/top_facts.h"

#include <string.h>

#include "base/text/json.h"
#include "doctor/table/clean.h"

/* Reads one alert. Returns false if the line is not a health alert, or is an alert of another job. */
static bool read_alert(const json_t *alert, int pid, char *text, size_t size)
{
    int64_t of = 0;
    const char *event = "", *state = "", *message = "";
    bool fits = tess_json_get_int(alert, "pid", "alert", &of) == TESS_OK && of == pid &&
                tess_json_get_string(alert, "event", "alert", &event) == TESS_OK && strcmp(event, "health") == 0 &&
                tess_json_get_string(alert, "state", "alert", &state) == TESS_OK &&
                tess_json_get_string(alert, "text", "alert", &message) == TESS_OK;
    if (fits && strcmp(state, "healthy") != 0)
        tess_clean(message, strlen(message), text, size);
    return fits;
}

const char *tess_top_health_of(const char *lines, size_t n, int pid, char *text, size_t size)
{
    json_t *alert;
    bool found = false;
    text[0] = '\0';
    while (!found && (alert = tess_top_last_line(lines, &n)) != NULL) {
        found = read_alert(alert, pid, text, size);
        json_decref(alert);
    }
    tess_error_clear();
    return text;
}
