/* Texts, JSON and YAML of base/text. */
#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/redact.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/name_index.h"
#include "base/text/text.h"

static void distances_count_edits(void)
{
    EXPECT_INT(tess_text_distance("", "abc"), 3);
    EXPECT_INT(tess_text_distance("kitten", "sitting"), 3);
    EXPECT_INT(tess_text_distance("setps", "steps"), 1);
    EXPECT_INT(tess_text_distance("seq_len", "seq_len"), 0);
}

static void utf8_is_strict(void)
{
    static const uint32_t points[] = {0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff};
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        uint8_t bytes[4];
        uint32_t back = 1;
        int n = tess_utf8_encode(points[i], bytes);
        EXPECT_INT(tess_utf8_decode(bytes, (size_t)n, &back), n);
        EXPECT_INT(back, points[i]);
        EXPECT_INT(tess_utf8_decode(bytes, (size_t)n - 1, &back), 0);
    }
    uint32_t c;
    EXPECT_INT(tess_utf8_decode((const uint8_t *)"\xc0\x80", 2, &c), 0);         /* overlong */
    EXPECT_INT(tess_utf8_decode((const uint8_t *)"\xe0\x80\x80", 3, &c), 0);     /* overlong */
    EXPECT_INT(tess_utf8_decode((const uint8_t *)"\xed\xa0\x80", 3, &c), 0);     /* surrogate */
    EXPECT_INT(tess_utf8_decode((const uint8_t *)"\xf4\x90\x80\x80", 4, &c), 0); /* past U+10FFFF */
    EXPECT_INT(tess_utf8_decode((const uint8_t *)"\x80", 1, &c), 0);
}

static void numbers_read_back_to_the_same_bits(void)
{
    static const double values[] = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789, -2.5};
    char text[40];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        EXPECT(strtod(tess_format_double(values[i], text, sizeof(text)), NULL) == values[i]);
        float f = (float)values[i];
        EXPECT(f - f != 0 || strtof(tess_format_float(f, text, sizeof(text)), NULL) == f);
    }
    EXPECT_TEXT(tess_format_double(0.1, text, sizeof(text)), "0.1");
}

static void atomic_writes_leave_the_old_file_when_they_fail(void)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    char path[512];
    tess_mapping file;
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "a/b"));
    EXPECT_FAILS(tess_os_write_atomic(path, "x", 1), TESS_E_NOT_FOUND, "a/b");
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "deep/er"));
    EXPECT_OK(tess_os_make_dirs(path));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "deep/er/f"));
    EXPECT_OK(tess_os_write_atomic(path, "old", 3));
    EXPECT_OK(tess_os_write_atomic(path, "newer", 5));
    EXPECT_OK(tess_os_map(path, &file));
    EXPECT_INT(file.size, 5);
    EXPECT(memcmp(file.data, "newer", 5) == 0);
    tess_os_unmap(&file);
    EXPECT_FAILS(tess_os_map(test_folder(), &file), TESS_E_INVALID, "not a regular file");
    EXPECT_FAILS(tess_os_map("/nowhere/x", &file), TESS_E_NOT_FOUND, "/nowhere/x");
    EXPECT_OK(tess_os_write_atomic(path, pointer, sizeof(pointer) - 1));
    EXPECT_FAILS(tess_os_map(path, &file), TESS_E_FORMAT, "git lfs pull");
    EXPECT_FAILS(tess_os_make_dirs(path), TESS_E_IO, "there is a file of that name");
}

static void json_errors_name_key_and_line(void)
{
    json_t *json;
    int64_t value = 5;
    EXPECT_FAILS(tess_json_parse("{\n\"a\": }", 8, "c.json", true, &json), TESS_E_FORMAT,
                 "c.json: not valid JSON: line 2");
    EXPECT_FAILS(tess_json_parse("{\"a\":1,\"a\":2}", 13, "c.json", true, &json), TESS_E_FORMAT, "duplicate");
    EXPECT_OK(tess_json_parse("{\"a\":\"x\",\"b\":null,\"c\":3e2}", 26, "c.json", true, &json));
    EXPECT_FAILS(tess_json_get_int(json, "a", "c.json", &value), TESS_E_FORMAT, "'a' is a string");
    EXPECT_OK(tess_json_get_int(json, "b", "c.json", &value));
    EXPECT_INT(value, 5);
    EXPECT_OK(tess_json_get_int(json, "c", "c.json", &value));
    EXPECT_INT(value, 300);
    json_decref(json);
}

