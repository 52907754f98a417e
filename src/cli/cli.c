#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/core/options.h"
#include "job/job_memory.h"

static void print_usage(FILE *out, const cli_command *command, const cli_flag *flags, int n_flags)
{
    fprintf(out, "usage: tessera %s %s\n%s\n", command->name, command->arguments, command->help);
    for (int i = 0; i < n_flags; i++) {
        char left[64];
        const char *value = flags[i].value != NULL ? flags[i].value : "";
        snprintf(left, sizeof(left), "%s%s%s", flags[i].name, value[0] != '\0' && value[0] != '[' ? " " : "", value);
        fprintf(out, "  %-26s %s\n", left, flags[i].help);
    }
}

/* The flag that `argument` names, with its value when it is written "--flag=value". */
static const cli_flag *find_flag(const char *argument, const cli_flag *flags, int n_flags, const char **value)
{
    *value = NULL;
    for (int i = 0; i < n_flags; i++) {
        size_t n = strlen(flags[i].name);
        if (strncmp(argument, flags[i].name, n) != 0)
            continue;
        if (argument[n] == '\0')
            return &flags[i];
        if (argument[n] == '=' && flags[i].value != NULL) {
            *value = argument + n + 1;
            return &flags[i];
        }
    }
    return NULL;
}

/* Where the value of `flag` goes; NULL: it was given too often. */
static const char **place_of(const cli_flag *flag)
{
    if (flag->value == NULL || strstr(flag->value, " ...") == NULL)
        return flag->text;
    for (int i = 0; i < CLI_REPEATS; i++)
        if (flag->text[i] == NULL)
            return &flag->text[i];
    return NULL;
}

const char *cli_hint(const char *before, const char *word, const char *const *names, int n, char *text)
{
    const char *nearest = tess_options_nearest(word, names, n);
    text[0] = '\0';
    if (nearest != NULL)
        snprintf(text, CLI_HINT, ": did you mean '%s%s'?", before, nearest);
    return text;
}

int cli_choose(int argc, char **argv, const char *const *names, int n, void (*print_help)(FILE *out))
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_NO_WORD;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return CLI_HELPED;
    }
    int i = 0;
    while (i < n && strcmp(argv[1], names[i]) != 0)
        i++;
    return i;
}

int cli_unchosen(int chosen)
{
    return chosen == CLI_HELPED ? TESS_EXIT_OK : TESS_EXIT_BAD_INPUT;
}

static int complain(const cli_command *command, const char *argument, const cli_flag *flags, int n_flags)
{
    const char *names[64];
    char name[64], hint[CLI_HINT]; /* name: without a value */
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument, "="), argument);
    for (int i = 0; i < n_flags; i++)
        names[i] = flags[i].name;
    cli_misuse(command, "unknown option '%s'%s", name, cli_hint("", name, names, n_flags, hint));
    return -2;
}

int cli_parse(int argc, char **argv, const cli_command *command, const cli_flag *flags, int n_flags)
{
    int n_positional = 0;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_usage(stdout, command, flags, n_flags);
            return -1;
        }
        if (strcmp(argv[i], "--") == 0) {
            while (++i < argc)
                argv[++n_positional] = argv[i];
            break;
        }
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[++n_positional] = argv[i];
            continue;
        }
        const cli_flag *flag = find_flag(argv[i], flags, n_flags, &value);
        if (flag == NULL)
            return complain(command, argv[i], flags, n_flags);
        if (flag->value != NULL && flag->value[0] != '[' && value == NULL) {
            if (i + 1 == argc) {
                cli_misuse(command, "%s needs a value: %s", flag->name, flag->value);
                return -2;
            }
            value = argv[++i];
        }
        const char **place = place_of(flag);
        if (place == NULL) {
            cli_misuse(command, "%s may be given %d times", flag->name, CLI_REPEATS);
            return -2;
        }
        *place = value != NULL ? value : "";
    }
    return n_positional;
}

int cli_misuse(const cli_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("tessera: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: tessera %s %s   (tessera %s --help)\n", command->name, command->arguments, command->name);
    return TESS_EXIT_BAD_INPUT;
}

int cli_fail(tess_status status)
{
    cli_status_clear();
    return tess_exit_fail(status);
}

tess_status cli_count_ranks(const char *text, tess_ranks *ranks)
{
    int64_t n = 0;
    TESS_TRY(cli_int("-n", text, 1, JOB_MAX_RANKS, &n));
    return tess_ranks_count((int)n, ranks);
}

tess_status cli_int(const char *flag, const char *text, int64_t min, int64_t max, int64_t *value)
{
    if (text == NULL)
        return TESS_OK;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    TESS_CHECK(*text != '\0' && *end == '\0' && errno == 0, TESS_E_INVALID, "%s: '%.60s' is not an integer", flag,
               text);
    TESS_CHECK(number >= min && number <= max, TESS_E_INVALID, "%s: %lld is outside %lld .. %lld", flag, number,
               (long long)min, (long long)max);
    *value = number;
    return TESS_OK;
}

tess_status cli_number(const char *flag, const char *text, double min, double max, double *value)
{
    if (text == NULL)
        return TESS_OK;
    char *end;
    double number = strtod(text, &end);
    TESS_CHECK(*text != '\0' && *end == '\0', TESS_E_INVALID, "%s: '%.60s' is not a number", flag, text);
    TESS_CHECK(number >= min && number <= max, TESS_E_INVALID, "%s: %g is outside %g .. %g", flag, number, min, max);
    *value = number;
    return TESS_OK;
}

tess_status cli_dtype(const char *flag, const char *text, bool stored, tess_dtype *dtype)
{
    *dtype = TESS_DTYPE_COUNT;
    if (text == NULL)
        return TESS_OK;
    TESS_TRY_CTX(tess_dtype_parse(text, dtype), "%s", flag);
    TESS_CHECK(*dtype == TESS_F32 || *dtype == TESS_BF16 || (stored && *dtype == TESS_F16), TESS_E_INVALID,
               "%s: '%s': choose float32%s", flag, text, stored ? ", bfloat16 or float16" : " or bfloat16");
    return TESS_OK;
}

static void print_line(void *self, const char *text)
{
    (void)self;
    cli_status_clear();
    fprintf(stderr, "%s\n", text);
}

tess_reporter cli_reporter(void)
{
    return (tess_reporter){print_line, NULL};
}

static bool on_terminal(void)
{
    return isatty(STDERR_FILENO);
}

void cli_status_line(const char *format, ...)
{
    struct winsize window;
    char text[512];
    if (!on_terminal())
        return;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%.*s", columns - 1, text);
    fflush(stderr);
}

void cli_status_clear(void)
{
    if (on_terminal())
        fputs("\r\033[K", stderr);
}
