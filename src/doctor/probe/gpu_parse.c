/* Parses the output of nvidia-smi: lines of fields separated by commas, and matrices of GPUs separated by tabs. */
#include <stdlib.h>
#include <string.h>

#include "doctor/probe/gpu_impl.h"

#define FIELDS(reasons)                                                                                             \
    "index,name,driver_version,temperature.gpu,ecc.errors.uncorrected.volatile.total,"                              \
    "ecc.errors.corrected.volatile.total," reasons ",persistence_mode,pcie.link.width.current,pcie.link.width.max," \
    "memory.used,memory.total"

const char probe_gpu_fields[] = "--query-gpu=" FIELDS("clocks_event_reasons.active");
const char probe_gpu_old_fields[] = "--query-gpu=" FIELDS("clocks_throttle_reasons.active");

enum { N_FIELDS = 12, FIELD_BYTES = 64 };

/* Splits a line into fields and removes surrounding spaces. Returns the number of fields. */
static int split(const char *line, size_t length, char (*fields)[FIELD_BYTES])
{
    int n = 0;
    const char *end = line + length;
    while (line <= end && n < N_FIELDS) {
        const char *comma = memchr(line, ',', (size_t)(end - line)), *stop = comma != NULL ? comma : end;
        line += strspn(line, " ");
        size_t bytes = stop > line ? (size_t)(stop - line) : 0;
        while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\r'))
            bytes--;
        snprintf(fields[n++], FIELD_BYTES, "%.*s", (int)bytes, line);
        if (comma == NULL)
            return n;
        line = comma + 1;
    }
    return n;
}

/* Parses an integer. Returns -1 for "[N/A]", "[Not Supported]" and the like, and for numbers that do not fit. */
static int64_t whole(const char *text)
{
    static const long long most = 1LL << 53;
    char *end;
    long long value = strtoll(text, &end, 0);
    return end != text && value <= most ? value : -1;
}

static int lanes(const char *text)
{
    int64_t n = whole(text);
    return n > 0 && n <= 64 ? (int)n : -1;
}

int probe_gpu_parse(const char *text, probe_gpu *gpus, int most)
{
    int n = 0;
    for (const char *line = text; *line != '\0' && n < most;) {
        char f[N_FIELDS][FIELD_BYTES];
        size_t length = strcspn(line, "\n");
        if (split(line, length, f) == N_FIELDS && whole(f[0]) >= 0) {
            probe_gpu *gpu = &gpus[n++];
            *gpu = (probe_gpu){.index = (int)(whole(f[0]) & 0xffff),
                               .temperature_c = (double)whole(f[3]),
                               .uncorrected = whole(f[4]),
                               .corrected = whole(f[5]),
                               .slowed_by = whole(f[6]),
                               .persistence = strcmp(f[7], "Enabled") == 0    ? 1
                                              : strcmp(f[7], "Disabled") == 0 ? 0
                                                                              : -1,
                               .lanes = lanes(f[8]),
                               .most_lanes = lanes(f[9]),
                               .used_mib = whole(f[10]),
                               .total_mib = whole(f[11])};
            snprintf(gpu->name, sizeof(gpu->name), "%s", f[1]);
            snprintf(gpu->driver, sizeof(gpu->driver), "%.31s", f[2]);
        }
        line += length;
        line += *line == '\n';
    }
    return n;
}

/* Skips spaces and terminal colour codes. */
static const char *skip(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\r");
        if (*at != '\033')
            return at;
        at += strcspn(at, "m\n");
        at += *at == 'm';
    }
}

static const char *next_word(const char *at, char *word, size_t size)
{
    at = skip(at);
    size_t n = strcspn(at, " \t\r\n\033");
    snprintf(word, size, "%.*s", (int)n, at);
    return at + n;
}

static bool is_gpu(const char *word)
{
    return strncmp(word, "GPU", 3) == 0 && word[3] >= '0' && word[3] <= '9';
}

void probe_gpu_parse_matrix(const char *text, probe_gpu_matrix *matrix)
{
    int n = 0, row = 0;
    *matrix = (probe_gpu_matrix){0};
    for (const char *line = text; *line != '\0';) {
        char word[PROBE_LINK_BYTES];
        const char *at = next_word(line, word, sizeof(word));
        if (n == 0 && is_gpu(word)) { /* the first line names all GPUs */
            for (; is_gpu(word); at = next_word(at, word, sizeof(word)))
                n += n < PROBE_GPUS;
        } else if (is_gpu(word) && row < n) {
            for (int column = 0; column < n; column++)
                at = next_word(at, matrix->link[row][column], PROBE_LINK_BYTES);
            row++;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    matrix->n = row == n ? n : 0;
}
