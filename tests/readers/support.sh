# The scripts of readers source this, with the command and the project as arguments: tests/cli/support.sh, and short runs.
source "$2/tests/cli/support.sh"
export PATH="$(dirname "$(command -v "$python")"):$PATH" # bridges run with the Python that has the packages

# A run of text: train FOLDER ARGUMENTS...
make_text 400 >text.txt
make_model model.json
make_config run.yaml
train() {
    local folder=$1
    shift
    timeout 200 "$tessera" train run.yaml job.dump_folder="$folder" "$@" >"$folder.out" 2>&1 </dev/null || {
        fail "the run $folder: $(tail -n 5 "$folder.out")"
        return 1
    }
}

# A tracker's bridge: a run that a rank's death sends back from step 20 to 15, that ends at step 25, and that resumes to step
# 30; and six steps of reinforcement learning with samples.
through_bridge() {
    local bridge=$project/deploy/bridges/$1.py
    train text -n 2 metrics.command="$bridge" metrics.command_wait_s=150 job.description='a "hostile"; $(touch injected) <b>line</b>' training.steps=25 \
        checkpoint.interval=5 recovery.enable=true recovery.hot=false recovery.backoff_s=0 fault.spec="rank=1 step=18 point=step kind=sigkill" &&
        pass "a run that goes back"
    cp "text/bridge-$1.json" first.json
    cp text.out first.out
    train text -n 1 metrics.command="$bridge" metrics.command_wait_s=150 training.steps=30 checkpoint.interval=5 && pass "and resumes"
    [ "$(grep -o '"id": "[^"]*"' first.json)" = "$(grep -o '"id": "[^"]*"' "text/bridge-$1.json")" ] && pass "with the same id" ||
        fail "$(cat first.json "text/bridge-$1.json")"
    [ ! -e injected ] && [ ! -e text/injected ] && pass "a description is no command" || fail "a description became a command"
    grep -h "metrics.command" first.out text.out && fail "the bridge complains: $(cat text/metrics.command.log)" ||
        pass "the bridge did not complain"
    source "$project/tests/cli/rl.sh"
    rl answers -n 2 metrics.command="$bridge" metrics.command_wait_s=150 metrics.samples=3 && pass "reinforcement learning" || fail "$(tail -n 5 answers.out)"
    [ "$(grep -c '"event":"sample"' answers/samples.jsonl)" = 18 ] && pass "three samples of each rollout" ||
        fail "$(wc -l answers/samples.jsonl)"
}
