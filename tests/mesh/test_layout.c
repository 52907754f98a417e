/* Places of ranks without a job, against PyTorch's numbers for the same meshes, and against plain loops. */
#include "mesh/mesh_layout.h"
#include "support/test.h"

static tess_mesh_layout layout_of(const char *text, int world)
{
    tess_axis_list axes;
    tess_mesh_layout layout;
    EXPECT_OK(tess_axis_list_parse(text, &axes));
    EXPECT_OK(tess_mesh_layout_fit(axes.axis, axes.n, world, &layout));
    return layout;
}

static void expect_group(const tess_mesh_layout *l, int axis, int group, const int *want)
{
    for (int i = 0; i < l->sizes[axis]; i++)
        EXPECT_INT(tess_mesh_layout_first(l, axis, group) + i * tess_mesh_layout_stride(l, axis), want[i]);
}

static void ranks_are_where_pytorch_puts_them(void)
{
    int at[3];
    tess_mesh_layout l = layout_of("dp=8,cp=4,tp=2", 64);
    tess_mesh_layout_coordinates(&l, 25, at);
    EXPECT(at[0] == 3 && at[1] == 0 && at[2] == 1);
    EXPECT_INT(tess_mesh_layout_rank(&l, at), 25);
    l = layout_of("dp=4,cp=2", 8);
    expect_group(&l, 0, 0, (int[]){0, 2, 4, 6});
    expect_group(&l, 0, 1, (int[]){1, 3, 5, 7});
    expect_group(&l, 1, 2, (int[]){4, 5}); /* the group of rank 5 */
    l = layout_of("cp=2,dp=4", 8);         /* the order of the axes is the layout: dp column-major */
    expect_group(&l, 1, 0, (int[]){0, 1, 2, 3});
    expect_group(&l, 1, 1, (int[]){4, 5, 6, 7});
    l = layout_of("cp=4,dp=2", 8);
    expect_group(&l, 0, 0, (int[]){0, 2, 4, 6});
}

/* The groups of an axis: its ranks differ in that coordinate alone, and every rank is in one. */
static void groups_are_those_of_the_coordinates(void)
{
    static const struct {
        const char *axes;
        int world;
    } meshes[] = {
        {"a=1", 1}, {"a=-1", 7}, {"a=3,b=1,c=5", 15}, {"a=2,b=3,c=2,d=2", 24}, {"a=1,b=-1,c=1,d=2,e=2,f=3", 24}};
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        tess_mesh_layout l = layout_of(meshes[m].axes, meshes[m].world);
        for (int a = 0; a < l.n_axes; a++) {
            int seen[32] = {0}, before = -1;
            for (int group = 0; group < l.size / l.sizes[a]; group++) {
                int first = tess_mesh_layout_first(&l, a, group), at[TESS_MESH_MAX_AXES], next[TESS_MESH_MAX_AXES];
                EXPECT(first > before);
                before = first;
                tess_mesh_layout_coordinates(&l, first, at);
                for (int i = 0; i < l.sizes[a]; i++) {
                    int rank = first + i * tess_mesh_layout_stride(&l, a);
                    tess_mesh_layout_coordinates(&l, rank, next);
                    for (int b = 0; b < l.n_axes; b++)
                        EXPECT_INT(next[b], b == a ? i : at[b]);
                    seen[rank]++;
                }
            }
            for (int rank = 0; rank < l.size; rank++)
                EXPECT_INT(seen[rank], 1);
        }
    }
}

/* Known values: what rank 1 and rank 5 of (4, 2) get along each axis. */
/* Every place has one rank, and the groups of the axis have ranks of one host. */
static void expect_inside(tess_mesh_layout *l, int axis, const int *ranks)
{
    int seen[64] = {0};
    for (int place = 0; place < l->size; place++)
        EXPECT_INT(seen[ranks[place]]++, 0);
    for (int group = 0; group < l->size / l->sizes[axis]; group++)
        for (int i = 0; i < l->sizes[axis]; i++) {
            const int first = tess_mesh_layout_first(l, axis, group), stride = tess_mesh_layout_stride(l, axis);
            EXPECT_INT(l->hosts[ranks[first + i * stride]], l->hosts[ranks[first]]);
        }
}

