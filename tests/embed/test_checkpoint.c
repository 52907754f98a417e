/* tessera/ckpt.h: what one layout saves another loads, bit for bit; what is wrong is refused by name on all ranks. */
#include "ckpt/ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "support/moments.h"
#include "tessera/ckpt.h"

enum { STEP = 7 };

/* Awkward sizes: rows that no world size divides, fewer rows than ranks, a scalar, frozen; on an axis "tp" cut along
 * each dimension, or not. */
static const tess_param_desc params[] = {
    {"embed.weight", {2, {13, 5}}, true, true, {TESS_SHARD, 0}}, {"norm", {1, {3}}, true, false},
    {"base", {2, {6, 2}}, false, true, {TESS_SHARD, 1}},         {"scale", {0, {0}}, true, false},
    {"conv", {3, {5, 2, 3}}, true, true, {TESS_SHARD, 2}},       {"down", {2, {7, 9}}, true, true, {TESS_SHARD, 1}},
};
enum { PARAMS = sizeof(params) / sizeof(params[0]) };

static float value(int tensor, int64_t element)
{
    return tess_rng_uniform(9, TESS_RNG_TEST, (uint64_t)tensor, (uint64_t)element) - 0.5f;
}

typedef struct model {
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_optimizer *adamw;
} model;

static tess_status fill_zero(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context, (void)name, (void)shape, (void)box, (void)dst;
    return TESS_OK;
}

static void create_on(model *m, tess_strategy strategy, int tp)
{
    tess_unit *unit;
    const tess_fsdp_policy policy = {strategy, TESS_F32, TESS_F32, 1, 0};
    EXPECT_OK(tess_mesh_create(the_runtime, (tess_axis[]){{"dp_shard", -1}, {"tp", tp}}, 2, &m->mesh));
    EXPECT_OK(tess_fsdp_create(m->mesh, &policy, &m->fsdp));
    EXPECT_OK(tess_fsdp_add_unit(m->fsdp, "all", params, PARAMS, &unit));
    EXPECT_OK(tess_fsdp_materialize(m->fsdp, fill_zero, NULL));
    EXPECT_OK(tess_fsdp_optimizer_create(
        m->fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f}, &m->adamw));
}

static void create(model *m, tess_strategy strategy)
{
    create_on(m, strategy, 1);
}

static void destroy(model *m)
{
    tess_optimizer_destroy(&m->adamw);
    tess_fsdp_destroy(&m->fsdp);
    tess_mesh_destroy(&m->mesh);
}

static void put(float *data, int tensor, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = value(tensor, first + i);
}

static void expect(float *data, int tensor, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float want = value(tensor, first + i);
        EXPECT_SAME(&data[i], &want, 1);
    }
}

/* Calls `use` with runs of elements of what this rank holds, the tensor's number, and that of the first element. */
static void walk(model *m, void (*use)(float *data, int tensor, int64_t first, int64_t n))
{
    for (int i = 0; i < tess_fsdp_shards(m->fsdp); i++) {
        tess_shard s;
        float *state[3];
        EXPECT_OK(tess_fsdp_shard(m->fsdp, i, &s));
        moments_of(m->adamw, i, &state[1], &state[2]);
        state[0] = s.master;
        const tess_shape shape = tess_shape_atleast_1d(&s.shape);
        const tess_box whole = tess_box_whole(&shape);
        int64_t n = tess_box_count(shape.n_dims, &s.box), run = tess_flat_run(shape.n_dims, shape.dim, s.box.size);
        for (int64_t at = 0; at < n; at += run) {
            tess_box slice;
            tess_flat_slice(shape.n_dims, &s.box, at, run, &slice);
            for (int k = 0; k < (s.trainable ? 3 : 1); k++)
                use(state[k] + at, 3 * i + k, tess_flat_offset(shape.n_dims, &whole, &slice), run);
        }
    }
}

/* Rows [begin, +n) of an own tensor (11, 3), numbered 100. */
static tess_checkpoint_tensor own_tensor(float *data, int64_t begin, int64_t n)
{
    return (tess_checkpoint_tensor){"own.table", TESS_F32, {2, {11, 3}}, {{begin, 0}, {n, 3}}, data};
}

/* Saves from one layout; the own tensor is cut in rows. */
static void save(const char *folder, tess_strategy strategy, int tp, const char *meta)
{
    float data[33];
    int64_t begin, n;
    model m;
    create_on(&m, strategy, tp);
    walk(&m, put);
    tess_shard_rows(11, tess_runtime_world(the_runtime), tess_runtime_rank(the_runtime), &begin, &n);
    put(data, 100, begin * 3, n * 3);
    tess_checkpoint_tensor own = own_tensor(data, begin, n);
    const tess_checkpoint_state state = {.fsdp = m.fsdp, .optimizer = m.adamw, .tensors = &own, .n_tensors = 1};
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP, &state, meta));
    destroy(&m);
}

