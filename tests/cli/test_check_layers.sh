#!/usr/bin/env bash
# `tools/check-layers`: a module inside the folder of another one has its own level, its own archive and its own files.
. "$(dirname "$0")/support.sh"
for tool in git nm objdump ar cc; do
    if ! command -v $tool >/dev/null; then
        echo "SKIPPED: no $tool: tools/check-layers reads files under version control and what was built from them"
        exit 0
    fi
done
layers() { bash tools/check-layers "$@"; }
clean() { # NAME ARGUMENTS...: check-layers exits with 0 and prints nothing
    local name=$1
    shift
    if layers "$@" >output 2>&1 && [ ! -s output ]; then pass "$name"; else fail "$name: $(tail -n 3 output)"; fi
}
build() { # compiles each module into an archive, with objects that are named after their sources
    local source module
    rm -rf build
    mkdir build
    for source in $(cd src && find . -name '*.c' | sed 's|^\./||'); do
        module=${source%/*}
        cc -Isrc -c "src/$source" -o "build/${source##*/}.o"
        ar rc "build/libtess_${module//\//_}.a" "build/${source##*/}.o"
    done
}

git init -q
mkdir -p tools src/low src/high/options src/middle
cp "$project/tools/check-layers" tools/
printf 'module low 0\nmodule high/options 1\nmodule middle 2\nmodule high 3\n' >tools/layers.txt
cat >CMakeLists.txt <<'C'
tess_module(low )
tess_module(high/options DEPS low)
tess_module(middle DEPS low
            high/options)
tess_module(high DEPS low middle)
C
echo 'int low(void);' >src/low/low.h
echo 'int low(void) { return 0; }' >src/low/low.c
echo 'int rows(void);' >src/high/options/rows.h
printf '#include "low/low.h"\n#include "high/options/rows.h"\nint rows(void) { return low(); }\n' >src/high/options/rows.c
echo 'int middle(void);' >src/middle/middle.h
printf '#include "high/options/rows.h"\nint middle(void) { return rows(); }\n' >src/middle/middle.c
echo 'int high(void);' >src/high/high.h
printf '#include "middle/middle.h"\nint high(void) { return middle(); }\n' >src/high/high.c
build
clean "a lower module in the folder of a higher one may be included"
clean "and so may be what it links" build

echo '#include "high/high.h"' >src/high/options/up.h
expect "a nested module may not include the module around it" 1 \
    "src/high/options/up.h:1: high/options (level 1) may not see high/high.h (high, level 3)" layers
echo '#include "middle/middle.h"' >src/high/options/up.h
expect "nor one between the two" 1 \
    "src/high/options/up.h:1: high/options (level 1) may not see middle/middle.h (middle, level 2)" layers
rm src/high/options/up.h
echo '#include "high/high.h"' >src/middle/up.h
expect "the folder around a nested module stays higher" 1 \
    "src/middle/up.h:1: middle (level 2) may not see high/high.h (high, level 3)" layers
rm src/middle/up.h

echo 'int high(void); int up(void); int up(void) { return high(); }' >src/high/options/up.c
build
expect "nor may it use a symbol of the module around it" 1 \
    "high/options/up.c: uses high of high/high.c, which is no lower module" layers build
rm src/high/options/up.c
echo 'int rows(void); int down(void); int down(void) { return rows(); }' >src/high/down.c
build
expect "the outer module declares what it uses of a nested one" 1 \
    "CMakeLists.txt: high uses high/options (high/down.c: rows), which its tess_module does not declare" layers build
rm src/high/down.c
echo 'int count(void); int count(void) { static int n = 1; return n++; }' >src/high/options/count.c
build
expect "a variable of a nested module is named with its path" 1 \
    "high/options/count.c: the variable n outlives a call" layers build
echo 'static high/options/count n' >>tools/layers.txt
clean "and is listed under it" build
rm src/high/options/count.c
build

sed -i '/^module high\/options/d' tools/layers.txt
expect "without its line the folder belongs to the module around it" 1 \
    "src/middle/middle.c:1: middle (level 2) may not see high/options/rows.h (high, level 3)" layers
expect "and the build may not have it as a module" 1 "CMakeLists.txt: high/options is no module of tools/layers.txt" \
    layers build
finish
