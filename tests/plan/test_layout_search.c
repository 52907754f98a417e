/* The search of layouts: it finds what exhaustive planning finds, marks what does not fit, and keeps to conditions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/rig.h"

#include "base/os/os.h"
#include "plan/search/layout_search.h"

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 2003, \"hidden_size\": 96,"
    "\"intermediate_size\": 200, \"num_hidden_layers\": 8, \"num_attention_heads\": 6, \"num_key_value_heads\": 3,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

static const char experts_json[] =
    "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", \"vocab_size\": 503, "
    "\"hidden_size\": 96, \"intermediate_size\": 120, \"num_hidden_layers\": 6, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 4, \"hidden_act\": \"silu\", \"max_position_embeddings\": 128, "
    "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
    "\"tie_word_embeddings\": false}";

static const char machine_text[] = "machine:\n  name: small\n  title: A small machine\n  devices: 4\n"
                                   "compute:\n  bf16_tflops: 100\n  fp32_tflops: 10\n  source: none\n"
                                   "memory:\n  gb: 10\n  gb_per_s: 1000\n  source: none\n"
                                   "nvlink:\n  gb_per_s: 100\n  latency_us: 5\n  source: none\n"
                                   "pcie:\n  gb_per_s: 20\n  latency_us: 5\n  source: none\n"
                                   "infiniband:\n  gb_per_s: 25\n  latency_us: 10\n  source: none\n";

/* Everything that a search needs. */
typedef struct rig {
    tess_mem *mem;
    tess_config config;
    tess_model_config model;
    tess_machine machine;
    tess_planner *planner;
    tess_search_request request;
} rig;

static void begin(rig *r, int ranks)
{
    *r = (rig){.mem = test_mem()};
    test_configure(&r->config, ranks,
                   "training.local_batch_size=1 training.seq_len=64 training.global_batch_size=16 training.threads=1 "
                   "training.steps=10 lr_scheduler.warmup_steps=1 validation.enable=false checkpoint.enable=false");
    test_model(model_json, &r->model);
    EXPECT_OK(tess_machine_parse(r->mem, machine_text, sizeof(machine_text) - 1, "test", &r->machine));
    EXPECT_OK(tess_planner_create(r->mem, &r->planner));
    r->request.plan = (tess_plan_request){.config = &r->config,
                                          .model = &r->model,
                                          .machine = &r->machine,
                                          .n_ranks = ranks,
                                          .ranks_a_host = ranks < 4 ? ranks : 4};
}

static void end(rig *r)
{
    tess_planner_destroy(&r->planner);
    tess_config_free(&r->config);
}

/* Plans a layout by itself. */
static void expect_plan(rig *r, const tess_search_layout *l)
{
    tess_config config;
    static tess_plan plan;
    tess_plan_request request = r->request.plan;
    EXPECT_OK(tess_config_copy(&r->config, &config));
    tess_search_configure(l, &config);
    EXPECT_OK(tess_config_check_step(&config, request.n_ranks));
    request.config = &config;
    EXPECT_OK(tess_plan_make(r->planner, &request, &plan));
    EXPECT(plan.memory.bytes == l->bytes && plan.memory.missing == 0);
    EXPECT(plan.time.step_s == l->step_s);
    tess_config_free(&config);
}

static void what_fits_is_sorted_and_is_what_its_plan_says(void)
{
    rig r;
    tess_search found;
    begin(&r, 8);
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits >= 3);
    for (int i = 0; i < found.n_fits; i++) {
        int ranks = 1;
        for (int axis = 0; axis < TESS_AXES; axis++)
            ranks *= found.layouts[i].degree[axis];
        EXPECT_INT(ranks, 8);
        EXPECT(found.layouts[i].degree[TESS_AXIS_TP] <= 4); /* inside a host */
        EXPECT(i == 0 || found.layouts[i - 1].step_s <= found.layouts[i].step_s);
    }
    for (int i = 0; i < found.n; i++) {
        EXPECT((found.layouts[i].outcome == TESS_SEARCH_FITS) == (i < found.n_fits));
        EXPECT(found.layouts[i].outcome != TESS_SEARCH_SLOWER || found.layouts[i].bound_s >= found.layouts[2].step_s);
    }
    expect_plan(&r, &found.layouts[0]);
    expect_plan(&r, &found.layouts[found.n_fits - 1]);
    tess_search_free(&found);
    end(&r);
}

