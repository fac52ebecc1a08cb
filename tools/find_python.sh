#!/bin/sh
# Print the Pythons that the project runs on (3.11 to 3.14), newest first, one of each version.
# Every candidate is run: a name on the PATH may be a shim that starts nothing. Of an active environment it is
# the Python that made it, since `make` may make that environment anew.
for version in 3.14 3.13 3.12 3.11; do
    for python in "python$version" python3 python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python3; do
        found=$("$python" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2], sys._base_executable)' 2>/dev/null) || continue
        if [ "${found%% *}" = "$version" ]; then
            echo "${found#* }"
            break
        fi
    done
done
