/* Pickles that CPython wrote, damaged ones, and those that we write. */
#include <math.h>

#include "base/os/os.h"
#include "base/pickle/pickle_impl.h"
#include "support/test.h"

/* The fixtures are CPython's own: tools/make_pickle_fixtures.py. */
static tess_pickle *load(const char *name, int protocol, const tess_pickle_options *options)
{
    char relative[128];
    snprintf(relative, sizeof(relative), "base/fixtures/pickle/%s_%d.pickle", name, protocol);
    tess_mapping file;
    tess_pickle *pickle;
    EXPECT_OK(tess_os_map(test_path(relative), &file));
    EXPECT_OK(tess_pickle_parse(test_mem(), file.data, file.size, relative, options, &pickle));
    EXPECT_INT(pickle->size, file.size);
    tess_os_unmap(&file);
    return pickle;
}

static tess_status parse(const char *text, size_t size, tess_pickle **pickle)
{
    return tess_pickle_parse(test_mem(), text, size, "input", NULL, pickle);
}

static const tess_pickle_value *member(const tess_pickle_value *dict, const char *key, tess_pickle_kind kind, size_t n)
{
    const tess_pickle_value *value = tess_pickle_get(dict, key);
    EXPECT(value != NULL);
    EXPECT_TEXT(tess_pickle_kind_name(value->kind), tess_pickle_kind_name(kind));
    EXPECT_INT(value->n, n);
    return value;
}

static void check_numbers(const tess_pickle_value *root)
{
    const int64_t ints[] = {0, 1, -1, 255, 256, 65535, 65536, INT32_MAX, INT32_MIN, 1ll << 31, INT64_MAX, INT64_MIN};
    const tess_pickle_value *list = member(root, "ints", TESS_PICKLE_LIST, 12);
    for (size_t i = 0; i < 12; i++) {
        EXPECT_INT(tess_pickle_at(list, i)->kind, TESS_PICKLE_INT);
        EXPECT_INT(tess_pickle_at(list, i)->integer, ints[i]);
    }
    const double floats[] = {0.0, -0.5, 1e300, INFINITY, -INFINITY, 0.1};
    list = member(root, "floats", TESS_PICKLE_LIST, 6);
    for (size_t i = 0; i < 6; i++)
        EXPECT(tess_pickle_at(list, i)->kind == TESS_PICKLE_FLOAT && tess_pickle_at(list, i)->real == floats[i]);
    EXPECT(isnan(member(root, "nan", TESS_PICKLE_FLOAT, 0)->real));
    EXPECT(member(root, "yes", TESS_PICKLE_BOOL, 0)->flag);
    EXPECT(!member(root, "no", TESS_PICKLE_BOOL, 0)->flag);
    member(root, "none", TESS_PICKLE_NONE, 0);
}

static void check_big(const tess_pickle_value *root)
{
    static const uint8_t bytes[2][9] = {
        {0, 0, 0, 0, 0, 0, 0, 0x80, 0},
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff},
    };
    const tess_pickle_value *big = member(root, "big", TESS_PICKLE_LIST, 4);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_INT(tess_pickle_at(big, i)->n, 9);
        EXPECT_SAME((const uint8_t *)tess_pickle_at(big, i)->text, bytes[i], 9);
    }
    const uint8_t *plus = (const uint8_t *)tess_pickle_at(big, 2)->text;
    const uint8_t *minus = (const uint8_t *)tess_pickle_at(big, 3)->text;
    EXPECT_INT(tess_pickle_at(big, 2)->n, 17);
    EXPECT_INT(tess_pickle_at(big, 3)->n, 17);
    long double value = 0;
    unsigned carry = 0;
    for (int i = 16; i >= 0; i--)
        value = value * 256 + plus[i];
    EXPECT(value == 1e40L);
    for (int i = 0; i < 17; i++) { /* x + -x is 2^136 */
        carry += plus[i] + minus[i];
        EXPECT_INT(carry & 0xff, 0);
        carry >>= 8;
    }
    EXPECT_INT(carry, 1);
}

