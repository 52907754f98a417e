#include "data/files/text_kind.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/tokenizer/unicode.h"

/* ---- Files that are not text ---- */
typedef struct signature {
    const char *name, *bytes;
    size_t n, at;
    const char *way; /* advice to the user; %s is replaced by the path */
} signature;

#define SIGN(name, bytes, at, way)              \
    {                                           \
        name, bytes, sizeof(bytes) - 1, at, way \
    }

static const char shard_way[] = "unpack it, or make a shard of it for training (`tessera tokenize shard TOKENIZER %s "
                                "--out FILE.shard`): packed text "
                                "cannot be read in a shuffled order";

static const signature compressed[] = {
    SIGN("compressed (zstd)", "\x28\xb5\x2f\xfd", 0, shard_way),
    SIGN("compressed (gzip)", "\x1f\x8b", 0, shard_way),
};

static const signature signatures[] = {
    SIGN("a parquet file", "PAR1", 0,
         "`python3 -c \"import datasets; datasets.Dataset.from_parquet('%s').to_json('data.jsonl')\"` converts it"),
    SIGN("an Arrow file", "ARROW1", 0,
         "`python3 -c \"import pyarrow; pyarrow.ipc.open_file('%s').read_pandas().to_json('data.jsonl', "
         "orient='records', lines=True)\"` converts it"),
    SIGN("an Arrow file", "\xff\xff\xff\xff", 0,
         "`python3 -c \"import datasets; datasets.Dataset.from_file('%s').to_json('data.jsonl')\"` converts it"),
    SIGN("an array of numpy", "\x93NUMPY", 0,
         "`python3 -c \"import numpy; numpy.load('%s').astype('uint16').tofile('data.bin')\"` makes token ids of it, "
         "for data.format=uint16 (or uint32)"),
    SIGN("a GGUF file", "GGUF\3\0\0\0", 0, "%s holds weights, not text to train on"),
    SIGN("an HDF5 file", "\x89HDF", 0, "write the texts of %s as JSON lines"),
    SIGN("a SQLite database", "SQLite format 3", 0,
         "`sqlite3 -json %s 'select text from TABLE' > data.json` converts it"),
    SIGN("a PDF", "%PDF-", 0, "`pdftotext %s data.txt` converts it"),
    SIGN("a zip archive", "PK\3\4", 0, "`unzip %s` unpacks it"),
    SIGN("compressed (bzip2)", "1AY&SY", 4, "`bunzip2 -k %s` unpacks it"),
    SIGN("compressed (xz)",
         "\xfd"
         "7zXZ",
         0, "`unxz -k %s` unpacks it"),
    SIGN("compressed (lz4)", "\x04\x22\x4d\x18", 0, "`unlz4 %s data.txt` unpacks it"),
    SIGN("a tar archive", "ustar", 257, "`tar xf %s` unpacks it"),
    SIGN("text in UTF-16", "\xff\xfe", 0, "`iconv -f UTF-16 -t UTF-8 %s > data.txt` converts it"),
    SIGN("text in UTF-16", "\xfe\xff", 0, "`iconv -f UTF-16 -t UTF-8 %s > data.txt` converts it"),
};

static tess_status refuse(const signature *known, size_t n_known, const char *path, const char *head, size_t n)
{
    char way[1024];
    for (size_t i = 0; i < n_known; i++) {
        const signature *s = &known[i];
        if (n < s->at + s->n || memcmp(head + s->at, s->bytes, s->n) != 0)
            continue;
        const char *gap = strstr(s->way, "%s");
        snprintf(way, sizeof(way), "%.*s%.400s%s", (int)(gap - s->way), s->way, path, gap + 2);
        return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: %s, not text: %s", path, s->name, way);
    }
    return TESS_OK;
}

/* Recognises a safetensors file: the length of a header, then its JSON. */
static tess_status refuse_safetensors(const char *path, const char *head, size_t n)
{
    uint64_t header = 0;
    memcpy(&header, head, n < 8 ? 0 : 8);
    bool is = n > 9 && header > 1 && header < (1 << 30) && head[8] == '{' && head[9] == '"';
    TESS_CHECK(!is, TESS_E_UNSUPPORTED, "%s: weights (safetensors), not text to train on: `tessera ckpt inspect %s`",
               path, path);
    return TESS_OK;
}

tess_status tess_text_check(const char *text, size_t size, size_t *at)
{
    *at = tess_utf8_valid(text, size);
    const char *zero = memchr(text, 0, *at);
    if (zero != NULL)
        *at = (size_t)(zero - text);
    TESS_CHECK(*at == size, TESS_E_FORMAT,
               "byte 0x%02x is not UTF-8 text: `iconv -f ENCODING -t UTF-8 FILE > NEW` converts a text (ENCODING: "
               "LATIN1, CP1252, GBK, ...); binary data have to be written as text or JSON lines first",
               (unsigned char)text[*at]);
    return TESS_OK;
}

