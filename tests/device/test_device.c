/* The host as a device: what stands above devices may be written once, because all of this is immediate there. */
#include "support/test.h"

#include <stdlib.h>

#include "device/device.h"

static void the_host_is_a_device_whose_memory_is_the_pools(void)
{
    tess_device *d;
    EXPECT_OK(tess_device_open(test_mem(), "cpu", 0, &d));
    EXPECT(tess_device_get_properties(d)->host_memory);
    EXPECT_TEXT(tess_device_get_properties(d)->name, "cpu");
    float *x, *y, back[3];
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, 100, "x", (void **)&x));
    EXPECT_OK(tess_device_alloc_pinned(d, TESS_POOL_COMM, 12, "y", (void **)&y));
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, 100);
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 100);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes, 12);
    tess_stream *s;
    EXPECT_OK(tess_device_stream(d, 2, "ref", &s));
    EXPECT(tess_stream_device(s) == d && tess_stream_mem(s) == test_mem());
    y[0] = 1, y[1] = 2, y[2] = 3;
    EXPECT_OK(tess_upload(s, x, y, 12));
    EXPECT_OK(tess_stream_fill(s, x + 1, 0, 4));
    EXPECT_OK(tess_fetch(s, back, x, 12));
    EXPECT(back[0] == 1 && back[1] == 0 && back[2] == 3);
    EXPECT_OK(tess_stream_synchronize(s));
    tess_device_free(d, x);
    tess_device_free_pinned(d, y);
    tess_device_free(d, NULL);
    tess_stream_destroy(&s);
    EXPECT_INT(tess_device_close(&d), 0);
    EXPECT(d == NULL);
}

static void events_of_the_host_have_always_happened(void)
{
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &s));
    tess_event *e;
    bool done = false;
    EXPECT_OK(tess_event_create(tess_stream_device(s), &e));
    EXPECT_OK(tess_event_record(e, s));
    EXPECT_OK(tess_event_wait(e, s));
    EXPECT_OK(tess_event_query(e, &done));
    EXPECT(done);
    EXPECT_OK(tess_event_synchronize(e));
    tess_event_destroy(&e);
    EXPECT(e == NULL);
    tess_stream_destroy(&s);
}

static void bad_names_and_wishes_are_refused(void)
{
    tess_device *d;
    EXPECT_FAILS(tess_device_open(test_mem(), "gpu", 0, &d), TESS_E_INVALID,
                 "device 'gpu' is unknown: choose cpu, far");
    EXPECT_FAILS(tess_device_open(test_mem(), "cuda", 0, &d), TESS_E_UNSUPPORTED, "no plug-in for NVIDIA GPUs");
    EXPECT(d == NULL);
    EXPECT_INT(setenv("TESSERA_DEVICE", "tpu", 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), NULL, 0, &d), TESS_E_INVALID, "TESSERA_DEVICE 'tpu'");
    EXPECT_INT(unsetenv("TESSERA_DEVICE"), 0);
    EXPECT_OK(tess_device_open(test_mem(), NULL, 0, &d));
    tess_stream *s;
    EXPECT_FAILS(tess_device_stream(d, 0, "ref", &s), TESS_E_INVALID, "0 threads");
    tess_peer_handle handle;
    void *x;
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_MISC, 8, "x", &x));
    EXPECT_FAILS(tess_peer_export(d, x, &handle), TESS_E_UNSUPPORTED, "device cpu");
    tess_device_free(d, x);
    EXPECT_INT(tess_device_close(&d), 0);
}

static const test_case cases[] = {
    {.name = "the_host_is_a_device_whose_memory_is_the_pools", .run = the_host_is_a_device_whose_memory_is_the_pools},
    {.name = "events_of_the_host_have_always_happened", .run = events_of_the_host_have_always_happened},
    {.name = "bad_names_and_wishes_are_refused", .run = bad_names_and_wishes_are_refused},
};

TEST_MAIN(cases)
