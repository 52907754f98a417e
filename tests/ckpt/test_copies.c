/* Copies of checkpoints in several places: after any fault that leaves one good copy of the newest checkpoint, a start
 * has it at home, bit for bit. TESS_TEST_FAULTS=500 sets the number of random faults. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "ckpt/store/copies.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "files.h"
#include "state.h"

enum { STEPS = 3, PLACES = 2, FEW_FAULTS = 40 };

static void save(const char *dir, int64_t step)
{
    static state state;
    make_state(&state, 1, 0, false, step);
    EXPECT_OK(tess_ckpt_save(test_mem(), NULL, dir, step, NULL, state.tensors, N, NULL));
}

static void expect_good(const char *dir, int64_t step)
{
    static state got;
    make_state(&got, 1, 0, false, 0);
    blank(&got);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, dir, step, got.tensors, N, NULL, NULL));
    expect_state(&got, 1, 0, false, step);
}

/* ---- Folders ---- */
/* A look at a place hangs until this time. */
static int hang(void *self, const char *path)
{
    (void)path;
    while (tess_os_now_s() < *(const double *)self)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}

typedef struct rig {
    char folder[1 + PLACES][1024]; /* the run's own, and the places */
    double hangs_until_s[PLACES];
    tess_io io[PLACES];
    tess_ckpt_place places[PLACES];
    char notes[8192];
    size_t n_notes;
} rig;

static void keep_note(void *self, const char *text)
{
    rig *r = self;
    r->n_notes += (size_t)snprintf(r->notes + r->n_notes, sizeof(r->notes) - r->n_notes, "%s\n", text);
    r->n_notes = r->n_notes < sizeof(r->notes) ? r->n_notes : sizeof(r->notes) - 1;
}

static void make_rig(rig *r, const char *name)
{
    *r = (rig){.n_notes = 0};
    for (int i = 0; i <= PLACES; i++)
        snprintf(r->folder[i], sizeof(r->folder[i]), "%s/%s-%d", test_folder(), name, i);
    for (int i = 0; i < PLACES; i++) {
        r->io[i] = (tess_io){.look = hang, .self = &r->hangs_until_s[i]};
        r->places[i] = (tess_ckpt_place){.folder = r->folder[1 + i], .wait_s = 20, .io = &r->io[i]};
    }
}

static int64_t bring(rig *r, double wait_s)
{
    int64_t brought;
    const tess_ckpt_bringer bringer = {r->folder[0], r->places, PLACES, wait_s, r, keep_note};
    r->n_notes = 0;
    EXPECT_OK(tess_ckpt_bring(&bringer, -1, &brought));
    return brought;
}

static void copy_step(const char *from, const char *to, int64_t step)
{
    static const char *const names[] = {"rank-00000.data", "manifest.json", "commit.json"};
    char a[1200], b[1200];
    snprintf(b, sizeof(b), "%s/step-%08d", to, (int)step);
    EXPECT_OK(tess_os_make_dirs(b));
    for (size_t i = 0; i < 3; i++) {
        char *text;
        size_t size;
        snprintf(a, sizeof(a), "%s/step-%08d/%s", from, (int)step, names[i]);
        snprintf(b, sizeof(b), "%s/step-%08d/%s", to, (int)step, names[i]);
        EXPECT_OK(tess_os_read(test_mem(), a, 1 << 20, &text, &size));
        FILE *file = fopen(b, "w");
        EXPECT(file != NULL && fwrite(text, 1, size, file) == size && fclose(file) == 0);
        tess_mem_free(test_mem(), text);
    }
}

/* ---- Faults ---- */
enum { FLIPS, CUT, LOSES_FILE, LOSES_STEP, STALE, GONE, HANGS, KINDS };

static uint64_t draw(uint64_t seed, int which, uint64_t n)
{
    return tess_rng_u64(seed, TESS_RNG_TEST, 0, (uint64_t)which) % n;
}

/* Changes one byte of the newest checkpoint in a place that its checksums cover. */
static void flip(const char *path, uint64_t word)
{
    char *text;
    size_t size;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &text, &size));
    size_t at = (size_t)(word % (size > 64 ? 64 : size)); /* the first piece: padding has no checksum */
    text[at] = (char)(text[at] ^ (1 << (word >> 32) % 8));
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL && fwrite(text, 1, size, file) == size && fclose(file) == 0);
    tess_mem_free(test_mem(), text);
}

