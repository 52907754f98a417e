/* Pipeline schedules as data: for each rank of a pipeline an ordered list of actions, how many micro-batches are in
 * flight, and which slot each of them has. Nothing here communicates or computes; the engine follows the lists.
 *
 * A model is cut into ranks * chunks stages. Stage g of a loop is chunk g / ranks of rank g % ranks; of a V (zbv,
 * dualpipev) the first half of the stages goes down the ranks and the second half comes back up, so that rank 0 has
 * the first stage and the last. A message is sent where consecutive stages are on different ranks. Messages between two
 * stages are a queue in each direction, taken in the order in which they are sent.
 *
 *   pipeline_orders.c      order of computations: one function a schedule
 *   pipeline_csv.c         the same from a file
 *   pipeline_build.c       messages around them, slots (the first that is free), where gradients are complete
 *   pipeline_check_list.c  a list by itself: everything once, inputs there, slots not shared
 *   pipeline_simulate.c    all ranks together: time, bubble, messages that wait, the circle of a deadlock
 *   pipeline_unread.c      gradients that are sent and may be unread
 *   pipeline_sets.c        micro-batches whose tokens may have the same memory
 *   pipeline_stages.c      layers cut into stages, by counts or with the cheapest largest stage
 *
 * Sources: GPipe, arXiv 1811.06965; 1F1B and its interleaved form, Narayanan et al. 2021, arXiv 2104.04473; ZB-H1 and
 * ZB-V, Qi et al. 2023, arXiv 2401.10241; DualPipe, DeepSeek-V3, arXiv 2412.19437, in its V form for half the ranks. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_H

#include "base/text/text.h"

typedef enum tess_pipeline_kind {
    TESS_PIPELINE_GPIPE,
    TESS_PIPELINE_1F1B,
    TESS_PIPELINE_INTERLEAVED,
    TESS_PIPELINE_ZB_H1,
    TESS_PIPELINE_ZBV,
    TESS_PIPELINE_DUALPIPEV,
    TESS_PIPELINE_KINDS
} tess_pipeline_kind;

typedef enum tess_pipeline_op {
    TESS_PIPELINE_F,  /* forward */
    TESS_PIPELINE_B,  /* the whole backward */
    TESS_PIPELINE_BI, /* backward of the inputs, which the previous stage waits for */
    TESS_PIPELINE_BW, /* backward of the weights, at any time after BI */
    TESS_PIPELINE_SEND_F,
    TESS_PIPELINE_RECV_F,
    TESS_PIPELINE_SEND_B,
    TESS_PIPELINE_RECV_B,
    TESS_PIPELINE_SEND_T, /* stage 0 sends the last stage its stream's gradient (tess_pipeline_tie) */
    TESS_PIPELINE_RECV_T, /* the last stage receives that gradient, which holds no slot */
    TESS_PIPELINE_OPS
} tess_pipeline_op;

/* A slot holds the tensors that a micro-batch keeps in a chunk, from the first action of the list that names this
 * micro-batch and chunk to the last. Two stages on one rank send nothing to each other: F of the later stage reads
 * the slot of the earlier one, and B or BI of the later stage writes its gradients there. */
typedef struct tess_pipeline_action {
    tess_pipeline_op op;
    int chunk, micro;
    int slot;  /* slot of the chunk */
    bool last; /* B and BW: the chunk's gradients are complete afterwards */
    int cell;  /* cell of a CSV file, from 1, with the computation that this action is or sends for; 0: no file */
} tess_pipeline_action;

typedef struct tess_pipeline_list {
    tess_pipeline_action *actions; /* (n) */
    int n;
    int in_flight; /* the largest number of slots held at the same time, over all chunks */
    int *slots;    /* (chunks) slots of each */
} tess_pipeline_list;

typedef struct tess_pipeline_schedule {
    tess_mem *mem;
    tess_pipeline_kind kind;
    int ranks, chunks, micros;
    tess_pipeline_list *lists; /* (ranks) */
    int tables; /* tied weights: the largest number of gradients of the table that wait for the embedding's part at the
                   same time; 0: the weights are not tied */
} tess_pipeline_schedule;

enum { TESS_PIPELINE_MAX_CHUNKS = 64, TESS_PIPELINE_MAX_MICROS = 1 << 22 /* over all stages */ };

