/* The wire of the launcher that started this program: a plug-in for MPI, or links over TCP. Every rank runs every
 * check, in one order. */
#include <sched.h>
#include <stdlib.h>

#include "comm/wire/wire_load.h"
#include "support/test.h"

enum { MOST_RANKS = 8, TAG = 7 };

static const wire_table *wire;
static wire_process process;
static char wire_error[WIRE_ERROR_BYTES];

#define EXPECT_WIRE(call)                                                      \
    do {                                                                       \
        if ((call) != 0)                                                       \
            test_fail(__FILE__, __LINE__, "%s failed: %s", #call, wire_error); \
    } while (0)

/* Tests until the request ends; returns 1 or -1 as `test` does. */
static int finish(wire_request **request)
{
    int done;
    while ((done = wire->test(request, wire_error)) == 0)
        sched_yield();
    EXPECT(*request == NULL);
    return done;
}

static void finish_well(wire_request **request)
{
    if (finish(request) != 1)
        test_fail(__FILE__, __LINE__, "rank %d: a message failed: %s", process.rank, wire_error);
}

static bool is_tcp(void)
{
    return strcmp(wire->name, "tcp") == 0;
}

static bool in_small_parts(void)
{
    return process.part_bytes == 1000 && !is_tcp();
}

static void meet(wire_group *group)
{
    uint8_t mine = 1, all[MOST_RANKS];
    wire_request *request;
    EXPECT_WIRE(wire->all_gather(group, &mine, all, 1, &request, wire_error));
    finish_well(&request);
}

static uint8_t byte_at(size_t i, int sender, int message)
{
    return (uint8_t)(i * 31 + i / 257 + (size_t)sender * 7 + (size_t)message * 3);
}

static uint8_t *make_bytes(size_t n, int sender, int message)
{
    uint8_t *bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(i, sender, message);
    return bytes;
}

static void expect_bytes(const uint8_t *bytes, size_t n, int sender, int message)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_at(i, sender, message))
            test_fail(__FILE__, __LINE__, "message %d of rank %d: byte %zu of %zu is %d, expected %d", message, sender,
                      i, n, bytes[i], byte_at(i, sender, message));
    }
}

/* Each sends to the next and receives from the one before. */
static void pass_on(wire_group *group, int rank, int size, size_t bytes)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint8_t *out = make_bytes(bytes, rank, 0), *in = malloc(bytes + 1);
    in[bytes] = 99;
    wire_request *sent, *received;
    EXPECT_WIRE(wire->recv(group, in, bytes, before, TAG, &received, wire_error));
    EXPECT_WIRE(wire->send(group, out, bytes, next, TAG, &sent, wire_error));
    finish_well(&received);
    finish_well(&sent);
    expect_bytes(in, bytes, before, 0);
    EXPECT_INT(in[bytes], 99);
    free(out);
    free(in);
}

