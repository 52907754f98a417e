/* The parts of a survey: lines, their ranks and times, and what they report; and of the diagnosis. */
#ifndef TESS_DOCTOR_LOG_LOG_IMPL_H
#define TESS_DOCTOR_LOG_LOG_IMPL_H

#include "diagnosis/ends.h"
#include "diagnosis/sentence.h"
#include "doctor/log/log.h"

/* ---- log_encoding.c ---- */
typedef enum log_encoding { LOG_BYTES, LOG_UTF16_LITTLE, LOG_UTF16_BIG } log_encoding;

/* The encoding by the byte order mark that a text begins with. */
log_encoding log_encoding_of(const char *text, size_t size);
/* Converts UTF-16 to UTF-8 (out: room for 3 bytes a unit of 2). Returns the bytes that it used: half a unit or half a
 * pair at the end stays, unless at_end. What is no character becomes U+FFFD. */
size_t log_utf16_convert(log_encoding encoding, const char *text, size_t size, bool at_end, char *out, size_t *written);
/* Removes the escape sequences of terminals in place, also colours whose escape character was lost when they were
 * copied
 * ("[36m"). Returns the new size. */
size_t log_strip_escapes(char *text, size_t size);

/* ---- log_wrap.c: text from a terminal or a page, whose lines were cut at one width ---- */
typedef struct log_wrap {
    size_t width; /* width in characters; 0: lines are whole */
    bool at_words;
} log_wrap;

log_wrap log_wrap_find(const char *text, size_t size);
/* Whether `next` continues `line`. */
bool log_wrap_joins(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size);
/* Whether a message may go on in the next line, by its end: "... on node n1 exited on". */
bool log_message_is_open(const char *line, size_t size);
/* Whether `next` continues such a message; *skip: bytes at its beginning that are not part of it ("NVRM: "). */
bool log_message_goes_on(const char *line, size_t size, const char *next, size_t next_size, size_t *skip);

/* ---- lines.c ---- */
/* Lines of a file or a pipe of any size, in bounded memory, as UTF-8 without colours; lines that were cut at one width
 * are joined. A carriage return (a progress bar) ends a line too, but does not count. A line longer than LOG_LINE_MOST
 * comes in overlapping pieces with one number, so that no message is cut. */
enum { LOG_LINE_MOST = 32 << 10, LOG_LINE_OVERLAP = 1 << 10, LOG_BUFFER = 256 << 10 };

typedef struct log_lines {
    tess_mem *mem;
    int fd;
    char path[512]; /* path for messages and reports; "-": standard input */
    char *buffer;
    size_t begin, end; /* bounds of the rest in the buffer */
    int64_t line;      /* number of the last line, from 1; of joined lines the first */
    int64_t n_joined;  /* lines that were joined to it */
    bool at_end, ends_line;
    log_wrap wrap;
    log_encoding encoding;
    char *raw; /* (LOG_BUFFER) bytes that are still to be converted; NULL: the encoding needs none */
    size_t raw_size;
} log_lines;

/* `path` "-" is standard input. TESS_E_NOT_FOUND, TESS_E_INVALID (a folder, compressed), TESS_E_IO name the path. */
tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines);
/* *text is without its line end, not NUL-terminated, and valid until the next call; NULL: the end, where lines->line is
 * the number of lines. */
tess_status log_lines_next(log_lines *lines, const char **text, size_t *size);
void log_lines_close(log_lines *lines);
/* True if a line of `size` bytes begins with `words`. */
bool log_begins_with(const char *line, size_t size, const char *words);

/* ---- origin.c: rank and time that launchers and loggers put before a line ---- */
enum { LOG_HEAD = 160 };

/* The rank in front of a line: "[rank6]:", "[PG ID 1 PG GUID 1 Rank 6]", "[default6]:" (torchrun, also with the name of
 * a role), "[1,6]<stderr>:" (Open MPI), "6: " and " 6: " (srun -l), "[6] " (mpiexec -prepend-rank). -1: none. */
int log_rank_of_line(const char *line, size_t size);
/* All that the beginning of a line says of who printed it: the rank; host, process and device of NCCL's lines; actor,
 * process and host of Ray's; host and process of Open MPI's; the host before a line of the kernel, of pdsh, of kubectl
 * and of compose. */
