#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/core/options.h"
#include "base/core/variables.h"
#include "base/os/os.h"
#include "bench/measuring_ranks.h"
#include "base/text/text.h"
#include "job/job_memory.h"
#include "config/foreign_keys.h"
#include "config/config.h"

enum { MOST_NAMES = 64 };

/* Prints the examples and the exit codes of a command, with which each help ends. */
static void print_examples(FILE *out, const cli_command *command)
{
    static const char *const usual = "0 done; 1 failed; 2 bad input (nothing was written); 130 interrupted";
    if (command->examples != NULL)
        fputs("\nexamples:\n", out);
    for (const char *line = command->examples; line != NULL && *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        fprintf(out, "  %.*s\n", (int)n, line);
        line += n + (line[n] != '\0');
    }
    fprintf(out, "\nexit codes: %s\n", command->exit_codes != NULL ? command->exit_codes : usual);
}

static void print_usage(FILE *out, const cli_command *command, const cli_flag *flags, int n_flags)
{
    fprintf(out, "usage: tessera %s %s\n%s\n", command->name, command->arguments, command->help);
    for (int i = 0; i < n_flags; i++) {
        char left[64];
        const char *value = flags[i].value != NULL ? flags[i].value : "";
        snprintf(left, sizeof(left), "%s%s%s", flags[i].name, value[0] != '\0' && value[0] != '[' ? " " : "", value);
        fprintf(out, "  %-26s %s\n", left, flags[i].help);
    }
    print_examples(out, command);
}

/* Finds the flag that `argument` names. If it is written as "--flag=value", sets *value to the value. */
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

/* Expands a leading ~, because a shell does not expand the ~ of --flag=~/x. The result lives until the process ends.
 * Ends the process if a path is too long, or if there are too many. */
static const char *expand_home(const char *path)
{
    static char paths[2 * CLI_REPEATS][PATH_MAX];
    static size_t n;
    if (path[0] != '~')
        return path;
    if (n == sizeof(paths) / sizeof(paths[0]))
        cli_exit(cli_end(TESS_FAIL(TESS_E_INVALID, "more than %zu paths begin with ~", n)));
    snprintf(paths[n], sizeof(paths[n]), "%s", path);
    if (tess_os_expand_home(paths[n], sizeof(paths[n])) != TESS_OK)
        cli_exit(cli_end(TESS_E_INVALID));
    return paths[n++];
}