static void records_are_read_as_python_reads_them(void)
{
    static const struct {
        const char *escaped, *text;
        size_t size;
    } strings[] = {{"a\\u0000b", "a\0b", 3},
                   {"\\ud83d", "\xef\xbf\xbd", 3},
                   {"\\ude00x", "\xef\xbf\xbdx", 4},
                   {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", 4},
                   {"\\ud83d\\uD83D\\uDE00", "\xef\xbf\xbd\xf0\x9f\x98\x80", 7},
                   {"\\\\ud83d", "\\ud83d", 6},
                   {"\\ud83d\\n", "\xef\xbf\xbd\n", 4},
                   {"\\ud83d\\u0041",
                    "\xef\xbf\xbd"
                    "A",
                    4}};
    json_t *json;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        char line[128];
        int n = snprintf(line, sizeof(line), "%s{\"a\": \"%s\"}", i % 2 == 0 ? "\xef\xbb\xbf" : "", strings[i].escaped);
        EXPECT_OK(tess_json_parse_record(line, (size_t)n, "record", &json));
        EXPECT_INT(json_string_length(json_object_get(json, "a")), strings[i].size);
        EXPECT_SAME(json_string_value(json_object_get(json, "a")), strings[i].text, strings[i].size);
        json_decref(json);
    }
    EXPECT_FAILS(tess_json_parse_record("{\"a\": \"\\ud8", 11, "record", &json), TESS_E_FORMAT, "not valid JSON");
    EXPECT_FAILS(tess_json_parse("{\"a\": \"\\ud83d\"}", 15, "t.json", true, &json), TESS_E_FORMAT, "not valid JSON");
    EXPECT_OK(tess_json_parse("\xef\xbb\xbf{}", 5, "t.json", true, &json));
    json_decref(json);
}

/* The first allocation that fails, counted down; malloc then sets errno. */
static int allocations_left;

static void *allocate_some(size_t size)
{
    if (allocations_left-- > 0)
        return malloc(size);
    errno = ENOMEM;
    return NULL;
}

static void memory_that_ends_is_no_word_on_the_text(void)
{
    static const char text[] =
        "{\"a\":[1,2.5,\"x\\u00e9\",true,null],\"b\":{\"c\":{},\"a long name, longer than a block\":1e3}}";
    json_t *json = NULL;
    tess_status status = TESS_E_NOMEM;
    int n = 0;
    json_set_alloc_funcs(allocate_some, free);
    for (; status != TESS_OK; n++) {
        allocations_left = n;
        status = tess_json_parse(text, sizeof(text) - 1, "c.json", true, &json);
        if (status != TESS_OK)
            EXPECT_FAILS(status, TESS_E_NOMEM, "c.json: no memory for");
    }
    EXPECT(n > 20);
    json_decref(json);
    allocations_left = 1000;
    EXPECT_FAILS(tess_json_parse("[1,", 3, "c.json", true, &json), TESS_E_FORMAT, "not valid JSON");
}

static void secrets_of_urls_become_stars(void)
{
    static const char *const cases[][2] = {
        {"http://host/path", "http://host/path"},
        {"http://name:hunter2@host:80/a@b?key=hunter2&c=d: refused", "http://***@host:80/a@b?***: refused"},
        {"see 'https://hunter2@host?hunter2', or http://x?k=hunter2.", "see 'https://***@host?***', or http://x?***."},
        {"http://a@h", "http://*@h"},
        {"http://host?", "http://host?"},
        {"reward.url=http://h/?hunter2#hunter2", "reward.url=http://h/?***"},
        {"a@b ://", "a@b ://"},
    };
    char text[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "%s", cases[i][0]);
        EXPECT_TEXT(tess_redact_urls(text), cases[i][1]);
        TESS_FAIL(TESS_E_IO, "%s", cases[i][0]);
        EXPECT_TEXT(tess_error_message(), cases[i][1]);
    }
    TESS_FAIL(TESS_E_IO, "inner");
    tess_fail_context(TESS_E_IO, "http://hunter2@host/");
    EXPECT_TEXT(tess_error_message(), "http://***@host/: inner");
    snprintf(text, sizeof(text), "key hunter2, hunter2!");
    tess_redact(text, "hunter2");
    EXPECT_TEXT(text, "key ***, ***!");
    tess_redact(text, "key");
    EXPECT_TEXT(text, "key ***, ***!"); /* too short to be one */
    /* Lines, and the places where a message cuts them. */
    static const char secret[] = "hunter2222\nshort\r\nline of two\nv\xc3\xa4gue word\n";
    static const char *const cut[][2] = {{"hunter2222, short", "***, short"},
                                         {"line of two | hunter2222", "*** | ***"},
                                         {"v??gue word!", "***!"},
                                         {"unter2222 and hunter2...", "*** and ***..."},
                                         {"it is hunter22", "it is ***"},
                                         {"hunter or 2222...", "hunter or 2222..."},
                                         {"r2222, hunte...", "r2222, hunte..."}};
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        snprintf(text, sizeof(text), "%s", cut[i][0]);
        tess_redact(text, secret);
        EXPECT_TEXT(text, cut[i][1]);
    }
}

