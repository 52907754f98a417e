/* The environment answers the model between its turns. It is the user's program (tools, a game, a simulated user):
 * one persistent process that reads and writes lines of JSON:
 *
 *     {"id": 12, "turn": 0, "prompt": "...", "response": "all so far", "answer": "this turn's", "label": "...",
 *      "metadata": ...}
 *     {"id": 12, "observation": "4"}     it says so, and the model resumes after it
 *     {"id": 12, "observation": null}    the sample is finished
 *
 * Its processes are started, limited and killed as graders are (reward/grader_process.h). */
#ifndef TESS_RL_RL_ENVIRONMENT_H
#define TESS_RL_RL_ENVIRONMENT_H

#include <jansson.h>

#include "base/text/text.h"
#include "rl/reward/reward.h"

typedef struct tess_turn {
    uint64_t id;                                    /* number of the sample */
    int64_t turn;                                   /* number of the turn, from 0 */
    const char *prompt, *response, *answer, *label; /* texts; label "": none */
    const json_t *metadata;                         /* NULL: none */
} tess_turn;

typedef struct tess_rl_environment tess_rl_environment;

/* command: argv; no shell is involved. Timeouts, limits and sandbox are those of a grader with these options. Starts
 * no process yet. Options are copied. Errors are those of a grader's command. */
tess_status tess_rl_environment_create(tess_mem *mem, const tess_text_list *command, const tess_reward_options *options,
                                       tess_rl_environment **environment);
/* Starts the program if it is not running, and waits for a second. TESS_E_INVALID: it cannot be started, or has
 * ended. */
tess_status tess_rl_environment_check(tess_rl_environment *environment);
/* Waits for the answer to a turn. *goes_on: there is an observation; `observation` is overwritten with it.
 * TESS_E_IO, TESS_E_TIMEOUT, TESS_E_FORMAT: the program was killed, and the message quotes its output; the next turn
 * starts it again. Not thread-safe. */
tess_status tess_rl_environment_answer(tess_rl_environment *environment, const tess_turn *turn,
                                       tess_buffer *observation, bool *goes_on);
void tess_rl_environment_destroy(tess_rl_environment **environment); /* NULL is fine */

#endif
