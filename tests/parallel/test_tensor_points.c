/* Exchanges of ranks that share a model: every element of the box that a rank wants is what a plain loop says, nothing
 * next to it changes, and the bytes that come from others are the formula's. */
#include <stdlib.h>

#include "comm/device_windows.h"
#include "parallel/tensor/tensor_points.h"
#include "support/crossed.h"
#include "support/test.h"
#include "tessera/runtime.h"

enum { MOST = 64 << 10, GAP = 3 }; /* GAP: elements between the rows of a matrix in memory */

static tess_runtime *runtime;
static tess_device *device;
static tess_stream *stream;
static tess_tensor *tensor;
static int rank, degree;
static bool counts_crossings; /* the device is a GPU of the driver that plays one, and peers reach its memory */

static void open_points(const char *name)
{
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    tess_team *team = tess_runtime_team(runtime);
    rank = tess_team_rank(team);
    degree = tess_team_size(team);
    EXPECT_OK(tess_device_open(tess_runtime_mem(runtime), name, 0, &device));
    EXPECT_OK(tess_device_stream(device, 1, NULL, &stream));
    EXPECT_OK(tess_runtime_use_device(runtime, device, stream));
    EXPECT_OK(tess_tensor_create(tess_runtime_mem(runtime), team, stream, MOST, &tensor));
}

static void close_points(void)
{
    tess_tensor_destroy(&tensor);
    tess_runtime_forget_device(runtime);
    tess_stream_destroy(&stream);
    EXPECT_INT(tess_device_close(&device), 0);
    tess_mem *mem = tess_runtime_mem(runtime);
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_COMM).bytes, 0);
    tess_runtime_destroy(&runtime);
}

/* A matrix of which the rank has a box, in memory of the device and as the host last saw it. */
typedef struct matrix {
    int64_t begin[2], size[2], ld;
    size_t element, bytes;
    char *host;
    void *memory;
} matrix;

static uint32_t value(int64_t row, int64_t column, int salt)
{
    return (uint32_t)(row * 7919 + column * 104729 + (int64_t)salt * 15485863 + 1);
}

static void put(matrix *m, int64_t i, int64_t j, uint32_t v)
{
    memcpy(m->host + (size_t)(i * m->ld + j) * m->element, &v, m->element);
}

static void matrix_open(matrix *m, const tess_cut cuts[2], size_t element)
{
    for (int d = 0; d < 2; d++)
        tess_cut_range(cuts[d], degree, rank, &m->begin[d], &m->size[d]);
    m->ld = m->size[1] + GAP;
    m->element = element;
    m->bytes = (size_t)((m->size[0] + 1) * m->ld) * element;
    m->host = malloc(m->bytes);
    memset(m->host, 0xab, m->bytes);
    EXPECT_OK(tess_device_alloc(device, TESS_POOL_MISC, m->bytes, "matrix", &m->memory));
}

static void matrix_close(matrix *m)
{
    tess_device_free(device, m->memory);
    free(m->host);
}

static void fill(matrix *m, int salt)
{
    for (int64_t i = 0; i < m->size[0]; i++)
        for (int64_t j = 0; j < m->size[1]; j++)
            put(m, i, j, value(m->begin[0] + i, m->begin[1] + j, salt));
}

static void check_exchange(const tess_cut held[2], const tess_cut wanted[2], size_t element, int salt)
{
    matrix mine, into;
    tess_points points = tess_tensor_points(tensor);
    uint64_t before = tess_tensor_received(tensor), own = 1, all = 1;
    matrix_open(&mine, held, element);
    matrix_open(&into, wanted, element);
    fill(&mine, salt);
    EXPECT_OK(tess_upload(stream, mine.memory, mine.host, mine.bytes));
    EXPECT_OK(tess_upload(stream, into.memory, into.host, into.bytes));
    tess_exchange x = {.what = "matrix",
                       .held = {held[0], held[1]},
                       .wanted = {wanted[0], wanted[1]},
                       .element = element,
                       .mine = mine.memory,
                       .into = into.memory,
                       .ld = mine.ld,
                       .into_ld = into.ld};
    size_t crossed = counts_crossings ? test_crossed() : 0;
    EXPECT_OK(points.exchange(points.self, &x));
    if (counts_crossings)
        EXPECT_INT(test_crossed() - crossed, 0);
    fill(&into, salt); /* the gaps stay as they were */
    char *got = malloc(into.bytes);
    EXPECT_OK(tess_fetch(stream, got, into.memory, into.bytes));
    EXPECT_SAME(got, into.host, into.bytes);
    for (int d = 0; d < 2; d++) {
        int64_t begin = mine.begin[d] > into.begin[d] ? mine.begin[d] : into.begin[d];
        int64_t ends[] = {mine.begin[d] + mine.size[d], into.begin[d] + into.size[d]};
        int64_t end = ends[0] < ends[1] ? ends[0] : ends[1];
        own *= (uint64_t)(end > begin ? end - begin : 0);
        all *= (uint64_t)into.size[d];
    }
    EXPECT_INT(tess_tensor_received(tensor) - before, (all - own) * element);
    free(got);
    matrix_close(&mine);
    matrix_close(&into);
}

