/* `tessera pipeline`: simulates pipeline schedules and compares them. */
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "parallel/pipeline/pipeline.h"
#include "parallel/pipeline/pipeline_stages.h"

#include "base/text/json.h"

enum { JSON_VERSION = 1 };

static const double small_bubble = 0.1;

typedef struct pipeline_flags {
    const char *schedule, *csv, *costs, *trace;
    int64_t ranks, micros, chunks, layers, buffers, columns;
    double embedding, head;
    tess_form_style style;
} pipeline_flags;

/* One schedule with its simulated results. */
typedef struct pipeline_case {
    tess_pipeline_schedule schedule;
    tess_pipeline_report report;
    tess_pipeline_costs costs;
    int *first;      /* (stages + 1) first layer of each stage; NULL: --layers was not given */
    double *shares;  /* (stages) cost of each stage relative to the mean */
    bool is_of_file; /* the order is that of --csv, for which no formula holds */
} pipeline_case;

/* Parses "F,B,W,SEND". Later values may be left out. */
static tess_status read_costs(const char *text, tess_pipeline_costs *costs)
{
    static const double longest = 1e6; /* the nanoseconds of a whole trace fit into 64 bits */
    double *const places[] = {&costs->forward, &costs->input, &costs->weight, &costs->send};
    *costs = (tess_pipeline_costs){.forward = 1, .input = 1, .weight = 1};
    for (int i = 0; text != NULL && i < 4; i++) {
        char *end;
        *places[i] = strtod(text, &end);
        TESS_CHECK(end != text && (*end == '\0' || (*end == ',' && i < 3)) && *places[i] >= 0 && *places[i] <= longest,
                   TESS_E_INVALID,
                   "--costs: '%.60s': write up to four times from 0 to 1e6, F,B,W,SEND, as in 1,1,1,0.1", text);
        text = *end == ',' ? end + 1 : NULL;
    }
    TESS_CHECK(costs->forward > 0, TESS_E_INVALID, "--costs: a forward takes more than 0");
    costs->backward = costs->input + costs->weight;
    return TESS_OK;
}

/* Divides the layers among stages. The cost of a stage is expressed relative to the mean cost. */
static tess_status cut_layers(tess_mem *mem, const pipeline_flags *flags, pipeline_case *c)
{
    const size_t stages = (size_t)c->schedule.ranks * (size_t)c->schedule.chunks, layers = (size_t)flags->layers;
    const double all = (double)flags->layers + flags->embedding + flags->head;
    double *costs;
    TESS_TRY(TESS_NEW(mem, stages + 1, "stages", &c->first));
    TESS_TRY(TESS_NEW(mem, stages, "stages", &c->shares));
    TESS_TRY(TESS_NEW(mem, layers, "layers", &costs));
    for (size_t l = 0; l < layers; l++)
        costs[l] = 1;
    tess_status status =
        tess_pipeline_cut_by_cost(mem, costs, (int)layers, flags->embedding, flags->head, (int)stages, c->first);
    tess_mem_free(mem, costs);
    for (size_t g = 0; g < stages && status == TESS_OK; g++) {
        double own =
            c->first[g + 1] - c->first[g] + (g == 0 ? flags->embedding : 0) + (g == stages - 1 ? flags->head : 0);
        c->shares[g] = own * (double)stages / all;
    }
    c->costs.share = c->shares;
    return status;
}

static void close_case(tess_mem *mem, pipeline_case *c)
{
    tess_pipeline_report_free(&c->report);
    tess_pipeline_free(&c->schedule);
    tess_mem_free(mem, c->first);
    tess_mem_free(mem, c->shares);
}

/* Builds and simulates one schedule. --costs gives the times of one stage; with `whole`, those of all layers of a
 * rank. The caller must close the case even after a failure. */
static tess_status open_case(tess_mem *mem, const pipeline_flags *flags, tess_pipeline_kind kind, int chunks,
                             bool whole, pipeline_case *c)
{
    *c = (pipeline_case){0};
    TESS_TRY(read_costs(flags->costs, &c->costs));
    c->costs.buffers = (int)flags->buffers;
    for (int i = 0; whole && i < 4; i++)
        *(double *const[]){&c->costs.forward, &c->costs.backward, &c->costs.input, &c->costs.weight}[i] /= chunks;
    const tess_pipeline_schedule shape = {
        .kind = kind, .ranks = (int)flags->ranks, .chunks = chunks, .micros = (int)flags->micros};
    c->is_of_file = flags->csv != NULL;
    if (c->is_of_file)
        TESS_TRY(tess_pipeline_load_csv(mem, flags->csv, &shape, &c->schedule));
    else
        TESS_TRY(tess_pipeline_build(mem, kind, shape.ranks, chunks, shape.micros, &c->schedule));
    if (flags->layers > 0)
        TESS_TRY(cut_layers(mem, flags, c));
    return tess_pipeline_check(&c->schedule, &c->costs, &c->report);
}

