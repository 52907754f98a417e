/* The plan of a run, before it starts: memory, volume and time of a step, for this machine or for one that is not here.
 * Memory and volume are counters of dry ranks (dry_rank.h). Times are those of the calls that dry ranks make, on a
 * machine (plan_machine.h). Starts nothing and holds no weights.
 *
 * A planner keeps the dry ranks that it has run. It serves many requests, such as those of a search: a request that
 * differs from an earlier one in its machine or its options only runs no dry rank again, and one that differs in depth
 * is composed from shallow dry ranks. */
#ifndef TESS_PLAN_PLAN_H
#define TESS_PLAN_PLAN_H

#include "comm/volume.h"
#include "plan/plan_machine.h"
#include "plan/memory_need.h"
#include "tessera/clock.h"

/* Events that slow a run down. All zero: there are none. */
typedef struct tess_plan_options {
    double straggler;        /* the slowest rank takes this many times as long; 0: 1 */
    double failures_per_day; /* failures of the whole job */
    double save_s;           /* time that a save stalls all ranks */
    double save_every_s;     /* 0: the interval of Young and Daly */
    double restart_s;        /* time from a failure to the next step, without the work that is repeated */
    double loader_s;         /* time of a micro-batch's data that compute does not hide */
    bool full_ranks;         /* run dry ranks of full depth only; compose nothing */
    bool no_memory;          /* leave `memory` zero, where the caller has it already */
    bool until_too_large;    /* plan the memory of no more ranks once one does not fit */
    bool no_volume;          /* leave `volume` zero: a search needs times only */
    bool all_micros;         /* dry ranks run all micro-batches of a step: nothing is extended */
} tess_plan_options;

typedef struct tess_plan_request {
    const tess_config *config;      /* borrowed; it has passed tess_config_check_step for n_ranks */
    const tess_model_config *model; /* borrowed */
    const tess_machine *machine;    /* borrowed */
    int n_ranks;                    /* ranks that train */
    int ranks_a_host;               /* consecutive ranks that share a host; 0: as many as the machine has devices */
    tess_plan_options options;
} tess_plan_request;

/* The resource that limits a step. */
typedef enum tess_plan_bound {
    TESS_BOUND_COMPUTE, /* arithmetic of the kernels */
    TESS_BOUND_MEMORY,  /* bandwidth of the device's memory */
    TESS_BOUND_LINK,    /* a link: plan->time.bound_axis names the axis */
    TESS_BOUND_BUBBLE,  /* idle ranks of a pipeline */
    TESS_BOUNDS
} tess_plan_bound;
const char *tess_plan_bound_name(tess_plan_bound bound);

enum { TESS_PLAN_KERNELS = 64, TESS_PLAN_TEAMS = 16, TESS_PLAN_ALIVE = 8 };

/* An allocation that is alive at the moment of the peak. */
typedef struct tess_plan_alive {
    char what[48];
    tess_pool pool;
    double bytes;
} tess_plan_alive;

typedef struct tess_plan_memory {
    tess_memory_of_rank most; /* the rank that needs most */
    int rank;                 /* its number */
    int host_rank;            /* the rank that needs most of its host's memory */
    double bytes;             /* bytes that count against `room`: those of its device, or of all ranks of its host */
    double room;              /* bytes of the machine's device, or of a host's share of it; 0: not known */
    double missing;           /* bytes by which it does not fit; 0: it fits */
    char moment[64];          /* when that rank's memory is at its peak: "backward of layer 11" */
    tess_plan_alive alive[TESS_PLAN_ALIVE]; /* the largest things that are alive then */
    int n_alive;
    /* GPUs: bytes of all ranks of a host in the host's memory, and its size (0: not known); `missing` counts them, too
     */
    double host_bytes, host_room;
} tess_plan_memory;

/* The memory that lacks most: that of a device or a CPU host (tess_plan_memory.bytes), or that of the host of GPUs. */
typedef struct tess_plan_shortage {
    bool of_gpu_host;
    double bytes, room, missing; /* bytes = room + missing */
} tess_plan_shortage;

/* The communication of a step of the busiest rank over one team: an axis of the mesh. */
typedef struct tess_plan_team {
    char name[TESS_TRACE_NAME_BYTES];
    tess_link_kind link; /* the slowest link that the team crosses */
    double bytes;        /* received from other ranks */
    double n;            /* number of operations */
    double seconds;      /* time of all its operations */
    double exposed_s;    /* the part of `seconds` that no computation hides */
} tess_plan_team;

typedef struct tess_plan_volume {
    tess_volume of_rank; /* volume of rank 0, by team and operation */
    double exchanged_bytes;
} tess_plan_volume;

