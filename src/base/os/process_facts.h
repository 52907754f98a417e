/* What the system says of a process from outside, by proc(5): what it does, in which call, on which file. It needs
 * nothing of that process, which may be stuck or stopped, and no more rights than to be of the same user. */
#ifndef TESS_BASE_OS_PROCESS_FACTS_H
#define TESS_BASE_OS_PROCESS_FACTS_H

#include "tessera/types.h"

/* What a thread asks of the system. */
typedef enum tess_call_kind {
    TESS_CALL_NONE,    /* nothing: it runs code of its own */
    TESS_CALL_UNKNOWN, /* the system does not say (no right to ask) */
    TESS_CALL_FILE,    /* reads, writes, opens or syncs a file, pipe or socket */
    TESS_CALL_POLL,    /* waits for one of several */
    TESS_CALL_FUTEX,   /* waits for another thread */
    TESS_CALL_SLEEP,   /* waits for a time */
    TESS_CALL_CHILD,   /* waits for a child process, or starts one */
    TESS_CALL_OTHER
} tess_call_kind;

enum { TESS_CALL_ARGUMENTS = 6 };

typedef struct tess_thread_facts {
    int tid;    /* 0: there is no such thread */
    char state; /* 'R', 'S', 'D', 'T', 't', 'Z' ... of proc(5) */
    tess_call_kind kind;
    int call;           /* number of the system call, -1: none or not known */
    char call_name[24]; /* "read", "" */
    uint64_t arguments[TESS_CALL_ARGUMENTS];
    char wchan[40];      /* kernel function that it sleeps in, "" */
    uint64_t cpu_ns;     /* time on a core */
    uint64_t waiting_ns; /* time runnable but without a core */
} tess_thread_facts;

typedef struct tess_process_facts {
    int pid;
    uint64_t time_ns;         /* when this was found, monotonic */
    bool here;                /* false: there is no such process, and nothing below is known */
    int n_threads, tracer;    /* pid of the debugger that holds it, 0: none */
    tess_thread_facts main;   /* the main thread */
    tess_thread_facts thread; /* the most telling one: the main one, but where it merely waits for others that do not */
    char file[256];           /* of `thread`, in TESS_CALL_FILE and _POLL: "/data/x.bin", "pipe:[4711]"; "" not known */
    int64_t position;         /* in that file, -1: not known */
    uint64_t cpu_ns;          /* of all threads */
    uint64_t switches;        /* of the main thread, made by itself */
    uint64_t rss_bytes;
    uint64_t io_bytes; /* read and written through calls, ever */
    int oom_score;     /* -1: not known */
} tess_process_facts;

/* Some 50 us, and 15 us more a thread (64 of them are looked at). Never fails: what is not known stays empty. */
void tess_os_process_facts(int pid, tess_process_facts *facts);

/* A thread that was held for a moment (by a debugger, for its stack) goes on in restart_syscall, whatever it had called
 * before. Where `facts` has that, the call, its file and what it waits in become those of `earlier`, the same process
 * some time before; without effect where that knows of no such thread. */
void tess_os_facts_keep_call(const tess_process_facts *earlier, tess_process_facts *facts);

/* "in read of /data/x.bin (state D, wchan folio_wait_bit)", "running (state R)": of the telling thread; returns text.
 */
const char *tess_os_facts_report(const tess_process_facts *facts, char *text, size_t size);

#endif
