/* Options of benches. */
#include "bench/bench_options.h"
#include "support/sizes.h"

static void sizes_have_units(void)
{
    static const char *const sections[] = {"common",  "kernels", "step",    "precision",
                                           "packing", "ckpt",    "offload", "comm"};
    tess_bench_options options = {0};
    int n = 0;
    EXPECT_OK(tess_bench_options_defaults(&options));
    EXPECT_INT(options.comm.max_bytes, 268435456);
    EXPECT_INT(options.offload.max_bytes, 2000000000);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        n += test_sizes_have_units(&(tess_option_table){tess_bench_options_section(sections[i]), 0}, 1, &options);
    EXPECT_INT(n, 3);
    EXPECT_OK(tess_bench_options_set(&options, "offload", "--max", "500"));
    EXPECT_INT(options.offload.max_bytes, 500000000);
    EXPECT_FAILS(tess_bench_options_set(&options, "offload", "--max", "2GiB"), TESS_E_INVALID,
                 "2GiB is outside 10000000 .. 2000000000 bytes");
    tess_bench_options_free(&options);
}

static const test_case cases[] = {CASE(sizes_have_units)};
TEST_MAIN(cases)
