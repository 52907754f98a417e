/* Weights of ranks that train arrive at ranks that only draw: bit for bit, in buckets of any size, while those draw
 * with the ones before; and a bit that is turned over on the way is named. */
#include "engine_rig.h"

#include "rl/sync/weight_sync_impl.h"
#include "engine/held_weights.h"

enum { TRAINERS = 2 };

typedef struct peers {
    rig rig; /* engine NULL: this rank receives */
    tess_team *role;
    tess_weight_sync sync;
    tess_model *model;
    tess_weight_sender *sender;
    tess_weight_receiver *receiver;
} peers;

/* The first two ranks train, all others receive. */
static void open_peers(peers *p, const char *dtype, size_t bucket_bytes)
{
    char words[160];
    *p = (peers){.rig = {.runtime = test_stay_joined()}};
    tess_team *all = tess_runtime_team(p->rig.runtime);
    const bool trains = tess_team_rank(all) < TRAINERS;
    snprintf(words, sizeof(words), "rollout.ranks=%d", tess_team_size(all) - TRAINERS);
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "test", &p->rig.config));
    const char *const overrides[] = {"training.local_batch_size=3",
                                     "training.global_batch_size=12",
                                     "training.seq_len=8",
                                     "training.steps=100",
                                     "lr_scheduler.warmup_steps=0",
                                     "optimizer.lr=0.01",
                                     dtype,
                                     words};
    for (size_t i = 0; i < sizeof(overrides) / sizeof(overrides[0]); i++)
        EXPECT_OK(tess_config_override(&p->rig.config, overrides[i]));
    EXPECT_OK(tess_config_check_step(&p->rig.config, tess_team_size(all)));
    test_model(model_json, &p->rig.model);
    p->sync = (tess_weight_sync){.all = all, .n_trainers = TRAINERS, .bucket_bytes = bucket_bytes};
    EXPECT_OK(tess_team_split(all, !trains, tess_team_rank(all), "role", &p->role));
    EXPECT_OK(tess_model_create(test_mem(), &p->rig.model, &p->model));
    if (trains) {
        EXPECT_OK(tess_engine_create_over(p->role, &p->rig.config, &p->rig.model, NULL, &p->rig.engine));
        EXPECT_OK(tess_weight_sender_create(p->rig.engine, &p->sync, &p->sender));
        return;
    }
    const tess_dtype of = tess_precision_dtype(p->rig.config.training.mixed_precision_param);
    EXPECT_OK(tess_weight_receiver_create(test_mem(), p->model, of, &p->sync, &p->receiver));
}

static void close_peers(peers *p)
{
    if (p->sender != NULL)
        tess_weight_sender_destroy(&p->sender);
    if (p->receiver != NULL)
        tess_weight_receiver_destroy(&p->receiver);
    tess_engine_destroy(&p->rig.engine);
    tess_config_free(&p->rig.config);
    tess_model_destroy(&p->model);
    tess_team_destroy(&p->role);
}

/* Trainers: sends. Receivers: begin to receive; `slowly`, as one that looks now and then. */
static void transfer(peers *p, bool slowly)
{
    int64_t bytes;
    if (p->rig.engine != NULL) {
        EXPECT_OK(tess_weights_send(p->sender, &bytes));
        EXPECT(bytes > 0 || tess_team_size(p->sync.all) - TRAINERS < TRAINERS);
        return;
    }
    EXPECT(tess_weights_receive_some(p->receiver) == TESS_OK); /* nothing is under way */
    EXPECT_OK(tess_weights_receive(p->receiver));
    while (slowly && p->receiver->n_come < p->receiver->layout.n_buckets)
        EXPECT_OK(tess_weights_receive_some(p->receiver));
    EXPECT_OK(tess_weights_receive_rest(p->receiver));
}

/* Every parameter of the trainers is that of the receivers' present copy. */
static void expect_same_weights(peers *p)
{
    static char values[65536];
    tess_held_weights held = {.w = NULL};
    if (p->rig.engine != NULL)
        EXPECT_OK(tess_weights_hold(p->rig.engine, &held));
    const size_t size = tess_dtype_size(tess_precision_dtype(p->rig.config.training.mixed_precision_param));
    for (int i = 0; i < tess_model_n_params(p->model); i++) {
        const size_t bytes = (size_t)tess_shape_count(&tess_model_param(p->model, i)->shape) * size;
        EXPECT(bytes <= sizeof(values));
        if (p->rig.engine != NULL)
            memcpy(values, held.w[i], bytes);
        EXPECT_OK(tess_broadcast(p->sync.all, values, bytes, TESS_U8, 0, NULL));
        if (p->receiver != NULL)
            EXPECT_SAME((const char *)tess_weights_present(p->receiver)[i], values, bytes);
    }
    EXPECT_OK(tess_weights_let_go(&held));
}

