/* Detects that the system killed a process because memory ran out: from the control group's counter, and from the
 * kernel's log where it may be read. */
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
    uint64_t kills_known;    /* the kills of the group that are explained */
    int log;                 /* the kernel's log, read from its end at the start of the watch; -1: not readable */
    int n_logged;
    tess_oom_kill logged[TESS_OOM_LOGGED]; /* processes that it reports as killed since */
} tess_oom_watch;

typedef struct tess_oom_answer {
    bool killed;
    bool certain;         /* true: the log names the process; false: only the group's counter has grown */
    uint64_t held_bytes;  /* by the process, 0: not known */
    uint64_t limit_bytes; /* limit of the control group, 0: none */
} tess_oom_answer;

/* Starts to watch this process and its children. */
void tess_oom_begin(tess_oom_watch *watch);
void tess_oom_end(tess_oom_watch *watch);

/* Fills *answer: whether the system killed `pid`, which died by SIGKILL, because memory ran out. Each kill explains one
 * process only, and only soon after it: process numbers are used again. Counter and log follow some milliseconds after
 * the death: ask again. */
void tess_oom_ask(tess_oom_watch *watch, int pid, tess_oom_answer *answer);

/* Parses one line of the kernel's log; false when it reports no kill. */
bool tess_oom_parse(const char *line, tess_oom_kill *kill);

#endif
