/* Says which keys of a job's configuration may change while the job runs (job.reload), and compares configurations. */
#ifndef TESS_CONTROL_RELOAD_RELOAD_KEYS_H
#define TESS_CONTROL_RELOAD_RELOAD_KEYS_H

#include "config/config.h"

/* Sets of keys. */
typedef enum tess_reload_keys {
    TESS_RELOAD_FREE,   /* decide nothing */
    TESS_RELOAD_DECIDE, /* all others */
    TESS_RELOAD_FIXED,  /* a run that resumes from a checkpoint must not change them, or they are the run itself */
    TESS_RELOAD_ALL
} tess_reload_keys;

/* Finds the keys of a set in which two configurations differ. text (size) becomes "health.fds (10 -> 20), ..."; "":
 * none. Returns their number. */
int tess_reload_compare(const tess_config *a, const tess_config *b, tess_reload_keys keys, char *text, size_t size);

/* Checks that the files exist which ranks read because of keys that may change. TESS_E_NOT_FOUND, TESS_E_INVALID: one
 * is missing, empty or not readable; the message names the key. */
tess_status tess_reload_check_files(const tess_config *config);

#endif
