#include "train/metrics.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "train/tensorboard.h"

enum { WAITING_BYTES = 8 << 20 }; /* limit of the waiting lines: about 10,000 lines */

struct tess_metrics {
    tess_mem *mem;
    int fd;
    char path[1024];
    tess_tensorboard *board; /* NULL: TensorBoard files are off */
    tess_buffer line;
    tess_buffer waiting; /* lines that could not be written yet */
    tess_metrics_backlog backlog;
    tess_metrics_backlog seen; /* lines that wait as of tess_metrics_see, and lines that were lost before they waited */
    bool is_behind;
    int64_t last_step, last_validation; /* newest steps whose lines were in the file when it was opened; 0: none */
};

/* Returns the step of a line; INT64_MAX: the line holds no metrics. */
static int64_t step_of_line(const uint8_t *line, size_t n)
{
    static const char begin[] = "{\"step\": ";
    char text[64] = {0}, *end = text;
    memcpy(text, line, n < sizeof(text) - 1 ? n : sizeof(text) - 1);
    int64_t step = strncmp(text, begin, sizeof(begin) - 1) == 0 ? strtoll(text + sizeof(begin) - 1, &end, 10) : 0;
    return *end == ',' ? step : INT64_MAX;
}

/* Removes lines of steps after `step`, and records the newest step among the lines that remain. */
static tess_status drop_later_lines(tess_metrics *metrics, int64_t step)
{
    static const char loss[] = ", \"loss\": "; /* text that follows the step number in the line of a step */
    tess_mem *mem = metrics->mem;
    const char *path = metrics->path;
    tess_mapping file;
    tess_buffer left = {.mem = mem};
    tess_status status = TESS_OK;
    if (!tess_os_is_file(path))
        return TESS_OK;
    TESS_TRY(tess_os_map(path, &file));
    for (size_t at = 0; at < file.size && status == TESS_OK;) {
        const uint8_t *newline = memchr(file.data + at, '\n', file.size - at);
        if (newline == NULL)
            break; /* a line that was cut short when the process was killed */
        size_t n = (size_t)(newline - file.data) + 1 - at;
        int64_t of = step_of_line(file.data + at, n);
        if (of <= step) {
            const uint8_t *comma = memchr(file.data + at, ',', n);
            bool is_step = newline - comma >= (ptrdiff_t)sizeof(loss) && memcmp(comma, loss, sizeof(loss) - 1) == 0;
            int64_t *last = is_step ? &metrics->last_step : &metrics->last_validation;
            *last = of > *last ? of : *last;
            status = tess_buffer_append(&left, file.data + at, n);
        }
        at += n;
    }
    bool is_same = left.size == file.size;
    tess_os_unmap(&file);
    if (status == TESS_OK && !is_same)
        status = tess_os_write_atomic(path, left.data != NULL ? left.data : "", left.size);
    tess_buffer_free(&left);
    return status;
}

tess_status tess_metrics_open_lines(tess_mem *mem, const tess_config *config, const char *name, int64_t step,
                                    tess_metrics **out)
{
    TESS_AUTO(tess_metrics_close) tess_metrics *metrics = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "metrics", &metrics));
    *metrics = (tess_metrics){.mem = mem, .fd = -1, .line = {.mem = mem}, .waiting = {.mem = mem}};
    TESS_TRY(tess_os_join(metrics->path, sizeof(metrics->path), config->job.dump_folder, name));
    TESS_TRY(drop_later_lines(metrics, step));
    metrics->fd = open(metrics->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (step == 0 ? O_TRUNC : 0), 0666);
    if (metrics->fd < 0)
        return tess_os_error("create", metrics->path);
    *out = TESS_GIVE(metrics);
    return TESS_OK;
}

static tess_status open_board(tess_metrics *metrics, const tess_config *config)
{
    char folder[1024];
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->metrics.tensorboard_folder));
    return tess_tensorboard_open(metrics->mem, folder, &metrics->board);
}

