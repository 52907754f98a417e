/* `tessera trace`: finds the root cause of a job's failure or hang. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "cli/cli.h"
#include "doctor/flame/flame.h"
#include "doctor/flight_recorder/flight_recorder.h"
#include "doctor/job/error_report.h"
#include "doctor/job/job_report.h"
#include "doctor/log/python_ask.h"
#include "doctor/perfetto/perfetto.h"
#include "doctor/verdict/open_history.h"

enum { TRACE_CULPRIT = 3, TRACE_TIE = 4, DEFAULT_LAST = 20 };

typedef struct trace_options {
    const char *perfetto, *flame, *flight_recorder;
    tess_form_style style;
    int64_t last, rank; /* 0 and -1: not given */
} trace_options;

/* JSON files are written to the folder, and pickles to a folder inside it, because torchfrtrace reads every file of
 * its folder as a pickle. */
static tess_status write_dumps(const tess_history *history, const char *folder)
{
    char pickles[4096];
    TESS_TRY(tess_os_join(pickles, sizeof(pickles), folder, "pickle"));
    TESS_TRY(tess_flight_recorder_write(history, folder, false));
    return tess_flight_recorder_write(history, pickles, true);
}

static tess_status format_report(const tess_report *report, const trace_options *options, tess_buffer *out)
{
    if (options->last == 0 && options->rank < 0)
        return tess_report_put(report, options->style, out);
    int culprit = report->diagnosis.n_ranks > 0 ? report->diagnosis.ranks[0] : 0, last = report->history->world - 1;
    TESS_CHECK(options->rank <= last, TESS_E_INVALID, "--rank: %lld is outside 0 .. %d", (long long)options->rank,
               last);
    return tess_report_last(report, options->rank >= 0 ? (int)options->rank : culprit,
                            options->last > 0 ? (size_t)options->last : DEFAULT_LAST, out);
}

static int code_of(const tess_diagnosis *diagnosis)
{
    if (diagnosis->kind == TESS_DIAGNOSIS_HEALTHY || diagnosis->kind == TESS_DIAGNOSIS_FINISHED)
        return TESS_EXIT_OK;
    return diagnosis->tie || diagnosis->kind == TESS_DIAGNOSIS_UNDECIDED ? TRACE_TIE : TRACE_CULPRIT;
}

static tess_status report_on(tess_mem *mem, const tess_history *history, const trace_options *options, int *code)
{
    TESS_AUTO(tess_report_free) tess_report report = {.history = history};
    tess_buffer out = {.mem = mem};
    if (options->perfetto != NULL)
        TESS_TRY(tess_perfetto_write(history, options->perfetto));
    if (options->flame != NULL)
        TESS_TRY(tess_flame_write(history, options->flame));
    if (options->flight_recorder != NULL)
        TESS_TRY(write_dumps(history, options->flight_recorder));
    TESS_TRY(tess_report_make(history, tess_history_patience(history), &report));
    *code = code_of(&report.diagnosis);
    return cli_print_text(format_report(&report, options, &out), &out);
}

/* A Python process that is not one of our ranks belongs to a job of another framework. */
static tess_status report_python(tess_mem *mem, const char *pid)
{
    tess_error_clear();
    tess_buffer out = {.mem = mem};
    return cli_print_text(tess_python_report(mem, pid, &out), &out);
}

/* Prints the folder's error.json after the report. only: there is nothing else to print, so that its rank gives the
 * exit code. */
static tess_status report_record(tess_mem *mem, const char *folder, bool only, tess_status status, int *code)
{
    char message[1024], why[256];
    TESS_AUTO(tess_mem_drop) tess_error_file *record = NULL;
    tess_buffer out = {.mem = mem};
    snprintf(message, sizeof(message), "%s", tess_error_message());
    TESS_TRY(tess_error_report_read(mem, folder, &record, why));
    if (why[0] != '\0')
        fprintf(stderr, "warning: %s\n", why);
    if (record == NULL)
        return only ? TESS_FAIL(status, "%s", message) : TESS_OK;
    if (only)
        *code = record->rank >= 0 ? TRACE_CULPRIT : TRACE_TIE;
    tess_error_clear();
    return cli_print_text(tess_error_report_put(record, &out), &out);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    trace_options options = {.rank = -1};
    const cli_flag flags[] = {
        CLI_STYLES(&options.style),
        {"--last", "N", "print the newest N operations of a rank instead of the screen", .integer = &options.last,
         .min = 1, .max = 1 << 24},
        {"--rank", "R", "which rank --last is about (default: the culprit)", .integer = &options.rank, .max = 1 << 24},
        {"--perfetto", "FILE", "also write a timeline for ui.perfetto.dev", .text = &options.perfetto},
        {"--flame", "FILE", "also write a flame graph: FILE.svg, or folded stacks", .text = &options.flame},
        {"--flight-recorder", "OUT", "also write PyTorch Flight Recorder dumps: JSON, and OUT/pickle for torchfrtrace",
         .text = &options.flight_recorder},
    };
    int n = cli_parse(argc, argv, &cli_trace, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1)
        return cli_misuse(&cli_trace, "%s", n == 0 ? "which job?" : "one job at a time");
    if (options.style != TESS_FORM_TEXT && (options.last > 0 || options.rank >= 0))
        return cli_misuse(&cli_trace, "%s prints text: leave out --json, --html and --prometheus",
                          options.last > 0 ? "--last" : "--rank");
    tess_history *history = NULL;
    int code = TESS_EXIT_OK;
    tess_status status = tess_history_open(mem, argv[1], &history);
    if (status != TESS_OK && tess_python_is(argv[1]) && options.style != TESS_FORM_TEXT)
        return cli_misuse(&cli_trace,
                          "process %s is Python, whose stacks are text: leave out --json, --html and --prometheus",
                          argv[1]);
    if (status != TESS_OK && tess_python_is(argv[1]))
        return cli_end(report_python(mem, argv[1]));
    const bool only = status == TESS_E_NOT_FOUND, is_text = options.style == TESS_FORM_TEXT;
    if (status == TESS_OK)
        status = report_on(mem, history, &options, &code);
    if (is_text && options.last == 0 && options.rank < 0 && (status == TESS_OK || only))
        status = report_record(mem, argv[1], only, status, &code);
    tess_history_destroy(&history);
    return status == TESS_OK ? code : cli_end(status);
}

const cli_command cli_trace = {
    "trace",
    "DIR|PID [--json | --html | --prometheus | --last N [--rank R]] ...",
    "find the root cause of a job's failure or hang, and show the evidence\n\n"
    "DIR is a job's dump folder (or its trace folder), or a folder of PyTorch Flight Recorder dumps; PID is the\n"
    "launcher or a rank of a running job, which is not disturbed, or a Python process, whose stacks py-spy shows.",
    .exit_codes = "0 healthy, ended well, or stopped by the operator; 2 bad input; 3 a culprit is named;\n"
                  "4 a tie, or the records do not say",
    .examples = "tessera trace out/kjv\n"
                "tessera trace out/kjv --last 20 --rank 3\n"
                "tessera trace out/kjv --perfetto timeline.json --flame flame.svg",
    .run = run};