/* The calls of one row of the kernel table in a step. */
typedef struct tess_plan_kernel {
    const char *name;
    double n, seconds, flops, bytes;
    bool by_compute; /* arithmetic bounds it, not memory */
    bool measured;   /* its times come from a measured table, not from a data sheet */
} tess_plan_kernel;

/* Times are of the slowest rank. compute_s + exposed_s + bubble_s + optimizer_s + loader_s + other_s is step_s. */
typedef struct tess_plan_time {
    double step_s;
    double compute_s;   /* kernels of forward and backward */
    double exposed_s;   /* communication that nothing hides */
    double bubble_s;    /* idle time of the pipeline */
    double optimizer_s; /* kernels between the last backward and the next step */
    double loader_s, other_s;
    tess_plan_kernel kernels[TESS_PLAN_KERNELS];
    int n_kernels;
    tess_plan_team teams[TESS_PLAN_TEAMS];
    int n_teams;
    double phase_s[TESS_PHASE_COUNT]; /* the same step by the phases that a run reports (tessera/clock.h) */
    double measured_share;            /* share of the kernels' time that comes from measured tables */
    double tokens;                    /* tokens of a step, over all ranks */
    double tokens_per_s, tokens_per_s_rank;
    double flops;   /* operations of the model in a step, without recomputation */
    double mfu;     /* 0 .. 1 of the machine's peak in the dtype of the products */
    double goodput; /* 0 .. 1: share of the time that makes new steps (tess_plan_options) */
    double save_every_s;
    double watts;                               /* power of all devices */
    double joules_per_token, price_per_million; /* price per million tokens; NAN: the machine has no price */
    tess_plan_bound bound;
    char bound_axis[TESS_TRACE_NAME_BYTES];
} tess_plan_time;

typedef struct tess_plan {
    tess_plan_memory memory;
    tess_plan_volume volume;
    tess_plan_time time;
    bool composed; /* shallow dry ranks were used; false: dry ranks of full depth */
} tess_plan;

/* Returns the memory of which `missing` bytes are missing, where `bytes` count against that of a device or a CPU host:
 * both as in tess_plan_memory. missing > 0. */
tess_plan_shortage tess_plan_short_of(const tess_machine *machine, double bytes, double missing);

typedef struct tess_planner tess_planner;
tess_status tess_planner_create(tess_mem *mem, tess_planner **planner);
void tess_planner_destroy(tess_planner **planner);
int64_t tess_planner_dry_ranks(const tess_planner *planner); /* number of dry ranks that have run */

/* Returns the description of a model, with the configuration's frozen parameters. The planner owns it and keeps it. */
struct tess_model;
tess_status tess_planner_model(tess_planner *planner, const tess_config *config, const tess_model_config *sizes,
                               const struct tess_model **model);

/* The workers on which the planner's dry ranks run. */
struct tess_dry_workers *tess_planner_workers(tess_planner *planner);

/* Makes the plan. One thread at a time may use a planner.
 * TESS_E_INVALID: the configuration does not fit the model or the number of ranks, or the machine lacks a link that the
 * layout needs; the message names it
 * TESS_E_NOMEM: the process may not reserve enough addresses */
tess_status tess_plan_make(tess_planner *planner, const tess_plan_request *request, tess_plan *plan);

/* Returns the ranks of a host of the request. */
int tess_plan_ranks_a_host(const tess_plan_request *request);
/* Copies the request's configuration. The copy's device is the machine's. */
tess_status tess_plan_config_copy(const tess_plan_request *request, tess_config *config);
/* Makes the plan of dry ranks of the request that run with `config` (borrowed) and record what they move. */
tess_memory_plan tess_plan_dry(const tess_plan_request *request, const tess_config *config);

/* Returns a hash of what a plan depends on: the configuration, the model and the ranks. */
uint64_t tess_plan_key(const tess_plan_request *request);
/* Multiplies the times, and adapts what follows from them. */
void tess_plan_time_scale(tess_plan_time *time, double factor);
/* Lists settings with which the run would fit, each tried with dry ranks. */
tess_status tess_plan_would_fit(tess_planner *planner, const tess_plan_request *request, char *text, size_t size);

struct tess_step_spans;
/* Replays a step with dry ranks of full depth, and fills *spans (plan/step_spans.h), whose `mem` is set. It replays one
 * rank of each stage of a pipeline, and of a step with many micro-batches the first ones. */
tess_status tess_plan_time_line(tess_planner *planner, const tess_plan_request *request, struct tess_step_spans *spans);

/* Only memory, which is the cheapest part: for pruning. */
tess_status tess_plan_memory_of(tess_planner *planner, const tess_plan_request *request, tess_plan_memory *memory);

#endif
