/* Losses of policy gradients: against torch's autograd, trl and verl (the fixtures), in every cut, and at their edges.
 */
#include "rl/algo/rl_policy_loss.h"

#include "base/core/rng.h"
#include "rl_fixture.h"

enum { ROWS = RL_FIXTURE_ROWS };

/* A micro-batch with its memory. */
typedef struct batch {
    tess_policy_rows rows;
    int32_t cu[ROWS + 1];
    uint8_t mask[ROWS];
    float advantage[ROWS], old_logprob[ROWS], rollout[ROWS], reference[ROWS], seq_scale[ROWS], logprob[ROWS],
        entropy[ROWS];
    double divisor;
} batch;

typedef struct graded {
    float dlogprob[ROWS], dentropy[ROWS];
    tess_policy_sums sums;
} graded;

static tess_policy_options read_options(const json_t *o)
{
    static const char *const kinds[] = {"ppo", "gspo", "cispo", "reinforce"}, *const kls[] = {"k1", "k2", "k3"};
    static const char *const corrections[] = {"none", "tis", "icepop", "sequence_mask"};
    static const char *const reductions[] = {"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "constant"};
    tess_policy_options options = {.clip_low = rl_fixture_number(o, "clip_low"),
                                   .clip_high = rl_fixture_number(o, "clip_high"),
                                   .dual_clip = rl_fixture_number(o, "dual_clip"),
                                   .kl_beta = rl_fixture_number(o, "kl_beta"),
                                   .entropy_coef = rl_fixture_number(o, "entropy_coef"),
                                   .correction_low = rl_fixture_number(o, "correction_low"),
                                   .correction_high = rl_fixture_number(o, "correction_high"),
                                   .opsm_delta = rl_fixture_number(o, "opsm_delta"),
                                   .constant = rl_fixture_number(o, "constant")};
    const char *kl = json_string_value(json_object_get(o, "kl"));
    const char *correction = json_string_value(json_object_get(o, "correction"));
    for (unsigned i = 0; i < 4; i++) {
        options.kind = strcmp(kinds[i], rl_fixture_text(o, "kind")) == 0 ? (tess_policy_kind)i : options.kind;
        options.reduction =
            strcmp(reductions[i], rl_fixture_text(o, "reduction")) == 0 ? (tess_reduction_kind)i : options.reduction;
        if (correction != NULL && strcmp(corrections[i], correction) == 0)
            options.correction = (tess_correction)i;
        if (kl != NULL && i < 3 && strcmp(kls[i], kl) == 0)
            options.kl = (tess_kl_kind)i;
    }
    EXPECT_OK(tess_policy_options_check(&options));
    return options;
}

static void plan(const tess_policy_options *options, batch *b)
{
    int64_t lengths[ROWS] = {0};
    for (int64_t s = 0; s < b->rows.n_seqs; s++) {
        for (int32_t row = b->cu[s]; row < b->cu[s + 1]; row++)
            lengths[s] += b->mask[row];
    }
    EXPECT_OK(
        tess_reduction_plan(options->reduction, options->constant, lengths, b->rows.n_seqs, b->seq_scale, &b->divisor));
}

static void point(batch *b, bool with_reference)
{
    b->rows = (tess_policy_rows){.n_rows = b->rows.n_rows,
                                 .n_seqs = b->rows.n_seqs,
                                 .cu = b->cu,
                                 .mask = b->mask,
                                 .advantage = b->advantage,
                                 .old_logprob = b->old_logprob,
                                 .rollout_logprob = b->rollout,
                                 .reference = with_reference ? b->reference : NULL,
                                 .seq_scale = b->seq_scale};
}

static void read_batch(const json_t *head, const json_t *of, const tess_policy_options *options, batch *b)
{
    const json_t *rows = rl_fixture_get(rl_fixture_get(head, "rows"), rl_fixture_text(of, "rows"));
    b->rows.n_seqs = rl_fixture_ints(head, "cu", b->cu) - 1;
    b->rows.n_rows = rl_fixture_mask(head, "mask", b->mask);
    rl_fixture_floats(rows, "advantage", b->advantage);
    rl_fixture_floats(rows, "old", b->old_logprob);
    rl_fixture_floats(rows, "rollout", b->rollout);
    rl_fixture_floats(rows, "reference", b->reference);
    rl_fixture_floats(rows, "logprob", b->logprob);
    rl_fixture_floats(rows, "entropy", b->entropy);
    point(b, json_object_get(rl_fixture_get(of, "options"), "kl") != NULL);
    plan(options, b);
}

static double metric(const tess_policy_options *options, const graded *g, double divisor, const char *name)
{
    tess_metric metrics[TESS_POLICY_METRICS_MAX];
    int n = tess_policy_metrics(options, &g->sums, divisor, metrics);
    EXPECT(n <= TESS_POLICY_METRICS_MAX);
    for (int i = 0; i < n; i++) {
        EXPECT(isfinite(metrics[i].value));
        if (strcmp(metrics[i].name, name) == 0)
            return metrics[i].value;
    }
    test_fail(__FILE__, __LINE__, "there is no metric %s", name);
}

static bool has_metric(const tess_policy_options *options, const graded *g, const char *name)
{
    tess_metric metrics[TESS_POLICY_METRICS_MAX];
    int n = tess_policy_metrics(options, &g->sums, 1, metrics);
    for (int i = 0; i < n; i++) {
        if (strcmp(metrics[i].name, name) == 0)
            return true;
    }
    return false;
}

static void grade(const tess_policy_options *options, const batch *b, graded *g)
{
    *g = (graded){0};
    EXPECT_OK(tess_policy_grade(options, &b->rows, 0, b->rows.n_rows, b->logprob, b->entropy, g->dlogprob, g->dentropy,
                                &g->sums));
}

static void expect_case(const json_t *head, const json_t *of)
{
    const char *name = rl_fixture_text(of, "name");
    const json_t *want = rl_fixture_get(of, "want");
    tess_policy_options options = read_options(rl_fixture_get(of, "options"));
    static batch b;
    static graded g;
    double dlogprob[ROWS], dentropy[ROWS];
    read_batch(head, of, &options, &b);
    grade(&options, &b, &g);
    rl_expect_near(name, "loss", 0, tess_policy_loss(&options, &g.sums, b.divisor), rl_fixture_number(want, "loss"));
    EXPECT(metric(&options, &g, b.divisor, "train/loss") == tess_policy_loss(&options, &g.sums, b.divisor));
    const char *const same[][2] = {{"pg_loss", "train/pg_loss"},
                                   {"kl_loss", "train/kl_loss"},
                                   {"ppo_kl", "train/ppo_kl"},
                                   {"diff", "train/train_rollout_logprob_abs_diff"},
                                   {"clipfrac", "train/pg_clipfrac"}};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        if (json_object_get(want, same[i][0]) != NULL)
            rl_expect_near(name, same[i][0], 0, metric(&options, &g, b.divisor, same[i][1]),
                           rl_fixture_number(want, same[i][0]));
    }
    if (options.dual_clip > 0)
        rl_expect_near(name, "dual clip", 0, metric(&options, &g, b.divisor, "train/pg_clipfrac_dual"),
                       rl_fixture_number(want, "clipfrac_dual"));
    rl_fixture_doubles(want, "dlogprob", dlogprob);
    rl_fixture_doubles(want, "dentropy", dentropy);
    for (int row = 0; row < (int)b.rows.n_rows; row++) {
        rl_expect_near(name, "dlogprob", row, g.dlogprob[row] / b.divisor, dlogprob[row]);
        rl_expect_near(name, "dentropy", row, g.dentropy[row] / b.divisor, dentropy[row]);
    }
}