static void conditions_choose(void)
{
    rig r;
    tess_search found;
    begin(&r, 4);
    r.request.only = "pp=2,schedule=zb_h1,strategy=full,strategy=zero1";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0);
    for (int i = 0; i < found.n_fits; i++) {
        EXPECT_INT(found.layouts[i].degree[TESS_AXIS_PP], 2);
        EXPECT_INT(found.layouts[i].schedule, 3);
        EXPECT(found.layouts[i].strategy == 1 || found.layouts[i].strategy == 3);
    }
    tess_search_free(&found);
    static const struct {
        const char *words, *message;
    } bad[] = {{"tp", "is no condition"},       {"tpp=2", "did you mean"}, {"tp=0", "0"},
               {"strategy=ful", "full"},        {"schedule=1f1c", "1f1b"}, {"tp=3", "no layout"},
               {"method=rinf", "did you mean"}, {"pp=4,tp=4", "no layout"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        r.request.only = bad[i].words;
        EXPECT_FAILS(tess_search_layouts(r.mem, r.planner, &r.request, &found), TESS_E_INVALID, bad[i].message);
    }
    end(&r);
}

static void memory_decides(void)
{
    rig r;
    tess_search all, found;
    begin(&r, 4);
    r.request.only = "pp=1,pp=2,tp=1";
    r.request.exhaustive = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    double least = INFINITY, most = 0;
    for (int i = 0; i < all.n_fits; i++) {
        least = fmin(least, all.layouts[i].bytes);
        most = fmax(most, all.layouts[i].bytes);
    }
    r.machine.memory.gb = (least + most) / 2e9;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0 && found.n_fits < all.n_fits);
    for (int i = 0; i < found.n_fits; i++)
        EXPECT(found.layouts[i].bytes <= r.machine.memory.gb * 1e9);
    bool recomputes = false; /* recomputation was tried where a layout did not fit */
    for (int i = found.n_fits; i < found.n; i++)
        if (found.layouts[i].outcome == TESS_SEARCH_TOO_LARGE) {
            EXPECT(found.layouts[i].missing > 0);
            recomputes |= found.layouts[i].recompute != 0;
        }
    EXPECT(recomputes);
    tess_search_free(&found);
    r.machine.memory.gb = 1e-6;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT_INT(found.n_fits, 0);
    EXPECT(found.layouts[0].outcome == TESS_SEARCH_TOO_LARGE && found.layouts[0].missing > 0);
    tess_search_free(&found);
    tess_search_free(&all);
    end(&r);
}

static void a_link_that_is_missing(void)
{
    rig r;
    tess_search found;
    begin(&r, 8);
    r.machine.links[TESS_LINK_INFINIBAND].gb_per_s = 0;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT_INT(found.n_fits, 0);
    EXPECT(found.layouts[found.n - 1].outcome == TESS_SEARCH_REFUSED);
    EXPECT_CONTAINS(found.layouts[found.n - 1].reason, "infiniband");
    tess_search_free(&found);
    end(&r);
}

/* A search of all layouts, planned one by one, finds the same best ones, and each layout takes at least its bounds.
 * `machine` NULL: that of this file. */
static void bounds_hide_no_layout(const char *settings, const char *model, const char *machine, const char *only)
{
    rig r;
    tess_search all, found;
    begin(&r, 8);
    test_model(model, &r.model);
    char words[512];
    snprintf(words, sizeof(words), "%s", settings);
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        EXPECT_OK(tess_config_override(&r.config, word));
    if (machine != NULL)
        EXPECT_OK(tess_machine_load(r.mem, machine, &r.machine));
    r.request.plan.ranks_a_host = machine != NULL ? 8 : 4;
    r.request.only = only;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    r.request.exhaustive = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    int n_bounded = 0;
    for (int i = 0; i < all.n; i++) {
        const tess_search_layout *l = &all.layouts[i];
        char text[TESS_SEARCH_TEXT];
        tess_search_describe(l, text, sizeof(text));
        EXPECT(l->outcome != TESS_SEARCH_SLOWER);
        n_bounded += l->bound_s > 0 && l->outcome == TESS_SEARCH_FITS;
        if (l->outcome == TESS_SEARCH_FITS && (l->bound_s > l->step_s || l->bound_bytes > l->bytes))
            test_fail(__FILE__, __LINE__, "%s: bounds %g s and %g bytes, its plan %g s and %g bytes", text, l->bound_s,
                      l->bound_bytes, l->step_s, l->bytes);
    }
    EXPECT(n_bounded > all.n / 2);
    EXPECT(found.n_fits < all.n_fits); /* the bounds saved plans */
    for (int i = 0; i < 3; i++)
        EXPECT(found.layouts[i].step_s == all.layouts[i].step_s);
    tess_search_free(&found);
    tess_search_free(&all);
    end(&r);
}

