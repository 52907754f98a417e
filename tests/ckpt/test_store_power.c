/* Power cuts at every call of a save, for many states in which a disk may leave unsynced changes: checkpoints whose
 * save returned are there, and no checkpoint is found with other bits than those saved. */
#include <errno.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "disk_model.h"

enum { ROWS = 48, COLUMNS = 64, WRITERS = 2, KEPT = 2, SAVES = 8, NEVER = 1 << 20, SEEN = 1 << 16 };

typedef struct saved {
    int64_t step;
    int values;     /* values that were saved */
    int begin, end; /* changes of the disk before it and when it had returned; end NEVER: it did not, or failed */
} saved;

/* One run of saves on a disk. */
static struct {
    disk disk;
    char folder[512]; /* folder of checkpoints */
    saved saves[SAVES];
    int n_saves, n_asked;
    int fails_at, fails_until; /* calls that are not made */
    bool exchanges;
} run;

static struct {
    uint64_t seen[SEEN]; /* hashes of what was looked at */
    int n_states, n_bad;
    bool (*lies)(const disk *d, int change); /* true: the disk lies about this change */
    char first_bad[1024];
} tally;

/* ---- Saving */
static int ask(void *self, tess_save_point point)
{
    (void)self;
    int call = run.n_asked++;
    if (call >= run.fails_at && call < run.fails_until)
        return EIO;
    return point == TESS_SAVE_EXCHANGE && !run.exchanges ? ENOSYS : 0;
}

static float value_of(int values, int64_t i)
{
    return values % 2 ? (float)values : (float)values + (float)i / 128; /* some can be packed */
}

static tess_status write_and_commit(const tess_io *io, int64_t step, int values)
{
    static float data[ROWS * COLUMNS];
    char folder[TESS_CKPT_PATH], file[32];
    json_t *parts[WRITERS] = {NULL};
    const tess_store_options options = {.codec = values % 2 ? TESS_CODEC_ZSTD : TESS_CODEC_NONE, .io = io};
    const tess_store_facts facts = {.world_size = WRITERS};
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        data[i] = value_of(values, i);
    TESS_TRY(tess_store_begin(io, run.folder, step, folder));
    tess_status status = TESS_OK;
    for (int w = 0; w < WRITERS && status == TESS_OK; w++) {
        tess_store_piece piece = {"model.w",
                                  "F32",
                                  false,
                                  2,
                                  {ROWS, COLUMNS},
                                  {{w * ROWS / WRITERS}, {ROWS / WRITERS, COLUMNS}},
                                  w,
                                  data + w * ROWS / WRITERS * COLUMNS};
        piece.held = piece.box;
        snprintf(file, sizeof(file), "rank-%05d.data", w);
        status = tess_store_write_part(test_mem(), &options, folder, file, &piece, 1, &parts[w]);
    }
    if (status == TESS_OK)
        status = tess_store_commit(io, run.folder, step, parts, WRITERS, &facts);
    for (int w = 0; w < WRITERS; w++)
        json_decref(parts[w]);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(io, run.folder, step, status);
}

static void save(int64_t step)
{
    saved *s = &run.saves[run.n_saves++];
    const tess_io io = {.ask = ask, .made = disk_record, .self = &run.disk};
    *s = (saved){step, run.n_saves, run.disk.n_changes, NEVER};
    if (write_and_commit(&io, step, s->values) != TESS_OK)
        return;
    s->end = run.disk.n_changes;
    (void)tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem(), .io = &io}, run.folder, KEPT, step);
}

static void begin(const char *name, bool exchanges)
{
    const char *root = path_in(test_folder(), name);
    EXPECT_OK(tess_os_make_dir(root));
    disk_clear(&run.disk, root);
    snprintf(run.folder, sizeof(run.folder), "%s/checkpoint", root);
    run.n_saves = run.n_asked = 0;
    run.fails_at = NEVER, run.fails_until = 0;
    run.exchanges = exchanges;
}

/* ---- Looking */
static void begin_tally(bool (*lies)(const disk *d, int change))
{
    memset(&tally, 0, sizeof(tally));
    tally.lies = lies;
}

/* The save whose checkpoint is there; -1: none, or it is damaged. */
static int load(const char *dir, int64_t step)
{
    static float data[ROWS * COLUMNS];
    tess_ckpt_tensor tensor = {.name = "w", .shape = {2, {ROWS, COLUMNS}}, .box = {{0}, {ROWS, COLUMNS}}, .data = data};
    if (tess_ckpt_load(test_mem(), NULL, dir, step, &tensor, 1, NULL, NULL) != TESS_OK)
        return -1;
    for (int k = 0; k < run.n_saves; k++) {
        bool same = run.saves[k].step == step;
        for (int64_t i = 0; i < ROWS * COLUMNS && same; i++)
            same = data[i] == value_of(run.saves[k].values, i);
        if (same)
            return k;
    }
    return -1;
}

