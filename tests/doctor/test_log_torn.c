/* Reports of PyTorch's watchdog that a terminal, a launcher or an excerpt broke or cut off. They keep their facts, and
 * a rank whose report is cut off is never taken for the one that did not come. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

enum { MOST_TEXT = 16 << 10, INDENT = 4 };

static tess_knowledge *knowledge;
static tess_survey survey;
static tess_log_diagnosis diagnosis;

static void begin(void)
{
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
}

static void end(void)
{
    tess_knowledge_destroy(&knowledge);
}

static void judge(const char *text, int world)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    EXPECT_OK(tess_survey_read(&survey, path));
    EXPECT_OK(tess_log_diagnose(&survey, world, &diagnosis));
}

static const char *const prefixes[] = {"[rank%d]:", "job-a.node-7 [stderr] [rank%d]:", "node-3: [default%d]:"};

static void write_timeout(char *line, size_t size, const char *prefix, int rank)
{
    size_t at = (size_t)snprintf(line, size, prefix, rank);
    snprintf(line + at, size - at,
             "[E909 09:55:29.30762%d539 ProcessGroupNCCL.cpp:607] [Rank %d] Watchdog caught collective operation "
             "timeout: WorkNCCL(SeqNum=2070, OpType=_ALLGATHER_BASE, NumelIn=11520, NumelOut=92160, "
             "Timeout(ms)=600000) ran for 60003%d milliseconds before timing out.",
             rank, rank, rank);
}

static void write_progress(char *line, size_t size, const char *prefix, int rank)
{
    size_t at = (size_t)snprintf(line, size, prefix, rank);
    snprintf(line + at, size - at,
             "[E909 09:55:29.31337%d098 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank %d] Exception (either an "
             "error or timeout) detected by watchdog at work: 2070, last enqueued NCCL work: 2070, last completed NCCL "
             "work: 2069.",
             rank, rank);
}

/* Adds a line that is broken at a width: anywhere, between words, or between words with an indent. */
static size_t add_broken(char *text, size_t at, const char *line, size_t width, int way)
{
    size_t n = strlen(line), room = width;
    for (size_t from = 0; from < n;) {
        size_t take = n - from < room ? n - from : room;
        while (way > 0 && from + take < n && take > 1 && line[from + take] != ' ')
            take--;
        if (take == 1)
            take = n - from < room ? n - from : room; /* a word that is longer than the width */
        at = tess_text_add(text, MOST_TEXT, at, "%.*s\n", (int)take, line + from);
        from += take;
        if (from == n)
            break;
        from += way > 0 && line[from] == ' ';
        room = width - (way == 2 ? INDENT : 0);
        if (way == 2)
            at = tess_text_add(text, MOST_TEXT, at, "%*s", INDENT, "");
    }
    return at;
}

static void expect_facts(const int *ranks, int n_ranks, const char *what)
{
    for (int i = 0; i < n_ranks; i++) {
        const log_rank *rank = &survey.ranks[ranks[i]];
        bool is_whole = ranks[i] < survey.n_ranks && rank->waits && rank->work.sequence == 2070 &&
                        rank->work.numel_in == 11520 && rank->work.numel_out == 92160 &&
                        rank->work.timeout_ms == 600000 && rank->work.elapsed_ms == 600030 + ranks[i] &&
                        strcmp(rank->work.op, "_ALLGATHER_BASE") == 0 && rank->progress.completed == 2069;
        if (!is_whole || diagnosis.n_culprits > 0)
            test_fail(__FILE__, __LINE__, "%s: rank %d: %s #%d: %s", what, ranks[i], rank->work.op,
                      (int)rank->work.sequence, diagnosis.headline);
    }
}

static void reports_keep_their_facts_however_they_are_broken(void)
{
    static const size_t widths[] = {72, 100, 132, 146};
    static const int ranks[] = {1, 2, 5};
    static char text[MOST_TEXT];
    char line[600], what[64];
    begin();
    for (size_t p = 0; p < sizeof(prefixes) / sizeof(prefixes[0]); p++)
        for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
            for (int way = 0; way < 3; way++)
                for (int n = 1; n <= 3; n += 2) {
                    size_t at = 0;
                    text[0] = '\0';
                    for (int i = 0; i < n; i++) {
                        write_timeout(line, sizeof(line), prefixes[p], ranks[i]);
                        at = add_broken(text, at, line, widths[w], way);
                        write_progress(line, sizeof(line), prefixes[p], ranks[i]);
                        at = add_broken(text, at, line, widths[w], way);
                    }
                    judge(text, 0);
                    snprintf(what, sizeof(what), "prefix %zu, width %zu, way %d, %d ranks", p, widths[w], way, n);
                    expect_facts(ranks, n, what);
                    tess_survey_free(&survey);
                }
    end();
}

