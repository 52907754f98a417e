/* Call sites as numbers and as text, and the list of their shared objects. */
#include "support/test.h"
#include "trace/call_site.h"
#include "trace/trace_objects.h"

static void a_number_says_where_and_in_what(void)
{
    char text[64];
    uint64_t site = tess_call_site_in_object(0x3fa21b, 0x1f30);
    EXPECT_INT(tess_call_site_object(site), 0x3fa21b);
    EXPECT_INT(tess_call_site_offset(site), 0x1f30);
    EXPECT_TEXT(tess_call_site_format(site, "libengine.so", text, sizeof(text)), "libengine.so+0x1f30");
    EXPECT_TEXT(tess_call_site_format(site, "", text, sizeof(text)), "object-3fa21b+0x1f30");
    EXPECT_INT(tess_call_site_object(0x1f30), 0);
    EXPECT_TEXT(tess_call_site_format(0x1f30, "", text, sizeof(text)), "program+0x1f30");
    site = tess_call_site_at_address(0x7f0000001f30);
    EXPECT_INT(tess_call_site_object(site), 0);
    EXPECT_INT(tess_call_site_offset(site), 0x7f0000001f30);
    EXPECT_TEXT(tess_call_site_format(site, "", text, sizeof(text)), "address 0x7f0000001f30");
}

static void objects_are_kept_once_each_while_there_is_room(void)
{
    static tess_trace_objects objects;
    char path[128];
    uint32_t id, n = 0;
    EXPECT_TEXT(tess_trace_objects_find(&objects, 1), "");
    for (uint32_t i = 1; i <= 100; i++) {
        snprintf(path, sizeof(path), "/opt/some where/lib%u.so", i);
        tess_trace_objects_add(&objects, i, path);
        path[5] = 'S'; /* the same object under another path */
        tess_trace_objects_add(&objects, i, path);
    }
    for (size_t at = 0; tess_trace_objects_next(&objects, &at, &id) != NULL; n++) {
        snprintf(path, sizeof(path), "/opt/some where/lib%u.so", n + 1);
        EXPECT_INT(id, n + 1);
        EXPECT_TEXT(tess_trace_objects_find(&objects, id), path);
    }
    EXPECT(n > 20 && n < 100);
    EXPECT_TEXT(tess_trace_objects_find(&objects, 100), "");
}

static void what_is_no_object_ends_the_list(void)
{
    static tess_trace_objects objects;
    size_t at = 0;
    uint32_t id;
    tess_trace_objects_add(&objects, 7, "/a.so");
    objects.n_bytes = 5; /* cut off */
    EXPECT(tess_trace_objects_next(&objects, &at, &id) == NULL);
    objects.n_bytes = UINT32_MAX;
    EXPECT(tess_trace_objects_next(&objects, &at, &id) == NULL);
    objects.n_bytes = 40;
    EXPECT_TEXT(tess_trace_objects_next(&objects, &at, &id), "/a.so");
    EXPECT(tess_trace_objects_next(&objects, &at, &id) == NULL);
}

static const test_case cases[] = {
    CASE(a_number_says_where_and_in_what),
    CASE(objects_are_kept_once_each_while_there_is_room),
    CASE(what_is_no_object_ends_the_list),
};
TEST_MAIN(cases)