/* The last save of a step that returned; -1: none. */
static int last_of(int64_t step, int now)
{
    int last = -1;
    for (int k = 0; k < run.n_saves; k++)
        if (run.saves[k].step == step && run.saves[k].end <= now)
            last = k;
    return last;
}

/* The highest step below `limit` whose save returned; -1: none. */
static int64_t highest_below(int64_t limit, int now)
{
    int64_t step = -1;
    for (int k = 0; k < run.n_saves; k++)
        if (run.saves[k].end <= now && run.saves[k].step < limit && run.saves[k].step > step)
            step = run.saves[k].step;
    return step;
}

/* Returns what is wrong; NULL: nothing. */
static const char *judge(const char *dir, int now)
{
    int64_t newest = highest_below(INT64_MAX, now), before = highest_below(newest, now), step;
    bool has_newest = newest < 0, has_before = before < 0;
    for (int64_t limit = INT64_MAX; tess_ckpt_latest_until(dir, limit, NULL, &step) == TESS_OK; limit = step - 1) {
        int k = load(dir, step);
        if (k < 0)
            return tess_error_message()[0] != '\0' ? tess_error_message() : "what is found has bits of no save";
        if (k < last_of(step, now))
            return "what is found is older than what was saved last";
        has_newest |= step == newest;
        has_before |= step == before;
    }
    return !has_newest ? "the newest is not found" : !has_before ? "the one before is not found" : NULL;
}

/* The same tree may be right or wrong at another time, after other saves. */
static bool is_new(uint64_t hash, int now)
{
    for (int k = 0; k < run.n_saves; k++)
        hash = hash * 31 + (uint64_t)run.saves[k].step * 2 + (run.saves[k].end <= now);
    uint64_t at = hash % SEEN;
    while (tally.seen[at] != 0 && tally.seen[at] != hash)
        at = (at + 1) % SEEN;
    bool new = tally.seen[at] == 0;
    tally.seen[at] = hash;
    return new;
}

static void note_bad(const char *why, int now)
{
    if (tally.n_bad++ == 0)
        snprintf(tally.first_bad, sizeof(tally.first_bad), "cut before change %d, call %d: %s", now,
                 run.disk.changes[now > 0 ? now - 1 : 0].call, why);
}

static void look(disk_cut *cut, const disk_fate *fate)
{
    static disk_node nodes[DISK_NODES];
    char dir[600];
    const char *root = path_in(test_folder(), "after");
    disk_after(cut, fate, nodes);
    if (is_new(disk_hash(nodes, 0), cut->n)) {
        disk_lay_out(nodes, 0, root);
        snprintf(dir, sizeof(dir), "%s/checkpoint", root);
        const char *why = judge(dir, cut->n);
        tally.n_states++;
        if (why != NULL)
            note_bad(why, cut->n);
        tess_error_clear();
        EXPECT_OK(tess_os_remove_tree(root));
    }
    disk_forget(nodes, run.disk.n_nodes);
}

/* Cuts the power before every change from `first` on: with all or no unsynced changes, each one alone, and `drawn`
 * random subsets. */
static void cut_everywhere(int first, int drawn, bool singly)
{
    static disk_cut cut;
    for (int now = first; now <= run.disk.n_changes; now++) {
        disk_cut_at(&run.disk, now, tally.lies, &cut);
        look(&cut, &(disk_fate){DISK_ALL_KEPT, -1, 0});
        look(&cut, &(disk_fate){DISK_ALL_DROPPED, -1, 0});
        for (int k = 0; k < cut.n_open && singly; k++) {
            look(&cut, &(disk_fate){DISK_ALL_KEPT, cut.open[k], 0});
            look(&cut, &(disk_fate){DISK_ALL_DROPPED, cut.open[k], 0});
        }
        for (int k = 0; k < drawn; k++)
            look(&cut, &(disk_fate){DISK_DRAWN, -1, (uint64_t)(now * 100 + k)});
    }
}

static void expect_none_bad(void)
{
    printf("%d states\n", tally.n_states);
    if (tally.n_bad > 0)
        test_fail(__FILE__, __LINE__, "%d of %d states are bad: %s", tally.n_bad, tally.n_states, tally.first_bad);
}

/* ---- Tests */
static void use_memory(void)
{
    if (tess_os_is_dir("/dev/shm"))
        setenv("TMPDIR", "/dev/shm", 1);
}

