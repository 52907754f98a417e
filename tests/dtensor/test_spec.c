/* Boxes and moves as pure functions, on meshes that nobody has to start. */
#include <stdlib.h>

#include "base/core/rng.h"
#include "dtensor/dtensor_impl.h"
#include "support/test.h"

static const tess_place R = {.kind = TESS_REPLICATE}, P = {.kind = TESS_PARTIAL};

static tess_place shard(int dim)
{
    return (tess_place){.kind = TESS_SHARD, .dim = dim};
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = tess_hash_bytes(state, sizeof(*state), 1);
    return *state % below;
}

typedef struct random_mesh {
    int n_axes, n_ranks;
    int sizes[TESS_MESH_MAX_AXES];
} random_mesh;

static random_mesh draw_mesh(uint64_t *state)
{
    random_mesh mesh = {.n_axes = 1 + (int)draw(state, 3), .n_ranks = 1};
    for (int a = 0; a < mesh.n_axes; a++) {
        mesh.sizes[a] = 1 + (int)draw(state, 3);
        mesh.n_ranks *= mesh.sizes[a];
    }
    return mesh;
}

static void point_of(const random_mesh *mesh, int rank, int *at)
{
    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        at[a] = rank % mesh->sizes[a];
        rank /= mesh->sizes[a];
    }
}

static void draw_places(uint64_t *state, tess_spec *spec)
{
    for (int a = 0; a < spec->n_axes; a++) {
        uint64_t kind = draw(state, spec->shape.n_dims > 0 ? 5 : 2);
        spec->place[a] = kind == 0 ? R : kind == 1 ? P : shard((int)draw(state, (uint64_t)spec->shape.n_dims));
        spec->order[a] = (uint8_t)draw(state, 3);
    }
}

static tess_spec draw_spec(uint64_t *state, int n_axes)
{
    tess_spec spec = {.n_axes = n_axes, .shape = {.n_dims = (int)draw(state, 4)}};
    for (int d = 0; d < spec.shape.n_dims; d++)
        spec.shape.dim[d] = (int64_t)draw(state, 8);
    draw_places(state, &spec);
    return spec;
}

/* Adds 1 to count[i] for every element i of the box. */
static void count_box(const tess_shape *shape, const tess_box *box, int dim, int64_t index, int *count)
{
    if (dim == shape->n_dims) {
        count[index]++;
        return;
    }
    for (int64_t i = 0; i < box->size[dim]; i++)
        count_box(shape, box, dim + 1, index * shape->dim[dim] + box->begin[dim] + i, count);
}

static void boxes_cover_every_element_once(void)
{
    uint64_t state = 7;
    static int count[512];
    for (int i = 0; i < 100000; i++) {
        random_mesh mesh = draw_mesh(&state);
        tess_spec spec = draw_spec(&state, mesh.n_axes);
        int64_t n = tess_shape_count(&spec.shape);
        memset(count, 0, sizeof(count));
        for (int rank = 0; rank < mesh.n_ranks; rank++) {
            int at[TESS_MESH_MAX_AXES];
            point_of(&mesh, rank, at);
            bool counts = true; /* once for all copies */
            for (int a = 0; a < mesh.n_axes; a++)
                counts &= at[a] == 0 || spec.place[a].kind == TESS_SHARD;
            tess_box box = tess_spec_box(&spec, mesh.sizes, at);
            if (counts)
                count_box(&spec.shape, &box, 0, 0, count);
        }
        for (int64_t k = 0; k < n; k++)
            if (count[k] != 1)
                test_fail(__FILE__, __LINE__, "spec %d: element %lld is in %d boxes", i, (long long)k, count[k]);
    }
}

static void moves_end_at_the_target(void)
{
    uint64_t state = 3;
    for (int i = 0; i < 100000; i++) {
        random_mesh mesh = draw_mesh(&state);
        tess_spec from = draw_spec(&state, mesh.n_axes), to = from, now = from;
        draw_places(&state, &to);
        tess_move moves[TESS_MAX_MOVES];
        int at[TESS_MESH_MAX_AXES] = {0};
        int n = tess_spec_moves(&from, &to, mesh.sizes, at, moves);
        EXPECT(n <= 2 * mesh.n_axes);
        for (int d = 0; d < from.shape.n_dims; d++) {
            int stack[TESS_MESH_MAX_AXES], depth = spec_stack(&from, d, stack);
            for (int k = 0; k < depth; k++)
                now.order[stack[k]] = (uint8_t)k;
        }
        for (int m = 0; m < n; m++)
            now = spec_after(&now, &moves[m]);
        for (int a = 0; a < mesh.n_axes; a++)
            EXPECT(place_is(now.place[a], to.place[a].kind, to.place[a].dim));
        for (int rank = 0; rank < mesh.n_ranks; rank++) {
            point_of(&mesh, rank, at);
            tess_box has = tess_spec_box(&now, mesh.sizes, at), wanted = tess_spec_box(&to, mesh.sizes, at);
            EXPECT_SAME(has.begin, wanted.begin, TESS_MAX_DIMS);
            EXPECT_SAME(has.size, wanted.size, TESS_MAX_DIMS);
        }
    }
}

/* Elements received by all ranks of one axis. */
static int64_t received(const tess_spec *from, tess_place to, int size)
{
    tess_spec target = *from;
    target.place[0] = to;
    int64_t sum = 0;
    for (int r = 0; r < size; r++) {
        tess_move moves[TESS_MAX_MOVES];
        int n = tess_spec_moves(from, &target, &size, &r, moves);
        for (int m = 0; m < n; m++)
            sum += moves[m].received;
    }
    return sum;
}

