/* TESS_API marks the functions that libtessera exports; all other symbols are hidden. TESS_UNUSED marks a parameter
 * that a function has only because its type demands it. */
#ifndef TESSERA_EXPORT_H
#define TESSERA_EXPORT_H

#define TESS_API __attribute__((visibility("default")))
#define TESS_UNUSED __attribute__((unused))

#endif
