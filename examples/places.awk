# Where things are, as prose and as conversations, for the example of fine-tuning (docs/howto/conversations.md). Each of 64
# things is in a place of its own choice, always the same. The prose tells of all of them; the conversations for training
# ask for 48, those that are held out for the other 16: what a model says there it knows from the prose.
#
#   awk -v folder=out/places -f examples/places.awk
#
# writes prose.jsonl (10,000 texts), chats.jsonl (4,000 conversations of one to four questions), held_out.jsonl (200), and
# questions.txt with answers.txt: one question for each of the 16, and what is right. The same text on every machine: random
# numbers are Park and Miller's (CACM 31, 1988), which doubles hold exactly.
function draw(n) { state = (16807 * state) % 2147483647; return int(n * (state / 2147483647)) }
function fact(i) { return "The " thing[i] " is " place[where[i]] "." }
function turn(role, content) { return "{\"role\": \"" role "\", \"content\": \"" content "\"}" }
function prose(file, n,   k, q, i, text) {
    for (k = 0; k < n; k++) {
        text = ""
        for (q = 1 + draw(4); q >= 0; q--) {
            i = 1 + draw(n_things)
            text = text (text ? " " : "") (draw(2) ? "Looking for the " thing[i] "? " : "") fact(i)
        }
        print "{\"text\": \"" text "\"}" > file
    }
}
# About things number from + 1 .. from + n_asked.
function chats(file, n, from, n_asked,   k, q, i, line) {
    for (k = 0; k < n; k++) {
        line = ""
        for (q = draw(4); q >= 0; q--) {
            i = from + 1 + draw(n_asked)
            line = line (line ? ", " turn("user", "And the " thing[i] "?") : turn("user", "Where is the " thing[i] "?")) ", " turn("assistant", fact(i))
        }
        print "{\"messages\": [" line "]}" > file
    }
}
BEGIN {
    if (system("mkdir -p '" folder "'") != 0) exit 1
    state = 20
    n_things = split("key cup book lamp coat ring map coin rope bell knife hat letter candle spoon clock " \
                     "axe bag ball bowl box broom brush cap card chair comb crown doll drum fan flag " \
                     "fork glass glove harp horn jar kite ladder lock mirror mug nail needle net pan pen " \
                     "pipe plate pot purse rake saw scarf shirt shoe sword tent thimble towel vase wheel whip", thing)
    n_places = split("in the drawer|on the shelf|under the bed|by the door|in the garden|on the table|behind the stove|" \
                     "at the well|in the barn|on the roof|under the stairs|in the cellar", place, "|")
    for (i = 1; i <= n_things; i++) where[i] = 1 + draw(n_places)
    for (i = n_things; i > 1; i--) { j = 1 + draw(i); t = thing[i]; thing[i] = thing[j]; thing[j] = t }
    prose(folder "/prose.jsonl", 10000)
    chats(folder "/chats.jsonl", 4000, 0, 48)
    chats(folder "/held_out.jsonl", 200, 48, 16)
    for (i = 49; i <= n_things; i++) {
        print "Where is the " thing[i] "?" > (folder "/questions.txt")
        print fact(i) > (folder "/answers.txt")
    }
}
