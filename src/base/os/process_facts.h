/* Reads in proc(5) from outside what a process does, in which call, on which file. The process need not
 * cooperate (it may be stuck or stopped), and the same user's rights suffice. */
#ifndef TESS_BASE_OS_PROCESS_FACTS_H
#define TESS_BASE_OS_PROCESS_FACTS_H

#include "tessera/types.h"

/* The request of a thread to the system. */
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
    int tid;    /* 0: no such thread */
    char state; /* 'R', 'S', 'D', 'T', 't', 'Z' ... of proc(5) */
    tess_call_kind kind;
    int call;           /* number of the system call, -1: none or not known */
    char call_name[24]; /* "read", "" */
    uint64_t arguments[TESS_CALL_ARGUMENTS];
    char wchan[40];      /* kernel function it sleeps in, "" */
    uint64_t cpu_ns;     /* time on a core */
    uint64_t waiting_ns; /* time runnable but without a core */
} tess_thread_facts;

typedef struct tess_process_facts {
    int pid;
    uint64_t time_ns;         /* monotonic time of this reading */
    bool here;                /* false: no such process, and nothing below is known */
    int n_threads, tracer;    /* pid of the debugger that holds it, 0: none */
    tess_thread_facts main;   /* the main thread */
    tess_thread_facts thread; /* the most telling one: the main one, unless it only waits for others */
    char file[256];           /* its file in TESS_CALL_FILE and _POLL: "/data/x.bin", "pipe:[4711]"; "" not known */
    int64_t position;         /* offset in that file, -1: not known */
    uint64_t cpu_ns;          /* CPU time of all threads */
    uint64_t switches;        /* voluntary switches of the main thread */
    uint64_t rss_bytes;
    uint64_t io_bytes; /* ever read and written through calls */
    int oom_score;     /* -1: not known */
} tess_process_facts;

/* Takes some 50 us, and 15 us more per thread (at most 64 threads). Never fails: unknown fields stay empty. */
void tess_os_process_facts(int pid, tess_process_facts *facts);

/* A thread that a debugger stopped for its stack resumes in restart_syscall, whichever call it was in before.
 * When `facts` shows that, its call, file and wait channel are copied from `earlier`, the same process some time
 * before; no effect when `earlier` lacks that thread. */
void tess_os_facts_keep_call(const tess_process_facts *earlier, tess_process_facts *facts);

/* "in read of /data/x.bin (state D, wchan folio_wait_bit)", "running (state R)": of `thread`; returns text. */
const char *tess_os_facts_report(const tess_process_facts *facts, char *text, size_t size);

#endif