/* Breaks that no width explains: a launcher or a person put them there. */
static void reports_are_joined_after_any_word(void)
{
    static const char *const words[] = {"timeout: ", "WorkNCCL(",     "OpType=",    "NumelIn=11520,",
                                        "ran for ",  "milliseconds ", "detected",   "last enqueued NCCL work:",
                                        "before ",   "SeqNum=20",     "watchdog at"};
    static const int ranks[] = {1, 2, 5};
    static char text[MOST_TEXT];
    char line[600];
    begin();
    for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
        size_t at = 0;
        text[0] = '\0';
        for (int i = 0; i < 6; i++) {
            (i % 2 == 0 ? write_timeout : write_progress)(line, sizeof(line), prefixes[w % 3], ranks[i / 2]);
            const char *word = strstr(line, words[w]);
            size_t n = word != NULL ? (size_t)(word - line) + strlen(words[w]) : strlen(line);
            at = tess_text_add(text, sizeof(text), at, "%.*s\n%s%s", (int)n, line, line + n, word != NULL ? "\n" : "");
        }
        judge(text, 0);
        expect_facts(ranks, 3, words[w]);
        tess_survey_free(&survey);
    }
    end();
}

/* The last report ends anywhere. Its rank printed it, so it is not missing, and neither is a rank whose report may have
 * been lost with the rest of the log. */
static void nobody_is_missing_after_the_log_was_cut_off(void)
{
    static char text[MOST_TEXT];
    char line[600];
    static const int whole[] = {1, 2, 3, 5, 6};
    size_t at = 0;
    begin();
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        write_timeout(line, sizeof(line), prefixes[0], whole[i]);
        at = tess_text_add(text, sizeof(text), at, "%s\n", line);
    }
    write_timeout(line, sizeof(line), prefixes[0], 4);
    for (size_t n = 12; n < strlen(line); n += 7) {
        tess_text_add(text, sizeof(text), at, "%.*s", (int)n, line);
        judge(text, n % 2 == 0 ? 7 : 0);
        if (diagnosis.n_culprits > 0 || strstr(diagnosis.headline, "rank 4 ") != NULL)
            test_fail(__FILE__, __LINE__, "\"%s\": %s", text + at, diagnosis.headline);
        tess_survey_free(&survey);
    }
    end();
}

/* Words of another kind of line do not end a report, and a whole report takes no line to it. */
static void other_lines_are_not_taken_into_a_report(void)
{
    static char text[MOST_TEXT];
    char line[600];
    begin();
    write_timeout(line, sizeof(line), prefixes[0], 1);
    line[130] = '\0'; /* within the report */
    snprintf(text, sizeof(text),
             "%s\nTraceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: x\n", line);
    judge(text, 0);
    EXPECT_CONTAINS(diagnosis.headline, "ValueError: x");
    tess_survey_free(&survey);
    static const char *const own[] = {"ValueError: the batch of Rank 2 has no tokens", "KeyError: 'work: 3'",
                                      "OSError: [Errno 28] No space left on device: '/ckpt/Rank 3.pt'",
                                      "2026-01-01 10:00:00,123 ERROR Rank 2 has no work: 3",
                                      "INFO: the batch took 3 milliseconds"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        size_t skip;
        bool space;
        EXPECT(!log_report_goes_on(line, strlen(line), own[i], strlen(own[i]), &skip, &space));
        snprintf(text, sizeof(text), "%s\n%s\n", line, own[i]);
        judge(text, 0);
        EXPECT_INT(survey.n_lines, 2);
        tess_survey_free(&survey);
    }
    end();
}

/* A place in the source of a process group is no report: a frame of a debugger, or a line of another level. */
static void only_errors_of_the_watchdog_are_cut_reports(void)
{
    static char text[MOST_TEXT];
    static const char *const others[] = {
        "#7 0x00007f in c10d::ProcessGroupNCCL::heartbeat () at /pytorch/torch/csrc/ProcessGroupNCCL.cpp:1890",
        "[rank3]:[I909 09:55:29.307624539 ProcessGroupNCCL.cpp:844] [Rank 3]",
        "[rank3]:[W909 09:55:29.307624539 ProcessGroupNCCL.cpp:844] [Rank 3] Wat"};
    char line[600];
    size_t at = 0;
    begin();
    for (int rank = 0; rank < 3; rank++) {
        write_timeout(line, sizeof(line), prefixes[0], rank);
        at = tess_text_add(text, sizeof(text), at, "%s\n", line);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        EXPECT(!log_is_cut_report(others[i], strlen(others[i]), true));
        tess_text_add(text, sizeof(text), at, "%s\nthe end of the stack\n", others[i]);
        judge(text, 4);
        EXPECT_CONTAINS(diagnosis.headline, "rank 3 never joined");
        tess_survey_free(&survey);
    }
    static const char cut[] = "[rank3]:[E909 09:55:29.307624539 ProcessGroupNCCL.cpp:607] [Rank 3] ";
    EXPECT(log_is_cut_report(cut, strlen(cut), true) && !log_is_cut_report(cut, strlen(cut), false));
    end();
}