/* "1f1b"; "SEND_F". */
const char *tess_pipeline_kind_name(tess_pipeline_kind kind);
const char *tess_pipeline_op_name(tess_pipeline_op op);
/* Reads our names and torchtitan's ("Interleaved1F1B"), in any case. TESS_E_INVALID names the nearest one, or all. */
tess_status tess_pipeline_kind_parse(const char *text, tess_pipeline_kind *kind);
/* The default number of chunks of a kind: 1 or 2. */
int tess_pipeline_usual_chunks(tess_pipeline_kind kind);

/* Whether a kind takes this many chunks a rank. */
bool tess_pipeline_takes_chunks(tess_pipeline_kind kind, int chunks);

/* The smallest number of micro-batches from `micros` on that a kind takes. */
int tess_pipeline_fill_up(tess_pipeline_kind kind, int ranks, int micros);
/* Checks that a schedule can be built. TESS_E_INVALID: the message says which numbers are possible. */
tess_status tess_pipeline_allows(tess_pipeline_kind kind, int ranks, int chunks, int micros);
/* Builds the lists of all ranks; the same arguments give the same lists. *schedule is empty after a failure; free it
 * with tess_pipeline_free. TESS_E_INVALID as tess_pipeline_allows, TESS_E_NOMEM. */
tess_status tess_pipeline_build(tess_mem *mem, tess_pipeline_kind kind, int ranks, int chunks, int micros,
                                tess_pipeline_schedule *schedule);
void tess_pipeline_free(tess_pipeline_schedule *schedule);
/* Build and check a schedule whose order of computations is written in CSV, as torchtitan's
 * pipeline_parallel_schedule_csv: one row a rank, cells such as 0F3 (pipeline_csv.c). kind, ranks, chunks and micros of
 * `shape` are set: the kind decides which rank has which stage. `name` is for messages; the second one reads a file.
 * TESS_E_INVALID: the message names the row and the cell, or the action that cannot run
 * TESS_E_NOT_FOUND, TESS_E_IO: errors of the file */
tess_status tess_pipeline_parse_csv(tess_mem *mem, const char *text, size_t size, const char *name,
                                    const tess_pipeline_schedule *shape, tess_pipeline_schedule *schedule);
tess_status tess_pipeline_load_csv(tess_mem *mem, const char *path, const tess_pipeline_schedule *shape,
                                   tess_pipeline_schedule *schedule);
/* Whether a list has BI and BW: backward in two parts. */
bool tess_pipeline_splits_backward(const tess_pipeline_schedule *schedule);
/* Adapts a schedule to tied weights, once after build. Sets `tables`. If stage 0 and the last stage are on different
 * ranks, it also adds SEND_T after each B or BI of stage 0, and RECV_T where the message has probably come.
 * TESS_E_NOMEM. */
tess_status tess_pipeline_tie(tess_pipeline_schedule *schedule);

/* Counts the gradients that a rank may have sent and that may still be unread when the rank computes others in their
 * slots: the largest number at the same time, however late their receivers are. TESS_E_NOMEM. */
tess_status tess_pipeline_unread(const tess_pipeline_schedule *schedule, int rank, int *n_unread);

/* Numbers the micro-batches of a rank's list, so that those with different numbers may be in memory at the same time.
 * A rank takes micro-batches in order. So micro-batch m is in memory from the first action of micro-batch m or of any
 * later one, to the last action of m. set[m] is the lowest number that no earlier micro-batch has at that time.
 * set (micros). *n_sets: how many numbers there are.
 * TESS_E_NOMEM
 * TESS_E_INVALID: an action names a micro-batch outside [0, micros) */
tess_status tess_pipeline_sets(const tess_pipeline_schedule *schedule, int rank, int *set, int *n_sets);

/* ---- Places of stages */
int tess_pipeline_stage(const tess_pipeline_schedule *schedule, int rank, int chunk);
/* The rank and chunk of a stage. */
int tess_pipeline_rank_of(const tess_pipeline_schedule *schedule, int stage);
int tess_pipeline_chunk_of(const tess_pipeline_schedule *schedule, int stage);
/* Whether a message leads from `stage` to `stage` + 1: there is such a stage, on another rank. */
bool tess_pipeline_crosses(const tess_pipeline_schedule *schedule, int stage);

/* ---- Costs */
/* The computations of a stage: F, B, BI and BW. */
typedef struct tess_pipeline_stage_costs {
    double of[TESS_PIPELINE_BW + 1];
} tess_pipeline_stage_costs;