static void check_text(const tess_pickle_value *root)
{
    static const char *const texts[] = {"",       "plain",        "line\nbreak", "back\\slash",
                                        "\u00fc", "\xe2\x82\xac", "\U0001f600"};
    const tess_pickle_value *list = member(root, "text", TESS_PICKLE_LIST, 8);
    for (size_t i = 0; i < 7; i++)
        EXPECT_TEXT(tess_pickle_text(tess_pickle_at(list, i)), texts[i]);
    EXPECT_INT(tess_pickle_at(list, 7)->n, 300);
    list = member(root, "bytes", TESS_PICKLE_LIST, 3);
    EXPECT_INT(tess_pickle_at(list, 0)->kind, TESS_PICKLE_BYTES);
    EXPECT_INT(tess_pickle_at(list, 0)->n, 0);
    EXPECT_INT(tess_pickle_at(list, 1)->n, 5);
    EXPECT_SAME(tess_pickle_at(list, 1)->text, "\0\xff\n'\\", 5);
    EXPECT_INT(tess_pickle_at(list, 2)->n, 256);
    for (int i = 0; i < 256; i++)
        EXPECT_INT((uint8_t)tess_pickle_at(list, 2)->text[i], i);
    EXPECT_TEXT(member(root, "bytearray", TESS_PICKLE_BYTES, 5)->text, "array");
}

static void check_containers(const tess_pickle_value *root)
{
    const tess_pickle_value *tuples = member(root, "tuples", TESS_PICKLE_LIST, 5);
    for (size_t i = 0; i < 5; i++) {
        EXPECT_INT(tess_pickle_at(tuples, i)->kind, TESS_PICKLE_TUPLE);
        EXPECT_INT(tess_pickle_at(tuples, i)->n, i);
    }
    EXPECT_INT(tess_pickle_at(tess_pickle_at(tuples, 4), 3)->integer, 4);
    EXPECT(tess_pickle_at(tuples, 5) == NULL);
    EXPECT_INT(tess_pickle_at(member(root, "set", TESS_PICKLE_SET, 1), 0)->integer, 5);
    EXPECT_TEXT(tess_pickle_text(tess_pickle_at(member(root, "frozenset", TESS_PICKLE_SET, 1), 0)), "f");
    member(root, "list", TESS_PICKLE_LIST, 0);
    const tess_pickle_value *ordered = member(root, "ordered", TESS_PICKLE_DICT, 4);
    EXPECT_TEXT(tess_pickle_text(ordered->items[0]), "b");
    EXPECT_INT(tess_pickle_get(ordered, "a")->integer, 2);
    const tess_pickle_value *shared = member(root, "shared", TESS_PICKLE_LIST, 2);
    EXPECT(tess_pickle_at(shared, 0) == tess_pickle_at(shared, 1));
    const tess_pickle_value *nested = member(root, "nested", TESS_PICKLE_LIST, 1);
    for (int i = 0; i < 5; i++)
        nested = tess_pickle_at(nested, 0);
    EXPECT_INT(nested->integer, 1);
}

static void every_protocol_gives_the_same_values(void)
{
    for (int protocol = 0; protocol <= 5; protocol++) {
        tess_pickle *pickle = load("plain", protocol, NULL);
        const tess_pickle_value *root = tess_pickle_root(pickle);
        EXPECT_INT(root->n, 2 * 19);
        check_numbers(root);
        check_big(root);
        check_text(root);
        check_containers(root);
        EXPECT(tess_pickle_get(root, "absent") == NULL);
        tess_pickle_destroy(&pickle);
    }
}

static void objects_stay_inert(void)
{
    for (int protocol = 0; protocol <= 5; protocol++) {
        tess_pickle *pickle = load("objects", protocol, NULL);
        const tess_pickle_value *root = tess_pickle_root(pickle);
        EXPECT_INT(root->n, 5);
        EXPECT(tess_pickle_is(tess_pickle_at(root, 0), "argparse.Namespace"));
        const tess_pickle_value *state = tess_pickle_at(root, 0)->object->state;
        EXPECT(tess_pickle_get(state, "lr")->real == 0.5);
        EXPECT_TEXT(tess_pickle_text(tess_pickle_get(state, "name")), "run");
        EXPECT(tess_pickle_is(tess_pickle_at(root, 1), "datetime.date"));
        const tess_pickle_value *date = tess_pickle_at(tess_pickle_at(root, 1)->object->args, 0);
        EXPECT_INT(date->kind, TESS_PICKLE_BYTES);
        EXPECT_SAME(date->text, "\x07\xe8\x05\x11", 4);
        EXPECT(tess_pickle_at(tess_pickle_at(root, 2)->object->args, 1)->real == -2);
        EXPECT(tess_pickle_is(tess_pickle_at(root, 4), "collections.defaultdict"));
        EXPECT_INT(tess_pickle_get(tess_pickle_at(root, 4)->object->dict, "k")->n, 1);
        tess_pickle_destroy(&pickle);
    }
}

