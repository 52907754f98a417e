/* A reward model at a URL: slime's remote_rm, POST {"prompt", "response", "label"}, which answers with a number,
 * {name: number}, null, or {"reward": any of these}. On libcurl; TESS_E_UNSUPPORTED in a build without it. */
#ifndef TESS_RL_REWARD_REWARD_HTTP_H
#define TESS_RL_REWARD_REWARD_HTTP_H

#include "rl/reward/reward.h"

typedef struct reward_http reward_http;
struct reward_call;

/* Options as tess_rewarder_create has completed them. */
tess_status reward_http_create(tess_mem *mem, const tess_reward_options *options, reward_http **http);
/* Posts empty texts as a check. TESS_E_INVALID: no server listens, or the status says that no request can succeed. */
tess_status reward_http_check(reward_http *http);
/* Grades the call's items, except those that have already failed. `workers` requests run at a time, with timeout_s
 * for each try. The caller must have blocked SIGPIPE. */
tess_status reward_http_score(reward_http *http, struct reward_call *call, double weight);
void reward_http_destroy(reward_http **http); /* NULL is fine */

#endif
