/* Reads the pre-tokenizer, which cuts text into the pieces within which the model merges. Every kind of pre-tokenizer
 * is a sequence of three kinds of steps: a prefix, Metaspace's replacement, and a split at a regex or a literal. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

/* The characters of \w in the regexes of Rust, which Whitespace uses: unlike Oniguruma's, with join controls and
 * without numbers such as U+00BD. */
#define WORD                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

const char tess_gpt2_regex[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static tess_status add_step(const tess_node *node, tess_mem *mem, tess_pre_kind kind, tess_pre_tokenizer *pre,
                            tess_pre_step **step)
{
    TESS_CHECK(pre->n_steps < TESS_MAX_STEPS, TESS_E_UNSUPPORTED, "%s: more than %d steps", node->what, TESS_MAX_STEPS);
    *step = &pre->steps[pre->n_steps++];
    **step = (tess_pre_step){.kind = kind, .text = {.mem = mem}};
    return TESS_OK;
}

static tess_status add_split(const tess_node *node, tess_mem *mem, const char *regex, tess_split_behavior behavior,
                             tess_pre_tokenizer *pre)
{
    tess_pre_step *step = NULL;
    TESS_TRY(add_step(node, mem, TESS_PRE_SPLIT, pre, &step));
    step->behavior = behavior;
    return tess_oniguruma_create(mem, regex, strlen(regex), node->what, &step->regex);
}

static tess_status read_behavior(const tess_node *node, tess_split_behavior *behavior)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *value = json_object_get(node->json, "behavior");
    *behavior = TESS_SPLIT_ISOLATED;
    if (value == NULL)
        return TESS_OK;
    const char *name = json_string_value(value);
    for (int k = 0; name != NULL && k < 5; k++) {
        if (strcmp(name, names[k]) == 0) {
            *behavior = (tess_split_behavior)k;
            return TESS_OK;
        }
    }
    return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: behavior '%s' is not supported", node->what, name != NULL ? name : "?");
}

static tess_status read_byte_level(tess_mem *mem, const tess_node *node, tess_pre_tokenizer *pre)
{
    bool prefix = true, regex = true;
    TESS_TRY(tess_node_flag(node, "add_prefix_space", &prefix));
    TESS_TRY(tess_node_flag(node, "use_regex", &regex));
    if (prefix) {
        tess_pre_step *step = NULL;
        TESS_TRY(add_step(node, mem, TESS_PRE_PREFIX, pre, &step));
        TESS_TRY(tess_buffer_append(&step->text, " ", 1));
    }
    pre->byte_level = true;
    return regex ? add_split(node, mem, tess_gpt2_regex, TESS_SPLIT_ISOLATED, pre) : TESS_OK;
}

static tess_status read_metaspace(tess_mem *mem, const tess_node *node, tess_pre_tokenizer *pre)
{
    tess_pre_step *step = NULL;
    TESS_TRY(add_step(node, mem, TESS_PRE_METASPACE, pre, &step));
    TESS_TRY(tess_node_text(node, "replacement", &step->text));
    TESS_CHECK(step->text.size > 0, TESS_E_FORMAT, "%s: an empty replacement", node->what);
    bool prefix = true, split = true;
    TESS_TRY(tess_node_flag(node, "add_prefix_space", &prefix));
    TESS_TRY(tess_node_flag(node, "split", &split));
    step->prepend = prefix ? TESS_PREPEND_ALWAYS : TESS_PREPEND_NEVER;
    const json_t *scheme = json_object_get(node->json, "prepend_scheme");
    if (scheme != NULL) {
        static const char *const names[] = {"always", "first", "never"};
        const char *name = json_string_value(scheme);
        int k = 0;
        while (k < 3 && (name == NULL || strcmp(name, names[k]) != 0))
            k++;
        TESS_CHECK(k < 3, TESS_E_UNSUPPORTED, "%s: prepend_scheme '%s' is not supported", node->what,
                   name != NULL ? name : "?");
        step->prepend = (tess_prepend)k;
    }
    TESS_CHECK(step->prepend != TESS_PREPEND_FIRST || pre->n_steps == 1, TESS_E_UNSUPPORTED,
               "%s: prepend_scheme 'first' after other pre-tokenizers is not supported", node->what);
    if (!split)
        return TESS_OK;
    tess_pre_step *at = step;
    TESS_TRY(add_step(node, mem, TESS_PRE_SPLIT, pre, &step));
    step->behavior = TESS_SPLIT_MERGED_WITH_NEXT;
    return tess_buffer_append(&step->text, at->text.data, at->text.size);
}

static tess_status read_step(tess_mem *mem, const tess_node *node, const char *type, void *into)
{
    tess_pre_tokenizer *pre = into;
    /* Steps after ByteLevel would see GPT-2's alphabet instead of the text. */
    TESS_CHECK(!pre->byte_level, TESS_E_UNSUPPORTED, "%s: '%s' after ByteLevel is not supported", node->what, type);
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(mem, node, pre);
    if (strcmp(type, "Split") == 0) {
        tess_pre_step *step = NULL;
        TESS_TRY(add_step(node, mem, TESS_PRE_SPLIT, pre, &step));
        TESS_TRY(read_behavior(node, &step->behavior));
        TESS_TRY(tess_node_flag(node, "invert", &step->invert));
        return tess_node_pattern(mem, node, &step->text, &step->regex);
    }
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(mem, node, pre);
    if (strcmp(type, "Digits") == 0) {
        bool individual = false;
        TESS_TRY(tess_node_flag(node, "individual_digits", &individual));
        return add_split(node, mem, "\\p{N}", individual ? TESS_SPLIT_ISOLATED : TESS_SPLIT_CONTIGUOUS, pre);
    }
    if (strcmp(type, "Punctuation") == 0) {
        tess_split_behavior behavior;
        TESS_TRY(read_behavior(node, &behavior));
        return add_split(node, mem, "[\\p{P}$+<=>\\^`|~]", behavior, pre);
    }
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_split(node, mem, "\\s", TESS_SPLIT_REMOVED, pre);
    if (strcmp(type, "Whitespace") == 0) {
        TESS_TRY(add_split(node, mem, "[" WORD "]+|[^" WORD "\\s]+", TESS_SPLIT_REMOVED, pre));
        pre->steps[pre->n_steps - 1].invert = true;
        return TESS_OK;
    }
    return TESS_FAIL(
        TESS_E_UNSUPPORTED,
        "%s: pre-tokenizer '%s' is not supported (ByteLevel, Split, Digits, Metaspace, Punctuation, Whitespace, "
        "WhitespaceSplit, Sequence are)",
        node->what, type);
}

tess_status tess_pre_tokenizer_read(tess_mem *mem, const tess_node *node, tess_pre_tokenizer *pre)
{
    return tess_node_steps(mem, node, "pretokenizers", read_step, pre);
}

void tess_pre_tokenizer_free(tess_pre_tokenizer *pre)
{
    for (int i = 0; i < pre->n_steps; i++) {
        tess_buffer_free(&pre->steps[i].text);
        tess_regex_destroy(&pre->steps[i].regex);
    }
    pre->n_steps = 0;
}
