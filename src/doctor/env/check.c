/* Checks environment variables: unknown and misspelt names, bad values, and values that contradict each other. */
#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

/* Whether `name` differs from `known` by one typing error: letters swapped, missing or added, or, in a long word,
 * one wrong letter. A different digit, a different word, or a different letter of a short word (MIN and MAX, RC and
 * DC) makes another name. */
static bool is_slip(const char *name, const char *known)
{
    enum { LONG_WORD = 6, SLIP = 2 };
    size_t a = strlen(name), b = strlen(known), before = 0, after = 0;
    while (before < a && before < b && name[before] == known[before])
        before++;
    while (after < a - before && after < b - before && name[a - after - 1] == known[b - after - 1])
        after++;
    size_t left = a - before - after, right = b - before - after, word = before;
    const char *is = name + before, *ought = known + before;
    if (left > SLIP || right > SLIP || strcspn(is, "0123456789") < left || strcspn(ought, "0123456789") < right)
        return false;
    if (left == 0 || right == 0)
        return left + right == 1 || (strcspn(is, "_") >= left && strcspn(ought, "_") >= right);
    if (left == 2 && right == 2)
        return is[0] == ought[1] && is[1] == ought[0];
    while (word > 0 && known[word - 1] != '_')
        word--;
    return left == 1 && right == 1 && strcspn(known + word, "_") >= LONG_WORD;
}

/* The part of a name after its family's prefix. */
static const char *own_part(const char *name, const env_family *family)
{
    return name + strlen(family->row.id);
}

/* Whether `known` is `name` under the prefix of a related family: NCCL_DUMP_ON_TIMEOUT, TORCH_NCCL_DUMP_ON_TIMEOUT. */
static bool is_kin(const tess_env_registry *registry, const char *name, const env_family *family, const char *known)
{
    const env_family *other = env_family_of(registry, known);
    return family->kin != NULL && other != NULL && other != family && other->kin != NULL &&
           strcmp(family->kin, other->kin) == 0 && strcmp(own_part(name, family), own_part(known, other)) == 0;
}

/* Whether `name` is `known` without its last word, such as TORCH_NCCL_HEARTBEAT_TIMEOUT for
 * TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC. */
static bool lacks_last_word(const char *name, const char *known)
{
    size_t n = strlen(name);
    return strncmp(name, known, n) == 0 && known[n] == '_' && strchr(known + n + 1, '_') == NULL;
}

/* Suggestions for a name that the registry lacks. Names without an effect are not suggested. */
typedef struct alternative {
    const char *meant; /* name that was surely meant; NULL: unknown */
    const char *near;  /* similar name; NULL: none */
} alternative;

static alternative find_alternative(const tess_env_registry *registry, const char *name, const env_family *family)
{
    const char *names[TESS_TABLE_MOST_ROWS], *slip = NULL, *kin = NULL;
    int n = 0;
    for (int i = 0; i < registry->table.n; i++) {
        const tess_env_variable *variable = tess_table_at(&registry->table, i);
        if (variable->state != NULL)
            continue;
        names[n++] = variable->row.id;
        if (slip == NULL && env_family_of(registry, variable->row.id) == family && is_slip(name, variable->row.id))
            slip = variable->row.id;
        if (kin == NULL && is_kin(registry, name, family, variable->row.id))
            kin = variable->row.id;
    }
    /* The comparison leaves out the family's prefix; with it, all names of a family would be similar. */
    const char *near = tess_options_nearest(name, names, n);
    if (near != NULL && tess_text_distance(name, near) > 1 + (int)strlen(own_part(name, family)) / 4)
        near = NULL;
    const char *longer = near != NULL && lacks_last_word(name, near) ? near : NULL;
    return (alternative){.meant = slip != NULL ? slip : kin != NULL ? kin : longer, .near = near};
}

