/* Checks of machines, ranks and configuration before a job. A check is a row of a table. Running a check gives a
 * finding. Checks do not change the machine and leave no files.
 *
 * Findings are plain data, so that hosts can send them to rank 0. */
#ifndef TESS_DOCTOR_PROBE_PROBE_H
#define TESS_DOCTOR_PROBE_PROBE_H

#include <stdio.h>

#include "base/text/text.h"
#include "tessera/runtime.h"

typedef enum tess_probe_outcome {
    TESS_PROBE_OK,
    TESS_PROBE_WARN,  /* the job runs, but slower, or a fault will be harder to find */
    TESS_PROBE_FAIL,  /* the job will not start, or not finish */
    TESS_PROBE_ABSENT /* the machine lacks what the check looks at */
} tess_probe_outcome;

typedef enum tess_probe_group {
    TESS_PROBE_HOST,
    TESS_PROBE_GPU,
    TESS_PROBE_RANKS,
    TESS_PROBE_CONFIG,
    TESS_PROBE_GROUPS
} tess_probe_group;

typedef struct tess_probe_check {
    char name[24];       /* name of the check: "dump-space" */
    char looks_at[128];  /* "room on the disk of job.dump_folder" */
    char threshold[128]; /* "fail below 64 MiB" */
    char fix[128];
} tess_probe_check;

/* name of the check whether ranks start; the command that starts them adds its finding */
#define TESS_PROBE_START "start"

enum { TESS_PROBE_NAME_BYTES = 24, TESS_PROBE_TEXT_BYTES = 424, TESS_PROBE_MOST = 64 };

typedef struct tess_probe_finding {
    char name[TESS_PROBE_NAME_BYTES]; /* name of the check */
    int32_t outcome;                  /* tess_probe_outcome */
    int32_t group;                    /* tess_probe_group */
    char text[TESS_PROBE_TEXT_BYTES]; /* the finding, with the numbers */
} tess_probe_finding;

typedef struct tess_probe_findings {
    int32_t n;
    tess_probe_finding at[TESS_PROBE_MOST];
} tess_probe_findings;

/* The properties of the planned job that checks need. */
typedef struct tess_probe_plan {
    int n_ranks, n_hosts;    /* ranks on this host; hosts in all */
    double state_bytes;      /* estimate of the memory that the ranks of this host need; 0: unknown */
    bool chooses;            /* the run takes more, by the memory that it finds (training.local_batch_size=auto) */
    double checkpoint_bytes; /* size of one checkpoint; 0: unknown */
    uint64_t config_hash;    /* 0: there is no configuration */
    const char *dump_folder; /* folder for checkpoints; it need not exist yet */
    const char *tmp_folder;
    const char *tcp;  /* ports that must answer: "h1:29400,h2:22"; NULL: none */
    const char *only; /* names of the checks to run, separated by commas; NULL: all */
} tess_probe_plan;

/* Whether `only` names the check. NULL names all checks. */
bool tess_probe_wanted(const char *only, const char *name);

/* Adds a finding, unless the table of findings is full. */
void tess_probe_add(tess_probe_findings *findings, tess_probe_group group, const char *name, tess_probe_outcome outcome,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Describes check `i` of a group, or the check with a name (checks.yaml). Returns false if there is none. */
bool tess_probe_check_at(tess_probe_group group, int i, tess_probe_check *check);
bool tess_probe_check_find(const char *name, tess_probe_check *check);
/* Whether `only` names any check of the group. */
bool tess_probe_wants_group(const char *only, tess_probe_group group);
const char *tess_probe_group_name(tess_probe_group group); /* "host", "gpu", "ranks", "config" */

/* Checks this host and its GPUs in about two seconds. Paths "/proc" and "/sys" are looked up under `root`, which is
 * "" except in tests. */
void tess_probe_host(const tess_probe_plan *plan, const char *root, tess_probe_findings *findings);

/* The state of this host's GPUs, for regular monitoring. */
typedef struct tess_probe_gpu_health {
    int hottest; /* index of the hottest GPU; -1: unknown */
    double celsius;
    int worst; /* index of the GPU with most uncorrectable memory errors; -1: unknown */
    int64_t n_errors;
    int fullest; /* index of the GPU with the largest share of its memory in use; -1: unknown */
    double percent;
} tess_probe_gpu_health;

/* Reads the state of the GPUs. Returns false if there is no GPU, or no answer within four seconds. */
bool tess_probe_gpu_look(tess_probe_gpu_health *health);

/* Lets the ranks of a job compute and communicate for about two seconds. Collective; rank 0 gets the findings. */
tess_status tess_probe_ranks(tess_runtime *runtime, const tess_probe_plan *plan, tess_probe_findings *findings);

/* The findings of all hosts and of the ranks. */
typedef struct tess_probe_report {
    int n_ranks, n_hosts;
    double seconds;
    char (*host_names)[64];           /* (n_hosts) */
    const tess_probe_findings *hosts; /* (n_hosts): host, gpu and config findings */
    const tess_probe_findings *job;   /* findings of the checks that all ranks run together */
} tess_probe_report;

/* Gathers the findings `mine` of the first rank of each host into `all` (n_hosts) on rank 0. Collective. */
tess_status tess_probe_gather(tess_runtime *runtime, const tess_probe_findings *mine, tess_probe_findings *all);

/* Returns the number of findings with that outcome. Equal findings of several hosts count once. */
int tess_probe_count(const tess_probe_report *report, tess_probe_outcome outcome);

/* Appends one screen, wrapped at `columns`: first failures, then warnings, each with its fix; then a summary of the
 * checks that passed. 0 columns: appends {"format": "tessera-preflight", "version": 1, "verdict": "ok"|"warn"|"fail",
 * "ranks", "hosts", "seconds", "checks": [{"name", "group", "host" (null: the job), "result": "ok"|"warn"|"fail"|"not
 * here", "found", "threshold", "fix"}]}. */
tess_status tess_probe_print(const tess_probe_report *report, int columns, tess_buffer *out);

#endif
