/* The version of libtessera: of the headers that a program is compiled with, and of the library that it runs with.
 *
 * A library with the same soname (libtessera.so.0) runs programs that were compiled with earlier headers. It keeps all
 * functions, fields and numbers. Each symbol has the version that added it. So a program that calls a function that
 * its library does not have is refused when it starts.
 *
 * Structs of options get more fields in later versions, after their field `size`. A program that sets such fields
 * sets `size` to sizeof the struct. 0, the default, says that it sets none. A library that does not know the fields
 * refuses them with TESS_E_UNSUPPORTED, unless they are zero. */
#ifndef TESSERA_VERSION_H
#define TESSERA_VERSION_H

#include "tessera/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TESS_VERSION_MAJOR 0
#define TESS_VERSION_MINOR 1
#define TESS_VERSION_PATCH 0
/* 10000 * major + 100 * minor + patch */
#define TESS_VERSION_NUMBER (10000 * TESS_VERSION_MAJOR + 100 * TESS_VERSION_MINOR + TESS_VERSION_PATCH)

/* Returns the library's TESS_VERSION_NUMBER. *text (NULL is allowed) receives it as text, such as "0.1.0": static. */
TESS_API int tess_version(const char **text);

#ifdef __cplusplus
}
#endif

#endif
