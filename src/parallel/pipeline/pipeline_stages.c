#include "parallel/pipeline/pipeline_stages.h"

#include <math.h>
#include <stdio.h>

/* The layers to divide over stages. Embedding and head count as a number of layers. */
typedef struct counted_layers {
    int layers, first_less, last_less;
} counted_layers;

static int all_of(const counted_layers *l)
{
    return l->layers + l->first_less + l->last_less;
}

static int stages_of(const counted_layers *l, int layers_per_stage)
{
    return (all_of(l) - 1) / layers_per_stage + 1;
}

/* The number of layers that the embedding or the head of stage `g` counts as. */
static int less_of(const counted_layers *l, int stages, int g)
{
    return (g == 0 ? l->first_less : 0) + (g == stages - 1 ? l->last_less : 0);
}

/* Returns the layers of stage `g`, including the layers that its embedding or head counts as. The remainder goes to
 * the first stages. */
static int size_of(const counted_layers *l, int stages, int g)
{
    return all_of(l) / stages + (g < all_of(l) % stages);
}

static bool each_has_a_layer(const counted_layers *l, int stages)
{
    return l->layers >= stages && size_of(l, stages, 0) > less_of(l, stages, 0) &&
           size_of(l, stages, stages - 1) > less_of(l, stages, stages - 1);
}

static bool fits(const counted_layers *l, int layers_per_stage, tess_pipeline_kind kind, int ranks)
{
    const int stages = stages_of(l, layers_per_stage);
    return stages % ranks == 0 && tess_pipeline_takes_chunks(kind, stages / ranks) && each_has_a_layer(l, stages);
}

/* Returns the nearest valid number of layers per stage, in steps of `step`. 0: none is valid. */
static int nearest(const counted_layers *l, int layers_per_stage, int step, tess_pipeline_kind kind, int ranks)
{
    int n = layers_per_stage < all_of(l) ? layers_per_stage : all_of(l);
    while (n >= 1 && n <= all_of(l) && !fits(l, n, kind, ranks))
        n += step;
    return n <= all_of(l) ? n : 0;
}

static void say_why(const counted_layers *l, int stages, tess_pipeline_kind kind, int ranks, char *text, size_t size)
{
    const char *name = tess_pipeline_kind_name(kind);
    if (stages % ranks != 0)
        snprintf(text, size, "which is not a multiple of %d ranks", ranks);
    else if (!tess_pipeline_takes_chunks(kind, stages / ranks))
        snprintf(text, size, "%d a rank, which %s does not take%s", stages / ranks, name,
                 stages > ranks && kind != TESS_PIPELINE_INTERLEAVED ? " (interleaved does)" : "");
    else
        snprintf(text, size, "one of which is filled by its embedding or head (they count as %d and %d)", l->first_less,
                 l->last_less);
}

tess_status tess_pipeline_count_stages(tess_pipeline_kind kind, int layers, int layers_per_stage, int first_less,
                                       int last_less, int ranks, int *chunks)
{
    TESS_CHECK(layers_per_stage >= 1, TESS_E_INVALID, "pipeline: %d layers a stage; give 1 or more", layers_per_stage);
    TESS_CHECK(
        layers >= 1 && first_less >= 0 && last_less >= 0 && ranks >= 1, TESS_E_INVALID,
        "pipeline: %d layers, %d and %d for embedding and head, %d ranks: give 1 or more layers and ranks, and 0 "
        "or more for embedding and head",
        layers, first_less, last_less, ranks);
    const counted_layers l = {layers, first_less, last_less};
    const int stages = stages_of(&l, layers_per_stage);
    *chunks = stages / ranks;
    if (fits(&l, layers_per_stage, kind, ranks))
        return TESS_OK;
    const int fewer = nearest(&l, layers_per_stage, -1, kind, ranks),
              more = nearest(&l, layers_per_stage, 1, kind, ranks);
    char why[128], fix[96];
    say_why(&l, stages, kind, ranks, why, sizeof(why));
    if (fewer > 0 && more > 0)
        snprintf(fix, sizeof(fix), "take %d or %d", fewer, more);
    else if (fewer > 0 || more > 0)
        snprintf(fix, sizeof(fix), "take %d", fewer + more);
    else
        snprintf(fix, sizeof(fix), "%s takes no other number of these layers either", tess_pipeline_kind_name(kind));
    return TESS_FAIL(TESS_E_INVALID, "pipeline: %d layers a stage make %d stage%s of %d layers, %s: %s",
                     layers_per_stage, stages, stages == 1 ? "" : "s", all_of(&l), why, fix);
}

