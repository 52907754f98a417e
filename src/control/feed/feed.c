#include "control/feed/feed.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "control/feed/feed_command.h"
#include "control/feed/feed_lines.h"
#include "control/supervise/exit.h"
#include "train/run_header.h"

enum { AT_ONCE = 256 << 10, MOST_STARTS = 4 }; /* bytes that wait for the pipe; starts without a long life */

static const double lasts_s = 60; /* a program that ran for longer starts again as if it had never failed */
static const double kill_s = 2;   /* seconds between SIGTERM and SIGKILL */

struct feed {
    const feed_options *options;
    tess_mem *mem;
    char header_path[1024], log_path[1024], name[256], folder[4096];
    struct stat header_file; /* the file whose header was read last */
    json_t *header;          /* NULL: the run has not begun */
    bool header_due;         /* the header is handed over before lines of later steps */
    int64_t header_step;
    feed_lines metrics, samples, alerts;
    feed_command command;
    tess_buffer waiting; /* whole lines */
    size_t written;      /* bytes of `waiting` that the pipe has taken */
    int64_t step;        /* newest step whose line is in `waiting`, or was written */
    int64_t taken_step;  /* newest step whose line was written */
    int n_starts;        /* since the program last ran for long */
    double started_s, again_s;
    bool gave_up;
};

/* ---- Open and close ---- */
static void name_run(feed *f)
{
    char *path = realpath(f->options->folder, NULL);
    snprintf(f->folder, sizeof(f->folder), "%s", path != NULL ? path : f->options->folder);
    free(path);
    const char *slash = strrchr(f->folder, '/');
    snprintf(f->name, sizeof(f->name), "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : f->folder);
}

static tess_status open_files(feed *f)
{
    const char *folder = f->options->folder;
    TESS_TRY(tess_os_join(f->header_path, sizeof(f->header_path), folder, TESS_RUN_HEADER));
    TESS_TRY(tess_os_join(f->log_path, sizeof(f->log_path), folder, "metrics.command.log"));
    TESS_TRY(feed_lines_open(f->mem, folder, "metrics.jsonl", false, &f->metrics));
    TESS_TRY(feed_lines_open(f->mem, folder, "samples.jsonl", false, &f->samples));
    return feed_lines_open(f->mem, folder, "alerts.jsonl", true, &f->alerts);
}

void feed_begin(const char *folder)
{
    char path[4096];
    if (tess_os_join(path, sizeof(path), folder, TESS_RUN_HEADER) == TESS_OK)
        tess_os_remove(path);
    tess_error_clear();
}

tess_status feed_open(const feed_options *options, feed **out)
{
    tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = TESS_NEW(mem, 1, "lines for metrics.command", out);
    if (status != TESS_OK) {
        tess_mem_destroy(&mem);
        return status;
    }
    **out = (feed){.options = options,
                   .mem = mem,
                   .metrics = {.fd = -1},
                   .samples = {.fd = -1},
                   .alerts = {.fd = -1},
                   .command = {.in = -1, .out = -1, .log = -1},
                   .waiting = {.mem = mem}};
    name_run(*out);
    status = open_files(*out);
    if (status != TESS_OK)
        feed_close(out);
    return status;
}

void feed_close(feed **out)
{
    feed *f = *out;
    if (f == NULL)
        return;
    tess_mem *mem = f->mem;
    feed_lines_close(&f->metrics);
    feed_lines_close(&f->samples);
    feed_lines_close(&f->alerts);
    feed_command_close(&f->command);
    tess_os_close(&f->command.out);
    tess_os_close(&f->command.log);
    tess_buffer_free(&f->waiting);
    json_decref(f->header);
    tess_mem_drop(out);
    tess_mem_destroy(&mem);
}

/* ---- Lines ---- */
static void put(feed *f, const char *data, size_t n)
{
    if (tess_buffer_append(&f->waiting, data, n) != TESS_OK)
        tess_error_clear();
}

static void put_json(feed *f, json_t *line)
{
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text != NULL) {
        put(f, text, strlen(text));
        put(f, "\n", 1);
    }
    free(text);
    json_decref(line);
}

/* Puts the header, which names the step after which lines follow. */
static void put_header(feed *f, int64_t step)
{
    json_t *line = json_copy(f->header);
    if (line != NULL)
        json_object_set_new(line, "step", json_integer(step));
    put_json(f, line);
}

/* Reads the header that a rank has written when it began, or when it went back to an earlier step. By then, the other
 * files have been cut to that step. */
