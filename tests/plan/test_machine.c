/* Machine files are read as they stand, and bad ones are refused with what is missing. */
#include <stdio.h>
#include <string.h>

#include "plan/plan_machine.h"
#include "support/test.h"

static const char base[] = "machine:\n  name: small\n  devices: 2\ncompute:\n  bf16_tflops: 100\nmemory:\n  gb: 10\n"
                           "  gb_per_s: 1000\n";

static tess_status parse(const char *more, tess_machine *machine)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s%s", base, more);
    return tess_machine_parse(test_mem(), text, strlen(text), "small.yaml", machine);
}

static void every_machine_of_the_binary_has_a_source_for_each_figure(void)
{
    int n = 0;
    for (const char *name; (name = tess_machine_name(n)) != NULL; n++) {
        tess_machine m;
        EXPECT_OK(tess_machine_load(test_mem(), name, &m));
        EXPECT(m.compute.source[0] != '\0' && m.memory.source[0] != '\0' && m.cost.source[0] != '\0');
        for (int k = 0; k < TESS_LINKS; k++)
            EXPECT(m.links[k].gb_per_s == 0 || m.links[k].source[0] != '\0');
    }
    EXPECT_INT(n, 12);
}

static void a_machine_has_the_figures_of_its_data_sheet(void)
{
    tess_machine m;
    EXPECT_OK(tess_machine_load(test_mem(), "h100-hbm2e-96gb", &m));
    EXPECT(m.memory.gb == 102.05 && m.memory.gb_per_s == 2400 && m.cost.watts == 500);
    EXPECT(m.links[TESS_LINK_ROCE].gb_per_s == 50 && m.links[TESS_LINK_INFINIBAND].gb_per_s == 0);
    EXPECT(m.compute.fp8_tflops == 1978.9);
    EXPECT_OK(tess_machine_load(test_mem(), "h800-sxm", &m));
    EXPECT(m.links[TESS_LINK_NVLINK].gb_per_s == 200 && m.compute.bf16_tflops == 989.4);
}

static void the_fastest_link_that_connects_all_ranks_is_taken(void)
{
    tess_machine m;
    tess_link_kind kind;
    EXPECT_OK(tess_machine_load(test_mem(), "h100-sxm", &m));
    EXPECT_OK(tess_machine_link_of(&m, 0, 1, 8, 8, &kind));
    EXPECT_INT(kind, TESS_LINK_NVLINK);
    EXPECT_OK(tess_machine_link_of(&m, 0, 8, 4, 8, &kind));
    EXPECT_INT(kind, TESS_LINK_INFINIBAND);
    EXPECT_OK(tess_machine_load(test_mem(), "gb200", &m)); /* a rack is one NVLink domain over 18 hosts */
    EXPECT_OK(tess_machine_link_of(&m, 0, 1, 72, 4, &kind));
    EXPECT_INT(kind, TESS_LINK_NVLINK);
    EXPECT_OK(tess_machine_link_of(&m, 71, 1, 2, 4, &kind));
    EXPECT_INT(kind, TESS_LINK_INFINIBAND);
}

static void a_missing_link_is_named(void)
{
    tess_machine m;
    tess_link_kind kind;
    EXPECT_OK(parse("nvlink:\n  gb_per_s: 100\n", &m));
    EXPECT_OK(tess_machine_link_of(&m, 0, 1, 2, 2, &kind));
    EXPECT_FAILS(tess_machine_link_of(&m, 0, 2, 2, 2, &kind), TESS_E_INVALID, "infiniband, roce or ethernet");
    EXPECT_OK(parse("", &m));
    EXPECT_FAILS(tess_machine_link_of(&m, 0, 1, 2, 2, &kind), TESS_E_INVALID, "nvlink, shared_memory or pcie");
}

static void bad_files_name_line_and_key(void)
{
    tess_machine m;
    EXPECT_FAILS(parse("cost:\n  wats: 3\n", &m), TESS_E_INVALID, "small.yaml:10");
    EXPECT_FAILS(parse("cost:\n  watts: -3\n", &m), TESS_E_INVALID, "cost.watts");
    EXPECT_FAILS(parse("nvlink:\n  gb_per_s: 1\n  efficiency: 0\n", &m), TESS_E_INVALID, "nvlink.efficiency");
    EXPECT_FAILS(tess_machine_parse(test_mem(), "", 0, "empty.yaml", &m), TESS_E_INVALID, "machine.name");
    EXPECT_FAILS(tess_machine_load(test_mem(), "h100_sxn", &m), TESS_E_NOT_FOUND, "h100_sxm");
}

static const test_case cases[] = {
    CASE(every_machine_of_the_binary_has_a_source_for_each_figure),
    CASE(a_machine_has_the_figures_of_its_data_sheet),
    CASE(the_fastest_link_that_connects_all_ranks_is_taken),
    CASE(a_missing_link_is_named),
    CASE(bad_files_name_line_and_key),
};
TEST_MAIN(cases)
