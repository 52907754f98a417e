/* The lines of a log as they were printed: cut at a width, coloured, in UTF-16. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

static const char *const printed[] = {
    "2024-07-17 13:20:01,100 INFO train.py:210 step 811 loss 2.4310 gradient norm 0.8120 learning rate 0.000300 tokens "
    "per second 40213",
    "[rank0]:[E717 13:20:49.407638053 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for "
    "600053 "
    "milliseconds before timing out.",
    "node-a:3120:3345 [1] NCCL WARN socketStartConnect: Connect to 192.0.2.7<43019> failed : Software caused "
    "connection "
    "abort while the ring of channel 03 was set up",
    "Traceback (most recent call last):",
    "  File \"/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line 2696, in "
    "all_reduce_of_the_whole_bucket",
    "    return func(*args, **kwargs)",
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, "
    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "(RolloutWorker pid=4119, ip=192.0.2.9) the engine was asked for 128 sequences of at most 4,096 tokens and has "
    "answered 64 of them so far",
    "",
    "[rank1]:[E717 13:20:49.407638053 ProcessGroupNCCL.cpp:632] [Rank 1] größte Abweichung: 0,5 µs – the watchdog's "
    "clock and that of its host differ, which does not matter here",
};
enum { N_PRINTED = sizeof(printed) / sizeof(printed[0]) };

static const char *write_file(const char *text, size_t size)
{
    static char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "x.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, size));
    return path;
}

/* Reads the file and compares its lines, "" apart. */
static void expect_lines(const char *path, const char *const *wanted, int n)
{
    log_lines lines;
    const char *line;
    size_t size;
    int at = 0;
    EXPECT_OK(log_lines_open(test_mem(), path, &lines));
    for (;;) {
        EXPECT_OK(log_lines_next(&lines, &line, &size));
        if (line == NULL)
            break;
        if (size == 0)
            continue;
        while (at < n && wanted[at][0] == '\0')
            at++;
        char text[1024];
        EXPECT(at < n && size < sizeof(text));
        memcpy(text, line, size);
        text[size] = '\0';
        EXPECT_TEXT(text, wanted[at++]);
    }
    EXPECT_INT(at, n);
    log_lines_close(&lines);
}

