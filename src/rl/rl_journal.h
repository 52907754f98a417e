/* The journal of rollouts: what was drawn, in files that only grow. It is how a run goes on in the middle of a rollout,
 * and the only record of rewards that a program outside gave.
 *
 * job.dump_folder/rl/rollout-00000012/rank-00003.samples, one a rank; each begins with what its samples depend on:
 *
 *     "TESSRL01"  identity (8)  chain (8)  weights (8)      then records:  bytes (8)  round (8)  XXH3-64 (8)  sample,
 * or others
 *
 * A record is written when its sample is finished, and once more with its reward: the last one counts. The end of a
 * file that a kill cut off is ignored, and overwritten. */
#ifndef TESS_RL_RL_JOURNAL_H
#define TESS_RL_RL_JOURNAL_H

#include "rl/rl_sample.h"

/* The facts that the samples of a rollout depend on. identity: the run's settings and its prompts; chain: all samples
 * and rewards before; weights: a digest of those that drew them, and of how; 0: any, when they are looked for later. */
typedef struct rl_origin {
    uint64_t identity, chain, weights;
} rl_origin;

/* Rounds of records that are no samples drawn: what models said of the rollout's rows (rl_scores.c); the prompts that
 * are under way when it ends (rl_rollout.c). */
enum { RL_ROUND_SCORES = -2, RL_ROUND_LEFT = -3 };

typedef struct rl_journal rl_journal;

/* Opens the rollout's folder, to append as `rank`. A file of another origin is begun anew. */
tess_status rl_journal_open(tess_mem *mem, const char *folder, int64_t rollout, int rank, const rl_origin *origin,
                            rl_journal **journal);
void rl_journal_close(rl_journal **journal);

/* Appends a sample of the rollout's `round`-th drawing; it survives a kill of this process when the call returns.
 * TESS_E_NO_SPACE, TESS_E_IO: the file is as before. */
tess_status rl_journal_append(rl_journal *journal, int64_t round, const rl_sample *sample);
/* The same of other bytes. */
tess_status rl_journal_append_bytes(rl_journal *journal, int64_t round, const void *bytes, size_t size);

/* Every whole record of that origin in the rollout's folder, of all ranks' files, in the order of file names and
 * writing. A folder that is not there has none. */
typedef tess_status (*rl_record_fn)(void *self, int64_t round, const void *bytes, size_t size);
tess_status rl_journal_read(const char *folder, int64_t rollout, const rl_origin *origin, rl_record_fn record,
                            void *self);
/* The numbers of the rollouts that have a folder, ascending; *rollouts (n) is the caller's. */
tess_status rl_journal_rollouts(tess_mem *mem, const char *folder, int64_t **rollouts, size_t *n);
/* Reads the origin of the samples from the rollout's newest file. Files that an interrupted run has left may have
 * another one. *found is false if there is no file. */
tess_status rl_journal_newest(const char *folder, int64_t rollout, rl_origin *origin, bool *found);
/* The records of one file's bytes (fuzzing): returns where the last whole one ends; 0: it has another origin. */
size_t rl_journal_parse(const void *bytes, size_t size, const rl_origin *origin, rl_record_fn record, void *self,
                        tess_status *status);

/* Removes the folders of rollouts before `oldest`. */
tess_status rl_journal_prune(const char *folder, int64_t oldest);

/* chain' of the next rollout: the digest of `bytes` after the chain before. */
uint64_t rl_chain(uint64_t chain, const void *bytes, size_t size);

#endif
