/* A pool of persistent grader processes: a line of JSON in, a line of JSON out.
 *
 * A process has `in_flight` items at most, one by default. What goes wrong with it (it ends, is late, prints anything
 * but answers to its items) ends it; another is started, after a pause that doubles while none answers. With one item
 * in flight that item failed. Of several the late one did, or, where it cannot be told which one it was, all are given
 * out again, each to a process that has no other. */
#ifndef TESS_RL_REWARD_GRADER_POOL_H
#define TESS_RL_REWARD_GRADER_POOL_H

#include "rl/reward/reward.h"

typedef struct grader_pool grader_pool;
struct reward_call;

/* Options as tess_rewarder_create has completed them. */
tess_status grader_pool_create(tess_mem *mem, const tess_reward_options *options, grader_pool **pool);
/* Starts the first process, if it does not run, and waits for a second. TESS_E_INVALID: it cannot be started, or has
 * ended. */
tess_status grader_pool_check(grader_pool *pool);
/* The call's items, those aside that have failed already. The caller has blocked SIGPIPE. */
tess_status grader_pool_score(grader_pool *pool, struct reward_call *call, double weight);
void grader_pool_destroy(grader_pool **pool); /* NULL is fine */

#endif
