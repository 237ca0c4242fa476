#!/bin/sh
# Runs a script with the first suitable Python: `sh tools/python.sh SCRIPT`. Suitable means 3.11 or newer, and able to
# make virtual environments. PYTHON=/path/to/python names the one to take.
found=""
for python in "${PYTHON:-python3.13}" python3.12 python3.11 python3 python; do
    if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
        :
    elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        found="$found; $python is $version, too old"
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        found="$found; $python has no venv module (Debian: apt-get install python$version-venv)"
    else
        exec "$python" "$@"
    fi
    [ -z "$PYTHON" ] || break
done
echo "The book needs Python 3.11 or newer${found:-; none was found}. Another one: make PYTHON=/path/to/python" >&2
exit 1
