/* `tessera top`: watches running jobs from another terminal. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor/top_view.h"
#include "doctor/top/page.h"

enum { NO_SUCH_JOB = 3 };

typedef struct top_options {
    const char *what;
    const char *once, *interval, *memory;
    tess_form_style style;
    double interval_s;
    int64_t n_columns; /* 0: all */
} top_options;

static void put(void *self, TESS_UNUSED tess_top_style style, const char *text)
{
    fputs(text, self);
}

static void end_line(void *self)
{
    fputc('\n', self);
}

static tess_status print(const top_options *o, const tess_top_snapshot *now, const tess_top_snapshot *before)
{
    tess_buffer text = {.mem = now->mem};
    if (o->style != TESS_FORM_TEXT)
        return cli_print_text(tess_top_put(now, before, o->style, &text), &text);
    const tess_top_canvas canvas = {stdout, put, end_line};
    tess_top_draw(now, before, &(tess_top_size){.width = (int)o->n_columns}, &canvas);
    return TESS_OK;
}

/* Shows one snapshot; --interval gives rates between two snapshots. */
static tess_status show(const top_options *o, tess_mem *mem, const tess_live_job *live)
{
    TESS_AUTO(tess_top_snapshot_destroy) tess_top_snapshot *now = NULL, *before = NULL;
    if (o->interval != NULL) {
        TESS_TRY(tess_top_snapshot_take(mem, live, &before));
        struct timespec pause = {(time_t)o->interval_s, (long)((o->interval_s - (double)(time_t)o->interval_s) * 1e9)};
        nanosleep(&pause, NULL);
    }
    TESS_TRY(tess_top_snapshot_take(mem, live, &now));
    return print(o, now, before);
}

static tess_status show_all(const top_options *o, tess_mem *mem)
{
    tess_live_job jobs[TESS_LIVE_MAX];
    int n_jobs;
    TESS_TRY(tess_live_find(o->what, jobs, TESS_LIVE_MAX, &n_jobs));
    tess_status status = TESS_OK;
    const bool is_page = o->style == TESS_FORM_METRICS || o->style == TESS_FORM_HTML;
    if (n_jobs > 1 && is_page)
        status = TESS_FAIL(TESS_E_INVALID, "%s: %d jobs run: name one by its process or its folder",
                           o->style == TESS_FORM_HTML ? "--html" : "--prometheus", n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        if (i > 0 && o->style == TESS_FORM_TEXT)
            putchar('\n');
        if (status == TESS_OK)
            status = show(o, mem, &jobs[i]);
        tess_live_close(&jobs[i]);
    }
    return status;
}

/* Shows the memory of a run from its folder alone, because it may have ended. */
static tess_status show_memory(const char *folder)
{
    tess_top_memory memory;
    TESS_TRY(tess_top_memory_read(folder, &memory));
    TESS_CHECK(memory.n > 0, TESS_E_NOT_FOUND, "%s/memory.jsonl has no line of memory in use yet", folder);
    tess_top_memory_print(&memory, stdout);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    top_options o = {.interval_s = 1};
    const cli_flag flags[] = {
        {"--once", NULL, "print the page once, for scripts (also where the output is no terminal)", .text = &o.once},
        {"--width", "COLUMNS", "of what --once prints: leaves out the least important columns (all)",
         .integer = &o.n_columns, .min = 1, .max = 10000},
        CLI_STYLES(&o.style),
        {"--memory", NULL, "print the memory of the run in FOLDER by pool over its steps, also when it has ended",
         .text = &o.memory},
        {"--interval", "SECONDS", "between two snapshots (1); with --once: rates of that time", .text = &o.interval,
         .number = &o.interval_s, .least = 0.01, .most = 3600}};
    int n = cli_parse(argc, argv, &cli_top, flags, sizeof(flags) / sizeof(flags[0]));
    if (n > 1)
        return cli_misuse(&cli_top, "name one job");
    o.what = n == 1 ? argv[1] : NULL;
    if (o.memory != NULL && n != 1)
        return cli_misuse(&cli_top, "--memory: name the run's folder");
    if (o.memory != NULL && o.style != TESS_FORM_TEXT)
        return cli_misuse(&cli_top, "--memory prints text: leave out --json, --html and --prometheus");
    if (o.memory != NULL)
        return cli_end(show_memory(o.what));
    bool once = o.once != NULL || o.style != TESS_FORM_TEXT || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
    tess_status status = once ? show_all(&o, mem) : cli_top_view(mem, o.what, o.interval_s);
    int code = cli_end(status);
    return status == TESS_E_NOT_FOUND ? NO_SUCH_JOB : code;
}

const cli_command cli_top = {
    "top",
    "[PID | FOLDER] [--once [--width COLUMNS] | --json | --html | --prometheus | --memory] [--interval SECONDS]",
    "watch running jobs from another terminal: who does what, who waits for whom\n"
    "PID is the launcher's or a rank's, FOLDER a run's job.dump_folder; without either, all of your jobs.\n"
    "It only reads, and does not disturb the job.",
    .exit_codes = "0 shown; 1 failed; 2 bad input; 3 no such job",
    .examples = "tessera top\n"
                "tessera top out/kjv --once --width 80\n"
                "tessera top out/kjv --memory",
    .run = run};
