/* The points of a save at which a fault may happen, in the order of a save. Each is right before a system call that
 * changes the disk. ckpt/store/io.h makes the calls. */
#ifndef TESS_INJECT_SAVE_POINTS_H
#define TESS_INJECT_SAVE_POINTS_H

/* Points: name, text, and what the call does. */
#define TESS_SAVE_POINT_LIST(X)                                                                   \
    X(TESS_SAVE_CLEAR, "clear", "something that an earlier save left is removed")                 \
    X(TESS_SAVE_MAKE_FOLDER, "make_folder", "step-00000100.tmp is made")                          \
    X(TESS_SAVE_CREATE, "create", "a writer's data file is made")                                 \
    X(TESS_SAVE_RESERVE, "reserve", "the space of a data file is reserved")                       \
    X(TESS_SAVE_WRITE, "write", "a block of a data file is written")                              \
    X(TESS_SAVE_TRIM, "trim", "a data file gives back the space that packing saved")              \
    X(TESS_SAVE_SYNC, "sync", "a data file is synced")                                            \
    X(TESS_SAVE_WRITE_MANIFEST, "write_manifest", "the manifest is written, under another name")  \
    X(TESS_SAVE_SYNC_MANIFEST, "sync_manifest", "the manifest is synced")                         \
    X(TESS_SAVE_NAME_MANIFEST, "name_manifest", "the manifest gets its name")                     \
    X(TESS_SAVE_WRITE_MARKER, "write_marker", "the commit marker is written, under another name") \
    X(TESS_SAVE_SYNC_MARKER, "sync_marker", "the commit marker is synced")                        \
    X(TESS_SAVE_NAME_MARKER, "name_marker", "the commit marker gets its name")                    \
    X(TESS_SAVE_SYNC_FOLDER, "sync_folder", "step-00000100.tmp is synced")                        \
    X(TESS_SAVE_RENAME, "rename", "the checkpoint gets its name")                                 \
    X(TESS_SAVE_EXCHANGE, "exchange", "the checkpoint takes the place of one of the same step")   \
    X(TESS_SAVE_SYNC_PARENT, "sync_parent", "the folder of all checkpoints is synced")            \
    X(TESS_SAVE_SET_ASIDE, "set_aside", "an old checkpoint loses its name")                       \
    X(TESS_SAVE_REMOVE, "remove", "what an old checkpoint held is removed")

typedef enum tess_save_point {
#define X(name, text, help) name,
    TESS_SAVE_POINT_LIST(X)
#undef X
        TESS_SAVE_POINTS
} tess_save_point;

const char *tess_save_point_name(tess_save_point point); /* returns "make_folder" and the like */

#endif
