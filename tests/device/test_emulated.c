/* The emulation of AVX-512 (tools/emulate): what it does not emulate ends the program. Built with TESS_EMULATE alone.
 */
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { LANES = 16, QUIET_NANS = 0x22 };

/* Fixes lanes up whose table has this entry in lane `lane`, and the one in use in the others. */
static void fix_up(const uint32_t *values, int lane, int entry, uint32_t *out)
{
    int32_t tables[LANES];
    __m512 b;
    __m512i table;
    for (int i = 0; i < LANES; i++)
        tables[i] = i == lane ? entry : QUIET_NANS;
    memcpy(&b, values, sizeof(b));
    memcpy(&table, tables, sizeof(table));
    const __m512 fixed = _mm512_fixupimm_ps(_mm512_set1_ps(3), b, table, 0);
    memcpy(out, &fixed, sizeof(fixed));
}

static void fixup_makes_nans_quiet_and_keeps_the_rest(void)
{
    static const uint32_t values[LANES] = {0x7f800001, 0xff800001, 0x7fc00005, 0xffffffff, 0x7f800000, 0xff800000,
                                           0,          0x80000000, 0x3f800000, 1,          0x80000001, 0x7f7fffff};
    uint32_t got[LANES];
    fix_up(values, 0, QUIET_NANS, got);
    for (int i = 0; i < LANES; i++)
        EXPECT_INT(got[i], i < 4 ? values[i] | 0x400000 : 0x40400000);
}

static void a_fixup_table_that_is_not_emulated_ends_the_program(void)
{
    static const int others[] = {0, 0x20, 0x02, 0x11, 0x122, -1};
    static const uint32_t values[LANES];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        int status;
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            uint32_t got[LANES];
            fix_up(values, (int)i * 3, others[i], got);
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static const test_case cases[] = {
    CASE(fixup_makes_nans_quiet_and_keeps_the_rest),
    CASE(a_fixup_table_that_is_not_emulated_ends_the_program),
};
TEST_MAIN(cases)
