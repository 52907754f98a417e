#!/usr/bin/env bash
# `tools/check-words`: breaches, paths that name nothing, and files that are deleted in the work tree.
. "$(dirname "$0")/support.sh"
if ! command -v git >/dev/null; then
    echo "SKIPPED: no git: tools/check-words lists the files under version control"
    exit 0
fi
words() { "$project/tools/check-words" "$@"; }
silent() { # NAME COMMAND...: the command exits with 0 and prints nothing
    local name=$1
    shift
    if "$@" >output 2>&1 && [ ! -s output ]; then pass "$name"; else fail "$name: $(tail -n 3 output)"; fi
}

git init -q
mkdir src data
echo "/* Adds two numbers. */" >src/good.c
echo "/* of the oldest */" >src/bad.c
echo "x" >data/numbers.txt
git add src data
expect "a breach is named with its line" 1 "src/bad.c:1: bare: of the oldest" words
silent "the paths that are given are checked alone" words src/good.c
expect "a path that names nothing is an error" 2 "no file to check under version control: scr" words src scr
expect "a folder without files to check is an error" 2 "no file to check under version control: data" words data
rm src/bad.c
silent "a file that is deleted in the work tree is left out" words
expect "a deleted file is nothing to check" 2 "no file to check under version control: src/bad.c" words src/bad.c
echo "/* The rest is in data/list.c and good.c. */" >src/paths.c
printf '# One\n\n[two](other.md), [three](#three), [one](#one)\n' >src/links.md
git add src/paths.c src/links.md
expect "a file that a comment names must exist" 1 "src/paths.c:1: path: there is no data/list.c" words src/paths.c
expect "a file that a document links to must exist" 1 "src/links.md:3: path: there is no other.md" words src/links.md
expect "a heading that a document links to must exist" 1 "src/links.md:3: path: there is no #three" words src/links.md
expect_not() { # NAME TEXT: the last output lacks the text
    if grep -qF -- "$2" output; then fail "$1"; else pass "$1"; fi
}
words src >output 2>&1 || true
expect_not "files and headings that exist are no breach" "good.c"
expect_not "a link to a heading that exists is no breach" "#one"

mkdir -p src/base/core docs
cat >src/base/core/variables.h <<'H'
/* Variables. */
#define LIST(X) \
    X(TESS_VAR_A, "TESSERA_A", USER, "the first " \
      "of two", "none", "") \
    X(TESS_VAR_B, "TESSERA_B", TESSERA, "the second", "set by `a`", "int 0..") \
    X(TESS_VAR_PATH, "PATH", SYSTEM, "folders", "", "")
H
printf '| `TESSERA_A` | the first of two | none |\n' >docs/variables.md
git add src docs
expect "a variable that the docs lack is named" 1 "lacks the line | \`TESSERA_B\` | the second | by \`a\` |" words
expect_not "one that they have is no breach, nor one of the system" "TESSERA_A"
finish
