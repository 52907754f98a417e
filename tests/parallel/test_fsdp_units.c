/* The choice of blocks for a unit, units of several blocks, and users' hooks around units. */
#include "fsdp_mesh.h"
#include "fsdp_model.h"
#include "tessera/fsdp.h"

/* ---- Units of several blocks ---- */
static void expect_dealt(const tess_unit_policy *policy, const char *want)
{
    static const tess_unit_block blocks[] = {{0, 50}, {1, 10}, {1, 10}, {1, 30}, {1, 10}, {1, 10}, {2, 70}};
    enum { N = sizeof(blocks) / sizeof(blocks[0]) };
    int unit_of[N], n = tess_unit_policy_deal(policy, blocks, N, unit_of);
    char got[N + 1] = "";
    for (int i = 0; i < N; i++)
        got[i] = (char)('0' + unit_of[i]);
    EXPECT_TEXT(got, want);
    EXPECT_INT(n, unit_of[N - 1] + 1);
}

static void blocks_join_by_kind_and_size(void)
{
    expect_dealt(&(tess_unit_policy){0}, "0123456");
    expect_dealt(&(tess_unit_policy){.min_blocks = 2}, "0112234");
    expect_dealt(&(tess_unit_policy){.min_elements = 40}, "0111223");
    expect_dealt(&(tess_unit_policy){.min_blocks = 2, .min_elements = 40}, "0111223");
    expect_dealt(&(tess_unit_policy){.min_blocks = 4, .min_elements = 40}, "0111123");
    expect_dealt(&(tess_unit_policy){.min_elements = 60, .mixes_kinds = true}, "0011112");
    expect_dealt(&(tess_unit_policy){.min_blocks = INT64_MAX}, "0111112");
    expect_dealt(&(tess_unit_policy){.min_blocks = INT64_MAX, .mixes_kinds = true}, "0000000");
    EXPECT_INT(tess_unit_policy_deal(&(tess_unit_policy){0}, NULL, 0, NULL), 0);
}

static void blocks_of_a_unit_come_in_order(void)
{
    static const int joined[MODEL_UNITS] = {0, 1, 1, 2, 3, 3};
    model m;
    open_flat();
    model_unit_of = joined;
    model_create(&m, mesh, full_f32);
    model_unit_of = NULL;
    tess_unit *two = m.units[1];
    EXPECT_FAILS(tess_unit_set_blocks(two, 0), TESS_E_INVALID, "'layers.0': 0 blocks");
    EXPECT_FAILS(tess_unit_set_blocks(two, 2), TESS_E_INVALID, "'layers.0': set_blocks after materialize");
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(m.fsdp, 0));
    EXPECT_OK(tess_unit_pre_backward(two));
    EXPECT_OK(tess_unit_post_backward(two));
    EXPECT_FAILS(tess_unit_post_backward(two), TESS_E_INVALID, "'layers.0': post_backward without pre_backward");
    EXPECT(tess_unit_grad(two, 0) != NULL); /* still open */
    EXPECT_FAILS(tess_fsdp_step_end(m.fsdp), TESS_E_INVALID, "'layers.0': step_end while the backward");
    EXPECT_OK(tess_unit_pre_backward(two));
    EXPECT_FAILS(tess_unit_pre_backward(two), TESS_E_INVALID, "'layers.0': pre_backward twice");
    EXPECT_OK(tess_unit_post_backward(two));
    EXPECT(tess_unit_grad(two, 0) == NULL);
    EXPECT_FAILS(tess_unit_pre_backward(two), TESS_E_INVALID, "'layers.0': pre_backward after post_backward");
    tess_fsdp_destroy(&m.fsdp);
    close_mesh();
}

/* ---- Users' hooks ---- */
typedef struct hook_log {
    char text[2 * MODEL_UNITS * 8]; /* a letter for the unit, one for the moment */
    size_t n;
    const char *fails_at; /* "e<": at that moment; NULL: never */
} hook_log;

