/* Reports which ranks of a pipeline have which stages, and which layers those have. */
#include <stdio.h>

#include "base/text/json.h"
#include "engine/stages/rank_stage.h"

const char *tess_stage_layers(const tess_stage_plan *plan, int stage, char text[TESS_STAGE_LAYERS])
{
    int first = plan->first[stage], last = plan->first[stage + 1] - 1;
    if (first == last)
        snprintf(text, TESS_STAGE_LAYERS, "%d", first);
    else
        snprintf(text, TESS_STAGE_LAYERS, "%d-%d", first, last);
    return text;
}

static tess_status print_stage(const tess_stage_plan *plan, int stage, tess_buffer *out)
{
    char layers[TESS_STAGE_LAYERS];
    bool head = stage == plan->shape.ranks * plan->shape.chunks - 1;
    return tess_buffer_printf(out, "stage %d: %slayers %s%s", stage, stage == 0 ? "embedding, " : "",
                              tess_stage_layers(plan, stage, layers), head ? ", head" : "");
}

tess_status tess_stage_plan_print(const tess_stage_plan *plan, tess_buffer *out)
{
    const tess_pipeline_schedule *shape = &plan->shape;
    TESS_TRY(tess_buffer_printf(out, "\nstages (%s)\n", tess_pipeline_kind_name(shape->kind)));
    for (int place = 0; place < shape->ranks; place++) {
        TESS_TRY(tess_buffer_printf(out, "pp %-4d ", place));
        for (int chunk = 0; chunk < shape->chunks; chunk++) {
            TESS_TRY(tess_buffer_printf(out, "%s", chunk > 0 ? "; " : ""));
            TESS_TRY(print_stage(plan, tess_pipeline_stage(shape, place, chunk), out));
        }
        TESS_TRY(tess_buffer_printf(out, "\n"));
    }
    return TESS_OK;
}

json_t *tess_stage_plan_json(const tess_stage_plan *plan)
{
    const tess_pipeline_schedule *shape = &plan->shape;
    int n_stages = shape->ranks * shape->chunks;
    json_t *stages = json_array();
    for (int stage = 0; stage < n_stages; stage++)
        json_array_append_new(stages, json_pack("{s:i, s:i, s:i, s:b, s:b}", "pp", tess_pipeline_rank_of(shape, stage),
                                                "first_layer", plan->first[stage], "n_layers",
                                                plan->first[stage + 1] - plan->first[stage], "embedding",
                                                (int)(stage == 0), "head", (int)(stage == n_stages - 1)));
    return json_pack("{s:s, s:o}", "schedule", tess_pipeline_kind_name(shape->kind), "stages", stages);
}
