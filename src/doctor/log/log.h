/* Log files read into what they say of a job: which known errors, which ranks waited in which collective, who is
 * missing; and the verdict, root cause first. The library reads and judges; the command prints. */
#ifndef TESS_DOCTOR_LOG_LOG_H
#define TESS_DOCTOR_LOG_LOG_H

#include "base/text/text.h"
#include "doctor/log/knowledge.h"
#include "doctor/log/log_watchdog.h"

enum { LOG_MOST_RANKS = 1 << 16 };

typedef struct log_place {
    int file;     /* in survey->files; -1: nowhere */
    int64_t line; /* from 1 */
} log_place;

/* What was found of an entry. */
typedef struct log_match {
    int64_t n_lines;
    log_place first;   /* of its earliest line, by time where lines have one */
    double time_s;     /* of that line: since the year's beginning; negative: not known */
    int rank;          /* that said it; -1: not known */
    char excerpt[240]; /* its beginning, clean */
    uint8_t *ranks;    /* bit r: rank r said it; NULL: no rank is known */
    int64_t *came;     /* (n_came) of an entry with `reached`, by rank: 1 + its number, or its lines; 0: nothing */
    int n_came;
    int64_t n_counted; /* such lines without a number */
} log_match;

/* What is known of a rank. */
typedef struct log_rank {
    bool seen;         /* a line of it is there */
    bool waits;        /* it timed out, in `work` */
    bool has_progress; /* `progress` is of the group that failed */
    bool notified;     /* it was told of another rank's timeout */
    bool has_exit;     /* torchrun named it as the first that failed */
    int exit_code;
    log_work work;
    log_progress progress;
    log_place at; /* of the timeout */
    double time_s;
} log_rank;

typedef struct tess_survey {
    tess_mem *mem;
    tess_knowledge *knowledge; /* borrowed */
    char (*files)[512];
    int n_files;
    int64_t n_lines, n_known_lines;
    uint64_t n_bytes;
    log_match *matches; /* one an entry */
    log_rank *ranks;
    int n_ranks, capacity; /* highest rank seen + 1 */
    int stated_world;      /* ranks of the job as the logs say; 0: they do not */
} tess_survey;

/* Zeroes and prepares. Free with tess_survey_free, after a failure too. */
tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey);
/* Reads a file to its end; "-" is standard input. */
tess_status tess_survey_read(tess_survey *survey, const char *path);
void tess_survey_free(tess_survey *survey);

typedef enum tess_log_kind {
    TESS_LOG_NOTHING,    /* no line is known */
    TESS_LOG_KNOWN,      /* known texts, none of which ends a job */
    TESS_LOG_ERROR,      /* an error that came before all timeouts, or without any */
    TESS_LOG_MISMATCH,   /* ranks wait in different collectives */
    TESS_LOG_MISSING,    /* ranks that never joined the collective that others wait in */
    TESS_LOG_ALL_WAITED, /* nobody is missing: the network or a device */
    TESS_LOG_ONE_SIDED   /* timeouts, but the logs of the others are not there */
} tess_log_kind;

enum { TESS_LOG_MOST_EVIDENCE = 16, TESS_LOG_MOST_CULPRITS = 64 };

typedef struct tess_log_diagnosis {
    tess_log_kind kind;
    char headline[640];
    char evidence[TESS_LOG_MOST_EVIDENCE][512];
    int n_evidence;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first of them */
    int entry;                                       /* that the root cause is; -1: none */
    int world;
    bool world_known;                      /* otherwise `world` is a guess: the next power of two */
    log_work work;                         /* what the ranks waited in; op "" when they did not */
    double bytes, traffic_bytes, mb_per_s; /* of it: of one rank; 0: not known */
} tess_log_diagnosis;

/* world: ranks of the job, 0: as the logs say. */
void tess_log_judge(const tess_survey *survey, int world, tess_log_diagnosis *diagnosis);

/* For people, and as JSON with "version": 1. */
tess_status tess_log_print(const tess_survey *survey, const tess_log_diagnosis *diagnosis, tess_buffer *out);
tess_status tess_log_print_json(const tess_survey *survey, const tess_log_diagnosis *diagnosis, tess_buffer *out);

/* Entries in whose texts most of the words stand, best first. Returns how many (at most `most`). */
int tess_log_search(const tess_knowledge *knowledge, const char *words, int *entries, int most);
tess_status tess_log_print_entry(const tess_log_entry *entry, tess_buffer *out);
const char *tess_log_kind_name(tess_log_kind kind);
const char *tess_log_role_name(tess_log_role role);

#endif
