#!/bin/sh
# Installs what a run or the tests need and is not there yet: Debian's packages if some are missing
# (the only step that needs root), then a virtual environment in .venv.  With everything in place it
# does nothing and needs no network.
#
#   scripts/setup.sh run    what `make run` needs
#   scripts/setup.sh dev    that, and what `make test` and `make lint` need
set -eu

profile=${1:-run}
cd "$(dirname "$0")/.."
packages="python3 python3-venv ca-certificates gcc libc6-dev make iproute2 net-tools ethtool tcpdump procps mininet"

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$*"; exit 2; }

python_works() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2])' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && python_works "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

compiler_works() {
    for candidate in ${CC:-} cc gcc clang; do
        if command -v "$candidate" >/dev/null &&
            echo '#include <stdio.h>' | "$candidate" -xc -fsyntax-only - 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

# What is missing, in words.  ifconfig is Mininet's; the others are ours.
missing() {
    [ -n "$(find_python)" ] || echo "python3 (3.11 or newer, with venv)"
    compiler_works || echo "a C compiler"
    for command in ip ifconfig ethtool tcpdump ps mnexec; do
        command -v "$command" >/dev/null || [ -x "/usr/sbin/$command" ] || [ -x "/sbin/$command" ] ||
            echo "$command"
    done
}

check_release() {
    [ -r /etc/os-release ] || return 0
    . /etc/os-release
    case "${ID:-}:${VERSION_ID:-}" in
    debian:[1-9] | debian:1[01])
        fail "this is Debian $VERSION_ID; the testbed needs Debian 12 or newer (or Ubuntu 24.04 or newer)." ;;
    ubuntu:[0-9].* | ubuntu:1?.* | ubuntu:2[0-3].*)
        fail "this is Ubuntu $VERSION_ID; the testbed needs Ubuntu 24.04 or newer (or Debian 12 or newer)." ;;
    esac
}

install_packages() {
    lacking=$(missing | paste -sd, - | sed 's/,/, /g')
    [ -n "$lacking" ] || return 0
    if ! command -v apt-get >/dev/null; then
        say "missing: $lacking. This is no Debian or Ubuntu: install them with your package manager."
        return 0
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null; }; then
            as_root=sudo
        else
            say "missing: $lacking. To install them: apt-get install $packages (as root)."
            return 0
        fi
    fi
    say "missing: $lacking; installing Debian's packages"
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300"
    {
        $apt update && $apt install -y --no-install-recommends $packages
    } >&2 || fail "apt-get failed; its messages are above. Install by hand: $packages"
}

make_venv() {
    stamp=.venv/.ready-$profile
    wanted=$(cksum pyproject.toml | cut -d' ' -f1)
    if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    python=$(find_python)
    [ -n "$python" ] || fail "no Python from 3.11 on with its venv module here; install python3 and python3-venv."
    [ -x .venv/bin/pip ] || "$python" -m venv .venv
    extra=
    [ "$profile" = run ] || extra="[$profile]"
    say "installing Python packages into .venv"
    .venv/bin/pip install -q --disable-pip-version-check -e ".$extra" >&2 ||
        fail "pip failed; its messages are above. Is the package index reachable?"
    echo "$wanted" >"$stamp"
}

check_release
install_packages
make_venv
