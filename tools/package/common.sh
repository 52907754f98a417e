# Shared by the programs of this folder: the project, its version, and the time that every file of a package gets. The time is
# SOURCE_DATE_EPOCH, or the time of the newest commit, or that of debian/changelog where there is no git.
set -euo pipefail
export LC_ALL=C
umask 022
project=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
version=$(sed -n 's/^#define TESS_VERSION_[MP][A-Z]* \([0-9]*\)$/\1/p' "$project/include/tessera/version.h" | paste -sd.)
packages=${TESS_PACKAGES:-$project/build/packages}
jobs=${JOBS:-$(nproc)}
: "${SOURCE_DATE_EPOCH:=$(git -C "$project" log -1 --format=%ct 2>/dev/null || dpkg-parsechangelog -l "$project/debian/changelog" -STimestamp)}"
export SOURCE_DATE_EPOCH
fail() { echo "${0##*/}: $*" >&2; exit 1; }
needs() { for program; do command -v "$program" >/dev/null || fail "$program is missing: run tools/deps package"; done; }

# The tracked files, or all where there is no git, as a tar archive.
sources() {
    if git -C "$project" rev-parse --git-dir >/dev/null 2>&1; then
        git -C "$project" ls-files -z | tar -C "$project" --null -T - -c
    else
        tar -C "$project" --exclude=./build --exclude=./out -c .
    fi
}

# same_tar FOLDER NAME...: prints a tar archive of what is in a folder, the same bytes for the same files.
same_tar() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
        --format=gnu -c "${@:2}"
}

# archive FOLDER FILE: packs a folder, the same bytes for the same files.
archive() { same_tar "$(dirname "$1")" "$(basename "$1")" | xz -T1 -3 >"$2"; }

# portable BUILD: installs what runs on other systems from a build of `deb` to $packages/portable. The docs have the licenses of
# the libraries inside, and a list of them (sbom.spdx.json).
portable() {
    local to=$packages/portable docs=$packages/portable/share/doc/tessera package libraries
    rm -rf "$to"
    cmake --install "$1" --prefix "$to" >/dev/null
    # The variable: else cmake keeps a file that has the time of the new one, to the second.
    CMAKE_INSTALL_ALWAYS=1 cmake --install "$1" --prefix "$to" --component portable >/dev/null
    libraries=$(dirname "$(find "$to/lib" -name libtessera.so.0)")/tessera
    mkdir -p "$libraries"
    ldd "$1/libtessera.so" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -vE '/lib(c|m|dl|rt|pthread)\.so' | xargs -I{} cp -L {} "$libraries/"
    # pkg-config finds the library where those inside have no files for pkg-config.
    sed -i -e '/^Requires.private:/d' -e "s/^Libs.private:.*/& -Wl,--start-group $(sed -n 's/^TESS_ARCHIVE_\(.*\):FILEPATH=.*/-l\1/p' "$1/CMakeCache.txt" |
        paste -sd' ') -Wl,--end-group/" "$to"/lib/*/pkgconfig/tessera.pc
    "$project/tools/package/sbom" "$1" "$version" >"$docs/sbom.spdx.json"
    mkdir "$docs/licenses"
    for package in $(sed -n 's/^  *"name": "\(.*-dev\)",$/\1/p' "$docs/sbom.spdx.json"); do
        cp "/usr/share/doc/$package/copyright" "$docs/licenses/$package"
    done
}

# stage FOLDER: copies build/packages/portable to the folder.
stage() {
    [ -x "$packages/portable/bin/tessera" ] || fail "run make deb first"
    rm -rf "$1"
    cp -r "$packages/portable" "$1"
}
