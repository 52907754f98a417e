/* Reading: every case of the reference reader's own tests, then hostile and broken files. */
#include "ckpt/safetensors/safetensors.h"

#include <math.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "ckpt/formats/formats.h"
#include "files.h"
#include "rows.h"

/* A file in memory: the length of `json`, `json`, then n zero bytes (or `data`). */
typedef struct blob {
    uint8_t bytes[8192];
    size_t size;
} blob;

static void make_blob(blob *b, const char *json, const void *data, size_t n)
{
    size_t length = strlen(json);
    memset(b, 0, sizeof(*b));
    for (int i = 0; i < 8; i++)
        b->bytes[i] = (uint8_t)(length >> 8 * i);
    memcpy(b->bytes + 8, json, length);
    if (data != NULL)
        memcpy(b->bytes + 8 + length, data, n);
    b->size = 8 + length + n;
}

static blob opened; /* by open_json */

static tess_status open_json(const char *json, size_t n_data, tess_st_header *header)
{
    make_blob(&opened, json, NULL, n_data);
    return tess_st_header_parse(test_mem(), "x.safetensors", opened.bytes, opened.size, header);
}

static const tess_st_tensor *find(const tess_st_header *header, const char *name)
{
    for (int i = 0; i < header->n_tensors; i++)
        if (strcmp(header->tensors[i].name, name) == 0)
            return &header->tensors[i];
    return NULL;
}

static void put(const char *name, const void *data, size_t size)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, data, size));
}

static tess_catalog *open_blob(const blob *b)
{
    tess_catalog *c;
    put("model.safetensors", b->bytes, b->size);
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), test_folder(), &c));
    return c;
}

static tess_status read_rows(const tess_catalog *c, const char *name, int64_t begin, int64_t n, float *out)
{
    const tess_catalog_tensor *t = tess_catalog_find(c, name);
    tess_box rows = tensor_rows(t, begin, n);
    return tess_catalog_read_floats(c, t, &rows, out);
}

static uint8_t byte_of(const tess_catalog *c, const char *name)
{
    uint8_t bytes[16];
    const tess_catalog_tensor *t = tess_catalog_find(c, name);
    tess_box whole = tess_catalog_whole(t);
    EXPECT_OK(tess_catalog_read(c, t, &whole, bytes));
    return bytes[0];
}

static void expect_refused(const char *json, size_t n_data, const char *needle)
{
    tess_st_header header;
    EXPECT_FAILS(open_json(json, n_data, &header), TESS_E_FORMAT, needle);
    EXPECT(header.json == NULL && header.tensors == NULL);
    EXPECT_CONTAINS(tess_error_message(), "x.safetensors");
}

#define GOOD "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}"

static void a_valid_file_is_read(void)
{
    tess_st_header header;
    EXPECT_OK(open_json(GOOD, 16, &header));
    EXPECT_INT(header.n_tensors, 1);
    const tess_st_tensor *t = find(&header, "test");
    EXPECT(t != NULL && t == &header.tensors[0]);
    EXPECT_TEXT(t->dtype_text, "I32");
    EXPECT_INT(t->n_dims, 2);
    EXPECT_INT(t->dim[0] * 10 + t->dim[1], 22);
    EXPECT_INT(t->bytes, 16);
    EXPECT(find(&header, "tes") == NULL && find(&header, "test2") == NULL);
    EXPECT_INT(t->offset, 8 + strlen(GOOD));
    EXPECT(tess_st_metadata(&header, "format") == NULL);
    float out[4];
    tess_catalog *c = open_blob(&opened);
    EXPECT_FAILS(read_rows(c, "test", 0, 2, out), TESS_E_UNSUPPORTED, "I32");
    tess_catalog_destroy(&c);
    tess_st_header_free(&header);
    EXPECT(header.json == NULL);
}