/* Whether a flag's value is the path of a file or a folder. */
static bool takes_path(const cli_flag *flag)
{
    static const char *const names[] = {"FILE", "[=FILE]", "DIR", "FOLDER", "PATH", "OUT", "OLD.json"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (flag->value != NULL && strncmp(flag->value, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Parses the value of a flag. Returns TESS_E_INVALID if it is not a number, or outside the range. */
static tess_status read_value(const cli_flag *f, const char *text)
{
    char *end;
    errno = 0;
    if (f->integer != NULL) {
        long long value = strtoll(text, &end, 10);
        TESS_CHECK(*text != '\0' && *end == '\0' && errno == 0, TESS_E_INVALID, "%s: '%.60s' is not an integer",
                   f->name, text);
        TESS_CHECK(value >= f->min && value <= f->max, TESS_E_INVALID, "%s: %lld is outside %lld .. %lld", f->name,
                   value, (long long)f->min, (long long)f->max);
        *f->integer = value;
    } else if (f->bytes != NULL) {
        TESS_TRY_CTX(tess_options_bytes(text, f->unit, f->min, f->max, f->bytes), "%s", f->name);
    } else {
        double value = strtod(text, &end);
        TESS_CHECK(*text != '\0' && *end == '\0', TESS_E_INVALID, "%s: '%.60s' is not a number", f->name, text);
        TESS_CHECK(value >= f->least && value <= f->most, TESS_E_INVALID, "%s: %g is outside %g .. %g", f->name, value,
                   f->least, f->most);
        *f->number = value;
    }
    return TESS_OK;
}

/* Stores a flag's value. Ends the process if the value is invalid. */
static void store(const cli_command *command, const cli_flag *f, const char *text)
{
    bool repeats = f->value != NULL && strstr(f->value, " ...") != NULL;
    int n = 0;
    while (repeats && n < CLI_REPEATS && f->text[n] != NULL)
        n++;
    if (n == CLI_REPEATS)
        cli_exit(cli_misuse(command, "%s may be given %d times", f->name, CLI_REPEATS));
    if (f->text != NULL)
        f->text[n] = text;
    if (f->style != NULL)
        *f->style = f->as;
    if ((f->integer != NULL || f->bytes != NULL || f->number != NULL) && read_value(f, text) != TESS_OK)
        cli_exit(cli_end(TESS_E_INVALID));
}

/* Ends the process with advice if an unknown flag is an option's key, of Tessera or of another program. `has_hint`:
 * a flag has a similar name, so the last word of a key is not a better guess. */
static void refuse_dashes(const cli_command *command, const char *argument, bool has_hint)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    char key[TESS_FOREIGN_SIZE], word[TESS_FOREIGN_SIZE];
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(argument, "="), argument);
    tess_foreign_normalize(key, word);
    if (strstr(command->arguments, "section.key=value") == NULL)
        return;
    if (tess_options_has(tables, n_tables, word))
        cli_exit(cli_misuse(command, "'%s': write it without dashes: %s%s", argument, word,
                            argument[strlen(key)] != '\0' ? argument + strlen(key) : "=VALUE"));
    if (strchr(word, '.') == NULL && !tess_foreign_has(word) &&
        (has_hint || tess_options_same_leaf(tables, n_tables, word) == NULL))
        return;
    tess_status status = tess_foreign_refuse(tables, n_tables, word);
    tess_fail_context(status, "'%.100s': keys are written without dashes, as section.key=value", key);
    cli_exit(cli_end(status));
}

/* Finds the flag that is meant by a name. Dashes do not count: in short names they would hide every difference. A flag
 * of one letter is never meant by a longer name. */
static const cli_flag *near_flag(const char *name, const cli_flag *flags, int n_flags)
{
    const char *bare[MOST_NAMES], *wanted = name + strspn(name, "-");
    const cli_flag *of[MOST_NAMES];
    int n = 0, i = 0;
    for (int k = 0; k < n_flags; k++) {
        const char *letters = flags[k].name + strspn(flags[k].name, "-");
        if (strlen(letters) == 1 && strlen(wanted) > 1)
            continue;
        bare[n] = letters;
        of[n++] = &flags[k];
    }
    const char *found = tess_options_nearest(wanted, bare, n);
    while (found != NULL && bare[i] != found)
        i++;
    return found != NULL ? of[i] : NULL;
}

static void refuse_flag(const cli_command *command, const char *argument, const cli_flag *flags, int n_flags)
{
    char name[64]; /* the flag without its value */
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument, "="), argument);
    const cli_flag *near = near_flag(name, flags, n_flags);
    refuse_dashes(command, argument, near != NULL);
    cli_exit(cli_misuse(command, "unknown option '%s'%s%s%s", name, near != NULL ? ": did you mean '" : "",
                        near != NULL ? near->name : "", near != NULL ? "'?" : ""));
}

