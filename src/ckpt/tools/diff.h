/* Two checkpoints compared tensor by tensor, whatever their formats, cuts and dtypes. */
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
    const tess_export_tensor *a, *b; /* NULL where it is not */
    bool measured;                   /* the numbers below are there: both are numbers, of one shape */
    int64_t n, n_different;          /* elements; of them, with other bits, or with other values in another dtype */
    int64_t first;                   /* of those, counted row by row; -1: none */
    double max_abs, max_rel;         /* of |a - b|, |a - b| / max(|a|, |b|); infinite against a NaN on one side */
    double norm_a, norm_b, norm_difference; /* 2-norms */
} tess_diff_tensor;

typedef struct tess_diff_summary {
    int n_tensors[TESS_DIFF_KINDS];
    double max_abs, max_rel;
} tess_diff_summary;

bool tess_diff_alike(const tess_diff_summary *summary); /* every tensor is SAME or CLOSE */

typedef struct tess_diff_options {
    double tolerance; /* two values with |a - b| <= tolerance * max(1, |a|, |b|) do not differ */
    bool bits_only;   /* nothing is measured but whether bits are the same: faster */
    bool model_only;  /* tess_ckpt_diff: the optimizer is left out */
    void *self;       /* of the two below, either may be NULL */
    void (*tensor)(void *self, const tess_diff_tensor *tensor); /* by name */
    void (*progress)(void *self, uint64_t done, uint64_t all);  /* bytes of `a` */
} tess_diff_options;

/* Some 32 MiB of memory, whatever the size of tensors. Errors are those of reading. `options` may be NULL. */
tess_status tess_export_diff(const tess_export *a, const tess_export *b, const tess_diff_options *options,
                             tess_diff_summary *summary);

/* Under Tessera's names: "model.X" of one is "X" of a model folder. */
tess_status tess_ckpt_diff(const tess_catalog *a, const tess_catalog *b, const tess_diff_options *options,
                           tess_diff_summary *summary);

#endif
