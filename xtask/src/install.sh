#!/bin/sh
# Installs Debian packages, without starting or enabling their services: install.sh PACKAGE...
#
# Debian starts a service when its package is installed, and at each boot. The tests start their own
# servers, so a developer's machine must not run the services.
# This is a shell script, because traps restore the files even after Ctrl-C.
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

policy=/usr/sbin/policy-rc.d
saved=$policy.before-lockwright
mark='Written by cargo xtask test of Lockwright, which takes it away again.'
# PostgreSQL's packages also create a database with a server, unless this file prevents it.
clusters=/etc/postgresql-common/createcluster.d/zz-lockwright.conf
lists=$(mktemp -d)

put_back() {
    if [ -f "$clusters" ]; then
        rm -f "$clusters"
        rmdir -p --ignore-fail-on-non-empty "${clusters%/*}"
    fi
    if [ -f "$policy" ] && grep -qF "$mark" "$policy"; then rm -f "$policy"; fi
    if [ -e "$saved" ] || [ -L "$saved" ]; then mv -f "$saved" "$policy"; fi
}

exec 9>/run/lockwright-xtask.lock
flock 9
trap 'put_back; rm -rf "$lists"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

put_back # what a killed run left
if [ -e "$policy" ] || [ -L "$policy" ]; then mv "$policy" "$saved"; fi
printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"
mkdir -p "${clusters%/*}"
printf '# %s\ncreate_main_cluster = off\n' "$mark" >"$clusters"

installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p' | sort -u; }
install() {
    apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

databases() { find /etc/postgresql -mindepth 2 -maxdepth 2 -type d 2>/dev/null | sort; }

installed >"$lists/before"
databases >"$lists/databases"
if ! install "$@"; then
    echo "The package lists may be missing or old."
    apt-get update -q -o DPkg::Lock::Timeout=300
    install "$@"
fi
installed >"$lists/after"

for package in $(comm -13 "$lists/before" "$lists/after"); do
    dpkg -L "$package" >"$lists/files"
    cat "$lists/files" >>"$lists/all"
    for unit in $(sed -n 's,^\(/usr\)\{0\,1\}/lib/systemd/system/\([^/@]*\.[a-z]*\)$,\2,p' "$lists/files"); do
        deb-systemd-helper disable "$unit" >/dev/null 2>&1 || true
    done
    for script in $(sed -n 's,^/etc/init.d/\([^/]*\)$,\1,p' "$lists/files"); do
        update-rc.d "$script" disable >/dev/null 2>&1 || true
    done
done

# Report what the packages started, enabled or created in spite of $policy and $clusters.
started=0
touch "$lists/all"
for process in /proc/[0-9]*; do
    program=$(readlink "$process/exe" 2>/dev/null) || continue
    if grep -qxF -e "$program" "$lists/all"; then
        echo "the installation started $program, process ${process#/proc/}"
        started=1
    fi
done
for unit in $(sed -n 's,^\(/usr\)\{0\,1\}/lib/systemd/system/\([^/@]*\.[a-z]*\)$,\2,p' "$lists/all"); do
    if find /etc/systemd/system -name "$unit" -path '*.wants/*' | grep -q .; then
        echo "the installation enabled $unit"
        started=1
    fi
done
for database in $(databases | comm -13 "$lists/databases" -); do
    echo "the installation made the database $database"
    started=1
done
exit "$started"
