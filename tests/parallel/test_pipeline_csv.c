/* Schedules from CSV: every schedule that we build is the same one when its order is read back, and orders that cannot
 * run, or would sum gradients in another order, are refused with their cell. */
#include "parallel/pipeline/pipeline.h"
#include "support/test.h"

static void write_order(const tess_pipeline_schedule *s, const char *between, tess_buffer *out)
{
    for (int r = 0; r < s->ranks; r++) {
        for (int i = 0; i < s->lists[r].n; i++) {
            const tess_pipeline_action *a = &s->lists[r].actions[i];
            if (a->op <= TESS_PIPELINE_BW)
                EXPECT_OK(tess_buffer_printf(out, "%d%c%d%s", tess_pipeline_stage(s, r, a->chunk), "FBIW"[a->op],
                                             a -> micro, between));
        }
        EXPECT_OK(tess_buffer_printf(out, "\n"));
    }
}

static void expect_equal(const tess_pipeline_schedule *got, const tess_pipeline_schedule *want)
{
    for (int r = 0; r < want->ranks; r++) {
        EXPECT_INT(got->lists[r].n, want->lists[r].n);
        EXPECT_INT(got->lists[r].in_flight, want->lists[r].in_flight);
        for (int i = 0; i < want->lists[r].n; i++) {
            const tess_pipeline_action *a = &got->lists[r].actions[i], *b = &want->lists[r].actions[i];
            EXPECT(a->op == b->op && a->chunk == b->chunk && a->micro == b->micro && a->slot == b->slot &&
                   a->last == b->last);
        }
    }
}

static void every_schedule_is_read_back_as_it_was(void)
{
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            tess_pipeline_schedule want, got;
            tess_buffer text = {.mem = test_mem()};
            const int chunks = tess_pipeline_usual_chunks((tess_pipeline_kind)kind);
            EXPECT_OK(tess_pipeline_build(test_mem(), (tess_pipeline_kind)kind, ranks, chunks, 2 * ranks, &want));
            write_order(&want, ranks % 2 ? "," : " ,, ", &text);
            EXPECT_OK(tess_pipeline_parse_csv(test_mem(), text.data, text.size, "it", &want, &got));
            expect_equal(&got, &want);
            EXPECT_INT(tess_pipeline_splits_backward(&got), kind >= TESS_PIPELINE_ZB_H1);
            tess_pipeline_free(&got);
            tess_pipeline_free(&want);
            tess_buffer_free(&text);
        }
}

static void other_orders_are_read_too(void)
{
    static const char text[] = "0F0,0F1,,0B0,0I1,0W1\r\n1F0,1I0,1F1,1I1,1W0,1W1\n\n";
    const tess_pipeline_schedule shape = {.kind = TESS_PIPELINE_1F1B, .ranks = 2, .chunks = 1, .micros = 2};
    tess_pipeline_schedule s;
    tess_buffer order = {.mem = test_mem()};
    EXPECT_OK(tess_pipeline_parse_csv(test_mem(), text, sizeof(text) - 1, "it", &shape, &s));
    EXPECT_OK(tess_pipeline_print_order(&s, 0, &order));
    EXPECT_OK(tess_pipeline_print_order(&s, 1, &order));
    EXPECT_TEXT(order.data, "FFBIWFIFIWW");
    EXPECT(tess_pipeline_splits_backward(&s));
    tess_buffer_free(&order);
    tess_pipeline_free(&s);
}

static void what_spreadsheets_write_is_read(void)
{
    static const char *const texts[] = {
        "\xef\xbb\xbf\"0F0\",\"0F1\",\"0B0\",\"0B1\"\r\n\"1F0\",\"1B0\",\"1F1\",\"1B1\"\r\n",
        "\n ,,\n0F0,0F1,0B0,0B1\n\"\",,\n\n1F0,1B0,1F1,1B1\n,,,\n\n",
        "\xef\xbb\xbf\n0F0 , 0F1, 0B0,0B1\n1F0,1B0,1F1,1B1",
    };
    const tess_pipeline_schedule shape = {.kind = TESS_PIPELINE_1F1B, .ranks = 2, .chunks = 1, .micros = 2};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tess_pipeline_schedule s;
        tess_buffer order = {.mem = test_mem()};
        EXPECT_OK(tess_pipeline_parse_csv(test_mem(), texts[i], strlen(texts[i]), "it", &shape, &s));
        EXPECT_OK(tess_pipeline_print_order(&s, 0, &order));
        EXPECT_OK(tess_pipeline_print_order(&s, 1, &order));
        EXPECT_TEXT(order.data, "FFBBFBFB");
        tess_buffer_free(&order);
        tess_pipeline_free(&s);
    }
}

static void orders_that_cannot_run_are_refused_with_their_cell(void)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"0F0,0F1,0B0,0B1\n", "it: there is no row for rank 1: a schedule of 2 ranks has 2 rows"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n0F0", "it has more rows than the 2 ranks"},
        {"0F0,F1\n", "it: row 1, cell 2 ('F1'): write a stage, one of F, B, I and W, and a micro-batch, as in 0F3"},
        {"0F0,0SEND_F0\n", "row 1, cell 2 ('0SEND_F0'): write a stage"},
        {"0F00000000\n", "cell 1 ('0F00000000'): write a stage"},
        {"0F0,2F0\n", "cell 2 ('2F0'): there are 2 stages"},
        {"0F0,1F0\n", "cell 2 ('1F0'): stage 1 belongs to rank 1 (1f1b), and this row is rank 0's"},
        {"0F0,0F1,0F2\n", "cell 3 ('0F2'): a step has 2 micro-batches a rank"},
        {"0F1,0F0,0B0,0B1\n", "row 1, cell 1 ('0F1'): micro-batches keep their order: 0 is the next one here"},
        {"0F0,0F1,0I0,0B1\n", "cell 4 ('0B1'): micro-batches keep their order: 0 is the next one here"},
        {"0F0,0F1,0B0\n", "row 1: stage 0 has 1 of 2 micro-batches in B or I"},
        {"0F0,0F1,0I0,0I1,0W0\n", "row 1: stage 0 has 1 of 2 micro-batches in B or W"},
        {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
         "it: deadlock: row 1, cell 2 ('0B0') waits for rank 1; row 2, cell 2 ('1F1') waits for rank 0"},
        {"\n0F0,,0I0,0W0,0F1,0I1,0W1\n\n1F0,1F1,1I0,1W0,1I1,1W1\n",
         "row 1, cell 3 ('0I0') waits for rank 1; row 2, cell 2"},
        {"0B0,0F0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "its input is missing: no F before it"},
    };
    const tess_pipeline_schedule shape = {.kind = TESS_PIPELINE_1F1B, .ranks = 2, .chunks = 1, .micros = 2};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tess_pipeline_schedule s;
        EXPECT_FAILS(tess_pipeline_parse_csv(test_mem(), wrong[i].text, strlen(wrong[i].text), "it", &shape, &s),
                     TESS_E_INVALID, wrong[i].message);
        EXPECT(s.lists == NULL);
    }
}

static const test_case cases[] = {
    CASE(every_schedule_is_read_back_as_it_was),
    CASE(other_orders_are_read_too),
    CASE(what_spreadsheets_write_is_read),
    CASE(orders_that_cannot_run_are_refused_with_their_cell),
};
TEST_MAIN(cases)
