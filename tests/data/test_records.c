/* Kinds of data files, and the records in them. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "data/files/text_kind.h"
#include "data/loader/blocks.h"
#include "support/test.h"

static void a_file_is_told_by_its_content(void)
{
    static const struct {
        const char *name, *text;
        tess_text_kind kind;
    } files[] = {
        {"a.txt", "The ship sailed.\n", TESS_TEXT_PLAIN},
        {"a", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", TESS_TEXT_LINES},
        {"a.txt", "\xef\xbb\xbf\n {\"te\\\"xt\" : \"a\"}", TESS_TEXT_LINES},
        {"a.txt", "[\n  {\"text\": \"a\"},\n", TESS_TEXT_ARRAY},
        {"a.txt", "[{}]", TESS_TEXT_ARRAY},
        {"a.txt", "[Verse 1]\n{x}\n", TESS_TEXT_PLAIN},
        {"a.txt", "{% if x %}", TESS_TEXT_PLAIN},
        {"a.txt", "{'text': 'a'}", TESS_TEXT_PLAIN},
        {"a.txt", "[\"a\", \"b\"]", TESS_TEXT_PLAIN},
        {"a.json", "[\"a\", \"b\"]", TESS_TEXT_ARRAY},
        {"a.ndjson", "not JSON", TESS_TEXT_LINES},
        {"a.jsonl.gz", "", TESS_TEXT_LINES},
        {"a.jsonl", "{\"text\": \"a\"\n{\"text\": \"b\"}\n", TESS_TEXT_LINES}, /* a damaged line */
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        tess_text_kind kind;
        EXPECT_OK(tess_text_kind_of(files[i].name, files[i].text, strlen(files[i].text), false, &kind));
        EXPECT_INT(kind, files[i].kind);
        EXPECT_OK(tess_text_kind_of(files[i].name, files[i].text, strlen(files[i].text), true, &kind));
        EXPECT_INT(kind, TESS_TEXT_PLAIN);
    }
}

static void what_is_not_text_is_refused_by_name(void)
{
#define FILE_OF(text, needle)          \
    {                                  \
        text, sizeof(text) - 1, needle \
    }
    static const struct {
        const char *text;
        size_t size;
        const char *needle;
    } files[] = {
        FILE_OF("PAR1\x15\x04",
                "d.x: a parquet file, not text: `python3 -c \"import datasets; datasets.Dataset.from_parquet"),
        FILE_OF("ARROW1\0\0", "an Arrow file"),
        FILE_OF("\xff\xff\xff\xff\x78\0\0\0", "datasets.Dataset.from_file('d.x')"),
        FILE_OF("\x93NUMPY\1\0", "numpy.load('d.x')"),
        FILE_OF("\x40\0\0\0\0\0\0\0{\"a\":{}}", "tessera ckpt inspect d.x"),
        FILE_OF("BZh91AY&SY", "bunzip2 -k d.x"),
        FILE_OF("\xfd"
                "7zXZ\0",
                "unxz -k d.x"),
        FILE_OF("\xff\xfet\0h\0e\0", "iconv -f UTF-16 -t UTF-8 d.x"),
        FILE_OF("caf\xe9 au lait", "d.x: at byte 3: byte 0xe9 is not UTF-8 text: `iconv"),
        FILE_OF("the\0ship", "d.x: at byte 3: byte 0x00"),
        FILE_OF("{\n \"text\": \"a\"\n}\n", "jq -c . d.x"),
    };
    tess_text_kind kind;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        tess_status status = tess_text_kind_of("d.x", files[i].text, files[i].size, false, &kind);
        EXPECT(status == TESS_E_UNSUPPORTED || status == TESS_E_FORMAT);
        EXPECT_CONTAINS(tess_error_message(), files[i].needle);
    }
}

static void records_of_an_array_are_its_objects(void)
{
    /* The last one ends with a bracket that does not fit; its parser will say so. */
    static const char text[] = "\xef\xbb\xbf [ {\"a\": \"}],[\\\"\"},\n{\"b\": [1, {\"c\": 2}]} , {}, {\"d\": 1\n] ]\n";
    static const char *const want[] = {"{\"a\": \"}],[\\\"\"}", "{\"b\": [1, {\"c\": 2}]}", "{}", "{\"d\": 1\n]"};
    enum { N = sizeof(want) / sizeof(want[0]) };
    tess_records records = tess_records_of(TESS_TEXT_ARRAY, text, sizeof(text) - 1);
    bool there = true;
    for (int i = 0; i <= N; i++) {
        EXPECT_OK(tess_records_next(&records, &there));
        EXPECT_INT(there, i < N);
        if (i == N)
            break;
        EXPECT_INT(records.length, strlen(want[i]));
        EXPECT_SAME(text + records.begin, want[i], records.length);
    }
    EXPECT_OK(tess_array_scan_end(&records.scan));
    static const char *const bad[] = {"[1]", "[{}{}]", "[{},]", "[{}] x", "[{\"a\": 1", "[{}, 5]"};
    for (int i = 0; i < 6; i++) {
        tess_status status = TESS_OK;
        records = tess_records_of(TESS_TEXT_ARRAY, bad[i], strlen(bad[i]));
        for (there = true; there && status == TESS_OK;)
            status = tess_records_next(&records, &there);
        EXPECT_FAILS(status, TESS_E_FORMAT, "JSON");
    }
}

/* An array of n objects, pretty-printed, some of them long. */
static void make_array(tess_buffer *text, int n)
{
    text->mem = test_mem();
    EXPECT_OK(tess_buffer_append(text, "[", 1));
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_buffer_printf(text, "%s\n  {\n    \"text\": \"%0*d\"\n  }", i > 0 ? "," : "",
                                     i % 50 == 7 ? 400000 : 100 + i % 300, i));
    EXPECT_OK(tess_buffer_append(text, "\n]\n", 3));
}

static void blocks_of_an_array_end_between_its_elements(void)
{
    static const double parts[][2] = {{0, 1}, {0, 0.6}, {0.6, 1}};
    tess_buffer array = {0}, text = {.mem = test_mem()};
    char path[512];
    const char *file = path;
    make_array(&array, 3000);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "array.json"));
    EXPECT_OK(tess_os_write_atomic(path, array.data, array.size));
    uint64_t total = 0;
    int n_records = 0;
    for (int p = 0; p < 3; p++) {
        tess_loader_options options = {.files = &file, .n_files = 1, .begin = parts[p][0], .end = parts[p][1]};
        tess_blocks blocks = {.mem = test_mem()};
        EXPECT_OK(tess_blocks_open(&blocks, NULL, &options));
        for (uint64_t i = 0; i < blocks.n_blocks; i++) {
            uint64_t offset;
            bool there = true;
            EXPECT_OK(tess_blocks_read(&blocks.files[0], i, &text, &offset));
            EXPECT_SAME(text.data, array.data + offset, text.size);
            total += text.size;
            tess_records records = tess_records_of(TESS_TEXT_ARRAY, text.data, text.size);
            while (EXPECT_OK(tess_records_next(&records, &there)), there)
                n_records++;
        }
        tess_blocks_close(&blocks);
    }
    EXPECT_INT(total, 2 * array.size);
    EXPECT_INT(n_records, 2 * 3000);
    tess_buffer_free(&array);
    tess_buffer_free(&text);
}

static const test_case cases[] = {
    CASE(a_file_is_told_by_its_content),
    CASE(what_is_not_text_is_refused_by_name),
    CASE(records_of_an_array_are_its_objects),
    CASE(blocks_of_an_array_end_between_its_elements),
};

TEST_MAIN(cases)
