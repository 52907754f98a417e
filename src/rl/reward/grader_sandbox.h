/* Builds the bubblewrap command that runs a grader, and decides what can be read inside. docs/howto/rewards.md says
 * what the sandbox keeps out. */
#ifndef TESS_RL_REWARD_GRADER_SANDBOX_H
#define TESS_RL_REWARD_GRADER_SANDBOX_H

#include <sys/types.h>

#include "rl/reward/reward.h"

enum { GRADER_FILTER_FD = 3 }; /* bwrap reads the program of grader_filter_open from it */

/* A command under construction: argv and its texts. */
typedef struct grader_words {
    char **word; /* (most) ends with NULL */
    int n, most;
    char *text, *end; /* room for texts */
} grader_words;

/* Adds an argument. TESS_E_INVALID: there is no room for it. */
tess_status grader_words_add(grader_words *words, const char *word);

/* Checks that graders of `user` can be started in the sandbox. TESS_E_UNSUPPORTED: bwrap or prlimit is not installed,
 * or the sandbox is unknown. TESS_E_INVALID: the user is root. */
tess_status grader_sandbox_check(const char *sandbox, uid_t user);

/* Adds bwrap's words; the program and its arguments follow. The processes belong to `user`, whose home folder is
 * hidden; `argv` is the command. TESS_E_NOT_FOUND: a path of reward.readable does not exist. */
tess_status grader_sandbox_add(grader_words *words, const tess_reward_options *options, uid_t user, const char *program,
                               const tess_text_list *argv);

#endif