static void step(peers *p)
{
    if (p->rig.engine != NULL)
        step_rig(&p->rig);
}

static void arrive(const char *dtype, size_t bucket_bytes)
{
    peers p;
    open_peers(&p, dtype, bucket_bytes);
    EXPECT(p.receiver == NULL || tess_weights_present(p.receiver) == NULL);
    for (int i = 0; i < 3; i++) {
        transfer(&p, i % 2 == 1);
        if (p.receiver != NULL)
            EXPECT_OK(tess_weights_take(p.receiver, i));
        expect_same_weights(&p);
        step(&p);
    }
    close_peers(&p);
}

static void weights_arrive_bit_for_bit_in_buckets_of_any_size(void)
{
    arrive("training.mixed_precision_param=float32", 64);
    arrive("training.mixed_precision_param=float32", 4999); /* no multiple of anything */
    arrive("training.mixed_precision_param=bfloat16", 3001);
    arrive("training.mixed_precision_param=bfloat16", 1 << 30);
    test_leave();
}

/* The copy that is drawn with stays as it is until the next one is taken. */
static void the_present_copy_stays_while_the_next_one_comes(void)
{
    peers p;
    char before[256];
    open_peers(&p, "training.mixed_precision_param=float32", 4999);
    transfer(&p, false);
    if (p.receiver != NULL) {
        EXPECT_OK(tess_weights_take(p.receiver, 0));
        memcpy(before, tess_weights_present(p.receiver)[1], sizeof(before));
    }
    step(&p);
    transfer(&p, true);
    if (p.receiver != NULL) {
        EXPECT_SAME((const char *)tess_weights_present(p.receiver)[1], before, sizeof(before));
        EXPECT_OK(tess_weights_take(p.receiver, 1));
        EXPECT(memcmp(tess_weights_present(p.receiver)[1], before, sizeof(before)) != 0);
    }
    expect_same_weights(&p);
    close_peers(&p);
    test_leave();
}

static void a_bit_that_is_turned_over_is_named_by_rank_and_unit(void)
{
    peers p;
    char needle[160];
    open_peers(&p, "training.mixed_precision_param=float32", 4999);
    transfer(&p, false);
    if (p.receiver != NULL)
        EXPECT_OK(tess_weights_take(p.receiver, 0));
    transfer(&p, false);
    if (p.receiver != NULL) {
        const void *const *present = tess_weights_present(p.receiver);
        int first, n, last = tess_model_n_units(p.model) - 1, me = tess_team_rank(p.sync.all);
        tess_model_unit_params(p.model, last, &first, &n);
        const size_t end = p.receiver->layout.at[first + n - 1] + p.receiver->layout.size[first + n - 1];
        p.receiver->copy[p.receiver->present == 0][end - 1] ^= 0x10; /* a bit of the last byte of all */
        snprintf(needle, sizeof(needle),
                 "weights after step 7: unit '%s' of rank %d is not that of rank %d, which sent it",
                 tess_model_unit_name(p.model, last), me, (me - TRAINERS) % TRAINERS);
        EXPECT_FAILS(tess_weights_take(p.receiver, 7), TESS_E_MISMATCH, needle);
        EXPECT(tess_weights_present(p.receiver) == present);
        tess_error_clear();
    }
    expect_same_weights(&p); /* those that came before */
    close_peers(&p);
    test_leave();
}

static const test_case cases[] = {
    CASE(weights_arrive_bit_for_bit_in_buckets_of_any_size, 3),
    {"more_receivers_than_trainers", weights_arrive_bit_for_bit_in_buckets_of_any_size, 5, 0},
    CASE(the_present_copy_stays_while_the_next_one_comes, 4),
    CASE(a_bit_that_is_turned_over_is_named_by_rank_and_unit, 4),
};

TEST_MAIN(cases)
