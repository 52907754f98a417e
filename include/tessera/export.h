/* TESS_API marks the functions that libtessera exports; all other symbols are hidden. */
#ifndef TESSERA_EXPORT_H
#define TESSERA_EXPORT_H

#define TESS_API __attribute__((visibility("default")))

#endif