static void take_header(feed *f)
{
    struct stat now;
    json_t *header;
    if (stat(f->header_path, &now) != 0 ||
        (f->header != NULL && now.st_ino == f->header_file.st_ino &&
         now.st_mtim.tv_sec == f->header_file.st_mtim.tv_sec && now.st_mtim.tv_nsec == f->header_file.st_mtim.tv_nsec))
        return;
    if (tess_json_load(f->header_path, 16 << 20, &header) != TESS_OK) {
        tess_error_clear();
        return;
    }
    const bool is_first = f->header == NULL;
    json_decref(f->header);
    f->header = header;
    f->header_file = now;
    f->header_step = json_integer_value(json_object_get(header, "step"));
    f->header_due = true;
    feed_lines_follow(&f->metrics);
    feed_lines_follow(&f->samples);
    if (!is_first)
        return;
    /* lines up to this step are those of earlier processes of the run */
    const char *line;
    size_t n;
    while ((line = feed_lines_next(&f->metrics, &n)) != NULL && feed_line_step(line, n) <= f->header_step)
        feed_lines_take(&f->metrics);
    while ((line = feed_lines_next(&f->samples, &n)) != NULL && feed_line_step(line, n) <= f->header_step)
        feed_lines_take(&f->samples);
    f->step = f->taken_step = f->header_step;
}

/* Takes the next line of the metrics, after the header if that is due. Returns whether there was one. */
static bool take_metrics(feed *f)
{
    size_t n = 0;
    const char *line = feed_lines_next(&f->metrics, &n);
    if (f->header_due && (line == NULL || feed_line_step(line, n) > f->header_step)) {
        put_header(f, f->header_step);
        f->header_due = false;
        return true;
    }
    if (line == NULL)
        return false;
    put(f, line, n);
    put(f, "\n", 1);
    f->step = feed_line_step(line, n);
    feed_lines_take(&f->metrics);
    return true;
}

static bool take_plain(feed *f, feed_lines *lines, const char *before, const char *after)
{
    size_t n;
    const char *line = feed_lines_next(lines, &n);
    if (line == NULL)
        return false;
    put(f, before, strlen(before));
    put(f, line, n);
    put(f, after, strlen(after));
    feed_lines_take(lines);
    return true;
}

/* Fills `waiting` while it has room. Returns whether a line was taken. */
static bool fill(feed *f)
{
    bool any = false;
    if (f->samples.fd < 0)
        feed_lines_follow(&f->samples);
    if (f->alerts.fd < 0)
        feed_lines_follow(&f->alerts);
    while (f->waiting.size < AT_ONCE && take_metrics(f))
        any = true;
    while (f->waiting.size < AT_ONCE && take_plain(f, &f->samples, "", "\n"))
        any = true;
    while (f->waiting.size < AT_ONCE && take_plain(f, &f->alerts, "{\"event\": \"alert\", \"alert\": ", "}\n"))
        any = true;
    return any;
}

/* Writes what the pipe takes, and forgets it. Of a line that is written in part, all stays: a restarted program gets it
 * whole. */
static bool drain(feed *f)
{
    const size_t n = feed_command_write(&f->command, f->waiting.data + f->written, f->waiting.size - f->written);
    const char *end = f->written + n > 0 ? memrchr(f->waiting.data, '\n', f->written + n) : NULL;
    f->written += n;
    if (end != NULL) {
        const size_t whole = (size_t)(end + 1 - f->waiting.data);
        memmove(f->waiting.data, f->waiting.data + whole, f->waiting.size - whole);
        f->waiting.size -= whole;
        f->written -= whole;
    }
    if (f->waiting.size == 0)
        f->taken_step = f->step;
    return n > 0;
}

/* ---- The program ---- */
static void start(feed *f)
{
    const tess_os_variable variables[] = {{tess_variable_name(TESS_VAR_METRICS_RUN), f->name},
                                          {tess_variable_name(TESS_VAR_METRICS_FOLDER), f->folder}};
    const tess_status status = feed_command_start(f->options->command, variables, 2, f->log_path, &f->command);
    f->started_s = tess_os_now_s();
    f->n_starts++;
    if (status == TESS_OK)
        return;
    tess_report_line(f->options->reporter, "warning: metrics.command: %s: it gets no lines", tess_error_message());
    tess_error_clear();
    f->gave_up = true;
}

/* A program that ended gets the header again when it starts anew, and the rest of the lines. Its predecessor may have
 * taken lines out of the pipe that it did not use: they are in the files of the run's folder. */
static void begin_again(feed *f)
{
    tess_buffer rest = f->waiting;
    f->waiting = (tess_buffer){.mem = f->mem};
    f->written = 0;
    put_header(f, f->taken_step);
    put(f, rest.data != NULL ? rest.data : "", rest.size);
    tess_buffer_free(&rest);
}

