/* Sends alerts of a job that needs attention: a JSON line each to a file, and to a program of the user's. */
#ifndef TESS_CONTROL_HEALTH_ALERT_H
#define TESS_CONTROL_HEALTH_ALERT_H

#include <jansson.h>

#include "control/health/health.h"

/* The destinations of a job's alerts. Texts are borrowed. */
typedef struct tess_alert_channel {
    const char *file;         /* gets the line; a missing folder is made. NULL: none */
    char *const *command;     /* argv of the program, NULL: none; it gets the line on its standard input, and the alert
                               * as TESSERA_ALERT_JOB, _HOST, _EVENT, _STATE and _TEXT in its environment */
    double command_timeout_s; /* seconds until the command is killed */
    const char *job;          /* the job's folder */
    int pid;                  /* the launcher's process */
} tess_alert_channel;

typedef struct tess_alert {
    const char *event; /* "health" */
    const char *state; /* one word */
    const char *text;  /* a sentence for people */
    json_t *more;      /* an object whose members are added: borrowed; NULL: none */
} tess_alert;

/* Tries both ways; waits for the program alone. Returns the first failure: TESS_E_IO, TESS_E_NO_SPACE, or the errors of
 * tess_os_hook. */
tess_status tess_alert_send(const tess_alert_channel *channel, const tess_alert *alert);
/* The same without waiting: a detached process does it, which inherits only the standard descriptors. For launchers,
 * which must look after their ranks; the calling process must have one thread. Failures are not reported. */
void tess_alert_send_aside(const tess_alert_channel *channel, const tess_alert *alert);

/* A round's change as text: "degraded: 2.1 GiB are free where checkpoints go (limit 3 GiB)"; returns text. */
const char *tess_health_report(const tess_health *health, const tess_health_change *change, char *text, size_t size);
/* The same as members of a line: "was", "failures", "checks": {"disk": {"failing", "value", "limit", "text", "rank"}}
 * with the checks that fail or have recovered. A new reference; NULL: no memory. */
json_t *tess_health_to_json(const tess_health *health, const tess_health_change *change);

#endif
