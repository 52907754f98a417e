/* The lines that a case heard of others, in memory that it may share with other processes. */
#ifndef TESS_TESTS_SUPPORT_HEARD_H
#define TESS_TESTS_SUPPORT_HEARD_H

enum { TEST_HEARD_LINES = 16 };

typedef struct test_heard {
    int n_lines; /* the first TEST_HEARD_LINES are kept */
    char lines[TEST_HEARD_LINES][1024];
} test_heard;

/* Adds a line, cut to what fits. */
void test_hear(test_heard *heard, const char *line);

void test_expect_heard(const char *file, int line, const test_heard *heard, const char *needle);

/* One of the lines contains `needle`. */
#define EXPECT_HEARD(heard, needle) test_expect_heard(__FILE__, __LINE__, (heard), (needle))

#endif