static void ranks_are_ordered_so_that_an_axis_stays_inside_hosts(void)
{
    static const int want[] = {0, 2, 4, 6, 1, 3, 5, 7};
    int hosts[24], ranks[24];
    tess_mesh_layout l = layout_of("pp=2,tp=4", 8);
    for (int rank = 0; rank < 8; rank++)
        hosts[rank] = rank / 4;
    l.hosts = hosts;
    EXPECT_OK(tess_mesh_layout_inside(&l, 0, ranks));
    expect_inside(&l, 0, ranks);
    EXPECT(memcmp(ranks, want, sizeof(want)) == 0);
    EXPECT_OK(tess_mesh_layout_inside(&l, 1, ranks)); /* it is inside already */
    for (int place = 0; place < 8; place++)
        EXPECT_INT(ranks[place], place);

    l = layout_of("a=2,b=4,c=3", 24); /* hosts of unequal size, whose ranks alternate */
    l.hosts = hosts;
    for (int rank = 0; rank < 24; rank++)
        hosts[rank] = rank < 12 ? rank % 2 : 1 + (rank < 20);
    EXPECT_OK(tess_mesh_layout_inside(&l, 0, ranks));
    expect_inside(&l, 0, ranks);
    EXPECT_FAILS(tess_mesh_layout_inside(&l, 1, ranks), TESS_E_INVALID,
                 "the host of rank 0 has 6 ranks, which groups of 4 do not divide");
}

static void what_ranks_get_is_compared_with_the_arithmetic(void)
{
    tess_mesh_layout l = layout_of("dp=4,cp=2", 8);
    int64_t dp[] = {1, 3, 5, 7}, cp[] = {4, 5};
    EXPECT_OK(tess_mesh_layout_check(&l, 0, 1, dp, 16));
    EXPECT_OK(tess_mesh_layout_check(&l, 0, 7, dp, 16));
    EXPECT_OK(tess_mesh_layout_check(&l, 1, 5, cp, 9));
    EXPECT_FAILS(tess_mesh_layout_check(&l, 0, 1, dp, 15), TESS_E_MISMATCH,
                 "axis 'dp': the ranks of rank 1's group sum to 15, and 16 is right");
    EXPECT_FAILS(tess_mesh_layout_check(&l, 0, 2, dp, 16), TESS_E_MISMATCH,
                 "axis 'dp': rank 2 has 1 at place 0 of its group, which is that of rank 0");
    cp[1] = 6;
    EXPECT_FAILS(tess_mesh_layout_check(&l, 1, 4, cp, 10), TESS_E_MISMATCH,
                 "axis 'cp': rank 4 has 6 at place 1 of its group, which is that of rank 5");
}

static void axes_that_make_no_mesh_are_refused_with_the_fix(void)
{
    tess_axis_list axes;
    tess_mesh_layout l;
    int axis;
#define NO_AXES(text, message) EXPECT_FAILS(tess_axis_list_parse(text, &axes), TESS_E_INVALID, message)
    NO_AXES("", "'' is no axis; write NAME=SIZE, as in dp=2,tp=4");
    NO_AXES("dp", "'dp' is no axis");
    NO_AXES("=2", "'=2' is no axis");
    NO_AXES("dp=2,", "'' is no axis");
    NO_AXES("dp=,tp=2", "'dp=' is no axis");
    NO_AXES("dp=2x", "'dp=2x' is no number of ranks");
    NO_AXES("dp=-2", "-1 for what is left");
    NO_AXES("dp=99999999999", "no number of ranks");
    NO_AXES("a=1,b=1,c=1,d=1,e=1,f=1,g=1", "more than 6 axes");
    NO_AXES("a_name_that_is_much_too_long=1", "names below 24 characters");
#define NO_MESH(text, world, message)             \
    EXPECT_OK(tess_axis_list_parse(text, &axes)); \
    EXPECT_FAILS(tess_mesh_layout_fit(axes.axis, axes.n, world, &l), TESS_E_INVALID, message)
    NO_MESH("dp=2,tp=2", 8, "2 x 2 = 4, but the job has 8 ranks: start 4, or give one axis the size -1");
    NO_MESH("dp=4,tp=4", 8, "more than the 8 ranks of the job: make an axis smaller, or start more ranks");
    NO_MESH("dp=0,tp=4", 4, "axis 'dp' has size 0; give it 1 or more ranks, or -1");
    NO_MESH("dp=3,tp=-1", 8, "8 ranks do not divide by 3, so axis 'tp'");
    NO_MESH("dp=2,dp=2", 4, "'dp' is named twice");
    l = layout_of("dp=2,tp=2", 4);
    EXPECT_FAILS(tess_mesh_layout_axis(&l, "cp", &axis), TESS_E_INVALID, "no axis 'cp'; the mesh has dp tp");
}

