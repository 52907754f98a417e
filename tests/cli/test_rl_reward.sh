#!/usr/bin/env bash
# Graders outside of the process: their keys are shown nowhere, their failures are judged over all ranks, and what cannot
# work is refused before the first rollout.
source "$(dirname "$0")/support.sh"

awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"%d 1 7=15:\", \"label\": \"%d\"}\n", i, i }' >prompts.jsonl
make_text 200 >text.txt
make_model model.json
"$tessera" train model.config=model.json data.files=text.txt tokenizer.vocab_size=301 job.dump_folder=sft training.steps=1 \
    training.local_batch_size=1 training.seq_len=32 model.save_dtype=float32 training.mixed_precision_param=float32 \
    validation.enable=false checkpoint.enable=false recovery.enable=false debug.trace=false >sft.out 2>&1 </dev/null || cat sft.out

cat >rl.yaml <<YAML
model:
  path: sft/model
  save_dtype: float32
data:
  files: [prompts.jsonl]
training:
  steps: 2
  local_batch_size: 4
  seq_len: 24
  mixed_precision_param: float32
rollout:
  prompts: 6
  n: 4
  max_new_tokens: 4
reward:
  workers: 1
checkpoint:
  interval: 1
validation:
  enable: false
YAML
words=("$tessera" rl rl.yaml metrics.log_freq=1 metrics.enable_tensorboard=false)

# ---- Keys ----
# A reward model that looks for its key in the arguments of all processes, and repeats it in what it refuses.
key=hunter2-$$
cat >server.py <<'SERVER'
import glob, http.server, json, os, sys
class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        x = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        for name in glob.glob('/proc/[0-9]*/cmdline'):
            try: text = open(name).read()
            except OSError: continue
            if sys.argv[2] in text and 'server.py' not in text:
                open('titles', 'a').write(text + '\n')
        good = self.headers['X-Key'] == sys.argv[2]
        text = json.dumps(len(x['response'])) if good else 'not ' + self.path + str(self.headers['X-Key'])
        self.send_response(200 if good else 403)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
server = http.server.HTTPServer(('127.0.0.1', 0), Model)
open(sys.argv[1] + '.new', 'w').write(str(server.server_address[1]))
os.rename(sys.argv[1] + '.new', sys.argv[1])
server.serve_forever()
SERVER
export no_proxy=127.0.0.1
python3 server.py port "$key" &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
await $server test -e port || fail "no server"
echo "X-Key: $key" >header
url="http://name:$key@127.0.0.1:$(cat port)/judge?key=$key"
"${words[@]}" job.dump_folder=keyed -n 2 reward.kind=http "reward.url=$url" reward.header_file=header >keyed.out 2>&1 </dev/null &&
    pass "a header of a file opens the reward model" || { fail "keyed: exit code $?"; tail -n 5 keyed.out; }
X_HEADER="X-Key: $key" "${words[@]}" job.dump_folder=keyed2 reward.kind=http "reward.url=$url" reward.header_env=X_HEADER \
    training.steps=1 >keyed2.out 2>&1 </dev/null && pass "and one of a variable" || { fail "keyed2"; tail -n 5 keyed2.out; }
expect "a model that wants a key says so, before the first rollout" 2 "/judge?***: HTTP status 403: " \
    "${words[@]}" job.dump_folder=unkeyed -n 2 reward.kind=http "reward.url=$url"
cp output unkeyed.out
grep -q 'prompts: 40' unkeyed.out && fail "it was found out late" || pass "nothing was drawn for it"
expect "info shows no key" 0 "url=http://***@127.0.0.1:" "$tessera" info rl.yaml "reward.url=$url"
cp output info.out
grep -rl -- "$key" keyed keyed2 ./*.out >leaks && fail "the key is in: $(tr '\n' ' ' <leaks)" || pass "the key is in no file and no message"
grep -rqs 'url=http://\*\*\*@127.0.0.1' keyed/trace/*/job.json keyed/trace/job.json && pass "job.json has the command without it" ||
    fail "no command in job.json"
[ -e titles ] && fail "a process shows the key: $(tr '\0' ' ' <titles | head -n 1)" || pass "no process shows it"

