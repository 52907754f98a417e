/* Detects that the system killed a process because memory ran out. It uses the control group's counter, and the
 * kernel's log if it is readable. */
#ifndef TESS_BASE_OS_OOM_H
#define TESS_BASE_OS_OOM_H

#include "base/os/memory_group.h"

enum { TESS_OOM_LOGGED = 64 };

typedef struct tess_oom_kill {
    int pid;
    uint64_t bytes; /* memory that the process held, 0: not known */
    uint64_t at_ns; /* when it was killed, on the clock of tess_os_now_ns; 0: not known */
} tess_oom_kill;

typedef struct tess_oom_watch {
    bool has_group;
    tess_memory_group group; /* the control group of this process */
    uint64_t kills_known;    /* number of kills in the group that were matched to a process */
    int log;                 /* the kernel's log, read from where it ended when the watch began; -1: not readable */
    int n_logged;
    tess_oom_kill logged[TESS_OOM_LOGGED]; /* processes that the log has reported as killed since the watch began */
} tess_oom_watch;

typedef struct tess_oom_answer {
    bool killed;
    bool certain;         /* true: the log names the process; false: only the group's counter has grown */
    uint64_t held_bytes;  /* memory that the process held, 0: not known */
    uint64_t limit_bytes; /* limit of the control group, 0: none */
} tess_oom_answer;

/* Starts to watch this process and its children. */
void tess_oom_begin(tess_oom_watch *watch);
void tess_oom_end(tess_oom_watch *watch);

/* Answers whether the system killed `pid`, which died by SIGKILL, because memory ran out. Each kill explains only one
 * process, and only shortly after it, because process numbers are reused. Counter and log are updated some milliseconds
 * after the death, so ask again. */
void tess_oom_ask(tess_oom_watch *watch, int pid, tess_oom_answer *answer);

/* Parses one line of the kernel's log. False: the line reports no kill. */
bool tess_oom_parse(const char *line, tess_oom_kill *kill);

#endif