log_who log_origin_of_line(const char *line, size_t size);
/* The beginning of a line's own text, after times and the prefixes of launchers and loggers. */
size_t log_text_begin(const char *line, size_t size);
/* The host of a log by the name of its file: "job-worker-3.log", "node12.err". False: it names none. */
bool log_host_of_path(const char *path, char *host, size_t size);
/* "rank 6" anywhere in a line. -1: none. */
int log_rank_text(const char *line, size_t size);
/* "rank6.log", "rank-00006", ".../attempt_0/6/stderr.log" (torchrun). -1: none. */
int log_rank_of_path(const char *path);
/* Whether the first LOG_HEAD bytes contain a time such as 13:20:49. */
bool log_has_time(const char *line, size_t size);
/* A time within the first LOG_HEAD bytes in seconds since the year's beginning, of any zone: "[E717 13:20:49.40",
 * "2024-07-17 13:20:49,407", "Jul 17 13:20:49", "07/17/2024 13:20:49". Negative: none. */
double log_time_of_line(const char *line, size_t size);

/* ---- ranks, hosts and processes of a line (who.c) ---- */
/* Adds the values of a pattern's named groups. A list of ranks grows; other names keep their first value. */
void log_who_add(log_who *who, const tess_found_entry *found);
/* Fills in from `more` what `who` does not say. */
void log_who_complete(log_who *who, const log_who *more);
/* Whether both are the same process, as far as they say. */
bool log_who_is_same(const log_who *a, const log_who *b);
/* Adds the ranks of `other`, and keeps of the rest what both have in common. */
void log_who_join(log_who *who, const log_who *other);
/* The same for who printed a line; without ranks, all their hosts are kept. */
void log_who_join_reporter(log_who *who, const log_who *other);
/* Adds the hosts of `other`, and keeps of process and GPU what both have in common. */
void log_who_add_hosts(log_who *who, const log_who *other);
/* Adds the process of `other`. */
void log_who_add_pids(log_who *who, const log_who *other);
/* Whether `other` is another process, and they differ in nothing else. */
bool log_who_differs_in_pid(const log_who *who, const log_who *other);
/* Whether it is a GPU that a line of the driver names, and nobody who printed the line. */
bool log_who_names_only_gpu(const log_who *who);
/* Whether `other` is somebody of the same kind on another host. */
bool log_who_differs_in_host(const log_who *who, const log_who *other);
bool log_who_is_known(const log_who *who);
bool log_who_has(const log_who *who, int rank);
/* "ranks 1-3 on node-e", "actor pool_0:3 on 192.0.2.14 (pid 5120)"; "" if nothing is known. Returns text. */
const char *log_who_text(const log_who *who, char *text, size_t size);

/* ---- phases.c: what a program was doing ---- */
typedef struct log_frame {
    char path[160], function[64]; /* the end of a long path; "": not said */
    int line;
} log_frame;

/* "reading a checkpoint", by the frames of a stack from its outermost one on. NULL: they do not say. */
const char *log_phase_of(const log_frame *frames, int n);

/* "asynchronous disk I/O", by the path of a source that a line of native code names. NULL: not known. */
const char *log_component_of(const char *line, size_t size);

/* ---- traceback.c: tracebacks of Python ---- */
enum { LOG_TRACES = 8, LOG_TRACE_MOST_FRAMES = 24 };

typedef enum log_trace_part {
    LOG_TRACE_NONE, /* not a line of a traceback that counts */
    LOG_TRACE_HEAD,
    LOG_TRACE_FRAME,
    LOG_TRACE_CONTEXT, /* code next to that of a frame, as rich shows it; it did not run */
    LOG_TRACE_ERROR,   /* type and message of the exception */
    LOG_TRACE_REST,    /* the message goes on */
    LOG_TRACE_CHAINED  /* another traceback follows, of an exception that came from this one */
} log_trace_part;

typedef struct log_trace {
    enum { LOG_TRACE_CLOSED, LOG_TRACE_FRAMES, LOG_TRACE_MESSAGE } state;
    enum { LOG_CHAIN_NONE, LOG_CHAIN_DIRECT, LOG_CHAIN_HANDLING } chain; /* how the next one came from it */
    log_who speaker;
    int64_t head, last, error; /* numbers of its first line, of its last one before the message, and of the exception */
    bool is_look_up;           /* its exception says that something is not there, which programs try */
    int64_t before;            /* number of the exception that this one came from; 0: none */
    bool replaces;             /* the earlier one was only part of a look-up */
    bool has_head;
    int indent;                              /* blanks before its head; -1: blanks are lost */
    log_frame frames[LOG_TRACE_MOST_FRAMES]; /* the outermost one and the innermost ones */
    int n_frames;
    bool statement_is_open; /* the line that raised goes on in the next one, in rich's box */
    char code[100];         /* code of the innermost frame; "": not printed */
    const char *phase;      /* NULL: not known */
} log_trace;

