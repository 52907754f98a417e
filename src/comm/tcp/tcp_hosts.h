/* Lines between the launchers of a job's hosts: all call that of host 0. Both sides of a line prove that they know the
 * job's secret, as ranks do. The words on a line are of one size, and what they mean is up to the launchers
 * (control/launch/node). */
#ifndef TESS_COMM_TCP_TCP_HOSTS_H
#define TESS_COMM_TCP_TCP_HOSTS_H

#include <stdbool.h>

#include "tessera/memory.h"

enum { TESS_HOST_NAME_BYTES = 64 };

/* Hosts exchange these bytes. */
typedef struct tess_host_word {
    int32_t kind, seat, life, code;
    uint64_t start;
} tess_host_word;

/* A host that calls. */
typedef struct tess_host_caller {
    int number;                      /* number of the host */
    int pid;                         /* process of its launcher */
    char name[TESS_HOST_NAME_BYTES]; /* name of the host */
    uint64_t id;                     /* number that its launcher has drawn: that of another launcher differs */
} tess_host_caller;

typedef enum tess_host_answer {
    TESS_HOST_WELCOME,
    TESS_HOST_NOT_NOW, /* it may call again */
    TESS_HOST_NEVER
} tess_host_answer;

typedef struct tess_host_self {
    const char *master; /* address of host 0 */
    int port;
    int number;           /* number of this host */
    int n_hosts, n_nodes; /* all hosts, and those of which the job consists; they are the same on all hosts */
    /* Host 0 asks this about a caller that knows the secret. The caller receives the reason from why (size), unless it
     * is welcome. NULL: all are welcome. */
    tess_host_answer (*judge)(void *judge_self, const tess_host_caller *caller, char *why, size_t size);
    void *judge_self;
} tess_host_self;

typedef enum tess_host_event_kind {
    TESS_HOST_NOTHING,
    TESS_HOST_CAME,   /* a line is there */
    TESS_HOST_SAID,   /* `word` has come */
    TESS_HOST_WENT,   /* the other end has closed the line */
    TESS_HOST_REFUSED /* a caller was refused for good: `why`; comes for the first few of them */
} tess_host_event_kind;

typedef struct tess_host_event {
    tess_host_event_kind kind;
    int line;
    int number;       /* number of the host at the other end */
    const char *name; /* its name, or the address of a caller that was refused, valid until the next event */
    const tess_host_caller *caller; /* CAME */
    const char *why;                /* REFUSED */
    tess_host_word word;
} tess_host_event;

typedef struct tess_host_lines tess_host_lines;

/* Reads the secret; host 0 also listens. `self` is copied, but for the master's name. Errors: those of the secret;
 * TESS_E_INVALID: another program has the port. */
tess_status tess_host_lines_open(const tess_host_self *self, tess_host_lines **lines);
void tess_host_lines_close(tess_host_lines **lines);
/* Name of this host. */
const char *tess_host_lines_name(const tess_host_lines *lines);

/* Called on other hosts than 0: tries once to reach host 0, for two seconds at most. Returns whether line 0 is there.
 * If not, why (size) says the reason. TESS_E_INVALID: it is useless to try again. */
tess_status tess_host_lines_call(tess_host_lines *lines, bool *reached, char *why, size_t size);
/* Returns the next event. Never waits. */
tess_host_event tess_host_lines_next(tess_host_lines *lines);
/* Says a word. A line that does not take it breaks: TESS_HOST_WENT follows. */
void tess_host_lines_say(tess_host_lines *lines, int line, const tess_host_word *word);
/* Closes a line. No event follows. */
void tess_host_lines_hang_up(tess_host_lines *lines, int line);

#endif
