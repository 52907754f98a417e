/* Copies past the caches. An ordinary store first fetches the line that it writes: a third of the traffic of a sum of
 * two, for nothing when the result goes to memory anyway. */
#ifndef TESS_COMM_STREAM_H
#define TESS_COMM_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* From so many bytes written by one rank on, results are taken not to be read while they are in a cache. */
enum { STREAM_LEAST_BYTES = 8 << 20 };

/* Other processes see what was streamed after tess_stream_end and a release. */
void tess_stream_copy(void *to, const void *from, size_t bytes);
void tess_stream_end(void);

/* memcpy, or tess_stream_copy and tess_stream_end. */
void tess_copy(void *to, const void *from, size_t bytes, bool streams);

#endif