static void messages_of_any_size_arrive(void)
{
    const size_t sizes[] = {0, 1, 999, 1000, 1001, 65536, 3000000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        pass_on(process.world, process.rank, process.size, sizes[i]);
}

/* Received in the opposite order of tags, and in order within a tag. */
static void messages_of_a_tag_stay_in_order(void)
{
    enum { MESSAGES = 20, BYTES = 2500 };
    int next = (process.rank + 1) % process.size, before = (process.rank + process.size - 1) % process.size;
    uint8_t *out[2][MESSAGES], *in = malloc(BYTES);
    wire_request *sent[2][MESSAGES], *received;
    for (int i = 0; i < MESSAGES; i++) {
        for (int tag = 0; tag < 2; tag++) {
            out[tag][i] = make_bytes(BYTES, process.rank, tag * MESSAGES + i);
            EXPECT_WIRE(wire->send(process.world, out[tag][i], BYTES, next, TAG + tag, &sent[tag][i], wire_error));
        }
    }
    for (int tag = 1; tag >= 0; tag--) {
        for (int i = 0; i < MESSAGES; i++) {
            EXPECT_WIRE(wire->recv(process.world, in, BYTES, before, TAG + tag, &received, wire_error));
            finish_well(&received);
            expect_bytes(in, BYTES, before, tag * MESSAGES + i);
        }
    }
    for (int i = 0; i < 2 * MESSAGES; i++) {
        finish_well(&sent[i % 2][i / 2]);
        free(out[i % 2][i / 2]);
    }
    free(in);
}

static void send_bytes(size_t bytes, int tag)
{
    uint8_t *out = make_bytes(bytes, process.rank, 0);
    wire_request *request;
    EXPECT_WIRE(wire->send(process.world, out, bytes, 0, tag, &request, wire_error));
    finish_well(&request);
    free(out);
}

static void receive_bytes(size_t sent_bytes, size_t room, int tag, bool is_fine)
{
    uint8_t *in = malloc(room + 1);
    wire_request *request;
    EXPECT_WIRE(wire->recv(process.world, in, room, 1, tag, &request, wire_error));
    EXPECT_INT(finish(&request), is_fine ? 1 : -1);
    if (is_fine)
        expect_bytes(in, sent_bytes, 1, 0);
    free(in);
}

/* Rank 1 sends to rank 0, which has room for another number of bytes. */
static void send_other_size(size_t sent_bytes, size_t room, int tag, bool is_fine)
{
    if (process.rank == 1)
        send_bytes(sent_bytes, tag);
    else if (process.rank == 0)
        receive_bytes(sent_bytes, room, tag, is_fine);
    meet(process.world);
}

static void counts_over_two_billion_are_fine(void)
{
    size_t bytes = (4ull << 30) + 4097, n = (2ull << 30) + 5;
    if (getenv("TESSERA_BIG_TESTS") == NULL || in_small_parts())
        return;
    send_other_size(bytes, bytes, TAG, true);
    uint8_t *all = calloc(n, 1);
    all[n - 1] = (uint8_t)(process.rank + 1);
    wire_request *request;
    if (is_tcp()) {
        free(all);
        return;
    }
    EXPECT_WIRE(wire->all_reduce(process.world, all, all, n, WIRE_U8, WIRE_MAX, &request, wire_error));
    finish_well(&request);
    EXPECT_INT(all[n - 1], process.size);
    free(all);
}

static void a_short_message_may_be_shorter_still(void)
{
    send_other_size(100, 999, TAG + 10, true);
    send_other_size(0, 999, TAG + 10, true);
}

static void expect_refused(size_t sent_bytes, size_t room, int tag)
{
    send_other_size(sent_bytes, room, tag, false);
    if (process.rank != 0)
        return;
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "but %zu were expected", room);
    EXPECT_CONTAINS(wire_error, "a message from 1 has ");
    EXPECT_CONTAINS(wire_error, wanted);
}

static void a_message_of_another_size_is_an_error(void)
{
    expect_refused(200, 100, TAG + 11);
    expect_refused(1, 0, TAG + 12);
    expect_refused(4000, 2000, TAG + 13);
    if (!in_small_parts())
        return;
    expect_refused(1000, 2000, TAG + 14);
    expect_refused(1500, 1501, TAG + 15);
    expect_refused(0, 1000, TAG + 16);
}