static size_t next_character(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Bytes of `text` that a terminal of `width` columns shows in one line; *skip: a space after them is dropped. */
static size_t cut(const char *text, int width, bool at_words, size_t *skip)
{
    size_t n = 0, word = 0;
    int columns = 0;
    for (; text[n] != '\0' && columns < width; columns++) {
        if (text[n] == ' ')
            word = n;
        n += next_character(text + n);
    }
    *skip = 0;
    if (text[n] == '\0' || !at_words)
        return n;
    *skip = 1;
    return text[n] == ' ' || word == 0 ? n : word;
}

static void lines_cut_at_a_width_are_joined(void)
{
    for (int width = 80; width <= 200; width += 5) {
        for (int way = 0; way < 4; way++) {
            tess_buffer out = {.mem = test_mem()};
            const char *end = way % 2 == 0 ? "\n" : "\r\n";
            int n_cut = 0;
            for (int copy = 0; copy < 3; copy++) {
                for (int i = 0; i < N_PRINTED; i++) {
                    const char *at = printed[i];
                    do {
                        size_t skip, n = cut(at, width, way >= 2, &skip);
                        n_cut += at[n] != '\0';
                        EXPECT_OK(tess_buffer_printf(&out, "%.*s%s", (int)n, at, end));
                        at += n + (at[n] != '\0' ? skip : 0);
                    } while (*at != '\0');
                }
            }
            if (n_cut >= 9) {
                const char *wanted[3 * N_PRINTED];
                for (int i = 0; i < 3 * N_PRINTED; i++)
                    wanted[i] = printed[i % N_PRINTED];
                expect_lines(write_file(out.data, out.size), wanted, 3 * N_PRINTED);
            }
            tess_buffer_free(&out);
        }
    }
}

/* Whole lines of one width: a table, a rule, steps, lines of tensors. */
static void whole_lines_stay_as_they_are(void)
{
    static const char *const table[] = {
        "+-----------------------------------------------------------------------------------------+",
        "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |",
        "|-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "|=========================================+========================+======================|",
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |",
        "+-----------------------------------------+------------------------+----------------------+",
        "===========================================================================================",
        "the processes below are those of this host and of no other one",
    };
    static const char *const steps[] = {
        "iteration      100/   10000 | consumed samples:        25600 | learning rate: 1.500E-04 | loss: 8.213E+00",
        "iteration      200/   10000 | consumed samples:        51200 | learning rate: 1.500E-04 | loss: 7.113E+00",
        "iteration      300/   10000 | consumed samples:        76800 | learning rate: 1.500E-04 | loss: 6.913E+00",
        "evaluation of the validation set begins",
        "iteration      400/   10000 | consumed samples:       102400 | learning rate: 1.500E-04 | loss: 6.513E+00",
        "saved a checkpoint",
        "evaluation of the validation set begins",
        "the end",
    };
    char text[4096];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", table[i]);
    expect_lines(write_file(text, n), table, sizeof(table) / sizeof(table[0]));
    n = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", steps[i]);
    expect_lines(write_file(text, n), steps, sizeof(steps) / sizeof(steps[0]));
}

/* A terminal's columns after the end of a line come as blanks. */
static void filled_lines_are_joined(void)
{
    enum { WIDTH = 120, N = 6 };
    static const char text[] = "[rank0]:[E1 10:00:00.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective "
                               "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
                               "Timeout(ms)=600000) ran for 600021 milliseconds";
    char whole[2 * WIDTH + 1], out[N * (2 * WIDTH + 2) + 1];
    const char *wanted[N];
    size_t n = 0;
    snprintf(whole, sizeof(whole), "%-*s", 2 * WIDTH, text);
    for (int i = 0; i < N; i++) {
        wanted[i] = whole;
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s\n%s\n", WIDTH, whole, whole + WIDTH);
    }
    expect_lines(write_file(out, n), wanted, N);
}

/* The longest of a few lines need not be cut, even if the next one does not begin like a line of its own. */
static void the_longest_of_few_lines_is_not_cut_for_that(void)
{
    static const char *const lines[] = {
        "node-a:100:200 [5] NCCL WARN Call to ibv_modify_qp failed: Connection timed out, to ::ffff:192.0.2.65",
        "step 12 loss 2.31",
        "pdsh@master: node-b: ssh exited with exit code 1",
    };
    char text[512];
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", lines[i]);
    expect_lines(write_file(text, n), lines, 3);
    n = (size_t)snprintf(text, sizeof(text), "%s\n%s\n", lines[0], lines[2]);
    expect_lines(write_file(text, n), (const char *const[]){lines[0], lines[2]}, 2);
}

/* A sentence that is cut before or within its time goes on. A whole line that ends with a point does not. */
static void times_within_a_sentence_are_joined(void)
{
    static const char *const cut_lines[] = {
        "slurmstepd: error: *** JOB 3451 ON node-a CANCELLED AT",
        "2026-01-01T00:00:10 DUE TO PREEMPTION ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step",
        "to finish.",
        "slurmstepd: error: *** STEP 3451.0 ON node-a CANCELLED AT",
        "2026-01-01T00:00:10 DUE TO PREEMPTION ***",
        "worker 3 of node-b: connects to 10.0.0.1:29500",
        "2026-01-01 00:00:12 ERROR rank 1 has failed",
    };
    static const char *const joined[] = {
        "slurmstepd: error: *** JOB 3451 ON node-a CANCELLED AT 2026-01-01T00:00:10 DUE TO PREEMPTION ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: *** STEP 3451.0 ON node-a CANCELLED AT 2026-01-01T00:00:10 DUE TO PREEMPTION ***",
        "worker 3 of node-b: connects to 10.0.0.1:29500", /* an address is no part of a time */
        "2026-01-01 00:00:12 ERROR rank 1 has failed",
    };
    static const char *const whole[] = {
        "TERM_RUNLIMIT: job killed after reaching the run time limit.", /* 60 columns */
        "Exited with exit code 140.",
    };
    char text[1024];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(cut_lines) / sizeof(cut_lines[0]); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", cut_lines[i]);
    expect_lines(write_file(text, n), joined, 5);
    EXPECT_INT(strlen(whole[0]), 60);
    n = (size_t)snprintf(text, sizeof(text), "%s\n%s\n", whole[0], whole[1]);
    expect_lines(write_file(text, n), whole, 2);
}

static void joined_lines_count_and_the_first_is_named(void)
{
    log_lines lines;
    const char *line;
    size_t size;
    char text[2048];
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "[rank%d]: %069d\nwords without a meaning\n", i, 0);
    EXPECT_OK(log_lines_open(test_mem(), write_file(text, n), &lines));
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(log_lines_next(&lines, &line, &size));
        EXPECT_INT(size, 78 + 23);
        EXPECT_INT(lines.line, 2 * i + 1);
    }
    EXPECT_OK(log_lines_next(&lines, &line, &size));
    EXPECT(line == NULL);
    EXPECT_INT(lines.line, 8);
    log_lines_close(&lines);
}

