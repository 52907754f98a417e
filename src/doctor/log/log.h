/* `tessera doctor log`: reads log files and diagnoses them. A survey collects known errors, timeouts and the
 * progress of ranks; the diagnosis names the root cause first. */
#ifndef TESS_DOCTOR_LOG_LOG_H
#define TESS_DOCTOR_LOG_LOG_H

#include "base/text/text.h"
#include "doctor/log/knowledge.h"
#include "doctor/log/python_stacks.h"

/* LOG_EXCERPT: room for the beginning of a line that a report quotes */
enum { LOG_MOST_RANKS = 1 << 16, TESS_LOG_MOST_CULPRITS = 64, LOG_EXCERPT = 400 };

/* The collective in which a rank timed out. Texts that the log does not give are "". */
typedef struct log_work {
    int rank;                    /* -1: the log does not give it */
    char file[48];               /* source file that printed the message: "ProcessGroupNCCL.cpp" */
    int line;                    /* line in that source file */
    char group[64];              /* process group: "ID 1 PG GUID 1" */
    int64_t sequence;            /* number of the collective in its group; -1: not given */
    bool is_oldest;              /* the rank has completed all earlier collectives of the group */
    char op[32];                 /* operation: "ALLREDUCE" */
    int64_t numel_in, numel_out; /* elements of the input and the output; -1: not given */
    int64_t timeout_ms, elapsed_ms;
} log_work;

/* How far a rank came in a group. */
typedef struct log_progress {
    char group[64];
    int64_t failed;              /* sequence of the collective that timed out; -1: not given */
    int64_t enqueued, completed; /* last sequence enqueued and completed; -1: none yet */
} log_progress;

/* A line in one of the logs. */
typedef struct log_place {
    int file;     /* index in survey->files; -1: no line */
    int64_t line; /* line number, from 1 */
} log_place;

/* Facts about a rank in the logs. */
typedef struct log_rank {
    bool seen;         /* the logs contain a line that the rank printed */
    bool waits;        /* it timed out in `work` */
    bool has_progress; /* `progress` is known */
    bool notified;     /* the rank was told of another rank's timeout */
    bool is_cut;       /* its report of a timeout is cut off before it names the collective */
    log_work work;
    log_progress progress;
    char host[64]; /* host on which it runs; "": not known */
    int pid;       /* process id on that host; 0: not known */
    log_place at;  /* line that reports the timeout */
    int64_t n_all; /* steps of all processes before that line */
    double time_s; /* time of the timeout; negative: not known */
} log_rank;

/* The processes or devices that a line is about, or the process that printed it. Texts that are not known are "". */
typedef struct log_who {
    int ranks[TESS_LOG_MOST_CULPRITS], n_ranks; /* the first n_ranks ranks */
    bool is_task;                               /* `ranks` are task numbers of a scheduler */
    bool is_class;                              /* `actor` is only the kind of a worker, whose name is not known */
    const char *noun;                           /* "pod", "container", "job" or "task"; NULL: `actor` is an actor */
    bool is_local;                              /* `ranks` is a local rank; the global rank may become known later */
    bool is_of_all;       /* all ranks did the same, so none of them is at fault; `ranks` is empty */
    bool is_named;        /* true: the line names the process; false: the process printed the line */
    int pid;              /* process id; 0: not known */
    char more_hosts[160]; /* further hosts: ", node-b, node-c" */
    char more_pids[64];   /* further process ids: ", 7, 8" */
    char more_gpus[64];   /* further GPUs of the same host: ", 5, 6" */
    char more_peers[128]; /* further peers: ", 192.0.2.8, 192.0.2.9" */
    /* `step`: step of training; `what`: the error itself */
    char host[64], gpu[32], actor[64], device[32], peer[64], step[24], what[240];
} log_who;

/* A line that its logger marks as an error, and that no entry matches. */
typedef struct log_loose {
    log_place at;
    char excerpt[LOG_EXCERPT];
} log_loose;

/* Steps of training that were counted in a file before a line: of all processes, and of the one that printed the
 * line. Live steps are printed at once, without a buffer that may delay them. */
typedef struct log_steps {
    int64_t n_all, n_own, n_own_live;
} log_steps;