/* The odd ranks in reverse order, so that places in the group differ from the launcher's numbers. */
static void groups_have_their_own_order_and_messages(void)
{
    int ranks[2][MOST_RANKS], n[2] = {0, 0};
    for (int rank = 0; rank < process.size; rank += 2)
        ranks[0][n[0]++] = rank;
    for (int rank = (process.size - 2) | 1; rank > 0; rank -= 2)
        ranks[1][n[1]++] = rank;
    int odd = process.rank % 2, place = 0;
    while (ranks[odd][place] != process.rank)
        place++;

    wire_group *group, *twin;
    EXPECT_WIRE(wire->make_group(ranks[odd], n[odd], 3, &group, wire_error));
    EXPECT_WIRE(wire->make_group(ranks[odd], n[odd], 3, &twin, wire_error));
    pass_on(group, place, n[odd], 5000);

    int32_t mine = process.rank, all[MOST_RANKS], all_of_twin[MOST_RANKS], of_twin = process.rank + 100;
    wire_request *request, *request_of_twin;
    EXPECT_WIRE(wire->all_gather(group, &mine, all, sizeof(mine), &request, wire_error));
    EXPECT_WIRE(wire->all_gather(twin, &of_twin, all_of_twin, sizeof(mine), &request_of_twin, wire_error));
    finish_well(&request_of_twin);
    finish_well(&request);
    for (int i = 0; i < n[odd]; i++) {
        EXPECT_INT(all[i], ranks[odd][i]);
        EXPECT_INT(all_of_twin[i], ranks[odd][i] + 100);
    }
    wire->free_group(&group);
    EXPECT(group == NULL);
    wire->free_group(&twin);
    meet(process.world);
}

static void all_gather_takes_any_size(void)
{
    const size_t sizes[] = {0, 1, 1000, 2500, 300000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i];
        uint8_t *in = make_bytes(bytes, process.rank, 1), *out = malloc(bytes * (size_t)process.size + 1);
        wire_request *request;
        EXPECT_WIRE(wire->all_gather(process.world, in, out, bytes, &request, wire_error));
        finish_well(&request);
        for (int rank = 0; rank < process.size; rank++)
            expect_bytes(out + (size_t)rank * bytes, bytes, rank, 1);
        free(in);
        free(out);
    }
}

/* Small whole numbers: any order of additions gives the same float. */
static void reductions_by_the_mpi_add_up(void)
{
    enum { N = 1111 };
    int size = process.size, ranks_sum = size * (size - 1) / 2;
    float *in = malloc(sizeof(float) * N * MOST_RANKS), out[N];
    for (int i = 0; i < N * size; i++)
        in[i] = (float)(i + process.rank);
    wire_request *request;
    EXPECT_WIRE(wire->all_reduce(process.world, in, out, N, WIRE_F32, WIRE_SUM, &request, wire_error));
    finish_well(&request);
    for (int i = 0; i < N; i++)
        EXPECT_INT(out[i], i * size + ranks_sum);
    EXPECT_WIRE(wire->reduce_scatter(process.world, in, out, N, WIRE_F32, WIRE_SUM, &request, wire_error));
    finish_well(&request);
    for (int i = 0; i < N; i++)
        EXPECT_INT(out[i], (process.rank * N + i) * size + ranks_sum);
    free(in);

    int64_t numbers[N];
    for (int i = 0; i < N; i++)
        numbers[i] = (int64_t)i << 33 | process.rank;
    EXPECT_WIRE(wire->all_reduce(process.world, numbers, numbers, N, WIRE_I64, WIRE_MAX, &request, wire_error));
    finish_well(&request);
    for (int i = 0; i < N; i++)
        EXPECT_INT(numbers[i], (int64_t)i << 33 | (size - 1));
    uint8_t least = (uint8_t)(process.rank + 200);
    EXPECT_WIRE(wire->all_reduce(process.world, &least, &least, 1, WIRE_U8, WIRE_MIN, &request, wire_error));
    finish_well(&request);
    EXPECT_INT(least, 200);
}

static void reductions_are_refused(void)
{
    float value = 1;
    wire_request *request;
    EXPECT_INT(wire->all_reduce(process.world, &value, &value, 1, WIRE_F32, WIRE_SUM, &request, wire_error), -1);
    EXPECT_CONTAINS(wire_error, "use comm.reduction=tree");
}

static void a_message_that_never_comes_can_be_given_up(void)
{
    uint8_t bytes[5000];
    wire_request *request;
    EXPECT_WIRE(wire->recv(process.world, bytes, sizeof(bytes), (process.rank + 1) % process.size, TAG + 20, &request,
                           wire_error));
    EXPECT_INT(wire->test(&request, wire_error), 0);
    wire->cancel(&request);
    EXPECT(request == NULL);
    wire->cancel(&request);
    pass_on(process.world, process.rank, process.size, 5000);
}