static const tess_form_part case_form[] = {
    {.text = "{schedule}: {n_ranks} rank{n_ranks:s}, {chunks} chunk{chunks:s} a rank, {micro_batches} "
             "micro-batch{micro_batches:|es}\n"
             "a stage: forward {costs.forward:g}, backward {costs.backward_inputs:g} for inputs and "
             "{costs.backward_weights:g} for weights, message {costs.message:g}\n\n"
             "{timeline}F forward, B backward, I and W its parts for inputs and weights, . idle"
             "[{has_odd:!}; small letters: odd chunks]\n\n"
             "rank   busy   idle  in flight  stages: slots\n"},
    {.list = "ranks",
     .text = "{rank:4} {busy:6g} {idle:6.1%} {in_flight:10}  {*stages: }{stage}: {slots}[{layers:!} (layers "
             "{first_layer} .. "
             "{last_layer})]{/}\n"},
    {.text = "\nlength {length:g}, bubble {bubble:.1%}[{formula:!}; by the formula {formula}: {formula_bubble:.1%}]\n"
             "at most {message_buffers} message{message_buffers:s} wait{message_buffers:s|} between two stages\n"
             "[{is_large:!}[{micro_batches_for_10_percent} micro-batch{micro_batches_for_10_percent:|es} or more make "
             "it smaller than 10%"
             "|no number of micro-batches that can be simulated makes it smaller than 10%]\n]"},
    {NULL, NULL}};

static json_t *actions_json(const pipeline_case *c, int r)
{
    const tess_pipeline_list *list = &c->schedule.lists[r];
    json_t *actions = json_array();
    for (int i = 0; i < list->n; i++) {
        const tess_pipeline_action *a = &list->actions[i];
        json_array_append_new(actions,
                              json_pack("{s:s, s:i, s:i, s:i, s:b, s:f, s:f}", "op", tess_pipeline_op_name(a->op),
                                        "chunk", a->chunk, "micro_batch", a->micro, "slot", a->slot, "last", a->last,
                                        "start", c->report.times[r][i].start, "end", c->report.times[r][i].end));
    }
    return actions;
}

static tess_status rank_json(const pipeline_case *c, int r, json_t *list)
{
    const tess_pipeline_schedule *s = &c->schedule;
    tess_buffer order = {.mem = s->mem};
    json_t *stages = json_array();
    TESS_TRY(tess_pipeline_print_order(s, r, &order));
    for (int chunk = 0; chunk < s->chunks; chunk++) {
        int stage = tess_pipeline_stage(s, r, chunk);
        json_t *item = json_pack("{s:i, s:i}", "stage", stage, "slots", s->lists[r].slots[chunk]);
        if (c->first != NULL) {
            tess_json_put_int(item, "first_layer", c->first[stage]);
            tess_json_put_int(item, "layers", c->first[stage + 1] - c->first[stage]);
            tess_json_put_int(item, "last_layer", c->first[stage + 1] - 1);
        }
        json_array_append_new(stages, item);
    }
    json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:i, s:o, s:s, s:o}", "rank", r, "busy", c->report.busy[r],
                                          "idle", c->report.idle[r], "in_flight", s->lists[r].in_flight, "stages",
                                          stages, "order", order.data, "actions", actions_json(c, r)));
    tess_buffer_free(&order);
    return TESS_OK;
}

static tess_status case_json(const pipeline_case *c, json_t **json)
{
    const tess_pipeline_schedule *s = &c->schedule;
    const char *formula = NULL;
    const double stated = c->is_of_file ? NAN : tess_pipeline_formula(s, &c->costs, &formula);
    json_t *ranks = json_array();
    int micros = 0;
    if (!c->is_of_file)
        TESS_TRY(tess_pipeline_least_micros(s, &c->costs, small_bubble, &micros));
    for (int r = 0; r < s->ranks; r++)
        TESS_TRY(rank_json(c, r, ranks));
    *json = json_pack("{s:i, s:s, s:i, s:i, s:{s:f, s:f, s:f, s:f}, s:f, s:f, s:s?, s:o, s:i, s:o}", "version",
                      JSON_VERSION, "schedule", tess_pipeline_kind_name(s->kind), "chunks", s->chunks, "micro_batches",
                      s->micros, "costs", "forward", c->costs.forward, "backward_inputs", c->costs.input,
                      "backward_weights", c->costs.weight, "message", c->costs.send, "length", c->report.makespan,
                      "bubble", c->report.bubble, "formula", formula, "formula_bubble", tess_json_number(stated),
                      "message_buffers", c->report.buffers, "ranks", ranks);
    tess_json_put_int(*json, "micro_batches_for_10_percent", micros);
    return TESS_OK;
}

