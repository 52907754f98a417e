/* Types and functions that the files of env share; not for other folders. */
#ifndef TESS_DOCTOR_ENV_ENV_IMPL_H
#define TESS_DOCTOR_ENV_ENV_IMPL_H

#include "doctor/env/env.h"

/* Built-in rows have a value of `file` that begins with this text. */
#define ENV_BUILT_IN "src/doctor/env/variables/variables_"
/* Rows of Tessera's own variables, which are also built in, have this value of `file`. */
#define ENV_OURS "src/base/core/variables.h"

/* Names with one prefix, the row's id, that one library reads: variables/families.yaml. */
typedef struct env_family {
    tess_table_row row;
    const char *of, *source, *ask, *kin;
} env_family;

/* A conflict between two variables: variables/conflicts.yaml. */
typedef struct env_conflict {
    tess_table_row row;
    const char *when, *and, *but, *says;
} env_conflict;

/* Returns the family of a name, or NULL if there is none. */
const env_family *env_family_of(const tess_env_registry *registry, const char *name);

/* Called for each assignment in a text. `name` and `value` point into the copy of the text. computed: only a shell
 * could compute the value, so `value` is the unexpanded text. */
typedef tess_status (*env_found)(void *context, const char *name, const char *value, bool computed);
/* Reads the assignments in lines NAME=VALUE or in a shell script. `copy` is a copy of the text with room for one
 * more byte; the function modifies it. */
tess_status env_read_lines(const char *text, size_t size, char *copy, env_found found, void *context);

/* Fills report->settings with the variables of an environment that are in the registry or belong to a family, sorted by
 * name. */
tess_status env_read(const tess_env_registry *registry, const char *text, size_t size, tess_env_format format,
                     tess_env_report *report);
/* Fills report->settings with the variables that `names` lists, from this process's environment; an item NAME=VALUE
 * is reported with that value. Counts the names that are neither in the registry nor in a family. */
tess_status env_read_names(const tess_env_registry *registry, char *const *names, int n, tess_env_report *report);
/* Checks a value that has a language of its own, such as PYTORCH_CUDA_ALLOC_CONF, and writes setting->finding. Returns
 * TESS_ENV_FINE for all other variables. The value must be set. */
tess_env_grade env_check_value(tess_env_setting *setting);
/* Finds the conflicts between the settings and fills report->conflicts. */
tess_status env_find_conflicts(const tess_env_registry *registry, tess_env_report *report, int n_cores);

#endif
