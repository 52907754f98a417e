/* `doctor log`: log files are surveyed (known errors, timeouts, how far ranks came), and the diagnosis of what was
 * found names the root cause first. */
#ifndef TESS_DOCTOR_LOG_LOG_H
#define TESS_DOCTOR_LOG_LOG_H

#include "base/text/text.h"
#include "doctor/log/knowledge.h"
#include "doctor/log/python_stacks.h"

enum { LOG_MOST_RANKS = 1 << 16, TESS_LOG_MOST_CULPRITS = 64 };

/* The collective in which a rank timed out. */
typedef struct log_work {
    int rank;                    /* -1: not said */
    char file[48];               /* source file of the message: "ProcessGroupNCCL.cpp"; "": not said */
    int line;                    /* line in file */
    char group[64];              /* process group: "ID 1 PG GUID 1"; "": not said */
    int64_t sequence;            /* number in the group; -1: not said */
    bool is_oldest;              /* the rank has completed all collectives of the group before this one */
    char op[32];                 /* "ALLREDUCE"; "": not said */
    int64_t numel_in, numel_out; /* -1: not said */
    int64_t timeout_ms, elapsed_ms;
} log_work;

/* How far a rank came in a group. */
typedef struct log_progress {
    char group[64];
    int64_t failed;              /* sequence that timed out; -1: not said */
    int64_t enqueued, completed; /* -1: nothing yet */
} log_progress;

/* A line of one of the logs. */
typedef struct log_place {
    int file;     /* -1: nowhere */
    int64_t line; /* number from 1 */
} log_place;

/* The facts of a rank in the logs. */
typedef struct log_rank {
    bool seen;         /* they have a line of it */
    bool waits;        /* it timed out in `work` */
    bool has_progress; /* `progress` belongs to the group that failed */
    bool notified;     /* another rank's timeout was reported to it */
    log_work work;
    log_progress progress;
    char host[64]; /* it runs there; "": not said */
    int pid;       /* process on its host; 0: not said */
    log_place at;  /* place of the timeout */
    double time_s; /* negative: not known */
} log_rank;

/* Whom a line is about, or who printed it. */
typedef struct log_who {
    int ranks[TESS_LOG_MOST_CULPRITS], n_ranks; /* the first of them */
    bool is_task;                               /* `ranks` are a scheduler's numbers */
    bool is_class;                              /* `actor` is the kind of a worker whose name is not known */
    bool is_local;                              /* `ranks` is a local rank, whose rank may follow */
    bool is_named;                              /* the line names it; otherwise it printed the line */
    int pid;                                    /* 0: not said */
    char more_hosts[160];                       /* ", node-b, node-c": further hosts; "": none */
    char more_pids[64];                         /* ", 7, 8": further processes; "": none */
    char host[64], gpu[32], actor[64], device[32], peer[64], step[24], what[176]; /* "": not said */
} log_who;

/* A line that its logger calls an error, and that no entry knows. */
typedef struct log_loose {
    log_place at;
    char excerpt[240];
} log_loose;

/* The lines of an entry. */
typedef struct log_match {
    int64_t n_lines;
    log_place first;    /* the earliest line, by time where lines have one; file: in survey->files */
    double time_s;      /* time of that line, since the year's beginning; negative: not known */
    int rank;           /* rank that printed it, or whose end it reports; -1: not known */
    log_who who;        /* it befell: all ranks that printed it at about that time */
    log_who reporter;   /* printed it, where these are not whom it befell */
    uint64_t text_hash; /* hash of the end of that line, without numbers */
    bool is_failure;    /* torchrun's table gives it */
    bool names_differ;  /* a later line names others */
    int n_listed;       /* ranks that its newest list names */
    char excerpt[240];  /* its beginning, without control characters */
    uint8_t *ranks;     /* bit r: rank r printed such a line; NULL: no rank is known */
    int64_t *came;      /* (n_came) of an entry with `reached`, by rank: 1 + its number, or its lines; 0: nothing */
    int n_came;
    bool is_told;      /* the text that its first line quotes is known */
    bool is_over;      /* the run went on after its first line, or another exception took its place */
    const char *phase; /* phase of the program, by the traceback above the first line; NULL: not known */
    char frame[180];   /* "train.py:12 in main", a frame of that traceback; "": none */
    bool is_cut;       /* the first line announced a traceback, whose exception is not there */
    bool is_exception; /* the first line is that of an exception below a traceback */
    int n_steps;       /* lines of steps that the same process printed after it, up to a few */
    log_loose before;  /* the error line, of no entry, that the same process printed right before; line 0: none */
    int64_t n_counted; /* such lines without a number */
} log_match;

