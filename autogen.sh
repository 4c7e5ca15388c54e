#!/bin/sh
# Makes ./configure from configure.ac. Needed in a git clone only; a release tarball has it.
set -e
cd "$(dirname "$0")"
mkdir -p m4
exec autoreconf --install --warnings=all,no-obsolete
