/* The knowledge base of error messages: errors*.yaml, which are part of the binary, and a user's files. Entries that
 * match a line are found in two passes. The first finds the plain words of all patterns (literal.h) at once, by a
 * hash of their beginnings. The second matches the patterns whose word was found (PCRE2, with bounded effort). */
#ifndef TESS_DOCTOR_LOG_KNOWLEDGE_H
#define TESS_DOCTOR_LOG_KNOWLEDGE_H

#include "doctor/table/table.h"

/* The part that a line plays in the end of a job. A cause outweighs a wrapper, even if the wrapper's line comes
 * first. */
typedef enum tess_log_role {
    TESS_LOG_CAUSE,
    /* it ends a job, but only passes on another error; it counts as the cause if no other cause is known */
    TESS_LOG_WRAPPER,
    TESS_LOG_EFFECT,
    TESS_LOG_WARNING,
    TESS_LOG_SYMPTOM,
    TESS_LOG_END /* no error: a program or the job ended well */
} tess_log_role;

/* The thing that ended well. The end of a single process says little if others failed. */
typedef enum tess_log_scope { TESS_LOG_OF_PROCESS, TESS_LOG_OF_PROGRAM, TESS_LOG_OF_JOB } tess_log_scope;

/* The named groups of a pattern. They name the process, place or thing that a line is about. */
#define TESS_LOG_NAME_LIST(X)                                                                         \
    X(TESS_NAME_RANK, "rank")             /* one rank or a list: "1-3,7" */                           \
    X(TESS_NAME_TASK, "task")             /* ranks as a scheduler numbers them */                     \
    X(TESS_NAME_LOCAL_RANK, "local_rank") /* rank among the ranks of its host */                      \
    X(TESS_NAME_HOST, "host")                                                                         \
    X(TESS_NAME_PID, "pid")                                                                           \
    X(TESS_NAME_GPU, "gpu")             /* an index or an address */                                  \
    X(TESS_NAME_ACTOR, "actor")         /* name of a worker */                                        \
    X(TESS_NAME_CLASS, "class")         /* kind of a worker that has no name */                       \
    X(TESS_NAME_POD, "pod")             /* a pod of Kubernetes */                                     \
    X(TESS_NAME_JOB, "job")             /* a job or step of a scheduler */                            \
    X(TESS_NAME_DEVICE, "device")       /* a network device */                                        \
    X(TESS_NAME_PEER, "peer")           /* the other side of a connection */                          \
    X(TESS_NAME_STEP, "step")           /* step of training */                                        \
    X(TESS_NAME_WHAT, "what")           /* error itself: a number or a text */                        \
    X(TESS_NAME_ALSO, "also")           /* more of it: the reason in another line of the message */   \
    X(TESS_NAME_LACKS, "lacks")         /* list of what the rank that a following line names lacks */ \
    X(TESS_NAME_CONTAINER, "container") /* a container of compose */                                  \
    X(TESS_NAME_REPORTER, "reporter")   /* rank that prints the line */

typedef enum tess_log_name {
#define X(id, text) id,
    TESS_LOG_NAME_LIST(X)
#undef X
        TESS_NAME_COUNT
} tess_log_name;

enum { TESS_KNOWLEDGE_MOST_EXPLAINED = 16 };

typedef struct tess_log_entry {
    tess_table_row row;
    /* all texts from match to restarts, and guess, myth and source, may be NULL */
    const char *role_text, *match, *then, *below, *signal, *limit, *asked, *beats, *who, *explains, *fallback, *quotes,
        *reached, *differ, *alone, *lasts, *restarts, *waits;
    const char *symptom, *guess, *cause, *check, *fix, *myth, *source;
    /* cause, check and fix of an END are NULL */
    tess_log_role role;
    bool by_reporter;     /* the line is about another process than the one that printed it */
    bool by_endpoint;     /* like by_reporter; also, the line says that the job's endpoint was not reached */
    bool by_file;         /* like by_reporter; also, the line is about a checkpoint, by default the last one read */
    bool is_lasting;      /* the run goes on with it: it stays a finding where steps follow */
    bool is_restart;      /* a launcher starts the processes again */
    tess_log_scope scope; /* the thing that ended well, for an END */
    bool by_host;         /* the line is about the host of the process that prints it */
    bool by_pod;          /* like by_reporter; a line without a pod takes the one that an earlier line names */
    /* like by_host; also, the report names the GPU of the process, if only that process printed the line */
    bool by_gpu;
    bool is_fallback; /* ignored if another cause, wrapper or effect matches the same line */
    bool is_wait;     /* an effect: a process gave up waiting for others */
    bool is_beat;     /* a monitor prints it again and again while the job runs */
    bool is_asked;    /* somebody asked the program to end: without another process, nothing failed */
    bool is_limit;    /* a limit of time ended the job */
    bool is_signal;   /* the line says that a signal ended a process */
    bool is_enough;   /* counts as the root cause if no other error is found */
    bool is_quoting;  /* the following lines quote the process that this line names */
    int different;    /* entry to report if following lines show that ranks lack different things; -1: none */
    int explained[TESS_KNOWLEDGE_MOST_EXPLAINED], n_explained; /* entries that are only effects of this one */
} tess_log_entry;

const char *tess_log_role_name(tess_log_role role); /* returns "cause" and the like */

typedef struct tess_knowledge tess_knowledge;

/* Reads the built-in files, then ~/.config/tessera/errors.yaml, then `files`. TESS_E_FORMAT: a field or role is
 * unknown, or a pattern is invalid; the message names file and line. Destroy with tess_knowledge_destroy. */