tess_status tess_metrics_open(tess_mem *mem, const tess_config *config, int64_t step, tess_metrics **metrics)
{
    TESS_TRY(tess_metrics_open_lines(mem, config, "metrics.jsonl", step, metrics));
    tess_status status = config->metrics.enable_tensorboard ? open_board(*metrics, config) : TESS_OK;
    if (status != TESS_OK)
        tess_metrics_close(metrics);
    return status;
}

tess_tensorboard *tess_metrics_board(const tess_metrics *metrics)
{
    return metrics->board;
}

bool tess_metrics_has_step(const tess_metrics *metrics, int64_t step)
{
    return step <= metrics->last_step;
}

bool tess_metrics_has_validation(const tess_metrics *metrics, int64_t step)
{
    return step <= metrics->last_validation;
}

void tess_metrics_close(tess_metrics **handle)
{
    tess_metrics *metrics = *handle;
    if (metrics == NULL)
        return;
    if (metrics->fd >= 0)
        close(metrics->fd);
    tess_tensorboard_close(&metrics->board);
    tess_buffer_free(&metrics->line);
    tess_buffer_free(&metrics->waiting);
    tess_mem_drop(handle);
}

static tess_status put_number(tess_buffer *line, const char *key, double value)
{
    char text[40];
    return tess_buffer_printf(line, ", \"%s\": %s", key, tess_format_double(value, text, sizeof(text)));
}

tess_metrics_backlog tess_metrics_waiting(const tess_metrics *metrics)
{
    return metrics->backlog;
}

tess_metrics_news tess_metrics_see(tess_metrics *metrics, int64_t step, tess_status written)
{
    tess_metrics_news news = {.text = ""};
    const bool fails = written != TESS_OK;
    if (fails && !metrics->is_behind) {
        metrics->seen.n_lost = metrics->backlog.n_lost;
        news.is_warning = true;
        snprintf(news.text, sizeof(news.text),
                 "metrics wait in memory until they can be written, and the run goes on: %s", tess_error_message());
    } else if (!fails && metrics->is_behind) {
        snprintf(news.text, sizeof(news.text),
                 "metrics of step %lld and on are written again, after %lld line%s that waited; %lld lost",
                 (long long)step, (long long)metrics->seen.n_lines, metrics->seen.n_lines == 1 ? "" : "s",
                 (long long)(metrics->backlog.n_lost - metrics->seen.n_lost));
    }
    metrics->is_behind = fails;
    metrics->seen.n_lines = metrics->backlog.n_lines;
    tess_error_clear();
    return news;
}

