#!/usr/bin/env bash
# A C program finds an installed library by pkg-config, shared and static, wherever the installed tree has been moved to.
source "$(dirname "$0")/support.sh"
build=$(dirname "$tessera")
export PKG_CONFIG_PATH

cmake --install "$build" --prefix "$work/first" >install.log 2>&1 || { fail "install: $(tail -n 1 install.log)"; finish; }
mv first prefix
version=$("$tessera" --version)
mkdir elsewhere
expect "the command, moved, from another folder" 0 "$version" env -C elsewhere -i "$work/prefix/bin/tessera" --version
expect "the completion of bash" 0 "trace train" bash -c 'source prefix/share/bash-completion/completions/tessera
    COMP_WORDS=(tessera tr) COMP_CWORD=1
    _tessera && echo "$(printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd" ")"'
if command -v zsh >/dev/null; then
    expect "the completion of zsh" 0 "inspect ls" zsh -c 'compadd() { [ "$1" != -- ] || print -l -- "${@:2}" | sort | paste -sd" "; }
        _files() { :; }
        words=(tessera ckpt "") CURRENT=3
        . prefix/share/zsh/site-functions/_tessera'
fi
if command -v fish >/dev/null; then
    expect "the completion of fish" 0 "optimizer.lr=" fish -c 'source prefix/share/fish/vendor_completions.d/tessera.fish
        complete -C "tessera train optimizer.l"'
    expect "fish offers the flags of a verb alone" 0 "--newest" fish -c 'source prefix/share/fish/vendor_completions.d/tessera.fish
        complete -C "tessera ckpt verify --n"; complete -C "tessera ckpt verify --l" | grep . && echo unexpected; true'
    grep -q unexpected output && fail "fish offers flags of another command: $(cat output)"
fi
pages=$(find prefix -name 'tessera*.[15]' | wc -l)
[ "$pages" -gt 30 ] && pass "$pages man pages" || fail "only $pages man pages"
for file in LICENSE docs/embedding.md examples/kjv.yaml examples/kjv.json; do
    [ -s "prefix/share/doc/tessera/$file" ] && pass "$file" || fail "$file is not installed"
done
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name tessera.pc)")
libraries=$(pkg-config --variable=libdir tessera)
cat >program.c <<'PROGRAM'
#include <stdio.h>
#include <tessera/runtime.h>
int main(void)
{
    tess_runtime *runtime;
    tess_status status = tess_runtime_create(NULL, &runtime);
    if (status == TESS_OK)
        tess_runtime_destroy(&runtime);
    printf("%s\n", tess_status_name(status));
    return status != TESS_OK;
}
PROGRAM

sanitizers=()
nm "$libraries/libtessera.a" 2>/dev/null | grep -q __asan_init && sanitizers=(-fsanitize=address,undefined)
# shellcheck disable=SC2046
cc "${sanitizers[@]}" program.c -o shared $(pkg-config --cflags --libs tessera) >cc.log 2>&1 || cat cc.log
expect "a program with the shared library" 0 TESS_OK env LD_LIBRARY_PATH="$libraries" ./shared

# All of the archive, so that no library that any part of it needs can be missing.
if [ ${#sanitizers[@]} = 0 ]; then
    # shellcheck disable=SC2046
    cc -static $(pkg-config --static --cflags tessera) program.c -o static -Wl,--whole-archive "$libraries/libtessera.a" \
        -Wl,--no-whole-archive $(pkg-config --static --libs tessera) >cc.log 2>&1 || grep undefined cc.log | head -n 5
    expect "a program without any shared library" 0 TESS_OK ./static
fi
finish
