/* Reports the outcomes of all layouts, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/json.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"
#include "verify/verify_layouts.h"

enum { JSON_VERSION = 1 };

#define PUT(...) TESS_TRY(tess_buffer_printf(out, __VA_ARGS__))

static const char *schedule_of(const tess_verify_layout *l)
{
    return l->schedule >= 0 ? tess_pipeline_kind_name((tess_pipeline_kind)l->schedule) : NULL;
}

/* Formats "pp 2 (1f1b) x dp_shard 2, zero2". */
static const char *name_layout(const tess_verify_layout *l, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int axis = 0; axis < TESS_AXES; axis++) {
        if (l->degree[axis] == 1)
            continue;
        at = tess_text_add(text, size, at, "%s%s %d", at > 0 ? " x " : "", tess_axis_name(axis), l->degree[axis]);
        if (axis == TESS_AXIS_PP && schedule_of(l) != NULL)
            at = tess_text_add(text, size, at, " (%s)", schedule_of(l));
    }
    tess_text_add(text, size, at, "%s%s", at > 0 ? ", " : "one rank, ", tess_strategy_name((tess_strategy)l->strategy));
    return text;
}

tess_status tess_verify_print_layout(const tess_verify_layout *l, tess_buffer *out)
{
    char name[128];
    PUT("%-8s %-44s", tess_verify_outcome_name(l->outcome), name_layout(l, name, sizeof(name)));
    if (l->outcome == TESS_VERIFY_REFUSED)
        PUT(" %s\n", l->text);
    else
        PUT(" %5.1f s%s%s\n", l->seconds, l->text[0] != '\0' ? "  " : "", l->text);
    return TESS_OK;
}

/* ---- One line per axis ---- */
/* Numbers of the lines: the degrees come first, then strategy and schedule. */
enum { STRATEGY = TESS_AXES, SCHEDULE, N_LINES };

static int value_of(const tess_verify_layout *l, int line)
{
    return line == STRATEGY ? l->strategy : line == SCHEDULE ? l->schedule : l->degree[line];
}

static const char *name_value(int line, int value, char text[16])
{
    if (line == STRATEGY)
        return tess_strategy_name((tess_strategy)value);
    if (line == SCHEDULE)
        return tess_pipeline_kind_name((tess_pipeline_kind)value);
    snprintf(text, 16, "%d", value);
    return text;
}

/* Prints, for each value of an axis, how many of the layouts that ran gave the same bits: "pp            1: 4 of 4,
 * 2: 17 of 18". */
static tess_status print_axis(const tess_verify_walk *walk, int line, tess_buffer *out)
{
    const char *title = line == STRATEGY ? "strategy" : line == SCHEDULE ? "schedule" : tess_axis_name(line);
    const char *separator = "";
    char text[16];
    int most = 0;
    for (int i = 0; i < walk->n; i++)
        most = value_of(&walk->layouts[i], line) > most ? value_of(&walk->layouts[i], line) : most;
    PUT("%-13s ", title);
    for (int value = 0; value <= most; value++) {
        int n = 0, n_same = 0;
        for (int i = 0; i < walk->n; i++) {
            const tess_verify_layout *l = &walk->layouts[i];
            n += value_of(l, line) == value && l->outcome != TESS_VERIFY_REFUSED;
            n_same += value_of(l, line) == value && l->outcome == TESS_VERIFY_SAME;
        }
        if (n == 0)
            continue;
        PUT("%s%s: %d of %d", separator, name_value(line, value, text), n_same, n);
        separator = ", ";
    }
    PUT("%s\n", separator[0] == '\0' ? "none" : "");
    return TESS_OK;
}

tess_status tess_verify_print_walk(const tess_verify_walk *walk, tess_buffer *out)
{
    int n_same = tess_verify_walk_count(walk, TESS_VERIFY_SAME),
        n_refused = tess_verify_walk_count(walk, TESS_VERIFY_REFUSED), n_run = walk->n - n_refused;
    PUT("layouts of %d rank%s with the bits of one rank, after each of %" PRId64 " step%s of %" PRId64 " rows:\n",
        walk->ranks, walk->ranks == 1 ? "" : "s", walk->steps, walk->steps == 1 ? "" : "s", walk->global_batch);
    for (int line = 0; line < N_LINES; line++)
        TESS_TRY(print_axis(walk, line, out));
    if (n_run == 0) {
        PUT("nothing is known: none of %d layouts can run with this configuration\n", walk->n);
        return TESS_OK;
    }
    PUT("%s: %d of %d", n_same == n_run ? "the same bits" : "not the same", n_same, n_run);
    if (n_refused > 0)
        PUT(" (%d more cannot run with this configuration)", n_refused);
    PUT("\n");
    return TESS_OK;
}

/* ---- JSON ---- */
tess_status tess_verify_print_walk_json(const tess_verify_walk *walk, tess_buffer *out)
{
    json_t *layouts = json_array();
    for (int i = 0; i < walk->n; i++) {
        const tess_verify_layout *l = &walk->layouts[i];
        json_t *layout =
            json_pack("{s:s, s:s, s:s?, s:s?, s:o}", "outcome", tess_verify_outcome_name(l->outcome), "strategy",
                      tess_strategy_name((tess_strategy)l->strategy), "schedule", schedule_of(l), "text",
                      l->text[0] != '\0' ? l->text : NULL, "seconds", tess_json_number(l->seconds));
        for (int axis = 0; axis < TESS_AXES; axis++)
            json_object_set_new(layout, tess_axis_name(axis), json_integer(l->degree[axis]));
        json_array_append_new(layouts, layout);
    }
    json_t *report = json_pack("{s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i, s:o}", "version", JSON_VERSION, "ranks",
                               walk->ranks, "steps", (json_int_t)walk->steps, "global_batch_size",
                               (json_int_t)walk->global_batch, "same", tess_verify_walk_count(walk, TESS_VERIFY_SAME),
                               "differs", tess_verify_walk_count(walk, TESS_VERIFY_DIFFERS), "failed",
                               tess_verify_walk_count(walk, TESS_VERIFY_FAILED), "refused",
                               tess_verify_walk_count(walk, TESS_VERIFY_REFUSED), "layouts", layouts);
    return tess_json_print(report, JSON_INDENT(1), out);
}
