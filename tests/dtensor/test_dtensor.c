/* Distributed tensors on real ranks: every change of placements, products, and what is refused. */
#include <stdlib.h>

#include "base/core/rng.h"
#include "support/join.h"
#include "tessera/dtensor.h"

static const tess_place R = {.kind = TESS_REPLICATE}, P = {.kind = TESS_PARTIAL};

static tess_place shard(int dim)
{
    return (tess_place){.kind = TESS_SHARD, .dim = dim};
}

static tess_mesh *mesh_of(tess_runtime *rt, int n_axes, const int *sizes)
{
    static const char *const names[] = {"pp", "dp", "tp"};
    tess_axis axes[3];
    tess_mesh *mesh = NULL;
    for (int a = 0; a < n_axes; a++)
        axes[a] = (tess_axis){names[a], sizes[a]};
    EXPECT_OK(tess_mesh_create(rt, axes, n_axes, &mesh));
    return mesh;
}

static void coordinates(const tess_mesh *mesh, int *sizes, int *at)
{
    for (int a = 0; a < tess_mesh_axes(mesh); a++) {
        sizes[a] = tess_mesh_axis_size(mesh, a);
        at[a] = tess_mesh_coordinate(mesh, a);
    }
}

/* The addend of the rank at `at` of element `index`, whose value is index + 1: whole numbers, so that sums are exact.
 */
static float addend(const tess_spec *spec, const int *sizes, const int *at, int64_t index)
{
    int64_t others = 0;
    bool first = true, partial = false;
    int count[TESS_MESH_MAX_AXES] = {0};
    for (int a = 0; a < spec->n_axes; a++) {
        bool sums = spec->place[a].kind == TESS_PARTIAL;
        partial |= sums;
        first &= !sums || at[a] == 0;
    }
    if (!partial)
        return (float)(index + 1);
    for (bool more = true; more;) { /* over the coordinates of the axes that sum */
        int64_t key = index;
        bool here = true, origin = true;
        for (int a = 0; a < spec->n_axes; a++) {
            bool sums = spec->place[a].kind == TESS_PARTIAL;
            key = key * 9 + (sums ? count[a] : 0);
            here &= !sums || count[a] == at[a];
            origin &= count[a] == 0;
        }
        int64_t value = origin ? 0 : key % 17 - 8;
        if (here && !first)
            return (float)value;
        others += value;
        more = false;
        for (int a = spec->n_axes - 1; a >= 0 && !more; a--) {
            if (spec->place[a].kind != TESS_PARTIAL)
                continue;
            count[a] = (count[a] + 1) % sizes[a];
            more = count[a] != 0;
        }
    }
    return (float)(index + 1 - others);
}

/* Calls visit(tensor, element of the local data, its index in the whole) for every local element. */
static void fill(tess_dtensor *tensor, const tess_mesh *mesh)
{
    const tess_spec *spec = tess_dtensor_spec(tensor);
    const tess_box *box = tess_dtensor_box(tensor);
    int sizes[TESS_MESH_MAX_AXES], at[TESS_MESH_MAX_AXES];
    coordinates(mesh, sizes, at);
    float *local = tess_dtensor_local(tensor);
    int64_t columns = box->size[1];
    for (int64_t i = 0; i < box->size[0] * columns; i++) {
        int64_t row = box->begin[0] + i / columns, column = box->begin[1] + i % columns;
        local[i] = addend(spec, sizes, at, row * spec->shape.dim[1] + column);
    }
}

static void expect_whole(const tess_dtensor *tensor)
{
    int64_t n = tess_shape_count(&tess_dtensor_spec(tensor)->shape);
    float *full = calloc((size_t)n + 1, sizeof(float)), *wanted = calloc((size_t)n + 1, sizeof(float));
    for (int64_t i = 0; i < n; i++)
        wanted[i] = (float)(i + 1);
    EXPECT_OK(tess_dtensor_full(tensor, full));
    EXPECT_SAME(full, wanted, (size_t)n);
    free(full);
    free(wanted);
}

