#include "ckpt/store/copies.h"

#include <stdio.h>
#include <string.h>

#include "ckpt/store/copies_impl.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store_impl.h"

/* The work of the child of an operation on a folder. */
typedef struct place_task {
    const tess_ckpt_place *place;
    const char *dir, *from; /* the run's folder; the folder with the files to copy */
    int64_t step;
    int keep;
} place_task;

const char *tess_ckpt_place_name(const tess_ckpt_place *place)
{
    return place->folder != NULL ? place->folder : place->n_words > 0 ? place->command[0] : "";
}

/* Runs an operation on a folder in a child process. */
static tess_status run(copy_apart_fn fn, place_task *task, void *out, size_t size)
{
    return copy_run_apart(fn, task, task->place->wait_s, out, size);
}

/* ---- Listing ---- */
static tess_status list_folder(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    tess_ckpt_place_steps *steps = out;
    tess_store_names names;
    (void)apart;
    tess_status status = tess_store_list(task->place->io, task->place->folder, &names);
    if (status == TESS_E_NOT_FOUND) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    for (size_t i = 0; i < names.n && steps->n < TESS_CKPT_PLACE_STEPS; i++)
        if (tess_store_counts(&names, i))
            steps->step[steps->n++] = names.items[i].step;
    free(names.items);
    return TESS_OK;
}

tess_status tess_ckpt_place_list(const tess_ckpt_place *place, tess_ckpt_place_steps *steps)
{
    place_task task = {.place = place};
    steps->n = 0;
    if (place->folder == NULL)
        return copy_command_list(place, steps);
    return run(list_folder, &task, steps, sizeof(*steps));
}

/* ---- Storing ---- */
/* Whether both folders hold the same checkpoint: the marker has the checksum of the manifest, which has those of all
 * pieces. */