static void bounds_hide_no_layout_of_dense_models(void)
{
    bounds_hide_no_layout("training.global_batch_size=16", model_json, NULL, "pp=1,pp=2,tp=1,tp=2,tp=4");
}

/* Launches of a GPU with counts take times that do not grow with the rows, such as those of a product's first tiles. */
static void bounds_hide_no_layout_of_counted_gpus(void)
{
    bounds_hide_no_layout("training.global_batch_size=64 training.seq_len=256", model_json, "h100-sxm", "pp=1,pp=4");
}

static void bounds_hide_no_layout_of_offloaded_state(void)
{
    bounds_hide_no_layout("training.global_batch_size=8 offload.params=true offload.grads=true offload.optimizer=true "
                          "offload.folder=/tmp",
                          model_json, "h100-sxm", "pp=1,pp=4");
}

static void bounds_hide_no_layout_with_shards_in_the_memory_of_hosts(void)
{
    bounds_hide_no_layout("training.global_batch_size=8 job.shards=host", model_json, "h100-sxm", NULL);
}

/* The gradients of wide layers are most of the memory, and zero1 holds those of all layers in a pipeline. */
static void bounds_hide_no_layout_that_holds_gradients(void)
{
    bounds_hide_no_layout(
        "training.global_batch_size=32 training.seq_len=16",
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 64, "
        "\"hidden_size\": 256, \"intermediate_size\": 8000, \"num_hidden_layers\": 8, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 4, \"hidden_act\": \"silu\", \"max_position_embeddings\": 256, "
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"tie_word_embeddings\": false}",
        "h100-sxm", "pp=2,pp=4,strategy=zero1,strategy=zero2,tp=1");
}

static void bounds_hide_no_layout_of_experts(void)
{
    bounds_hide_no_layout("training.global_batch_size=8", experts_json, NULL, "pp=1,tp=1,tp=2");
}

static void bounds_hide_no_layout_of_experts_in_a_pipeline(void)
{
    bounds_hide_no_layout("training.global_batch_size=16", experts_json, "h100-sxm",
                          "pp=2,pp=4,tp=1,tp=2,ep=1,ep=2,ep=4,micro=1,micro=2,strategy=zero2,strategy=full");
}

/* The search finds the best layouts where only some of them fit: those of a search that plans all of them. */
static void memory_hides_no_layout(void)
{
    static const double shares[] = {0.05, 0.2, 0.5};
    rig r;
    tess_search all, found;
    begin(&r, 8);
    test_model(experts_json, &r.model);
    r.request.only = "pp=2,pp=4,tp=1,tp=2,ep=1,ep=4,micro=1";
    r.request.exhaustive = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    double least = INFINITY, most = 0;
    for (int i = 0; i < all.n_fits; i++) {
        least = fmin(least, all.layouts[i].bytes);
        most = fmax(most, all.layouts[i].bytes);
    }
    tess_search_free(&all);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        r.machine.memory.gb = (least + shares[i] * (most - least)) / 1e9;
        r.request.exhaustive = true;
        EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
        r.request.exhaustive = false;
        EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
        EXPECT(all.n_fits >= 3 && found.n_fits >= 3);
        for (int k = 0; k < 3; k++)
            EXPECT(found.layouts[k].step_s == all.layouts[k].step_s);
        tess_search_free(&found);
        tess_search_free(&all);
    }
    end(&r);
}