/* The elements of tensors without partial sums, in place. */
static void expect_local(tess_dtensor *tensor)
{
    const tess_spec *spec = tess_dtensor_spec(tensor);
    const tess_box *box = tess_dtensor_box(tensor);
    const float *local = tess_dtensor_local(tensor);
    for (int a = 0; a < spec->n_axes; a++)
        if (spec->place[a].kind == TESS_PARTIAL)
            return;
    for (int64_t i = 0; i < box->size[0] * box->size[1]; i++) {
        int64_t row = box->begin[0] + i / box->size[1], column = box->begin[1] + i % box->size[1];
        EXPECT_INT(local[i], row * spec->shape.dim[1] + column + 1);
    }
}

static void try_pair(tess_mesh *mesh, const tess_spec *from, const tess_spec *to)
{
    tess_dtensor *tensor, *moved;
    tess_redistribution report;
    EXPECT_OK(tess_dtensor_create(mesh, from, TESS_F32, &tensor));
    fill(tensor, mesh);
    EXPECT_OK(tess_dtensor_redistribute(tensor, to, &report, &moved));
    for (int i = 0; i < report.n_moves; i++)
        EXPECT_INT(report.bytes[i], report.moves[i].received * 4);
    for (int a = 0; a < to->n_axes; a++)
        EXPECT_INT(tess_dtensor_spec(moved)->place[a].kind, to->place[a].kind);
    expect_local(moved);
    expect_whole(moved);
    EXPECT_OK(tess_dtensor_check(moved));
    tess_dtensor_destroy(&moved);
    tess_dtensor_destroy(&tensor);
}

/* All pairs of placements of all axes: 4 placements an axis. */
static void try_all_pairs(tess_mesh *mesh, int64_t rows, int64_t columns)
{
    const tess_place places[] = {R, P, shard(0), shard(1)};
    int n_axes = tess_mesh_axes(mesh), n = 1 << (2 * n_axes);
    for (int pair = 0; pair < n * n; pair++) {
        tess_spec from = {.shape = {.n_dims = 2, .dim = {rows, columns}}, .n_axes = n_axes}, to = from;
        for (int a = 0; a < n_axes; a++) {
            from.place[a] = places[pair >> (2 * a) & 3];
            to.place[a] = places[pair >> (2 * (a + n_axes)) & 3];
            to.order[a] = (uint8_t)(pair % 3 == 0 ? n_axes - a : 0);
        }
        try_pair(mesh, &from, &to);
    }
}

static void every_placement_leads_to_every_other_on_one_axis(void)
{
    tess_runtime *rt = test_join();
    int W = tess_team_size(tess_runtime_team(rt));
    tess_mesh *mesh = mesh_of(rt, 1, &W);
    const int64_t sizes[] = {0, 1, W - 1, W, W + 1, 13};
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++)
            try_all_pairs(mesh, sizes[i], sizes[k]);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void every_placement_leads_to_every_other_on_two_axes(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 3});
    try_all_pairs(mesh, 7, 5);
    try_all_pairs(mesh, 1, 6);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void every_placement_leads_to_every_other_on_three_axes(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 3, (const int[]){2, 2, 2});
    try_all_pairs(mesh, 5, 7);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void the_first_rank_distributes_what_it_has(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 3, (const int[]){2, 2, 2});
    const tess_place places[] = {R, P, shard(0), shard(1)};
    float full[35];
    for (int i = 0; i < 35; i++)
        full[i] = (float)(i + 1);
    for (int which = 0; which < 64; which++) {
        tess_spec spec = {.shape = {.n_dims = 2, .dim = {5, 7}}, .n_axes = 3};
        for (int a = 0; a < 3; a++)
            spec.place[a] = places[which >> (2 * a) & 3];
        tess_dtensor *tensor, *again;
        EXPECT_OK(tess_dtensor_distribute(mesh, &spec, TESS_F32, tess_runtime_rank(rt) == 0 ? full : NULL, &tensor));
        expect_local(tensor);
        expect_whole(tensor);
        EXPECT_OK(tess_dtensor_check(tensor));
        const tess_box *box = tess_dtensor_box(tensor);
        tess_shape local = {.n_dims = 2, .dim = {box->size[0], box->size[1]}};
        EXPECT_OK(tess_dtensor_from_local(mesh, &local, spec.place, TESS_F32, tess_dtensor_local(tensor), &again));
        EXPECT(tess_shape_equal(&tess_dtensor_spec(again)->shape, &spec.shape));
        expect_whole(again);
        tess_dtensor_destroy(&again);
        tess_dtensor_destroy(&tensor);
    }
    tess_spec scalar = {.n_axes = 3, .place = {R, P, R}};
    tess_dtensor *one;
    float value = 3, got = 0;
    EXPECT_OK(tess_dtensor_distribute(mesh, &scalar, TESS_F32, tess_runtime_rank(rt) == 0 ? &value : NULL, &one));
    EXPECT_OK(tess_dtensor_full(one, &got));
    EXPECT(got == 3.0f);
    tess_dtensor_destroy(&one);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

