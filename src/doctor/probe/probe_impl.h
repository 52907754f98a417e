/* Inside of probe: what a check of a host may look at, and how it says what it found. */
#ifndef TESS_DOCTOR_PROBE_PROBE_IMPL_H
#define TESS_DOCTOR_PROBE_PROBE_IMPL_H

#include "base/os/machine.h"
#include "doctor/probe/probe.h"

enum { PROBE_REASON_BYTES = 200, PROBE_PATH_BYTES = 1024 };

/* A folder that the job will write in. */
typedef struct probe_folder {
    const char *named;              /* as the configuration has it */
    char there[PROBE_PATH_BYTES];   /* itself, or its nearest parent that exists */
    tess_os_space space;            /* total 0: not known */
    double bytes_per_s;             /* 0: nothing could be written, or it was not tried */
    char error[PROBE_REASON_BYTES]; /* why not */
} probe_folder;

/* The first line of /proc/stat, in ticks. */
typedef struct probe_ticks {
    double total, steal;
} probe_ticks;

/* All that the checks of a host go by, besides files below `root`: a test hands them what it likes. */
typedef struct probe_host {
    const char *root;
    tess_probe_plan plan;
    uint64_t limits[TESS_OS_LIMIT_COUNT];
    bool is_root;
    int affinity_cores;
    const char *kernels, *best_kernels;   /* names of tables: the one in use, the best that can run */
    char amx_missing[PROBE_REASON_BYTES]; /* "": nothing */
    bool clock_known, clock_synced;
    double clock_error_s;
    tess_os_space shm;                    /* total 0: there is none */
    char memfd_error[PROBE_REASON_BYTES]; /* "": it works */
    bool futex_works;
    probe_folder dump, tmp;
    probe_ticks before; /* when looking began */
} probe_host;

/* The rows without their functions. */
const tess_probe_check *probe_host_checks(int *n);
const tess_probe_check *probe_rank_checks(int *n);
const tess_probe_check *probe_gpu_checks(int *n);

/* Asks the system; the rates of disks only where a wanted check needs them. */
void probe_host_ask(const tess_probe_plan *plan, const char *root, probe_host *host);

typedef void probe_look(const probe_host *host, tess_probe_finding *finding);
typedef struct probe_row {
    tess_probe_check check;
    probe_look *look;
} probe_row;

/* Runs the wanted rows of the host's table. */
void probe_host_look(const probe_host *host, tess_probe_findings *findings);

void probe_say(tess_probe_finding *finding, tess_probe_outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- probe_files.c: what is below the root
 * --------------------------------------------------------------------------------- */
/* Length of the text, -1: not there. */
ptrdiff_t probe_read(const char *root, const char *path, char *text, size_t size);
/* The first number in a file; false: there is none. */
bool probe_read_number(const char *root, const char *path, double *value);
/* Behind "<key>" at the beginning of a line of `text`, the first number; false: there is none. */
bool probe_number_after(const char *text, const char *key, double *value);
/* "MemTotal" and the like of /proc/meminfo, in bytes. */
bool probe_meminfo(const char *root, const char *key, double *bytes);
bool probe_read_ticks(const char *root, probe_ticks *ticks);

/* ---- cgroup.c: limits of the groups that this process is in, of version 2 or 1; the tightest of it and its parents
 * --- */
bool probe_cgroup_memory(const char *root, double *limit, double *used); /* bytes; false: no limit */
bool probe_cgroup_cores(const char *root, double *cores);                /* that the quota is worth; false: none */

/* ---- the rows' functions, by file
 * ---------------------------------------------------------------------------------- */
probe_look probe_kernels, probe_frequency, probe_steal, probe_throttling, probe_cores, probe_load; /* host_cpu.c */
probe_look probe_memory, probe_cgroup, probe_swap, probe_overcommit, probe_huge_pages, probe_shm;  /* host_memory.c */
probe_look probe_memfd, probe_futex, probe_kernel, probe_ptrace, probe_perf, probe_clocksource, probe_ntp,
    probe_stale; /* host_system.c */
probe_look probe_open_files, probe_locked_memory, probe_processes, probe_core_files,
    probe_address_space;                                                     /* host_limits.c */
probe_look probe_dump_folder, probe_dump_space, probe_dump_speed, probe_tmp; /* host_disk.c */

#endif