static void losses_and_gradients_are_those_of_torch_trl_and_verl(void)
{
    json_t *document = rl_fixture_load("policy.json");
    size_t n = json_array_size(document);
    EXPECT(n > 30);
    for (size_t i = 1; i < n; i++)
        expect_case(json_array_get(document, 0), json_array_get(document, i));
    json_decref(document);
}

static float uniform(uint64_t stream, uint64_t index)
{
    return tess_rng_uniform(5, TESS_RNG_TEST, stream, index);
}

/* Sequences of 1 to 9 rows, some of which are no response; log-ratios of some tenths. */
static void draw_batch(batch *b, bool with_reference)
{
    b->rows.n_rows = ROWS;
    b->rows.n_seqs = 0;
    b->cu[0] = 0;
    while (b->cu[b->rows.n_seqs] < ROWS - 9) {
        int64_t s = b->rows.n_seqs++;
        b->cu[s + 1] = b->cu[s] + 1 + (int32_t)(9 * uniform(0, (uint64_t)s));
    }
    for (uint64_t row = 0; row < ROWS; row++) {
        b->mask[row] = (int32_t)row < b->cu[b->rows.n_seqs] && uniform(1, row) < 0.7f;
        b->advantage[row] = 4 * uniform(2, row) - 2;
        b->logprob[row] = -3 * uniform(3, row);
        b->old_logprob[row] = b->logprob[row] + uniform(4, row) - 0.5f;
        b->rollout[row] = b->old_logprob[row] + 0.4f * uniform(5, row) - 0.2f;
        b->reference[row] = b->logprob[row] + 2 * uniform(6, row) - 1;
        b->entropy[row] = 2 * uniform(7, row);
    }
    point(b, with_reference);
}

