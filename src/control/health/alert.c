#include "control/health/alert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/program.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/text/json.h"

enum { HOST_BYTES = 256, LINE_BYTES = 4095 };

/* Writes the present time: "2026-11-22T04:50:12.345Z". Returns text. */
static const char *now_as_text(char *text, size_t size)
{
    uint64_t ns = tess_os_wall_ns();
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t n = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + n, size - n, ".%03dZ", (int)(ns / 1000000 % 1000));
    return text;
}

static char *make_line(const tess_alert_channel *channel, const tess_alert *alert, const char *host)
{
    char now[40];
    json_t *line =
        json_pack("{s:i, s:s, s:o, s:i, s:o, s:s, s:s, s:o}", "version", 1, "time", now_as_text(now, sizeof(now)),
                  "host", tess_json_text(host), "pid", channel->pid, "job", tess_json_text(channel->job), "event",
                  alert->event, "state", alert->state, "text", tess_json_text(alert->text));
    if (line != NULL && alert->more != NULL)
        json_object_update(line, alert->more);
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(line);
    return text;
}

/* Appends a line with a single write: readers never see half of a line, and lines of several writers do not mix. */
static tess_status append_line(const char *path, const char *line)
{
    char folder[1024];
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        TESS_TRY(tess_os_make_dirs(folder));
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    TESS_CHECK(fd >= 0 || errno != ELOOP, TESS_E_INVALID,
               "open %s: it is a symbolic link, which alerts do not follow: name the file itself, or remove the link",
               path);
    if (fd < 0)
        return tess_os_error("open", path);
    tess_status status = tess_os_write_all(fd, line, strlen(line), path);
    close(fd);
    return status;
}

static tess_status run_command(const tess_alert_channel *channel, const tess_alert *alert, const char *host,
                               const char *line)
{
    const tess_os_variable variables[] = {{tess_variable_name(TESS_VAR_ALERT_JOB), channel->job},
                                          {tess_variable_name(TESS_VAR_ALERT_HOST), host},
                                          {tess_variable_name(TESS_VAR_ALERT_EVENT), alert->event},
                                          {tess_variable_name(TESS_VAR_ALERT_STATE), alert->state},
                                          {tess_variable_name(TESS_VAR_ALERT_TEXT), alert->text}};
    return tess_os_hook(channel->command, line, variables, sizeof(variables) / sizeof(variables[0]),
                        channel->command_timeout_s);
}

tess_status tess_alert_send(const tess_alert_channel *channel, const tess_alert *alert)
{
    char host[HOST_BYTES] = "", line[LINE_BYTES + 1];
    gethostname(host, sizeof(host) - 1);
    char *text = make_line(channel, alert, host);
    TESS_CHECK(text != NULL && strlen(text) + 1 <= LINE_BYTES, TESS_E_NOMEM,
               "an alert is too long, or there is no memory for it");
    snprintf(line, sizeof(line), "%s\n", text);
    free(text);
    tess_status written = channel->file != NULL ? append_line(channel->file, line) : TESS_OK;
    tess_status run = channel->command != NULL ? run_command(channel, alert, host, line) : TESS_OK;
    return written != TESS_OK ? written : run;
}

void tess_alert_send_aside(const tess_alert_channel *channel, const tess_alert *alert)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            close_range(STDERR_FILENO + 1, ~0U, 0);
            tess_alert_send(channel, alert);
        }
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}
