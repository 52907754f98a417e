/* Records of data in JSON, one after the other: the lines of a text, or the objects of one array over any number of
 * lines. Nothing is parsed beyond where a record begins and ends. */
#ifndef TESS_DATA_FILES_RECORDS_H
#define TESS_DATA_FILES_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* The content of a text file. */
typedef enum tess_text_kind {
    TESS_TEXT_PLAIN,
    TESS_TEXT_LINES, /* a JSON object on each line */
    TESS_TEXT_ARRAY  /* one JSON array of objects */
} tess_text_kind;

typedef enum tess_array_state {
    TESS_ARRAY_OPEN,   /* before its bracket */
    TESS_ARRAY_FIRST,  /* before the first object, or the end */
    TESS_ARRAY_NEXT,   /* after a comma */
    TESS_ARRAY_INSIDE, /* inside an object */
    TESS_ARRAY_AFTER,  /* an object: before its comma, or the end */
    TESS_ARRAY_CLOSED
} tess_array_state;

/* A place in an array. Zero: before its beginning. */
typedef struct tess_array_scan {
    tess_array_state state;
    int64_t depth; /* INSIDE: how many brackets are open */
    bool in_string, escaped;
} tess_array_scan;

/* Scans n bytes, at most up to the first cut: the place after the comma of an object, or after the array.
 * *taken: the bytes scanned. TESS_E_FORMAT: byte *taken is not part of an array of objects. */
tess_status tess_array_scan_go(tess_array_scan *scan, const char *data, size_t n, size_t *taken, bool *at_cut);
/* Checks the place at the end of the file. TESS_E_FORMAT: the array is still open. */
tess_status tess_array_scan_end(const tess_array_scan *scan);

/* Goes through the records of a text. An array's may begin and end at a cut. */
typedef struct tess_records {
    tess_text_kind kind; /* LINES or ARRAY */
    const char *text;
    size_t size;
    size_t next; /* offset of the next byte to read */
    tess_array_scan scan;
    size_t begin, length; /* the newest record; after a failure `begin` is the place that is wrong */
} tess_records;

tess_records tess_records_of(tess_text_kind kind, const char *text, size_t size);
/* *there is false after the last record; blank lines are records. TESS_E_FORMAT: not an array of objects, or one that
 * is cut off. */
tess_status tess_records_next(tess_records *records, bool *there);
/* Checks, after the last record, that the text is not a part that ends at a cut. TESS_E_FORMAT: its array is open. */
tess_status tess_records_end(const tess_records *records);

#endif