static void judge_unknown(const tess_env_registry *registry, tess_env_setting *setting)
{
    const env_family *family = env_family_of(registry, setting->name);
    if (family == NULL) {
        setting->grade = TESS_ENV_UNKNOWN;
        snprintf(setting->finding, sizeof(setting->finding),
                 "no library of distributed training is known to read a variable of this name");
        return;
    }
    alternative other = find_alternative(registry, setting->name, family);
    const char *lacks = family->ask != NULL ? "not in the registry" : "nobody reads a variable of this name";
    bool wrong = family->ask == NULL || other.meant != NULL;
    setting->grade = wrong ? TESS_ENV_WRONG : TESS_ENV_UNKNOWN;
    const char *name = other.meant != NULL ? other.meant : other.near != NULL ? other.near : "";
    snprintf(setting->finding, sizeof(setting->finding), "%s%s%.200s%s%s%s", lacks,
             *name != '\0' ? ": did you mean " : "", name, *name != '\0' ? "?" : "",
             wrong           ? ""
             : *name != '\0' ? " Otherwise, to check it: "
                             : "; to check it: ",
             wrong ? "" : family->ask);
}

static void judge_known(tess_env_setting *setting)
{
    const tess_env_variable *known = setting->known;
    char accepted[400], value[80];
    if (known->state != NULL) {
        setting->grade = TESS_ENV_VOID;
        snprintf(setting->finding, sizeof(setting->finding), "%s", known->state);
    } else if (setting->value == NULL) {
        setting->grade = TESS_ENV_FINE;
    } else if (setting->computed) {
        snprintf(setting->finding, sizeof(setting->finding), "the shell computes the value: it is not judged");
    } else if (!tess_env_accepts(known->values, setting->value)) {
        setting->grade = TESS_ENV_WRONG;
        snprintf(setting->finding, sizeof(setting->finding), "'%s' is no value of it: %s",
                 tess_clean(setting->value, strlen(setting->value), value, sizeof(value)),
                 tess_env_describe_values(known->values, accepted, sizeof(accepted)));
    } else if (known->risky != NULL && tess_env_accepts(known->risky, setting->value)) {
        setting->grade = TESS_ENV_RISKY;
        snprintf(setting->finding, sizeof(setting->finding), "%s", known->risk);
    } else if ((setting->grade = env_check_value(setting)) == TESS_ENV_FINE &&
               tess_env_is_default(known->fallback, setting->value)) {
        snprintf(setting->finding, sizeof(setting->finding), "says the default again");
    }
}

static void judge(const tess_env_registry *registry, tess_env_report *report)
{
    for (int i = 0; i < report->n_settings; i++) {
        if (report->settings[i].known == NULL)
            judge_unknown(registry, &report->settings[i]);
        else
            judge_known(&report->settings[i]);
    }
}

tess_status tess_env_check(tess_mem *mem, const tess_env_registry *registry, const char *text, size_t size,
                           tess_env_format format, int n_cores, tess_env_report *report)
{
    memset(report, 0, sizeof(*report));
    report->mem = mem;
    TESS_TRY(env_read(registry, text, size, format, report));
    judge(registry, report);
    return env_find_conflicts(registry, report, n_cores);
}

tess_status tess_env_explain(tess_mem *mem, const tess_env_registry *registry, char *const *names, int n,
                             tess_env_report *report)
{
    memset(report, 0, sizeof(*report));
    report->mem = mem;
    TESS_TRY(env_read_names(registry, names, n, report));
    report->n_seen = n;
    judge(registry, report);
    return TESS_OK;
}

int tess_env_n_findings(const tess_env_report *report)
{
    int n = report->n_conflicts;
    for (int i = 0; i < report->n_settings; i++)
        n += report->settings[i].grade >= TESS_ENV_RISKY;
    return n;
}

void tess_env_report_free(tess_env_report *report)
{
    tess_mem_free(report->mem, report->settings);
    tess_mem_free(report->mem, report->text);
    memset(report, 0, sizeof(*report));
}
