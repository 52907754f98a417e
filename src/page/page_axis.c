#include "page/page_axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

page_axis page_axis_between(double low, double high)
{
    if (!isfinite(low) || !isfinite(high))
        return (page_axis){0, 1, false};
    if (!(high > low)) {
        const double room = low != 0 ? fabs(low) * 0.05 : 1;
        return (page_axis){low - room, low + room, false};
    }
    return (page_axis){low, high, false};
}

page_axis page_axis_around(double low, double high, bool is_log)
{
    if (is_log && low > 0 && isfinite(high)) {
        const double room = high > low ? exp(0.04 * (log(high) - log(low))) : 1.5;
        const page_axis axis = {low / room, high * room, true};
        return axis.from > 0 && isfinite(axis.to) ? axis : (page_axis){low, high, true};
    }
    page_axis axis = page_axis_between(low, high);
    const double room = high > low ? (high - low) * 0.06 : 0;
    axis.from = low >= 0 && axis.from - room < 0 ? 0 : axis.from - room;
    axis.to += room;
    return axis;
}

double page_axis_place(const page_axis *axis, double value)
{
    if (axis->is_log)
        return value > 0 ? (log(value) - log(axis->from)) / (log(axis->to) - log(axis->from)) : NAN;
    return (value - axis->from) / (axis->to - axis->from);
}

/* Returns the round distance, 1, 2 or 5 times a power of ten, that makes at most `most` ticks. */
static double round_step(double range, int most)
{
    const double least = range / most, power = pow(10, floor(log10(least)));
    for (int i = 0; i < 3; i++) {
        const double step = (const double[]){1, 2, 5}[i] * power;
        if (step >= least * 0.999999)
            return step;
    }
    return 10 * power;
}

static int log_ticks(const page_axis *axis, int most, double ticks[PAGE_TICKS])
{
    int n = 0;
    const int first = (int)ceil(log10(axis->from) - 1e-9), last = (int)floor(log10(axis->to) + 1e-9);
    const int every = last - first + 1 > most ? (last - first + most) / most : 1;
    for (int power = first; power <= last && n < most; power += every)
        ticks[n++] = pow(10, power);
    return n;
}

int page_axis_ticks(const page_axis *axis, int most, bool whole, double ticks[PAGE_TICKS])
{
    int n = 0;
    if (axis->is_log && axis->to / axis->from >= 100)
        return log_ticks(axis, most, ticks);
    double step = round_step(axis->to - axis->from, most);
    if (whole && step < 1)
        step = 1;
    const double first = ceil(axis->from / step - 1e-9);
    for (int i = 0; n <= most && n < PAGE_TICKS; i++) {
        const double value = (first + i) * step;
        if (!(value <= axis->to + step * 1e-9))
            break;
        if (!axis->is_log || value > 0)
            ticks[n++] = value;
    }
    return n;
}

/* Writes a number of thousands or more, "1.25 M". */
static void put_large(double value, double step, char text[PAGE_TICK_TEXT])
{
    static const char units[] = "kMBT";
    int unit = 0;
    double scale = 1e3;
    while (unit < 3 && fabs(value) >= scale * 999.99) {
        scale *= 1e3;
        unit++;
    }
    int digits = step > 0 && step < scale ? (int)ceil(log10(scale / step) - 1e-9) : 0;
    digits = digits > 4 ? 4 : digits;
    snprintf(text, PAGE_TICK_TEXT, "%.*f %c", digits, value / scale, units[unit]);
    char *point = strchr(text, '.'), *end = strchr(text, ' ');
    while (point != NULL && end > point && (end[-1] == '0' || end[-1] == '.')) {
        memmove(end - 1, end, strlen(end) + 1);
        end--;
    }
}

const char *page_tick_text(double value, double step, char text[PAGE_TICK_TEXT])
{
    const double size = fabs(value);
    if (value == 0) {
        snprintf(text, PAGE_TICK_TEXT, "0");
    } else if (size >= 1e4 && size < 1e15) {
        put_large(value, step, text);
    } else if (size >= 1e15 || size < 1e-3) {
        char digits[PAGE_TICK_TEXT];
        snprintf(digits, sizeof(digits), "%.1e", value);
        const char *mantissa_end = strchr(digits, 'e');
        const int exponent = mantissa_end != NULL ? (int)strtol(mantissa_end + 1, NULL, 10) : 0;
        double mantissa = value / pow(10, exponent);
        snprintf(text, PAGE_TICK_TEXT, "%.2ge%d", mantissa, exponent);
    } else if (step > 0) {
        const int digits = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
        snprintf(text, PAGE_TICK_TEXT, "%.*f", digits > 6 ? 6 : digits, value);
    } else {
        snprintf(text, PAGE_TICK_TEXT, "%.4g", value);
    }
    return text;
}
