/* A plug-in of another version, for test_wire_load. */
#include "comm/wire/wire.h"

__attribute__((visibility("default"))) extern const wire_table tess_wire_plugin;

const wire_table tess_wire_plugin = {.version = 77};
