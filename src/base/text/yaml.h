/* The YAML of a configuration file: sections of scalar keys and lists of scalars. No anchors, no tags, no deeper
 * nesting: anything that a table of options cannot hold is an error that names its line. */
#ifndef TESS_BASE_TEXT_YAML_H
#define TESS_BASE_TEXT_YAML_H

#include "tessera/memory.h"

/* Called for every key in file order: "training.steps", its text (a list as base/text/list_text.h writes it), its line
 * (from 1). A key with a value but without a section comes as "steps" with NULL. It is refused in any case; the
 * function may fail with a better message. */
typedef tess_status (*tess_yaml_fn)(void *context, const char *key, const char *text, int line);

/* `what` names the source in messages. */
tess_status tess_yaml_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_yaml_fn fn,
                            void *context);

#endif
