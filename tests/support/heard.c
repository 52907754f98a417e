#include "support/heard.h"

#include "support/test.h"

void test_hear(test_heard *heard, const char *line)
{
    if (heard->n_lines < TEST_HEARD_LINES)
        snprintf(heard->lines[heard->n_lines++], sizeof(heard->lines[0]), "%s", line);
}

void test_expect_heard(const char *file, int line, const test_heard *heard, const char *needle)
{
    for (int i = 0; i < heard->n_lines; i++)
        if (strstr(heard->lines[i], needle) != NULL)
            return;
    for (int i = 0; i < heard->n_lines; i++)
        fprintf(stderr, "      heard: %s\n", heard->lines[i]);
    test_fail(file, line, "none of %d lines has '%s'", heard->n_lines, needle);
}
