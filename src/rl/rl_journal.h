/* The journal of rollouts: drawn samples in append-only files. With it a run resumes in the middle of a rollout, and
 * it is the only record of rewards from outside programs.
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

/* The facts that the samples of a rollout depend on. identity: the run's settings and prompts; chain: all earlier
 * samples and rewards; weights: a digest of the drawing weights and method, or 0 to match any in a search. */
typedef struct rl_origin {
    uint64_t identity, chain, weights;
} rl_origin;

/* Round numbers of records other than drawn samples: models' values of the rollout's rows (rl_scores.c), and prompts
 * that are under way when it ends (rl_rollout.c). */
enum { RL_ROUND_SCORES = -2, RL_ROUND_LEFT = -3 };

typedef struct rl_journal rl_journal;

/* Opens the rollout's folder, to append as `rank`. A file of another origin is overwritten. */
tess_status rl_journal_open(tess_mem *mem, const char *folder, int64_t rollout, int rank, const rl_origin *origin,
                            rl_journal **journal);
void rl_journal_close(rl_journal **journal);

/* Appends a sample of the rollout's `round`-th drawing; it survives a kill of this process when the call returns.
 * TESS_E_NO_SPACE, TESS_E_IO: the file is as before. */
tess_status rl_journal_append(rl_journal *journal, int64_t round, const rl_sample *sample);
/* Appends other bytes in the same way. */
tess_status rl_journal_append_bytes(rl_journal *journal, int64_t round, const void *bytes, size_t size);

/* Visits every complete record of this origin in all ranks' files of the rollout's folder, in the order of file
 * names, then of writing. A missing folder has no records. */
typedef tess_status (*rl_record_fn)(void *self, int64_t round, const void *bytes, size_t size);
tess_status rl_journal_read(const char *folder, int64_t rollout, const rl_origin *origin, rl_record_fn record,
                            void *self);
/* Lists the numbers of the rollouts that have a folder, ascending. The caller frees *rollouts (n). */
tess_status rl_journal_rollouts(tess_mem *mem, const char *folder, int64_t **rollouts, size_t *n);
/* Reads the origin of the samples from the rollout's newest file. Files that an interrupted run has left may have
 * another one. *found is false if there is no file. */
tess_status rl_journal_newest(const char *folder, int64_t rollout, rl_origin *origin, bool *found);
/* Parses the records in one file's bytes (for fuzzing). Returns the end of the last complete record; 0: the file has
 * another origin. */
size_t rl_journal_parse(const void *bytes, size_t size, const rl_origin *origin, rl_record_fn record, void *self,
                        tess_status *status);

/* Removes the folders of rollouts before `oldest`. */
tess_status rl_journal_prune(const char *folder, int64_t oldest);

/* Returns the chain of the next rollout: the digest of `bytes`, continued from the previous chain. */
uint64_t rl_chain(uint64_t chain, const void *bytes, size_t size);

#endif
