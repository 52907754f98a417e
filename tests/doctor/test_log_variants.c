/* The cases of tests/doctor/cases as other tools would have kept them: after other prefixes, cut at a width, coloured,
 * among other lines, one file a rank. What they mean, and who it was, stays. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

enum { MOST_LINES = 64, MOST_BYTES = 4096 };

static tess_knowledge *knowledge;
static tess_mem *mem;

/* A case, by lines. */
typedef struct text_case {
    char name[128], line[MOST_LINES][MOST_BYTES];
    int n;
} text_case;

/* The doctor's answer about files. */
typedef struct answer {
    tess_log_kind kind;
    char entry[64];
    log_who who;
    int culprit[TESS_LOG_MOST_CULPRITS], n_culprits;
    char headline[640];
} answer;

static void read_case(const char *path, text_case *c)
{
    log_lines lines;
    const char *line;
    size_t size;
    c->n = 0;
    EXPECT_OK(log_lines_open(mem, path, &lines));
    for (;;) {
        EXPECT_OK(log_lines_next(&lines, &line, &size));
        if (line == NULL)
            break;
        EXPECT(c->n < MOST_LINES && size < MOST_BYTES);
        memcpy(c->line[c->n], line, size);
        c->line[c->n++][size] = '\0';
    }
    log_lines_close(&lines);
}

static void write_file(const char *name, const tess_buffer *text)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text->data, text->size));
}

static answer judge(const char *const *names, int n)
{
    static tess_log_diagnosis diagnosis;
    tess_survey survey;
    answer a = {0};
    EXPECT_OK(tess_survey_begin(mem, knowledge, &survey));
    for (int i = 0; i < n; i++) {
        char path[512];
        EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), names[i]));
        EXPECT_OK(tess_survey_read(&survey, path));
    }
    tess_log_diagnose(&survey, 0, &diagnosis);
    a.kind = diagnosis.kind;
    a.who = diagnosis.who;
    a.n_culprits = diagnosis.n_culprits;
    memcpy(a.culprit, diagnosis.culprit, sizeof(a.culprit));
    snprintf(a.headline, sizeof(a.headline), "%s", diagnosis.headline);
    if (diagnosis.entry >= 0)
        snprintf(a.entry, sizeof(a.entry), "%s", tess_knowledge_at(knowledge, diagnosis.entry)->row.id);
    tess_survey_free(&survey);
    return a;
}

static bool same(const answer *a, const answer *b)
{
    return a->kind == b->kind && strcmp(a->entry, b->entry) == 0 && a->n_culprits == b->n_culprits &&
           memcmp(a->culprit, b->culprit, (size_t)a->n_culprits * sizeof(int)) == 0 &&
           a->who.n_ranks == b->who.n_ranks &&
           memcmp(a->who.ranks, b->who.ranks, (size_t)a->who.n_ranks * sizeof(int)) == 0 && a->who.pid == b->who.pid &&
           strcmp(a->who.host, b->who.host) == 0 && strcmp(a->who.gpu, b->who.gpu) == 0 &&
           strcmp(a->who.actor, b->who.actor) == 0;
}

/* ---- The ways to keep a log ---- */
typedef struct way {
    const char *name, *before, *after, *end; /* prefixes and end of each line */
    int width;                               /* columns where lines are cut; 0: they are not */
    bool at_words;
    int noise;  /* lines of a healthy run are put in after this number of lines; 0: none */
    int copies; /* copies of the whole log, one after the other; 0: one */
    int utf16;  /* 1: little-endian, 2: big-endian */
} way;