static const char *dump(const char *text)
{
    static char dumped[400];
    json_t *json;
    EXPECT_OK(tess_json_parse(text, strlen(text), "big.json", true, &json));
    char *all = json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
    snprintf(dumped, sizeof(dumped), "%s", all);
    free(all);
    json_decref(json);
    return dumped;
}

/* transformers writes 10^30 where a tokenizer has no limit. The other numbers stay integers. */
static void integers_of_more_than_64_bits_are_doubles(void)
{
    json_t *json;
    EXPECT_TEXT(dump("{\"model_max_length\": 1000000000000000019884624838656, \"n\": 7}"),
                "{\"model_max_length\":1e30,\"n\":7}");
    EXPECT_TEXT(dump("[18446744073709551615,9223372036854775807,-9223372036854775808,-9223372036854775809]"),
                "[1.8446744073709552e19,9223372036854775807,-9223372036854775808,-9.2233720368547758e18]");
    EXPECT_TEXT(dump("{\"a\\\"99999999999999999999\": [99999999999999999999, \"99999999999999999999\", 1.5]}"),
                "{\"a\\\"99999999999999999999\":[1e20,\"99999999999999999999\",1.5]}");
    EXPECT_FAILS(tess_json_parse("[99999999999999999999", 21, "big.json", true, &json), TESS_E_FORMAT, "line 1");
    EXPECT_FAILS(tess_json_parse("[99999999999999999999,1e999]", 28, "big.json", true, &json), TESS_E_FORMAT,
                 "real number overflow");
    EXPECT_FAILS(tess_json_parse("99999999999999999999\"\\", 22, "big.json", true, &json), TESS_E_FORMAT, "big.json");
}

/* 3,001 names, of which every third is the one before it again, then a part of them removed and added in another order.
 */
static void names_are_found_by_their_first_number(void)
{
    enum { N = 3001, LEFT = 1234 };
    static char names[N][16];
    tess_mem *mem = NULL;
    tess_name_index index = {0};
    int first;
    EXPECT_OK(tess_mem_create(&mem));
    EXPECT_INT(tess_name_index_find(&index, "n0"), -1);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i % 3 == 2 ? i - 1 : i);
        EXPECT_OK(tess_name_index_add(&index, mem, names[i], &first));
        EXPECT_INT(first, i % 3 == 2 ? i - 1 : i);
    }
    tess_name_index_cut(&index, LEFT);
    for (int i = 0; i < N; i++)
        EXPECT_INT(tess_name_index_find(&index, names[i]), i >= LEFT ? -1 : i % 3 == 2 ? i - 1 : i);
    for (int i = N - 1; i >= LEFT; i--) /* now the later of two equal names comes first */
        EXPECT_OK(tess_name_index_add(&index, mem, names[i], &first));
    for (int i = LEFT; i < N; i++)
        EXPECT_INT(tess_name_index_find(&index, names[i]), LEFT + N - 1 - (i % 3 == 1 && i + 1 < N ? i + 1 : i));
    tess_name_index_free(&index, mem);
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static const test_case cases[] = {
    CASE(names_are_found_by_their_first_number),
    CASE(secrets_of_urls_become_stars),
    CASE(distances_count_edits),
    CASE(utf8_is_strict),
    CASE(numbers_read_back_to_the_same_bits),
    CASE(atomic_writes_leave_the_old_file_when_they_fail),
    CASE(json_errors_name_key_and_line),
    CASE(records_are_read_as_python_reads_them),
    CASE(integers_of_more_than_64_bits_are_doubles),
    CASE(memory_that_ends_is_no_word_on_the_text),
};
TEST_MAIN(cases)
