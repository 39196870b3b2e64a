#!/bin/sh
# sh install.sh          installs pybroker into .venv (Debian's compiler and Python headers too, where they are missing); the
#                        Cython parts are compiled in this folder, from which .venv's Python takes everything: it has to stay
# PYTHON=python3.14 sh install.sh    by that Python; without, python3
# sh install.sh spark    and PySpark with a Java; other extras of setup.cfg (arrow, avro, gssapi, examples) as well
# sh install.sh tests    what `tox` needs instead: tox, kcat, and a newer Python where there is none (tox installs pybroker)
# sh install.sh nightly  and what `tox -e nightly` needs: a JDK, maven, ZooKeeper, PostgreSQL, strace, iproute2, git, Kerberos
set -eu
cd "$(dirname "$0")"

java_17='test "$(java -version 2>&1 | sed -n "s/.*version \"\([0-9]*\).*/\1/p")" -ge 17'

check_extra() {
    extras=$(sed -n '/^\[options.extras_require\]/,/^\[options.packages/s/^\([a-z]*\) =$/\1/p' setup.cfg |
        grep -vxE 'unit|test|lint' | tr '\n' ' ')
    case " tests nightly $extras" in *" ${1:-tests} "*) return 0 ;; esac
    echo "install.sh: $1 is no extra; there are: tests nightly $extras" >&2
    exit 2
}

headers='import os,sys,sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'

# Debian's packages fit Debian's Python only: what another one lacks, its own installer has to bring.
is_debians() {
    ! command -v "$python" >/dev/null || [ "$($python -c 'import sys; print(sys.base_prefix)')" = /usr ]
}

refuse() {
    echo "install.sh: $1" >&2
    exit 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

check_python() {
    if ! command -v "$python" >/dev/null; then
        [ -z "${PYTHON:-}" ] || refuse "there is no $python"
        return 0
    fi
    version=$(version_of "$python") || refuse "$python does not run"
    $python -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        refuse "$python is $version, pybroker needs 3.11 or newer: PYTHON=python3.13 sh install.sh"
    is_debians || $python -c "$headers" || refuse "$python has no headers (Python.h): PYTHON may name another one"
    is_debians || $python -c 'import ensurepip,venv' || refuse "$python has no venv: PYTHON may name another one"
    [ -n "${PYTHON:-}" ] && [ -x .venv/bin/python ] || return 0
    there=$(version_of .venv/bin/python)
    [ "$there" = "$version" ] || refuse ".venv is of Python $there, $python is $version: remove .venv first"
}

# One Debian package a line: the package, and a command that shows whether it is there already.
needed() {
    echo "gcc gcc --version"
    if is_debians; then
        echo "${python##*/}-dev $python -c '$headers'"
        echo "${python##*/}-venv $python -c 'import ensurepip,venv'"
    fi
    case "${1:-}" in spark | examples) printf '%s\n' "default-jre-headless $java_17" ;; esac
    case "${1:-}" in gssapi | nightly) echo "libkrb5-dev krb5-config --version" ;; esac
    case "${1:-}" in tests | nightly) ;; *) return 0 ;; esac
    echo "libc6-dev test -e /usr/include/stdio.h"
    echo "kcat kcat -V"
    # maven fetches a newer Python where there is none
    newer=""
    [ "$1" = nightly ] || newer="$python -m harness.pythons --has-newer ||"
    echo "maven $newer mvn -version"
    [ "$1" = nightly ] || return 0
    echo "default-jdk-headless javac -version"
    echo "strace strace -V"
    echo "postgresql ls -d /usr/lib/postgresql/*/bin/initdb"
    echo "git git --version"
    echo "iproute2 ip -V"
    echo "zookeeper test -e /usr/share/java/zookeeper.jar"
    echo "krb5-kdc test -x /usr/sbin/krb5kdc"
    echo "krb5-admin-server test -x /usr/sbin/kadmin.local"
    echo "krb5-user command -v kinit"
}

install_debian_packages() {
    missing=$(needed "${1:-}" | while read -r package check; do
        sh -c "$check" >/dev/null 2>&1 || echo "$package"
    done)
    [ -n "$missing" ] || return 0
    missing=$(echo $missing)
    by_hand="install $missing (elsewhere than on Debian, what corresponds), then run this again"
    command -v apt-get >/dev/null || refuse "there is no apt-get: $by_hand"
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || refuse "this is not root, and there is no sudo: $by_hand"
        as_root=sudo
    fi
    # shellcheck disable=SC2086
    $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq $missing ||
        refuse "apt-get failed: $by_hand"
}

# Modules that .venv's Python lacks in compiled form.
count_uncompiled() {
    suffix=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    find cy -name "*.pyx" | while read -r source; do
        [ -e "${source%.pyx}$suffix" ] || echo "$source"
    done | wc -l
}

python=${PYTHON:-python3}
check_extra "${1:-}"
check_python
install_debian_packages "${1:-}"
if ! [ -x .venv/bin/python ]; then
    echo "install.sh: making .venv"
    $python -m venv .venv
fi
.venv/bin/python -m pip install --quiet --upgrade pip
case "${1:-}" in
tests | nightly)
    .venv/bin/python -m pip install --quiet "tox>=4.25"
    .venv/bin/python -m harness.pythons --newer
    ;;
*)
    extra=${1:-}
    echo "install.sh: installing pybroker${extra:+ and what its extra $extra needs} into .venv"
    modules=$(count_uncompiled)
    if [ "$modules" != 0 ]; then
        echo "            compiling $modules modules takes up to four minutes on two cores, and is not repeated;"
        echo "            a terminal names each module when its turn comes"
    fi
    # Compiled in place, so that Python started in this folder finds the modules in the sources that it meets first. By
    # package_dir in setup.cfg this folder is on the path as it is: PySpark looks for data sources in folders only.
    progress=/proc/$$/fd/2
    [ ! -f "$progress" ] || progress=  # the lines of two writers would overwrite each other in a file
    PYBROKER_PROGRESS=$progress .venv/bin/python -m pip install --quiet --editable ".${1:+[$1]}"
    case "$extra" in
    "") echo "install.sh: done; next: .venv/bin/pybroker demo" ;;
    spark) echo "install.sh: done; next: 'First steps in Spark' in README.md" ;;
    *) echo "install.sh: done" ;;
    esac
    ;;
esac
