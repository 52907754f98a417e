/* Takes over changes of a job's configuration while it runs (job.reload). The file is looked at now and then. Without
 * job.reload_step only keys that decide nothing (TESS_EFFECT_NOTHING) may change; if another one has changed, nothing
 * is taken over. With it, all ranks save and leave after that step, and go on with the new values. */
#ifndef TESS_CONTROL_RELOAD_RELOAD_H
#define TESS_CONTROL_RELOAD_RELOAD_H

#include "base/core/reporter.h"
#include "control/reload/config_text.h"

enum { TESS_RELOADS = 64 };

typedef struct tess_reload {
    tess_config_source source; /* path NULL: nothing is looked at */
    tess_config *config;       /* the job's; changed in place */
    tess_reporter reporter;
    int n_ranks;
    tess_status (*check)(tess_config *config); /* the task's own check; NULL: none */
    tess_config_text *read;                    /* the configuration in force, as it was read */
    tess_config_text *due;                     /* the configuration of the steps after due_step; NULL: none */
    tess_config_text *past; /* the one before a change whose ranks have not begun a step; NULL: none */
    int64_t due_step, taken_step;
    int64_t step; /* newest step that a rank has begun; -1: not known */
    double changed_s, looked_s;
    uint64_t bytes;
    /* Configurations that were replaced. Processes and structs may still point to their texts. */
    int n_old;
    tess_config *old[TESS_RELOADS];
} tess_reload;

/* Sets the configuration in force: `read`, which becomes the reload's, and *config, which was made of it. Nothing is
 * looked at if config->job.reload is false or there is no file. The caller sets n_ranks and check next. Pointers other
 * than `read` are borrowed. */
void tess_reload_begin(tess_reload *reload, const tess_config_source *source, tess_config_text *read,
                       tess_config *config, const tess_reporter *reporter);

/* Called often; looks at the file once a second. Returns true if *config has changed, and ranks that start from now on
 * read the new text: the caller must then start again what was made of *config. A file that cannot be read, or that
 * changes other keys, is reported once, and nothing changes. */
bool tess_reload_look(tess_reload *reload);

/* Returns the step after which the ranks leave for another configuration; 0: none. `step`: the newest step that a rank
 * has begun; -1: not known. A change whose step has passed is reported and forgotten. */
int64_t tess_reload_due(tess_reload *reload, int64_t step);
/* Called when the ranks have left after that step: *config changes, and ranks that start from now on read the new text.
 * On failure both stay as they were, and the change is forgotten. */
tess_status tess_reload_change(tess_reload *reload);
/* Goes back to the configuration before tess_reload_change. TESS_E_NOT_FOUND: there was no change, or ranks have begun
 * a step since. */
tess_status tess_reload_undo(tess_reload *reload);

/* Frees all but `source` and *config. What is kept of a change that is still planned stays in job.dump_folder. */
void tess_reload_end(tess_reload *reload);

#endif
