# Runs the gate. All inputs are environment variables, so that none becomes part of a shell command.
set -uo pipefail

venv="${RUNNER_TEMP:?}/spillscan-venv/bin"
words='import os, shlex; print("".join(word + "\n" for word in shlex.split(os.environ["ARGUMENTS"])), end="")'
if ! split=$("$venv/python" -c "$words"); then
  echo "::error title=spillscan::unclosed quote in 'arguments'"
  exit 2
fi
mapfile -t inputs < <(printf '%s' "$INPUTS" | sed '/^[[:space:]]*$/d')
mapfile -t arguments < <(printf '%s' "$split" | sed '/^$/d')
folder="$RUNNER_TEMP/spillscan"
mkdir -p "$folder"

# In a container the checkout belongs to another user, and git refuses to read it unless it is marked as safe.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="${GITHUB_WORKSPACE:-$PWD}"

if [ -n "$BEFORE" ]; then
  if [ "${#inputs[@]}" -ne 1 ]; then
    echo "::error title=spillscan::'before' needs exactly one input"
    exit 2
  fi
  command=(diff "$BEFORE" "${inputs[0]}")
else
  command=(check "${inputs[@]}")
fi

status=0
"$venv/spillscan" "${command[@]}" --fail-on "$FAIL_ON" "${arguments[@]}" \
  -f github -f "json:$folder/report.json" -f "markdown:$folder/report.md" -f "sarif:$folder/report.sarif" || status=$?

echo "status=$status" >> "$GITHUB_OUTPUT"
for kind in json:report.json markdown:report.md sarif:report.sarif; do
  if [ -e "$folder/${kind#*:}" ]; then
    echo "${kind%%:*}=$folder/${kind#*:}" >> "$GITHUB_OUTPUT"
  fi
done
if [ -e "$folder/report.md" ]; then
  cat "$folder/report.md" >> "$GITHUB_STEP_SUMMARY"
else
  echo "**spillscan** could not check the build: see the log" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$status"
