/* What a user may choose for the benches: flags that all take ("common"), then each bench's own, in a struct and a
 * table of its name. A row's key is the flag. */
#ifndef TESS_BENCH_BENCH_OPTIONS_H
#define TESS_BENCH_BENCH_OPTIONS_H

#include "base/core/options.h"

typedef struct tess_bench_options {
    struct {
        char filter[TESS_TEXT_SIZE]; /* only rows whose name contains it; "": all */
        char table[TESS_TEXT_SIZE];  /* kernel table; "": the best */
        int64_t threads;             /* 0: all cores */
        int64_t repeat;              /* 0: as the bench sees fit */
        bool quick;                  /* a fraction of the time and of the confidence */
    } common;
    struct {
        char model[TESS_TEXT_SIZE];
        int64_t batch, micro, seq; /* rows of a step, of a micro-batch; tokens of a row */
        int64_t ranks, steps;
        int precision, recompute, strategy; /* tess_precision, tess_recompute, tess_strategy */
    } step;
    struct {
        char model[TESS_TEXT_SIZE], folder[TESS_TEXT_SIZE];
        int64_t ranks;
        bool bf16, zstd, buffered, keep;
    } ckpt;
    struct {
        tess_text_list ranks;
        int64_t min_bytes, max_bytes, factor;
        double link_gbit, iperf_gbit; /* of a host's link: what it is said to do, what iperf3 found; 0: not told */
        char tune[TESS_TEXT_SIZE];    /* write a tuning table there; "": measure */
        char mpi[TESS_TEXT_SIZE];     /* path of mpi_collectives; "": beside this program; "none" */
    } comm;
} tess_bench_options;

/* The rows of `section` ("common", or a bench's name); NULL: it has none of its own. */
const tess_option_table *tess_bench_options_table(const char *section);

tess_status tess_bench_options_defaults(tess_bench_options *options);

/* Sets the flag "--filter" of a section; the text of a switch is ignored. TESS_E_INVALID names flag and range. */
tess_status tess_bench_options_set(tess_bench_options *options, const char *section, const char *flag,
                                   const char *text);

/* Threads that are asked for, or all cores. */
int tess_bench_threads(const tess_bench_options *options);
/* How often a row is measured: --repeat, else `usual`, with --quick `quick`. */
int tess_bench_rounds(const tess_bench_options *options, int usual, int quick);

/* True when the filter lets a row of this name through. */
bool tess_bench_wanted(const tess_bench_options *options, const char *name);

#endif
