/* Compares two checkpoints of any formats, cuts and dtypes, tensor by tensor. */
#ifndef TESS_CKPT_TOOLS_DIFF_H
#define TESS_CKPT_TOOLS_DIFF_H

#include "ckpt/formats/export_catalog.h"

typedef enum tess_diff_kind {
    TESS_DIFF_SAME,      /* the same dtype and bits */
    TESS_DIFF_CLOSE,     /* the same values in another dtype, or within the tolerance */
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
    bool measured;                   /* the doubles below are set: both hold numbers, of one shape */
    int64_t n, n_different;          /* elements; those that differ in bits, or, between two dtypes, in value */
    int64_t first;                   /* the first that differs, counted row by row; -1: none */
    double max_abs, max_rel;         /* maxima of |a - b|, |a - b| / max(|a|, |b|); infinite if only one is NaN */
    double norm_a, norm_b, norm_difference; /* 2-norms */
} tess_diff_tensor;

typedef struct tess_diff_summary {
    int n_tensors[TESS_DIFF_KINDS];
    double max_abs, max_rel;
} tess_diff_summary;

bool tess_diff_alike(const tess_diff_summary *summary); /* whether every tensor is SAME or CLOSE */

typedef struct tess_diff_options {
    double tolerance;                                           /* CLOSE: |a - b| <= tolerance * max(1, |a|, |b|) */
    bool bits_only;                                             /* compares bits and measures nothing: faster */
    bool model_only;                                            /* tess_ckpt_diff leaves out the optimizer */
    void *self;                                                 /* argument of the two below; either may be NULL */
    void (*tensor)(void *self, const tess_diff_tensor *tensor); /* called in the order of names */
    void (*progress)(void *self, uint64_t done, uint64_t all);  /* bytes of `a` */
} tess_diff_options;

/* Takes some 32 MiB of memory whatever the size of tensors. `options` may be NULL. Errors are those of reading. */
tess_status tess_export_diff(const tess_export *a, const tess_export *b, const tess_diff_options *options,
                             tess_diff_summary *summary);

/* Compares under Tessera's names: "model.X" of one is "X" of a model folder. */
tess_status tess_ckpt_diff(const tess_catalog *a, const tess_catalog *b, const tess_diff_options *options,
                           tess_diff_summary *summary);

#endif