/* The first save in a new folder, more saves, one that replaces another, and pruning. */
static void save_some(const char *name, bool exchanges)
{
    static const int64_t steps[] = {4, 5, 5, 6, 7};
    begin(name, exchanges);
    for (int i = 0; i < 5; i++)
        save(steps[i]);
    EXPECT_INT(run.saves[4].end < NEVER, true);
}

static void no_power_cut_loses_a_checkpoint(void)
{
    use_memory();
    begin_tally(NULL);
    for (int exchanges = 0; exchanges < 2; exchanges++) {
        save_some(exchanges ? "with" : "without", exchanges);
        cut_everywhere(0, 12, true);
    }
    EXPECT(tally.n_states > 400);
    expect_none_bad();
}

/* The calls from `at` up to `until` are not made: the process was killed, or they failed. Then another save continues
 * from that state, and the power is cut. */
static bool fail_and_cut(int at, int until, bool exchanges, int64_t next)
{
    char name[64];
    snprintf(name, sizeof(name), "fails-%d-%d-%d-%d", at, until, exchanges, (int)next);
    begin(name, exchanges);
    save(4);
    save(5);
    int first = run.disk.n_changes;
    run.n_asked = 0;
    run.fails_at = at, run.fails_until = until;
    save(5);
    bool went_on = run.n_asked > at;
    run.fails_at = NEVER;
    save(next);
    EXPECT(run.saves[3].end < NEVER);
    cut_everywhere(first, 1, false);
    EXPECT_OK(tess_os_remove_tree(run.disk.root));
    return went_on;
}

static void no_power_cut_after_a_kill_or_an_error_does(void)
{
    use_memory();
    begin_tally(NULL);
    for (int exchanges = 0; exchanges < 2; exchanges++)
        for (int at = 0; fail_and_cut(at, NEVER, exchanges, 5 + at % 2); at++)
            fail_and_cut(at, at + 1, exchanges, 6 - at % 2);
    EXPECT(tally.n_states > 400);
    expect_none_bad();
}

/* ---- Disks that lie: the test must notice a missing sync */
static bool is_last_name(const disk *d, int change, const char *part)
{
    int node = d->changes[change].node;
    for (int i = 0; i < change; i++)
        if (d->changes[i].kind == DISK_ADD && d->changes[i].target == node && strstr(d->changes[i].name, part) != NULL)
            return true;
    return false;
}

static bool lies_of_data(const disk *d, int change)
{
    return is_last_name(d, change, ".data");
}

static bool lies_of_manifest(const disk *d, int change)
{
    return is_last_name(d, change, "manifest.json");
}

static bool lies_of_marker(const disk *d, int change)
{
    return is_last_name(d, change, "commit.json");
}

static bool lies_of_folder(const disk *d, int change)
{
    return is_last_name(d, change, "step-");
}

static bool lies_of_names(const disk *d, int change)
{
    return is_last_name(d, change, "checkpoint");
}

static bool lies_of_parent(const disk *d, int change)
{
    return d->changes[change].node == 0;
}

/* The sync of names before a removal; a save's own comes before the sync of the parent folder. */
static bool lies_before_removal(const disk *d, int change)
{
    bool of_save = change + 1 < d->n_changes && d->changes[change + 1].kind == DISK_SYNC;
    return lies_of_names(d, change) && !of_save;
}

static void every_sync_is_needed(void)
{
    static const struct {
        const char *what;
        bool (*lies)(const disk *d, int change);
        bool after_kill;
    } syncs[] = {{"data", lies_of_data},
                 {"manifest", lies_of_manifest},
                 {"marker", lies_of_marker},
                 {"folder", lies_of_folder},
                 {"names", lies_of_names},
                 {"parent", lies_of_parent},
                 {"names before a removal", lies_before_removal, true}};
    use_memory();
    for (size_t i = 0; i < sizeof(syncs) / sizeof(syncs[0]); i++) {
        begin_tally(syncs[i].lies);
        if (!syncs[i].after_kill) {
            save_some(syncs[i].what, true);
            cut_everywhere(0, 0, false);
        }
        for (int at = 0; syncs[i].after_kill && fail_and_cut(at, NEVER, true, 5); at++)
            continue;
        if (tally.n_bad == 0)
            test_fail(__FILE__, __LINE__, "nothing is lost without the sync of %s", syncs[i].what);
        printf("without the sync of %s: %d bad states, %s\n", syncs[i].what, tally.n_bad, tally.first_bad);
    }
}

static const test_case cases[] = {
    CASE(no_power_cut_loses_a_checkpoint),
    CASE(no_power_cut_after_a_kill_or_an_error_does),
    CASE(every_sync_is_needed),
};
TEST_MAIN(cases)
