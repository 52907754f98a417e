/* Variables of NCCL, PyTorch, MPI, UCX, CUDA, OpenMP and Tessera: what each does, whether it exists, whether its value
 * is one, and which contradict each other. The registry is variables.yaml; a user's own files add to it. */
#ifndef TESS_DOCTOR_ENV_ENV_H
#define TESS_DOCTOR_ENV_ENV_H

#include "base/text/text.h"
#include "doctor/table/table.h"

typedef struct tess_env_variable {
    tess_table_row row;   /* id: the name */
    const char *of;       /* who reads it: "NCCL" */
    const char *does;     /* what for */
    const char *fallback; /* its default, in words or as a value */
    const char *values;   /* what is accepted (env_values.h); NULL: any text */
    const char *state; /* NULL: it exists. Otherwise why setting it does nothing, or soon will: "removed in NCCL 2.5" */
    const char *note;  /* where the advice in circulation is wrong */
    const char *source;
} tess_env_variable;

typedef struct tess_env_registry {
    tess_table table;
} tess_env_registry;

/* The built-in registry, then ~/.config/tessera/variables.yaml, then `files`. Destroy with tess_env_registry_free,
 * after a failure too. */
tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry);
void tess_env_registry_free(tess_env_registry *registry);

typedef enum tess_env_grade {
    TESS_ENV_FINE,
    TESS_ENV_UNKNOWN, /* not in the registry, of a family that has more than it knows */
    TESS_ENV_VOID,    /* nobody reads it: setting it does nothing */
    TESS_ENV_WRONG    /* the value is none, or the name is misspelt */
} tess_env_grade;

/* One variable that is set. */
typedef struct tess_env_setting {
    const char *name, *value;       /* owned by the report */
    const tess_env_variable *known; /* NULL: not in the registry */
    tess_env_grade grade;
    char finding[640]; /* what is to be said of it beyond the registry; "" : nothing */
} tess_env_setting;

enum { TESS_ENV_MOST_CONFLICTS = 32 };

typedef struct tess_env_report {
    tess_mem *mem;
    char *text;                 /* that names and values lie in */
    tess_env_setting *settings; /* of the families that the registry knows, in order of their names */
    int n_settings, capacity;
    int n_seen; /* variables in the environment, of any kind */
    char conflicts[TESS_ENV_MOST_CONFLICTS][400];
    int n_conflicts;
} tess_env_report;

/* How an environment is written down. */
typedef enum tess_env_format {
    TESS_ENV_LINES, /* "NAME=VALUE", also "export NAME='VALUE'", "# ..." */
    TESS_ENV_BLOCK  /* /proc/PID/environ: "NAME=VALUE\0" */
} tess_env_format;

/* Reads an environment and judges it. n_cores: of the machine that the ranks of a host share (for threads x ranks);
 * 0: not known. Free with tess_env_report_free, after a failure too. */
tess_status tess_env_check(tess_mem *mem, const tess_env_registry *registry, const char *text, size_t size,
                           tess_env_format format, int n_cores, tess_env_report *report);
void tess_env_report_free(tess_env_report *report);

/* The setting of that name; NULL: it is not set. */
const tess_env_setting *tess_env_find(const tess_env_report *report, const char *name);
/* Settings that are wrong or void, and conflicts: what is to be corrected. */
int tess_env_n_findings(const tess_env_report *report);

/* For people, and as JSON with "version": 1. */
tess_status tess_env_print(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out);
tess_status tess_env_print_json(const tess_env_report *report, const tess_env_registry *registry, tess_buffer *out);

#endif
