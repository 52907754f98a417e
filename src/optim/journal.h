/* The journal of an update in place: what a chunk of elements held before. A process may die at any instruction of an
 * update; whoever takes its place puts back the chunk that was under way and goes on from there, to the same bits.
 *
 *     begin      chunk, done = saved = 0, then step  of step: the chunks below `done` hold new values
 *     protect    old values of chunk c, then saved = c + 1
 *     (update)   chunk c holds anything between old and new
 *     commit     done = c + 1
 *
 * Stores of one process are seen in their order by whoever maps the memory later; the marks keep the compiler to it. */
#ifndef TESS_OPTIM_JOURNAL_H
#define TESS_OPTIM_JOURNAL_H

#include "comm/keep/keep.h"
#include "device/stream.h"

/* Elements of a chunk, for each thread: the chunk and its old values stay in a core's second cache, so that memory is
 * read once. And most of a chunk. */
enum { JOURNAL_PER_THREAD = 16 << 10, JOURNAL_MOST = 128 << 10, JOURNAL_ARRAYS = 3 };

typedef struct optim_journal optim_journal;

/* The arrays that change together: weights and both moments. */
typedef struct optim_chunk {
    float *array[JOURNAL_ARRAYS];
    int64_t n; /* at most JOURNAL_MOST */
} optim_chunk;

/* *journal NULL when there is no keep: nothing is to be journaled. */
tess_status optim_journal_open(tess_keep *keep, tess_mem *mem, optim_journal **journal);
void optim_journal_close(tess_keep *keep, tess_mem *mem, optim_journal **journal);

/* Gives the chunk with which the update of `step` begins, or goes on; *chunk: elements of one. */
int64_t optim_journal_begin(optim_journal *journal, const tess_stream *stream, int64_t step, int64_t *chunk);
/* Before chunk number `number` is changed: its old values are saved, or, where they are already, put back. */
void optim_journal_protect(optim_journal *journal, tess_stream *stream, int64_t number, const optim_chunk *chunk);
/* The chunk is changed. */
void optim_journal_commit(optim_journal *journal, int64_t number);

#endif