/* A log that was cut while a program wrote to it begins with a hole, which may be longer than the buffer. */
static void a_hole_of_any_size_is_skipped(void)
{
    static const char text[] = "[rank1]: after the hole\n[rank1]: the end\n";
    static const size_t holes[] = {1, 5000, LOG_BUFFER - 7, LOG_BUFFER, LOG_BUFFER + 1, 4 * LOG_BUFFER + 17};
    for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
        log_lines lines;
        char *file = calloc(1, holes[i] + sizeof(text));
        EXPECT(file != NULL);
        const char *path = write_file(file, holes[i]);
        EXPECT_INT(log_lines_open(test_mem(), path, &lines), TESS_E_INVALID);
        log_lines_close(&lines);
        memcpy(file + holes[i], text, sizeof(text) - 1);
        path = write_file(file, holes[i] + sizeof(text) - 1);
        expect_lines(path, (const char *const[]){"[rank1]: after the hole", "[rank1]: the end"}, 2);
        free(file);
    }
}

static void colours_are_removed(void)
{
    static const struct {
        const char *text, *without;
    } cases[] = {
        {"\x1b[36m(Worker pid=1)\x1b[0m text", "(Worker pid=1) text"},
        {"[36m(Worker pid=1)[0m text[1;31m!", "(Worker pid=1) text!"},
        {"^[[36m(Worker pid=1)^[[0m text", "(Worker pid=1) text"},
        {"\x1b]0;title\a\x1b[2K\x1b(Btext", "Btext"},
        {"\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "\\link\\"},
        {"[rank1]: a[36] b[3m]", "[rank1]: a[36] b]"},
        {"[36", "[36"},
        {"text\x1b", "text"},
        {"text\x1b[12", "text"},
        {"^[[x", "^[[x"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s", cases[i].text);
        text[log_strip_escapes(text, strlen(text))] = '\0';
        EXPECT_TEXT(text, cases[i].without);
    }
}

/* UTF-16 of Windows' tools, of either byte order: also characters that take 2 to 4 bytes of UTF-8, and pairs that a
 * read cuts. */
static void utf16_is_read(void)
{
    static const char word[] = "M\xc3\xbcnze \xe2\x82\xac \xf0\x9f\x98\x80 ";
    static const uint16_t units[] = {'M', 0xfc, 'n', 'z', 'e', ' ', 0x20ac, ' ', 0xd83d, 0xde00, ' '};
    enum { WORDS = 40000, UNITS = sizeof(units) / 2 };
    uint8_t *file = malloc(2 + WORDS * (UNITS + 1) * 2 + 2);
    for (int big = 0; big < 2; big++) {
        size_t n = 0;
        log_lines lines;
        const char *line;
        size_t size;
        int count = 0;
        file[n++] = big ? 0xfe : 0xff;
        file[n++] = big ? 0xff : 0xfe;
        for (int i = 0; i < WORDS; i++)
            for (int k = 0; k <= UNITS; k++) {
                uint16_t unit = k < UNITS ? units[k] : '\n';
                file[n++] = (uint8_t)(big ? unit >> 8 : unit);
                file[n++] = (uint8_t)(big ? unit : unit >> 8);
            }
        file[n++] = 'x'; /* half a unit */
        EXPECT_OK(log_lines_open(test_mem(), write_file((const char *)file, n), &lines));
        for (;; count++) {
            EXPECT_OK(log_lines_next(&lines, &line, &size));
            if (line == NULL)
                break;
            EXPECT(size == sizeof(word) - 1 && memcmp(line, word, size) == 0);
        }
        EXPECT_INT(count, WORDS);
        log_lines_close(&lines);
    }
    free(file);
}

static void half_a_pair_is_replaced(void)
{
    char out[16];
    size_t n;
    EXPECT_INT(log_utf16_convert(LOG_UTF16_LITTLE, "\x3d\xd8", 2, false, out, &n), 0);
    EXPECT_INT(n, 0);
    EXPECT_INT(log_utf16_convert(LOG_UTF16_LITTLE, "\x3d\xd8", 2, true, out, &n), 2);
    EXPECT(n == 3 && memcmp(out, "\xef\xbf\xbd", 3) == 0);
    EXPECT_INT(log_utf16_convert(LOG_UTF16_BIG, "\xde\x00\x00\x41", 4, false, out, &n), 4);
    EXPECT(n == 4 && memcmp(out,
                            "\xef\xbf\xbd"
                            "A",
                            4) == 0);
}

static const test_case cases[] = {
    CASE(lines_cut_at_a_width_are_joined),
    CASE(filled_lines_are_joined),
    CASE(whole_lines_stay_as_they_are),
    CASE(the_longest_of_few_lines_is_not_cut_for_that),
    CASE(times_within_a_sentence_are_joined),
    CASE(joined_lines_count_and_the_first_is_named),
    CASE(a_hole_of_any_size_is_skipped),
    CASE(colours_are_removed),
    CASE(utf16_is_read),
    CASE(half_a_pair_is_replaced),
};

TEST_MAIN(cases)
