/* Internal to log: functions that read lines, ranks and times, collect what lines report, and diagnose it. */
#ifndef TESS_DOCTOR_LOG_LOG_IMPL_H
#define TESS_DOCTOR_LOG_LOG_IMPL_H

#include <string.h>

#include "diagnosis/ends.h"
#include "diagnosis/sentence.h"
#include "doctor/log/log.h"

/* ---- lines/log_encoding.c ---- */
typedef enum log_encoding { LOG_BYTES, LOG_UTF16_LITTLE, LOG_UTF16_BIG } log_encoding;

/* Returns the encoding that the byte order mark at the beginning of a text shows. */
log_encoding log_encoding_of(const char *text, size_t size);
/* Converts UTF-16 to UTF-8 (out: room for 3 bytes per unit of 2). Returns the number of bytes converted. Half a unit
 * or half a surrogate pair at the end is left for the next call, unless at_end. Invalid characters become U+FFFD. */
size_t log_utf16_convert(log_encoding encoding, const char *text, size_t size, bool at_end, char *out, size_t *written);
/* Removes the escape sequences of terminals in place. Also removes colour codes whose escape character was lost when
 * the text was copied ("[36m"). Returns the new size. */
size_t log_strip_escapes(char *text, size_t size);

/* ---- lines/log_wrap.c: text copied from a terminal or a page, whose lines were cut at a fixed width ---- */
typedef struct log_wrap {
    size_t width; /* width in characters; 0: lines are whole */
    bool at_words;
} log_wrap;

log_wrap log_wrap_find(const char *text, size_t size);
/* Whether `next` continues `line`. */
bool log_wrap_joins(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size);
/* Whether a message may continue on the next line, judged by its end: "... on node n1 exited on". */
bool log_message_is_open(const char *line, size_t size);
/* Whether `next` continues such a message. *skip: bytes at the beginning of `next` that are not part of it ("NVRM:
 * "). */
bool log_message_goes_on(const char *line, size_t size, const char *next, size_t next_size, size_t *skip);

/* ---- lines/log_torn.c ---- */
/* Whether the line is a report of PyTorch's watchdog that lacks its end. */
bool log_report_is_open(const char *line, size_t size);
/* Whether `next` continues such a report. *skip: blanks at the beginning of `next` that are not part of it. *space: a
 * blank belongs between the two. */
bool log_report_goes_on(const char *line, size_t size, const char *next, size_t next_size, size_t *skip, bool *space);

/* ---- lines/lines.c ---- */
/* Reads lines of a file or pipe of any size in bounded memory, as UTF-8 without colours. Lines that were cut at a
 * fixed width are joined. A carriage return (of a progress bar) also ends a line, but is not counted as a line. A
 * line longer than LOG_LINE_MOST is returned in overlapping pieces with the same number, so that no message is cut. */
enum { LOG_LINE_MOST = 32 << 10, LOG_LINE_OVERLAP = 1 << 10, LOG_BUFFER = 256 << 10 };

typedef struct log_lines {
    tess_mem *mem;
    int fd;
    char path[512]; /* path for messages and reports; "(standard input)" for "-" */
    char *buffer;
    size_t begin, end; /* range of the buffer that is still to be read */
    int64_t line;      /* number of the current line, from 1; of joined lines, the first */
    int64_t n_joined;  /* number of lines that were joined to it */
    bool at_end, ends_line;
    log_wrap wrap;
    log_encoding encoding;
    char *raw; /* (LOG_BUFFER) bytes that are still to be converted; NULL: no conversion is needed */
    size_t raw_size;
} log_lines;

/* Opens a log; "-" is standard input. Errors name the path: TESS_E_NOT_FOUND, TESS_E_INVALID (a folder, a
 * compressed file, or no text), TESS_E_IO. */
tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines);
/* Reads the next line. *text has no line end and no NUL, and is valid until the next call. At the end of the log,
 * *text is NULL and lines->line is the number of lines. */
tess_status log_lines_next(log_lines *lines, const char **text, size_t *size);
void log_lines_close(log_lines *lines);
/* Whether a line of `size` bytes begins with `words`. */
static inline bool log_begins_with(const char *line, size_t size, const char *words)
{
    const size_t n = strlen(words);
    return size >= n && memcmp(line, words, n) == 0;
}

/* ---- host_name.c: what is the name of a host ---- */
/* LOG_HOST_EXPECTED: the form of the text around a word shows that a host stands there. LOG_HOST_ANYWHERE: the word
 * alone must show that it is a host: "node-a", "worker3", "10.0.0.2". */
typedef enum log_host_place { LOG_HOST_ANYWHERE, LOG_HOST_EXPECTED } log_host_place;

/* Whether the text is the name or address of a host. All code that reads hosts decides by this function. */
bool log_is_host(const char *text, size_t size, log_host_place place);
/* Reads the host from the name of a log file: "job-worker-3.log", "node12.err". Returns false if the name holds
 * none. */
bool log_host_of_path(const char *path, char *host, size_t size);

/* ---- origin*.c: ranks and processes that launchers and loggers print before a line ---- */
enum { LOG_HEAD = 160 };

