/* Shared by the files of this folder. */
#ifndef TESS_DOCTOR_ENV_ENV_IMPL_H
#define TESS_DOCTOR_ENV_ENV_IMPL_H

#include "doctor/env/env.h"

/* The value of `file` in built-in rows begins with it. */
#define ENV_BUILT_IN "src/doctor/env/variables/variables_"
/* The value of `file` in the rows of Tessera's own variables, which are built in, too. */
#define ENV_OURS "src/base/core/variables.h"

typedef struct env_family {
    const char *prefix;
    const char *of, *source; /* defaults of the family's variables; `source`: for built-in ones */
    const char *ask;         /* place to find the names that the registry lacks; NULL: it has all names */
    const char *kin;         /* families of the same value have prefixes that are taken for each other; NULL: none */
} env_family;

/* The family of a name; NULL: none. */
const env_family *env_family_of(const char *name);

/* Is called for each assignment of a text. `name` and `value` lie in the copy of the text. computed: only a shell could
 * compute the value, which is passed as it is written. */
typedef tess_status (*env_found)(void *context, const char *name, const char *value, bool computed);
/* Reads the assignments of lines NAME=VALUE, or of a shell script. `copy` is a copy of the text with room for one byte
 * more; it is written to. */
tess_status env_read_lines(const char *text, size_t size, char *copy, env_found found, void *context);

/* Fills report->settings with the variables of an environment that are in the registry or belong to a family, sorted by
 * name. */
tess_status env_read(const tess_env_registry *registry, const char *text, size_t size, tess_env_format format,
                     tess_env_report *report);
/* Fills report->settings with variables by their names, in this process's environment, or as NAME=VALUE with that
 * value. TESS_E_INVALID: a name is neither in the registry nor of a family. */
tess_status env_read_names(const tess_env_registry *registry, char *const *names, int n, tess_env_report *report);
/* Fills report->conflicts. */
void env_find_conflicts(tess_env_report *report, int n_cores);

#endif
