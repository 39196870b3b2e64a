#!/bin/sh
# sh install.sh          installs pybroker into .venv (Debian's compiler and Python headers too, where they are missing)
# sh install.sh spark    and PySpark with a Java; other extras of setup.cfg (arrow, avro, examples) as well
# sh install.sh tests    and what the tests need: kcat, a JDK, maven, ZooKeeper, strace, PostgreSQL, iproute2, tox
set -eu
cd "$(dirname "$0")"

java_17='test "$(java -version 2>&1 | sed -n "s/.*version \"\([0-9]*\).*/\1/p")" -ge 17'

check_extra() {
    extras=$(sed -n '/^\[options.extras_require\]/,/^\[options.packages/s/^\([a-z]*\) =$/\1/p' setup.cfg | tr '\n' ' ')
    case " tests $extras" in *" ${1:-tests} "*) return 0 ;; esac
    echo "install.sh: $1 is no extra; there are: tests $extras" >&2
    exit 2
}

# One Debian package a line: the package, and a command that shows whether it is there already.
needed() {
    echo "gcc gcc --version"
    echo "python3-dev $python -c 'import sysconfig,os,sys;sys.exit(not os.path.exists(sysconfig.get_path(\"include\")+\"/Python.h\"))'"
    echo "python3-venv $python -c 'import ensurepip,venv'"
    case "${1:-}" in spark | examples) printf '%s\n' "default-jre-headless $java_17" ;; esac
    [ "${1:-}" = tests ] || return 0
    echo "libc6-dev test -e /usr/include/stdio.h"
    echo "kcat kcat -V"
    echo "default-jdk-headless javac -version"
    echo "maven mvn -version"
    echo "strace strace -V"
    echo "postgresql ls -d /usr/lib/postgresql/*/bin/initdb"
    echo "git git --version"
    echo "iproute2 ip -V"
    echo "zookeeper test -e /usr/share/java/zookeeper.jar"
}

install_debian_packages() {
    missing=$(needed "${1:-}" | while read -r package check; do
        sh -c "$check" >/dev/null 2>&1 || echo "$package"
    done)
    [ -n "$missing" ] || return 0
    as_root=""
    [ "$(id -u)" = 0 ] || as_root=sudo
    # shellcheck disable=SC2086
    $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq $missing
}

python=${PYTHON:-python3}
check_extra "${1:-}"
install_debian_packages "${1:-}"
[ -x .venv/bin/python ] || $python -m venv .venv
.venv/bin/python -m pip install --quiet --upgrade pip
if [ "${1:-}" = tests ]; then
    .venv/bin/python -m pip install --quiet "tox>=4.25"
else
    echo "install.sh: compiling and installing pybroker into .venv: a few minutes"
    .venv/bin/python -m pip install --quiet ".${1:+[$1]}"
    echo "install.sh: done; next: .venv/bin/pybroker demo"
fi
