#include "cli/train_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "job/environment.h"
#include "control/supervise/console.h"
#include "control/launch/mpirun/launch_line.h"
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

/* columns of a terminal below which lines are short, and below which they have nothing but the loss and the time */
enum { SHORT_BELOW = 100, NARROW_BELOW = 60 };

/* Writes what all lines for people end with: "lr 2.1e-03  9,631 tok/s  ETA 1:02". */
static const char *format_pace(const tess_step_report *r, char *text, size_t size)
{
    char tps[32], eta[32];
    snprintf(text, size, "lr %.1e  %s tok/s  ETA %s", r->lr, tess_format_grouped(llrint(r->tps), tps, sizeof(tps)),
             format_duration(r->eta_s, eta, sizeof(eta)));
    return text;
}

/* A narrow terminal gets a shorter bar, without the speed of the hardware. */
static void draw_bar(const tess_step_report *r)
{
    enum { CELLS = 24, FEW_CELLS = 8 };
    char bar[3 * CELLS + 1], pace[96], eta[32];
    const int columns = cli_columns(STDERR_FILENO);
    const int cells = columns > 0 && columns < SHORT_BELOW ? FEW_CELLS : CELLS;
    double share = (double)r->step / (double)r->steps;
    for (int i = 0; i < cells; i++)
        /* block characters */
        snprintf(bar + 3 * i, 4, "%s", (i + 0.5) / cells < share ? "\xe2\x96\x88" : "\xe2\x96\x91");
    if (columns > 0 && columns < NARROW_BELOW)
        cli_status_line("%3.0f%% %lld/%lld  loss %.3f  ETA %s", 100 * share, (long long)r->step, (long long)r->steps,
                        r->loss, format_duration(r->eta_s, eta, sizeof(eta)));
    else if (cells == FEW_CELLS)
        cli_status_line("%s %3.0f%%  %lld/%lld  loss %.4f  %s", bar, 100 * share, (long long)r->step,
                        (long long)r->steps, r->loss, format_pace(r, pace, sizeof(pace)));
    else
        cli_status_line("%s %3.0f%%  step %lld/%lld  loss %.4f  mfu %.1f%%  %s", bar, 100 * share, (long long)r->step,
                        (long long)r->steps, r->loss, 100 * r->mfu, format_pace(r, pace, sizeof(pace)));
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
    view->is_noisy = r->curve != NULL;
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

/* Prints an object as a line of JSON, and frees it. */
static void print_json(const cli_train_view *view, json_t *line)
{
    prepare(view);
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

/* JSON has no numbers that are not finite: those are null. */
static json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *step_to_json(const tess_step_report *r)
{
    json_t *line = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "kind", "step", "step",
                             (json_int_t)r->step, "steps", (json_int_t)r->steps, "loss", json_number(r->loss),
                             "grad_norm", json_number(r->grad_norm), "lr", json_number(r->lr), "tps",
                             json_number(r->tps), "mfu", json_number(r->mfu), "eta_s", json_number(r->eta_s),
                             "n_tokens", (json_int_t)r->n_tokens, "memory_bytes", (json_int_t)r->total_peak_bytes);
    for (int i = 0; i < r->n_metrics; i++)
        json_object_set_new(line, r->metrics[i].name, json_number(r->metrics[i].value));
    return line;
}

static void print_step(const tess_step_report *r)
{
    char pace[96], zloss[24], zgrad[24], tps[32];
    const int columns = cli_columns(STDOUT_FILENO);
    if (columns > 0 && columns < SHORT_BELOW) {
        printf("step %lld/%lld  %s %.4f  ", (long long)r->step, (long long)r->steps,
               r->curve != NULL ? r->curve : "loss", r->curve != NULL ? r->curve_value : r->loss);
        if (columns < NARROW_BELOW)
            printf("ETA %s\n", format_duration(r->eta_s, pace, sizeof(pace)));
        else
            printf("%s\n", format_pace(r, pace, sizeof(pace)));
        return;
    }
    printf("step: %5lld  loss: %8.4f%s  grad_norm: %8.4f%s  ", (long long)r->step, r->loss,
           format_z(r->zloss, zloss, sizeof(zloss)), r->grad_norm, format_z(r->zgrad, zgrad, sizeof(zgrad)));
    if (r->load.max_over_mean > 0)
        printf("expert load: %.2f max/mean, %lld idle  aux_loss: %.4f  ", r->load.max_over_mean,
               (long long)r->load.n_idle, r->load.aux_loss);
    tess_format_grouped(llrint(r->tps), tps, sizeof(tps));
    if (r->words != NULL)
        printf("%s  tps: %s", r->words, tps);
    else
        printf("memory: %6.2fGiB  tps: %s  tflops: %.3f  mfu: %.2f%%", (double)r->total_peak_bytes / 0x1p30, tps,
               r->tflops, 100 * r->mfu);
    printf("  lr: %.2e  ETA: %s\n", r->lr, format_duration(r->eta_s, pace, sizeof(pace)));
}

static void on_step(void *self, const tess_step_report *r)
{
    const cli_train_view *view = self;
    add_point(self, r);
    if (view->log == CLI_LOG_QUIET)
        return;
    if (view->log == CLI_LOG_JSON) {
        print_json(view, step_to_json(r));
        return;
    }
    if (r->log_line) {
        prepare(view);
        print_step(r);
        fflush(stdout);
    }
    draw_bar(r);
}

static void on_note(void *self, const char *text)
{
    const cli_train_view *view = self;
    if (view->log == CLI_LOG_JSON) {
        print_json(view, json_pack("{s:s, s:o}", "kind", "note", "text", tess_json_text(text)));
        return;
    }
    prepare(view);
    printf("%s\n", text);
    fflush(stdout);
}

static json_t *validation_to_json(const tess_validation_report *r)
{
    static const char *const outcomes[] = {[TESS_VALIDATION_WHOLE] = "whole",
                                           [TESS_VALIDATION_PARTIAL] = "partial",
                                           [TESS_VALIDATION_MISSING] = "missing"};
    json_t *line = json_pack("{s:s, s:I, s:s, s:o}", "kind", "validation", "step", (json_int_t)r->step, "outcome",
                             outcomes[r->outcome], "seconds", json_number(r->seconds));
    if (r->outcome != TESS_VALIDATION_MISSING)
        json_object_update_new(line, json_pack("{s:o, s:o, s:o, s:I}", "loss", json_number(r->loss), "perplexity",
                                               json_number(r->perplexity), "bits_per_byte",
                                               json_number(r->bits_per_byte), "n_tokens", (json_int_t)r->n_tokens));
    if (r->outcome != TESS_VALIDATION_WHOLE)
        json_object_set_new(line, "why", tess_json_text(r->why));
    return line;
}

static void print_validation(const tess_validation_report *r)
{
    char tokens[32], all[32];
    printf("validation: step: %5lld  ", (long long)r->step);
    if (r->outcome == TESS_VALIDATION_MISSING) {
        printf("missing: %s\n", r->why);
        return;
    }
    printf("loss: %8.4f  perplexity: %.2f  bits_per_byte: %.4f  (%s tokens", r->loss, r->perplexity, r->bits_per_byte,
           tess_format_count((double)r->n_tokens, tokens, sizeof(tokens)));
    if (r->outcome == TESS_VALIDATION_PARTIAL)
        printf(" of about %s: %s", tess_format_count((double)r->n_tokens_all, all, sizeof(all)), r->why);
    printf(", %.1f s)\n", r->seconds);
}

static void on_validation(void *self, const tess_validation_report *r)
{
    const cli_train_view *view = self;
    if (view->log == CLI_LOG_JSON) {
        print_json(view, validation_to_json(r));
        return;
    }
    prepare(view);
    print_validation(r);
    fflush(stdout);
}

static void begin(void *self, const tess_config *config)
{
    cli_train_view *view = self;
    *view = (cli_train_view){.log = view->log,
                             .per_point = 1,
                             .begin_s = tess_os_now_s(),
                             .folder = config->job.dump_folder,
                             .steps = config->training.steps,
                             .patience = config->validation.patience,
                             .saves = config->checkpoint.enable,
                             .resumes = config->checkpoint.resume};
    tess_environment environment; /* all ranks share the terminal */
    bool first = tess_environment_read(&environment) != TESS_OK || environment.rank == 0;
    tess_error_clear();
    if (first && config->job.description[0] != '\0' && isatty(STDOUT_FILENO) && view->log == CLI_LOG_TEXT)
        printf("%s\n", config->job.description);
}

enum { CURVE_WIDTH = 60, CURVE_HEIGHT = 10, LABEL = 9 };

/* Replaces each value by the mean of its neighbours: a twentieth of all values. */
static void smooth(const double *values, int n, double *smoothed)
{
    const int reach = n / 40;
    for (int i = 0; i < n; i++) {
        const int first = i > reach ? i - reach : 0, last = i + reach < n ? i + reach : n - 1;
        smoothed[i] = 0;
        for (int k = first; k <= last; k++)
            smoothed[i] += values[k] / (last - first + 1);
    }
}

/* How the curve looks: terminals get colour unless NO_COLOR is set; one that calls itself dumb gets ASCII. */
typedef struct curve_style {
    const char *colour, *plain; /* escape sequences around the curve */
    bool ascii;
    int width;
} curve_style;

static curve_style choose_style(void)
{
    const char *kind = tess_variable_value(TESS_VAR_TERM), *no_colour = tess_variable_value(TESS_VAR_NO_COLOR);
    const int columns = cli_columns(STDOUT_FILENO);
    curve_style style = {.colour = "", .plain = "", .ascii = kind != NULL && strcmp(kind, "dumb") == 0};
    style.width = columns > 0 && columns < CURVE_WIDTH + LABEL + 2 ? columns - LABEL - 2 : CURVE_WIDTH;
    style.width = style.width < 8 ? 8 : style.width;
    if (isatty(STDOUT_FILENO) && !style.ascii && (no_colour == NULL || no_colour[0] == '\0')) {
        style.colour = "\033[36m";
        style.plain = "\033[0m";
    }
    return style;
}

static void print_row(const curve_style *style, const uint8_t *cells)
{
    fputs(style->ascii ? "|" : "\xe2\x94\x82", stdout); /* the vertical axis */
    fputs(style->colour, stdout);
    for (int x = 0; x < style->width; x++) {
        uint8_t utf8[4];
        if (style->ascii)
            putchar(cells[x] != 0 ? '*' : ' ');
        else
            fwrite(utf8, 1, (size_t)tess_utf8_encode(0x2800u + cells[x], utf8), stdout);
    }
    fputs(style->plain, stdout);
    putchar('\n');
}

/* Prints the horizontal axis, and below it the first and the last step. */
static void print_axis(const curve_style *style, int64_t first, int64_t last)
{
    char left[24], right[24];
    printf("%*s%s", LABEL, "", style->ascii ? "+" : "\xe2\x94\x94");
    for (int x = 0; x < style->width; x++)
        fputs(style->ascii ? "-" : "\xe2\x94\x80", stdout);
    snprintf(left, sizeof(left), "%lld", (long long)first);
    snprintf(right, sizeof(right), "%lld", (long long)last);
    printf("\n%*s %s%*s\n", LABEL, "", left, style->width - (int)strlen(left), right);
}

/* Draws the curve over steps, ten lines high. A Braille character has two dots across and four down. */
static void draw_curve(const cli_train_view *view)
{
    static const uint8_t dots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    uint8_t cells[CURVE_HEIGHT][CURVE_WIDTH] = {{0}};
    double low = INFINITY, high = -INFINITY, smoothed[CLI_CURVE_POINTS];
    const double *values = view->is_noisy ? smoothed : view->values;
    const curve_style style = choose_style();
    const int n = view->n_points;
    if (n < 8)
        return;
    smooth(view->values, n, smoothed);
    for (int i = 0; i < n; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    if (!(high > low) || !isfinite(high - low))
        return;
    for (int x = 0; x < 2 * style.width; x++) {
        int i = (int)((double)x * (n - 1) / (2 * style.width - 1) + 0.5);
        int y = (int)((high - values[i]) / (high - low) * (4 * CURVE_HEIGHT - 1) + 0.5);
        cells[y / 4][x / 2] |= dots[y % 4][x % 2];
    }
    printf("\n%s over steps%s\n", view->curve, view->is_noisy && n >= 40 ? ", smoothed" : "");
    for (int row = 0; row < CURVE_HEIGHT; row++) {
        if (row == 0 || row == CURVE_HEIGHT - 1)
            printf("%*.3f ", LABEL - 1, row == 0 ? high : low);
        else
            printf("%*s", LABEL, "");
        print_row(&style, cells[row]);
    }
    print_axis(&style, view->first_step, view->last_step);
}

/* Says what can be done with the model, on a terminal. The lines may be copied into a shell. */
static void suggest(const cli_train_view *view, const char *model)
{
    tess_mem *mem;
    if (!isatty(STDOUT_FILENO) || model[0] == '\0' || tess_mem_create(&mem) != TESS_OK)
        return;
    tess_buffer path = {.mem = mem}, folder = {.mem = mem};
    if (tess_launch_words_quote((char *const[]){(char *)model}, 1, &path) == TESS_OK &&
        tess_launch_words_quote((char *const[]){(char *)view->folder}, 1, &folder) == TESS_OK)
        printf("\nnext:  tessera generate %.*s --prompt TEXT\n"
               "       tessera eval %.*s --data FILE\n"
               "       tessera report %.*s\n",
               (int)path.size, path.data, (int)path.size, path.data, (int)folder.size, folder.data);
    tess_error_clear();
    tess_buffer_free(&path);
    tess_buffer_free(&folder);
    tess_mem_destroy(&mem);
}

/* The last line says how the run ended, also if it failed. */
static json_t *end_to_json(tess_status status, const tess_train_result *result)
{
    if (status != TESS_OK)
        return json_pack("{s:s, s:s}", "kind", "end", "status", tess_status_name(status));
    return json_pack("{s:s, s:s, s:I, s:b, s:o}", "kind", "end", "status", tess_status_name(status), "steps",
                     (json_int_t)result->steps, "interrupted", result->interrupted, "model",
                     tess_json_text(result->model_folder));
}

/* Prints the curve and the result of the run. */
static void end(void *self, tess_status status, const tess_train_result *result)
{
    const cli_train_view *view = self;
    char time[32];
    if (view->log == CLI_LOG_JSON) {
        print_json(view, end_to_json(status, result));
        return;
    }
    prepare(view);
    if (status != TESS_OK)
        return;
    if (view->log == CLI_LOG_TEXT)
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
    suggest(view, result->model_folder);
}

tess_train_view cli_train_view_of(cli_train_view *view)
{
    return (tess_train_view){.observer = {view, on_note, on_step, on_validation}, .begin = begin, .end = end};
}
