/* Variables of NCCL and its plug-ins, PyTorch, MPI, UCX, libfabric, CUDA, OpenMP and Tessera. For each: what it does,
 * whether it exists, whether its value is valid, and which other variables contradict it. The registry is
 * the folder variables/; users add files of their own. */
#ifndef TESS_DOCTOR_ENV_ENV_H
#define TESS_DOCTOR_ENV_ENV_H

#include "base/text/text.h"
#include "doctor/table/table.h"

typedef struct tess_env_variable {
    tess_table_row row;   /* id: the name */
    const char *of;       /* the library that reads it: "NCCL"; NULL: that of its family */
    const char *does;     /* its purpose */
    const char *fallback; /* its default, as a description or as a value */
    const char *values;   /* accepted values (env_values.h); NULL: any text */
    const char *risky;    /* accepted values that are dangerous; NULL: none */
    const char *risk;     /* the harm that these values do */
    const char *state; /* NULL: it exists. Otherwise why setting it does nothing, or soon will: "removed in NCCL 2.5" */
    const char *note;  /* common advice that is wrong */
    const char *ours;  /* its meaning for Tessera */
    const char *source; /* NULL: that of its family, if the row is built in */
} tess_env_variable;

typedef struct tess_env_registry {
    tess_table table;
} tess_env_registry;

/* Loads the built-in registry, then ~/.config/tessera/variables.yaml, then `files`. Free with tess_env_registry_free,
 * also after a failure. */
tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry);
void tess_env_registry_free(tess_env_registry *registry);

typedef enum tess_env_grade {
    TESS_ENV_FINE,
    TESS_ENV_UNKNOWN, /* not in the registry, which need not hold all of its family */
    TESS_ENV_RISKY,   /* the value is accepted, and dangerous */
    TESS_ENV_VOID,    /* nobody reads it: setting it does nothing */
    TESS_ENV_WRONG    /* the value is invalid, or the name is misspelt */
} tess_env_grade;

/* One variable that is set. */
typedef struct tess_env_setting {
    const char *name, *value;       /* owned by the report; value NULL: asked about by name, and not set */
    bool computed;                  /* only a shell could compute the value, which is as it is written */
    const tess_env_variable *known; /* NULL: not in the registry, and so are the next two */
    const char *of, *source;        /* the library that reads it, and the document that says so (may be NULL) */
    tess_env_grade grade;
    char finding[640]; /* a finding beyond the registry; "": nothing */
} tess_env_setting;

enum { TESS_ENV_MOST_CONFLICTS = 32, TESS_ENV_MOST_SETTINGS = 2048 };

typedef struct tess_env_report {
    tess_mem *mem;
    char *text;                 /* holds names and values */
    tess_env_setting *settings; /* those of families in the registry, sorted by name */
    int n_settings;
    size_t capacity;
    int n_seen; /* variables in the environment, of any kind */
    char conflicts[TESS_ENV_MOST_CONFLICTS][400];
    int n_conflicts;
} tess_env_report;

/* Format of the text of an environment. */
typedef enum tess_env_format {
    TESS_ENV_LINES, /* "NAME=VALUE", or a shell script: "export NAME=${NAME:-VALUE}", ": ${NAME:=VALUE}", "mpirun -x
                     * NAME=VALUE", "# ..." */
    TESS_ENV_BLOCK  /* /proc/PID/environ: "NAME=VALUE\0" */
} tess_env_format;

/* Reads an environment and checks it. n_cores: cores that the ranks of a host share (for threads x ranks); 0: unknown.
 * TESS_E_FORMAT: it has more than TESS_ENV_MOST_SETTINGS variables of distributed training.
 * Free with tess_env_report_free, also after a failure. */
tess_status tess_env_check(tess_mem *mem, const tess_env_registry *registry, const char *text, size_t size,
                           tess_env_format format, int n_cores, tess_env_report *report);
/* The same for variables of this process by their names, set or not; NAME=VALUE stands for that value. Conflicts are
 * not looked for. */
tess_status tess_env_explain(tess_mem *mem, const tess_env_registry *registry, char *const *names, int n,
                             tess_env_report *report);
void tess_env_report_free(tess_env_report *report);

/* The setting of that name; NULL: not set. */
const tess_env_setting *tess_env_find(const tess_env_report *report, const char *name);
/* Number of settings that are wrong, void or risky, plus the number of conflicts. */
int tess_env_n_findings(const tess_env_report *report);

/* Prints text for people, or JSON with "version": 1. */
tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out);
tess_status tess_env_print_json(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out);

#endif