/* Adds the picture that people see in place of the actions. */
static tess_status add_picture(const pipeline_case *c, int columns, json_t *report)
{
    tess_buffer text = {.mem = c->schedule.mem};
    TESS_TRY(tess_pipeline_print_timeline(&c->schedule, &c->report, columns, &text));
    json_object_update_new(report, json_pack("{s:i, s:s, s:b, s:b}", "n_ranks", c->schedule.ranks, "timeline",
                                             text.data, "has_odd", c->schedule.chunks > 1, "is_large",
                                             c->report.bubble >= small_bubble && !c->is_of_file));
    tess_buffer_free(&text);
    return TESS_OK;
}

static tess_status show(tess_mem *mem, const pipeline_flags *flags, const pipeline_case *c)
{
    json_auto_t *json = NULL;
    if (flags->trace != NULL)
        TESS_TRY(tess_pipeline_write_trace(&c->schedule, &c->report, flags->trace));
    TESS_TRY(case_json(c, &json));
    if (flags->style == TESS_FORM_TEXT)
        TESS_TRY(add_picture(c, (int)flags->columns, json));
    return cli_report(mem, json_incref(json), case_form, flags->style, JSON_INDENT(2));
}

static tess_status show_one(tess_mem *mem, const pipeline_flags *flags)
{
    pipeline_case c;
    tess_pipeline_kind kind;
    TESS_TRY_CTX(tess_pipeline_kind_parse(flags->schedule, &kind), "--schedule");
    int chunks = flags->chunks > 0 ? (int)flags->chunks : tess_pipeline_usual_chunks(kind);
    tess_status status = open_case(mem, flags, kind, chunks, false, &c);
    if (status == TESS_OK)
        status = show(mem, flags, &c);
    close_case(mem, &c);
    return status;
}

/* ---- All schedules ---- */
/* Returns the largest number of micro-batches that a rank holds, counted in units of all its layers. */
static double held(const pipeline_case *c)
{
    int most = 0;
    for (int r = 0; r < c->schedule.ranks; r++)
        most = c->report.in_flight[r] > most ? c->report.in_flight[r] : most;
    return (double)most / c->schedule.chunks;
}

static const tess_form_part comparison_form[] = {
    {.text = "{ranks} rank{ranks:s}, {micro_batches} micro-batch{micro_batches:|es}; all layers of a rank: forward "
             "{costs.forward:g}, backward {costs.input:g} for inputs and {costs.weight:g} for weights; message "
             "{costs.send:g}\n"
             "schedule     chunks    length  bubble  in flight (of all layers of a rank)\n"},
    {.list = "schedules",
     .text = "{schedule:-12}[{refused:!} {refused}][{chunks:!} {chunks:6} {length:9.4g} {bubble:7.1%} "
             "{in_flight:10.4g}]\n"},
    {NULL, NULL}};

static tess_status add_schedule(tess_mem *mem, const pipeline_flags *flags, tess_pipeline_kind kind, json_t *list,
                                int *n_refused)
{
    const char *name = tess_pipeline_kind_name(kind);
    int chunks =
        kind == TESS_PIPELINE_INTERLEAVED && flags->chunks > 0 ? (int)flags->chunks : tess_pipeline_usual_chunks(kind);
    pipeline_case c;
    tess_status status = open_case(mem, flags, kind, chunks, true, &c);
    if (status == TESS_E_INVALID) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "schedule", name, "refused", tess_error_message()));
        tess_error_clear();
        ++*n_refused;
        status = TESS_OK;
    } else if (status == TESS_OK) {
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f, s:f}", "schedule", name, "chunks", chunks, "length",
                                              c.report.makespan, "bubble", c.report.bubble, "in_flight", held(&c)));
    }
    close_case(mem, &c);
    return status;
}

