/* The kernel table that a machine gets, and the error when it cannot have the one asked for. */
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/cpuid.h"
#include "device/kernel_vote.h"
#include "device/stream_impl.h"

static const char *const names[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx"};
enum { N_NAMES = 5, N_THREADS = 4 };

static void every_table_is_complete_or_says_what_lacks(void)
{
    int n_found = 0;
    bool better_missing = false;
    for (int i = 0; i < N_NAMES; i++) {
        const tess_kernels *kernels = NULL;
        tess_status status = tess_kernels_select(names[i], &kernels);
        if (status != TESS_OK) {
            EXPECT_INT(status, TESS_E_UNSUPPORTED);
            EXPECT_CONTAINS(tess_error_message(), names[i]);
            EXPECT_CONTAINS(tess_error_message(), "lacks ");
            better_missing = true;
            continue;
        }
        EXPECT(!better_missing); /* a level stands on those below it */
        n_found++;
        EXPECT_TEXT(kernels->name, names[i]);
        /* The name, then function pointers alone. */
        void *rows[sizeof(tess_kernels) / sizeof(void *)];
        memcpy(rows, kernels, sizeof(rows));
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
            if (rows[r] == NULL)
                test_fail(__FILE__, __LINE__, "table %s has no row %zu", names[i], r);
    }
    EXPECT(n_found >= 1);
}

/* An instruction that is there may be slower than those of the level below. */
static void the_chosen_table_is_the_highest_that_gains(void)
{
    const tess_kernels *kernels;
    char missing[256];
    int highest = CPU_REF;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        if (tess_cpu_supports((cpu_level)level, missing, sizeof(missing)) && tess_cpu_gains((cpu_level)level))
            highest = level;
    EXPECT_INT(unsetenv("TESSERA_CPU"), 0);
    EXPECT_OK(tess_kernels_select(NULL, &kernels));
    EXPECT_TEXT(kernels->name, names[highest]);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        EXPECT(tess_cpu_gains((cpu_level)level) || level == CPU_AVX512_BF16);
}

static void the_best_is_chosen_unless_the_environment_says(void)
{
    const tess_kernels *best, *kernels;
    EXPECT_INT(unsetenv("TESSERA_CPU"), 0);
    EXPECT_OK(tess_kernels_select(NULL, &best));
    for (int i = 0; i < N_NAMES; i++) {
        EXPECT_INT(setenv("TESSERA_CPU", names[i], 1), 0);
        if (tess_kernels_select(NULL, &kernels) == TESS_OK) {
            EXPECT_TEXT(kernels->name, names[i]);
        } else {
            EXPECT_CONTAINS(tess_error_message(), "TESSERA_CPU");
        }
        const tess_kernels *named;
        if (tess_kernels_select(names[i], &named) == TESS_OK)
            EXPECT(named == kernels);
    }
    /* The argument wins; an empty variable counts as unset. */
    EXPECT_OK(tess_kernels_select("ref", &kernels));
    EXPECT_TEXT(kernels->name, "ref");
    EXPECT_INT(setenv("TESSERA_CPU", "", 1), 0);
    EXPECT_OK(tess_kernels_select(NULL, &kernels));
    EXPECT(kernels == best);
}

static void unknown_names_list_the_choices(void)
{
    const tess_kernels *kernels;
    EXPECT_FAILS(tess_kernels_select("sse", &kernels), TESS_E_INVALID,
                 "'sse' is unknown: choose ref, avx2, avx512, avx512_bf16 or amx");
    EXPECT_INT(setenv("TESSERA_CPU", "AMX", 1), 0);
    EXPECT_FAILS(tess_kernels_select(NULL, &kernels), TESS_E_INVALID, "TESSERA_CPU 'AMX'");
    tess_stream *s = NULL;
    EXPECT_FAILS(tess_stream_create(test_mem(), 1, "sse", &s), TESS_E_INVALID, "create stream: ");
    EXPECT_FAILS(tess_stream_create(test_mem(), 0, "ref", &s), TESS_E_INVALID, "0 threads");
    EXPECT(s == NULL);
}

static void a_limit_stands_for_a_lesser_machine(void)
{
    const tess_kernels *kernels;
    tess_kernels_offer offer;
    EXPECT_INT(unsetenv("TESSERA_CPU"), 0);
    EXPECT_INT(setenv("TESSERA_CPU_MOST", "ref", 1), 0);
    EXPECT_OK(tess_kernels_select(NULL, &kernels));
    EXPECT_TEXT(kernels->name, "ref");
    EXPECT_OK(tess_kernels_offer_of(NULL, &offer));
    EXPECT_INT(offer.level, 0);
    EXPECT(!offer.is_fixed);
    EXPECT_OK(tess_kernels_offer_of("ref", &offer));
    EXPECT(offer.is_fixed);
    if (tess_kernels_offer_of("avx2", &offer) != TESS_OK && strstr(tess_error_message(), "lacks") == NULL)
        EXPECT_CONTAINS(tess_error_message(), "TESSERA_CPU_MOST allows 'ref' at most");
    EXPECT_INT(setenv("TESSERA_CPU_MOST", "amx", 1), 0);
    EXPECT_OK(tess_kernels_select(NULL, &kernels)); /* a limit is no demand */
    EXPECT_INT(setenv("TESSERA_CPU_MOST", "sse", 1), 0);
    EXPECT_FAILS(tess_kernels_select("ref", &kernels), TESS_E_INVALID, "TESSERA_CPU_MOST 'sse' is unknown");
}

static void all_take_the_best_that_all_have(void)
{
    static const struct {
        tess_kernels_offer offers[4];
        int n, level, most, least_of, fixed_by, refused_by;
    } votes[] = {
        {{{4, 0}}, 1, 4, 4, 0, -1, -1},
        {{{4, 0}, {4, 0}, {2, 0}, {2, 0}}, 4, 2, 4, 2, -1, -1},
        {{{1, 0}, {4, 0}, {3, 0}}, 3, 1, 4, 0, -1, -1},
        {{{4, 0}, {1, 1}}, 2, 1, 4, 1, 1, -1},         /* told less than others have: they can follow */
        {{{4, 1}, {1, 0}}, 2, 4, 4, 1, 0, 1},          /* one that cannot */
        {{{3, 1}, {4, 1}}, 2, 3, 4, 0, 0, 1},          /* two were told different ones */
        {{{2, 1}, {2, 1}, {4, 0}}, 3, 2, 4, 0, 0, -1}, /* the same */
    };
    for (size_t i = 0; i < sizeof(votes) / sizeof(votes[0]); i++) {
        const tess_kernels_choice c = tess_kernels_vote(votes[i].offers, sizeof(votes[i].offers[0]), votes[i].n);
        EXPECT_INT(c.level, votes[i].level);
        EXPECT_INT(c.most, votes[i].most);
        EXPECT_INT(c.least_of, votes[i].least_of);
        EXPECT_INT(c.fixed_by, votes[i].fixed_by);
        EXPECT_INT(c.refused_by, votes[i].refused_by);
    }
    EXPECT_TEXT(tess_kernels_name(2), "avx512");
    EXPECT_TEXT(tess_kernels_name(-1), "?");
    EXPECT(tess_kernels_have_bf16("amx") && tess_kernels_have_bf16("avx512_bf16"));
    EXPECT(!tess_kernels_have_bf16("avx512") && !tess_kernels_have_bf16("none"));
}

static void *select_best(void *out)
{
    return tess_kernels_select(NULL, out) == TESS_OK ? out : NULL;
}

static void threads_may_select_at_once(void)
{
    const tess_kernels *found[N_THREADS] = {NULL};
    pthread_t threads[N_THREADS];
    EXPECT_INT(unsetenv("TESSERA_CPU"), 0);
    for (int i = 0; i < N_THREADS; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, select_best, &found[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result;
        EXPECT_INT(pthread_join(threads[i], &result), 0);
        EXPECT(result == &found[i] && found[i] == found[0]);
    }
}

/* A word of /proc/cpuinfo's flags. */
static bool kernel_says(const char *feature)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    EXPECT(file != NULL);
    static char line[1 << 14];
    bool found = false;
    char word[64];
    snprintf(word, sizeof(word), " %s ", feature);
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = ' ';
        found = strncmp(line, "flags", 5) == 0 && strstr(line, word) != NULL;
    }
    fclose(file);
    return found;
}