static void any_layout_loads_what_any_other_saved(void)
{
    enum { LAYOUTS = 5 };
    const char *folder = common_folder(join_job());
    int world = tess_runtime_world(the_runtime), two = world % 2 == 0 ? 2 : 1;
    const struct {
        tess_strategy strategy;
        int tp;
    } layouts[LAYOUTS] = {{TESS_STRATEGY_FULL, 1},
                          {TESS_STRATEGY_NONE, 1},
                          {TESS_STRATEGY_ZERO2, two},
                          {TESS_STRATEGY_NONE, two},
                          {TESS_STRATEGY_FULL, world}};
    for (int from = 0; from < LAYOUTS; from++) {
        save(folder, layouts[from].strategy, layouts[from].tp, "{\"epoch\": 3}");
        EXPECT_OK(tess_checkpoint_verify(folder, STEP));
        for (int to = 0; to < LAYOUTS; to++) {
            float data[33] = {0};
            int64_t step = -1;
            model m;
            create_on(&m, layouts[to].strategy, layouts[to].tp);
            tess_checkpoint_tensor own = own_tensor(data, 0, 11); /* whole on every rank */
            const tess_checkpoint_state state = {.fsdp = m.fsdp, .optimizer = m.adamw, .tensors = &own, .n_tensors = 1};
            EXPECT_OK(tess_checkpoint_resume(the_runtime, folder, &state, &step));
            EXPECT_INT(step, STEP);
            walk(&m, expect);
            expect(data, 100, 0, 33);
            destroy(&m);
        }
    }
    char *meta;
    EXPECT_OK(tess_checkpoint_meta(folder, STEP, &meta));
    EXPECT_TEXT(meta, "{\"epoch\":3}");
    free(meta);
    leave_job();
}

/* Each element that all hold is written once, and by all in turns. */
static void ranks_that_hold_the_same_share_the_writing(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    float data[33], scalar = 2.5f;
    put(data, 100, 0, 33);
    tess_checkpoint_tensor own[2] = {own_tensor(data, 0, 11), {"step", TESS_F32, {0, {0}}, {{0}, {1}}, &scalar}};
    tess_checkpoint_state state = {.tensors = own, .n_tensors = 2};
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, 1, &state, NULL));
    memset(data, 0, sizeof(data));
    scalar = 0;
    own[1].box.size[0] = tess_team_rank(team) == 0; /* the others do without */
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, 1, &state));
    expect(data, 100, 0, 33);
    EXPECT(scalar == (tess_team_rank(team) == 0 ? 2.5f : 0));
    char path[512];
    struct stat file;
    int64_t begin, n;
    snprintf(path, sizeof(path), "%s/step-00000001/rank-%05d.data", folder, tess_team_rank(team));
    tess_shard_rows(11, tess_team_size(team), tess_team_rank(team), &begin, &n);
    EXPECT(stat(path, &file) == 0);
    EXPECT_INT(file.st_size > 0, n > 0);
    char *meta = path;
    EXPECT_OK(tess_checkpoint_meta(folder, 1, &meta));
    EXPECT(meta == NULL);
    leave_job();
}

