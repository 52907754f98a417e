/* Folders of traces: what is written, found again, and kept. */
#include <stdio.h>

#include "base/os/os.h"
#include "support/test.h"
#include "trace/trace_folder.h"
#include "trace/label.h"

static void labels_read_back(void)
{
    char text[32];
    EXPECT_TEXT(tess_label_text(tess_label("layer", 12), text, sizeof(text)), "layer 12");
    EXPECT_TEXT(tess_label_text(tess_label("replicas", -1), text, sizeof(text)), "replicas");
    EXPECT_TEXT(tess_label_text(tess_label("Embedding", 0), text, sizeof(text)), "embedding 0");
    EXPECT_TEXT(tess_label_text(tess_label("checkpoint", 3), text, sizeof(text)), "checkpoi~ 3");
    EXPECT_TEXT(tess_label_text(tess_label("~~~~~~~~~", TESS_LABEL_MOST), text, sizeof(text)), "~~~~~~~~~ 65534");
    EXPECT_TEXT(tess_label_text(tess_label("a-b_9", -1), text, sizeof(text)), "a-b_9");
    EXPECT_TEXT(tess_label_text(tess_label("a?b", TESS_LABEL_MOST), text, sizeof(text)), "a_b 65534");
    EXPECT_TEXT(tess_label_text(0, text, sizeof(text)), "");
    EXPECT(tess_label(NULL, 3) == 0 && tess_label("", 3) == 0);
    EXPECT(tess_label("layer", 1) != tess_label("layer", 2));
    EXPECT(tess_label("layer", 0) != tess_label("layer", -1));
    for (uint64_t i = 0; i < 64; i++) /* any bits decode to a text */
        EXPECT(tess_label_text(UINT64_C(0x9e3779b97f4a7c15) * i, text, sizeof(text)) == text);
}

static void names_of_rings_are_told_from_others(void)
{
    char path[64];
    int rank = -1;
    EXPECT_OK(tess_trace_ring_path("out/trace", 3, path, sizeof(path)));
    EXPECT_TEXT(path, "out/trace/rank-00003.ring");
    EXPECT(tess_trace_ring_name("rank-00003.ring", &rank));
    EXPECT_INT(rank, 3);
    EXPECT(!tess_trace_ring_name("rank-3.ring", &rank));
    EXPECT(!tess_trace_ring_name("rank-00003.ring.part", &rank));
    EXPECT(!tess_trace_ring_name("rank-000030000.ring", &rank));
    EXPECT(!tess_trace_ring_name("job.json", &rank));
    EXPECT_OK(tess_trace_job_path("out/trace", 0, path, sizeof(path)));
    EXPECT_TEXT(path, "out/trace/job.json");
    EXPECT(tess_trace_job_name("job.json", &rank));
    EXPECT_INT(rank, 0);
    EXPECT_OK(tess_trace_job_path("out/trace", 7, path, sizeof(path)));
    EXPECT_TEXT(path, "out/trace/job-00007.json");
    EXPECT(tess_trace_job_name("job-00007.json", &rank));
    EXPECT_INT(rank, 7);
    EXPECT(!tess_trace_job_name("job-00007.json.part", &rank));
}

static void what_an_earlier_job_left_is_put_away(void)
{
    char folder[512], previous[520], path[600];
    EXPECT_OK(tess_os_join(folder, sizeof(folder), test_folder(), "trace"));
    snprintf(previous, sizeof(previous), "%s.previous", folder);
    EXPECT_OK(tess_trace_folder_begin(folder)); /* a new folder */
    EXPECT(tess_os_is_dir(folder));
    EXPECT_OK(tess_trace_folder_begin(folder)); /* an empty folder is used */
    EXPECT(!tess_os_is_dir(previous));
    for (int job = 0; job < 2; job++) {
        EXPECT_OK(tess_trace_ring_path(folder, job, path, sizeof(path)));
        EXPECT_OK(tess_os_write_atomic(path, "x", 1));
        EXPECT_OK(tess_trace_folder_begin(folder));
        EXPECT(!tess_os_is_file(path));
        EXPECT_OK(tess_trace_ring_path(previous, job, path, sizeof(path)));
        EXPECT(tess_os_is_file(path));
    }
    EXPECT_OK(tess_trace_ring_path(previous, 0, path, sizeof(path)));
    EXPECT(!tess_os_is_file(path)); /* only one previous folder stays */
}

static void a_folder_may_end_in_slashes(void)
{
    char folder[512], path[600];
    snprintf(folder, sizeof(folder), "%s/trace//", test_folder());
    EXPECT_OK(tess_trace_folder_begin(folder));
    EXPECT_OK(tess_trace_ring_path(folder, 0, path, sizeof(path)));
    EXPECT_OK(tess_os_write_atomic(path, "x", 1));
    EXPECT_OK(tess_trace_folder_begin(folder));
    EXPECT(!tess_os_is_file(path));
    snprintf(path, sizeof(path), "%s/trace.previous/rank-00000.ring", test_folder());
    EXPECT(tess_os_is_file(path));
}

static const test_case cases[] = {
    CASE(labels_read_back),
    CASE(names_of_rings_are_told_from_others),
    CASE(what_an_earlier_job_left_is_put_away),
    CASE(a_folder_may_end_in_slashes),
};
TEST_MAIN(cases)
