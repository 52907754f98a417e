/* Reads a configuration file once, and keeps the bytes next to what was parsed from them. Ranks get these bytes in
 * memory that they inherit, so that ranks that are started after a failure read the same text as the first ones. */
#ifndef TESS_CONTROL_RELOAD_CONFIG_TEXT_H
#define TESS_CONTROL_RELOAD_CONFIG_TEXT_H

#include "config/config.h"

/* The parts that make a configuration. All pointers are borrowed. */
typedef struct tess_config_source {
    const char *path; /* NULL: no file */
    const char *const *defaults;
    char *const *overrides;
    int n_overrides;
} tess_config_source;

typedef struct tess_config_text {
    tess_config config;
    char *text;
    size_t bytes;
} tess_config_text;

/* Reads the file at `path` (NULL: none) with the defaults and overrides of the source. Errors as for
 * tess_config_load. The caller frees *read. */
tess_status tess_config_text_read(const tess_config_source *source, const char *path, tess_config_text **read);
void tess_config_text_free(tess_config_text **text);

/* Makes the text known to processes that are started from now on (TESS_VAR_CONFIG). */
tess_status tess_config_text_share(const tess_config_text *text);
/* Replaces the text that was made known. On failure ranks still get the old one, whole. */
tess_status tess_config_text_share_again(const tess_config_text *text);

#endif