static const way ways[] = {
    {"times", "2026-11-28 10:00:00,123 ", "", "\n"},
    {"times of glog", "I1128 10:00:00.123456 77 run.cc:12] ", "", "\n"},
    {"times with a zone", "2026-11-28T10:00:00.123456Z ", "", "\n"},
    {"indented", "\t", "", "\n"},
    {"ends of Windows", "", "", "\r\n"},
    {"blanks at the end", "", "   ", "\n"},
    {"coloured", "\x1b[36m", "\x1b[0m", "\n"},
    {"coloured, copied", "[33m", "[0m", "\n"},
    {"UTF-16, little-endian", "", "", "\n", .utf16 = 1},
    {"UTF-16, big-endian", "", "", "\r\n", .utf16 = 2},
    {"cut at 80", "", "", "\n", .width = 80},
    {"cut at 100, ends of Windows", "", "", "\r\n", .width = 100},
    {"cut at 132", "", "", "\n", .width = 132},
    {"cut at 200", "", "", "\n", .width = 200},
    {"cut at 60", "", "", "\n", .width = 60},
    {"cut at 72", "", "", "\n", .width = 72},
    {"cut at 120", "", "", "\n", .width = 120},
    {"cut between words before 60", "", "", "\n", .width = 60, .at_words = true},
    {"cut between words before 72", "", "", "\n", .width = 72, .at_words = true},
    {"cut between words before 80", "", "", "\n", .width = 80, .at_words = true},
    {"cut between words before 100", "", "", "\n", .width = 100, .at_words = true},
    {"cut between words before 132", "", "", "\n", .width = 132, .at_words = true},
    {"cut between words before 120", "", "", "\n", .width = 120, .at_words = true},
    {"among lines of a healthy run", "", "", "\n", .noise = 2},
    {"among many", "", "", "\n", .noise = 1},
    {"twice", "", "", "\n", .copies = 2},
};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

static void add(tess_buffer *out, const char *text, size_t size)
{
    EXPECT_OK(tess_buffer_append(out, text, size));
}

/* The bytes of `text` in a line of `width` characters; the cases are ASCII but for single characters. */
static size_t cut(const char *text, const way *w, size_t *skip)
{
    size_t n = strlen(text), width = (size_t)w->width;
    *skip = 0;
    if (n <= width)
        return n;
    if (!w->at_words)
        return width;
    size_t space = width;
    while (space > 0 && text[space] != ' ')
        space--;
    *skip = space > 0;
    return space > 0 ? space : width;
}

static void add_line(tess_buffer *out, const way *w, const char *line)
{
    char text[MOST_BYTES + 128];
    size_t digits = strspn(line, " 0123456789"),
           label = digits > 0 && line[digits] == ':' ? digits + 2 : 0; /* srun -l */
    snprintf(text, sizeof(text), "%.*s%s%s%s", (int)label, line, w->before, line + label, w->after);
    const char *at = text;
    do {
        size_t skip = 0, n = w->width > 0 ? cut(at, w, &skip) : strlen(at);
        add(out, at, n);
        add(out, w->end, strlen(w->end));
        at += n + skip;
    } while (*at != '\0');
}

static void keep(const text_case *c, const way *w, tess_buffer *out)
{
    for (int copy = 0; copy < (w->copies > 0 ? w->copies : 1); copy++) {
        for (int i = 0; i < c->n; i++) {
            char noise[128];
            add_line(out, w, c->line[i]);
            snprintf(noise, sizeof(noise), "step %d of 5000: loss 2.%d, 41021 tokens a second", 100 + i, 310 + i);
            if (w->noise > 0 && i % w->noise == 0)
                add_line(out, w, noise);
        }
    }
}

/* The same in UTF-16; the characters beyond ASCII of the cases are of 2 or 3 bytes. */
static void widen(tess_buffer *text, bool big)
{
    tess_buffer wide = {.mem = mem};
    add(&wide, big ? "\xfe\xff" : "\xff\xfe", 2);
    for (size_t at = 0; at < text->size;) {
        uint32_t point = 0;
        int n = tess_utf8_decode((const uint8_t *)text->data + at, text->size - at, &point);
        EXPECT(n > 0 && point < 0x10000);
        const char unit[2] = {(char)(big ? point >> 8 : point), (char)(big ? point : point >> 8)};
        add(&wide, unit, 2);
        at += (size_t)n;
    }
    tess_buffer_free(text);
    *text = wide;
}

static answer judge_way(const text_case *c, const way *w)
{
    tess_buffer text = {.mem = mem};
    const char *const names[] = {"job.log"};
    keep(c, w, &text);
    if (w->utf16 > 0)
        widen(&text, w->utf16 == 2);
    write_file(names[0], &text);
    tess_buffer_free(&text);
    return judge(names, 1);
}