static tess_status compare(tess_mem *mem, const pipeline_flags *flags)
{
    tess_pipeline_costs costs;
    TESS_TRY(read_costs(flags->costs, &costs));
    json_t *list = json_array();
    json_auto_t *report = json_pack("{s:i, s:o}", "version", JSON_VERSION, "schedules", list);
    int n_refused = 0;
    for (int k = 0; k < TESS_PIPELINE_KINDS; k++)
        TESS_TRY(add_schedule(mem, flags, (tess_pipeline_kind)k, list, &n_refused));
    TESS_CHECK(n_refused < TESS_PIPELINE_KINDS, TESS_E_INVALID, "%s",
               json_string_value(json_object_get(json_array_get(list, 0), "refused")));
    if (flags->style == TESS_FORM_TEXT)
        json_object_update_new(report,
                               json_pack("{s:I, s:I, s:{s:f, s:f, s:f, s:f}}", "ranks", (json_int_t)flags->ranks,
                                         "micro_batches", (json_int_t)flags->micros, "costs", "forward", costs.forward,
                                         "input", costs.input, "weight", costs.weight, "send", costs.send));
    return cli_report(mem, json_incref(report), comparison_form, flags->style, JSON_INDENT(2));
}

static int run(tess_mem *mem, int argc, char **argv)
{
    pipeline_flags chosen = {.columns = 120};
    const cli_flag flags[] = {
        {"--schedule", "NAME", "gpipe, 1f1b, interleaved, zb_h1, zbv or dualpipev; without it all are compared",
         .text = &chosen.schedule},
        {"--csv", "FILE", "with --schedule: an order of computations in torchtitan's form, a row for each rank",
         .text = &chosen.csv},
        {"--stages", "P", "ranks of the pipeline", .integer = &chosen.ranks, .min = 1, .max = 1 << 14},
        {"--micro-batches", "M", "micro-batches of a step", .integer = &chosen.micros, .min = 1, .max = 1 << 20},
        {"--chunks", "V", "stages of each rank (1; interleaved, zbv, dualpipev: 2)", .integer = &chosen.chunks,
         .min = 1, .max = 1 << 10},
        {"--costs", "F,B,W,SEND", "time of forward, backward for inputs and for weights, message (1,1,1,0)",
         .text = &chosen.costs},
        {"--buffers", "N", "messages that may wait between two stages (0: as many as come)", .integer = &chosen.buffers,
         .min = 0, .max = 1 << 20},
        {"--layers", "L", "cuts so many layers into stages, as evenly as can be", .integer = &chosen.layers, .min = 1,
         .max = 1 << 12},
        {"--embedding", "N", "what the embedding costs, in layers (0)", .number = &chosen.embedding, .least = 0,
         .most = 1e6},
        {"--head", "N", "what the head costs, in layers (0)", .number = &chosen.head, .least = 0, .most = 1e6},
        {"--columns", "N", "width of the picture (120)", .integer = &chosen.columns, .min = 20, .max = 1 << 16},
        {"--trace", "FILE", "write a timeline for ui.perfetto.dev", .text = &chosen.trace},
        CLI_STYLES(&chosen.style)};
    if (cli_parse(argc, argv, &cli_pipeline, flags, sizeof(flags) / sizeof(flags[0])) > 0)
        return cli_misuse(&cli_pipeline, "'%.60s' is no option", argv[1]);
    if (chosen.ranks == 0 || chosen.micros == 0)
        return cli_misuse(&cli_pipeline, "--stages and --micro-batches say how large the pipeline is");
    if (chosen.schedule == NULL && chosen.csv != NULL)
        return cli_misuse(&cli_pipeline,
                          "--csv is the order of one schedule: --schedule says which rank has which stage");
    if (chosen.schedule == NULL && chosen.trace != NULL)
        return cli_misuse(&cli_pipeline, "--trace draws one schedule: choose it with --schedule");
    return cli_end(chosen.schedule != NULL ? show_one(mem, &chosen) : compare(mem, &chosen));
}

const cli_command cli_pipeline = {
    "pipeline", "--stages P --micro-batches M [--schedule NAME] [--chunks V] [--costs F,B,W,SEND]",
    "compare schedules of a pipeline: timeline, bubble, micro-batches in flight, and what would be better\n"
    "A simulation: nothing is started.",
    .examples = "tessera pipeline --stages 4 --micro-batches 8\n"
                "tessera pipeline --stages 4 --micro-batches 8 --schedule zbv --costs 1,1,1,0.1\n"
                "tessera pipeline --stages 4 --micro-batches 8 --layers 30 --head 2",
    .run = run};
