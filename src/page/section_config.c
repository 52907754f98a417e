/* Sections of the configuration, what differs between runs, and the machine. All come from run.json. */
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"

enum { VALUE = 2200 };

static json_t *config_of(const page_run *run)
{
    json_t *config = json_object_get(run->facts, "config");
    return json_is_object(config) ? config : NULL;
}

/* ---- The configuration ---- */
bool page_has_config(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (config_of(&page->runs[r]) != NULL)
            return true;
    return false;
}

/* Puts the settings of a section: those that differ from their defaults, or all. `defaults` has the defaults of the
 * settings that differ. */
static int put_settings(page_out *out, const char *section, json_t *settings, const json_t *defaults, bool all)
{
    char text[VALUE], name[256];
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach (settings, key, value) {
        const json_t *fallback = json_object_get(json_object_get(defaults, section), key);
        if (fallback == NULL && !all)
            continue;
        snprintf(name, sizeof(name), "%s.%s", section, key);
        page_put(out, "<tr%s><th scope=\"row\">", fallback != NULL && all ? " class=\"set\"" : "");
        page_put_text(out, name);
        page_put(out, "</th><td>");
        page_put_text(out, page_value_text(value, text, sizeof(text)));
        page_put(out, "</td>");
        if (!all) {
            page_put(out, "<td>");
            page_put_text(out, page_value_text(fallback, text, sizeof(text)));
            page_put(out, "</td>");
        }
        page_put(out, "</tr>\n");
        n++;
    }
    return n;
}

static void put_all_settings(page_out *out, const page_run *run, bool all)
{
    const char *section;
    json_t *settings;
    const json_t *defaults = json_object_get(run->facts, "defaults");
    json_object_foreach (config_of(run), section, settings)
        put_settings(out, section, settings, defaults, all);
}

static void put_config(const page_run *run, page_out *out)
{
    if (json_object_size(json_object_get(run->facts, "defaults")) > 0) {
        page_put(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">what differs from the "
                      "defaults</th><th scope=\"col\">value</th><th scope=\"col\">default</th></tr></thead><tbody>\n");
        put_all_settings(out, run, false);
        page_put(out, "</tbody></table></div>\n");
    }
    page_put(out, "<details><summary>the whole configuration</summary><div class=\"scroll\" tabindex=\"0\"><table>"
                  "<tbody>\n");
    put_all_settings(out, run, true);
    page_put(out, "</tbody></table></div></details>\n");
}

void page_put_config(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++)
        if (config_of(&page->runs[r]) != NULL) {
            page_put_run_name(page, &page->runs[r], out);
            put_config(&page->runs[r], out);
        }
}

/* ---- Differences ---- */
static const json_t *setting_of(const page_run *run, const char *section, const char *key)
{
    return json_object_get(json_object_get(config_of(run), section), key);
}

/* Whether two runs with a configuration have different values. */
static bool differs(const tess_run_page *page, const char *section, const char *key)
{
    const json_t *first = NULL;
    bool seen = false;
    for (int r = 0; r < page->n; r++) {
        if (config_of(&page->runs[r]) == NULL)
            continue;
        const json_t *value = setting_of(&page->runs[r], section, key);
        if (seen && (value == NULL) != (first == NULL))
            return true;
        if (seen && value != NULL && !json_equal(value, first))
            return true;
        first = seen ? first : value;
        seen = true;
    }
    return false;
}

static void put_difference(const tess_run_page *page, const char *section, const char *key, page_out *out)
{
    char text[VALUE];
    page_put(out, "<tr><th scope=\"row\">");
    page_put_text(out, section);
    page_put(out, ".");
    page_put_text(out, key);
    page_put(out, "</th>");
    for (int r = 0; r < page->n; r++) {
        page_put(out, "<td>");
        page_put_some(out, page_value_text(setting_of(&page->runs[r], section, key), text, sizeof(text)), 200);
        page_put(out, "</td>");
    }
    page_put(out, "</tr>\n");
}

/* Whether a run before run r has the setting. */
static bool has_before(const tess_run_page *page, int r, const char *section, const char *key)
{
    while (r-- > 0)
        if (setting_of(&page->runs[r], section, key) != NULL)
            return true;
    return false;
}

bool page_has_differences(const tess_run_page *page)
{
    int n = 0;
    for (int r = 0; r < page->n; r++)
        n += config_of(&page->runs[r]) != NULL;
    return n > 1;
}

void page_put_differences(const tess_run_page *page, page_out *out)
{
    int n = 0;
    const char *section, *key;
    json_t *settings, *value;
    page_put(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">setting</th>");
    for (int r = 0; r < page->n; r++) {
        page_put(out, "<th scope=\"col\">");
        page_put_some(out, page->runs[r].name, 120);
        page_put(out, "</th>");
    }
    page_put(out, "</tr></thead><tbody>\n");
    for (int r = 0; r < page->n; r++)
        json_object_foreach (config_of(&page->runs[r]), section, settings)
            json_object_foreach (settings, key, value)
                if (!has_before(page, r, section, key) && differs(page, section, key)) {
                    put_difference(page, section, key, out);
                    n++;
                }
    page_put(out, "</tbody></table></div>\n%s", n == 0 ? "<p class=\"note\">no setting differs</p>\n" : "");
}

/* ---- The machine ---- */
static bool has_machine(const page_run *run)
{
    return run->facts != NULL || page_string(run->job, "command")[0] != '\0';
}

bool page_has_machine(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (has_machine(&page->runs[r]))
            return true;
    return false;
}

static void put_machine(const page_run *run, page_out *out)
{
    static const char *const names[] = {"tessera", "hosts", "ranks"};
    size_t i;
    char text[VALUE];
    json_t *fact;
    page_put(out, "<div class=\"scroll\" tabindex=\"0\"><table><tbody>\n");
    page_put_row(out, "folder", run->folder);
    if (page_string(run->job, "command")[0] != '\0')
        page_put_row(out, "command", page_string(run->job, "command"));
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        const json_t *value = json_object_get(run->facts, names[k]);
        if (value != NULL)
            page_put_row(out, names[k], page_value_text(value, text, sizeof(text)));
    }
    json_array_foreach (json_object_get(run->facts, "machine"), i, fact)
        page_put_row(out, page_string(fact, "name"), page_string(fact, "text"));
    page_put(out, "</tbody></table></div>\n");
}

void page_put_machine(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++)
        if (has_machine(&page->runs[r])) {
            page_put_run_name(page, &page->runs[r], out);
            put_machine(&page->runs[r], out);
        }
}