static void expect_product(const char *text, int want)
{
    tess_axis_list axes;
    int product = -1;
    EXPECT_OK(tess_axis_list_parse(text, &axes));
    EXPECT_OK(tess_axis_list_product(&axes, &product));
    EXPECT_INT(product, want);
}

static void expect_too_many(const char *text, const char *message)
{
    tess_axis_list axes;
    int product;
    EXPECT_OK(tess_axis_list_parse(text, &axes));
    EXPECT_FAILS(tess_axis_list_product(&axes, &product), TESS_E_INVALID, message);
}

static void the_product_of_axes_counts_ranks_or_names_the_axis_too_many(void)
{
    expect_product("a=3,b=5", 15);
    expect_product("a=3,b=-1", 0);
    expect_product("a=-1,b=2147483647,c=2147483647", 0);
    expect_product("a=0,b=2147483647,c=2147483647", 0);
    expect_product("a=1024,b=1024,c=1", 1 << 20);
    expect_too_many("dp=65536,tp=65536", "axis 'tp' makes it a job of 4294967296 ranks; at most 1048576 are possible");
    expect_too_many("a=70000,b=70000,c=70000", "axis 'b' makes it a job of 4900000000 ranks");
    expect_too_many("a=1024,b=1024,c=2", "axis 'c' makes it a job of 2097152 ranks");
    expect_too_many("a=2147483647", "axis 'a' makes it a job of 2147483647 ranks");
}