/* The lines that matched an entry. */
typedef struct log_match {
    int64_t n_lines;
    log_place first;    /* earliest line, by time if lines have a time; file: index in survey->files */
    double time_s;      /* time of the first line, in seconds since the beginning of the year; negative: not known */
    int rank;           /* rank that printed the first line, or whose end it reports; -1: not known */
    log_who who;        /* the processes that the error happened to: all that printed it at about that time */
    log_who reporter;   /* the processes that only printed it, if they differ from `who` */
    uint64_t text_hash; /* hash of the letters at the end of the first line */
    bool is_guess;      /* the first line says that it only supposes this */
    bool is_failure;    /* the first line belongs to torchrun's table */
    bool names_differ;  /* a later line names other processes */
    int n_listed;       /* number of ranks that the newest list names */
    char excerpt[LOG_EXCERPT]; /* beginning of the first line, without control characters */
    char quote[200];           /* the part of the first line that the headline quotes */
    uint8_t *ranks;            /* bit r: rank r printed such a line; NULL: no rank is known */
    /* (n_came) for each rank, 1 + the number that it reached, or how many of the lines it printed; 0: none. Only for
     * entries with `reached` */
    int64_t *came;
    int n_came;
    bool is_told;           /* a more specific error is known for what the first line quotes */
    bool is_over;           /* the run went on after the last line, or another exception replaced it */
    bool went_on;           /* the run went on after the last line */
    bool is_open;           /* the run did not go on after the entry's last line in some file; this stays set */
    bool ended_process;     /* one of those last lines reports the end of a process; this stays set */
    bool is_announced;      /* a line with a time that says so announced the last line, which is part of its message */
    bool is_tried;          /* the last line says that the program tries again, or its logger marks it as a warning */
    bool goes_on;           /* the first line, or one next to it, says that the program goes on (log_passes_over) */
    bool last_goes_on;      /* the last line says so, or its logger marks it as a warning */
    int64_t first_speaker;  /* process that printed the first line (log_speaker_of) */
    log_place last;         /* latest line that was read */
    double last_time_s;     /* time of the latest line since the run last went on; negative: not known of every line */
    bool last_is_exception; /* the line `last` is the exception at the end of a traceback */
    log_steps steps;        /* steps before that line */
    int64_t speaker;        /* process that printed it (log_speaker_of) */
    bool is_of_actor;       /* an actor of Ray printed it, "(Worker pid=7)" */
    double silence_s;       /* time without a line before the first line; negative: not known */
    const char *phase;      /* activity of the program, from the traceback above the first line; NULL: not known */
    char frame[180];        /* a frame of that traceback: "train.py:12 in main"; "": none */
    bool is_cut;            /* the first line announced a traceback whose exception is missing */
    bool is_exception;      /* the first line is the exception at the end of a traceback */
    log_loose before;       /* unknown error line that the same process printed right before it; line 0: none */
    int64_t n_counted;      /* number of lines without a number, for entries with `reached` */
} log_match;

/* A process that torchrun reported as ended. */
typedef struct log_failure {
    int rank, code, pid; /* pid 0: not known */
    bool is_local;       /* `rank` is the local rank: no table has given the global rank yet */
    bool is_root;        /* torchrun names it as the first to fail */
    double time_s;       /* time of its end, in seconds since the beginning of the year; negative: not known */
    char host[64];       /* "": not known */
    int file;            /* file that reports it */
    int64_t line, n_all; /* line of the report, and steps of all processes before it */
} log_failure;

/* A process that its launcher stopped. */
typedef struct log_stopped {
    int pid, file;  /* file that says so */
    bool is_listed; /* it was listed with all processes of the host; false: it was alive when another one had ended */
} log_stopped;

/* A row of the table of processes that the kernel prints when it runs out of memory. */
typedef struct log_oom_row {
    int pid; /* 0: none */
    int64_t pages;
    char name[32];
    log_place at; /* last row of the table */
} log_oom_row;

typedef struct log_phase log_phase;

enum { LOG_LABELS = 8 };
typedef struct log_label {
    uint64_t name; /* hash of the label */
    int64_t n;     /* number of lines with it */
} log_label;

