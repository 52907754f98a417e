/* The lines that a case received from other processes, in memory that it may share with them. */
#ifndef TESS_TESTS_SUPPORT_HEARD_H
#define TESS_TESTS_SUPPORT_HEARD_H

enum { TEST_HEARD_LINES = 16 };

typedef struct test_heard {
    int n_lines; /* the first TEST_HEARD_LINES are kept */
    char lines[TEST_HEARD_LINES][1024];
} test_heard;

/* Adds a line, cut to the space left. */
void test_hear(test_heard *heard, const char *line);

void test_expect_heard(const char *file, int line, const test_heard *heard, const char *needle);

/* True when a line contains `needle`. */
#define EXPECT_HEARD(heard, needle) test_expect_heard(__FILE__, __LINE__, (heard), (needle))

#endif