static void a_view_shows_axes_ranks_hosts_and_speeds(void)
{
    int hosts[] = {0, 0, 0, 0, 1, 1};
    static const char *const names[] = {"h1", "h2"};
    tess_mesh_speed speeds[TESS_MESH_MAX_AXES][TESS_MESH_SPEEDS] = {{{4096, 12.5, 1 << 30}}, {{4096, 2, 1 << 20}}};
    tess_buffer text = {.mem = test_mem()};
    tess_mesh_layout l = layout_of("dp=3,tp=2", 6);
    tess_mesh_view view = {&l, names, -1, 0, speeds};
    l.hosts = hosts;
    EXPECT(tess_mesh_layout_crosses(&l, 0) && !tess_mesh_layout_crosses(&l, 1));
    EXPECT_OK(tess_form_put(tess_mesh_view_json(&view, true), tess_mesh_form, TESS_FORM_TEXT, 0, &text));
    EXPECT_CONTAINS(text.data, "mesh 3 x 2 (dp, tp): 6 ranks on 2 hosts; rank = 2 dp + tp\n");
    EXPECT_CONTAINS(text.data,
                    "dp       3       2      2  crosses hosts\ntp       2       3      1  stays inside a host\n");
    EXPECT_CONTAINS(text.data, "dp    [0 2 4] [1 3 5]\ntp    [0 1] [2 3] [4 5]\n");
    EXPECT_CONTAINS(text.data, "  tp  0  1\ndp 0  0  1   h1\ndp 1  2  3   h1\ndp 2  4  5   h2\n");
    EXPECT_CONTAINS(text.data, "   5     2     1  h2\n");
    EXPECT_CONTAINS(text.data, "bandwidth: not measured. --measure");
    tess_buffer_free(&text);

    text = (tess_buffer){.mem = test_mem()};
    hosts[1] = 1; /* a group of tp is torn */
    view.axis = 1;
    view.n_speeds = 1;
    EXPECT_OK(tess_form_put(tess_mesh_view_json(&view, true), tess_mesh_form, TESS_FORM_TEXT, 0, &text));
    EXPECT_CONTAINS(text.data, "tp       2       3      1  crosses hosts");
    EXPECT_CONTAINS(text.data, "dp 0  0  1   h1,h2\n");
    EXPECT_CONTAINS(text.data, "dp      4.00 KiB       12.5 us    1.00 GiB/s\n");
    EXPECT(strstr(text.data, "[0 2 4]") == NULL);
    tess_buffer_free(&text);

    json_t *json;
    view.axis = -1;
    EXPECT((json = tess_mesh_view_json(&view, false)) != NULL);
    const json_t *axis = json_array_get(json_object_get(json, "axes"), 0);
    const json_t *group = json_array_get(json_object_get(axis, "groups"), 1);
    const json_t *rank = json_array_get(json_object_get(json, "ranks"), 5);
    EXPECT_INT(json_integer_value(json_object_get(json, "hosts")), 2);
    EXPECT_INT(json_integer_value(json_object_get(axis, "stride")), 2);
    EXPECT(json_is_true(json_object_get(axis, "crosses_hosts")));
    EXPECT_INT(json_integer_value(json_array_get(group, 2)), 5);
    EXPECT_TEXT(json_string_value(json_object_get(rank, "host")), "h2");
    EXPECT_INT(json_integer_value(json_object_get(json_object_get(rank, "coordinates"), "dp")), 2);
    json_decref(json);
}

/* Two hosts of two ranks: "dp" inside of hosts makes neighbours along it neighbouring ranks. */
static void a_view_of_ordered_ranks_tells_ranks_and_not_places_apart(void)
{
    int hosts[] = {0, 0, 1, 1}, even[] = {0, 2, 1, 3}, uneven[] = {0, 2, 3, 1};
    static const char *const names[] = {"h1", "h2"};
    tess_mesh_layout l = layout_of("dp=2,tp=2", 4);
    tess_buffer text = {.mem = test_mem()};
    json_t *json;
    l.hosts = hosts;
    const tess_mesh_view view = {.layout = &l, .host_names = names, .axis = -1};
    for (int i = 0; i < 2; i++) {
        l.ranks = i == 0 ? even : uneven;
        EXPECT_OK(tess_form_put(tess_mesh_view_json(&view, true), tess_mesh_form, TESS_FORM_TEXT, 0, &text));
        EXPECT_CONTAINS(text.data, "place = 2 dp + tp; the grid shows the rank at each place\n");
        EXPECT_CONTAINS(text.data, i == 0 ? "dp       2       2      1  " : "dp       2       2      -  ");
        tess_buffer_free(&text);
        EXPECT((json = tess_mesh_view_json(&view, false)) != NULL);
        const json_t *stride = json_object_get(json_array_get(json_object_get(json, "axes"), 0), "stride");
        EXPECT(i == 0 ? json_integer_value(stride) == 1 : json_is_null(stride));
        json_decref(json);
    }
}

static const test_case cases[] = {
    CASE(ranks_are_where_pytorch_puts_them),
    CASE(groups_are_those_of_the_coordinates),
    CASE(ranks_are_ordered_so_that_an_axis_stays_inside_hosts),
    CASE(what_ranks_get_is_compared_with_the_arithmetic),
    CASE(axes_that_make_no_mesh_are_refused_with_the_fix),
    CASE(the_product_of_axes_counts_ranks_or_names_the_axis_too_many),
    CASE(a_view_shows_axes_ranks_hosts_and_speeds),
    CASE(a_view_of_ordered_ranks_tells_ranks_and_not_places_apart),
};
TEST_MAIN(cases)