tess_metrics_news tess_metrics_see_end(const tess_metrics *metrics, const char *why)
{
    tess_metrics_news news = {.is_warning = true};
    const int64_t n = metrics->backlog.n_lines + metrics->backlog.n_lost - metrics->seen.n_lost;
    if (n > 0 && metrics->is_behind)
        snprintf(news.text, sizeof(news.text), "%lld line%s of metrics could not be written and %s lost: %s",
                 (long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are", why);
    return news;
}

bool tess_metrics_is_behind(const tess_metrics *metrics)
{
    return metrics != NULL && metrics->is_behind;
}

/* Uses one write(2) per line, so that a reader never sees half a line. */
tess_status tess_metrics_flush(tess_metrics *metrics)
{
    tess_buffer *waiting = &metrics->waiting;
    tess_status status = TESS_OK;
    size_t at = 0;
    while (at < waiting->size) {
        size_t n = (size_t)((char *)memchr(waiting->data + at, '\n', waiting->size - at) - (waiting->data + at)) + 1;
        status = tess_os_append(metrics->fd, waiting->data + at, n, metrics->path);
        if (status != TESS_OK)
            break;
        at += n;
        metrics->backlog.n_lines--;
    }
    if (at > 0)
        memmove(waiting->data, waiting->data + at, waiting->size - at);
    waiting->size -= at;
    return status;
}

/* If a line cannot be written, it stays in the queue until the disk has room; the order of lines is kept. */
static tess_status write_line(tess_metrics *metrics)
{
    tess_buffer *line = &metrics->line;
    TESS_TRY(tess_buffer_append(line, "}\n", 2));
    tess_status status = tess_metrics_flush(metrics);
    if (status == TESS_OK)
        status = tess_os_append(metrics->fd, line->data, line->size, metrics->path);
    if (status == TESS_OK)
        return TESS_OK;
    if (metrics->waiting.size + line->size > WAITING_BYTES) {
        metrics->backlog.n_lost++;
        return status;
    }
    TESS_TRY(tess_buffer_append(&metrics->waiting, line->data, line->size));
    metrics->backlog.n_lines++;
    return status;
}

/* Appends {"total": 1.5, "data": 0.01, ...}: seconds of this step on rank 0, and work that overlapped with them. Ranks
 * that send each other leaves of keys also append {"received": 12, "in_time": 11}. */
static tess_status put_times(tess_buffer *line, const tess_step_times *times)
{
    char text[40];
    TESS_TRY(tess_buffer_printf(line, ", \"time_s\": {\"total\": %s",
                                tess_format_double(times->total_s, text, sizeof(text))));
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        TESS_TRY(put_number(line, tess_phase_name((tess_phase)phase), times->phase_s[phase]));
    TESS_TRY(put_number(line, "hidden", times->hidden_s));
    TESS_TRY(tess_buffer_append(line, "}", 1));
    if (times->leaves == 0)
        return TESS_OK;
    return tess_buffer_printf(line, ", \"leaves\": {\"received\": %.0f, \"in_time\": %.0f}", times->leaves,
                              times->leaves_in_time);
}

/* tags of torchtitan; tags of our other phases follow their form */
static tess_status board_times(tess_metrics *metrics, const tess_step_report *report)
{
    const tess_step_times *times = &report->times;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        char tag[64];
        const char *name = phase == TESS_PHASE_DATA ? "data_loading" : tess_phase_name((tess_phase)phase);
        snprintf(tag, sizeof(tag), "time_metrics/%s(s)", name);
        TESS_TRY(tess_tensorboard_scalar(metrics->board, tag, report->step, (float)times->phase_s[phase]));
    }
    double data = times->total_s > 0 ? 100 * times->phase_s[TESS_PHASE_DATA] / times->total_s : 0;
    TESS_TRY(tess_tensorboard_scalar(metrics->board, "time_metrics/data_loading(%)", report->step, (float)data));
    return tess_tensorboard_scalar(metrics->board, "time_metrics/end_to_end(s)", report->step, (float)times->total_s);
}

static tess_status put_metrics(tess_buffer *line, const tess_metric *values, int n)
{
    for (int i = 0; i < n; i++)
        TESS_TRY(put_number(line, values[i].name, values[i].value));
    return TESS_OK;
}

static tess_status board_metrics(tess_metrics *metrics, int64_t step, const tess_metric *values, int n)
{
    for (int i = 0; i < n; i++)
        if (isfinite(values[i].value))
            TESS_TRY(tess_tensorboard_scalar(metrics->board, values[i].name, step, (float)values[i].value));
    return TESS_OK;
}

static tess_status put_pools(tess_buffer *line, const tess_pool_numbers *numbers)
{
    TESS_TRY(tess_buffer_printf(line, ", \"%s\": {", numbers->name));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        TESS_TRY(tess_buffer_printf(line, "%s\"%s\": %lld", pool > 0 ? ", " : "", tess_pool_name((tess_pool)pool),
                                    (long long)numbers->bytes[pool]));
    return tess_buffer_append(line, "}", 1);
}

tess_buffer *tess_metrics_begin_line(tess_metrics *metrics, int64_t step)
{
    metrics->line.size = 0;
    if (tess_buffer_printf(&metrics->line, "{\"step\": %lld", (long long)step) != TESS_OK)
        tess_error_clear(); /* the members do not fit either, and fail */
    return &metrics->line;
}

tess_status tess_metrics_end_line(tess_metrics *metrics)
{
    return write_line(metrics);
}

tess_status tess_metrics_pools(tess_metrics *metrics, int64_t step, const tess_pool_numbers *numbers, int n)
{
    tess_buffer *line = &metrics->line;
    line->size = 0;
    TESS_TRY(tess_buffer_printf(line, "{\"step\": %lld", (long long)step));
    for (int i = 0; i < n; i++)
        TESS_TRY(put_pools(line, &numbers[i]));
    return write_line(metrics);
}

/* A number of a step: its key in metrics.jsonl, and its tag in TensorBoard. NULL: the number is not there. */
typedef struct step_number {
    const char *key, *tag;
    double value;
    bool is_unknown;
} step_number;

enum { EXACT = 9, NUMBERS = EXACT + 5 }; /* the first ones depend on configuration and data alone, not on time */

/* The table of a step's numbers. The tags are those of torchtitan where it has them. */
static void list_numbers(const tess_step_report *r, step_number list[NUMBERS])
{
    const bool dense = r->load.max_over_mean <= 0, early = !isfinite(r->zloss) || !isfinite(r->zgrad);
    const step_number all[NUMBERS] = {{"loss", "loss_metrics/global_avg_loss", r->loss, false},
                                      {"grad_norm", "grad_norm", r->grad_norm, false},
                                      {"lr", "lr", r->lr, false},
                                      {"expert_load", "expert_load", r->load.max_over_mean, dense},
                                      {"idle_experts", "idle_experts", (double)r->load.n_idle, dense},
                                      {"aux_loss", "loss_metrics/aux_loss", r->load.aux_loss, dense},
                                      {"zloss", NULL, r->zloss, early},
                                      {"zgrad", NULL, r->zgrad, early},
                                      {"loss_scale", NULL, r->loss_scale, r->loss_scale == 1},
                                      {"tps", "throughput(tps)", r->tps, false},
                                      {"tflops", "tflops", r->tflops, false},
                                      {"mfu", NULL, r->mfu, false},
                                      {NULL, "mfu(%)", 100 * r->mfu, false},
                                      {NULL, "memory/total_peak(GiB)", (double)r->total_peak_bytes / 0x1p30, false}};
    memcpy(list, all, sizeof(all));
}

static tess_status put_numbers(tess_buffer *line, const step_number *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].key != NULL && !list[i].is_unknown)
            TESS_TRY(put_number(line, list[i].key, list[i].value));
    return TESS_OK;
}