/* Stages that the configuration cuts, and a schedule of a file. */
static void given_stages_and_orders_are_searched(void)
{
    char path[512], csv[600];
    const char *const settings[] = {"parallelism.pipeline_parallel_layers_per_stage=2", csv};
    static const char order[] = "0F0,0F1,0B0,0B1\n,1F0,1B0,1F1,1B1\n";
    snprintf(path, sizeof(path), "%s/order.csv", test_folder());
    snprintf(csv, sizeof(csv), "parallelism.pipeline_parallel_schedule_csv=%s", path);
    EXPECT_OK(tess_os_write_atomic(path, order, sizeof(order) - 1));
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        rig r;
        tess_search found;
        begin(&r, 4);
        EXPECT_OK(tess_config_override(&r.config, "training.global_batch_size=4"));
        EXPECT_OK(tess_config_override(&r.config, settings[i]));
        EXPECT_OK(tess_config_override(&r.config, i == 0 ? "parallelism.pipeline_parallel_schedule=interleaved"
                                                         : "parallelism.pipeline_parallel_schedule=1f1b"));
        r.request.only = "pp=2,dp_shard=2,micro=1";
        EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
        EXPECT(found.n_fits > 0);
        expect_plan(&r, &found.layouts[0]);
        tess_search_free(&found);
        end(&r);
    }
}

static int count_all(const tess_search *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->layouts[i].n_members;
    return n;
}

/* The members of a family count, whether or not the nearest of them is planned. */
static void the_nearest_layout_changes_no_count(void)
{
    rig r;
    tess_search with, without;
    begin(&r, 4);
    r.machine.memory.gb = 1e-6;
    r.request.only = "pp=2,offload=none";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &with));
    r.request.without_nearest = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &without));
    EXPECT(with.layouts[0].planned && !without.layouts[0].planned);
    EXPECT_INT(count_all(&with), count_all(&without));
    tess_search_free(&with);
    tess_search_free(&without);
    end(&r);
}

/* Plans a layout by itself, with settings of its own. Returns the time of a step, or INFINITY if it does not fit or is
 * refused. */
static double step_of(rig *r, const tess_search_layout *l)
{
    tess_config config;
    static tess_plan plan;
    tess_plan_request request = r->request.plan;
    EXPECT_OK(tess_config_copy(&r->config, &config));
    tess_search_configure(l, &config);
    EXPECT_OK(tess_config_check_step(&config, request.n_ranks));
    request.config = &config;
    const tess_status status = tess_plan_make(r->planner, &request, &plan);
    tess_config_free(&config);
    tess_error_clear();
    return status == TESS_OK && plan.memory.missing == 0 ? plan.time.step_s : INFINITY;
}

/* Schedules and sequence parallelism, planned one by one by this test, which does not use the search's axes. */
static void schedules_and_sequence_parallelism_are_searched(void)
{
    rig r;
    tess_search found;
    begin(&r, 4);
    EXPECT_OK(tess_config_override(&r.config, "training.seq_len=24"));
    r.request.only = "pp=2,tp=2,micro=1";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    double best = INFINITY;
    int n_fit = 0;
    bool differs = false;
    for (int schedule = 0; schedule < 6; schedule++)
        for (int sequence = 0; sequence < 2; sequence++) {
            tess_search_layout l = found.layouts[0];
            l.schedule = schedule;
            l.sequence = sequence;
            l.recompute = 0;
            const double step_s = step_of(&r, &l);
            differs |= isfinite(best) && isfinite(step_s) && step_s != best;
            best = fmin(best, step_s);
            n_fit += isfinite(step_s);
        }
    EXPECT(n_fit > 6 && differs);
    EXPECT(step_of(&r, &found.layouts[0]) == best);
    tess_search_free(&found);
    r.request.only = "pp=2,tp=2,micro=1,sp=off,schedule=zbv";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0 && found.layouts[0].sequence == 0 && found.layouts[0].schedule == 4);
    tess_search_free(&found);
    end(&r);
}

