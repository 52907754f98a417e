/* Pages of runs: hostile texts, torn and damaged files, runs that were resumed, bounded memory. */
#include "support/markup.h"
#include "support/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "page/run_page.h"

/* ---- Folders ---- */
static const char *in_folder(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    return path;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

static void append_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "ae");
    EXPECT(file != NULL && fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

/* Returns the page of a folder; the caller frees it. */
static tess_buffer page_of(const char *folder, const tess_page_options *options)
{
    tess_run_page *page;
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_run_page_open(test_mem(), &folder, 1, options, &page));
    EXPECT_OK(tess_run_page_put(page, &text));
    tess_run_page_close(&page);
    return text;
}

static void expect_markup(const tess_buffer *text, const char *what)
{
    char fault[160];
    if (markup_fault(text->data, text->size, true, fault, sizeof(fault)) != NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", what, fault);
}

static int count(const tess_buffer *text, const char *part)
{
    int n = 0;
    for (const char *at = text->data; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

/* ---- Hostile texts ---- */
static const char *const hostile[] = {
    "<script>alert(1)</script>",
    "</script><script src=//evil.example/x.js></script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)' x='",
    "</title><svg onload=alert(1)>",
    "</style><style>*{background:url(//evil.example)}</style>",
    "</text></svg><iframe srcdoc='<script>1</script>'>",
    "<!--",
    "]]><![CDATA[<script>1</script>",
    "javascript:alert(1)",
    "&lt;script&gt;&#60;script&#62;",
    "%s%n%p%99999d",
    "\\u003cscript\\u003e",
    "<SCRIPT/SRC=x>",
    "<a href=javascript:alert(1)>x</a>",
    "\xe2\x80\xae\x3ctpircs\xef\xbb\xbf",
    "url(#x);}*{display:none}",
    "`${alert(1)}`",
};

static json_t *sample_list(void *self, TESS_UNUSED tess_mem *mem, TESS_UNUSED const char *folder)
{
    return json_pack("[{s:i, s:i, s:f, s:s, s:s, s:s}]", "rollout", 1, "number", 2, "reward", 0.5, "finish", self,
                     "prompt", self, "answer", self);
}

static void write_json(const char *folder, const char *name, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    EXPECT(text != NULL);
    write_file(folder, name, text);
    if (strstr(name, "jsonl") != NULL)
        append_file(folder, name, "\n");
    free(text);
    json_decref(value);
}

static void hostile_texts_stay_texts(void)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        char folder[4096], trace[4200], *text = (char *)(uintptr_t)hostile[i];
        snprintf(folder, sizeof(folder), "%s/%zu%s", test_folder(), i, strchr(text, '/') == NULL ? text : "");
        snprintf(trace, sizeof(trace), "%s/trace", folder);
        EXPECT_OK(tess_os_make_dirs(trace));
        write_json(folder, "metrics.jsonl",
                   json_pack("{s:i, s:f, s:f, s:{s:f}}", "step", 1, "loss", 2.0, text, 3.0, text, text, 4.0));
        write_json(folder, "memory.jsonl", json_pack("{s:i, s:{s:i}}", "step", 1, "in_use", text, 5));
        write_json(folder, "alerts.jsonl",
                   json_pack("{s:s, s:s, s:s, s:s, s:s}", "time", text, "host", text, "event", text, "state", text,
                             "text", text));
        write_json(folder, "error.json", json_pack("{s:s, s:s, s:[s]}", text, text, "class", text, "list", text));
        write_json(folder, "run.json",
                   json_pack("{s:s, s:[s], s:[{s:s, s:s}], s:{s:{s:s}}, s:{s:{s:s}}}", "tessera", text, "hosts", text,
                             "machine", "name", text, "text", text, "defaults", text, text, text, "config", text, text,
                             text));
        write_json(trace, "job.json",
                   json_pack("{s:s, s:s, s:i, s:[{s:i, s:s, s:s}]}", "command", text, "verdict", text, "end_ns", 1,
                             "notices", "wall_ns", 5, "kind", text, "text", text));
        tess_buffer page = page_of(folder, &(tess_page_options){.samples = sample_list, .self = text});
        expect_markup(&page, text);
        EXPECT_INT(count(&page, "<script"), 1);
        tess_buffer_free(&page);
    }
}

/* ---- Curves ---- */
static void a_spike_of_one_step_is_drawn(void)
{
    const char *folder = test_folder();
    FILE *file = fopen(in_folder("metrics.jsonl"), "we");
    EXPECT(file != NULL);
    for (int step = 1; step <= 50000; step++)
        fprintf(file, "{\"step\": %d, \"loss\": %s}\n", step, step == 34567 ? "99.5" : "2.25");
    EXPECT(fclose(file) == 0);
    tess_buffer page = page_of(folder, NULL);
    /* The axis reaches the spike, and one point of the curve is near the top of the picture. */
    const char *line = strstr(page.data, "<polyline points=\"");
    double highest = 1e9, x, y;
    int n_points = 0, used;
    EXPECT(line != NULL);
    line += strlen("<polyline points=\"");
    for (; sscanf(line, "%lf,%lf%n", &x, &y, &used) == 2; line += used, n_points++)
        highest = y < highest ? y : highest;
    EXPECT(highest < 30);
    EXPECT(n_points > 300 && n_points <= 1025);
    EXPECT(page.size < 100000);
    tess_buffer_free(&page);
}

static void steps_that_run_again_count_once(void)
{
    const char *folder = test_folder();
    write_file(folder, "metrics.jsonl",
               "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 7}\n{\"step\": 3, \"loss\": 9}\n"
               "{\"step\": 2, \"loss\": 4}\n{\"step\": 3, \"loss\": 3}\n");
    tess_buffer page = page_of(folder, NULL);
    EXPECT(strstr(page.data, "1 to 3") != NULL);
    EXPECT(strstr(page.data, "3 at step 3") != NULL);
    const char *line = strstr(page.data, "<polyline points=\"");
    EXPECT(line != NULL);
    int n_points = 1;
    for (line += 18; *line != '"'; line++)
        n_points += *line == ' ';
    EXPECT_INT(n_points, 3);
    tess_buffer_free(&page);
}

static void numbers_that_are_not_finite_are_gaps(void)
{
    const char *folder = test_folder();
    write_file(folder, "metrics.jsonl",
               "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 4}\n{\"step\": 3, \"loss\": null}\n"
               "{\"step\": 4, \"loss\": 1e999}\n{\"step\": 5, \"loss\": 3}\n{\"step\": 6, \"loss\": 2}\n");
    tess_buffer page = page_of(folder, NULL);
    expect_markup(&page, "gaps");
    EXPECT_INT(count(&page, "<polyline"), 2);
    EXPECT(strstr(page.data, "not finite") != NULL);
    tess_buffer_free(&page);
}

/* ---- Files ---- */
static void lines_are_read_once_they_are_whole(void)
{
    bool changed;
    const char *folder = test_folder();
    tess_run_page *page;
    write_file(folder, "metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"lo");
    EXPECT_OK(tess_run_page_open(test_mem(), &folder, 1, NULL, &page));
    tess_buffer before = {.mem = test_mem()}, after = {.mem = test_mem()};
    EXPECT_OK(tess_run_page_put(page, &before));
    EXPECT(strstr(before.data, "1 to 1") != NULL);
    EXPECT_OK(tess_run_page_refresh(page, &changed));
    EXPECT(!changed);
    append_file(folder, "metrics.jsonl", "ss\": 4}\nnot json\n{\"step\": 3, \"loss\": 3}\n");
    EXPECT_OK(tess_run_page_refresh(page, &changed));
    EXPECT(changed);
    EXPECT_OK(tess_run_page_put(page, &after));
    EXPECT(strstr(after.data, "1 to 3") != NULL);
    EXPECT(strstr(after.data, "1 line of its files cannot be read") != NULL);
    tess_run_page_close(&page);
    tess_buffer_free(&before);
    tess_buffer_free(&after);
}

static void a_file_that_begins_again_is_read_again(void)
{
    bool changed;
    const char *folder = test_folder();
    tess_run_page *page;
    tess_buffer text = {.mem = test_mem()};
    write_file(folder, "metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n{\"step\": 9, \"loss\": 5}\n");
    EXPECT_OK(tess_run_page_open(test_mem(), &folder, 1, NULL, &page));
    write_file(folder, "metrics.jsonl", "{\"step\": 1, \"loss\": 6}\n{\"step\": 2, \"loss\": 7}\n");
    EXPECT_OK(tess_run_page_refresh(page, &changed));
    EXPECT_OK(tess_run_page_put(page, &text));
    EXPECT(strstr(text.data, "1 to 2") != NULL);
    tess_run_page_close(&page);
    tess_buffer_free(&text);
}

/* The file has the same inode, and is longer than what was read of it before. */
static void a_file_that_was_cut_and_has_grown_is_read_again(void)
{
    static const char *const files[][2] = {
        {"{\"step\": 9, \"loss\": 5}\n", "{\"step\": 1, \"loss\": 6}\n{\"step\": 2, \"loss\": 7}\n"},
        {"{\"step\": 1, \"loss\": 5}\n{\"step\": 9, \"loss\": 5}\n",
         "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 7}\n{\"step\": 2, \"loss\": 7}\n"}};
    bool changed;
    const char *folder = test_folder();
    for (int i = 0; i < 2; i++) {
        tess_run_page *page;
        tess_buffer text = {.mem = test_mem()};
        write_file(folder, "metrics.jsonl", files[i][0]);
        EXPECT_OK(tess_run_page_open(test_mem(), &folder, 1, NULL, &page));
        EXPECT(truncate(in_folder("metrics.jsonl"), 0) == 0);
        append_file(folder, "metrics.jsonl", files[i][1]);
        EXPECT_OK(tess_run_page_refresh(page, &changed));
        EXPECT(changed);
        EXPECT_OK(tess_run_page_put(page, &text));
        EXPECT(strstr(text.data, "1 to 2") != NULL);
        tess_run_page_close(&page);
        tess_buffer_free(&text);
    }
}

/* A whole file that is half written is read again, although its time has not changed. Until then its last whole state
 * is shown. */
static void a_torn_file_is_read_again(void)
{
    bool changed;
    struct stat facts;
    const char *folder = test_folder();
    tess_run_page *page;
    tess_buffer text = {.mem = test_mem()};
    write_file(folder, "metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n");
    write_file(folder, "run.json", "{\"tessera\": \"9.9");
    EXPECT(stat(in_folder("run.json"), &facts) == 0);
    EXPECT_OK(tess_run_page_open(test_mem(), &folder, 1, NULL, &page));
    EXPECT_OK(tess_run_page_refresh(page, &changed));
    EXPECT(!changed);
    append_file(folder, "run.json", ".9\"}");
    EXPECT(utimensat(AT_FDCWD, in_folder("run.json"), (struct timespec[]){facts.st_atim, facts.st_mtim}, 0) == 0);
    EXPECT_OK(tess_run_page_refresh(page, &changed));
    EXPECT(changed);
    EXPECT_OK(tess_run_page_put(page, &text));
    EXPECT(strstr(text.data, "9.9.9") != NULL);
    tess_run_page_close(&page);
    tess_buffer_free(&text);
}

static void folders_without_a_run_are_refused(void)
{
    const char *folder = test_folder(), *missing = in_folder("missing");
    tess_run_page *page;
    EXPECT_FAILS(tess_run_page_open(test_mem(), &folder, 1, NULL, &page), TESS_E_NOT_FOUND, "holds no run");
    EXPECT_FAILS(tess_run_page_open(test_mem(), &missing, 1, NULL, &page), TESS_E_NOT_FOUND, "is no folder");
    EXPECT_FAILS(tess_run_page_open(test_mem(), &folder, 0, NULL, &page), TESS_E_INVALID, "a page shows 1 to");
}

/* A run that ended before its first step, and damaged files. */
static void empty_and_damaged_files_leave_a_page(void)
{
    const char *folder = test_folder();
    EXPECT_OK(tess_os_make_dirs(in_folder("trace")));
    EXPECT_OK(tess_os_make_dirs(in_folder("pipeline")));
    write_file(folder, "metrics.jsonl", "");
    write_file(folder, "run.json", "{\"config\": 5, \"defaults\": [], \"machine\": {\"a\": 1}}");
    write_file(folder, "error.json", "[1, 2]");
    write_file(folder, "memory.jsonl", "{\"step\": 1, \"peak\": 5, \"by_rank\": {\"params\": [null, \"x\", 3]}}\n");
    write_file(folder, "alerts.jsonl", "{}\n5\n\n{\"text\": {}}\n");
    write_file(folder, "trace/job.json", "{\"notices\": [5, {}, {\"wall_ns\": -5, \"rank\": \"x\"}], \"end_ns\": {}}");
    write_file(folder, "trace/rank-00000.ring", "TESSRING");
    write_file(folder, "pipeline/step-1.json",
               "{\"traceEvents\": [5, {\"ph\": \"X\", \"pid\": 1e99, \"ts\": 0, \"dur\": 1, \"name\": \"F 0\"}, "
               "{\"ph\": \"X\", \"pid\": 0, \"ts\": 0, \"dur\": 1e300, \"name\": \"F 0\"}, "
               "{\"ph\": \"X\", \"pid\": 1, \"ts\": 5, \"dur\": 7, \"name\": \"B 12345678901234567890\"}]}");
    tess_buffer page = page_of(folder, NULL);
    expect_markup(&page, "damaged files");
    EXPECT(strstr(page.data, "rank 1: B 12345678901 7 us") != NULL);
    tess_buffer_free(&page);
}

static void write_steps(const char *folder, int n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "we");
    EXPECT(file != NULL);
    for (int step = 1; step <= n; step++)
        fprintf(file, "{\"step\": %d, \"loss\": 2.5, \"lr\": 0.001, \"time_s\": {\"total\": 0.5, \"forward\": 0.25}}\n",
                step);
    EXPECT(fclose(file) == 0);
}

static void a_reader_in_a_hurry_gives_up(void)
{
    const char *folder = test_folder();
    tess_run_page *page;
    write_file(folder, "metrics.jsonl", "{\"step\": 1, \"loss\": 5}\n");
    EXPECT_FAILS(tess_run_page_open(test_mem(), &folder, 1, &(tess_page_options){.patience_s = 1e-9}, &page),
                 TESS_E_TIMEOUT, "too long to be read");
}

/* A page that reads on gets all of its runs in the end, although each reading takes too long. */
static void a_page_that_reads_on_is_complete_in_the_end(void)
{
    bool changed;
    int n_readings = 0;
    char other[4096];
    snprintf(other, sizeof(other), "%s", in_folder("other"));
    EXPECT_OK(tess_os_make_dirs(other));
    const char *folders[] = {test_folder(), other};
    tess_run_page *page;
    tess_buffer text = {.mem = test_mem()};
    write_steps(test_folder(), 65536);
    write_steps(other, 65537);
    EXPECT_OK(
        tess_run_page_open(test_mem(), folders, 2, &(tess_page_options){.patience_s = 0.02, .reads_on = true}, &page));
    do
        EXPECT_OK(tess_run_page_refresh(page, &changed));
    while (changed && ++n_readings < 1000);
    EXPECT(n_readings > 0);
    EXPECT_OK(tess_run_page_put(page, &text));
    EXPECT(strstr(text.data, "1 to 65536") != NULL);
    EXPECT(strstr(text.data, "1 to 65537") != NULL);
    tess_run_page_close(&page);
    tess_buffer_free(&text);
}

static size_t peak_of(const char *folder, size_t *size)
{
    tess_mem *mem;
    tess_run_page *page;
    EXPECT_OK(tess_mem_create(&mem));
    tess_buffer text = {.mem = mem};
    EXPECT_OK(tess_run_page_open(mem, &folder, 1, NULL, &page));
    EXPECT_OK(tess_run_page_put(page, &text));
    *size = text.size;
    tess_run_page_close(&page);
    tess_buffer_free(&text);
    const size_t peak = tess_mem_stats(mem, TESS_POOL_MISC).peak_bytes;
    EXPECT_INT(tess_mem_destroy(&mem), 0);
    return peak;
}

static void memory_does_not_grow_with_the_file(void)
{
    size_t small_page, large_page;
    write_steps(test_folder(), 4096);
    const size_t small = peak_of(test_folder(), &small_page);
    write_steps(test_folder(), 65536);
    const size_t large = peak_of(test_folder(), &large_page);
    EXPECT(large <= small + 65536);
    EXPECT(large_page < small_page + 65536);
}

/* ---- Several runs ---- */
static void runs_are_compared(void)
{
    char a[4096], b[4096];
    const char *folders[] = {a, b};
    tess_run_page *page;
    tess_buffer text = {.mem = test_mem()};
    snprintf(a, sizeof(a), "%s/x/run", test_folder());
    snprintf(b, sizeof(b), "%s/y/run/", test_folder());
    for (int r = 0; r < 2; r++) {
        EXPECT_OK(tess_os_make_dirs(folders[r]));
        write_file(folders[r], "metrics.jsonl",
                   "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 4}\n{\"step\": 2, \"validation_loss\": 4}\n");
        write_file(folders[r], "run.json",
                   r == 0 ? "{\"config\": {\"optimizer\": {\"lr\": 0.5, \"beta1\": 0.25}}}"
                          : "{\"config\": {\"optimizer\": {\"lr\": 0.125, \"beta1\": 0.25, \"newer\": 7}}}");
    }
    EXPECT_OK(tess_run_page_open(test_mem(), folders, 2, NULL, &page));
    EXPECT_OK(tess_run_page_put(page, &text));
    expect_markup(&text, "two runs");
    const char *differences = strstr(text.data, "<section id=\"differences\">");
    EXPECT(differences != NULL && strstr(differences, "optimizer.lr</th><td>0.5</td><td>0.125</td>") != NULL);
    EXPECT(strstr(text.data, "/x/run") != NULL && strstr(text.data, "/y/run") != NULL);
    EXPECT(strstr(differences, "optimizer.newer</th><td></td><td>7</td>") != NULL); /* the first run has no such key */
    const char *end = strstr(differences, "</section>");
    EXPECT(memmem(differences, (size_t)(end - differences), "beta1", 5) == NULL);
    tess_run_page_close(&page);
    tess_buffer_free(&text);
}

/* ---- The policy ---- */
static void a_page_of_another_module_has_its_script_allowed(void)
{
    tess_buffer policy = {.mem = test_mem()}, other = {.mem = test_mem()}, script = {.mem = test_mem()};
    EXPECT_OK(tess_page_put_policy("", "'none'", &policy));
    EXPECT_OK(tess_page_put_policy("go();", "'self'", &other));
    EXPECT_OK(tess_page_put_script("go();", &script));
    EXPECT(strstr(policy.data, "default-src 'none'; connect-src 'none'; style-src 'sha256-") == policy.data);
    EXPECT(strstr(other.data, "connect-src 'self'") != NULL);
    const char *mine = strstr(policy.data, "script-src"), *theirs = strstr(other.data, "script-src");
    EXPECT(strcmp(mine, theirs) != 0);
    EXPECT(memmem(script.data, script.size, "go();</script>", 14) != NULL);
    tess_buffer_free(&policy);
    tess_buffer_free(&other);
    tess_buffer_free(&script);
}

static const test_case cases[] = {
    CASE(hostile_texts_stay_texts),
    CASE(a_spike_of_one_step_is_drawn),
    CASE(steps_that_run_again_count_once),
    CASE(numbers_that_are_not_finite_are_gaps),
    CASE(lines_are_read_once_they_are_whole),
    CASE(a_file_that_begins_again_is_read_again),
    CASE(a_file_that_was_cut_and_has_grown_is_read_again),
    CASE(a_torn_file_is_read_again),
    CASE(folders_without_a_run_are_refused),
    CASE(empty_and_damaged_files_leave_a_page),
    CASE(a_reader_in_a_hurry_gives_up),
    CASE(a_page_that_reads_on_is_complete_in_the_end),
    CASE(memory_does_not_grow_with_the_file),
    CASE(runs_are_compared),
    CASE(a_page_of_another_module_has_its_script_allowed),
};
TEST_MAIN(cases)