static void look_after_program(feed *f, bool ends)
{
    char how[FEED_WORDS + 128];
    bool failed;
    feed_command_listen(&f->command);
    if (!feed_command_ended(&f->command, how, sizeof(how), &failed))
        return;
    const double now_s = tess_os_now_s();
    if (now_s - f->started_s > lasts_s)
        f->n_starts = 0;
    f->gave_up = ends || f->n_starts >= MOST_STARTS;
    const double pause_s = f->n_starts > 0 ? ldexp(1, f->n_starts - 1) : 0;
    f->again_s = now_s + pause_s;
    if (f->gave_up)
        tess_report_line(f->options->reporter, "warning: metrics.command: '%s' %s; it does not start again: %s",
                         f->options->command[0], how, "metrics.jsonl has all lines");
    else
        tess_report_line(f->options->reporter, "warning: metrics.command: '%s' %s; it starts again in %g s",
                         f->options->command[0], how, pause_s);
    begin_again(f);
}

void feed_look(feed *f)
{
    take_header(f);
    if (f->header == NULL || f->gave_up)
        return;
    if (f->command.pid == 0 && tess_os_now_s() >= f->again_s)
        start(f);
    if (f->command.pid == 0)
        return;
    while (fill(f), drain(f))
        ;
    look_after_program(f, false);
}

void feed_pause(const feed *f, double seconds)
{
    struct pollfd wanted[] = {{.fd = f->command.out, .events = POLLIN},
                              {.fd = f->waiting.size > 0 ? f->command.in : -1, .events = POLLOUT}};
    poll(wanted, 2, 1 + (int)(seconds * 1e3));
}

/* ---- The end ---- */
static void put_end(feed *f, int code)
{
    const char *status = code == TESS_EXIT_OK ? "finished" : code == TESS_EXIT_INTERRUPTED ? "interrupted" : "failed";
    put_json(f, json_pack("{s:s, s:s, s:i, s:I}", "event", "end", "status", status, "code", code, "step",
                          (json_int_t)f->step));
}

/* Hands over what is left, then the end. Returns whether the program took all of it before `until_s`. */
static bool hand_over(feed *f, int code, double until_s)
{
    bool has_end = false;
    while (!f->gave_up && tess_os_now_s() < until_s) {
        if (f->command.pid == 0)
            start(f);
        if (f->command.in < 0)
            return false; /* it runs, and has closed its standard input */
        const bool any = fill(f);
        if (!any && f->waiting.size == 0 && has_end)
            return true;
        if (!any && !has_end && f->waiting.size < AT_ONCE) {
            put_end(f, code);
            has_end = true;
        }
        if (!drain(f) && f->waiting.size > 0)
            feed_pause(f, 0.05);
        look_after_program(f, has_end && f->waiting.size == 0);
    }
    return false;
}

static bool ends_before(feed *f, double until_s)
{
    char how[FEED_WORDS + 128];
    bool failed;
    do {
        feed_command_listen(&f->command);
        if (feed_command_ended(&f->command, how, sizeof(how), &failed)) {
            if (failed)
                tess_report_line(f->options->reporter, "warning: metrics.command: '%s' %s", f->options->command[0],
                                 how);
            return true;
        }
        feed_pause(f, 0.02);
    } while (tess_os_now_s() < until_s);
    return false;
}

double feed_wait(double wait_s, int code)
{
    static const double interrupted_s = 4; /* Slurm kills a job 30 s after it asks it to stop */
    return code == TESS_EXIT_INTERRUPTED && wait_s > interrupted_s ? interrupted_s : wait_s;
}

void feed_finish(feed *f, int code)
{
    const double wait_s = feed_wait(f->options->wait_s, code), until_s = tess_os_now_s() + wait_s;
    feed_look(f);
    if (f->header == NULL || f->gave_up)
        return;
    hand_over(f, code, until_s);
    feed_command_close(&f->command);
    if (f->command.pid == 0 || ends_before(f, until_s))
        return;
    tess_report_line(
        f->options->reporter,
        "warning: metrics.command: '%s' did not finish in %g s (%s) and is killed; metrics.jsonl has all lines",
        f->options->command[0], wait_s,
        wait_s < f->options->wait_s ? "the most for a run that is interrupted" : "metrics.command_wait_s");
    feed_command_kill(&f->command, SIGTERM);
    const double kill_at_s = tess_os_now_s() + kill_s;
    char how[FEED_WORDS + 128];
    bool failed;
    while (!feed_command_ended(&f->command, how, sizeof(how), &failed) && tess_os_now_s() < kill_at_s)
        feed_pause(f, 0.02);
    feed_command_kill(&f->command, SIGKILL);
}
