/* Marks what libtessera exports; everything else is hidden. */
#ifndef TESSERA_EXPORT_H
#define TESSERA_EXPORT_H

#define TESS_API __attribute__((visibility("default")))

#endif
