/* Places of ranks in a trace, as text. */
#include <stdlib.h>

#include "support/test.h"
#include "trace/places.h"

enum { CAPACITY = 4 };

static tess_trace_ring *make_ring(int rank, int world)
{
    void *memory = aligned_alloc(64, tess_trace_bytes(CAPACITY));
    tess_trace_ring *ring;
    memset(memory, 0, tess_trace_bytes(CAPACITY));
    EXPECT_OK(tess_trace_init(memory, CAPACITY, rank, world, &ring));
    tess_trace_add_team(ring, 1, "world", world, rank);
    return ring;
}

/* A ring of `rank` in a mesh, as "pp=2 tp=2" says, in whose job a team of two is made besides. */
static tess_places places_of(int rank, int world, const char *mesh)
{
    tess_trace_ring *ring = make_ring(rank, world);
    char name[32];
    int size, used, stride = world;
    for (; sscanf(mesh, " %31[^=]=%d%n", name, &size, &used) == 2; mesh += used) {
        stride /= size;
        tess_trace_add_team(ring, 2, name, size, rank / stride % size);
    }
    tess_trace_add_team(ring, 3, "host", 2, rank % 2);
    tess_places places;
    tess_places_of(ring, &places);
    free(ring);
    return places;
}

static void any_ring_tells_the_places_of_all(void)
{
    static const struct {
        int world, rank;
        const char *mesh, *place;
    } cases[] = {
        {4, 1, "pp=2 dp_replicate=1 dp_shard=1 tp=2", "pp 0, tp 1"},
        {4, 2, "pp=2 dp_replicate=1 dp_shard=1 tp=2", "pp 1, tp 0"},
        {12, 11, "dp_replicate=2 dp_shard=3 tp=2", "dp_replicate 1, dp_shard 2, tp 1"},
        {12, 3, "dp_replicate=2 dp_shard=3 tp=2", "dp_replicate 0, dp_shard 1, tp 1"},
        {6, 4, "dp_replicate=2 dp_shard=3", "dp_replicate 1, dp_shard 1"},
        {8, 5, "dp_replicate=1 dp_shard=8", ""},
        {8, 5, "pp=8 dp_replicate=1 dp_shard=1", ""},
        {8, 5, "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int teller = 0; teller < cases[i].world; teller++) {
            char text[TESS_PLACE_TEXT];
            tess_places places = places_of(teller, cases[i].world, cases[i].mesh);
            EXPECT_TEXT(tess_place_text(&places, cases[i].rank, text, sizeof(text)), cases[i].place);
        }
}

/* Teams of a ring that nobody wrote: none of them is a mesh. */
static void teams_that_are_no_mesh_give_no_place(void)
{
    static const tess_trace_team odd[][2] = {
        {{2, 2, 0, "pp"}, {3, 2, 1, "tp"}},        /* rank 1, and the ring is that of 3 */
        {{2, 2, 1, "pp"}, {3, 3, 0, "tp"}},        /* six ranks of four */
        {{2, -2, 1, "pp"}, {3, -2, 1, "tp"}},      /* minus two */
        {{2, 0, 1, "pp"}, {3, 4, 3, "tp"}},        /* nobody */
        {{2, INT32_MAX, 1, "pp"}, {3, 2, 1, "tp"}} /* too many */
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        tess_trace_ring *ring = make_ring(3, 4);
        tess_places places;
        ring->teams[1] = odd[i][0];
        ring->teams[2] = odd[i][1];
        atomic_store(&ring->n_teams, 3);
        tess_places_of(ring, &places);
        EXPECT_INT(places.n_axes, 0);
        atomic_store(&ring->n_teams, UINT32_MAX);
        tess_places_of(ring, &places);
        EXPECT_INT(places.n_axes, 0);
        free(ring);
    }
}

static const test_case cases[] = {
    CASE(any_ring_tells_the_places_of_all),
    CASE(teams_that_are_no_mesh_give_no_place),
};
TEST_MAIN(cases)