static void expect_same_sums(const tess_policy_sums *got, const tess_policy_sums *want)
{
    static int64_t a[TESS_POLICY_SUM_WORDS], b[TESS_POLICY_SUM_WORDS];
    tess_policy_sums_pack(got, a);
    tess_policy_sums_pack(want, b);
    EXPECT_SAME(a, b, TESS_POLICY_SUM_WORDS);
    EXPECT_SAME(got->max, want->max, TESS_POLICY_MAX_COUNT);
}

static const tess_policy_options by_token[] = {{.kind = TESS_POLICY_PPO,
                                                .clip_low = 0.1,
                                                .clip_high = 0.2,
                                                .dual_clip = 1.3,
                                                .kl = TESS_KL_K3,
                                                .kl_beta = 0.1,
                                                .entropy_coef = 0.01,
                                                .correction = TESS_CORRECT_TIS,
                                                .correction_low = 0.9,
                                                .correction_high = 1.1},
                                               {.kind = TESS_POLICY_PPO,
                                                .clip_low = 0.1,
                                                .clip_high = 0.2,
                                                .correction = TESS_CORRECT_SEQUENCE_MASK,
                                                .correction_low = 0.97,
                                                .correction_high = 1.03,
                                                .reduction = TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN},
                                               {.kind = TESS_POLICY_CISPO,
                                                .clip_low = 0.1,
                                                .clip_high = 0.2,
                                                .correction = TESS_CORRECT_ICEPOP,
                                                .correction_low = 0.9,
                                                .correction_high = 1.1},
                                               {.kind = TESS_POLICY_REINFORCE,
                                                .kl = TESS_KL_K2,
                                                .kl_beta = 0.5,
                                                .reduction = TESS_REDUCE_CONSTANT,
                                                .constant = 9}};