/* Durations, in any unit. An action of a stage takes the stage's share of them. Messages take no time of the ranks
 * and arrive `send` later. */
typedef struct tess_pipeline_costs {
    double forward, backward, input, weight; /* time of F, B, BI, BW */
    double send;
    const double *share;                     /* (ranks * chunks) share of each stage; NULL: all 1 */
    const tess_pipeline_stage_costs *stages; /* (ranks * chunks) replace the four times and the shares; or NULL */
    int buffers; /* messages that a queue between two stages holds before SEND waits; 0: unlimited */
} tess_pipeline_costs;

typedef struct tess_pipeline_time {
    double start, end; /* a SEND ends when the message is buffered, a RECV when the message has arrived */
    int other;         /* index of the other end of a message in the list of its rank; set by a check */
} tess_pipeline_time;

typedef struct tess_pipeline_report {
    double makespan, bubble;    /* bubble: idle share of all ranks' time, 0 .. 1 */
    double *busy, *idle;        /* (ranks) busy time, which owns the other arrays, and the idle share of the makespan */
    int *in_flight;             /* (ranks) largest number of micro-batches held at the same time */
    int *slots;                 /* (ranks, chunks) the same for each chunk */
    int buffers;                /* largest number of messages queued between two stages, in one direction */
    tess_pipeline_time **times; /* (ranks) times of each action of the rank's list */
    tess_pipeline_time *all_times;
} tess_pipeline_report;

/* Checks every list, then simulates all ranks. Each micro-batch must go forward and backward through each stage once,
 * with inputs that exist and a slot that no other micro-batch uses. Messages must be paired and received in the order
 * in which they are sent, and no rank may wait forever. *report (may be NULL) gets the times and counts; free it with
 * tess_pipeline_report_free. TESS_E_INVALID: the message names the rank, the place in its list and the action.
 * Pure function: any number of threads may call it. */
tess_status tess_pipeline_check(const tess_pipeline_schedule *schedule, const tess_pipeline_costs *costs,
                                tess_pipeline_report *report);
void tess_pipeline_report_free(tess_pipeline_report *report);

/* ---- Measured times */
/* Creates an empty report for times that ranks have measured. Free it with tess_pipeline_report_free. */
tess_status tess_pipeline_report_create(const tess_pipeline_schedule *schedule, tess_pipeline_report *report);
/* Takes the times of all actions on one clock, in any unit: moves them so that the first computation starts at 0, and
 * sets makespan, bubble, busy and idle. */
void tess_pipeline_measure(const tess_pipeline_schedule *schedule, tess_pipeline_report *report);
/* Computes the mean time of each computation of a stage (ranks * chunks). A check with these costs shows the time
 * that the schedule itself takes. */
void tess_pipeline_mean_costs(const tess_pipeline_schedule *schedule, const tess_pipeline_report *report,
                              tess_pipeline_stage_costs *stages);

/* Returns the bubble by the closed formula of the schedule's paper, and sets the formula's text. NAN and NULL: no
 * formula holds, because messages take time, stages differ, or there are too few micro-batches to fill the pipeline. */
double tess_pipeline_formula(const tess_pipeline_schedule *schedule, const tess_pipeline_costs *costs,
                             const char **formula);
/* The smallest number of micro-batches whose bubble is below `bubble`; 0: none up to a hundred a stage, or none that
 * can be built. TESS_E_NOMEM. */
tess_status tess_pipeline_least_micros(const tess_pipeline_schedule *schedule, const tess_pipeline_costs *costs,
                                       double bubble, int *micros);

/* ---- Output for people and programs */
/* "FFFFBFBFBFBFBBBB": the computations of a rank in order, without idle time. BI is 'I', BW is 'W'. */
tess_status tess_pipeline_print_order(const tess_pipeline_schedule *schedule, int rank, tess_buffer *out);
/* Draws one row per rank over time, in at most `columns` columns, with the numbers of micro-batches if they fit. */
tess_status tess_pipeline_print_timeline(const tess_pipeline_schedule *schedule, const tess_pipeline_report *report,
                                         int columns, tess_buffer *out);
/* Writes a file for ui.perfetto.dev: one process per rank, one slice per computation, one arrow per message. A unit
 * of time is 1 ms. TESS_E_NOT_FOUND, TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_pipeline_write_trace(const tess_pipeline_schedule *schedule, const tess_pipeline_report *report,
                                      const char *path);

#endif
