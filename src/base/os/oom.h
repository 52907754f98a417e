/* Did the system kill a process because memory ran out? From the counter of the control group, and from the kernel's
 * log where it may be read. */
#ifndef TESS_BASE_OS_OOM_H
#define TESS_BASE_OS_OOM_H

#include "base/os/memory_group.h"

enum { TESS_OOM_LOGGED = 64 };

typedef struct tess_oom_kill {
    int pid;
    uint64_t bytes; /* of memory that it held, 0: not known */
} tess_oom_kill;

typedef struct tess_oom_watch {
    bool has_group;
    tess_memory_group group; /* of this process */
    uint64_t kills_known;    /* of the group's, those that are explained */
    int log;                 /* the kernel's, from where it ended when the watch began; -1: not readable */
    int n_logged;
    tess_oom_kill logged[TESS_OOM_LOGGED]; /* who it says was killed since */
} tess_oom_watch;

typedef struct tess_oom_answer {
    bool killed;
    bool certain;         /* the log names the process; else it is the group's counter that has grown */
    uint64_t held_bytes;  /* by the process, 0: not known */
    uint64_t limit_bytes; /* of the control group, 0: none */
} tess_oom_answer;

/* Begins to watch for this process and its children. */
void tess_oom_begin(tess_oom_watch *watch);
void tess_oom_end(tess_oom_watch *watch);

/* Was `pid`, which died by SIGKILL, killed for want of memory? Each kill that the counter shows answers for one process
 * only. Both lag some milliseconds behind the death: ask again. */
void tess_oom_ask(tess_oom_watch *watch, int pid, tess_oom_answer *answer);

/* Takes one line of the kernel's log; false when it tells of no kill. */
bool tess_oom_parse(const char *line, tess_oom_kill *kill);

#endif