static tess_status check_head(const char *path, const char *head, size_t n)
{
    size_t at;
    tess_status status = tess_text_check(head, n, &at);
    if (status != TESS_OK && n == TESS_TEXT_HEAD && at + 4 > n && head[at] != '\0') { /* the head cuts a character */
        tess_error_clear();
        return TESS_OK;
    }
    return status != TESS_OK ? tess_fail_context(status, "%s: at byte %zu", path, at) : TESS_OK;
}

/* ---- JSON ---- */
bool tess_text_has_json_name(const char *path)
{
    static const char *const endings[] = {".json", ".jsonl", ".ndjson"}, *const packed[] = {"", ".gz", ".zst"};
    for (int i = 0; i < 9; i++) {
        char ending[16];
        snprintf(ending, sizeof(ending), "%s%s", endings[i / 3], packed[i % 3]);
        if (tess_text_ends_with(path, ending))
            return true;
    }
    return false;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n", *at) != NULL && *at != '\0')
        at++;
    return at;
}

/* Whether the '{' at `at` begins an object: a key and a colon follow it, or the end of the object. */
static bool begins_object(const char *at, const char *end)
{
    const char *key = skip_blanks(at + 1, end);
    if (key < end && *key == '}')
        return true;
    if (key == end || *key != '"')
        return false;
    for (key++; key < end && *key != '"'; key++)
        key += *key == '\\';
    key = key < end ? skip_blanks(key + 1, end) : end;
    return key < end && *key == ':';
}

/* Whether the object that begins at `at` ends on a later line. An object that never ends is a damaged line. */
static bool spans_lines(const char *at, const char *end, bool cut)
{
    tess_array_scan scan = {.state = TESS_ARRAY_NEXT};
    size_t taken;
    bool at_cut;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    bool open = stop != NULL && tess_array_scan_go(&scan, at, (size_t)(stop - at), &taken, &at_cut) == TESS_OK &&
                scan.state == TESS_ARRAY_INSIDE;
    if (open)
        (void)tess_array_scan_go(&scan, stop, (size_t)(end - stop), &taken, &at_cut);
    tess_error_clear();
    return open && (cut || scan.state != TESS_ARRAY_INSIDE);
}

tess_status tess_text_kind_of(const char *path, const char *head, size_t n, bool as_text, tess_text_kind *kind)
{
    const char *end = head + n, *at = head + (n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    *kind = TESS_TEXT_PLAIN;
    TESS_TRY(refuse(signatures, sizeof(signatures) / sizeof(signatures[0]), path, head, n));
    TESS_TRY(refuse_safetensors(path, head, n));
    if (as_text)
        return check_head(path, head, n);
    at = skip_blanks(at, end);
    bool named = tess_text_has_json_name(path), object = at < end && *at == '{' && begins_object(at, end);
    const char *inner = at < end && *at == '[' ? skip_blanks(at + 1, end) : end;
    if (inner < end && *inner == '{' && begins_object(inner, end))
        *kind = TESS_TEXT_ARRAY;
    else if (named && at < end && *at == '[')
        *kind = TESS_TEXT_ARRAY;
    else if (object || named)
        *kind = TESS_TEXT_LINES;
    TESS_CHECK(
        !object || !spans_lines(at, end, n == TESS_TEXT_HEAD), TESS_E_UNSUPPORTED,
        "%s: a JSON object over several lines, and no records: `jq -c . %s > data.jsonl` writes it on one line, "
        "`jq -c '.KEY[]' %s > data.jsonl` the elements of a list in it; `tessera train data.format=text` reads it "
        "as plain text",
        path, path, path);
    return *kind == TESS_TEXT_PLAIN ? check_head(path, head, n) : TESS_OK;
}

tess_status tess_text_kind_at(const char *path, bool as_text, tess_text_kind *kind)
{
    char head[TESS_TEXT_HEAD];
    uint64_t size;
    int fd;
    TESS_CHECK(!tess_os_is_dir(path), TESS_E_INVALID, "%s: a folder, not a file of text", path);
    TESS_TRY(tess_os_open_read(path, &fd, &size));
    size_t n = size < sizeof(head) ? (size_t)size : sizeof(head);
    tess_status status = tess_os_read_at(fd, 0, head, n, path);
    tess_os_close(&fd);
    TESS_TRY(status);
    TESS_TRY(refuse(compressed, sizeof(compressed) / sizeof(compressed[0]), path, head, n));
    return tess_text_kind_of(path, head, n, as_text, kind);
}