/* State moves to the host if there is room for no layout: the least with which a layout fits. */
static void offload_is_used_where_nothing_fits(void)
{
    rig r;
    tess_search all, found;
    begin(&r, 4);
    r.request.only = "pp=1,tp=1,tp=2";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0);
    for (int i = 0; i < found.n; i++)
        EXPECT_INT(found.layouts[i].offload, 0); /* a layout that fits needs no offload */
    tess_search_free(&found);
    r.request.exhaustive = true;
    r.request.only = "pp=1,tp=1,tp=2,recompute=full";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    double least = INFINITY;
    for (int i = 0; i < all.n_fits; i++)
        least = fmin(least, all.layouts[i].bytes);
    tess_search_free(&all);
    r.machine.memory.gb = 0.98 * least / 1e9;
    r.request.only = "pp=1,tp=1,tp=2";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    r.request.exhaustive = false;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0 && all.n_fits > 0);
    for (int i = 0; i < 3 && i < all.n_fits; i++)
        EXPECT(found.layouts[i].step_s == all.layouts[i].step_s);
    for (int i = 0; i < found.n_fits; i++)
        EXPECT(found.layouts[i].offload > 0 && found.layouts[i].bytes <= r.machine.memory.gb * 1e9);
    const double host_bytes = found.layouts[0].host_bytes;
    EXPECT(found.layouts[0].in_full && host_bytes > 0);
    for (int with_host = 0; with_host < 2; with_host++) {
        tess_search other;
        r.machine.memory.host_gb = with_host ? 0.9 * host_bytes / 1e9 : 0;
        EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &other));
        EXPECT(other.n_fits > 0 || with_host);
        for (int i = 0; i < other.n_fits; i++)
            EXPECT(!with_host || other.layouts[i].host_bytes <= r.machine.memory.host_gb * 1e9);
        tess_search_free(&other);
    }
    r.machine.memory.host_gb = 0;
    r.request.without_nearest = false;
    tess_search_layout less = found.layouts[0];
    less.offload--;
    EXPECT(isinf(step_of(&r, &less)));
    tess_search_free(&found);
    tess_search_free(&all);
    r.request.only = "pp=1,tp=1,offload=optimizer,recompute=none,micro=1";
    r.machine.memory.gb = 10;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0);
    for (int i = 0; i < found.n_fits; i++) {
        tess_search_layout none = found.layouts[i];
        EXPECT_INT(none.offload, 1);
        none.offload = 0;
        EXPECT(step_of(&r, &none) < found.layouts[i].step_s); /* copies take time on the link */
    }
    tess_search_free(&found);
    end(&r);
}

static void precision_is_searched_when_it_is_asked_for(void)
{
    rig r;
    tess_search all, found;
    begin(&r, 4);
    r.request.only = "pp=1,strategy=full";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    for (int i = 0; i < found.n; i++)
        EXPECT_INT(found.layouts[i].precision, 0);
    tess_search_free(&found);
    r.request.only = "pp=1,strategy=full,precision=given";
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    EXPECT(found.n_fits > 0 && found.layouts[0].precision == 0);
    tess_search_free(&found);
    r.request.only = "pp=1,strategy=full";
    r.machine.compute.fp8_tflops = 200;
    r.machine.fp8_products = true;
    r.request.varies_precision = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &found));
    r.request.exhaustive = true;
    EXPECT_OK(tess_search_layouts(r.mem, r.planner, &r.request, &all));
    int seen = 0;
    for (int i = 0; i < all.n_fits; i++)
        seen |= 1 << all.layouts[i].precision;
    EXPECT_INT(seen, 2 | 4 | 8); /* bf16, fp32, fp8 */
    for (int i = 0; i < 3; i++)
        EXPECT(found.layouts[i].step_s == all.layouts[i].step_s);
    tess_search_free(&found);
    tess_search_free(&all);
    end(&r);
}

static const test_case cases[] = {
    CASE(schedules_and_sequence_parallelism_are_searched),
    CASE(offload_is_used_where_nothing_fits),
    CASE(precision_is_searched_when_it_is_asked_for),
    CASE(bounds_hide_no_layout_of_dense_models),
    CASE(bounds_hide_no_layout_of_counted_gpus),
    CASE(bounds_hide_no_layout_of_offloaded_state),
    CASE(bounds_hide_no_layout_that_holds_gradients),
    CASE(bounds_hide_no_layout_of_experts),
    CASE(bounds_hide_no_layout_of_experts_in_a_pipeline),
    CASE(memory_hides_no_layout),
    CASE(given_stages_and_orders_are_searched),
    CASE(the_nearest_layout_changes_no_count),
    CASE(bounds_hide_no_layout_with_shards_in_the_memory_of_hosts),
    CASE(what_fits_is_sorted_and_is_what_its_plan_says),
    CASE(conditions_choose),
    CASE(memory_decides),
    CASE(a_link_that_is_missing),
};
TEST_MAIN(cases)
