#include "plan/plan_pictures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "plan/plan_report.h"
#include "plan/step_spans.h"

enum { JSON_VERSION = 1, COLUMNS = 60, TIME_COLUMNS = 96 };

const tess_form_part tess_plan_pictures_form[] = {
    {.text =
         "{ranks} rank{ranks:s} on {machine}, {rows} rows of {seq_len} tokens a step\n\n"
         "memory of the rank that needs most: {memory_letters}\n"
         "{*layouts}  {number:2} [{memory:!}{memory_bar:-60} {memory_text}[ TOO LARGE by {missing:B}[{of_host:!} of "
         "the host's memory]]|refused: "
         "{refused}]\n{/}"
         "\ntime of a step: {time_letters}\n"
         "{*layouts}[{time:!}  {number:2} {time_bar:-60} {step_ms:m} ms, {tokens_per_s:c} tokens/s, MFU {mfu:%}\n]{/}"
         "\nlayouts\n{*layouts}  {number:2} {name}\n{/}"
         "\ntime line of a step of layout 1[{timeline.cut:!}, its first {timeline.micros} of "
         "{timeline.all_micros} micro-batches a rank], {timeline.end_ms:m} ms[ without {timeline.waits_ms:m} ms of "
         "waits for ranks with more "
         "attention]: {timeline.letters}\n"
         "{*timeline.rows}  rank {rank:5} {bar}\n{/}"
         "[{scaling:!}\nscaling of layout 1, with the same batch (strong), and with a batch that grows with the ranks "
         "(weak)\n"
         "   ranks  strong tokens/s   of ideal   weak tokens/s   of ideal\n"
         "{*scaling}  {ranks:6} {strong_text:16} {strong_share:10.1%} {weak_text:15} {weak_share:10.1%}  {bar}\n{/}]"},
    {NULL, NULL}};

/* ---- One plan ---- */
/* Sets the words, and the batch of a step. */
static tess_status configure(const tess_config *base, const char *settings, int64_t rows, tess_config *config)
{
    char words[TESS_TEXT_SIZE], *save = NULL;
    TESS_TRY(tess_config_copy(base, config));
    if (rows > 0)
        config->training.global_batch_size = rows;
    TESS_CHECK(strlen(settings) < sizeof(words), TESS_E_INVALID, "--layout: %zu characters are too many",
               strlen(settings));
    snprintf(words, sizeof(words), "%s", settings);
    for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        TESS_TRY(tess_config_override(config, word));
    return TESS_OK;
}

/* Checks the configuration for n_ranks, and plans it. */
static tess_status plan_of(tess_planner *planner, const tess_plan_request *request, tess_config *config, int n_ranks,
                           tess_plan *plan, json_t **report)
{
    tess_plan_request q = *request;
    TESS_TRY(tess_config_check_step(config, n_ranks));
    q.config = config;
    q.n_ranks = n_ranks;
    if (n_ranks != request->n_ranks)
        q.ranks_a_host = 0;
    TESS_TRY(tess_plan_make(planner, &q, plan));
    if (report != NULL)
        *report = tess_plan_json(&q, plan);
    return TESS_OK;
}

static bool is_refused(tess_status status)
{
    return status == TESS_E_INVALID || status == TESS_E_UNSUPPORTED;
}

/* ---- Letters ---- */
/* Draws values as a bar of `columns` letters, where `all` fills it. The letter of a part is its first one. */
static void draw_bar(const json_t *parts, const char *key, double all, char *text)
{
    size_t i, at = 0;
    const json_t *part;
    double sum = 0;
    json_array_foreach (parts, i, part) {
        sum += json_number_value(json_object_get(part, key));
        const char letter = json_string_value(json_object_get(part, "name"))[0];
        const double end = all > 0 ? round(COLUMNS * sum / all) : 0;
        while (at < COLUMNS && (double)at < end)
            text[at++] = letter;
    }
    text[at] = '\0';
}