static void ids_of_what_lies_elsewhere_are_data(void)
{
    for (int protocol = 1; protocol <= 5; protocol++) {
        tess_pickle *pickle = load("persistent", protocol, NULL);
        const tess_pickle_value *weight = tess_pickle_get(tess_pickle_root(pickle), "weight");
        EXPECT_INT(weight->kind, TESS_PICKLE_PERSISTENT);
        EXPECT_TEXT(tess_pickle_text(tess_pickle_at(weight->items[0], 1)), "storage0");
        tess_pickle_destroy(&pickle);
    }
    tess_pickle *pickle;
    EXPECT_OK(parse("Pstorage 3\n.", 12, &pickle));
    EXPECT_TEXT(tess_pickle_text(tess_pickle_root(pickle)->items[0]), "storage 3");
    tess_pickle_destroy(&pickle);
}

static void names_are_kept_or_refused_and_never_called(void)
{
    static const char *const names[] = {"collections.*", "posix.syste", NULL};
    const tess_pickle_options strict = {.names = names, .only_names = true};
    for (int protocol = 0; protocol <= 5; protocol++) {
        tess_pickle *pickle = load("call", protocol, NULL);
        EXPECT(tess_pickle_is(tess_pickle_get(tess_pickle_root(pickle), "x"), "posix.system"));
        tess_pickle_destroy(&pickle);
        char path[128];
        tess_mapping file;
        snprintf(path, sizeof(path), "base/fixtures/pickle/call_%d.pickle", protocol);
        EXPECT_OK(tess_os_map(test_path(path), &file));
        EXPECT_FAILS(tess_pickle_parse(test_mem(), file.data, file.size, "x.pickle", &strict, &pickle),
                     TESS_E_UNSUPPORTED, "it names 'posix.system'");
        EXPECT_CONTAINS(tess_error_message(), "x.pickle: offset ");
        tess_os_unmap(&file);
    }
    EXPECT(!tess_os_is_file("pwned"));
}

static void a_class_inside_of_a_class_is_a_longer_name(void)
{
    static const char text[] = "c__builtin__\ngetattr\n(cm\nOuter\nX\x05\0\0\0InnertR)\x81.";
    static const char *const names[] = {"__builtin__.getattr", "m.Outer", NULL};
    const tess_pickle_options strict = {.names = names, .only_names = true};
    tess_pickle *pickle;
    EXPECT_OK(parse(text, sizeof(text) - 1, &pickle));
    EXPECT(tess_pickle_is(tess_pickle_root(pickle), "m.Outer.Inner"));
    tess_pickle_destroy(&pickle);
    EXPECT_FAILS(tess_pickle_parse(test_mem(), text, sizeof(text) - 1, "input", &strict, &pickle), TESS_E_UNSUPPORTED,
                 "it names 'm.Outer.Inner'");
}

static void every_cut_is_an_error(void)
{
    for (int protocol = 0; protocol <= 5; protocol++) {
        char path[128];
        tess_mapping file;
        tess_pickle *pickle;
        snprintf(path, sizeof(path), "base/fixtures/pickle/plain_%d.pickle", protocol);
        EXPECT_OK(tess_os_map(test_path(path), &file));
        for (size_t size = 0; size < file.size; size++)
            EXPECT_FAILS(tess_pickle_parse(test_mem(), file.data, size, "cut.pickle", NULL, &pickle), TESS_E_FORMAT,
                         "cut.pickle: offset ");
        tess_os_unmap(&file);
    }
}