int cli_parse(int argc, char **argv, const cli_command *command, const cli_flag *flags, int n_flags)
{
    int n_positional = 0;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_usage(stdout, command, flags, n_flags);
            cli_exit(TESS_EXIT_OK);
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
            refuse_flag(command, argv[i], flags, n_flags);
        if (value != NULL && takes_path(flag))
            value = expand_home(value);
        if (flag->value != NULL && flag->value[0] != '[' && value == NULL) {
            if (i + 1 == argc)
                cli_exit(cli_misuse(command, "%s needs a value: %s", flag->name, flag->value));
            value = argv[++i];
        }
        store(command, flag, value != NULL ? value : "");
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

void cli_print_command(FILE *out, const cli_command *command, int width)
{
    fprintf(out, "  tessera %-*s  %.*s\n", width, command->name, (int)strcspn(command->help, "\n"), command->help);
}

void cli_print_commands(FILE *out, const cli_command *const *commands, int n)
{
    int width = 0;
    for (int i = 0; i < n; i++)
        width = (int)strlen(commands[i]->name) > width ? (int)strlen(commands[i]->name) : width;
    for (int i = 0; i < n; i++)
        cli_print_command(out, commands[i], width);
}

const cli_command *cli_find_verb(int argc, char **argv, const cli_command *const *verbs, size_t n)
{
    for (size_t i = 0; argc > 1 && i < n; i++)
        if (strcmp(argv[1], strchr(verbs[i]->name, ' ') + 1) == 0)
            return verbs[i];
    return NULL;
}

int cli_run_command(tess_mem *mem, int argc, char **argv, const cli_command *command)
{
    const char *names[MOST_NAMES];
    char hint[TESS_HINT_BYTES];
    if (command->run != NULL)
        return command->run(mem, argc, argv);
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc < 2 || help) {
        FILE *out = help ? stdout : stderr;
        fprintf(out, "usage: tessera %s %s\n%s\n\n", command->name, command->arguments, command->help);
        cli_print_commands(out, command->verbs, command->n_verbs);
        fprintf(out, "\nWith --help each says more.\n");
        print_examples(out, command);
        return help ? TESS_EXIT_OK : TESS_EXIT_BAD_INPUT;
    }
    for (int i = 0; i < command->n_verbs; i++) {
        names[i] = strchr(command->verbs[i]->name, ' ') + 1;
        if (strcmp(argv[1], names[i]) == 0)
            return cli_run_command(mem, argc - 1, argv + 1, command->verbs[i]);
    }
    return cli_misuse(command, "no '%s %.60s'%s", command->name, argv[1],
                      tess_options_hint(command->name, argv[1], names, command->n_verbs, "", hint));
}

/* Finds the reason for a failed write to standard output, which is no longer known: writes one more byte, which
 * fails in the same way. */
static const char *find_cause(void)
{
    clearerr(stdout);
    putchar('\n');
    return fflush(stdout) != 0 ? strerror(errno) : "a part of it could not be written";
}

void cli_exit(int code)
{
    bool flushed = fflush(stdout) == 0;
    if (flushed && !ferror(stdout))
        exit(code);
    fprintf(stderr, "tessera: standard output: %s\n", flushed ? find_cause() : strerror(errno));
    exit(code != TESS_EXIT_OK ? code : TESS_EXIT_FAILED);
}

int cli_end(tess_status status)
{
    cli_status_clear();
    return status == TESS_OK ? TESS_EXIT_OK : tess_exit_fail(status);
}

