# Texts in which facts are hidden, for the example of long context (docs/howto/long-context.md). A text is digits at
# random. In it, 16 facts stand at random places. A fact is a capital letter and a small letter, "Qx", which is one token:
# the capital letter's small letter is x, another one in each text. The text's end asks: after "q" the answer is "X".
#
#   awk -v folder=out/needle -f examples/needle.awk
#
# writes words.txt (what the tokenizer learns its tokens from), texts for training, which ask for all their facts:
# short.jsonl (up to 256 tokens), mixed.jsonl (up to 4,096) and far.jsonl (900 to 4,096), long.jsonl (one text of 300,000
# tokens), and for 4k and 16k tokens: prompts_N.jsonl (texts that ask for one fact), with answers_N.txt: the answer, and
# the quarter of the text in which the fact is. The same text on every machine: random numbers are Park and Miller's
# (CACM 31, 1988), which doubles hold exactly.
function draw(n) { state = (16807 * state) % 2147483647; return int(n * (state / 2147483647)) }
function shuffle(a, n,   i, j, t) { for (i = n - 1; i > 0; i--) { j = draw(i + 1); t = a[i]; a[i] = a[j]; a[j] = t } }
# Sets value[i], the number of the letter that belongs to letter i, and place[i], where the text says so. Returns the text.
function text(n,   i, p, at, out) {
    split("", at)
    for (i = 0; i < N; i++) {
        do p = draw(n); while (p in at)
        place[i] = p
        value[i] = draw(N)
        at[p] = substr(capital, i + 1, 1) substr(small, value[i] + 1, 1)
    }
    for (p = 0; p < n; p++)
        out = out (p in at ? at[p] : draw(10))
    return out
}
function question(i) { return substr(small, i + 1, 1) }
function answer(i) { return substr(capital, value[i] + 1, 1) }
# Lengths are spread evenly by their logarithm.
function train(file, n, least, most,   k, i, body, order, asked) {
    state = 20
    for (k = 0; k < n; k++) {
        body = text(int(exp(log(least) + (k * 61 % 97) / 96 * (log(most - 64) - log(least)))))
        for (i = 0; i < N; i++) order[i] = i
        shuffle(order, N)
        asked = ""
        for (i = 0; i < N; i++) asked = asked question(order[i]) answer(order[i]) "."
        printf "{\"prompt\": \"%s\", \"completion\": \"%s\"}\n", body, asked > file
    }
}
function ask(name, n, length_,   k, i, body) {
    for (k = 0; k < n; k++) {
        body = text(length_)
        i = draw(N)
        printf "{\"prompt\": \"%s%s\"}\n", body, question(i) > (folder "/prompts_" name ".jsonl")
        print answer(i), 1 + int(4 * place[i] / length_) > (folder "/answers_" name ".txt")
    }
}
BEGIN {
    if (system("mkdir -p '" folder "'") != 0) exit 1
    N = 16
    capital = "ABCDEFGHIJKLMNOP"
    small = "abcdefghijklmnop"
    for (i = 0; i < 4 * N * N; i++)
        print substr(capital, 1 + i % N, 1) substr(small, 1 + int(i / N) % N, 1) > (folder "/words.txt")
    train(folder "/short.jsonl", 20000, 48, 256)
    train(folder "/far.jsonl", 2400, 900, 4096)
    train(folder "/mixed.jsonl", 6000, 48, 4096)
    ask("4k", 80, 4080)
    ask("16k", 40, 16368)
    printf "{\"text\": \"%s\"}\n", text(300000) > (folder "/long.jsonl")
}
