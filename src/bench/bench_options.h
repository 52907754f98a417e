/* Options of the benches: those of all ("common"), then each bench's own, in a struct and a table of its name. A row's
 * key is the flag. */
#ifndef TESS_BENCH_BENCH_OPTIONS_H
#define TESS_BENCH_BENCH_OPTIONS_H

#include "base/core/options.h"

typedef struct tess_bench_options {
    struct {
        char filter[TESS_TEXT_SIZE]; /* only rows whose name contains it; "": all */
        char table[TESS_TEXT_SIZE];  /* kernel table; "": the best */
        int64_t threads;             /* 0: all cores */
        int64_t repeat;              /* 0: the bench decides */
        bool quick;                  /* takes a fraction of the time; figures are not reliable */
    } common;
    struct {
        char device[TESS_TEXT_SIZE]; /* "": TESSERA_DEVICE, else the host */
    } kernels;
    struct {
        char model[TESS_TEXT_SIZE];
        int64_t batch, micro, seq; /* rows of a step, of a micro-batch; tokens of a row */
        int64_t passes, ranks, steps, tp, pp;
        int precision, recompute, strategy, device; /* enums of tess_config: tess_precision, tess_device_choice, ... */
    } step;
    struct {
        char model[TESS_TEXT_SIZE];
        int64_t batch, micro, seq, ranks, steps;
    } precision;
    struct {
        char model[TESS_TEXT_SIZE];
        int64_t documents, micro, seq, ranks, steps;
    } packing;
    struct {
        char model[TESS_TEXT_SIZE], folder[TESS_TEXT_SIZE];
        int64_t ranks;
        bool bf16, zstd, buffered, keep;
    } ckpt;
    struct {
        char folder[TESS_TEXT_SIZE];
        int64_t max_bytes;
    } offload;
    struct {
        tess_text_list ranks;
        int64_t min_bytes, max_bytes, factor;
        double link_gbit, iperf_gbit; /* speed of a host's link: nominal, and by iperf3; 0: not given */
        char tune[TESS_TEXT_SIZE];    /* file of the tuning table to write; "": measure */
        char device[TESS_TEXT_SIZE];  /* device whose memory the buffers are; "": the host's */
        char mpi[TESS_TEXT_SIZE];     /* path of mpi_collectives; "": next to this program; "none" */
    } comm;
} tess_bench_options;

/* The rows of `section` ("common", or a bench's name); NULL: none. */
const tess_option_section *tess_bench_options_section(const char *section);

/* *options was zeroed. Free it with tess_bench_options_free, also after a failure. */
tess_status tess_bench_options_defaults(tess_bench_options *options);
void tess_bench_options_free(tess_bench_options *options);

/* Sets the flag ("--filter") of a section; ignores the text of a switch. The message of TESS_E_INVALID names the flag
 * and the range. */
tess_status tess_bench_options_set(tess_bench_options *options, const char *section, const char *flag,
                                   const char *text);

/* --threads, or all cores. */
int tess_bench_threads(const tess_bench_options *options);
/* Measurements of a row: --repeat, or `usual`, or `quick` with --quick. */
int tess_bench_rounds(const tess_bench_options *options, int usual, int quick);

/* True when --filter selects the row `name`. */
bool tess_bench_wanted(const tess_bench_options *options, const char *name);

#endif
