/* Who is told when a job needs somebody: a file with a line of JSON an alert, and a program of the user's. */
#ifndef TESS_HEALTH_ALERT_H
#define TESS_HEALTH_ALERT_H

#include <jansson.h>

#include "health/health.h"

/* Where alerts of a job go. Texts are borrowed. */
typedef struct tess_alert_channel {
    const char *file;         /* gets the line; its folder is made where it is missing. NULL: none */
    char *const *command;     /* words of the program, ended by NULL; gets the line on its standard input, and the alert
                               * as TESSERA_ALERT_JOB, _HOST, _EVENT, _STATE and _TEXT in its environment. NULL: none */
    double command_timeout_s; /* after which it is killed */
    const char *job;          /* its folder */
    int pid;                  /* of its launcher */
} tess_alert_channel;

typedef struct tess_alert {
    const char *event; /* "health" */
    const char *state; /* in a word */
    const char *text;  /* for people */
    json_t *more;      /* members to add, an object: borrowed; NULL: none */
} tess_alert;

/* Both ways are tried, and wait for nobody but the program. The first failure of the two: TESS_E_IO, TESS_E_NO_SPACE,
 * what tess_os_hook returns. */
tess_status tess_alert_send(const tess_alert_channel *channel, const tess_alert *alert);
/* The same, but nobody waits: a process that is nobody's child does it, with no descriptor of ours but the standard
 * ones. For launchers, which have ranks to look after; from a process of one thread. Failures are not told. */
void tess_alert_send_aside(const tess_alert_channel *channel, const tess_alert *alert);

/* What a round changed, told: "degraded: 2.1 GiB are free where checkpoints go (limit 3 GiB)"; returns text. */
const char *tess_health_report(const tess_health *health, const tess_health_change *change, char *text, size_t size);
/* The same as members of a line: "was", "failures", "checks": {"disk": {"failing", "value", "limit", "text", "rank"}}
 * with the checks that fail or are well again. A new reference; NULL: no memory. */
json_t *tess_health_to_json(const tess_health *health, const tess_health_change *change);

#endif
