/* Any bytes as a response, and as prompt or label, for the built-in graders: a reward that their contracts allow. The
 * first byte says how many bytes of the rest are the label. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rl/reward/reward_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tess_mem *mem;

static void expect_reward(double value)
{
    if (value != 0 && value != 0.1 && value != 1)
        abort();
}

static void judge_numbers(reward_text response, reward_text label)
{
    reward_decimal a, b;
    size_t used;
    double value;
    if (reward_decimal_read(response, &a, &used) && (used > response.size || !reward_decimal_same(&a, &a)))
        abort();
    if (reward_decimal_read(label, &b, &used) && reward_decimal_read(response, &a, &used) &&
        reward_decimal_same(&a, &b) != reward_decimal_same(&b, &a))
        abort();
    for (int fallback = 0; fallback < 2; fallback++) {
        if (reward_number(response, label, fallback != 0, &value) == TESS_OK)
            expect_reward(value);
        if (fallback != 0 && reward_number(label, label, true, &value) == TESS_OK && value != 1)
            abort(); /* a label answers itself */
    }
}

static void judge_texts(reward_text response, reward_text label)
{
    reward_text content;
    if (reward_boxed_content(response, &content) &&
        (content.at < response.at || content.at + content.size >= response.at + response.size))
        abort();
    expect_reward(reward_boxed(response, label));
    double f1, back;
    if (reward_f1(mem, response, label, &f1) != TESS_OK || reward_f1(mem, label, response, &back) != TESS_OK ||
        fabs(f1 - back) > 1e-12 || !(f1 >= 0 && f1 <= 1))
        abort();
    json_t *text = reward_json_text(mem, response.at, response.size);
    if (text == NULL || json_string_length(text) < response.size)
        abort();
    json_decref(text);
}

static void judge_tasks(reward_text response, reward_text prompt)
{
    reward_numbers task = {.target = 24, .n = 4, .number = {3, 3, 8, 8}};
    double value = reward_countdown(response, &task);
    expect_reward(value);
    for (size_t i = 0; value > 0 && i < response.size; i++)
        if ((response.at[i] & 0x80) != 0 && memmem(response.at, response.size, "<answer>", 8) == NULL)
            abort(); /* digits and signs of other scripts are none */
    if (reward_signs_task(prompt, &task) == TESS_OK)
        expect_reward(reward_signs(response, &task));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (mem == NULL && tess_mem_create(&mem) != TESS_OK)
        abort();
    if (size == 0)
        return 0;
    size_t n = data[0] < size - 1 ? data[0] : size - 1;
    reward_text label = {(const char *)data + 1, n}, response = {(const char *)data + 1 + n, size - 1 - n};
    judge_numbers(response, label);
    judge_texts(response, label);
    judge_tasks(response, label);
    tess_error_clear();
    return 0;
}