static double sum_of(const json_t *parts, const char *key)
{
    size_t i;
    const json_t *part;
    double sum = 0;
    json_array_foreach (parts, i, part)
        sum += json_number_value(json_object_get(part, key));
    return sum;
}

/* Adds the bars, which depend on the largest of all layouts. */
static void add_bars(json_t *layouts)
{
    size_t i;
    json_t *layout;
    double most_bytes = 0, most_ms = 0;
    char bar[COLUMNS + 1];
    json_array_foreach (layouts, i, layout) {
        most_bytes = fmax(most_bytes, sum_of(json_object_get(layout, "memory"), "bytes"));
        most_ms = fmax(most_ms, sum_of(json_object_get(layout, "time"), "ms"));
    }
    json_array_foreach (layouts, i, layout) {
        if (json_object_get(layout, "memory") == NULL)
            continue;
        draw_bar(json_object_get(layout, "memory"), "bytes", most_bytes, bar);
        json_object_set_new(layout, "memory_bar", json_string(bar));
        draw_bar(json_object_get(layout, "time"), "ms", most_ms, bar);
        json_object_set_new(layout, "time_bar", json_string(bar));
    }
}

/* ---- Layouts ---- */
static void take(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        json_object_set(to, *keys, json_object_get(from, *keys));
}