static void chunks_of_rows_give_the_bits_of_all_at_once(void)
{
    static batch b;
    static graded whole, cut;
    draw_batch(&b, true);
    for (size_t o = 0; o < sizeof(by_token) / sizeof(by_token[0]); o++) {
        plan(&by_token[o], &b);
        EXPECT(!tess_policy_needs_whole(&by_token[o]));
        grade(&by_token[o], &b, &whole);
        EXPECT(whole.sums.count[TESS_POLICY_N_TOKENS] > 20);
        for (int64_t chunk = 1; chunk <= 17; chunk += 4) {
            cut = (graded){0};
            for (int64_t begin = 0; begin < ROWS; begin += chunk) {
                int64_t n = begin + chunk < ROWS ? chunk : ROWS - begin;
                EXPECT_OK(tess_policy_grade(&by_token[o], &b.rows, begin, n, b.logprob + begin, b.entropy + begin,
                                            cut.dlogprob + begin, cut.dentropy + begin, &cut.sums));
            }
            EXPECT_SAME(cut.dlogprob, whole.dlogprob, ROWS);
            EXPECT_SAME(cut.dentropy, whole.dentropy, ROWS);
            expect_same_sums(&cut.sums, &whole.sums);
        }
    }
}

/* The sequences [first, end) of `b` as a micro-batch of its own. */
static void take_sequences(const batch *b, int64_t first, int64_t end, batch *part)
{
    int32_t begin = b->cu[first];
    part->rows = (tess_policy_rows){.n_rows = b->cu[end] - begin,
                                    .n_seqs = end - first,
                                    .cu = part->cu,
                                    .mask = b->mask + begin,
                                    .advantage = b->advantage + begin,
                                    .old_logprob = b->old_logprob + begin,
                                    .rollout_logprob = b->rollout + begin,
                                    .reference = b->reference + begin,
                                    .seq_scale = b->seq_scale + first};
    for (int64_t s = first; s <= end; s++)
        part->cu[s - first] = b->cu[s] - begin;
}

/* Micro-batches of `size` sequences, dealt to `n_ranks` whose words are added. */
static void grade_on_ranks(const tess_policy_options *options, const batch *b, int64_t size, int n_ranks, graded *g)
{
    static tess_policy_sums rank[3];
    static int64_t words[TESS_POLICY_SUM_WORDS], total[TESS_POLICY_SUM_WORDS];
    memset(rank, 0, sizeof(rank));
    memset(total, 0, sizeof(total));
    *g = (graded){0};
    for (int64_t first = 0, i = 0; first < b->rows.n_seqs; first += size, i++) {
        static batch part;
        take_sequences(b, first, first + size < b->rows.n_seqs ? first + size : b->rows.n_seqs, &part);
        int32_t begin = b->cu[first];
        EXPECT_OK(tess_policy_grade(options, &part.rows, 0, part.rows.n_rows, b->logprob + begin, b->entropy + begin,
                                    g->dlogprob + begin, g->dentropy + begin, &rank[i % n_ranks]));
    }
    for (int r = 0; r < n_ranks; r++) {
        tess_policy_sums_pack(&rank[r], words);
        for (int i = 0; i < TESS_POLICY_SUM_WORDS; i++)
            total[i] += words[i];
        for (int m = 0; m < TESS_POLICY_MAX_COUNT; m++)
            g->sums.max[m] = fmaxf(g->sums.max[m], rank[r].max[m]);
    }
    tess_policy_sums_unpack(total, &g->sums);
}

static void micro_batches_on_ranks_give_the_bits_of_one(void)
{
    static const tess_policy_options options[] = {
        {.kind = TESS_POLICY_GSPO,
         .clip_low = 0.02,
         .clip_high = 0.03,
         .kl = TESS_KL_K3,
         .kl_beta = 0.1,
         .entropy_coef = 0.01,
         .reduction = TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN},
        {.kind = TESS_POLICY_PPO, .clip_low = 0.1, .clip_high = 0.2, .opsm_delta = 0.01}};
    static batch b;
    static graded whole, cut;
    draw_batch(&b, true);
    for (size_t o = 0; o < 2; o++) {
        plan(&options[o], &b);
        EXPECT(tess_policy_needs_whole(&options[o]));
        grade(&options[o], &b, &whole);
        for (int64_t size = 1; size <= 4; size++) {
            for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
                grade_on_ranks(&options[o], &b, size, n_ranks, &cut);
                EXPECT_SAME(cut.dlogprob, whole.dlogprob, ROWS);
                expect_same_sums(&cut.sums, &whole.sums);
                EXPECT(tess_policy_loss(&options[o], &cut.sums, b.divisor) ==
                       tess_policy_loss(&options[o], &whole.sums, b.divisor));
            }
        }
    }
}