static void a_dtensor_goes_in_and_comes_out_in_other_placements(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    float full[33], back[33];
    tess_mesh *mesh;
    tess_dtensor *rows, *copies, *columns, *sum;
    tess_checkpoint_tensor own;
    const tess_checkpoint_state state = {.tensors = &own, .n_tensors = 1};
    tess_spec spec = {.shape = {2, {11, 3}}, .n_axes = 1, .place = {{TESS_SHARD, 0}}};
    put(full, 100, 0, 33);
    EXPECT_OK(tess_mesh_create(the_runtime, &(tess_axis){"tp", -1}, 1, &mesh));
    EXPECT_OK(tess_dtensor_distribute(mesh, &spec, TESS_F32, full, &rows));
    EXPECT_OK(tess_checkpoint_describe("own.table", rows, &own));
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL));
    spec.place[0].kind = TESS_REPLICATE;
    EXPECT_OK(tess_dtensor_create(mesh, &spec, TESS_F32, &copies));
    EXPECT_OK(tess_checkpoint_describe("own.table", copies, &own));
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, STEP, &state));
    EXPECT_OK(tess_dtensor_full(copies, back));
    EXPECT_SAME(back, full, 33);
    spec.place[0] = (tess_place){TESS_SHARD, 1};
    EXPECT_OK(tess_dtensor_create(mesh, &spec, TESS_F32, &columns));
    EXPECT_OK(tess_checkpoint_describe("own.table", columns, &own));
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, STEP, &state));
    EXPECT_OK(tess_dtensor_full(columns, back));
    EXPECT_SAME(back, full, 33);
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP + 1, &state, NULL));
    EXPECT_OK(tess_checkpoint_describe("own.table", rows, &own));
    memset(own.data, 0, (size_t)tess_box_count(2, &own.box) * sizeof(float));
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, STEP + 1, &state));
    EXPECT_OK(tess_dtensor_full(rows, back));
    EXPECT_SAME(back, full, 33);
    spec.place[0].kind = TESS_PARTIAL;
    EXPECT_OK(tess_dtensor_create(mesh, &spec, TESS_F32, &sum));
    EXPECT_FAILS(tess_checkpoint_describe("own.table", sum, &own), TESS_E_INVALID,
                 "'own.table' is Partial over axis 0");
    tess_dtensor_destroy(&sum);
    tess_dtensor_destroy(&columns);
    tess_dtensor_destroy(&copies);
    tess_dtensor_destroy(&rows);
    tess_mesh_destroy(&mesh);
    leave_job();
}

/* One rank alone is wrong; all get its message. */
static void bad_tensors_are_refused_by_name(void)
{
    int me = tess_team_rank(join_job());
    const char *folder = common_folder(tess_runtime_team(the_runtime));
    float data[33] = {0};
    tess_checkpoint_tensor own[2] = {own_tensor(data, 0, 11), own_tensor(data, 0, 11)};
    tess_checkpoint_state state = {.tensors = own, .n_tensors = 1};
#define REFUSED(status, text) EXPECT_FAILS(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL), status, text)
    own[0].box = me == 1 ? (tess_box){{4, 0}, {8, 3}} : own[0].box;
    REFUSED(TESS_E_INVALID, "'own.table': the box [4, 12) x [0, 3) is outside of the shape [11, 3]");
    own[0].box = me == 1 ? (tess_box){{4, 0}, {7, 3}} : (tess_box){{0, 0}, {5, 3}};
    REFUSED(TESS_E_INVALID, "which overlap in part");
    own[0].box = me == 1 ? (tess_box){{4, 0}, {7, 3}} : (tess_box){{0, 0}, {3, 3}};
    REFUSED(TESS_E_INVALID, "own.table");
    own[0] = own_tensor(data, 0, 11);
    own[0].dtype = TESS_DTYPE_COUNT;
    REFUSED(TESS_E_INVALID, "'own.table': 6 is no dtype");
    own[0] = own_tensor(me == 1 ? NULL : data, 0, 11);
    REFUSED(TESS_E_INVALID, "'own.table': no data for the box");
    own[0] = own_tensor(data, 0, 11);
    state.n_tensors = 2;
    REFUSED(TESS_E_INVALID, "two tensors have the name 'own.table'");
    state.n_tensors = 1;
    EXPECT_FAILS(tess_checkpoint_save(the_runtime, folder, STEP, &state, "[1]"), TESS_E_INVALID, "no JSON object: [1]");
    EXPECT_FAILS(tess_checkpoint_save(the_runtime, folder, STEP, &state, "{"), TESS_E_FORMAT, "meta of a checkpoint");
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL)); /* none of it did harm */
    leave_job();
}

