#!/usr/bin/env bash
# `tessera dash`: several runs on one page, whose token, hosts and methods are checked; runs that begin, hang, end and
# vanish while it is open.
. "$(dirname "$0")/support.sh"
command -v curl >/dev/null || { echo "SKIPPED: curl is missing"; exit 77; }
make_text 600 >text.txt
make_model model.json
make_config run.yaml
long="training.steps=1000000 validation.enable=false checkpoint.interval=1000000"

expect "a folder is needed" 2 "name the folder of a run" "$tessera" dash
expect "that is there" 2 "is no folder" "$tessera" dash nowhere
expect "a port is a port" 2 "--port" "$tessera" dash . --port 70000

evil='<script>alert(1)</script>"&'
evil=${evil////-} # a name of a folder has no slash
mkdir "$evil" later gone
"$tessera" train run.yaml -n 2 $long job.dump_folder="$evil" >log 2>&1 </dev/null &
launcher=$!
await $launcher has_lines "$evil/metrics.jsonl" 3 || fail "the run starts: $(tail -n 3 log)"
"$tessera" dash "$evil" later gone >address 2>hint </dev/null &
dash=$!
if ! await $dash has_text address '/$'; then
    grep -q "need libmicrohttpd" hint && { kill -INT $launcher; echo "SKIPPED: libmicrohttpd is missing"; exit 77; }
    fail "the address is printed: $(cat address hint)"
    finish
fi
url=$(cat address)
root=${url%/*/}
get() { curl -sS --max-time 60 --path-as-is "$@"; }
code() { get -o answer -w '%{http_code}' "$@"; }
part_has() { get "${url}part/$1" >part && has_text part "$2"; } # PART PATTERN

expect "the way over ssh is told" 0 "ssh -L " cat hint
expect "the address is of loopback, with a token" 0 "http://127.0.0.1:" grep -E '^http://127.0.0.1:[0-9]+/[0-9a-f]{32}/$' address
expect "it listens on loopback only" 0 "only" sh -c "ss -Hltn | awk -v port=':${root##*:}\$' '\$4 ~ port { n++; if (\$4 !~ /^127/) bad = 1 } END { if (n == 1 && !bad) print \"only\" }'"

# ---- Requests
[ "$(code "$url")" = 200 ] && pass "the page" || fail "the page: $(head -n 3 answer)"
cp answer page
get -D headers -o /dev/null "$url"
expect "its policy loads nothing from elsewhere" 0 "default-src 'none'; connect-src 'self'; style-src 'sha256-" cat headers
expect "nothing keeps it" 0 "no-store" cat headers
grep -qF '<script>alert' page && fail "a name is markup" || pass "a hostile name is text"
expect "which is on the page" 0 '&lt;script&gt;alert(1)&lt;-script&gt;' cat page
expect "it is live without scripts" 0 '<noscript><meta http-equiv="refresh"' cat page
token=${url#"$root"/}
token=${token%/}
wrong=$(tr '0-9a-f' '1-9a-f0' <<<"$token")
for path in / /$wrong/ /${token}0/ /${token%?}/ /$wrong/part/live /../$token/ /favicon.ico /etc/passwd; do
    [ "$(code "$root$path")" = 403 ] && pass "refused: ${path//[0-9a-f]/.}" || fail "$path: $(head -c 200 answer)"
done
for path in x part/ part/x part/../live ../$token/part/live part//live run.yaml ../../etc/passwd part/live/; do
    got=$(code "$url$path")
    [ "$got" = 404 ] || [ "$got" = 403 ] && pass "no page: ${path//$token/TOKEN}" || fail "$path: $got"
done
for method in POST PUT DELETE OPTIONS TRACE; do
    [ "$(code -X $method "$url")" = 405 ] && pass "$method is refused" || fail "$method: $(head -c 200 answer)"
done
[ "$(code -I "$url")" = 200 ] && pass "HEAD is answered" || fail "HEAD: $(cat answer)"
for host in evil.example 127.0.0.1.evil.example:80 '' localhost.evil.example; do
    got=$(code -H "Host: $host" "$url")
    [ "$got" = 403 ] || [ "$got" = 400 ] && pass "another host's name is refused: '$host'" || fail "Host $host: $got"
done
[ "$(code -H "Host: localhost:8080" "$url")" = 200 ] && pass "another port of a tunnel is fine" || fail "a tunnel: $(head -c 200 answer)"
# More connections than are allowed, all idle: it still answers once they are closed, and the run is not disturbed.
for i in $(seq 40); do exec {fd}<>"/dev/tcp/127.0.0.1/${root##*:}" && fds="$fds $fd"; done 2>/dev/null
for fd in $fds; do exec {fd}>&-; done
[ "$(code "$url")" = 200 ] && pass "it outlives forty idle connections" || fail "idle connections: $(head -c 200 answer)"

# ---- What it shows
expect "sections of the report" 0 '<section id="curves">' cat page
version=$(get "${url}part/version")
is_newer() { [ "$(get "${url}part/version")" != "$version" ]; }
await $launcher is_newer && pass "its version changes as the run goes on" || fail "the version: $version"
expect "a run that has not begun" 0 "No job that runs on this machine writes here" get "${url}part/live"
"$tessera" train run.yaml $long job.dump_folder=later >later.log 2>&1 </dev/null &
later=$!
await $later part_has live 'dump_folder=later' && pass "a run that begins is shown" || fail "a run begins: $(cat part)"
await $later part_has curves 'later' && pass "and its curves" || fail "its curves: $(head -c 300 part)"

stopped=$(rank $launcher 1)
kill -STOP "$stopped"
await $launcher part_has live 'Rank 1 keeps 1 rank waiting for' && pass "a hang shows who waits" || fail "a hang: $(cat part)"
expect "and for which rank" 0 '<td>rank 1, ' cat part
kill -CONT "$stopped"
kill -KILL "$(rank $launcher 1)"
wait $launcher
await $dash part_has live 'The job ended' && pass "a run that ends is shown" || fail "the end: $(cat part)"
expect "with its cause" 0 'SIGKILL' cat part
kill -INT $later
wait $later
rm -r later
await $dash part_has live 'does not exist any more' && pass "a run that vanishes" || fail "it vanishes: $(cat part)"
get "${url}part/version" >/dev/null
[ "$(code "${url}part/figures")" = 200 ] && [ "$(code "$url")" = 200 ] && pass "the others are still there" || fail "the others: $(head -c 300 answer)"

kill -INT $dash
wait $dash
[ $? = 0 ] && pass "ctrl-C ends it" || fail "its end: $(cat hint)"
[ "$(wc -l <hint)" = 1 ] && pass "it printed nothing else" || fail "it printed: $(cat hint)"
"$tessera" dash "$evil" --port ${root##*:} >address 2>hint </dev/null &
dash=$!
await $dash has_text address ":${root##*:}/" && pass "a port of one's choice" || fail "the port: $(cat hint)"
expect "a taken port is told" 1 "Address already in use" "$tessera" dash "$evil" --port ${root##*:}
kill -TERM $dash
wait $dash
finish