/* Returns the rank in front of a line; -1: none. Forms: "[rank6]:", "[PG ID 1 PG GUID 1 Rank 6]", "[default6]:"
 * (torchrun, also with the name of a role), "[1,6]<stderr>:" (Open MPI), "6: " and " 6: " (srun -l), "[6] " (mpiexec
 * -prepend-rank). */
int log_rank_of_line(const char *line, size_t size);
/* Returns what the beginning of a line says about the process that printed it. Lines give: a rank; host, process and
 * device (NCCL); actor, process and host (Ray); host and process (Open MPI); the host (kernel, pdsh, kubectl,
 * compose). */
log_who log_origin_of_line(const char *line, size_t size);
/* Counts the lines with a padded word before a bar, "engine  | ": compose's label of a container, or a table's row. */
void log_note_label(tess_survey *survey, const char *line, size_t size);
/* Forgets a container whose label too few lines have. */
void log_drop_label(const tess_survey *survey, log_who *who);
/* Returns the offset of a line's own text, after times and the prefixes of launchers and loggers. */
size_t log_text_begin(const char *line, size_t size);

/* ---- rank_text.c ---- */
/* Returns the rank in "rank 6" anywhere in a line; -1: none. */
int log_rank_text(const char *line, size_t size);
/* Returns the rank in a path: "rank6.log", "rank-00006", ".../attempt_0/6/stderr.log" (torchrun); -1: none. */
int log_rank_of_path(const char *path);

/* ---- line_time.c ---- */
/* Whether the first LOG_HEAD bytes contain a time such as 13:20:49. */
bool log_has_time(const char *line, size_t size);
/* Returns the time within the first LOG_HEAD bytes, in seconds since the beginning of the year, in the line's own
 * time zone; negative: none. Forms: "[E717 13:20:49.40", "2024-07-17 13:20:49,407", "Jul 17 13:20:49", "07/17/2024
 * 13:20:49". */
double log_time_of_line(const char *line, size_t size);

/* ---- ranks, hosts and processes of a line (who.c) ---- */
/* Adds the values of a pattern's named groups. Ranks are appended; all other names keep their first value. */
void log_who_add(log_who *who, const tess_found_entry *found);
/* Adds the rank of a pattern's group "reporter", if the rank that printed the line is not known. */
void log_who_add_reporter(log_who *reporter, const tess_found_entry *found);
/* Fills in the members of `who` that are unknown, from `more`. */
void log_who_complete(log_who *who, const log_who *more);
/* Whether both may be the same process: no known member differs. */
bool log_who_is_same(const log_who *a, const log_who *b);
/* Adds the ranks of `other`. Of all other members, keeps only values that are equal in both. */
void log_who_join(log_who *who, const log_who *other);
/* Does the same for processes that printed a line. If they have no ranks, keeps all their hosts. */
void log_who_join_reporter(log_who *who, const log_who *other);
/* Adds the hosts of `other`. Keeps process and GPU only if they are equal in both. */
void log_who_add_hosts(log_who *who, const log_who *other);
/* Adds the peer of `other`, if it differs. */
void log_who_add_peer(log_who *who, const log_who *other);
/* Adds the process id of `other`. */
void log_who_add_pids(log_who *who, const log_who *other);
/* Adds the GPU of `other`, and its process id if it differs. */
void log_who_add_gpus(log_who *who, const log_who *other);
/* Whether `other` is another GPU of the same host, and nothing but its process differs. */
bool log_who_differs_in_gpu(const log_who *who, const log_who *other);
/* Whether `other` is another process, and differs in nothing but its process id. */
bool log_who_differs_in_pid(const log_who *who, const log_who *other);
/* Whether `who` is only a GPU that a line of the GPU driver names. */
bool log_who_names_only_gpu(const log_who *who);
/* Whether `other` is a process or device of the same kind on another host. */
bool log_who_differs_in_host(const log_who *who, const log_who *other);
bool log_who_is_known(const log_who *who);
bool log_who_has(const log_who *who, int rank);
/* Formats "ranks 1-3 on node-e", "actor pool_0:3 on 192.0.2.14 (pid 5120)"; "" if nothing is known. Returns text. */
const char *log_who_text(const log_who *who, char *text, size_t size);

/* Called for each rank; returns whether to name it. */
typedef bool (*log_rank_fn)(const void *context, int rank);

/* Formats "rank 3", "ranks 0-2,4-7"; a long list ends with "...". Returns text. */
const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size);
int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks);
/* Returns a rank's element of survey->ranks; extends the array if needed. */
tess_status log_rank_at(tess_survey *survey, int rank, log_rank **out);

/* ---- phases.c: what a program was doing ---- */
typedef struct log_frame {
    char path[160], function[64]; /* path: the end of it if it is long; function "": not known */
    int line;
} log_frame;

/* Reads the table of phases. */
tess_status log_phases_read(tess_mem *mem, log_phase **phases, int *n);
/* Returns what a program was doing, such as "reading a checkpoint", from the frames of a stack, outermost first.
 * Returns NULL if the frames do not show it. The text belongs to the survey. */
const char *log_phase_of(const tess_survey *survey, const log_frame *frames, int n);

/* Returns the part of a program, such as "asynchronous disk I/O", from the source path that a line of native code
 * names. Returns NULL if it is not known. The text belongs to the survey. */
const char *log_component_of(const tess_survey *survey, const char *line, size_t size);

