/* The fingerprint of a collective: what a rank asked for, compared when ranks meet. Thus no collective is silently
 * wrong (law 3). */
#ifndef TESS_JOB_FINGERPRINT_H
#define TESS_JOB_FINGERPRINT_H

#include "tessera/types.h"
#include "trace/ring.h"

enum {
    TESS_FINGERPRINT_ACCUMULATE = 1,
    TESS_FINGERPRINT_DEVICE = 2, /* the buffers are memory of a device */
    TESS_FINGERPRINT_WINDOWS = 4 /* the buffers lie in windows that peers read */
};

/* 64 bytes, passed through shared memory. Two are equal when all fields but the call site are. */
typedef struct tess_fingerprint {
    uint64_t team;      /* hash */
    uint64_t sequence;  /* number inside the team, from 0 */
    uint64_t count;     /* elements that the caller named (n, or the sum over the pieces) */
    uint64_t tag;       /* tag of a message or a sum (comm/tagged.h), or hash of the pieces */
    uint64_t call_site; /* trace/call_site.h */
    int32_t root;       /* or the peer's rank; -1: none */
    uint8_t kind;       /* tess_trace_op */
    uint8_t dtype;
    uint8_t in_dtype; /* input type of coalesced operations; otherwise equal to dtype */
    uint8_t op;       /* tess_op */
    uint8_t flags;    /* TESS_FINGERPRINT_... */
    uint8_t spare[7];
    uint64_t label; /* purpose of the operation (trace/label.h), 0: not given */
} tess_fingerprint;

/* Equal fingerprints have equal digests. Two that differ in one word (team, sequence, count, tag, label, root with kind
 * and dtypes) have different digests; two that differ in more collide with probability 2^-64. */
uint64_t tess_fingerprint_digest(const tess_fingerprint *fp);

/* An even number derived from the call site. 0 with a label, which names the operation wherever it is called. 0 also
 * for an address in code generated at run time: another rank, or a later moment, has another function there. */
uint32_t tess_fingerprint_site(const tess_fingerprint *fp);

/* "all_reduce #12 of team 'world': 1024 float32, sum (called at program+0x1f30)"; "nothing more" for a plan that has
 * ended. Returns text. */
const char *tess_fingerprint_format(const tess_fingerprint *fp, const char *team, char *text, size_t size);

/* Compares what `n` ranks of a team asked (rank r's fingerprint at posts + r * stride bytes). TESS_OK: all agree.
 * TESS_E_MISMATCH: the message lists every variant with its ranks and names the minority, or says that it is a tie.
 * by_place  requests from different call sites differ, too
 * ranks     (n) the job's rank of each
 * listed    (n) scratch
 * *culprit  the job's rank of the only culprit; -1: there is no single one */
tess_status tess_fingerprint_compare(const void *posts, size_t stride, int n, const int *ranks, const char *team,
                                     bool by_place, int *listed, int *culprit);

#endif
