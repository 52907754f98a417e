/* Coordinates of ranks by the table of axes, without a job. */
#include "mesh/coordinates.h"
#include "mesh/mesh_layout.h"
#include "support/test.h"

static tess_mesh_layout layout_by(const int degrees[TESS_AXES])
{
    tess_axis axes[TESS_AXES];
    tess_mesh_layout layout;
    int world = 1;
    for (int axis = 0; axis < TESS_AXES; axis++) {
        axes[axis] = (tess_axis){tess_axis_name(axis), degrees[axis]};
        world *= degrees[axis];
    }
    EXPECT_OK(tess_mesh_layout_fit(axes, TESS_AXES, world, &layout));
    return layout;
}

static void set_degrees(int degrees[TESS_AXES], int pp, int replicas, int shards, int tp)
{
    for (int axis = 0; axis < TESS_AXES; axis++)
        degrees[axis] = 1;
    degrees[TESS_AXIS_PP] = pp;
    degrees[TESS_AXIS_REPLICATE] = replicas;
    degrees[TESS_AXIS_SHARD] = shards;
    degrees[TESS_AXIS_TP] = tp;
}

/* The arithmetic with degrees alone gives what a mesh with these axes gives, and the strides of that mesh. */
static void degrees_alone_give_the_coordinates_of_their_mesh(void)
{
    static const int shapes[][4] = {{1, 1, 1, 1}, {2, 3, 2, 1}, {3, 1, 4, 2}, {1, 2, 1, 5}, {16, 1, 4, 8}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        int degrees[TESS_AXES];
        set_degrees(degrees, shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
        const tess_mesh_layout layout = layout_by(degrees);
        for (int axis = 0; axis < TESS_AXES; axis++)
            EXPECT_INT(tess_axis_stride(degrees, axis), tess_mesh_layout_stride(&layout, axis));
        for (int rank = 0; rank < layout.size; rank++) {
            const tess_coordinates by = tess_coordinates_by(degrees, rank);
            int at[TESS_MESH_MAX_AXES];
            tess_mesh_layout_coordinates(&layout, rank, at);
            EXPECT(memcmp(by.place, at, sizeof(by.place)) == 0 && by.rank == rank && by.world == layout.size);
        }
    }
}

/* Every pair of a data place and a part belongs to one rank: each part of the model is trained on each micro-batch. */
static void each_part_meets_each_share_of_the_batch_once(void)
{
    int degrees[TESS_AXES], seen[16][6] = {0};
    set_degrees(degrees, 3, 2, 2, 2);
    for (int rank = 0; rank < 24; rank++) {
        const tess_coordinates at = tess_coordinates_by(degrees, rank);
        EXPECT_INT(at.world, 24);
        EXPECT_INT(at.n_data, 4);
        EXPECT_INT(at.n_parts, 6);
        EXPECT_INT(at.data, at.place[TESS_AXIS_REPLICATE] * 2 + at.place[TESS_AXIS_SHARD]);
        EXPECT_INT(at.part, at.place[TESS_AXIS_PP] * 2 + at.place[TESS_AXIS_TP]);
        EXPECT_INT(seen[at.data][at.part]++, 0);
        EXPECT_INT(tess_coordinates_lead(&at), at.part == 0);
        EXPECT_INT(tess_coordinates_counts(&at), at.place[TESS_AXIS_TP] == 0); /* each stage has one that counts */
    }
}

static void expect_group(const tess_mesh_layout *l, int axis, int rank, int first, int stride)
{
    const tess_coordinates at = tess_coordinates_by(l->sizes, rank);
    int member[TESS_AXES];
    memcpy(member, at.place, sizeof(member));
    for (int i = 0; i < at.degree[axis]; i++) {
        member[axis] = i;
        EXPECT_INT(tess_mesh_layout_rank(l, member), first + i * stride);
    }
}

/* 16 ranks = tp 4 x dp 2 x pp 2: the groups of tp are rank / 4 * 4 + i, those of pp rank % 8 + 8 i, and those of dp
 * rank / 8 * 8 + rank % 4 + 4 i. */
static void sixteen_ranks_have_the_groups_of_three_axes(void)
{
    int degrees[TESS_AXES];
    set_degrees(degrees, 2, 1, 2, 4);
    const tess_mesh_layout l = layout_by(degrees);
    EXPECT_INT(l.size, 16);
    for (int rank = 0; rank < 16; rank++) {
        expect_group(&l, TESS_AXIS_TP, rank, rank / 4 * 4, 1);
        expect_group(&l, TESS_AXIS_PP, rank, rank % 8, 8);
        expect_group(&l, TESS_AXIS_SHARD, rank, rank / 8 * 8 + rank % 4, 4);
    }
}

/* 512 ranks = tp 8 x pp 16 x dp 4. Hosts of 8 ranks keep tp inside, and every other axis crosses them. */
static void five_hundred_and_twelve_ranks_are_8_by_16_by_4(void)
{
    int degrees[TESS_AXES], hosts[512];
    set_degrees(degrees, 16, 1, 4, 8);
    tess_mesh_layout l = layout_by(degrees);
    EXPECT_INT(l.size, 512);
    for (int rank = 0; rank < 512; rank++) {
        const tess_coordinates at = tess_coordinates_by(degrees, rank);
        EXPECT_INT(at.n_parts, 128);
        EXPECT_INT(at.n_data, 4);
        EXPECT_INT(at.data, rank / 8 % 4);
        EXPECT_INT(at.part, rank / 32 * 8 + rank % 8);
        expect_group(&l, TESS_AXIS_TP, rank, rank / 8 * 8, 1);
        expect_group(&l, TESS_AXIS_SHARD, rank, rank / 32 * 32 + rank % 8, 8);
        expect_group(&l, TESS_AXIS_PP, rank, rank % 32, 32);
        hosts[rank] = rank / 8;
    }
    l.hosts = hosts;
    for (int axis = 0; axis < TESS_AXES; axis++)
        EXPECT_INT(tess_mesh_layout_crosses(&l, axis), axis == TESS_AXIS_PP || axis == TESS_AXIS_SHARD);
}

static void axes_are_found_by_name(void)
{
    for (int axis = 0; axis < TESS_AXES; axis++)
        EXPECT_INT(tess_axis_find(tess_axis_name(axis)), axis);
    EXPECT_INT(tess_axis_find("dp"), -1);
    EXPECT_INT(tess_axis_find(""), -1);
}

static const test_case cases[] = {
    CASE(degrees_alone_give_the_coordinates_of_their_mesh),
    CASE(each_part_meets_each_share_of_the_batch_once),
    CASE(sixteen_ranks_have_the_groups_of_three_axes),
    CASE(five_hundred_and_twelve_ranks_are_8_by_16_by_4),
    CASE(axes_are_found_by_name),
};
TEST_MAIN(cases)