/* The tracebacks of a file that are not at their end. */
typedef struct log_traces {
    log_trace traces[LOG_TRACES];
    log_trace *current; /* trace of the last line; NULL: none */
    int64_t last;       /* number of the last line of any; 0: none yet */
    size_t frames_size; /* size of the text of the frames of `current` */
    char boxed[400];    /* the beginning of a frame that rich broke into lines; "": none */
} log_traces;

/* 'File "train.py", line 12, in main', and the forms of rich and IPython. False: another line. */
bool log_parse_frame(const char *text, size_t size, log_frame *frame);
/* The length of the exception's type in "ValueError: x"; 0: another line. */
size_t log_exception_name(const char *text, size_t size);
/* Reads a line, the next one of `speaker`. t->current is its traceback. */
log_trace_part log_traces_take(log_traces *t, const char *line, size_t size, int64_t number, const log_who *speaker);
/* Lines of a traceback may still follow. */
bool log_traces_are_near(const log_traces *t, int64_t number);
/* "train.py:12 in main": the innermost frame of the program itself, or else of a library. */
void log_trace_place(const log_trace *trace, char *text, size_t size);
/* A line with the phase, then "path function" a line, the innermost frame first. Returns the length. */
size_t log_trace_frames(const log_trace *trace, char *text, size_t size);

/* ---- log_history.c: who is to blame for collectives that timed out ---- */
/* How a rank stands to the collective that most wait in. */
enum {
    LOG_SIDE_WAITS = 1 << 0,       /* it waits in this collective or another one */
    LOG_SIDE_IN_IT = 1 << 1,       /* it is in it by its own lines */
    LOG_SIDE_QUEUED = 1 << 2,      /* it has it in its queue */
    LOG_SIDE_OTHER_GROUP = 1 << 3, /* waits in another group, or at another place of one that may be another */
    LOG_SIDE_OUTSIDE = 1 << 4,     /* its own lines say that it was not in the collective */
    LOG_SIDE_SILENT = 1 << 5,      /* its lines say nothing of it */
    LOG_SIDE_UNSEEN = 1 << 6,      /* has no lines */
    LOG_SIDE_CULPRIT = 1 << 7,
    LOG_SIDE_ABSENT = LOG_SIDE_OUTSIDE | LOG_SIDE_SILENT | LOG_SIDE_UNSEEN
};

