/* A pool of persistent grader processes: a line of JSON in, a line of JSON out.
 *
 * A process has at most `in_flight` items, one by default. A process that exits, is late, or prints anything except
 * answers to its items is ended. Another one is started after a pause, which doubles as long as none answers. With
 * one item in flight, that item has failed. With several, the late one has failed. If it cannot be known which item
 * is at fault, all are sent again, each to a process that has no other item. */
#ifndef TESS_RL_REWARD_GRADER_POOL_H
#define TESS_RL_REWARD_GRADER_POOL_H

#include "rl/reward/reward.h"

typedef struct grader_pool grader_pool;
struct reward_call;

/* Options as tess_rewarder_create has completed them. */
tess_status grader_pool_create(tess_mem *mem, const tess_reward_options *options, grader_pool **pool);
/* Starts the first process if it is not running, and waits for a second. TESS_E_INVALID: it cannot be started, or
 * has ended. */
tess_status grader_pool_check(grader_pool *pool);
/* Grades the call's items, except those that have already failed. The caller must have blocked SIGPIPE. */
tess_status grader_pool_score(grader_pool *pool, struct reward_call *call, double weight);
void grader_pool_destroy(grader_pool **pool); /* NULL is fine */

#endif