/* One sequence of rows that are all responses, on policy but for what the test changes. */
static void plain_batch(batch *b, int64_t n)
{
    *b = (batch){.rows = {.n_rows = n, .n_seqs = 1}};
    b->cu[1] = (int32_t)n;
    for (int64_t row = 0; row < n; row++) {
        b->mask[row] = 1;
        b->advantage[row] = row % 2 ? -1 : 1;
        b->logprob[row] = b->old_logprob[row] = b->rollout[row] = -0.1f * (float)(row + 1);
        b->entropy[row] = 1;
    }
    b->seq_scale[0] = 1;
    b->divisor = (double)n;
    point(b, false);
}

static void on_policy_the_ratio_is_exactly_1_and_one_bit_is_seen(void)
{
    static batch b;
    static graded g;
    const tess_policy_options ppo = {.kind = TESS_POLICY_PPO, .clip_low = 0.2, .clip_high = 0.2};
    plain_batch(&b, 8);
    grade(&ppo, &b, &g);
    EXPECT(metric(&ppo, &g, 8, "train/ratio_mean") == 1 && metric(&ppo, &g, 8, "train/ratio_std") == 0);
    EXPECT(metric(&ppo, &g, 8, "train/ratio_max") == 1 && metric(&ppo, &g, 8, "train/approx_kl") == 0);
    EXPECT(metric(&ppo, &g, 8, "train/train_rollout_logprob_differ") == 0);
    EXPECT(metric(&ppo, &g, 8, "train/train_rollout_logprob_max_diff") == 0);
    for (int row = 0; row < 8; row++)
        EXPECT(g.dlogprob[row] == -b.advantage[row]);
    b.rollout[3] = nextafterf(b.rollout[3], 0);
    grade(&ppo, &b, &g);
    EXPECT(metric(&ppo, &g, 8, "train/train_rollout_logprob_differ") == 1);
    EXPECT(metric(&ppo, &g, 8, "train/train_rollout_logprob_max_diff") > 0);
    EXPECT(metric(&ppo, &g, 8, "train/ratio_mean") == 1);
}

/* Two losses that differ in the KL's weight alone: compares what the KL adds to the derivatives with the rest. */
static void the_pull_of_the_kl_is_told_beside_that_of_the_rewards(void)
{
    static batch b;
    static graded with, without;
    tess_policy_options ppo = {
        .kind = TESS_POLICY_PPO, .clip_low = 0.2, .clip_high = 0.2, .kl = TESS_KL_K2, .kl_beta = 0.5};
    double rewards = 0, kl = 0;
    plain_batch(&b, 8);
    for (int row = 0; row < 8; row++)
        b.reference[row] = b.logprob[row] - 0.25f * (float)(row % 3);
    point(&b, true);
    grade(&ppo, &b, &with);
    ppo.kl_beta = 0;
    grade(&ppo, &b, &without);
    EXPECT(metric(&ppo, &without, 8, "train/kl_pull") == 0);
    ppo.kl_beta = 0.5;
    for (int row = 0; row < 8; row++) {
        const double added = (double)with.dlogprob[row] - without.dlogprob[row];
        kl += added * added;
        rewards += (double)without.dlogprob[row] * without.dlogprob[row];
    }
    EXPECT(kl > 0);
    rl_expect_near("pulls", "kl_pull", 0, metric(&ppo, &with, 8, "train/kl_pull"), sqrt(kl / rewards));
}

