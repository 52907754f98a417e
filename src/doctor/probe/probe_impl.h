/* Internal to probe: the inputs of a host's checks, and functions that add findings. */
#ifndef TESS_DOCTOR_PROBE_PROBE_IMPL_H
#define TESS_DOCTOR_PROBE_PROBE_IMPL_H

#include "base/os/machine.h"
#include "doctor/probe/probe.h"

enum { PROBE_REASON_BYTES = 200, PROBE_PATH_BYTES = 1024 };

/* A folder that the job will write to. */
typedef struct probe_folder {
    const char *named;              /* the folder as the configuration names it */
    char there[PROBE_PATH_BYTES];   /* the folder itself, or its nearest existing parent */
    tess_os_space space;            /* space on its disk; total 0: unknown */
    double bytes_per_s;             /* measured speed of writing; 0: writing failed, or was not tried */
    char error[PROBE_REASON_BYTES]; /* why the folder cannot be written; "": it can */
} probe_folder;

/* The first line of /proc/stat, in ticks. */
typedef struct probe_ticks {
    double total, steal;
} probe_ticks;

/* The inputs of a host's checks, except for files below `root`. A test can set them all. */
typedef struct probe_host {
    const char *root;
    tess_probe_plan plan;
    uint64_t limits[TESS_OS_LIMIT_COUNT];
    bool is_root;
    int affinity_cores;
    /* names of kernel tables: the table in use, and the best table that this host can run */
    const char *kernels, *best_kernels;
    char amx_missing[PROBE_REASON_BYTES]; /* features that the highest level of kernels lacks here; "": none */
    bool clock_known, clock_synced;
    double clock_error_s;
    tess_os_space shm;                    /* space of /dev/shm; total 0: there is none */
    char memfd_error[PROBE_REASON_BYTES]; /* why memfd_create fails; "": it works */
    bool futex_works;
    probe_folder dump, tmp;
    probe_ticks before; /* cores' times when the checks began */
} probe_host;

/* Collects the inputs of the checks from the system. Measures disk rates only if a check that needs them is to run. */
void probe_host_ask(const tess_probe_plan *plan, const char *root, probe_host *host);

typedef void probe_look(const probe_host *host, tess_probe_finding *finding);

/* Runs the checks of the host's table that the plan names. */
void probe_host_look(const probe_host *host, tess_probe_findings *findings);

/* Adds a finding without outcome and text. Returns NULL if `only` does not name the check, or if the table of
 * findings is full. */
tess_probe_finding *probe_begin(tess_probe_findings *findings, tess_probe_group group, const char *name,
                                const char *only);
/* Sets the outcome and text of a finding, and removes control characters from the text. */
void probe_say(tess_probe_finding *finding, tess_probe_outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- probe_files.c: files below the root ---- */
/* Reads a file as text. Returns its length; -1: no such file. */
ptrdiff_t probe_read(const char *root, const char *path, char *text, size_t size);
/* Reads the first number in a file. Returns false if there is none. */
bool probe_read_number(const char *root, const char *path, double *value);
/* Reads a value of /proc/meminfo such as "MemTotal", in bytes. */
bool probe_meminfo(const char *root, const char *key, double *bytes);
bool probe_read_ticks(const char *root, probe_ticks *ticks);

/* A process, read from /proc/PID/stat. */
typedef struct probe_process {
    int pid, parent;
    char name[32]; /* may hold any character */
    char state;    /* 'R', 'S', ... of proc(5) */
    double start;  /* start time in ticks since the machine booted */
} probe_process;
/* Reads this process. Returns false if there is no /proc. */
bool probe_read_self(const char *root, probe_process *process);
/* Calls `visit` for every process of the host. */
void probe_each_process(const char *root, void (*visit)(void *context, const probe_process *process), void *context);

/* ---- functions of the checks, by file ---- */
probe_look probe_kernels, probe_frequency, probe_steal, probe_throttling, probe_cores, probe_load; /* host_cpu.c */
probe_look probe_memory, probe_cgroup, probe_swap, probe_overcommit, probe_huge_pages, probe_shm;  /* host_memory.c */
probe_look probe_memfd, probe_futex, probe_kernel, probe_ptrace, probe_perf, probe_clocksource, probe_ntp,
    probe_stale; /* host_system.c */
probe_look probe_open_files, probe_locked_memory, probe_processes, probe_core_files,
    probe_address_space;                                                                          /* host_limits.c */
probe_look probe_dump_folder, probe_dump_space, probe_dump_speed, probe_tmp;                      /* host_disk.c */
probe_look probe_socket_buffers, probe_tcp_buffers, probe_infiniband, probe_interface, probe_tcp; /* host_network.c */

#endif