/* The message is longer than what is sent at once, and is given up while it moves. */
static void a_message_can_be_given_up_while_it_moves(void)
{
    enum { BYTES = 30000000 };
    int next = (process.rank + 1) % process.size, before = (process.rank + process.size - 1) % process.size;
    uint8_t *out = make_bytes(BYTES, process.rank, 0), *in = malloc(BYTES);
    wire_request *sent, *received;
    EXPECT_WIRE(wire->recv(process.world, in, BYTES, before, TAG + 21, &received, wire_error));
    EXPECT_WIRE(wire->send(process.world, out, BYTES, next, TAG + 21, &sent, wire_error));
    for (in[0] = (uint8_t)~byte_at(0, before, 0); in[0] != byte_at(0, before, 0);)
        wire->poll(); /* the first bytes are not there yet */
    wire->cancel(&received);
    finish_well(&sent);
    pass_on(process.world, process.rank, process.size, 100000);
    meet(process.world);
    free(out);
    free(in);
}

static void a_wrong_place_is_an_error_and_no_abort(void)
{
    uint8_t byte = 0;
    wire_request *request;
    EXPECT_INT(wire->send(process.world, &byte, 1, process.size, TAG, &request, wire_error), -1);
    EXPECT_CONTAINS(wire_error, "sending 1 bytes to ");
    wire_group *group;
    int nobody = process.size + 5;
    EXPECT_INT(wire->make_group(&nobody, 1, 0, &group, wire_error), -1);
    EXPECT_CONTAINS(wire_error, "rank");
}

static void a_second_mpi_is_refused(void)
{
    const wire_table *other;
    setenv("TESSERA_MPI", strstr(process.library, "Open MPI") != NULL ? "mpich" : "openmpi", 1);
    EXPECT_FAILS(tess_wire_load(TESS_STARTER_NONE, &other), TESS_E_INVALID, "another MPI in it already");
    unsetenv("TESSERA_MPI");
}

static void open_wire(const char *library)
{
    tess_environment environment;
    EXPECT_OK(tess_environment_read(&environment));
    EXPECT_OK(tess_wire_load(environment.starter, &wire));
    const char *part_bytes = getenv("TESSERA_MPI_PART_BYTES");
    process.part_bytes = part_bytes != NULL ? strtoull(part_bytes, NULL, 10) : 0;
    process.timeout_s = 60;
    EXPECT_WIRE(wire->open(&process, wire_error));
    EXPECT_INT(process.rank, environment.rank);
    EXPECT_INT(process.size, environment.world);
    EXPECT_CONTAINS(process.library, library);
    EXPECT(is_tcp() || process.first_core >= 0);
    EXPECT(process.most_tag >= 32767);
    EXPECT(process.size >= 2 && process.size <= MOST_RANKS);
}

/* test_wire LIBRARY ("Open MPI"): the library that must have started it. */
int main(int argc, char **argv)
{
    open_wire(argc > 1 ? argv[1] : "");
    messages_of_any_size_arrive();
    messages_of_a_tag_stay_in_order();
    a_short_message_may_be_shorter_still();
    a_message_of_another_size_is_an_error();
    groups_have_their_own_order_and_messages();
    all_gather_takes_any_size();
    if (is_tcp())
        reductions_are_refused();
    else
        reductions_by_the_mpi_add_up();
    counts_over_two_billion_are_fine();
    a_message_that_never_comes_can_be_given_up();
    if (is_tcp()) /* MPI would own the buffer to the end */
        a_message_can_be_given_up_while_it_moves();
    a_wrong_place_is_an_error_and_no_abort();
    if (!is_tcp())
        a_second_mpi_is_refused();
    meet(process.world);
    wire->close(true);
    return 0;
}
