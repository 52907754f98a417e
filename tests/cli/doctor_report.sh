# Golden tests of `tessera doctor log` source this after support.sh: its JSON report on logs.
# The ids of the entries with a role, by the JSON report.
ids_with_role() { # ROLE
    awk -F '"' -v role="$1" '$2 == "id" { id = $4 } $2 == "role" && $4 == role { printf "%s ", id }' report.json
}

# The reports on logs: report.json, and its headline in `headline`.
read_logs() { # FILE...
    "$tessera" doctor log --json "$@" >report.json 2>errors
    awk -F '"' '/"verdict": {/ { verdict = 1 } verdict && $2 == "text" { print; exit }' report.json >headline
}
