/* The parts of reading a log: lines, who says them and when, what they say, and ranks by name. */
#ifndef TESS_DOCTOR_LOG_LOG_IMPL_H
#define TESS_DOCTOR_LOG_LOG_IMPL_H

#include "doctor/log/log.h"

/* ---- lines.c ---- */
/* Lines of a file or a pipe of any size, in bounded memory. A carriage return ends a line as a progress bar means it,
 * without counting. A line longer than LOG_LINE_MOST comes in pieces of one number that overlap, so that no message is
 * cut. */
enum { LOG_LINE_MOST = 32 << 10, LOG_LINE_OVERLAP = 1 << 10, LOG_BUFFER = 256 << 10 };

typedef struct log_lines {
    tess_mem *mem;
    int fd;
    char path[512]; /* for messages and reports; "-": standard input */
    char *buffer;
    size_t begin, end; /* what is not yet given */
    int64_t line;      /* of what was given last, from 1 */
    bool at_end, ends_line;
} log_lines;

/* `path` "-" is standard input. TESS_E_NOT_FOUND, TESS_E_INVALID (a folder, compressed), TESS_E_IO name the path. */
tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines);
/* *text is NULL at the end; otherwise valid until the next call, without its line end, not NUL-terminated. */
tess_status log_lines_next(log_lines *lines, const char **text, size_t *size);
void log_lines_close(log_lines *lines);

/* ---- origin.c: what launchers and loggers put in front of a line ---- */
enum { LOG_HEAD = 160 };

/* The rank in front of a line: "[rank6]:", "[PG ID 1 PG GUID 1 Rank 6]", "[default6]:", "[1,6]<stderr>:" (Open MPI),
 * "6: " (srun -l), "[6] " (mpiexec -prepend-rank). -1: none. */
int log_rank_of_line(const char *line, size_t size);
/* "rank 6" in the words of a line. -1: none. */
int log_rank_text(const char *line, size_t size);
/* "rank6.log", "rank-00006", ".../attempt_0/6/stderr.log" (torchrun). -1: none. */
int log_rank_of_path(const char *path);
/* Whether something like 13:20:49 stands within the first LOG_HEAD bytes. */
bool log_has_time(const char *line, size_t size);
/* Seconds since the year's beginning of a time within the first LOG_HEAD bytes, whatever its zone: "[E717 13:20:49.40",
 * "2024-07-17 13:20:49,407", "Jul 17 13:20:49", "07/17/2024 13:20:49". Negative: none. */
double log_time_of_line(const char *line, size_t size);

/* ---- marks.c: lines that every rank prints at the same place, and how far each rank came by them: "Entering barrier
 * at step 120". Entries of the knowledge base mark them with `reached`, the words in front of the number. ---- */
enum { LOG_MOST_LISTED = 4096 };

/* Words that end with "[" stand before a list with a number of each rank: "[100, 100, 99]". */
bool log_mark_is_list(const char *words);
/* The number behind `words` in a line, or those of the list. Returns how many were written to `numbers` (at most
 * LOG_MOST_LISTED), 0: there is none, -1: the words are not in the line. */
int log_parse_mark(const char *words, const char *line, size_t size, int64_t *numbers);

/* Ranks that are not where all others are. */
typedef struct log_behind {
    int entry;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits; /* the first of them */
    char text[512];
} log_behind;

/* Of n_ranks. They must be fewer than the others, or as many and have printed an earlier such line; else false: a line
 * that some ranks print only says nothing of the rest. */
bool log_find_behind(const tess_survey *survey, int n_ranks, log_behind *behind);

/* ---- log_watchdog.c: lines of PyTorch's watchdog ---- */
/* "[rank6]:[E717 13:20:49.4 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(
 * SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for 600053
 * milliseconds before timing out." Older versions print TensorShape=[4096, 11008] in place of the counts, or neither.
 * False: another line. */
bool log_parse_work(const char *line, size_t size, tess_timed_work *work);
/* "last enqueued work: 56731, last completed work: 56730", also "last enqueued NCCL work". False: another line. */
bool log_parse_progress(const char *line, size_t size, tess_timed_progress *progress);
/* "ALLREDUCE #56731 of 467019003 elements"; returns text. */
const char *log_describe_work(const tess_timed_work *work, char *text, size_t size);

/* ---- arithmetic.c: whether the size of a collective can be why it timed out ---- */
/* Fills bytes, traffic_bytes and mb_per_s of the verdict from its work and world, and writes the sentence to `text`
 * ("" when the counts are not known). Elements are taken as 4 bytes: logs do not say the dtype, and it seldom is more.
 */
void log_do_arithmetic(tess_log_diagnosis *diagnosis, char *text, size_t size);

/* ---- log_ranks.c ---- */
/* Which ranks a text is to name. */
typedef bool (*log_rank_fn)(const void *context, int rank);

/* "rank 3", "ranks 0-2,4-7"; cut with "..." where `size` is small. Returns text. */
const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size);
int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks);

#endif