static tess_status allows(int layers, int stages)
{
    TESS_CHECK(stages >= 1, TESS_E_INVALID, "pipeline: %d stages; give 1 or more", stages);
    TESS_CHECK(layers >= stages, TESS_E_INVALID,
               "pipeline: %d layers cannot be cut into %d stages of a layer or more; take %d stages or fewer", layers,
               stages, layers);
    return TESS_OK;
}

tess_status tess_pipeline_cut_evenly(int layers, int first_less, int last_less, int stages, int *first)
{
    TESS_TRY(allows(layers, stages));
    TESS_CHECK(first_less >= 0 && last_less >= 0, TESS_E_INVALID,
               "pipeline: embedding and head count as %d and %d layers; give 0 or more", first_less, last_less);
    const counted_layers l = {layers, first_less, last_less};
    first[0] = 0;
    for (int g = 0; g < stages; g++) {
        int size = size_of(&l, stages, g), less = less_of(&l, stages, g);
        TESS_CHECK(size > less, TESS_E_INVALID,
                   "pipeline: stage %d of %d gets %d of %d layers, which its embedding or head uses up (%d): let them "
                   "count for less, or take fewer stages",
                   g, stages, size, all_of(&l), less);
        first[g + 1] = first[g] + size - less;
    }
    return TESS_OK;
}

/* A table of the best division of the layers 0 .. l into the stages 0 .. g, for each g and l. */
typedef struct cut_table {
    const double *sums; /* (layers + 1) total cost of all lower layers */
    double embedding, head;
    int layers, stages;
    double *best; /* (stages, layers + 1) */
    int *from;    /* (stages, layers + 1) first layer of the last stage */
} cut_table;

static double stage_cost(const cut_table *t, int stage, int first, int end)
{
    return t->sums[end] - t->sums[first] + (stage == 0 ? t->embedding : 0) + (stage == t->stages - 1 ? t->head : 0);
}

/* Fills the table so that the largest stage is smallest. With a limit for the largest stage, it minimises the sum of
 * squares instead. */
static void fill(cut_table *t, double limit)
{
    const bool squares = isfinite(limit);
    const size_t row = (size_t)t->layers + 1;
    for (int g = 0; g < t->stages; g++)
        for (int end = 0; end <= t->layers; end++) {
            double *best = &t->best[(size_t)g * row + (size_t)end];
            *best = INFINITY;
            for (int first = g == 0 ? 0 : g; first < end && (g > 0 || first == 0); first++) {
                double cost = stage_cost(t, g, first, end);
                double before = g == 0 ? 0 : t->best[(size_t)(g - 1) * row + (size_t)first];
                double value = squares ? before + cost * cost : fmax(before, cost);
                if ((squares && cost > limit) || !(value < *best))
                    continue;
                *best = value;
                t->from[(size_t)g * row + (size_t)end] = first;
            }
        }
}

static tess_status sum_costs(const double *costs, int layers, double *sums)
{
    for (int l = 0; l < layers; l++) {
        TESS_CHECK(isfinite(costs[l]) && costs[l] >= 0, TESS_E_INVALID,
                   "pipeline: layer %d costs %g; give a finite number of 0 or more", l, costs[l]);
        sums[l + 1] = sums[l] + costs[l];
    }
    return TESS_OK;
}

tess_status tess_pipeline_cut_by_cost(tess_mem *mem, const double *costs, int layers, double embedding, double head,
                                      int stages, int *first)
{
    TESS_TRY(allows(layers, stages));
    TESS_CHECK(isfinite(embedding) && embedding >= 0 && isfinite(head) && head >= 0, TESS_E_INVALID,
               "pipeline: embedding and head cost %g and %g; give finite numbers of 0 or more", embedding, head);
    const size_t row = (size_t)layers + 1, cells = (size_t)stages * row;
    TESS_AUTO(tess_mem_drop) double *values = NULL;
    TESS_AUTO(tess_mem_drop) int *from = NULL;
    cut_table t = {.embedding = embedding, .head = head, .layers = layers, .stages = stages};
    TESS_TRY(TESS_NEW(mem, cells + row, "cuts of a model", &values));
    TESS_TRY(TESS_NEW(mem, cells, "cuts of a model", &from));
    TESS_TRY(sum_costs(costs, layers, values));
    t.from = from;
    t.sums = values;
    t.best = values + row;
    fill(&t, INFINITY);
    fill(&t, t.best[cells - 1]);
    first[stages] = layers;
    for (int g = stages - 1; g >= 0; g--)
        first[g] = t.from[(size_t)g * row + (size_t)first[g + 1]];
    return TESS_OK;
}
