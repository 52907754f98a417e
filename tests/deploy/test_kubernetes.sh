#!/usr/bin/env bash
# The Helm chart and the manifests for Kubernetes: rendered with every option and valid against the published schemas. Then the
# pods of the indexed Job, as the chart makes them, are played on two hosts that are network namespaces: a node is taken away
# as a spot machine is, its pod comes again, and the weights are those of an undisturbed run on one host.
# Arguments: the command, the source folder. Wants root, Go and Sprig (tools/deps deploy), and PyPI for the validator.
. "$(dirname "$0")/../hosts/support.sh"
tools=$(dirname "$tessera")/deploy-tools
python=$tools/python/bin/python
command -v bwrap >/dev/null || skip "bwrap is missing: tools/deps deploy"
"$project/tests/deploy/tools.sh" "$tools" || exit $?
check() { "$python" "$project/tests/deploy/kubernetes.py" "$tools/render" "$@"; }

if check >checked 2>&1; then
    grep SKIPPED checked
    pass "the chart: $(grep -v SKIPPED checked)"
else
    fail "the chart: $(cat checked)"
fi

# ---- Pods, played
make_text 1500 >text.txt
make_model model.json
make_config run.yaml
mkdir -p volume config secret
cp text.txt model.json volume/
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >secret/secret
run=(training.steps=400 checkpoint.interval=100 validation.enable=false)
"$tessera" train run.yaml -n 4 "${run[@]}" job.dump_folder=alone >log 2>&1 || { fail "one host: $(tail -n 3 log)"; finish; }
"$python" - "$project/deploy/helm/tessera/values.yaml" "${run[@]}" <<'VALUES' >values.json || exit 1
import json, sys, yaml
values = yaml.safe_load(open(sys.argv[1]))
values.update(nodes=2, ranksPerNode=2, config=open("run.yaml").read(), overrides=sys.argv[2:])
print(json.dumps(values))
VALUES
check --pod values.json >pod.json || { fail "a pod: $(cat pod.json)"; finish; }
"$python" -c 'import json; open("config/run.yaml", "w").write(json.load(open("pod.json"))["config"])'
hosts_up 2
# The names that the headless service makes known.
for k in 0 1; do
    sed -n "s/^\([0-9.]*\)[[:space:]].*h$((k + 1)).*/\1 train-$k.train/p" "/run/tessera-hosts/$TESS_HOSTS_PREFIX/hosts"
done >names
cat names >>"/run/tessera-hosts/$TESS_HOSTS_PREFIX/hosts"

# pod INDEX: the container of this index, on its own host: its words and variables, a root that it cannot write, user 1000.
pod() {
    local index=$1
    "$python" - "$index" <<'POD' >"words.$index"
import json, sys
container = json.load(open("pod.json"))["container"]
variables = {}
for v in container["env"]:
    variables[v["name"]] = v.get("value", sys.argv[1])  # the field is the index
words = container["command"] + container["args"]
for name, value in variables.items():
    words = [w.replace("$(%s)" % name, value) for w in words]
print("\0".join(["%s=%s" % v for v in variables.items()] + [""] + words), end="")
POD
    local -a all variables=() words=()
    mapfile -d "" -t all <"words.$index"
    while [ -n "${all[0]}" ]; do variables+=("${all[0]}"); all=("${all[@]:1}"); done
    words=("${all[@]:1}")
    "$hosts" exec "h$((index + 1))" bwrap --unshare-user --uid 1000 --gid 1000 --unshare-pid --as-pid-1 --die-with-parent \
        --tmpfs / --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind /etc /etc-host \
        --dir /etc --ro-bind /etc/hosts /etc/hosts --ro-bind /etc/passwd /etc/passwd --proc /proc --dev /dev \
        --ro-bind "$work/config" /etc/tessera --ro-bind "$work/secret" /run/tessera --bind "$work/volume" /train --tmpfs /tmp \
        --ro-bind "$(dirname "$tessera")" /opt --chdir /train --remount-ro / \
        --setenv PATH /opt:/usr/bin --setenv TEST_WORK "$work" env "${variables[@]}" "${words[@]}"
}

pod 0 >pod.0 2>&1 &
first=$!
pod 1 >pod.1 2>&1 &
second=$!
await $first has_lines volume/out/metrics.jsonl 6 || { fail "the pods train: $(tail -n 3 pod.0 pod.1)"; finish; }
# The kubelet of the node that is taken away signals process 1 of the pod.
kill -TERM "$(pgrep -f -- "launch --rdzv .* --node-rank 1 " | while read -r pid; do
    grep -qsza "^TEST_WORK=$work\$" "/proc/$pid/environ" && grep -qs '^NSpid:.*[[:space:]]1$' "/proc/$pid/status" && echo "$pid"
done | tail -n 1)"
wait $first; code=$?
wait $second; other=$?
[ "$code $other" = "130 130" ] && pass "a node that is taken away: all ranks save, exit codes 130, which do not count as failures" ||
    fail "a node that is taken away: codes $code and $other: $(tail -n 3 pod.0 pod.1)"
pod 1 >pod.1 2>&1 &
second=$!
pod 0 >pod.0 2>&1
code=$?
wait $second
[ $code = 0 ] && grep -q 'resumed from step' pod.0 && pass "new pods go on: $(grep -o 'resumed from step [0-9]*' pod.0)" ||
    fail "new pods go on: code $code: $(tail -n 3 pod.0)"
cmp -s volume/out/model/model.safetensors alone/model/model.safetensors && pass "the weights are those of one host" ||
    fail "the weights differ from those of one host"
finish