static void empty_shapes_and_zero_sizes_are_legal(void)
{
    tess_st_header header;
    float out[1] = {7};
    tess_catalog *c;
    EXPECT_OK(open_json("{\"test\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, &header));
    EXPECT_INT(find(&header, "test")->n_dims, 0);
    c = open_blob(&opened);
    EXPECT_OK(read_rows(c, "test", 0, 1, out));
    EXPECT(out[0] == 0);
    tess_catalog_destroy(&c);
    tess_st_header_free(&header);
    EXPECT_OK(open_json("{\"test\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[0, 0]}}", 0, &header));
    EXPECT_INT(find(&header, "test")->bytes, 0);
    c = open_blob(&opened);
    EXPECT_OK(read_rows(c, "test", 0, 2, out));
    tess_catalog_destroy(&c);
    tess_st_header_free(&header);
    /* no rows, and the product of the others alone would overflow */
    EXPECT_OK(open_json("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,4],\"data_offsets\":[0,0]},"
                        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                        "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}",
                        3, &header));
    tess_st_header_free(&header);
    EXPECT_OK(open_json("{}", 0, &header));
    EXPECT_INT(header.n_tensors, 0);
    EXPECT(find(&header, "") == NULL);
    tess_st_header_free(&header);
}

static void white_space_around_the_header_is_legal(void)
{
    tess_st_header header;
    EXPECT_OK(open_json("{}\r \t\n", 0, &header));
    tess_st_header_free(&header);
    EXPECT_OK(open_json("\t\n{}\r ", 0, &header));
    tess_st_header_free(&header);
    EXPECT_OK(open_json(" { \"a\" : { \"shape\" : [ 1 , 2 ] , \"data_offsets\" : [ 0 , 2 ] , \"dtype\" : \"U8\" } } ",
                        2, &header));
    tess_st_header_free(&header);
    expect_refused("{}x", 0, "InvalidHeaderDeserialization");
    expect_refused("{}{}", 0, "InvalidHeaderDeserialization");
}

static void lying_sizes_are_refused(void)
{
    blob b;
    tess_st_header header;
    make_blob(&b, GOOD, NULL, 16);
#define OPEN(size) tess_st_header_parse(test_mem(), "x.safetensors", b.bytes, (size), &header)
    EXPECT_FAILS(OPEN(0), TESS_E_FORMAT, "HeaderTooSmall");
    EXPECT_FAILS(OPEN(7), TESS_E_FORMAT, "HeaderTooSmall");
    EXPECT_FAILS(OPEN(8), TESS_E_FORMAT, "InvalidHeaderLength");
    EXPECT_FAILS(OPEN(b.size - 16 - 1), TESS_E_FORMAT, "InvalidHeaderLength");
    EXPECT_FAILS(OPEN(b.size - 2), TESS_E_FORMAT, "only 14 are there");
    EXPECT_FAILS(OPEN(b.size - 16), TESS_E_FORMAT, "MetadataIncompleteBuffer");
    EXPECT_FAILS(OPEN(b.size + 34), TESS_E_FORMAT, "34 bytes follow the last tensor");
    EXPECT_OK(OPEN(b.size));
    tess_st_header_free(&header);
    memset(b.bytes + 5, 0xff, 3);
    EXPECT_FAILS(OPEN(b.size), TESS_E_FORMAT, "HeaderTooLarge");
    memset(b.bytes, 0xff, 8);
    EXPECT_FAILS(OPEN(b.size), TESS_E_FORMAT, "HeaderTooLarge");
    memcpy(b.bytes, "\x00\xe1\xf5\x05\0\0\0\0", 8); /* 100,000,000: allowed, but longer than the file */
    EXPECT_FAILS(OPEN(b.size), TESS_E_FORMAT, "InvalidHeaderLength");
    memcpy(b.bytes, "\x01\xe1\xf5\x05\0\0\0\0", 8);
    EXPECT_FAILS(OPEN(b.size), TESS_E_FORMAT, "HeaderTooLarge");
    memcpy(b.bytes, "\0\0\0\0\0\0\0\0", 8);
    EXPECT_FAILS(OPEN(8), TESS_E_FORMAT, "InvalidHeaderDeserialization");
#undef OPEN
}

static void a_header_that_is_not_utf8_is_refused(void)
{
    expect_refused("\xff", 0, "InvalidHeader)");
    expect_refused("{\"\xc0\xaf\":1}", 0, "InvalidHeader)");             /* overlong */
    expect_refused("{\"\xed\xa0\x80\":1}", 0, "InvalidHeader)");         /* surrogate */
    expect_refused("{\"a\":\"\xf4\x90\x80\x80\"}", 0, "InvalidHeader)"); /* beyond U+10FFFF */
    expect_refused("{\"a\xe2\x82", 0, "InvalidHeader)");                 /* cut */
}

static void json_errors_are_refused(void)
{
    static const char *const bad[] = {
        "{",
        "",
        "[]",
        "null",
        "1",
        "\"a\"",
        "{\"a\"}",
        "{\"a\":}",
        "{,}",
        "{\"a\":1}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{'a':{}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[+1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1e0],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":\"1\",\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":null,\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}}",
        "{\"a\":{\"dtype\":\"U9\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"u8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\x41\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\ud800\\u0041\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\udc00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\u00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\",
        "{\"\\u",
        "{\"\\u12",
        "{\"\\ud800\\",
        "{\"\\ud800\\u",
        "{\"a\":{\"x\":tru,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"x\":1.,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"x\":-,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"x\":1e,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"x\":[1 2],\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"x\":{1:2},\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{\"a\":null}}",
        "{\"__metadata__\":{},\"__metadata__\":{}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
        "offsets\":"
        "[1,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],"
        "\"data_"
        "offsets\":[1,1]}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i], 1, "InvalidHeaderDeserialization");
    expect_refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "duplicate object key near '\"a\"'");
}