typedef struct log_blame {
    const tess_survey *survey; /* borrowed */
    int n_ranks;               /* ranks of the job; if world_known is false, at least */
    bool world_known;
    const log_work *usual; /* collective that most ranks wait in; NULL: no rank waits, and the rest is empty */
    uint8_t *sides;        /* (n_ranks) */
    tess_log_kind kind;    /* MISMATCH, MISSING, ALL_WAITED or ONE_SIDED */
    int culprits[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first of them */
    bool tie;                                         /* the culprits may as well be the others */
    tess_report_id headline, evidence;                /* NONE: no evidence */
} log_blame;

/* n_ranks: at least survey->n_ranks. Free with log_blame_free, after a failure too. */
tess_status log_blame_find(const tess_survey *survey, int n_ranks, bool world_known, log_blame *blame);
void log_blame_free(log_blame *blame);
int log_count_sides(const log_blame *blame, unsigned sides);

/* ---- log_waits.c: what a report says of collectives that timed out ---- */
/* The headline, the culprits and their evidence. */
void log_report_blame(const log_blame *blame, tess_log_diagnosis *diagnosis);
/* The waits as an effect of diagnosis->entry (-1: they are the finding), and whether size explains them. */
void log_report_waits(const log_blame *blame, tess_log_diagnosis *diagnosis);

/* ---- log_evidence.c ---- */
void log_add_evidence(tess_log_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { LOG_MOST_QUOTED = 128 };

enum { LOG_LOOSE = 8 };

/* Error lines that no entry knows, which one process printed in a row. */
typedef struct loose_run {
    log_who speaker;
    log_loose first;
    int64_t last;  /* number of the last line */
    double time_s; /* time of the last line; negative: not known */
} loose_run;

/* The file that is being read. */
typedef struct survey_reading {
    tess_survey *survey;
    int file;
    log_who path_who;       /* the origin by the file's name */
    char stamped[LOG_HEAD]; /* beginning of the last line with a time */
    size_t stamped_size;
    int64_t root_line;    /* line of a "Root Cause" whose process is still to come */
    int64_t failed_line;  /* line of the last rank in torchrun's table */
    log_failure failure;  /* failure of that table; rank -1: none */
    char node[64];        /* the node that a description of a pod, an event or a prompt names; "": none */
    bool nodes_differ;    /* events name pods on several nodes */
    char checkpoint[160]; /* the file or folder that the program said last that it reads; "": none */
    log_who quoting;      /* the one that printed the last line that quotes */
    log_who quoted;       /* the one that it quotes */
    int64_t quote_line;   /* 0: none */
    int trace_entry;      /* entry of the last line that quotes; -1: none */
    int64_t trace_line;
    int64_t trace_end; /* the first line after it that is not of a trace; 0: none yet */
    char lacks[1024];  /* the things that the last rank lacks that a following line names */
    int lacks_rank, lacks_entry;
    int64_t lacks_line; /* 0: none */
    log_traces traces;
    log_trace_part part;        /* part of the last line */
    char frames[4096];          /* frames of its traceback */
    int steps_left;             /* lines of steps that still tell whether a process goes on after an exception */
    loose_run loose[LOG_LOOSE]; /* the last ones */
    int n_loose;
} survey_reading;

/* ---- log_exceptions.c: exceptions in a log ---- */
/* Finds what is known of a line, which may be one of a traceback (reading->part); `writer`: an object says so. */
void log_find_line(survey_reading *reading, const char *line, size_t size, int64_t number, const log_who *writer,
                   tess_found *found);
/* Finds who printed a line: by the line, by `writer` and by the file's name. */
log_who log_find_origin(const survey_reading *reading, const char *line, size_t size, const log_who *writer);
/* Whether an entry other than that of all exceptions is among those found. */
bool log_says_more(const survey_reading *reading, const tess_found *found);
/* "loss: 2.31": a step of training was done. */
bool log_is_step_line(const char *line, size_t size);
/* Notes a step of `origin`: an exception after which its process goes on is no cause. */
void log_note_step(survey_reading *reading, const log_who *origin);
/* The last line's exception came from another one: it takes the place of a look-up, or says in which phase that was. */
void log_note_chained(survey_reading *reading);
/* Gives the phase of a traceback to the line of a wrapper right above it. False: there is none. */
bool log_note_announced(const survey_reading *reading, const log_trace *trace);

/* ---- surroundings.c: facts from lines far above an error ---- */
/* Notes the first endpoint that a launcher or a program names: "rdzv_endpoint : node-a:29400", "MASTER_ADDR=node-a". */
void log_note_endpoint(tess_survey *survey, const char *line, size_t size);
/* Notes the node of the pod whose description follows: "Node:  node-a/192.0.2.1", "nodeName: node-a". */
void log_note_node(survey_reading *reading, const char *line, size_t size);

/* Notes the node of "Successfully assigned default/job-0 to node-a", an event of Kubernetes. Events of several nodes do
 * not say on which one a later event is. */
void log_note_assigned(survey_reading *reading, const char *line, size_t size);
/* Notes the host of a shell's prompt: "root@node-a:/data# python train.py". */
void log_note_prompt(survey_reading *reading, const char *line, size_t size);
/* Notes the path of "load checkpoint from local path: out/step_10.pth", "Loading checkpoint from 'out'". */
void log_note_checkpoint(survey_reading *reading, const char *line, size_t size);

/* ---- loose.c: error lines that no entry knows ---- */
/* Whether the logger of a line calls it an error. */
bool log_is_error_line(const char *line, size_t size);
void log_note_loose(survey_reading *reading, const char *line, size_t size, int64_t number, const log_who *speaker);
/* Forgets the row of error lines that `speaker` printed right before line `number`: they announce a traceback. */
void log_drop_loose(survey_reading *reading, int64_t number, const log_who *speaker);
/* The first of the error lines that `speaker` printed right before line `number`; NULL: none. */
const log_loose *log_loose_before(const survey_reading *reading, int64_t number, const log_who *speaker);

/* ---- log_diagnosis.c ---- */
/* The part of an entry in these logs: what another entry explains, and what wraps a known cause, is an effect. */
tess_log_role log_role_of(const tess_survey *survey, int entry);

/* ---- json_line.c: lines that are a JSON object each ---- */
/* A line of a text; `who` wrote it. */
typedef tess_status (*log_text_fn)(void *context, const char *text, size_t size, const log_who *who);
/* Calls `take` for every line of the object's messages. *is_json: the line is such an object. */
tess_status log_read_json(const char *line, size_t size, log_text_fn take, void *context, bool *is_json);

/* ---- torchrun.c: the processes that torchrun saw end ---- */

/* Reads a line of torchrun's table or of its agent. *failure: the process whose exit code the line gives; rank -1:
 * another line. */
tess_status log_note_failure(survey_reading *reading, uint64_t hooks, const char *line, size_t size, int64_t number,
                             log_failure *failure);
const log_failure *log_failure_of(const tess_survey *survey, int rank); /* NULL: none is known */
/* The end of its process, for the rules of diagnosis/ends.h. */
tess_end log_end_of(const log_failure *failure);
/* The processes that may have failed first, by what torchrun says: the first one, or all that ended alike in the same
 * second. Their number; 0: it named none. *who: their ranks and host. */
int log_first_failures(const tess_survey *survey, log_who *who, int *code);
/* torchrun's table is there without its "Root Cause", whom it saw end first. */
bool log_first_is_cut_off(const tess_survey *survey);

/* ---- marks.c: lines that every rank prints at the same place, such as "Entering barrier at step 120", show how far
 * each rank came. The field `reached` of an entry holds the words before the number. ---- */
enum { LOG_MOST_LISTED = 4096 };

/* Words that end with "[" precede a list with the numbers of all ranks: "[100, 100, 99]". */
bool log_mark_is_list(const char *words);
/* Writes the number after `words`, or those of the list, to `numbers` (LOG_MOST_LISTED). A negative *rank takes the
 * number that stands for "{rank}" in the words. Returns how many; 0: none, -1: the line does not contain the words. */
int log_parse_mark(const char *words, const char *line, size_t size, int64_t *numbers, int *rank);

/* Ranks that are behind the others. */
typedef struct log_behind {
    int entry;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first of them */
    char text[512];
} log_behind;

/* Finds the ranks of n_ranks that are behind, by the rule of tess_progress_behind. False: none. */
bool log_find_behind(const tess_survey *survey, int n_ranks, log_behind *behind);

/* ---- log_watchdog.c: lines of PyTorch's watchdog ---- */
/* "[rank6]:[E717 13:20:49.4 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(
 * SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for 600053
 * milliseconds before timing out." Older versions print TensorShape=[4096, 11008] in place of the counts, or neither.
 * False: another line. */
bool log_parse_work(const char *line, size_t size, log_work *work);
/* "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=101, OpType=ALLGATHER, TensorShape=[1], ...), but
 * Rank 7 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE)." False: another line. */
bool log_parse_mismatch(const char *line, size_t size, log_work *own, log_work *other);
/* "last enqueued work: 56731, last completed work: 56730", also "last enqueued NCCL work". False: another line. */
bool log_parse_progress(const char *line, size_t size, log_progress *progress);
/* "ALLREDUCE #56731 of 467019003 elements"; returns text. */
const char *log_describe_work(const log_work *work, char *text, size_t size);

/* ---- arithmetic.c: whether the size of a collective can explain its timeout ---- */
/* Fills in bytes, traffic_bytes and mb_per_s from the diagnosis' work and world, and writes a sentence to `text`, "" if
 * the counts are not known. Sizes are those of elements of 4 bytes: logs do not name the dtype. */
void log_do_arithmetic(tess_log_diagnosis *diagnosis, char *text, size_t size);

/* ---- log_ranks.c ---- */
/* Selects the ranks to name. */
typedef bool (*log_rank_fn)(const void *context, int rank);

/* "rank 3", "ranks 0-2,4-7"; a long list ends with "...". Returns text. */
const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size);
int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks);
/* The rank's place among those that the logs mention, which grow. */
tess_status log_rank_at(tess_survey *survey, int rank, log_rank **out);

#endif