static void break_place(rig *r, int place, uint64_t seed, int salt)
{
    static const char *const names[] = {"rank-00000.data", "manifest.json", "commit.json"};
    int kind = (int)draw(seed, salt, place == 0 ? HANGS : KINDS);
    char path[1200], step[1100];
    if (kind == HANGS && draw(seed, salt + 3, 4) != 0) /* each costs the time that a start waits */
        kind = GONE;
    snprintf(step, sizeof(step), "%s/step-%08d", r->folder[place], STEPS);
    snprintf(path, sizeof(path), "%s/%s", step, names[draw(seed, salt + 1, 3)]);
    if (kind == FLIPS)
        flip(path, draw(seed, salt + 2, UINT64_MAX));
    else if (kind == CUT)
        EXPECT_INT(truncate(path, (off_t)draw(seed, salt + 2, 40)), 0);
    else if (kind == LOSES_FILE)
        tess_os_remove(path);
    else if (kind == LOSES_STEP || kind == STALE)
        EXPECT_OK(tess_os_remove_tree(step));
    else if (kind == GONE)
        EXPECT_OK(tess_os_remove_tree(r->folder[place]));
    else
        r->hangs_until_s[place - 1] = tess_os_now_s() + 3600;
    if (kind == STALE) {
        snprintf(step, sizeof(step), "%s/step-%08d", r->folder[place], STEPS - 1);
        EXPECT_OK(tess_os_remove_tree(step));
    }
}

/* One place alone stays as it was; every other one has a fault, or none. */
static void nothing_is_lost_by_random_faults(void)
{
    const char *text = getenv("TESS_TEST_FAULTS"), *template = path_in(test_folder(), "template");
    int n = text != NULL ? atoi(text) : FEW_FAULTS;
    for (int64_t step = 1; step <= STEPS; step++)
        save(template, step);
    for (int trial = 0; trial < n; trial++) {
        rig r;
        uint64_t seed = (uint64_t)trial;
        int spared = (int)draw(seed, 0, 1 + PLACES);
        make_rig(&r, "run");
        for (int place = 0; place <= PLACES; place++) {
            EXPECT_OK(tess_os_remove_tree(r.folder[place]));
            for (int64_t step = 1; step <= STEPS; step++)
                copy_step(template, r.folder[place], step);
            if (place != spared)
                break_place(&r, place, seed, 1 + 4 * place);
        }
        double begin_s = tess_os_now_s();
        bool hangs = r.hangs_until_s[0] > 0 || r.hangs_until_s[1] > 0;
        bring(&r, hangs ? 6 : 60); /* a slow machine must not look like a place that hangs */
        EXPECT(tess_os_now_s() - begin_s < 120);
        expect_good(r.folder[0], STEPS);
    }
}

static void a_place_that_answers_late_is_waited_for(void)
{
    rig r;
    make_rig(&r, "late");
    save(r.folder[0], 1);
    save(r.folder[1], 2);
    r.hangs_until_s[0] = tess_os_now_s() + 0.5;
    EXPECT_INT(bring(&r, 60), 2);
    expect_good(r.folder[0], 2);
}

static void a_place_that_never_answers_is_passed_over(void)
{
    rig r;
    make_rig(&r, "never");
    save(r.folder[0], 1);
    save(r.folder[2], 2);
    r.hangs_until_s[0] = tess_os_now_s() + 3600;
    EXPECT_INT(bring(&r, 4), 2);
    EXPECT_CONTAINS(r.notes, "cannot be used, and is passed over");
    EXPECT_CONTAINS(r.notes, "step 2 was brought from");
    expect_good(r.folder[0], 2);
}

/* ---- Copies ---- */
static void a_copy_is_made_read_back_and_pruned(void)
{
    rig r;
    int n;
    tess_ckpt_place_steps steps;
    make_rig(&r, "put");
    for (int64_t step = 1; step <= STEPS; step++) {
        save(r.folder[0], step);
        EXPECT_OK(tess_ckpt_place_put(&r.places[0], r.folder[0], "copying-0", step));
    }
    EXPECT_OK(tess_ckpt_place_prune(&r.places[0], 2, STEPS));
    EXPECT_TEXT(names_in(r.folder[1]), "step-00000002 step-00000003");
    flip(path_in(r.folder[1], "step-00000003/rank-00000.data"), 5);
    EXPECT_OK(tess_ckpt_place_put(&r.places[0], r.folder[0], "copying-0", STEPS)); /* the damaged one is replaced */
    expect_good(r.folder[1], STEPS);
    EXPECT_TEXT(names_in(r.folder[0]), "step-00000001 step-00000002 step-00000003");
    EXPECT_OK(tess_ckpt_set_aside(r.folder[0], 2, &n)); /* the run goes back to step 2 */
    EXPECT_INT(bring(&r, 5), -1);
    EXPECT_OK(tess_ckpt_place_set_aside(&r.places[0], r.folder[0], -1, &n));
    EXPECT_INT(n, 1);
    EXPECT_OK(tess_ckpt_place_list(&r.places[0], &steps));
    EXPECT_INT(steps.n, 1);
    EXPECT_INT(steps.step[0], 2);
}

static void a_damaged_checkpoint_is_no_copy(void)
{
    rig r;
    make_rig(&r, "bad");
    save(r.folder[0], 1);
    flip(path_in(r.folder[0], "step-00000001/rank-00000.data"), 9);
    EXPECT_FAILS(tess_ckpt_place_put(&r.places[0], r.folder[0], "copying-0", 1), TESS_E_FORMAT, "checksum");
    EXPECT_TEXT(names_in(r.folder[1]), "");
    EXPECT_TEXT(names_in(r.folder[0]), "step-00000001");
}