static void volumes_are_those_of_the_collectives(void)
{
    static const int sizes[] = {2, 4, 8, 16};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int W = sizes[i];
        tess_spec rows = {.shape = {.n_dims = 2, .dim = {1024, 1024}}, .n_axes = 1, .place = {shard(0)}};
        tess_spec sum = rows, copy = rows;
        sum.place[0] = P;
        copy.place[0] = R;
        int64_t n = 1 << 20;
        EXPECT_INT(received(&rows, R, W), n * (W - 1));
        EXPECT_INT(received(&sum, R, W), 2 * n * (W - 1));
        EXPECT_INT(received(&sum, shard(1), W), n * (W - 1));
        EXPECT_INT(received(&rows, shard(1), W), n * (W - 1) / W);
        EXPECT_INT(received(&copy, shard(0), W), 0);
        EXPECT_INT(received(&copy, P, W), 0);
        EXPECT_INT(received(&rows, P, W), 0);
        EXPECT_INT(received(&rows, shard(0), W), 0);
    }
}

static void a_dimension_that_two_axes_cut_is_gathered_from_the_inner_one(void)
{
    const int sizes[] = {2, 4}, at[] = {1, 2};
    tess_spec both = {.shape = {.n_dims = 2, .dim = {16, 4}}, .n_axes = 2, .place = {shard(0), shard(0)}}, to = both;
    tess_move moves[TESS_MAX_MOVES];
    to.place[0] = R;
    EXPECT_INT(tess_spec_moves(&both, &to, sizes, at, moves), 3);
    EXPECT_TEXT(tess_move_name(moves[0].kind), "all_gather");
    EXPECT_INT(moves[0].axis, 1);
    EXPECT_TEXT(tess_move_name(moves[1].kind), "all_gather");
    EXPECT_INT(moves[1].axis, 0);
    EXPECT_TEXT(tess_move_name(moves[2].kind), "slice");
    EXPECT_INT(moves[2].axis, 1);
    /* If the outer axis cuts last, it is one gather. */
    both.order[0] = 1;
    to.order[0] = 1;
    EXPECT_INT(tess_spec_moves(&both, &to, sizes, at, moves), 1);
    EXPECT_INT(moves[0].axis, 0);
}

static void local_shapes_are_those_of_the_documents(void)
{
    const int four[] = {4}, sizes[] = {8, 4, 2};
    tess_spec spec = {.shape = {.n_dims = 2, .dim = {1024, 1024}}, .n_axes = 1, .place = {shard(0)}};
    tess_box box = tess_spec_box(&spec, four, (const int[]){1});
    EXPECT_INT(box.begin[0], 256);
    EXPECT_INT(box.size[0], 256);
    EXPECT_INT(box.size[1], 1024);
    tess_spec qkv = {.shape = {.n_dims = 2, .dim = {4096, 12288}}, .n_axes = 3, .place = {shard(0), R, shard(1)}};
    box = tess_spec_box(&qkv, sizes, (const int[]){3, 0, 1});
    EXPECT_INT(box.size[0], 512);
    EXPECT_INT(box.size[1], 6144);
    EXPECT_INT(box.begin[0], 3 * 512);
    EXPECT_INT(box.begin[1], 6144);
    char text[128];
    EXPECT_TEXT(tess_spec_format(&qkv, text, sizeof(text)), "[Shard(0), Replicate, Shard(1)]");
}

static void boxes_copy_their_common_part(void)
{
    uint64_t state = 11;
    for (int i = 0; i < 2000; i++) {
        int n_dims = 1 + (int)draw(&state, 4);
        tess_box a = {.begin = {0}}, b = a, common;
        for (int d = 0; d < n_dims; d++) {
            a.begin[d] = (int64_t)draw(&state, 3);
            b.begin[d] = (int64_t)draw(&state, 3);
            a.size[d] = 1 + (int64_t)draw(&state, 4);
            b.size[d] = 1 + (int64_t)draw(&state, 4);
        }
        if (!tess_box_meet(n_dims, &a, &b, &common))
            continue;
        /* The value of an element is its place in the whole. */
        int32_t from[256], to[256], wanted[256];
        int64_t at[4] = {0};
        for (int side = 0; side < 2; side++) {
            const tess_box *box = side == 0 ? &a : &b;
            for (int64_t k = 0; k < tess_box_count(n_dims, box); k++) {
                int64_t rest = k, number = 0;
                bool shared = true;
                for (int d = n_dims - 1; d >= 0; d--) {
                    at[d] = box->begin[d] + rest % box->size[d];
                    rest /= box->size[d];
                    shared &= at[d] >= common.begin[d] && at[d] < common.begin[d] + common.size[d];
                }
                for (int d = 0; d < n_dims; d++)
                    number = number * 10 + at[d];
                if (side == 0)
                    from[k] = (int32_t)number;
                else
                    wanted[k] = shared ? (int32_t)number : -1;
            }
        }
        memset(to, 0xff, sizeof(to));
        tess_box_copy(n_dims, sizeof(to[0]), &common, &a, from, &b, to);
        EXPECT_SAME(to, wanted, (size_t)tess_box_count(n_dims, &b));
    }
}

static const test_case cases[] = {
    CASE(boxes_cover_every_element_once),          CASE(moves_end_at_the_target),
    CASE(volumes_are_those_of_the_collectives),    CASE(a_dimension_that_two_axes_cut_is_gathered_from_the_inner_one),
    CASE(local_shapes_are_those_of_the_documents), CASE(boxes_copy_their_common_part),
};
TEST_MAIN(cases)