static bool is_same(const tess_io *io, const char *a, const char *b)
{
    char paths[2][TESS_CKPT_PATH], *text[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    const char *folders[2] = {a, b};
    bool same = true;
    for (int i = 0; i < 2 && same; i++)
        same = tess_os_join(paths[i], TESS_CKPT_PATH, folders[i], TESS_STORE_MARKER) == TESS_OK &&
               tess_io_read(io, paths[i], TESS_STORE_MARKER_BYTES, &text[i], &size[i]) == TESS_OK;
    same = same && size[0] == size[1] && memcmp(text[0], text[1], size[0]) == 0;
    free(text[0]);
    free(text[1]);
    tess_error_clear();
    return same;
}

/* Copies into <dir>/step-%08d.tmp, verifies that, and gives it its name. */
static tess_status copy_in(const tess_io *io, const char *from, const char *dir, int64_t step, copy_apart *apart)
{
    char temporary[TESS_CKPT_PATH];
    TESS_TRY(tess_store_begin(NULL, dir, step, temporary));
    tess_status status = copy_files(io, from, temporary, apart);
    if (status == TESS_OK)
        status = copy_verify(temporary, step, apart);
    if (status == TESS_OK)
        status = tess_store_show(NULL, dir, step);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(NULL, dir, step, status);
}

static tess_status put_folder(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    char there[TESS_CKPT_PATH];
    (void)out;
    TESS_TRY(tess_os_make_dirs(task->place->folder));
    if (tess_ckpt_find(task->place->io, task->place->folder, task->step, there) == TESS_OK &&
        is_same(task->place->io, task->from, there) && copy_verify(there, task->step, apart) == TESS_OK)
        return TESS_OK;
    tess_error_clear();
    return copy_in(task->place->io, task->from, task->place->folder, task->step, apart);
}

static tess_status put(const tess_ckpt_place *place, const char *from, const char *back, int64_t step)
{
    place_task task = {.place = place, .from = from, .step = step};
    return place->folder != NULL ? run(put_folder, &task, NULL, 0) : copy_command_put(place, from, back, step);
}

/* Whether the program already has the checkpoint in `folder`: it got this one last, and still lists it. */
static bool has_stored(const tess_ckpt_place *place, const char *dir, const char *scratch, const char *folder,
                       int64_t step)
{
    tess_ckpt_place_steps steps = {0};
    bool has = false;
    if (place->folder == NULL && copy_record_has(place, dir, scratch, folder, step) &&
        copy_command_list(place, &steps) == TESS_OK)
        for (int i = 0; i < steps.n && !has; i++)
            has = steps.step[i] == step;
    tess_error_clear();
    return has;
}

tess_status tess_ckpt_place_put(const tess_ckpt_place *place, const char *dir, const char *scratch, int64_t step)
{
    char path[TESS_CKPT_PATH], links[TESS_CKPT_PATH], back[TESS_CKPT_PATH], found[TESS_CKPT_PATH], name[COPY_NAME];
    copy_name(step, name);
    TESS_TRY(tess_os_join(path, sizeof(path), dir, scratch));
    TESS_TRY(tess_os_join(links, sizeof(links), path, name));
    TESS_TRY(tess_os_join(back, sizeof(back), path, "read-back"));
    TESS_TRY(tess_os_remove_tree(path));
    TESS_TRY(tess_ckpt_find(NULL, dir, step, found));
    if (has_stored(place, dir, scratch, found, step))
        return TESS_OK;
    bool linked = copy_link_files(found, links) == TESS_OK; /* not every file system has hard links */
    tess_error_clear();
    const char *from = linked ? links : found;
    tess_status status = put(place, from, back, step);
    if (status == TESS_OK && place->folder == NULL)
        copy_record_write(place, dir, scratch, from, step);
    if (status != TESS_OK)
        tess_fail_context(status, "copy of step %lld to %s", (long long)step, tess_ckpt_place_name(place));
    if (status == TESS_OK)
        return tess_os_remove_tree(path);
    char message[2048];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    return tess_os_remove_tree(path) == TESS_OK ? status : TESS_FAIL(status, "%s", message);
}

/* ---- Bringing one back ---- */
static tess_status get_folder(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    char there[TESS_CKPT_PATH];
    (void)out;
    TESS_TRY(tess_ckpt_find(task->place->io, task->place->folder, task->step, there));
    return copy_in(task->place->io, there, task->dir, task->step, apart);
}

static tess_status get_by_command(const place_task *task)
{
    char temporary[TESS_CKPT_PATH];
    TESS_TRY(tess_store_begin(NULL, task->dir, task->step, temporary));
    tess_status status = copy_command_get(task->place, temporary, task->step);
    if (status == TESS_OK)
        status = tess_store_show(NULL, task->dir, task->step);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(NULL, task->dir, task->step, status);
}

tess_status tess_ckpt_place_get(const tess_ckpt_place *place, const char *dir, int64_t step)
{
    place_task task = {.place = place, .dir = dir, .step = step};
    return place->folder != NULL ? run(get_folder, &task, NULL, 0) : get_by_command(&task);
}

/* ---- Keeping order ---- */
/* Sets aside the copies above task->step. *out: how many. */
static tess_status set_folder_aside(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    tess_os_entry entry;
    (void)apart;
    TESS_TRY(tess_io_look_up(task->place->io, task->place->folder, &entry));
    return entry.kind == TESS_OS_FOLDER ? tess_ckpt_set_aside(task->place->folder, task->step, out) : TESS_OK;
}

/* Sets one copy aside. */
static tess_status set_one_aside(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    char from[TESS_CKPT_PATH], to[TESS_CKPT_PATH], suffix[32] = ".aside";
    (void)apart;
    (void)out;
    TESS_TRY(tess_ckpt_find(task->place->io, task->place->folder, task->step, from));
    TESS_TRY(tess_ckpt_folder(task->place->folder, task->step, suffix, to));
    for (int i = 2; tess_os_is_dir(to); i++) {
        snprintf(suffix, sizeof(suffix), ".aside-%d", i);
        TESS_TRY(tess_ckpt_folder(task->place->folder, task->step, suffix, to));
    }
    return tess_os_rename(from, to);
}

tess_status tess_ckpt_place_set_aside(const tess_ckpt_place *place, const char *home, int64_t step, int *n)
{
    place_task task = {.place = place, .step = step};
    tess_ckpt_place_steps steps;
    *n = 0;
    if (place->folder != NULL && home == NULL)
        return run(set_folder_aside, &task, n, sizeof(*n));
    TESS_TRY(tess_ckpt_place_list(place, &steps));
    for (int i = 0; i < steps.n; i++) {
        task.step = steps.step[i];
        if (home != NULL ? !copy_is_aside(home, task.step) : task.step <= step)
            continue;
        TESS_TRY(place->folder != NULL ? run(set_one_aside, &task, NULL, 0) : copy_command_set_aside(place, task.step));
        ++*n;
    }
    return TESS_OK;
}

static tess_status prune_folder(void *self, copy_apart *apart, void *out)
{
    const place_task *task = self;
    (void)apart;
    (void)out;
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    return tess_ckpt_prune(&(tess_ckpt_pruner){.mem = mem}, task->place->folder, task->keep, task->step);
}

tess_status tess_ckpt_place_prune(const tess_ckpt_place *place, int keep, int64_t newest)
{
    place_task task = {.place = place, .step = newest, .keep = keep};
    tess_ckpt_place_steps steps;
    int n_kept = 0;
    if (keep == 0)
        return TESS_OK;
    TESS_TRY(tess_ckpt_place_list(place, &steps));
    if (steps.n <= keep)
        return TESS_OK;
    if (place->folder != NULL)
        return run(prune_folder, &task, NULL, 0);
    for (int i = 0; i < steps.n; i++)
        if (steps.step[i] <= newest && n_kept++ >= keep)
            TESS_TRY(copy_command_remove(place, steps.step[i]));
    return TESS_OK;
}