static void unknown_fields_are_skipped_to_a_depth(void)
{
    tess_st_header header;
    EXPECT_OK(open_json(
        "{\"a\":{\"x\":[1,-2.5e+3,{\"y\":[],\"z\":{}},\"s\\n\",true,false,null],\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[0,1]}}",
        1, &header));
    tess_st_header_free(&header);
    char deep[4096] = "{\"a\":{\"x\":";
    for (int i = 0; i < 4000; i++)
        strcat(deep, "[");
    expect_refused(deep, 0, "maximum parsing depth");
}

static void names_are_decoded_and_found(void)
{
    tess_st_header header;
    EXPECT_OK(open_json("{\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\\\"\":\"\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\"},"
                        "\"\xc3\xa9.\\\"q\\\\\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                        2, &header));
    EXPECT(find(&header, "\xc3\xa9.\"q\\") != NULL);
    EXPECT_TEXT(find(&header, "")->dtype_text, "BOOL");
    EXPECT_TEXT(tess_st_metadata(&header, "format"), "pt");
    EXPECT_TEXT(tess_st_metadata(&header, "\xc3\xa9\""), "\xf0\x9f\x98\x80/\b\f\n\r\t");
    EXPECT(tess_st_metadata(&header, "dtype") == NULL);
    tess_st_header_free(&header);
    EXPECT_OK(open_json("{\"__metadata__\":null}", 0, &header));
    tess_st_header_free(&header);
}

static void offsets_leave_no_hole_and_no_overlap(void)
{
#define TWO(a, b, c, d)                                                         \
    "{\"p\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #a "," #b "]}," \
    "\"q\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #c "," #d "]}}"
    tess_st_header header;
    EXPECT_OK(open_json(TWO(4, 8, 0, 4), 8, &header)); /* any order in the header */
    EXPECT_TEXT(header.tensors[0].name, "q");
    tess_st_header_free(&header);
    expect_refused(TWO(0, 4, 5, 9), 9, "'q': data_offsets [5, 9] leave a hole");
    expect_refused(TWO(0, 4, 3, 7), 7, "'q': data_offsets [3, 7] overlap");
    expect_refused(TWO(0, 4, 0, 4), 4, "InvalidOffset");
    expect_refused(TWO(1, 5, 5, 9), 9, "'p': data_offsets [1, 5] leave a hole");
    expect_refused(TWO(0, 4, 4, 3), 8, "end before they begin");
    expect_refused(TWO(0, 4, 4, 9223372036854775807), 8, "TensorInvalidInfo");
    expect_refused(TWO(0, 4, 4, 18446744073709551615), 8, "InvalidHeaderDeserialization");
    char attack[2048] = "{"; /* ten names for the same bytes: a zip bomb of a model */
    for (int i = 0; i < 10; i++)
        sprintf(attack + strlen(attack), "%s\"weight_%d\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}",
                i ? "," : "", i);
    strcat(attack, "}");
    expect_refused(attack, 16, "InvalidOffset");
}

