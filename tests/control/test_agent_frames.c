/* Frames between agents: each decodes to what was encoded, and malformed bytes are refused. */
#include "control/launch/agent/agent_frames.h"
#include "support/test.h"
#include "diagnosis/history.h"

static agent_frame make_row(void)
{
    agent_frame frame = {.kind = FRAME_ROW};
    tess_board_copy *c = &frame.row.copy;
    frame.row.rank = 511;
    *c = (tess_board_copy){.state = JOB_RANK_LOST,
                           .ended = 1,
                           .run_state = 'T',
                           .op_state = TESS_TRACE_FAILED,
                           .pid = 4194304,
                           .signal = 9,
                           .exit_code = -7,
                           .blames = 12,
                           .age_ns = UINT64_MAX - 5,
                           .broken_team = UINT64_C(0xfedcba9876543210),
                           .step = -1,
                           .detail = INT64_MIN,
                           .op = {.team = 1,
                                  .sequence = 2,
                                  .count = UINT64_MAX,
                                  .tag = 4,
                                  .call_site = 5,
                                  .root = -1,
                                  .kind = TESS_TRACE_ALL_REDUCE,
                                  .dtype = 1,
                                  .in_dtype = 2,
                                  .op = 3,
                                  .flags = 1,
                                  .label = UINT64_MAX - 1},
                           .wait_op = {.team = 6, .kind = TESS_TRACE_BARRIER, .label = 7},
                           .phase_age_ns = 8,
                           .op_age_ns = 9,
                           .wait_age_ns = UINT64_MAX,
                           .situation = TESS_RANK_STOPPED,
                           .status = TESS_E_TIMEOUT,
                           .n_steps = 10,
                           .n_tokens = 11,
                           .loss = 12,
                           .step_ns = 13};
    memset(c->phase_ns, 0x5a, sizeof(c->phase_ns));
    memset(c->pool_bytes, 0x3c, sizeof(c->pool_bytes));
    memset(c->wait_team, 'w', sizeof(c->wait_team) - 1);
    memset(c->why, 'y', sizeof(c->why) - 1);
    memset(c->phase, 'p', sizeof(c->phase) - 1);
    memset(c->op_team, 't', sizeof(c->op_team) - 1);
    memset(c->error, 'e', sizeof(c->error) - 1);
    return frame;
}

static void rows_come_out_as_they_went_in(void)
{
    agent_frame in = make_row(), out;
    uint8_t bytes[FRAME_MOST_BYTES];
    size_t used, n = agent_frame_encode(&in, bytes);
    memset(&out, 0x55, sizeof(out));
    EXPECT_OK(agent_frame_decode(bytes, n, &out, &used));
    EXPECT_INT(used, n);
    EXPECT_INT(out.kind, FRAME_ROW);
    EXPECT_INT(out.row.rank, 511);
    EXPECT_SAME((const uint8_t *)&out.row.copy, (const uint8_t *)&in.row.copy, sizeof(in.row.copy));
}

static void small_frames_come_out_as_they_went_in(void)
{
    agent_frame in = {.kind = FRAME_HELLO, .hello = {.version = 1, .host = 2, .n_hosts = 3, .world = 4}}, out;
    uint8_t bytes[3 * FRAME_MOST_BYTES];
    size_t used;
    memset(in.hello.secret, 0xa5, AGENT_SECRET_BYTES);
    size_t n = agent_frame_encode(&in, bytes);
    in = (agent_frame){.kind = FRAME_HOST, .host = {.stop = 1, .diagnosis_seen = 0}};
    size_t n_host = agent_frame_encode(&in, bytes + n);
    in = (agent_frame){.kind = FRAME_DIAGNOSIS, .diagnosis = {.rank = 3, .code = 137}};
    size_t n_diagnosis = agent_frame_encode(&in, bytes + n + n_host);
    EXPECT_OK(agent_frame_decode(bytes, n + n_host + n_diagnosis, &out, &used)); /* one after the other */
    EXPECT_INT(used, n);
    EXPECT(out.hello.version == 1 && out.hello.host == 2 && out.hello.n_hosts == 3 && out.hello.world == 4);
    EXPECT_INT(out.hello.secret[15], 0xa5);
    EXPECT_OK(agent_frame_decode(bytes + n, n_host + n_diagnosis, &out, &used));
    EXPECT_INT(used, n_host);
    EXPECT(out.host.stop == 1 && out.host.diagnosis_seen == 0);
    EXPECT_OK(agent_frame_decode(bytes + n + n_host, n_diagnosis, &out, &used));
    EXPECT(out.diagnosis.rank == 3 && out.diagnosis.code == 137);
    in = (agent_frame){.kind = FRAME_AWAITED, .awaited = {.rank = 600, .first = 8, .words = {1, [7] = UINT64_MAX}}};
    n = agent_frame_encode(&in, bytes);
    EXPECT_OK(agent_frame_decode(bytes, n, &out, &used));
    EXPECT_INT(used, n);
    EXPECT(out.awaited.rank == 600 && out.awaited.first == 8 && out.awaited.words[0] == 1);
    EXPECT(out.awaited.words[1] == 0 && out.awaited.words[7] == UINT64_MAX);
}