# ---- Failures ----
# Answers of the first rollout's items 0 and 1 are none: both belong to one prompt, so to one rank.
cat >grader.sh <<'GRADER'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    if [ "$id" -lt "$BAD" ]; then echo "no idea"; else echo "{\"id\": $id, \"reward\": $((id % 3))}"; fi
done
GRADER
chmod +x grader.sh
graded=("${words[@]}" reward.kind=command "reward.command=[$work/grader.sh]" reward.env=BAD recovery.enable=true)
export BAD=2
for n in 1 3; do
    expect "2 of 24 failures do not end a run on $n ranks" 0 "2 of 24 rewards failed and count as none (reward.max_failures=0.1); rank 0: grader" \
        "${graded[@]}" job.dump_folder="some$n" -n $n
done
cmp -s some1/model/model.safetensors some3/model/model.safetensors && pass "on 3 ranks it learns the same" || fail "other weights"
export BAD=3
for n in 1 3; do
    expect "3 of 24 failures end a run on $n ranks" 2 "3 of 24 rewards failed, reward.max_failures allows 0.1 of them; grader '$work/grader.sh'" \
        "${graded[@]}" job.dump_folder="many$n" -n $n
done
# Items 4 to 6 belong to the second prompt, which rank 1 of 3 draws.
sed -i 's/if \[ "\$id" -lt "\$BAD" \]/if [ "$id" -ge 4 ] \&\& [ "$id" -lt 7 ]/' grader.sh
expect "the rank of the failures is named" 2 "rank 1: 3 of 24 rewards failed" "${graded[@]}" job.dump_folder=second -n 3
grep -qiE 'relaunch|starts again|restart|disk' output && fail "it is started again, or the disk is blamed" || pass "nothing is started again"
expect "trace names it, too" 3 "rank 1" "$tessera" trace second

# ---- What is known before ----
expect "a grader that ends is named before the first rollout" 2 \
    "reward.command: 'sh' ended (exit code 3) before it was given anything; it wrote: 'no module'" \
    "${graded[@]}" "reward.command=[sh,-c,echo no module >&2; exit 3]" job.dump_folder=ends -n 2
kill $server
trap 'rm -rf "$work"' EXIT
expect "a port where nobody listens" 2 "Failed to connect to 127.0.0.1" "${words[@]}" job.dump_folder=nobody reward.kind=http \
    "reward.url=$url" reward.retries=0
grep -q tries output && fail "reward.retries=0 tries again" || pass "once"
# Either build of libcurl is enough: here the one with OpenSSL cannot be loaded, then neither.
mkdir curl
: >curl/libcurl.so.4
ln -s "$(/sbin/ldconfig -p | awk '$1 ~ /^libcurl(-gnutls)?\.so\.4$/ { print $NF; exit }')" curl/libcurl-gnutls.so.4
expect "libcurl with GnuTLS does as well" 2 "Failed to connect to 127.0.0.1" env LD_LIBRARY_PATH="$work/curl" \
    "${words[@]}" job.dump_folder=gnutls reward.kind=http "reward.url=$url" reward.retries=0
ln -sf libcurl.so.4 curl/libcurl-gnutls.so.4
expect "without libcurl, what was tried is named" 2 "/libcurl-gnutls.so.4: file too short" env LD_LIBRARY_PATH="$work/curl" \
    "${words[@]}" job.dump_folder=no_curl reward.kind=http "reward.url=$url" reward.retries=0
grep -q "install libcurl4 7.85 or newer; .*/libcurl.so.4: file too short; " output && pass "and the first one, too" || fail "$(cat output)"

# ---- Labels ----
# refused NAME PROMPT_LINE TEXT KIND
refused() {
    echo "$2" >one.jsonl
    expect "$1" 2 "data.files: prompt 1 ('p'): $3" "${words[@]}" job.dump_folder=refused data.files=one.jsonl reward.kind="$4"
}
refused "a label of two numbers" '{"prompt": "p", "label": "1/2"}' "its label '1/2' is not one number" number
refused "a time as a label" '{"prompt": "p", "label": "10:30"}' "its label '10:30' is not one number" number
refused "no label for exact" '{"prompt": "p"}' "it has no label, with which the grader 'exact' compares" exact
finish
