# Tests over several hosts source this: tests/cli/support.sh, and hosts made by tools/hosts that are removed when the test ends.
# Exit code 77: root, network namespaces, an MPI or its plug-in is missing.
project=$2
. "$project/tests/cli/support.sh"

hosts="$project/tools/hosts"
export TESS_HOSTS_PREFIX=e$$ TESS_HOSTS_OWNER=$$
trap '"$hosts" down; rm -rf "$work"' EXIT

skip() { echo "SKIPPED: $*"; exit 77; }

# needs MPI...: openmpi, mpich.
needs() {
    local mpi
    for mpi in "$@"; do
        command -v "mpirun.$mpi" >/dev/null || skip "mpirun.$mpi is missing (Debian package: ${mpi/openmpi/openmpi-bin})"
        [ -e "$(dirname "$tessera")/libtessera_mpi_$mpi.so" ] || skip "this build has no plug-in for $mpi"
    done
}

# hosts_up N [OPTIONS of tools/hosts up]
hosts_up() {
    local code=0
    "$hosts" down
    "$hosts" up "$@" || code=$?
    [ $code = 0 ] || exit $code
}

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# same NAME REFERENCE COMMAND...: trains into `out`; losses, gradient norms and weights are those in folder REFERENCE.
same() {
    local name=$1 reference=$2
    shift 2
    rm -rf out
    if ! timeout 600 "$@" >log 2>&1 </dev/null; then
        fail "$name: exit code $?: $(tail -n 3 log)"
    elif ! cmp -s <(columns out) <(columns "$reference"); then
        fail "$name: the columns differ, first at"
        diff <(columns out) <(columns "$reference") | head -n 3 | sed 's/^/    /'
    elif ! cmp -s out/model/model.safetensors "$reference/model/model.safetensors"; then
        fail "$name: the weights differ"
    elif ! "$tessera" trace out >traced 2>&1; then
        fail "$name: the trace of a job that ended well: exit code $?: $(head -n 3 traced)"
    else
        pass "$name"
    fi
}