static void a_cut_frame_is_waited_for(void)
{
    agent_frame in = make_row(), out;
    uint8_t bytes[FRAME_MOST_BYTES];
    size_t used, n = agent_frame_encode(&in, bytes);
    for (size_t i = 0; i < n; i++) {
        EXPECT_OK(agent_frame_decode(bytes, i, &out, &used));
        EXPECT_INT(used, 0);
    }
}

/* The frame cut to its first `n` bytes, with a head that gives this size. */
static void a_frame_that_says_less_than_it_should_is_refused(void)
{
    agent_frame in = make_row(), out;
    uint8_t bytes[FRAME_MOST_BYTES];
    size_t used, n = agent_frame_encode(&in, bytes);
    for (size_t i = FRAME_HEAD_BYTES; i <= n + 1; i++) {
        bytes[0] = (uint8_t)i;
        bytes[1] = (uint8_t)(i >> 8);
        if (i != n)
            EXPECT_FAILS(agent_frame_decode(bytes, sizeof(bytes), &out, &used), TESS_E_FORMAT, "malformed");
    }
}

static void sizes_and_kinds_out_of_range_are_refused(void)
{
    static const uint8_t heads[][FRAME_HEAD_BYTES] = {
        {3, 0, FRAME_HOST, 0}, {0, 0, FRAME_HOST, 0}, {255, 255, FRAME_ROW, 0},
        {6, 0, 0, 0},          {6, 0, 6, 0},          {6, 0, FRAME_HOST, 1}};
    agent_frame out;
    size_t used;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        EXPECT_FAILS(agent_frame_decode(heads[i], FRAME_HEAD_BYTES, &out, &used), TESS_E_FORMAT, "a frame of");
}

/* The offset of a byte of the row's fields in its frame. */
static void fields_out_of_range_are_refused(void)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{8, JOB_RANK_LOST + 1},
                   {9, 2},
                   {10, 200},
                   {11, TESS_TRACE_FAILED + 1},
                   {84, TESS_SITUATION_COUNT},
                   {293, TESS_TRACE_OP_COUNT},
                   {350, TESS_TRACE_OP_COUNT}};
    agent_frame in = make_row(), out;
    uint8_t bytes[FRAME_MOST_BYTES];
    size_t used, n = agent_frame_encode(&in, bytes);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        uint8_t before = bytes[changes[i].at];
        bytes[changes[i].at] = changes[i].value;
        EXPECT_FAILS(agent_frame_decode(bytes, n, &out, &used), TESS_E_FORMAT, "malformed");
        bytes[changes[i].at] = before;
    }
    EXPECT_OK(agent_frame_decode(bytes, n, &out, &used));
}

/* The first text follows the operations. Its length is made one too large, and the bytes exist. */
static void a_text_that_does_not_fit_is_refused(void)
{
    enum { PHASE_AT = 363 };
    agent_frame in = make_row(), out;
    uint8_t bytes[FRAME_MOST_BYTES];
    size_t used, n = agent_frame_encode(&in, bytes);
    EXPECT_INT(bytes[PHASE_AT], JOB_TEXT_BYTES - 1);
    memmove(bytes + PHASE_AT + 3, bytes + PHASE_AT + 2, n - PHASE_AT - 2);
    bytes[PHASE_AT] = JOB_TEXT_BYTES;
    bytes[PHASE_AT + 2] = 'p';
    n++;
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    EXPECT_FAILS(agent_frame_decode(bytes, n, &out, &used), TESS_E_FORMAT, "malformed");
    n = agent_frame_encode(&in, bytes);
    bytes[PHASE_AT + 4] = '\0'; /* a text does not end before its end */
    EXPECT_FAILS(agent_frame_decode(bytes, n, &out, &used), TESS_E_FORMAT, "malformed");
}

static const test_case cases[] = {
    CASE(rows_come_out_as_they_went_in),
    CASE(small_frames_come_out_as_they_went_in),
    CASE(a_cut_frame_is_waited_for),
    CASE(a_frame_that_says_less_than_it_should_is_refused),
    CASE(sizes_and_kinds_out_of_range_are_refused),
    CASE(fields_out_of_range_are_refused),
    CASE(a_text_that_does_not_fit_is_refused),
};
TEST_MAIN(cases)
