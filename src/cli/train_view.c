#include "cli/train_view.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "job/environment.h"
#include "control/supervise/console.h"
#include "control/supervise/stderr_lines.h"

static const char *format_duration(double seconds, char *text, size_t size)
{
    long s = lround(seconds > 0 ? seconds : 0);
    if (s >= 3600)
        snprintf(text, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
    return text;
}

static void draw_bar(const tess_step_report *r)
{
    enum { CELLS = 24 };
    char bar[3 * CELLS + 1], tps[32], eta[32];
    double share = (double)r->step / (double)r->steps;
    for (int i = 0; i < CELLS; i++)
        /* block characters */
        snprintf(bar + 3 * i, 4, "%s", (i + 0.5) / CELLS < share ? "\xe2\x96\x88" : "\xe2\x96\x91");
    cli_status_line("%s %3.0f%%  step %lld/%lld  loss %.4f  %s tok/s  mfu %.1f%%  ETA %s", bar, 100 * share,
                    (long long)r->step, (long long)r->steps, r->loss,
                    tess_format_grouped(llrint(r->tps), tps, sizeof(tps)), 100 * r->mfu,
                    format_duration(r->eta_s, eta, sizeof(eta)));
}

/* Called before each printed line: redirects output whose reader is gone to console.log, and clears the status line. */
static void prepare(const cli_train_view *view)
{
    tess_console_keep(stderr, view->folder, &tess_stderr_lines);
    tess_console_keep(stdout, view->folder, &tess_stderr_lines);
    cli_status_clear();
}

/* Adds a step to the curve, unless its value is not finite. When the curve is full, merges pairs of points. */
static void add_point(cli_train_view *view, const tess_step_report *r)
{
    const double value = r->curve != NULL ? r->curve_value : r->loss;
    view->curve = r->curve != NULL ? r->curve : "loss";
    view->last_step = r->step;
    if (!isfinite(value))
        return;
    if (view->n_points == 0 && view->n_in_point == 0)
        view->first_step = r->step;
    double *point = &view->values[view->n_points];
    *point = view->n_in_point == 0 ? value : *point + value;
    if (++view->n_in_point < view->per_point)
        return;
    *point /= (double)view->per_point;
    view->n_in_point = 0;
    if (++view->n_points < CLI_CURVE_POINTS)
        return;
    for (int i = 0; i < CLI_CURVE_POINTS / 2; i++)
        view->values[i] = (view->values[2 * i] + view->values[2 * i + 1]) / 2;
    view->n_points = CLI_CURVE_POINTS / 2;
    view->per_point *= 2;
}

/* Formats a z-score: " (+1.25z)"; "": not known yet. */
static const char *format_z(double z, char *text, size_t size)
{
    text[0] = '\0';
    if (isfinite(z))
        snprintf(text, size, " (%+.2fz)", z);
    return text;
}

static void on_step(void *self, const tess_step_report *r)
{
    add_point(self, r);
    if (r->log_line) {
        char tps[32], zloss[24], zgrad[24];
        prepare(self);
        printf("step: %5lld  loss: %8.4f%s  grad_norm: %8.4f%s  ", (long long)r->step, r->loss,
               format_z(r->zloss, zloss, sizeof(zloss)), r->grad_norm, format_z(r->zgrad, zgrad, sizeof(zgrad)));
        if (r->load.max_over_mean > 0)
            printf("expert load: %.2f max/mean, %lld idle  aux_loss: %.4f  ", r->load.max_over_mean,
                   (long long)r->load.n_idle, r->load.aux_loss);
        if (r->words != NULL)
            printf("%s  tps: %s\n", r->words, tess_format_grouped(llrint(r->tps), tps, sizeof(tps)));
        else
            printf("memory: %6.2fGiB  tps: %s  tflops: %.3f  mfu: %.2f%%\n", (double)r->total_peak_bytes / 0x1p30,
                   tess_format_grouped(llrint(r->tps), tps, sizeof(tps)), r->tflops, 100 * r->mfu);
        fflush(stdout);
    }
    draw_bar(r);
}

static void on_note(void *self, const char *text)
{
    prepare(self);
    printf("%s\n", text);
    fflush(stdout);
}

static void on_validation(void *self, const tess_validation_report *r)
{
    char tokens[32], all[32];
    prepare(self);
    printf("validation: step: %5lld  ", (long long)r->step);
    if (r->outcome == TESS_VALIDATION_MISSING) {
        printf("missing: %s\n", r->why);
    } else {
        printf("loss: %8.4f  perplexity: %.2f  bits_per_byte: %.4f  (%s tokens", r->loss, r->perplexity,
               r->bits_per_byte, tess_format_count((double)r->n_tokens, tokens, sizeof(tokens)));
        if (r->outcome == TESS_VALIDATION_PARTIAL)
            printf(" of about %s: %s", tess_format_count((double)r->n_tokens_all, all, sizeof(all)), r->why);
        printf(", %.1f s)\n", r->seconds);
    }
    fflush(stdout);
}

static void begin(void *self, const tess_config *config)
{
    cli_train_view *view = self;
    *view = (cli_train_view){.per_point = 1,
                             .begin_s = tess_os_now_s(),
                             .folder = config->job.dump_folder,
                             .steps = config->training.steps,
                             .patience = config->validation.patience,
                             .saves = config->checkpoint.enable,
                             .resumes = config->checkpoint.resume};
    tess_environment environment; /* all ranks share the terminal */
    bool first = tess_environment_read(&environment) != TESS_OK || environment.rank == 0;
    tess_error_clear();
    if (first && config->job.description[0] != '\0' && isatty(STDOUT_FILENO))
        printf("%s\n", config->job.description);
}

/* Draws the curve over steps, ten lines high. A Braille character has two dots across and four down. */
static void draw_curve(const cli_train_view *view)
{
    enum { WIDTH = 60, HEIGHT = 10 };
    uint8_t cells[HEIGHT][WIDTH] = {{0}};
    double low = INFINITY, high = -INFINITY;
    int n = view->n_points;
    if (n < 8)
        return;
    for (int i = 0; i < n; i++) {
        low = fmin(low, view->values[i]);
        high = fmax(high, view->values[i]);
    }
    if (!(high > low) || !isfinite(high - low))
        return;
    static const uint8_t dots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    for (int x = 0; x < 2 * WIDTH; x++) {
        int i = (int)((double)x * (n - 1) / (2 * WIDTH - 1) + 0.5);
        int y = (int)((high - view->values[i]) / (high - low) * (4 * HEIGHT - 1) + 0.5);
        cells[y / 4][x / 2] |= dots[y % 4][x % 2];
    }
    printf("\n%s over steps %lld to %lld\n", view->curve, (long long)view->first_step, (long long)view->last_step);
    for (int row = 0; row < HEIGHT; row++) {
        if (row == 0 || row == HEIGHT - 1)
            printf("%8.3f ", row == 0 ? high : low);
        else
            printf("%8s ", "");
        printf("\xe2\x94\x82"); /* the horizontal axis */
        for (int x = 0; x < WIDTH; x++) {
            uint8_t utf8[4];
            fwrite(utf8, 1, (size_t)tess_utf8_encode(0x2800u + cells[row][x], utf8), stdout);
        }
        putchar('\n');
    }
}

/* Prints the curve and the result of the run. */
static void end(void *self, tess_status status, const tess_train_result *result)
{
    const cli_train_view *view = self;
    char time[32];
    prepare(view);
    if (status != TESS_OK)
        return;
    draw_curve(view);
    format_duration(tess_os_now_s() - view->begin_s, time, sizeof(time));
    if (result->interrupted && view->last_step == 0) {
        printf("\nended before another step was done%s\n",
               view->saves && view->resumes ? ": nothing is lost, the same command goes on from there" : "");
        return;
    }
    if (result->interrupted) {
        printf("\ninterrupted after step %lld (%s): %s%s\n", (long long)result->steps, time,
               view->saves ? "saved" : "nothing was saved (checkpoint.enable=false)",
               view->saves && view->resumes ? "; the same command goes on from there" : "");
        return;
    }
    bool idle = view->last_step == 0 && result->last.n_tokens == 0;
    if (idle && result->model_folder[0] != '\0') {
        bool early = result->steps < view->steps;
        printf("\nfinished before: the run is at step %lld, %s=%lld; raise that to train on\n%s\n",
               (long long)result->steps, early ? "and ended there by validation.patience" : "and training.steps",
               (long long)(early ? view->patience : view->steps), result->model_folder);
        return;
    }
    printf("\n%lld steps in %s", (long long)result->steps, time);
    if (result->last.n_tokens > 0)
        printf(", validation loss %.4f, %.4f bits per byte%s", result->last.loss, result->last.bits_per_byte,
               result->last.outcome == TESS_VALIDATION_PARTIAL ? " (of a part of the text)" : "");
    printf("\n%s\n", result->model_folder);
}

tess_train_view cli_train_view_of(cli_train_view *view)
{
    return (tess_train_view){.observer = {view, on_note, on_step, on_validation}, .begin = begin, .end = end};
}