/* Every dtype, cut in rows, comes back whole and in columns: the bytes as they are. */
static void every_dtype_comes_back(void)
{
    enum { ROWS = 11, COLUMNS = 3, ELEMENTS = ROWS * COLUMNS };
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    int world = tess_team_size(team), me = tess_team_rank(team);
    uint8_t full[TESS_DTYPE_COUNT][ELEMENTS * 8], data[TESS_DTYPE_COUNT][ELEMENTS * 8];
    const char *const names[] = {"f32", "bf16", "f16", "i32", "i64", "u8"};
    tess_checkpoint_tensor own[TESS_DTYPE_COUNT];
    tess_checkpoint_state state = {.tensors = own, .n_tensors = TESS_DTYPE_COUNT};
    const tess_box whole = {{0, 0}, {ROWS, COLUMNS}};
    for (int cut = 0; cut < 2; cut++) { /* cuts of rows, which lie in one run, and of columns */
        for (int d = 0; d < TESS_DTYPE_COUNT; d++) {
            tess_box box = whole;
            size_t bytes = tess_dtype_size((tess_dtype)d);
            for (size_t i = 0; i < ELEMENTS * bytes; i++)
                full[d][i] = (uint8_t)((value(d, (int64_t)i) + 0.5f) * 255);
            tess_shard_rows(whole.size[cut], world, me, &box.begin[cut], &box.size[cut]);
            own[d] = (tess_checkpoint_tensor){names[d], (tess_dtype)d, {2, {ROWS, COLUMNS}}, box, data[d]};
            tess_box_copy(2, bytes, &box, &whole, full[d], &box, data[d]);
        }
        EXPECT_OK(tess_checkpoint_save(the_runtime, folder, cut, &state, NULL));
        for (int back = 0; back < 3; back++) {
            memset(data, 0, sizeof(data));
            for (int d = 0; d < TESS_DTYPE_COUNT; d++) {
                own[d].box = whole;
                if (back < 2)
                    tess_shard_rows(whole.size[back], world, me, &own[d].box.begin[back], &own[d].box.size[back]);
            }
            EXPECT_OK(tess_checkpoint_load(the_runtime, folder, cut, &state));
            for (int d = 0; d < TESS_DTYPE_COUNT; d++) {
                uint8_t want[ELEMENTS * 8];
                size_t bytes = tess_dtype_size((tess_dtype)d);
                tess_box_copy(2, bytes, &own[d].box, &whole, full[d], &own[d].box, want);
                EXPECT_SAME(data[d], want, (size_t)tess_box_count(2, &own[d].box) * bytes);
            }
        }
    }
    leave_job();
}

static void float32_is_read_from_any_floats_and_others_from_their_own(void)
{
    const char *folder = common_folder(join_job());
    uint16_t halves[] = {0x3f80, 0xc000, 0x0000}; /* 1, -2, 0 in bfloat16 */
    int32_t integers[] = {1, 2, 3};
    float floats[3], want[] = {1, -2, 0};
    tess_checkpoint_tensor own[] = {{"halves", TESS_BF16, {1, {3}}, {{0}, {3}}, halves},
                                    {"integers", TESS_I32, {1, {3}}, {{0}, {3}}, integers}};
    tess_checkpoint_state state = {.tensors = own, .n_tensors = 2};
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL));
    own[0].dtype = TESS_F32;
    own[0].data = floats;
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, STEP, &state));
    EXPECT_SAME(floats, want, 3);
    own[0].dtype = TESS_F16;
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_INVALID,
                 "'model.halves' is BF16, which is not read as float16");
    own[0].dtype = TESS_F32;
    own[1].dtype = TESS_F32;
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_FORMAT,
                 "'model.integers' is I32, which is not read as float32");
    leave_job();
}

/* Two fsdps alike in all: only the one that an adamw was made for may be saved with it. */
static void an_adamw_of_another_fsdp_is_refused(void)
{
    const char *folder = common_folder(join_job());
    model a, b;
    create(&a, TESS_STRATEGY_FULL);
    create(&b, TESS_STRATEGY_FULL);
    tess_checkpoint_state state = {.fsdp = a.fsdp, .optimizer = b.adamw};
    EXPECT_FAILS(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL), TESS_E_INVALID,
                 "was not made for the fsdp");
    state.optimizer = a.adamw;
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, STEP, &state, NULL));
    state.fsdp = b.fsdp;
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_INVALID, "was not made for the fsdp");
    EXPECT_FAILS(tess_fsdp_optimizer_step(b.fsdp, a.adamw, 1, 1, 1), TESS_E_INVALID, "was not made for this fsdp");
    destroy(&b);
    destroy(&a);
    leave_job();
}

static void another_model_is_refused(void)
{
    const char *folder = common_folder(join_job());
    float data[36] = {0};
    int64_t step = -1;
    tess_checkpoint_tensor own = own_tensor(data, 0, 11);
    tess_checkpoint_state state = {.tensors = &own, .n_tensors = 1};
    EXPECT_OK(tess_checkpoint_resume(the_runtime, folder, &state, &step));
    EXPECT_INT(step, 0);
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_NOT_FOUND, "step-00000007");
    save(folder, TESS_STRATEGY_FULL, 1, NULL);
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_INVALID, "is not of this model");
    state.partial = true;
    EXPECT_OK(tess_checkpoint_load(the_runtime, folder, STEP, &state));
    own.shape.dim[0] = own.box.size[0] = 12;
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_INVALID,
                 "'model.own.table' has shape [11, 3] but this model's is [12, 3]");
    own = own_tensor(data, 0, 11);
    own.name = "own.tabel";
    EXPECT_FAILS(tess_checkpoint_load(the_runtime, folder, STEP, &state), TESS_E_INVALID,
                 "no tensor 'model.own.tabel'");
    leave_job();
}

