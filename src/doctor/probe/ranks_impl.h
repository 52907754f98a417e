/* Internal to probe: what ranks measure, and the functions with which rank 0 judges it. The latter are functions of
 * plain values. */
#ifndef TESS_DOCTOR_PROBE_RANKS_IMPL_H
#define TESS_DOCTOR_PROBE_RANKS_IMPL_H

#include "diagnosis/majority.h"
#include "doctor/probe/probe.h"
#include "tessera/comm.h"

enum { PROBE_ENVIRONMENT_BYTES = 4096, PROBE_WRONG_BYTES = 160 };

/* Speed of one core, measured by one rank's thread. */
typedef struct probe_speed {
    int32_t core; /* -1: not measured */
    float rate;   /* per second of core time: operations, or bytes */
    float share;  /* share of the core's time that the thread got, 0..1 */
} probe_speed;

/* The record that a rank sends to rank 0. */
typedef struct probe_rank {
    int32_t host;                              /* number of its host */
    int32_t cores_are_shared;                  /* 1: its host has more ranks than cores, so `share` means nothing */
    probe_speed gemm, copy;                    /* speeds of the slowest core tried */
    uint64_t program, configuration;           /* hashes of the program and of the configuration */
    double barrier_us;                         /* mean time of one barrier */
    char wrong[PROBE_WRONG_BYTES];             /* first all_reduce with a wrong sum; "": none */
    char environment[PROBE_ENVIRONMENT_BYTES]; /* NAME=value lines, sorted */
} probe_rank;

/* The link from rank 0's host to another host. */
typedef struct probe_link {
    double offset_s, round_trip_s; /* wall clock of the other host minus rank 0's, from the fastest exchange */
    double bytes_per_s;            /* speed from rank 0's host to it; 0: not measured */
} probe_link;

/* ---- Measurements of a rank (collective) ---- */
/* Measures matrix products and copies on every core of the host. All ranks measure at the same time. */
tess_status probe_measure_speed(tess_team *team, int local_index, int n_local, probe_rank *mine);
tess_status probe_try_all_reduce(tess_team *team, char *wrong);
tess_status probe_time_barrier(tess_team *team, double *us);
/* Measures the links between rank 0 and the first rank of each host (`leaders`: team ranks). Rank 0 gets links
 * (n_hosts). */
tess_status probe_measure_links(tess_team *team, const int *leaders, int n_hosts, probe_link *links);

/* ---- Functions of plain values ---- */
/* The records of all ranks, and scratch arrays for the judges. All arrays have n elements. */
typedef struct probe_all {
    const probe_rank *ranks;
    int n;
    uint64_t *hashes;
    double *paces;
} probe_all;

/* Finds the largest group of ranks that have the same hash. */
tess_majority probe_majority(const uint64_t *hashes, int n);
/* Collects the variables of `environment` that decide how such programs run and must not differ between ranks. */
void probe_collect_environment(char *const *environment, char *text);
void probe_judge_environment(const probe_all *all, tess_probe_finding *finding);
void probe_judge_program(const probe_all *all, tess_probe_finding *finding);
/* `unit`: unit of rate * 1e-9, "GFLOP/s" or "GB/s". */
void probe_judge_speed(const probe_all *all, const char *unit, bool copies, tess_probe_finding *finding);
void probe_judge_all_reduce(const probe_rank *ranks, int n, tess_probe_finding *finding);
void probe_judge_barrier(const probe_rank *ranks, int n, int n_hosts, tess_probe_finding *finding);
/* Shapes: links (n_hosts), names (n_hosts). */
void probe_judge_clocks(const probe_link *links, const char *const *names, int n_hosts, tess_probe_finding *finding);
void probe_judge_links(const probe_link *links, const char *const *names, int n_hosts, tess_probe_finding *finding);

/* An exchange of clocks: rank 0 sends at `sent_ns`, the other rank reads its clock at `there_ns`, and the answer
 * arrives at `back_ns`. */
typedef struct probe_exchange {
    uint64_t sent_ns, there_ns, back_ns;
} probe_exchange;
/* Returns the offset of the exchange with the shortest round trip, because that one was disturbed least. */
void probe_clock_offset(const probe_exchange *exchanges, int n, double *offset_s, double *round_trip_s);

#endif
