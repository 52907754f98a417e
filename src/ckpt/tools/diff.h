/* Compares two checkpoints tensor by tensor. They may have different formats, cuts and dtypes. */
#ifndef TESS_CKPT_TOOLS_DIFF_H
#define TESS_CKPT_TOOLS_DIFF_H

#include "ckpt/formats/export_catalog.h"

typedef enum tess_diff_kind {
    TESS_DIFF_SAME,      /* same dtype and same bits */
    TESS_DIFF_CLOSE,     /* same values in another dtype, or within the tolerance */
    TESS_DIFF_DIFFERENT, /* values differ */
    TESS_DIFF_SHAPE,
    TESS_DIFF_ONLY_A,
    TESS_DIFF_ONLY_B,
    TESS_DIFF_KINDS
} tess_diff_kind;

const char *tess_diff_text(tess_diff_kind kind); /* "same", "close", "different", "shape", "only in A", "only in B" */

typedef struct tess_diff_tensor {
    const char *name;
    tess_diff_kind kind;
    const tess_export_tensor *a, *b; /* NULL: not in that checkpoint */
    bool measured;                   /* the doubles below are set: both tensors hold numbers and have the same shape */
    /* Number of elements; number that differ in bits or, if the dtypes differ, in value */
    int64_t n, n_different;
    int64_t first; /* index of the first element that differs, counted row by row; -1: none */
    /* Maxima of |a - b| and |a - b| / max(|a|, |b|); infinite if only one value is NaN */
    double max_abs, max_rel;
    double norm_a, norm_b, norm_difference; /* 2-norms */
} tess_diff_tensor;

typedef struct tess_diff_summary {
    int n_tensors[TESS_DIFF_KINDS];
    double max_abs, max_rel;
} tess_diff_summary;

bool tess_diff_alike(const tess_diff_summary *summary); /* whether every tensor is SAME or CLOSE */

typedef struct tess_diff_options {
    double tolerance; /* CLOSE: |a - b| <= tolerance * max(1, |a|, |b|) */
    /* Compare only bits and measure nothing, which is faster */
    bool bits_only;
    bool model_only;                                            /* tess_ckpt_diff leaves out the optimizer */
    void *self;                                                 /* argument of the two callbacks; either may be NULL */
    void (*tensor)(void *self, const tess_diff_tensor *tensor); /* called in the order of names */
    void (*progress)(void *self, uint64_t done, uint64_t all);  /* counts bytes of `a` */
} tess_diff_options;

/* Compares two exports. Uses about 32 MiB of memory for tensors of any size. `options` may be NULL. Returns the errors
 * of reading. */
tess_status tess_export_diff(const tess_export *a, const tess_export *b, const tess_diff_options *options,
                             tess_diff_summary *summary);

/* Compares two checkpoints under Tessera's names, so "model.X" of one matches "X" of a model folder. */
tess_status tess_ckpt_diff(const tess_catalog *a, const tess_catalog *b, const tess_diff_options *options,
                           tess_diff_summary *summary);

#endif
