/* A program that reads lines from its standard input as long as a run lasts. It may be slow, print, or end. Nothing
 * here waits for it: what its pipe cannot take stays with the caller. */
#ifndef TESS_CONTROL_FEED_FEED_COMMAND_H
#define TESS_CONTROL_FEED_FEED_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/os/program.h"

enum { FEED_WORDS = 400 };

typedef struct feed_command {
    pid_t pid;             /* 0: it does not run */
    int in, out;           /* our ends of its standard input and of its output; -1: closed */
    int log;               /* file that gets its output; -1: none */
    size_t n_logged;       /* bytes in that file */
    char last[FEED_WORDS]; /* the end of its output */
    size_t n_last;
} feed_command;

/* Starts argv[0], found through PATH, without a shell, in a process group of its own and with a lower priority than
 * ours. Its environment is ours and `variables` (n). Its output goes to the file `log`, up to a limit. */
tess_status feed_command_start(char *const *argv, const tess_os_variable *variables, int n, const char *log,
                               feed_command *command);
/* Writes what its pipe takes now. Returns the number of bytes. If it reads no more, closes the pipe. */
size_t feed_command_write(feed_command *command, const char *data, size_t size);
/* Reads what it has printed. */
void feed_command_listen(feed_command *command);
/* Closes its standard input, so that it finishes. */
void feed_command_close(feed_command *command);
/* Whether it has ended. `how` then says how, with its last words. *failed: not with exit code 0. */
bool feed_command_ended(feed_command *command, char *how, size_t size, bool *failed);
/* Sends the signal to its process group. */
void feed_command_kill(const feed_command *command, int signal);

/* Whether there is such a program. TESS_E_NOT_FOUND: the message names it. */
tess_status feed_command_find(const char *name);

#endif