typedef struct tess_survey {
    log_label labels[LOG_LABELS]; /* padded words before a bar, which may be containers; by their hash */
    tess_mem *mem;
    tess_knowledge *knowledge; /* borrowed */
    log_phase *phases;         /* (n_phases) table of what programs do */
    int n_phases;
    char (*files)[512];
    int n_files;
    int64_t n_lines, n_known_lines;
    uint64_t n_bytes;
    log_match *matches; /* one per entry of the knowledge base */
    log_match *open;    /* copies of the matches that are open, made at the end of the last file where they were */
    log_rank *ranks;
    int n_ranks, capacity; /* n_ranks: highest rank seen, plus 1 */
    log_failure *failures;
    int n_failures;
    log_stopped *stopped; /* (n_stopped) */
    int n_stopped;
    int last_started;         /* 1 + local rank in the command that DeepSpeed's launcher prints; 0: none */
    const char *success_name; /* name of the exit code of a success in the text of a scheduler; NULL: none */
    int success_code;
    log_failure cut_root; /* torchrun's "Root Cause" at the end of a log that is cut off before its exit code */
    bool has_cut_root;
    log_stacks stacks;
    log_loose first_loose; /* first unknown error line; line 0: none */
    log_who loose_who;     /* the process that printed it */
    log_loose slow_bar;    /* bar of a preparation that was not done when a rank gave up waiting; line 0: none */
    log_loose repeated;    /* the last line, if the last n_repeated lines differ only in times and numbers */
    int64_t n_repeated;
    log_loose last_words; /* line near the end of a file that speaks of a failure; line 0: none */
    log_loose last_step;  /* last line of progress; line 0: none */
    log_loose good_end;   /* last line that says that a program or the job ended well; line 0: none */
    bool ended_well;      /* a line says that the whole job ended well, and no error follows it in its file */
    bool program_ended;   /* a program reports a good end, and no error follows in its file */
    bool process_ended;   /* a process ended with an error, and the run did not go on in the file that says so */
    bool has_live_steps;  /* the time of a last step is known, after which no error follows in its file */
    double last_step_s;   /* the latest such time */
    bool restarted;       /* a launcher started the processes again, and the run went on */
    char endpoint[96]; /* address at which the processes of the job meet, from the first line that gives it; "": none */
    double beat_s;     /* longest time at the end of a file with lines of a monitor alone */
    int stated_world;  /* number of ranks that the logs state; 0: none */
    int largest_communicator; /* ranks of the largest NCCL communicator; 0: none is known */
    bool leaves_out;          /* Ray suppressed equal lines of other ranks */
    log_work unranked;        /* first collective that timed out in a line without a rank; op "": none */
    bool is_cut_off;          /* a report of a timeout is cut off, so reports of other ranks may be missing */
    log_oom_row largest;      /* largest process of the kernel's table before the first error that followed one */
} tess_survey;

/* Initializes a survey. Free it with tess_survey_free, also after a failure. */
tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey);
/* Reads a file to its end. "-" stands for standard input. */
tess_status tess_survey_read(tess_survey *survey, const char *path);
void tess_survey_free(tess_survey *survey);

typedef enum tess_log_kind {
    TESS_LOG_NOTHING,    /* no line matches an entry */
    TESS_LOG_KNOWN,      /* some lines match entries, but none of them ends a job */
    TESS_LOG_ERROR,      /* an error before all timeouts, or without any timeout */
    TESS_LOG_MISMATCH,   /* ranks are in different collectives */
    TESS_LOG_MISSING,    /* ranks never joined the collective that others wait in, or fell behind the others */
    TESS_LOG_ALL_WAITED, /* no rank is missing: the network or a device does not respond */
    TESS_LOG_ONE_SIDED   /* the logs do not show which rank is missing */
} tess_log_kind;

enum { TESS_LOG_MOST_EVIDENCE = 16 };

typedef struct tess_log_diagnosis {
    tess_log_kind kind;
    char headline[640];
    char evidence[TESS_LOG_MOST_EVIDENCE][720];
    int n_evidence;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first n_culprits ranks at fault */
    int entry;                                       /* entry of the root cause; -1: none */
    bool is_cause;    /* false: the headline is only the best that is known, an effect or a wrapper */
    log_who who;      /* the process or device at fault, as a log names it; empty: not known */
    log_who reporter; /* the process that reported it and is not at fault; empty: not known */
    int world;
    bool world_known;                      /* false: the job has at least `world` ranks */
    log_work work;                         /* collective that the ranks waited in; op "": they did not wait in one */
    double bytes, traffic_bytes, mb_per_s; /* size and speed of that collective, per rank; 0: not known */
} tess_log_diagnosis;

/* Diagnoses what the survey found. world: number of ranks; 0: as stated by the logs. */
tess_status tess_log_diagnose(const tess_survey *survey, int world, tess_log_diagnosis *diagnosis);

/* These print text for people, or JSON with "version": 1. */
tess_status tess_log_print(const tess_survey *survey, const tess_log_diagnosis *diagnosis, bool as_json,
                           tess_buffer *out);

/* Finds the entries that contain at least half of the words, best match first. Returns their number (at most
 * `most`). */
int tess_log_search(const tess_knowledge *knowledge, const char *words, int *entries, int most);
tess_status tess_log_print_entry(const tess_log_entry *entry, tess_buffer *out);
const char *tess_log_kind_name(tess_log_kind kind);

#endif
