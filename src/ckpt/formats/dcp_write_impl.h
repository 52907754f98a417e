/* A distributed checkpoint that is being written: which part of which tensor goes to which file. */
#ifndef TESS_CKPT_FORMATS_DCP_WRITE_IMPL_H
#define TESS_CKPT_FORMATS_DCP_WRITE_IMPL_H

#include "ckpt/formats/export_impl.h"

typedef struct dcp_place {
    int file;
    uint64_t offset, length;
} dcp_place;

typedef struct dcp_chunk {
    int tensor; /* of the export */
    tess_box box;
    dcp_place place;
} dcp_chunk;

typedef struct dcp_object {
    char *name;
    json_t *path;  /* of nested keys */
    json_t *value; /* borrowed */
    dcp_place place;
} dcp_object;

typedef struct dcp_plan {
    const tess_export *out;
    dcp_chunk *chunks;   /* by tensor */
    dcp_chunk **by_file; /* (n_chunks) the same by file */
    size_t n_chunks, chunk_room;
    dcp_object *objects; /* all in the first file */
    size_t n_objects, object_room;
    int n_files; /* not all of them need have items */
} dcp_plan;

/* ---- dcp_plan.c; free in any case */
tess_status dcp_plan_make(const tess_export *out, int n_files, dcp_plan *plan);
void dcp_plan_free(dcp_plan *plan);
/* The nested keys of a tensor's name: ("optimizer", "state.w.exp_avg"). A new reference. */
json_t *dcp_plan_path(const tess_export *out, const char *name);
void dcp_file_name(int file, char *name, size_t size);

/* ---- dcp_put.c: .metadata, once every place is known */
tess_status dcp_put_metadata(const dcp_plan *plan, tess_buffer *pickle);

#endif