static void the_documents_values_come_out(void)
{
    /* loss = policy + KL penalty - entropy bonus: 0.0856 + 0.0048 - 0.0329 = 0.0575, from one token that has them. */
    static batch b;
    static graded g;
    tess_policy_options grpo = {.kind = TESS_POLICY_REINFORCE, .kl = TESS_KL_K1, .kl_beta = 0.02, .entropy_coef = 0.01};
    plain_batch(&b, 1);
    b.advantage[0] = 0.0856f;
    b.logprob[0] = -1;
    b.reference[0] = -1.24f;
    b.entropy[0] = 3.29f;
    point(&b, true);
    grade(&grpo, &b, &g);
    rl_expect_near("documents", "pg_loss", 0, metric(&grpo, &g, 1, "train/pg_loss"), 0.0856);
    rl_expect_near("documents", "kl_loss", 0, metric(&grpo, &g, 1, "train/kl_loss"), 0.24);
    rl_expect_near("documents", "loss", 0, metric(&grpo, &g, 1, "train/loss"), 0.0575);
    /* approx_kl = mean((r - 1) - log r), ratio mean and deviation: r = 1.1 and 0.9 */
    plain_batch(&b, 2);
    b.logprob[0] = b.old_logprob[0] + logf(1.1f);
    b.logprob[1] = b.old_logprob[1] + logf(0.9f);
    grade(&grpo, &b, &g);
    rl_expect_near("documents", "ratio_mean", 0, metric(&grpo, &g, 2, "train/ratio_mean"), 1);
    rl_expect_near("documents", "ratio_std", 0, metric(&grpo, &g, 2, "train/ratio_std"), 0.2 / sqrt(2));
    EXPECT(fabs(metric(&grpo, &g, 2, "train/approx_kl") - (0.1 - log(1.1) - 0.1 - log(0.9)) / 2) < 1e-7);
    EXPECT(metric(&grpo, &g, 2, "train/advantage_mean") == 0);
    rl_expect_near("documents", "advantage_std", 0, metric(&grpo, &g, 2, "train/advantage_std"), sqrt(2));
}

static void tis_weighs_clips_and_reports(void)
{
    static batch b;
    static graded g;
    tess_policy_options tis = {.kind = TESS_POLICY_PPO,
                               .clip_low = 0.2,
                               .clip_high = 0.2,
                               .correction = TESS_CORRECT_TIS,
                               .correction_high = 10};
    plain_batch(&b, 4);
    b.rollout[0] = b.old_logprob[0] - logf(16);
    b.rollout[1] = b.old_logprob[1] - logf(2);
    grade(&tis, &b, &g);
    EXPECT(fabs(metric(&tis, &g, 4, "train/tis_max") - 16) < 1e-4);
    EXPECT(fabs(metric(&tis, &g, 4, "train/tis") - 20.0 / 4) < 1e-4);
    EXPECT(fabs(metric(&tis, &g, 4, "train/tis_weight") - 14.0 / 4) < 1e-4);
    EXPECT(fabs(metric(&tis, &g, 4, "train/tis_abs") - 16.0 / 4) < 1e-4);
    EXPECT(metric(&tis, &g, 4, "train/tis_clipfrac") == 0.25);
    EXPECT(fabs(g.dlogprob[0] - -10) < 1e-5 && fabs(g.dlogprob[1] - 2) < 1e-5);
    b.rows.rollout_logprob = NULL; /* NULL: the old policy drew the tokens */
    grade(&tis, &b, &g);
    EXPECT(metric(&tis, &g, 4, "train/tis_max") == 1 && g.dlogprob[0] == -1);
    tis.correction = TESS_CORRECT_NONE;
    grade(&tis, &b, &g);
    EXPECT(!has_metric(&tis, &g, "train/tis") && !has_metric(&tis, &g, "train/kl_loss") &&
           !has_metric(&tis, &g, "train/opsm_clipfrac"));
}