static void messages_name_offset_and_opcode(void)
{
    static const struct {
        const char *text;
        size_t size;
        tess_status status;
        const char *needle;
    } cases[] = {
        {"", 0, TESS_E_FORMAT, "input: offset 0: cut off: no STOP"},
        {"N", 1, TESS_E_FORMAT, "input: offset 1: cut off"},
        {".", 1, TESS_E_FORMAT, "input: offset 0, STOP: there is no value"},
        {"\x80\x06N.", 4, TESS_E_UNSUPPORTED, "offset 0, PROTO: protocol 6"},
        {"(]Ke", 4, TESS_E_FORMAT, "offset 4: cut off: no STOP"},
        {"Ne.", 3, TESS_E_FORMAT, "offset 1, APPENDS: there is no mark"},
        {"N(Ne.", 5, TESS_E_FORMAT, "offset 3, APPENDS: items for None: expected a list"},
        {"}(Nu.", 5, TESS_E_FORMAT, "offset 3, SETITEMS: a key without a value"},
        {"N(a.", 4, TESS_E_FORMAT, "offset 2, APPEND: there is no value"},
        {"h\x05.", 3, TESS_E_FORMAT, "offset 0, BINGET: memo 5 was never set"},
        {"Nr\xff\xff\xff\x7f.", 7, TESS_E_FORMAT, "offset 1, LONG_BINPUT: memo 2147483647 in a pickle of 7 bytes"},
        {"X\xff\xff\xff\xff", 5, TESS_E_FORMAT, "BINUNICODE: cut off: 4294967295 bytes should follow, 0 do"},
        {"N)R.", 4, TESS_E_FORMAT, "offset 2, REDUCE: it calls None"},
        {"cos\nsystem\nNR.", 14, TESS_E_FORMAT, "REDUCE: arguments are None"},
        {"\x82\x01.", 3, TESS_E_UNSUPPORTED, "EXT1: it names a class by a number"},
        {"\x97.", 2, TESS_E_UNSUPPORTED, "NEXT_BUFFER"},
        {"Ixyz\n.", 6, TESS_E_FORMAT, "INT: 'xyz' is not an integer"},
        {"F1.5e\n.", 7, TESS_E_FORMAT, "FLOAT: '1.5e' is no number"},
        {"S'a\\x4'\n.", 9, TESS_E_FORMAT, "STRING: an invalid escape at character 2"},
        {"V\\ud800\n.", 9, TESS_E_FORMAT, "UNICODE: character 0 is not a code point"},
        {"?", 1, TESS_E_FORMAT, "offset 0: 0x3f is not an opcode"},
    };
    tess_pickle *pickle;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        EXPECT_FAILS(parse(cases[i].text, cases[i].size, &pickle), cases[i].status, cases[i].needle);
}

/* n times ']', n - 1 times 'a', '.' */
static tess_status parse_nested(int n, tess_pickle **pickle)
{
    char text[1024];
    int size = 0;
    for (int i = 0; i < n; i++)
        text[size++] = ']';
    for (int i = 1; i < n; i++)
        text[size++] = 'a';
    text[size++] = '.';
    return parse(text, (size_t)size, pickle);
}

static void depth_cycles_and_memory_are_bounded(void)
{
    tess_pickle *pickle;
    EXPECT_OK(parse_nested(TESS_PICKLE_MAX_DEPTH + 1, &pickle));
    tess_pickle_destroy(&pickle);
    EXPECT_FAILS(parse_nested(TESS_PICKLE_MAX_DEPTH + 2, &pickle), TESS_E_FORMAT, "nested more than 128 deep");
    EXPECT_FAILS(parse("]q\0h\0a.", 7, &pickle), TESS_E_FORMAT, "a list contains itself");
    /* each doubling is 5 bytes of input: 2^60 ways to the innermost, 60 values */
    char text[512] = "]q";
    int size = 3;
    for (int i = 1; i <= 60; i++)
        size += snprintf(text + size, 16, "(h%ch%clq%c", i - 1, i - 1, i);
    text[size++] = '.';
    EXPECT_OK(parse(text, (size_t)size, &pickle));
    tess_pickle_destroy(&pickle);
    const tess_pickle_options small = {.max_bytes = 4096};
    char many[4000];
    memset(many, ']', sizeof(many));
    EXPECT_FAILS(tess_pickle_parse(test_mem(), many, sizeof(many), "many", &small, &pickle), TESS_E_NOMEM,
                 "more than the 4096 bytes");
}

static const test_case cases[] = {
    CASE(every_protocol_gives_the_same_values),
    CASE(objects_stay_inert),
    CASE(ids_of_what_lies_elsewhere_are_data),
    CASE(names_are_kept_or_refused_and_never_called),
    CASE(a_class_inside_of_a_class_is_a_longer_name),
    CASE(every_cut_is_an_error),
    CASE(messages_name_offset_and_opcode),
    CASE(depth_cycles_and_memory_are_bounded),
};
TEST_MAIN(cases)
