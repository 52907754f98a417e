/* A place in the pool: its process, the items sent to it, and its output. */
#ifndef TESS_RL_REWARD_GRADER_WORKER_H
#define TESS_RL_REWARD_GRADER_WORKER_H

#include "base/text/text.h"
#include "rl/reward/grader_process.h"

enum { GRADER_MOST_IN_FLIGHT = 64, GRADER_STDERR = 400 };

typedef struct grader_sent {
    int64_t item;
    double allowed_s, deadline_s;
} grader_sent;

typedef struct grader_worker {
    grader_process process;
    int n_starts, n_answers; /* n_answers: answers of this process */
    int strikes;             /* consecutive ends without an answer */
    double not_before_s;     /* earliest time of the next start */
    double closed_s;         /* when its standard output was closed; 0: it is open */
    grader_sent sent[GRADER_MOST_IN_FLIGHT];
    int n_sent;
    bool alone;     /* no other item may run at the same time */
    tess_buffer to; /* lines to write to it */
    size_t written; /* bytes of these lines that are written */
    char *from;     /* (room) output that is not yet a complete line */
    size_t got, room;
    char tail[GRADER_STDERR]; /* the last bytes that it wrote to standard error */
    size_t tail_size;
} grader_worker;

/* room: bytes of the longest answer, including its line end. */
tess_status grader_worker_init(tess_mem *mem, size_t room, grader_worker *worker);
void grader_worker_free(grader_worker *worker); /* ends the process, and frees the place */

tess_status grader_worker_start(const grader_command *command, grader_worker *worker);
/* Reads the rest of standard error, ends the process and forgets the items in flight. The next start is delayed; the
 * delay grows with each end that no answer preceded. *state is as for grader_process_end. */
void grader_worker_end(grader_worker *worker, int *state);

/* Write and read as much as possible without waiting. Reading returns false when standard output is closed. */
void grader_worker_write(grader_worker *worker);
bool grader_worker_read(grader_worker *worker);
void grader_worker_read_errors(grader_worker *worker);

/* Whether standard output has been closed for longer than a process needs to end. */
bool grader_worker_is_mute(const grader_worker *worker);

/* Formats the last lines of standard error as "; it wrote: '...'", or "", without the values of reward.env. Returns
 * text. */
const char *grader_worker_tail(const grader_command *command, const grader_worker *worker, char *text, size_t size);

/* How a process ended, for messages: "exit code 3", "signal 9: Killed". Returns text. */
const char *grader_end_text(int state, char *text, size_t size);

/* Starts the process if it is not running, and waits for a second. TESS_E_INVALID: it cannot be started, or has
 * ended; the message names the option `key` and the program. */
tess_status grader_worker_check(const grader_command *command, grader_worker *worker, const char *key,
                                const char *program);

/* Forgets sent[i], keeping the order of the others. */
void grader_worker_drop(grader_worker *worker, int i);

#endif