/* A process that torchrun saw end. */
typedef struct log_failure {
    int rank, code, pid; /* pid 0: not said */
    bool is_local;       /* `rank` is its local rank: no table has said the rank yet */
    bool is_root;        /* torchrun calls it the first */
    double time_s;       /* since the year's beginning; negative: not said */
    char host[64];       /* "": not said */
} log_failure;

typedef struct tess_survey {
    tess_mem *mem;
    tess_knowledge *knowledge; /* borrowed */
    char (*files)[512];
    int n_files;
    int64_t n_lines, n_known_lines;
    uint64_t n_bytes;
    log_match *matches; /* one an entry */
    log_rank *ranks;
    int n_ranks, capacity; /* n_ranks: highest rank seen + 1 */
    log_failure *failures;
    int n_failures;
    log_stacks stacks;
    log_loose first_loose;    /* line 0: none */
    char endpoint[96];        /* the address at which processes meet, by the first line with it; "": none */
    int stated_world;         /* number of ranks by the logs; 0: they do not say */
    int largest_communicator; /* ranks of the largest one of NCCL; 0: none is known */
    bool leaves_out;          /* Ray left out lines of other ranks that say the same */
} tess_survey;

/* Zeroes and prepares. Free with tess_survey_free, after a failure too. */
tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey);
/* Reads a file to its end; "-" is standard input. */
tess_status tess_survey_read(tess_survey *survey, const char *path);
void tess_survey_free(tess_survey *survey);

typedef enum tess_log_kind {
    TESS_LOG_NOTHING,    /* no line is known */
    TESS_LOG_KNOWN,      /* known lines, none of which ends a job */
    TESS_LOG_ERROR,      /* an error before all timeouts, or without any */
    TESS_LOG_MISMATCH,   /* ranks are in different collectives */
    TESS_LOG_MISSING,    /* ranks never joined the collective that others wait in, or are behind the others */
    TESS_LOG_ALL_WAITED, /* nobody is missing: the network or a device stands still */
    TESS_LOG_ONE_SIDED   /* the logs do not say who is missing */
} tess_log_kind;

enum { TESS_LOG_MOST_EVIDENCE = 16 };

typedef struct tess_log_diagnosis {
    tess_log_kind kind;
    char headline[640];
    char evidence[TESS_LOG_MOST_EVIDENCE][512];
    int n_evidence;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first of them */
    int entry;                                       /* entry of the root cause; -1: none */
    bool is_cause;                                   /* otherwise it is only what is known: an effect, or a wrapper */
    log_who who;                                     /* the one at fault, as a log names it; empty: not said */
    log_who reporter;                                /* printed it, and is not at fault; empty: not said */
    int world;
    bool world_known;                      /* otherwise there are at least `world` ranks */
    log_work work;                         /* collective that the ranks waited in; op "": they did not wait */
    double bytes, traffic_bytes, mb_per_s; /* figures of that work, per rank; 0: not known */
} tess_log_diagnosis;

/* world: number of ranks; 0: as the logs say. */
tess_status tess_log_diagnose(const tess_survey *survey, int world, tess_log_diagnosis *diagnosis);

/* Prints text for people, or JSON with "version": 1. */
tess_status tess_log_print(const tess_survey *survey, const tess_log_diagnosis *diagnosis, tess_buffer *out);
tess_status tess_log_print_json(const tess_survey *survey, const tess_log_diagnosis *diagnosis, tess_buffer *out);

/* Finds the entries that contain at least half of the words, best first. Returns how many (at most `most`). */
int tess_log_search(const tess_knowledge *knowledge, const char *words, int *entries, int most);
tess_status tess_log_print_entry(const tess_log_entry *entry, tess_buffer *out);
const char *tess_log_kind_name(tess_log_kind kind);

#endif