tess_status tess_knowledge_create(tess_mem *mem, const char *const *files, int n_files, tess_knowledge **out);
/* Reads only `text`, which has the format of errors.yaml. `what` names it in messages. */
tess_status tess_knowledge_create_from(tess_mem *mem, const char *text, size_t size, const char *what,
                                       tess_knowledge **out);
void tess_knowledge_destroy(tess_knowledge **knowledge);

int tess_knowledge_n(const tess_knowledge *knowledge);
const tess_log_entry *tess_knowledge_at(const tess_knowledge *knowledge, int entry);
/* Whether `other` is only an effect if both entries are found. */
bool tess_knowledge_explains(const tess_knowledge *knowledge, int entry, int other);

/* Words that mark lines with facts about ranks. They are found whether or not an entry matches the line. */
typedef enum tess_log_hook {
    TESS_HOOK_WORK,
    TESS_HOOK_PROGRESS,
    TESS_HOOK_NOTIFIED,
    TESS_HOOK_NRANKS,
    TESS_HOOK_WORLD,
    TESS_HOOK_WORLD_WORDS,
    TESS_HOOK_MEMBER,
    TESS_HOOK_STARTING,
    TESS_HOOK_PROCESSES,
    TESS_HOOK_MISMATCH,
    TESS_HOOK_REPEATED,
    TESS_HOOK_ROOT,
    TESS_HOOK_EXITCODE,
    TESS_HOOK_EXIT_CODE,
    TESS_HOOK_CLOSING,
    TESS_HOOK_KILLING,
    TESS_HOOK_STARTED_LAST,
    TESS_HOOK_LOCAL_RANK,
    TESS_HOOK_FAILURE_TIME,
    TESS_HOOK_FAILURE_HOST,
    TESS_HOOK_TRACEBACK,
    TESS_HOOK_FRAME,
    TESS_HOOK_BOX,
    TESS_HOOK_LOSS, /* the first of the words of lines of progress, which end with TESS_HOOK_ANSWER */
    TESS_HOOK_SPEED,
    TESS_HOOK_STEP,
    TESS_HOOK_ITERATION,
    TESS_HOOK_EPOCH,
    TESS_HOOK_RATE,
    TESS_HOOK_PERIOD,
    TESS_HOOK_THROUGHPUT,
    TESS_HOOK_ANSWER,
    TESS_HOOK_ERROR,
    TESS_HOOK_FATAL,
    TESS_HOOK_FAILED,
    TESS_HOOK_CRITICAL,
    TESS_HOOK_WARN,
    TESS_HOOK_EXCEPTION,
    TESS_HOOK_RDZV,
    TESS_HOOK_MASTER,
    TESS_HOOK_COORDINATOR,
    TESS_HOOK_NODE,
    TESS_HOOK_NODE_NAME,
    TESS_HOOK_ASSIGNED,
    TESS_HOOK_CHECKPOINT,
    TESS_HOOK_PROXY,
    TESS_HOOK_WATCHDOG,
    TESS_HOOK_KIND,
    TESS_HOOK_KIND_JSON,
    TESS_HOOK_NAME,
    TESS_HOOK_COUNT
} tess_log_hook;

#define TESS_HOOK_BIT(hook) (UINT64_C(1) << (hook))
/* the words that lines of progress contain */
#define TESS_HOOKS_OF_STEPS ((TESS_HOOK_BIT(TESS_HOOK_ANSWER) << 1) - TESS_HOOK_BIT(TESS_HOOK_LOSS))

enum { TESS_KNOWLEDGE_MOST_FOUND = 16, TESS_KNOWLEDGE_LINES_AFTER = 16 };

/* An entry that matches a line. If `follows` is true, the line continues an earlier line that matched the entry. */
typedef struct tess_found_entry {
    int entry;
    bool follows;
    size_t begin, end; /* range of the line that the pattern matched */
    struct {
        const char *text; /* the matched part of the line; NULL: the line does not name it */
        size_t size;
    } names[TESS_NAME_COUNT];
} tess_found_entry;

typedef struct tess_found {
    /* each entry is listed once, and none that another entry of the line explains */
    tess_found_entry entries[TESS_KNOWLEDGE_MOST_FOUND];
    int n_entries;
    uint64_t hooks;  /* bit i: the line contains the word of hook i */
    bool has_a_word; /* the line contains the word of a pattern or hook */
} tess_found;

/* Finds the entries and hooks of a line. Each call must pass the line after that of the previous call. Not
 * thread-safe: `knowledge` contains the working memory. */
void tess_knowledge_find(tess_knowledge *knowledge, const char *line, size_t size, tess_found *found);
/* Sets the frames of the traceback that the next lines belong to, one frame per line; NULL: they belong to none. The
 * caller keeps `frames` valid. */
void tess_knowledge_set_frames(tess_knowledge *knowledge, const char *frames, size_t size);
/* The first returns the entry for exceptions that no other entry describes, the second the entry for tracebacks
 * whose end is missing; -1: there is none. */
int tess_knowledge_exception(const tess_knowledge *knowledge);
int tess_knowledge_cut_traceback(const tess_knowledge *knowledge);
/* Returns the number of bytes that patterns were matched against, over all patterns and lines. */
uint64_t tess_knowledge_searched(const tess_knowledge *knowledge);
/* Must be called before the first line of each further text. */
void tess_knowledge_begin_text(tess_knowledge *knowledge);

#endif
