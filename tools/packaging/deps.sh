#!/bin/sh
# deps.sh build|check|optional|ci: is everything there that the group needs?  Says what is missing and the line that installs it;
# runs that line itself where it may (root on Debian or Ubuntu, and DEPS is not "no").
here=$(dirname "$0")
group=${1:-build}
cc=${CC:-cc}
missing=
while read -r g package probe; do
    case "$g:$group" in '':* | '#'*) continue;; build:* | check:check | check:ci | optional:optional | optional:ci | ci:ci) ;; *) continue;; esac
    case $probe in
    !*) command -v "${probe#!}" >/dev/null 2>&1 && continue;;
    /*) for path in $probe; do # a pattern: any release will do
            [ -e "$path" ] && continue 2
        done;;
    *)  for d in /usr/include /usr/local/include /usr/include/$(uname -m)-linux-gnu $(echo "$CPATH" | tr ':' ' '); do
            [ -f "$d/$probe" ] && continue 2
        done;;
    esac
    missing="$missing $package"
done < "$here/deps"
[ -n "$missing" ] || exit 0

line="apt-get install -y --no-install-recommends$missing"
echo "gradwire: missing:$missing" >&2
echo "gradwire: install with: $line" >&2
if [ "$(id -u)" != 0 ] || [ "$DEPS" = no ] || ! command -v apt-get >/dev/null 2>&1; then
    exit 1
fi
echo "gradwire: installing (DEPS=no forbids)" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null && $line -qq >/dev/null || {
    echo "gradwire: the install failed; run it by hand: $line" >&2
    exit 1
}