static void reductions(void)
{
    const int64_t lengths[] = {4, 0, 1, 5};
    float scale[4];
    double divisor;
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_TOKEN_MEAN, 0, lengths, 4, scale, &divisor));
    EXPECT(divisor == 10 && scale[0] == 1 && scale[3] == 1);
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN, 0, lengths, 4, scale, &divisor));
    EXPECT(divisor == 3 && scale[0] == 0.25f && scale[1] == 1 && scale[2] == 1 && scale[3] == 0.2f);
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_SEQ_MEAN_TOKEN_SUM, 0, lengths, 4, scale, &divisor));
    EXPECT(divisor == 3 && scale[0] == 1);
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_CONSTANT, 16, lengths, 4, scale, &divisor));
    EXPECT(divisor == 48 && scale[3] == 1);
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN, 0, lengths + 1, 1, scale, &divisor));
    EXPECT(divisor == 1);
    EXPECT_OK(tess_reduction_plan(TESS_REDUCE_TOKEN_MEAN, 0, NULL, 0, NULL, &divisor));
    EXPECT(divisor == 1);
    EXPECT_FAILS(tess_reduction_plan(TESS_REDUCE_CONSTANT, 0, lengths, 4, scale, &divisor), TESS_E_INVALID, "constant");
    const int64_t negative[] = {3, -1};
    EXPECT_FAILS(tess_reduction_plan(TESS_REDUCE_TOKEN_MEAN, 0, negative, 2, scale, &divisor), TESS_E_INVALID,
                 "sample 1");
}

static void nothing_to_learn_is_zero_and_no_nan(void)
{
    static batch b;
    static graded g;
    const tess_policy_options options = {.kind = TESS_POLICY_GSPO,
                                         .clip_low = 0.2,
                                         .clip_high = 0.2,
                                         .kl_beta = 0.1,
                                         .entropy_coef = 0.1,
                                         .opsm_delta = 0.1};
    plain_batch(&b, 3);
    memset(b.mask, 0, sizeof(b.mask));
    memset(g.dlogprob, 0xff, sizeof(g.dlogprob));
    EXPECT_OK(tess_policy_grade(&options, &b.rows, 0, 3, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums));
    EXPECT(g.dlogprob[0] == 0 && g.dlogprob[2] == 0 && g.dentropy[1] == 0);
    EXPECT(metric(&options, &g, 1, "train/loss") == 0 && metric(&options, &g, 1, "train/tokens") == 0);
    b.rows.n_rows = b.rows.n_seqs = 0;
    grade(&options, &b, &g);
    EXPECT(tess_policy_loss(&options, &g.sums, 1) == 0);
}