static void features_are_those_the_system_reports(void)
{
    static const char *const checked[] = {"avx2",     "fma",         "f16c",     "avx512f",
                                          "avx512bw", "avx512_bf16", "amx_tile", "amx_bf16"};
    char text[512], padded[514];
    EXPECT(tess_cpu_features(text, sizeof(text)) == text);
    snprintf(padded, sizeof(padded), " %s ", text);
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        char word[64];
        snprintf(word, sizeof(word), " %s ", checked[i]);
        if ((strstr(padded, word) != NULL) != kernel_says(checked[i]))
            test_fail(__FILE__, __LINE__, "%s: the system says %d, the list is \"%s\"", checked[i],
                      kernel_says(checked[i]), text);
    }
    char small[8];
    EXPECT(strlen(tess_cpu_features(small, sizeof(small))) < sizeof(small));
}

static void scratch_grows_and_stays(void)
{
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 2, "ref", &s));
    void *first, *second, *third;
    EXPECT_OK(tess_stream_scratch(s, 100, &first));
    EXPECT_INT((uintptr_t)first % 64, 0);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, 100);
    EXPECT_OK(tess_stream_scratch(s, 5000, &second));
    EXPECT_OK(tess_stream_scratch(s, 10, &third));
    EXPECT(third == second);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, 5000);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).peak_bytes, 5000);
    tess_stream_destroy(&s);
    EXPECT(s == NULL);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    {.name = "every_table_is_complete_or_says_what_lacks", .run = every_table_is_complete_or_says_what_lacks},
    {.name = "the_chosen_table_is_the_highest_that_gains", .run = the_chosen_table_is_the_highest_that_gains},
    {.name = "the_best_is_chosen_unless_the_environment_says", .run = the_best_is_chosen_unless_the_environment_says},
    {.name = "unknown_names_list_the_choices", .run = unknown_names_list_the_choices},
    {.name = "a_limit_stands_for_a_lesser_machine", .run = a_limit_stands_for_a_lesser_machine},
    {.name = "all_take_the_best_that_all_have", .run = all_take_the_best_that_all_have},
    {.name = "threads_may_select_at_once", .run = threads_may_select_at_once},
    {.name = "features_are_those_the_system_reports", .run = features_are_those_the_system_reports},
    {.name = "scratch_grows_and_stays", .run = scratch_grows_and_stays},
};

TEST_MAIN(cases)
