/* Finds the records of JSON data: the lines of a text, or the objects of one array over any number of lines. Only
 * determines where a record begins and ends, and parses nothing else. */
#ifndef TESS_DATA_FILES_RECORDS_H
#define TESS_DATA_FILES_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* The kind of content of a text file. */
typedef enum tess_text_kind {
    TESS_TEXT_PLAIN,
    TESS_TEXT_LINES, /* a JSON object on each line */
    TESS_TEXT_ARRAY  /* one JSON array of objects */
} tess_text_kind;

typedef enum tess_array_state {
    TESS_ARRAY_OPEN,   /* before the array's opening bracket */
    TESS_ARRAY_FIRST,  /* before the first object, or the end of the array */
    TESS_ARRAY_NEXT,   /* after a comma */
    TESS_ARRAY_INSIDE, /* inside an object */
    TESS_ARRAY_AFTER,  /* after an object: before its comma, or the end of the array */
    TESS_ARRAY_CLOSED
} tess_array_state;

/* A position in an array. Zero-initialised: before its beginning. */
typedef struct tess_array_scan {
    tess_array_state state;
    int64_t depth; /* INSIDE: number of open brackets */
    bool in_string, escaped;
} tess_array_scan;

/* Scans n bytes, but stops at the first cut: the position after the comma that follows an object, or after the array.
 * *taken: number of bytes scanned. TESS_E_FORMAT: byte *taken cannot be part of an array of objects. */
tess_status tess_array_scan_go(tess_array_scan *scan, const char *data, size_t n, size_t *taken, bool *at_cut);
/* Checks the position at the end of the file. TESS_E_FORMAT: the array is still open. */
tess_status tess_array_scan_end(const tess_array_scan *scan);

/* An iterator over the records of a text. The text of an array may begin and end at a cut. */
typedef struct tess_records {
    tess_text_kind kind; /* LINES or ARRAY */
    const char *text;
    size_t size;
    size_t next; /* offset of the next byte to read */
    tess_array_scan scan;
    size_t begin, length; /* range of the newest record; after a failure `begin` is the position of the error */
} tess_records;

tess_records tess_records_of(tess_text_kind kind, const char *text, size_t size);
/* Moves to the next record. *there is false after the last one. Blank lines are records. TESS_E_FORMAT: the text is not
 * an array of objects, or is cut off. */
tess_status tess_records_next(tess_records *records, bool *there);
/* Checks, after the last record, that the text does not end at a cut inside an array. TESS_E_FORMAT: the array is
 * open. */
tess_status tess_records_end(const tess_records *records);

#endif
