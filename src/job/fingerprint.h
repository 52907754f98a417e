/* The fingerprint of a collective: what a rank asked for, compared when ranks meet (law 3: no silent collective). */
#ifndef TESS_JOB_FINGERPRINT_H
#define TESS_JOB_FINGERPRINT_H

#include "tessera/types.h"
#include "trace/ring.h"

/* 64 bytes, travels through shared memory. Two are equal when all but the call site are. */
typedef struct tess_fingerprint {
    uint64_t team;      /* hash */
    uint64_t sequence;  /* number inside the team, from 0 */
    uint64_t count;     /* elements that the caller named (n, or all elements of the pieces) */
    uint64_t tag;       /* of a message; hash of the pieces */
    uint64_t call_site; /* trace/call_site.h */
    int32_t root;       /* or the peer; -1: none */
    uint8_t kind;       /* tess_trace_op */
    uint8_t dtype;
    uint8_t in_dtype; /* of the coalesced forms; else as dtype */
    uint8_t op;       /* tess_op */
    uint8_t flags;    /* bit 0: accumulate */
    uint8_t spare[7];
    uint64_t label; /* what it is for (trace/label.h), 0: nobody said */
} tess_fingerprint;

/* Equal fingerprints have equal digests; two that differ in one of their words (team, sequence, count, tag, label,
 * root with kind and dtypes) never do, others but by a chance of 2^-64. */
uint64_t tess_fingerprint_digest(const tess_fingerprint *fp);

/* An even number of the call site; 0 with a label, which says what the operation is wherever it is called, and for an
 * address in code made at run time: what lies there is another function on another rank, and later. */
uint32_t tess_fingerprint_site(const tess_fingerprint *fp);

bool tess_fingerprint_equal(const tess_fingerprint *a, const tess_fingerprint *b);

/* "all_reduce #12 of team 'world': 1024 float32, sum (called at program+0x1f30)"; "nothing more" of a plan that is
 * over. Returns text. */
const char *tess_fingerprint_format(const tess_fingerprint *fp, const char *team, char *text, size_t size);

/* Compares what `n` ranks of a team asked (rank r's fingerprint at posts + r * stride bytes). TESS_OK when all agree;
 * otherwise TESS_E_MISMATCH: the message lists every variant with its ranks and names the minority, or says that it
 * is a tie. `by_place`: two that were called at different places differ, too. `ranks` gives the job's number of each;
 * *guilty (job's number) is -1 without a single odd one out. */
tess_status tess_fingerprint_compare(const void *posts, size_t stride, int n, const int *ranks, const char *team,
                                     bool by_place, int *culprit);

#endif
