/* Meshes of a running job: coordinates, groups, slices. */
#include "mesh/coordinates.h"
#include "mesh/mesh_impl.h"
#include "support/join.h"
#include "tessera/mesh.h"

/* The text of a mesh without the line about hosts, because these tests run on one host and on several. Returns the
 * length of the whole text. */
static int format_axes(const tess_mesh *mesh, char *text, size_t size)
{
    int n = tess_mesh_format(mesh, text, size);
    char *line = strstr(text, "\n  hosts "), *end = line != NULL ? strchr(line + 1, '\n') : NULL;
    if (end != NULL)
        memmove(line, end, strlen(end) + 1);
    return n;
}

static int64_t sum_of_ranks(tess_team *team, int me)
{
    int64_t sum = me;
    EXPECT_OK(tess_all_reduce(team, &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
    return sum;
}

static void the_last_axis_varies_fastest(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh;
    const tess_axis axes[] = {{"pp", 2}, {"dp", -1}, {"tp", 2}};
    EXPECT_OK(tess_mesh_create(rt, axes, 3, &mesh));
    int me = tess_runtime_rank(rt), at[3] = {me / 4, me / 2 % 2, me % 2}, back[3];
    EXPECT_INT(tess_mesh_axes(mesh), 3);
    EXPECT_INT(tess_mesh_axis_size(mesh, 1), 2);
    EXPECT_INT(tess_mesh_axis(mesh, "tp"), 2);
    EXPECT_INT(tess_mesh_axis(mesh, "cp"), -1);
    EXPECT_TEXT(tess_mesh_axis_name(mesh, 0), "pp");
    for (int a = 0; a < 3; a++)
        EXPECT_INT(tess_mesh_coordinate(mesh, a), at[a]);
    for (int r = 0; r < 8; r++) {
        EXPECT_OK(tess_mesh_coordinates(mesh, r, back));
        EXPECT_INT(back[0] * 4 + back[1] * 2 + back[2], r);
        EXPECT_INT(tess_mesh_rank(mesh, back), r);
    }
    EXPECT_FAILS(tess_mesh_coordinates(mesh, 8, back), TESS_E_INVALID, "rank 8 is outside the mesh of 8");
    EXPECT_INT(tess_mesh_rank(mesh, (int[]){0, 2, 0}), -1);

    static const int strides[3] = {4, 2, 1};
    for (int a = 0; a < 3; a++) {
        tess_team *team = tess_mesh_team(mesh, axes[a].name);
        EXPECT_INT(tess_team_rank(team), at[a]);
        EXPECT_TEXT(tess_team_name(team), axes[a].name);
        EXPECT_INT(sum_of_ranks(team, me), 2 * (me - at[a] * strides[a]) + strides[a]);
    }
    EXPECT(tess_mesh_team(mesh, "ep") == NULL);

    char text[512];
    static const char want[] = "mesh 2 x 2 x 2 (pp, dp, tp)\n  pp 0, dp 0: ranks 0 1\n  pp 0, dp 1: ranks 2 3\n"
                               "  pp 1, dp 0: ranks 4 5\n  pp 1, dp 1: ranks 6 7";
    int length = format_axes(mesh, text, sizeof(text));
    EXPECT_TEXT(text, want);
    EXPECT(length == (int)sizeof(want) - 1 || tess_runtime_hosts(rt) > 1);
    EXPECT_INT(tess_mesh_format(mesh, text, 8), length);
    EXPECT_TEXT(text, "mesh 2 ");
    tess_mesh_destroy(&mesh);
    EXPECT(mesh == NULL);
    tess_runtime_destroy(&rt);
}

/* Known values on (4, 2): the sum over rank 1's data axis, and what rank 5 gathers on the other. */
static void axes_sum_and_gather_their_own_ranks(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh;
    int64_t me = tess_runtime_rank(rt), pair[2];
    EXPECT_OK(tess_mesh_create(rt, (const tess_axis[]){{"dp", 4}, {"cp", 2}}, 2, &mesh));
    int64_t sum = sum_of_ranks(tess_mesh_team(mesh, "dp"), (int)me);
    EXPECT_INT(sum, me % 2 == 1 ? 16 : 12);
    EXPECT_OK(tess_all_gather(tess_mesh_team(mesh, "cp"), &me, pair, 1, TESS_I64, NULL));
    EXPECT_INT(pair[0], me / 2 * 2);
    EXPECT_INT(pair[1], me / 2 * 2 + 1);
    EXPECT_INT(sum_of_ranks(tess_mesh_all(mesh), (int)me), 28);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void slices_keep_the_meshs_order(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh, *slice, *line;
    const tess_axis axes[] = {{"pp", 2}, {"dp", 2}, {"tp", 2}};
    int me = tess_runtime_rank(rt);
    EXPECT_OK(tess_mesh_create(rt, axes, 3, &mesh));
    EXPECT_OK(tess_mesh_slice(mesh, (const char *[]){"tp", "pp"}, 2, &slice));
    EXPECT_INT(tess_mesh_axes(slice), 2);
    EXPECT_TEXT(tess_mesh_axis_name(slice, 0), "pp");
    tess_team *all = tess_mesh_all(slice);
    EXPECT_TEXT(tess_team_name(all), "pp+tp");
    EXPECT_INT(tess_team_size(all), 4);
    EXPECT_INT(tess_team_rank(all), me / 4 * 2 + me % 2);
    EXPECT_INT(sum_of_ranks(all, me), 10 + me / 2 % 2 * 8); /* 0 1 4 5 or 2 3 6 7 */
    EXPECT_INT(sum_of_ranks(tess_mesh_team(slice, "pp"), me), me % 4 * 2 + 4);
    char text[256];
    format_axes(slice, text, sizeof(text));
    EXPECT_TEXT(text, me / 2 % 2 == 0 ? "mesh 2 x 2 (pp, tp)\n  pp 0: ranks 0 1\n  pp 1: ranks 4 5"
                                      : "mesh 2 x 2 (pp, tp)\n  pp 0: ranks 2 3\n  pp 1: ranks 6 7");
    EXPECT_OK(tess_mesh_slice(slice, (const char *[]){"tp"}, 1, &line));
    EXPECT_INT(sum_of_ranks(tess_mesh_all(line), me), me / 2 * 4 + 1);
    tess_mesh_destroy(&line);
    EXPECT_FAILS(tess_mesh_slice(mesh, (const char *[]){"cp"}, 1, &line), TESS_E_INVALID,
                 "no axis 'cp'; the mesh has pp dp tp");
    EXPECT_FAILS(tess_mesh_slice(mesh, (const char *[]){"tp", "tp"}, 2, &line), TESS_E_INVALID, "named twice");
    tess_mesh_destroy(&slice);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void a_mesh_over_a_team_knows_no_other_ranks(void)
{
    tess_runtime *rt = test_join();
    tess_team *role;
    tess_mesh *mesh;
    int me = tess_runtime_rank(rt), trains = me < 4;
    EXPECT_OK(tess_team_split(tess_runtime_team(rt), trains, me, "role", &role));
    if (trains) {
        EXPECT_FAILS(tess_mesh_create_over(role, (const tess_axis[]){{"dp", 5}}, 1, &mesh), TESS_E_INVALID, "4 ranks");
        EXPECT_OK(tess_mesh_create_over(role, (const tess_axis[]){{"dp", -1}, {"tp", 2}}, 2, &mesh));
        EXPECT_INT(tess_mesh_axis_size(mesh, 0), 2);
        EXPECT(tess_mesh_all(mesh) == role);
        EXPECT_INT(sum_of_ranks(tess_mesh_team(mesh, "dp"), me), me % 2 * 2 + 2);
        EXPECT_INT(sum_of_ranks(tess_mesh_team(mesh, "tp"), me), me / 2 * 4 + 1);
        tess_mesh_destroy(&mesh);
    }
    tess_team_destroy(&role);
    tess_runtime_destroy(&rt);
}

static void one_axis_takes_any_world(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh;
    EXPECT_OK(tess_mesh_create(rt, (const tess_axis[]){{"dp_shard", -1}}, 1, &mesh));
    int W = tess_runtime_world(rt);
    EXPECT_INT(tess_mesh_axis_size(mesh, 0), W);
    EXPECT_INT(sum_of_ranks(tess_mesh_team(mesh, "dp_shard"), tess_runtime_rank(rt)), W * (W - 1) / 2);
    char text[512];
    format_axes(mesh, text, sizeof(text));
    EXPECT_CONTAINS(text, "(dp_shard)\n  ranks 0");
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static void bad_shapes_show_the_arithmetic(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh;
    EXPECT_FAILS(tess_mesh_create(rt, (const tess_axis[]){{"a", 2}, {"b", 1}}, 2, &mesh), TESS_E_INVALID,
                 "2 x 1 = 2, but the job has 3 ranks: start 2, or give one axis the size -1");
    EXPECT_FAILS(tess_mesh_create(rt, (const tess_axis[]){{"a", 2}, {"b", -1}}, 2, &mesh), TESS_E_INVALID,
                 "3 ranks do not divide by 2, so axis 'b' of 2 x -1 cannot take what is left: start a multiple of 2");
    EXPECT_FAILS(tess_mesh_create(rt, (const tess_axis[]){{"a", -1}, {"b", -1}}, 2, &mesh), TESS_E_INVALID,
                 "2 axes have size -1");
    EXPECT_FAILS(tess_mesh_create(rt, (const tess_axis[]){{"a", 3}, {"a", 1}}, 2, &mesh), TESS_E_INVALID,
                 "'a' is named twice");
    EXPECT_FAILS(tess_mesh_create(rt, (const tess_axis[]){{"a", 0}}, 1, &mesh), TESS_E_INVALID,
                 "axis 'a' has size 0; give it 1 or more ranks, or -1");
    EXPECT_FAILS(
        tess_mesh_create(rt, (const tess_axis[]){{"a", 70000}, {"b", 70000}, {"c", 70000}, {"d", 70000}}, 4, &mesh),
        TESS_E_INVALID, "more than the 3 ranks");
    EXPECT_FAILS(tess_mesh_create(rt, NULL, 7, &mesh), TESS_E_INVALID, "7 axes");
    tess_runtime_destroy(&rt);
}

static void a_list_of_ranks_is_a_mesh_in_that_order(void)
{
    static const int list[] = {7, 5, 3, 1, 6, 4, 2, 0};
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    tess_mesh *mesh;
    const tess_axis axes[] = {{"dp", 2}, {"tp", -1}};
    const int me = tess_runtime_rank(rt);
    EXPECT_OK(tess_mesh_create_ranks(team, axes, 2, list, &mesh));
    EXPECT_INT(tess_mesh_coordinate(mesh, 0), me % 2 == 0);
    EXPECT_INT(tess_mesh_coordinate(mesh, 1), 3 - me / 2);
    for (int place = 0; place < 8; place++)
        EXPECT_INT(tess_team_global_rank(tess_mesh_all(mesh), place), list[place]);
    EXPECT_INT(sum_of_ranks(tess_mesh_team(mesh, "tp"), me), me % 2 ? 16 : 12);
    EXPECT_INT(sum_of_ranks(tess_mesh_team(mesh, "dp"), me), me / 2 * 4 + 1);
    tess_mesh_destroy(&mesh);
    EXPECT_FAILS(tess_mesh_create_ranks(team, axes, 2, (const int[]){0, 1, 2, 3, 4, 5, 6, 6}, &mesh), TESS_E_INVALID,
                 "places 6 and 7 of the list both have rank 6");
    EXPECT_FAILS(tess_mesh_create_ranks(team, axes, 2, (const int[]){0, 1, 2, 3, 4, 5, 6, 8}, &mesh), TESS_E_INVALID,
                 "place 7 of the list has rank 8; ranks are 0 to 7");
    const int first = me == 3;
    EXPECT_FAILS(tess_mesh_create_ranks(team, axes, 2, (const int[]){first, !first, 2, 3, 4, 5, 6, 7}, &mesh),
                 TESS_E_MISMATCH, "ranks have different lists of ranks");
    EXPECT(mesh == NULL);
    tess_runtime_destroy(&rt);
}

/* Groups are neighbours if there is one host. Over hosts of equal size, every group is on one host. */
static void an_axis_is_kept_inside_hosts(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh;
    const tess_axis axes[] = {{"pp", 2}, {"tp", 4}};
    const int me = tess_runtime_rank(rt);
    EXPECT_OK(tess_mesh_create_inside(tess_runtime_team(rt), axes, 2, "pp", &mesh));
    EXPECT(!tess_mesh_axis_crosses_hosts(mesh, 0));
    EXPECT(tess_team_is_local(tess_mesh_team(mesh, "pp")));
    EXPECT(tess_runtime_hosts(rt) > 1 || sum_of_ranks(tess_mesh_team(mesh, "pp"), me) == me / 2 * 4 + 1);
    tess_mesh_destroy(&mesh);
    EXPECT_FAILS(tess_mesh_create_inside(tess_runtime_team(rt), axes, 2, "dp", &mesh), TESS_E_INVALID,
                 "there is no axis 'dp'; the mesh has pp tp");
    tess_runtime_destroy(&rt);
}

/* Makes the mesh believe that its ranks are on these hosts. */
static void put_on_hosts(tess_mesh *mesh, const int *hosts)
{
    memcpy(mesh->grid.hosts, hosts, (size_t)mesh->grid.size * sizeof(hosts[0]));
}

static void axes_know_which_of_them_cross_hosts(void)
{
    tess_runtime *rt = test_join();
    tess_mesh *mesh, *slice;
    char text[512];
    EXPECT_OK(tess_mesh_create(rt, (const tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 4}}, 2, &mesh));
    EXPECT(!tess_mesh_axis_crosses_hosts(mesh, 0) && !tess_mesh_axis_crosses_hosts(mesh, 1));
    tess_mesh_format(mesh, text, sizeof(text));
    EXPECT(strstr(text, "host") == NULL);

    put_on_hosts(mesh, (const int[]){0, 0, 0, 0, 1, 1, 1, 1});
    EXPECT(tess_mesh_axis_crosses_hosts(mesh, 0) && !tess_mesh_axis_crosses_hosts(mesh, 1));
    EXPECT(!tess_mesh_axis_crosses_hosts(mesh, 2) && !tess_mesh_axis_crosses_hosts(mesh, -1));
    tess_mesh_format(mesh, text, sizeof(text));
    EXPECT_CONTAINS(text, ": ranks 0-3, ");
    EXPECT_CONTAINS(text, ": ranks 4-7; dp_replicate crosses hosts, dp_shard stays inside a host\n  dp_replicate 0: ");

    put_on_hosts(mesh, (const int[]){0, 0, 0, 0, 0, 0, 1, 1}); /* hosts of unequal size */
    EXPECT(tess_mesh_axis_crosses_hosts(mesh, 0) && tess_mesh_axis_crosses_hosts(mesh, 1));
    put_on_hosts(mesh, (const int[]){0, 0, 1, 1, 0, 0, 1, 2});
    tess_mesh_format(mesh, text, sizeof(text));
    EXPECT_CONTAINS(text, ": ranks 0-1, 4-5, ");
    EXPECT_CONTAINS(text, ": ranks 2-3, 6, ");
    EXPECT_CONTAINS(text, ": ranks 7; dp_replicate crosses hosts, dp_shard crosses hosts");
    put_on_hosts(mesh, (const int[]){0, 1, 2, 3, 0, 1, 2, 3});
    EXPECT(!tess_mesh_axis_crosses_hosts(mesh, 0) && tess_mesh_axis_crosses_hosts(mesh, 1));

    EXPECT_OK(tess_mesh_slice(mesh, (const char *[]){"dp_shard"}, 1, &slice));
    EXPECT(!tess_mesh_axis_crosses_hosts(slice, 0)); /* the real hosts count */
    tess_mesh_destroy(&slice);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(the_last_axis_varies_fastest, 8),
    CASE(axes_sum_and_gather_their_own_ranks, 8),
    CASE(slices_keep_the_meshs_order, 8),
    CASE(a_mesh_over_a_team_knows_no_other_ranks, 6),
    CASE(one_axis_takes_any_world, -1),
    CASE(axes_know_which_of_them_cross_hosts, 8, 0, TEST_NEVER),
    CASE(a_list_of_ranks_is_a_mesh_in_that_order, 8),
    CASE(an_axis_is_kept_inside_hosts, 8),
    CASE(bad_shapes_show_the_arithmetic, 3),
};
TEST_MAIN(cases)