/* ---- A program ---- */
static const char program[] = "#!/bin/sh\n"
                              "set -e; cd \"$0.store\"; verb=$1; a=$2; b=$3\n"
                              "case $verb in\n"
                              "put) rm -rf \"$b\"; cp -r \"$a\" \"$b\";;\n"
                              "get) cp \"$a\"/* \"$b\";;\n"
                              "list) ls;;\n"
                              "move) mv \"$a\" \"$b\";;\n"
                              "remove) rm -r \"$a\";;\n"
                              "esac\n";

static void a_program_stores_copies(void)
{
    rig r;
    make_rig(&r, "program");
    char *path = (char *)(uintptr_t)path_in(test_folder(), "store.sh"), store[1100];
    snprintf(store, sizeof(store), "%s.store", path);
    put_file(path, program, sizeof(program) - 1);
    EXPECT_INT(chmod(path, 0755), 0);
    char *command[] = {path};
    r.places[1] = (tess_ckpt_place){.command = command, .n_words = 1, .wait_s = 60};
    save(r.folder[0], 1);
    EXPECT_FAILS(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", 1), TESS_E_IO, "put");
    EXPECT_OK(tess_os_make_dirs(store));
    for (int64_t step = 1; step <= STEPS; step++) {
        save(r.folder[0], step);
        EXPECT_OK(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", step));
    }
    EXPECT_TEXT(names_in(store), "step-00000001 step-00000002 step-00000003");
    EXPECT_OK(tess_ckpt_place_prune(&r.places[1], 2, STEPS));
    EXPECT_TEXT(names_in(store), "step-00000002 step-00000003");
    EXPECT_OK(tess_os_remove_tree(r.folder[0]));
    EXPECT_INT(bring(&r, 60), STEPS);
    expect_good(r.folder[0], STEPS);
    EXPECT_OK(tess_os_remove_tree(r.folder[0]));
    flip(path_in(store, "step-00000003/rank-00000.data"), 5);
    EXPECT_INT(bring(&r, 60), 2); /* the newest copy is damaged */
    EXPECT_CONTAINS(r.notes, "the copy of step 3 in");
}

/* A program that logs its first word, and runs the other one. */
static const char counting[] = "#!/bin/sh\necho \"$1\" >>\"$0.log\"\nexec \"${0%/*}/store.sh\" \"$@\"\n";

static int count_lines(const char *path, const char *line)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");
    int n = 0;
    while (file != NULL && fgets(text, sizeof(text), file) != NULL)
        n += strcmp(text, line) == 0;
    if (file != NULL)
        fclose(file);
    return n;
}

static void a_program_does_not_store_the_same_checkpoint_twice(void)
{
    rig r;
    make_rig(&r, "twice");
    char path[1100], store[1200], log[1200], counts[1100];
    snprintf(path, sizeof(path), "%s", path_in(test_folder(), "store.sh"));
    snprintf(counts, sizeof(counts), "%s", path_in(test_folder(), "counts.sh"));
    snprintf(store, sizeof(store), "%s.store", path);
    snprintf(log, sizeof(log), "%s.log", counts);
    put_file(path, program, sizeof(program) - 1);
    put_file(counts, counting, sizeof(counting) - 1);
    EXPECT_INT(chmod(path, 0755) | chmod(counts, 0755), 0);
    EXPECT_OK(tess_os_remove_tree(store));
    EXPECT_OK(tess_os_make_dirs(store));
    char *command[] = {counts}, *other[] = {counts, ""};
    r.places[1] = (tess_ckpt_place){.command = command, .n_words = 1, .wait_s = 60};
    save(r.folder[0], 1);
    for (int start = 0; start < 3; start++)
        EXPECT_OK(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", 1));
    EXPECT_INT(count_lines(log, "put\n"), 1);
    EXPECT_INT(count_lines(log, "get\n"), 1);
    save(r.folder[0], 2); /* a new one is stored */
    EXPECT_OK(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", 2));
    EXPECT_INT(count_lines(log, "put\n"), 2);
    EXPECT_OK(tess_os_remove_tree(path_in(store, "step-00000002"))); /* the program has lost it */
    EXPECT_OK(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", 2));
    EXPECT_INT(count_lines(log, "put\n"), 3);
    r.places[1] = (tess_ckpt_place){.command = other, .n_words = 1, .wait_s = 60, .trusts_command = true};
    EXPECT_OK(tess_ckpt_place_put(&r.places[1], r.folder[0], "copying-1", 2)); /* it was read back before, now not */
    EXPECT_INT(count_lines(log, "put\n"), 4);
}

static const test_case cases[] = {
    CASE(nothing_is_lost_by_random_faults),
    CASE(a_place_that_answers_late_is_waited_for),
    CASE(a_place_that_never_answers_is_passed_over),
    CASE(a_copy_is_made_read_back_and_pruned),
    CASE(a_damaged_checkpoint_is_no_copy),
    CASE(a_program_stores_copies),
    CASE(a_program_does_not_store_the_same_checkpoint_twice),
};
TEST_MAIN(cases)