/* ---- traceback.c: Python tracebacks ---- */
enum { LOG_TRACES = 8, LOG_TRACE_MOST_FRAMES = 24 };

typedef enum log_trace_part {
    LOG_TRACE_NONE, /* no part of a traceback that matters */
    LOG_TRACE_HEAD,
    LOG_TRACE_FRAME,
    LOG_TRACE_CONTEXT, /* code around that of a frame, as rich prints it; it did not run */
    LOG_TRACE_ERROR,   /* type and message of the exception */
    LOG_TRACE_REST,    /* continuation of the message */
    LOG_TRACE_CHAINED  /* announces another traceback, of an exception that this one led to */
} log_trace_part;

typedef struct log_trace {
    enum { LOG_TRACE_CLOSED, LOG_TRACE_FRAMES, LOG_TRACE_MESSAGE } state;
    enum { LOG_CHAIN_NONE, LOG_CHAIN_DIRECT, LOG_CHAIN_HANDLING } chain; /* how this exception led to the next one */
    log_who speaker;
    int64_t head, last, error;  /* lines: of its beginning, of its last frame, and of the exception */
    bool is_look_up;            /* the exception says that something does not exist, which programs often just try */
    int64_t before;             /* line of the exception that led to this one; 0: none */
    bool replaces;              /* the exception at `before` was only part of a look-up, or of the same type */
    uint64_t type, type_before; /* hash of the exception's type, and of that which directly caused it; 0: none */
    bool has_head;
    int indent;                              /* blanks before "Traceback"; -1: the log has lost its blanks */
    log_frame frames[LOG_TRACE_MOST_FRAMES]; /* the outermost frame and the innermost ones */
    int n_frames;
    bool statement_is_open; /* the statement that raised continues on the next line of rich's box */
    char code[100];         /* code of the innermost frame; "": it was not printed */
    const char *phase;      /* activity of the program; NULL: not known */
} log_trace;

/* The tracebacks of a file that have not ended yet. */
typedef struct log_traces {
    log_trace traces[LOG_TRACES];
    log_trace *current; /* traceback that the last line belongs to; NULL: none */
    int64_t last;       /* number of the last line of any traceback; 0: none yet */
    size_t frames_size; /* size of the text that holds the frames of `current` */
    char boxed[400];    /* beginning of a frame that rich broke into several lines; "": none */
} log_traces;

/* Parses 'File "train.py", line 12, in main' and the forms of rich and IPython. Returns false for any other line. */
bool log_parse_frame(const char *text, size_t size, log_frame *frame);
/* Returns the length of the exception's type in "ValueError: x"; 0: the line has another form. */
size_t log_exception_name(const char *text, size_t size);
/* Reads the next line of the process `speaker`. t->current is set to the traceback that the line belongs to. */
log_trace_part log_traces_take(log_traces *t, const char *line, size_t size, int64_t number, const log_who *speaker);
/* Whether lines of a traceback may still follow. */
bool log_traces_are_near(const log_traces *t, int64_t number);
/* Formats "train.py:12 in main": the innermost frame of the program itself, or else of a library. */
void log_trace_place(const log_trace *trace, char *text, size_t size);
/* Writes "RuntimeError: no GPU" where the innermost frame's code is raise RuntimeError("no GPU"), which tells the text
 * of an exception that is missing. Returns false for any other code. */
bool log_raised_text(const log_trace *trace, char *text, size_t size);
/* Writes a line with the phase, then one line "path function" per frame, innermost first. Returns the length. */
size_t log_trace_frames(const log_trace *trace, char *text, size_t size);

/* ---- log_history.c: which ranks are to blame for collectives that timed out ---- */
/* The relation of a rank to the collective that most ranks wait in. */
enum {
    LOG_SIDE_WAITS = 1 << 0,  /* it waits in this collective or in another one */
    LOG_SIDE_IN_IT = 1 << 1,  /* its own lines say that it waits in this collective */
    LOG_SIDE_QUEUED = 1 << 2, /* the collective is in its queue */
    /* it waits in another group, or at another sequence number of a group that may differ */
    LOG_SIDE_OTHER_GROUP = 1 << 3,
    LOG_SIDE_OUTSIDE = 1 << 4, /* its own lines say that it was not in the collective */
    LOG_SIDE_SILENT = 1 << 5,  /* its lines do not mention the collective */
    LOG_SIDE_UNSEEN = 1 << 6,  /* the logs contain no lines of it */
    LOG_SIDE_CULPRIT = 1 << 7,
    LOG_SIDE_CUT = 1 << 8, /* its own line is a report of a timeout that is cut off, so its collective is not known */
    LOG_SIDE_ABSENT = LOG_SIDE_OUTSIDE | LOG_SIDE_SILENT | LOG_SIDE_UNSEEN
};

