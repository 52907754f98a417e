/* Takes over changes of a job's configuration while it runs (job.reload). The file is looked at now and then. Without
 * job.reload_step only keys that decide nothing (TESS_EFFECT_NOTHING) may change; if another one has changed, nothing
 * is taken over. With it, all ranks save and leave after that step, and go on with the new values. */
#ifndef TESS_CONTROL_SUPERVISE_RELOAD_H
#define TESS_CONTROL_SUPERVISE_RELOAD_H

#include "base/core/reporter.h"
#include "config/config.h"

enum { TESS_RELOADS = 64 };

typedef struct tess_reload {
    const char *path; /* NULL: nothing is looked at */
    const char *const *defaults;
    char *const *overrides;
    int n_overrides;
    tess_config *config; /* the job's; changed in place */
    tess_reporter reporter;
    int n_ranks;
    tess_config *read; /* the configuration as it was taken over last */
    tess_config *due;  /* the configuration of the steps after due_step; NULL: none */
    int64_t due_step;
    char *due_text; /* the file's text of that time */
    size_t due_bytes;
    int64_t step; /* newest step that a rank has begun; -1: not known */
    double changed_s, looked_s;
    uint64_t bytes;
    /* Configurations that were replaced. Processes and structs may still point to their texts. */
    int n_old;
    tess_config *old[TESS_RELOADS];
} tess_reload;

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

/* Remembers the file as it is now. Does nothing if config->job.reload is false or there is no file. All pointers are
 * borrowed. */
void tess_reload_begin(tess_reload *reload, const char *path, const char *const *defaults, char *const *overrides,
                       int n_overrides, tess_config *config, const tess_reporter *reporter);

/* Called often; looks at the file once a second. Returns true if *config has changed: the caller must then start again
 * what was made of it. A file that cannot be read, or that changes other keys, is reported once, and nothing changes.
 */
bool tess_reload_look(tess_reload *reload);

/* Returns the step after which the ranks leave for another configuration; 0: none. `step`: the newest step that a rank
 * has begun; -1: not known. A change whose step has passed is reported and forgotten. */
int64_t tess_reload_due(tess_reload *reload, int64_t step);
/* The ranks have left after that step: *config changes. *text: the file as it was read (bytes), valid until the next
 * call. Returns false if there is no room for the change. */
bool tess_reload_change(tess_reload *reload, const char **text, size_t *bytes);

void tess_reload_end(tess_reload *reload);

#endif