tess_status cli_count_ranks(const char *text, tess_ranks *ranks)
{
    int64_t n = 0;
    const cli_flag flag = {"-n", .integer = &n, .min = 1, .max = INT32_MAX};
    if (text != NULL)
        TESS_TRY(read_value(&flag, text));
    return tess_ranks_count((int)n, ranks);
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

tess_status cli_add_bos(const char *text, tess_add_bos *add)
{
    static const char *const names[] = {"auto", "true", "false"};
    int chosen = TESS_ADD_BOS_AUTO;
    if (text != NULL)
        TESS_TRY_CTX(tess_options_choose("choice", text, names, 3, &chosen), "--add-bos");
    *add = (tess_add_bos)chosen;
    return TESS_OK;
}

tess_status cli_print_text(tess_status status, tess_buffer *text)
{
    if (status == TESS_OK && text->size > 0)
        fwrite(text->data, 1, text->size, stdout);
    tess_buffer_free(text);
    return status;
}

tess_status cli_report(tess_mem *mem, json_t *report, const tess_form_part *form, tess_form_style style, size_t flags)
{
    tess_buffer text = {.mem = mem};
    return cli_print_text(tess_form_put(report, form, style, flags, &text), &text);
}

void cli_print_line(TESS_UNUSED void *self, const char *line)
{
    cli_status_clear();
    fprintf(stderr, "%s\n", line);
}

/* Whether standard error is a terminal that can move its cursor. */
static bool on_terminal(void)
{
    const char *kind = tess_variable_value(TESS_VAR_TERM);
    return isatty(STDERR_FILENO) && (kind == NULL || strcmp(kind, "dumb") != 0);
}

int cli_columns(int fd)
{
    struct winsize window;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 0;
}

/* Returns the bytes of the first n characters of a text in UTF-8. */
static size_t bytes_of(const char *text, int n)
{
    size_t at = 0;
    while (text[at] != '\0' && n-- > 0)
        do
            at++;
        while (((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

void cli_status_line(const char *format, ...)
{
    char text[512];
    if (!on_terminal())
        return;
    const int own = cli_columns(STDERR_FILENO), columns = own > 0 ? own : 80;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%.*s", (int)bytes_of(text, columns - 1), text);
    fflush(stderr);
}

void cli_status_clear(void)
{
    if (on_terminal())
        fputs("\r\033[K", stderr);
}

void cli_progress_report(void *progress, uint64_t done, uint64_t all)
{
    static const double patience_s = 1, pace_s = 0.1;
    char a[32], b[32], c[32];
    cli_progress *p = progress;
    double now_s = tess_os_now_s();
    if (p->began_s == 0)
        p->began_s = now_s;
    double took_s = now_s - p->began_s;
    if (took_s < patience_s || now_s - p->shown_s < pace_s)
        return;
    p->shown_s = now_s;
    double rate = (double)done / took_s, left_s = rate > 0 && all > done ? (double)(all - done) / rate : 0;
    cli_status_line("%s: %3.0f%%  %s of %s, %s/s, %.0f s left", p->doing,
                    all > 0 ? 100 * (double)done / (double)all : 100, tess_format_bytes((double)done, a, sizeof(a)),
                    tess_format_bytes((double)all, b, sizeof(b)), tess_format_bytes(rate, c, sizeof(c)), left_s);
}

/* ---- Inference on several ranks ---- */
typedef struct ranks_plan {
    tess_status (*run)(tess_runtime *runtime, const void *plan, void *result);
    const void *plan;
} ranks_plan;

static tess_status run_one(tess_runtime *runtime, const void *self, void *result)
{
    const ranks_plan *ranks = self;
    if (tess_runtime_rank(runtime) > 0 && freopen("/dev/null", "w", stdout) == NULL)
        return tess_os_error("open", "/dev/null");
    return ranks->run(runtime, ranks->plan, result);
}

tess_status cli_ranks_run(int n, const char *device,
                          tess_status (*run)(tess_runtime *runtime, const void *plan, void *result), const void *plan,
                          void *result, size_t size)
{
    const ranks_plan own = {run, plan};
    char none;
    TESS_CHECK(device == NULL || strcmp(device, "cpu") == 0, TESS_E_UNSUPPORTED,
               "-n: several ranks compute on the CPU alone: leave out -n or --device");
    fflush(stdout);
    return tess_bench_ranks_run(&(tess_bench_ranks){.n = n, .run = run_one, .plan = &own}, size > 0 ? result : &none,
                                size);
}

static void drop_line(TESS_UNUSED void *self, TESS_UNUSED const char *line)
{
}

tess_reporter cli_reporter_of(const tess_runtime *runtime)
{
    return (tess_reporter){tess_runtime_rank(runtime) == 0 ? cli_print_line : drop_line, NULL};
}

int cli_threads_of(const tess_runtime *runtime, int asked)
{
    const int own = tess_os_cores() / tess_runtime_world(runtime);
    return asked > 0 ? asked : own > 0 ? own : 1;
}
