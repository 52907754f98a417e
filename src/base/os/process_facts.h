/* Reads from proc(5) what another process is doing, in which system call and on which file. The process need not
 * cooperate (it may be stuck or stopped), and the rights of the same user suffice. */
#ifndef TESS_BASE_OS_PROCESS_FACTS_H
#define TESS_BASE_OS_PROCESS_FACTS_H

#include "tessera/types.h"

/* The kind of system call in which a thread waits. */
typedef enum tess_call_kind {
    TESS_CALL_NONE,    /* no call: it runs code of its own */
    TESS_CALL_UNKNOWN, /* the system does not say (no right to ask) */
    TESS_CALL_FILE,    /* reads, writes, opens or syncs a file, pipe or socket */
    TESS_CALL_POLL,    /* waits for one of several descriptors */
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
    uint64_t time_ns;       /* monotonic time of this reading */
    bool here;              /* false: no such process, and nothing below is known */
    int n_threads, tracer;  /* number of threads; pid of the debugger that traces the process, 0: none */
    tess_thread_facts main; /* the main thread */
    /* The thread that best explains a stuck process: the main one, unless it only waits for others */
    tess_thread_facts thread;
    /* The file of its call (TESS_CALL_FILE, _POLL): "/data/x.bin", "pipe:[4711]"; "": not known */
    char file[256];
    int64_t position;  /* offset in that file, -1: not known */
    uint64_t cpu_ns;   /* CPU time of all threads */
    uint64_t switches; /* voluntary switches of the main thread */
    uint64_t rss_bytes;
    uint64_t io_bytes; /* bytes read and written through system calls since the start */
    int oom_score;     /* -1: not known */
} tess_process_facts;

/* Takes about 50 us, and 15 us more per thread (at most 64 threads). Never fails: unknown fields stay empty. */
void tess_os_process_facts(int pid, tess_process_facts *facts);

/* A debugger stops a thread to take its stack; the thread then resumes in restart_syscall, whichever call it was in. If
 * `facts` shows that, copies the thread's call, file and wait channel from `earlier`, an earlier reading of the same
 * process. Does nothing if `earlier` lacks that thread. */
void tess_os_facts_keep_call(const tess_process_facts *earlier, tess_process_facts *facts);

/* Writes what `thread` does: "in read of /data/x.bin (state D, wchan folio_wait_bit)", "running (state R)". Returns
 * text. */
const char *tess_os_facts_report(const tess_process_facts *facts, char *text, size_t size);

#endif
