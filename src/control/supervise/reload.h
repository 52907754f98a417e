/* Takes over changes of a job's configuration while it runs (job.reload). The file is looked at now and then. Only keys
 * that decide nothing (TESS_EFFECT_NOTHING) may change; if another one has changed, nothing is taken over. */
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
    tess_config *read; /* the configuration as it was read last */
    double changed_s, looked_s;
    uint64_t bytes;
    /* Configurations that were replaced. Processes and structs may still point to their texts. */
    int n_old;
    tess_config *old[TESS_RELOADS];
} tess_reload;

/* Finds the keys in which two configurations differ. `decides`: those with any effect, else those without one.
 * text (size) becomes "health.fds (10 -> 20), ..."; "": none. Returns their number. */
int tess_reload_compare(const tess_config *a, const tess_config *b, bool decides, char *text, size_t size);

/* Remembers the file as it is now. Does nothing if config->job.reload is false or there is no file. All pointers are
 * borrowed. */
void tess_reload_begin(tess_reload *reload, const char *path, const char *const *defaults, char *const *overrides,
                       int n_overrides, tess_config *config, const tess_reporter *reporter);

/* Called often; looks at the file once a second. Returns true if *config has changed: the caller must then start again
 * what was made of it. A file that cannot be read, or that changes other keys, is reported once, and nothing changes.
 */
bool tess_reload_look(tess_reload *reload);

void tess_reload_end(tess_reload *reload);

#endif
