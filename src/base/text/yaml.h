/* Parses the YAML of a configuration file: sections of scalar keys and lists of scalars. Anchors, tags and deeper
 * nesting are errors that name their line, because a table of options cannot hold them. */
#ifndef TESS_BASE_TEXT_YAML_H
#define TESS_BASE_TEXT_YAML_H

#include "tessera/memory.h"

/* Called for each key in file order: "training.steps", its text (a list is written as in base/text/list_text.h), and
 * its line (from 1). A key with a value but without a section is passed as "steps" with text NULL. Such a key is always
 * an error; the function may fail with a better message. */
typedef tess_status (*tess_yaml_fn)(void *context, const char *key, const char *text, int line);

/* `what` names the source in messages. */
tess_status tess_yaml_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_yaml_fn fn,
                            void *context);

#endif