static tess_status add_layout(tess_planner *planner, const tess_pictures_request *q, int i, json_t *layouts)
{
    static const char *const of_time[] = {"step_ms", "tokens_per_s", "mfu", "bound", "bound_axis", NULL};
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan plan;
    char bytes[32];
    json_auto_t *report = NULL;
    const char *settings = q->layouts[i];
    json_t *layout = json_pack("{s:i, s:o}", "number", i + 1, "name",
                               tess_json_text(settings[0] != '\0' ? settings : "as configured"));
    json_array_append_new(layouts, layout);
    TESS_TRY_CTX(configure(q->plan.config, settings, 0, &config), "layout %d", i + 1);
    const tess_status status = plan_of(planner, &q->plan, &config, q->plan.n_ranks, &plan, &report);
    if (i > 0 && is_refused(status)) {
        json_object_set_new(layout, "refused", tess_json_text(tess_error_message()));
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    const json_t *memory = json_object_get(report, "memory"), *time = json_object_get(report, "time");
    json_object_set(layout, "memory", json_object_get(memory, "pools"));
    json_object_set(layout, "time", json_object_get(time, "parts"));
    take(layout, time, of_time);
    tess_format_bytes(sum_of(json_object_get(memory, "pools"), "bytes"), bytes, sizeof(bytes));
    json_object_set_new(layout, "memory_text", json_string(bytes));
    if (plan.memory.missing > 0)
        json_object_update_new(
            layout,
            json_pack("{s:f, s:b}", "missing", plan.memory.missing, "of_host",
                      (int)tess_plan_short_of(q->plan.machine, plan.memory.bytes, plan.memory.missing).of_gpu_host));
    return TESS_OK;
}

/* ---- The time line ---- */
static char letter_of(int kind)
{
    return kind == TESS_SPAN_WAIT     ? '.'
           : kind == TESS_SPAN_BUBBLE ? ' '
           : kind == TESS_PHASE_OTHER ? '-'
                                      : tess_span_name(kind)[0];
}

/* Draws a row: each letter stands for the kind that fills most of its columns. */
static void draw_row(const tess_step_spans *s, int row, char text[TIME_COLUMNS + 1])
{
    enum { EACH = TESS_SPAN_COLUMNS / TIME_COLUMNS };
    _Static_assert(EACH * TIME_COLUMNS == TESS_SPAN_COLUMNS, "letters have whole columns");
    uint8_t kinds[TESS_SPAN_COLUMNS];
    tess_step_spans_columns(s, row, kinds);
    for (int c = 0; c < TIME_COLUMNS; c++) {
        int n[TESS_SPAN_KINDS] = {0}, most = kinds[EACH * c];
        for (int i = 0; i < EACH; i++)
            n[kinds[EACH * c + i]]++;
        for (int kind = 0; kind < TESS_SPAN_KINDS; kind++)
            most = n[kind] > n[most] ? kind : most;
        text[c] = letter_of(most);
    }
    text[TIME_COLUMNS] = '\0';
}

static json_t *spans_json(const tess_step_spans *s)
{
    json_t *spans = json_array();
    for (size_t i = 0; i < s->n; i++) {
        const tess_step_span *span = &s->spans[i];
        json_array_append_new(spans,
                              json_pack("[i, i, f, f]", span->row, span->kind, span->begin_s * 1e3, span->end_s * 1e3));
    }
    return spans;
}

/* Lists the kinds, and writes the letters of those that the step has. */
static json_t *kinds_json(const tess_step_spans *s, char *letters, size_t size)
{
    size_t at = 0;
    bool used[TESS_SPAN_KINDS] = {false};
    json_t *kinds = json_array();
    for (size_t i = 0; i < s->n; i++)
        used[s->spans[i].kind] = true;
    for (int kind = 0; kind < TESS_SPAN_KINDS; kind++) {
        json_array_append_new(kinds, json_string(tess_span_name(kind)));
        if (used[kind] && kind != TESS_SPAN_BUBBLE)
            at = tess_text_add(letters, size, at, "%s%c %s", at > 0 ? ", " : "", letter_of(kind), tess_span_name(kind));
    }
    return kinds;
}

static json_t *time_line_json(const tess_step_spans *s)
{
    char bar[TIME_COLUMNS + 1], letters[256] = "";
    json_t *rows = json_array(), *kinds = kinds_json(s, letters, sizeof(letters));
    for (int row = 0; row < s->n_rows && s->n > 0; row++) {
        draw_row(s, row, bar);
        json_array_append_new(rows, json_pack("{s:i, s:s}", "rank", s->rank[row], "bar", bar));
    }
    json_t *json =
        json_pack("{s:I, s:I, s:b, s:f, s:s, s:o, s:o, s:o}", "micros", (json_int_t)s->n_micros, "all_micros",
                  (json_int_t)s->all_micros, "cut", s->n_micros < s->all_micros, "end_ms", tess_step_spans_end(s) * 1e3,
                  "letters", letters, "rows", rows, "kinds", kinds, "spans", spans_json(s));
    if (s->waits_s > 0)
        json_object_set_new(json, "waits_ms", json_real(s->waits_s * 1e3));
    return json;
}

static tess_status add_time_line(tess_mem *mem, tess_planner *planner, const tess_pictures_request *q, json_t *report)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan_request request = q->plan;
    tess_step_spans spans = {.mem = mem};
    TESS_TRY(configure(q->plan.config, q->layouts[0], 0, &config));
    TESS_TRY(tess_config_check_step(&config, request.n_ranks));
    request.config = &config;
    tess_status status = tess_plan_time_line(planner, &request, &spans);
    if (status == TESS_OK)
        status = tess_step_spans_coarsen(&spans);
    if (status == TESS_OK)
        json_object_set_new(report, "timeline", time_line_json(&spans));
    tess_step_spans_free(&spans);
    return status;
}

/* ---- Scaling ---- */
/* Plans for n ranks, with the rows of a step. Returns the tokens per second; 0: such a layout is refused. */
static tess_status rate_of(tess_planner *planner, const tess_pictures_request *q, int n, int64_t rows, double *rate)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan plan;
    tess_plan_request request = q->plan;
    *rate = 0;
    request.options.no_memory = true;
    TESS_TRY(configure(q->plan.config, q->layouts[0], rows, &config));
    const tess_status status = plan_of(planner, &request, &config, n, &plan, NULL);
    if (is_refused(status)) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    *rate = plan.time.tokens_per_s;
    return TESS_OK;
}