static tess_status write_step(tess_metrics *metrics, const tess_step_report *report)
{
    tess_buffer *line = &metrics->line;
    step_number list[NUMBERS];
    list_numbers(report, list);
    line->size = 0;
    TESS_TRY(tess_buffer_printf(line, "{\"step\": %lld", (long long)report->step));
    TESS_TRY(put_numbers(line, list, EXACT));
    if (report->skipped)
        TESS_TRY(tess_buffer_printf(line, ", \"skipped\": true"));
    TESS_TRY(tess_buffer_printf(line, ", \"n_tokens\": %lld", (long long)report->n_tokens));
    TESS_TRY(put_numbers(line, list + EXACT, NUMBERS - EXACT));
    TESS_TRY(tess_buffer_printf(line, ", \"ranks\": %d", report->n_ranks)); /* here, as it may differ between runs */
    tess_pool_numbers peak = {.name = "peak_bytes"};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peak.bytes[pool] = (int64_t)report->peak_bytes[pool];
    TESS_TRY(put_pools(line, &peak));
    TESS_TRY(put_times(line, &report->times));
    TESS_TRY(put_metrics(line, report->metrics, report->n_metrics));
    return write_line(metrics);
}

static tess_status board_step(tess_metrics *metrics, const tess_step_report *report)
{
    step_number list[NUMBERS];
    list_numbers(report, list);
    for (int i = 0; i < NUMBERS; i++)
        if (list[i].tag != NULL && !list[i].is_unknown)
            TESS_TRY(tess_tensorboard_scalar(metrics->board, list[i].tag, report->step, (float)list[i].value));
    TESS_TRY(board_times(metrics, report));
    TESS_TRY(board_metrics(metrics, report->step, report->metrics, report->n_metrics));
    return tess_tensorboard_flush(metrics->board);
}

