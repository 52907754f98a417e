/* Preflight's report: for people on one screen, and as JSON. */
#include "support/test.h"

#include <jansson.h>

#include "doctor/probe/probe.h"

enum { HOSTS = 6 };

static char names[HOSTS][64] = {"a", "b", "c", "d", "e", "f"};
static tess_probe_findings hosts[HOSTS], job;

/* Six hosts: b to f have full disks, none has swap, and a rank has a slow core. */
static tess_probe_report make_report(void)
{
    for (int h = 0; h < HOSTS; h++) {
        hosts[h].n = 0;
        tess_probe_add(&hosts[h], TESS_PROBE_HOST, "swap", TESS_PROBE_OK, "none");
        tess_probe_add(&hosts[h], TESS_PROBE_GPU, "gpu", TESS_PROBE_ABSENT, "no NVIDIA GPU here");
        if (h > 0)
            tess_probe_add(&hosts[h], TESS_PROBE_HOST, "dump-space", TESS_PROBE_FAIL, "out: %d MiB are free", h);
    }
    tess_probe_add(&hosts[0], TESS_PROBE_CONFIG, "config", TESS_PROBE_OK, "16 rows");
    job.n = 0;
    tess_probe_add(&job, TESS_PROBE_RANKS, "gemm-speed", TESS_PROBE_WARN, "rank 3 on core 1 is slow");
    return (tess_probe_report){
        .n_ranks = 12, .n_hosts = HOSTS, .seconds = 2.25, .host_names = names, .hosts = hosts, .job = &job};
}

static void trouble_comes_first_and_once_for_all_hosts(void)
{
    tess_probe_report report = make_report();
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_probe_print(&report, 80, &text));
    EXPECT_TEXT(text.data, "not ready: 1 failed, 1 warning, 2 fine (12 ranks on 6 hosts, 2.2 s)\n"
                           "FAILED  dump-space      host b (and c, d, e, 1 more): out: 1 MiB are free\n"
                           "                        fix: free some, name another disk, or a smaller\n"
                           "                             checkpoint.keep_latest_k\n"
                           "warning gemm-speed      rank 3 on core 1 is slow\n"
                           "                        fix: see who runs on that core (top, then f, P); check\n"
                           "                             clock and heat; leave the core or the host out\n"
                           "host    swap: none\n"
                           "config  config: 16 rows\n"
                           "absent  gpu: no NVIDIA GPU here\n");
    tess_buffer_free(&text);
}

static const char *member(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL ? text : "(null)";
}

static void json_has_every_finding_of_every_host(void)
{
    tess_probe_report report = make_report();
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_probe_print(&report, 0, &text));
    json_t *root = json_loads(text.data, 0, NULL);
    EXPECT_TEXT(member(root, "format"), "tessera-preflight");
    EXPECT_TEXT(member(root, "verdict"), "fail");
    EXPECT_INT(json_integer_value(json_object_get(root, "version")), 1);
    const json_t *checks = json_object_get(root, "checks");
    EXPECT_INT(json_array_size(checks), 6 * 2 + 5 + 1 + 1);
    const json_t *last = json_array_get(checks, 18), *space = json_array_get(checks, 5);
    EXPECT_TEXT(member(last, "name"), "gemm-speed");
    EXPECT_TEXT(member(last, "host"), "(null)");
    EXPECT_TEXT(member(last, "group"), "ranks");
    EXPECT_TEXT(member(space, "name"), "dump-space");
    EXPECT_TEXT(member(space, "host"), "b");
    EXPECT_TEXT(member(space, "found"), "out: 1 MiB are free");
    EXPECT_TEXT(member(space, "threshold"), "fail below 64 MiB or a checkpoint, warn below 1 GiB or two");
    json_decref(root);
    tess_buffer_free(&text);
}

static void names_of_checks_are_unique_and_fit(void)
{
    tess_probe_check seen[128];
    int n_seen = 0;
    for (int group = 0; group < TESS_PROBE_GROUPS; group++) {
        for (int i = 0; tess_probe_check_at((tess_probe_group)group, i, &seen[n_seen]); i++) {
            const tess_probe_check *check = &seen[n_seen];
            EXPECT(check->looks_at[0] != '\0' && check->threshold[0] != '\0' && check->fix[0] != '\0');
            EXPECT(strlen(check->looks_at) < 127 && strlen(check->threshold) < 127 && strlen(check->fix) < 127);
            for (int k = 0; k < n_seen; k++)
                EXPECT(strcmp(seen[k].name, check->name) != 0);
            n_seen++;
        }
    }
    EXPECT(n_seen >= 45 && n_seen <= TESS_PROBE_MOST);
}

static const test_case cases[] = {
    CASE(trouble_comes_first_and_once_for_all_hosts),
    CASE(json_has_every_finding_of_every_host),
    CASE(names_of_checks_are_unique_and_fit),
};

TEST_MAIN(cases)
