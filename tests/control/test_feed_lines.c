/* Lines of a file that grows, and that is replaced by its beginning when a run goes back. */
#include "support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/feed/feed_lines.h"

static void append(const char *text)
{
    char path[600];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "lines"));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void replace(const char *text)
{
    char path[600];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "lines"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

/* Takes the next line, which must be `expected`; NULL: there is none. */
static void take(feed_lines *lines, const char *expected)
{
    size_t n = 0;
    const char *line = feed_lines_next(lines, &n);
    EXPECT((line == NULL) == (expected == NULL));
    if (line == NULL || expected == NULL)
        return;
    EXPECT_INT(n, strlen(expected));
    EXPECT(memcmp(line, expected, n) == 0);
    feed_lines_take(lines);
}

static void lines_are_taken_when_they_are_complete(void)
{
    feed_lines lines;
    EXPECT_OK(feed_lines_open(test_mem(), test_folder(), "lines", false, &lines));
    take(&lines, NULL);
    append("a\nb");
    feed_lines_follow(&lines);
    take(&lines, "a");
    take(&lines, NULL);
    append("c\n\n");
    take(&lines, "bc");
    take(&lines, "");
    take(&lines, NULL);
    feed_lines_close(&lines);
    EXPECT_OK(feed_lines_open(test_mem(), test_folder(), "lines", true, &lines));
    take(&lines, NULL);
    append("d\n");
    take(&lines, "d");
    feed_lines_close(&lines);
}

static void a_replaced_file_goes_on_after_the_common_lines(void)
{
    feed_lines lines;
    append("one\ntwo\nthree\nfour\n");
    EXPECT_OK(feed_lines_open(test_mem(), test_folder(), "lines", false, &lines));
    take(&lines, "one");
    take(&lines, "two");
    take(&lines, "three");
    replace("one\ntwo\n");
    append("other\n");
    feed_lines_follow(&lines);
    take(&lines, "other");
    /* The reader is behind: what it has not taken yet still follows. */
    append("five\nsix\n");
    take(&lines, "five");
    replace("one\ntwo\nother\nfive\nsix\nseven\n");
    feed_lines_follow(&lines);
    take(&lines, "six");
    take(&lines, "seven");
    /* All lines are others. */
    replace("new\n");
    feed_lines_follow(&lines);
    take(&lines, "new");
    take(&lines, NULL);
    feed_lines_close(&lines);
}

static void long_lines_are_whole(void)
{
    enum { LONG = 300000 };
    char *text = malloc(LONG + 2);
    feed_lines lines;
    EXPECT(text != NULL);
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 26);
    text[LONG] = '\n';
    text[LONG + 1] = '\0';
    append("short\n");
    append(text);
    append("end\n");
    EXPECT_OK(feed_lines_open(test_mem(), test_folder(), "lines", false, &lines));
    take(&lines, "short");
    text[LONG] = '\0';
    take(&lines, text);
    take(&lines, "end");
    feed_lines_close(&lines);
    free(text);
}

static void steps_are_read_from_lines(void)
{
    static const char *const lines[] = {"{\"step\": 12, \"loss\": 1}", "{\"step\": 12}", "{\"loss\": 1}", "",
                                        "{\"step\": x"};
    static const int64_t steps[] = {12, -1, -1, -1, -1};
    for (int i = 0; i < 5; i++)
        EXPECT_INT(feed_line_step(lines[i], strlen(lines[i])), steps[i]);
}

static const test_case cases[] = {
    CASE(lines_are_taken_when_they_are_complete),
    CASE(a_replaced_file_goes_on_after_the_common_lines),
    CASE(long_lines_are_whole),
    CASE(steps_are_read_from_lines),
};
TEST_MAIN(cases)
