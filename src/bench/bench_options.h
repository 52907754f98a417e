/* Options of the benches. Those of all benches are in the section "common". Each bench also has a section with its
 * name: a struct and a table. A row's key is the flag. */
#ifndef TESS_BENCH_BENCH_OPTIONS_H
#define TESS_BENCH_BENCH_OPTIONS_H

#include "base/core/options.h"

typedef struct tess_bench_options {
    struct {
        char filter[TESS_TEXT_SIZE]; /* selects the rows whose name contains this text; "": all */
        char table[TESS_TEXT_SIZE];  /* name of the kernel table; "": the best */
        int64_t threads;             /* 0: all cores */
        int64_t repeat;              /* 0: the bench decides */
        bool quick;                  /* takes a fraction of the time; the figures are not reliable */
    } common;
    struct {
        char device[TESS_TEXT_SIZE]; /* name of the device; "": the one in TESSERA_DEVICE, else the host */
    } kernels;
    struct {
        char model[TESS_TEXT_SIZE];
        int64_t batch, micro, seq; /* rows per step, rows per micro-batch, and tokens per row */
        int64_t passes, ranks, steps, tp, pp, cp, leaves;
        /* values of enums of tess_config: tess_precision, tess_device_choice, ... */
        int precision, recompute, strategy, device, cp_method, cp_order;
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
        char device[TESS_TEXT_SIZE]; /* "": the one in TESSERA_DEVICE */
        int64_t max_bytes;
    } transfer;
    struct {
        tess_text_list ranks;
        int64_t min_bytes, max_bytes, factor;
        double link_gbit, iperf_gbit; /* speed of a host's link: nominal, and measured by iperf3; 0: not given */
        char tune[TESS_TEXT_SIZE];    /* file to which the tuning table is written; "": only measure */
        char device[TESS_TEXT_SIZE];  /* device that holds the buffers; "": the host */
        bool tls;                     /* hosts without an MPI encrypt what they send */
        bool list;                    /* only print the ways of bytes between ranks */
        char mpi[TESS_TEXT_SIZE];     /* path of mpi_collectives; "": next to this program; "none": no MPI */
    } comm;
} tess_bench_options;

/* Returns the rows of `section` ("common", or the name of a bench), or NULL if there is none. */
const tess_option_section *tess_bench_options_section(const char *section);

/* Sets the defaults. *options must be zeroed before. Free it with tess_bench_options_free, also after a failure. */
tess_status tess_bench_options_defaults(tess_bench_options *options);
void tess_bench_options_free(tess_bench_options *options);

/* Sets the flag ("--filter") of a section. The text is ignored if the flag is a switch. TESS_E_INVALID: the message
 * names the flag and the range. */
tess_status tess_bench_options_set(tess_bench_options *options, const char *section, const char *flag,
                                   const char *text);

/* Returns --threads, or the number of all cores. */
int tess_bench_threads(const tess_bench_options *options);
/* Returns the number of measurements per row: --repeat, or `usual`, or `quick` with --quick. */
int tess_bench_rounds(const tess_bench_options *options, int usual, int quick);

/* Whether --filter selects the row `name`. */
bool tess_bench_wanted(const tess_bench_options *options, const char *name);

#endif