static void shapes_agree_with_their_bytes(void)
{
    expect_refused("{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0, 4]}}", 0,
                   "'test': shape and dtype I32 need 16 bytes but data_offsets span 4 (TensorInvalidInfo)");
    expect_refused("{\"test\":{\"dtype\":\"I32\",\"shape\":[2,18446744073709551614],\"data_offsets\":[0,16]}}", 16,
                   "InvalidHeaderDeserialization");
    expect_refused("{\"test\":{\"dtype\":\"I32\",\"shape\":[2,9223372036854775807],\"data_offsets\":[0,16]}}", 16,
                   "ValidationOverflow");
    expect_refused("{\"test\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551614],\"data_offsets\":[0,0]}}", 0,
                   "InvalidHeaderDeserialization");
    expect_refused("{\"test\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "MisalignedSlice");
    tess_st_header header;
    EXPECT_FAILS(
        open_json("{\"t\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, &header),
        TESS_E_UNSUPPORTED, "more than 8 dimensions");
}

static void every_dtype_of_the_format_is_listed(void)
{
    static const struct {
        const char *text;
        int bits;
    } dtypes[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
                  {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
                  {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
                  {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        char json[256];
        float out[12];
        tess_st_header header;
        int bytes = dtypes[i].bits * 12 / 8;
        sprintf(json, "{\"t\":{\"dtype\":\"%s\",\"shape\":[3,4],\"data_offsets\":[0,%d]}}", dtypes[i].text, bytes);
        EXPECT_OK(open_json(json, (size_t)bytes, &header));
        EXPECT_TEXT(find(&header, "t")->dtype_text, dtypes[i].text);
        const char *t = dtypes[i].text;
        bool number = !strcmp(t, "F16") || !strcmp(t, "BF16") || !strcmp(t, "F32") || !strcmp(t, "F64");
        tess_st_header_free(&header);
        if (dtypes[i].bits % 8 != 0) {
            tess_catalog *none;
            put("t.safetensors", opened.bytes, opened.size);
            EXPECT_FAILS(tess_catalog_open_safetensors(test_mem(), path_in(test_folder(), "t.safetensors"), &none),
                         TESS_E_UNSUPPORTED, t);
            continue;
        }
        tess_catalog *c = open_blob(&opened);
        EXPECT_INT(read_rows(c, "t", 0, 3, out), number ? TESS_OK : TESS_E_UNSUPPORTED);
        tess_catalog_destroy(&c);
    }
}

/* Opens one tensor "t" of shape [rows, n / rows] at an odd address and reads rows of it. */
static void read_as(const char *dtype, const void *data, int n, int element, int rows, int begin, int count, float *out)
{
    static blob b;
    char json[256];
    sprintf(json, "{\"t\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", dtype, rows, n / rows,
            n * element);
    if (strlen(json) % 2 == 0)
        strcat(json, " ");
    make_blob(&b, json, data, (size_t)(n * element));
    tess_catalog *c = open_blob(&b);
    EXPECT_OK(read_rows(c, "t", begin, count, out));
    EXPECT_FAILS(read_rows(c, "t", begin, rows - begin + 1, out), TESS_E_INVALID, "has no elements");
    EXPECT_FAILS(read_rows(c, "t", -1, 1, out), TESS_E_INVALID, "'t'");
    tess_catalog_destroy(&c);
}

static void rows_of_every_float_dtype_are_read(void)
{
    float got[21], f32[21];
    double f64[21];
    uint16_t bf16[21];
    for (int i = 0; i < 21; i++) {
        f32[i] = (float)(i - 10) * 0.3f;
        f64[i] = (i - 10) * 0.1;
        bf16[i] = (uint16_t)(0x3f00 + i * 7);
    }
    f32[4] = NAN;
    f32[5] = -INFINITY;
    read_as("F32", f32, 21, 4, 7, 1, 5, got);
    EXPECT_SAME(got, f32 + 3, 15);
    read_as("F64", f64, 21, 8, 7, 2, 4, got);
    for (int i = 0; i < 12; i++)
        EXPECT(got[i] == (float)f64[6 + i]);
    read_as("BF16", bf16, 21, 2, 7, 6, 1, got);
    for (int i = 0; i < 3; i++) {
        uint32_t u = (uint32_t)bf16[18 + i] << 16;
        EXPECT_SAME(&got[i], (float *)&u, 1);
    }
}

static double value_of_half(unsigned h)
{
    unsigned exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 0    ? ldexp(fraction, -24)
                       : exponent == 31 ? (fraction ? NAN : INFINITY)
                                        : ldexp(1024 + fraction, (int)exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void all_halves_are_read_and_written_exactly(void)
{
    static uint16_t halves[1024], back[1024];
    static float values[1024];
    for (unsigned block = 0; block < 64; block++) {
        for (unsigned i = 0; i < 1024; i++)
            halves[i] = (uint16_t)(block * 1024 + i);
        read_as("F16", halves, 1024, 2, 4, 0, 4, values);
        EXPECT_OK(tess_st_encode(values, 1024, TESS_F16, back));
        for (int i = 0; i < 1024; i++) {
            double want = value_of_half(halves[i]);
            if (isnan(want)) {
                EXPECT(isnan(values[i]) && (back[i] & 0x7c00) == 0x7c00 && (back[i] & 0x3ff) != 0);
                continue;
            }
            if (values[i] != want || !signbit(values[i]) != !signbit(want))
                test_fail(__FILE__, __LINE__, "half 0x%04x is %g, expected %g", halves[i], values[i], want);
            EXPECT_INT(back[i], halves[i]);
        }
    }
}

static void encoding_rounds_to_nearest_even(void)
{
    static const struct {
        float x;
        unsigned f16, bf16;
    } cases[] = {{1.0f, 0x3c00, 0x3f80},
                 {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
                 {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
                 {1.0f + 0x1.01p-11f, 0x3c01, 0x3f80},
                 {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
                 {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
                 {65504, 0x7bff, 0x4780},
                 {65519.996f, 0x7bff, 0x4780},
                 {65520, 0x7c00, 0x4780},
                 {1e30f, 0x7c00, 0x714a},
                 {-INFINITY, 0xfc00, 0xff80},
                 {0x1p-25f, 0x0000, 0x3300},
                 {0x1.8p-25f, 0x0001, 0x3340},
                 {0x1p-24f, 0x0001, 0x3380},
                 {0x3p-25f, 0x0002, 0x33c0},
                 {0x1.ffbp-15f, 0x03ff, 0x3880},
                 {0x1.ffcp-15f, 0x0400, 0x3880},
                 {-0.0f, 0x8000, 0x8000},
                 {3.4e38f, 0x7c00, 0x7f80},
                 {1e-45f, 0x0000, 0x0000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint16_t out;
        EXPECT_OK(tess_st_encode(&cases[i].x, 1, TESS_F16, &out));
        if (out != cases[i].f16)
            test_fail(__FILE__, __LINE__, "%a as F16 is 0x%04x, expected 0x%04x", cases[i].x, out, cases[i].f16);
        EXPECT_OK(tess_st_encode(&cases[i].x, 1, TESS_BF16, &out));
        if (out != cases[i].bf16)
            test_fail(__FILE__, __LINE__, "%a as BF16 is 0x%04x, expected 0x%04x", cases[i].x, out, cases[i].bf16);
    }
    uint32_t nan_bits = 0x7f800001;
    float nan, f32;
    uint16_t out;
    memcpy(&nan, &nan_bits, 4);
    EXPECT_OK(tess_st_encode(&nan, 1, TESS_BF16, &out));
    EXPECT((out & 0x7f80) == 0x7f80 && (out & 0x7f) != 0);
    EXPECT_OK(tess_st_encode(&nan, 1, TESS_F32, &f32));
    EXPECT_SAME(&f32, &nan, 1);
    EXPECT_FAILS(tess_st_encode(&nan, 1, TESS_I32, &out), TESS_E_UNSUPPORTED, "float32");
}

static void many_names_are_found_quickly(void)
{
    enum { N = 20000 };
    size_t capacity = N * 96, size = 0;
    uint8_t *data = calloc(1, capacity + N);
    char *json = (char *)data + 8;
    tess_st_header header;
    size += (size_t)sprintf(json, "{");
    for (int i = 0; i < N; i++)
        size +=
            (size_t)sprintf(json + size, "%s\"layers.%d.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                            i ? "," : "", i, i, i + 1);
    size += (size_t)sprintf(json + size, "}");
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)(size >> 8 * i);
    for (int i = 0; i < N; i++)
        json[size + (size_t)i] = (char)(i % 251);
    tess_catalog *c;
    put("model.safetensors", data, 8 + size + N);
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), test_folder(), &c));
    for (int i = 0; i < N; i += 7) {
        char name[32];
        sprintf(name, "layers.%d.w", i);
        EXPECT_INT(byte_of(c, name), i % 251);
    }
    tess_catalog_destroy(&c);
    /* Every cut of a valid file is refused. */
    for (size_t cut = 0; cut < 8 + size + N; cut += 9973)
        EXPECT_FAILS(tess_st_header_parse(test_mem(), "x", data, cut, &header), TESS_E_FORMAT, NULL);
    free(data);
}

/* ---- Files and models ---- */
static tess_status open_folder(const char *path, tess_catalog **c)
{
    return tess_catalog_open_safetensors(test_mem(), path, c);
}

static void put_blob(const char *name, const char *json, const void *data, size_t n)
{
    static blob b;
    make_blob(&b, json, data, n);
    put(name, b.bytes, b.size);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void files_are_mapped_and_missing_ones_named(void)
{
    char path[512];
    tess_catalog *c;
    const void *data;
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "model.safetensors"));
    for (size_t spaces = 0; spaces < 8; spaces++) { /* elements are mapped when they are aligned */
        char json[128];
        snprintf(json, sizeof(json), "%s%.*s", GOOD, (int)spaces, "        ");
        put_blob("model.safetensors", json, "0123456789abcdef", 16);
        EXPECT_OK(open_folder(path, &c));
        EXPECT_OK(tess_catalog_map(c, tess_catalog_find(c, "test"), &data));
        EXPECT((data != NULL) == (strlen(json) % 4 == 0));
        if (data != NULL)
            EXPECT_SAME((const char *)data, "0123456789abcdef", 16);
        EXPECT_TEXT(tess_catalog_file_of(c, tess_catalog_find(c, "test")), path);
        tess_catalog_destroy(&c);
    }
    EXPECT_OK(open_folder(test_folder(), &c));
    EXPECT_INT(c->n_tensors, 1);
    tess_catalog_destroy(&c);
    tess_catalog_destroy(&c);
    strcat(path, "x");
    EXPECT_FAILS(open_folder(path, &c), TESS_E_NOT_FOUND, path);
    put_text("empty.safetensors", "");
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "empty.safetensors"));
    EXPECT_FAILS(open_folder(path, &c), TESS_E_FORMAT, "HeaderTooSmall");
}

static void a_folder_without_weights_says_what_is_missing(void)
{
    tess_catalog *c;
    EXPECT_FAILS(open_folder(test_folder(), &c), TESS_E_NOT_FOUND, "model.safetensors.index.json");
    put_text("pytorch_model.bin", "x"); /* weights of another format */
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &c), TESS_E_FORMAT, "pytorch_model.bin");
}

static void put_shards(void)
{
    put_blob("m-1.safetensors",
             "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
             "\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
             "BbX", 3);
    put_blob("m-2.safetensors", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "A", 1);
}

static void sharded_models_are_read_by_their_index(void)
{
    tess_catalog *c;
    put_shards();
    put_text("model.safetensors.index.json",
             "{\"metadata\":{\"total_size\":3},\"weight_map\":{\"a\":\"m-2.safetensors\","
             "\"b\":\"m-1.safetensors\"}}");
    EXPECT_OK(open_folder(test_folder(), &c));
    EXPECT_INT(c->n_tensors, 2);
    const tess_catalog_tensor **in_files;
    EXPECT_OK(tess_catalog_tensors_in_files(c, &in_files));
    EXPECT_TEXT(in_files[0]->name, "b");
    tess_mem_free(test_mem(), in_files);
    EXPECT_INT(byte_of(c, "a"), 'A');
    EXPECT_CONTAINS(tess_catalog_file_of(c, tess_catalog_find(c, "b")), "m-1.safetensors");
    EXPECT(tess_catalog_find(c, "extra") == NULL);
    tess_catalog_destroy(&c);
}

static void bad_indexes_are_refused(void)
{
    static const struct {
        const char *json, *needle;
        tess_status status;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"../m-2.safetensors\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"sub/m-2.safetensors\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"..\\\\m\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"..\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"\"}}", "is refused", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":7}}", "name of a file expected", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"m-3.safetensors\"}}", "m-3.safetensors", TESS_E_NOT_FOUND},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\"}}", "'a' should be in m-1.safetensors", TESS_E_FORMAT},
        {"{\"weight_map\":{\"c\":\"m-1.safetensors\"}}", "'c' should be in", TESS_E_FORMAT},
        {"{\"weight_map\":[]}", "no object 'weight_map'", TESS_E_FORMAT},
        {"{}", "no object 'weight_map'", TESS_E_FORMAT},
        {"[1]", "no object 'weight_map'", TESS_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\"}}", "index.json", TESS_E_FORMAT},
        {"{", "index.json", TESS_E_FORMAT},
        {"", "index.json", TESS_E_FORMAT},
    };
    put_shards();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_catalog *c;
        put_text("model.safetensors.index.json", cases[i].json);
        EXPECT_FAILS(open_folder(test_folder(), &c), cases[i].status, cases[i].needle);
        EXPECT(c == NULL);
    }
}

/* Puts (2, 3, 1, 16) blocks and their scales in two shards. `shape` is that of the scales. */
static tess_status open_mxfp4(const uint8_t blocks[96], const char *scales_name, const char *shape,
                              const uint8_t scales[6], tess_catalog **c)
{
    char json[256], index[256];
    put_blob("m-1.safetensors", "{\"w_blocks\":{\"dtype\":\"U8\",\"shape\":[2,3,1,16],\"data_offsets\":[0,96]}}",
             blocks, 96);
    sprintf(json, "{\"%s\":{\"dtype\":\"U8\",\"shape\":%s,\"data_offsets\":[0,6]}}", scales_name, shape);
    put_blob("m-2.safetensors", json, scales, 6);
    sprintf(index, "{\"weight_map\":{\"w_blocks\":\"m-1.safetensors\",\"%s\":\"m-2.safetensors\"}}", scales_name);
    put_text("model.safetensors.index.json", index);
    return open_folder(test_folder(), c);
}

static void blocks_of_mxfp4_are_widened_and_transposed(void)
{
    static const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    uint8_t blocks[96], scales[6] = {127, 0, 130, 252, 1, 120};
    float got[30 * 2];
    tess_catalog *c;
    for (int i = 0; i < 96; i++)
        blocks[i] = (uint8_t)(i * 37 + 11);
    EXPECT_OK(open_mxfp4(blocks, "w_scales", "[2,3,1]", scales, &c));
    const tess_catalog_tensor *t = tess_catalog_find(c, "w");
    EXPECT(c->n_tensors == 1 && t != NULL);
    EXPECT_TEXT(t->dtype, "BF16");
    EXPECT(t->n_dims == 3 && t->dim[0] == 2 && t->dim[1] == 32 && t->dim[2] == 3);
    EXPECT_OK(tess_catalog_verify(c, NULL));
    const tess_box box = {.begin = {0, 1, 1}, .size = {2, 15, 2}}; /* parts of both matrices */
    EXPECT_OK(tess_catalog_read_floats(c, t, &box, got));
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 15; i++)
            for (int r = 0; r < 2; r++) {
                const int block = e * 3 + r + 1, at = i + 1;
                const int code = blocks[16 * block + at / 2] >> (at % 2 ? 4 : 0) & 15;
                const double expected = ldexp(code < 8 ? magnitudes[code] : -magnitudes[code - 8], scales[block] - 127);
                EXPECT(got[(e * 15 + i) * 2 + r] == expected);
            }
    tess_catalog_destroy(&c);

    scales[4] = 255;
    EXPECT_OK(open_mxfp4(blocks, "w_scales", "[2,3,1]", scales, &c));
    EXPECT_FAILS(read_rows(c, "w", 1, 1, (float[96]){0}), TESS_E_FORMAT,
                 "matrix 1: the scale of block 0 of output 1 is 255");
    EXPECT_FAILS(tess_catalog_verify(c, NULL), TESS_E_FORMAT, "tensor 'w'");
    EXPECT_OK(read_rows(c, "w", 0, 1, (float[96]){0}));
    tess_catalog_destroy(&c);
    EXPECT_FAILS(open_mxfp4(blocks, "w_scales", "[3,2,1]", scales, &c), TESS_E_FORMAT, "'w_scales' has [3, 2, 1]");
    EXPECT_FAILS(open_mxfp4(blocks, "v_scales", "[2,3,1]", scales, &c), TESS_E_FORMAT, "there is no tensor 'w_scales'");
    EXPECT_FAILS(open_mxfp4(blocks, "w_scales", "[6]", scales, &c), TESS_E_FORMAT, "there is no tensor 'w_scales'");
}

static const test_case cases[] = {
    CASE(a_valid_file_is_read),
    CASE(empty_shapes_and_zero_sizes_are_legal),
    CASE(white_space_around_the_header_is_legal),
    CASE(lying_sizes_are_refused),
    CASE(a_header_that_is_not_utf8_is_refused),
    CASE(json_errors_are_refused),
    CASE(unknown_fields_are_skipped_to_a_depth),
    CASE(names_are_decoded_and_found),
    CASE(offsets_leave_no_hole_and_no_overlap),
    CASE(shapes_agree_with_their_bytes),
    CASE(every_dtype_of_the_format_is_listed),
    CASE(rows_of_every_float_dtype_are_read),
    CASE(all_halves_are_read_and_written_exactly),
    CASE(encoding_rounds_to_nearest_even),
    CASE(many_names_are_found_quickly),
    CASE(files_are_mapped_and_missing_ones_named),
    CASE(a_folder_without_weights_says_what_is_missing),
    CASE(sharded_models_are_read_by_their_index),
    CASE(bad_indexes_are_refused),
    CASE(blocks_of_mxfp4_are_widened_and_transposed),
};
TEST_MAIN(cases)