typedef struct log_blame {
    const tess_survey *survey; /* borrowed */
    int n_ranks;               /* number of ranks of the job; a lower bound if world_known is false */
    bool world_known;
    /* collective that most ranks wait in; NULL: no rank waits, and the following members are empty */
    const log_work *usual;
    uint16_t *sides;                                  /* (n_ranks) LOG_SIDE_* bits */
    tess_log_kind kind;                               /* MISMATCH, MISSING, ALL_WAITED or ONE_SIDED */
    int culprits[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first n_culprits of them */
    bool tie;                          /* the blame is a tie: the culprits might as well be the other ranks */
    tess_report_id headline, evidence; /* sentences; evidence NONE: there is none */
} log_blame;

/* Finds the ranks to blame. n_ranks: at least survey->n_ranks. Free with log_blame_free, also after a failure. */
tess_status log_blame_find(const tess_survey *survey, int n_ranks, bool world_known, log_blame *blame);
void log_blame_free(log_blame *blame);
int log_count_sides(const log_blame *blame, unsigned sides);

/* ---- log_waits.c: the report on collectives that timed out ---- */
/* Writes the headline, the culprits and their evidence. */
void log_report_blame(const log_blame *blame, tess_log_diagnosis *diagnosis);
/* Reports the waits as an effect of diagnosis->entry (-1: the waits are the finding), and whether the size explains
 * them. */
void log_report_waits(const log_blame *blame, tess_log_diagnosis *diagnosis);

/* ---- log_steps.c: lines that show that a program goes on ---- */
/* A step of training, or another sign of progress. */
typedef struct log_step {
    uint64_t id;  /* equal for lines about the same step */
    bool is_live; /* a logger or a progress bar printed it, which do not delay their output */
} log_step;

/* Reads a step: "step=20", "iteration 100/ 1000", "Epoch 3: 100%|", "'loss': 2.31", "2047 samples/sec". Returns false
 * for any other line. */
bool log_step_of_line(const char *line, size_t size, log_step *step);
/* Whether the line is a progress bar that is not at its end, and has run as long as usual timeouts: it is that of a
 * preparation, or ran for 10, 30 or 60 minutes. */
bool log_is_slow_bar(const char *line, size_t size);
/* Whether the words of the line say that the program tries again or continues: "retrying", "falling back". */
bool log_says_it_goes_on(const char *line, size_t size);
/* Whether the line says so, or names what it does instead: "will try to load from the cache", "will be disabled". The
 * device or host that "will be disabled" may be the fault, so these words do not show that the error is survived. */
bool log_passes_over(const char *line, size_t size);
/* Whether the line says that an attempt failed that is made again, and announces why: "Retry attempt failed:". */
bool log_announces_a_retry(const char *line, size_t size);
/* Whether the line only gives advice for an error that may come: its level is INFO or below, and it has a condition,
 * "If you are running out of memory, consider ...". */
bool log_is_advice(const char *line, size_t size);
/* Whether a warning says that something else was used and is there: "Using the latest cached version ...". */
bool log_is_fallback_used(const char *line, size_t size);
/* Whether Python's module `warnings` printed the line: "/data/x.py:12: UserWarning: ...". */
bool log_is_python_warning(const char *line, size_t size);

/* Most lines of a quotation, and most lines between the kernel's table of processes and the line that says which
 * process it killed. */
enum { LOG_MOST_QUOTED = 128, LOG_AFTER_TABLE = 8 };

/* LOG_TAIL: lines at the end of a file that may show that it ended well. LOG_LAST_WORDS: how many of them are searched
 * for words of a failure. */
/* LOG_AT_EDGE: most lines between a single frame of a traceback and the beginning or end of the file that cut it off */
enum { LOG_AT_EDGE = 8, LOG_LOOSE = 8, LOG_TAIL = 40, LOG_TAIL_MOST = 300, LOG_LAST_WORDS = 12 };

/* Unknown error lines that one process printed in a row. */
typedef struct loose_run {
    log_who speaker;
    log_loose first;
    int64_t last;  /* number of the last line of the row */
    double time_s; /* time of that line; negative: not known */
} loose_run;

/* LOG_MOST_STEPS: limit of the lines of steps that are counted after an error, over all processes */
enum { LOG_SPEAKERS = 64, LOG_LAST_STEPS = 32, LOG_MOST_STEPS = 4096, LOG_HINT_LINES = 3 };

/* The steps that a process printed after the first error. */
typedef struct log_speaker {
    int64_t key; /* log_speaker_of */
    uint64_t last;
    int64_t n, n_live;
} log_speaker;

/* The state while a file is read. */
typedef struct survey_reading {
    tess_survey *survey;
    int file;
    log_who path_who;       /* rank and host in the name of the file */
    char stamped[LOG_HEAD]; /* beginning of the last line that holds a time */
    size_t stamped_size;
    int64_t stamped_line;          /* number of that line */
    char stamped_before[LOG_HEAD]; /* beginning of the last line before it that holds a time */
    size_t stamped_before_size;
    double beat_from_s, beat_to_s; /* times of the lines of a monitor since any other line; negative: none */
    int64_t last_line;             /* number of lines of the file, at its end */
    int64_t root_line;             /* line of a "Root Cause" that is still to be followed by its process */
    int64_t failed_line;           /* last line with a rank in torchrun's table */
    log_failure failure;           /* process of that table that is being read; rank -1: none */
    char pod[64];                  /* pod that a line last named; "": none, or several */
    log_oom_row largest;           /* largest process of the kernel's last table of processes */
    char described[64];            /* name of a described object, which may be a pod */
    int64_t described_line;        /* line of that name; 0: none */
    int64_t object_line;           /* line with the kind of a pod, whose name follows; 0: none */
    char node[64];                 /* node named by the description of a pod, an event or a prompt; "": none */
    char shell[64];                /* host in the prompt of a shell; "": none */
    bool nodes_differ;             /* events name pods on several nodes */
    bool pods_differ;              /* lines name several pods */
    char checkpoint[160];          /* file or folder that the program last reported to read; "": none */
    log_who quoting;               /* process that printed the last line that quotes another process */
    log_who quoted;                /* process that it quotes */
    int64_t quote_line;            /* 0: none */
    int trace_entry;               /* entry of the last line that quotes a traceback; -1: none */
    int64_t trace_line;
    int64_t trace_end; /* first line after it that is not part of the traceback; 0: none yet */
    char lacks[1024];  /* list of what `lacks_rank` lacks, from the last such line */
    int lacks_rank, lacks_entry;
    int64_t lacks_line; /* number of that line; 0: none */
    log_traces traces;
    log_trace_part part; /* part of a traceback that the last line is */
    char frames[4096];   /* frames of that traceback, as text */
    /* ---- whether the run goes on after an error ---- */
    int steps_left;                     /* lines of steps that are still counted */
    int64_t hints_end;                  /* last line that may say that the program goes on after an error */
    log_speaker all;                    /* steps of all processes */
    log_speaker speakers[LOG_SPEAKERS]; /* the first n_speakers processes */
    int n_speakers;
    log_loose may_be_steps[LOG_LAST_STEPS]; /* the last lines that may be steps */
    int64_t n_may_be_steps;
    int64_t restart_line, restart_steps; /* last restart by a launcher, and steps of all before it; line 0: none */
    int64_t end_line, end_speaker;       /* last line that reports a good end; line 0: none */
    tess_log_scope end_scope;
    int64_t error_line;         /* last line of a cause, wrapper or effect; 0: none */
    loose_run loose[LOG_LOOSE]; /* the last rows */
    int n_loose;
    log_loose tail[LOG_TAIL]; /* beginnings of the last lines that are not blank */
    int64_t known_line;       /* last line that an entry matches */
    int64_t n_tail;
    int open_entry;    /* entry whose error is told on the next line */
    int64_t open_line; /* number of that line; 0: none */
    int64_t open_from; /* first line of that entry */
} survey_reading;

/* ---- log_exceptions.c: exceptions in a log ---- */
/* Finds the entries that match a line, and its part of a traceback (reading->part). `writer`: the process that a
 * JSON object names as the writer. */
void log_find_line(survey_reading *reading, const char *line, size_t size, int64_t number, const log_who *writer,
                   tess_found *found);
/* Finds the process that printed a line: from the line, from `writer`, and from the file's name. */
log_who log_find_origin(const survey_reading *reading, const char *line, size_t size, const log_who *writer);
/* Whether one of the entries found says more than the entry for all exceptions. */
bool log_says_more(const survey_reading *reading, const tess_found *found);
/* Updates the exception that led to the last line's exception: it was only a look-up, or gets the phase of this one. */
void log_note_chained(survey_reading *reading);
/* Gives the phase of a traceback to the match of a wrapper on the line right above it. Returns false if there is
 * none. */
bool log_note_announced(const survey_reading *reading, const log_trace *trace);

/* ---- went_on.c: whether the run went on after an error ---- */
/* Returns a number for the process that printed a line: the same for all lines of a process. */
int64_t log_speaker_of(const log_who *origin);
/* Keeps a line that may be a step, to quote the last one in the report. */
void log_keep_step(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Whether a line of progress stands between line `from` of the file and the current one. */
bool log_has_progress_since(const survey_reading *reading, int64_t from);
/* Counts a step of `origin`. */
void log_note_step(survey_reading *reading, const log_who *origin, const log_step *step);
/* Returns the steps that were counted so far. */
log_steps log_steps_now(const survey_reading *reading, int64_t speaker);
/* Notes a line that says that a process, a program or the job ended well. Of several such lines without an error
 * between them, the first one with the widest scope counts. */
void log_note_end(survey_reading *reading, tess_log_scope scope, const char *line, size_t size, int64_t number,
                  const log_who *origin);
void log_note_restart(survey_reading *reading, int64_t number);
/* Notes that a line right below an error says that the program goes on, if it does: "retried: ok". */
void log_note_hint(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Whether the run went on after the last line of the entry, as far as the file was read. */
bool log_went_on(const survey_reading *reading, int entry);
/* Whether the run went on after the last line of the entry, as its own file or other files show. */
bool log_survived(const tess_survey *survey, int entry);
/* Marks an error of the file as over: the run went on after it, or else another exception replaced it. If the same
 * error is open in an earlier file, its match becomes again what it was there. */
void log_set_over(tess_survey *survey, int entry, bool went_on);
/* Marks the errors of the file after which the run went on, and those that are open. Must be called at the end of a
 * file. */
void log_settle(survey_reading *reading);

/* ---- survey_match.c: the lines of an entry ---- */
/* Returns the time of a line, or of the last earlier line with a time. */
double log_time_near(const survey_reading *reading, const char *line, size_t size);
/* Adds a line to an entry. The line is about `who`, and `reporter` only printed it. `origin` is the process whose
 * prefix the line has. */
tess_status log_note_match(survey_reading *reading, int entry, const char *line, size_t size, int64_t number,
                           const log_who *who, const log_who *reporter, const log_who *origin,
                           const log_failure *failure);
/* Keeps the part of an entry's first line that the headline quotes: the text without its prefixes. If the line is long,
 * the part begins near the words that the pattern matched. */
void log_note_quote(const survey_reading *reading, const tess_found_entry *found, const char *line, size_t size,
                    int64_t number);
/* Notes that the next line holds the reason of the error right above: NCCL and PyTorch print "Last error:" before it.
 */
void log_note_last_error(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Adds a line that continues the first line of an entry. */
void log_note_rest(const survey_reading *reading, const tess_found_entry *found, int64_t number, const log_who *origin);
/* Compares lists of what ranks lack, one line per rank. If each of two ranks lacks what the other has, neither is
 * late, and the lines belong to the entry `different`. */
tess_status log_note_lack(survey_reading *reading, const tess_found_entry *found, const char *line, size_t size,
                          int64_t number, const log_who *origin, const log_failure *failure);
/* Appends a line to the error that an earlier line announced with a colon, or with "Last error:". */
void log_note_message(survey_reading *reading, const char *line, size_t size);
/* Appends the rest of the error, which the pattern's group "also" took, to what the headline says. */
void log_note_also(const survey_reading *reading, const tess_found_entry *found, int64_t number);
/* Adds the process or device that a later line of an entry names, if its first line names none. */
void log_note_names(const survey_reading *reading, const tess_found_entry *found, int64_t number);

/* ---- survey_facts.c: facts about ranks, whether or not an entry matches the line ---- */
/* Notes that the logs contain a line of the rank; -1: the rank is not known. */
tess_status log_see_rank(tess_survey *survey, int rank);
/* Notes where a rank runs. The first line that says so counts. */
void log_place_rank(tess_survey *survey, int rank, const log_who *origin);
/* Notes how far the speaker came, or all ranks of a list. */
tess_status log_note_mark(tess_survey *survey, int entry, const char *line, size_t size, int speaker);
/* Notes where a rank of an NCCL communicator runs, from a line that gives the size of the communicator. */
tess_status log_note_communicator(survey_reading *reading, const char *line, size_t size, const log_who *origin);
/* Notes that the report of a timeout of the speaker, or of the rank that the line names, is cut off. */
tess_status log_note_cut_report(tess_survey *survey, const char *line, size_t size, int speaker);
/* Notes where a rank runs, from a line of its proxy of NCCL. */
tess_status log_note_proxy(tess_survey *survey, const char *line, size_t size, const log_who *origin);
/* Notes what the words of hooks in a line tell: collectives, progress, failures, endpoints, nodes and the number of
 * ranks. *failure is set if the line belongs to torchrun's list. */
tess_status log_note_hooks(survey_reading *reading, uint64_t hooks, const char *line, size_t size, int64_t number,
                           int speaker, log_failure *failure);

/* ---- stopped.c: processes that launchers stopped, and exit codes that are a success ---- */
/* Notes a process that its launcher stops: "Sending process 7 closing signal SIGTERM", "Killing subprocess 7"; and the
 * local rank in the command that DeepSpeed's launcher started last. */
tess_status log_note_stopped(survey_reading *reading, const char *line, size_t size);
/* Whether torchrun stopped the process, which was therefore alive when it saw another one end. */
bool log_was_stopped(const tess_survey *survey, const log_failure *failure);
/* Finds the only process that a launcher had started, if the launcher listed one alone. */
bool log_only_child(const tess_survey *survey, log_who *who);
/* Notes the exit code that the text of a scheduler calls a success: "SuccessCheckpointExitCode = 85". */
void log_note_success_code(tess_survey *survey, const char *line, size_t size);

/* ---- surroundings.c: facts from the lines around an error ---- */
/* Notes the first endpoint that a launcher or program names: "rdzv_endpoint : node-a:29400", "MASTER_ADDR=node-a". */
void log_note_endpoint(tess_survey *survey, const char *line, size_t size);
/* Notes the node of the pod that the following lines describe: "Node:  node-a/192.0.2.1", "nodeName: node-a". */
void log_note_node(survey_reading *reading, const char *line, size_t size);

/* Notes the node in an event of Kubernetes, "Successfully assigned default/job-0 to node-a". If events name several
 * nodes, the node of a later event is unknown. */
void log_note_assigned(survey_reading *reading, const char *line, size_t size);
/* Notes the pod that a line names. If lines name several pods, the pod of a later line is unknown. */
void log_note_pod(survey_reading *reading, const char *pod);
/* ---- log_pods.c: names of pods ---- */
/* Finds the pod that a line names: 'pod="team/job-0"', "pod/job-0", 'pods "job-0"'. Returns false if there is none. */
bool log_pod_of_line(const char *line, size_t size, char pod[64]);
/* Reads a line that may belong to an object of Kubernetes: "kind: Pod", and the first "name:" after it. */
void log_note_object(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Names the pod in the file's events that name none, if lines of the file name a single one. */
void log_complete_pods(survey_reading *reading);
/* Notes the host in the prompt of a shell: "root@node-a:/data# python train.py", "[ada@node-a data]$ sh run.sh". */
void log_note_prompt(survey_reading *reading, const char *line, size_t size);
/* Notes the path of a checkpoint that is read: "load checkpoint from local path: out/step_10.pth", "Loading
 * checkpoint from 'out'". */
void log_note_checkpoint(survey_reading *reading, const char *line, size_t size);

/* Notes the last slow bar above the current line, if no bar is noted yet. */
void log_note_slow_bar(survey_reading *reading);
/* Notes in `words` the nearest unknown line above line `number` that speaks of a failure, if there is one. */
void log_find_words_before(const survey_reading *reading, int64_t number, log_loose *words);
/* Keeps the beginning of a line, in case that it is one of the last. */
void log_keep_tail(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Notes the first of the last lines that speaks of a failure, whether or not its logger marks it as an error. Must be
 * called at the end of a file. */
void log_note_last_words(survey_reading *reading);
/* Notes the last line if it is one that repeats. Must be called at the end of a file. */
void log_note_repeated(survey_reading *reading);

/* ---- oom_table.c: the kernel's table of processes when memory runs out ---- */
/* Notes the largest process, if the line is a row of the table. */
void log_note_oom_row(survey_reading *reading, const char *line, size_t size, int64_t number);
/* Formats "python3 (pid 4242), 2.0 GiB resident". Returns text. */
const char *log_oom_text(const log_oom_row *row, char *text, size_t size);

/* ---- loose.c: unknown error lines, which no entry matches ---- */
/* Whether the text has at least three words with letters. */
bool log_says_something(const char *text, size_t size);
/* Whether the logger marked the line as an error. */
bool log_is_error_line(const char *line, size_t size);
/* Whether the logger marked the line as a warning, or with a lower level. */
bool log_is_mild(const char *line, size_t size);
void log_note_loose(survey_reading *reading, const char *line, size_t size, int64_t number, const log_who *speaker);
/* Forgets the row of error lines that `speaker` printed right before line `number`, because they only announce a
 * traceback. */
void log_drop_loose(survey_reading *reading, int64_t number, const log_who *speaker);
/* Returns the first of the error lines that `speaker` printed in a row right before line `number`, or NULL if there
 * is none. */
const log_loose *log_loose_before(const survey_reading *reading, int64_t number, const log_who *speaker);

/* ---- log_choice.c: the root cause among the entries that were found ---- */
/* Whether the entry was found, and the run did not go on after it. */
bool log_is_found(const tess_survey *survey, int entry);
/* Whether the first line of `a` comes before that of `b`: by time, or by place. */
bool log_is_before(const log_match *a, const log_match *b);
/* Whether both are lines of one message, such as an error code and its text below it. */
bool log_is_one_message(const log_match *a, const log_match *b);
/* Whether an effect names the process that ended first. */
bool log_names_the_first(const log_match *match);
/* Returns the role of an entry in these logs. An entry that another one explains is an effect, and so is a wrapper
 * if a cause is known. An error that the run survived is a warning. */
tess_log_role log_role_of(const tess_survey *survey, int entry);
/* Returns the earliest effect, if possible one that no other entry explains; -1: there is none. */
int log_find_effect(const tess_survey *survey);
/* Returns the earliest entry of a role; -1: there is none.
 *   named    only entries that name the process that ended first; otherwise, only entries before the timeouts
 *   general  only fallbacks; if false, no fallback counts as a cause */
int log_find_first(const tess_survey *survey, tess_log_role role, bool named, bool general);
/* Returns the error that ended the job; -1: there is none. gone: entry that names another process that ended, or -1. */
int log_find_cause(const tess_survey *survey, int gone);

/* ---- log_culprit.c: whom an entry is about ---- */
/* Finds the process or device at fault, and the process that only reported it. Either may remain unknown. If all ranks
 * failed alike, they are reporters. */
void log_find_culprit(const tess_survey *survey, int cause, log_who *culprit, log_who *reporter);

/* ---- log_entry.c: the report of an entry ---- */
/* Reports an entry as the finding, by its first line. */
void log_report_entry(const tess_survey *survey, int entry, tess_log_kind kind, tess_log_diagnosis *diagnosis);
void log_set_culprit(const log_who *who, tess_log_diagnosis *diagnosis);
/* Adds a line of evidence, if there is room. */
void log_add_evidence(tess_log_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a text to the headline. */
void log_add_text(tess_log_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns what the headline says of the entry: its symptom, or its guess where the line says that it is one. */
const char *log_symptom_of(const tess_log_entry *entry, const log_match *match);
/* Appends the symptom to the headline, with what the program was doing. */
void log_add_symptom(const tess_log_entry *entry, const log_match *match, tess_log_diagnosis *diagnosis);
/* Appends the quote of the first line where the groups of the pattern gave no reason, or only a name or address. */
void log_add_quote(const log_match *match, tess_log_diagnosis *diagnosis);
/* Adds the first line of a match as evidence. */
void log_add_place(const tess_survey *survey, const log_match *match, tess_log_diagnosis *diagnosis);
/* Adds evidence from above the line: the program's frame in the traceback, or the unknown error line before it. */
void log_add_surroundings(const tess_survey *survey, const log_match *match, tess_log_diagnosis *diagnosis);
/* Adds that the beginning of torchrun's table is missing, if it is. */
void log_add_cut_off(const tess_survey *survey, tess_log_diagnosis *diagnosis);

/* ---- log_rest.c: what is known without a root cause ---- */
void log_report_rest(const tess_survey *survey, tess_log_diagnosis *diagnosis);
/* Adds how processes ended, as torchrun saw it. */
void log_add_failures(const tess_survey *survey, tess_log_diagnosis *diagnosis);

/* ---- json_line.c: lines that are one JSON object each ---- */
/* Called for a line of a text that `who` wrote. */
typedef tess_status (*log_text_fn)(void *context, const char *text, size_t size, const log_who *who);
/* Calls `take` for every line of the object's messages. *is_json: the line is an object of a logger. */
tess_status log_read_json(const char *line, size_t size, log_text_fn take, void *context, bool *is_json);

/* ---- torchrun.c: the processes that torchrun saw end ---- */

/* Reads a line of torchrun's table or of its agent. *failure is the process whose exit code the line gives; rank -1:
 * the line gives none. */
tess_status log_note_failure(survey_reading *reading, uint64_t hooks, const char *line, size_t size, int64_t number,
                             log_failure *failure);
/* Notes torchrun's "Root Cause" at the end of a file, if the file ends before its exit code. */
void log_note_cut_root(survey_reading *reading);
/* Returns the number of ranks that ended in the same second as that "Root Cause", itself included; 0: there is none. */
int log_cut_root(const tess_survey *survey, log_who *who);
const log_failure *log_failure_of(const tess_survey *survey, int rank); /* returns NULL if none is known */
/* Returns the end of the process in the form that the rules of diagnosis/ends.h need. */
tess_end log_end_of(const log_failure *failure);
/* Finds the processes that may have failed first, according to torchrun: the one that it names, or all that ended in
 * the same second in the same way. Returns their number; 0: it named none. *who: their ranks and host. */
int log_first_failures(const tess_survey *survey, log_who *who, int *code);
/* Whether torchrun's table is in the logs, but without its "Root Cause", the process that it saw end first. */
bool log_first_is_cut_off(const tess_survey *survey);

/* ---- marks.c: lines that every rank prints at the same place of the program, such as "Entering barrier at step
 * 120", show how far each rank came. The field `reached` of an entry holds the words before the number. ---- */
enum { LOG_MOST_LISTED = 4096 };

/* Whether the words precede a list with the numbers of all ranks, "[100, 100, 99]". They do if they end with "[". */
bool log_mark_is_list(const char *words);
/* Writes the number after `words`, or the numbers of the list, to `numbers` (LOG_MOST_LISTED). If *rank is negative,
 * it is set to the number that stands for "{rank}" in the words. Returns the count of numbers; 0: none, -1: the line
 * does not contain the words. */
int log_parse_mark(const char *words, const char *line, size_t size, int64_t *numbers, int *rank);

/* Ranks that are behind the others. */
typedef struct log_behind {
    int entry;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first n_culprits of them */
    char text[512];
} log_behind;

/* Finds the ranks of n_ranks that are behind, by the rule of tess_progress_behind. Returns false if there are none. */
bool log_find_behind(const tess_survey *survey, int n_ranks, log_behind *behind);

/* ---- log_watchdog.c: lines that PyTorch's watchdog prints ---- */
/* Parses "[rank6]:[E717 13:20:49.4 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout:
 * WorkNCCL( SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for
 * 600053 milliseconds before timing out." Older versions print TensorShape=[4096, 11008] in place of the counts, or
 * neither. Returns false for any other line. */
bool log_parse_work(const char *line, size_t size, log_work *work);
/* Whether the line is a report of a timeout that ends too early: within its first words, "[rank4]:[E424 01:11:21.16
 * ProcessGroupNCCL.cpp:629] [Rank 4] Watchdog caught coll", or before "before timing out". ends_text: the
 * log may end with the line, so that it is also cut off where no word follows its place in the source. */
bool log_is_cut_report(const char *line, size_t size, bool ends_text);
/* Parses "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=101, OpType=ALLGATHER, TensorShape=[1],
 * ...), but Rank 7 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE)." Returns false for
 * any other line. */
bool log_parse_mismatch(const char *line, size_t size, log_work *own, log_work *other);
/* Parses "last enqueued work: 56731, last completed work: 56730", also "last enqueued NCCL work". Returns false for
 * any other line. */
bool log_parse_progress(const char *line, size_t size, log_progress *progress);
/* Returns the number of ranks that the element counts show: one buffer of an all-gather or reduce-scatter has the
 * elements of all ranks, the other those of one. Returns 0 if the counts do not show it. */
int log_ranks_by_counts(const log_work *work);
/* Formats "ALLREDUCE #56731 of 467019003 elements". Returns text. */
const char *log_describe_work(const log_work *work, char *text, size_t size);

/* ---- arithmetic.c: whether the size of a collective can explain its timeout ---- */
/* Fills in bytes, traffic_bytes and mb_per_s from the diagnosis' work and world. Writes a sentence to `text`, or ""
 * if the element counts are not known. Sizes are for elements of 4 bytes, because logs do not name the dtype. */
void log_do_arithmetic(tess_log_diagnosis *diagnosis, char *text, size_t size);

#endif
