/* Sends alerts about a job that needs attention. An alert is one JSON line; it is appended to a file and passed to a
 * program of the user's choice. */
#ifndef TESS_CONTROL_HEALTH_ALERT_H
#define TESS_CONTROL_HEALTH_ALERT_H

#include <jansson.h>

#include "health/health_rules.h"

/* The destinations of a job's alerts. The caller owns all texts. */
typedef struct tess_alert_channel {
    const char *file; /* file that gets the line; its folder is created if missing. NULL: none */
    /* argv of the program; NULL: none. It reads the line from its standard input. Its environment holds the alert as
     * TESSERA_ALERT_JOB, _HOST, _EVENT, _STATE and _TEXT */
    char *const *command;
    double command_timeout_s; /* seconds after which the program is killed */
    const char *job;          /* the job's folder */
    int pid;                  /* process id of the launcher */
} tess_alert_channel;

typedef struct tess_alert {
    const char *event; /* kind of the alert: "health" */
    const char *state; /* the new state, in one word */
    const char *text;  /* a sentence for people */
    json_t *more;      /* object whose members are added to the line; borrowed; NULL: none */
} tess_alert;

/* Sends the alert to both destinations; waits for the program only. Returns the first failure: TESS_E_IO,
 * TESS_E_NO_SPACE, or an error of tess_os_hook. */
tess_status tess_alert_send(const tess_alert_channel *channel, const tess_alert *alert);
/* Does the same without waiting, in a detached process that inherits only the standard descriptors. It is meant for
 * launchers, which must look after their ranks. The calling process must have a single thread. Failures are not
 * reported. */
void tess_alert_send_aside(const tess_alert_channel *channel, const tess_alert *alert);

/* Returns the change of a round as members of a line: "was", "failures", "checks": {"disk": {"failing", "value",
 * "limit", "text", "rank"}}. It lists the checks that fail or have recovered. The caller owns the reference; NULL:
 * memory ran out. */
json_t *tess_health_to_json(const tess_health *health, const tess_health_change *change);

#endif