static tess_status log_hook(void *context, tess_unit *unit, tess_unit_moment moment)
{
    hook_log *log = context;
    const bool backward = moment == TESS_BEFORE_BACKWARD || moment == TESS_AFTER_BACKWARD;
    const char now[] = {tess_unit_name(unit)[0], "<>[]"[moment], '\0'};
    EXPECT(tess_unit_param(unit, 0) != NULL && tess_unit_params(unit) > 0);
    if (backward)
        EXPECT_INT(tess_unit_grad(unit, 0) != NULL, now[0] != 'f'); /* "frozen" */
    EXPECT(log->n + sizeof(now) <= sizeof(log->text));
    memcpy(log->text + log->n, now, sizeof(now));
    log->n += 2;
    TESS_CHECK(log->fails_at == NULL || strcmp(log->fails_at, now) != 0, TESS_E_CANCELLED, "the user has had enough");
    return TESS_OK;
}

static void hooks_of_users_see_each_unit_in_order(void)
{
    static const int joined[MODEL_UNITS] = {0, 1, 1, 2, 3, 3};
    static model_reference ref;
    model m;
    hook_log log = {.n = 0}, second = {.fails_at = "h<"};
    reference_init(&ref);
    open_flat();
    model_unit_of = joined;
    model_create(&m, mesh, full_f32);
    model_unit_of = NULL;
    EXPECT_FAILS(tess_fsdp_add_hook(m.fsdp, NULL, NULL), TESS_E_INVALID, "add_hook without a function");
    EXPECT_OK(tess_fsdp_add_hook(m.fsdp, log_hook, &log));
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 1));
    EXPECT_FAILS(tess_fsdp_add_hook(m.fsdp, log_hook, &log), TESS_E_INVALID, "inside a step");
    EXPECT_OK(tess_fsdp_micro_begin(m.fsdp, 0));
    model_run_pass(&m, &ref, 1, 0, 0, 0);
    EXPECT_OK(tess_fsdp_step_end(m.fsdp));
    /* The embedding is open through the backward; two blocks of a unit have forwards of their own, and one backward. */
    EXPECT_TEXT(log.text, "e<e>l<l>l<l>f<f>l<l>l<l>"
                          "e<e[e>l[l]f[f]l[l]e]");
    EXPECT_INT(tess_unit_count(m.units[0], 0), 37 * 5);
    EXPECT_INT(tess_unit_count(m.units[0], 1), 0);
    second.fails_at = "e>";
    EXPECT_OK(tess_fsdp_add_hook(m.fsdp, log_hook, &second));
    EXPECT_OK(tess_unit_pre_forward(m.units[0]));
    EXPECT_FAILS(tess_unit_post_forward(m.units[0]), TESS_E_CANCELLED,
                 "unit 'embed': hook 1, after forward: the user has had enough");
    EXPECT_TEXT(second.text, "e<e>");
    tess_fsdp_destroy(&m.fsdp);
    close_mesh();
}

/* Units gathered ahead are not gathered again; there is memory for a limited number of units. */
static void what_users_prefetch_is_gathered_once(void)
{
    static model_reference ref;
    model m;
    open_flat();
    const bool peers = tess_runtime_world(runtime) > 1;
    tess_fsdp_policy policy = full_f32;
    policy.prefetch = 0;
    model_create(&m, mesh, policy);
    reference_init(&ref);
    EXPECT_OK(tess_fsdp_params_changed(m.fsdp));
    uint64_t before = tess_fsdp_get_traffic(m.fsdp).gathered_bytes;
    EXPECT_OK(tess_unit_prefetch(m.units[1]));
    uint64_t after = tess_fsdp_get_traffic(m.fsdp).gathered_bytes;
    EXPECT_INT(sum_over_ranks((int64_t)(after - before)) > 0, peers); /* one rank has them all */
    EXPECT_OK(tess_unit_prefetch(m.units[1]));
    EXPECT_OK(tess_unit_pre_forward(m.units[1]));
    model_check_params(&m, &ref, 1);
    EXPECT_OK(tess_unit_post_forward(m.units[1]));
    EXPECT(tess_fsdp_get_traffic(m.fsdp).gathered_bytes == after);
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 1));
    EXPECT_FAILS(tess_unit_prefetch(m.units[1]), TESS_E_INVALID, "'layers.0': prefetch before tess_fsdp_micro_begin");
    tess_fsdp_destroy(&m.fsdp);
    close_mesh();
}

static const test_case cases[] = {
    CASE(blocks_join_by_kind_and_size, 1),
    CASE(blocks_of_a_unit_come_in_order, 1),
    CASE(hooks_of_users_see_each_unit_in_order, 1),
    CASE(what_users_prefetch_is_gathered_once, -1),
};
TEST_MAIN(cases)