static void expect_same(const text_case *c, const char *how, const answer *wanted, const answer *got)
{
    if (!same(wanted, got))
        test_fail(__FILE__, __LINE__, "%s, %s:\n      expected (%s, %s) %s\n      not (%s, %s) %s", c->name, how,
                  tess_log_kind_name(wanted->kind), wanted->entry, wanted->headline, tess_log_kind_name(got->kind),
                  got->entry, got->headline);
}

/* ---- The cases ---- */
typedef struct case_names {
    char name[64][128];
    int n;
} case_names;

static tess_status note_name(void *context, const char *name)
{
    case_names *names = context;
    EXPECT(names->n < 64);
    snprintf(names->name[names->n++], 128, "%s", name);
    return TESS_OK;
}

static void each_case(void (*check)(const text_case *c, const answer *wanted))
{
    static text_case c;
    static const way as_it_is = {"as it is", "", "", "\n"};
    case_names names = {.n = 0};
    mem = test_mem();
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(mem, NULL, 0, &knowledge));
    EXPECT_OK(tess_os_list(test_path("doctor/cases"), note_name, &names));
    EXPECT(names.n >= 20);
    for (int i = 0; i < names.n; i++) {
        char path[512];
        EXPECT_OK(tess_os_join(path, sizeof(path), test_path("doctor/cases"), names.name[i]));
        snprintf(c.name, sizeof(c.name), "%s", names.name[i]);
        read_case(path, &c);
        answer wanted = judge_way(&c, &as_it_is);
        check(&c, &wanted);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Whether a way leaves a case readable. Lines of a second cut, at another width, look whole. Short lines of 60 columns
 * do not show that they were cut where the log has only few of them, or where a row begins and ends with a bar. */
static bool is_readable(const text_case *c, const way *w)
{
    const bool narrow = w->at_words && w->width == 60;
    if (strcmp(c->name, "hard-wrapped-lines.log") == 0)
        return w->width == 0 || w->width >= 80;
    return !(narrow && (strcmp(c->name, "slurm-saved-before-limit.log") == 0 ||
                        strcmp(c->name, "jax-coordination.log") == 0 || strcmp(c->name, "nan-megatron.log") == 0));
}

static void check_ways(const text_case *c, const answer *wanted)
{
    for (int i = 0; i < N_WAYS; i++) {
        if (!is_readable(c, &ways[i]))
            continue;
        answer got = judge_way(c, &ways[i]);
        expect_same(c, ways[i].name, wanted, &got);
    }
}

static void logs_mean_the_same_however_they_are_kept(void)
{
    each_case(check_ways);
}

/* One file a rank, in either order, where all lines say whose they are. */
static void check_files(const text_case *c, const answer *wanted)
{
    char names[16][32];
    const char *in_order[16], *reversed[16];
    int ranks[16], n = 0;
    for (int i = 0; i < c->n; i++) {
        int rank = log_rank_of_line(c->line[i], strlen(c->line[i])), k = 0;
        if (c->line[i][0] == '\0')
            continue;
        while (k < n && ranks[k] != rank)
            k++;
        if (rank < 0 || k == 16)
            return;
        ranks[k] = rank;
        n += k == n;
    }
    for (int k = 0; k < n; k++) {
        tess_buffer text = {.mem = mem};
        for (int i = 0; i < c->n; i++)
            if (log_rank_of_line(c->line[i], strlen(c->line[i])) == ranks[k])
                EXPECT_OK(tess_buffer_printf(&text, "%s\n", c->line[i]));
        snprintf(names[k], sizeof(names[k]), "out-%d.txt", k);
        write_file(names[k], &text);
        tess_buffer_free(&text);
        in_order[k] = reversed[n - 1 - k] = names[k];
    }
    if (n < 2)
        return;
    answer forth = judge(in_order, n), back = judge(reversed, n);
    expect_same(c, "one file a rank", wanted, &forth);
    expect_same(c, "the last rank's file first", wanted, &back);
}

static void the_order_of_files_does_not_matter(void)
{
    each_case(check_files);
}

static const test_case cases[] = {
    CASE(logs_mean_the_same_however_they_are_kept),
    CASE(the_order_of_files_does_not_matter),
};

TEST_MAIN(cases)