static void damage_is_named_and_older_ones_go(void)
{
    tess_team *team = join_job();
    const char *folder = common_folder(team);
    float data[33] = {0};
    int64_t step;
    tess_checkpoint_tensor own = own_tensor(data, 0, 11);
    const tess_checkpoint_state state = {.tensors = &own, .n_tensors = 1};
    for (int s = 1; s <= 3; s++)
        EXPECT_OK(tess_checkpoint_save(the_runtime, folder, s, &state, NULL));
    tess_checkpoint_entry *entries;
    int n;
    EXPECT_OK(tess_checkpoint_prune(the_runtime, folder, 2));
    EXPECT_OK(tess_checkpoint_list(folder, &entries, &n));
    EXPECT_INT(n, 2);
    EXPECT_TEXT(entries[0].name, "step-00000002");
    EXPECT(entries[1].step == 3 && entries[1].complete && entries[1].bytes > 132);
    free(entries);
    EXPECT_OK(tess_barrier(team, NULL));
    char path[512];
    snprintf(path, sizeof(path), "%s/step-00000003/rank-00000.data", folder);
    if (tess_team_rank(team) == 0) { /* one bit */
        int fd = open(path, O_RDWR);
        char byte;
        EXPECT(pread(fd, &byte, 1, 5) == 1);
        byte ^= 4;
        EXPECT(pwrite(fd, &byte, 1, 5) == 1);
        close(fd);
    }
    EXPECT_OK(tess_barrier(team, NULL));
    EXPECT_FAILS(tess_checkpoint_verify(folder, 3), TESS_E_FORMAT, "rank-00000.data");
    EXPECT_FAILS(tess_checkpoint_resume(the_runtime, folder, &state, &step), TESS_E_FORMAT, "'model.own.table'");
    EXPECT_OK(tess_checkpoint_verify(folder, 2));
    EXPECT_OK(tess_barrier(team, NULL));
    if (tess_team_rank(team) == 0) /* cut short: known at a look */
        EXPECT(truncate(path, 3) == 0);
    EXPECT_OK(tess_checkpoint_resume(the_runtime, folder, &state, &step));
    EXPECT_INT(step, 2);
    EXPECT_OK(tess_checkpoint_newest(NULL, folder, &step));
    EXPECT_INT(step, 2);
    EXPECT_FAILS(tess_checkpoint_prune(the_runtime, folder, 0), TESS_E_INVALID, "keep 1 at least");
    leave_job();
}

/* A drill fills the disk under the second save: the first stays, nothing of the second does, and a third succeeds. */
static void a_full_disk_leaves_the_older_ones(void)
{
    const tess_runtime_options options = {.fault = "rank=1 step=2 point=save:write kind=enospc"};
    EXPECT_OK(tess_runtime_create(&options, &the_runtime));
    const char *folder = common_folder(tess_runtime_team(the_runtime));
    float data[33];
    int64_t step;
    put(data, 100, 0, 33);
    tess_checkpoint_tensor own = own_tensor(data, 0, 11);
    const tess_checkpoint_state state = {.tensors = &own, .n_tensors = 1};
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, 1, &state, NULL));
    EXPECT_FAILS(tess_checkpoint_save(the_runtime, folder, 2, &state, NULL), TESS_E_NO_SPACE, "rank-00001.data");
    EXPECT_OK(tess_checkpoint_newest(the_runtime, folder, &step));
    EXPECT_INT(step, 1);
    tess_checkpoint_entry *entries;
    int n;
    EXPECT_OK(tess_checkpoint_list(folder, &entries, &n));
    EXPECT_INT(n, 1);
    free(entries);
    EXPECT_OK(tess_checkpoint_save(the_runtime, folder, 3, &state, NULL));
    leave_job();
}

static const test_case cases[] = {
    CASE(any_layout_loads_what_any_other_saved, -1),
    CASE(ranks_that_hold_the_same_share_the_writing, -1),
    CASE(a_dtensor_goes_in_and_comes_out_in_other_placements, 2),
    CASE(bad_tensors_are_refused_by_name, 2),
    CASE(every_dtype_comes_back, -1),
    CASE(float32_is_read_from_any_floats_and_others_from_their_own, 2),
    CASE(an_adamw_of_another_fsdp_is_refused, 2),
    CASE(another_model_is_refused, 2),
    CASE(damage_is_named_and_older_ones_go, 2),
    CASE(a_full_disk_leaves_the_older_ones, 2),
};
TEST_MAIN(cases)