static void bad_rows_numbers_and_options_are_named(void)
{
    static batch b;
    static graded g;
    tess_policy_options ppo = {.kind = TESS_POLICY_PPO, .clip_low = 0.2, .clip_high = 0.2};
    tess_policy_options gspo = {.kind = TESS_POLICY_GSPO, .clip_low = 0.2, .clip_high = 0.2};
    plain_batch(&b, 4);
    EXPECT_FAILS(tess_policy_grade(&gspo, &b.rows, 1, 3, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums),
                 TESS_E_INVALID, "`whole`");
    EXPECT_FAILS(tess_policy_grade(&ppo, &b.rows, 2, 3, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums),
                 TESS_E_INVALID, "rows 2 to 5");
    b.old_logprob[2] = -INFINITY;
    EXPECT_FAILS(tess_policy_grade(&ppo, &b.rows, 0, 4, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums),
                 TESS_E_NOT_FINITE, "old log-probability of row 2");
    b.mask[2] = 0; /* nobody looks at it then */
    EXPECT_OK(tess_policy_grade(&ppo, &b.rows, 0, 4, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums));
    b.advantage[3] = NAN;
    EXPECT_FAILS(tess_policy_grade(&ppo, &b.rows, 0, 4, b.logprob, b.entropy, g.dlogprob, g.dentropy, &g.sums),
                 TESS_E_NOT_FINITE, "advantage of row 3");
    const struct {
        tess_policy_options options;
        const char *names;
    } bad[] = {{{.clip_low = -0.1}, "lower clip"},
               {{.clip_high = NAN}, "upper clip"},
               {{.dual_clip = 1}, "dual clip"},
               {{.kl_beta = -1}, "weight of the KL"},
               {{.entropy_coef = INFINITY}, "weight of the entropy"},
               {{.correction = TESS_CORRECT_TIS, .correction_low = 2, .correction_high = 1}, "limits are 2 and 1"},
               {{.opsm_delta = -1}, "OPSM"},
               {{.reduction = TESS_REDUCE_CONSTANT}, "constant"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_policy_options_check(&bad[i].options), TESS_E_INVALID, bad[i].names);
}

static void kl_estimates_keep_their_digits_near_zero(void)
{
    double slope;
    EXPECT(tess_kl_estimate(TESS_KL_K3, 0, &slope) == 0 && slope == 0);
    for (double d = 1e-9; d < 1e-3; d *= 10) { /* e^-d - 1 + d would have lost all its digits */
        EXPECT(fabs(tess_kl_estimate(TESS_KL_K3, d, &slope) / (d * d / 2 - d * d * d / 6) - 1) < 1e-6);
        EXPECT(fabs(slope / d - 1) < d);
    }
    EXPECT(tess_kl_estimate(TESS_KL_K3, -30, &slope) == 10 && slope == 0);
    EXPECT(fabs(tess_kl_estimate(TESS_KL_K3, 5, &slope) - (exp(-5) + 4)) < 1e-12);
    EXPECT(tess_kl_estimate(TESS_KL_K1, -0.25, &slope) == -0.25 && slope == 1);
    EXPECT(tess_kl_estimate(TESS_KL_K2, -0.5, &slope) == 0.125 && slope == -0.5);
    EXPECT(tess_safe_exp(1000) == exp(20) && tess_safe_exp(-INFINITY) == exp(-20) && tess_safe_exp(0) == 1);
}

static void the_controller_moves_beta_by_a_fifth_of_a_horizon_at_most(void)
{
    tess_kl_controller c = {.beta = 0.2, .target = 6, .horizon = 10000};
    tess_kl_controller_update(&c, 6, 256);
    EXPECT(c.beta == 0.2);
    tess_kl_controller_update(&c, 60, 256); /* the error is held to 0.2 */
    EXPECT(fabs(c.beta - 0.2 * (1 + 0.2 * 0.0256)) < 1e-15);
    c.beta = 0.2;
    tess_kl_controller_update(&c, 5.4, 256);
    EXPECT(fabs(c.beta - 0.2 * (1 - 0.1 * 0.0256)) < 1e-15);
}

static const test_case cases[] = {
    CASE(losses_and_gradients_are_those_of_torch_trl_and_verl),
    CASE(chunks_of_rows_give_the_bits_of_all_at_once),
    CASE(micro_batches_on_ranks_give_the_bits_of_one),
    CASE(on_policy_the_ratio_is_exactly_1_and_one_bit_is_seen),
    CASE(the_pull_of_the_kl_is_told_beside_that_of_the_rewards),
    CASE(the_documents_values_come_out),
    CASE(tis_weighs_clips_and_reports),
    {"reductions_count_sequences_with_tokens", reductions, 0, 0},
    CASE(nothing_to_learn_is_zero_and_no_nan),
    CASE(bad_rows_numbers_and_options_are_named),
    CASE(kl_estimates_keep_their_digits_near_zero),
    CASE(the_controller_moves_beta_by_a_fifth_of_a_horizon_at_most),
};
TEST_MAIN(cases)