/* Known figures: 4 MiB in rows on 4 ranks cost each 3 MiB; ranks 0 .. 7 sum to 28. */
static void four_mebibytes_on_four_ranks_cost_three(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 1, (const int[]){4});
    tess_spec rows = {.shape = {.n_dims = 2, .dim = {1024, 1024}}, .n_axes = 1, .place = {shard(0)}}, copy = rows;
    copy.place[0] = R;
    tess_dtensor *tensor, *whole;
    tess_redistribution report;
    EXPECT_OK(tess_dtensor_create(mesh, &rows, TESS_F32, &tensor));
    EXPECT_INT(tess_dtensor_box(tensor)->size[0], 256);
    EXPECT_OK(tess_dtensor_redistribute(tensor, &copy, &report, &whole));
    EXPECT_INT(report.n_moves, 1);
    EXPECT_INT(report.bytes[0], 3 << 20);
    tess_dtensor_destroy(&whole);
    tess_dtensor_destroy(&tensor);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void sums_of_every_dtype_are_formed(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 1, (const int[]){8});
    int rank = tess_runtime_rank(rt);
    tess_shape shape = {.n_dims = 1, .dim = {8}};
    const tess_dtype dtypes[] = {TESS_F32, TESS_BF16, TESS_F16, TESS_I32, TESS_I64};
    for (size_t i = 0; i < 5; i++) {
        uint8_t local[64] = {0};
        const uint16_t bf16[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};
        const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
        for (int k = 0; k < 8; k++)
            switch (dtypes[i]) {
            case TESS_F32:
                ((float *)(void *)local)[k] = (float)rank;
                break;
            case TESS_BF16:
                ((uint16_t *)(void *)local)[k] = bf16[rank];
                break;
            case TESS_F16:
                ((uint16_t *)(void *)local)[k] = f16[rank];
                break;
            case TESS_I32:
                ((int32_t *)(void *)local)[k] = rank;
                break;
            default:
                ((int64_t *)(void *)local)[k] = rank;
            }
        tess_dtensor *sum, *part;
        EXPECT_OK(tess_dtensor_from_local(mesh, &shape, &P, dtypes[i], local, &sum));
        tess_spec cut = *tess_dtensor_spec(sum);
        cut.place[0] = shard(0);
        EXPECT_OK(tess_dtensor_redistribute(sum, &cut, NULL, &part));
        const void *got = tess_dtensor_local(part);
        EXPECT_INT(tess_dtensor_box(part)->size[0], 1);
        EXPECT(dtypes[i] == TESS_F32    ? *(const float *)got == 28.0f
               : dtypes[i] == TESS_BF16 ? *(const uint16_t *)got == 0x41e0
               : dtypes[i] == TESS_F16  ? *(const uint16_t *)got == 0x4f00
               : dtypes[i] == TESS_I32  ? *(const int32_t *)got == 28
                                        : *(const int64_t *)got == 28);
        tess_dtensor_destroy(&part);
        tess_dtensor_destroy(&sum);
    }
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static float noise(int64_t i, uint64_t seed)
{
    return (float)((double)(tess_hash_bytes(&i, sizeof(i), seed) >> 40) / (1 << 24) - 0.5);
}

static tess_dtensor *noise_tensor(tess_mesh *mesh, int64_t rows, int64_t columns, tess_place first, tess_place second,
                                  uint64_t seed)
{
    tess_spec spec = {.shape = {.n_dims = 2, .dim = {rows, columns}}, .n_axes = 2, .place = {first, second}};
    spec.order[0] = seed == 1; /* the operands' dimensions are cut in different orders */
    float *full = malloc((size_t)(rows * columns) * sizeof(float));
    for (int64_t i = 0; i < rows * columns; i++)
        full[i] = noise(i, seed);
    tess_dtensor *tensor;
    EXPECT_OK(tess_dtensor_distribute(mesh, &spec, TESS_F32, full, &tensor));
    free(full);
    return tensor;
}

