/* Rows of a section's table, from the list of its options (TESS_OPTION_FIELD). A section NAME has the struct
 * `tess_NAME_section`. ROW(NAME, FIELD, EFFECT, ...) derives the key "NAME.FIELD" and the field's offset from the same
 * name. The row's effect is TESS_EFFECT_EFFECT. Only files that define sections include this header. */
#ifndef TESS_BASE_CORE_OPTION_ROWS_H
#define TESS_BASE_CORE_OPTION_ROWS_H

#include "base/core/options.h"

#define ROW(section_, field_, effect_, type_, ...)                                    \
    {                                                                                 \
        .key = #section_ "." #field_, .type = type_, .effect = TESS_EFFECT_##effect_, \
        .offset = offsetof(struct tess_##section_##_section, field_), __VA_ARGS__     \
    }
#define TEXT(section_, field_, effect_, fallback_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_TEXT, .fallback = fallback_, .help = help_)
#define BOOL(section_, field_, effect_, fallback_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_BOOL, .fallback = fallback_, .help = help_)
#define LIST(section_, field_, effect_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_LIST, .fallback = "", .help = help_)
#define PATH(section_, field_, effect_, fallback_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_TEXT, .fallback = fallback_, .is_path = true, .help = help_)
#define PATHS(section_, field_, effect_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_LIST, .fallback = "", .is_path = true, .help = help_)
#define INT(section_, field_, effect_, fallback_, min_, max_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_INT, .fallback = fallback_, .least = min_, .most = max_, .help = help_)
/* An integer for which the user may also write a word. The word's value is 0. */
#define INT_OR(section_, field_, effect_, word_, fallback_, min_, max_, help_)                                         \
    ROW(section_, field_, effect_, TESS_OPTION_INT, .zero = word_, .fallback = fallback_, .least = min_, .most = max_, \
        .help = help_)
/* An option whose value is the degree of an axis of the mesh. */
#define DEGREE(section_, field_, axis_, fallback_, min_, max_, help_)                                                 \
    ROW(section_, field_, LAYOUT, TESS_OPTION_INT, .axis = axis_, .fallback = fallback_, .least = min_, .most = max_, \
        .help = help_)
#define BYTES(section_, field_, effect_, fallback_, min_, max_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_BYTES, .fallback = fallback_, .least = min_, .most = max_, .help = help_)
#define FLOAT(section_, field_, effect_, fallback_, min_, max_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_FLOAT, .fallback = fallback_, .min = min_, .max = max_, .help = help_)
#define URL(section_, field_, effect_, fallback_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_TEXT, .fallback = fallback_, .is_url = true, .help = help_)
/* A numeric address with a port, such as "127.0.0.1:9464". */
#define ADDRESS(section_, field_, effect_, fallback_, help_)                                                \
    ROW(section_, field_, effect_, TESS_OPTION_TEXT, .text_size = TESS_ADDRESS_SIZE, .fallback = fallback_, \
        .help = help_)
#define CHOICE(section_, field_, effect_, fallback_, choices_, help_) \
    ROW(section_, field_, effect_, TESS_OPTION_CHOICE, .fallback = fallback_, .choices = choices_, .help = help_)

/* A choice that other programs have by other names, in the same order. */
#define CHOICE_ALSO(section_, field_, effect_, fallback_, choices_, also_, help_)                                 \
    ROW(section_, field_, effect_, TESS_OPTION_CHOICE, .fallback = fallback_, .choices = choices_, .also = also_, \
        .help = help_)

/* Defines the section tess_section_NAME, whose options are the list `options_`. */
#define OPTION(type_, ...) type_(__VA_ARGS__),
#define SECTION(name_, help_, options_)                    \
    static const tess_option name_[] = {options_(OPTION)}; \
    const tess_option_section tess_section_##name_ = {     \
        .name = #name_, .help = help_, .rows = name_, .n_rows = (int)(sizeof(name_) / sizeof(name_[0]))}

#endif