/* Columns of a matrix that lies whole in memory: each rank has its own there, and gets the others. */
static void check_in_place(int64_t n_rows, tess_cut columns, int salt)
{
    matrix whole;
    tess_points points = tess_tensor_points(tensor);
    tess_cut rows = {n_rows, 0}, all = {columns.size, 0};
    int64_t begin, size;
    tess_cut_range(columns, degree, rank, &begin, &size);
    matrix_open(&whole, (tess_cut[]){rows, all}, sizeof(float));
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = begin; j < begin + size; j++)
            put(&whole, i, j, value(i, j, salt));
    EXPECT_OK(tess_upload(stream, whole.memory, whole.host, whole.bytes));
    tess_exchange x = {.what = "columns",
                       .held = {rows, columns},
                       .wanted = {rows, all},
                       .element = sizeof(float),
                       .mine = (char *)whole.memory + begin * (int64_t)sizeof(float),
                       .into = whole.memory,
                       .ld = whole.ld,
                       .into_ld = whole.ld};
    EXPECT_OK(points.exchange(points.self, &x));
    fill(&whole, salt);
    char *got = malloc(whole.bytes);
    EXPECT_OK(tess_fetch(stream, got, whole.memory, whole.bytes));
    EXPECT_SAME(got, whole.host, whole.bytes);
    free(got);
    matrix_close(&whole);
}

/* Sizes that no degree divides, fewer than ranks, none; whole units. */
static void check_all(void)
{
    static const int64_t rows[] = {0, 1, 7, 64}, columns[] = {1, 5, 29, 48};
    int salt = 0;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            for (size_t element = 2; element <= 4; element += 2) {
                tess_cut all_rows = {rows[r], 0}, all_columns = {columns[c], 0};
                tess_cut some_rows = {rows[r], 1}, some_columns = {columns[c], columns[c] % 16 == 0 ? 16 : 1};
                check_exchange((tess_cut[]){all_rows, some_columns}, (tess_cut[]){all_rows, all_columns}, element,
                               salt++);
                check_exchange((tess_cut[]){some_rows, all_columns}, (tess_cut[]){all_rows, all_columns}, element,
                               salt++);
                check_exchange((tess_cut[]){some_rows, all_columns}, (tess_cut[]){all_rows, some_columns}, element,
                               salt++);
                check_exchange((tess_cut[]){all_rows, some_columns}, (tess_cut[]){some_rows, all_columns}, element,
                               salt++);
                check_in_place(rows[r], some_columns, salt++);
            }
}

static void boxes_of_matrices_move_between_ranks(void)
{
    open_points("cpu");
    check_all();
    close_points();
}

static void boxes_move_between_devices_apart_from_the_host(void)
{
    open_points("far");
    check_all();
    close_points();
}

/* GPUs that reach each other: no byte of a point passes through the host. */
static void boxes_move_between_gpus_without_the_host(void)
{
    if (getenv("TESS_TEST_DEVICE") == NULL)
        return;
    EXPECT_INT(setenv("CUDA_FAKE", "devices=8,ipc=1", 1), 0);
    counts_crossings = true;
    open_points("cuda");
    check_all();
    close_points();
}

/* GPUs that do not: the same boxes. */
static void boxes_move_between_gpus_through_the_host(void)
{
    if (getenv("TESS_TEST_DEVICE") == NULL)
        return;
    EXPECT_INT(setenv("CUDA_FAKE", "devices=8", 1), 0);
    open_points("cuda");
    check_all();
    close_points();
}

static void what_does_not_fit_is_named(void)
{
    open_points("cpu");
    tess_points points = tess_tensor_points(tensor);
    tess_cut rows = {MOST, 0}, columns = {4 * degree, 1};
    tess_exchange x = {.what = "weight", .held = {rows, columns}, .wanted = {rows, columns}, .element = 4};
    EXPECT_FAILS(points.exchange(points.self, &x), TESS_E_INVALID, "holds 1048576 bytes, there is room for 65536");
    check_exchange((tess_cut[]){{3, 0}, {8, 1}}, (tess_cut[]){{3, 0}, {8, 0}}, 4, 1); /* goes on */
    close_points();
}

static const test_case cases[] = {
    CASE(boxes_of_matrices_move_between_ranks, -1),
    CASE(boxes_move_between_devices_apart_from_the_host, 3),
    CASE(boxes_move_between_gpus_without_the_host, 3, 0, TEST_NEVER),
    CASE(boxes_move_between_gpus_through_the_host, 3, 0, TEST_NEVER),
    CASE(what_does_not_fit_is_named, 2),
};
TEST_MAIN(cases)