tess_status tess_metrics_step(tess_metrics *metrics, const tess_step_report *report)
{
    tess_status written = write_step(metrics, report);
    tess_status shown = metrics->board != NULL && report->log_line ? board_step(metrics, report) : TESS_OK;
    return written != TESS_OK ? written : shown;
}

tess_status tess_metrics_members(tess_metrics *metrics, int64_t step, const char *members)
{
    tess_buffer *line = &metrics->line;
    line->size = 0;
    TESS_TRY(tess_buffer_printf(line, "{\"step\": %lld, %s", (long long)step, members));
    return write_line(metrics);
}

tess_status tess_metrics_add(tess_metrics *metrics, int64_t step, const tess_metric *values, int n)
{
    tess_buffer *line = &metrics->line;
    line->size = 0;
    TESS_TRY(tess_buffer_printf(line, "{\"step\": %lld", (long long)step));
    TESS_TRY(put_metrics(line, values, n));
    tess_status written = write_line(metrics);
    if (metrics->board == NULL)
        return written;
    TESS_TRY(board_metrics(metrics, step, values, n));
    tess_status shown = tess_tensorboard_flush(metrics->board);
    return written != TESS_OK ? written : shown;
}

/* A missing result is null, never a number. Without a perplexity or bits per byte (0), the line and the board have no
 * such member. The loss of a partial evaluation gets its own tags, because it is not a point on the curve of the whole
 * text. */
tess_status tess_metrics_validation(tess_metrics *metrics, const tess_validation_report *report)
{
    tess_buffer *line = &metrics->line;
    bool missing = report->outcome == TESS_VALIDATION_MISSING, whole = report->outcome == TESS_VALIDATION_WHOLE;
    line->size = 0;
    TESS_TRY(tess_buffer_printf(line, "{\"step\": %lld", (long long)report->step));
    TESS_TRY(put_number(line, "validation_loss", missing ? NAN : report->loss));
    if (missing || report->perplexity != 0)
        TESS_TRY(put_number(line, "validation_perplexity", missing ? NAN : report->perplexity));
    if (missing || report->bits_per_byte != 0)
        TESS_TRY(put_number(line, "validation_bits_per_byte", missing ? NAN : report->bits_per_byte));
    TESS_TRY(tess_buffer_printf(line, ", \"validation_tokens\": %lld", (long long)report->n_tokens));
    if (report->outcome == TESS_VALIDATION_PARTIAL)
        TESS_TRY(tess_buffer_printf(line, ", \"validation_partial\": true, \"validation_tokens_all\": %lld",
                                    (long long)report->n_tokens_all));
    if (!whole) {
        json_t *string = tess_json_text(report->why);
        char *why = json_dumps(string, JSON_ENCODE_ANY);
        tess_status status = why != NULL ? tess_buffer_printf(line, ", \"validation_error\": %s", why)
                                         : TESS_FAIL(TESS_E_NOMEM, "metrics: 'validation_error'");
        free(why);
        json_decref(string);
        TESS_TRY(status);
    }
    tess_status written = write_line(metrics);
    if (metrics->board == NULL || missing)
        return written;
    TESS_TRY(tess_tensorboard_scalar(metrics->board,
                                     whole ? "validation_metrics/loss" : "validation_metrics/partial_loss",
                                     report->step, (float)report->loss));
    if (report->bits_per_byte != 0)
        TESS_TRY(tess_tensorboard_scalar(
            metrics->board, whole ? "validation_metrics/bits_per_byte" : "validation_metrics/partial_bits_per_byte",
            report->step, (float)report->bits_per_byte));
    tess_status shown = tess_tensorboard_flush(metrics->board);
    return written != TESS_OK ? written : shown;
}
