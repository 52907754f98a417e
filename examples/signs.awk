# Problems of three numbers and two signs, as text for the example of reinforcement learning (docs/rl.md):
#   "7 2 5=4:" asks for the signs that make 7, 2, 5 in this order come to 4; "7+2-5" is right.
# Ordered triples of 1..9 with each value >= 0 that signs give them: 2,058 problems, 205 of them held out.
#
#   awk -v folder=out/signs -f examples/signs.awk
#
# writes sft.jsonl (40,000 prompts with answers of the right form, a quarter of them right, signs else drawn at random),
# sft_held_out.jsonl, rl.jsonl (the 1,853 prompts) and held_out.jsonl (205). The same text on every machine: random
# numbers are Park and Miller's (CACM 31, 1988), which doubles hold exactly.
function draw(n) { state = (16807 * state) % 2147483647; return int(n * (state / 2147483647)) }
function sign(s) { return s ? "-" : "+" }
function value(a, b, c, s, t) { return a + (s ? -b : b) + (t ? -c : c) }
function answer(i, s, t) { return A[i] sign(s) B[i] sign(t) C[i] }
function prompt(i) { return A[i] " " B[i] " " C[i] "=" V[i] ":" }
# A right answer to problem i; the first of several.
function right(i,   s, t) {
    for (s = 0; s < 2; s++)
        for (t = 0; t < 2; t++)
            if (value(A[i], B[i], C[i], s, t) == V[i])
                return answer(i, s, t)
}
function sft(file, n, first, end,   k, i, text) {
    for (k = 0; k < n; k++) {
        i = order[first + draw(end - first)]
        text = draw(4) == 0 ? right(i) : answer(i, draw(2), draw(2))
        printf "{\"prompt\": \"%s\", \"completion\": \"%s\"}\n", prompt(i), text > file
    }
}
function prompts(file, first, end,   k) {
    for (k = first; k < end; k++)
        printf "{\"prompt\": \"%s\"}\n", prompt(order[k]) > file
}
BEGIN {
    state = 20; n = 0
    for (a = 1; a <= 9; a++) for (b = 1; b <= 9; b++) for (c = 1; c <= 9; c++) {
        split("", seen)
        for (s = 0; s < 2; s++) for (t = 0; t < 2; t++) {
            v = value(a, b, c, s, t)
            if (v < 0 || v in seen) continue
            seen[v] = 1; A[n] = a; B[n] = b; C[n] = c; V[n] = v; order[n] = n; n++
        }
    }
    for (i = n - 1; i > 0; i--) { j = draw(i + 1); k = order[i]; order[i] = order[j]; order[j] = k }
    held = 205
    sft(folder "/sft.jsonl", 40000, held, n)
    sft(folder "/sft_held_out.jsonl", 2000, 0, held)
    prompts(folder "/rl.jsonl", held, n)
    prompts(folder "/held_out.jsonl", 0, held)
}