/* A whole table of torchrun with an earlier failure beats one that is cut off before its exit code. */
static void the_earliest_table_counts_although_another_is_cut_off(void)
{
    static const char whole[] = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_10:00:00\n"
                                "  host      : node-a\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 7)\n",
                      cut[] = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-01_10:05:00\n"
                              "  host      : node-b\n  rank      : 8 (local_rank: 0)\n";
    static const char *const texts[] = {whole, cut}, *const names[] = {"ra.log", "rb.log"};
    begin();
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    for (int i = 0; i < 2; i++) {
        char path[512];
        EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), names[i]));
        EXPECT_OK(tess_os_write_atomic(path, texts[i], strlen(texts[i])));
        EXPECT_OK(tess_survey_read(&survey, path));
    }
    EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
    EXPECT_CONTAINS(diagnosis.headline, "rank 0 on node-a (pid 7) failed first");
    EXPECT(strstr(diagnosis.headline, "rank 8") == NULL);
    tess_survey_free(&survey);
    end();
}

/* A log of PyTorch 1.13 and earlier names no rank. */
static void a_report_without_a_rank_tells_its_collective(void)
{
    begin();
    judge("[E ProcessGroupNCCL.cpp:523] Watchdog caught collective operation timeout:\n"
          "WorkNCCL(OpType=ALLREDUCE, SeqNum=458) ran for 1800600 ms before timing out.\n",
          0);
    EXPECT_CONTAINS(diagnosis.headline, "(ALLREDUCE #458)");
    tess_survey_free(&survey);
    end();
}

/* If the log does not name the groups, other numbers may be another group or a rank that is behind. */
static void ranks_apart_are_no_groups_unless_the_log_says_so(void)
{
    begin();
    judge("[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, "
          "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800007 milliseconds before timing out.\n"
          "[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=64088, "
          "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800251 milliseconds before timing out.\n",
          0);
    EXPECT_INT(diagnosis.n_culprits, 0);
    EXPECT_CONTAINS(diagnosis.headline, "may be one group in which rank 7 is behind, or several");
    tess_survey_free(&survey);
    end();
}

/* Fills a line with copies of a word, and returns the bytes that patterns were matched against to read it. */
static uint64_t searched_in_copies(const char *word, size_t size)
{
    char *line = malloc(size + 1);
    tess_found found;
    EXPECT(line != NULL);
    for (size_t i = 0; i < size; i++)
        line[i] = word[i % strlen(word)];
    const uint64_t before = tess_knowledge_searched(knowledge);
    tess_knowledge_find(knowledge, line, size, &found);
    free(line);
    return tess_knowledge_searched(knowledge) - before;
}

/* A pattern may try each byte of a line as its beginning. So it does not search a long line for each copy of its word.
 */
static void the_cost_of_a_line_is_bounded(void)
{
    static const char *const words[] = {"sbatch: error: ",
                                        "RuntimeError: ",
                                        "srun: error: node1: ",
                                        "NCCL WARN ",
                                        "[rank0]: ",
                                        "Traceback ",
                                        "ERROR ",
                                        "a"};
    enum { SIZE = 128 << 10, MOST_TIMES = 64 /* patterns without a word search all of it */ };
    begin();
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        EXPECT(searched_in_copies(words[i], SIZE) <= (uint64_t)MOST_TIMES * SIZE);
    end();
}

static const test_case cases[] = {
    CASE(reports_keep_their_facts_however_they_are_broken),
    CASE(reports_are_joined_after_any_word),
    CASE(nobody_is_missing_after_the_log_was_cut_off),
    CASE(other_lines_are_not_taken_into_a_report),
    CASE(a_report_without_a_rank_tells_its_collective),
    CASE(ranks_apart_are_no_groups_unless_the_log_says_so),
    CASE(only_errors_of_the_watchdog_are_cut_reports),
    CASE(the_earliest_table_counts_although_another_is_cut_off),
    CASE(the_cost_of_a_line_is_bounded),
};

TEST_MAIN(cases)