static void products_equal_one_ranks(void)
{
    enum { M = 7, K = 11, N = 5 };
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    const tess_place places[] = {R, P, shard(0), shard(1)};
    float wanted[M * N], got[M * N];
    tess_dtensor *a = noise_tensor(mesh, M, K, R, R, 1), *b = noise_tensor(mesh, K, N, R, R, 2), *c;
    EXPECT_OK(tess_dtensor_matmul(a, b, &c));
    EXPECT_OK(tess_dtensor_full(c, wanted));
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)noise(m * K + k, 1) * noise(k * N + n, 2);
            EXPECT(wanted[m * N + n] - sum < 1e-6 && sum - wanted[m * N + n] < 1e-6);
        }
    tess_dtensor_destroy(&a);
    tess_dtensor_destroy(&b);
    tess_dtensor_destroy(&c);
    for (int which = 0; which < 256; which++) {
        tess_place of[4];
        for (int i = 0; i < 4; i++)
            of[i] = places[which >> (2 * i) & 3];
        a = noise_tensor(mesh, M, K, of[0], of[1], 1);
        b = noise_tensor(mesh, K, N, of[2], of[3], 2);
        EXPECT_OK(tess_dtensor_matmul(a, b, &c));
        EXPECT_OK(tess_dtensor_full(c, got));
        bool sums = false;
        for (int axis = 0; axis < 2; axis++)
            sums |= tess_dtensor_spec(c)->place[axis].kind == TESS_PARTIAL;
        if (sums)
            EXPECT_CLOSE(got, wanted, M * N, 1e-6, 1e-6);
        else
            EXPECT_SAME(got, wanted, M * N);
        tess_dtensor_destroy(&a);
        tess_dtensor_destroy(&b);
        tess_dtensor_destroy(&c);
    }
    /* Column-parallel, then row-parallel: no communication before the sum. */
    a = noise_tensor(mesh, M, K, R, shard(1), 1);
    b = noise_tensor(mesh, K, N, R, shard(0), 2);
    EXPECT_OK(tess_dtensor_matmul(a, b, &c));
    EXPECT_INT(tess_dtensor_spec(c)->place[1].kind, TESS_PARTIAL);
    tess_dtensor_destroy(&a);
    tess_dtensor_destroy(&b);
    tess_dtensor_destroy(&c);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void sums_and_products_by_element_equal_one_ranks(void)
{
    enum { M = 5, N = 7 };
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    const tess_place places[] = {R, P, shard(0), shard(1)};
    float got[M * N], sum[M * N], product[M * N];
    for (int i = 0; i < M * N; i++) {
        sum[i] = noise(i, 1) + noise(i, 2);
        product[i] = noise(i, 1) * noise(i, 2);
    }
    for (int which = 0; which < 256; which++) {
        tess_place of[4];
        for (int i = 0; i < 4; i++)
            of[i] = places[which >> (2 * i) & 3];
        tess_dtensor *a = noise_tensor(mesh, M, N, of[0], of[1], 1), *b = noise_tensor(mesh, M, N, of[2], of[3], 2), *c;
        EXPECT_OK(tess_dtensor_add(a, b, &c));
        EXPECT_OK(tess_dtensor_full(c, got));
        EXPECT_SAME(got, sum, M * N); /* addends are the value and zeros */
        tess_dtensor_destroy(&c);
        EXPECT_OK(tess_dtensor_multiply(a, b, &c));
        EXPECT_OK(tess_dtensor_full(c, got));
        EXPECT_SAME(got, product, M * N);
        tess_dtensor_destroy(&c);
        tess_dtensor_destroy(&a);
        tess_dtensor_destroy(&b);
    }
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

/* A gradient is placed as its parameter is: da = dc b^T and db = a^T dc, redistributed, for operands placed in any way.
 */
static void gradients_are_placed_as_their_parameters(void)
{
    enum { M = 7, K = 11, N = 5 };
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    const tess_place places[] = {R, P, shard(0), shard(1)};
    double da[M * K] = {0}, db[K * N] = {0};
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
            for (int k = 0; k < K; k++) {
                da[m * K + k] += (double)noise(m * N + n, 3) * noise(k * N + n, 2);
                db[k * N + n] += (double)noise(m * K + k, 1) * noise(m * N + n, 3);
            }
    for (int which = 0; which < 256; which++) {
        tess_place of[4];
        for (int i = 0; i < 4; i++)
            of[i] = places[which >> (2 * i) & 3];
        tess_dtensor *a = noise_tensor(mesh, M, K, of[0], of[1], 1), *b = noise_tensor(mesh, K, N, of[2], of[3], 2);
        tess_dtensor *dc = noise_tensor(mesh, M, N, of[1], of[2], 3), *flipped, *product, *gradient;
        float got[K * N > M * K ? K * N : M * K];
        for (int operand = 0; operand < 2; operand++) {
            const tess_dtensor *of_which = operand == 0 ? a : b;
            const double *want = operand == 0 ? da : db;
            EXPECT_OK(tess_dtensor_transpose(operand == 0 ? b : a, &flipped));
            EXPECT_OK(tess_dtensor_matmul(operand == 0 ? dc : flipped, operand == 0 ? flipped : dc, &product));
            EXPECT_OK(tess_dtensor_redistribute(product, tess_dtensor_spec(of_which), NULL, &gradient));
            EXPECT_INT(tess_box_equal(2, tess_dtensor_box(gradient), tess_dtensor_box(of_which)), true);
            EXPECT_OK(tess_dtensor_full(gradient, got));
            for (int i = 0; i < (operand == 0 ? M * K : K * N); i++)
                EXPECT(got[i] - want[i] < 1e-6 && want[i] - got[i] < 1e-6);
            tess_dtensor_destroy(&gradient);
            tess_dtensor_destroy(&product);
            tess_dtensor_destroy(&flipped);
        }
        tess_dtensor_destroy(&dc);
        tess_dtensor_destroy(&b);
        tess_dtensor_destroy(&a);
    }
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

/* y[r] = sum over c of x[r, c] w[c]: it needs whole rows. */
static tess_status weigh_rows(void *context, tess_dtensor *const *in, int n_in, tess_dtensor *out)
{
    const tess_box *x = tess_dtensor_box(in[0]), *y = tess_dtensor_box(out);
    const int *fails = context;
    EXPECT_INT(n_in, 2);
    EXPECT(y->size[0] == x->size[0] && y->begin[0] == x->begin[0] && x->size[1] == 7);
    const float *data = tess_dtensor_local(in[0]), *weight = tess_dtensor_local(in[1]);
    float *sum = tess_dtensor_local(out);
    for (int64_t r = 0; r < x->size[0]; r++)
        for (int64_t c = 0; c < x->size[1]; c++)
            sum[r] += data[r * x->size[1] + c] * weight[c];
    TESS_CHECK(*fails == 0, TESS_E_UNSUPPORTED, "row %d has no weight", (int)x->begin[0]);
    return TESS_OK;
}

static void functions_of_one_process_run_on_what_ranks_hold(void)
{
    enum { M = 5, N = 7 };
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    const tess_place places[] = {R, P, shard(0), shard(1)}, rows[] = {shard(0), shard(0)}, copy[] = {R, R};
    const tess_place *needs[] = {rows, copy};
    const tess_spec to = {.shape = {1, {M}}, .n_axes = 2, .place = {shard(0), shard(0)}};
    float want[M] = {0}, got[M], weight[N];
    int fails = 0;
    for (int c = 0; c < N; c++)
        weight[c] = noise(c, 2);
    for (int r = 0; r < M; r++)
        for (int c = 0; c < N; c++)
            want[r] += noise(r * N + c, 1) * weight[c];
    tess_dtensor *w, *x, *y = NULL;
    const tess_spec by_columns = {.shape = {1, {N}}, .n_axes = 2, .place = {R, shard(0)}};
    EXPECT_OK(tess_dtensor_distribute(mesh, &by_columns, TESS_F32, weight, &w));
    for (int which = 0; which < 16; which++) {
        x = noise_tensor(mesh, M, N, places[which & 3], places[which >> 2], 1);
        EXPECT_OK(tess_dtensor_map((const tess_dtensor *[]){x, w}, needs, 2, weigh_rows, &fails, &to, TESS_F32, &y));
        EXPECT_OK(tess_dtensor_full(y, got));
        EXPECT_SAME(got, want, M);
        tess_dtensor_destroy(&y);
        tess_dtensor_destroy(&x);
    }
    x = noise_tensor(mesh, M, N, R, R, 1);
    const tess_dtensor *both[] = {x, w};
    fails = tess_runtime_rank(rt) == 1; /* rank 1 has rows from 2 on */
    EXPECT_FAILS(tess_dtensor_map(both, needs, 2, weigh_rows, &fails, &to, TESS_F32, &y), TESS_E_UNSUPPORTED,
                 tess_runtime_rank(rt) == 1 ? "row 2 has no weight" : "rank 1: row 2 has no weight");
    EXPECT(y == NULL);
    EXPECT_FAILS(tess_dtensor_map(both, needs, 0, weigh_rows, &fails, &to, TESS_F32, &y), TESS_E_INVALID,
                 "0 operands; 1 to 16");
    both[1] = NULL;
    EXPECT_FAILS(tess_dtensor_map(both, needs, 2, weigh_rows, &fails, &to, TESS_F32, &y), TESS_E_INVALID,
                 "operand 1 is NULL");
    tess_dtensor_destroy(&w);
    tess_dtensor_destroy(&x);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

/* Rows on a slice of a mesh are on the whole mesh rows on the slice's axis, and copies on the other. */
static void a_slice_holds_what_the_mesh_holds_with_copies(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 4}), *slice;
    const tess_spec on_slice = {.shape = {2, {1024, 3}}, .n_axes = 1, .place = {shard(0)}};
    const tess_spec on_mesh = {.shape = {2, {1024, 3}}, .n_axes = 2, .place = {shard(0), R}};
    static float full[1024 * 3], back[1024 * 3];
    tess_dtensor *a, *b;
    for (int i = 0; i < 1024 * 3; i++)
        full[i] = noise(i, 4);
    EXPECT_OK(tess_mesh_slice(mesh, (const char *[]){tess_mesh_axis_name(mesh, 0)}, 1, &slice));
    EXPECT_OK(tess_dtensor_distribute(slice, &on_slice, TESS_F32, full, &a));
    EXPECT_OK(tess_dtensor_distribute(mesh, &on_mesh, TESS_F32, tess_runtime_rank(rt) == 0 ? full : NULL, &b));
    EXPECT_INT(tess_dtensor_box(a)->size[0], 512);
    EXPECT_INT(tess_dtensor_box(a)->begin[0], 512 * (tess_runtime_rank(rt) / 4));
    EXPECT(tess_box_equal(2, tess_dtensor_box(a), tess_dtensor_box(b)));
    EXPECT_SAME((float *)tess_dtensor_local(a), (float *)tess_dtensor_local(b), 512 * 3);
    EXPECT_OK(tess_dtensor_full(a, back)); /* gathered within the slice */
    EXPECT_SAME(back, full, 1024 * 3);
    tess_dtensor_destroy(&a);
    tess_dtensor_destroy(&b);
    tess_mesh_destroy(&slice);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void the_inspector_shows_who_holds_what(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    tess_spec spec = {.shape = {.n_dims = 2, .dim = {1024, 512}}, .n_axes = 2, .place = {shard(0), R}};
    tess_dtensor *tensor;
    char text[1024];
    EXPECT_OK(tess_dtensor_create(mesh, &spec, TESS_F32, &tensor));
    int length = tess_dtensor_format(tensor, text, sizeof(text));
    EXPECT_INT(length, strlen(text));
    EXPECT_CONTAINS(text, "[1024, 512] float32, [Shard(0), Replicate] over mesh 2 x 2 (pp, dp), 1.00 MiB a rank\n");
    EXPECT_CONTAINS(text, "\n  rank 1 (0, 1)  [0, 512) x [0, 512)  ##########..........\n");
    EXPECT_CONTAINS(text, "\n  rank 2 (1, 0)  [512, 1024) x [0, 512)  ..........##########\n");
    EXPECT_INT(tess_dtensor_format(tensor, text, 8), length);
    EXPECT_TEXT(text, "[1024, ");
    ((float *)tess_dtensor_local(tensor))[0] = tess_runtime_rank(rt) == 3 ? 1.0f : 0.0f;
    EXPECT_FAILS(tess_dtensor_check(tensor), TESS_E_MISMATCH,
                 "ranks 2 (1, 0) and 3 (1, 1) of the mesh hold other bits of elements [512, 1024) x [0, 512)");
    tess_dtensor_destroy(&tensor);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void bad_input_is_named(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh = mesh_of(rt, 2, (const int[]){2, 2});
    tess_dtensor *tensor = NULL, *other = NULL, *out = NULL;
    tess_spec good = {.shape = {.n_dims = 2, .dim = {4, 6}}, .n_axes = 2, .place = {shard(0), R}}, bad = good;
    bad.place[1] = shard(2);
    EXPECT_FAILS(tess_dtensor_create(mesh, &bad, TESS_F32, &tensor), TESS_E_INVALID,
                 "axis 'dp' cuts dimension 2 of a tensor with 2 dimensions");
    bad.place[1] = (tess_place){.kind = (tess_place_kind)9};
    EXPECT_FAILS(tess_dtensor_create(mesh, &bad, TESS_F32, &tensor), TESS_E_INVALID,
                 "axis 'dp' has the unknown placement 9");
    bad = good;
    bad.n_axes = 1;
    EXPECT_FAILS(tess_dtensor_create(mesh, &bad, TESS_F32, &tensor), TESS_E_INVALID,
                 "1 placements for a mesh of 2 axes");
    bad = good;
    bad.shape.dim[0] = -1;
    EXPECT_FAILS(tess_dtensor_create(mesh, &bad, TESS_F32, &tensor), TESS_E_INVALID, "dimension 0 has -1 elements");
    EXPECT_FAILS(tess_dtensor_create(mesh, &good, (tess_dtype)77, &tensor), TESS_E_INVALID, "77 is no dtype");

    EXPECT_OK(tess_dtensor_create(mesh, &good, TESS_F32, &tensor));
    bad = good;
    bad.shape.dim[1] = 5;
    EXPECT_FAILS(tess_dtensor_redistribute(tensor, &bad, NULL, &out), TESS_E_INVALID,
                 "the tensor has shape [4, 6], the target [4, 5]");
    EXPECT_FAILS(tess_dtensor_matmul(tensor, tensor, &out), TESS_E_INVALID, "(m, k) and (k, n) are needed");
    bad.shape.dim[0] = 6;
    EXPECT_OK(tess_dtensor_create(mesh, &bad, TESS_BF16, &other));
    EXPECT_FAILS(tess_dtensor_matmul(tensor, other, &out), TESS_E_INVALID, "float32 and bfloat16; both must be");
    EXPECT_FAILS(tess_dtensor_add(tensor, NULL, &out), TESS_E_INVALID, "a NULL argument");
    tess_dtensor_destroy(&other);
    tess_dtensor_destroy(&tensor);

    /* Chunks that torch.chunk would not make: the last rank's is too long. */
    float rows[24] = {0};
    int first = tess_mesh_coordinate(mesh, 0);
    tess_shape local = {.n_dims = 2, .dim = {first == 0 ? 1 : 3, 6}};
    EXPECT_FAILS(tess_dtensor_from_local(mesh, &local, good.place, TESS_F32, rows, &tensor), TESS_E_INVALID,
                 "rank 0 has shape [1, 6], but of a tensor [4, 6] with [Shard(0), Replicate] its chunk is [2, 6]");
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(every_placement_leads_to_every_other_on_one_axis, -1),
    CASE(every_placement_leads_to_every_other_on_two_axes, 6),
    CASE(every_placement_leads_to_every_other_on_three_axes, 8),
    CASE(the_first_rank_distributes_what_it_has, 8),
    CASE(four_mebibytes_on_four_ranks_cost_three, 4),
    CASE(sums_of_every_dtype_are_formed, 8),
    CASE(products_equal_one_ranks, 4),
    CASE(sums_and_products_by_element_equal_one_ranks, 4),
    CASE(gradients_are_placed_as_their_parameters, 4),
    CASE(functions_of_one_process_run_on_what_ranks_hold, 4),
    CASE(a_slice_holds_what_the_mesh_holds_with_copies, 8),
    CASE(the_inspector_shows_who_holds_what, 4),
    CASE(bad_input_is_named, 4),
};
TEST_MAIN(cases)
