/* Checks the environment variables of NCCL and its plug-ins, PyTorch, MPI, UCX, libfabric, CUDA, OpenMP and Tessera.
 * A report says what each variable does, whether it exists, whether its value is valid, and which other variables
 * contradict it. The registry is the folder variables/; users can add files. */
#ifndef TESS_DOCTOR_ENV_ENV_H
#define TESS_DOCTOR_ENV_ENV_H

#include "base/report/form.h"
#include "doctor/table/table.h"

typedef struct tess_env_variable {
    tess_table_row row;   /* id: name of the variable */
    const char *of;       /* library that reads it: "NCCL"; NULL: the library of its family */
    const char *does;     /* purpose of the variable */
    const char *fallback; /* its default, as a description or as a value */
    const char *values;   /* accepted values (env_values.h); NULL: any text */
    const char *risky;    /* accepted values that cause harm; NULL: none */
    const char *risk;     /* harm that these values cause */
    /* why setting it has no effect, or soon will have none: "removed in NCCL 2.5"; NULL: it has an effect */
    const char *state;
    const char *note;   /* common advice about it that is wrong */
    const char *ours;   /* meaning of the variable for Tessera */
    const char *source; /* NULL: the source of its family, for built-in rows */
} tess_env_variable;

typedef struct tess_env_registry {
    tess_table table, families, conflicts; /* rows: tess_env_variable, env_family, env_conflict */
} tess_env_registry;

/* Loads the built-in registry, then ~/.config/tessera/variables.yaml, then `files`. Free with tess_env_registry_free,
 * also after a failure. */
tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry);
void tess_env_registry_free(tess_env_registry *registry);

typedef enum tess_env_grade {
    TESS_ENV_FINE,
    TESS_ENV_UNKNOWN, /* not in the registry, although it has the prefix of a family */
    TESS_ENV_RISKY,   /* the value is accepted, but causes harm */
    TESS_ENV_VOID,    /* no library reads it: setting it has no effect */
    TESS_ENV_WRONG    /* the value is invalid, or the name is misspelt */
} tess_env_grade;

/* One variable that is set. */
typedef struct tess_env_setting {
    const char *name, *value; /* owned by the report; value NULL: the caller asked for the name, and it is not set */
    bool computed;            /* only a shell could compute the value; `value` is the unexpanded text */
    const tess_env_variable *known; /* NULL: not in the registry; `of` and `source` are then NULL, too */
    const char *of, *source;        /* library that reads it, and the document that says so (may be NULL) */
    tess_env_grade grade;
    char finding[640]; /* problem that the registry does not describe; "": none */
} tess_env_setting;

enum { TESS_ENV_MOST_CONFLICTS = 32, TESS_ENV_MOST_SETTINGS = 2048 };

typedef struct tess_env_report {
    tess_mem *mem;
    char *text;                 /* owns the names and values */
    tess_env_setting *settings; /* variables whose family is in the registry, sorted by name */
    int n_settings;
    size_t capacity;
    int n_seen;      /* number of all variables in the environment */
    int n_strangers; /* names that the caller asked for, and that no known library reads */
    char conflicts[TESS_ENV_MOST_CONFLICTS][400];
    int n_conflicts;
} tess_env_report;

/* Formats in which an environment can be given. */
typedef enum tess_env_format {
    TESS_ENV_LINES, /* "NAME=VALUE", or a shell script: "export NAME=${NAME:-VALUE}", ": ${NAME:=VALUE}", "mpirun -x
                     * NAME=VALUE", "# ..." */
    TESS_ENV_BLOCK  /* /proc/PID/environ: "NAME=VALUE\0" */
} tess_env_format;

/* Reads an environment and checks it. n_cores: cores that the ranks of a host share, for the check of threads x
 * ranks; 0: unknown. Free the report with tess_env_report_free, also after a failure. TESS_E_FORMAT: it has more
 * than TESS_ENV_MOST_SETTINGS variables of distributed training. */
tess_status tess_env_check(tess_mem *mem, const tess_env_registry *registry, const char *text, size_t size,
                           tess_env_format format, int n_cores, tess_env_report *report);
/* Does the same for variables of this process that are given by name, set or not. A name of the form NAME=VALUE is
 * checked with that value. A name that no known library reads is reported as TESS_ENV_UNKNOWN. Does not look for
 * conflicts. */
tess_status tess_env_explain(tess_mem *mem, const tess_env_registry *registry, char *const *names, int n,
                             tess_env_report *report);
void tess_env_report_free(tess_env_report *report);

/* Returns the setting with that name, or NULL if it is not set. */
const tess_env_setting *tess_env_find(const tess_env_report *report, const char *name);
/* Returns the number of settings that are wrong, without effect or risky, plus the number of conflicts. */
int tess_env_n_findings(const tess_env_report *report);

/* Prints text for people, or JSON with "version": 1. */
tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_form_style style,
                           tess_buffer *out);

#endif