static void add_rate(json_t *point, const char *key, double rate, double ideal)
{
    char text[32], name[32];
    if (rate <= 0)
        return;
    json_object_set_new(point, key, json_real(rate));
    snprintf(name, sizeof(name), "%s_share", key);
    json_object_set_new(point, name, json_real(rate / ideal));
    snprintf(name, sizeof(name), "%s_text", key);
    json_object_set_new(point, name, json_string(tess_format_count((int64_t)rate, text, sizeof(text))));
}

/* Draws a share of the ideal, which has 20 characters. */
static json_t *share_bar(double share)
{
    enum { IDEAL = 20, MOST = 40 };
    char bar[MOST + 1] = "";
    const int n = (int)fmin(MOST, round(IDEAL * share));
    memset(bar, '#', (size_t)n);
    return json_string(bar);
}

/* Adds a point for 1, 2, 4 ... ranks and for all. The smallest number that is possible is the ideal of the others. */
static tess_status add_scaling(tess_planner *planner, const tess_pictures_request *q, json_t *report)
{
    const int most = q->plan.n_ranks;
    const int64_t rows = q->plan.config->training.global_batch_size;
    double strong_each = 0, weak_each = 0; /* tokens per second of a rank, of the smallest number */
    json_t *points = json_array();
    json_object_set_new(report, "scaling", points);
    for (int n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
        double strong, weak = 0;
        const int64_t share = rows * n / most;
        TESS_TRY(rate_of(planner, q, n, rows, &strong));
        if (share > 0 && rows * n % most == 0)
            TESS_TRY(rate_of(planner, q, n, share, &weak));
        strong_each = strong_each > 0 ? strong_each : strong / n;
        weak_each = weak_each > 0 ? weak_each : weak / n;
        if (strong <= 0 && weak <= 0)
            continue;
        json_t *point = json_pack("{s:i}", "ranks", n);
        json_array_append_new(points, point);
        add_rate(point, "strong", strong, strong_each * n);
        add_rate(point, "weak", weak, weak_each * n);
        if (strong > 0)
            json_object_set_new(point, "bar", share_bar(strong / (strong_each * n)));
    }
    if (json_array_size(points) < 2)
        json_object_del(report, "scaling");
    return TESS_OK;
}

/* ---- All ---- */
tess_status tess_plan_pictures(tess_mem *mem, tess_planner *planner, const tess_pictures_request *q, json_t **out)
{
    const tess_machine *m = q->plan.machine;
    const int n_local = q->plan.ranks_a_host > 0 ? q->plan.ranks_a_host : tess_machine_ranks_a_host(m, q->plan.n_ranks);
    const double share = m->machine.kind == TESS_MACHINE_GPU ? 1 : n_local;
    json_t *layouts = json_array();
    json_auto_t *report =
        json_pack("{s:i, s:i, s:s, s:I, s:I, s:f, s:s, s:s, s:o}", "version", JSON_VERSION, "ranks", q->plan.n_ranks,
                  "machine", m->machine.title[0] != '\0' ? m->machine.title : m->machine.name, "rows",
                  (json_int_t)q->plan.config->training.global_batch_size, "seq_len",
                  (json_int_t)q->plan.config->training.seq_len, "room", m->memory.gb * 1e9 / share, "memory_letters",
                  "p params, g grads, o optimizer, a activations, c comm, k kv-cache, m misc", "time_letters",
                  "k kernels, e exposed communication, b bubble, o optimizer or other, l loader", "layouts", layouts);
    for (int i = 0; i < q->n_layouts; i++)
        TESS_TRY(add_layout(planner, q, i, layouts));
    add_bars(layouts);
    TESS_TRY(add_time_line(mem, planner, q, report));
    TESS_TRY(add_scaling(planner, q, report));
    *out = json_incref(report);
    return TESS_OK;
}
